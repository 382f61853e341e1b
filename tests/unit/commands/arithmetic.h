// SPDX-License-Identifier: MIT
// What commands do with f32 numbers between their operands and results, written apart from the chip. Sums and products
// go through double, which rounds them as f32 does and leaves a compiler nothing to contract.
#ifndef NPU_TESTS_COMMANDS_ARITHMETIC_H
#define NPU_TESTS_COMMANDS_ARITHMETIC_H

#include <cmath>

#include "tests/unit/compute/elements.h"

namespace npu::test {

inline float plus(float a, float b) { return static_cast<float>(double{a} + b); }
inline float times(float a, float b) { return static_cast<float>(double{a} * b); }

/// An activation that may be fused.
inline float activated(uint8_t act, float a, float b, float x) {
  switch (act) {
    case NPU_ACT_RELU:
      return x > 0 || std::isnan(x) ? x : 0;
    case NPU_ACT_CLIP:
      return std::isnan(x) ? x : x < a ? a : x > b ? b : x;
    case NPU_ACT_LEAKY_RELU:
      return x < 0 ? times(a, x) : x;
    case NPU_ACT_SIGMOID:
      return static_cast<float>(1 / (1 + std::exp(-double{x})));
    case NPU_ACT_TANH:
      return static_cast<float>(std::tanh(double{x}));
    default:
      return x;
  }
}

/// What another back end may make of a function of the reference's: 4 ULP + 1e-7, of integers a step.
struct Leeway {
  double steps, least;
};
inline Leeway leeway_of(uint8_t dtype, bool function) {
  if (!function) return {0, 0};
  return is_real(dtype) ? Leeway{4, 1e-7 / 4} : Leeway{1, 0};
}

}  // namespace npu::test

#endif  // NPU_TESTS_COMMANDS_ARITHMETIC_H
