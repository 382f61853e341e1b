// SPDX-License-Identifier: MIT
// Quantized operators of ONNX Runtime, domain com.microsoft. Most are an operator of ONNX between a DequantizeLinear
// and a QuantizeLinear, which fuse_quantized() makes one again.
#include "compiler/import/microsoft.h"
#include "compiler/import/quantize.h"

namespace npu::graph {

Status standard(OpContext &c, RawNode node, const char *type, std::vector<ValueId> inputs, ValueId &out,
                int64_t opset) {
  node.outputs.resize(1);
  OpContext inner(c.graph, node, opset, c.source(), std::move(inputs));
  NPU_TRY(find_op("", type)(inner));
  if (!inner.wrong_attribute().empty()) return Status::error(inner.wrong_attribute());
  out = inner.results[0];
  return {};
}

namespace {

/// A tensor by the numbers of its operands: what is quantized, scale, zero point (kNoValue: 0).
Status load(OpContext &c, size_t x, size_t scale, size_t zero, ValueId &out) {
  NPU_TRY(check_zero(c.graph, optional_input(c, zero), c.value(x).dtype));
  return dequantize(c, c.in(x), c.in(scale), optional_input(c, zero), 0, out);
}

/// The result, in the type of its zero point or, without one, of operand `like`.
Status store(OpContext &c, ValueId y, size_t scale, size_t zero, size_t like) {
  const Dtype type = c.value(c.has_input(zero) ? zero : like).dtype;
  if (!is_byte(type))
    return refuse(Obstacle::Type, std::string("a result of ") + dtype_name(type) + ", supported: uint8, int8");
  return quantize(c, y, c.in(scale), optional_input(c, zero), 0, type, c.results[0]);
}

/// An operator of ONNX with the attributes of this node.
Status standard(OpContext &c, const char *type, std::vector<ValueId> inputs, ValueId &out, int64_t opset = kOpset,
                std::string_view default_axis = {}) {
  RawNode node = c.node;
  if (!default_axis.empty()) node.attributes[std::string(default_axis)].i = -1;
  return standard(c, std::move(node), type, std::move(inputs), out, opset);
}

/// Both as matrices of channels in front, [n, c, ...], and back.
Status channels_first(OpContext &c, ValueId x, bool back, ValueId &out) {
  out = x;
  if (!c.attr_i("channels_last", 0)) return {};
  const auto rank = static_cast<int>(c.graph[x].shape.size());
  if (rank < 3) return Status::error("input " + shape_text(c.graph[x].shape) + " has no spatial dimensions");
  std::vector<int> perm{0};
  if (!back) perm.push_back(rank - 1);
  for (int d = back ? 2 : 1; d < (back ? rank : rank - 1); ++d) perm.push_back(d);
  if (back) perm.push_back(1);
  return c.transpose(x, perm, out);
}

// Element by element.

template <BinaryKind kind>
Status qlinear_binary(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 8));
  for (size_t k : {3, 4, 6})
    if (!c.has_input(k)) return Status::error("input " + std::to_string(k) + " is missing");
  ValueId a, b, y;
  NPU_TRY(load(c, 0, 1, 2, a));
  NPU_TRY(load(c, 3, 4, 5, b));
  NPU_TRY(c.binary(kind, a, b, y));
  return store(c, y, 6, 7, 0);
}

Status need_one(const OpContext &c) {
  NPU_TRY(c.need_inputs(2, 5));
  return c.has_input(3) ? Status() : Status::error("input 3 is missing");
}

/// One operand with scale and zero point, and those of the result.
Status qlinear_sigmoid(OpContext &c) {
  NPU_TRY(need_one(c));
  ValueId x;
  NPU_TRY(load(c, 0, 1, 2, x));
  NPU_TRY(c.unary(ActKind::Sigmoid, x, x));
  return store(c, x, 3, 4, 0);
}

Status qlinear_leaky_relu(OpContext &c) {
  NPU_TRY(need_one(c));
  ValueId x;
  NPU_TRY(load(c, 0, 1, 2, x));
  NPU_TRY(c.unary(ActKind::LeakyRelu, x, x, c.attr_f("alpha", 0.01f)));
  return store(c, x, 3, 4, 0);
}

/// The attribute opset says which Softmax it is: before 13 all dimensions from the axis on are one.
Status qlinear_softmax(OpContext &c) {
  NPU_TRY(need_one(c));
  ValueId x;
  NPU_TRY(load(c, 0, 1, 2, x));
  NPU_TRY(standard(c, "Softmax", {x}, x, c.attr_i("opset", 13), c.has("axis") ? "" : "axis"));
  return store(c, x, 3, 4, 0);
}

