// SPDX-License-Identifier: MIT
#include "runtime/cpu/element.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace npu::cpu {

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
T get(const Tensor &t, int64_t i) {
  T v;
  std::memcpy(&v, t.data.data() + static_cast<size_t>(i) * sizeof v, sizeof v);
  return v;
}

template <class T>
void put(Tensor &t, int64_t i, T v) {
  std::memcpy(t.data.data() + static_cast<size_t>(i) * sizeof v, &v, sizeof v);
}

template <class T>
T truncated(double v) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(v)) return 0;
  if (v >= std::ldexp(1.0, Limits::digits)) return Limits::max();
  return v <= static_cast<double>(Limits::min()) ? Limits::min() : static_cast<T>(v);
}

template <class T>
T narrowed(int64_t v, Overflow overflow) {
  using Limits = std::numeric_limits<T>;
  if (overflow == Overflow::Wrap || std::in_range<T>(v)) return static_cast<T>(v);
  return v < 0 ? Limits::min() : Limits::max();
}

/// Calls f with a value of the C++ type of an integer type's elements.
template <class F>
auto with_integer(Dtype type, F f) {
  switch (type) {
    case Dtype::I8:
      return f(int8_t{});
    case Dtype::I16:
      return f(int16_t{});
    case Dtype::U16:
      return f(uint16_t{});
    case Dtype::I32:
      return f(int32_t{});
    case Dtype::U32:
      return f(uint32_t{});
    case Dtype::I64:
      return f(int64_t{});
    case Dtype::U64:
      return f(uint64_t{});
    default:
      return f(uint8_t{});
  }
}

}  // namespace

bool is_integer(Dtype type) {
  switch (type) {
    case Dtype::Bool:
    case Dtype::I8:
    case Dtype::U8:
    case Dtype::I16:
    case Dtype::U16:
    case Dtype::I32:
    case Dtype::U32:
    case Dtype::I64:
    case Dtype::U64:
      return true;
    default:
      return false;
  }
}

double load(const Tensor &t, int64_t i) {
  switch (t.dtype) {
    case Dtype::F16:
      return decode(get<uint16_t>(t, i), kHalf);
    case Dtype::BF16:
      return decode(get<uint16_t>(t, i), kBrain);
    case Dtype::F32:
      return get<float>(t, i);
    case Dtype::F64:
      return get<double>(t, i);
    default:
      return with_integer(t.dtype, [&](auto type) { return static_cast<double>(get<decltype(type)>(t, i)); });
  }
}

void store(Tensor &t, int64_t i, double value) {
  switch (t.dtype) {
    case Dtype::F16:
      return put(t, i, encode(value, kHalf));
    case Dtype::BF16:
      return put(t, i, encode(value, kBrain));
    case Dtype::F32:
      return put(t, i, static_cast<float>(value));
    case Dtype::F64:
      return put(t, i, value);
    case Dtype::Bool:
      return put<uint8_t>(t, i, value != 0);
    default:
      return with_integer(t.dtype, [&](auto type) { put(t, i, truncated<decltype(type)>(value)); });
  }
}

int64_t load_integer(const Tensor &t, int64_t i) {
  return with_integer(t.dtype, [&](auto type) { return static_cast<int64_t>(get<decltype(type)>(t, i)); });
}

void store_integer(Tensor &t, int64_t i, int64_t value, Overflow overflow) {
  switch (t.dtype) {
    case Dtype::F16:
    case Dtype::BF16:
    case Dtype::F64:
      return store(t, i, static_cast<double>(value));
    case Dtype::F32:
      return put(t, i, static_cast<float>(value));
    case Dtype::Bool:
      return put<uint8_t>(t, i, value != 0);
    default:
      return with_integer(t.dtype, [&](auto type) { put(t, i, narrowed<decltype(type)>(value, overflow)); });
  }
}

}  // namespace npu::cpu
