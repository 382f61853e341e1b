// SPDX-License-Identifier: MIT
// Normalizations, and pooling by p-norms.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/import/op_context.h"

namespace npu::graph {
namespace {

/// What is known of a tensor over some axes, which stay with length 1.
struct Moments {
  ValueId mean, variance;
  ValueId centred;  ///< the tensor without its mean
};

Status mean_square(OpContext &c, ValueId x, const std::vector<int> &axes, ValueId &out) {
  NPU_TRY(c.binary(BinaryKind::Mul, x, x, out));
  return c.reduce(ReduceKind::Mean, out, axes, true, out);
}

Status moments(OpContext &c, ValueId x, const std::vector<int> &axes, Moments &out) {
  NPU_TRY(c.reduce(ReduceKind::Mean, x, axes, true, out.mean));
  NPU_TRY(c.binary(BinaryKind::Sub, x, out.mean, out.centred));
  return mean_square(c, out.centred, axes, out.variance);
}

/// 1 / sqrt(x + epsilon)
Status inverse_root(OpContext &c, ValueId x, ValueId &out) {
  NPU_TRY(c.binary(BinaryKind::Add, x, c.attr_f("epsilon", 1e-5f), out));
  return c.unary(ActKind::Rsqrt, out, out);
}

/// x * factor + summand
Status affine(OpContext &c, ValueId x, ValueId factor, ValueId summand, ValueId &out) {
  NPU_TRY(c.binary(BinaryKind::Mul, x, factor, out));
  return c.binary(BinaryKind::Add, out, summand, out);
}

/// Operand k, of which `wide` says how it broadcasts to the input.
Status parameter(OpContext &c, size_t k, const Shape &wide, ValueId &out) {
  if (element_count(c.shape(k)) == element_count(wide)) return c.reshape(c.in(k), wide, out);
  return Status::error("parameter " + std::to_string(k) + " is " + shape_text(c.shape(k)) + ", " +
                       std::to_string(element_count(wide)) + " elements were expected for input " +
                       shape_text(c.shape(0)));
}

/// The shape of one number a channel.
Shape channel_shape(int64_t channels, size_t rank) {
  Shape wide(rank - 1, 1);
  wide[0] = channels;
  return wide;
}

/// x * factor * scale + bias, with operands 1 and 2 as scale and bias of the channels.
Status channel_affine(OpContext &c, ValueId x, ValueId factor, ValueId &out) {
  ValueId scale, bias;
  const Shape wide = channel_shape(c.graph[x].shape[1], c.graph[x].shape.size());
  NPU_TRY(parameter(c, 1, wide, scale));
  NPU_TRY(parameter(c, 2, wide, bias));
  NPU_TRY(c.binary(BinaryKind::Mul, factor, scale, factor));
  return affine(c, x, factor, bias, out);
}

std::vector<int> axes_from(int first, size_t rank) {
  std::vector<int> axes;
  for (int i = first; i < static_cast<int>(rank); ++i) axes.push_back(i);
  return axes;
}

Status need_rank(const OpContext &c, size_t least) {
  return c.shape(0).size() >= least ? Status()
                                    : Status::error("input " + shape_text(c.shape(0)) + " has fewer than " +
                                                    std::to_string(least) + " dimensions");
}

/// Operands and attributes of BatchNormalization.
struct BatchNorm {
  ValueId operand[5];     ///< the input, then scale, B, mean and var, shaped to broadcast to it
  std::vector<int> axes;  ///< over which a batch has its statistics
};

/// Up to operator set 8, spatial=0 asks for statistics of each element of the batch's entries.
Status read_batch_norm(OpContext &c, BatchNorm &b) {
  NPU_TRY(c.need_inputs(5, 5));
  NPU_TRY(need_rank(c, 1));
  const Shape x = c.shape(0);
  const bool spatial = c.opset >= 9 || c.attr_i("spatial", 1) != 0;
  // A single dimension is the batch, of one channel.
  Shape wide = x.size() < 2 ? Shape{1} : Shape(x.begin() + 1, x.end());
  b.axes = {0};
  if (spatial && x.size() > 2) {
    wide = channel_shape(x[1], x.size());
    for (int i : axes_from(2, x.size())) b.axes.push_back(i);
  }
  b.operand[0] = c.in(0);
  for (size_t k = 1; k < 5; ++k) NPU_TRY(parameter(c, k, wide, b.operand[k]));
  return {};
}

/// Before operator set 7 an attribute says whether this is training, then the presence of outputs, and from 14 on again
/// an attribute.
bool trains(const OpContext &c) {
  if (c.opset < 7) return !c.attr_i("is_test", 0);
  if (c.opset >= 14) return c.attr_i("training_mode", 0) != 0;
  return c.wants_output(1) || c.wants_output(2) || c.wants_output(3) || c.wants_output(4);
}

/// Outputs 1 and 2 are the statistics that move along with those of the batch, 3 and 4 (up to operator set 13) the
/// batch's own.
Status batch_statistic(OpContext &c, size_t k, ValueId batch) {
  const ValueId old = c.in(k % 2 ? 3 : 4);
  const float momentum = c.attr_f("momentum", 0.9f);
  ValueId part;
  NPU_TRY(c.reshape(batch, c.graph[old].shape, batch));
  c.results[k] = batch;
  if (k > 2) return {};
  NPU_TRY(c.binary(BinaryKind::Mul, batch, 1.0 - momentum, batch));
  NPU_TRY(c.binary(BinaryKind::Mul, old, momentum, part));
  return c.binary(BinaryKind::Add, part, batch, c.results[k]);
}

Status batch_normalization(OpContext &c) {
  BatchNorm b;
  NPU_TRY(read_batch_norm(c, b));
  const auto [x, scale, bias, mean, variance] = b.operand;
  ValueId factor, summand;
  if (trains(c)) {
    Moments m;
    NPU_TRY(moments(c, x, b.axes, m));
    NPU_TRY(inverse_root(c, m.variance, factor));
    NPU_TRY(c.binary(BinaryKind::Mul, factor, scale, factor));
    for (size_t k = 1; k < 5; ++k)
      if (c.wants_output(k)) NPU_TRY(batch_statistic(c, k, k % 2 ? m.mean : m.variance));
    return affine(c, m.centred, factor, bias, c.results[0]);
  }
  for (size_t k = 1; k < 5; ++k)
    if (c.wants_output(k)) c.results[k] = c.in(k % 2 ? 3 : 4);
  // One factor and one summand a channel; fusion moves both into a convolution in front of it.
  NPU_TRY(inverse_root(c, variance, factor));
  NPU_TRY(c.binary(BinaryKind::Mul, factor, scale, factor));
  NPU_TRY(c.binary(BinaryKind::Mul, mean, factor, summand));
  NPU_TRY(c.binary(BinaryKind::Sub, bias, summand, summand));
  return affine(c, x, factor, summand, c.results[0]);
}

Status instance_normalization(OpContext &c) {
  NPU_TRY(c.need_inputs(3, 3));
  NPU_TRY(need_rank(c, 3));
  Moments m;
  ValueId factor;
  NPU_TRY(moments(c, c.in(0), axes_from(2, c.shape(0).size()), m));
  NPU_TRY(inverse_root(c, m.variance, factor));
  return channel_affine(c, m.centred, factor, c.results[0]);
}

/// Scale and bias belong to groups up to operator set 20, to channels since.
Status group_normalization(OpContext &c) {
  NPU_TRY(c.need_inputs(3, 3));
  NPU_TRY(need_rank(c, 2));
  const Shape x = c.shape(0);
  const int64_t groups = c.attr_i("num_groups", 0);
  if (groups < 1 || x[1] % groups)
    return Status::error("num_groups is " + std::to_string(groups) + ", a divisor of the channels of " + shape_text(x) +
                         " was expected");
  Shape group = x;
  group.erase(group.begin());
  group[0] /= groups;
  ValueId y, factor;
  Moments m;
  NPU_TRY(c.reshape(c.in(0), {x[0], groups, element_count(group)}, y));
  NPU_TRY(moments(c, y, {2}, m));
  NPU_TRY(inverse_root(c, m.variance, factor));
  if (c.opset >= 21) {
    Shape wide = channel_shape(x[1], x.size());
    wide.insert(wide.begin(), x[0]);
    NPU_TRY(c.reshape(m.centred, x, m.centred));
    NPU_TRY(c.expand(factor, {x[0], groups, x[1] / groups}, factor));
    NPU_TRY(c.reshape(factor, wide, factor));
  }
  NPU_TRY(channel_affine(c, m.centred, factor, y));
  return c.reshape(y, x, c.results[0]);
}

/// The axes from the attribute's on. All of stash_type's floating-point types are computed in float32.
Status layer_axes(const OpContext &c, std::vector<int> &axes) {
  const int64_t stash = c.attr_i("stash_type", 1);
  if (stash < 0 || stash > 255 || working_type(static_cast<Dtype>(stash)) != Dtype::F32)
    return Status::error("stash_type " + std::to_string(stash) + " is not a floating-point type");
  int first;
  NPU_TRY(c.axis(c.attr_i("axis", -1), c.rank(0), first));
  axes = axes_from(first, c.shape(0).size());
  return {};
}

/// y = y OP operand k, which has to broadcast to the input.
Status with_operand(OpContext &c, BinaryKind kind, size_t k, ValueId &y) {
  Shape out;
  if (!broadcast_shapes(c.shape(0), c.shape(k), out) || out != c.shape(0))
    return Status::error("operand " + std::to_string(k) + " " + shape_text(c.shape(k)) + " does not fit input " +
                         shape_text(c.shape(0)));
  return c.binary(kind, y, c.in(k), y);
}

Status layer_normalization(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 3));
  std::vector<int> axes;
  Moments m;
  ValueId factor, y;
  NPU_TRY(layer_axes(c, axes));
  NPU_TRY(moments(c, c.in(0), axes, m));
  NPU_TRY(inverse_root(c, m.variance, factor));
  NPU_TRY(c.binary(BinaryKind::Mul, m.centred, factor, y));
  NPU_TRY(with_operand(c, BinaryKind::Mul, 1, y));
  if (c.has_input(2)) NPU_TRY(with_operand(c, BinaryKind::Add, 2, y));
  c.results[0] = y;
  if (c.wants_output(1)) c.results[1] = m.mean;
  if (c.wants_output(2)) c.results[2] = factor;
  return {};
}

