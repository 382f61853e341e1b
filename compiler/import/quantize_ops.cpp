// SPDX-License-Identifier: MIT
// Quantized numbers: they are computed with as float32, which has all integers up to 2^24.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/import/op_context.h"

namespace npu::graph {
namespace {

/// Sums of products of integers are exact in float32, in any order, where the magnitudes add up to no more than this.
constexpr int64_t kExact = int64_t{1} << 24;

/// Parts of a matrix product with exact sums; more of them are not worth it, the CPU multiplies integers as well.
constexpr int64_t kMaxParts = 64;

bool is_zero(const Graph &graph, ValueId v) {
  if (v == kNoValue) return true;
  const TensorPtr &known = graph[v].constant;
  return known && std::all_of(known->data.begin(), known->data.end(), [](uint8_t byte) { return byte == 0; });
}

ValueId optional(const OpContext &c, size_t k) { return c.has_input(k) ? c.in(k) : kNoValue; }

/// A scale or zero point as it broadcasts to a tensor: one number, a vector along an axis, or what broadcasts as it is.
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
  return shape.size() > 1 && broadcast_shapes(shape, x, both) && both == x
             ? Status()
             : Status::error("a scale or zero point " + shape_text(shape) + " does not fit axis " +
                             std::to_string(axis) + " of " + shape_text(x));
}

/// Rounds halves to even, adds the zero point (kNoValue: 0) and saturates, as floating-point numbers do when cast.
Status to_integers(OpContext &c, ValueId x, ValueId zero, Dtype type, ValueId &out) {
  NPU_TRY(c.unary(ActKind::Round, x, out));
  if (!is_zero(c.graph, zero)) {
    NPU_TRY(c.cast(zero, Dtype::F32, zero));
    NPU_TRY(c.binary(BinaryKind::Add, out, zero, out));
  }
  return c.cast(out, type, out);
}

// Quantization and back.

std::string type_text(int64_t type) {
  return dtype_name(type > 0 && type < 256 ? static_cast<Dtype>(type) : Dtype::Undefined);
}

bool is_short(Dtype type) { return type == Dtype::U8 || type == Dtype::I8 || type == Dtype::U16 || type == Dtype::I16; }

/// A scale or zero point of operand 0: as along(), or with block_size one element for so many along the axis.
Status parameter(OpContext &c, ValueId v, ValueId &out) {
  const int64_t block = c.attr_i("block_size", 0);
  const Shape x = c.shape(0);
  out = v;
  if (v == kNoValue) return {};
  if (block < 0) return Status::error("block_size is " + std::to_string(block));
  int axis = 0;
  if (block || element_count(c.graph[v].shape) != 1) NPU_TRY(c.axis(c.attr_i("axis", 1), c.rank(0), axis));
  const auto d = static_cast<size_t>(axis);
  if (block == 0) return along(c, v, d, x, out);
  Shape expected = x;
  expected[d] = x[d] / block + (x[d] % block != 0);
  if (c.graph[v].shape != expected)
    return Status::error("a scale or zero point " + shape_text(c.graph[v].shape) + ", expected " +
                         shape_text(expected) + " for blocks of " + std::to_string(block));
  std::vector<int64_t> places(static_cast<size_t>(x[d]));
  for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int64_t>(i) / block;
  return c.gather(axis, v, c.constant(make_i64(places)), out);
}

/// y = saturate(round(x / scale) + zero), in the type of the zero point.
Status quantize_linear(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 3));
  int64_t type = c.attr_i("output_dtype", 0);
  if (c.has_input(2)) {
    const auto given = static_cast<int64_t>(c.value(2).dtype);
    if (type && type != given)
      return Status::error("output_dtype is " + type_text(type) + ", the zero point " + type_text(given));
    type = given;
  }
  if (type == 0) type = static_cast<int64_t>(Dtype::U8);
  if (type < 0 || type > 16 || !is_short(static_cast<Dtype>(type)))
    return Status::error("quantization to " + type_text(type) + ", supported: uint8, int8, uint16, int16");
  ValueId x, scale, zero;
  NPU_TRY(parameter(c, c.in(1), scale));
  NPU_TRY(parameter(c, optional(c, 2), zero));
  NPU_TRY(c.cast(c.in(0), Dtype::F32, x));
  NPU_TRY(c.binary(BinaryKind::Div, x, scale, x));
  return to_integers(c, x, zero, static_cast<Dtype>(type), c.results[0]);
}

