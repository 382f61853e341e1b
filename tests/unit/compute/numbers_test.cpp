// SPDX-License-Identifier: MIT
// How elements become numbers and numbers elements: every half, every way to round, every end of every type.
#include "qemu-device/model/src/compute/numbers.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "tests/unit/compute/elements.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace npu::test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
constexpr uint8_t kHalves[] = {NPU_DTYPE_F16, NPU_DTYPE_BF16};

uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }

float load_half(uint8_t dtype, uint16_t bits) {
  float v;
  model::load_numbers({dtype}, &bits, 1, &v);
  return v;
}

uint16_t store_half(uint8_t dtype, float v) {
  uint16_t bits;
  model::store_numbers({dtype}, &v, 1, &bits);
  return bits;
}

/// The same by the host's instructions, where it has them; else false.
#if defined(__x86_64__)
bool hardware() { return __builtin_cpu_supports("avx2"); }  // all of these convert; not every compiler knows f16c
__attribute__((target("f16c"))) uint16_t store_by_hardware(float v) { return _cvtss_sh(v, _MM_FROUND_TO_NEAREST_INT); }
__attribute__((target("f16c"))) float load_by_hardware(uint16_t bits) { return _cvtsh_ss(bits); }
#else
bool hardware() { return false; }
uint16_t store_by_hardware(float) { return 0; }
float load_by_hardware(uint16_t) { return 0; }
#endif

TEST(Halves, AllOfThemAreRead) {
  for (const uint8_t dtype : kHalves)
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
      const double want = value_of_half(dtype, static_cast<uint16_t>(bits));
      const float got = load_half(dtype, static_cast<uint16_t>(bits));
      if (std::isnan(want))
        ASSERT_TRUE(std::isnan(got)) << int{dtype} << " " << std::hex << bits;
      else
        ASSERT_EQ(bits_of(got), bits_of(static_cast<float>(want))) << int{dtype} << " " << std::hex << bits;
      ASSERT_EQ(std::signbit(got), bits >> 15 == 1);
      if (dtype == NPU_DTYPE_F16 && hardware() && !std::isnan(got)) {
        ASSERT_EQ(bits_of(load_by_hardware(static_cast<uint16_t>(bits))), bits_of(got)) << std::hex << bits;
      }
    }
}

TEST(Halves, AllOfThemSurviveTheWayThroughF32) {
  for (const uint8_t dtype : kHalves)
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
      const auto half = static_cast<uint16_t>(bits);
      const uint16_t back = store_half(dtype, load_half(dtype, half));
      if (std::isnan(value_of_half(dtype, half)))
        ASSERT_TRUE(std::isnan(value_of_half(dtype, back))) << int{dtype} << " " << std::hex << bits;
      else
        ASSERT_EQ(back, half) << int{dtype};
    }
}

void expect_stored(uint8_t dtype, float x) {
  const uint16_t got = store_half(dtype, x);
  if (std::isnan(x)) {
    ASSERT_TRUE(std::isnan(value_of_half(dtype, got))) << std::hex << bits_of(x);
    return;
  }
  ASSERT_EQ(got, nearest_half(dtype, x)) << int{dtype} << " " << std::hexfloat << x;
  if (dtype == NPU_DTYPE_F16 && hardware()) {
    ASSERT_EQ(got, store_by_hardware(x)) << std::hexfloat << x;
  }
}

/// Every sign, exponent and leading digits, with what lies around the place where a digit is cut off.
void expect_stored_around(uint8_t dtype, unsigned cut, std::initializer_list<uint32_t> rests) {
  for (uint64_t high = 0; high < uint64_t{1} << 32; high += uint64_t{1} << cut)
    for (const uint32_t rest : rests) {
      expect_stored(dtype, std::bit_cast<float>(static_cast<uint32_t>(high | rest)));
      if (testing::Test::HasFatalFailure()) return;
    }
}

TEST(Halves, AreTheNearestOfEveryNumber) {
  expect_stored_around(NPU_DTYPE_F16, 13, {0, 1, 0xfff, 0x1000, 0x1001, 0x1fff});
  expect_stored_around(NPU_DTYPE_BF16, 16, {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff});
}

