// SPDX-License-Identifier: MIT
// Elements as numbers of float32 and back: against definitions that go another way, and numbers worked out by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <vector>

#include "runtime/cpu/element.h"
#include "runtime/cpu/numbers.h"

namespace npu::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

/// A format of 16 bits by its definition.
struct Format {
  Dtype type;
  int fraction_bits, bias;
  int specials() const { return 0x7fff >> fraction_bits; }
  double value(uint16_t bits) const {
    const int fraction = bits & ((1 << fraction_bits) - 1), exponent = (bits & 0x7fff) >> fraction_bits;
    const double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == specials()) return fraction ? kNan : sign * kInf;
    const int digits = exponent ? fraction + (1 << fraction_bits) : fraction;
    return sign * std::ldexp(digits, std::max(exponent, 1) - bias - fraction_bits);
  }
};
constexpr Format kFormats[] = {{Dtype::F16, 10, 15}, {Dtype::BF16, 7, 127}};

float loaded(Dtype type, uint16_t bits) {
  float v = 0;
  load_numbers(type, {}, &bits, 1, &v);
  return v;
}

uint16_t stored(Dtype type, float v) {
  uint16_t bits = 0;
  store_numbers(type, {}, &v, 1, &bits);
  return bits;
}

TEST(CpuNumbers, AllNumbersOf16Bits) {
  for (const Format &f : kFormats)
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      const auto b = static_cast<uint16_t>(bits);
      const double expected = f.value(b);
      const float v = loaded(f.type, b);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(v)) << bits;
        EXPECT_TRUE(std::isnan(loaded(f.type, stored(f.type, v)))) << bits;
      } else {
        EXPECT_EQ(static_cast<double>(v), expected) << bits;
        EXPECT_EQ(stored(f.type, v), b);
      }
    }
}

/// Between two neighbours: to the nearer one, of equal ones to the even one. Behind the largest is one more, infinity.
TEST(CpuNumbers, RoundsToTheNearestAndToEven) {
  for (const Format &f : kFormats)
    for (uint32_t bits = 0; bits < 0x7fff; ++bits) {
      const auto low = static_cast<uint16_t>(bits), high = static_cast<uint16_t>(bits + 1);
      if (static_cast<int>(low >> f.fraction_bits) == f.specials()) break;
      const double step = f.value(low) - (low ? f.value(static_cast<uint16_t>(low - 1)) : 0);
      const double above = std::isinf(f.value(high)) ? f.value(low) + step : f.value(high);
      const auto middle = static_cast<float>((f.value(low) + above) / 2);
      for (const float sign : {1.0f, -1.0f}) {
        const uint16_t s = sign < 0 ? 0x8000 : 0;
        EXPECT_EQ(stored(f.type, sign * middle), s | (low % 2 ? high : low)) << bits;
        EXPECT_EQ(stored(f.type, sign * std::nextafter(middle, 0.0f)), s | low) << bits;
        EXPECT_EQ(stored(f.type, sign * std::nextafter(middle, kInf)), s | high) << bits;
      }
    }
  EXPECT_EQ(stored(Dtype::F16, 1e30f), 0x7c00);
  EXPECT_EQ(stored(Dtype::F16, -kInf), 0xfc00);
  EXPECT_EQ(stored(Dtype::F16, 1e-30f), 0);
}

/// A double that float32 would make the middle between two numbers.
TEST(CpuNumbers, OfADoubleAreRoundedOnce) {
  Tensor half(Dtype::F16, {1}), brain(Dtype::BF16, {1});
  const auto f16 = [&](double v) { return store(half, 0, v), *half.as<uint16_t>(); };
  const auto bf16 = [&](double v) { return store(brain, 0, v), *brain.as<uint16_t>(); };
  EXPECT_EQ(f16(1 + 0x1p-11), 0x3c00);
  EXPECT_EQ(f16(1 + 0x1p-11 + 0x1p-40), 0x3c01);
  EXPECT_EQ(f16(-(1 + 0x1.8p-10) + 0x1p-40), 0xbc01);
  EXPECT_EQ(f16(0x1p-25 + 0x1p-60), 0x0001);
  EXPECT_EQ(f16(65520 - 1e-9), 0x7bff);
  EXPECT_EQ(f16(1e300), 0x7c00);
  EXPECT_EQ(bf16(1 + 0x1p-8 + 0x1p-40), 0x3f81);
  EXPECT_EQ(bf16(-1e300), 0xff80);
  EXPECT_EQ(bf16(1e-300), 0);
  EXPECT_EQ(bf16(-1e-300), 0x8000);
}

