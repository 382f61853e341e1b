// SPDX-License-Identifier: MIT
// Arrays of numpy (.npy, format 1 to 3).
#ifndef NPU_ARRAYS_NPY_H
#define NPU_ARRAYS_NPY_H

#include <string_view>

#include "common/status.h"
#include "runtime/cpu/tensor.h"

namespace npu::arrays {

/// The array of a file's bytes, in C order and little-endian, which it need not be in the file. What is no array of
/// numbers or bool is an error.
Status parse_npy(std::string_view bytes, cpu::TensorPtr &out);
/// The same of a file; errors name it.
Status read_npy(const std::string &path, cpu::TensorPtr &out);

}  // namespace npu::arrays

#endif  // NPU_ARRAYS_NPY_H
