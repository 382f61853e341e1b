// SPDX-License-Identifier: MIT
// Element types as numbers (docs/reference/hardware.md, section 7): how elements are read into f32, and f32 is written
// into them.
#ifndef NPU_MODEL_COMPUTE_NUMBERS_H
#define NPU_MODEL_COMPUTE_NUMBERS_H

#include <cstddef>
#include <cstdint>

#include "npu_isa.h"

namespace npu::model {

/// What the elements of an operand stand for.
struct Number {
  uint8_t dtype = NPU_DTYPE_F32;
  float scale = 0;   ///< of integers
  int32_t zero = 0;  ///< likewise

  bool plain() const { return dtype == NPU_DTYPE_F32; }
};

inline bool is_float(uint8_t dtype) {
  return dtype == NPU_DTYPE_F32 || dtype == NPU_DTYPE_F16 || dtype == NPU_DTYPE_BF16;
}

/// to[i] = load(from[i]). `from` may lie at any byte and must not overlap `to`.
void load_numbers(const Number &number, const void *from, size_t count, float *to);
/// to[i] = store(from[i]).
void store_numbers(const Number &number, const float *from, size_t count, void *to);

/// to[i] = from[i] - zero, of the types that products take: floating point (zero is 0) to f32, 8 bits to integers.
void load_factors(uint8_t dtype, int32_t zero, const void *from, size_t count, float *to);
void load_factors(uint8_t dtype, int32_t zero, const void *from, size_t count, uint32_t *to);

/// out[i] = saturate(round_half_even(v[i]) + zero); the destination has 8 bits.
void store_rounded(uint8_t dtype, int32_t zero, const float *v, size_t count, void *out);

}  // namespace npu::model

#endif  // NPU_MODEL_COMPUTE_NUMBERS_H
