// SPDX-License-Identifier: MIT
#include "compiler/import/op_context.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "compiler/graph/evaluate.h"
#include "compiler/graph/quantized_constant.h"
#include "compiler/import/node_order.h"
#include "runtime/cpu/element.h"

namespace npu::graph {

namespace {

/// What small files may make of themselves.
constexpr int64_t kMaxConstantBytes = int64_t{4} << 30, kMaxFoldedBytes = int64_t{8} << 30;

}  // namespace

const RawAttribute *OpContext::find(const char *name) const {
  const auto it = node.attributes.find(name);
  return it == node.attributes.end() ? nullptr : &it->second;
}

void OpContext::wrong_type(const char *name, const char *expected) const {
  if (wrong_attribute_.empty())
    wrong_attribute_ = std::string("attribute ") + name + " has another type than expected: " + expected;
}

int64_t OpContext::attr_i(const char *name, int64_t fallback) const {
  const RawAttribute *a = find(name);
  if (a && !a->i) wrong_type(name, "an integer");
  return a && a->i ? *a->i : fallback;
}

float OpContext::attr_f(const char *name, float fallback) const {
  const RawAttribute *a = find(name);
  if (a && !a->f) wrong_type(name, "a float");
  return a && a->f ? *a->f : fallback;
}

std::string OpContext::attr_s(const char *name, const std::string &fallback) const {
  const RawAttribute *a = find(name);
  if (a && !a->s) wrong_type(name, "a string");
  return a && a->s ? *a->s : fallback;
}

std::vector<int64_t> OpContext::attr_ints(const char *name) const {
  const RawAttribute *a = find(name);
  if (a && a->is_single()) wrong_type(name, "a list of integers");
  return a ? a->ints : std::vector<int64_t>{};
}

std::vector<float> OpContext::attr_floats(const char *name) const {
  const RawAttribute *a = find(name);
  if (a && a->is_single()) wrong_type(name, "a list of floats");
  return a ? a->floats : std::vector<float>{};
}

std::vector<std::string> OpContext::attr_strings(const char *name) const {
  const RawAttribute *a = find(name);
  if (a && a->is_single()) wrong_type(name, "a list of strings");
  return a ? a->strings : std::vector<std::string>{};
}

const RawGraph *OpContext::attr_graph(const char *name) const {
  const RawAttribute *a = find(name);
  return a ? a->graph.get() : nullptr;
}

Status OpContext::axes(size_t k, int64_t since, bool all_by_default, std::vector<int> &out) const {
  std::vector<int64_t> given;
  if (opset < since)
    given = attr_ints("axes");
  else if (has_input(k))
    NPU_TRY(const_ints(k, "axes", given));
  std::vector<bool> wanted(shape(0).size(), given.empty() && all_by_default);
  for (int64_t value : given) {
    int at;
    NPU_TRY(axis(value, rank(0), at));
    if (wanted[static_cast<size_t>(at)]) return Status::error("axis " + std::to_string(value) + " is named twice");
    wanted[static_cast<size_t>(at)] = true;
  }
  out.clear();
  for (size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i]) out.push_back(static_cast<int>(i));
  return {};
}

Status OpContext::need_inputs(size_t least, size_t most) const {
  for (size_t k = 0; k < least; ++k)
    if (!has_input(k)) return Status::error("input " + std::to_string(k) + " is missing");
  if (inputs_.size() > most)
    return Status::error("it has " + std::to_string(inputs_.size()) + " inputs, at most " + std::to_string(most) +
                         " are expected");
  return {};
}

namespace {

/// Refuses an operand that arrives at run time. Names the option that would make it known, if one small input does.
Status not_known(const Graph &g, ValueId v, const char *what) {
  constexpr int64_t kFewElements = 8;
  const ValueId origin = only_origin(g, v);
  std::string hint;
  if (const int64_t count = origin == kNoValue ? 0 : element_count(g[origin].shape);
      count >= 1 && count <= kFewElements)
    hint = ": --input " + printable(g[origin].name) + (count == 1 ? "=VALUE" : "=VALUE,...") + " makes it known";
  return refuse(Obstacle::Value,
                std::string(what) + " ('" + printable(g[v].name) + "') is not known at compile time" + hint);
}

}  // namespace

Status OpContext::const_ints(size_t k, const char *what, std::vector<int64_t> &out) const {
  const Value &v = value(k);
  if (!v.constant) return not_known(graph, in(k), what);
  if (!to_ints(*v.constant, out))
    return refuse(Obstacle::Type, std::string(what) + " is " + dtype_name(v.dtype) + ", integers were expected");
  return {};
}

