// SPDX-License-Identifier: MIT
// Arrays of numpy (.npy, format 1 to 3).
#ifndef NPU_COMPILER_NPY_H
#define NPU_COMPILER_NPY_H

#include <string_view>

#include "compiler/graph/tensor.h"

namespace npu::compiler {

/// The array of a file's bytes. What is no array of little-endian numbers or bool in C order is an error.
Status parse_npy(std::string_view bytes, graph::TensorPtr &out);
/// The same of a file; errors name it.
Status read_npy(const std::string &path, graph::TensorPtr &out);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_NPY_H
