// SPDX-License-Identifier: MIT
// Operators that read a picture between its elements: at coordinates that arrive at run time, or in regions.
// Coordinates are computed in float32 and become indices; rows of channels are gathered, weighted and summed.
#include <algorithm>
#include <cmath>
#include <span>

#include "compiler/import/op_context.h"

namespace npu::graph {
namespace {

constexpr int64_t kMaxPlaces = 1 << 26;  // that are computed at compile time

// Reading at coordinates.

/// [n, c, spatial...] with the channels last, one row a place: what Gather reads.
struct Picture {
  ValueId rows = kNoValue;  ///< [n * places, c]
  Shape size;               ///< spatial dimensions
};

Status make_picture(OpContext &c, ValueId x, Picture &out) {
  const Shape shape = c.graph[x].shape;
  if (shape.size() < 3 || element_count(shape) < 1)
    return Status::error("input " + shape_text(shape) + " has no spatial dimensions, or is empty");
  out.size.assign(shape.begin() + 2, shape.end());
  const int64_t places = element_count(out.size);
  NPU_TRY(c.reshape(x, {shape[0], shape[1], places}, out.rows));
  NPU_TRY(c.transpose(out.rows, {0, 2, 1}, out.rows));
  return c.reshape(out.rows, {shape[0] * places, shape[1]}, out.rows);
}

/// What points read along one dimension: an element of it (int64), with a weight (float32; none: 1).
struct Tap {
  ValueId index = kNoValue, weight = kNoValue;
};
using Taps = std::vector<Tap>;

Status multiply(OpContext &c, ValueId a, ValueId b, ValueId &out) {
  if (a != kNoValue && b != kNoValue) return c.binary(BinaryKind::Mul, a, b, out);
  out = a != kNoValue ? a : b;
  return {};
}

/// Joins what all combinations of one tap in each dimension, from the d-th on, read. `index` are the places in the
/// dimensions in front of it, the batch first. y gets the shape of the points, and the channels.
Status read_taps(OpContext &c, const Picture &picture, std::span<const Taps> taps, Tap so_far, BinaryKind join,
                 ValueId &y) {
  if (taps.empty()) {
    ValueId term;
    NPU_TRY(c.gather(0, picture.rows, so_far.index, term));
    if (so_far.weight != kNoValue) {
      Shape wide = c.graph[so_far.weight].shape;
      wide.push_back(1);
      NPU_TRY(c.reshape(so_far.weight, wide, so_far.weight));
      NPU_TRY(c.binary(BinaryKind::Mul, term, so_far.weight, term));
    }
    return y == kNoValue ? (y = term, Status()) : c.binary(join, y, term, y);
  }
  const int64_t length = picture.size[picture.size.size() - taps.size()];
  NPU_TRY(c.binary(BinaryKind::Mul, so_far.index, static_cast<double>(length), so_far.index));
  for (const Tap &tap : taps[0]) {
    Tap next;
    NPU_TRY(c.binary(BinaryKind::Add, so_far.index, tap.index, next.index));
    NPU_TRY(multiply(c, so_far.weight, tap.weight, next.weight));
    NPU_TRY(read_taps(c, picture, taps.subspan(1), next, join, y));
  }
  return {};
}

/// What lies beyond the ends of a dimension.
enum class SampleBorder : uint8_t { Zeros, Clamp, Reflect };

/// One dimension of a picture. Its elements lie at 0 to length - 1; its borders there, or half an element further out.
struct SampledLine {
  int64_t length = 1;
  SampleBorder border = SampleBorder::Zeros;
  bool at_centres = false;
  float low() const { return at_centres ? 0 : -0.5f; }
  float high() const { return static_cast<float>(length) - (at_centres ? 1 : 0.5f); }
  float last() const { return static_cast<float>(length - 1); }
};

Status clip(OpContext &c, ValueId x, float low, float high, ValueId &out) {
  return c.unary(ActKind::Clip, x, out, low, high);
}

/// 1 where a and b are equal, else 0.
Status equal(OpContext &c, ValueId a, ValueId b, ValueId &out) {
  NPU_TRY(c.binary(BinaryKind::Equal, a, b, out));
  return c.cast(out, Dtype::F32, out);
}

/// Mirrors at both borders, any number of times: low + range - |(x - low) mod (2 * range) - range|.
Status reflect(OpContext &c, const SampledLine &line, ValueId x, ValueId &out) {
  const double range = static_cast<double>(line.high()) - line.low();
  if (range == 0) return clip(c, x, line.low(), line.low(), out);
  ValueId turns;
  NPU_TRY(c.binary(BinaryKind::Sub, x, line.low(), out));
  NPU_TRY(c.binary(BinaryKind::Div, out, 2 * range, turns));
  NPU_TRY(c.unary(ActKind::Floor, turns, turns));
  NPU_TRY(c.binary(BinaryKind::Mul, turns, 2 * range, turns));
  NPU_TRY(c.binary(BinaryKind::Sub, out, turns, out));
  NPU_TRY(c.binary(BinaryKind::Sub, out, range, out));
  NPU_TRY(c.unary(ActKind::Abs, out, out));
  return c.binary(BinaryKind::Sub, c.scalar(line.low() + range), out, out);
}

/// The tap at an integral place (float32), inside or outside.
Status make_tap(OpContext &c, const SampledLine &line, ValueId place, ValueId weight, Tap &out) {
  if (line.border == SampleBorder::Reflect) NPU_TRY(reflect(c, line, place, place));
  ValueId inside;
  NPU_TRY(clip(c, place, 0, line.last(), inside));
  NPU_TRY(c.cast(inside, Dtype::I64, out.index));
  out.weight = weight;
  if (line.border != SampleBorder::Zeros) return {};
  NPU_TRY(equal(c, place, inside, inside));
  return multiply(c, weight, inside, out.weight);
}

/// Taps at the places floor(x) + first and the following ones, one for each weight.
Status make_taps(OpContext &c, const SampledLine &line, ValueId below, int first, std::span<const ValueId> weights,
                 Taps &taps) {
  for (ValueId weight : weights) {
    ValueId place;
    NPU_TRY(c.binary(BinaryKind::Add, below, first++, place));
    NPU_TRY(make_tap(c, line, place, weight, taps.emplace_back()));
  }
  return {};
}

Status split(OpContext &c, ValueId x, ValueId &below, ValueId &rest) {
  NPU_TRY(c.unary(ActKind::Floor, x, below));
  return c.binary(BinaryKind::Sub, x, below, rest);
}

Status linear_taps(OpContext &c, const SampledLine &line, ValueId x, Taps &taps) {
  ValueId below, weights[2];
  NPU_TRY(split(c, x, below, weights[1]));
  NPU_TRY(c.binary(BinaryKind::Sub, c.scalar(1), weights[1], weights[0]));
  return make_taps(c, line, below, 0, weights, taps);
}

/// Factors of t^3, t^2, t and 1.
Status polynomial(OpContext &c, ValueId t, const double (&factors)[4], ValueId &out) {
  NPU_TRY(c.binary(BinaryKind::Mul, t, factors[0], out));
  for (size_t i = 1; i < 4; ++i) {
    if (factors[i] != 0) NPU_TRY(c.binary(BinaryKind::Add, out, factors[i], out));
    if (i < 3) NPU_TRY(c.binary(BinaryKind::Mul, out, t, out));
  }
  return {};
}

/// The weights of Keys' cubic convolution (1981) as polynomials of the distance from the element below.
Status cubic_taps(OpContext &c, const SampledLine &line, ValueId x, Taps &taps) {
  constexpr double a = -0.75;
  constexpr double kFactors[4][4] = {
      {a, -2 * a, a, 0}, {a + 2, -(a + 3), 0, 1}, {-(a + 2), 2 * a + 3, -a, 0}, {-a, a, 0, 0}};
  ValueId below, rest, weights[4];
  NPU_TRY(split(c, x, below, rest));
  for (size_t i = 0; i < 4; ++i) NPU_TRY(polynomial(c, rest, kFactors[i], weights[i]));
  return make_taps(c, line, below, -1, weights, taps);
}

/// Halves to the even neighbour, in any number of dimensions (the text of operator set 20).
Status nearest_tap(OpContext &c, const SampledLine &line, ValueId x, Taps &taps) {
  ValueId place;
  NPU_TRY(c.unary(ActKind::Round, x, place));
  return make_tap(c, line, place, kNoValue, taps.emplace_back());
}

/// The numbers 0 to count - 1, int64, in the first of `rank` dimensions.
ValueId count_up(OpContext &c, int64_t count, size_t rank) {
  auto out = std::make_shared<Tensor>(Dtype::I64, Shape{count});
  for (int64_t i = 0; i < count; ++i) out->as<int64_t>()[i] = i;
  out->shape.resize(rank, 1);
  return c.constant(std::move(out));
}

/// [n, points, c] from taps that have one row of points for each picture.
Status read_points(OpContext &c, const Picture &picture, int64_t pictures, std::span<const Taps> taps, ValueId &y) {
  y = kNoValue;
  return read_taps(c, picture, taps, {count_up(c, pictures, 2), kNoValue}, BinaryKind::Add, y);
}

// GridSample.

enum class SampleMode : uint8_t { Nearest, Linear, Cubic };

struct GridMethod {
  SampleMode mode = SampleMode::Linear;
  SampleBorder border = SampleBorder::Zeros;
  bool align_corners = false;
};

/// The names of operator set 16 and of 20.
Status read_grid_method(const OpContext &c, GridMethod &out) {
  const std::string mode = c.attr_s("mode", "linear"), padding = c.attr_s("padding_mode", "zeros");
  if (mode == "nearest")
    out.mode = SampleMode::Nearest;
  else if (mode == "cubic" || mode == "bicubic")
    out.mode = SampleMode::Cubic;
  else if (mode != "linear" && mode != "bilinear")
    return Status::error("mode '" + mode + "' is not known");
  if (padding == "border")
    out.border = SampleBorder::Clamp;
  else if (padding == "reflection")
    out.border = SampleBorder::Reflect;
  else if (padding != "zeros")
    return Status::error("padding_mode '" + padding + "' is not known");
  out.align_corners = c.attr_i("align_corners", 0) != 0;
  return {};
}

/// From -1 to 1 between the borders to elements, in the order of ONNX's reference.
Status from_normalized(OpContext &c, const SampledLine &line, ValueId x, ValueId &out) {
  const auto length = static_cast<double>(line.length);
  NPU_TRY(c.binary(BinaryKind::Add, x, 1, out));
  if (line.at_centres) {
    NPU_TRY(c.binary(BinaryKind::Mul, out, 0.5, out));
    return c.binary(BinaryKind::Mul, out, length - 1, out);
  }
  NPU_TRY(c.binary(BinaryKind::Mul, out, length, out));
  NPU_TRY(c.binary(BinaryKind::Sub, out, 1, out));
  return c.binary(BinaryKind::Mul, out, 0.5, out);
}

/// Brings a coordinate from beyond the borders to where it is read. With zeros it only becomes finite: three elements
/// outside is as good as anywhere.
Status settle(OpContext &c, const SampledLine &line, bool cubic, ValueId x, ValueId &out) {
  if (line.border == SampleBorder::Reflect) return reflect(c, line, x, out);
  if (line.border == SampleBorder::Zeros) return clip(c, x, -3, line.last() + 3, out);
  ValueId clipped, inside;
  NPU_TRY(clip(c, x, 0, line.last(), clipped));
  out = clipped;
  if (!cubic || line.at_centres) return {};
  // Between the outermost elements and the borders a cubic function does not stay constant.
  NPU_TRY(clip(c, x, line.low(), line.high(), inside));
  NPU_TRY(c.binary(BinaryKind::Equal, inside, x, inside));
  return c.where(inside, x, clipped, out);
}

Status grid_taps(OpContext &c, const GridMethod &how, int64_t length, ValueId x, Taps &taps) {
  const SampledLine line{length, how.border, how.align_corners};
  NPU_TRY(from_normalized(c, line, x, x));
  if (how.mode == SampleMode::Nearest) return nearest_tap(c, line, x, taps);
  NPU_TRY(settle(c, line, how.mode == SampleMode::Cubic, x, x));
  return how.mode == SampleMode::Linear ? linear_taps(c, line, x, taps) : cubic_taps(c, line, x, taps);
}

/// Integers are read as float32.
Status grid_sample(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 2));
  const Shape x = c.shape(0), grid = c.shape(1);
  const size_t dims = x.size() - 2;
  if (x.size() < 3 || grid.size() != x.size() || grid[0] != x[0] || grid.back() != static_cast<int64_t>(dims))
    return Status::error("grid " + shape_text(grid) + " does not fit input " + shape_text(x));
  GridMethod how;
  Picture picture;
  ValueId y;
  NPU_TRY(read_grid_method(c, how));
  NPU_TRY(c.cast(c.in(0), Dtype::F32, y));
  NPU_TRY(make_picture(c, y, picture));
  const int64_t points = element_count(Shape(grid.begin() + 1, grid.end() - 1));
  std::vector<Taps> taps(dims);
  for (size_t d = 0; d < dims; ++d) {  // the grid names the last dimension first
    ValueId at;
    NPU_TRY(c.slice(c.in(1), static_cast<int>(dims) + 1, static_cast<int64_t>(dims - 1 - d), 1, at));
    NPU_TRY(c.reshape(at, {x[0], points}, at));
    NPU_TRY(grid_taps(c, how, x[d + 2], at, taps[d]));
  }
  NPU_TRY(read_points(c, picture, x[0], taps, y));
  NPU_TRY(c.transpose(y, {0, 2, 1}, y));
  Shape out{x[0], x[1]};
  out.insert(out.end(), grid.begin() + 1, grid.end() - 1);
  NPU_TRY(c.reshape(y, out, y));
  return c.cast(y, c.value(0).dtype, c.results[0]);
}