/// A condition, and two operands with scale and zero point.
Status qlinear_where(OpContext &c) {
  NPU_TRY(c.need_inputs(8, 9));
  ValueId a, b, y;
  NPU_TRY(load(c, 1, 2, 3, a));
  NPU_TRY(load(c, 4, 5, 6, b));
  NPU_TRY(standard(c, "Where", {c.in(0), a, b}, y));
  return store(c, y, 7, 8, 1);
}

/// Axes are an attribute, as in operator set 13.
Status qlinear_reduce_mean(OpContext &c) {
  NPU_TRY(need_one(c));
  ValueId x;
  NPU_TRY(load(c, 0, 1, 2, x));
  NPU_TRY(standard(c, "ReduceMean", {x}, x, 13));
  return store(c, x, 3, 4, 0);
}

// Windows and joined tensors.

Status qlinear_pool(OpContext &c, const char *type) {
  NPU_TRY(need_one(c));
  ValueId x;
  NPU_TRY(load(c, 0, 1, 2, x));
  NPU_TRY(channels_first(c, x, false, x));
  NPU_TRY(standard(c, type, {x}, x));
  NPU_TRY(channels_first(c, x, true, x));
  return store(c, x, 3, 4, 0);
}

Status qlinear_average_pool(OpContext &c) { return qlinear_pool(c, "AveragePool"); }
Status qlinear_global_average_pool(OpContext &c) { return qlinear_pool(c, "GlobalAveragePool"); }

/// Scale and zero point of the result, and then three operands for each part.
Status qlinear_concat(OpContext &c) {
  NPU_TRY(c.need_inputs(5, 1 << 20));
  if (c.input_count() % 3 != 2)
    return Status::error(std::to_string(c.input_count()) + " inputs, expected 2 and 3 for each part");
  std::vector<ValueId> parts;
  for (size_t k = 2; k < c.input_count(); k += 3) {
    if (!c.has_input(k) || !c.has_input(k + 1)) return Status::error("an input of a part is missing");
    NPU_TRY(load(c, k, k + 1, k + 2, parts.emplace_back()));
  }
  ValueId y;
  NPU_TRY(standard(c, "Concat", std::move(parts), y));
  return store(c, y, 0, 1, 2);
}

// Matrices.

/// alpha * (a * b + bias * a_scale * b_scale), quantized where the result has a scale. b may have scales for each
/// column.
Status qgemm(OpContext &c) {
  NPU_TRY(c.need_inputs(6, 9));
  if (c.rank(0) != 2 || c.rank(3) != 2)
    return Status::error("operands " + shape_text(c.shape(0)) + " and " + shape_text(c.shape(3)) + " are not matrices");
  const bool turned = c.attr_i("transB", 0) != 0;
  ValueId a, b, y, bias, scale;
  NPU_TRY(load(c, 0, 1, 2, a));
  NPU_TRY(check_zero(c.graph, c.in(5), c.value(3).dtype));
  NPU_TRY(dequantize(c, c.in(3), c.in(4), c.in(5), turned ? 0 : 1, b));
  if (c.attr_i("transA", 0)) NPU_TRY(c.transpose(a, {1, 0}, a));
  if (turned) NPU_TRY(c.transpose(b, {1, 0}, b));
  NPU_TRY(c.matmul(a, b, y));
  if (c.has_input(6)) {
    if (c.value(6).dtype != Dtype::I32)
      return Status::error(std::string("the bias is ") + dtype_name(c.value(6).dtype) + ", int32 was expected");
    NPU_TRY(c.binary(BinaryKind::Mul, c.in(1), c.in(4), scale));
    if (c.shape(6).empty()) return Status::error("the bias is a scalar");
    NPU_TRY(dequantize(c, c.in(6), scale, kNoValue, c.shape(6).size() - 1, bias));
    NPU_TRY(c.binary(BinaryKind::Add, y, bias, y));
  }
  if (const float alpha = c.attr_f("alpha", 1); alpha != 1) NPU_TRY(c.binary(BinaryKind::Mul, y, alpha, y));
  if (c.has_input(7)) return store(c, y, 7, 8, 0);
  c.results[0] = y;
  return {};
}

Status add_bias(OpContext &c, size_t bias) {
  return c.has_input(bias) ? c.binary(BinaryKind::Add, c.results[0], c.in(bias), c.results[0]) : Status();
}

