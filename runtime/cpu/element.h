// SPDX-License-Identifier: MIT
// Single elements of tensors of any type.
#ifndef NPU_CPU_ELEMENT_H
#define NPU_CPU_ELEMENT_H

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "runtime/cpu/operators.h"

namespace npu::cpu {

/// Integers and bool.
bool is_integer(Dtype type);

/// As double, which holds all but 64-bit integers exactly.
double load(const Tensor &t, int64_t i);
/// To integers towards zero and saturated, NaN as 0; to floating-point numbers rounded once, to nearest even; to bool
/// whether it is not 0.
void store(Tensor &t, int64_t i, double value);

/// Precondition: is_integer(t.dtype). What only uint64 can hold wraps round.
int64_t load_integer(const Tensor &t, int64_t i);
/// To any type: to floating-point numbers rounded to nearest even, to bool whether it is not 0.
void store_integer(Tensor &t, int64_t i, int64_t value, Overflow overflow = Overflow::Wrap);

/// Element i of indices, int32 or int64, into a dimension of that length. Negative ones count from the end.
Status load_index(const Tensor &indices, int64_t i, size_t dimension, int64_t length, int64_t &out);

/// Calls f with a value of the C++ type of the elements of an integer type; uint8_t for bool.
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

/// The same for float32 as well.
template <class F>
auto with_number(Dtype type, F f) {
  return type == Dtype::F32 ? f(float{}) : with_integer(type, f);
}

/// Calls f with the size of an element as a constant.
template <class F>
auto with_size(Dtype type, F f) {
  switch (dtype_bytes(type)) {
    case 1:
      return f(std::integral_constant<size_t, 1>{});
    case 2:
      return f(std::integral_constant<size_t, 2>{});
    case 4:
      return f(std::integral_constant<size_t, 4>{});
    default:
      return f(std::integral_constant<size_t, 8>{});
  }
}

// Arithmetic on floating-point numbers, and on integers, which wrap round.

/// Unsigned, and not narrower than int: narrower ones would become int, and overflow.
template <class T>
using Wrapping = std::make_unsigned_t<decltype(T{} + T{})>;

template <class T>
T plus(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return a + b;
  else
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
}

template <class T>
T minus(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return a - b;
  else
    return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
}

template <class T>
T times(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return a * b;
  else
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
}

/// IEEE 754-2019 maximum, as the chip's: NaN if one is NaN, -0 below +0.
template <class T>
T maximum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a == b) return std::signbit(a) ? b : a;
    return a > b || std::isnan(a) ? a : b;
  } else {
    return std::max(a, b);
  }
}

template <class T>
T minimum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a == b) return std::signbit(a) ? a : b;
    return a < b || std::isnan(a) ? a : b;
  } else {
    return std::min(a, b);
  }
}

}  // namespace npu::cpu

#endif  // NPU_CPU_ELEMENT_H
