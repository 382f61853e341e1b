// SPDX-License-Identifier: MIT
// Element types as numbers of float32: how elements are read into them, and they are written into elements. As the chip
// does it (docs/reference/hardware.md, section 7), and ONNX's QuantizeLinear and DequantizeLinear.
#ifndef NPU_CPU_NUMBERS_H
#define NPU_CPU_NUMBERS_H

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/cpu/attributes.h"

namespace npu::cpu {

// float16 and bfloat16. Exactly; and rounded to nearest even, beyond the largest number to infinity.
float of_f16(uint16_t bits);
uint16_t to_f16(float value);
float of_bf16(uint16_t bits);
uint16_t to_bf16(float value);

/// Rounded, halves to even, and saturated; NaN counts as 0. The sum is exact where it does not saturate.
template <class T>
T saturated(float steps, int32_t zero) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(steps)) steps = 0;
  const double sum = std::nearbyint(static_cast<double>(steps)) + zero;
  return static_cast<T>(std::clamp<double>(sum, Limits::min(), Limits::max()));
}

/// Whether load_numbers() and store_numbers() know a type: float32, float16, bfloat16, integers of 8 to 32 bits.
bool has_numbers(Dtype type);

// Of `count` elements, at any address. `quant`, which integers alone have, has a scale above 0 and a zero point of the
// type. The two ranges do not overlap. Precondition: has_numbers(type).
/// to[i] = float(from[i] - zero) * scale
void load_numbers(Dtype type, const Quant &quant, const void *from, size_t count, float *to);
/// to[i] = saturate(round_half_even(from[i] / scale) + zero), of NaN the zero point
void store_numbers(Dtype type, const Quant &quant, const float *from, size_t count, void *to);

}  // namespace npu::cpu

#endif  // NPU_CPU_NUMBERS_H
