// SPDX-License-Identifier: MIT
// A board for the chip model in a test: system memory at bus addresses, bus errors and delays on demand, counted
// interrupts.
#ifndef NPU_TEST_MODEL_BOARD_H
#define NPU_TEST_MODEL_BOARD_H

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "npu_model.h"

namespace npu::test {

class TestBoard {
 public:
  static constexpr uint64_t kBase = 0x1'0000'0000;  ///< bus address of the first byte of system memory

  explicit TestBoard(size_t bytes);
  ~TestBoard();
  TestBoard(const TestBoard &) = delete;
  TestBoard &operator=(const TestBoard &) = delete;

  const npu_model_board &calls() const { return calls_; }
  /// Memory that the device never gets twice; page aligned if bytes are a page or more, else 64-byte aligned.
  uint64_t allocate(size_t bytes);
  uint8_t *host(uint64_t bus) { return memory_ + (bus - kBase); }

  /// Accesses that touch this page fail.
  void poison(uint64_t bus);
  void cure(uint64_t bus);
  /// From now on, accesses that touch this page wait in the callback until release(). wait_blocked() returns once so
  /// many does.
  void block(uint64_t bus);
  void wait_blocked(unsigned accesses = 1);
  void release();

  /// Virtual time: the board has a clock, which stands still but for these.
  void lend_clock();
  bool has_clock() const { return calls_.now != nullptr; }
  uint64_t now() const { return now_; }
  /// What the chip has asked for last; UINT64_MAX: nothing.
  uint64_t wanted() const { return wanted_; }
  /// Sets the clock, which never goes back, and lets the chip do what is due.
  void set_clock(npu_model *model, uint64_t ns);
  /// Sets the clock beyond what the chip has asked for, without a call to it.
  void oversleep(uint64_t ns) { now_ = ns; }
  /// Sets the clock back, for a chip that is about to be loaded.
  void turn_back(uint64_t ns) { now_ = ns; }
  /// Goes to the time that the chip has asked for. False if it waits for nothing.
  bool next(npu_model *model);

  unsigned interrupts(unsigned vector) const { return interrupts_[vector].load(); }
  /// Called inside each interrupt callback.
  void on_interrupt(std::function<void(unsigned)> f);
  uint64_t transfers() const { return transfers_.load(); }
  /// Bus addresses and sizes of the writes since the last call.
  std::vector<std::pair<uint64_t, size_t>> take_writes();
  void record_writes(bool on) { recording_ = on; }
  std::vector<std::string> take_trace();

 private:
  static int dma_read(void *self, uint64_t addr, void *buf, size_t bytes);
  static int dma_write(void *self, uint64_t addr, const void *buf, size_t bytes);
  static void interrupt(void *self, unsigned vector);
  static void trace(void *self, const char *kind, const char *text);
  static uint64_t clock(void *self);
  static void wake_at(void *self, uint64_t ns);
  int enter(uint64_t addr, size_t bytes);

  const size_t bytes_;
  uint8_t *const memory_;
  std::atomic<uint64_t> next_{kBase};
  npu_model_board calls_{};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<uint64_t> poisoned_;
  uint64_t blocked_page_ = 0;
  unsigned waiting_ = 0;
  std::vector<std::pair<uint64_t, size_t>> writes_;
  std::atomic<bool> recording_{false};
  std::vector<std::string> trace_;
  std::array<std::atomic<unsigned>, 64> interrupts_{};
  std::function<void(unsigned)> on_interrupt_;
  std::atomic<uint64_t> transfers_{0};
  uint64_t now_ = 1000, wanted_ = UINT64_MAX;
};

}  // namespace npu::test

#endif  // NPU_TEST_MODEL_BOARD_H
