// SPDX-License-Identifier: MIT
// Products of integers. Where scales and zero points are known, one each or one for each output channel, they are one
// operator; else they are computed as float32, which has all integers up to 2^24.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/graph/quantized_constant.h"
#include "compiler/import/quantize.h"
#include "compiler/import/windows.h"
#include "runtime/cpu/element.h"

namespace npu::graph {
namespace {

/// Sums of products of integers are exact in float32, in any order, where the magnitudes add up to no more than this.
constexpr int64_t kExact = int64_t{1} << 24;

/// Parts of a matrix product with exact sums; more of them are not worth it, the CPU multiplies integers as well.
constexpr int64_t kMaxParts = 64;

Status check_result(Dtype type) {
  return is_byte(type)
             ? Status()
             : refuse(Obstacle::Type, std::string("a result of ") + dtype_name(type) + ", supported: uint8, int8");
}

// As float32.

/// An operand without its zero point, float32.
struct Centred {
  ValueId value = kNoValue;
  int64_t bound = 255;  ///< of its elements' magnitude
};

/// Of int8 or uint8. The zero point (kNoValue: 0) broadcasts to x.
Status centre(OpContext &c, ValueId x, ValueId zero, Centred &out) {
  const Dtype type = c.graph[x].dtype;
  if (!is_byte(type))
    return refuse(Obstacle::Type, std::string("an operand is ") + dtype_name(type) + ", supported: uint8, int8");
  NPU_TRY(check_zero(c.graph, zero, type));
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

/// A product of matrices whose sums are exact.
Status exact_matmul(OpContext &c, ValueId a, ValueId b, ValueId &out) {
  NPU_TRY(c.matmul(a, b, out));
  keep_exact(c.graph, out);
  return {};
}

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
  if (right[static_cast<size_t>(column)] != inner || inner <= most) return exact_matmul(c, a.value, b.value, out);
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
    NPU_TRY(exact_matmul(c, x, y, x));
    NPU_TRY(add_part(c, x, out));
  }
  return {};
}

/// Operand k as matrices. A vector is a row of the left operand, a column of the right one.
Status as_matrices(OpContext &c, size_t k, bool left, ValueId &out) {
  out = c.in(k);
  if (c.rank(k) < 1) return Status::error("an operand is a scalar");
  const int64_t length = c.shape(k)[0];
  return c.rank(k) == 1 ? c.reshape(out, left ? Shape{1, length} : Shape{length, 1}, out) : Status();
}

/// The same without its zero point.
Status matrices(OpContext &c, size_t k, size_t zero_point, bool left, Centred &out) {
  ValueId x, zero;
  NPU_TRY(as_matrices(c, k, left, x));
  const Shape shape = c.graph[x].shape;
  NPU_TRY(along(c, optional_input(c, zero_point), shape.size() - (left ? 2 : 1), shape, zero));
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
  NPU_TRY(check_result(type));
  NPU_TRY(c.binary(BinaryKind::Mul, a_scale, b_scale, factor));
  NPU_TRY(c.binary(BinaryKind::Div, factor, y_scale, factor));
  NPU_TRY(c.cast(x, Dtype::F32, x));
  NPU_TRY(c.binary(BinaryKind::Mul, x, factor, x));
  keep_exact(c.graph, factor);
  keep_exact(c.graph, x);
  return to_integers(c, x, zero, type, out);
}

/// A Conv with the attributes of this node, which are the same, and sums that are exact.
Status convolve(OpContext &c, ValueId x, ValueId w, ValueId &out) {
  RawNode node = c.node;
  node.outputs.resize(1);
  OpContext conv(c.graph, node, c.opset, c.source(), {x, w});
  NPU_TRY(find_op("", "Conv")(conv));
  if (!conv.wrong_attribute().empty()) return Status::error(conv.wrong_attribute());
  out = conv.results[0];
  keep_exact(c.graph, out);
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
    return refuse(Obstacle::Form, "a kernel of " + std::to_string(taps) + " elements, up to " +
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
  NPU_TRY(along(c, optional_input(c, x_zero), 0, {}, zero));
  NPU_TRY(centre(c, c.in(x), zero, input));
  NPU_TRY(along(c, optional_input(c, w_zero), 0, c.shape(w), zero));
  NPU_TRY(centre(c, c.in(w), zero, weights));
  NPU_TRY(integer_conv(c, input, weights, out));
  bound = input.bound * weights.bound * (element_count(c.shape(w)) / c.shape(w)[0]);
  return {};
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
  NPU_TRY(c.binary(BinaryKind::Add, y, bias, y));
  keep_exact(c.graph, y);
  return {};
}

// As one operator.

/// An integer product that is known but for its data.
struct Product {
  ValueId x = kNoValue, w = kNoValue, bias = kNoValue, multiplier = kNoValue;
  ProductQuant quant;
  Quant result;  ///< of integers
};

/// Weights with a single zero point: those that are known may have others instead. False: they have several. A vector
/// of zero points goes along the axis.
bool find_weights(OpContext &c, ValueId w, ValueId zero, size_t axis, Product &out) {
  std::vector<int32_t> zeros;
  out.w = w;
  if (!known_zeros(c.graph, zero, zeros)) return false;
  const Shape &shape = c.graph[w].shape;
  const bool vector = axis < shape.size() && zeros.size() == static_cast<size_t>(shape[axis]);
  if (zeros.size() != 1 && (!vector || c.graph[zero].shape.size() != 1)) return false;
  if (const TensorPtr known = c.graph[w].constant) {
    const TensorPtr integers = with_single_zero(known, zeros, axis, out.quant.w_zero);
    if (!integers) return false;
    if (integers != known) out.w = c.constant(integers);
    return true;
  }
  out.quant.w_zero = zeros[0];
  return std::all_of(zeros.begin(), zeros.end(), [&](int32_t z) { return z == zeros[0]; });
}

/// x_scale * w_scale / y_scale, one or one for each channel.
bool find_multiplier(OpContext &c, const ProductOperands &k, int64_t channels, Product &out) {
  Quant x, y{1, 0};
  const bool to_float = k.y_scale == kNoOperand;
  const TensorPtr w = c.graph[c.in(k.w_scale)].constant;
  if (!is_single(c.graph, c.in(k.x_scale), kNoValue, x)) return false;
  if (!to_float && !is_single(c.graph, c.in(k.y_scale), c.in(k.y_zero), y)) return false;
  if (!w || w->dtype != Dtype::F32 || (w->count() != 1 && w->shape != Shape{channels})) return false;
  std::vector<float> factors;
  for (int64_t i = 0; i < w->count(); ++i) factors.push_back(x.scale * w->as<float>()[i] / y.scale);
  out.multiplier = c.constant(make_f32({w->count()}, factors));
  out.quant.out = to_float ? Dtype::F32 : c.value(k.y_zero).dtype;
  out.quant.out_zero = y.zero;
  if (!to_float) out.result = y;
  note_quant(c.graph, c.in(k.x), {x.scale, out.quant.x_zero});
  return true;
}

/// All but the bias; x and w as the operator takes them. False: something is not known.
bool find_product(OpContext &c, const ProductOperands &k, ValueId x, ValueId w, size_t axis, Product &out) {
  std::vector<int32_t> zeros;
  if (!known_zeros(c.graph, optional_input(c, k.x_zero), zeros) || zeros.size() != 1) return false;
  out.x = x;
  out.quant = {true, zeros[0], 0, 0, Dtype::I32};
  if (!find_weights(c, w, optional_input(c, k.w_zero), axis, out)) return false;
  return k.x_scale == kNoOperand || find_multiplier(c, k, c.graph[w].shape[axis], out);
}

Status emit_product(OpContext &c, Op op, const Product &p, Attrs attrs, ValueId &out) {
  std::vector<ValueId> operands{p.x, p.w, p.bias};
  if (p.multiplier != kNoValue) operands.push_back(p.multiplier);
  return c.emit(op, std::move(operands), std::move(attrs), out);
}

/// An integer product as float32: the same with the factor 1.
Status emit_float(OpContext &c, Op op, Product p, Attrs attrs, ValueId &out) {
  p.quant.out = Dtype::F32;
  p.multiplier = c.constant(make_f32({1}, {1}));
  if (auto *conv = std::get_if<ConvAttrs>(&attrs)) conv->quant = p.quant;
  if (auto *matmul = std::get_if<MatMulAttrs>(&attrs)) matmul->quant = p.quant;
  NPU_TRY(emit_product(c, op, p, attrs, out));
  keep_exact(c.graph, out);
  return {};
}

/// The sums of known weights without their zero point over `count` axes from `first` on, in this shape and exact in
/// float32. Null: 128 times the sum of their magnitudes is more than float32 holds exactly, or there are no elements.
TensorPtr exact_sums(const Tensor &w, int32_t zero, size_t first, size_t count, Shape shape) {
  const auto at = [&w](size_t axis) { return w.shape.begin() + static_cast<std::ptrdiff_t>(axis); };
  const int64_t terms = element_count(Shape(at(first), at(first + count)));
  const int64_t inner = element_count(Shape(at(first + count), w.shape.end()));
  auto out = std::make_shared<Tensor>(Dtype::F32, std::move(shape));
  if (terms < 1 || out->count() < 1) return nullptr;
  const bool all = cpu::with_number(w.dtype, [&](auto type) {
    const auto *from = w.as<decltype(type)>();
    for (int64_t i = 0; i < out->count(); ++i) {
      int64_t sum = 0, size = 0;
      for (int64_t k = 0; k < terms; ++k) {
        const int64_t v = static_cast<int64_t>(from[(i / inner * terms + k) * inner + i % inner]) - zero;
        sum += v;
        size += v < 0 ? -v : v;
      }
      if (size > kExact / 128) return false;
      out->as<float>()[i] = static_cast<float>(sum);
    }
    return true;
  });
  return all ? out : nullptr;
}

/// The zero point of x where it arrives at run time, as a scalar; else kNoValue.
Status late_zero(OpContext &c, const ProductOperands &k, ValueId &out) {
  const ValueId zero = optional_input(c, k.x_zero);
  out = kNoValue;
  if (zero == kNoValue || c.graph[zero].constant || element_count(c.graph[zero].shape) != 1) return {};
  return c.reshape(zero, {}, out);
}

/// An integer product as float32 whose zero point of x arrives at run time:
/// sum((x - zero) * w) = sum((x - middle) * w) + (middle - zero) * sum(w).
/// Both summands are exact in float32 if exact_sums() are, and so their sum is rounded once.
Status late_product(OpContext &c, Op op, Product p, ValueId zero, TensorPtr weight_sums, Attrs attrs, ValueId &out) {
  const int middle = c.graph[p.x].dtype == Dtype::U8 ? 128 : 0;
  p.quant = {true, middle, p.quant.w_zero, 0, Dtype::I32};
  ValueId sums = c.constant(std::move(weight_sums)), shift, y;
  NPU_TRY(emit_float(c, op, p, std::move(attrs), y));
  NPU_TRY(to_float(c, zero, shift));
  NPU_TRY(c.binary(BinaryKind::Sub, c.scalar(middle), shift, shift));
  NPU_TRY(c.binary(BinaryKind::Mul, sums, shift, sums));
  NPU_TRY(c.binary(BinaryKind::Add, y, sums, out));
  for (ValueId v : {shift, sums, out}) keep_exact(c.graph, v);
  return {};
}

/// A convolution as one operator; `done` stays false where it cannot be one.
Status single_conv(OpContext &c, const ProductOperands &k, bool &done) {
  Product p;
  const Shape shape = c.shape(k.x), weights = c.shape(k.w);
  if (shape.size() < 3 || shape.size() > 4 || weights.size() != shape.size() || weights[0] < 1) return {};
  if (!find_product(c, k, c.in(k.x), c.in(k.w), 0, p)) return {};
  if (k.bias != kNoOperand && c.has_input(k.bias)) p.bias = c.in(k.bias);
  const OpContext conv(c.graph, c.node, c.opset, c.source(), {p.x, p.w});
  ConvAttrs attrs;
  NPU_TRY(read_conv(conv, attrs));
  if (!conv.wrong_attribute().empty()) return Status::error(conv.wrong_attribute());
  attrs.quant = p.quant;
  done = true;
  NPU_TRY(emit_product(c, Op::Conv, p, attrs, c.results[0]));
  note_quant(c.graph, c.results[0], p.result);
  if (p.quant.out != Dtype::I32) return {};
  ValueId as_float;
  NPU_TRY(emit_float(c, Op::Conv, p, attrs, as_float));
  c.graph[c.results[0]].as_float = as_float;
  return {};
}

/// Puts the padding of a window around x, with elements that are `zero`.
Status pad_with(OpContext &c, ValueId zero, Window &window, ValueId &x) {
  for (size_t i = 0; i < 2; ++i) {
    std::vector<ValueId> parts{x};
    for (int64_t *pad : {&window.begin[i], &window.end[i]}) {
      if (*pad == 0) continue;
      Shape shape = c.graph[x].shape;
      shape[2 + i] = *pad;
      ValueId border;
      NPU_TRY(c.expand(zero, shape, border));
      parts.insert(pad == &window.end[i] ? parts.end() : parts.begin(), border);
      *pad = 0;
    }
    NPU_TRY(c.concat(static_cast<int>(2 + i), std::move(parts), x));
  }
  return {};
}

/// The sums of a ConvInteger whose zero point of x arrives, as late_product(). The padding is the zero point.
Status late_conv(OpContext &c, const ProductOperands &k, ValueId &out) {
  out = kNoValue;
  const Shape x = c.shape(k.x), w = c.shape(k.w);
  if (x.size() < 3 || x.size() > 4 || w.size() != x.size() || w[0] < 1) return {};
  Product p;
  p.x = c.in(k.x);
  const OpContext conv(c.graph, c.node, c.opset, c.source(), {p.x, c.in(k.w)});
  ConvAttrs attrs;
  NPU_TRY(read_conv(conv, attrs));
  for (size_t i = 0; i < 2; ++i)
    if (attrs.window.begin[i] < 0 || attrs.window.end[i] < 0) return {};
  ValueId zero;
  NPU_TRY(late_zero(c, k, zero));
  if (zero == kNoValue || !find_weights(c, c.in(k.w), optional_input(c, k.w_zero), 0, p)) return {};
  if (!c.graph[p.w].constant) return {};
  Shape channels(w.size() - 1, 1);
  channels[0] = w[0];
  TensorPtr sums = exact_sums(*c.graph[p.w].constant, p.quant.w_zero, 1, w.size() - 1, channels);
  if (!sums) return {};
  NPU_TRY(pad_with(c, zero, attrs.window, p.x));
  return late_product(c, Op::Conv, p, zero, std::move(sums), attrs, out);
}

}  // namespace

Status check_operands(const OpContext &c, const ProductOperands &k) {
  for (const auto &[operand, zero] : {std::pair(k.x, k.x_zero), std::pair(k.w, k.w_zero)}) {
    const Dtype type = c.value(operand).dtype;
    if (!is_byte(type))
      return refuse(Obstacle::Type, std::string("an operand is ") + dtype_name(type) + ", supported: uint8, int8");
    NPU_TRY(check_zero(c.graph, optional_input(c, zero), type));
  }
  if (k.x_scale == kNoOperand) return {};
  for (size_t scale : {k.x_scale, k.w_scale}) NPU_TRY(check_scale(c.graph, c.in(scale)));
  if (k.y_scale == kNoOperand) return {};
  NPU_TRY(check_scale(c.graph, c.in(k.y_scale)));
  return check_result(c.value(k.y_zero).dtype);
}

Status single_matmul(OpContext &c, const ProductOperands &k, bool &done) {
  Product p;
  ValueId a, b, y;
  NPU_TRY(as_matrices(c, k.x, true, a));
  NPU_TRY(as_matrices(c, k.w, false, b));
  if (!find_product(c, k, a, b, c.graph[b].shape.size() - 1, p)) return {};
  done = true;
  NPU_TRY(emit_product(c, Op::MatMul, p, MatMulAttrs{{}, p.quant}, y));
  NPU_TRY(drop_vectors(c, k.x, k.w, y, c.results[0]));
  note_quant(c.graph, c.results[0], p.result);
  if (p.quant.out != Dtype::I32) return {};
  NPU_TRY(emit_float(c, Op::MatMul, p, MatMulAttrs{}, y));
  NPU_TRY(drop_vectors(c, k.x, k.w, y, y));
  c.graph[c.results[0]].as_float = y;
  return {};
}

Status late_matmul(OpContext &c, const ProductOperands &k, ValueId &out) {
  Product p;
  ValueId w, zero;
  out = kNoValue;
  NPU_TRY(as_matrices(c, k.x, true, p.x));
  NPU_TRY(as_matrices(c, k.w, false, w));
  Shape shape = c.graph[w].shape;
  const size_t rank = shape.size();
  if (shape[rank - 2] != c.graph[p.x].shape.back()) return {};
  NPU_TRY(late_zero(c, k, zero));
  if (zero == kNoValue || !find_weights(c, w, optional_input(c, k.w_zero), rank - 1, p)) return {};
  if (!c.graph[p.w].constant) return {};
  shape[rank - 2] = 1;
  TensorPtr sums = exact_sums(*c.graph[p.w].constant, p.quant.w_zero, rank - 2, 1, shape);
  if (!sums) return {};
  return late_product(c, Op::MatMul, p, zero, std::move(sums), MatMulAttrs{}, out);
}

Status integer_matmul(OpContext &c, MatrixOperand a, MatrixOperand b, ValueId &out) {
  Centred left, right;
  NPU_TRY(matrices(c, a.k, a.zero, true, left));
  NPU_TRY(matrices(c, b.k, b.zero, false, right));
  return integer_product(c, left, right, out);
}

namespace {

// Operators.

Status matmul_integer(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 4));
  const ProductOperands k{0, 2, 1, 3};
  NPU_TRY(check_operands(c, k));
  bool done = false;
  NPU_TRY(single_matmul(c, k, done));
  if (done) return {};
  ValueId y, as_float;
  NPU_TRY(integer_matmul(c, {0, 2}, {1, 3}, y));
  NPU_TRY(c.cast(y, Dtype::I32, y));
  NPU_TRY(drop_vectors(c, 0, 1, y, c.results[0]));
  NPU_TRY(late_matmul(c, k, as_float));
  if (as_float == kNoValue) return {};
  NPU_TRY(drop_vectors(c, 0, 1, as_float, as_float));
  c.graph[c.results[0]].as_float = as_float;
  return {};
}

