// SPDX-License-Identifier: MIT
// Functions of single elements, and softmax.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "compiler/import/op_context.h"

namespace npu::graph {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// One of the graph's functions, with the parameters that the attributes give.
Status activate(OpContext &c, const Activation &act) {
  NPU_TRY(c.need_inputs(1, 1));
  return c.unary(act.kind, c.in(0), c.results[0], act.a, act.b);
}

/// The same without parameters.
template <ActKind kind>
Status plain(OpContext &c) {
  return activate(c, {kind});
}

Status elu(OpContext &c) { return activate(c, {ActKind::Elu, c.attr_f("alpha", 1)}); }
Status leaky_relu(OpContext &c) { return activate(c, {ActKind::LeakyRelu, c.attr_f("alpha", 0.01f)}); }
Status hard_sigmoid(OpContext &c) {
  return activate(c, {ActKind::HardSigmoid, c.attr_f("alpha", 0.2f), c.attr_f("beta", 0.5f)});
}

Status gelu(OpContext &c) {
  const std::string how = c.attr_s("approximate", "none");
  if (how != "none" && how != "tanh")
    return Status::error("approximate is '" + how + "', 'none' or 'tanh' was expected");
  return activate(c, {ActKind::Gelu, how == "tanh" ? 1.0f : 0.0f});
}

/// Of float32 a product, so that it can move into the weights of a convolution.
Status neg(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  if (c.value(0).dtype != Dtype::F32) return activate(c, {ActKind::Neg});
  return c.binary(BinaryKind::Mul, c.in(0), -1.0, c.results[0]);
}

/// A bound of Clip as a scalar, kNoValue where there is none.
Status clip_bound(OpContext &c, size_t k, const char *name, float fallback, ValueId &out) {
  out = kNoValue;
  if (c.opset < 11)
    out = c.scalar(c.attr_f(name, fallback));
  else if (c.has_input(k) && element_count(c.shape(k)) != 1)
    return Status::error(std::string(name) + " is " + shape_text(c.shape(k)) + ", a scalar was expected");
  else if (c.has_input(k))
    return c.reshape(c.in(k), {}, out);
  return {};
}

/// Whether an activation can have that bound; no bound leaves `value`.
bool fixed_bound(const Graph &graph, ValueId bound, float &value) {
  if (bound == kNoValue) return true;
  if (!graph.is_constant(bound) || graph[bound].dtype != Dtype::F32) return false;
  value = *graph[bound].constant->as<float>();
  return !std::isnan(value);
}

Status clip(OpContext &c) {
  NPU_TRY(c.need_inputs(1, c.opset < 11 ? 1 : 3));
  ValueId low, high, y = c.in(0);
  NPU_TRY(clip_bound(c, 1, "min", std::numeric_limits<float>::lowest(), low));
  NPU_TRY(clip_bound(c, 2, "max", std::numeric_limits<float>::max(), high));
  float from = -kInfinity, to = kInfinity;
  const bool any = low != kNoValue || high != kNoValue;
  // With crossed bounds the maximum wins, as min(max(x, low), high) has it.
  if (any && c.value(0).dtype == Dtype::F32 && fixed_bound(c.graph, low, from) && fixed_bound(c.graph, high, to))
    return c.unary(ActKind::Clip, y, c.results[0], std::min(from, to), to);
  if (low != kNoValue) NPU_TRY(c.binary(BinaryKind::Max, y, low, y));
  if (high != kNoValue) NPU_TRY(c.binary(BinaryKind::Min, y, high, y));
  c.results[0] = y;
  return {};
}

/// alpha * elu(x / alpha), as the function that ONNX gives for it
Status celu(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  const float alpha = c.attr_f("alpha", 1);
  if (alpha == 0 || !std::isfinite(alpha)) return Status::error("alpha is 0 or not finite");
  if (alpha == 1) return activate(c, {ActKind::Elu, 1});
  ValueId y;
  NPU_TRY(c.binary(BinaryKind::Div, c.in(0), alpha, y));
  NPU_TRY(c.unary(ActKind::Elu, y, y, 1));
  return c.binary(BinaryKind::Mul, y, alpha, c.results[0]);
}

/// gamma * (x < 0 ? alpha * (exp(x) - 1) : x)
Status selu(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  ValueId y;
  NPU_TRY(c.unary(ActKind::Elu, c.in(0), y, c.attr_f("alpha", c.opset < 6 ? 1.6732f : 1.67326319217681884765625f)));
  return c.binary(BinaryKind::Mul, y, c.attr_f("gamma", c.opset < 6 ? 1.0507f : 1.05070102214813232421875f),
                  c.results[0]);
}

/// x * sigmoid(alpha * x)
Status swish(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  const float alpha = c.attr_f("alpha", 1);
  ValueId gate = c.in(0);
  if (alpha != 1) NPU_TRY(c.binary(BinaryKind::Mul, gate, alpha, gate));
  NPU_TRY(c.unary(ActKind::Sigmoid, gate, gate));
  return c.binary(BinaryKind::Mul, c.in(0), gate, c.results[0]);
}

/// x * tanh(log(exp(x) + 1))
Status mish(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  ValueId gate;
  NPU_TRY(c.unary(ActKind::Softplus, c.in(0), gate));
  NPU_TRY(c.unary(ActKind::Tanh, gate, gate));
  return c.binary(BinaryKind::Mul, c.in(0), gate, c.results[0]);
}

/// (exp(x) + exp(-x)) / 2, each as a square, which only overflows where the result does.
Status cosh(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  ValueId sum = kNoValue;
  for (double half : {0.5, -0.5}) {
    ValueId root, part;
    NPU_TRY(c.binary(BinaryKind::Mul, c.in(0), half, root));
    NPU_TRY(c.unary(ActKind::Exp, root, root));
    NPU_TRY(c.binary(BinaryKind::Mul, root, 0.5, part));
    NPU_TRY(c.binary(BinaryKind::Mul, part, root, part));
    if (sum == kNoValue)
      sum = part;
    else
      return c.binary(BinaryKind::Add, sum, part, c.results[0]);
  }
  return {};
}

/// x / (1 + |x|)
Status softsign(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  ValueId divisor;
  NPU_TRY(c.unary(ActKind::Abs, c.in(0), divisor));
  NPU_TRY(c.binary(BinaryKind::Add, divisor, 1.0, divisor));
  return c.binary(BinaryKind::Div, c.in(0), divisor, c.results[0]);
}

/// x > alpha ? x : 0, as m * sign(m - alpha) with m = max(x, alpha), which the chip has.
Status thresholded_relu(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  const float alpha = c.attr_f("alpha", 1);
  if (!std::isfinite(alpha)) return Status::error("alpha is not finite");
  ValueId m, y;
  NPU_TRY(c.unary(ActKind::Clip, c.in(0), m, alpha, kInfinity));
  NPU_TRY(c.binary(BinaryKind::Sub, m, alpha, y));
  NPU_TRY(c.unary(ActKind::Sign, y, y));
  return c.binary(BinaryKind::Mul, m, y, c.results[0]);
}

/// With s = sign(x - clip(x, -lambda, lambda)): (x * s - bias) * s
Status shrink_on_chip(OpContext &c, float lambda, float bias) {
  ValueId x = c.in(0), s, y;
  NPU_TRY(c.unary(ActKind::Clip, x, s, -lambda, lambda));
  NPU_TRY(c.binary(BinaryKind::Sub, x, s, s));
  NPU_TRY(c.unary(ActKind::Sign, s, s));
  NPU_TRY(c.binary(BinaryKind::Mul, x, s, y));
  if (bias != 0) NPU_TRY(c.binary(BinaryKind::Sub, y, bias, y));
  return c.binary(BinaryKind::Mul, y, s, c.results[0]);
}

/// x < -lambda ? x + bias : lambda < x ? x - bias : 0, all in the type of x
Status shrink(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  const float lambda = c.attr_f("lambd", 0.5f), bias = c.attr_f("bias", 0);
  if (!std::isfinite(lambda) || !std::isfinite(bias)) return Status::error("lambd or bias is not finite");
  if (c.value(0).dtype == Dtype::F32 && lambda >= 0) return shrink_on_chip(c, lambda, bias);
  ValueId x = c.in(0), below, above, raised, lowered;
  NPU_TRY(c.binary(BinaryKind::Less, x, -lambda, below));
  NPU_TRY(c.binary(BinaryKind::Less, c.scalar_like(x, lambda), x, above));
  NPU_TRY(c.binary(BinaryKind::Add, x, bias, raised));
  NPU_TRY(c.binary(BinaryKind::Sub, x, bias, lowered));
  NPU_TRY(c.where(above, lowered, c.scalar_like(x, 0), lowered));
  return c.where(below, raised, lowered, c.results[0]);
}

/// The slopes of PRelu so that they broadcast to x: up to operator set 6 a vector has one for each channel.
Status prelu_slope(OpContext &c, ValueId &slope) {
  Shape wide = c.shape(1), out;
  if (c.opset < 7 && wide.size() == 1 && c.rank(0) > 2) wide.resize(c.shape(0).size() - 1, 1);
  if (!broadcast_shapes(c.shape(0), wide, out) || out != c.shape(0))
    return Status::error("slopes " + shape_text(c.shape(1)) + " do not fit input " + shape_text(c.shape(0)));
  return c.reshape(c.in(1), wide, slope);
}

/// Whether the slopes are known and all the same.
bool one_slope(const Value &v, float &slope) {
  if (!v.constant || v.dtype != Dtype::F32 || v.constant->count() < 1) return false;
  const float *first = v.constant->as<float>(), *end = first + v.constant->count();
  slope = *first;
  return std::all_of(first, end, [&](float s) { return s == slope; });
}

/// max(x, 0) + slope * min(x, 0)
Status prelu(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 2));
  ValueId slope, positive, negative;
  NPU_TRY(prelu_slope(c, slope));
  float all;
  if (one_slope(c.graph[slope], all) && c.value(0).dtype == Dtype::F32)
    return c.unary(ActKind::LeakyRelu, c.in(0), c.results[0], all);
  NPU_TRY(c.unary(ActKind::Relu, c.in(0), positive));
  NPU_TRY(c.binary(BinaryKind::Min, c.in(0), 0.0, negative));
  NPU_TRY(c.binary(BinaryKind::Mul, negative, slope, negative));
  return c.binary(BinaryKind::Add, positive, negative, c.results[0]);
}

