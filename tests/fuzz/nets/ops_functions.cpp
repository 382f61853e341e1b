// SPDX-License-Identifier: MIT
// Functions of single elements.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "tests/fuzz/nets/net.h"

namespace npu::fuzz {
namespace {

/// A function without parameters: since which operator set, up to which size of operands, and its largest value as a
/// function of theirs.
struct Function {
  const char *type;
  int64_t since;
  double domain;
  double (*most)(double);
  bool positive = false;
};

double same(double m) { return m; }
double one(double) { return 1; }

constexpr Function kFunctions[] = {
    {"Exp", 6, 4, [](double m) { return std::exp(m); }, true},
    {"Erf", 9, 100, one},
    {"Sin", 7, 100, one},
    {"Cos", 7, 100, one},
    {"Softplus", 1, 99, [](double m) { return m + std::numbers::ln2; }, true},
    {"Softsign", 1, 100, one},
    {"Mish", 18, 100, same},
    {"Tan", 7, 1, [](double m) { return std::tan(m); }},
    {"Asin", 7, 0.95, [](double m) { return std::asin(m); }},
    {"Acos", 7, 0.95, [](double m) { return std::acos(-m); }, true},
    {"Atan", 7, 100, [](double m) { return std::atan(m); }},
    {"Sinh", 9, 4, [](double m) { return std::sinh(m); }},
    {"Cosh", 9, 4, [](double m) { return std::cosh(m); }, true},
    {"Asinh", 9, 100, same},
    {"Atanh", 9, 0.9, [](double m) { return std::atanh(m); }},
};

bool function(Net &net, Choices &c, const char *type) {
  const auto *f = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                               [&](const Function &g) { return std::string(g.type) == type; });
  if (net.opset < f->since) return false;
  const Tensor x = bounded(net, *net.pick(c), f->domain);
  const double least = std::string(type) == "Exp" ? std::exp(-x.most) : std::string(type) == "Cosh" ? 1 : 0;
  net.add(net.node(type, {x.name}), x.dims, f->most(x.most), least, f->positive);
  return true;
}

bool absolute(Net &net, Choices &c, const char *type) {
  Tensor x = *net.pick(c);
  x.name = net.node(type, {x.name});
  x.positive = true;
  net.add(x);
  return true;
}

/// Functions of numbers above 0.
bool of_positive(Net &net, Choices &c, const char *type) {
  const std::string kind = type;
  const Tensor x = positive_operand(net, c);
  const std::string y = net.node(type, {x.name});
  if (kind == "Log")
    net.add(y, x.dims, std::max(std::fabs(std::log(x.least)), std::fabs(std::log(x.most))));
  else if (kind == "Sqrt")
    net.add(y, x.dims, std::sqrt(x.most), std::sqrt(x.least), true);
  else
    net.add(y, x.dims, 1 / x.least, 1 / x.most, true);
  return true;
}

bool acosh(Net &net, Choices &c, const char *type) {
  if (net.opset < 9) return false;
  const Tensor x = positive_operand(net, c);
  const Tensor more{net.node("Add", {x.name, net.constant({}, std::vector<float>{1.25f}).name}), x.dims, x.most + 1.25};
  net.add(more);
  net.add(net.node(type, {more.name}), x.dims, std::acosh(more.most));
  return true;
}

bool elu(Net &net, Choices &c, const char *type) {
  const Tensor x = *net.pick(c);
  const bool celu = std::string(type) == "Celu";
  if (celu && net.opset < 12) return false;
  const float alpha = c.one_of<float>({1, 0.5f, 2});
  const std::string y = net.node(type, {x.name});
  if (alpha != 1 || c.chance(30)) net.b.attr("alpha", alpha);
  net.add(y, x.dims, std::max(x.most, static_cast<double>(alpha)));
  return true;
}

bool selu(Net &net, Choices &c, const char *type) {
  const Tensor x = bounded(net, *net.pick(c), 40);
  const std::string y = net.node(type, {x.name});
  if (c.chance(30)) net.b.attr("alpha", 1.5f).attr("gamma", 1.25f);
  net.add(y, x.dims, 1.25 * std::max(x.most, 1.7));
  return true;
}

bool gelu(Net &net, Choices &c, const char *type) {
  if (net.opset < 20) return false;
  const Tensor x = *net.pick(c);
  const std::string y = net.node(type, {x.name});
  if (c.chance(50)) net.b.attr("approximate", c.one_of<const char *>({"tanh", "none"}));
  net.add(y, x.dims, x.most);
  return true;
}

bool swish(Net &net, Choices &c, const char *type) {
  if (net.opset < 24) return false;
  const Tensor x = *net.pick(c);
  const std::string y = net.node(type, {x.name});
  if (c.chance(50)) net.b.attr("alpha", c.one_of<float>({1, 0.5f, 2}));
  net.add(y, x.dims, x.most);
  return true;
}

/// One slope for all, one a channel, or a tensor of them.
bool prelu(Net &net, Choices &c, const char *type) {
  const Tensor x = *net.pick(c);
  Dims slopes = narrowed(c, x.dims);
  if (x.rank() >= 3 && c.chance(50)) {
    slopes.assign(x.dims.size() - 1, 1);
    slopes[0] = x.dims[1];
  }
  // ONNX Runtime's shape inference refuses slopes without dimensions.
  if (slopes.empty() && x.rank()) slopes = {1};
  if (slopes.empty()) net.onnxruntime = false;
  net.add(net.node(type, {x.name, net.constant(slopes, 1).name}), x.dims, x.most);
  return true;
}

bool pow(Net &net, Choices &c, const char *type) {
  const float exponent = c.one_of<float>({2, 3, 0.5f, -1, -0.5f, 1, 1.5f, 0.25f});
  const bool whole = exponent >= 1 && exponent != 1.5f;
  const Tensor x = whole ? bounded(net, *net.pick(c), exponent == 3 ? 4 : 9) : positive_operand(net, c);
  const double e = static_cast<double>(exponent);
  const double most = std::max(std::pow(x.most, e), x.least > 0 ? std::pow(x.least, e) : 0);
  if (!net.allows(x.dims, most)) return false;
  std::string right;
  if (whole && net.opset >= 12 && c.chance(30))
    right = net.integers({}, std::vector<int64_t>{static_cast<int64_t>(exponent)}).name;
  else if (!whole && net.host && exponent < 1 && exponent > 0 && c.chance(30))
    right = net.constant(x.dims, static_cast<double>(exponent)).name;  // of any sign
  else
    right = net.constant(x.rank() && c.chance(50) ? Dims{1} : Dims{}, std::vector<float>{exponent}).name;
  net.add(net.node(type, {x.name, right}), x.dims, std::max(most, x.least > 0 ? 1 / x.least : 0), 0, x.positive);
  return true;
}

/// Functions with steps, of what is exact.
bool step(Net &net, Choices &c, const char *type) {
  const std::string kind = type;
  const Tensor *found = net.pick(c, [](const Tensor &t) { return t.exact; });
  const bool early = kind == "Floor" || kind == "Ceil";
  const int64_t since = early ? 6 : kind == "Round" ? 11 : kind == "ThresholdedRelu" ? 10 : 9;
  if (!found || net.opset < since) return false;
  Tensor x = *found;
  x.name = net.node(type, {x.name});
  x.least = 0;
  x.most = std::ceil(x.most);
  x.positive = x.positive || kind == "ThresholdedRelu";
  if (kind == "Shrink" && c.chance(70)) {
    const float bias = c.one_of<float>({0, 0.25f});
    net.b.attr("lambd", c.one_of<float>({0.25f, 0.75f})).attr("bias", bias);
    x.most += 1;
    x.positive = false;
  }
  if (kind == "ThresholdedRelu") net.b.attr("alpha", c.one_of<float>({0.5f, 0.125f}));
  x.exact = kind != "Shrink" && kind != "ThresholdedRelu";
  net.add(x);
  return true;
}

bool hardmax(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(c, [](const Tensor &t) { return t.exact && t.rank() > 0; });
  if (!found) return false;
  Tensor x = *found;
  x.name = net.node(type, {x.name});
  const bool has_default = net.opset >= 13 || x.rank() > 1;
  if (!has_default || c.chance(75)) net.b.attr("axis", c.from(net.opset < 11 ? 0 : -x.rank(), x.rank() - 1));
  x.most = 1;
  x.least = 0;
  x.positive = true;
  net.add(x);
  return true;
}

constexpr Op kFunctionOps[] = {
    {"Exp", function},
    {"Abs", absolute},
    {"Log", of_positive},
    {"Sqrt", of_positive},
    {"Reciprocal", of_positive},
    {"Erf", function},
    {"Sin", function},
    {"Cos", function},
    {"Softplus", function},
    {"Softsign", function},
    {"Elu", elu},
    {"Celu", elu},
    {"Selu", selu},
    {"Gelu", gelu},
    {"Swish", swish},
    {"PRelu", prelu},
    {"Pow", pow},
    {"Mish", function},
    {"Floor", step},
    {"Ceil", step},
    {"Round", step},
    {"Sign", step},
    {"ThresholdedRelu", step},
    {"Shrink", step},
};

constexpr Op kHostOps[] = {
    {"Tan", function},  {"Asin", function},  {"Acos", function},  {"Atan", function}, {"Sinh", function},
    {"Cosh", function}, {"Asinh", function}, {"Atanh", function}, {"Acosh", acosh},   {"Hardmax", hardmax},
};

}  // namespace

std::span<const Op> function_ops() { return kFunctionOps; }
std::span<const Op> host_function_ops() { return kHostOps; }

}  // namespace npu::fuzz
