// SPDX-License-Identifier: MIT
#include "element.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "container.h"

namespace npu::cpuop {

namespace {

/// A binary floating-point format of 16 bits.
struct Format {
  int fraction_bits, min_exponent, max_exponent;
};
constexpr Format kHalf{10, -14, 15}, kBrain{7, -126, 127};

double decode(uint16_t bits, const Format &f) {
  const int fraction = bits & ((1 << f.fraction_bits) - 1);
  const int exponent = (bits & 0x7fff) >> f.fraction_bits;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == f.max_exponent - f.min_exponent + 2) {
    const double special =
        fraction ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
    return std::copysign(special, sign);
  }
  if (exponent == 0) return sign * std::ldexp(fraction, f.min_exponent - f.fraction_bits);
  return sign * std::ldexp(fraction + (1 << f.fraction_bits), exponent - 1 + f.min_exponent - f.fraction_bits);
}

uint16_t encode(double value, const Format &f) {
  const int sign = std::signbit(value) ? 0x8000 : 0;
  const int special = (f.max_exponent - f.min_exponent + 2) << f.fraction_bits;
  if (std::isnan(value)) return static_cast<uint16_t>(sign | special | 1 << (f.fraction_bits - 1));
  if (std::isinf(value)) return static_cast<uint16_t>(sign | special);
  const double size = std::fabs(value);
  int exponent = size == 0 ? f.min_exponent : std::max(std::ilogb(size), f.min_exponent);
  // In units of the last place; nearbyint() rounds to nearest even. What rounds up to the next power of two carries
  // into the exponent by itself.
  const auto units = static_cast<int64_t>(std::nearbyint(std::ldexp(size, f.fraction_bits - exponent)));
  const int64_t bits = (static_cast<int64_t>(exponent - f.min_exponent) << f.fraction_bits) + units;
  return static_cast<uint16_t>(sign | std::min<int64_t>(bits, special));
}

template <class T>
double get(const Tensor &t, int64_t i) {
  T v;
  std::memcpy(&v, t.data.data() + static_cast<size_t>(i) * sizeof v, sizeof v);
  return static_cast<double>(v);
}

template <class T>
void put(Tensor &t, int64_t i, T v) {
  std::memcpy(t.data.data() + static_cast<size_t>(i) * sizeof v, &v, sizeof v);
}

template <class T>
void put_integer(Tensor &t, int64_t i, double v) {
  constexpr auto low = static_cast<double>(std::numeric_limits<T>::min());
  constexpr auto high = static_cast<double>(std::numeric_limits<T>::max());
  put<T>(t, i, std::isnan(v) ? T{0} : static_cast<T>(std::clamp(std::trunc(v), low, high)));
}

uint16_t bits(const Tensor &t, int64_t i) { return static_cast<uint16_t>(get<uint16_t>(t, i)); }

}  // namespace

double load(const Tensor &t, int64_t i) {
  switch (t.type) {
    case kF16:
      return decode(bits(t, i), kHalf);
    case kBf16:
      return decode(bits(t, i), kBrain);
    case kS8:
      return get<int8_t>(t, i);
    case kU8:
      return get<uint8_t>(t, i);
    case kS16:
      return get<int16_t>(t, i);
    case kU16:
      return get<uint16_t>(t, i);
    case kS32:
      return get<int32_t>(t, i);
    case kU32:
      return get<uint32_t>(t, i);
    default:
      return get<float>(t, i);
  }
}

void store(Tensor &t, int64_t i, double value) {
  switch (t.type) {
    case kF16:
      return put(t, i, encode(value, kHalf));
    case kBf16:
      return put(t, i, encode(value, kBrain));
    case kS8:
      return put_integer<int8_t>(t, i, value);
    case kU8:
      return put_integer<uint8_t>(t, i, value);
    case kS16:
      return put_integer<int16_t>(t, i, value);
    case kU16:
      return put_integer<uint16_t>(t, i, value);
    case kS32:
      return put_integer<int32_t>(t, i, value);
    case kU32:
      return put_integer<uint32_t>(t, i, value);
    default:
      return put(t, i, static_cast<float>(value));
  }
}

void make(Tensor &t) { t.data.assign(static_cast<size_t>(elements(t)) * bmodel::dtype_bytes(t.type), 0); }

}  // namespace npu::cpuop
