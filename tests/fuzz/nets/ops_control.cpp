// SPDX-License-Identifier: MIT
// If, Loop and Scan, with small bodies; and many tensors at the border of a part.
#include <algorithm>

#include "tests/fuzz/nets/net.h"

namespace npu::fuzz {
namespace {

/// A body with names of its own: they may not be those of the network around it.
class Body {
 public:
  Body(Net &net, const char *stem)
      : b(net.opset), prefix_(stem + std::to_string(net.b.model.graph().node_size()) + "_") {}

  std::string input(const char *name, const Dims &dims, int type = onnx::TensorProto::FLOAT) {
    return b.input(dims, prefix_ + name, type);
  }
  std::string number(float value) {
    b.scalar(value);
    auto &t = *b.model.mutable_graph()->mutable_initializer(b.model.graph().initializer_size() - 1);
    t.set_name(prefix_ + t.name());
    return t.name();
  }
  std::string node(const char *type, const std::vector<std::string> &inputs) {
    b.op(type, inputs);
    auto &n = *b.model.mutable_graph()->mutable_node(b.model.graph().node_size() - 1);
    n.set_name(prefix_ + n.name());
    n.set_output(0, prefix_ + n.output(0));
    return n.output(0);
  }
  void output(const std::string &name, int type = onnx::TensorProto::FLOAT) {
    b.output(name);
    auto &v = *b.model.mutable_graph()->mutable_output(b.model.graph().output_size() - 1);
    v.mutable_type()->mutable_tensor_type()->set_elem_type(type);
  }

  test::OnnxBuilder b;

 private:
  std::string prefix_;
};

/// A condition that is known, or one that arrives at run time.
bool if_node(Net &net, Choices &c, const char *type) {
  const Tensor x = *net.pick(c);
  const auto one = [](const Tensor &t) { return t.is_bool() && t.count() == 1; };
  const Tensor *found = c.chance(70) ? net.pick_any(c, one) : nullptr;
  const std::string condition =
      found ? found->name : net.integers({}, std::vector<int64_t>{c.from(0, 1)}, onnx::TensorProto::BOOL).name;
  Body yes(net, "then"), no(net, "else");
  yes.output(yes.node("Sub", {x.name, yes.number(0.5f)}));
  no.output(no.node(c.one_of<const char *>({"Relu", "Tanh"}), {x.name}));
  const std::string y = net.node(type, {condition});
  net.b.attr("then_branch", yes.b).attr("else_branch", no.b);
  net.add(y, x.dims, x.most + 0.5);
  return true;
}

/// Halves its state and adds a number, a few times; one more output has the states of all turns.
bool loop(Net &net, Choices &c, const char *type) {
  const int64_t turns = c.from(1, 4);
  const Tensor *found =
      net.pick(c, [&](const Tensor &t) { return t.rank() < 6 && t.count() * turns <= net.most_elements; });
  if (!found) return false;
  const Tensor x = *found;
  const bool scan = c.chance(50);
  Body body(net, "loop");
  body.input("turn", {}, onnx::TensorProto::INT64);
  const std::string condition = body.input("condition", {}, onnx::TensorProto::BOOL);
  const std::string half = body.node("Mul", {body.input("state", x.dims), body.number(0.5f)});
  const std::string state = body.node("Add", {half, body.number(0.25f)});
  body.output(body.node("Identity", {condition}), onnx::TensorProto::BOOL);
  body.output(state);
  if (scan) body.output(body.node("Relu", {state}));
  const std::string trips = net.integers({}, std::vector<int64_t>{turns}).name;
  const std::string go =
      c.chance(50) ? net.integers({}, std::vector<int64_t>{1}, onnx::TensorProto::BOOL).name : std::string();
  const std::string y = net.node(type, {trips, go, x.name}), all = scan ? net.b.more_output() : "";
  net.b.attr("body", body.b);
  net.add(y, x.dims, x.most + 0.5);
  Dims dims = x.dims;
  dims.insert(dims.begin(), turns);
  if (scan) net.add(all, dims, x.most + 0.5, 0, true);
  return true;
}

/// A running sum along an axis that forgets, and all its states.
bool scan(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(c, [](const Tensor &t) {
    return t.rank() > 0 && *std::min_element(t.dims.begin(), t.dims.end()) <= 8 && t.most < 45;
  });
  if (!found || net.opset < 9) return false;
  const Tensor x = *found;
  const int64_t axis = std::min_element(x.dims.begin(), x.dims.end()) - x.dims.begin();
  Dims row = x.dims;
  row.erase(row.begin() + axis);
  Body body(net, "scan");
  const std::string state = body.input("state", row), element = body.input("element", row);
  const std::string sum = body.node("Add", {body.node("Mul", {state, body.number(0.5f)}), element});
  body.output(sum);
  body.output(body.node("Identity", {sum}));
  const std::string y = net.node(type, {net.constant(row, 1).name, x.name}), all = net.b.more_output();
  net.b.attr("body", body.b).attr("num_scan_inputs", int64_t{1});
  if (axis || c.chance(30)) net.b.attr("scan_input_axes", std::vector<int64_t>{axis});
  if (c.chance(30)) net.b.attr("scan_input_directions", std::vector<int64_t>{1});
  const bool moved = c.chance(40);
  if (moved) net.b.attr("scan_output_axes", std::vector<int64_t>{axis});
  if (c.chance(30)) net.b.attr("scan_output_directions", std::vector<int64_t>{1});
  Dims states = row;
  states.insert(states.begin() + (moved ? axis : 0), x.dims[static_cast<size_t>(axis)]);
  net.add(y, row, 2 * x.most + 1);
  net.add(all, states, 2 * x.most + 1);
  return true;
}

/// More tensors between the chip and the CPU than a part can have: each is made on one side and read on the other.
bool many(Net &net, Choices &c, const char *type) {
  const Tensor *found = net.pick(c, [](const Tensor &t) { return t.count() <= 2000 && t.most < 50; });
  if (!found || net.opset < 8) return false;
  const Tensor x = *found;
  const int64_t count = c.from(50, 150);
  const bool there = c.chance(50), back = c.chance(50);  // the CPU reads them, and makes them
  std::vector<std::string> all;
  for (int64_t i = 0; i < count; ++i) {
    const float factor = 1 - static_cast<float>(i) / 256;
    std::string y = net.node("Mul", {x.name, net.constant({}, std::vector<float>{factor}).name});
    if (there || (back && i % 2)) y = net.node("Atan", {y});
    if (back) y = net.node("Relu", {y});
    all.push_back(y);
  }
  const std::string mean = net.node(type, all);
  net.add(mean, x.dims, x.most);
  return true;
}

constexpr Op kControl[] = {{"If", if_node}, {"Loop", loop}, {"Scan", scan}, {"Mean", many}};

}  // namespace

std::span<const Op> control_ops() { return kControl; }

}  // namespace npu::fuzz
