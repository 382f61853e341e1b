// SPDX-License-Identifier: MIT
#include "tests/unit/compute/elements.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace npu::test {
namespace {

/// Where the digits of a 16-bit floating-point number lie.
struct Format {
  int digits, bias;
  int exponents() const { return (1 << (15 - digits)) - 1; }  // the one of infinities and NaNs
};

Format format_of(uint8_t dtype) { return dtype == NPU_DTYPE_F16 ? Format{10, 15} : Format{7, 127}; }

/// All finite numbers of the type that are not below 0, in their order, which is that of their bits; behind them what
/// comes next, where rounding ends at infinity.
std::vector<double> make_ladder(uint8_t dtype) {
  const Format f = format_of(dtype);
  std::vector<double> ladder;
  for (int bits = 0; bits < f.exponents() << f.digits; ++bits)
    ladder.push_back(value_of_half(dtype, static_cast<uint16_t>(bits)));
  ladder.push_back(std::ldexp(1.0, f.exponents() - f.bias));
  return ladder;
}

const std::vector<double> &ladder_of(uint8_t dtype) {
  static const std::vector<double> f16 = make_ladder(NPU_DTYPE_F16), bf16 = make_ladder(NPU_DTYPE_BF16);
  return dtype == NPU_DTYPE_F16 ? f16 : bf16;
}

template <class T>
T element(const void *tensor, size_t i) {
  T v;
  std::memcpy(&v, static_cast<const char *>(tensor) + i * sizeof v, sizeof v);
  return v;
}

void put(void *tensor, size_t i, const void *v, size_t size) {
  std::memcpy(static_cast<char *>(tensor) + i * size, v, size);
}

void put_integer(uint8_t dtype, double whole, void *tensor, size_t i) {
  const double low = static_cast<double>(lowest(dtype)), high = static_cast<double>(highest(dtype));
  const auto v = static_cast<int64_t>(std::fmin(std::fmax(whole, low), high));
  put(tensor, i, &v, size_of(dtype));  // little endian
}

bool equal_reals(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

/// The distance to the next number of the type above |x|.
double ulp_of(uint8_t dtype, double x) {
  const int digits = dtype == NPU_DTYPE_F32 ? 23 : format_of(dtype).digits;
  const int least = dtype == NPU_DTYPE_F16 ? -14 : -126;
  return std::ldexp(1.0, std::max(x == 0 ? least : std::ilogb(x), least) - digits);
}

std::string text_of(uint8_t dtype, const Bytes &b, size_t i) {
  return is_real(dtype) ? std::to_string(real_at(dtype, b.data(), i)) : std::to_string(integer_at(dtype, b.data(), i));
}

}  // namespace

bool is_real(uint8_t dtype) { return dtype == NPU_DTYPE_F32 || dtype == NPU_DTYPE_F16 || dtype == NPU_DTYPE_BF16; }

uint32_t size_of(uint8_t dtype) {
  switch (dtype) {
    case NPU_DTYPE_S8:
    case NPU_DTYPE_U8:
      return 1;
    case NPU_DTYPE_F16:
    case NPU_DTYPE_BF16:
    case NPU_DTYPE_S16:
    case NPU_DTYPE_U16:
      return 2;
    case NPU_DTYPE_S64:
      return 8;
    default:
      return 4;
  }
}

int64_t lowest(uint8_t dtype) {
  const bool with_sign = dtype == NPU_DTYPE_S8 || dtype == NPU_DTYPE_S16 || dtype == NPU_DTYPE_S32;
  return with_sign ? -(int64_t{1} << (8 * size_of(dtype) - 1)) : 0;
}

int64_t highest(uint8_t dtype) { return lowest(dtype) + (int64_t{1} << 8 * size_of(dtype)) - 1; }

double value_of_half(uint8_t dtype, uint16_t bits) {
  const Format f = format_of(dtype);
  const int exponent = bits >> f.digits & f.exponents(), digits = bits & ((1 << f.digits) - 1);
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == f.exponents()) return digits ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(digits, 1 - f.bias - f.digits);
  return sign * std::ldexp((1 << f.digits) + digits, exponent - f.bias - f.digits);
}

uint16_t nearest_half(uint8_t dtype, double x) {
  const Format f = format_of(dtype);
  const auto sign = static_cast<uint16_t>(std::signbit(x) ? 0x8000 : 0),
             infinity = static_cast<uint16_t>(f.exponents() << f.digits);
  if (std::isnan(x)) return sign | infinity | static_cast<uint16_t>(1 << (f.digits - 1));
  const std::vector<double> &ladder = ladder_of(dtype);
  const double size = std::fabs(x);
  if (size >= ladder.back()) return sign | infinity;
  const auto above = std::upper_bound(ladder.begin(), ladder.end(), size);
  const auto below = static_cast<uint16_t>(above - ladder.begin() - 1);
  const double down = size - ladder[below], up = *above - size;
  return static_cast<uint16_t>(sign | (below + (up < down || (up == down && below % 2))));
}