/// The grid that GridSample takes: places of the result, transformed by one matrix a picture.
Status affine_grid(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 2));
  Shape size;
  NPU_TRY(c.const_ints(1, "size", size));
  const int64_t dims = std::ssize(size) - 2;
  if (dims < 1 || element_count(size) < 1 || c.shape(0) != Shape{size[0], dims, dims + 1})
    return Status::error("theta " + shape_text(c.shape(0)) + " does not fit a result of " + shape_text(size));
  const bool align = c.attr_i("align_corners", 0) != 0;
  const Shape space(size.begin() + 2, size.end());
  const int64_t points = element_count(space);
  if (points > kMaxPlaces) return refuse(Obstacle::Size, "a grid of " + shape_text(space) + " is too large");
  std::vector<float> places(static_cast<size_t>(points * (dims + 1)), 1.0f);
  for (int64_t p = 0; p < points; ++p) {
    int64_t rest = p;
    for (int64_t d = 0; d < dims; ++d) {  // the last dimension first
      const int64_t length = space[static_cast<size_t>(dims - 1 - d)], i = rest % length;
      const auto steps = static_cast<double>(align ? length - 1 : length);
      const double at = steps == 0 ? 0 : (2 * static_cast<double>(i) + (align ? 0 : 1)) / steps - 1;
      places[static_cast<size_t>(p * (dims + 1) + d)] = static_cast<float>(at);
      rest /= length;
    }
  }
  ValueId theta, y;
  NPU_TRY(c.transpose(c.in(0), {0, 2, 1}, theta));
  NPU_TRY(c.matmul(c.constant(make_f32({points, dims + 1}, places)), theta, y));
  Shape out = space;
  out.insert(out.begin(), size[0]);
  out.push_back(dims);
  return c.reshape(y, out, c.results[0]);
}

