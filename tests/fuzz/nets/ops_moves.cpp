// SPDX-License-Identifier: MIT
// Operators that pick, repeat or join elements.
#include <algorithm>
#include <cmath>

#include "tests/fuzz/nets/net.h"

namespace npu::fuzz {
namespace {

const Tensor *pick_with_rank(Net &net, Choices &c, int64_t least) {
  return net.pick(c, [=](const Tensor &t) { return t.rank() >= least; });
}

/// Of any type.
const Tensor *pick_any_with_rank(Net &net, Choices &c, int64_t least) {
  return net.pick_any(c, [=](const Tensor &t) { return t.rank() >= least; });
}

bool concat(Net &net, Choices &c, const char *type) {
  const Tensor *found = pick_any_with_rank(net, c, 1);
  if (!found) return false;
  const Tensor x = *found;
  const int64_t axis = c.from(0, x.rank() - 1);
  const auto d = static_cast<size_t>(axis);
  const auto fits = [&](const Tensor &t) {
    Dims same = t.dims;
    if (same.size() != x.dims.size() || t.type != x.type) return false;
    same[d] = x.dims[d];
    return same == x.dims;
  };
  std::vector<std::string> inputs{x.name};
  Tensor y = x;
  y.least = 0;
  for (int64_t n = c.from(0, 3); n--;) {
    Dims own = x.dims;
    own[d] = c.from(1, 3);
    const Tensor t = x.is_float() && c.chance(30) ? net.constant(own, 1) : *net.pick_any(c, fits);
    y.dims[d] += t.dims[d];
    y.most = std::max(y.most, t.most);
    y.positive = y.positive && t.positive;
    y.exact = y.exact && t.exact;
    inputs.push_back(t.name);
    if (c.chance(30)) std::swap(inputs.front(), inputs.back());
  }
  if (!net.allows(y.dims)) return false;
  y.name = net.node(type, inputs);
  net.b.attr("axis", net.opset >= 11 && c.chance(30) ? axis - x.rank() : axis);
  net.add(y);
  return true;
}

/// What Slice takes of one dimension.
struct Cut {
  int64_t start, end, step, count;
};

Cut choose_cut(Net &net, Choices &c, int64_t size) {
  const int64_t first = c.from(0, size - 1), last = c.from(first, size - 1);
  int64_t step = net.opset >= 10 && c.chance(40) ? c.from(1, 3) : 1;
  Cut cut{first, last + 1, step, (last - first) / step + 1};
  if (net.opset >= 10 && c.chance(25)) cut = {last, first ? first - 1 : -size - 1, -step, cut.count};
  if (cut.start > 0 && c.chance(25)) cut.start -= size;
  if (cut.end == size && c.chance(50)) cut.end = c.one_of<int64_t>({size, INT64_MAX, size + 7});
  return cut;
}

bool slice(Net &net, Choices &c, const char *type) {
  const Tensor *found = pick_any_with_rank(net, c, 1);
  if (!found) return false;
  const Tensor x = *found;
  std::vector<int64_t> starts, ends, axes, steps;
  Dims y = x.dims;
  const bool all = c.chance(20);
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (!all && c.chance(50)) continue;
    const auto d = static_cast<size_t>(i);
    const Cut cut = choose_cut(net, c, x.dims[d]);
    starts.push_back(cut.start);
    ends.push_back(cut.end);
    steps.push_back(cut.step);
    axes.push_back(net.opset >= 10 && c.chance(25) ? i - x.rank() : i);
    y[d] = cut.count;
  }
  if (starts.empty()) return false;
  const bool named = !all || c.chance(50);
  std::vector<std::string> inputs{x.name};
  if (net.opset >= 10) {
    inputs.insert(inputs.end(), {net.ints(c, starts), net.ints(c, ends), named ? net.ints(c, axes) : ""});
    inputs.push_back(net.ints(c, steps));
  }
  const std::string result = net.node(type, inputs);
  if (net.opset < 10) {
    net.b.attr("starts", starts).attr("ends", ends);
    if (named) net.b.attr("axes", axes);
  }
  net.add_like(result, y, x);
  return true;
}

bool split(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick_any(
      c, [](const Tensor &t) { return std::any_of(t.dims.begin(), t.dims.end(), [](int64_t d) { return d > 1; }); });
  if (!found) return false;
  const Tensor x = *found;
  int64_t axis = c.from(0, x.rank() - 1);
  while (x.dims[static_cast<size_t>(axis)] == 1) axis = (axis + 1) % x.rank();
  const int64_t size = x.dims[static_cast<size_t>(axis)];
  std::vector<int64_t> parts{c.from(1, size - 1)};
  parts.push_back(size - parts[0]);
  if (parts[1] > 1 && c.chance(50)) {
    parts.push_back(parts[1] / 2);
    parts[1] -= parts[2];
  }
  const auto number = static_cast<int64_t>(parts.size());
  bool equal = size % number == 0 && c.chance(50);
  if (equal) parts.assign(parts.size(), size / number);
  // The last of equal parts may be shorter.
  const int64_t each = (size + number - 1) / number;
  if (!equal && net.opset >= 18 && size > each * (number - 1) && c.chance(30)) {
    equal = true;
    parts.assign(parts.size(), each);
    parts.back() = size - each * (number - 1);
  }
  std::vector<std::string> inputs{x.name};
  if (!equal && net.opset >= 13) inputs.push_back(net.ints(c, parts));
  std::vector<std::string> results{net.node(type, inputs)};
  if (axis || c.chance(50)) net.b.attr("axis", axis);
  if (!equal && net.opset < 13) net.b.attr("split", parts);
  if (equal && net.opset >= 18) net.b.attr("num_outputs", number);
  for (size_t k = 1; k < parts.size(); ++k) results.push_back(net.b.more_output());
  for (size_t k = 0; k < parts.size(); ++k) {
    Dims y = x.dims;
    y[static_cast<size_t>(axis)] = parts[k];
    net.add_like(results[k], y, x);
  }
  return true;
}

bool pad(Net &net, Choices &c, const char *type) {
  const Tensor *found = pick_with_rank(net, c, 1);
  if (!found) return false;
  const Tensor x = *found;
  const auto rank = x.dims.size();
  const std::string mode = c.one_of<const char *>({"constant", "constant", "constant", "edge", "reflect", "wrap"});
  if (mode == "wrap" && net.opset < 19) return false;
  std::vector<int64_t> begin(rank), end(rank), axes;
  Tensor y = x;
  for (size_t i = 0; i < rank; ++i) {
    const bool pictures_only = rank > 2 && i < 2 && c.chance(70);
    if (pictures_only || c.chance(30)) continue;
    const int64_t crop = std::min<int64_t>((x.dims[i] - 1) / 2, 2);
    // What a border shows lies inside of what is left.
    const int64_t most = mode == "constant" || mode == "edge" ? 3 : std::min<int64_t>(x.dims[i] - 1, 3);
    begin[i] = mode == "constant" && c.chance(20) ? -c.from(0, crop) : c.from(0, most);
    end[i] = mode == "constant" && c.chance(20) ? -c.from(0, crop) : c.from(0, most);
    y.dims[i] += begin[i] + end[i];
    axes.push_back(c.chance(30) ? static_cast<int64_t>(i) - x.rank() : static_cast<int64_t>(i));
  }
  const float value = mode == "constant" ? c.one_of<float>({0, 0.75f, -1}) : 0;
  if (!net.allows(y.dims)) return false;
  const bool some = net.opset >= 18 && !axes.empty() && c.chance(30);
  std::vector<int64_t> pads;
  for (const std::vector<int64_t> &ends : {begin, end}) {
    if (!some) pads.insert(pads.end(), ends.begin(), ends.end());
    for (size_t k = 0; some && k < axes.size(); ++k)
      pads.push_back(ends[static_cast<size_t>(axes[k] < 0 ? axes[k] + x.rank() : axes[k])]);
  }
  std::vector<std::string> inputs{x.name};
  if (net.opset >= 11) {
    inputs.push_back(net.ints(c, pads));
    if (value != 0 || c.chance(30)) inputs.push_back(net.b.scalar(value));
    if (some && inputs.size() == 2) inputs.push_back("");
    if (some) inputs.push_back(net.ints(c, axes));
  }
  y.name = net.node(type, inputs);
  if (net.opset < 11) {
    net.b.attr("pads", pads);
    if (value != 0) net.b.attr("value", value);
  }
  if (mode != "constant" || c.chance(30)) net.b.attr("mode", mode.c_str());
  if (mode == "constant") {
    y.most = std::max(x.most, 1.0);
    y.least = 0;
    y.positive = x.positive && value >= 0;
  }
  net.add(y);
  return true;
}

bool expand(Net &net, Choices &c, const char *type) {
  if (net.opset < 8) return false;
  const Tensor x = *net.pick_any(c, [](const Tensor &) { return true; });
  Dims y = x.dims, wanted;
  for (int64_t &d : y)
    if (d == 1 && c.chance(60)) d = c.from(1, 5);
  wanted = y;
  if (c.chance(30)) wanted.insert(wanted.begin(), c.from(1, 3));
  y = wanted;
  // A 1 in the shape leaves what is there.
  for (size_t i = 0; i < wanted.size(); ++i) {
    const size_t at = i + x.dims.size() - wanted.size();
    if (i + x.dims.size() >= wanted.size() && x.dims[at] == wanted[i] && c.chance(20)) wanted[i] = 1;
  }
  if (wanted.empty() || !net.allows(y)) return false;
  net.add_like(net.node(type, {x.name, net.ints(c, wanted)}), y, x);
  return true;
}

bool gather(Net &net, Choices &c, const char *type) {
  const Tensor *found = pick_any_with_rank(net, c, 1);
  if (!found) return false;
  const Tensor x = *found;
  const int64_t axis = c.from(0, x.rank() - 1), size = x.dims[static_cast<size_t>(axis)];
  const Dims shape = c.one_of<Dims>({{c.from(1, 6)}, {}, {2, c.from(1, 3)}});
  std::vector<int64_t> index(static_cast<size_t>(count_of(shape)));
  const bool rising = c.chance(30);
  for (size_t i = 0; i < index.size(); ++i) {
    index[i] = rising ? static_cast<int64_t>(i) % size : c.from(0, size - 1);
    if (net.opset >= 11 && c.chance(20)) index[i] -= size;
  }
  Dims y = x.dims;
  y.erase(y.begin() + axis);
  y.insert(y.begin() + axis, shape.begin(), shape.end());
  if (!net.allows(y)) return false;
  const std::string result = net.node(type, {x.name, net.b.indices(shape, index)});
  if (axis || c.chance(50)) net.b.attr("axis", net.opset >= 11 && c.chance(25) ? axis - x.rank() : axis);
  net.add_like(result, y, x);
  return true;
}

/// Factors and sizes of a resize; the size is the product in single precision, rounded down.
bool resize(Net &net, Choices &c, const char *type) {
  const bool upsample = std::string(type) == "Upsample";
  const Tensor *found = pick_with_rank(net, c, 1);
  if (!found || upsample != (net.opset < 10)) return false;
  const Tensor x = *found;
  const bool sizes = net.opset >= 11 && c.chance(50);
  std::string mode = c.one_of<const char *>({"nearest", "nearest", "linear", "cubic"});
  // ONNX Runtime has linear for pictures, also with batch and channels, and cubic for those with them.
  const bool picture = x.rank() == 4;
  if (mode == "cubic" && net.opset < 11) mode = "linear";
  if (mode != "nearest" && !picture) net.onnxruntime = false;
  std::vector<float> scales;
  Dims y;
  for (size_t i = 0; i < x.dims.size(); ++i) {
    float scale = c.one_of<float>({1, 2, 1.5f, 3, 1.6666666f, 1.3f, 0.5f, 0.6f, 1.1666666f, 0.3333333f});
    if ((i < 2 && x.rank() > 2 && c.chance(80)) || (upsample && scale < 1)) scale = 1;
    if (mode != "nearest" && i < 2 && x.rank() > 2) scale = 1;
    const auto size = static_cast<int64_t>(std::floor(static_cast<float>(x.dims[i]) * scale));
    y.push_back(sizes ? std::max<int64_t>(size + (scale == 1 ? 0 : c.from(0, 1)), 1) : size);
    scales.push_back(scale);
  }
  if (!net.allows(y, 2 * x.most)) return false;
  // Only the axes that change, in another form.
  std::vector<int64_t> axes, some_sizes;
  std::vector<float> some_scales;
  if (net.opset >= 18 && c.chance(30))
    for (size_t i = 0; i < y.size(); ++i) {
      if (y[i] == x.dims[i] && scales[i] == 1) continue;
      axes.push_back(static_cast<int64_t>(i));
      some_sizes.push_back(y[i]);
      some_scales.push_back(scales[i]);
    }
  std::vector<std::string> inputs{x.name};
  if (net.opset >= 11) inputs.push_back("");
  if (net.opset == 11 || net.opset == 12) inputs.back() = net.b.floats({});  // a region is no option there
  if (sizes)
    inputs.insert(inputs.end(), {net.opset >= 13 ? "" : net.b.floats({}), net.ints(c, axes.empty() ? y : some_sizes)});
  else if (net.opset >= 9)
    inputs.push_back(net.b.floats(axes.empty() ? scales : some_scales));
  const std::string result = net.node(type, inputs);
  if (net.opset < 9) net.b.attr("scales", scales);
  if (!axes.empty()) net.b.attr("axes", axes);
  if (net.opset >= 11) {
    const std::string coordinates =
        c.one_of<const char *>({"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel",
                                "tf_half_pixel_for_nn", "half_pixel_symmetric"});
    if (net.opset >= 19 || coordinates != "half_pixel_symmetric")
      net.b.attr("coordinate_transformation_mode", coordinates.c_str());
    if (mode == "nearest" && c.chance(80))
      net.b.attr("nearest_mode", c.one_of<const char *>({"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"}));
    if (mode == "cubic" && c.chance(40)) net.b.attr("cubic_coeff_a", -0.5f);
    if (mode == "cubic" && c.chance(30)) net.b.attr("exclude_outside", int64_t{1});
    if (mode != "nearest" && net.opset >= 18 && c.chance(30)) net.b.attr("antialias", int64_t{1});
  }
  net.b.attr("mode", mode.c_str());
  if (mode == "nearest")
    net.add_like(result, y, x);
  else
    net.add(result, y, 2 * x.most);
  return true;
}

constexpr Op kMoves[] = {
    {"Concat", concat}, {"Slice", slice},   {"Split", split},   {"Pad", pad},         {"Expand", expand},
    {"Gather", gather}, {"Resize", resize}, {"Concat", concat}, {"Upsample", resize},
};

}  // namespace

std::span<const Op> move_ops() { return kMoves; }

}  // namespace npu::fuzz
