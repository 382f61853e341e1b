// SPDX-License-Identifier: MIT
// Element by element: arithmetic, activations, batch normalization, softmax.
#include <cmath>
#include <limits>

#include "compiler/import/op_context.h"

namespace npu::graph {
namespace {

/// Operand sets below 7 broadcast only when told so, with the second operand laid at an axis.
Status second_operand(OpContext &c, ValueId &b) {
  b = c.in(1);
  if (c.opset >= 7 || !c.attr_i("broadcast", 0) || !c.has("axis")) return {};
  int axis;
  NPU_TRY(c.axis(c.attr_i("axis", 0), c.rank(0), axis, true));
  Shape shape = c.shape(1);
  if (static_cast<size_t>(axis) + shape.size() > c.shape(0).size())
    return Status::error("operand " + shape_text(shape) + " does not fit at axis " + std::to_string(axis));
  shape.insert(shape.end(), c.shape(0).size() - static_cast<size_t>(axis) - shape.size(), 1);
  return c.reshape(b, shape, b);
}

template <BinaryKind kind>
Status binary(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 2));
  ValueId b;
  NPU_TRY(second_operand(c, b));
  return c.emit(Op::Binary, {c.in(0), b}, BinaryAttrs{kind, {}}, c.results[0]);
}

template <BinaryKind kind>
Status variadic(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1 << 20));
  ValueId y = c.in(0);
  for (size_t k = 1; k < c.input_count(); ++k) {
    if (!c.has_input(k)) return Status::error("input " + std::to_string(k) + " is missing");
    NPU_TRY(c.emit(Op::Binary, {y, c.in(k)}, BinaryAttrs{kind, {}}, y));
  }
  c.results[0] = y;
  return {};
}

Status activate(OpContext &c, const Activation &act) {
  NPU_TRY(c.need_inputs(1, 1));
  return c.emit(Op::Unary, {c.in(0)}, UnaryAttrs{act}, c.results[0]);
}

/// An operator that is one of the chip's activations, without parameters.
template <ActKind kind>
Status unary(OpContext &c) {
  return activate(c, {kind});
}

Status leaky_relu(OpContext &c) { return activate(c, {ActKind::LeakyRelu, c.attr_f("alpha", 0.01f)}); }

Status clip_bound(OpContext &c, size_t k, const char *name, float &value) {
  if (c.opset < 11) {
    value = c.attr_f(name, value);
    return {};
  }
  if (!c.has_input(k)) return {};
  std::vector<float> given;
  NPU_TRY(c.const_floats(k, name, given));
  if (given.size() != 1) return Status::error(std::string(name) + " is not a scalar");
  value = given[0];
  return {};
}

Status clip(OpContext &c) {
  NPU_TRY(c.need_inputs(1, c.opset < 11 ? 1 : 3));
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
  NPU_TRY(clip_bound(c, 1, "min", low));
  NPU_TRY(clip_bound(c, 2, "max", high));
  if (std::isnan(low) || std::isnan(high)) return Status::error("a bound is not a number");
  // With crossed bounds the maximum wins, as min(max(x, low), high) has it.
  low = std::min(low, high);
  return c.emit(Op::Unary, {c.in(0)}, UnaryAttrs{{ActKind::Clip, low, high}}, c.results[0]);
}

Status times(OpContext &c, ValueId x, float factor, ValueId &out) {
  return c.emit(Op::Binary, {x, c.constant(make_scalar(factor))}, BinaryAttrs{BinaryKind::Mul, {}}, out);
}

Status neg(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  return times(c, c.in(0), -1.0f, c.results[0]);
}

/// clip(alpha * x + beta, 0, 1)
Status hard_gate(OpContext &c, float alpha, float beta, ValueId &out) {
  NPU_TRY(c.need_inputs(1, 1));
  NPU_TRY(times(c, c.in(0), alpha, out));
  NPU_TRY(c.emit(Op::Binary, {out, c.constant(make_scalar(beta))}, BinaryAttrs{}, out));
  return c.emit(Op::Unary, {out}, UnaryAttrs{{ActKind::Clip, 0, 1}}, out);
}

Status hard_sigmoid(OpContext &c) {
  return hard_gate(c, c.attr_f("alpha", 0.2f), c.attr_f("beta", 0.5f), c.results[0]);
}

