// SPDX-License-Identifier: MIT
#include "ort/ep/body.h"

#include <algorithm>
#include <string>
#include <vector>

namespace npu::ort {
namespace {

using Values = std::vector<Ort::ConstValueInfo>;

/// The name that the model gives to its network.
std::string network_name(Ort::ConstGraph graph) {
  Ort::AllocatorWithDefaultOptions allocator;
  return graph.GetModelMetadata().GetGraphNameAllocated(allocator).get();
}

bool is_of_type(const Values &values, size_t place, ONNXTensorElementDataType type) {
  if (place >= values.size() || !values[place]) return false;
  const Ort::ConstTypeInfo info = values[place].TypeInfo();
  return info && info.GetONNXType() == ONNX_TYPE_TENSOR && info.GetTensorTypeAndShapeInfo().GetElementType() == type;
}

/// The number of the turn and the condition come in, and the condition goes out.
bool has_ports_of_loop(Ort::ConstGraph graph) {
  const Values inputs = graph.GetInputs();
  return is_of_type(inputs, 0, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64) &&
         is_of_type(inputs, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL) &&
         is_of_type(graph.GetOutputs(), 0, ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL);
}

bool has_outer(const Values &values) {
  return std::any_of(values.begin(), values.end(), [](const auto &v) { return v && v.IsFromOuterScope(); });
}

bool reads_outside(Ort::ConstGraph graph) {
  const std::vector<Ort::ConstNode> nodes = graph.GetNodes();
  return std::any_of(nodes.begin(), nodes.end(), [](const Ort::ConstNode &node) {
    return has_outer(node.GetInputs()) || has_outer(node.GetImplicitInputs());
  });
}

}  // namespace

bool is_body(Ort::ConstGraph graph, uint32_t interface) {
  if (interface >= kAbiParents) return graph.GetParentNode() != nullptr;
  if (graph.GetParentNode() || network_name(graph) != std::string(graph.GetName())) return true;
  // A branch of If has no inputs. A network without inputs is constant, and ONNX Runtime has computed it.
  return graph.GetInputs().empty() || has_ports_of_loop(graph) || reads_outside(graph);
}

}  // namespace npu::ort
