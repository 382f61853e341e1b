// SPDX-License-Identifier: MIT
// The fuzzer itself: that it makes what it should, compares, and shrinks.
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "compiler/import/op_context.h"
#include "tests/fuzz/nets/check.h"
#include "tests/fuzz/nets/ranges.h"
#include "tests/fuzz/nets/shrink.h"
#include "tests/fuzz/nets/tolerance.h"
#include "tests/unit/compiler/chip.h"
#include "tests/unit/compiler/onnx_builder.h"

namespace npu::fuzz {
namespace {

onnx::ModelProto parsed(const Plan &plan) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(make_network(plan).model));
  return model;
}

bool has(const Plan &plan, const char *type) {
  const onnx::ModelProto model = parsed(plan);
  const auto &nodes = model.graph().node();
  return std::any_of(nodes.begin(), nodes.end(), [&](const auto &n) { return n.op_type() == type; });
}

/// Operators that the compiler takes and the generator does not make.
const std::map<std::string, const char *> kLeftOut = {
    {"NonMaxSuppression", "all its operands are constant, or it is refused"},
    {"QuantizeLinear", "rounds to integers: next to a half an error in single precision decides"},
    {"DynamicQuantizeLinear", "as QuantizeLinear"},
    {"QLinearConv", "as QuantizeLinear"},
    {"QLinearMatMul", "as QuantizeLinear"},
};

/// An operator that the compiler learns belongs into the generator.
TEST(Networks, HaveAllOperatorsThatTheCompilerTakes) {
  std::set<std::string> found, wanted;
  for (uint64_t seed = 1; seed <= 5000; ++seed) {
    const onnx::ModelProto model = parsed(random_plan(seed));
    for (const auto &n : model.graph().node()) found.insert(n.op_type());
  }
  for (auto table :
       {graph::window_ops(), graph::matrix_ops(), graph::eltwise_ops(), graph::shape_ops(), graph::move_ops(),
        graph::resize_ops(), graph::control_ops(), graph::activation_ops(), graph::norm_ops(), graph::reduce_ops(),
        graph::logic_ops(), graph::index_ops(), graph::recurrent_ops(), graph::sample_ops(), graph::signal_ops(),
        graph::loss_ops(), graph::quantize_ops(), graph::quantized_product_ops()})
    for (const graph::OpEntry &e : table)
      if (!kLeftOut.count(std::string(e.type))) wanted.insert(std::string(e.type));
  for (const auto &[type, reason] : kLeftOut) found.erase(type);
  EXPECT_EQ(found, wanted);
}

TEST(Networks, FollowFromTheirSeed) {
  for (uint64_t seed = 1; seed <= 50; ++seed)
    EXPECT_EQ(make_network(random_plan(seed)).model, make_network(random_plan(seed)).model);
}

/// Operators and the shapes of results, without names and without what nodes have left that were begun and given up.
std::vector<std::string> outline(const Plan &plan) {
  std::vector<std::string> out;
  const onnx::ModelProto model = parsed(plan);
  for (const auto &n : model.graph().node())
    if (n.op_type() != "Constant") out.push_back(n.op_type());
  for (const auto &v : model.graph().value_info())
    for (const auto &d : v.type().tensor_type().shape().dim()) out.push_back(std::to_string(d.dim_value()));
  return out;
}

TEST(QuantizedNetworks, HaveAllForms) {
  std::set<std::string> found;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    onnx::ModelProto model;
    EXPECT_TRUE(model.ParseFromString(make_network(random_plan(seed, NetKind::Quantized)).model));
    EXPECT_GT(model.graph().output_size(), 0) << "seed " << seed;
    for (const auto &n : model.graph().node()) found.insert(n.op_type());
  }
  for (const char *type : {"QLinearConv", "QLinearMatMul", "QLinearWhere", "QGemm", "DynamicQuantizeLinear",
                           "MatMulInteger", "ConvInteger", "Conv", "MatMul", "Softmax", "Gather", "LayerNormalization"})
    EXPECT_TRUE(found.count(type)) << type;
}

TEST(QuantizedNetworks, AreTheSameOfTheSmallestNumbers) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const Plan plan = random_plan(seed, NetKind::Quantized);
    Plan smallest, again;
    EXPECT_EQ(make_network(plan, &smallest).model, make_network(plan).model);
    make_network(smallest, &again);
    EXPECT_EQ(smallest.nodes, again.nodes) << "seed " << seed;
    EXPECT_EQ(outline(plan), outline(smallest)) << "seed " << seed;
  }
}

TEST(QuantizedNetworks, OfNoNumbersAreRight) {
  Plan plan;
  plan.kind = NetKind::Quantized;
  plan.nodes.resize(3);
  Counts counts;
  EXPECT_EQ(check_network(make_network(plan), nullptr, counts).text, "");
}

