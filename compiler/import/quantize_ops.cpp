// SPDX-License-Identifier: MIT
// From numbers to the integers that stand for them, and back. What is known of scale and zero point, one number each,
// becomes a Requant; everything else is computed step by step.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/graph/quantized_constant.h"
#include "compiler/import/quantize.h"
#include "runtime/cpu/element.h"

namespace npu::graph {
namespace {

std::string type_text(int64_t type) {
  return dtype_name(type > 0 && type < 256 ? static_cast<Dtype>(type) : Dtype::Undefined);
}

bool is_short(Dtype type) { return is_byte(type) || type == Dtype::U16 || type == Dtype::I16; }

std::string named(const Graph &graph, ValueId v) { return "'" + graph[v].name + "' " + shape_text(graph[v].shape); }

}  // namespace

bool is_zero(const Graph &graph, ValueId v) {
  if (v == kNoValue) return true;
  const TensorPtr &known = graph[v].constant;
  return known && std::all_of(known->data.begin(), known->data.end(), [](uint8_t byte) { return byte == 0; });
}

namespace {

/// Those that are known are finite, and above 0 or at least that.
Status check_scales(const Graph &graph, ValueId scale, bool or_zero) {
  const Value &v = graph[scale];
  if (v.dtype != Dtype::F32)
    return Status::error("scale '" + v.name + "' is " + dtype_name(v.dtype) + ", expected a floating-point type");
  for (int64_t i = 0; v.constant && i < v.constant->count(); ++i) {
    const float found = v.constant->as<float>()[i];
    if ((found > 0 || (or_zero && found == 0)) && std::isfinite(found)) continue;
    return Status::error("scale '" + v.name + "': element " + std::to_string(i) + " is " + std::to_string(found) +
                         ", expected numbers " + (or_zero ? "from 0 on" : "above 0") + " that are finite");
  }
  return {};
}

}  // namespace

Status check_scale(const Graph &graph, ValueId scale) { return check_scales(graph, scale, false); }

Status check_zero(const Graph &graph, ValueId zero, Dtype type) {
  if (zero == kNoValue || graph[zero].dtype == type) return {};
  return Status::error("zero point '" + graph[zero].name + "' is " + dtype_name(graph[zero].dtype) + ", expected " +
                       dtype_name(type) + " as what it belongs to");
}

Status along(OpContext &c, ValueId v, size_t axis, const Shape &x, ValueId &out) {
  out = v;
  if (v == kNoValue) return {};
  const Shape shape = c.graph[v].shape;
  if (element_count(shape) == 1) return c.reshape(v, {}, out);
  if (shape.size() == 1 && axis < x.size() && shape[0] == x[axis]) {
    Shape wide(x.size() - axis, 1);
    wide[0] = shape[0];
    return c.reshape(v, wide, out);
  }
  Shape both;
  if (shape.size() > 1 && broadcast_shapes(shape, x, both) && both == x) return {};
  const std::string several =
      axis < x.size() ? ", or " + std::to_string(x[axis]) + " for axis " + std::to_string(axis) + " of " + shape_text(x)
                      : "";
  return Status::error("scale or zero point " + named(c.graph, v) + ", expected 1 element" + several);
}

bool known_zeros(const Graph &graph, ValueId zero, std::vector<int32_t> &out) {
  out = {0};
  if (zero == kNoValue) return true;
  const TensorPtr &known = graph[zero].constant;
  if (!known || !cpu::is_integer(known->dtype) || known->count() < 1) return false;
  out.clear();
  for (int64_t i = 0; i < known->count(); ++i) out.push_back(static_cast<int32_t>(cpu::load_integer(*known, i)));
  return true;
}

bool is_single(const Graph &graph, ValueId scale, ValueId zero, Quant &out) {
  const TensorPtr &known = graph[scale].constant;
  std::vector<int32_t> zeros;
  if (!known || known->dtype != Dtype::F32 || known->count() != 1) return false;
  if (!known_zeros(graph, zero, zeros) || zeros.size() != 1) return false;
  out = {known->as<float>()[0], zeros[0]};
  return true;
}

Status to_integers(OpContext &c, ValueId x, ValueId zero, Dtype type, ValueId &out) {
  NPU_TRY(c.unary(ActKind::Round, x, out));
  if (!is_zero(c.graph, zero)) {
    NPU_TRY(c.cast(zero, Dtype::F32, zero));
    keep_exact(c.graph, out);
    NPU_TRY(c.binary(BinaryKind::Add, out, zero, out));
  }
  keep_exact(c.graph, out);
  return c.cast(out, type, out);
}

void note_quant(Graph &graph, ValueId v, const Quant &quant) {
  if (graph[v].quant.scale == 0) graph[v].quant = quant;
}

Status quantize(OpContext &c, ValueId x, ValueId scale, ValueId zero, size_t axis, Dtype type, ValueId &out) {
  NPU_TRY(check_scale(c.graph, scale));
  NPU_TRY(check_zero(c.graph, zero, type));
  NPU_TRY(c.cast(x, Dtype::F32, x));
  Quant quant;
  if (is_single(c.graph, scale, zero, quant)) {
    NPU_TRY(c.emit(Op::Requant, {x}, RequantAttrs{{}, quant, {}, type}, out));
    note_quant(c.graph, out, quant);
    return {};
  }
  const Shape shape = c.graph[x].shape;
  NPU_TRY(along(c, scale, axis, shape, scale));
  NPU_TRY(along(c, zero, axis, shape, zero));
  NPU_TRY(c.binary(BinaryKind::Div, x, scale, x));
  keep_exact(c.graph, x);
  return to_integers(c, x, zero, type, out);
}

namespace {

/// Of int32 the difference is one of int32.
Status dequantize_in_steps(OpContext &c, ValueId x, ValueId scale, ValueId zero, ValueId &out) {
  const Dtype type = c.graph[x].dtype, difference = type == Dtype::I32 ? type : Dtype::F32;
  const bool shifted = !is_zero(c.graph, zero);
  NPU_TRY(c.cast(x, difference, x));
  if (shifted) {
    NPU_TRY(c.cast(zero, difference, zero));
    NPU_TRY(c.binary(BinaryKind::Sub, x, zero, x));
  }
  NPU_TRY(c.cast(x, Dtype::F32, x));
  keep_exact(c.graph, x);
  return c.binary(BinaryKind::Mul, x, scale, out);
}

/// The integers of a constant whose scales and zero points are known, and go along one axis; else null.
std::shared_ptr<const QuantizedConstant> integers_of(const Graph &graph, ValueId x, ValueId scale, ValueId zero,
                                                     size_t axis) {
  const TensorPtr &known = graph[x].constant, &scales = graph[scale].constant;
  if (!known || !is_byte(known->dtype) || !scales || scales->dtype != Dtype::F32) return nullptr;
  QuantizedConstant out;
  out.integers = known;
  out.axis = axis;
  out.scales.assign(scales->as<float>(), scales->as<float>() + scales->count());
  if (!known_zeros(graph, zero, out.zeros)) return nullptr;
  const size_t length = axis < known->shape.size() ? static_cast<size_t>(known->shape[axis]) : 1;
  const auto fits = [&](ValueId v, size_t count) {
    return count == 1 || (count == length && v != kNoValue && graph[v].shape.size() == 1);
  };
  return fits(scale, out.scales.size()) && fits(zero, out.zeros.size())
             ? std::make_shared<const QuantizedConstant>(std::move(out))
             : nullptr;
}

}  // namespace

Status dequantize(OpContext &c, ValueId x, ValueId scale, ValueId zero, size_t axis, ValueId &out) {
  NPU_TRY(check_scale(c.graph, scale));
  const Dtype type = c.graph[x].dtype;
  Quant quant;
  if (is_short(type) && is_single(c.graph, scale, zero, quant)) {
    note_quant(c.graph, x, quant);
    NPU_TRY(c.emit(Op::Requant, {x}, RequantAttrs{quant, {}, {}, Dtype::F32}, out));
  } else {
    const Shape shape = c.graph[x].shape;
    ValueId each_scale, each_zero;
    NPU_TRY(along(c, scale, axis, shape, each_scale));
    NPU_TRY(along(c, zero, axis, shape, each_zero));
    NPU_TRY(dequantize_in_steps(c, x, each_scale, each_zero, out));
  }
  if (c.graph.is_constant(out)) c.graph[out].quantized = integers_of(c.graph, x, scale, zero, axis);
  return {};
}

namespace {

/// Integers without a scale, as to_float().
Status to_type(OpContext &c, ValueId x, Dtype type, ValueId &out) {
  return c.emit(Op::Requant, {x}, RequantAttrs{{}, {1, 0}, {}, type}, out);
}

/// The largest or smallest of all elements, of columns first: a result of one place alone keeps a single lane busy.
Status extreme(OpContext &c, ReduceKind kind, ValueId x, ValueId &out) {
  const int64_t count = element_count(c.graph[x].shape);
  int64_t columns = 1;
  while (columns < 1024 && count % (columns * 2) == 0) columns *= 2;
  NPU_TRY(c.reshape(x, {count / columns, columns}, out));
  for (int axis : {0, 1}) {
    NPU_TRY(c.reduce(kind, out, {axis}, true, out));
    keep_exact(c.graph, out);
  }
  return c.reshape(out, {}, out);
}

/// Arithmetic with scales, which 16 bits do not hold.
template <class A, class B>
Status exact(OpContext &c, BinaryKind kind, A a, B b, ValueId &out) {
  NPU_TRY(c.binary(kind, a, b, out));
  keep_exact(c.graph, out);
  return {};
}

/// 1 instead of 0, for scales of nothing but zeros: ONNX divides by that, ONNX Runtime takes 1. Numbers below 2^-127,
/// which are not normal, become numbers up to 1.
Status not_zero(OpContext &c, ValueId scale, ValueId &out) {
  ValueId missing;
  NPU_TRY(exact(c, BinaryKind::Mul, scale, 0x1p127, missing));
  NPU_TRY(exact(c, BinaryKind::Min, missing, 1, missing));
  NPU_TRY(exact(c, BinaryKind::Sub, c.scalar(1), missing, missing));
  return exact(c, BinaryKind::Add, scale, missing, out);
}

}  // namespace

Status to_float(OpContext &c, ValueId x, ValueId &out) {
  return c.emit(Op::Requant, {x}, RequantAttrs{{1, 0}, {}, {}, Dtype::F32}, out);
}

Status quantize_dynamically(OpContext &c, ValueId x, Dynamic &out) {
  ValueId low;
  NPU_TRY(extreme(c, ReduceKind::Max, x, out.scale));
  NPU_TRY(extreme(c, ReduceKind::Min, x, low));
  NPU_TRY(exact(c, BinaryKind::Max, out.scale, 0, out.scale));
  NPU_TRY(exact(c, BinaryKind::Min, low, 0, low));
  NPU_TRY(exact(c, BinaryKind::Sub, out.scale, low, out.scale));
  NPU_TRY(exact(c, BinaryKind::Div, out.scale, 255, out.scale));
  NPU_TRY(not_zero(c, out.scale, out.scale));
  NPU_TRY(exact(c, BinaryKind::Div, low, out.scale, out.zero));
  NPU_TRY(exact(c, BinaryKind::Sub, c.scalar(0), out.zero, out.zero));
  NPU_TRY(to_type(c, out.zero, Dtype::U8, out.zero));
  // Rounded to 16 bits, which saturate far outside of what 8 bits have; then the zero point is added.
  NPU_TRY(exact(c, BinaryKind::Div, x, out.scale, out.y));
  NPU_TRY(to_type(c, out.y, Dtype::I16, out.y));
  NPU_TRY(to_float(c, out.y, out.y));
  keep_exact(c.graph, out.y);
  ValueId zero;
  NPU_TRY(to_float(c, out.zero, zero));
  NPU_TRY(exact(c, BinaryKind::Add, out.y, zero, out.y));
  return to_type(c, out.y, Dtype::U8, out.y);
}

namespace {

/// The axis of a node's scale and zero point. `used`: more than one element lies along it.
Status axis_of(OpContext &c, size_t &out) {
  bool used = c.attr_i("block_size", 0) != 0;
  for (size_t k = 1; k < 3; ++k) used = used || (c.has_input(k) && element_count(c.shape(k)) != 1);
  int axis = 0;
  if (used) NPU_TRY(c.axis(c.attr_i("axis", 1), c.rank(0), axis));
  out = static_cast<size_t>(axis);
  return {};
}

/// A scale or zero point with one element for each block of operand 0, repeated for the block's elements.
Status repeat_blocks(OpContext &c, ValueId v, size_t axis, int64_t block, ValueId &out) {
  out = v;
  if (v == kNoValue) return {};
  const Shape x = c.shape(0);
  Shape expected = x;
  expected[axis] = x[axis] / block + (x[axis] % block != 0);
  if (c.graph[v].shape != expected)
    return Status::error("scale or zero point " + named(c.graph, v) + ", expected " + shape_text(expected) +
                         " for blocks of " + std::to_string(block));
  std::vector<int64_t> places(static_cast<size_t>(x[axis]));
  for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int64_t>(i) / block;
  return c.gather(static_cast<int>(axis), v, c.constant(make_i64(places)), out);
}

/// Scale and zero point of blocks. A block of zeros may have the scale 0.
Status of_blocks(OpContext &c, size_t axis, ValueId &scale, ValueId &zero) {
  const int64_t block = c.attr_i("block_size", 0);
  if (block < 0) return Status::error("block_size is " + std::to_string(block));
  NPU_TRY(check_scales(c.graph, c.in(1), true));
  NPU_TRY(repeat_blocks(c, c.in(1), axis, block, scale));
  return repeat_blocks(c, optional_input(c, 2), axis, block, zero);
}

/// The type of the zero point, or that of the attribute; uint8 without both.
Status quantized_type(OpContext &c, Dtype &out) {
  int64_t type = c.attr_i("output_dtype", 0);
  if (c.has_input(2)) {
    const auto given = static_cast<int64_t>(c.value(2).dtype);
    if (type && type != given)
      return Status::error("output_dtype is " + type_text(type) + ", the zero point " + type_text(given));
    type = given;
  }
  if (type == 0) type = static_cast<int64_t>(Dtype::U8);
  out = static_cast<Dtype>(type);
  return type > 0 && type <= 16 && is_short(out)
             ? Status()
             : refuse(Obstacle::Type, "quantization to " + type_text(type) + ", supported: uint8, int8, uint16, int16");
}

Status quantize_linear(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 3));
  Dtype type = Dtype::U8;
  size_t axis = 0;
  NPU_TRY(quantized_type(c, type));
  NPU_TRY(axis_of(c, axis));
  if (c.attr_i("block_size", 0) == 0)
    return quantize(c, c.in(0), c.in(1), optional_input(c, 2), axis, type, c.results[0]);
  ValueId x, scale, zero;
  NPU_TRY(of_blocks(c, axis, scale, zero));
  NPU_TRY(c.cast(c.in(0), Dtype::F32, x));
  NPU_TRY(c.binary(BinaryKind::Div, x, scale, x));
  return to_integers(c, x, zero, type, c.results[0]);
}

