// SPDX-License-Identifier: MIT
// Resize and Upsample, one dimension after the other: by the nearest neighbour as a selection, linear and cubic as sums
// with constant weights. Sizes and coordinates are computed in single precision and in the order of ONNX Runtime: where
// the exact number is an integer or half of one, rounding decides, and another precision makes another size or takes
// another neighbour.
#include <algorithm>
#include <cmath>

#include "compiler/import/op_context.h"

namespace npu::graph {
namespace {

enum class Mode : uint8_t { Nearest, Linear, Cubic };
enum class Coordinates : uint8_t {
  HalfPixel,
  HalfPixelSymmetric,
  PytorchHalfPixel,
  AlignCorners,
  Asymmetric,
  TfHalfPixelForNn,
  TfCropAndResize,
};
enum class Rounding : uint8_t { PreferFloor, PreferCeil, Floor, Ceil };
enum class Policy : uint8_t { Stretch, NotLarger, NotSmaller };

constexpr std::pair<std::string_view, Mode> kModes[] = {
    {"nearest", Mode::Nearest},
    {"linear", Mode::Linear},
    {"bilinear", Mode::Linear},  // Upsample of operator set 1
    {"cubic", Mode::Cubic},
};
constexpr std::pair<std::string_view, Coordinates> kCoordinates[] = {
    {"half_pixel", Coordinates::HalfPixel},
    {"half_pixel_symmetric", Coordinates::HalfPixelSymmetric},
    {"pytorch_half_pixel", Coordinates::PytorchHalfPixel},
    {"align_corners", Coordinates::AlignCorners},
    {"asymmetric", Coordinates::Asymmetric},
    {"tf_half_pixel_for_nn", Coordinates::TfHalfPixelForNn},
    {"tf_crop_and_resize", Coordinates::TfCropAndResize},
};
constexpr std::pair<std::string_view, Rounding> kRoundings[] = {
    {"round_prefer_floor", Rounding::PreferFloor},
    {"round_prefer_ceil", Rounding::PreferCeil},
    {"floor", Rounding::Floor},
    {"ceil", Rounding::Ceil},
};
constexpr std::pair<std::string_view, Policy> kPolicies[] = {
    {"stretch", Policy::Stretch},
    {"not_larger", Policy::NotLarger},
    {"not_smaller", Policy::NotSmaller},
};

template <class T, size_t N>
Status choose(const OpContext &c, const std::string &attribute, const char *fallback,
              const std::pair<std::string_view, T> (&table)[N], T &out) {
  const std::string given = c.attr_s(attribute.c_str(), fallback);
  for (const auto &[name, value] : table)
    if (name == given) {
      out = value;
      return {};
    }
  return refuse(Obstacle::Form, attribute + " '" + given + "' is not supported");
}

/// How a node resizes.
struct Method {
  Mode mode = Mode::Nearest;
  Coordinates coordinates = Coordinates::Asymmetric;
  Rounding rounding = Rounding::Floor;
  float cubic_a = -0.75f;
  bool antialias = false, exclude_outside = false;
  float extrapolation = 0;
};

/// One dimension of a resize.
struct Axis {
  int64_t in = 1, out = 1;
  float scale = 1;
  float start = 0, end = 1;  ///< the part that tf_crop_and_resize takes
};

// Attributes and operands.

Status read_method(const OpContext &c, Method &out) {
  NPU_TRY(choose(c, "mode", "nearest", kModes, out.mode));
  if (c.opset < 11) return out.mode == Mode::Cubic ? Status::error("mode 'cubic' came with operator set 11") : Status();
  NPU_TRY(choose(c, "coordinate_transformation_mode", "half_pixel", kCoordinates, out.coordinates));
  NPU_TRY(choose(c, "nearest_mode", "round_prefer_floor", kRoundings, out.rounding));
  out.cubic_a = c.attr_f("cubic_coeff_a", -0.75f);
  out.antialias = c.attr_i("antialias", 0) != 0;
  out.exclude_outside = c.attr_i("exclude_outside", 0) != 0;
  out.extrapolation = c.attr_f("extrapolation_value", 0);
  return {};
}

/// The dimensions that scales, sizes and roi are about.
Status resized_dimensions(const OpContext &c, std::vector<size_t> &out) {
  const std::vector<int64_t> given = c.attr_ints("axes");
  std::vector<bool> seen(c.shape(0).size());
  for (int64_t value : given) {
    int axis;
    NPU_TRY(c.axis(value, c.rank(0), axis));
    const auto d = static_cast<size_t>(axis);
    if (seen[d]) return Status::error("axis " + std::to_string(value) + " is named twice");
    seen[d] = true;
    out.push_back(d);
  }
  for (size_t d = 0; given.empty() && d < seen.size(); ++d) out.push_back(d);
  return {};
}

/// The factors that a node is given: attributes up to operator set 8, an input since. Empty: none.
Status given_scales(const OpContext &c, std::vector<float> &out) {
  const size_t at = c.opset < 11 ? 1 : 2;
  if (c.opset >= 9) return c.has_input(at) ? c.const_floats(at, "scales", out) : Status();
  out = c.attr_floats("scales");
  if (c.opset < 7) out = {1, 1, c.attr_f("height_scale", 0), c.attr_f("width_scale", 0)};
  return {};
}

Status axes_from_scales(const OpContext &c, const std::vector<size_t> &dims, std::vector<Axis> &axes) {
  std::vector<float> scales;
  NPU_TRY(given_scales(c, scales));
  if (scales.size() != dims.size())
    return Status::error("scales do not have " + std::to_string(dims.size()) + " entries");
  const float least = c.node.type == "Upsample" ? 1 : 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    Axis &a = axes[dims[i]];
    a.scale = scales[i];
    if (!(a.scale > 0) || a.scale < least || a.scale > 65536) return refuse(Obstacle::Size, "a scale is out of range");
    // Without the factor (roi_end - roi_start) of the specification's text, which no shape inference knows.
    a.out = static_cast<int64_t>(std::floor(static_cast<float>(a.in) * a.scale));
  }
  return {};
}

/// keep_aspect_ratio_policy: the smallest or largest of the factors for all dimensions.
void keep_aspect_ratio(Policy policy, const std::vector<size_t> &dims, std::vector<Axis> &axes) {
  float scale = axes[dims[0]].scale;
  for (size_t d : dims)
    scale = policy == Policy::NotLarger ? std::min(scale, axes[d].scale) : std::max(scale, axes[d].scale);
  for (size_t d : dims) {
    axes[d].scale = scale;
    axes[d].out = static_cast<int64_t>(std::round(static_cast<float>(axes[d].in) * scale));  // halves up
  }
}

Status axes_from_sizes(const OpContext &c, const std::vector<size_t> &dims, std::vector<Axis> &axes) {
  Shape sizes;
  Policy policy = Policy::Stretch;
  NPU_TRY(c.const_ints(3, "sizes", sizes));
  NPU_TRY(choose(c, "keep_aspect_ratio_policy", "stretch", kPolicies, policy));
  if (sizes.size() != dims.size() || element_count(sizes) <= 0)
    return Status::error("sizes " + shape_text(sizes) + " do not fit input " + shape_text(c.shape(0)));
  for (size_t i = 0; i < dims.size(); ++i) {
    Axis &a = axes[dims[i]];
    a.out = sizes[i];
    a.scale = static_cast<float>(a.out) / static_cast<float>(a.in);
  }
  if (policy != Policy::Stretch && !dims.empty()) keep_aspect_ratio(policy, dims, axes);
  return {};
}

Status read_roi(const OpContext &c, const std::vector<size_t> &dims, std::vector<Axis> &axes) {
  std::vector<float> roi;
  if (c.has_input(1)) NPU_TRY(c.const_floats(1, "roi", roi));
  if (roi.size() != 2 * dims.size())
    return Status::error("roi has " + std::to_string(roi.size()) + " entries, " + std::to_string(2 * dims.size()) +
                         " were expected");
  for (float v : roi)
    if (!(std::fabs(v) <= 65536)) return Status::error("a number of roi is out of range");
  for (size_t i = 0; i < dims.size(); ++i) {
    axes[dims[i]].start = roi[i];
    axes[dims[i]].end = roi[dims.size() + i];
  }
  return {};
}

Status resize_axes(const OpContext &c, const Method &how, std::vector<Axis> &axes) {
  const Shape &x = c.shape(0);
  if (element_count(x) <= 0) return Status::error("input " + shape_text(x) + " is empty");
  for (int64_t length : x) axes.push_back({length, length});
  std::vector<size_t> dims;
  NPU_TRY(resized_dimensions(c, dims));
  const bool has_sizes = c.opset >= 11 && c.has_input(3) && element_count(c.shape(3)) != 0;
  NPU_TRY(has_sizes ? axes_from_sizes(c, dims, axes) : axes_from_scales(c, dims, axes));
  if (how.coordinates == Coordinates::TfCropAndResize) NPU_TRY(read_roi(c, dims, axes));
  Shape out(axes.size());
  for (size_t d = 0; d < out.size(); ++d) out[d] = axes[d].out;
  if (element_count(out) <= 0) return Status::error("the result " + shape_text(out) + " is empty or too large");
  return {};
}

// Coordinates.

/// Where in the input position i of the result lies. For align_corners, the length of the result is an integer here, as
/// in the specification's text since operator set 11; two of ONNX's tests (linear and cubic, downsample_scales and
/// align_corners) have been made with the input's length times the scale, not rounded, and expect other numbers.
float original(Coordinates coordinates, const Axis &a, int64_t i) {
  const auto x = static_cast<float>(i), in = static_cast<float>(a.in), out = static_cast<float>(a.out);
  switch (coordinates) {
    case Coordinates::HalfPixel:
      return (x + 0.5f) / a.scale - 0.5f;
    case Coordinates::HalfPixelSymmetric:  // ONNX Runtime has the last sum in double precision
      return static_cast<float>(static_cast<double>(in / 2 * (1 - out / (a.scale * in))) +
                                (static_cast<double>(x) + 0.5) / static_cast<double>(a.scale) - 0.5);
    case Coordinates::PytorchHalfPixel:
      return a.out > 1 ? (x + 0.5f) / a.scale - 0.5f : 0;
    case Coordinates::AlignCorners:
      return a.out > 1 ? x * static_cast<float>(a.in - 1) / static_cast<float>(a.out - 1) : 0;
    case Coordinates::Asymmetric:
      return x / a.scale;
    case Coordinates::TfHalfPixelForNn:
      return (x + 0.5f) / a.scale;
    case Coordinates::TfCropAndResize:
      if (a.out == 1) return 0.5f * (a.start + a.end) * (in - 1);
      return a.start * (in - 1) + x * (a.end - a.start) * (in - 1) / (out - 1);
  }
  return x;
}

/// Whether a dimension stays as it is. A factor of 1 leaves it alone, also where the formula (tf_half_pixel_for_nn)
/// would not; tf_crop_and_resize takes a part of it first.
bool unchanged(const Method &how, const Axis &a) {
  if (how.coordinates != Coordinates::TfCropAndResize) return a.scale == 1;
  return a.in == a.out && a.start == 0 && a.end == 1;
}

/// tf_crop_and_resize: results from outside of the input get a value of their own.
Status extrapolate(OpContext &c, const Method &how, const Axis &a, size_t d, ValueId &y) {
  if (how.coordinates != Coordinates::TfCropAndResize) return {};
  Shape shape(c.graph[y].shape.size() - d, 1);
  shape[0] = a.out;
  auto inside = std::make_shared<Tensor>(Dtype::Bool, shape);
  for (int64_t i = 0; i < a.out; ++i) {
    const float x = original(how.coordinates, a, i);
    inside->data[static_cast<size_t>(i)] = x >= 0 && x <= static_cast<float>(a.in - 1);
  }
  if (std::find(inside->data.begin(), inside->data.end(), 0) == inside->data.end()) return {};
  return c.where(c.constant(inside), y, c.scalar_like(y, how.extrapolation), y);
}

// The nearest neighbour.

int64_t rounded(Rounding rounding, float x) {
  switch (rounding) {
    case Rounding::PreferFloor:
      return static_cast<int64_t>(x - std::floor(x) == 0.5f ? std::floor(x) : std::round(x));
    case Rounding::PreferCeil:
      return static_cast<int64_t>(x - std::floor(x) == 0.5f ? std::ceil(x) : std::round(x));
    case Rounding::Floor:
      return static_cast<int64_t>(std::floor(x));
    case Rounding::Ceil:
      return static_cast<int64_t>(std::ceil(x));
  }
  return 0;
}

/// The factor by which a selection repeats all elements of a dimension; 0 if it does something else.
int64_t repetition(const std::vector<int64_t> &index, int64_t in) {
  const auto out = static_cast<int64_t>(index.size()), factor = out / in;
  bool repeats = out % in == 0;
  for (int64_t i = 0; i < out && repeats; ++i) repeats = index[static_cast<size_t>(i)] == i / factor;
  return repeats ? factor : 0;
}

/// Repeats the elements of each dimension by its factor, in one step.
Status repeat(OpContext &c, std::vector<int64_t> &factors, ValueId &y) {
  Shape out = c.graph[y].shape, narrow, wide;
  for (size_t d = 0; d < out.size(); ++d) {
    narrow.push_back(out[d]);
    wide.push_back(out[d]);
    if (factors[d] == 1) continue;
    narrow.push_back(1);
    wide.push_back(factors[d]);
    out[d] *= factors[d];
    factors[d] = 1;
  }
  if (narrow.size() == out.size()) return {};
  NPU_TRY(c.reshape(y, narrow, y));
  NPU_TRY(c.expand(y, wide, y));
  return c.reshape(y, out, y);
}

/// Makes a dimension of y as long as the axis says; whole factors are left to repeat().
Status take_nearest(OpContext &c, const Method &how, const Axis &a, size_t d, std::vector<int64_t> &factors,
                    ValueId &y) {
  // Operator set 10 says nothing of rounding; its own tests have it up where the result is smaller.
  const Rounding rounding = c.opset == 10 && a.scale < 1 ? Rounding::Ceil : how.rounding;
  std::vector<int64_t> index(static_cast<size_t>(a.out));
  for (int64_t i = 0; i < a.out; ++i)
    index[static_cast<size_t>(i)] =
        std::clamp<int64_t>(rounded(rounding, original(how.coordinates, a, i)), 0, a.in - 1);
  const int64_t factor = repetition(index, a.in);
  if (!factor) return c.gather(static_cast<int>(d), y, c.constant(make_i64(index)), y);
  factors[d] = factor;
  return {};
}

// Linear and cubic.

/// Each result is a sum of elements: tap t of position i is element index[t][i], times weight[t][i].
struct TapMatrix {
  std::vector<std::vector<int64_t>> index;
  std::vector<std::vector<float>> weight;
};

/// The weight of an element at that distance: a triangle, or the piecewise cubic function of Keys (1981).
double weight_at(const Method &how, double distance) {
  const double x = std::fabs(distance), a = how.cubic_a;
  if (how.mode == Mode::Linear) return std::max(1 - x, 0.0);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/// Elements beyond the ends are those at the ends, or left out. Where weights are missing or stretched (antialias, for
/// smaller results), they are divided by their sum.
TapMatrix taps_of(const Method &how, const Axis &axis) {
  const double stretch = how.antialias ? std::min(axis.scale, 1.0f) : 1;
  const auto reach = static_cast<int64_t>(std::ceil((how.mode == Mode::Cubic ? 2 : 1) / stretch));
  const auto count = static_cast<size_t>(2 * reach), length = static_cast<size_t>(axis.out);
  TapMatrix taps{std::vector<std::vector<int64_t>>(count, std::vector<int64_t>(length)),
                 std::vector<std::vector<float>>(count, std::vector<float>(length))};
  std::vector<double> weights(count);
  for (size_t i = 0; i < length; ++i) {
    const float x = original(how.coordinates, axis, static_cast<int64_t>(i));
    const int64_t first = static_cast<int64_t>(std::floor(x)) - reach + 1;
    double sum = 0;
    for (size_t t = 0; t < count; ++t) {
      const int64_t place = first + static_cast<int64_t>(t), inside = std::clamp<int64_t>(place, 0, axis.in - 1);
      const bool counts = place == inside || !how.exclude_outside;
      weights[t] = counts ? weight_at(how, (static_cast<double>(place) - x) * stretch) : 0;
      taps.index[t][i] = inside;
      sum += weights[t];
    }
    const bool divide = (how.antialias || how.exclude_outside) && sum != 0;
    for (size_t t = 0; t < count; ++t) taps.weight[t][i] = static_cast<float>(divide ? weights[t] / sum : weights[t]);
  }
  return taps;
}

/// Matrices up to so many elements take less time than picking elements; more than so many taps take longer than a
/// matrix that is not too large.
constexpr int64_t kSmallMatrix = 1 << 16, kLargestMatrix = 1 << 24;
constexpr size_t kFewTaps = 16;

/// y has [outer, in, inner], or [outer, in] for an inner dimension of 1.
Status times_matrix(OpContext &c, const Axis &a, const TapMatrix &taps, bool last, ValueId &y) {
  auto matrix = std::make_shared<Tensor>(Dtype::F32, last ? Shape{a.in, a.out} : Shape{a.out, a.in});
  for (size_t t = 0; t < taps.index.size(); ++t)
    for (int64_t i = 0; i < a.out; ++i) {
      const int64_t from = taps.index[t][static_cast<size_t>(i)];
      matrix->as<float>()[last ? from * a.out + i : i * a.in + from] += taps.weight[t][static_cast<size_t>(i)];
    }
  const ValueId m = c.constant(matrix);
  return last ? c.matmul(y, m, y) : c.matmul(m, y, y);
}

/// y has [outer, in, inner].
Status sum_of_taps(OpContext &c, const Axis &a, const TapMatrix &taps, ValueId &y) {
  ValueId sum = kNoValue;
  for (size_t t = 0; t < taps.index.size(); ++t) {
    ValueId term;
    NPU_TRY(c.gather(1, y, c.constant(make_i64(taps.index[t])), term));
    NPU_TRY(c.binary(BinaryKind::Mul, term, c.constant(make_f32({a.out, 1}, taps.weight[t])), term));
    NPU_TRY(t ? c.binary(BinaryKind::Add, sum, term, sum) : (sum = term, Status()));
  }
  y = sum;
  return {};
}

Status interpolate(OpContext &c, const Method &how, const Axis &a, size_t d, ValueId &y) {
  const TapMatrix taps = taps_of(how, a);
  Shape shape = c.graph[y].shape;
  const auto at = shape.begin() + static_cast<int64_t>(d);
  const int64_t outer = element_count(Shape(shape.begin(), at)), inner = element_count(Shape(at + 1, shape.end()));
  const int64_t size = a.in > kLargestMatrix / a.out ? kLargestMatrix + 1 : a.in * a.out;
  const bool dense = size <= kSmallMatrix || (size <= kLargestMatrix && taps.index.size() > kFewTaps);
  const bool last = dense && inner == 1;
  NPU_TRY(c.reshape(y, last ? Shape{outer, a.in} : Shape{outer, a.in, inner}, y));
  NPU_TRY(dense ? times_matrix(c, a, taps, last, y) : sum_of_taps(c, a, taps, y));
  shape[d] = a.out;
  return c.reshape(y, shape, y);
}

Status resize(OpContext &c) {
  if ((c.node.type == "Upsample") != (c.opset < 10))
    return Status::error(std::string("operator set ") + std::to_string(c.opset) + " has " +
                         (c.opset < 10 ? "Upsample" : "Resize") + " instead");
  NPU_TRY(c.need_inputs(1, 4));
  Method how;
  std::vector<Axis> axes;
  NPU_TRY(read_method(c, how));
  NPU_TRY(resize_axes(c, how, axes));
  // A result as large as its input is its input in ONNX Runtime, whatever the factors are.
  const bool all_equal = std::all_of(axes.begin(), axes.end(), [](const Axis &a) { return a.out == a.in; });
  const bool same = all_equal && how.coordinates != Coordinates::TfCropAndResize;
  const Dtype type = c.value(0).dtype;
  const bool convert = how.mode != Mode::Nearest && !same;  // integers are interpolated as float32
  ValueId y = c.in(0);
  if (convert) NPU_TRY(c.cast(y, Dtype::F32, y));
  std::vector<int64_t> factors(axes.size(), 1);
  for (size_t d = 0; d < axes.size(); ++d) {
    if (same || unchanged(how, axes[d])) continue;
    NPU_TRY(how.mode == Mode::Nearest ? take_nearest(c, how, axes[d], d, factors, y)
                                      : interpolate(c, how, axes[d], d, y));
    if (how.coordinates == Coordinates::TfCropAndResize) NPU_TRY(repeat(c, factors, y));
    NPU_TRY(extrapolate(c, how, axes[d], d, y));
  }
  NPU_TRY(repeat(c, factors, y));
  return c.cast(y, type, c.results[0]);
}

constexpr OpEntry kResizeOps[] = {{"Resize", resize}, {"Upsample", resize}};

}  // namespace

std::span<const OpEntry> resize_ops() { return kResizeOps; }

}  // namespace npu::graph