TEST(Halves, AreTheNearestWhereDigitsAreLostToDenormals) {
  for (const uint8_t dtype : kHalves) {
    const double step = dtype == NPU_DTYPE_F16 ? 0x1p-24 : 0x1p-133;
    for (int k = 0; k < 2100; ++k)
      for (const double at : {k * step, (k + 0.5) * step}) {
        const auto x = static_cast<float>(at);
        for (const float near : {x, std::nextafter(x, kInf), std::nextafter(x, -kInf)}) {
          expect_stored(dtype, near);
          expect_stored(dtype, -near);
          if (HasFatalFailure()) return;
        }
      }
  }
  Random r(70);
  for (int i = 0; i < 1000000; ++i) {
    const float x = std::bit_cast<float>(r.bits());
    for (const uint8_t dtype : kHalves) expect_stored(dtype, x);
    if (HasFatalFailure()) return;
  }
}

// ---- integers ----

const int32_t kZeros8[] = {0, 1, -1, 5, -128, 127}, kZerosU8[] = {0, 1, 128, 200, 255};
const int32_t kZeros16[] = {0, -1, 300, -32768, 32767}, kZerosU16[] = {0, 1, 32768, 65535};

std::vector<Kind> kinds() {
  std::vector<Kind> all;
  for (const float scale :
       {1.0f, 0.5f, 0.1f, 0.0039215689f, 3.7f, 1e-4f, 1e30f, 0x1p-126f, 0x1p-149f, std::numeric_limits<float>::max()}) {
    for (const int32_t zero : kZeros8) all.push_back({NPU_DTYPE_S8, scale, zero});
    for (const int32_t zero : kZerosU8) all.push_back({NPU_DTYPE_U8, scale, zero});
    for (const int32_t zero : kZeros16) all.push_back({NPU_DTYPE_S16, scale, zero});
    for (const int32_t zero : kZerosU16) all.push_back({NPU_DTYPE_U16, scale, zero});
    all.push_back({NPU_DTYPE_S32, scale, 0});
  }
  return all;
}

std::string name_of(const Kind &k) {
  return "type " + std::to_string(k.dtype) + " scale " + std::to_string(k.scale) + " zero " + std::to_string(k.zero);
}

/// Every number of the type, of the widest some of all sizes.
Bytes every_integer(uint8_t dtype) {
  Bytes b;
  if (dtype == NPU_DTYPE_S32) {
    Random r(71);
    for (unsigned i = 0; i < 70000; ++i) {
      const uint32_t v = r.bits() >> r.range(0, 31) ^ (r.chance(2) ? 0xffffffffu : 0);
      for (unsigned k = 0; k < 4; ++k) b.push_back(static_cast<uint8_t>(v >> 8 * k));
    }
    return b;
  }
  for (unsigned i = 0; i < 1u << 8 * size_of(dtype); ++i)
    for (unsigned k = 0; k < size_of(dtype); ++k) b.push_back(static_cast<uint8_t>(i >> 8 * k));
  return b;
}

TEST(Integers, AllOfThemAreReadWithOneRoundingEach) {
  for (const Kind &k : kinds()) {
    const Bytes in = every_integer(k.dtype);
    Values got(in.size() / size_of(k.dtype));
    model::load_numbers({k.dtype, k.scale, k.zero}, in.data(), got.size(), got.data());
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(bits_of(got[i]), bits_of(load(k, in.data(), i))) << name_of(k) << " element " << i;
  }
}

/// Numbers around every step of a type, half way to the next, and beyond its ends.
Values around_steps(const Kind &k) {
  Values v = {0.0f, -0.0f, kNaN, -kNaN, kInf, -kInf, 3.4e38f, -3.4e38f, 0x1p-149f, -0x1p-149f};
  Random r(72);
  const auto low = static_cast<double>(lowest(k.dtype)), high = static_cast<double>(highest(k.dtype));
  const auto add = [&](double steps) {
    const auto x = static_cast<float>(steps * k.scale);
    for (const float near : {x, std::nextafter(x, kInf), std::nextafter(x, -kInf)}) v.push_back(near);
  };
  for (const double end : {low - k.zero, high - k.zero})
    for (double d = -3; d <= 3; d += 0.5) add(end + d);
  for (int i = 0; i < 3000; ++i) add(std::floor(r.real(-1, 1) * (high - low)) + (r.chance(2) ? 0.5 : 0));
  for (int i = 0; i < 1000; ++i) v.push_back(std::bit_cast<float>(r.bits()));
  for (int i = -300; i < 300; ++i) add(i + 0.5);
  return v;
}

