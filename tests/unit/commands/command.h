// SPDX-License-Identifier: MIT
// What tests of single commands share: the chip's checks, costs, slices, all back ends and the shadow over them.
#ifndef NPU_TESTS_COMMANDS_COMMAND_H
#define NPU_TESTS_COMMANDS_COMMAND_H

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "npu_cost.hpp"
#include "qemu-device/model/src/slices.hpp"
#include "tests/unit/compute/elements.h"
#include "tests/unit/compute/oracle.h"
#include "tests/unit/model/checks.h"

namespace npu::test {

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf = std::numeric_limits<float>::infinity();

// ---- costs, computed by hand from docs/reference/hardware.md section 8.1: 32 input and 32 output channels, 2 pixels,
// 512 bytes of local memory, 128 lanes a cycle; 32 fixed cycles ----

inline void expect_cost(const Cmd &c, uint64_t cycles, uint64_t flow, uint64_t macs, const char *what) {
  uint8_t bytes[NPU_CMD_BYTES];
  std::copy(c.bytes.begin(), c.bytes.end(), bytes);
  const hw::Cost got = hw::command_cost(bytes, false, {});
  EXPECT_EQ(got.cycles, cycles) << what;
  EXPECT_EQ(got.flow_bytes, flow) << what;
  EXPECT_EQ(got.macs, macs) << what;
}

// ---- slices: run one after the other on the reference they give, bit by bit, what the whole command gives ----

inline constexpr model::SliceLimits kLimits[] = {{1 << 12, 1 << 20}, {400, 1 << 20}, {60, 1 << 20}, {1, 1 << 20},
                                                 {1 << 12, 40},      {1 << 20, 12},  {1, 1}};

/// Bit by bit; which NaN it is says nothing.
inline void expect_same(const Values &whole, const Values &cut) {
  ASSERT_EQ(whole.size(), cut.size());
  for (size_t i = 0; i < whole.size(); ++i) {
    if (std::isnan(whole[i]) && std::isnan(cut[i])) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(whole[i]), std::bit_cast<uint32_t>(cut[i]))
        << "element " << i << ": " << whole[i] << " " << cut[i];
  }
}

/// Looks at the first slices of a command that may have very many.
template <class Cmd, class F>
unsigned first_slices(const Cmd &c, F look) {
  unsigned slices = 0;
  model::for_slices(c, {}, [&](const auto &s) {
    look(s);
    return ++slices < 50;
  });
  return slices;
}

// ---- back ends ----

/// A test for each back end: INSTANTIATE_TEST_SUITE_P with ValuesIn(backend_names()).
class OnBackend : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    backend_ = make_backend(GetParam());
    ASSERT_TRUE(backend_);
  }
  std::unique_ptr<model::Backend> backend_;
};

// ---- the shadow ----

/// Runs a command on a back end.
using RunOn = std::function<Values(model::Backend &)>;

/// The reference, for tests that spoil what one command gives.
class Faulty : public model::Reference {
 public:
  explicit Faulty(float change) : change_(change) {}
  const char *name() const override { return "faulty"; }

 protected:
  void spoil(void *out, size_t count) const {
    float &last = static_cast<float *>(out)[count - 1];
    last = std::isnan(change_) ? change_ : last + change_;
  }

 private:
  const float change_;
};

/// The shadow is silent about right results, reports each wrong one once, and gives the reference's in any case.
template <class Wrong>
void expect_shadowed(const std::string &command, const std::vector<RunOn> &runs) {
  std::vector<std::string> reports;
  const auto collect = [](void *arg, const char *text) {
    static_cast<std::vector<std::string> *>(arg)->emplace_back(text);
  };
  const auto shadowed = [&](std::unique_ptr<model::Backend> fast, size_t expected) {
    const std::string name = fast->name();
    const auto shadow = model::make_shadow_backend(std::move(fast), collect, &reports);
    model::Reference reference;
    for (const RunOn &run : runs) {
      reports.clear();
      const Values got = run(*shadow), want = run(reference);
      ASSERT_EQ(0, std::memcmp(got.data(), want.data(), want.size() * sizeof(float))) << name;
      ASSERT_EQ(reports.size(), expected) << name << (reports.empty() ? "" : ": " + reports[0]);
      for (const std::string &report : reports) ASSERT_EQ(report.find(command + ": element"), 0u) << report;
    }
  };
  for (const std::string &name : backend_names()) shadowed(make_backend(name), 0);
  for (const float change : {0.01f, -3.0f, kNaN}) shadowed(std::make_unique<Wrong>(change), 1);
}