TEST(RealsNetworks, OfNoNumbersAreRight) {
  Plan plan;
  plan.kind = NetKind::Reals;
  plan.nodes.resize(3);
  Counts counts;
  EXPECT_EQ(check_network(make_network(plan), nullptr, counts).text, "");
  EXPECT_EQ(counts.programs, 2);
}

TEST(RealsNetworks, HaveMasksInputsOfAllSizesAndFollowFromTheirSeed) {
  std::set<std::string> types, inputs;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const Plan plan = random_plan(seed, NetKind::Reals);
    const onnx::ModelProto model = parsed(plan);
    EXPECT_EQ(make_network(plan).model, make_network(plan).model);
    EXPECT_EQ(std::ssize(make_network(plan).inputs), model.graph().input_size());
    for (const auto &n : model.graph().node()) types.insert(n.op_type());
    for (const auto &v : model.graph().input()) inputs.insert(v.name().substr(0, 1));
  }
  EXPECT_EQ(inputs, (std::set<std::string>{"L", "b", "m", "x"}));
  for (const char *type : {"Softmax", "LogSoftmax", "Where", "ReduceMax", "Celu", "LayerNormalization", "Conv"})
    EXPECT_TRUE(types.count(type)) << type;
}

/// The range of the only output for this input.
Range range_of(const test::OnnxBuilder &b, const graph::Tensor &x, graph::Dtype half) {
  std::vector<Range> out;
  const Status status = evaluate_ranges(test::import_graph(b.bytes()), {x}, half, out);
  EXPECT_TRUE(status.ok()) << status.message();
  return out.at(0);
}

/// A row that is masked altogether: its sums are float32, so the weights are those of the scores that are left.
TEST(Ranges, OfMaskedScoresHaveNoNan) {
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  test::OnnxBuilder b;
  b.output(b.op("Softmax", {b.op("Add", {b.input({2, 2}), b.constant({2, 2}, {0, 0, kLowest, kLowest})})}));
  const graph::Tensor x = *graph::make_f32({2, 2}, {1, 1, 2, 3});
  for (const graph::Dtype half : {graph::Dtype::F16, graph::Dtype::BF16}) {
    const Range range = range_of(b, x, half);
    EXPECT_EQ(outside(*graph::make_f32({2, 2}, {0.5f, 0.5f, 0.5f, 0.5f}), range), "");
    EXPECT_NE(outside(*graph::make_f32({2, 2}, {0.5f, 0.5f, std::nanf(""), 0.5f}), range), "");
    EXPECT_NE(outside(*graph::make_f32({2, 2}, {0.5f, 0.5f, 0.4f, 0.6f}), range), "");
  }
}

/// A maximum of an input is not rounded, a product is, and beyond the largest number it may be infinite.
TEST(Ranges, FollowFromTheRules) {
  test::OnnxBuilder difference(13), product(13);
  const std::string x = difference.input({2}), top = difference.op("ReduceMax", {x});
  difference.output(difference.op("Exp", {difference.op("Sub", {x, top})}));
  const graph::Tensor numbers = *graph::make_f32({2}, {60001, 60000});
  EXPECT_NE(outside(*graph::make_f32({2}, {2.7f, 1}), range_of(difference, numbers, graph::Dtype::F16)), "");
  EXPECT_EQ(outside(*graph::make_f32({2}, {1, std::exp(-1.0f)}), range_of(difference, numbers, graph::Dtype::F16)), "");
  const std::string y = product.op("Mul", {product.input({2}), product.scalar(2)});
  product.output(product.op("Mul", {y, product.scalar(0.5f)}));
  const Range range = range_of(product, numbers, graph::Dtype::F16);
  EXPECT_EQ(range.high.as<float>()[0], std::numeric_limits<float>::infinity());
  EXPECT_GT(range.low.as<float>()[0], 59941);  // 60000 (1 - 2^-11)^2: either factor may be off by 2^-11 of itself
  EXPECT_LT(range_of(product, numbers, graph::Dtype::BF16).high.as<float>()[0], 60500);
}

TEST(Networks, AreTheSameOfTheSmallestNumbers) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const Plan plan = random_plan(seed);
    Plan smallest, again;
    make_network(plan, &smallest);
    make_network(smallest, &again);
    EXPECT_EQ(outline(plan), outline(smallest)) << "seed " << seed;
    EXPECT_EQ(smallest.nodes, again.nodes) << "seed " << seed;
  }
}

TEST(Networks, OfNoNumbersAreRight) {
  Plan plan;
  plan.nodes.resize(3);
  Counts counts;
  EXPECT_EQ(check_network(make_network(plan), nullptr, counts).text, "");
  EXPECT_EQ(counts.networks, 1);
  EXPECT_EQ(counts.programs, 5);  // three sizes of local memory, several cores, and in turns
}

