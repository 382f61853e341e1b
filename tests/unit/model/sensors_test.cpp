// SPDX-License-Identifier: MIT
// The model of power and temperature, with a clock of the test's own.
#include "qemu-device/model/src/sensors.h"

#include <gtest/gtest.h>

namespace npu::test {
namespace {

using model::Sensors;

TEST(Sensors, PowerFollowsTheBusyCyclesOfTheInterval) {
  Sensors s(2, 1000000);
  s.sample(0, 100.0);
  EXPECT_EQ(s.power_mw(), 4000u);
  s.sample(1'000'000'000, 101.0);  // one core of two busy for the whole second
  EXPECT_EQ(s.power_mw(), 10000u);
  s.sample(3'000'000'000, 102.0);
  EXPECT_EQ(s.power_mw(), 16000u);
  s.sample(9'000'000'000, 103.0);  // a fast host gets more modelled work done than the card could: full load
  EXPECT_EQ(s.power_mw(), 16000u);
  s.sample(9'000'000'000, 104.0);
  EXPECT_EQ(s.power_mw(), 4000u);
}

TEST(Sensors, ShortIntervalsAreAveraged) {
  Sensors s(1, 1000);
  s.sample(0, 5.0);
  for (int i = 1; i <= 24; ++i) s.sample(static_cast<uint64_t>(i) * 10000, 5.0 + i * 0.01);
  EXPECT_EQ(s.power_mw(), 4000u) << "no interval is over yet";
  s.sample(250000, 5.25);
  EXPECT_EQ(s.power_mw(), 10000u);
}

TEST(Sensors, TemperatureSettlesAndFallsAgain) {
  Sensors s(2, 1000000);
  EXPECT_EQ(s.temperature_mc(), 42000);
  uint64_t busy = 0;
  double now = 1;
  s.sample(busy, now);
  int32_t last = s.temperature_mc();
  for (int i = 0; i < 100; ++i) {
    s.sample(busy += 2'000'000'000, now += 1);
    EXPECT_GE(s.temperature_mc(), last);
    last = s.temperature_mc();
  }
  EXPECT_NEAR(last, 30000 + 16000 * 3, 10);
  s.sample(busy, now += 8);  // one time constant: 1/e of the way is left
  EXPECT_NEAR(s.temperature_mc(), 42000 + 36000 * 0.36788, 20);
  s.sample(busy, now += 1000);
  EXPECT_NEAR(s.temperature_mc(), 42000, 2);
}

TEST(Sensors, FanFollowsTheTemperature) {
  Sensors s(2, 1000000);
  EXPECT_EQ(s.fan_rpm(), 900u + 12 * 60);
  s.sample(0, 1);
  s.sample(200'000'000'000, 101);
  EXPECT_NEAR(s.fan_rpm(), 900 + 48 * 60, 2);
}

TEST(Sensors, FanHasALimit) {
  Sensors s(8, 1000000);
  s.sample(0, 1);
  s.sample(800'000'000'000, 101);
  EXPECT_EQ(s.fan_rpm(), 4500u);
}

TEST(Sensors, ClockStatesChangeClockVoltageAndPower) {
  Sensors s(2, 1000000);
  s.sample(0, 1);
  s.select(2);
  EXPECT_EQ(s.clock_khz(), 250000u);
  EXPECT_EQ(s.voltage_mv(), 600u);
  s.sample(0, 2);
  EXPECT_EQ(s.power_mw(), 2500u);
  s.select(1);
  s.sample(2'000'000'000, 3);
  EXPECT_EQ(s.power_mw(), 2000u + 1000 + 2 * 3000);
  s.select(3);
  EXPECT_EQ(s.selected(), 1u) << "there is no such state";
  s.reset();
  EXPECT_EQ(s.clock_khz(), 1000000u);
}

}  // namespace
}  // namespace npu::test