TEST(Integers, AreRoundedToEvenAndSaturate) {
  for (const Kind &k : kinds()) {
    const Values in = around_steps(k);
    Bytes want(in.size() * size_of(k.dtype)), got(want.size());
    for (size_t i = 0; i < in.size(); ++i) store(k, in[i], want.data(), i);
    model::store_numbers({k.dtype, k.scale, k.zero}, in.data(), in.size(), got.data());
    expect_elements(k.dtype, want, got, name_of(k));
    if (HasFatalFailure()) return;
  }
}

TEST(Integers, HaveTheEndsThatAreWrittenHere) {
  const auto stored = [](const Kind &k, float v) {
    Bytes b(4);
    model::store_numbers({k.dtype, k.scale, k.zero}, &v, 1, b.data());
    return integer_at(k.dtype, b.data(), 0);
  };
  const Kind s8{NPU_DTYPE_S8, 0.5f, 3}, u8{NPU_DTYPE_U8, 1, 128}, s32{NPU_DTYPE_S32, 1, 0};
  EXPECT_EQ(stored(s8, 0.25f), 3);   // half a step, to the even 0
  EXPECT_EQ(stored(s8, 0.75f), 5);   // one and a half, to 2
  EXPECT_EQ(stored(s8, -0.75f), 1);  // to -2
  EXPECT_EQ(stored(s8, 62), 127);
  EXPECT_EQ(stored(s8, 1000), 127);
  EXPECT_EQ(stored(s8, -1000), -128);
  EXPECT_EQ(stored(s8, kNaN), 3);
  EXPECT_EQ(stored(s8, kInf), 127);
  EXPECT_EQ(stored(u8, -kInf), 0);
  EXPECT_EQ(stored(u8, kNaN), 128);
  EXPECT_EQ(stored(u8, 127.5f), 255);
  EXPECT_EQ(stored(u8, -128.5f), 0);
  EXPECT_EQ(stored(s32, 0x1p31f), std::numeric_limits<int32_t>::max());
  EXPECT_EQ(stored(s32, 0x1.fffffep30f), 0x7fffff80);
  EXPECT_EQ(stored(s32, -0x1p31f), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(stored(s32, -kInf), std::numeric_limits<int32_t>::min());
}

TEST(Integers, OfProductsAreRoundedWithoutAScale) {
  for (const uint8_t dtype : {NPU_DTYPE_S8, NPU_DTYPE_U8})
    for (const int32_t zero : {0, 1, 7, 100, 127}) {
      const Kind k{dtype, 1, zero};
      const Values in = around_steps(k);
      Bytes want(in.size()), got(in.size());
      for (size_t i = 0; i < in.size(); ++i) store_steps(k, in[i], want.data(), i);
      model::store_rounded(dtype, zero, in.data(), in.size(), got.data());
      expect_elements(dtype, want, got, name_of(k));
    }
}

TEST(Integers, OfProductsAreReadLessTheirZeroPoint) {
  for (const uint8_t dtype : {NPU_DTYPE_S8, NPU_DTYPE_U8})
    for (int64_t zero = lowest(dtype); zero <= highest(dtype); ++zero) {
      const Bytes in = every_integer(dtype);
      std::vector<uint32_t> got(in.size());
      model::load_factors(dtype, static_cast<int32_t>(zero), in.data(), in.size(), got.data());
      for (size_t i = 0; i < in.size(); ++i)
        ASSERT_EQ(static_cast<int32_t>(got[i]), integer_at(dtype, in.data(), i) - zero) << zero;
    }
}

TEST(Numbers, MayLieAtAnyByte) {
  Random r(73);
  for (const uint8_t dtype : kNumbers) {
    const Kind k = random_kind_of(r, dtype);
    const Bytes in = random_elements(r, dtype, 33);
    Values want(33), got(33);
    model::load_numbers({k.dtype, k.scale, k.zero}, in.data(), 33, want.data());
    for (size_t lead = 1; lead < 4; ++lead) {
      Bytes moved(lead);
      moved.insert(moved.end(), in.begin(), in.end());
      model::load_numbers({k.dtype, k.scale, k.zero}, moved.data() + lead, 33, got.data());
      EXPECT_EQ(bytes_of(got), bytes_of(want)) << name_of(k);
    }
  }
}

}  // namespace
}  // namespace npu::test