/// x / sqrt(mean(x * x) + epsilon) * scale
Status rms_normalization(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 2));
  std::vector<int> axes;
  ValueId y;
  NPU_TRY(layer_axes(c, axes));
  NPU_TRY(mean_square(c, c.in(0), axes, y));
  NPU_TRY(inverse_root(c, y, y));
  NPU_TRY(c.binary(BinaryKind::Mul, c.in(0), y, y));
  NPU_TRY(with_operand(c, BinaryKind::Mul, 1, y));
  c.results[0] = y;
  return {};
}

/// (x - mean) / (deviation + 1e-9), as the function that ONNX gives for it
Status mean_variance_normalization(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  std::vector<int> axes{0, 2, 3};
  if (c.has("axes"))
    NPU_TRY(c.axes(1, std::numeric_limits<int64_t>::max(), false, axes));
  else
    NPU_TRY(need_rank(c, 4));
  Moments m;
  ValueId deviation;
  NPU_TRY(moments(c, c.in(0), axes, m));
  NPU_TRY(c.unary(ActKind::Sqrt, m.variance, deviation));
  NPU_TRY(c.binary(BinaryKind::Add, deviation, 1e-9, deviation));
  return c.binary(BinaryKind::Div, m.centred, deviation, c.results[0]);
}

