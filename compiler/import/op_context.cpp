// SPDX-License-Identifier: MIT
#include "compiler/import/op_context.h"

#include "compiler/graph/evaluate.h"

namespace npu::graph {

const RawAttribute *OpContext::find(const char *name) const {
  const auto it = node.attributes.find(name);
  return it == node.attributes.end() ? nullptr : &it->second;
}

int64_t OpContext::attr_i(const char *name, int64_t fallback) const {
  const RawAttribute *a = find(name);
  return a && a->i ? *a->i : fallback;
}

float OpContext::attr_f(const char *name, float fallback) const {
  const RawAttribute *a = find(name);
  return a && a->f ? *a->f : fallback;
}

std::string OpContext::attr_s(const char *name, const std::string &fallback) const {
  const RawAttribute *a = find(name);
  return a && a->s ? *a->s : fallback;
}

std::vector<int64_t> OpContext::attr_ints(const char *name) const {
  const RawAttribute *a = find(name);
  return a ? a->ints : std::vector<int64_t>{};
}

Status OpContext::need_inputs(size_t least, size_t most) const {
  for (size_t k = 0; k < least; ++k)
    if (!has_input(k)) return Status::error("input " + std::to_string(k) + " is missing");
  if (inputs_.size() > most)
    return Status::error("it has " + std::to_string(inputs_.size()) + " inputs, at most " + std::to_string(most) +
                         " are expected");
  return {};
}

Status OpContext::const_ints(size_t k, const char *what, std::vector<int64_t> &out) const {
  const Value &v = value(k);
  if (!v.constant) return Status::error(std::string(what) + " ('" + v.name + "') is not known at compile time");
  if (!to_ints(*v.constant, out))
    return Status::error(std::string(what) + " is " + dtype_name(v.dtype) + ", integers were expected");
  return {};
}

Status OpContext::const_floats(size_t k, const char *what, std::vector<float> &out) const {
  const Value &v = value(k);
  if (!v.constant) return Status::error(std::string(what) + " ('" + v.name + "') is not known at compile time");
  if (v.dtype != Dtype::F32)
    return Status::error(std::string(what) + " is " + dtype_name(v.dtype) + ", float32 was expected");
  out.assign(v.constant->as<float>(), v.constant->as<float>() + v.constant->count());
  return {};
}

Status OpContext::axis(int64_t value, int64_t rank, int &out, bool end) const {
  if (value < -rank || value > (end ? rank : rank - 1))
    return Status::error("axis " + std::to_string(value) + " of a tensor with " + std::to_string(rank) + " dimensions");
  out = static_cast<int>(value < 0 ? value + rank : value);
  return {};
}

Status OpContext::emit(Op op, std::vector<ValueId> inputs, Attrs attrs, ValueId &out, Shape shape) {
  Node n;
  n.op = op;
  n.source = source_;
  n.inputs = std::move(inputs);
  n.attrs = std::move(attrs);
  Value result;
  result.shape = std::move(shape);
  NPU_TRY(infer(graph, n, result.dtype, result.shape));
  bool constant = true;
  for (ValueId v : n.inputs) constant = constant && (v == kNoValue || graph.is_constant(v));
  if (constant) {
    auto tensor = std::make_shared<Tensor>(result.dtype, result.shape);
    NPU_TRY(fold_node(graph, n, *tensor));
    out = graph.add_constant(std::move(tensor));
    return {};
  }
  if (op == Op::Cast || (result.dtype != Dtype::F32))
    return Status::error(std::string("operates on ") + dtype_name(result.dtype) +
                         " data that is not known at compile time");
  if (element_count(result.shape) == 0) return Status::error("its result " + shape_text(result.shape) + " is empty");
  out = n.output = graph.add_value(std::move(result));
  graph.nodes.push_back(std::move(n));
  return {};
}

Status OpContext::reshape(ValueId x, Shape shape, ValueId &out) {
  if (graph[x].shape == shape) {
    out = x;
    return {};
  }
  return emit(Op::Reshape, {x}, ShapeAttrs{std::move(shape)}, out);
}

Status OpContext::expand(ValueId x, Shape shape, ValueId &out) {
  if (graph[x].shape == shape) {
    out = x;
    return {};
  }
  return emit(Op::Expand, {x}, ShapeAttrs{std::move(shape)}, out);
}

OpHandler find_op(std::string_view domain, std::string_view type) {
  if (!domain.empty()) return nullptr;
  for (auto table : {window_ops(), matrix_ops(), eltwise_ops(), shape_ops(), move_ops(), resize_ops()})
    for (const OpEntry &e : table)
      if (e.type == type) return e.handler;
  return nullptr;
}

}  // namespace npu::graph