/// y = (x - zero) * scale. Of int32 the difference is one of int32.
Status dequantize_linear(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 3));
  const Dtype type = c.value(0).dtype;
  if (!is_short(type) && type != Dtype::I32 && !c.narrow_floats)
    return Status::error("input of type " + type_text(static_cast<int64_t>(type)) +
                         ", supported: uint8, int8, uint16, int16, int32");
  const int64_t to = c.attr_i("output_dtype", 1);
  if (to && (to < 0 || to > 16 || working_type(static_cast<Dtype>(to)) != Dtype::F32))
    return Status::error("output_dtype is " + type_text(to) + ", a floating-point type was expected");
  if (c.has_input(2) && c.value(2).dtype != type)
    return Status::error(std::string("the zero point is ") + dtype_name(c.value(2).dtype) + ", the input " +
                         dtype_name(type));
  ValueId x = c.in(0), scale, zero;
  NPU_TRY(parameter(c, c.in(1), scale));
  NPU_TRY(parameter(c, optional(c, 2), zero));
  const bool shifted = !is_zero(c.graph, zero);
  const Dtype difference = type == Dtype::I32 ? type : Dtype::F32;
  NPU_TRY(c.cast(x, difference, x));
  if (shifted) {
    NPU_TRY(c.cast(zero, difference, zero));
    NPU_TRY(c.binary(BinaryKind::Sub, x, zero, x));
  }
  NPU_TRY(c.cast(x, Dtype::F32, x));
  return c.binary(BinaryKind::Mul, x, scale, c.results[0]);
}

/// The scale is that of the range from the smallest to the largest element, and 0.
Status dynamic_quantize_linear(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  std::vector<int> axes(c.shape(0).size());
  std::iota(axes.begin(), axes.end(), 0);
  ValueId low, scale, zero, y;
  NPU_TRY(c.reduce(ReduceKind::Max, c.in(0), axes, false, scale));
  NPU_TRY(c.reduce(ReduceKind::Min, c.in(0), axes, false, low));
  NPU_TRY(c.binary(BinaryKind::Max, scale, 0, scale));
  NPU_TRY(c.binary(BinaryKind::Min, low, 0, low));
  NPU_TRY(c.binary(BinaryKind::Sub, scale, low, scale));
  NPU_TRY(c.binary(BinaryKind::Div, scale, 255, scale));
  NPU_TRY(c.binary(BinaryKind::Div, low, scale, zero));
  NPU_TRY(c.binary(BinaryKind::Sub, c.scalar(0), zero, zero));
  NPU_TRY(to_integers(c, zero, kNoValue, Dtype::U8, zero));
  NPU_TRY(c.binary(BinaryKind::Div, c.in(0), scale, y));
  NPU_TRY(to_integers(c, y, zero, Dtype::U8, c.results[0]));
  if (c.wants_output(1)) c.results[1] = scale;
  if (c.wants_output(2)) c.results[2] = zero;
  return {};
}

// Products.

/// An operand without its zero point, float32.
struct Centred {
  ValueId value = kNoValue;
  int64_t bound = 255;  ///< of its elements' magnitude
};

