// SPDX-License-Identifier: MIT
// What a sub-network for the CPU computes: the operators of cpu_param.h, on tensors in system memory.
//
// No state: any number of threads may call.
#ifndef NPU_CPUOP_H
#define NPU_CPUOP_H

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cpu_param.h"

namespace npu::cpuop {

/// Numbers are bm_data_type_t's.
enum Type : uint32_t { kF32, kF16, kS8, kU8, kS16, kU16, kS32, kU32, kBf16 };

/// A tensor, row-major.
struct Tensor {
  uint32_t type = kF32;
  std::vector<int64_t> shape;
  std::vector<uint8_t> data;  ///< empty while only its kind matters
};

int64_t elements(const Tensor &t);

/// "TopK" and so on; "unknown" for other numbers.
const char *op_name(int32_t op);

/// Whether an operator with these parameters takes and makes such tensors. Returns an empty string or what is wrong and
/// what was expected.
std::string check(int32_t op, const npu_cpu_param &param, std::span<const Tensor> inputs,
                  std::span<const Tensor> outputs);

/// Computes. check() has passed; inputs have their data, outputs get theirs.
void run(int32_t op, const npu_cpu_param &param, std::span<const Tensor> inputs, std::span<Tensor> outputs);

/// Whether the first element is not 0. NaN is true.
bool is_true(const Tensor &condition);

}  // namespace npu::cpuop

#endif  // NPU_CPUOP_H
