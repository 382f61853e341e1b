// SPDX-License-Identifier: MIT
// Elements of all types on vectors: the same bits as numbers.h gives.
#ifndef NPU_MODEL_COMPUTE_ONEDNN_NUMBER_KERNELS_H
#define NPU_MODEL_COMPUTE_ONEDNN_NUMBER_KERNELS_H

#include <cstddef>
#include <cstdint>

#include "qemu-device/model/src/compute/numbers.h"

namespace npu::model {

/// The loops that are compiled once for each kind of CPU. Operands may lie at any byte.
struct NumberKernels {
  /// to[i] = load(from[i]); they do not overlap.
  void (*load)(const Number &number, const void *from, size_t count, float *to);
  /// to[i] = store(from[i]).
  void (*store)(const Number &number, const float *from, size_t count, void *to);
  /// The same with a scale for each element, f32, in place of the number's own. Scales of floating-point numbers do not
  /// count.
  void (*load_scaled)(const Number &number, const void *scales, const void *from, size_t count, float *to);
  void (*store_scaled)(const Number &number, const void *scales, const float *from, size_t count, void *to);
  /// out[i] = the element of `size` bytes at table[in[i]]; out may equal in where these are bytes.
  void (*look_up)(size_t size, const uint8_t *in, size_t count, const void *table, void *out);
  /// out[i] = c[i * c_step] ? a[i * a_step] : b[i * b_step], elements of `size` bytes; out may equal an operand.
  void (*select)(size_t size, const uint8_t *c, size_t c_step, const void *a, size_t a_step, const void *b,
                 size_t b_step, size_t count, void *out);
  /// out[i] = the largest of `cells` integers, `step` elements apart; with `go_on` also of out[i]. False: not of this
  /// type.
  bool (*largest)(uint8_t dtype, const void *in, size_t cells, size_t step, bool go_on, size_t count, void *out);
  /// to[i] = store(activation(load(a[i]) op load(b[i]))) in one loop: op is NPU_ELTWISE_ADD or MUL, the activation
  /// NPU_ACT_NONE or RELU, all numbers have 8 bits. to may equal an operand.
  void (*combine_bytes)(uint8_t op, uint8_t act, const Number &a_number, const void *a, const Number &b_number,
                        const void *b, const Number &number, size_t count, void *to);
};

extern const NumberKernels kNumberKernelsBaseline;
extern const NumberKernels kNumberKernelsAvx2;
extern const NumberKernels kNumberKernelsAvx512;
/// The table for the host's CPU.
const NumberKernels &number_kernels();

}  // namespace npu::model

#endif  // NPU_MODEL_COMPUTE_ONEDNN_NUMBER_KERNELS_H
