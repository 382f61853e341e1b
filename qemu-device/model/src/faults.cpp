// SPDX-License-Identifier: MIT
#include "qemu-device/model/src/faults.h"

#include <iterator>

namespace npu::model {

namespace {

/// What hangs, by what it obeys.
constexpr unsigned kHangs[] = {NPU_MODEL_FAULT_HANG, NPU_MODEL_FAULT_STUCK_ABORT, NPU_MODEL_FAULT_STUCK_CORE,
                               NPU_MODEL_FAULT_STUCK_DEVICE};

constexpr uint32_t kGarbage = 0x5a5a5a5a;

}  // namespace

bool Faults::take(unsigned fault) {
  uint64_t left = get(fault);
  while (left && !value_[fault].compare_exchange_weak(left, left - 1)) {
  }
  return left != 0;
}

bool Faults::take_hang(Obeys &obeys) {
  for (unsigned i = 0; i < std::size(kHangs); ++i)
    if (take(kHangs[i])) {
      obeys = static_cast<Obeys>(i);
      return true;
    }
  return false;
}

void Faults::corrupt(npu_cqe &c) {
  if (take(NPU_MODEL_FAULT_CORRUPT_ID)) c.job_id = ~c.job_id;
  if (take(NPU_MODEL_FAULT_CORRUPT_STATUS)) {
    c.offset = c.fault_addr = c.start_cycle = uint64_t{kGarbage} << 32 | kGarbage;
    c.end_cycle = 0;
    c.bytes = c.command = c.region = c.sq_head = kGarbage;
    c.status = static_cast<uint16_t>(kGarbage);
    c.engine = c.core = static_cast<uint8_t>(kGarbage);
  }
  if (take(NPU_MODEL_FAULT_CORRUPT_PHASE)) c.phase ^= NPU_CQE_PHASE;
}

void Hang::arm(Obeys obeys, uint64_t after) {
  std::lock_guard lock(mutex_);
  armed_ = held_ = true;
  after_ = after;
  obeys_ = obeys;
}

void Hang::disarm() {
  std::lock_guard lock(mutex_);
  armed_ = held_ = false;
}

bool Hang::holds(uint64_t begun) {
  if (!armed_ || begun < after_) return false;
  std::lock_guard lock(mutex_);
  return armed_ = held_;
}

void Hang::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !held_; });
  armed_ = false;
}

void Hang::release(Obeys means) {
  std::lock_guard lock(mutex_);
  if (means < obeys_) return;
  held_ = false;
  changed_.notify_all();
}

void Hang::forgive(Obeys obeys) {
  std::lock_guard lock(mutex_);
  if (obeys != obeys_) return;
  held_ = false;
  changed_.notify_all();
}

}  // namespace npu::model
