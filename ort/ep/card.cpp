// SPDX-License-Identifier: MIT
#include "ort/ep/card.h"

#include <npu.h>

#include <algorithm>
#include <utility>

namespace npu::ort {
namespace {

Status about(const std::string &what) { return Status::error(what + ": " + npu_last_error()); }

/// Launches of a session's that nobody waited for. The session may be gone by then.
struct Note {
  std::weak_ptr<Card> card;
  std::vector<Range> written;
};
thread_local std::vector<Note> noted;
/// More than these are noted as one that has all of them.
constexpr size_t kRanges = 64;

void add_range(std::vector<Range> &ranges, const Range &more) {
  for (Range &r : ranges)
    if (r.begin == more.begin) return void(r.end = std::max(r.end, more.end));
  ranges.push_back(more);
  if (ranges.size() <= kRanges) return;
  Range all = more;
  for (const Range &r : ranges) all = {std::min(all.begin, r.begin), std::max(all.end, r.end)};
  ranges = {all};
}

}  // namespace

Status count_cards(int &out) {
  const int found = npu_device_count();
  out = std::max(found, 0);
  if (found > 0) return {};
  if (found < 0) return Status::error(found, npu_last_error());
  // Who opens one is told why there is none.
  npu_device *device = nullptr;
  if (const int failed = npu_device_open(0, &device); failed != 0) return Status::error(failed, npu_last_error());
  npu_device_close(device);
  out = 1;
  return {};
}

Status Card::open(int index, std::shared_ptr<Card> &out) {
  bm_handle_t handle;
  if (bm_dev_request(&handle, index) != BM_SUCCESS) return about("NPU " + std::to_string(index) + " cannot be opened");
  const std::shared_ptr<Card> card(new Card(index, handle));
  npu_device *device = nullptr;
  drm_npu_dev_info info{};
  if (npu_device_open(static_cast<unsigned>(index), &device) != 0) return about("NPU " + std::to_string(index));
  const int failed = npu_device_info(device, &info);
  npu_device_close(device);
  if (failed) return about("NPU " + std::to_string(index));
  card->cores_ = static_cast<int>(info.cores);
  card->lmem_bytes_ = info.lmem_bytes;
  card->clock_khz_ = info.clock_khz;
  out = card;
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

Status Card::sync_thread() const {
  std::erase_if(noted, [this](const Note &n) { return n.card.lock().get() == this; });
  return bm_thread_sync(handle_) == BM_SUCCESS ? Status() : about("a launch failed");
}

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

void note_launch(const std::shared_ptr<Card> &card, const std::vector<Range> &written) {
  std::erase_if(noted, [](const Note &n) { return n.card.expired(); });
  auto own = std::find_if(noted.begin(), noted.end(), [&](const Note &n) { return n.card.lock() == card; });
  if (own == noted.end()) own = noted.insert(own, {card, {}});
  for (const Range &r : written) add_range(own->written, r);
}

Status sync_writers(int index, const Range &memory) {
  std::vector<std::shared_ptr<Card>> writers;
  const auto overlaps = [&](const Range &r) { return r.begin < memory.end && memory.begin < r.end; };
  for (const Note &n : noted)
    if (const auto card = n.card.lock();
        card && card->index() == index && std::any_of(n.written.begin(), n.written.end(), overlaps))
      writers.push_back(card);
  Status first;
  for (const auto &card : writers)
    if (const Status s = card->sync_thread(); !s.ok() && first.ok()) first = s;
  return first;
}

}  // namespace npu::ort