Status hard_swish(OpContext &c) {
  ValueId gate;
  NPU_TRY(hard_gate(c, 1.0f / 6, 0.5f, gate));
  return c.emit(Op::Binary, {c.in(0), gate}, BinaryAttrs{BinaryKind::Mul, {}}, c.results[0]);
}

/// y = x * s + t with one s and t a channel; fusion moves both into a convolution in front of it.
Status batch_normalization(OpContext &c) {
  NPU_TRY(c.need_inputs(5, 5));
  if (c.attr_i("training_mode", 0) || (c.opset < 7 && !c.attr_i("is_test", 0)))
    return Status::error("training mode is not inference");
  if (c.attr_i("spatial", 1) != 1) return Status::error("spatial=0 is not supported");
  std::vector<float> scale, shift, mean, variance;
  NPU_TRY(c.const_floats(1, "scale", scale));
  NPU_TRY(c.const_floats(2, "B", shift));
  NPU_TRY(c.const_floats(3, "mean", mean));
  NPU_TRY(c.const_floats(4, "var", variance));
  const Shape &x = c.shape(0);
  const size_t channels = x.size() < 2 ? 0 : static_cast<size_t>(x[1]);
  if (channels == 0 || scale.size() != channels || shift.size() != channels || mean.size() != channels ||
      variance.size() != channels)
    return Status::error("parameters do not have one element for each channel of input " + shape_text(x));
  std::vector<float> s(channels), t(channels);
  for (size_t i = 0; i < channels; ++i) {
    const double factor = scale[i] / std::sqrt(static_cast<double>(variance[i]) + c.attr_f("epsilon", 1e-5f));
    s[i] = static_cast<float>(factor);
    t[i] = static_cast<float>(shift[i] - mean[i] * factor);
  }
  Shape wide(x.size() - 1, 1);
  wide[0] = x[1];
  ValueId y;
  NPU_TRY(c.emit(Op::Binary, {c.in(0), c.constant(make_f32(wide, s))}, BinaryAttrs{BinaryKind::Mul, {}}, y));
  return c.emit(Op::Binary, {y, c.constant(make_f32(wide, t))}, BinaryAttrs{}, c.results[0]);
}

/// Up to operator set 12 everything from the axis on is one row.
Status softmax_op(OpContext &c, bool log) {
  NPU_TRY(c.need_inputs(1, 1));
  const Shape x = c.shape(0);
  int axis;
  NPU_TRY(c.axis(c.attr_i("axis", c.opset < 13 ? 1 : -1), c.rank(0), axis, c.opset < 13));
  if (c.opset >= 13 || static_cast<size_t>(axis) + 1 == x.size())
    return c.emit(Op::Softmax, {c.in(0)}, SoftmaxAttrs{axis, log}, c.results[0]);
  const int64_t rows = element_count(Shape(x.begin(), x.begin() + axis));
  ValueId y;
  NPU_TRY(c.reshape(c.in(0), {rows, element_count(x) / rows}, y));
  NPU_TRY(c.emit(Op::Softmax, {y}, SoftmaxAttrs{1, log}, y));
  return c.reshape(y, x, c.results[0]);
}

Status softmax(OpContext &c) { return softmax_op(c, false); }
Status log_softmax(OpContext &c) { return softmax_op(c, true); }

constexpr OpEntry kOps[] = {
    {"Add", binary<BinaryKind::Add>},
    {"BatchNormalization", batch_normalization},
    {"Clip", clip},
    {"Div", binary<BinaryKind::Div>},
    {"HardSigmoid", hard_sigmoid},
    {"HardSwish", hard_swish},
    {"LeakyRelu", leaky_relu},
    {"LogSoftmax", log_softmax},
    {"Max", variadic<BinaryKind::Max>},
    {"Min", variadic<BinaryKind::Min>},
    {"Mul", binary<BinaryKind::Mul>},
    {"Neg", neg},
    {"Relu", unary<ActKind::Relu>},
    {"Sigmoid", unary<ActKind::Sigmoid>},
    {"Softmax", softmax},
    {"Sub", binary<BinaryKind::Sub>},
    {"Sum", variadic<BinaryKind::Add>},
    {"Tanh", unary<ActKind::Tanh>},
};

}  // namespace

std::span<const OpEntry> eltwise_ops() { return kOps; }

}  // namespace npu::graph
