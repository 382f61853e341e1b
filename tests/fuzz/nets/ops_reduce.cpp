// SPDX-License-Identifier: MIT
// Reductions, running sums, and the choice of elements by their size.
#include <algorithm>
#include <cmath>

#include "tests/fuzz/nets/net.h"

namespace npu::fuzz {
namespace {

/// Sums of integers wrap round beyond that, or go through float32.
constexpr double kLargestInteger = 100000;

/// What a reduction makes of `count` elements of x.
Tensor reduced(const std::string &kind, const Tensor &x, int64_t count) {
  const auto n = static_cast<double>(count);
  Tensor y = x;
  y.least = 0;
  const bool extreme = kind == "ReduceMax" || kind == "ReduceMin";
  y.exact = x.exact && (extreme || !x.is_float());
  y.positive = x.positive && kind != "ReduceLogSum" && kind != "ReduceLogSumExp";
  if (kind == "ReduceSum" || kind == "ReduceL1") y.most = n * x.most;
  if (kind == "ReduceL2") y.most = std::sqrt(n) * x.most;
  if (kind == "ReduceSumSquare") y.most = n * x.most * x.most;
  if (kind == "ReduceProd") y.most = std::pow(std::max(x.most, 1.0), n);
  if (kind == "ReduceLogSum") y.most = std::max(std::log(n * x.most), std::fabs(std::log(x.least)));
  if (kind == "ReduceLogSumExp") y.most = x.most + std::log(n);
  return y;
}

bool has_integers(Net &net, const std::string &kind) {
  return net.host && kind != "ReduceLogSum" && kind != "ReduceLogSumExp" && kind != "ReduceL2" &&
         kind != "ReduceMean" && kind != "ReduceProd";
}

bool reduce(Net &net, Choices &c, const char *type) {
  const std::string kind = type;
  const auto fits = [](const Tensor &t) { return t.rank() > 0; };
  const auto wide = [](const Tensor &t) {
    return t.rank() > 0 && (t.type == onnx::TensorProto::INT32 || t.type == onnx::TensorProto::INT64);
  };
  const Tensor *found = has_integers(net, kind) && c.chance(30) ? net.pick_integer(c, wide) : net.pick(c, fits);
  if (!found) return false;
  Tensor x = *found;
  if (kind == "ReduceLogSum") x = positive_operand(net, c);
  if (x.rank() == 0) return false;
  const bool all = c.chance(20), keep = c.chance(50), as_input = net.opset >= (kind == "ReduceSum" ? 13 : 18);
  const std::vector<int64_t> axes = choose_axes(net, c, x.rank());
  Dims dims;
  int64_t n = 1;
  for (int64_t i = 0; i < x.rank(); ++i) {
    const bool gone =
        all || std::count(axes.begin(), axes.end(), i) || std::count(axes.begin(), axes.end(), i - x.rank());
    if (gone) n *= x.dims[static_cast<size_t>(i)];
    if (!gone || keep) dims.push_back(gone ? 1 : x.dims[static_cast<size_t>(i)]);
  }
  if (kind == "ReduceProd" && n > 30) return false;  // becomes too small for single precision
  if (kind == "ReduceProd") x = bounded(net, x, 1);
  Tensor y = reduced(kind, x, n);
  if (!net.allows(dims, x.is_float() ? y.most : y.most * 100 / kLargestInteger)) return false;
  std::vector<std::string> inputs{x.name};
  if (as_input && !all) inputs.push_back(net.ints(c, axes));
  y.name = net.node(type, inputs);
  y.dims = dims;
  if (!as_input && !all) net.b.attr("axes", axes);
  if (!keep || c.chance(30)) net.b.attr("keepdims", static_cast<int64_t>(keep));
  net.add(y);
  return true;
}

bool cumsum(Net &net, Choices &c, const char *type) {
  if (net.opset < 11) return false;
  const Tensor *found = net.pick_any(c, [&](const Tensor &t) {
    const bool number = t.is_float() || t.type == onnx::TensorProto::INT32 || t.type == onnx::TensorProto::INT64;
    return number && t.rank() > 0;
  });
  if (!found) return false;
  Tensor x = *found;
  const int64_t axis = c.below(x.rank());
  x.most *= static_cast<double>(x.dims[static_cast<size_t>(axis)]);
  x.least = 0;
  x.exact = !x.is_float();
  if (!net.allows(x.dims, x.is_float() ? x.most : x.most * 100 / kLargestInteger)) return false;
  const std::string place = net.integers({}, std::vector<int64_t>{c.chance(30) ? axis - x.rank() : axis}).name;
  x.name = net.node(type, {x.name, place});
  if (c.chance(30)) net.b.attr("exclusive", int64_t{1});
  if (c.chance(30)) net.b.attr("reverse", int64_t{1});
  net.add(x);
  return true;
}

/// Tensors by whose elements something may be decided.
const Tensor *pick_ordered(Net &net, Choices &c) {
  return net.pick_any(c, [](const Tensor &t) {
    const bool number = t.is_float() || t.type == onnx::TensorProto::INT32 || t.type == onnx::TensorProto::INT64;
    return t.exact && number && t.rank() > 0;
  });
}

bool arg_max(Net &net, Choices &c, const char *type) {
  const Tensor *found = pick_ordered(net, c);
  if (!found) return false;
  const Tensor x = *found;
  const int64_t axis = c.below(x.rank());
  const bool keep = c.chance(50);
  const auto d = static_cast<size_t>(axis);
  Tensor y{net.node(type, {x.name}), x.dims, static_cast<double>(x.dims[d])};
  if (axis || c.chance(50)) net.b.attr("axis", net.opset >= 11 && c.chance(30) ? axis - x.rank() : axis);
  if (!keep || c.chance(30)) net.b.attr("keepdims", static_cast<int64_t>(keep));
  if (net.opset >= 12 && c.chance(30)) net.b.attr("select_last_index", int64_t{1});
  if (keep)
    y.dims[d] = 1;
  else
    y.dims.erase(y.dims.begin() + axis);
  y.type = onnx::TensorProto::INT64;
  y.positive = y.exact = true;
  net.add(y);
  return true;
}

bool topk(Net &net, Choices &c, const char *type) {
  const Tensor *found =
      net.opset < 11 ? net.pick(c, [](const Tensor &t) { return t.exact && t.rank() > 0; }) : pick_ordered(net, c);
  if (!found) return false;
  Tensor x = *found;
  const int64_t axis = c.below(x.rank());
  const auto d = static_cast<size_t>(axis);
  const int64_t length = x.dims[d], k = c.from(1, length);
  std::vector<std::string> inputs{x.name};
  if (net.opset >= 10) inputs.push_back(net.ints(c, {k}));
  x.name = net.node(type, inputs);
  if (net.opset < 10) net.b.attr("k", k);
  if (axis != x.rank() - 1 || c.chance(30))
    net.b.attr("axis", net.opset >= 11 && c.chance(30) ? axis - x.rank() : axis);
  if (net.opset >= 11 && c.chance(40)) net.b.attr("largest", int64_t{0});
  x.dims[d] = k;
  Tensor indices{net.b.more_output(), x.dims, static_cast<double>(length)};
  indices.type = onnx::TensorProto::INT64;
  indices.positive = indices.exact = true;
  net.add(x);
  net.add(indices);
  return true;
}

constexpr Op kReduce[] = {
    {"ReduceSum", reduce},       {"ReduceMean", reduce},   {"ReduceMax", reduce},
    {"ReduceMin", reduce},       {"ReduceProd", reduce},   {"ReduceL1", reduce},
    {"ReduceL2", reduce},        {"ReduceLogSum", reduce}, {"ReduceLogSumExp", reduce},
    {"ReduceSumSquare", reduce}, {"CumSum", cumsum},       {"ArgMax", arg_max},
    {"ArgMin", arg_max},         {"TopK", topk},
};

}  // namespace

std::span<const Op> reduce_ops() { return kReduce; }

}  // namespace npu::fuzz
