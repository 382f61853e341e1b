// SPDX-License-Identifier: MIT
#include "compiler/graph/evaluate.h"

#include "runtime/cpu/operators.h"

namespace npu::graph {

Status evaluate_node(const Node &node, const std::vector<const Tensor *> &operands, Tensor &out) {
  for (size_t i = 0; i < operands.size(); ++i)
    if (operands[i] && dtype_bytes(operands[i]->dtype) == 0)
      return Status::error("an operand has an element type that is not supported");
  const Tensor &x = *operands[0];
  const Tensor *third = operands.size() > 2 ? operands[2] : nullptr;
  switch (node.op) {
    case Op::Conv:
      cpu::conv(std::get<ConvAttrs>(node.attrs), x, *operands[1], third, out);
      return {};
    case Op::MatMul:
      cpu::matmul(std::get<MatMulAttrs>(node.attrs), x, *operands[1], third, out);
      return {};
    case Op::Pool:
      cpu::pool(std::get<PoolAttrs>(node.attrs), x, out);
      return {};
    case Op::Binary:
      return cpu::binary(std::get<BinaryAttrs>(node.attrs), x, *operands[1], out);
    case Op::Unary:
      cpu::unary(std::get<UnaryAttrs>(node.attrs), x, out);
      return {};
    case Op::Softmax:
      cpu::softmax(std::get<SoftmaxAttrs>(node.attrs), x, out);
      return {};
    case Op::Transpose:
      cpu::transpose(std::get<TransposeAttrs>(node.attrs), x, out);
      return {};
    case Op::Reshape:
      out.data = x.data;
      return {};
    case Op::Concat:
      cpu::concat(std::get<ConcatAttrs>(node.attrs).axis, operands, out);
      return {};
    case Op::Slice:
      cpu::slice(std::get<SliceAttrs>(node.attrs), x, out);
      return {};
    case Op::Pad:
      cpu::pad(std::get<PadAttrs>(node.attrs), x, out);
      return {};
    case Op::Expand:
      cpu::expand(x, out);
      return {};
    case Op::Gather:
      cpu::gather(std::get<GatherAttrs>(node.attrs).axis, x, *operands[1], out);
      return {};
    case Op::Cast:
      cpu::cast(x, cpu::Overflow::Wrap, out);
      return {};
  }
  return Status::error("unknown operator");
}

Status fold_node(const Graph &graph, const Node &node, Tensor &out) {
  std::vector<const Tensor *> operands;
  for (ValueId v : node.inputs) operands.push_back(v == kNoValue ? nullptr : graph[v].constant.get());
  return evaluate_node(node, operands, out);
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
    for (ValueId v : n.inputs) operands.push_back(v == kNoValue ? nullptr : values[static_cast<size_t>(v)]);
    made.push_back(std::make_unique<Tensor>(graph[n.output].dtype, graph[n.output].shape));
    NPU_TRY(evaluate_node(n, operands, *made.back()));
    values[static_cast<size_t>(n.output)] = made.back().get();
  }
  outputs.clear();
  for (ValueId v : graph.outputs) outputs.push_back(*values[static_cast<size_t>(v)]);
  return {};
}

}  // namespace npu::graph