/// Of int8 or uint8. The zero point (kNoValue: 0) broadcasts to x.
Status centre(OpContext &c, ValueId x, ValueId zero, Centred &out) {
  const Dtype type = c.graph[x].dtype;
  if (type != Dtype::U8 && type != Dtype::I8)
    return Status::error(std::string("an operand is ") + dtype_name(type) + ", supported: uint8, int8");
  if (zero != kNoValue && c.graph[zero].dtype != type)
    return Status::error(std::string("a zero point is ") + dtype_name(c.graph[zero].dtype) + ", its operand " +
                         dtype_name(type));
  const TensorPtr shift = zero == kNoValue ? nullptr : c.graph[zero].constant;
  std::vector<int64_t> zeros{0};
  const bool known = zero == kNoValue || (shift && to_ints(*shift, zeros));
  NPU_TRY(c.cast(x, Dtype::F32, out.value));
  if (!is_zero(c.graph, zero)) {
    NPU_TRY(c.cast(zero, Dtype::F32, zero));
    NPU_TRY(c.binary(BinaryKind::Sub, out.value, zero, out.value));
  }
  const int64_t low = type == Dtype::U8 ? 0 : -128, high = low + 255;
  if (const TensorPtr values = c.graph[out.value].constant) {
    out.bound = 0;
    for (int64_t i = 0; i < values->count(); ++i)
      out.bound = std::max(out.bound, static_cast<int64_t>(std::fabs(values->as<float>()[i])));
  } else if (known) {
    out.bound = 0;
    for (int64_t z : zeros) out.bound = std::max({out.bound, z - low, high - z});
  }
  return {};
}

/// How many products of elements have an exact sum.
int64_t exact_terms(const Centred &a, const Centred &b) { return kExact / std::max<int64_t>(a.bound * b.bound, 1); }

/// Adds a part of exact sums to others, as int32.
Status add_part(OpContext &c, ValueId part, ValueId &sum) {
  NPU_TRY(c.cast(part, Dtype::I32, part));
  if (sum != kNoValue) return c.binary(BinaryKind::Add, sum, part, sum);
  sum = part;
  return {};
}

/// a * b, exact: float32, or int32 where that is too short for the sums.
Status integer_product(OpContext &c, const Centred &a, const Centred &b, ValueId &out) {
  const Shape left = c.graph[a.value].shape, right = c.graph[b.value].shape;
  const int row = static_cast<int>(left.size()) - 1, column = static_cast<int>(right.size()) - 2;
  const int64_t inner = left.back(), most = exact_terms(a, b);
  if (right[static_cast<size_t>(column)] != inner || inner <= most) return c.matmul(a.value, b.value, out);
  ValueId x, y;
  if (inner / most >= kMaxParts) {
    NPU_TRY(c.cast(a.value, Dtype::I32, x));
    NPU_TRY(c.cast(b.value, Dtype::I32, y));
    return c.matmul(x, y, out);
  }
  out = kNoValue;
  for (int64_t from = 0; from < inner; from += most) {
    const int64_t count = std::min(most, inner - from);
    NPU_TRY(c.slice(a.value, row, from, count, x));
    NPU_TRY(c.slice(b.value, column, from, count, y));
    NPU_TRY(c.matmul(x, y, x));
    NPU_TRY(add_part(c, x, out));
  }
  return {};
}

/// Operand k as matrices. A vector is a row of the left operand, a column of the right one.
Status matrices(OpContext &c, size_t k, size_t zero_point, bool left, Centred &out) {
  ValueId x = c.in(k), zero;
  if (c.rank(k) < 1) return Status::error("an operand is a scalar");
  const int64_t length = c.shape(k)[0];
  if (c.rank(k) == 1) NPU_TRY(c.reshape(x, left ? Shape{1, length} : Shape{length, 1}, x));
  const Shape shape = c.graph[x].shape;
  NPU_TRY(along(c, optional(c, zero_point), shape.size() - (left ? 2 : 1), shape, zero));
  return centre(c, x, zero, out);
}

/// Takes the dimensions away that vectors have got, for operands a and b of the node.
Status drop_vectors(OpContext &c, size_t a, size_t b, ValueId y, ValueId &out) {
  Shape shape = c.graph[y].shape;
  const bool row = c.rank(a) == 1, column = c.rank(b) == 1;
  if (column) shape.pop_back();
  if (row) shape.erase(shape.end() - (column ? 1 : 2));
  return c.reshape(y, shape, out);
}

