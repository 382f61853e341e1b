// SPDX-License-Identifier: MIT
// Element-wise work on vectors: the same results as the reference, exactly for arithmetic and within the documented
// bound for functions. The best form for the host's CPU is chosen once.
#ifndef NPU_MODEL_COMPUTE_ONEDNN_KERNELS_H
#define NPU_MODEL_COMPUTE_ONEDNN_KERNELS_H

#include <cstddef>
#include <cstdint>

#include "npu_isa.h"

namespace npu::model {

/// The loops that are compiled once for each kind of CPU.
struct Kernels {
  /// out[i] = a[i * a_step] op b[i * b_step]; a step is 0 or 1; out may equal an operand. Comparisons give 0 or 1.
  void (*combine)(uint8_t op, const float *a, size_t a_step, const float *b, size_t b_step, float *out, size_t count);
  /// What can be fused, NONE to TANH; out may equal in.
  void (*activate)(uint8_t act, float act_a, float act_b, const float *in, float *out, size_t count);
  /// The same for what UNARY has. False: there is no loop for it.
  bool (*unary)(uint8_t act, float act_a, float act_b, const float *in, float *out, size_t count);
  /// out[c] = op over `rows` * `cols` cells of `channels` floats, `row_step` and `col_step` floats apart; sums are
  /// divided by `count`.
  void (*pool)(uint8_t op, const float *in, size_t rows, size_t row_step, size_t cols, size_t col_step, float count,
               float *out, size_t channels);
  /// out[r * out_row + j] += sum over i of a[r * a_row + i] * b[i * b_row + j], with `trans` b[j * b_row + i]. For few
  /// rows: b is read as it lies, once.
  void (*multiply)(const float *a, size_t a_row, size_t rows, size_t k, const float *b, size_t b_row, size_t n,
                   bool trans, float *out, size_t out_row);
  void (*softmax)(uint8_t op, const float *in, float *out, size_t count);
  /// NORM of a row; scale and bias are null or f32 at any byte; out may equal in.
  void (*normalize)(uint8_t op, float epsilon, const float *in, const void *scale, const void *bias, float *out,
                    size_t count);
  /// REDUCE by adding or multiplying: acc[i] takes in[i], as its first number if `first`.
  void (*accumulate)(uint8_t op, const float *in, bool first, double *acc, size_t count);
  /// Sum of all, for those that add.
  double (*accumulate_all)(uint8_t op, const float *in, size_t count);
  /// REDUCE's places: where[i] becomes `place` where in[i] is nearer to the wanted end than best[i], or as near and
  /// `last`. where[i] is below 0 as long as there was no number.
  void (*note_places)(uint8_t op, bool last, const float *in, int32_t place, float *best, int32_t *where, size_t count);
  /// Sum of magnitudes, for floats at any byte; infinite or NaN if an element is not finite.
  double (*magnitude)(const void *x, size_t count);
  /// Largest magnitude; infinite if an element is not finite.
  float (*largest)(const float *x, size_t count);
};

extern const Kernels kKernelsBaseline;
extern const Kernels kKernelsAvx2;
extern const Kernels kKernelsAvx512;
/// The table for the host's CPU.
const Kernels &kernels();

}  // namespace npu::model

#endif  // NPU_MODEL_COMPUTE_ONEDNN_KERNELS_H
