// SPDX-License-Identifier: MIT
// Arithmetic, logic and comparisons of integers and truth values, and conversions.
#include <algorithm>
#include <cmath>

#include "tests/fuzz/nets/net.h"

namespace npu::fuzz {
namespace {

constexpr int kFloat = onnx::TensorProto::FLOAT, kInt64 = onnx::TensorProto::INT64, kInt32 = onnx::TensorProto::INT32;
constexpr int kBool = onnx::TensorProto::BOOL, kUint8 = onnx::TensorProto::UINT8;

/// Beyond that nothing grows; of one byte less.
double largest(int type) { return type == kUint8 ? 250 : 1000000; }

bool wide(const Tensor &t) { return t.type == kInt32 || t.type == kInt64; }

/// A second operand for x: another tensor, or a constant in [low, high].
Tensor partner(Net &net, Choices &c, const Tensor &x, int64_t low, int64_t high, bool constant) {
  Dims dims;
  const auto fits = [&](const Tensor &t) {
    return t.type == x.type && broadcast(x.dims, t.dims, dims) && net.allows(dims);
  };
  if (!constant && c.chance(60)) return *net.pick_any(c, fits);
  return net.integers(narrowed(c, x.dims), low, high, x.type);
}

/// Result of two operands of the type of x, or of truth values.
bool finish(Net &net, const char *type, const Tensor &x, const Tensor &y, double most, int result_type) {
  Tensor z;
  if (!broadcast(x.dims, y.dims, z.dims) || !net.allows(z.dims) || most > largest(result_type)) return false;
  z.name = net.node(type, {x.name, y.name});
  z.most = most;
  z.type = result_type;
  z.exact = true;
  net.add(z);
  return true;
}

bool arithmetic(Net &net, Choices &c, const char *type) {
  const std::string kind = type;
  const Tensor *found = net.pick_integer(c, wide);
  if (!found) return false;
  const Tensor x = *found;
  const Tensor y = partner(net, c, x, 1, 9, kind == "Div" || kind == "Mod");
  if (kind == "Mod" && net.opset < 10) return false;
  const double most = kind == "Mul" ? x.most * y.most : kind == "Div" ? x.most : kind == "Mod" ? 9 : x.most + y.most;
  return finish(net, type, x, y, most, x.type);
}

/// Max and Min of integers came with operator set 12.
bool extreme(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick_integer(c, wide);
  if (!found || net.opset < 12) return false;
  const Tensor x = *found, y = partner(net, c, x, -5, 9, false);
  return finish(net, type, x, y, std::max(x.most, y.most), x.type);
}

/// fmod of floating-point numbers decides by them.
bool fmod(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(c, [](const Tensor &t) { return t.exact; });
  if (!found || net.opset < 10) return false;
  Tensor x = *found;
  const Tensor y = net.constant(narrowed(c, x.dims), 1, 0.125);
  x.name = net.node(type, {x.name, y.name});
  net.b.attr("fmod", int64_t{1});
  x.least = 0;
  net.add(x);
  return true;
}

bool bit_shift(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick_integer(c, [](const Tensor &t) { return t.type == kUint8; });
  if (!found || net.opset < 11) return false;
  const Tensor x = *found, y = partner(net, c, x, 0, 7, true);
  const bool left = c.chance(50);
  if (!finish(net, type, x, y, left ? 250 : x.most, x.type)) return false;
  net.b.attr("direction", left ? "LEFT" : "RIGHT");
  return true;
}

bool bitwise(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick_integer(c, [](const Tensor &t) { return t.most <= 100000; });
  if (!found || net.opset < 18) return false;
  const Tensor x = *found;
  if (std::string(type) == "BitwiseNot") {
    Tensor z = x;
    z.name = net.node(type, {x.name});
    z.most = x.type == kUint8 ? 250 : x.most + 1;
    z.positive = false;
    z.least = 0;
    net.add(z);
    return true;
  }
  const Tensor y = partner(net, c, x, 0, 15, false);
  return finish(net, type, x, y, x.type == kUint8 ? 250 : 2 * (x.most + y.most) + 2, x.type);
}

bool logic(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick_any(c, [](const Tensor &t) { return t.is_bool(); });
  if (!found) return false;
  const Tensor x = *found;
  if (std::string(type) == "Not") {
    net.add_like(net.node(type, {x.name}), x.dims, x);
    return true;
  }
  return finish(net, type, x, partner(net, c, x, 0, 1, false), 1, kBool);
}

/// Of what is exact.
bool comparison(Net &net, Choices &c, const char *type) {
  const std::string kind = type;
  const bool equal = kind == "Equal", or_equal = kind.ends_with("OrEqual");
  if (or_equal && net.opset < 12) return false;
  const auto fits = [&](const Tensor &t) {
    if (!t.exact || t.type == kUint8) return false;
    if (t.is_bool()) return equal;
    return t.is_float() ? !equal || net.opset >= 11 : equal || net.opset >= 9;
  };
  const Tensor *found = net.pick_any(c, fits);
  if (!found) return false;
  const Tensor x = *found;
  if (!x.is_float()) return finish(net, type, x, partner(net, c, x, 0, x.is_bool() ? 1 : 5, false), 1, kBool);
  const Tensor y = net.constant(narrowed(c, x.dims), c.chance(50) ? 1 : 0);
  return finish(net, type, x, y, 1, kBool);
}

bool is_special(Net &net, Choices &c, const char *type) {
  const bool nan = std::string(type) == "IsNaN";
  if (net.opset < (nan ? 9 : 10)) return false;
  const Tensor x = *net.pick(c);
  Tensor y{net.node(type, {x.name}), x.dims};
  if (!nan && c.chance(50)) net.b.attr("detect_negative", int64_t{0});
  y.type = kBool;
  y.exact = true;
  net.add(y);
  return true;
}

/// From every type to every other. Only what is exact becomes integers, and only small numbers floating-point ones.
bool cast(Net &net, Choices &c, const char *type) {
  const bool like = std::string(type) == "CastLike";
  if (net.opset < (like ? 15 : 9)) return false;
  const Tensor *found = net.pick_any(c, [](const Tensor &t) { return t.exact && t.most <= 1000; });
  if (!found) return false;
  const Tensor x = *found;
  // ONNX Runtime makes one of two, and forgets that the first has cut off what is behind the point.
  for (const auto &n : net.b.model.graph().node())
    if (n.output(0) == x.name && n.op_type().starts_with("Cast")) net.onnxruntime = false;
  Tensor y = x;
  y.type = c.one_of<int>({kFloat, kInt64, kInt32, kBool, kUint8, kFloat});
  // What a negative number becomes as uint8 is not defined where it comes from floating point.
  if (y.type == kUint8 && (x.most > 250 || !(x.positive || x.is_bool()))) return false;
  if (y.is_float() && x.most > 100) return false;
  if (!x.is_float() || !y.is_integer()) y.most = y.is_bool() ? 1 : x.most;
  y.least = 0;
  const auto other = [&] { return y.is_float() ? net.constant({1}, 1) : net.integers({1}, 0, 1, y.type); };
  y.name = like ? net.node(type, {x.name, other().name}) : net.node(type, {x.name});
  if (!like) net.b.attr("to", static_cast<int64_t>(y.type));
  net.add(y);
  return true;
}

/// Functions that integers have, too.
bool function(Net &net, Choices &c, const char *type) {
  const std::string kind = type;
  const Tensor *found = net.pick_integer(c, wide);
  if (!found || net.opset < (kind == "Relu" ? 14 : kind == "Clip" ? 12 : 9)) return false;
  Tensor x = *found;
  std::vector<std::string> inputs{x.name};
  if (kind == "Clip") {
    inputs.push_back(net.integers({}, std::vector<int64_t>{c.from(-3, 0)}, x.type).name);
    inputs.push_back(net.integers({}, std::vector<int64_t>{c.from(1, 6)}, x.type).name);
  }
  x.name = net.node(type, inputs);
  x.positive = kind == "Abs" || kind == "Relu" || (kind == "Sign" && x.positive);
  x.most = kind == "Sign" ? 1 : kind == "Clip" ? 6 : x.most;
  x.least = 0;
  net.add(x);
  return true;
}

bool matmul(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick_integer(c, [](const Tensor &t) { return wide(t) && t.rank() == 2 && t.most < 100; });
  if (!found || net.opset < 9) return false;
  const Tensor x = *found;
  const Tensor w = net.integers({x.dims[1], c.from(1, 5)}, -4, 4, x.type);
  Tensor y{net.node(type, {x.name, w.name}), {x.dims[0], w.dims[1]}, x.most * 4 * static_cast<double>(x.dims[1])};
  y.type = x.type;
  y.exact = true;
  if (!net.allows(y.dims) || y.most > largest(y.type)) return false;
  net.add(y);
  return true;
}

constexpr Op kIntegers[] = {
    {"Add", arithmetic},     {"Sub", arithmetic},
    {"Mul", arithmetic},     {"Div", arithmetic},
    {"Mod", arithmetic},     {"Mod", fmod},
    {"Max", extreme},        {"Min", extreme},
    {"BitShift", bit_shift}, {"BitwiseAnd", bitwise},
    {"BitwiseOr", bitwise},  {"BitwiseXor", bitwise},
    {"BitwiseNot", bitwise}, {"And", logic},
    {"Or", logic},           {"Xor", logic},
    {"Not", logic},          {"Equal", comparison},
    {"Greater", comparison}, {"GreaterOrEqual", comparison},
    {"Less", comparison},    {"LessOrEqual", comparison},
    {"IsNaN", is_special},   {"IsInf", is_special},
    {"Cast", cast},          {"Cast", cast},
    {"CastLike", cast},      {"Abs", function},
    {"Neg", function},       {"Sign", function},
    {"Relu", function},      {"Clip", function},
    {"MatMul", matmul},
};

}  // namespace

std::span<const Op> integer_ops() { return kIntegers; }

}  // namespace npu::fuzz
