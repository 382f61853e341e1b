// SPDX-License-Identifier: MIT
// Fourier transforms and windows; pictures that are read between their elements; losses; integers of one byte.
#include <algorithm>
#include <cmath>

#include "tests/fuzz/nets/net.h"

namespace npu::fuzz {
namespace {

/// Of real numbers; the axis is an operand from operator set 20 on.
bool dft(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(c, [](const Tensor &t) {
    return t.rank() > 0 && t.rank() < 6 && *std::max_element(t.dims.begin(), t.dims.end()) <= 300;
  });
  if (!found || net.opset < 17) return false;
  const Tensor x = *found;
  const int64_t axis = c.below(x.rank()), length = x.dims[static_cast<size_t>(axis)];
  const bool onesided = c.chance(40), given = c.chance(30);
  const int64_t points = given ? c.from(1, length + 2) : length;
  Dims y = x.dims;
  y[static_cast<size_t>(axis)] = onesided ? points / 2 + 1 : points;
  y.push_back(2);
  const double most = x.most * static_cast<double>(std::min(points, length));
  if (!net.allows(y, most)) return false;
  Dims real = x.dims;
  real.push_back(1);
  // ONNX Runtime gives what has no batch one, and writes beyond its memory where the transform is shorter.
  if (x.rank() == 1 || points < length) net.onnxruntime = false;
  std::vector<std::string> inputs{net.node("Reshape", {x.name, net.b.ints(real)})};
  if (given || net.opset >= 20)
    inputs.push_back(given ? net.integers({}, std::vector<int64_t>{points}).name : std::string());
  if (net.opset >= 20) inputs.push_back(net.integers({}, std::vector<int64_t>{axis}).name);
  const std::string result = net.node(type, inputs);
  if (net.opset < 20) net.b.attr("axis", axis);
  if (onesided) net.b.attr("onesided", int64_t{1});
  net.add(result, y, most);
  return true;
}

bool stft(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(c, [](const Tensor &t) { return t.rank() == 2 && t.dims[1] >= 4; });
  if (!found || net.opset < 17) return false;
  const Tensor x = *found;
  const int64_t frame = c.from(2, std::min<int64_t>(x.dims[1], 24)), step = c.from(1, 8);
  const bool window = c.chance(50), onesided = c.chance(50);
  const Dims y{x.dims[0], (x.dims[1] - frame) / step + 1, onesided ? frame / 2 + 1 : frame, 2};
  const double most = x.most * static_cast<double>(frame);
  if (!net.allows(y, most)) return false;
  const std::string signal = net.node("Reshape", {x.name, net.b.ints({x.dims[0], x.dims[1], 1})});
  std::vector<std::string> inputs{signal, net.integers({}, std::vector<int64_t>{step}).name};
  inputs.push_back(window ? net.constant({frame}, 1).name : "");
  inputs.push_back(net.integers({}, std::vector<int64_t>{frame}).name);
  const std::string result = net.node(type, inputs);
  net.b.attr("onesided", static_cast<int64_t>(onesided));
  net.add(result, y, most);
  return true;
}

/// Along the last dimension.
bool window(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(c, [](const Tensor &t) { return t.rank() > 0 && t.dims.back() > 1; });
  if (!found || net.opset < 17) return false;
  const Tensor x = *found;
  const std::string factors = net.node(type, {net.integers({}, std::vector<int64_t>{x.dims.back()}).name});
  if (c.chance(50)) net.b.attr("periodic", c.from(0, 1));
  net.add(net.node("Add", {x.name, factors}), x.dims, x.most + 1);
  return true;
}

bool mel_weight_matrix(Net &net, Choices &c, const char *type) {
  const Tensor *found =
      net.pick(c, [](const Tensor &t) { return t.rank() > 0 && t.dims.back() > 8 && t.dims.back() < 300; });
  if (!found || net.opset < 17) return false;
  const Tensor x = *found;
  const auto number = [&](int64_t v) { return net.integers({}, std::vector<int64_t>{v}).name; };
  const int64_t filters = c.from(1, 6);
  Dims y = x.dims;
  y.back() = filters;
  const double most = x.most * static_cast<double>(x.dims.back());
  if (!net.allows(y, most)) return false;
  const std::string matrix = net.node(
      type, {number(filters), number(2 * (x.dims.back() - 1)), number(8000), net.b.scalar(125), net.b.scalar(3750)});
  net.add(net.node("MatMul", {x.name, matrix}), y, most);
  return true;
}

bool is_picture(const Tensor &t) { return t.rank() == 4; }

/// The names of modes have changed with operator set 20.
bool grid_sample(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(c, is_picture);
  if (!found || net.opset < 16) return false;
  const Tensor x = *found;
  const Dims y{x.dims[0], x.dims[1], c.from(1, 6), c.from(1, 6)};
  const int64_t mode = c.below(3);
  if (!net.allows(y, 2 * x.most)) return false;
  std::string grid;
  if (net.opset >= 20 && mode != 1 && c.chance(40)) {
    grid = net.node("AffineGrid", {net.constant({x.dims[0], 2, 3}, 0.7).name, net.b.ints(y)});
    if (std::min(y[2], y[3]) > 1 && c.chance(50)) net.b.attr("align_corners", int64_t{1});
  } else {
    grid = net.constant({y[0], y[2], y[3], 2}, 1.3).name;
  }
  const std::string result = net.node(type, {x.name, grid});
  constexpr const char *kOld[] = {"bilinear", "nearest", "bicubic"}, *kNew[] = {"linear", "nearest", "cubic"};
  net.b.attr("mode", (net.opset < 20 ? kOld : kNew)[mode]);
  const std::string padding = c.one_of<const char *>({"border", "reflection", "zeros", "zeros"});
  net.b.attr("padding_mode", padding.c_str());
  // ONNX Runtime moves both coordinates of a point to the border where one is outside.
  if (mode == 2 && padding == "border") net.onnxruntime = false;
  if (c.chance(50)) net.b.attr("align_corners", int64_t{1});
  net.add(result, y, 2 * x.most);
  return true;
}

/// A grid, of matrices that arrive at run time.
bool affine_grid(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(c, [](const Tensor &t) { return t.count() >= 6; });
  if (!found || net.opset < 20) return false;
  const Tensor x = *found;
  const int64_t n = std::min<int64_t>(x.count() / 6, 2);
  const Dims y{n, c.from(1, 8), c.from(1, 8), 2};
  if (!net.allows(y, 3 * x.most)) return false;
  const std::string flat = net.node("Reshape", {x.name, net.b.ints({-1})});
  const std::string part = net.node("Slice", {flat, net.b.ints({0}), net.b.ints({6 * n})});
  const std::string matrices = net.node("Reshape", {part, net.b.ints({n, 2, 3})});
  const std::string result = net.node(type, {matrices, net.ints(c, {n, 1, y[1], y[2]})});
  const bool align = c.chance(50);
  if (align) net.b.attr("align_corners", int64_t{1});
  // A single element between corners lies in the middle, as in PyTorch.
  if (align && std::min(y[1], y[2]) == 1) net.onnxruntime = false;
  net.add(result, y, 3 * x.most);
  return true;
}

/// Rows of x1, y1, x2, y2 inside of a picture, `lead` numbers in front of each: 0.
std::vector<float> regions(Net &net, const Tensor &x, int64_t count, bool lead, bool whole) {
  std::vector<float> out;
  for (int64_t i = 0; i < count; ++i) {
    if (lead) out.push_back(static_cast<float>(net.any(x.dims[0])));
    const auto w = static_cast<float>(x.dims[3] - 1), h = static_cast<float>(x.dims[2] - 1);
    const auto at = [&](float size, float from, float to) {
      const float v = size * (from + (to - from) * static_cast<float>(net.any(1000)) / 1000);
      return whole ? std::floor(v) : v;
    };
    out.insert(out.end(), {at(w, 0, 0.5f), at(h, 0, 0.5f), at(w, 0.5f, 1), at(h, 0.5f, 1)});
  }
  return out;
}

bool roi_align(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(c, is_picture);
  if (!found || net.opset < 10) return false;
  const Tensor x = *found;
  const int64_t n = c.from(1, 4);
  const Dims y{n, x.dims[1], c.from(1, 4), c.from(1, 4)};
  if (!net.allows(y)) return false;
  const std::string rois = net.constant({n, 4}, regions(net, x, n, false, false)).name;
  const std::string result = net.node(type, {x.name, rois, net.integers({n}, 0, x.dims[0] - 1).name});
  net.b.attr("output_height", y[2]).attr("output_width", y[3]).attr("sampling_ratio", c.from(1, 3));
  if (c.chance(30)) net.b.attr("spatial_scale", 0.5f);
  if (net.opset >= 16 && c.chance(50)) net.b.attr("coordinate_transformation_mode", "output_half_pixel");
  net.add(result, y, x.most);
  return true;
}

bool max_roi_pool(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(c, is_picture);
  if (!found) return false;
  const Tensor x = *found;
  const int64_t n = c.from(1, 3);
  const Dims y{n, x.dims[1], c.from(1, 3), c.from(1, 3)};
  if (!net.allows(y)) return false;
  const std::string rois = net.constant({n, 5}, regions(net, x, n, true, true)).name;
  const std::string result = net.node(type, {x.name, rois});
  net.b.attr("pooled_shape", std::vector<int64_t>{y[2], y[3]});
  net.add(result, y, x.most);
  return true;
}

bool deform_conv(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(c, [](const Tensor &t) { return is_picture(t) && t.dims[2] >= 2 && t.dims[3] >= 2; });
  if (!found || net.opset < 19) return false;
  const Tensor x = *found;
  const int64_t kernel = c.from(1, 2), pad = c.from(0, 1), out = c.from(1, 4);
  const Dims y{x.dims[0], out, x.dims[2] + 2 * pad - kernel + 1, x.dims[3] + 2 * pad - kernel + 1};
  const Dims offsets{x.dims[0], 2 * kernel * kernel, y[2], y[3]};
  const double terms = static_cast<double>(x.dims[1] * kernel * kernel), weight = std::sqrt(3 / terms);
  const double most = std::min(terms * weight, 4.0) * x.most + 1;
  if (!net.allows(y, most) || count_of(offsets) > 20000 || x.dims[1] * out > 5000) return false;
  std::vector<std::string> inputs{x.name, net.constant({out, x.dims[1], kernel, kernel}, weight).name,
                                  net.constant(offsets, 1.5).name};
  if (c.chance(50)) inputs.push_back(net.constant({out}, 0.5).name);
  const std::string result = net.node(type, inputs);
  net.b.attr("pads", std::vector<int64_t>{pad, pad, pad, pad});
  net.add(result, y, most);
  return true;
}

/// The negative logarithm of probabilities, or of the softmax of scores.
bool loss(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(c, [](const Tensor &t) { return t.rank() >= 2 && t.count() <= 20000; });
  if (!found || net.opset < 12) return false;
  const Tensor x = *found;
  const bool scores = std::string(type) == "SoftmaxCrossEntropyLoss";
  const int64_t classes = x.dims[1];
  Dims targets = x.dims;
  targets.erase(targets.begin() + 1);
  std::vector<int64_t> values(static_cast<size_t>(count_of(targets)));
  for (int64_t &v : values) v = net.any(classes);
  const bool ignore = classes > 1 && c.chance(30), weighted = c.chance(40);
  if (ignore) values[0] = 1;
  std::vector<float> weights(static_cast<size_t>(classes));
  for (float &w : weights) w = 0.25f + 0.25f * static_cast<float>(net.any(4));
  const std::string how = c.one_of<const char *>({"mean", "sum", "none"});
  const double each = scores ? 2 * x.most + std::log(static_cast<double>(classes)) : x.most;
  const double most = how == "sum" ? each * static_cast<double>(values.size()) : each;
  const Dims y = how == "none" ? targets : Dims{};
  if (!net.allows(y, most)) return false;
  std::vector<std::string> inputs{x.name, net.integers(targets, values).name};
  if (weighted) inputs.push_back(net.constant({classes}, weights).name);
  const std::string result = net.node(type, inputs), log_prob = scores && c.chance(30) ? net.b.more_output() : "";
  net.b.attr("reduction", how.c_str());
  if (ignore) net.b.attr("ignore_index", int64_t{0});
  net.add(result, y, most);
  if (!log_prob.empty()) net.add(log_prob, x.dims, each);
  return true;
}

bool is_byte(const Tensor &t) { return t.type == onnx::TensorProto::UINT8; }

bool dequantize(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick_integer(c, is_byte);
  if (!found || net.opset < 10) return false;
  const Tensor x = *found;
  std::vector<std::string> inputs{x.name, net.b.scalar(0.0625f)};
  if (c.chance(60)) inputs.push_back(net.integers({}, 0, 20, onnx::TensorProto::UINT8).name);
  net.add(net.node(type, inputs), x.dims, (x.most + 20) / 16);
  return true;
}

/// Exact, if in float32.
bool matmul_integer(Net &net, Choices &c, const char *type) {
  const Tensor *found =
      net.pick_integer(c, [](const Tensor &t) { return is_byte(t) && t.rank() == 2 && t.dims[1] <= 64; });
  if (!found || net.opset < 10) return false;
  const Tensor x = *found;
  const Tensor w = net.integers({x.dims[1], c.from(1, 5)}, 0, 9, onnx::TensorProto::UINT8);
  std::vector<std::string> inputs{x.name, w.name};
  if (c.chance(60)) inputs.push_back(net.integers({}, 0, 20, onnx::TensorProto::UINT8).name);
  Tensor y{net.node(type, inputs), {x.dims[0], w.dims[1]}, (x.most + 20) * 9 * static_cast<double>(x.dims[1])};
  y.type = onnx::TensorProto::INT32;
  y.exact = true;
  net.add(y);
  return true;
}

bool conv_integer(Net &net, Choices &c, const char *type) {
  const Tensor *found =
      net.pick_integer(c, [](const Tensor &t) { return is_byte(t) && t.rank() == 4 && t.dims[1] <= 64; });
  if (!found || net.opset < 10) return false;
  const Tensor x = *found;
  const int64_t kernel = std::min({c.from(1, 2), x.dims[2], x.dims[3]}), out = c.from(1, 3);
  const Tensor w = net.integers({out, x.dims[1], kernel, kernel}, 0, 9, onnx::TensorProto::UINT8);
  const Dims y{x.dims[0], out, x.dims[2] - kernel + 1, x.dims[3] - kernel + 1};
  if (!net.allows(y)) return false;
  std::vector<std::string> inputs{x.name, w.name};
  if (c.chance(60)) inputs.push_back(net.integers({}, 0, 20, onnx::TensorProto::UINT8).name);
  Tensor result{net.node(type, inputs), y, (x.most + 20) * 9 * static_cast<double>(count_of(w.dims) / out)};
  result.type = onnx::TensorProto::INT32;
  result.exact = true;
  net.add(result);
  return true;
}

constexpr Op kSignals[] = {
    {"DFT", dft},
    {"STFT", stft},
    {"HannWindow", window},
    {"HammingWindow", window},
    {"BlackmanWindow", window},
    {"MelWeightMatrix", mel_weight_matrix},
    {"GridSample", grid_sample},
    {"AffineGrid", affine_grid},
    {"RoiAlign", roi_align},
    {"MaxRoiPool", max_roi_pool},
    {"DeformConv", deform_conv},
    {"NegativeLogLikelihoodLoss", loss},
    {"SoftmaxCrossEntropyLoss", loss},
    {"DequantizeLinear", dequantize},
    {"MatMulInteger", matmul_integer},
    {"ConvInteger", conv_integer},
};

}  // namespace

std::span<const Op> signal_ops() { return kSignals; }

}  // namespace npu::fuzz
