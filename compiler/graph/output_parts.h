// SPDX-License-Identifier: MIT
// The parts of an output that was concatenated: boxes and scores in one tensor are two.
#ifndef NPU_GRAPH_OUTPUT_PARTS_H
#define NPU_GRAPH_OUTPUT_PARTS_H

#include "compiler/graph/ir.h"

namespace npu::graph {

struct OutputParts {
  std::vector<std::string> names;  ///< tensors that were concatenated; one without a name: the whole output
  std::vector<uint16_t> of;        ///< part of each element; empty: there is one
};

/// Follows an output back to the operands of Concat nodes, through moves and functions of single elements.
OutputParts output_parts(const Graph &graph, size_t output);

}  // namespace npu::graph

#endif  // NPU_GRAPH_OUTPUT_PARTS_H
