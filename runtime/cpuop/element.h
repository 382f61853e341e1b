// SPDX-License-Identifier: MIT
// Elements of any type as double, which holds all of them exactly.
#ifndef NPU_CPUOP_ELEMENT_H
#define NPU_CPUOP_ELEMENT_H

#include "cpuop.h"

namespace npu::cpuop {

double load(const Tensor &t, int64_t i);
/// To integers towards zero and saturated, NaN as 0; to floats rounded once, to nearest even.
void store(Tensor &t, int64_t i, double value);
/// Gives an output its memory.
void make(Tensor &t);
void nms(const npu_cpu_param &param, const Tensor &boxes, const Tensor &scores, Tensor &selected, Tensor &number);

}  // namespace npu::cpuop

#endif  // NPU_CPUOP_ELEMENT_H
