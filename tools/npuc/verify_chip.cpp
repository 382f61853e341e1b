// SPDX-License-Identifier: MIT
#include "tools/npuc/verify_chip.h"

#include <cstdlib>
#include <cstring>

#include "runtime/cpu/element.h"
#include "runtime/cpu/plugin.h"
#include "runtime/cpu/subnet.h"

namespace npu::npuc {
namespace {

using graph::Dtype;
using graph::Tensor;

Status failed(const Runtime &r) { return Status::error(r.bmrt_last_error()); }

uint64_t count_of(const bm_shape_t &shape) {
  uint64_t count = 1;
  for (int d = 0; d < shape.num_dims; ++d) count *= static_cast<uint64_t>(shape.dims[d]);
  return count;
}

Status shape_for(const Tensor &tensor, bm_shape_t &out) {
  out.num_dims = static_cast<int>(tensor.shape.size());
  if (tensor.shape.size() > BM_MAX_DIMS_NUM)
    return Status::error("a shape of " + std::to_string(tensor.shape.size()) + " dimensions, at most " +
                         std::to_string(BM_MAX_DIMS_NUM) + " are possible");
  for (size_t i = 0; i < tensor.shape.size(); ++i) out.dims[i] = static_cast<int>(tensor.shape[i]);
  return {};
}

/// Elements of an input of the .bmodel.
Status to_elements(const Runtime &r, const bmrt_quant_t &quant, const Tensor &tensor, std::vector<uint8_t> &out) {
  const auto type = cpu::dtype_of_bm(static_cast<uint32_t>(quant.dtype));
  if (type == tensor.dtype) {
    out = tensor.data;
    return {};
  }
  if (tensor.dtype != Dtype::F32)
    return Status::error(std::string("it is ") + cpu::dtype_name(type) + ", and " + cpu::dtype_name(tensor.dtype) +
                         " in the file: such inputs cannot be compared");
  const auto count = static_cast<uint64_t>(tensor.count());
  out.resize(count * cpu::dtype_bytes(type));
  return r.bmrt_quantize(&quant, tensor.as<float>(), count, out.data()) ? Status() : failed(r);
}

Status from_elements(const Runtime &r, const bmrt_quant_t &quant, const void *elements, Tensor &out) {
  const auto type = cpu::dtype_of_bm(static_cast<uint32_t>(quant.dtype));
  if (type == out.dtype) {
    std::memcpy(out.data.data(), elements, out.data.size());
    return {};
  }
  if (out.dtype != Dtype::F32)
    return Status::error(std::string("it is ") + cpu::dtype_name(type) + ", and " + cpu::dtype_name(out.dtype) +
                         " in the file: such outputs cannot be compared");
  return r.bmrt_dequantize(&quant, elements, static_cast<uint64_t>(out.count()), out.as<float>()) ? Status()
                                                                                                  : failed(r);
}

/// Sets a property of the simulated card, unless the environment does.
void set_property(const std::string &name, int64_t value) {
  const char *const given = getenv("NPU_SIM");
  std::string all = given ? given : "";
  if (all.find(name + "=") != std::string::npos) return;
  all += (all.empty() ? "" : ",") + name + "=" + std::to_string(value);
  setenv("NPU_SIM", all.c_str(), 1);
}

/// Memory of outputs, which the runtime allocates with malloc().
struct Outputs {
  explicit Outputs(int count) : data(static_cast<size_t>(count)), shapes(static_cast<size_t>(count)) {}
  ~Outputs() {
    for (void *p : data) std::free(p);
  }
  Outputs(const Outputs &) = delete;
  Outputs &operator=(const Outputs &) = delete;
  std::vector<void *> data;
  std::vector<bm_shape_t> shapes;
};

}  // namespace

Chip::~Chip() {
  if (runtime_) r_->bmrt_destroy(runtime_);
  if (handle_) r_->bm_dev_free(handle_);
}

Status Chip::load(std::span<const uint8_t> bmodel, int cores, int64_t lmem_bytes) {
  NPU_TRY(Runtime::load(r_));
  setenv("NPU_DEVICE", "sim", 0);
  set_property("cores", cores);
  set_property("lmem", lmem_bytes);
  r_->bmlib_log_set_level(BMLIB_LOG_QUIET);
  r_->bmrt_set_current_log_level(BMRT_LogLevel::FATAL);
  if (r_->bm_dev_request(&handle_, 0) != BM_SUCCESS)
    return Status::error("--verify: " + std::string(r_->npu_last_error()));
  // The runtime has its own list of plug-ins.
  for (const std::string &path : cpu::loaded_plugins())
    if (!r_->bmrt_load_plugin(path.c_str())) return failed(*r_).within("--verify");
  runtime_ = r_->bmrt_create(handle_);
  if (!runtime_ || !r_->bmrt_load_bmodel_data(runtime_, bmodel.data(), bmodel.size()))
    return failed(*r_).within("--verify");
  const char *const name = r_->bmrt_get_network_name(runtime_, 0);
  net_ = name ? r_->bmrt_get_network_info(runtime_, name) : nullptr;
  return net_ ? Status() : failed(*r_).within("--verify");
}

std::string Chip::device() const {
  const char *const device = getenv("NPU_DEVICE");
  return device ? device : "sim";
}

Status Chip::settle(std::vector<Tensor> &inputs) const {
  for (size_t i = 0; i < inputs.size() && i < static_cast<size_t>(net_->input_num); ++i) {
    bmrt_quant_t quant;
    std::vector<uint8_t> elements;
    if (!r_->bmrt_get_input_quant(runtime_, net_->name, static_cast<int>(i), &quant)) return failed(*r_);
    NPU_TRY(to_elements(*r_, quant, inputs[i], elements).within(std::string("input '") + net_->input_names[i] + "'"));
    NPU_TRY(from_elements(*r_, quant, elements.data(), inputs[i]));
  }
  return {};
}

Status Chip::run(const std::vector<Tensor> &inputs, std::vector<Tensor> &outputs) const {
  if (inputs.size() != static_cast<size_t>(net_->input_num) || outputs.size() != static_cast<size_t>(net_->output_num))
    return Status::error("the .bmodel has " + std::to_string(net_->input_num) + " inputs and " +
                         std::to_string(net_->output_num) + " outputs, the file has " + std::to_string(inputs.size()) +
                         " and " + std::to_string(outputs.size()));
  std::vector<std::vector<uint8_t>> elements(inputs.size());
  std::vector<void *> data;
  std::vector<bm_shape_t> shapes(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    bmrt_quant_t quant;
    if (!r_->bmrt_get_input_quant(runtime_, net_->name, static_cast<int>(i), &quant)) return failed(*r_);
    NPU_TRY(to_elements(*r_, quant, inputs[i], elements[i]));
    NPU_TRY(shape_for(inputs[i], shapes[i]));
    data.push_back(elements[i].data());
  }
  Outputs out(net_->output_num);
  if (!r_->bmrt_launch_data(runtime_, net_->name, data.data(), shapes.data(), net_->input_num, out.data.data(),
                            out.shapes.data(), net_->output_num, false))
    return failed(*r_);
  for (size_t k = 0; k < outputs.size(); ++k) {
    const std::string name = std::string("output '") + net_->output_names[k] + "'";
    if (count_of(out.shapes[k]) != static_cast<uint64_t>(outputs[k].count()))
      return Status::error(name + " has " + std::to_string(count_of(out.shapes[k])) + " elements, the file's " +
                           std::to_string(outputs[k].count()));
    bmrt_quant_t quant;
    if (!r_->bmrt_get_output_quant(runtime_, net_->name, static_cast<int>(k), &quant)) return failed(*r_);
    NPU_TRY(from_elements(*r_, quant, out.data[k], outputs[k]).within(name));
  }
  return {};
}

void Chip::stored(size_t index, Dtype &type, double &step) const {
  bmrt_quant_t quant{};
  if (!r_->bmrt_get_output_quant(runtime_, net_->name, static_cast<int>(index), &quant)) return;
  type = cpu::dtype_of_bm(static_cast<uint32_t>(quant.dtype));
  step = graph::is_byte(type) ? quant.step : 0;
}

}  // namespace npu::npuc