// DeformConv.

/// Attributes of two spatial dimensions.
struct Deform {
  std::vector<int64_t> kernel, strides{1, 1}, dilations{1, 1}, pads{0, 0, 0, 0};
  int64_t groups = 1, offset_groups = 1;
  int64_t taps() const { return kernel[0] * kernel[1]; }
};

Status small_ints(const OpContext &c, const char *name, int64_t least, std::vector<int64_t> &out) {
  const std::vector<int64_t> given = c.attr_ints(name);
  if (given.empty()) return {};
  bool fits = given.size() == out.size();
  for (int64_t v : given) fits = fits && v >= least && v <= 65535;
  if (!fits) return Status::error(std::string(name) + " " + shape_text(given) + " does not fit, or is out of range");
  out = given;
  return {};
}

Status read_deform(const OpContext &c, Deform &out) {
  const Shape &x = c.shape(0), &w = c.shape(1), &offset = c.shape(2);
  if (x.size() != 4 || w.size() != 4 || offset.size() != 4 || element_count(x) < 1 || element_count(w) < 1)
    return Status::error("input " + shape_text(x) + ", weights " + shape_text(w) + " and offset " + shape_text(offset) +
                         " do not fit; two spatial dimensions are supported");
  out.kernel = {w[2], w[3]};
  const std::vector<int64_t> given = c.attr_ints("kernel_shape");
  if (!given.empty() && given != out.kernel)
    return Status::error("kernel_shape " + shape_text(given) + " differs from weights " + shape_text(w));
  NPU_TRY(small_ints(c, "strides", 1, out.strides));
  NPU_TRY(small_ints(c, "dilations", 1, out.dilations));
  NPU_TRY(small_ints(c, "pads", 0, out.pads));
  out.groups = c.attr_i("group", 1);
  out.offset_groups = c.attr_i("offset_group", 1);
  const auto places = [&](size_t d) {
    const int64_t extent = (out.kernel[d] - 1) * out.dilations[d] + 1;
    const int64_t span = x[d + 2] + out.pads[d] + out.pads[d + 2] - extent;
    return span < 0 ? 0 : span / out.strides[d] + 1;
  };
  const int64_t sets = out.offset_groups;
  const bool fits = sets >= 1 && sets <= x[1] && x[1] % sets == 0 && element_count(offset) > 0 &&
                    offset[1] % (2 * out.taps()) == 0 && offset[1] / (2 * out.taps()) == sets &&
                    offset == Shape{x[0], offset[1], places(0), places(1)};
  return fits ? Status()
              : Status::error("offset " + shape_text(offset) + " does not fit input " + shape_text(x) + ", kernel " +
                              shape_text(out.kernel) + " and offset_group " + std::to_string(sets));
}