Status OpContext::const_floats(size_t k, const char *what, std::vector<float> &out) const {
  const Value &v = value(k);
  if (!v.constant) return not_known(graph, in(k), what);
  if (v.dtype != Dtype::F32)
    return refuse(Obstacle::Type, std::string(what) + " is " + dtype_name(v.dtype) + ", float32 was expected");
  out.assign(v.constant->as<float>(), v.constant->as<float>() + v.constant->count());
  return {};
}

Status OpContext::axis(int64_t value, int64_t rank, int &out, bool end) const {
  if (value < -rank || value > (end ? rank : rank - 1))
    return Status::error("axis " + std::to_string(value) + " of a tensor with " + std::to_string(rank) + " dimensions");
  out = static_cast<int>(value < 0 ? value + rank : value);
  return {};
}

Status OpContext::count_constant(const TensorKind &kind) {
  const int64_t bytes = element_count(kind.shape) * dtype_bytes(kind.dtype);
  if (bytes > kMaxConstantBytes)
    return refuse(Obstacle::Size, "its result " + kind_text(kind) + " is constant and has more than 4 GiB");
  graph.folded_bytes += bytes;
  if (graph.folded_bytes > kMaxFoldedBytes)
    return refuse(Obstacle::Size, "the constants that are computed at compile time have more than " +
                                      std::to_string(kMaxFoldedBytes >> 30) + " GiB together");
  return {};
}

Status OpContext::emit(Op op, std::vector<ValueId> inputs, Attrs attrs, ValueId &out) {
  Node n;
  n.op = op;
  n.source = source_;
  n.inputs = std::move(inputs);
  n.attrs = std::move(attrs);
  Value result;
  NPU_TRY(infer(graph, n, result));
  bool constant = element_count(result.shape) == 0;
  constant = constant || std::all_of(n.inputs.begin(), n.inputs.end(),
                                     [&](ValueId v) { return v == kNoValue || graph.is_constant(v); });
  if (constant) {
    NPU_TRY(count_constant(result));
    auto tensor = std::make_shared<Tensor>(result.dtype, result.shape);
    const Status folded = tensor->count() ? fold_node(graph, n, *tensor) : Status();
    if (!perhaps) NPU_TRY(folded);
    if (folded.ok()) {
      std::shared_ptr<const QuantizedConstant> integers = tensor->count() ? moved_integers(graph, n) : nullptr;
      out = graph.add_constant(std::move(tensor));
      graph[out].quantized = std::move(integers);
      return {};
    }
  }
  out = n.output = graph.add_value(std::move(result));
  graph.nodes.push_back(std::move(n));
  return {};
}

ValueId OpContext::scalar(double value, Dtype type) {
  auto tensor = std::make_shared<Tensor>(type, Shape{});
  cpu::store(*tensor, 0, value);
  return constant(std::move(tensor));
}

Status OpContext::unary(ActKind kind, ValueId x, ValueId &out, float a, float b) {
  return emit(Op::Unary, {x}, UnaryAttrs{{kind, a, b}}, out);
}

Status OpContext::binary(BinaryKind kind, ValueId a, ValueId b, ValueId &out) {
  return emit(Op::Binary, {a, b}, BinaryAttrs{kind, {}}, out);
}

Status OpContext::binary(BinaryKind kind, ValueId a, double b, ValueId &out) {
  return binary(kind, a, scalar_like(a, b), out);
}

Status OpContext::cast(ValueId x, Dtype to, ValueId &out) {
  out = to == Dtype::F32 && graph[x].as_float != kNoValue ? graph[x].as_float : x;
  return graph[out].dtype == to ? Status() : emit(Op::Cast, {x}, CastAttrs{to}, out);
}

Status OpContext::reshape(ValueId x, Shape shape, ValueId &out) {
  out = x;
  return graph[x].shape == shape ? Status() : emit(Op::Reshape, {x}, ShapeAttrs{std::move(shape)}, out);
}

Status OpContext::expand(ValueId x, Shape shape, ValueId &out) {
  out = x;
  return graph[x].shape == shape ? Status() : emit(Op::Expand, {x}, ShapeAttrs{std::move(shape)}, out);
}

Status OpContext::transpose(ValueId x, std::vector<int> perm, ValueId &out) {
  out = x;
  bool same = perm.size() == graph[x].shape.size();
  for (size_t i = 0; same && i < perm.size(); ++i) same = perm[i] == static_cast<int>(i);
  return same ? Status() : emit(Op::Transpose, {x}, TransposeAttrs{std::move(perm)}, out);
}

Status OpContext::slice(ValueId x, int axis, int64_t start, int64_t count, ValueId &out, int64_t step) {
  const Shape &shape = graph[x].shape;
  out = x;
  if (axis < 0 || static_cast<size_t>(axis) >= shape.size())
    return Status::error("axis " + std::to_string(axis) + " of " + shape_text(shape));
  const auto d = static_cast<size_t>(axis);
  if (start == 0 && step == 1 && count == shape[d]) return {};
  SliceAttrs attrs{std::vector<int64_t>(shape.size(), 0), std::vector<int64_t>(shape.size(), 1), shape};
  attrs.start[d] = start;
  attrs.step[d] = step;
  attrs.count[d] = count;
  return emit(Op::Slice, {x}, std::move(attrs), out);
}

