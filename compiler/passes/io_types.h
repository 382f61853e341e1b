// SPDX-License-Identifier: MIT
// The types that a network's inputs and outputs are to have, other than those of the file.
#ifndef NPU_GRAPH_IO_TYPES_H
#define NPU_GRAPH_IO_TYPES_H

#include <map>

#include "compiler/graph/ir.h"

namespace npu::graph {

/// Whether a tensor can be given a type: float32, float16, bfloat16, int8, uint8.
bool is_io_type(Dtype type);

/// Such types; Undefined: as it is.
struct IoTypes {
  struct Side {
    Dtype all = Dtype::Undefined;        ///< of those that are float32, or integers with a scale
    std::map<std::string, Dtype> named;  ///< of these alone, instead of `all`
    bool empty() const { return all == Dtype::Undefined && named.empty(); }
  };
  Side inputs, outputs;
};

/// Gives inputs and outputs other types. Where a tensor is float32 in the graph, and integers of 8 bits are all that is
/// made of an input or that an output is made of, these become the input or output; anything else is converted at the
/// border. Error: a name that the graph does not have, 8 bits for what has no scale.
Status set_io_types(Graph &graph, const IoTypes &types);

}  // namespace npu::graph

#endif  // NPU_GRAPH_IO_TYPES_H
