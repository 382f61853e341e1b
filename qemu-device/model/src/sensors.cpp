// SPDX-License-Identifier: MIT
#include "sensors.h"

#include <algorithm>
#include <cmath>

namespace npu::model {

Sensors::Sensors(unsigned cores, uint32_t clock_khz) : cores_(cores), hz_(clock_khz * 1000.0) {}

void Sensors::sample(uint64_t busy_cycles, double now) {
  std::lock_guard lock(mutex_);
  const double passed = now - last_;
  if (last_ != 0 && passed < kIntervalSeconds) return;
  if (last_ != 0) {
    const double busy = busy_cycles > busy_ ? static_cast<double>(busy_cycles - busy_) : 0;
    const double load = std::min(1.0, busy / (passed * hz_ * cores_));
    power_ = kIdleMw + load * cores_ * kCoreMw;
    const double settled = kAmbientMc + power_ * kMcPerMw;
    temperature_ = settled + (temperature_ - settled) * std::exp(-passed / kThermalSeconds);
  }
  last_ = now;
  busy_ = busy_cycles;
}

void Sensors::reset() {
  std::lock_guard lock(mutex_);
  // The counters restart; heat stays.
  busy_ = 0;
}

int32_t Sensors::temperature_mc() const {
  std::lock_guard lock(mutex_);
  return static_cast<int32_t>(std::lround(temperature_));
}

uint32_t Sensors::power_mw() const {
  std::lock_guard lock(mutex_);
  return static_cast<uint32_t>(std::lround(power_));
}

}  // namespace npu::model
