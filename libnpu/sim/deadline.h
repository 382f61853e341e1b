// SPDX-License-Identifier: MIT
#ifndef NPU_SIM_DEADLINE_H
#define NPU_SIM_DEADLINE_H

#include <time.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace npu::sim {

/// CLOCK_MONOTONIC, ns.
inline int64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
}

/// Waits for a notification; false when `deadline` (CLOCK_MONOTONIC, ns) has passed before it. Spurious returns are
/// possible.
inline bool wait_until(std::condition_variable &condition, std::unique_lock<std::mutex> &lock, int64_t deadline) {
  if (deadline <= 0) return false;
  const int64_t left = deadline - monotonic_ns();
  if (left <= 0) return false;
  // In pieces: the clock of condition_variable overflows on "for ever".
  condition.wait_for(lock, std::chrono::nanoseconds(std::min<int64_t>(left, 1000000000)));
  return true;
}

}  // namespace npu::sim

#endif  // NPU_SIM_DEADLINE_H