/// Where the taps of the kernel lie along a spatial dimension, without offsets: [taps, h, w].
TensorPtr tap_places(const Deform &d, size_t dimension, int64_t height, int64_t width) {
  std::vector<float> out;
  for (int64_t k = 0; k < d.taps(); ++k)
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x) {
        const int64_t tap = dimension ? k % d.kernel[1] : k / d.kernel[1];
        const int64_t place = (dimension ? x : y) * d.strides[dimension] - d.pads[dimension];
        out.push_back(static_cast<float>(place + tap * d.dilations[dimension]));
      }
  return make_f32({d.taps(), height * width}, out);
}

/// What each tap of the kernel reads, as channels of their own: [n, channels * taps, h, w].
Status read_deformed(OpContext &c, const Deform &d, ValueId &y) {
  const Shape x = c.shape(0), offset = c.shape(2);
  const int64_t sets = x[0] * d.offset_groups, area = offset[2] * offset[3], points = d.taps() * area;
  Picture picture;
  NPU_TRY(c.reshape(c.in(0), {sets, x[1] / d.offset_groups, x[2], x[3]}, y));
  NPU_TRY(make_picture(c, y, picture));
  std::vector<Taps> taps(2);
  for (size_t i = 0; i < 2; ++i) {
    ValueId at;
    NPU_TRY(c.reshape(c.in(2), {sets, d.taps(), 2, area}, at));
    NPU_TRY(c.slice(at, 2, static_cast<int64_t>(i), 1, at));
    NPU_TRY(c.reshape(at, {sets, d.taps(), area}, at));
    NPU_TRY(c.binary(BinaryKind::Add, at, c.constant(tap_places(d, i, offset[2], offset[3])), at));
    NPU_TRY(c.reshape(at, {sets, points}, at));
    const SampledLine line{x[i + 2], SampleBorder::Zeros, true};
    NPU_TRY(settle(c, line, false, at, at));
    NPU_TRY(linear_taps(c, line, at, taps[i]));
  }
  NPU_TRY(read_points(c, picture, sets, taps, y));
  if (c.has_input(4)) {
    ValueId mask;
    NPU_TRY(c.reshape(c.in(4), {sets, points, 1}, mask));
    NPU_TRY(c.binary(BinaryKind::Mul, y, mask, y));
  }
  NPU_TRY(c.transpose(y, {0, 2, 1}, y));
  return c.reshape(y, {x[0], x[1] * d.taps(), offset[2], offset[3]}, y);
}