/// Operands a, b and y, each with its scale and its zero point; a and y may have them for each row, b for each column.
Status qlinear_matmul(OpContext &c) {
  NPU_TRY(c.need_inputs(8, 8));
  const ProductOperands k{0, 2, 3, 5, 1, 4, 6, 7};
  NPU_TRY(check_operands(c, k));
  bool done = false;
  NPU_TRY(single_matmul(c, k, done));
  if (done) return {};
  ValueId y, a_scale, b_scale, y_scale, zero;
  NPU_TRY(integer_matmul(c, {0, 2}, {3, 5}, y));
  const Shape shape = c.graph[y].shape;
  const size_t last = shape.size() - 1;
  NPU_TRY(along(c, c.in(1), last - 1, shape, a_scale));
  NPU_TRY(along(c, c.in(4), last, shape, b_scale));
  NPU_TRY(along(c, c.in(6), last - 1, shape, y_scale));
  NPU_TRY(along(c, c.in(7), last - 1, shape, zero));
  NPU_TRY(requantize(c, y, a_scale, b_scale, y_scale, zero, y));
  return drop_vectors(c, 0, 3, y, c.results[0]);
}

Status conv_integer(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 4));
  const ProductOperands k{0, 2, 1, 3};
  NPU_TRY(check_operands(c, k));
  bool done = false;
  NPU_TRY(single_conv(c, k, done));
  if (done) return {};
  int64_t bound;
  ValueId y, as_float;
  NPU_TRY(conv_of_operands(c, 0, 2, 1, 3, bound, y));
  NPU_TRY(c.cast(y, Dtype::I32, c.results[0]));
  NPU_TRY(late_conv(c, k, as_float));
  c.graph[c.results[0]].as_float = as_float;
  return {};
}

/// Operands x, w and y, each with its scale and its zero point, and a bias in the scale of the products.
Status qlinear_conv(OpContext &c) {
  NPU_TRY(c.need_inputs(8, 9));
  const ProductOperands k{0, 2, 3, 5, 1, 4, 6, 7, 8};
  NPU_TRY(check_operands(c, k));
  if (c.has_input(8) && c.rank(3) > 0 && c.shape(8) != Shape{c.shape(3)[0]})
    return Status::error("bias '" + c.value(8).name + "' " + shape_text(c.shape(8)) + ", expected [" +
                         std::to_string(c.shape(3)[0]) + "] for weights " + shape_text(c.shape(3)));
  bool done = false;
  NPU_TRY(single_conv(c, k, done));
  if (done) return {};
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

constexpr OpEntry kQuantizedProductOps[] = {
    {"ConvInteger", conv_integer},
    {"MatMulInteger", matmul_integer},
    {"QLinearConv", qlinear_conv},
    {"QLinearMatMul", qlinear_matmul},
};

}  // namespace

std::span<const OpEntry> quantized_product_ops() { return kQuantizedProductOps; }

}  // namespace npu::graph
