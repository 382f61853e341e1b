// SPDX-License-Identifier: MIT
// Operators that pick or place elements by indices, which are constant or arrive at run time.
#include <algorithm>
#include <cmath>

#include "tests/fuzz/nets/net.h"

namespace npu::fuzz {
namespace {

constexpr int kInt64 = onnx::TensorProto::INT64, kInt32 = onnx::TensorProto::INT32;

bool anything(const Tensor &) { return true; }

/// Indices of that shape into dimensions of `size` elements, made of a tensor of integers by Mod; empty: there is none.
/// Some count from the end, where the operator has that. `narrow`: int32 will do as well.
std::string run_time_indices(Net &net, Choices &c, const Dims &dims, int64_t size, bool from_end, bool narrow) {
  const auto fits = [&](const Tensor &t) { return t.type == kInt64 || (narrow && t.type == kInt32); };
  const Tensor *source = net.opset >= 10 ? net.pick_integer(c, fits) : nullptr;
  if (!source) return {};
  const int type = source->type;
  std::string t = source->name;
  if (source->dims != dims) {
    const int64_t count = source->count();
    t = net.node("Reshape", {t, net.b.ints({-1})});
    t = net.node("Gather", {t, net.integers(dims, 0, count - 1).name});
    net.b.attr("axis", int64_t{0});
  }
  t = net.node("Mod", {t, net.integers({}, std::vector<int64_t>{size}, type).name});
  if (from_end && c.chance(30)) t = net.node("Sub", {t, net.integers({}, std::vector<int64_t>{size}, type).name});
  return t;
}

/// Such, or constant ones.
std::string indices(Net &net, Choices &c, const Dims &dims, int64_t size, bool narrow = true) {
  const bool from_end = net.opset >= 11;
  const std::string made = c.chance(60) ? run_time_indices(net, c, dims, size, from_end, narrow) : "";
  return made.empty() ? net.integers(dims, from_end ? -size : 0, size - 1).name : made;
}

/// Rows of indices that name places in `dims`, [rows..., dims.size()]. Those of several dimensions are constant.
std::string index_rows(Net &net, Choices &c, Dims rows, const Dims &dims) {
  rows.push_back(1);
  if (dims.size() > 1 || c.chance(50)) {
    rows.back() = static_cast<int64_t>(dims.size());
    std::vector<int64_t> values(static_cast<size_t>(count_of(rows)));
    for (size_t i = 0; i < values.size(); ++i) {
      const int64_t size = dims[i % dims.size()];
      values[i] = net.any(size) - (net.any(4) ? 0 : size);
    }
    return net.integers(rows, values).name;
  }
  return indices(net, c, rows, dims[0], false);
}

bool gather(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick_any(c, [](const Tensor &t) { return t.rank() > 0; });
  if (!found) return false;
  const Tensor x = *found;
  const int64_t axis = c.below(x.rank());
  const Dims shape = c.one_of<Dims>({{c.from(1, 6)}, {}, {2, c.from(1, 3)}});
  Dims y = x.dims;
  y.erase(y.begin() + axis);
  y.insert(y.begin() + axis, shape.begin(), shape.end());
  if (!net.allows(y)) return false;
  const std::string result = net.node(type, {x.name, indices(net, c, shape, x.dims[static_cast<size_t>(axis)])});
  net.b.attr("axis", axis);
  net.add_like(result, y, x);
  return true;
}

bool gather_elements(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick_any(c, [](const Tensor &t) { return t.rank() > 0; });
  if (!found || net.opset < 11) return false;
  const Tensor x = *found;
  const int64_t axis = c.below(x.rank());
  Dims y = x.dims;
  for (int64_t &d : y)
    if (c.chance(30)) d = c.from(1, d);
  y[static_cast<size_t>(axis)] = c.from(1, 5);
  if (!net.allows(y)) return false;
  const std::string result = net.node(type, {x.name, indices(net, c, y, x.dims[static_cast<size_t>(axis)])});
  if (axis || c.chance(50)) net.b.attr("axis", c.chance(30) ? axis - x.rank() : axis);
  net.add_like(result, y, x);
  return true;
}

bool gather_nd(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick_any(c, [](const Tensor &t) { return t.rank() > 0; });
  if (!found || net.opset < 11) return false;
  const Tensor x = *found;
  const int64_t batch = net.opset >= 12 && x.rank() > 1 && c.chance(30) ? 1 : 0, named = c.from(1, x.rank() - batch);
  const auto first = x.dims.begin() + batch;
  Dims rows(x.dims.begin(), first);
  rows.push_back(c.from(1, 4));
  if (c.chance(30)) rows.push_back(c.from(1, 3));
  Dims y = rows;
  y.insert(y.end(), first + named, x.dims.end());
  if (!net.allows(y)) return false;
  const std::string result = net.node(type, {x.name, index_rows(net, c, rows, Dims(first, first + named))});
  if (batch) net.b.attr("batch_dims", batch);
  net.add_like(result, y, x);
  return true;
}

/// How updates join what is there, and what becomes of bounds.
void reduce_updates(Net &net, Choices &c, double updates, double count, Tensor &y) {
  std::string how = c.one_of<const char *>({"", "none", "add", "max", "min", "mul"});
  const int64_t since = how == "max" || how == "min" ? 18 : 16;
  if (how.empty() || net.opset < since || y.is_bool()) how = "none";
  if (how == "mul") how = "add";  // grows too fast
  if (net.opset >= 16) net.b.attr("reduction", how.c_str());
  y.positive = false;
  y.least = 0;
  y.most = how == "add" ? y.most + count * updates : std::max(y.most, updates);
  y.exact = y.exact && (how != "add" || !y.is_float());
}

/// Updates for x: constant, a moved part of it, or of another tensor.
Tensor updates_for(Net &net, Choices &c, const Tensor &x, const Dims &dims) {
  const auto fits = [&](const Tensor &t) { return t.type == x.type && t.dims == dims; };
  const Tensor *found = c.chance(60) ? net.pick_any(c, fits) : nullptr;
  if (found) return *found;
  if (x.is_float()) return net.constant(dims, 1);
  return net.integers(dims, 0, x.is_bool() ? 1 : 7, x.type);
}

bool scatter_elements(Net &net, Choices &c, const char *type) {
  const Tensor *found =
      net.pick_any(c, [](const Tensor &t) { return t.rank() > 0 && t.type != onnx::TensorProto::UINT8; });
  const bool old = std::string(type) == "Scatter";
  if (!found || net.opset < (old ? 9 : 11) || (old && net.opset > 10)) return false;
  Tensor y = *found;
  const int64_t axis = c.below(y.rank()), size = y.dims[static_cast<size_t>(axis)];
  Dims dims = y.dims;
  for (int64_t &d : dims) d = c.from(1, std::min<int64_t>(d, 6));
  const Tensor updates = updates_for(net, c, y, dims);
  if (updates.most * 6 + y.most > 100) return false;
  y.exact = y.exact && updates.exact;
  y.name = net.node(type, {y.name, indices(net, c, dims, size), updates.name});
  if (axis || c.chance(50)) net.b.attr("axis", net.opset >= 11 && c.chance(30) ? axis - y.rank() : axis);
  reduce_updates(net, c, updates.most, 6, y);
  net.add(y);
  return true;
}

bool scatter_nd(Net &net, Choices &c, const char *type) {
  const Tensor *found =
      net.pick_any(c, [](const Tensor &t) { return t.rank() > 0 && t.type != onnx::TensorProto::UINT8; });
  if (!found || net.opset < 11) return false;
  Tensor y = *found;
  const int64_t named = c.from(1, y.rank()), count = c.from(1, 4);
  const auto behind = y.dims.begin() + named;
  Dims dims{count};
  dims.insert(dims.end(), behind, y.dims.end());
  if (!net.allows(dims)) return false;
  const Tensor updates = updates_for(net, c, y, dims);
  if (updates.most * 4 + y.most > 100) return false;
  y.exact = y.exact && updates.exact;
  y.name = net.node(type, {y.name, index_rows(net, c, {count}, Dims(y.dims.begin(), behind)), updates.name});
  reduce_updates(net, c, updates.most, 4, y);
  net.add(y);
  return true;
}

bool tensor_scatter(Net &net, Choices &c, const char *type) {
  const Tensor *found =
      net.pick_any(c, [](const Tensor &t) { return t.rank() > 1 && t.type != onnx::TensorProto::UINT8; });
  if (!found || net.opset < 24) return false;
  Tensor y = *found;
  const int64_t axis = c.from(1, y.rank() - 1), size = y.dims[static_cast<size_t>(axis)];
  const bool circular = c.chance(40);
  Dims dims = y.dims;
  int64_t &rows = dims[static_cast<size_t>(axis)];
  rows = c.from(1, std::min<int64_t>(size, 6));
  const int64_t places = circular ? size : size - rows + 1;
  const Tensor updates = updates_for(net, c, y, dims);
  std::vector<std::string> inputs{y.name, updates.name};
  if (c.chance(75)) {
    std::string at = c.chance(60) ? run_time_indices(net, c, {y.dims[0]}, places, false, false) : "";
    inputs.push_back(at.empty() ? net.integers({y.dims[0]}, 0, places - 1).name : at);
  }
  y.name = net.node(type, inputs);
  if (axis != y.rank() - 2 || c.chance(50)) net.b.attr("axis", c.chance(30) ? axis - y.rank() : axis);
  if (circular || c.chance(30)) net.b.attr("mode", circular ? "circular" : "linear");
  y.exact = y.exact && updates.exact;
  y.most = std::max(y.most, updates.most);
  y.least = 0;
  y.positive = false;
  net.add(y);
  return true;
}

bool tile(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick_any(c, [](const Tensor &t) { return t.rank() > 0; });
  if (!found) return false;
  const Tensor x = *found;
  std::vector<int64_t> repeats;
  Dims y;
  for (int64_t d : x.dims) {
    repeats.push_back(c.chance(50) ? c.from(1, 3) : 1);
    y.push_back(d * repeats.back());
  }
  if (!net.allows(y)) return false;
  net.add_like(net.node(type, {x.name, net.ints(c, repeats)}), y, x);
  return true;
}

bool trilu(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick_any(c, [](const Tensor &t) { return t.rank() >= 2; });
  if (!found || net.opset < 14) return false;
  Tensor x = *found;
  std::vector<std::string> inputs{x.name};
  if (c.chance(60)) inputs.push_back(net.integers({}, std::vector<int64_t>{c.from(-2, 3)}).name);
  x.name = net.node(type, inputs);
  if (c.chance(60)) net.b.attr("upper", c.from(0, 1));
  x.least = 0;
  net.add(x);
  return true;
}

bool where(Net &net, Choices &c, const char *type) {
  if (net.opset < 9) return false;
  Tensor x = *net.pick_any(c, anything);
  const auto fits = [&](const Tensor &t) {
    Dims wide;
    return t.type == x.type && broadcast(x.dims, t.dims, wide) && net.allows(wide);
  };
  const Tensor y = *net.pick_any(c, fits);
  Dims both, wide;
  if (!broadcast(x.dims, y.dims, both) || !net.allows(both)) return false;
  const auto chooses = [&](const Tensor &t) {
    return t.is_bool() && broadcast(t.dims, both, wide) && net.allows(wide);
  };
  const Tensor *found = c.chance(60) ? net.pick_any(c, chooses) : nullptr;
  const Tensor condition = found ? *found : net.integers(narrowed(c, both), 0, 1, onnx::TensorProto::BOOL);
  if (!broadcast(condition.dims, both, wide) || !net.allows(wide)) return false;
  x.name = net.node(type, {condition.name, x.name, y.name});
  x.dims = wide;
  x.most = std::max(x.most, y.most);
  x.least = std::min(x.least, y.least);
  x.positive = x.positive && y.positive;
  x.exact = x.exact && y.exact;
  net.add(x);
  return true;
}

/// Some of the indices are outside: they set nothing.
bool one_hot(Net &net, Choices &c, const char *type) {
  if (net.opset < 9) return false;
  const Dims dims = c.one_of<Dims>({{c.from(1, 5)}, {2, c.from(1, 4)}, {}});
  const int64_t depth = c.from(1, 6), axis = c.from(0, static_cast<int64_t>(dims.size()));
  const std::string places = run_time_indices(net, c, dims, depth + 2, false, true);
  if (places.empty()) return false;
  // ONNX Runtime wants dimensions here.
  if (dims.empty()) net.onnxruntime = false;
  Tensor y;
  y.dims = dims;
  y.dims.insert(y.dims.begin() + axis, depth);
  if (!net.allows(y.dims)) return false;
  const std::string values = net.constant({2}, std::vector<float>{c.one_of<float>({0, -0.5f}), 1}).name;
  const std::string number = net.integers(c.chance(50) ? Dims{1} : Dims{}, std::vector<int64_t>{depth}).name;
  y.name = net.node(type, {places, number, values});
  if (axis != static_cast<int64_t>(dims.size()) || c.chance(30))
    net.b.attr("axis", c.chance(50) ? axis : axis - static_cast<int64_t>(dims.size()) - 1);
  y.exact = true;
  net.add(y);
  return true;
}

/// A constant matrix, for a sum.
bool eye_like(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(c, [](const Tensor &t) { return t.rank() == 2; });
  if (!found || net.opset < 9) return false;
  const Tensor x = *found;
  const std::string eye = net.node(type, {x.name});
  if (c.chance(50)) net.b.attr("k", c.from(-2, 2));
  if (c.chance(30)) net.b.attr("dtype", int64_t{onnx::TensorProto::FLOAT});
  net.add(net.node("Add", {x.name, eye}), x.dims, x.most + 1);
  return true;
}

/// Numbers along the last dimension.
bool range(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(c, [](const Tensor &t) { return t.rank() > 0 && t.dims.back() <= 64; });
  if (!found || net.opset < 11) return false;
  const Tensor x = *found;
  const float step = c.one_of<float>({0.25f, -0.5f}), start = c.one_of<float>({0, 1});
  const float limit = start + step * (static_cast<float>(x.dims.back()) - 0.5f);
  const std::string line = net.node(type, {net.b.scalar(start), net.b.scalar(limit), net.b.scalar(step)});
  const double most = x.most + 1 + std::fabs(static_cast<double>(limit));
  if (net.allows(x.dims, most)) net.add(net.node("Add", {x.name, line}), x.dims, most);
  return true;
}

bool size(Net &net, Choices &c, const char *type) {
  const Tensor x = *net.pick(c);
  const std::string n = net.node("Cast", {net.node(type, {x.name})});
  net.b.attr("to", int64_t{onnx::TensorProto::FLOAT});
  net.add(net.node("Div", {x.name, n}), x.dims, x.most, x.least / static_cast<double>(x.count()), x.positive);
  return true;
}

/// What a constant condition lets through.
bool compress(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick_any(c, [](const Tensor &t) { return t.rank() > 0; });
  if (!found || net.opset < 9) return false;
  const Tensor x = *found;
  const bool flat = c.chance(30);
  const int64_t axis = c.below(x.rank()), length = flat ? x.count() : x.dims[static_cast<size_t>(axis)];
  std::vector<int64_t> condition(static_cast<size_t>(c.from(1, std::min<int64_t>(length, 40))));
  int64_t kept = 0;
  for (size_t i = 0; i < condition.size(); ++i) kept += condition[i] = i == 0 || c.chance(50);
  Dims y = x.dims;
  y[static_cast<size_t>(axis)] = kept;
  const std::string which =
      net.integers({static_cast<int64_t>(condition.size())}, condition, onnx::TensorProto::BOOL).name;
  const std::string result = net.node(type, {x.name, which});
  if (!flat) net.b.attr("axis", net.opset >= 11 && c.chance(30) ? axis - x.rank() : axis);
  net.add_like(result, flat ? Dims{kept} : y, x);
  return true;
}

/// Elements at the places of those of a constant that are not 0.
bool non_zero(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(c, [](const Tensor &t) { return t.rank() > 0 && t.count() <= 4000; });
  if (!found || net.opset < 11) return false;
  const Tensor x = *found;
  Dims places;
  std::vector<int64_t> values(static_cast<size_t>(x.count()));
  const int64_t stride = c.from(1, 5);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i) % stride == 0;
  const std::string rows = net.node("Transpose", {net.node(type, {net.integers(x.dims, values).name})});
  net.b.attr("perm", std::vector<int64_t>{1, 0});
  net.add_like(net.node("GatherND", {x.name, rows}), {(x.count() + stride - 1) / stride}, x);
  return true;
}

/// The distinct ones of constant numbers, as indices.
bool unique(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick_any(c, [](const Tensor &t) { return t.rank() > 0; });
  if (!found || net.opset < 11) return false;
  const Tensor x = *found;
  const int64_t size = x.dims[0], n = c.from(1, std::min<int64_t>(size, 5));
  std::vector<int64_t> values;
  for (int64_t i = 0; i < n; ++i) values.insert(values.end(), {n - 1 - i, i});
  const std::string places = net.node(type, {net.integers({2 * n}, values).name});
  if (c.chance(50)) net.b.attr("sorted", c.from(0, 1));
  Dims y = x.dims;
  y[0] = n;
  const std::string result = net.node("Gather", {x.name, places});
  net.b.attr("axis", int64_t{0});
  net.add_like(result, y, x);
  return true;
}

bool reverse_sequence(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick_any(c, [](const Tensor &t) { return t.rank() >= 2; });
  if (!found || net.opset < 10) return false;
  const Tensor x = *found;
  const int64_t time = c.from(0, 1), places = x.dims[static_cast<size_t>(time)];
  const std::string lengths = net.integers({x.dims[static_cast<size_t>(1 - time)]}, 1, places).name;
  const std::string result = net.node(type, {x.name, lengths});
  if (time || c.chance(50)) net.b.attr("time_axis", time).attr("batch_axis", 1 - time);
  net.add_like(result, x.dims, x);
  return true;
}

bool center_crop_pad(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(c, [](const Tensor &t) { return t.rank() > 0; });
  if (!found || net.opset < 18) return false;
  Tensor x = *found;
  const bool all = c.chance(30);
  const std::vector<int64_t> axes = choose_axes(net, c, x.rank());
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (!all && !std::count(axes.begin(), axes.end(), i) && !std::count(axes.begin(), axes.end(), i - x.rank()))
      continue;
    int64_t &d = x.dims[static_cast<size_t>(i)];
    d = std::max<int64_t>(d + c.from(-3, 3), 1);
    sizes.push_back(d);
  }
  if (!net.allows(x.dims)) return false;
  x.name = net.node(type, {x.name, net.ints(c, sizes)});
  if (!all) net.b.attr("axes", axes);
  x.least = 0;
  net.add(x);
  return true;
}

constexpr Op kIndex[] = {
    {"Gather", gather},
    {"GatherElements", gather_elements},
    {"GatherND", gather_nd},
    {"Scatter", scatter_elements},
    {"ScatterElements", scatter_elements},
    {"ScatterND", scatter_nd},
    {"TensorScatter", tensor_scatter},
    {"Tile", tile},
    {"Trilu", trilu},
    {"Where", where},
    {"OneHot", one_hot},
    {"EyeLike", eye_like},
    {"Range", range},
    {"Size", size},
    {"Compress", compress},
    {"NonZero", non_zero},
    {"Unique", unique},
    {"ReverseSequence", reverse_sequence},
    {"CenterCropPad", center_crop_pad},
};

}  // namespace

std::span<const Op> index_ops() { return kIndex; }

}  // namespace npu::fuzz