/// x^p for x >= 0, by functions that the chip has. 0 stays 0 unless p is negative.
Status power(OpContext &c, ValueId x, double p, ValueId &out) {
  out = x;
  if (p == 1) return {};
  if (p == 2) return c.binary(BinaryKind::Mul, x, x, out);
  if (p == 0.5) return c.unary(ActKind::Sqrt, x, out);
  if (p == -0.5) return c.unary(ActKind::Rsqrt, x, out);
  if (p == -1) return c.unary(ActKind::Reciprocal, x, out);
  NPU_TRY(c.unary(ActKind::Log, x, out));
  NPU_TRY(c.binary(BinaryKind::Mul, out, p, out));
  return c.unary(ActKind::Exp, out, out);
}

/// The windows along one spatial dimension.
struct Line {
  int64_t kernel = 1, stride = 1, dilation = 1, begin = 0, end = 0;
  int64_t extent() const { return (kernel - 1) * dilation + 1; }
};

/// The averages over windows along dimension `axis`; padding counts. Each window sees an element of x.
Status line_average(OpContext &c, ValueId x, size_t axis, const Line &line, ValueId &out) {
  Shape shape = c.graph[x].shape;
  const auto at = shape.begin() + static_cast<int64_t>(axis);
  PoolAttrs attrs;
  attrs.max = false;
  attrs.count_pad = true;
  attrs.window.kernel[0] = line.kernel;
  attrs.window.stride[0] = line.stride;
  attrs.window.dilation[0] = line.dilation;
  attrs.window.begin[0] = line.begin;
  attrs.window.end[0] = attrs.counted_end[0] = line.end;
  const int64_t outer = element_count(Shape(shape.begin(), at)), inner = element_count(Shape(at + 1, shape.end()));
  NPU_TRY(c.reshape(x, {1, outer, *at, inner}, out));
  NPU_TRY(c.emit(Op::Pool, {out}, attrs, out));
  *at = c.graph[out].shape[2];
  return c.reshape(out, shape, out);
}

