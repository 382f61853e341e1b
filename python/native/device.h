// SPDX-License-Identifier: MIT
// Devices and their memory. Nothing here knows Python; functions throw Failure.
#ifndef NPU_PYTHON_DEVICE_H
#define NPU_PYTHON_DEVICE_H

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "python/native/failure.h"

namespace npu::python {

/// A device with a BMLIB handle of its own.
class Device {
 public:
  explicit Device(int64_t index);
  ~Device();
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  int index() const { return index_; }
  bm_handle_t handle() const { return handle_; }
  npu_device *npu() const { return npu_; }
  std::string transport() const { return npu_device_transport(npu_); }
  drm_npu_dev_info info() const;
  drm_npu_memory_info memory() const;
  drm_npu_status_info status() const;
  bm_dev_stat_t stat() const;
  bm_profile_t profile() const;

 private:
  int index_;
  npu_device *npu_ = nullptr;
  bm_handle_t handle_ = nullptr;
};

using DevicePtr = std::shared_ptr<Device>;

/// An allocation on a device, freed with the last tensor that lies in it.
class Memory {
 public:
  Memory(DevicePtr device, uint64_t bytes);
  /// Takes over what the runtime has allocated.
  Memory(DevicePtr device, bm_device_mem_t mem) : device_(std::move(device)), mem_(mem) {}
  ~Memory();
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;

  const DevicePtr &device() const { return device_; }
  uint64_t address() const { return bm_mem_get_device_addr(mem_); }
  uint64_t bytes() const { return bm_mem_get_device_size(mem_); }
  bm_device_mem_t part(uint64_t offset, uint64_t bytes) const;

  void write(uint64_t offset, const void *data, uint64_t bytes);
  void read(uint64_t offset, void *data, uint64_t bytes) const;
  /// The allocation in the process; mapped with the first call, as long as it lives.
  uint8_t *map();
  /// Of what is mapped; else nothing has to be done.
  void flush(uint64_t offset, uint64_t bytes);
  void invalidate(uint64_t offset, uint64_t bytes);

 private:
  bool mapped();

  DevicePtr device_;
  bm_device_mem_t mem_;
  std::mutex mutex_;
  void *mapping_ = nullptr;  // under mutex_
};

using MemoryPtr = std::shared_ptr<Memory>;

}  // namespace npu::python

#endif  // NPU_PYTHON_DEVICE_H