/// The operand and axis of Softmax, LogSoftmax and Hardmax. Up to operator set 12 everything from the axis on is one
/// row of a matrix.
Status rows(OpContext &c, ValueId &x, int &axis) {
  NPU_TRY(c.need_inputs(1, 1));
  const bool flat = c.opset < 13;
  const Shape shape = c.shape(0);
  x = c.in(0);
  NPU_TRY(c.axis(c.attr_i("axis", flat ? 1 : -1), c.rank(0), axis, flat));
  if (!flat || static_cast<size_t>(axis) + 1 == shape.size()) return {};
  const auto inner = shape.begin() + axis;
  axis = 1;
  return c.reshape(x, {element_count(Shape(shape.begin(), inner)), element_count(Shape(inner, shape.end()))}, x);
}

template <bool log>
Status softmax(OpContext &c) {
  ValueId y;
  int axis;
  NPU_TRY(rows(c, y, axis));
  NPU_TRY(c.emit(Op::Softmax, {y}, SoftmaxAttrs{axis, log}, y));
  return c.reshape(y, c.shape(0), c.results[0]);
}

/// 1 at the first of the largest elements: where the place is the one that ArgMax gives.
Status hardmax(OpContext &c) {
  ValueId y, top, places;
  int axis;
  NPU_TRY(rows(c, y, axis));
  NPU_TRY(c.emit(Op::ArgMax, {y}, ArgMaxAttrs{axis}, top));
  const Shape &shape = c.graph[y].shape;
  std::vector<int64_t> count(static_cast<size_t>(shape[static_cast<size_t>(axis)]));
  std::iota(count.begin(), count.end(), 0);
  Shape wide(shape.size() - static_cast<size_t>(axis), 1);
  wide[0] = static_cast<int64_t>(count.size());
  NPU_TRY(c.reshape(c.constant(make_i64(count)), wide, places));
  NPU_TRY(c.binary(BinaryKind::Equal, places, top, y));
  NPU_TRY(c.cast(y, Dtype::F32, y));
  return c.reshape(y, c.shape(0), c.results[0]);
}

