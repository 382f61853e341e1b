// SPDX-License-Identifier: MIT
// The definition of each command as a function. No state, no allocation that outlives a call; safe from any number of
// threads.
#ifndef NPU_MODEL_COMPUTE_REFERENCE_H
#define NPU_MODEL_COMPUTE_REFERENCE_H

#include "qemu-device/model/src/backend.h"

namespace npu::model::reference {

/// `wgt` and `bias` may have any alignment; the other operands are aligned. `out` may equal `psum`.
void conv(const npu_cmd_conv &c, const float *in, const void *wgt, const void *bias, const float *psum, float *out);
void matmul(const npu_cmd_matmul &c, const float *a, const void *b, const void *bias, const float *psum, float *out);
void pool(const npu_cmd_pool &c, const float *in, float *out);
void eltwise(const npu_cmd_eltwise &c, const float *a, const float *b, float *out);
void unary(const npu_cmd_unary &c, const float *in, float *out);
void softmax(const npu_cmd_softmax &c, const float *in, float *out);

/// x[i] = act(x[i]); act is one of NONE to TANH.
void activate(uint8_t act, float act_a, float act_b, float *x, size_t count);

}  // namespace npu::model::reference

#endif  // NPU_MODEL_COMPUTE_REFERENCE_H
