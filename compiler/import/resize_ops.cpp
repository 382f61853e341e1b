// SPDX-License-Identifier: MIT
// Resize and Upsample by the nearest neighbour. Sizes and coordinates are computed in single precision and in the order
// of ONNX Runtime: where the exact number is an integer or half of one, rounding decides, and another precision makes
// another size or takes another neighbour.
#include <algorithm>
#include <cmath>

#include "compiler/import/op_context.h"

namespace npu::graph {
namespace {

enum class Coordinates : uint8_t { HalfPixel, PytorchHalfPixel, AlignCorners, Asymmetric, TfHalfPixelForNn };
enum class Rounding : uint8_t { PreferFloor, PreferCeil, Floor, Ceil };

constexpr std::pair<std::string_view, Coordinates> kCoordinates[] = {
    {"half_pixel", Coordinates::HalfPixel},
    {"pytorch_half_pixel", Coordinates::PytorchHalfPixel},
    {"align_corners", Coordinates::AlignCorners},
    {"asymmetric", Coordinates::Asymmetric},
    {"tf_half_pixel_for_nn", Coordinates::TfHalfPixelForNn},
};
constexpr std::pair<std::string_view, Rounding> kRoundings[] = {
    {"round_prefer_floor", Rounding::PreferFloor},
    {"round_prefer_ceil", Rounding::PreferCeil},
    {"floor", Rounding::Floor},
    {"ceil", Rounding::Ceil},
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
  return Status::error(attribute + " '" + given + "' is not supported");
}

/// One dimension of a resize.
struct Axis {
  int64_t in = 1, out = 1;
  float scale = 1;
};

/// Where in the input position i of the result lies.
float original(Coordinates coordinates, const Axis &a, int64_t i) {
  const auto x = static_cast<float>(i);
  switch (coordinates) {
    case Coordinates::HalfPixel:
      return (x + 0.5f) / a.scale - 0.5f;
    case Coordinates::PytorchHalfPixel:
      return a.out > 1 ? (x + 0.5f) / a.scale - 0.5f : 0;
    case Coordinates::AlignCorners:
      return a.out > 1 ? x * static_cast<float>(a.in - 1) / static_cast<float>(a.out - 1) : 0;
    case Coordinates::Asymmetric:
      return x / a.scale;
    case Coordinates::TfHalfPixelForNn:
      return (x + 0.5f) / a.scale;
  }
  return x;
}

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

/// The factors that a node is given: an attribute up to operator set 8, an input since. Empty: none.
Status given_scales(OpContext &c, std::vector<float> &out) {
  const size_t at = c.opset < 11 ? 1 : 2;
  if (c.opset >= 9) return c.has_input(at) ? c.const_floats(at, "scales", out) : Status();
  const auto it = c.node.attributes.find("scales");
  if (it != c.node.attributes.end()) out = it->second.floats;
  return {};
}

Status resize_axes(OpContext &c, std::vector<Axis> &axes) {
  const Shape &x = c.shape(0);
  Shape out = x;
  std::vector<float> scales(x.size());
  if (c.opset >= 11 && c.has_input(3)) {
    NPU_TRY(c.const_ints(3, "sizes", out));
    if (out.size() != x.size() || element_count(out) <= 0)
      return Status::error("sizes " + shape_text(out) + " do not fit input " + shape_text(x));
    for (size_t i = 0; i < x.size(); ++i) scales[i] = static_cast<float>(out[i]) / static_cast<float>(x[i]);
  } else {
    NPU_TRY(given_scales(c, scales));
    if (scales.size() != x.size()) return Status::error("scales do not have " + std::to_string(x.size()) + " entries");
    const float least = c.node.type == "Upsample" ? 1 : 0;
    for (size_t i = 0; i < x.size(); ++i) {
      if (!(scales[i] > 0) || scales[i] < least || scales[i] > 65536) return Status::error("a scale is out of range");
      out[i] = static_cast<int64_t>(std::floor(static_cast<float>(x[i]) * scales[i]));
    }
    if (element_count(out) <= 0) return Status::error("the result " + shape_text(out) + " is empty or too large");
  }
  for (size_t i = 0; i < x.size(); ++i) axes.push_back({x[i], out[i], scales[i]});
  return {};
}

/// Makes one dimension of y as long as the indices are, by selecting; whole factors become repetition.
Status select(OpContext &c, size_t d, const std::vector<int64_t> &index, ValueId &y) {
  Shape now = c.graph[y].shape, split = now;
  const int64_t in = now[d], out = static_cast<int64_t>(index.size()), factor = out / in;
  bool repeats = out % in == 0;
  for (int64_t i = 0; i < out && repeats; ++i) repeats = index[static_cast<size_t>(i)] == i / factor;
  if (!repeats) return c.emit(Op::Gather, {y, c.constant(make_i64(index))}, GatherAttrs{static_cast<int>(d)}, y);
  split.insert(split.begin() + static_cast<int64_t>(d) + 1, 1);
  NPU_TRY(c.reshape(y, split, y));
  split[d + 1] = factor;
  NPU_TRY(c.expand(y, split, y));
  now[d] = out;
  return c.reshape(y, now, y);
}

Status resize(OpContext &c) {
  if ((c.node.type == "Upsample") != (c.opset < 10))
    return Status::error(std::string("operator set ") + std::to_string(c.opset) + " has " +
                         (c.opset < 10 ? "Upsample" : "Resize") + " instead");
  NPU_TRY(c.need_inputs(1, 4));
  if (c.attr_s("mode", "nearest") != "nearest")
    return Status::error("mode '" + c.attr_s("mode", "") + "' is not supported, 'nearest' is");
  Coordinates coordinates = Coordinates::Asymmetric;
  Rounding rounding = Rounding::Floor;
  if (c.opset >= 11) {
    NPU_TRY(choose(c, "coordinate_transformation_mode", "half_pixel", kCoordinates, coordinates));
    NPU_TRY(choose(c, "nearest_mode", "round_prefer_floor", kRoundings, rounding));
  }
  std::vector<Axis> axes;
  NPU_TRY(resize_axes(c, axes));
  // A result as large as its input is its input in ONNX Runtime, whatever the factors are, and a factor of 1 leaves a
  // dimension alone, also where the formula (tf_half_pixel_for_nn) would not.
  const bool all_equal = std::all_of(axes.begin(), axes.end(), [](const Axis &a) { return a.out == a.in; });
  ValueId y = c.in(0);
  for (size_t d = 0; d < axes.size(); ++d) {
    const Axis &a = axes[d];
    if (all_equal || a.scale == 1) continue;
    // Operator set 10 says nothing of rounding; its own tests have it up where the result is smaller.
    const Rounding here = c.opset == 10 && a.scale < 1 ? Rounding::Ceil : rounding;
    std::vector<int64_t> index(static_cast<size_t>(a.out));
    for (int64_t i = 0; i < a.out; ++i)
      index[static_cast<size_t>(i)] = std::clamp<int64_t>(rounded(here, original(coordinates, a, i)), 0, a.in - 1);
    NPU_TRY(select(c, d, index, y));
  }
  c.results[0] = y;
  return {};
}

constexpr OpEntry kOps[] = {{"Resize", resize}, {"Upsample", resize}};

}  // namespace

std::span<const OpEntry> resize_ops() { return kOps; }

}  // namespace npu::graph
