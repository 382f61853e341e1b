// SPDX-License-Identifier: MIT
// Networks that the chip cannot compute alone: how they are cut, and that the parts together compute the whole.
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/graph/evaluate.h"
#include "compiler/graph/partition.h"
#include "runtime/cpu/element.h"
#include "tests/unit/compiler/chip.h"
#include "tests/unit/compiler/onnx_builder.h"

namespace npu::test {
namespace {

graph::Graph import(const OnnxBuilder &b) { return import_graph(b.bytes()); }

/// "NPU 2, CPU 1": the parts and their nodes.
std::string cut(const OnnxBuilder &b) {
  graph::Graph g = import(b);
  std::string text;
  for (const graph::Part &p : graph::partition(g))
    text +=
        (text.empty() ? "" : ", ") + std::string(p.on_chip ? "NPU " : "CPU ") + std::to_string(p.graph.nodes.size());
  return text;
}

graph::Tensor random_tensor(const graph::TensorKind &kind, uint32_t &random) {
  graph::Tensor t(kind.dtype, kind.shape);
  for (int64_t i = 0; i < t.count(); ++i) {
    random = random * 1664525u + 1013904223u;
    const double v = static_cast<double>(random >> 8) / 8388608.0 - 1;
    cpu::store(t, i, kind.dtype == graph::Dtype::F32 ? v : static_cast<double>(random >> 24));
  }
  return t;
}

/// Compiles for two sizes of local memory and compares with the evaluator.
void expect_right(const OnnxBuilder &b) {
  const graph::Graph g = import(b);
  std::vector<graph::Tensor> inputs, expected;
  uint32_t random = 99;
  for (graph::ValueId v : g.inputs) inputs.push_back(random_tensor(g[v], random));
  ASSERT_EQ(graph::evaluate_graph(g, inputs, expected).message(), "");
  for (int64_t lmem : {compiler::kMinLmemBytes, int64_t{8} << 20}) {
    compiler::Options options;
    options.lmem_bytes = lmem;
    compiler::Compiled out;
    const std::string file = b.bytes();
    ASSERT_EQ(compiler::compile_onnx(file.data(), file.size(), options, out).message(), "");
    const StageResult result = run_stage(out.net.stages[0], inputs, lmem);
    ASSERT_EQ(result.error, "");
    for (size_t k = 0; k < expected.size(); ++k) {
      ASSERT_EQ(result.outputs[k].dtype, expected[k].dtype);
      ASSERT_EQ(result.outputs[k].count(), expected[k].count());
      for (int64_t i = 0; i < expected[k].count(); ++i)
        ASSERT_NEAR(cpu::load(result.outputs[k], i), cpu::load(expected[k], i), 1e-3) << "output " << k << ", " << i;
    }
  }
}

/// A function that the chip does not have.
std::string arctan(OnnxBuilder &b, const std::string &x) { return b.op("Atan", {x}); }

TEST(Partition, ANetworkThatTheChipComputesIsOnePart) {
  OnnxBuilder b;
  b.output(b.op("Relu", {b.op("Add", {b.input({4, 4}), b.weights({4})})}));
  EXPECT_EQ(cut(b), "NPU 2");
}

TEST(Partition, SidesTakeTurnsAndTakeAllThatIsReady) {
  OnnxBuilder b;
  const std::string x = b.input({64, 64}), w = b.weights({64, 64});
  const std::string a = arctan(b, b.op("MatMul", {x, w})), c = arctan(b, b.op("MatMul", {x, b.weights({64, 64})}));
  b.output(b.op("MatMul", {a, w})).output(b.op("MatMul", {c, w}));
  EXPECT_EQ(cut(b), "NPU 2, CPU 2, NPU 2");
  expect_right(b);
}

TEST(Partition, LittleWorkBetweenWorkOfTheCpuStaysThere) {
  OnnxBuilder b;
  const std::string x = b.input({64, 64}), w = b.weights({64, 64});
  const std::string a = b.op("Relu", {arctan(b, b.op("MatMul", {x, w}))});
  b.output(arctan(b, a));
  EXPECT_EQ(cut(b), "NPU 1, CPU 3");
  expect_right(b);
}

TEST(Partition, WorkThatIsNotWorthALaunchIsTheCpusAlone) {
  OnnxBuilder b;
  b.output(arctan(b, b.op("Relu", {b.input({3, 3})})));
  EXPECT_EQ(cut(b), "CPU 2");
  expect_right(b);
}

TEST(Partition, OutputsThatAreInputsConstantsOrTwiceTheSame) {
  OnnxBuilder b;
  const std::string x = b.input({70, 70});
  const std::string y = arctan(b, b.op("Sigmoid", {x}));
  b.output(y).output(b.op("Identity", {x})).output(b.op("Identity", {b.weights({5})})).output(b.op("Identity", {y}));
  expect_right(b);
}

/// Outputs that have the name of an input, or are listed twice, keep their names.
TEST(Partition, OutputsMayShareNamesWithInputsAndEachOther) {
  OnnxBuilder b;
  const std::string x = b.input({70, 70}, "x"), y = arctan(b, b.op("Sigmoid", {x}));
  b.input({3}, "y (output 2)");
  b.output(y).output(x).output(y);
  expect_right(b);
  compiler::Compiled out;
  const std::string file = b.bytes();
  ASSERT_EQ(compiler::compile_onnx(file.data(), file.size(), {}, out).message(), "");
  std::vector<std::string> names;
  for (const auto &t : out.net.stages[0].outputs) names.push_back(t.name);
  EXPECT_EQ(names, (std::vector<std::string>{y, x, y}));
}

/// `count` inputs and as many results of them.
std::vector<std::string> relus(OnnxBuilder &b, size_t count) {
  std::vector<std::string> out;
  for (size_t i = 0; i < count; ++i) out.push_back(b.op("Relu", {b.input({2, 3})}));
  return out;
}

std::string concat(OnnxBuilder &b, const std::vector<std::string> &parts) {
  const std::string y = b.op("Concat", parts);
  b.attr("axis", int64_t{0});
  return y;
}

/// Cuts a network, and checks that no part of the chip has too many tensors. Returns the number of parts.
size_t count_parts(const OnnxBuilder &b) {
  graph::Graph g = import(b);
  const std::vector<graph::Part> parts = graph::partition(g);
  for (const graph::Part &p : parts) {
    EXPECT_TRUE(!p.on_chip || p.inputs.size() + p.outputs.size() <= graph::kMaxPartTensors);
    EXPECT_FALSE(p.outputs.empty());
  }
  return parts.size();
}

TEST(ManyTensors, AsManyAsAPartHasAreOneProgram) {
  OnnxBuilder fits, more;
  for (const std::string &y : relus(fits, graph::kMaxPartTensors / 2)) fits.output(y);
  EXPECT_EQ(cut(fits), "NPU 30");
  for (const std::string &y : relus(more, graph::kMaxPartTensors / 2)) more.output(y);
  more.output(more.op("Neg", {"Relu_0"}));
  more.model.mutable_graph()->mutable_node(30)->set_input(0, more.model.graph().node(0).output(0));
  EXPECT_EQ(count_parts(more), 2u);
  expect_right(more);
}

TEST(ManyTensors, InputsThatNothingReadDoNotCount) {
  OnnxBuilder b;
  b.output(b.op("Relu", {b.input({2, 3})}));
  for (int i = 0; i < 80; ++i) b.input({2, 3});
  EXPECT_EQ(cut(b), "NPU 1");
  expect_right(b);
}

TEST(ManyTensors, Inputs) {
  OnnxBuilder b;
  b.output(concat(b, relus(b, 300)));
  EXPECT_LE(count_parts(b), 9u) << "groups of the tree are joined where their operands are made";
  expect_right(b);
}

TEST(ManyTensors, InputsInOneConcatenationAlone) {
  OnnxBuilder b;
  std::vector<std::string> inputs;
  for (int i = 0; i < 100; ++i) inputs.push_back(b.input({1, 3}));
  inputs.insert(inputs.begin() + 50, b.weights({2, 3}));
  inputs.push_back(inputs[0]);
  b.output(concat(b, inputs));
  expect_right(b);
}

TEST(ManyTensors, OutputsOfASplit) {
  OnnxBuilder b;
  std::vector<std::string> parts{b.op("Split", {b.op("Relu", {b.input({300, 2})})})};
  for (int i = 1; i < 300; ++i) parts.push_back(b.more_output());
  for (size_t i = 0; i < parts.size(); ++i) b.output(i % 3 ? parts[i] : b.op("Neg", {parts[i]}));
  EXPECT_LE(count_parts(b), 10u);
  expect_right(b);
}

/// A cache for each of many layers goes through, and each layer reads its own.
TEST(ManyTensors, BothAndAChainBetweenThem) {
  OnnxBuilder b;
  std::string x = b.input({2, 3});
  for (int i = 0; i < 100; ++i) {
    const std::string cache = b.op("Add", {b.input({2, 3}), x});
    b.output(cache);
    x = b.op("Tanh", {cache});
  }
  b.output(x);
  expect_right(b);
}

TEST(ManyTensors, BetweenPartsOfTheCpu) {
  OnnxBuilder b;
  const std::string w = b.weights({3, 6000});
  std::vector<std::string> rows;
  for (const std::string &y : relus(b, 70)) rows.push_back(arctan(b, b.op("Neg", {y})));
  std::vector<std::string> products;
  for (const std::string &y : rows) products.push_back(b.op("ReduceMax", {b.op("MatMul", {y, w})}));
  for (const std::string &y : products) b.output(arctan(b, y));
  const size_t parts = count_parts(b);
  EXPECT_GT(parts, 3u);
  EXPECT_LT(parts, 12u);
  expect_right(b);
}

/// More parts than a .bmodel has: the rest is the CPU's.
TEST(ManyTensors, MoreThanAllPartsHave) {
  OnnxBuilder b;
  for (const std::string &y : relus(b, 8000)) b.output(y);
  EXPECT_EQ(cut(b), "CPU 8000");
}

TEST(Parts, ManyWithValuesThatCrossSeveral) {
  OnnxBuilder b;
  const std::string w = b.weights({32, 32});
  std::string x = b.input({32, 32}), first = b.op("MatMul", {x, w});
  x = first;
  for (int i = 0; i < 6; ++i) x = b.op("Softmax", {b.op("MatMul", {arctan(b, b.op("Tanh", {x})), w})});
  b.output(b.op("Add", {x, first}));
  const std::string parts = cut(b);
  EXPECT_EQ(std::count(parts.begin(), parts.end(), ','), 12) << parts;
  expect_right(b);
}

TEST(Parts, IntegersAndBoolsCrossFromOneToAnother) {
  OnnxBuilder b(18);
  const std::string x = b.input({40, 50}), w = b.weights({50, 50});
  const std::string mask = b.op("Greater", {x, b.scalar(0)}), top = b.op("ArgMax", {x});
  b.attr("axis", int64_t{1});
  const std::string big = b.op("Mul", {top, b.ints({int64_t{1} << 40})});
  const std::string y = b.op("MatMul", {x, w});  // between them, on the NPU
  const std::string z = b.op("Where", {mask, arctan(b, y), y});
  b.output(z).output(b.op("Div", {big, b.ints({int64_t{1} << 39})})).output(b.op("Not", {mask}));
  expect_right(b);
}

TEST(Parts, TheReportSaysWhereNodesRun) {
  OnnxBuilder b;
  b.output(arctan(b, b.op("MatMul", {b.input({64, 64}), b.weights({64, 64})})));
  b.named("arctan");
  compiler::Compiled out;
  const std::string file = b.bytes();
  ASSERT_TRUE(compiler::compile_onnx(file.data(), file.size(), {}, out).ok());
  EXPECT_EQ(out.report.layers[0].where, "TIU+GDMA");
  EXPECT_EQ(out.report.layers[1].where, "CPU");
  EXPECT_EQ(out.report.host_parts, 1u);
  EXPECT_EQ(out.report.host_nodes, 1u);
  EXPECT_NE(out.report.text().find("operators 1, parts 1;"), std::string::npos) << out.report.text();
}

TEST(Parts, ABatchThatVariesNeedsTheChipAlone) {
  OnnxBuilder b;
  b.output(arctan(b, b.input({8, 8})));
  compiler::Compiled out;
  const std::string file = b.bytes();
  ASSERT_TRUE(compiler::compile_onnx(file.data(), file.size(), {}, out).ok());
  const std::string batch = compiler::make_batch_dynamic(out).message();
  EXPECT_NE(batch.find("--dynamic-batch: the network has nodes that run on the CPU"), std::string::npos) << batch;
  EXPECT_NE(batch.find("use --dynamic"), std::string::npos) << batch;
}

}  // namespace
}  // namespace npu::test
