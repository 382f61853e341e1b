// SPDX-License-Identifier: MIT
// Which parts of a float32 network compute with integers of 8 bits, and which values become integers for that: as much
// as fuse_quantized() makes integer operators of (compiler/passes/passes.h).
#ifndef NPU_QUANTIZE_PLAN_H
#define NPU_QUANTIZE_PLAN_H

#include <set>

#include "compiler/graph/ir.h"

namespace npu::quantize {

/// What becomes one integer operator.
struct Layer {
  std::vector<size_t> nodes;  ///< of the graph, in order; the first names it
  graph::ValueId result = graph::kNoValue;
};

struct Plan {
  std::vector<Layer> layers;            ///< in order of execution
  std::vector<bool> integer;            ///< for each node: whether it is in a layer
  std::vector<graph::ValueId> values;   ///< that become integers, in the order in which they are made
  std::vector<graph::ValueId> leaders;  ///< of each of these: values with the same leader have the same range
  std::vector<bool> outputs;            ///< for each of the network: whether it is stored as integers
  std::vector<bool> real;               ///< for each value: float32 operators read it as it is
};

/// Whether integers go through a node as they are: what it makes are elements of its first operand, or zeros.
bool passes_integers(const graph::Node &node);

/// True if the result of a node has the numbers of its only operand and no others.
bool keeps_numbers(const graph::Node &node);

/// True for a convolution that multiplies each channel with a number of its own, as join_affine() makes it.
bool scales_channels(const graph::Graph &graph, const graph::Node &node);

/// `keep`: nodes that stay in float32, by source. `real`: values that no integers stand for; parts and maxima of them
/// may become integers. `outputs`: those of the network that become integers, by name; one that is an input or a
/// constant, or is not float32, does not. Passes that make other operators of float32 ones have run.
Plan make_plan(const graph::Graph &graph, const std::set<int> &keep, const std::set<graph::ValueId> &real,
               const std::set<std::string> &outputs);

}  // namespace npu::quantize

#endif  // NPU_QUANTIZE_PLAN_H