/// a * b * a_scale * b_scale + bias, of integers, where b may have scales for each column.
Status scale_sums(OpContext &c, ValueId sums, ValueId a_scale, ValueId b_scale, size_t bias) {
  ValueId factor;
  const Shape shape = c.graph[sums].shape;
  NPU_TRY(check_scale(c.graph, a_scale));
  NPU_TRY(check_scale(c.graph, b_scale));
  NPU_TRY(along(c, a_scale, 0, {}, a_scale));
  NPU_TRY(along(c, b_scale, shape.size() - 1, shape, b_scale));
  NPU_TRY(c.binary(BinaryKind::Mul, a_scale, b_scale, factor));
  NPU_TRY(c.cast(sums, Dtype::F32, sums));
  NPU_TRY(c.binary(BinaryKind::Mul, sums, factor, c.results[0]));
  return add_bias(c, bias);
}

Status need_matrices(const OpContext &c, ValueId a, ValueId b) {
  return c.graph[a].shape.size() < 2 || c.graph[b].shape.size() < 2
             ? Status::error("operands " + shape_text(c.graph[a].shape) + " and " + shape_text(c.graph[b].shape) +
                             " are not matrices")
             : Status();
}

Status matmul_integer_to_float(OpContext &c) {
  NPU_TRY(c.need_inputs(4, 7));
  NPU_TRY(need_matrices(c, c.in(0), c.in(1)));
  const ProductOperands k{0, 4, 1, 5, 2, 3};
  NPU_TRY(check_operands(c, k));
  bool done = false;
  NPU_TRY(single_matmul(c, k, done));
  if (done) return add_bias(c, 6);
  ValueId sums;
  NPU_TRY(late_matmul(c, {0, 4, 1, 5}, sums));
  if (sums == kNoValue) NPU_TRY(integer_matmul(c, {0, 4}, {1, 5}, sums));
  return scale_sums(c, sums, c.in(2), c.in(3), 6);
}

Status dynamic_quantize_matmul(OpContext &c) {
  NPU_TRY(c.need_inputs(3, 5));
  NPU_TRY(need_matrices(c, c.in(0), c.in(1)));
  Dynamic a;
  NPU_TRY(quantize_dynamically(c, c.in(0), a));
  OpContext product(c.graph, c.node, c.opset, c.source(), {a.y, c.in(1), a.zero, optional_input(c, 3)});
  ValueId sums;
  NPU_TRY(check_operands(product, {0, 2, 1, 3}));
  NPU_TRY(late_matmul(product, {0, 2, 1, 3}, sums));
  if (sums == kNoValue) NPU_TRY(integer_matmul(product, {0, 2}, {1, 3}, sums));
  return scale_sums(c, sums, a.scale, c.in(2), 4);
}

Status on_onnx(OpContext &c, const char *type) {
  std::vector<ValueId> inputs;
  for (size_t k = 0; k < c.input_count(); ++k) inputs.push_back(optional_input(c, k));
  return standard(c, type, std::move(inputs), c.results[0]);
}

Status microsoft_quantize_linear(OpContext &c) { return on_onnx(c, "QuantizeLinear"); }
Status microsoft_dequantize_linear(OpContext &c) { return on_onnx(c, "DequantizeLinear"); }

constexpr MicrosoftEntry kMicrosoftOps[] = {
    {"DequantizeLinear", microsoft_dequantize_linear, "axis block_size"},
    {"DynamicQuantizeMatMul", dynamic_quantize_matmul, ""},
    {"MatMulIntegerToFloat", matmul_integer_to_float, ""},
    {"QGemm", qgemm, "alpha transA transB"},
    {"QLinearAdd", qlinear_binary<BinaryKind::Add>, ""},
    {"QLinearAveragePool", qlinear_average_pool,
     "auto_pad ceil_mode channels_last count_include_pad kernel_shape pads strides"},
    {"QLinearConcat", qlinear_concat, "axis"},
    {"QLinearGlobalAveragePool", qlinear_global_average_pool, "channels_last"},
    {"QLinearLeakyRelu", qlinear_leaky_relu, "alpha"},
    {"QLinearMul", qlinear_binary<BinaryKind::Mul>, ""},
    {"QLinearReduceMean", qlinear_reduce_mean, "axes keepdims"},
    {"QLinearSigmoid", qlinear_sigmoid, ""},
    {"QLinearSoftmax", qlinear_softmax, "axis opset"},
    {"QLinearWhere", qlinear_where, ""},
    {"QuantizeLinear", microsoft_quantize_linear, "axis block_size"},
};

}  // namespace

std::span<const MicrosoftEntry> microsoft_ops() { return kMicrosoftOps; }

}  // namespace npu::graph
