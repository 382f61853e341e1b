// SPDX-License-Identifier: MIT
// Events of a session for ONNX Runtime's trace: what the host does for a part, and how long the chip computes.
#ifndef NPU_ORT_PROFILE_H
#define NPU_ORT_PROFILE_H

#include <chrono>
#include <cstdint>
#include <mutex>
#include <set>

#include "ort/ep/newer_interface.h"

namespace npu::ort {

class Profiler;

class Profile {
 public:
  using Clock = std::chrono::steady_clock;

  /// Whether a trace is being made.
  bool active() const;
  /// Something that the host has done from `begin` until now.
  void add_host(const std::string &name, Clock::time_point begin);
  /// A launch that was submitted at `begin`.
  void add_chip(const std::string &name, Clock::time_point begin, uint64_t cycles, uint32_t clock_khz);

 private:
  friend class Profiler;
  struct Event {
    OrtProfilingEventCategory category;
    std::string name;
    int thread = 0;
    Clock::time_point begin;
    int64_t length_us = 0;
    std::string cycles;  ///< of the chip's
  };
  void add(const Event &event);

  mutable std::mutex mutex_;
  std::set<Profiler *> profilers_;  ///< of traces that are being made
};

/// A trace of ONNX Runtime's. It asks for one only where it has interface 25.
OrtEpProfilerImpl *make_profiler(std::shared_ptr<Profile> profile);

}  // namespace npu::ort

#endif  // NPU_ORT_PROFILE_H