/// The taps of the kernel are channels, and what is left is a convolution with a kernel of 1 by 1.
Status deform_conv(OpContext &c) {
  NPU_TRY(c.need_inputs(3, 5));
  Deform d;
  NPU_TRY(read_deform(c, d));
  ValueId y, w, bias;
  const Shape shape = c.shape(1);
  NPU_TRY(read_deformed(c, d, y));
  NPU_TRY(c.reshape(c.in(1), {shape[0], shape[1] * d.taps(), 1, 1}, w));
  NPU_TRY(c.emit(Op::Conv, {y, w, kNoValue}, ConvAttrs{{}, d.groups, {}}, c.results[0]));
  if (!c.has_input(3)) return {};
  NPU_TRY(c.reshape(c.in(3), {shape[0], 1, 1}, bias));
  return c.binary(BinaryKind::Add, c.results[0], bias, c.results[0]);
}

// Regions.

/// What RoiAlign does with each region: rows [x1, y1, x2, y2].
struct Regions {
  ValueId rois = kNoValue, batch = kNoValue;  ///< [n, 4]; [n]
  int64_t bins[2] = {1, 1};                   ///< of the result: height, width
  int64_t samples[2] = {1, 1};                ///< in each bin
  float scale = 1;
  bool half_pixel = false, max = false;
};

/// Where a region begins along a spatial dimension, and how long its bins are: [n, 1] each.
Status region_bins(OpContext &c, const Regions &r, size_t dimension, ValueId &start, ValueId &bin) {
  const int64_t column = dimension ? 0 : 1;
  NPU_TRY(c.slice(r.rois, 1, column, 1, start));
  NPU_TRY(c.slice(r.rois, 1, column + 2, 1, bin));
  for (ValueId *v : {&start, &bin}) {
    NPU_TRY(c.binary(BinaryKind::Mul, *v, r.scale, *v));
    if (r.half_pixel) NPU_TRY(c.binary(BinaryKind::Sub, *v, 0.5, *v));
  }
  NPU_TRY(c.binary(BinaryKind::Sub, bin, start, bin));
  if (!r.half_pixel) NPU_TRY(c.binary(BinaryKind::Max, bin, 1, bin));
  return c.binary(BinaryKind::Div, bin, static_cast<double>(r.bins[dimension]), bin);
}

