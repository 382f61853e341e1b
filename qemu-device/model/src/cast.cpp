// SPDX-License-Identifier: MIT
#include "qemu-device/model/src/cast.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "qemu-device/model/src/compute/numbers.h"

namespace npu::model {
namespace {

/// Two bytes that are a floating-point number of a type.
template <uint8_t dtype>
struct Half {
  uint16_t bits;
};

template <class T>
inline constexpr bool kHalf = false;
template <uint8_t dtype>
inline constexpr bool kHalf<Half<dtype>> = true;

template <uint8_t dtype>
float value_of(Half<dtype> x) {
  float v;
  load_numbers({dtype}, &x, 1, &v);
  return v;
}
template <class T>
T value_of(T x) {
  return x;
}

template <class To, class From>
To cast(From x) {
  if constexpr (std::is_same_v<To, float>) {
    return static_cast<float>(x);
  } else if constexpr (std::is_floating_point_v<From>) {
    using Limits = std::numeric_limits<To>;
    if (std::isnan(x)) return 0;
    // Both bounds are exact in double; the upper one is the first number that is too large.
    if (double{x} >= std::ldexp(1.0, Limits::digits)) return Limits::max();
    return double{x} <= static_cast<double>(Limits::min()) ? Limits::min() : static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

template <class From, class To>
void loop(const void *from, void *to, size_t count) {
  const From *x = static_cast<const From *>(from);
  To *y = static_cast<To *>(to);
  for (size_t i = 0; i < count; ++i) {
    if constexpr (kHalf<To>) {
      const float v = cast<float>(value_of(x[i]));
      store_numbers({std::is_same_v<To, Half<NPU_DTYPE_F16>> ? NPU_DTYPE_F16 : NPU_DTYPE_BF16}, &v, 1, &y[i]);
    } else {
      y[i] = cast<To>(value_of(x[i]));
    }
  }
}

/// Calls f with a value of the type. Precondition: it has whole bytes.
template <class F>
void with_type(uint8_t dtype, F f) {
  switch (dtype) {
    case NPU_DTYPE_F32:
      return f(float{});
    case NPU_DTYPE_F16:
      return f(Half<NPU_DTYPE_F16>{});
    case NPU_DTYPE_BF16:
      return f(Half<NPU_DTYPE_BF16>{});
    case NPU_DTYPE_S8:
      return f(int8_t{});
    case NPU_DTYPE_U8:
      return f(uint8_t{});
    case NPU_DTYPE_S16:
      return f(int16_t{});
    case NPU_DTYPE_U16:
      return f(uint16_t{});
    case NPU_DTYPE_S32:
      return f(int32_t{});
    case NPU_DTYPE_U32:
      return f(uint32_t{});
    case NPU_DTYPE_S64:
      return f(int64_t{});
  }
}

}  // namespace

void cast_elements(uint8_t from_dtype, const void *from, uint8_t to_dtype, void *to, size_t count) {
  with_type(from_dtype,
            [&](auto x) { with_type(to_dtype, [&](auto y) { loop<decltype(x), decltype(y)>(from, to, count); }); });
}

}  // namespace npu::model
