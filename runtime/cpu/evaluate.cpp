// SPDX-License-Identifier: MIT
#include "evaluate.h"

#include "kernels.h"

namespace npu::cpu {

using graph::Graph;
using graph::Node;
using graph::Op;

namespace {

void transpose(const graph::TransposeAttrs &attrs, const Tensor &x, Tensor &out) {
  const std::vector<int64_t> dense = graph::dense_strides(x.shape);
  std::vector<int64_t> strides;
  for (int p : attrs.perm) strides.push_back(dense[static_cast<size_t>(p)]);
  strided_copy(x, 0, strides, out);
}

void slice(const graph::SliceAttrs &attrs, const Tensor &x, Tensor &out) {
  std::vector<int64_t> strides = graph::dense_strides(x.shape);
  int64_t offset = 0;
  for (size_t d = 0; d < strides.size(); ++d) {
    offset += attrs.start[d] * strides[d];
    strides[d] *= attrs.step[d];
  }
  strided_copy(x, offset, strides, out);
}

void expand(const Tensor &x, Tensor &out) {
  const std::vector<int64_t> dense = graph::dense_strides(x.shape);
  std::vector<int64_t> strides(out.shape.size(), 0);
  for (size_t d = 0; d < x.shape.size(); ++d)
    if (x.shape[d] != 1) strides[d + out.shape.size() - x.shape.size()] = dense[d];
  strided_copy(x, 0, strides, out);
}

}  // namespace

Status evaluate_node(const Graph &, const Node &node, const std::vector<const Tensor *> &operands, Tensor &out) {
  for (size_t i = 0; i < operands.size(); ++i)
    if (operands[i] && operands[i]->dtype == graph::Dtype::Undefined)
      return Status::error("an operand has an element type that is not supported");
  const Tensor &x = *operands[0];
  const Tensor *third = operands.size() > 2 ? operands[2] : nullptr;
  switch (node.op) {
    case Op::Conv:
      conv(std::get<graph::ConvAttrs>(node.attrs), x, *operands[1], third, out);
      return {};
    case Op::MatMul:
      matmul(std::get<graph::MatMulAttrs>(node.attrs), x, *operands[1], third, out);
      return {};
    case Op::Pool:
      pool(std::get<graph::PoolAttrs>(node.attrs), x, out);
      return {};
    case Op::Binary:
      return binary(std::get<graph::BinaryAttrs>(node.attrs), x, *operands[1], out);
    case Op::Unary:
      unary(std::get<graph::UnaryAttrs>(node.attrs), x, out);
      return {};
    case Op::Softmax:
      softmax(std::get<graph::SoftmaxAttrs>(node.attrs), x, out);
      return {};
    case Op::Transpose:
      transpose(std::get<graph::TransposeAttrs>(node.attrs), x, out);
      return {};
    case Op::Reshape:
      out.data = x.data;
      return {};
    case Op::Concat:
      concat(std::get<graph::ConcatAttrs>(node.attrs).axis, operands, out);
      return {};
    case Op::Slice:
      slice(std::get<graph::SliceAttrs>(node.attrs), x, out);
      return {};
    case Op::Pad:
      pad(std::get<graph::PadAttrs>(node.attrs), x, out);
      return {};
    case Op::Expand:
      expand(x, out);
      return {};
    case Op::Gather:
      gather(std::get<graph::GatherAttrs>(node.attrs).axis, x, *operands[1], out);
      return {};
    case Op::Cast:
      return cast(x, out);
  }
  return Status::error("unknown operator");
}

Status fold_node(const Graph &graph, const Node &node, Tensor &out) {
  std::vector<const Tensor *> operands;
  for (graph::ValueId v : node.inputs) operands.push_back(v == graph::kNoValue ? nullptr : graph[v].constant.get());
  return evaluate_node(graph, node, operands, out);
}

Status evaluate_graph(const Graph &graph, const std::vector<Tensor> &inputs, std::vector<Tensor> &outputs) {
  std::vector<const Tensor *> values(graph.values.size());
  std::vector<std::unique_ptr<Tensor>> made;
  for (size_t i = 0; i < graph.values.size(); ++i) values[i] = graph.values[i].constant.get();
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    if (inputs[i].shape != graph[graph.inputs[i]].shape)
      return Status::error("input " + std::to_string(i) + " has the wrong shape");
    values[static_cast<size_t>(graph.inputs[i])] = &inputs[i];
  }
  for (const Node &n : graph.nodes) {
    std::vector<const Tensor *> operands;
    for (graph::ValueId v : n.inputs)
      operands.push_back(v == graph::kNoValue ? nullptr : values[static_cast<size_t>(v)]);
    made.push_back(std::make_unique<Tensor>(graph[n.output].dtype, graph[n.output].shape));
    NPU_TRY(evaluate_node(graph, n, operands, *made.back()));
    values[static_cast<size_t>(n.output)] = made.back().get();
  }
  outputs.clear();
  for (graph::ValueId v : graph.outputs) outputs.push_back(*values[static_cast<size_t>(v)]);
  return {};
}

}  // namespace npu::cpu