/// x / (bias + alpha / size * (sum of the squares of `size` channels around x's))^beta
Status lrn(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  NPU_TRY(need_rank(c, 2));
  const int64_t size = c.attr_i("size", 0);
  if (size < 1 || size > 65535) return Status::error("size " + std::to_string(size) + " is outside 1 to 65535");
  const float alpha = c.attr_f("alpha", 1e-4f), beta = c.attr_f("beta", 0.75f), bias = c.attr_f("bias", 1);
  ValueId y;
  NPU_TRY(c.binary(BinaryKind::Mul, c.in(0), c.in(0), y));
  NPU_TRY(line_average(c, y, 1, {size, 1, 1, (size - 1) / 2, size / 2}, y));
  NPU_TRY(c.binary(BinaryKind::Mul, y, alpha, y));
  NPU_TRY(c.binary(BinaryKind::Add, y, bias, y));
  if (alpha >= 0 && bias > 0 && beta != 0)
    NPU_TRY(power(c, y, -beta, y));
  else
    NPU_TRY(c.binary(BinaryKind::Pow, y, -beta, y));
  return c.binary(BinaryKind::Mul, c.in(0), y, c.results[0]);
}

/// The exponent of a norm, in operator set 1 a floating-point number.
Status norm_exponent(const OpContext &c, double &p) {
  p = c.opset < 2 ? c.attr_f("p", 2) : static_cast<double>(c.attr_i("p", 2));
  return p > 0 && std::isfinite(p) ? Status() : Status::error("p is not a positive number");
}

/// |x|^p
Status norm_terms(OpContext &c, double p, ValueId &out) {
  if (p == 2) return c.binary(BinaryKind::Mul, c.in(0), c.in(0), out);
  NPU_TRY(c.unary(ActKind::Abs, c.in(0), out));
  return power(c, out, p, out);
}

Status lp_normalization(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  const int64_t p = c.attr_i("p", 2);
  if (p != 1 && p != 2) return Status::error("p is " + std::to_string(p) + ", 1 or 2 was expected");
  int axis;
  ValueId norm;
  NPU_TRY(c.axis(c.attr_i("axis", -1), c.rank(0), axis));
  NPU_TRY(norm_terms(c, static_cast<double>(p), norm));
  NPU_TRY(c.reduce(ReduceKind::Sum, norm, {axis}, true, norm));
  NPU_TRY(power(c, norm, 1.0 / static_cast<double>(p), norm));
  // Where all is 0 it stays so, as in ONNX Runtime.
  NPU_TRY(c.binary(BinaryKind::Max, norm, std::numeric_limits<float>::min(), norm));
  return c.binary(BinaryKind::Div, c.in(0), norm, c.results[0]);
}

Status global_lp_pool(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  NPU_TRY(need_rank(c, 3));
  double p;
  ValueId y;
  NPU_TRY(norm_exponent(c, p));
  NPU_TRY(norm_terms(c, p, y));
  NPU_TRY(c.reduce(ReduceKind::Sum, y, axes_from(2, c.shape(0).size()), true, y));
  return power(c, y, 1 / p, c.results[0]);
}