/// Taps of all samples along a dimension, [n, bins * samples]. What lies more than one element outside counts as 0.
Status region_taps(OpContext &c, const Regions &r, size_t dimension, int64_t length, Taps &taps) {
  ValueId start, bin, at, inside;
  NPU_TRY(region_bins(c, r, dimension, start, bin));
  if (r.bins[dimension] * r.samples[dimension] > kMaxPlaces)
    return refuse(Obstacle::Size, "a region has too many samples");
  std::vector<float> steps(static_cast<size_t>(r.bins[dimension] * r.samples[dimension]));
  for (size_t i = 0; i < steps.size(); ++i)
    steps[i] = (static_cast<float>(i) + 0.5f) / static_cast<float>(r.samples[dimension]);
  NPU_TRY(c.binary(BinaryKind::Mul, bin, c.constant(make_f32({1, std::ssize(steps)}, steps)), at));
  NPU_TRY(c.binary(BinaryKind::Add, start, at, at));
  NPU_TRY(clip(c, at, -1, static_cast<float>(length), inside));
  NPU_TRY(equal(c, at, inside, inside));
  const SampledLine line{length, SampleBorder::Clamp, true};
  NPU_TRY(clip(c, at, 0, line.last(), at));
  NPU_TRY(linear_taps(c, line, at, taps));
  for (Tap &t : taps) NPU_TRY(multiply(c, t.weight, inside, t.weight));
  return {};
}

/// Gives the taps of one dimension a shape that broadcasts with those of the other: [n, h, 1] or [n, 1, w].
Status spread_taps(OpContext &c, size_t dimension, Taps &taps) {
  for (Tap &t : taps)
    for (ValueId *v : {&t.index, &t.weight}) {
      Shape shape = c.graph[*v].shape;
      shape.insert(dimension ? shape.begin() + 1 : shape.end(), 1);
      NPU_TRY(c.reshape(*v, shape, *v));
    }
  return {};
}

/// Joins the samples of each bin: [n, h * samples, w * samples, c] to [n, c, h, w].
Status join_samples(OpContext &c, const int64_t (&bins)[2], const int64_t (&samples)[2], ReduceKind kind, ValueId x,
                    ValueId &y) {
  const Shape shape = c.graph[x].shape;
  NPU_TRY(c.reshape(x, {shape[0], bins[0], samples[0], bins[1], samples[1], shape[3]}, y));
  NPU_TRY(c.reduce(kind, y, {2, 4}, false, y));
  return c.transpose(y, {0, 3, 1, 2}, y);
}

/// The maximum is one of the weighted elements, not of their sums: so have it ONNX's reference and ONNX Runtime.
Status align_regions(OpContext &c, const Picture &picture, const Regions &r, ValueId &y) {
  std::vector<Taps> taps(2);
  for (size_t d = 0; d < 2; ++d) {
    NPU_TRY(region_taps(c, r, d, picture.size[d], taps[d]));
    NPU_TRY(spread_taps(c, d, taps[d]));
  }
  Tap start;
  NPU_TRY(c.cast(r.batch, Dtype::I64, start.index));
  NPU_TRY(c.reshape(start.index, {element_count(c.graph[start.index].shape), 1, 1}, start.index));
  y = kNoValue;
  NPU_TRY(read_taps(c, picture, taps, start, r.max ? BinaryKind::Max : BinaryKind::Add, y));
  return join_samples(c, r.bins, r.samples, r.max ? ReduceKind::Max : ReduceKind::Mean, y, y);
}

constexpr int64_t kMaxRegions = 1024;   // that are computed one by one
constexpr int64_t kMaxSamples = 65535;  // in a bin, along one dimension

/// sampling_ratio 0: as many samples as a bin of that region has elements. One region after the other.
Status align_adaptively(OpContext &c, const Picture &picture, const Regions &all, ValueId &y) {
  const int64_t count = c.graph[all.rois].shape[0], channels = c.graph[picture.rows].shape[1];
  if (!c.graph[all.rois].constant || count > kMaxRegions)
    return refuse(Obstacle::Value,
                  "sampling_ratio 0 has the sizes of the regions decide how much is read: it needs regions that "
                  "are known at compile time, at most " +
                      std::to_string(kMaxRegions));
  std::vector<ValueId> parts;
  for (int64_t i = 0; i < count; ++i) {
    Regions r = all;
    NPU_TRY(c.slice(all.rois, 0, i, 1, r.rois));
    NPU_TRY(c.slice(all.batch, 0, i, 1, r.batch));
    for (size_t d = 0; d < 2; ++d) {
      ValueId start, bin;
      NPU_TRY(region_bins(c, r, d, start, bin));
      const float samples = std::ceil(*c.graph[bin].constant->as<float>());
      if (!(samples <= static_cast<float>(kMaxSamples)))
        return Status::error("region " + std::to_string(i) + " is out of range");
      r.samples[d] = static_cast<int64_t>(std::max(samples, 0.0f));
    }
    if (r.samples[0] == 0 || r.samples[1] == 0)
      NPU_TRY(c.expand(c.scalar(0), {1, channels, r.bins[0], r.bins[1]}, parts.emplace_back()));
    else
      NPU_TRY(align_regions(c, picture, r, parts.emplace_back()));
  }
  return c.concat(0, parts, y);
}

