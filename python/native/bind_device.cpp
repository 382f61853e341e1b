// SPDX-License-Identifier: MIT
#include <algorithm>

#include "python/native/bind.h"

namespace py = pybind11;

namespace npu::python {

namespace {

py::dict info_of(const Device &device) {
  const drm_npu_dev_info info = device.info();
  py::dict d;
  d["index"] = device.index();
  d["transport"] = device.transport();
  d["bus"] = info.bus == DRM_NPU_BUS_PLATFORM ? "platform" : "pci";
  d["cores"] = info.cores;
  d["lmem_bytes"] = info.lmem_bytes;
  d["memory_bytes"] = info.ddr_bytes;
  d["clock_khz"] = info.clock_khz;
  d["isa_version"] = info.isa_version;
  d["coherent"] = !(info.flags & DRM_NPU_INFO_NONCOHERENT);
  return d;
}

py::dict memory_of(const Device &device) {
  const drm_npu_memory_info info = device.memory();
  py::dict d;
  d["total"] = info.card_total;
  d["free"] = info.card_free;
  d["largest"] = info.card_largest;
  d["process"] = info.file_card;
  d["process_system"] = info.file_system;
  return d;
}

py::dict status_of(const Device &device) {
  const drm_npu_status_info s = device.status();
  const uint32_t cores = std::min<uint32_t>(device.info().cores, DRM_NPU_MAX_CORES);
  py::dict d;
  d["temperature_c"] = s.temperature_mc / 1000.0;
  d["power_w"] = s.power_mw / 1000.0;
  d["voltage_v"] = s.voltage_mv / 1000.0;
  d["clock_khz"] = s.clock_khz;
  d["fan_rpm"] = s.fan_rpm;
  d["busy_cores"] = s.core_busy;
  d["busy_cycles"] = std::vector<uint64_t>(s.busy_cycles, s.busy_cycles + cores);
  d["jobs"] = std::vector<uint64_t>(s.jobs, s.jobs + cores);
  d["ecc_corrected"] = s.ecc_corrected;
  d["resets"] = s.resets;
  return d;
}

py::dict stat_of(const Device &device) {
  bm_dev_stat_t s;
  {
    const WithoutLock free;  // the first call looks for a while
    s = device.stat();
  }
  py::dict d;
  d["memory_mib"] = s.mem_total;
  d["memory_used_mib"] = s.mem_used;
  d["utilisation"] = s.tpu_util;
  return d;
}

py::dict profile_of(const Device &device) {
  const bm_profile_t p = device.profile();
  py::dict d;
  d["launches"] = p.sent_api_counter;
  d["completed"] = p.completed_api_counter;
  d["npu_us"] = p.tpu_process_time;
  d["to_device"] = p.cdma_out_counter;
  d["to_device_us"] = p.cdma_out_time;
  d["from_device"] = p.cdma_in_counter;
  d["from_device_us"] = p.cdma_in_time;
  return d;
}

/// Without what a device that is lost does not tell.
std::string text_of_device(const Device &device) {
  std::string text = "<qnpu.Device " + std::to_string(device.index()) + ": QNPU1, ";
  text += device.transport() == "sim" ? "simulator" : "card";
  try {
    const drm_npu_dev_info info = device.info();
    text += ", " + std::to_string(info.cores) + (info.cores == 1 ? " core, " : " cores, ");
    text += info.ddr_bytes ? std::to_string(info.ddr_bytes >> 20) + " MiB" : std::string("the system's memory");
  } catch (const Failure &) {
    text += ", it does not answer";
  }
  return text + ">";
}

}  // namespace

void bind_device(py::module_ &module) {
  module.def("device_count", [] {
    const int count = npu_device_count();
    if (count < 0) library_failed();
    return count;
  });
  py::class_<Device, DevicePtr>(module, "Device", R"(A device, with counters of its own.

index: its number, 0 to len(qnpu.devices()) - 1.)")
      .def(py::init([](const py::object &number) {
             const int64_t index = integer_argument(number, "Device: index");
             const WithoutLock free;
             return std::make_shared<Device>(index);
           }),
           py::arg("index"))
      .def_property_readonly("index", method(&Device::index), "Its number.")
      .def("__repr__", text_of_device)
      .def("__reduce__",
           [](const Device &) -> py::object {
             throw py::type_error(
                 "a qnpu.Device cannot be pickled or copied: it is a connection to a device. Pass "
                 "device.index, and make a qnpu.Device of it in the other process");
           })
      .def("info", info_of, "What never changes: qnpu.DeviceInfo.")
      .def("memory", memory_of, "The card's memory at this moment, in bytes: qnpu.MemoryInfo.")
      .def("status", status_of, "Sensors and counters at this moment: qnpu.Status.")
      .def("stat", stat_of, "Memory now, and utilisation since this object was asked before: qnpu.Stat.")
      .def("profile", profile_of, "What was done with this object: qnpu.Profile.");
}

}  // namespace npu::python