TEST(Networks, ThatTheCompilerRefusesAreFindings) {
  Made made = make_network(random_plan(1));
  made.model.resize(made.model.size() / 2);
  Counts counts;
  EXPECT_EQ(check_network(made, nullptr, counts).kind, "refused");
}

TEST(Shrinking, LeavesOneNodeAndTheLeastSizes) {
  int shrunk = 0;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    const Plan plan = random_plan(seed);
    const auto fails = [](const Plan &p) { return has(p, "AveragePool"); };
    if (!fails(plan)) continue;
    ++shrunk;
    const onnx::ModelProto small = parsed(shrink(plan, fails, 3000));
    ASSERT_EQ(small.graph().node_size(), 1) << "seed " << seed;
    for (const auto &d : small.graph().value_info(0).type().tensor_type().shape().dim()) EXPECT_EQ(d.dim_value(), 1);
  }
  EXPECT_GT(shrunk, 5);
}

TEST(Shrinking, KeepsWhatIsNeeded) {
  int shrunk = 0;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    const Plan plan = random_plan(seed);
    const auto fails = [](const Plan &p) { return has(p, "Conv") && has(p, "Softmax"); };
    if (!fails(plan)) continue;
    ++shrunk;
    EXPECT_LE(parsed(shrink(plan, fails, 3000)).graph().node_size(), 3) << "seed " << seed;
  }
  EXPECT_GT(shrunk, 5);
}

/// Whether `got` differs from 1, 2, 3.
bool differs(const std::vector<float> &got, double absolute, double factor) {
  const graph::TensorPtr want = graph::make_f32({3}, {1, 2, 3});
  return !difference(*graph::make_f32({std::ssize(got)}, got), *want, {absolute}, factor).empty();
}

TEST(Differences, AreMeasuredAgainstTheTolerance) {
  EXPECT_FALSE(differs({1, 2.25f, 3}, 0.25, 1));
  EXPECT_TRUE(differs({1, 2.25f, 3}, 0.2, 1));
  EXPECT_FALSE(differs({1, 2.25f, 3}, 0.2, 2));
  EXPECT_TRUE(differs({1, std::nanf(""), 3}, 1000, 1));
  EXPECT_TRUE(differs({1, 2}, 1000, 1));
  const graph::Tensor nan = *graph::make_f32({1}, {std::nanf("")}), one = *graph::make_f32({1}, {1});
  EXPECT_EQ(difference(nan, nan, {0}, 1), "");
  EXPECT_NE(difference(one, nan, {1000}, 1), "");
}

TEST(Differences, OfIntegersAreMeasuredToo) {
  const graph::Tensor a = *graph::make_i64({1, 2}), b = *graph::make_i64({1, 3});
  EXPECT_EQ(difference(a, a, {0}, 1), "");
  EXPECT_NE(difference(a, b, {0}, 1), "");
  EXPECT_NE(difference(a, *graph::make_f32({2}, {1, 2}), {1000}, 1), "");
}

/// x -> node of that type -> the only output.
Tolerance tolerance_of(graph::Node node, const std::vector<float> &x) {
  graph::Graph g;
  graph::Value value;
  value.shape = {static_cast<int64_t>(x.size())};
  g.inputs = {g.add_value(value)};
  node.inputs.insert(node.inputs.begin(), g.inputs[0]);
  node.output = g.add_value(value);
  g.nodes = {std::move(node)};
  g.outputs = {g.nodes[0].output};
  std::vector<graph::Tensor> outputs;
  std::vector<Tolerance> tolerances;
  const Status status = evaluate_with_tolerance(g, {*graph::make_f32(value.shape, x)}, 1, outputs, tolerances);
  EXPECT_TRUE(status.ok()) << status.message();
  return tolerances.at(0);
}

TEST(Tolerances, AreNoneForMoves) {
  graph::Node relu;
  relu.attrs = graph::UnaryAttrs{{graph::ActKind::Relu}};
  EXPECT_EQ(tolerance_of(relu, {1, -2, 3}).absolute, 0);
}

TEST(Tolerances, AreALittleMoreThanSinglePrecisionForArithmetic) {
  graph::Node tanh;
  tanh.attrs = graph::UnaryAttrs{{graph::ActKind::Tanh}};
  const double most = tolerance_of(tanh, {1, -2, 3}).absolute;
  EXPECT_GT(most, 1e-7);
  EXPECT_LT(most, 2e-5);
}

TEST(Tolerances, AreNoneForWhatCancels) {
  graph::Node difference;
  difference.op = graph::Op::Binary;
  difference.attrs = graph::BinaryAttrs{graph::BinaryKind::Sub, {}};
  difference.inputs = {graph::ValueId{0}};
  EXPECT_EQ(tolerance_of(difference, {1, -2, 3}).absolute, 0);
}

}  // namespace
}  // namespace npu::fuzz