/// Height and width of the result, from two attributes or entries.
Status set_bins(int64_t height, int64_t width, int64_t (&bins)[2]) {
  bins[0] = height;
  bins[1] = width;
  if (std::min(height, width) >= 1 && std::max(height, width) <= 65535) return {};
  return Status::error("a result of " + shape_text({height, width}) + " for each region is out of range");
}

Status roi_align(OpContext &c) {
  NPU_TRY(c.need_inputs(3, 3));
  const Shape x = c.shape(0), rois = c.shape(1);
  if (x.size() != 4 || rois.size() != 2 || rois[0] < 1 || rois[1] != 4 || c.shape(2) != Shape{rois[0]})
    return Status::error("rois " + shape_text(rois) + " and batch_indices " + shape_text(c.shape(2)) +
                         " do not fit input " + shape_text(x));
  const std::string mode = c.attr_s("mode", "avg");
  if (mode != "avg" && mode != "max") return Status::error("mode '" + mode + "' is not known");
  const std::string coordinates =
      c.attr_s("coordinate_transformation_mode", c.opset < 16 ? "output_half_pixel" : "half_pixel");
  if (coordinates != "half_pixel" && coordinates != "output_half_pixel")
    return Status::error("coordinate_transformation_mode '" + coordinates + "' is not known");
  const int64_t ratio = c.attr_i("sampling_ratio", 0);
  if (ratio < 0 || ratio > kMaxSamples)
    return Status::error("sampling_ratio " + std::to_string(ratio) + " is out of range");
  Regions r{c.in(1),      c.in(2), {}, {ratio, ratio}, c.attr_f("spatial_scale", 1), coordinates == "half_pixel",
            mode == "max"};
  NPU_TRY(set_bins(c.attr_i("output_height", 1), c.attr_i("output_width", 1), r.bins));
  Picture picture;
  NPU_TRY(make_picture(c, c.in(0), picture));
  return ratio ? align_regions(c, picture, r, c.results[0]) : align_adaptively(c, picture, r, c.results[0]);
}

/// The elements of one bin of a region along a dimension.
struct Span {
  int64_t begin = 0, end = 0;
};

/// MaxRoiPool rounds the corners of a region, and counts the element at the end. Bins may overlap, or be empty.
Span bin_span(float from, float to, float scale, int64_t bins, int64_t bin, int64_t length) {
  const double start = std::round(from * scale), size = std::max(std::round(to * scale) - start + 1, 1.0);
  const float step = static_cast<float>(size) / static_cast<float>(bins);
  const auto place = [&](double v) {
    return static_cast<int64_t>(std::clamp(v + start, 0.0, static_cast<double>(length)));
  };
  return {place(std::floor(static_cast<float>(bin) * step)), place(std::ceil(static_cast<float>(bin + 1) * step))};
}

/// The bins of all regions along one dimension.
struct Bins {
  std::vector<Span> spans;  ///< [regions, bins]
  int64_t longest = 1;
};

Status pool_bins(const std::vector<float> &rois, size_t column, float scale, int64_t bins, int64_t length, Bins &out) {
  for (size_t at = 0; at < rois.size(); at += 5)
    for (int64_t b = 0; b < bins; ++b) {
      const float from = rois[at + column], to = rois[at + column + 2];
      if (!std::isfinite(from * scale) || !std::isfinite(to * scale)) return Status::error("a region is not finite");
      const Span span = bin_span(from, to, scale, bins, b, length);
      out.longest = std::max(out.longest, span.end - span.begin);
      out.spans.push_back(span);
    }
  return {};
}

/// Which rows of the picture the bins read: shorter bins read their last element again. [regions, h * longest, w *
/// longest]; `empty`: [regions, h, w, 1], where a bin has no element.
void pool_indices(const Picture &picture, const std::vector<float> &rois, const Bins (&along)[2],
                  const int64_t (&bins)[2], Tensor &index, Tensor &empty) {
  int64_t *to = index.as<int64_t>();
  const int64_t height = picture.size[0], width = picture.size[1];
  const auto inside = [](const Span &s, int64_t k, int64_t length) {
    return std::clamp<int64_t>(std::min(s.begin + k, s.end - 1), 0, length - 1);
  };
  for (size_t r = 0; r < rois.size() / 5; ++r) {
    const auto batch = static_cast<int64_t>(rois[r * 5]);
    const Span *rows = along[0].spans.data() + static_cast<int64_t>(r) * bins[0],
               *columns = along[1].spans.data() + static_cast<int64_t>(r) * bins[1];
    for (int64_t y = 0; y < bins[0] * along[0].longest; ++y)
      for (int64_t x = 0; x < bins[1] * along[1].longest; ++x) {
        const Span &row = rows[y / along[0].longest], &column = columns[x / along[1].longest];
        *to++ = (batch * height + inside(row, y % along[0].longest, height)) * width +
                inside(column, x % along[1].longest, width);
      }
    for (int64_t b = 0; b < bins[0] * bins[1]; ++b) {
      const Span &row = rows[b / bins[1]], &column = columns[b % bins[1]];
      empty.data[r * static_cast<size_t>(bins[0] * bins[1]) + static_cast<size_t>(b)] =
          row.begin >= row.end || column.begin >= column.end;
    }
  }
}

