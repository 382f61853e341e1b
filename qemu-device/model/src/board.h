// SPDX-License-Identifier: MIT
// The board as the chip sees it: bus, interrupts, trace. Never called with a lock of the model held.
#ifndef NPU_MODEL_BOARD_H
#define NPU_MODEL_BOARD_H

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "npu_model.h"
#include "npu_regs.h"
#include "qemu-device/model/src/faults.h"

namespace npu::model {

class Board {
 public:
  Board(const npu_model_board &calls, void *opaque, Faults &faults)
      : calls_(calls), opaque_(opaque), faults_(&faults) {}

  bool read(uint64_t addr, void *buf, size_t bytes) const {
    return !faults_->dead() && calls_.dma_read(opaque_, addr, buf, bytes) == 0;
  }
  bool write(uint64_t addr, const void *buf, size_t bytes) const {
    return !faults_->dead() && calls_.dma_write(opaque_, addr, buf, bytes) == 0;
  }
  /// On behalf of a job.
  bool read(const npu_model_access &access, uint64_t addr, void *buf, size_t bytes) const {
    if (!calls_.job_read) return read(addr, buf, bytes);
    return !faults_->dead() && calls_.job_read(opaque_, &access, addr, buf, bytes) == 0;
  }
  bool write(const npu_model_access &access, uint64_t addr, const void *buf, size_t bytes) const {
    if (!calls_.job_write) return write(addr, buf, bytes);
    return !faults_->dead() && calls_.job_write(opaque_, &access, addr, buf, bytes) == 0;
  }
  void interrupt(unsigned vector) const {
    if (!faults_->dead() && !faults_->take(NPU_MODEL_FAULT_LOST_INTERRUPTS)) calls_.interrupt(opaque_, vector);
  }
  Faults &faults() const { return *faults_; }

  /// Does it lend its clock? If not, there is only the host's time.
  bool has_clock() const { return calls_.now != nullptr; }
  uint64_t now() const { return calls_.now(opaque_); }
  /// By the board's clock, else by the host's.
  uint64_t time_ns() const {
    using std::chrono::nanoseconds, std::chrono::duration_cast;
    const auto host_time = std::chrono::steady_clock::now().time_since_epoch();
    return has_clock() ? now() : static_cast<uint64_t>(duration_cast<nanoseconds>(host_time).count());
  }
  void wake_at(uint64_t ns) const { calls_.wake_at(opaque_, ns); }

  bool tracing() const { return calls_.trace != nullptr; }
  void trace(const char *kind, const char *text) const {
    if (tracing()) calls_.trace(opaque_, kind, text);
  }

 private:
  npu_model_board calls_;
  void *opaque_;
  Faults *faults_;
};

/// EVENT_STATUS and EVENT_ENABLE: vector 0 rises when an enabled bit goes from 0 to 1.
class Events {
 public:
  explicit Events(const Board &board) : board_(board) {}

  void raise(uint32_t bit) {
    const uint32_t before = status_.fetch_or(bit);
    if (!(before & bit) && (enable_.load() & bit)) board_.interrupt(0);
  }
  uint32_t status() const { return status_.load(); }
  void clear(uint32_t bits) { status_.fetch_and(~bits); }
  uint32_t enabled() const { return enable_.load(); }
  void enable(uint32_t bits) { enable_.store(bits & kAll); }
  void reset() {
    status_.store(0);
    enable_.store(0);
  }

  /// For an archive: all that changes.
  template <class A>
  void visit_state(A &a) {
    a(status_, enable_);
  }

 private:
  static constexpr uint32_t kAll = NPU_EVENT_STATUS_INVALIDATED | NPU_EVENT_STATUS_QUEUE_ERROR |
                                   NPU_EVENT_STATUS_FATAL | NPU_EVENT_STATUS_ECC | NPU_EVENT_STATUS_THERMAL;
  const Board &board_;
  std::atomic<uint32_t> status_{0};
  std::atomic<uint32_t> enable_{0};
};

}  // namespace npu::model

#endif  // NPU_MODEL_BOARD_H
