// SPDX-License-Identifier: MIT
#include "tests/fuzz/nets/reals.h"

#include <algorithm>
#include <limits>

#include "tests/fuzz/nets/net.h"

namespace npu::fuzz {
namespace {

constexpr float kLowest = std::numeric_limits<float>::lowest();

float masked(Choices &c) { return c.one_of<float>({kLowest, -1e4f, -1e9f, -65504, -1e5f, -300, -100}); }

/// 0 or `value`, at random.
std::vector<float> mask_values(Net &net, int64_t count, float value) {
  std::vector<float> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(net.any(2) ? value : 0);
  return out;
}

/// A tensor of that type among the inputs that broadcasts to x; null: there is none.
const Tensor *mask_input(Net &net, Choices &c, const Tensor &x, const char *prefix) {
  return net.pick_any(c, [&](const Tensor &t) {
    Dims out;
    return t.name.starts_with(prefix) && broadcast(t.dims, x.dims, out) && out == x.dims;
  });
}

Tensor added(Net &net, const char *type, const std::vector<std::string> &inputs, const Dims &dims) {
  Tensor t{net.node(type, inputs), dims};
  net.add(t);
  return t;
}

std::string number(Net &net, float value) { return net.constant({}, std::vector<float>{value}).name; }

/// x with some elements masked, by one of the ways that networks have.
Tensor mask_scores(Net &net, Choices &c, const Tensor &x) {
  const float value = masked(c);
  const Dims dims = narrowed(c, x.dims);
  const auto form = c.below(5);
  const Tensor *mask = form == 1 ? mask_input(net, c, x, "L") : form < 4 ? mask_input(net, c, x, "m") : nullptr;
  const Tensor *condition = form == 4 ? mask_input(net, c, x, "b") : nullptr;
  if (mask && form == 1) return added(net, "Add", {x.name, mask->name}, x.dims);
  if (mask && form >= 2) {
    const Tensor m = *mask;
    const Tensor other = added(net, "Sub", {number(net, 1), m.name}, m.dims);
    const Tensor large = added(net, "Mul", {other.name, number(net, value)}, m.dims);
    return added(net, "Add", {x.name, large.name}, x.dims);
  }
  if (condition) return added(net, "Where", {condition->name, x.name, number(net, value)}, x.dims);
  const std::string constant = net.constant(dims, mask_values(net, count_of(dims), value)).name;
  return added(net, "Add", {x.name, constant}, x.dims);
}

/// An axis as an attribute, or as an operand where the operator set has that.
std::string reduced(Net &net, const char *type, const std::string &x, int64_t since) {
  if (net.opset >= since) return net.node(type, {x, net.b.ints({-1})});
  const std::string y = net.node(type, {x});
  net.b.attr("axes", std::vector<int64_t>{-1});
  return y;
}

bool scores(Net &net, Choices &c, const char *) {
  const Tensor *found = net.pick(c, [](const Tensor &t) { return t.rank() >= 1 && t.dims.back() <= 60; });
  if (!found || net.opset < 13) return false;
  Tensor x = *found;
  Dims one = x.dims;
  one.back() = 1;
  if (c.chance(80)) x = mask_scores(net, c, x);
  if (c.chance(20)) x = added(net, "Mul", {x.name, number(net, 0.125f)}, x.dims);
  switch (c.below(4)) {
    case 0:
      added(net, "Softmax", {x.name}, x.dims);
      break;
    case 1:
      added(net, "LogSoftmax", {x.name}, x.dims);
      break;
    case 2: {
      const std::string top = reduced(net, "ReduceMax", x.name, 18);
      const std::string e = net.node("Exp", {net.node("Sub", {x.name, top})});
      added(net, "Div", {e, reduced(net, "ReduceSum", e, 13)}, x.dims);
      break;
    }
    default: {
      const Tensor top{reduced(net, "ReduceMax", x.name, 18), one};
      net.add(top);
      if (!net.host) break;
      const std::string equal = net.node("Equal", {x.name, top.name});
      net.add(net.node("Where", {equal, x.name, number(net, 0)}), x.dims, 1);
    }
  }
  return true;
}

/// Larger and smaller, up to the limits of float16 and beyond.
bool scaled(Net &net, Choices &c, const char *) {
  const Tensor x = *net.pick(c);
  const float factor = c.one_of<float>({16, 0.0625f, 300, 60000, 1e-3f, 1000, -2, 0.1f, 1e-6f, 1e6f});
  added(net, c.chance(70) ? "Mul" : "Div", {x.name, number(net, factor)}, x.dims);
  return true;
}

bool shifted(Net &net, Choices &c, const char *) {
  const Tensor x = *net.pick(c);
  const float summand = c.one_of<float>({1, -0.3f, 1e-6f, 100, 1e-12f, 60000, -1000});
  const char *type = c.one_of<const char *>({"Add", "Sub", "Max", "Min"});
  if (std::string(type) == "Max" && net.opset < 8) return false;
  added(net, type, {x.name, number(net, summand)}, x.dims);
  return true;
}

/// Functions, of which some consist of several nodes.
bool function_of(Net &net, Choices &c, const char *) {
  struct Function {
    const char *type;
    int64_t since;
    const char *parameter;
    float value;
  };
  static constexpr Function kFunctions[] = {
      {"Celu", 12, "alpha", 0.1f}, {"Celu", 12, "alpha", 4096},   {"Selu", 6, "gamma", 1.05f},
      {"Softsign", 1, nullptr, 0}, {"Mish", 18, nullptr, 0},      {"ThresholdedRelu", 10, "alpha", 1.0001f},
      {"Shrink", 9, "bias", 0.3f}, {"Swish", 24, "alpha", 2},     {"Cosh", 9, nullptr, 0},
      {"Sin", 7, nullptr, 0},      {"Exp", 6, nullptr, 0},        {"Sigmoid", 6, nullptr, 0},
      {"Elu", 6, "alpha", 3},      {"HardSwish", 14, nullptr, 0}, {"Gelu", 20, nullptr, 0},
      {"Abs", 6, nullptr, 0},      {"Sqrt", 6, nullptr, 0},       {"LpNormalization", 1, nullptr, 0},
  };
  const Function &f = kFunctions[c.below(std::ssize(kFunctions))];
  const Tensor x = *net.pick(c);
  if (net.opset < f.since || x.rank() < 1) return false;
  const std::string y = net.node(f.type, {x.name});
  if (f.parameter) net.b.attr(f.parameter, f.value);
  net.add(y, x.dims, 1);
  return true;
}

bool reduction(Net &net, Choices &c, const char *) {
  const Tensor *found = net.pick(c, [](const Tensor &t) { return t.rank() >= 1; });
  if (!found) return false;
  const Tensor x = *found;
  Dims one = x.dims;
  one.back() = 1;
  const char *type = c.one_of<const char *>({"ReduceMax", "ReduceMin", "ReduceMean", "ReduceLogSumExp", "ReduceL2",
                                             "ReduceL1", "ReduceSumSquare", "ReduceSum"});
  const Tensor y{reduced(net, type, x.name, std::string(type) == "ReduceSum" ? 13 : 18), one};
  net.add(y);
  if (c.chance(60)) added(net, c.one_of<const char *>({"Sub", "Div", "Add"}), {x.name, y.name}, x.dims);
  return true;
}

bool product(Net &net, Choices &c, const char *) {
  const Tensor *found = net.pick(c, [](const Tensor &t) { return t.rank() >= 2; });
  if (!found) return false;
  const Tensor x = *found;
  Dims out = x.dims;
  out.back() = c.from(1, 12);
  if (!net.allows(out)) return false;
  const double most = c.one_of<double>({1, 0.1, 30});
  added(net, "MatMul", {x.name, net.constant({x.dims.back(), out.back()}, most).name}, out);
  return true;
}

constexpr Op kReals[] = {
    {"scores", scores},   {"scaled", scaled},        {"shifted", shifted}, {"function", function_of},
    {"product", product}, {"reduction", reduction},  {"scores", scores},   {"scaled", scaled},
    {"product", product}, {"function", function_of},
};

/// Those with numbers of their own, and half as many of all networks.
std::vector<Op> operators(bool host) {
  std::vector<Op> out;
  for (int twice = 0; twice < 10; ++twice) out.insert(out.end(), std::begin(kReals), std::end(kReals));
  for (auto table : {element_ops(), window_ops(), matrix_ops(), shape_ops(), move_ops(), function_ops(), norm_ops()})
    out.insert(out.end(), table.begin(), table.end());
  if (host)
    for (auto table : {reduce_ops(), recurrent_ops()}) out.insert(out.end(), table.begin(), table.end());
  return out;
}

/// An input of that many elements and more, and what its elements are.
void add_input(Net &net, Made &made, const std::string &name, const Dims &dims, InputNumbers numbers,
               int type = onnx::TensorProto::FLOAT) {
  net.input(dims, type, name);
  made.inputs.push_back(numbers);
}

}  // namespace

Made make_reals_network(const Plan &plan, Plan *smallest) {
  Choices head(plan.head);
  const auto opset = head.one_of<int64_t>({17, 13, 18, 20, 14, 23, 24});
  const bool host = head.chance(50);
  Net net(opset, 600, host, plan.data);
  net.onnxruntime = false;
  const std::vector<Op> ops = operators(host);
  Dims dims;
  for (int64_t rank = head.one_of<int64_t>({2, 3, 2, 4, 1}); rank--;) dims.push_back(head.from(1, 6));
  dims.back() = head.from(2, 16);
  Made kinds;
  for (int64_t n = head.from(1, 2), k = 0; k < n; ++k)
    add_input(net, kinds, "x" + std::to_string(k), dims, {head.one_of<double>({1, 60000, 30, 1e-4, 3e4, 1000}), false});
  const Dims narrow{dims.back()};
  if (head.chance(50)) add_input(net, kinds, "L0", head.chance(50) ? dims : narrow, {masked(head), true});
  if (head.chance(30)) add_input(net, kinds, "m0", head.chance(50) ? dims : narrow, {1, true});
  if (host && head.chance(50)) add_input(net, kinds, "b0", dims, {1, true}, onnx::TensorProto::BOOL);
  Plan used{plan.kind, plan.data, {}, {}};
  for (const std::vector<uint32_t> &numbers : plan.nodes) {
    Choices c(numbers);
    net.begin_node(used.nodes.size());
    const Op &op = ops[static_cast<size_t>(c.below(static_cast<int64_t>(ops.size())))];
    if (op.add(net, c, op.type)) used.nodes.push_back(c.chosen());
  }
  Made made = net.finish(head);
  made.reals = true;
  made.inputs = std::move(kinds.inputs);
  used.head = head.chosen();
  if (smallest) *smallest = std::move(used);
  return made;
}

}  // namespace npu::fuzz