/// Regions decide which elements are read: they must be known.
Status max_roi_pool(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 2));
  const Shape x = c.shape(0), shape = c.shape(1);
  const std::vector<int64_t> pooled = c.attr_ints("pooled_shape");
  if (x.size() != 4 || shape.size() != 2 || shape[0] < 1 || shape[1] != 5 || pooled.size() != 2)
    return Status::error("rois " + shape_text(shape) + " and pooled_shape " + shape_text(pooled) +
                         " do not fit input " + shape_text(x));
  std::vector<float> rois;
  int64_t bins[2];
  Bins along[2];
  Picture picture;
  const float scale = c.attr_f("spatial_scale", 1);
  NPU_TRY(c.const_floats(1, "rois", rois));
  NPU_TRY(set_bins(pooled[0], pooled[1], bins));
  if (shape[0] > kMaxPlaces / (bins[0] * bins[1])) return refuse(Obstacle::Size, "there are too many regions");
  NPU_TRY(make_picture(c, c.in(0), picture));
  NPU_TRY(pool_bins(rois, 2, scale, bins[0], x[2], along[0]));
  NPU_TRY(pool_bins(rois, 1, scale, bins[1], x[3], along[1]));
  for (size_t r = 0; r < rois.size(); r += 5)
    if (!(rois[r] >= 0 && rois[r] < static_cast<float>(x[0])))
      return Status::error("a region of batch " + std::to_string(rois[r]) + ", there are " + std::to_string(x[0]));
  const Shape read{shape[0], bins[0] * along[0].longest, bins[1] * along[1].longest};
  if (element_count(read) < 0 || element_count(read) > kMaxPlaces)
    return refuse(Obstacle::Size, "the regions read " + shape_text(read) + " elements, which are too many");
  auto index = std::make_shared<Tensor>(Dtype::I64, read);
  auto empty = std::make_shared<Tensor>(Dtype::Bool, Shape{shape[0], 1, bins[0], bins[1]});
  pool_indices(picture, rois, along, bins, *index, *empty);
  ValueId y;
  NPU_TRY(c.gather(0, picture.rows, c.constant(index), y));
  NPU_TRY(join_samples(c, bins, {along[0].longest, along[1].longest}, ReduceKind::Max, y, y));
  return c.where(c.constant(empty), c.scalar(0), y, c.results[0]);
}

// The middle of a tensor.

/// Of an odd number the larger half is cut off, or added, at the end.
Status center_crop_pad(OpContext &c) {
  NPU_TRY(c.need_inputs(2, 2));
  const Shape x = c.shape(0);
  Shape wanted;
  std::vector<int64_t> axes = c.attr_ints("axes");
  for (int64_t i = 0; !c.has("axes") && i < c.rank(0); ++i) axes.push_back(i);
  NPU_TRY(c.const_ints(1, "shape", wanted));
  if (wanted.size() != axes.size() || element_count(wanted) < 1)
    return Status::error("shape " + shape_text(wanted) + " does not fit input " + shape_text(x));
  ValueId y = c.in(0);
  std::vector<int64_t> begin(x.size(), 0), end(x.size(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    int axis;
    NPU_TRY(c.axis(axes[i], c.rank(0), axis));
    const auto d = static_cast<size_t>(axis);
    const int64_t more = wanted[i] - x[d];
    if (more < 0) NPU_TRY(c.slice(y, axis, -more / 2, wanted[i], y));
    begin[d] = std::max<int64_t>(more, 0) / 2;
    end[d] = std::max<int64_t>(more, 0) - begin[d];
  }
  return c.pad(y, begin, end, 0, c.results[0]);
}

constexpr OpEntry kSampleOps[] = {
    {"AffineGrid", affine_grid}, {"CenterCropPad", center_crop_pad}, {"DeformConv", deform_conv},
    {"GridSample", grid_sample}, {"MaxRoiPool", max_roi_pool},       {"RoiAlign", roi_align},
};

}  // namespace

std::span<const OpEntry> sample_ops() { return kSampleOps; }

}  // namespace npu::graph
