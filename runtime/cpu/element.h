// SPDX-License-Identifier: MIT
// Single elements of tensors of any type.
#ifndef NPU_CPU_ELEMENT_H
#define NPU_CPU_ELEMENT_H

#include "runtime/cpu/operators.h"

namespace npu::cpu {

/// Integers and bool.
bool is_integer(Dtype type);

/// As double, which holds all but 64-bit integers exactly.
double load(const Tensor &t, int64_t i);
/// To integers towards zero and saturated, NaN as 0; to floating-point numbers rounded once, to nearest even; to bool
/// whether it is not 0.
void store(Tensor &t, int64_t i, double value);

/// Precondition: is_integer(t.dtype).
int64_t load_integer(const Tensor &t, int64_t i);
void store_integer(Tensor &t, int64_t i, int64_t value, Overflow overflow = Overflow::Wrap);

}  // namespace npu::cpu

#endif  // NPU_CPU_ELEMENT_H
