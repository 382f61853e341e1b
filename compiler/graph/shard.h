// SPDX-License-Identifier: MIT
// A network on several cores: each core computes a part of each result, and tensors of which a core needs more than it
// computes go through memory.
//
// A result is cut along one dimension (rows, channels, batch), or computed whole by every core. What a core needs of an
// operand follows from its part of the result: some more rows for a window, all channels for a convolution that mixes
// them. What it does not compute itself it reads from an exchange, a tensor in memory of which each core writes what
// others need.
#ifndef NPU_GRAPH_SHARD_H
#define NPU_GRAPH_SHARD_H

#include "compiler/graph/cut_rules.h"

namespace npu::graph {

/// How the results of a network are cut.
struct Cuts {
  int cores = 1;
  std::vector<int> axis;  ///< of each node's result, or kWhole
  double cycles = 0;      ///< estimated
};

/// Where an input or output of a core's graph lies: a tensor in memory, an input or output of the network or an
/// exchange.
struct Port {
  bool exchange = false;
  int index = 0;               ///< among the network's inputs or outputs, or among the exchanges
  Shape whole;                 ///< of the tensor
  std::vector<int> order;      ///< its dimensions in memory, from the outermost
  std::vector<int64_t> begin;  ///< of an output, where its first element is in the tensor
  bool shared = false;         ///< other cores write parts of the tensor, or read it
};

/// What one core computes.
struct CoreGraph {
  Graph graph;
  std::vector<Port> inputs, outputs;  ///< those of the graph
};

/// A network that one core computes.
CoreGraph alone(Graph graph);

/// The order of dimensions in which a tensor of the network lies in memory: 0, 1, ...
std::vector<int> row_major(size_t rank);

struct Sharded {
  std::vector<CoreGraph> cores;
  std::vector<int64_t> exchanges;  ///< bytes of each
};

/// Makes the graphs of the cores. What several cores need of a constant is one tensor for all of them.
Status shard(const Graph &graph, const Cuts &cuts, Sharded &out);

/// Ways of cutting a network that are worth compiling: those that seem faster than one core, or `all`. None where there
/// is nothing to be cut.
std::vector<Cuts> find_cuts(const Graph &graph, int cores, bool all);

}  // namespace npu::graph

#endif  // NPU_GRAPH_SHARD_H