/// saturate(round(x * a_scale * b_scale / y_scale) + zero). The scales broadcast to x.
Status requantize(OpContext &c, ValueId x, ValueId a_scale, ValueId b_scale, ValueId y_scale, ValueId zero,
                  ValueId &out) {
  ValueId factor;
  const Dtype type = c.graph[zero].dtype;
  if (type != Dtype::U8 && type != Dtype::I8)
    return Status::error(std::string("a result of ") + dtype_name(type) + ", supported: uint8, int8");
  NPU_TRY(c.binary(BinaryKind::Mul, a_scale, b_scale, factor));
  NPU_TRY(c.binary(BinaryKind::Div, factor, y_scale, factor));
  NPU_TRY(c.cast(x, Dtype::F32, x));
  NPU_TRY(c.binary(BinaryKind::Mul, x, factor, x));
  return to_integers(c, x, zero, type, out);
}

Status matmul_integer(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 4));
  Centred a, b;
  ValueId y;
  NPU_TRY(matrices(c, 0, 2, true, a));
  NPU_TRY(matrices(c, 1, 3, false, b));
  NPU_TRY(integer_product(c, a, b, y));
  NPU_TRY(c.cast(y, Dtype::I32, y));
  return drop_vectors(c, 0, 1, y, c.results[0]);
}

/// Operands a, b and y, each with its scale and its zero point; a and y may have them for each row, b for each column.
Status qlinear_matmul(OpContext &c) {
  NPU_TRY(c.need_inputs(8, 8));
  Centred a, b;
  ValueId y, a_scale, b_scale, y_scale, zero;
  NPU_TRY(matrices(c, 0, 2, true, a));
  NPU_TRY(matrices(c, 3, 5, false, b));
  NPU_TRY(integer_product(c, a, b, y));
  const Shape shape = c.graph[y].shape;
  const size_t last = shape.size() - 1;
  NPU_TRY(along(c, c.in(1), last - 1, shape, a_scale));
  NPU_TRY(along(c, c.in(4), last, shape, b_scale));
  NPU_TRY(along(c, c.in(6), last - 1, shape, y_scale));
  NPU_TRY(along(c, c.in(7), last - 1, shape, zero));
  NPU_TRY(requantize(c, y, a_scale, b_scale, y_scale, zero, y));
  return drop_vectors(c, 0, 3, y, c.results[0]);
}

/// A Conv with the attributes of this node, which are the same.
Status convolve(OpContext &c, ValueId x, ValueId w, ValueId &out) {
  RawNode node = c.node;
  node.outputs.resize(1);
  OpContext conv(c.graph, node, c.opset, c.source(), {x, w});
  NPU_TRY(find_op("", "Conv")(conv));
  out = conv.results[0];
  return {};
}

/// Exact: float32, or int32 of parts of the input channels. Padding is 0, which is the zero point.
Status integer_conv(OpContext &c, const Centred &x, const Centred &w, ValueId &out) {
  const Shape from = c.graph[x.value].shape, weights = c.graph[w.value].shape;
  if (from.size() < 3 || weights.size() != from.size() || element_count(weights) < 1)
    return Status::error("weights " + shape_text(weights) + " do not fit input " + shape_text(from));
  const int64_t channels = weights[1], taps = element_count(Shape(weights.begin() + 2, weights.end()));
  const int64_t most = exact_terms(x, w) / taps, groups = from[1] / channels;
  if (channels <= most) return convolve(c, x.value, w.value, out);
  if (most < 1)
    return Status::error("a kernel of " + std::to_string(taps) + " elements, up to " +
                         std::to_string(exact_terms(x, w)) + " have sums that float32 holds exactly");
  if (c.attr_i("group", 1) != groups || from[1] % channels)
    return Status::error("input " + shape_text(from) + ", weights " + shape_text(weights) + " and group " +
                         std::to_string(c.attr_i("group", 1)) + " do not fit");
  Shape grouped = from, part = from;
  grouped[1] = channels;
  grouped.insert(grouped.begin() + 1, groups);
  ValueId all, some, kernel;
  NPU_TRY(c.reshape(x.value, grouped, all));
  out = kNoValue;
  for (int64_t first = 0; first < channels; first += most) {
    const int64_t count = std::min(most, channels - first);
    part[1] = groups * count;
    NPU_TRY(c.slice(all, 2, first, count, some));
    NPU_TRY(c.reshape(some, part, some));
    NPU_TRY(c.slice(w.value, 1, first, count, kernel));
    NPU_TRY(convolve(c, some, kernel, some));
    NPU_TRY(add_part(c, some, out));
  }
  return {};
}

