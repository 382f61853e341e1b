// SPDX-License-Identifier: MIT
// Temperature, power, voltage and clock, modelled from the busy cycles. docs/reference/hardware.md section 2.3.
#ifndef NPU_MODEL_SENSORS_H
#define NPU_MODEL_SENSORS_H

#include <cstdint>
#include <mutex>

#include "npu_hw_params.h"

namespace npu::model {

class Sensors {
 public:
  static constexpr double kIdleMw = NPU_IDLE_MW, kCoreMw = NPU_CORE_MW;
  static constexpr double kAmbientMc = NPU_AMBIENT_MC, kMcPerMw = NPU_MC_PER_MW;
  static constexpr double kThermalSeconds = 8, kIntervalSeconds = 0.25;
  static constexpr double kClockedIdleMw = 2000;  // of kIdleMw, what follows the clock
  static constexpr unsigned kClockStates = 3;

  Sensors(unsigned cores, uint32_t clock_khz);

  /// Takes the sum of all cores' busy cycles so far, at a time in seconds of any monotonic clock. Power is averaged
  /// over intervals of at least kIntervalSeconds.
  void sample(uint64_t busy_cycles, double now);
  void reset();

  /// The temperature, whatever the power; 0: as modelled.
  void force(int32_t temperature_mc);

  int32_t temperature_mc() const;
  /// True once after the chip became too hot, or cold enough again.
  bool take_throttle_change();
  uint32_t power_mw() const;
  uint32_t fan_rpm() const;

  /// Chooses a clock state; unknown ones are ignored.
  void select(uint64_t state);
  uint32_t selected() const;
  /// That of the state, halved once more from NPU_TEMP_LIMIT_MC on, until it is colder than NPU_TEMP_RESUME_MC.
  uint32_t clock_khz() const;
  uint32_t voltage_mv() const;

  /// For an archive: all that changes.
  template <class A>
  void visit_state(A &a) {
    a(last_, busy_, state_, power_, temperature_, forced_, throttled_, changed_);
  }

 private:
  double temperature() const { return forced_ ? forced_ : temperature_; }
  void throttle();

  const double cores_;
  const uint32_t clock_khz_;
  const double hz_;
  mutable std::mutex mutex_;  // guards all below
  double last_ = 0;           // 0: no sample yet
  uint64_t busy_ = 0;
  unsigned state_ = 0;  // the clock is halved so often
  double power_ = kIdleMw;
  double temperature_ = kAmbientMc + kIdleMw * kMcPerMw;
  double forced_ = 0;
  bool throttled_ = false;
  bool changed_ = false;
};

}  // namespace npu::model

#endif  // NPU_MODEL_SENSORS_H