/// The chip has sine and cosine.
Status tangent(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  ValueId sine, cosine;
  NPU_TRY(c.unary(ActKind::Sin, c.in(0), sine));
  NPU_TRY(c.unary(ActKind::Cos, c.in(0), cosine));
  return c.binary(BinaryKind::Div, sine, cosine, c.results[0]);
}

constexpr OpEntry kActivationOps[] = {
    {"Abs", plain<ActKind::Abs>},
    {"Acos", plain<ActKind::Acos>},
    {"Acosh", plain<ActKind::Acosh>},
    {"Asin", plain<ActKind::Asin>},
    {"Asinh", plain<ActKind::Asinh>},
    {"Atan", plain<ActKind::Atan>},
    {"Atanh", plain<ActKind::Atanh>},
    {"Ceil", plain<ActKind::Ceil>},
    {"Celu", celu},
    {"Clip", clip},
    {"Cos", plain<ActKind::Cos>},
    {"Cosh", cosh},
    {"Elu", elu},
    {"Erf", plain<ActKind::Erf>},
    {"Exp", plain<ActKind::Exp>},
    {"Floor", plain<ActKind::Floor>},
    {"Gelu", gelu},
    {"HardSigmoid", hard_sigmoid},
    {"HardSwish", plain<ActKind::HardSwish>},
    {"Hardmax", hardmax},
    {"LeakyRelu", leaky_relu},
    {"Log", plain<ActKind::Log>},
    {"LogSoftmax", softmax<true>},
    {"Mish", mish},
    {"Neg", neg},
    {"PRelu", prelu},
    {"Reciprocal", plain<ActKind::Reciprocal>},
    {"Relu", plain<ActKind::Relu>},
    {"Round", plain<ActKind::Round>},
    {"Selu", selu},
    {"Shrink", shrink},
    {"Sigmoid", plain<ActKind::Sigmoid>},
    {"Sign", plain<ActKind::Sign>},
    {"Sin", plain<ActKind::Sin>},
    {"Sinh", plain<ActKind::Sinh>},
    {"Softmax", softmax<false>},
    {"Softplus", plain<ActKind::Softplus>},
    {"Softsign", softsign},
    {"Sqrt", plain<ActKind::Sqrt>},
    {"Swish", swish},
    {"Tan", tangent},
    {"Tanh", plain<ActKind::Tanh>},
    {"ThresholdedRelu", thresholded_relu},
};

}  // namespace

std::span<const OpEntry> activation_ops() { return kActivationOps; }

}  // namespace npu::graph