/// The result of operands x and w; w may have a zero point for each output channel.
Status conv_of_operands(OpContext &c, size_t x, size_t x_zero, size_t w, size_t w_zero, int64_t &bound, ValueId &out) {
  Centred input, weights;
  ValueId zero;
  NPU_TRY(along(c, optional(c, x_zero), 0, {}, zero));
  NPU_TRY(centre(c, c.in(x), zero, input));
  NPU_TRY(along(c, optional(c, w_zero), 0, c.shape(w), zero));
  NPU_TRY(centre(c, c.in(w), zero, weights));
  NPU_TRY(integer_conv(c, input, weights, out));
  bound = input.bound * weights.bound * (element_count(c.shape(w)) / c.shape(w)[0]);
  return {};
}

Status conv_integer(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 4));
  int64_t bound;
  ValueId y;
  NPU_TRY(conv_of_operands(c, 0, 2, 1, 3, bound, y));
  return c.cast(y, Dtype::I32, c.results[0]);
}

/// Adds operand 8 to sums of at most `bound`: as float32 where that is exact, else as int32.
Status add_bias(OpContext &c, int64_t bound, ValueId &y) {
  if (!c.has_input(8)) return {};
  if (c.value(8).dtype != Dtype::I32)
    return Status::error(std::string("the bias is ") + dtype_name(c.value(8).dtype) + ", int32 was expected");
  ValueId bias;
  NPU_TRY(along(c, c.in(8), 1, c.graph[y].shape, bias));
  int64_t most = kExact;
  std::vector<int64_t> values;
  if (c.value(8).constant && to_ints(*c.value(8).constant, values)) most = 0;
  for (int64_t v : values) most = std::max(most, v < 0 ? -v : v);
  const Dtype type = bound + most <= kExact ? Dtype::F32 : Dtype::I32;
  NPU_TRY(c.cast(bias, type, bias));
  NPU_TRY(c.cast(y, type, y));
  return c.binary(BinaryKind::Add, y, bias, y);
}

/// Operands x, w and y, each with its scale and its zero point, and a bias in the scale of the products.
Status qlinear_conv(OpContext &c) {
  NPU_TRY(c.need_inputs(8, 9));
  int64_t bound;
  ValueId y, x_scale, w_scale, y_scale, zero;
  NPU_TRY(conv_of_operands(c, 0, 2, 3, 5, bound, y));
  NPU_TRY(add_bias(c, bound, y));
  NPU_TRY(along(c, c.in(1), 0, {}, x_scale));
  NPU_TRY(along(c, c.in(4), 1, c.graph[y].shape, w_scale));
  NPU_TRY(along(c, c.in(6), 0, {}, y_scale));
  NPU_TRY(along(c, c.in(7), 0, {}, zero));
  return requantize(c, y, x_scale, w_scale, y_scale, zero, c.results[0]);
}

constexpr OpEntry kOps[] = {
    {"ConvInteger", conv_integer},
    {"DequantizeLinear", dequantize_linear},
    {"DynamicQuantizeLinear", dynamic_quantize_linear},
    {"MatMulInteger", matmul_integer},
    {"QLinearConv", qlinear_conv},
    {"QLinearMatMul", qlinear_matmul},
    {"QuantizeLinear", quantize_linear},
};

}  // namespace

std::span<const OpEntry> quantize_ops() { return kOps; }

}  // namespace npu::graph
