// SPDX-License-Identifier: MIT
// Which part of a network runs on the chip, and which on the CPU.
#ifndef NPU_GRAPH_PARTITION_H
#define NPU_GRAPH_PARTITION_H

#include "compiler/graph/ir.h"
#include "npu_regs.h"

namespace npu::graph {

/// The most parts that a network is cut into: as many sub-networks fit into a .bmodel.
inline constexpr size_t kMaxParts = 256;

/// Inputs and outputs of a part of the chip at most. The other regions of its jobs are coefficients, activations and
/// the commands of two engines.
inline constexpr size_t kMaxPartTensors = NPU_MAX_REGIONS - 4;

/// Nodes that run together, as a graph of their own.
struct Part {
  bool on_chip = true;
  Graph graph;                           ///< with the sources of the whole network
  std::vector<ValueId> inputs, outputs;  ///< values of the whole network, in the order of graph.inputs and outputs
};

/// Only a softmax of float32 is cut within a row; else a row has to fit the smallest local memory with its result.
inline constexpr int64_t kWholeRow = 8192;

/// The first tensor of a node, operands before the result, whose type keeps the node from the chip; kNoValue: types do
/// not.
ValueId unsuitable_tensor(const Graph &graph, const Node &node);

/// True if the chip has commands for an operator like this node's, of any types.
bool has_command(const Graph &graph, const Node &node);

/// Whether the chip has commands for a node. Else the CPU computes it.
bool runs_on_chip(const Graph &graph, const Node &node);

/// Cuts a network into parts that run one after another. Each part has as many nodes as can run before it is the other
/// side's turn. Work on the chip that is less than what changing sides costs is left to the CPU, where it lies between
/// work of the CPU. A part of the chip with more than kMaxPartTensors inputs and outputs becomes several, and a
/// concatenation of more tensors a tree. A network that the chip can compute as a whole is one part.
std::vector<Part> partition(Graph &graph);

}  // namespace npu::graph

#endif  // NPU_GRAPH_PARTITION_H
