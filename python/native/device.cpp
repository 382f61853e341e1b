// SPDX-License-Identifier: MIT
#include "python/native/device.h"

#include <limits>

#include "python/native/lock.h"

namespace npu::python {

namespace {

template <class Answer>
Answer ask(npu_device *device, uint32_t query) {
  Answer answer{};
  if (npu_device_query(device, query, &answer, sizeof(answer)) != 0) library_failed();
  return answer;
}

}  // namespace

Device::Device(int64_t index) : index_(static_cast<int>(index)) {
  const int count = npu_device_count();
  if (count < 0) library_failed();
  if (index < 0 || index >= count)
    throw Failure("device " + std::to_string(index) + ": there " +
                  (count == 0   ? std::string("is none")
                   : count == 1 ? std::string("is only device 0")
                                : "are devices 0 to " + std::to_string(count - 1)));
  if (npu_device_open(static_cast<unsigned int>(index), &npu_) != 0) library_failed();
  if (bm_dev_request(&handle_, index_) != BM_SUCCESS) {
    const std::string why = without_functions(npu_last_error());
    npu_device_close(npu_);
    throw Failure(why);
  }
}

Device::~Device() {
  const WithoutLock free;
  bm_dev_free(handle_);
  npu_device_close(npu_);
}

drm_npu_dev_info Device::info() const { return ask<drm_npu_dev_info>(npu_, DRM_NPU_QUERY_DEV); }
drm_npu_memory_info Device::memory() const { return ask<drm_npu_memory_info>(npu_, DRM_NPU_QUERY_MEMORY); }
drm_npu_status_info Device::status() const { return ask<drm_npu_status_info>(npu_, DRM_NPU_QUERY_STATUS); }

bm_dev_stat_t Device::stat() const {
  bm_dev_stat_t stat{};
  check(bm_get_stat(handle_, &stat));
  return stat;
}

bm_profile_t Device::profile() const {
  bm_profile_t profile{};
  check(bm_get_profile(handle_, &profile));
  return profile;
}

Memory::Memory(DevicePtr device, uint64_t bytes) : device_(std::move(device)), mem_(bm_mem_null()) {
  if (bytes == 0) throw Failure("a tensor has at least 1 byte");
  if (bytes > std::numeric_limits<unsigned int>::max())
    throw Failure("a tensor of " + std::to_string(bytes) + " bytes: less than 4 GiB are expected");
  check(bm_malloc_device_byte(device_->handle(), &mem_, static_cast<unsigned int>(bytes)));
}

Memory::~Memory() {
  const WithoutLock free;
  if (mapping_) bm_mem_unmap_device_mem_u64(device_->handle(), mapping_, bytes());
  bm_free_device(device_->handle(), mem_);
}

bm_device_mem_t Memory::part(uint64_t offset, uint64_t bytes) const {
  return bm_mem_from_device(address() + offset, static_cast<unsigned int>(bytes));
}

void Memory::write(uint64_t offset, const void *data, uint64_t bytes) {
  check(bm_memcpy_s2d(device_->handle(), part(offset, bytes), const_cast<void *>(data)));
}

void Memory::read(uint64_t offset, void *data, uint64_t bytes) const {
  check(bm_memcpy_d2s(device_->handle(), data, part(offset, bytes)));
}

uint8_t *Memory::map() {
  const std::lock_guard lock(mutex_);
  if (!mapping_) {
    unsigned long long address = 0;
    check(bm_mem_mmap_device_mem(device_->handle(), &mem_, &address));
    mapping_ = reinterpret_cast<void *>(static_cast<uintptr_t>(address));
  }
  return static_cast<uint8_t *>(mapping_);
}

bool Memory::mapped() {
  const std::lock_guard lock(mutex_);
  return mapping_ != nullptr;
}

void Memory::flush(uint64_t offset, uint64_t bytes) {
  bm_device_mem_t mem = part(offset, bytes);
  if (mapped()) check(bm_mem_flush_device_mem(device_->handle(), &mem));
}

void Memory::invalidate(uint64_t offset, uint64_t bytes) {
  bm_device_mem_t mem = part(offset, bytes);
  if (mapped()) check(bm_mem_invalidate_device_mem(device_->handle(), &mem));
}

}  // namespace npu::python
