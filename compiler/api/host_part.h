// SPDX-License-Identifier: MIT
// A part of a network for the CPU, in the form of a .bmodel.
#ifndef NPU_COMPILER_HOST_PART_H
#define NPU_COMPILER_HOST_PART_H

#include "compiler/graph/partition.h"
#include "runtime/bmodel/builder.h"

namespace npu::compiler {

/// Makes `sub` a sub-network of the CPU that computes the part. Its tensors are the caller's to set.
Status make_host_part(const graph::Part &part, bmodel::SubNetDesc &sub);

/// A tensor of a graph as a .bmodel has it.
bmodel::TensorDesc tensor_desc(const std::string &name, const graph::Value &value);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_HOST_PART_H
