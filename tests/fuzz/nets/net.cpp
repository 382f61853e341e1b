// SPDX-License-Identifier: MIT
#include "tests/fuzz/nets/net.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/fuzz/nets/reals.h"

namespace npu::fuzz {
namespace {

constexpr size_t kMostOutputs = 20;
/// Beyond that nothing grows: single precision has to hold sums of such products.
constexpr double kLargest = 100;

/// What inputs of that type have: check.cpp.
double most_of_inputs(int type) {
  if (type == onnx::TensorProto::FLOAT || type == onnx::TensorProto::BOOL) return 1;
  return type == onnx::TensorProto::UINT8 ? 15 : 8;
}

}  // namespace

int64_t count_of(const Dims &dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

int64_t Tensor::count() const { return count_of(dims); }

Net::Net(int64_t opset, int64_t most_elements, bool host, uint64_t data)
    : opset(opset), most_elements(most_elements), host(host), b(opset), random_(data), data_(data) {}

const Tensor *Net::pick_any(Choices &c, const std::function<bool(const Tensor &)> &fits) const {
  std::vector<size_t> all;
  for (size_t i = tensors_.size(); i-- > 0;)
    if (fits(tensors_[i])) all.push_back(i);
  if (all.empty()) return nullptr;
  // The latest makes chains, the others make joins.
  const bool latest = !c.chance(50);
  return &tensors_[all[static_cast<size_t>(latest ? 0 : c.below(static_cast<int64_t>(all.size())))]];
}

Tensor Net::input(const Dims &dims, int type, const std::string &name) {
  const std::string numbered = "x" + std::to_string(inputs_++);
  Tensor t{b.input(dims, name.empty() ? numbered : name, type), dims, most_of_inputs(type)};
  t.type = type;
  t.exact = true;
  tensors_.push_back(t);
  return t;
}

Tensor Net::constant(const Dims &dims, double most, double least) {
  std::vector<float> values(static_cast<size_t>(count_of(dims)));
  for (float &v : values) {
    const double x = static_cast<double>(random_.next() >> 40) / 8388608.0 - 1;  // [-1, 1)
    v = static_cast<float>(least > 0 ? std::copysign(least + (most - least) * std::fabs(x), x) : most * x);
  }
  Tensor t{b.constant(dims, values), dims, most, least};
  t.exact = true;
  return t;
}

Tensor Net::constant(const Dims &dims, const std::vector<float> &values) {
  Tensor t{b.constant(dims, values), dims, 0};
  for (float v : values) t.most = std::max(t.most, std::fabs(static_cast<double>(v)));
  t.exact = true;
  return t;
}

Tensor Net::integers(const Dims &dims, int64_t low, int64_t high, int type) {
  std::vector<int64_t> values(static_cast<size_t>(count_of(dims)));
  for (int64_t &v : values) v = low + any(high - low + 1);
  return integers(dims, values, type);
}

Tensor Net::integers(const Dims &dims, const std::vector<int64_t> &values, int type) {
  Tensor t{b.indices(dims, values), dims, 0};
  auto &stored = *b.model.mutable_graph()->mutable_initializer(b.model.graph().initializer_size() - 1);
  stored.set_data_type(type);
  if (type != onnx::TensorProto::INT64) {
    stored.clear_int64_data();
    for (int64_t v : values) stored.add_int32_data(static_cast<int32_t>(v));
  }
  for (int64_t v : values) t.most = std::max(t.most, std::fabs(static_cast<double>(v)));
  t.type = type;
  t.exact = true;
  return t;
}

bool Net::allows(const Dims &dims, double most) const {
  return std::all_of(dims.begin(), dims.end(), [](int64_t d) { return d > 0; }) && dims.size() <= 7 &&
         count_of(dims) <= most_elements && most <= kLargest;
}

void Net::add(const std::string &name, const Dims &dims, double most, double least, bool positive) {
  Tensor t{name, dims, most, least};
  t.positive = positive;
  add(t);
}

void Net::add_like(const std::string &name, const Dims &dims, const Tensor &x) {
  Tensor t = x;
  t.name = name;
  t.dims = dims;
  add(t);
}

void Net::add(const Tensor &t) {
  b.declare(t.name, t.dims);
  auto &declared = *b.model.mutable_graph()->mutable_value_info(b.model.graph().value_info_size() - 1);
  declared.mutable_type()->mutable_tensor_type()->set_elem_type(t.type);
  tensors_.push_back(t);
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
    auto &declared = *b.model.mutable_graph()->mutable_output(b.model.graph().output_size() - 1);
    declared.mutable_type()->mutable_tensor_type()->set_elem_type(tensors_[i].type);
    ++outputs;
  }
  if (!outputs) {
    b.output(b.op("Relu", {tensors_[0].name}));
    b.declare_output(tensors_[0].dims);
  }
  return {b.bytes(), data_, onnxruntime, nullptr};
}

bool broadcast(const Dims &a, const Dims &b, Dims &out) {
  out.assign(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t da = i < a.size() ? a[a.size() - 1 - i] : 1, db = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (da != db && da != 1 && db != 1) return false;
    out[out.size() - 1 - i] = std::max(da, db);
  }
  return true;
}

Dims narrowed(Choices &c, const Dims &dims) {
  Dims out(dims.begin() + (c.chance(40) ? c.from(0, static_cast<int64_t>(dims.size())) : 0), dims.end());
  for (int64_t &d : out)
    if (c.chance(40)) d = 1;
  return out;
}

Tensor bounded(Net &net, const Tensor &x, double most) {
  if (x.most <= most) return x;
  const auto factor = static_cast<float>(most * 0.999 / x.most);
  Tensor y = x;
  y.exact = false;
  y.most = most;
  y.least *= static_cast<double>(factor);
  y.name = net.node("Mul", {x.name, net.constant({}, std::vector<float>{factor}).name});
  net.add(y);
  return y;
}

Tensor positive_operand(Net &net, Choices &c) {
  const auto fits = [](const Tensor &t) { return t.positive && t.least > 0.05; };
  const Tensor *found = c.chance(50) ? net.pick(c, fits) : nullptr;
  if (found) return *found;
  const Tensor x = bounded(net, *net.pick(c), 90);
  const float summand = c.one_of<float>({1, 0.25f});
  const std::string size = net.node("Abs", {x.name});
  Tensor y{net.node("Add", {size, net.constant({}, std::vector<float>{summand}).name}), x.dims,
           x.most + static_cast<double>(summand), static_cast<double>(summand)};
  y.positive = true;
  net.add(y);
  return y;
}

std::vector<int64_t> choose_axes(Net &net, Choices &c, int64_t rank) {
  std::vector<int64_t> axes;
  const int64_t first = c.below(rank);
  for (int64_t i = 0; i < rank; ++i)
    if (i == first || c.chance(35)) axes.push_back(net.opset >= 11 && c.chance(25) ? i - rank : i);
  return axes;
}

namespace {

/// Operator sets of the range, most often those that files have today.
int64_t choose_opset(Choices &c) {
  return c.one_of<int64_t>({13, 17, 11, 18, 12, 9, 14, 10, 7, 16, 8, 23, 15, 17, 19, 20, 21, 22, 18, 13, 24, 25});
}

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

/// Integers and truth values, of few elements or of the shape of input 0.
void add_integer_inputs(Net &net, Choices &c, const Dims &first) {
  for (int64_t n = c.from(0, 2); n--;) {
    const int type = c.one_of<int>({onnx::TensorProto::INT64, onnx::TensorProto::INT32, onnx::TensorProto::BOOL,
                                    onnx::TensorProto::INT64, onnx::TensorProto::UINT8});
    net.input(c.chance(50) ? first : Dims{c.from(1, 4), c.from(1, 6)}, type);
  }
}

std::vector<Op> join(std::initializer_list<std::span<const Op>> tables) {
  std::vector<Op> out;
  for (auto table : tables) out.insert(out.end(), table.begin(), table.end());
  return out;
}

/// Those that the chip has commands for: with others in between there would be few programs, and small ones. Windows
/// and products have the most kernels, and stand here twice.
const std::vector<Op> &chip_ops() {
  static const std::vector<Op> ops = join({element_ops(), window_ops(), matrix_ops(), shape_ops(), move_ops(),
                                           function_ops(), norm_ops(), window_ops(), matrix_ops()});
  return ops;
}

const std::vector<Op> &all_ops() {
  static const std::vector<Op> ops = join({chip_ops(), host_function_ops(), host_window_ops(), reduce_ops(),
                                           index_ops(), integer_ops(), recurrent_ops(), control_ops(), signal_ops()});
  return ops;
}

}  // namespace

Made make_network(const Plan &plan, Plan *smallest) {
  if (plan.kind == NetKind::Quantized) return make_quantized_network(plan, smallest);
  if (plan.kind == NetKind::Reals) return make_reals_network(plan, smallest);
  if (plan.kind == NetKind::Calibrated) return make_calibrated_network(plan, smallest);
  Choices head(plan.head);
  const int64_t opset = choose_opset(head);
  // Small ones are many; large ones fill the smallest local memory several times.
  const int64_t most = head.one_of<int64_t>({300, 30000, 600, 300, 60000, 600, 120000, 1200, 20000, 600});
  const bool host = head.chance(55);
  const std::vector<Op> &ops = host ? all_ops() : chip_ops();
  Net net(opset, most, host, plan.data);
  // Version 1.22 has no kernels for many operators of set 22.
  net.onnxruntime = opset <= 21;
  Dims first;
  for (int64_t n = head.one_of<int64_t>({1, 1, 2, 3}); n--;) {
    first = choose_input(head, most);
    net.input(first);
  }
  if (host) add_integer_inputs(net, head, first);
  Plan used{plan.kind, plan.data, {}, {}};
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