/// Entry i of an attribute that has `count`, or none, which stands for the least values.
Status line_number(const OpContext &c, const char *name, size_t i, size_t count, int64_t least, int64_t &out) {
  const std::vector<int64_t> given = c.attr_ints(name);
  if (!given.empty() && given.size() != count)
    return Status::error(std::string(name) + " has " + std::to_string(given.size()) + " entries, " +
                         std::to_string(count) + " were expected");
  out = given.empty() ? least : given[i];
  if (out >= least && out <= 65535) return {};
  return Status::error(std::string(name) + " has " + std::to_string(out) + ", which is outside " +
                       std::to_string(least) + " to 65535");
}

/// Padding of a dimension of `size` elements. ceil_mode adds a window where the last one does not reach the end, and
/// leaves out one that begins behind the data.
Status line_padding(const OpContext &c, size_t i, size_t rank, int64_t size, Line &line) {
  const std::string mode = c.attr_s("auto_pad", "NOTSET");
  if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    const int64_t last = (size - 1) / line.stride * line.stride;
    const int64_t total = std::max<int64_t>(last + line.extent() - size, 0);
    line.begin = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    line.end = total - line.begin;
    return {};
  }
  if (mode != "NOTSET" && mode != "VALID" && !mode.empty())
    return Status::error("auto_pad '" + mode + "' is not known");
  if (mode != "VALID") {
    NPU_TRY(line_number(c, "pads", i, 2 * rank, 0, line.begin));
    NPU_TRY(line_number(c, "pads", rank + i, 2 * rank, 0, line.end));
  }
  const int64_t span = size + line.begin + line.end - line.extent();
  if (span < 0)
    return Status::error("a window of " + std::to_string(line.extent()) + " does not fit spatial dimension " +
                         std::to_string(i) + " of input " + shape_text(c.shape(0)));
  if (!c.attr_i("ceil_mode", 0)) return {};
  int64_t last = (span + line.stride - 1) / line.stride;
  if (last * line.stride >= size + line.begin) --last;
  line.end = std::max<int64_t>(last * line.stride + line.extent() - size - line.begin, 0);
  return {};
}

Status read_lines(const OpContext &c, std::vector<Line> &lines) {
  const size_t rank = c.shape(0).size() - 2;
  lines.resize(rank);
  if (c.attr_ints("kernel_shape").empty()) return Status::error("kernel_shape is missing");
  for (size_t i = 0; i < rank; ++i) {
    NPU_TRY(line_number(c, "kernel_shape", i, rank, 1, lines[i].kernel));
    NPU_TRY(line_number(c, "strides", i, rank, 1, lines[i].stride));
    NPU_TRY(line_number(c, "dilations", i, rank, 1, lines[i].dilation));
    NPU_TRY(line_padding(c, i, rank, c.shape(0)[i + 2], lines[i]));
  }
  return {};
}

/// The sum over windows is the average times their size; it is taken along one dimension after the other, of padded
/// data: windows may see nothing but padding.
Status lp_pool(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  NPU_TRY(need_rank(c, 3));
  std::vector<Line> lines;
  double p, count = 1;
  ValueId y;
  NPU_TRY(norm_exponent(c, p));
  NPU_TRY(read_lines(c, lines));
  NPU_TRY(norm_terms(c, p, y));
  std::vector<int64_t> begin(2, 0), end(2, 0);
  for (const Line &line : lines) {
    begin.push_back(line.begin);
    end.push_back(line.end);
    count *= static_cast<double>(line.kernel);
  }
  NPU_TRY(c.pad(y, begin, end, 0, y));
  for (size_t i = 0; i < lines.size(); ++i)
    NPU_TRY(line_average(c, y, i + 2, {lines[i].kernel, lines[i].stride, lines[i].dilation}, y));
  NPU_TRY(c.binary(BinaryKind::Mul, y, count, y));
  return power(c, y, 1 / p, c.results[0]);
}

constexpr OpEntry kNormOps[] = {
    {"BatchNormalization", batch_normalization},
    {"GlobalLpPool", global_lp_pool},
    {"GroupNormalization", group_normalization},
    {"InstanceNormalization", instance_normalization},
    {"LRN", lrn},
    {"LayerNormalization", layer_normalization},
    {"LpNormalization", lp_normalization},
    {"LpPool", lp_pool},
    {"MeanVarianceNormalization", mean_variance_normalization},
    {"RMSNormalization", rms_normalization},
};

}  // namespace

std::span<const OpEntry> norm_ops() { return kNormOps; }

}  // namespace npu::graph