Status OpContext::concat(int axis, std::vector<ValueId> parts, ValueId &out) {
  if (parts.size() != 1) return emit(Op::Concat, std::move(parts), ConcatAttrs{axis}, out);
  out = parts[0];
  return {};
}

Status OpContext::pad(ValueId x, std::vector<int64_t> begin, std::vector<int64_t> end, double value, ValueId &out) {
  out = x;
  const auto zero = [](int64_t v) { return v == 0; };
  return std::all_of(begin.begin(), begin.end(), zero) && std::all_of(end.begin(), end.end(), zero)
             ? Status()
             : emit(Op::Pad, {x}, PadAttrs{std::move(begin), std::move(end), value}, out);
}

Status OpContext::matmul(ValueId a, ValueId b, ValueId &out) {
  return emit(Op::MatMul, {a, b, kNoValue}, MatMulAttrs{}, out);
}

Status OpContext::where(ValueId condition, ValueId a, ValueId b, ValueId &out) {
  return emit(Op::Where, {condition, a, b}, std::monostate{}, out);
}

Status OpContext::reduce(ReduceKind kind, ValueId x, std::vector<int> axes, bool keep, ValueId &out) {
  std::sort(axes.begin(), axes.end());
  Shape left;
  for (size_t i = 0; i < graph[x].shape.size(); ++i)
    if (!std::binary_search(axes.begin(), axes.end(), static_cast<int>(i))) left.push_back(graph[x].shape[i]);
  out = x;
  if (!axes.empty()) NPU_TRY(emit(Op::Reduce, {x}, ReduceAttrs{kind, std::move(axes)}, out));
  return keep ? Status() : reshape(out, std::move(left), out);
}

Status OpContext::gather(int axis, ValueId x, ValueId indices, ValueId &out) {
  return emit(Op::Gather, {x, indices}, GatherAttrs{axis}, out);
}

Dtype working_type(Dtype type) {
  return type == Dtype::F16 || type == Dtype::BF16 || type == Dtype::F64 ? Dtype::F32 : type;
}

namespace {

/// "%.9g"
std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

}  // namespace

TensorPtr working_tensor(TensorPtr tensor, const std::string &what, Graph &graph) {
  if (working_type(tensor->dtype) == tensor->dtype) return tensor;
  auto out = std::make_shared<Tensor>(Dtype::F32, tensor->shape);
  cpu::cast(*tensor, cpu::Overflow::Saturate, *out);
  if (tensor->dtype != Dtype::F64) return out;
  constexpr float kMost = std::numeric_limits<float>::max();
  int64_t count = 0, first = 0;
  for (int64_t i = 0; i < out->count(); ++i) {
    const double given = tensor->as<double>()[i];
    float &value = out->as<float>()[i];
    if (!std::isfinite(given) || std::isfinite(value)) continue;
    value = given < 0 ? -kMost : kMost;
    if (count++ == 0) first = i;
  }
  if (count == 0) return out;
  graph.saturated = true;
  const std::string note = what + ": element " + std::to_string(first) + " is " +
                           number_text(tensor->as<double>()[first]) +
                           " in float64, which float32 cannot hold, and became " +
                           number_text(static_cast<double>(out->as<float>()[first])) +
                           (count > 1 ? "; so did " + std::to_string(count - 1) + " more" : "");
  // A loop converts its body many times.
  if (std::ranges::find(graph.warnings, note) == graph.warnings.end()) graph.warnings.push_back(note);
  return out;
}

const MicrosoftEntry *find_microsoft(std::string_view type) {
  for (auto table : {microsoft_ops(), microsoft_float_ops(), microsoft_attention_ops()})
    for (const MicrosoftEntry &e : table)
      if (e.type == type) return &e;
  return nullptr;
}

OpHandler find_op(std::string_view domain, std::string_view type) {
  if (domain == kMicrosoft) {
    const MicrosoftEntry *found = find_microsoft(type);
    return found ? found->handler : nullptr;
  }
  if (!domain.empty()) return nullptr;
  for (auto table : {window_ops(), matrix_ops(), eltwise_ops(), shape_ops(), move_ops(), resize_ops(), activation_ops(),
                     norm_ops(), control_ops(), reduce_ops(), logic_ops(), index_ops(), recurrent_ops(), sample_ops(),
                     signal_ops(), loss_ops(), quantize_ops(), quantized_product_ops()})
    for (const OpEntry &e : table)
      if (e.type == type) return e.handler;
  return nullptr;
}

}  // namespace npu::graph
