// SPDX-License-Identifier: MIT
// Sub-networks for the CPU: an operator by its number and parameters in a .bmodel (runtime/bmodel/cpu_param.h).
#ifndef NPU_CPU_SUBNET_H
#define NPU_CPU_SUBNET_H

#include <span>

#include "common/status.h"
#include "runtime/bmodel/cpu_param.h"
#include "runtime/cpu/tensor.h"

namespace npu::cpu {

/// The type that has a number of bm_data_type_t; Undefined for other numbers.
Dtype dtype_of_bm(uint32_t number);

/// The number of a type that bm_data_type_t has.
uint32_t bm_type_of(Dtype type);

/// A tensor without data yet.
Tensor make_kind(uint32_t bm_type, Shape shape);

/// "TopK" and so on; "unknown" for other numbers.
const char *cpu_operator_name(int32_t op);

/// Whether an operator with these parameters takes and makes such tensors; data is not looked at.
Status check_cpu_operator(int32_t op, const npu_cpu_param &param, std::span<const Tensor> inputs,
                          std::span<const Tensor> outputs);

/// Computes. check_cpu_operator() has passed; inputs have their data, outputs get theirs.
Status run_cpu_operator(int32_t op, const npu_cpu_param &param, std::span<const Tensor> inputs,
                        std::span<Tensor> outputs);

/// Whether the first element is not 0. NaN is true.
bool is_true(const Tensor &condition);

}  // namespace npu::cpu

#endif  // NPU_CPU_SUBNET_H