/// ONNX's QuantizeLinear in double precision.
int64_t quantized(float v, const Quant &quant, int64_t low, int64_t high) {
  if (std::isnan(v)) return quant.zero;
  const float steps = v / quant.scale;
  double whole = std::floor(static_cast<double>(steps));
  const double rest = static_cast<double>(steps) - whole;
  if (rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2) != 0)) ++whole;
  return static_cast<int64_t>(std::clamp(whole + quant.zero, static_cast<double>(low), static_cast<double>(high)));
}

template <class T>
void expect_integers(Dtype type, const Quant &quant, const std::vector<float> &values) {
  using Limits = std::numeric_limits<T>;
  // At an odd address.
  std::vector<uint8_t> bytes(values.size() * sizeof(T) + 1);
  std::vector<float> back(values.size());
  store_numbers(type, quant, values.data(), values.size(), bytes.data() + 1);
  load_numbers(type, quant, bytes.data() + 1, values.size(), back.data());
  for (size_t i = 0; i < values.size(); ++i) {
    T q;
    std::memcpy(&q, bytes.data() + 1 + i * sizeof q, sizeof q);
    EXPECT_EQ(int64_t{q}, quantized(values[i], quant, Limits::min(), Limits::max()))
        << dtype_name(type) << " " << values[i] << " scale " << quant.scale << " zero " << quant.zero;
    EXPECT_EQ(back[i], static_cast<float>(int64_t{q} - quant.zero) * quant.scale);
  }
}

TEST(CpuNumbers, IntegersAreThoseOfQuantizeLinear) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (const float scale : {1.0f, 0.5f, 0.0078431377f, 3e-38f, 1e30f, 0.1f}) {
    std::vector<float> values{0, -0.0f, kNan, kInf, -kInf, 3.4e38f, -3.4e38f, 1e-45f};
    for (int i = -70000; i <= 70000; i += i > -300 && i < 300 ? 1 : 321)
      values.push_back(0.5f * scale * static_cast<float>(i));
    for (int i = 0; i < 2000; ++i) values.push_back(uniform(random) * scale * (i % 2 ? 150.0f : 4e9f));
    expect_integers<int8_t>(Dtype::I8, {scale, 0}, values);
    expect_integers<int8_t>(Dtype::I8, {scale, -128}, values);
    expect_integers<uint8_t>(Dtype::U8, {scale, 128}, values);
    expect_integers<uint8_t>(Dtype::U8, {scale, 255}, values);
    expect_integers<int16_t>(Dtype::I16, {scale, -5}, values);
    expect_integers<uint16_t>(Dtype::U16, {scale, 65535}, values);
    expect_integers<int32_t>(Dtype::I32, {scale, 7}, values);
    expect_integers<uint32_t>(Dtype::U32, {scale, 0}, values);
  }
}

TEST(CpuNumbers, OfNothingMayBeNowhere) {
  for (const Dtype type : {Dtype::F32, Dtype::F16, Dtype::U8}) {
    load_numbers(type, {1, 0}, nullptr, 0, nullptr);
    store_numbers(type, {1, 0}, nullptr, 0, nullptr);
  }
  EXPECT_TRUE(has_numbers(Dtype::U32));
  EXPECT_FALSE(has_numbers(Dtype::I64));
  EXPECT_FALSE(has_numbers(Dtype::Bool));
  EXPECT_FALSE(has_numbers(Dtype::Undefined));
}

}  // namespace
}  // namespace npu::cpu
