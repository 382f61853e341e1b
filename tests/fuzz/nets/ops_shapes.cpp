// SPDX-License-Identifier: MIT
// Operators that give elements another shape or order, and constants.
#include <algorithm>
#include <cmath>

#include "tests/fuzz/nets/net.h"

namespace npu::fuzz {
namespace {

bool identity(Net &net, Choices &c, const char *type) {
  const Tensor x = *net.pick_any(c, [](const Tensor &) { return true; });
  net.add_like(net.node(type, {x.name}), x.dims, x);
  return true;
}

bool dropout(Net &net, Choices &c, const char *type) {
  const Tensor x = *net.pick(c);
  std::vector<std::string> inputs{x.name};
  const bool ratio = c.chance(50);
  if (ratio && net.opset >= 12) inputs.push_back(net.b.scalar(0.25f));
  const std::string y = net.node(type, inputs);
  if (ratio && net.opset < 12) net.b.attr("ratio", 0.25f);
  net.add_like(y, x.dims, x);
  return true;
}

bool flatten(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick_moved(c, 9, [](const Tensor &t) { return t.rank() > 0; });
  if (!found) return false;
  const Tensor x = *found;
  const int64_t axis = c.from(0, x.rank());
  const Dims rows(x.dims.begin(), x.dims.begin() + axis), columns(x.dims.begin() + axis, x.dims.end());
  const std::string y = net.node(type, {x.name});
  if (axis != 1 || c.chance(30))
    net.b.attr("axis", net.opset >= 11 && axis < x.rank() && c.chance(30) ? axis - x.rank() : axis);
  net.add_like(y, {count_of(rows), count_of(columns)}, x);
  return true;
}

/// Another shape of as many elements.
Dims reshaped(Choices &c, const Dims &dims) {
  Dims factors;
  for (int64_t rest = count_of(dims), f = 2; rest > 1;) {
    if (f * f > rest) f = rest;
    if (rest % f == 0) {
      factors.push_back(f);
      rest /= f;
    } else {
      ++f;
    }
  }
  Dims out(static_cast<size_t>(c.from(1, 5)), 1);
  for (int64_t f : factors) out[static_cast<size_t>(c.below(static_cast<int64_t>(out.size())))] *= f;
  return out;
}

bool reshape(Net &net, Choices &c, const char *type) {
  const Tensor x = *net.pick_any(c, [](const Tensor &) { return true; });
  // Channels and pictures of the same size are what most files ask for, and what most commands are for.
  Dims y = c.chance(50) ? reshaped(c, x.dims) : x.dims;
  if (y == x.dims && x.rank() == 4) y = {x.dims[0], x.dims[1], x.dims[2] * x.dims[3]};
  std::vector<int64_t> wanted = y;
  if (c.chance(40) && !wanted.empty()) wanted[static_cast<size_t>(c.below(static_cast<int64_t>(wanted.size())))] = -1;
  for (size_t i = 0; i < std::min(y.size(), x.dims.size()); ++i)
    if (wanted[i] == x.dims[i] && c.chance(30)) wanted[i] = 0;
  net.add_like(net.node(type, {x.name, net.ints(c, wanted)}), y, x);
  return true;
}

/// The first dimension comes from the network itself, as exporters write it: Shape, Slice, Concat, Reshape.
bool reshape_by_shape(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick_any(c, [](const Tensor &t) { return t.rank() >= 2; });
  if (!found || net.opset < 10) return false;
  const Tensor x = *found;
  const std::string shape = net.node("Shape", {x.name});
  std::string first;
  if (c.chance(50)) {
    first = net.node("Slice", {shape, net.b.ints({0}), net.b.ints({1}), net.b.ints({0})});
  } else {
    first = net.node("Gather", {shape, net.b.ints({0})});
    net.b.attr("axis", int64_t{0});
  }
  const std::string all = net.node("Concat", {first, net.b.ints({-1})});
  net.b.attr("axis", int64_t{0});
  net.add_like(net.node(type, {x.name, all}), {x.dims[0], x.count() / x.dims[0]}, x);
  return true;
}

bool squeeze(Net &net, Choices &c, const char *type) {
  const Tensor *found =
      net.pick_any(c, [](const Tensor &t) { return std::find(t.dims.begin(), t.dims.end(), 1) != t.dims.end(); });
  if (!found) return false;
  const Tensor x = *found;
  const bool all = c.chance(30);
  Dims y;
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < x.rank(); ++i) {
    const int64_t d = x.dims[static_cast<size_t>(i)];
    if (d == 1 && (all || axes.empty() || c.chance(50)))
      axes.push_back(net.opset >= 11 && c.chance(25) ? i - x.rank() : i);
    else
      y.push_back(d);
  }
  std::vector<std::string> inputs{x.name};
  if (net.opset >= 13 && !all) inputs.push_back(net.ints(c, axes));
  const std::string result = net.node(type, inputs);
  if (net.opset < 13 && !all) net.b.attr("axes", axes);
  net.add_like(result, y, x);
  return true;
}

bool unsqueeze(Net &net, Choices &c, const char *type) {
  const Tensor x = *net.pick_any(c, [](const Tensor &) { return true; });
  const int64_t more = c.from(1, 2), rank = x.rank() + more;
  if (rank > 6) return false;
  std::vector<int64_t> axes{c.from(0, rank - 1)};
  if (more == 2) axes.push_back((axes[0] + 1) % rank);
  Dims y(static_cast<size_t>(rank), 0);
  for (int64_t a : axes) y[static_cast<size_t>(a)] = 1;
  size_t next = 0;
  for (int64_t &d : y)
    if (d == 0) d = x.dims[next++];
  if (net.opset >= 11 && c.chance(25)) axes[0] -= rank;
  std::vector<std::string> inputs{x.name};
  if (net.opset >= 13) inputs.push_back(net.ints(c, axes));
  const std::string result = net.node(type, inputs);
  if (net.opset < 13) net.b.attr("axes", axes);
  net.add_like(result, y, x);
  return true;
}

bool transpose(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick_any(c, [](const Tensor &t) { return t.rank() >= 2; });
  if (!found) return false;
  const Tensor x = *found;
  std::vector<int64_t> perm;
  for (int64_t i = x.rank(); i-- > 0;) perm.push_back(i);
  const bool given = c.chance(85);
  for (size_t i = perm.size() - 1; given && i > 0; --i)
    std::swap(perm[i], perm[static_cast<size_t>(c.below(static_cast<int64_t>(i) + 1))]);
  Dims y;
  for (int64_t p : perm) y.push_back(x.dims[static_cast<size_t>(p)]);
  const std::string result = net.node(type, {x.name});
  if (given) net.b.attr("perm", perm);
  net.add_like(result, y, x);
  return true;
}

/// Numbers of the shape, as numbers of a tensor: Shape, Cast, and a product.
bool by_shape(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(c, [](const Tensor &t) { return t.rank() >= 1 && t.rank() <= 4; });
  if (!found) return false;
  const Tensor x = *found;
  const std::string shape = net.node("Shape", {x.name});
  const std::string numbers = net.node(type, {shape});
  net.b.attr("to", int64_t{onnx::TensorProto::FLOAT});
  const int64_t largest = *std::max_element(x.dims.begin(), x.dims.end());
  const std::string small = net.node("Div", {numbers, net.constant({}, std::vector<float>{256}).name});
  const double most = static_cast<double>(largest) / 256;
  if (x.dims.back() == x.rank() || x.dims.back() == 1) {
    Dims y = x.dims;
    y.back() = x.rank();
    if (!net.allows(y)) return true;
    net.add(net.node("Add", {x.name, small}), y, x.most + most);
    return true;
  }
  const std::string column = net.node("Reshape", {small, net.b.ints({-1, 1})});
  const std::string row = net.node("Reshape", {x.name, net.b.ints({1, x.count()})});
  const Dims y{x.rank(), x.count()};
  if (net.allows(y)) net.add(net.node("Mul", {column, row}), y, most * x.most);
  return true;
}

bool constant_of_shape(Net &net, Choices &c, const char *type) {
  const Tensor x = *net.pick(c);
  if (x.rank() == 0 || net.opset < 9) return false;
  const float value = c.one_of<float>({0, 1, -0.5f});
  const bool from_shape = c.chance(50);
  const std::string shape = from_shape ? net.node("Shape", {x.name}) : net.ints(c, x.dims);
  const std::string filled = net.node(type, {shape});
  if (value != 0) net.b.tensor_attr("value", {1}, {value});
  net.add(net.node(c.one_of<const char *>({"Add", "Sub"}), {x.name, filled}), x.dims, x.most + 1);
  return true;
}

bool depth_to_space(Net &net, Choices &c, const char *type) {
  const int64_t block = c.from(2, 3);
  const Tensor *found =
      net.pick_any(c, [&](const Tensor &t) { return t.rank() == 4 && t.dims[1] % (block * block) == 0; });
  if (!found) return false;
  const Tensor x = *found;
  const std::string y = net.node(type, {x.name});
  net.b.attr("blocksize", block);
  if (net.opset >= 11 && c.chance(60)) net.b.attr("mode", c.one_of<const char *>({"CRD", "DCR"}));
  net.add_like(y, {x.dims[0], x.dims[1] / (block * block), x.dims[2] * block, x.dims[3] * block}, x);
  return true;
}

bool space_to_depth(Net &net, Choices &c, const char *type) {
  const int64_t block = c.from(2, 3);
  const Tensor *found = net.pick_any(
      c, [&](const Tensor &t) { return t.rank() == 4 && t.dims[2] % block == 0 && t.dims[3] % block == 0; });
  if (!found) return false;
  const Tensor x = *found;
  const std::string y = net.node(type, {x.name});
  net.b.attr("blocksize", block);
  net.add_like(y, {x.dims[0], x.dims[1] * block * block, x.dims[2] / block, x.dims[3] / block}, x);
  return true;
}

constexpr Op kShapes[] = {
    {"Identity", identity},
    {"Dropout", dropout},
    {"Flatten", flatten},
    {"Reshape", reshape},
    {"Reshape", reshape_by_shape},
    {"Squeeze", squeeze},
    {"Unsqueeze", unsqueeze},
    {"Transpose", transpose},
    {"Transpose", transpose},
    {"Cast", by_shape},
    {"ConstantOfShape", constant_of_shape},
    {"DepthToSpace", depth_to_space},
    {"SpaceToDepth", space_to_depth},
};

}  // namespace

std::span<const Op> shape_ops() { return kShapes; }

}  // namespace npu::fuzz
