// SPDX-License-Identifier: MIT
// The chip model with a board around it: its threads, the bus, interrupts, register accesses and invalidation.
#ifndef NPU_SIM_CHIP_H
#define NPU_SIM_CHIP_H

#include <npu_model.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/status.h"
#include "libnpu/sim/bus.h"
#include "libnpu/sim/memory.h"

namespace npu::sim {

/// What NPU_SIM can say.
struct Options {
  uint32_t cores = 2;
  uint32_t queues = 64;
  uint32_t lmem_bytes = 8u << 20;
  uint64_t ddr_bytes = 0;  ///< parse_options() fills in the default
  std::string backend = "auto";
  uint32_t cards = 1;
  bool check_races = false;  ///< jobs fail with INTERNAL at a race, which is printed
};

/// An error for an unknown key or a bad value. text may be null.
Status parse_options(const char *text, Options &options);

class Chip {
 public:
  /// Powered on and enabled, threads running; on_interrupt is called by a thread of its
  /// own after one or more interrupts.
  static Status create(const Options &options, std::function<void()> on_interrupt, std::unique_ptr<Chip> &out);
  /// No job runs and no call is in progress.
  ~Chip();
  Chip(const Chip &) = delete;
  Chip &operator=(const Chip &) = delete;

  Memory &ddr() { return *ddr_; }
  Bus &bus() { return bus_; }
  uint32_t read32(uint64_t reg) { return static_cast<uint32_t>(npu_model_read(model_, reg, 4)); }
  uint64_t read64(uint64_t reg) { return npu_model_read(model_, reg, 8); }
  void write32(uint64_t reg, uint32_t value) { npu_model_write(model_, reg, value, 4); }
  void write64(uint64_t reg, uint64_t value) { npu_model_write(model_, reg, value, 8); }

  /// Returns when no access with an old translation of the range is in progress. bytes 0: the whole address space. One
  /// caller at a time.
  void invalidate(uint32_t asid, uint64_t va, uint64_t bytes);

  /// Ends all threads for good; the chip is dead afterwards. Safe to call twice, and while the process exits.
  void stop();

 private:
  Chip() = default;
  void start_threads(std::function<void()> on_interrupt);

  static int dma_read(void *opaque, uint64_t address, void *to, size_t bytes);
  static int dma_write(void *opaque, uint64_t address, const void *from, size_t bytes);
  static void interrupt(void *opaque, unsigned int vector);
  static void trace(void *opaque, const char *kind, const char *text);

  Bus bus_;
  npu_model_board board_{};
  std::unique_ptr<Memory> ddr_;
  npu_model *model_ = nullptr;

  std::atomic<bool> stopped_{false};
  std::mutex stop_mutex_;
  std::vector<std::thread> threads_;  // under stop_mutex_

  std::mutex irq_mutex_;
  std::condition_variable irq_wake_;
  bool irq_pending_ = false;  // under irq_mutex_
  bool irq_stop_ = false;     // under irq_mutex_
};

}  // namespace npu::sim

#endif  // NPU_SIM_CHIP_H
