// SPDX-License-Identifier: MIT
// Temperature, power, voltage and clock, modelled from the busy cycles. docs/hardware.md section 2.3.
#ifndef NPU_MODEL_SENSORS_H
#define NPU_MODEL_SENSORS_H

#include <cstdint>
#include <mutex>

namespace npu::model {

class Sensors {
 public:
  static constexpr double kIdleMw = 4000, kCoreMw = 6000;    // board without work; each core at full load
  static constexpr double kAmbientMc = 30000, kMcPerMw = 3;  // 3 K/W to the air
  static constexpr double kThermalSeconds = 8, kIntervalSeconds = 0.25;
  static constexpr uint32_t kVoltageMv = 800;

  Sensors(unsigned cores, uint32_t clock_khz);

  /// Takes the sum of all cores' busy cycles so far, at a time in seconds of any monotonic clock. Power is averaged
  /// over intervals of at least kIntervalSeconds.
  void sample(uint64_t busy_cycles, double now);
  void reset();

  int32_t temperature_mc() const;
  uint32_t power_mw() const;

 private:
  const double cores_;
  const double hz_;
  mutable std::mutex mutex_;  // guards all below
  double last_ = 0;           // 0: no sample yet
  uint64_t busy_ = 0;
  double power_ = kIdleMw;
  double temperature_ = kAmbientMc + kIdleMw * kMcPerMw;
};

}  // namespace npu::model

#endif  // NPU_MODEL_SENSORS_H
