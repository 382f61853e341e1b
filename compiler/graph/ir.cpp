// SPDX-License-Identifier: MIT
#include "compiler/graph/ir.h"

#include <algorithm>

namespace npu::graph {

Status infer(const Graph &graph, const Node &node, TensorKind &out) {
  std::vector<const TensorKind *> operands;
  for (ValueId v : node.inputs) operands.push_back(v == kNoValue ? nullptr : &graph[v]);
  return cpu::infer(node.op, node.attrs, operands, out);
}

bool is_quantized(const Node &node) {
  switch (node.op) {
    case Op::Conv:
      return std::get<ConvAttrs>(node.attrs).quant.on;
    case Op::MatMul:
      return std::get<MatMulAttrs>(node.attrs).quant.on;
    case Op::Binary:
      return cpu::is_quantized(std::get<BinaryAttrs>(node.attrs));
    case Op::Pool:
      return cpu::is_quantized(std::get<PoolAttrs>(node.attrs));
    case Op::Softmax:
      return cpu::is_quantized(std::get<SoftmaxAttrs>(node.attrs));
    default:
      return node.op == Op::Requant || node.op == Op::Lookup;
  }
}

ValueId Graph::add_constant(TensorPtr tensor, std::string value_name) {
  Value v;
  v.name = std::move(value_name);
  v.dtype = tensor->dtype;
  v.shape = tensor->shape;
  v.constant = std::move(tensor);
  return add_value(std::move(v));
}

bool Graph::is_output(ValueId id) const { return std::find(outputs.begin(), outputs.end(), id) != outputs.end(); }

std::vector<int> Graph::use_counts() const {
  std::vector<int> uses(values.size());
  for (const Node &n : nodes)
    for (ValueId v : n.inputs)
      if (v != kNoValue) ++uses[static_cast<size_t>(v)];
  for (ValueId v : outputs) ++uses[static_cast<size_t>(v)];
  return uses;
}

std::vector<int> Graph::producers() const {
  std::vector<int> made(values.size(), -1);
  for (size_t i = 0; i < nodes.size(); ++i) made[static_cast<size_t>(nodes[i].output)] = static_cast<int>(i);
  return made;
}

}  // namespace npu::graph
