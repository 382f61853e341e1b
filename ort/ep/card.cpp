// SPDX-License-Identifier: MIT
#include "ort/ep/card.h"

#include <npu.h>

#include <algorithm>
#include <utility>

namespace npu::ort {
namespace {

Status about(const std::string &what) { return Status::error(what + ": " + npu_last_error()); }

/// Cards of launches that nobody waited for. A session may be gone by then.
thread_local std::vector<std::weak_ptr<Card>> noted;

}  // namespace

int count_cards() {
  int count = 0;
  return bm_dev_getcount(&count) == BM_SUCCESS ? count : 0;
}

Status Card::open(int index, std::shared_ptr<Card> &out) {
  bm_handle_t handle;
  if (bm_dev_request(&handle, index) != BM_SUCCESS) return about("NPU " + std::to_string(index) + " cannot be opened");
  out.reset(new Card(index, handle));
  npu_device *device = nullptr;
  drm_npu_dev_info info{};
  if (npu_device_open(static_cast<unsigned>(index), &device) != 0) return about("NPU " + std::to_string(index));
  const int failed = npu_device_info(device, &info);
  npu_device_close(device);
  if (failed) return about("NPU " + std::to_string(index));
  out->cores_ = static_cast<int>(info.cores);
  out->lmem_bytes_ = info.lmem_bytes;
  out->clock_khz_ = info.clock_khz;
  return {};
}

Card::~Card() { bm_dev_free(handle_); }

Status Card::allocate(size_t bytes, uint64_t &address) const {
  unsigned long long found = 0;
  if (bm_malloc_device_mem(handle_, &found, 0, std::max<size_t>(bytes, 1)) != BM_SUCCESS)
    return about("no memory on NPU " + std::to_string(index_));
  address = found;
  return {};
}

void Card::release(uint64_t address) const { bm_free_device_mem(handle_, address); }

Status Card::write(uint64_t to, const void *from, size_t bytes) const {
  const sg_device_mem_t mem = sg_mem_from_device(to, bytes);
  return sg_memcpy_s2d(handle_, mem, const_cast<void *>(from)) == BM_SUCCESS ? Status() : about("copy to the NPU");
}

Status Card::read(void *to, uint64_t from, size_t bytes) const {
  const sg_device_mem_t mem = sg_mem_from_device(from, bytes);
  return sg_memcpy_d2s(handle_, to, mem) == BM_SUCCESS ? Status() : about("copy from the NPU");
}

Status Card::copy(uint64_t to, uint64_t from, size_t bytes) const {
  const bm_device_mem_u64_t source = bm_mem_from_device_u64(from, bytes), target = bm_mem_from_device_u64(to, bytes);
  return bm_memcpy_d2d_byte_u64(handle_, target, 0, source, 0, bytes) == BM_SUCCESS ? Status()
                                                                                    : about("copy on the NPU");
}

Status Card::sync_thread() const { return bm_thread_sync(handle_) == BM_SUCCESS ? Status() : about("a launch failed"); }

Status Card::sync_all() const { return bm_handle_sync(handle_) == BM_SUCCESS ? Status() : about("a launch failed"); }

CardMemory::CardMemory(CardMemory &&other) noexcept
    : card_(std::move(other.card_)), address_(std::exchange(other.address_, 0)) {}

CardMemory &CardMemory::operator=(CardMemory &&other) noexcept {
  reset();
  card_ = std::move(other.card_);
  address_ = std::exchange(other.address_, 0);
  return *this;
}

Status CardMemory::allocate(const std::shared_ptr<Card> &card, size_t bytes) {
  reset();
  NPU_TRY(card->allocate(bytes, address_));
  card_ = card;
  return {};
}

void CardMemory::reset() {
  if (address_) card_->release(address_);
  address_ = 0;
  card_.reset();
}

void note_launch(const std::shared_ptr<Card> &card) {
  std::erase_if(noted, [](const auto &c) { return c.expired(); });
  for (const auto &c : noted)
    if (c.lock() == card) return;
  noted.push_back(card);
}

Status sync_noted() {
  Status first;
  for (const std::weak_ptr<Card> &c : std::exchange(noted, {}))
    if (const auto card = c.lock())
      if (const Status s = card->sync_thread(); !s.ok() && first.ok()) first = s;
  return first;
}

}  // namespace npu::ort