Status dequantize_linear(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 3));
  const Dtype type = c.value(0).dtype;
  if (!is_short(type) && type != Dtype::I32 && !c.narrow_floats)
    return refuse(Obstacle::Type, "input of type " + type_text(static_cast<int64_t>(type)) +
                                      ", supported: uint8, int8, uint16, int16, int32");
  const int64_t to = c.attr_i("output_dtype", 1);
  if (to && (to < 0 || to > 16 || working_type(static_cast<Dtype>(to)) != Dtype::F32))
    return Status::error("output_dtype is " + type_text(to) + ", a floating-point type was expected");
  NPU_TRY(check_zero(c.graph, optional_input(c, 2), type));
  size_t axis = 0;
  NPU_TRY(axis_of(c, axis));
  if (c.attr_i("block_size", 0) == 0) return dequantize(c, c.in(0), c.in(1), optional_input(c, 2), axis, c.results[0]);
  ValueId scale, zero;
  NPU_TRY(of_blocks(c, axis, scale, zero));
  return dequantize_in_steps(c, c.in(0), scale, zero, c.results[0]);
}

Status dynamic_quantize_linear(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  Dynamic made;
  NPU_TRY(quantize_dynamically(c, c.in(0), made));
  c.results[0] = made.y;
  if (c.wants_output(1)) c.results[1] = made.scale;
  if (c.wants_output(2)) c.results[2] = made.zero;
  return {};
}

constexpr OpEntry kQuantizeOps[] = {
    {"DequantizeLinear", dequantize_linear},
    {"DynamicQuantizeLinear", dynamic_quantize_linear},
    {"QuantizeLinear", quantize_linear},
};

}  // namespace

std::span<const OpEntry> quantize_ops() { return kQuantizeOps; }

}  // namespace npu::graph