int64_t integer_at(uint8_t dtype, const void *tensor, size_t i) {
  switch (dtype) {
    case NPU_DTYPE_S8:
      return element<int8_t>(tensor, i);
    case NPU_DTYPE_U8:
      return element<uint8_t>(tensor, i);
    case NPU_DTYPE_S16:
      return element<int16_t>(tensor, i);
    case NPU_DTYPE_U16:
      return element<uint16_t>(tensor, i);
    case NPU_DTYPE_S32:
      return element<int32_t>(tensor, i);
    case NPU_DTYPE_U32:
      return element<uint32_t>(tensor, i);
    default:
      return element<int64_t>(tensor, i);
  }
}

float real_at(uint8_t dtype, const void *tensor, size_t i) {
  if (dtype == NPU_DTYPE_F32) return element<float>(tensor, i);
  return static_cast<float>(value_of_half(dtype, element<uint16_t>(tensor, i)));
}

double to_whole(double x) {
  if (!(std::fabs(x) < 0x1p52)) return x;
  const double below = std::floor(x), part = x - below;
  const bool odd = std::fmod(below, 2) != 0;
  return below + (part > 0.5 || (part == 0.5 && odd) ? 1 : 0);
}

float load(const Kind &k, const void *tensor, size_t i) {
  if (is_real(k.dtype)) return real_at(k.dtype, tensor, i);
  const auto steps = static_cast<float>(integer_at(k.dtype, tensor, i) - k.zero);
  return static_cast<float>(double{steps} * k.scale);
}

void store(const Kind &k, float v, void *tensor, size_t i) {
  if (k.dtype == NPU_DTYPE_F32) return put(tensor, i, &v, sizeof v);
  if (is_real(k.dtype)) {
    const uint16_t bits = nearest_half(k.dtype, v);
    return put(tensor, i, &bits, sizeof bits);
  }
  store_steps(k, static_cast<float>(double{v} / k.scale), tensor, i);  // a quotient of two floats is rounded right so
}

void store_steps(const Kind &k, float v, void *tensor, size_t i) {
  put_integer(k.dtype, std::isnan(v) ? k.zero : to_whole(v) + k.zero, tensor, i);
}

Kind random_kind_of(Random &r, uint8_t dtype) {
  if (is_real(dtype)) return {dtype, 0, 0};
  constexpr float kScales[] = {1, 0.5f, 0.1f, 0.0173f, 3.7f, 1e-4f, 240, 0x1p-126f, 0x1p-149f, 1e30f};
  Kind k{dtype, kScales[r.range(0, r.chance(8) ? 9 : 6)], 0};
  if (size_of(dtype) < 4 && !r.chance(3))
    k.zero = r.chance(4) ? static_cast<int32_t>(r.chance(2) ? lowest(dtype) : highest(dtype))
                         : r.range(static_cast<int>(lowest(dtype)), static_cast<int>(highest(dtype)));
  return k;
}

Bytes random_elements(Random &r, uint8_t dtype, size_t count, bool whole) {
  Bytes b(count * size_of(dtype));
  if (!is_real(dtype)) {
    for (uint8_t &x : b) x = static_cast<uint8_t>(r.bits());
    return b;
  }
  for (size_t i = 0; i < count; ++i)
    store({dtype, 0, 0}, whole ? static_cast<float>(r.range(-6, 6)) : r.real(-3, 3), b.data(), i);
  return b;
}

Bytes bytes_of(const Values &v) {
  Bytes b(v.size() * sizeof(float));
  if (!v.empty()) std::memcpy(b.data(), v.data(), b.size());
  return b;
}

Values values_of(const Bytes &b) {
  Values v(b.size() / sizeof(float));
  if (!v.empty()) std::memcpy(v.data(), b.data(), v.size() * sizeof(float));
  return v;
}

void expect_elements(uint8_t dtype, const Bytes &want, const Bytes &got, const std::string &what) {
  ASSERT_EQ(want.size(), got.size()) << what;
  const uint32_t size = size_of(dtype);
  for (size_t i = 0; i < want.size() / size; ++i) {
    if (std::memcmp(&want[i * size], &got[i * size], size) == 0) continue;
    ASSERT_TRUE(is_real(dtype) && equal_reals(real_at(dtype, want.data(), i), real_at(dtype, got.data(), i)))
        << what << ": element " << i << " is " << text_of(dtype, got, i) << ", not " << text_of(dtype, want, i);
  }
}

void expect_near_elements(uint8_t dtype, const Bytes &want, const Bytes &got, double steps, const std::string &what,
                          double least) {
  ASSERT_EQ(want.size(), got.size()) << what;
  const uint32_t size = size_of(dtype);
  for (size_t i = 0; i < want.size() / size; ++i) {
    if (std::memcmp(&want[i * size], &got[i * size], size) == 0) continue;
    const bool real = is_real(dtype);
    const double a = real ? real_at(dtype, want.data(), i) : static_cast<double>(integer_at(dtype, want.data(), i));
    const double b = real ? real_at(dtype, got.data(), i) : static_cast<double>(integer_at(dtype, got.data(), i));
    const bool near = std::isfinite(a) && std::fabs(a - b) <= steps * (real ? std::max(ulp_of(dtype, a), least) : 1);
    ASSERT_TRUE(near || (std::isnan(a) && std::isnan(b)) || a == b)
        << what << ": element " << i << " is " << b << ", not about " << a;
  }
}

}  // namespace npu::test
