// SPDX-License-Identifier: MIT
// A sub-network for the CPU that is a graph of typed operators (NPU_CPU_GRAPH), and its form in a .bmodel.
#ifndef NPU_CPU_HOST_GRAPH_H
#define NPU_CPU_HOST_GRAPH_H

#include "runtime/cpu/node.h"

namespace npu::cpu {

/// The most memory that the values of a graph may need at once, constants left out.
inline constexpr uint64_t kMaxHostBytes = uint64_t{8} << 30;

struct HostNode {
  Op op = Op::Reshape;
  Attrs attrs;
  std::vector<int32_t> operands;  ///< values; -1: left out
  std::string name = {};          ///< of the node in the ONNX file, for messages
};

/// Values are numbered: inputs first, then constants, then the results of the nodes in their order.
struct HostGraph {
  std::vector<TensorKind> inputs;
  std::vector<TensorPtr> constants;
  std::vector<HostNode> nodes;
  std::vector<int32_t> outputs;  ///< values, of any kind

  /// Of all values; set by infer_host_graph().
  std::vector<TensorKind> kinds;
  std::vector<int32_t> last_use;  ///< index of the last node that reads a value, nodes.size() for outputs, -1: none
};

/// Checks a graph and infers its values. Nodes may only read what is in front of them.
Status infer_host_graph(HostGraph &graph);

/// Computes. The graph has been inferred; inputs have its kinds and their data. Any number of threads may call. Errors:
/// what evaluate() finds wrong in the data, if an output depends on it, and too little memory. An output does not
/// depend on the operand that a Where with one condition leaves: so branches that are not taken may be wrong.
Status run_host_graph(const HostGraph &graph, std::span<const Tensor> inputs, std::vector<Tensor> &outputs);

/// The graph as bytes; equal graphs give equal bytes.
std::vector<uint8_t> encode_host_graph(const HostGraph &graph);
/// Reads and infers a graph. Whatever the bytes are, the result is sound or an error.
Status decode_host_graph(std::span<const uint8_t> bytes, HostGraph &graph);

}  // namespace npu::cpu

#endif  // NPU_CPU_HOST_GRAPH_H
