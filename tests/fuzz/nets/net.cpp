// SPDX-License-Identifier: MIT
#include "tests/fuzz/nets/net.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace npu::fuzz {
namespace {

constexpr size_t kMostOutputs = 20;
/// Beyond that nothing grows: single precision has to hold sums of such products.
constexpr double kLargest = 100;

}  // namespace

int64_t count_of(const Dims &dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

int64_t Tensor::count() const { return count_of(dims); }

Net::Net(int64_t opset, int64_t most_elements, uint64_t data)
    : opset(opset), most_elements(most_elements), b(opset), random_(data), data_(data) {}

const Tensor *Net::pick(Choices &c, const std::function<bool(const Tensor &)> &fits) const {
  std::vector<size_t> all;
  for (size_t i = tensors_.size(); i-- > 0;)
    if (fits(tensors_[i])) all.push_back(i);
  if (all.empty()) return nullptr;
  // The latest makes chains, the others make joins.
  const bool latest = !c.chance(50);
  return &tensors_[all[static_cast<size_t>(latest ? 0 : c.below(static_cast<int64_t>(all.size())))]];
}

Tensor Net::input(const Dims &dims) {
  Tensor t{b.input(dims, "x" + std::to_string(inputs_++)), dims};
  tensors_.push_back(t);
  return t;
}

Tensor Net::constant(const Dims &dims, double most, double least) {
  std::vector<float> values(static_cast<size_t>(count_of(dims)));
  for (float &v : values) {
    const double x = static_cast<double>(random_.next() >> 40) / 8388608.0 - 1;  // [-1, 1)
    v = static_cast<float>(least > 0 ? std::copysign(least + (most - least) * std::fabs(x), x) : most * x);
  }
  return {b.constant(dims, values), dims, most, least};
}

Tensor Net::constant(const Dims &dims, const std::vector<float> &values) {
  double most = 0;
  for (float v : values) most = std::max(most, std::fabs(static_cast<double>(v)));
  return {b.constant(dims, values), dims, most};
}

bool Net::allows(const Dims &dims, double most) const {
  return std::all_of(dims.begin(), dims.end(), [](int64_t d) { return d > 0; }) && dims.size() <= 7 &&
         count_of(dims) <= most_elements && most <= kLargest;
}

void Net::add(const std::string &name, const Dims &dims, double most, double least) {
  b.declare(name, dims);
  tensors_.push_back({name, dims, most, least});
}

std::string Net::ints(Choices &c, const std::vector<int64_t> &values) {
  if (!c.chance(25)) return b.ints(values);
  const std::string name = b.op("Constant", {});
  b.tensor_attr("value", values);
  return name;
}

Made Net::finish(Choices &c) {
  std::set<std::string> read;
  for (const auto &node : b.model.graph().node()) read.insert(node.input().begin(), node.input().end());
  size_t outputs = 0;
  for (size_t i = tensors_.size(); i-- > 0 && outputs < kMostOutputs;) {
    // An input that nobody reads stays one: files have such.
    if (i < inputs_ || (read.count(tensors_[i].name) && !c.chance(10))) continue;
    b.output(tensors_[i].name);
    b.declare_output(tensors_[i].dims);
    ++outputs;
  }
  if (!outputs) {
    b.output(b.op("Relu", {tensors_[0].name}));
    b.declare_output(tensors_[0].dims);
  }
  return {b.bytes(), data_, onnxruntime};
}

namespace {

/// Operator sets of the range, most often those that files have today.
int64_t choose_opset(Choices &c) { return c.one_of<int64_t>({13, 17, 11, 13, 12, 9, 14, 10, 7, 16, 8, 13, 15, 17}); }

Dims choose_input(Choices &c, int64_t most_elements) {
  const int64_t rank = c.one_of<int64_t>({4, 4, 4, 3, 2, 4, 3, 2, 1, 5});
  // Lengths of a box of that many elements, mostly longer ones: local memory is small only for large tensors.
  const auto side = static_cast<int64_t>(std::pow(static_cast<double>(most_elements) / 2, 1.0 / 3));
  Dims dims;
  for (int64_t i = 0; i < rank; ++i)
    dims.push_back(i == 0 && rank > 1 ? c.from(1, 3) : std::max(c.from(1, side), c.from(1, side)));
  if (c.chance(15)) {
    int64_t &line = dims[static_cast<size_t>(c.below(rank))];
    line = c.from(1, most_elements * line / count_of(dims));
  }
  while (count_of(dims) > most_elements) *std::max_element(dims.begin(), dims.end()) /= 2;
  return dims;
}

std::vector<Op> all_ops() {
  std::vector<Op> out;
  for (auto table : {element_ops(), window_ops(), matrix_ops(), shape_ops(), move_ops()})
    out.insert(out.end(), table.begin(), table.end());
  return out;
}

}  // namespace

Made make_network(const Plan &plan, Plan *smallest) {
  static const std::vector<Op> ops = all_ops();
  Choices head(plan.head);
  const int64_t opset = choose_opset(head);
  // Small ones are many; large ones fill the smallest local memory several times.
  const int64_t most = head.one_of<int64_t>({300, 30000, 600, 300, 60000, 600, 120000, 1200, 20000, 600});
  Net net(opset, most, plan.data);
  for (int64_t n = head.one_of<int64_t>({1, 1, 2, 3}); n--;) net.input(choose_input(head, most));
  Plan used{plan.data, {}, {}};
  for (const std::vector<uint32_t> &numbers : plan.nodes) {
    Choices c(numbers);
    net.begin_node(used.nodes.size());
    const Op &op = ops[static_cast<size_t>(c.below(static_cast<int64_t>(ops.size())))];
    if (op.add(net, c, op.type)) used.nodes.push_back(c.chosen());
  }
  Made made = net.finish(head);
  used.head = head.chosen();
  if (smallest) *smallest = std::move(used);
  return made;
}

}  // namespace npu::fuzz
