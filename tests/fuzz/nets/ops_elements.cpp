// SPDX-License-Identifier: MIT
// Arithmetic element by element, activations, batch normalization, softmax.
#include <algorithm>
#include <cmath>

#include "tests/fuzz/nets/net.h"

namespace npu::fuzz {
namespace {

bool relu(Net &net, Choices &c, const char *type) {
  Tensor x = *net.pick(c);
  x.name = net.node(type, {x.name});
  x.positive = true;
  x.least = 0;
  net.add(x);
  return true;
}

bool unary(Net &net, Choices &c, const char *type) {
  const Tensor x = *net.pick(c);
  net.add(net.node(type, {x.name}), x.dims, x.most);
  return true;
}

bool squash(Net &net, Choices &c, const char *type) {
  const Tensor x = *net.pick(c);
  const bool sigmoid = std::string(type) == "Sigmoid";
  net.add(net.node(type, {x.name}), x.dims, 1, sigmoid ? 1 / (1 + std::exp(x.most)) : 0, sigmoid);
  return true;
}

bool leaky_relu(Net &net, Choices &c, const char *type) {
  const Tensor x = *net.pick(c);
  const float alpha = c.one_of<float>({0.01f, 0.2f, -0.5f, 1.5f, 0});
  const std::string y = net.node(type, {x.name});
  if (alpha != 0.01f) net.b.attr("alpha", alpha);
  net.add(y, x.dims, x.most * std::max(1.0, std::fabs(static_cast<double>(alpha))));
  return true;
}

bool hard_sigmoid(Net &net, Choices &c, const char *type) {
  const Tensor x = *net.pick(c);
  const std::string y = net.node(type, {x.name});
  if (c.chance(50)) net.b.attr("alpha", c.one_of<float>({0.1f, 0.5f})).attr("beta", c.one_of<float>({0.4f, 0}));
  net.add(y, x.dims, 1, 0, true);
  return true;
}

bool hard_swish(Net &net, Choices &c, const char *type) { return net.opset >= 14 && unary(net, c, type); }

bool clip(Net &net, Choices &c, const char *type) {
  const Tensor x = *net.pick(c);
  const int64_t bounds = c.from(1, 3);
  const float low = c.one_of<float>({0, -0.5f, -1}), high = c.one_of<float>({6, 0.25f, 1});
  std::vector<std::string> inputs{x.name};
  if (net.opset >= 11) {
    if (bounds & 1) inputs.push_back(net.b.scalar(low));
    if (bounds == 2) inputs.push_back("");
    if (bounds & 2) inputs.push_back(net.b.scalar(high));
  }
  const std::string y = net.node(type, inputs);
  if (net.opset < 11) {
    if (bounds & 1) net.b.attr("min", low);
    if (bounds & 2) net.b.attr("max", high);
  }
  Tensor result = x;
  result.name = y;
  result.most = std::max(x.most, 1.0);
  result.least = 0;
  result.positive = x.positive || (low == 0 && bounds & 1);
  net.add(result);
  return true;
}

bool softmax(Net &net, Choices &c, const char *type) {
  const Tensor *x = net.pick(c, [](const Tensor &t) { return t.rank() > 0; });
  if (!x) return false;
  const Tensor t = *x;
  const bool log = std::string(type) == "LogSoftmax";
  const double most = log ? 2 * t.most + std::log(static_cast<double>(t.count())) : 1;
  if (!net.allows(t.dims, most)) return false;
  const std::string y = net.node(type, {t.name});
  const bool has_default = net.opset >= 13 || t.rank() > 1;
  if (!has_default || c.chance(75)) net.b.attr("axis", c.from(net.opset < 11 ? 0 : -t.rank(), t.rank() - 1));
  net.add(y, t.dims, most, 0, !log);
  return true;
}

/// A second operand for x: a constant, x itself, or another tensor that fits it.
Tensor partner(Net &net, Choices &c, const Tensor &x, bool divides, bool equal_shape) {
  const int64_t how = c.below(4);
  if (how < 2 && !divides) {
    const auto fits = [&](const Tensor &t) {
      Dims wide;
      return equal_shape ? t.dims == x.dims : broadcast(x.dims, t.dims, wide) && net.allows(wide);
    };
    if (const Tensor *t = net.pick(c, fits)) return *t;
  }
  if (how < 2 && divides)
    if (const Tensor *t = net.pick(c, [&](const Tensor &d) { return d.dims == x.dims && d.least > 0.05; })) return *t;
  const Dims dims = equal_shape ? x.dims : narrowed(c, x.dims);
  return divides ? net.constant(dims, 2, 0.5) : net.constant(dims, 1);
}

bool binary(Net &net, Choices &c, const char *type) {
  const std::string kind = type;
  Tensor x = *net.pick(c);
  Tensor y = partner(net, c, x, kind == "Div", false);
  if (c.chance(30) && (kind != "Div" || x.least > 0.05)) std::swap(x, y);
  Dims dims;
  const double most = kind == "Mul" ? x.most * y.most : kind == "Div" ? x.most / y.least : x.most + y.most;
  if (!broadcast(x.dims, y.dims, dims) || !net.allows(dims, most)) return false;
  net.add(net.node(type, {x.name, y.name}), dims, most, kind == "Mul" ? x.least * y.least : 0,
          x.positive && y.positive && kind != "Sub");
  return true;
}

/// Max, Min, Sum, Mean of one operand and more.
bool variadic(Net &net, Choices &c, const char *type) {
  const bool sum = std::string(type) == "Sum" || std::string(type) == "Mean", equal_shape = net.opset < 8;
  Tensor x = *net.pick(c);
  std::vector<std::string> inputs{x.name};
  for (int64_t n = c.from(0, 3); n--;) {
    const Tensor y = partner(net, c, x, false, equal_shape);
    Dims wide;
    const double most = sum ? x.most + y.most : std::max(x.most, y.most);
    if (!broadcast(x.dims, y.dims, wide) || !net.allows(wide, most)) continue;
    inputs.push_back(y.name);
    x.dims = wide;
    x.most = most;
    x.exact = x.exact && y.exact;
  }
  x.least = 0;
  x.positive = false;
  x.exact = x.exact && !sum;
  x.name = net.node(type, inputs);
  net.add(x);
  return true;
}

bool batch_normalization(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(c, [](const Tensor &t) { return t.rank() >= 2; });
  if (!found) return false;
  const Tensor x = *found;
  const double most = 2 * x.most + 4;
  if (!net.allows(x.dims, most)) return false;
  const Dims channels{x.dims[1]};
  std::vector<float> variance(static_cast<size_t>(x.dims[1]));
  for (float &v : variance) v = c.one_of<float>({1, 0.5f, 2.25f});
  const std::string y = net.node(type, {x.name, net.constant(channels, 1).name, net.constant(channels, 1).name,
                                        net.constant(channels, 1).name, net.constant(channels, variance).name});
  if (c.chance(50)) net.b.attr("epsilon", 0.01f);
  net.add(y, x.dims, most);
  return true;
}

constexpr Op kElements[] = {
    {"Relu", relu},
    {"Add", binary},
    {"Mul", binary},
    {"Sub", binary},
    {"Div", binary},
    {"Max", variadic},
    {"Min", variadic},
    {"Sum", variadic},
    {"Mean", variadic},
    {"Neg", unary},
    {"Clip", clip},
    {"LeakyRelu", leaky_relu},
    {"Sigmoid", squash},
    {"Tanh", squash},
    {"HardSigmoid", hard_sigmoid},
    {"HardSwish", hard_swish},
    {"Softmax", softmax},
    {"LogSoftmax", softmax},
    {"BatchNormalization", batch_normalization},
};

}  // namespace

std::span<const Op> element_ops() { return kElements; }

}  // namespace npu::fuzz