/// The same for results of any type. `Wrong` flips a bit of the last element: a high one of its exponent, or of a
/// number of 8 bits the second.
using RunBytesOn = std::function<Bytes(model::Backend &)>;
inline void flip_last(void *out, size_t bytes) { static_cast<uint8_t *>(out)[bytes - 1] ^= 0x40; }

template <class Wrong>
void expect_shadowed_bytes(const std::string &command, const std::vector<RunBytesOn> &runs) {
  std::vector<std::string> reports;
  const auto collect = [](void *arg, const char *text) {
    static_cast<std::vector<std::string> *>(arg)->emplace_back(text);
  };
  const auto shadowed = [&](std::unique_ptr<model::Backend> fast, size_t expected) {
    const std::string name = fast->name();
    const auto shadow = model::make_shadow_backend(std::move(fast), collect, &reports);
    model::Reference reference;
    for (size_t i = 0; i < runs.size(); ++i) {
      reports.clear();
      ASSERT_EQ(runs[i](*shadow), runs[i](reference)) << name << " run " << i;
      ASSERT_EQ(reports.size(), expected) << name << " run " << i << (reports.empty() ? "" : ": " + reports[0]);
      for (const std::string &report : reports) ASSERT_EQ(report.find(command + ": element"), 0u) << report;
    }
  };
  for (const std::string &name : backend_names()) shadowed(make_backend(name), 0);
  shadowed(std::make_unique<Wrong>(), 1);
}

// ---- types ----

/// Tries the scale and zero point that a type may have and may not: set(command, kind); the fields lie at these
/// offsets, 0: there is none. Precondition: the command is legal with the type.
template <class Test, class T, class F>
void try_numbers(Test &test, const T &command, uint8_t dtype, unsigned scale_at, unsigned zero_at, F set) {
  const auto with_kind = [&](float scale, int32_t zero) {
    T c = command;
    set(c, Kind{dtype, scale, zero});
    return c;
  };
  SCOPED_TRACE("type " + std::to_string(dtype));
  const float good = is_real(dtype) ? 0.0f : 0.25f;
  test.ok(kTiu, with_kind(good, 0));
  if (scale_at) {
    if (!is_real(dtype)) test.ok(kTiu, with_kind(0x1p-149f, 0));
    const std::vector<float> bad = is_real(dtype) ? Values{1, 0.5f, -0.0f, kNaN} : Values{0, -0.0f, -1, kInf, kNaN};
    for (const float scale : bad) test.fails(kTiu, with_kind(scale, 0), NPU_STATUS_BAD_FIELD, scale_at);
  }
  const bool zeros = !is_real(dtype) && dtype != NPU_DTYPE_S32;
  const auto low = static_cast<int32_t>(zeros ? lowest(dtype) : 0),
             high = static_cast<int32_t>(zeros ? highest(dtype) : 0);
  test.ok(kTiu, with_kind(good, low));
  test.ok(kTiu, with_kind(good, high));
  test.fails(kTiu, with_kind(good, low - 1), NPU_STATUS_BAD_FIELD, zero_at);
  test.fails(kTiu, with_kind(good, high + 1), NPU_STATUS_BAD_FIELD, zero_at);
}

}  // namespace npu::test

#endif  // NPU_TESTS_COMMANDS_COMMAND_H
