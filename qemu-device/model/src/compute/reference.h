// SPDX-License-Identifier: MIT
// What the definitions of several commands share.
#ifndef NPU_MODEL_COMPUTE_REFERENCE_H
#define NPU_MODEL_COMPUTE_REFERENCE_H

#include <cstddef>
#include <cstdint>

namespace npu::model {

/// x[i] = act(x[i]); act is one of NONE to TANH.
void activate(uint8_t act, float act_a, float act_b, float *x, size_t count);

}  // namespace npu::model

#endif  // NPU_MODEL_COMPUTE_REFERENCE_H
