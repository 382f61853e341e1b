// SPDX-License-Identifier: MIT
#include "qemu-device/model/src/sensors.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "npu_regs.h"

namespace npu::model {

Sensors::Sensors(unsigned cores, uint32_t clock_khz) : cores_(cores), clock_khz_(clock_khz), hz_(clock_khz * 1000.0) {}

void Sensors::sample(uint64_t busy_cycles, double now) {
  std::lock_guard lock(mutex_);
  const double passed = now - last_;
  if (last_ != 0 && passed < kIntervalSeconds) return;
  if (last_ != 0) {
    const double busy = busy_cycles > busy_ ? static_cast<double>(busy_cycles - busy_) : 0;
    const double load = std::min(1.0, busy / (passed * hz_ * cores_));
    const double clocked = kClockedIdleMw + load * cores_ * kCoreMw;
    power_ = kIdleMw - kClockedIdleMw + clocked / (1 << state_);
    const double settled = kAmbientMc + power_ * kMcPerMw;
    temperature_ = settled + (temperature_ - settled) * std::exp(-passed / kThermalSeconds);
  }
  last_ = now;
  busy_ = busy_cycles;
  throttle();
}

void Sensors::throttle() {
  const bool before = throttled_;
  throttled_ = temperature() >= (throttled_ ? NPU_TEMP_RESUME_MC : NPU_TEMP_LIMIT_MC);
  changed_ |= throttled_ != before;
}

void Sensors::force(int32_t temperature_mc) {
  std::lock_guard lock(mutex_);
  forced_ = temperature_mc;
  throttle();
}

bool Sensors::take_throttle_change() {
  std::lock_guard lock(mutex_);
  return std::exchange(changed_, false);
}

void Sensors::reset() {
  std::lock_guard lock(mutex_);
  // The counters restart; heat stays.
  busy_ = 0;
  state_ = 0;
}

int32_t Sensors::temperature_mc() const {
  std::lock_guard lock(mutex_);
  return static_cast<int32_t>(std::lround(temperature()));
}

uint32_t Sensors::power_mw() const {
  std::lock_guard lock(mutex_);
  return static_cast<uint32_t>(std::lround(power_));
}

uint32_t Sensors::fan_rpm() const {
  std::lock_guard lock(mutex_);
  constexpr long kMin = NPU_FAN_MIN_RPM, kMax = NPU_FAN_MAX_RPM;
  const double above = (temperature() - kAmbientMc) / 1000;
  return static_cast<uint32_t>(std::clamp(std::lround(kMin + above * NPU_FAN_RPM_PER_C), kMin, kMax));
}

void Sensors::select(uint64_t state) {
  std::lock_guard lock(mutex_);
  if (state < kClockStates) state_ = static_cast<unsigned>(state);
}

uint32_t Sensors::selected() const {
  std::lock_guard lock(mutex_);
  return state_;
}

uint32_t Sensors::clock_khz() const {
  std::lock_guard lock(mutex_);
  return clock_khz_ >> (state_ + (throttled_ ? 1 : 0));
}

uint32_t Sensors::voltage_mv() const {
  std::lock_guard lock(mutex_);
  return 800 - 100 * state_;
}

}  // namespace npu::model
