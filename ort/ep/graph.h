// SPDX-License-Identifier: MIT
// A graph of ONNX Runtime's as plain structures, and parts of it as ONNX.
#ifndef NPU_ORT_GRAPH_H
#define NPU_ORT_GRAPH_H

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "ort/ep/ort_api.h"

namespace npu::ort {

struct GraphValue {
  std::string name;
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;  ///< of a tensor
  bool has_shape = false;
  std::vector<int64_t> dims;         ///< -1: not known before it runs
  std::vector<std::string> symbols;  ///< names of those, may be empty
  Ort::ConstValueInfo info{nullptr};
  bool constant = false;  ///< an initializer of numbers that nobody can override
};

struct GraphNode {
  Ort::ConstNode node{nullptr};
  std::string name, type, domain;
  std::vector<std::string> inputs;  ///< empty names: left out
  std::vector<std::string> outputs;
  std::vector<std::string> implicit;  ///< what its bodies read from outside
  std::string title() const { return type + " '" + (name.empty() && !outputs.empty() ? outputs[0] : name) + "'"; }
};

/// The outermost graph of a model. Valid as long as ONNX Runtime's.
struct GraphView {
  std::string name;
  std::vector<GraphNode> nodes;  ///< each behind those that it reads
  std::map<std::string, GraphValue> values;
  std::set<std::string> outputs;
  std::vector<Ort::OperatorSet> opsets;
};

GraphView read_graph(Ort::ConstGraph graph);

/// Nodes of a graph, and what they read of it and give to it.
struct Part {
  std::vector<size_t> nodes;
  std::vector<std::string> inputs, outputs;
};

/// Inputs and outputs of these nodes.
Part make_part(const GraphView &graph, std::vector<size_t> nodes);

/// The part as an ONNX file, with its constants. A node that cannot be written stands there as one that no compiler
/// knows.
std::vector<uint8_t> write_onnx(const GraphView &graph, const Part &part);

}  // namespace npu::ort

#endif  // NPU_ORT_GRAPH_H
