// SPDX-License-Identifier: MIT
// If, Loop, Scan, and operators that a file defines itself, against numbers worked out by hand.
#include <gtest/gtest.h>

#include "compiler/graph/evaluate.h"
#include "compiler/graph/print.h"
#include "compiler/import/importer.h"
#include "runtime/cpu/element.h"
#include "runtime/cpu/subnet.h"
#include "tests/unit/compiler/chip.h"
#include "tests/unit/compiler/onnx_builder.h"

namespace npu::test {
namespace {

using onnx::TensorProto;
using Numbers = std::vector<double>;

std::string import(const OnnxBuilder &b, graph::Graph &g) {
  graph::RawModel raw;
  const std::string file = b.bytes();
  const Status status = graph::read_onnx(file.data(), file.size(), raw);
  return status.ok() ? graph::import_model(raw, {}, g).message() : status.message();
}

std::vector<Numbers> run(const OnnxBuilder &b, const std::vector<Numbers> &inputs) {
  graph::Graph g;
  EXPECT_EQ(import(b, g), "");
  std::vector<graph::Tensor> in, results;
  for (size_t k = 0; k < g.inputs.size(); ++k) {
    in.emplace_back(g[g.inputs[k]].dtype, g[g.inputs[k]].shape);
    for (size_t i = 0; i < inputs[k].size(); ++i) cpu::store(in[k], static_cast<int64_t>(i), inputs[k][i]);
  }
  EXPECT_EQ(graph::evaluate_graph(g, in, results).message(), "");
  std::vector<Numbers> out(results.size());
  for (size_t k = 0; k < results.size(); ++k)
    for (int64_t i = 0; i < results[k].count(); ++i) out[k].push_back(cpu::load(results[k], i));
  return out;
}

/// A body that adds a constant to 'x' of the graph around it.
OnnxBuilder add_to_x(float value) {
  OnnxBuilder body;
  body.output(body.op("Add", {"x", body.scalar(value)}));
  return body;
}

OnnxBuilder choose(bool run_time) {
  OnnxBuilder b;
  b.input({2}, "x");
  const std::string flag =
      run_time ? b.input({1}, "flag", TensorProto::BOOL) : b.op("Greater", {b.scalar(2), b.scalar(1)});
  b.output(b.op("If", {flag}));
  b.attr("then_branch", add_to_x(10)).attr("else_branch", add_to_x(20));
  return b;
}

TEST(If, ThatIsKnownLeavesOneBranch) {
  EXPECT_EQ(run(choose(false), {{1, 2}}), (std::vector<Numbers>{{11, 12}}));
  graph::Graph g;
  ASSERT_EQ(import(choose(false), g), "");
  EXPECT_EQ(g.nodes.size(), 1u);
}

TEST(If, ThatIsNotKnownChoosesAtRunTime) {
  EXPECT_EQ(run(choose(true), {{1, 2}, {1}}), (std::vector<Numbers>{{11, 12}}));
  EXPECT_EQ(run(choose(true), {{1, 2}, {0}}), (std::vector<Numbers>{{21, 22}}));
}

/// then: x / y, else: x[index]; either may be impossible with the data that choose the other.
OnnxBuilder guarded() {
  OnnxBuilder b, quotient, row;
  b.input({2}, "x", TensorProto::INT32);
  b.input({2}, "y", TensorProto::INT32);
  b.input({2}, "index", TensorProto::INT32);
  quotient.output(quotient.op("Div", {"x", "y"}));
  row.output(row.op("Gather", {"x", "index"}));
  b.output(b.op("If", {b.input({}, "flag", TensorProto::BOOL)}));
  b.attr("then_branch", quotient).attr("else_branch", row);
  return b;
}

/// Runs the only part of a network, which is the CPU's.
std::string run_part(const OnnxBuilder &b, const std::vector<Numbers> &inputs, Numbers &out) {
  compiler::Compiled compiled;
  const std::string file = b.bytes();
  EXPECT_EQ(compiler::compile_onnx(file.data(), file.size(), {}, compiled).message(), "");
  std::vector<graph::Tensor> in;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const auto &t = compiled.net.stages[0].inputs[k];
    in.emplace_back(cpu::dtype_of_bm(t.dtype), graph::Shape(t.shape.begin(), t.shape.end()));
    for (size_t i = 0; i < inputs[k].size(); ++i) cpu::store(in[k], static_cast<int64_t>(i), inputs[k][i]);
  }
  const StageResult result = run_stage(compiled.net.stages[0], in, compiler::kMinLmemBytes);
  out.clear();
  for (int64_t i = 0; result.error.empty() && i < result.outputs[0].count(); ++i)
    out.push_back(cpu::load(result.outputs[0], i));
  return result.error;
}

TEST(If, WhatIsWrongInABranchThatIsNotTakenDoesNoHarm) {
  Numbers out;
  EXPECT_EQ(run_part(guarded(), {{6, 8}, {3, 2}, {0, 7}, {1}}, out), "");
  EXPECT_EQ(out, (Numbers{2, 4}));
  EXPECT_EQ(run_part(guarded(), {{6, 8}, {3, 0}, {0, 1}, {0}}, out), "");
  EXPECT_EQ(out, (Numbers{6, 8}));
  const std::string zero = run_part(guarded(), {{6, 8}, {3, 0}, {0, 1}, {1}}, out),
                    index = run_part(guarded(), {{6, 8}, {3, 1}, {0, 7}, {0}}, out);
  EXPECT_NE(zero.find("(Binary 'Div_0')"), std::string::npos) << zero;
  EXPECT_NE(index.find("(Gather 'Gather_0')"), std::string::npos) << index;
}

/// With sr = 16000 x is cut into rows of 64, else into rows of 7, which 128 elements do not fill.
OnnxBuilder two_rates() {
  OnnxBuilder b, fits, odd;
  b.input({128}, "x");
  fits.output(fits.op("ReduceSum", {fits.op("Reshape", {"x", fits.ints({2, 64})})}));
  fits.attr("keepdims", int64_t{0});
  odd.output(odd.op("ReduceSum", {odd.op("Reshape", {"x", odd.ints({-1, 7})})}));
  odd.attr("keepdims", int64_t{0});
  const std::string sr = b.input({1}, "sr", TensorProto::INT64);
  b.output(b.op("If", {b.op("Equal", {sr, b.indices({1}, {16000})})}));
  b.attr("then_branch", fits).attr("else_branch", odd).named("rate");
  return b;
}

TEST(If, ABranchThatCannotBeCompiledFailsWhenItIsChosen) {
  Numbers out;
  const Numbers ones(128, 1);
  EXPECT_EQ(run_part(two_rates(), {ones, {16000}}, out), "");
  EXPECT_EQ(out, (Numbers{128}));
  const std::string error = run_part(two_rates(), {ones, {8000}}, out);
  EXPECT_NE(error.find("(Fail 'else_branch of rate'): the network was compiled without this branch"), std::string::npos)
      << error;
  EXPECT_EQ(run(two_rates(), {ones, {16000}}), (std::vector<Numbers>{{128}})) << "also by the evaluator";
  graph::Graph g;
  ASSERT_EQ(import(two_rates(), g), "");
  std::string warnings;
  for (const std::string &warning : g.warnings) warnings += warning + "\n";
  EXPECT_NE(warnings.find("If 'rate': its else_branch cannot be compiled (Reshape 'Reshape_0': cannot reshape [128] to "
                          "[-1, 7]), so launches that choose it fail: --input sr=16000 chooses the then_branch"),
            std::string::npos)
      << warnings;
}

/// Each iteration converts the body again.
TEST(If, InALoopGivesOneWarning) {
  OnnxBuilder b, body, fits, odd;
  b.input({128}, "x");
  const std::string chosen = b.input({}, "chosen", TensorProto::BOOL);
  body.input({}, "turn", TensorProto::INT64);
  const std::string go = body.input({}, "go", TensorProto::BOOL), state = body.input({128}, "state");
  fits.output(fits.op("Neg", {state}));
  odd.output(odd.op("Reshape", {state, odd.ints({-1, 7})}));
  body.output(body.op("Identity", {go}));
  body.model.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
      TensorProto::BOOL);
  body.output(body.op("If", {chosen}));
  body.attr("then_branch", fits).attr("else_branch", odd);
  b.output(b.op("Loop", {b.indices({}, {5}), "", "x"}));
  b.attr("body", body);
  graph::Graph g;
  ASSERT_EQ(import(b, g), "");
  ASSERT_EQ(g.warnings.size(), 1u) << graph::to_text(g);
  EXPECT_NE(g.warnings[0].find("its else_branch cannot be compiled"), std::string::npos) << g.warnings[0];
}

/// 128 elements fill neither rows of 7 nor rows of 100.
TEST(If, TwoBranchesThatCannotBeCompiledAreBothExplained) {
  OnnxBuilder b = two_rates(), odd;
  odd.output(odd.op("Reshape", {"x", odd.ints({-1, 100})}));
  b.attr("then_branch", odd);
  b.model.mutable_graph()->mutable_node(1)->mutable_attribute()->DeleteSubrange(0, 1);
  graph::Graph g;
  const std::string text = import(b, g);
  EXPECT_NE(text.find("If 'rate': neither of its branches can be compiled: else_branch: Reshape 'Reshape_0': cannot "
                      "reshape [128] to [-1, 7]; then_branch: Reshape 'Reshape_0': cannot reshape [128] to [-1, 100]"),
            std::string::npos)
      << text;
}

/// A value that is given for an input has chosen the branch that cannot be compiled.
TEST(If, AGivenInputThatChoosesTheWrongBranchIsNamed) {
  const std::string file = two_rates().bytes();
  graph::RawModel raw;
  ASSERT_EQ(graph::read_onnx(file.data(), file.size(), raw).message(), "");
  graph::ImportOptions options;
  graph::Tensor rate(graph::Dtype::I64, {});
  cpu::store_integer(rate, 0, 8000);
  options.values["sr"] = std::make_shared<graph::Tensor>(rate);
  graph::Graph g;
  graph::Findings found;
  EXPECT_FALSE(graph::import_model(raw, options, g, &found).ok());
  ASSERT_EQ(found.list.size(), 1u);
  EXPECT_EQ(found.list[0].op, "Reshape");
  EXPECT_TRUE(found.list[0].help.starts_with("--input sr=16000 chooses the then_branch when the network is compiled; "))
      << found.list[0].help;
}

/// The suggested number is one for the branch that can be compiled, also where the condition names the other one.
TEST(If, TheSuggestedInputChoosesTheBranchThatCanBeCompiled) {
  OnnxBuilder b = two_rates();
  b.model.mutable_graph()->mutable_node(1)->mutable_attribute(0)->set_name("else_branch");
  b.model.mutable_graph()->mutable_node(1)->mutable_attribute(1)->set_name("then_branch");
  graph::Graph g;
  ASSERT_EQ(import(b, g), "");
  ASSERT_FALSE(g.warnings.empty());
  EXPECT_NE(g.warnings.back().find("so launches that choose it fail: --input sr=16001 chooses the else_branch"),
            std::string::npos)
      << g.warnings.back();
}

/// Attempts to convert a branch do not double from level to level.
TEST(If, FailingBranchesInEachOtherAreConvertedOnce) {
  OnnxBuilder inner;
  inner.output(inner.op("Reshape", {"x", inner.ints({-1, 7})}));
  for (int level = 0; level < 40; ++level) {
    OnnxBuilder outer, other;
    other.output(other.op("Neg", {"x"}));
    outer.output(outer.op("If", {"flag"}));
    outer.attr("then_branch", inner).attr("else_branch", other);
    inner = outer;
  }
  OnnxBuilder b, other;
  b.input({128}, "x");
  b.input({}, "flag", TensorProto::BOOL);
  other.output(other.op("Neg", {"x"}));
  b.output(b.op("If", {"flag"}));
  b.attr("then_branch", inner).attr("else_branch", other);
  graph::Graph g;
  EXPECT_EQ(import(b, g), "");
}

/// The failure is in the part of the CPU that chooses, not in one before.
TEST(If, AFailingBranchBehindOtherPartsDoesNoHarm) {
  OnnxBuilder b, good, bad;
  const std::string w = b.weights({64, 64}), x = b.input({64, 64});
  const std::string y = b.op("MatMul", {b.op("Atan", {b.op("MatMul", {x, w})}), w});
  good.output(good.op("Neg", {y}));
  bad.output(bad.op("MatMul", {y, bad.weights({3, 64})}));
  const std::string z = b.op("If", {b.input({}, "flag", TensorProto::BOOL)});
  b.attr("then_branch", good).attr("else_branch", bad);
  b.output(b.op("MatMul", {z, w}));
  Numbers out;
  EXPECT_EQ(run_part(b, {Numbers(64 * 64, 0.5), {1}}, out), "");
  EXPECT_EQ(out.size(), 64u * 64);
  EXPECT_NE(run_part(b, {Numbers(64 * 64, 0.5), {0}}, out), "");
}

TEST(If, WhatIsNotSupportedInABranchThatIsNotTakenDoesNoHarm) {
  OnnxBuilder b = choose(false), known, flag = choose(true);
  known.output(known.op("Bernoulli", {"x"}));
  b.attr("else_branch", known);
  auto &node = *b.model.mutable_graph()->mutable_node(1);
  node.mutable_attribute()->DeleteSubrange(1, 1);
  EXPECT_EQ(run(b, {{1, 2}}), (std::vector<Numbers>{{11, 12}}));
  flag.attr("else_branch", known);
  flag.model.mutable_graph()->mutable_node(0)->mutable_attribute()->DeleteSubrange(1, 1);
  EXPECT_EQ(run(flag, {{1, 2}, {1}}), (std::vector<Numbers>{{11, 12}}));
  compiler::Explanation found;
  const std::string file = flag.bytes();
  compiler::Options options;
  options.failing_branches = false;
  ASSERT_EQ(compiler::explain_onnx(file.data(), file.size(), options, false, found).message(), "");
  ASSERT_EQ(found.nodes.size(), 1u);
  EXPECT_FALSE(found.nodes[0].compiled) << "a provider of ONNX Runtime leaves it to another one";
  EXPECT_EQ(found.nodes[0].reason, "Bernoulli 'Bernoulli_0': the operator is not supported");
}

/// Ten turns of sum += x[i] while i + 1 < length: x has four elements.
TEST(Loop, TurnsThatDoNotHappenMayReadBehindTheData) {
  OnnxBuilder b, body;
  b.input({4}, "x");
  b.input({}, "length", TensorProto::INT64);
  const std::string i = body.input({}, "i", TensorProto::INT64);
  body.input({}, "go", TensorProto::BOOL);
  const std::string sum = body.op("Add", {body.input({}, "sum"), body.op("Gather", {"x", i})});
  body.output(body.op("Less", {body.op("Add", {i, body.indices({}, {1})}), "length"})).output(sum);
  b.output(b.op("Loop", {b.indices({}, {10}), "", b.scalar(0)}));
  b.attr("body", body);
  Numbers out;
  EXPECT_EQ(run_part(b, {{1, 2, 3, 4}, {3}}, out), "");
  EXPECT_EQ(out, (Numbers{6}));
}

TEST(If, BranchesOfDifferentShapesNeedAKnownCondition) {
  OnnxBuilder b, other;
  b.input({2}, "x");
  other.output(other.op("Concat", {"x", "x"}));
  other.attr("axis", int64_t{0});
  b.output(b.op("If", {b.input({}, "flag", TensorProto::BOOL)}));
  b.attr("then_branch", add_to_x(10)).attr("else_branch", other).named("odd");
  graph::Graph g;
  EXPECT_NE(import(b, g).find("If 'odd': output 0 is float32 [2] or float32 [4], and its condition is not known at "
                              "compile time: --input flag=1 chooses the then_branch when the network is compiled"),
            std::string::npos)
      << import(b, g);
}

TEST(If, ErrorsInABranchNameItsNode) {
  OnnxBuilder b, wrong;
  b.input({2}, "x");
  wrong.output(wrong.op("Add", {"x", "nowhere"}));
  wrong.named("inner");
  b.output(b.op("If", {b.input({}, "flag", TensorProto::BOOL)}));
  b.attr("then_branch", wrong).attr("else_branch", wrong);
  graph::Graph g;
  const std::string text = import(b, g);
  EXPECT_NE(text.find("Add 'inner': it reads 'nowhere'"), std::string::npos) << text;
}

/// sum += i; the scan output is the sum so far. Ends when the sum reaches `limit`, which may arrive at run time.
OnnxBuilder sums(const std::string &limit_name, bool scan) {
  OnnxBuilder body;
  const std::string i = body.input({}, "i", TensorProto::INT64);
  body.input({}, "go", TensorProto::BOOL);
  const std::string sum = body.op("Add", {body.input({}, "sum", TensorProto::INT64), i});
  body.output(body.op("Less", {sum, limit_name})).output(sum);
  if (scan) body.output(body.op("Identity", {sum}));
  return body;
}

OnnxBuilder loop(int64_t turns, bool run_time, bool scan) {
  OnnxBuilder b;
  const std::string start = b.input({}, "start", TensorProto::INT64);
  if (run_time)
    b.input({}, "limit", TensorProto::INT64);
  else
    b.model.mutable_graph()->mutable_initializer()->Add()->CopyFrom([] {
      TensorProto t;
      t.set_name("limit");
      t.set_data_type(TensorProto::INT64);
      t.add_int64_data(1000);
      return t;
    }());
  b.output(b.op("Loop", {b.indices({}, {turns}), "", start}));
  if (scan) b.output(b.more_output());
  b.attr("body", sums("limit", scan));
  return b;
}

TEST(Loop, TurnsAreUnrolled) {
  // The condition depends on the start, which arrives at run time: without scan outputs the state only stops changing.
  EXPECT_EQ(run(loop(5, false, false), {{100}}), (std::vector<Numbers>{{110}}));
  EXPECT_EQ(run(loop(5, true, false), {{100}, {103}}), (std::vector<Numbers>{{103}}));
  EXPECT_EQ(run(loop(0, true, false), {{100}, {103}}), (std::vector<Numbers>{{100}}));
}

TEST(Loop, ScanOutputsNeedAKnownNumberOfTurns) {
  graph::Graph g;
  const std::string text = import(loop(5, true, true), g);
  EXPECT_NE(text.find("the length of its scan outputs depends on a condition"), std::string::npos) << text;
}

TEST(Loop, ThatEndsByAKnownCondition) {
  OnnxBuilder b, body;
  const std::string i = body.input({}, "i", TensorProto::INT64);
  body.input({}, "go", TensorProto::BOOL);
  const std::string v = body.op("Add", {body.input({2}, "v"), "x"});
  body.output(body.op("Less", {i, body.indices({}, {2})})).output(v).output(body.op("Neg", {v}));
  b.input({2}, "x");
  b.output(b.op("Loop", {b.indices({}, {100}), "", "x"})).output(b.more_output());
  b.attr("body", body);
  EXPECT_EQ(run(b, {{1, 2}}), (std::vector<Numbers>{{4, 8}, {-2, -4, -3, -6, -4, -8}}));
}

TEST(Loop, ATripCountThatAnInputGivesNamesTheOption) {
  OnnxBuilder b, body = sums("limit", false);
  b.input({}, "limit", TensorProto::INT64);
  const std::string count = b.op("Add", {b.input({}, "n", TensorProto::INT64), b.indices({}, {1})});
  b.output(b.op("Loop", {count, "", b.indices({}, {0})}));
  b.attr("body", body);
  graph::Graph g;
  const std::string text = import(b, g);
  EXPECT_NE(text.find("is not known at compile time: --input n=VALUE makes it known"), std::string::npos) << text;
}

TEST(Loop, WithoutATripCountIsRefused) {
  OnnxBuilder b, body = sums("limit", false);
  b.input({}, "limit", TensorProto::INT64);
  b.output(b.op("Loop", {"", b.input({}, "go", TensorProto::BOOL), b.indices({}, {0})}));
  b.attr("body", body).named("endless");
  graph::Graph g;
  EXPECT_NE(import(b, g).find("Loop 'endless': it has no trip count"), std::string::npos);
}

TEST(Loop, WithoutATripCountEndsByItsCondition) {
  OnnxBuilder b, body;
  const std::string i = body.input({}, "i", TensorProto::INT64);
  body.input({}, "go", TensorProto::BOOL);
  body.output(body.op("Less", {i, body.indices({}, {2})})).output(body.op("Add", {body.input({2}, "v"), "x"}));
  b.input({2}, "x");
  b.output(b.op("Loop", {"", b.op("Less", {b.scalar(1), b.scalar(2)}), "x"}));
  b.attr("body", body);
  EXPECT_EQ(run(b, {{1, 2}}), (std::vector<Numbers>{{4, 8}}));
}

TEST(Loop, ThatWouldMakeTooManyNodesIsRefusedSoon) {
  OnnxBuilder b, outer, inner;
  for (OnnxBuilder *body : {&outer, &inner}) {
    body->input({}, "i", TensorProto::INT64);
    body->input({}, "go", TensorProto::BOOL);
    body->output(body->op("Identity", {"go"}));
  }
  inner.output(inner.op("Identity", {inner.input({2}, "v")}));
  outer.output(outer.op("Loop", {outer.indices({}, {4096}), "", outer.input({2}, "u")}));
  outer.attr("body", inner);
  b.output(b.op("Loop", {b.indices({}, {4096}), "", b.input({2}, "x")}));
  b.attr("body", outer);
  graph::Graph g;
  EXPECT_NE(import(b, g).find("the network has more than 262144 nodes"), std::string::npos);
}

TEST(Scan, GoesAlongAnAxisBothWays) {
  OnnxBuilder b, body;
  const std::string sum = body.op("Add", {body.input({2}, "sum"), body.input({2}, "row")});
  body.output(sum).output(body.op("Identity", {sum}));
  b.output(b.op("Scan", {b.floats({0, 0}), b.input({2, 3}, "x")})).output(b.more_output());
  b.attr("body", body).attr("num_scan_inputs", int64_t{1}).attr("scan_input_axes", std::vector<int64_t>{1});
  b.attr("scan_input_directions", std::vector<int64_t>{1}).attr("scan_output_axes", std::vector<int64_t>{1});
  // Columns from the last to the first: (3, 6), (2, 5), (1, 4).
  EXPECT_EQ(run(b, {{1, 2, 3, 4, 5, 6}}), (std::vector<Numbers>{{6, 15}, {3, 5, 6, 6, 11, 15}}));
}

/// Sums along axis 1 of each of 2 members, and what they are on the way; `lengths`: how many of 3 count.
OnnxBuilder batch_scan(const std::string &lengths, const std::vector<int64_t> &values, bool backwards) {
  OnnxBuilder b(8), body(8);
  const std::string sum = body.op("Add", {body.input({1}, "sum"), body.input({1}, "row")});
  body.output(sum).output(body.op("Identity", {sum}));
  std::string name;
  if (lengths == "given") name = b.ints(values);
  if (lengths == "late") name = b.input({2}, "late", TensorProto::INT64);
  b.output(b.op("Scan", {name, b.constant({2, 1}, {100, 200}), b.input({2, 3, 1}, "x")})).output(b.more_output());
  b.attr("body", body).attr("num_scan_inputs", int64_t{1});
  if (backwards) b.attr("directions", std::vector<int64_t>{1});
  return b;
}

TEST(Scan, OfOperatorSet8GoesOverEachMemberOfTheBatch) {
  const std::vector<Numbers> x{{1, 2, 3, 4, 5, 6}};
  EXPECT_EQ(run(batch_scan("", {}, false), x), (std::vector<Numbers>{{106, 215}, {101, 103, 106, 204, 209, 215}}));
  EXPECT_EQ(run(batch_scan("", {}, true), x), (std::vector<Numbers>{{106, 215}, {103, 105, 106, 206, 211, 215}}));
  // Behind the elements that count there are zeros; backwards it begins at the last one that counts.
  EXPECT_EQ(run(batch_scan("given", {2, 3}, false), x),
            (std::vector<Numbers>{{103, 215}, {101, 103, 0, 204, 209, 215}}));
  EXPECT_EQ(run(batch_scan("given", {3, 1}, true), x), (std::vector<Numbers>{{106, 204}, {103, 105, 106, 204, 0, 0}}));
}

TEST(Scan, OfOperatorSet8NeedsLengthsThatAreKnownAndFit) {
  graph::Graph g;
  const auto says = [&](const OnnxBuilder &b, const char *part) {
    const std::string text = import(b, g);
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  says(batch_scan("late", {}, false), "sequence_lens ('late') is not known at compile time");
  says(batch_scan("given", {1, 4}, false), "sequence_lens has 4, 1 to 3 was expected");
  says(batch_scan("given", {0, 3}, false), "sequence_lens has 0, 1 to 3 was expected");
  says(batch_scan("given", {3}, false), "sequence_lens has 1 numbers, expected 2");
  OnnxBuilder b = batch_scan("", {}, false);
  b.model.mutable_graph()->mutable_initializer(0)->set_dims(0, 1);
  b.model.mutable_graph()->mutable_initializer(0)->set_dims(1, 2);
  says(b, "input 2 [2, 3, 1] has not the batch 1");
}

/// A slice of no element is no crash.
TEST(Scan, WithoutATurnIsRefused) {
  OnnxBuilder b, body;
  body.output(body.op("Identity", {body.input({1}, "row")}));
  const std::string none = b.op("Slice", {b.input({2, 1}, "x"), b.ints({0}), b.ints({0})});
  b.output(b.op("Scan", {none}));
  b.attr("body", body).attr("num_scan_inputs", int64_t{1});
  graph::Graph g;
  EXPECT_NE(import(b, g).find("it has no turn, and its scan outputs would be empty"), std::string::npos);
}

/// scale(x, f) = x * f + b, an operator of the file; f may be left out of a call.
OnnxBuilder with_function() {
  OnnxBuilder b(13);
  onnx::FunctionProto &f = *b.model.add_functions();
  f.set_name("Scale");
  f.set_domain("own");
  f.add_opset_import()->set_version(13);
  f.add_input("x");
  f.add_output("y");
  f.add_attribute("alpha");
  auto &leaky = *f.add_node(), &twice = *f.add_node();
  leaky.set_op_type("LeakyRelu");
  leaky.add_input("x");
  leaky.add_output("inner");
  auto &a = *leaky.add_attribute();
  a.set_name("alpha");
  a.set_type(onnx::AttributeProto::FLOAT);
  a.set_ref_attr_name("alpha");
  twice.set_op_type("Add");
  twice.add_input("inner");
  twice.add_input("inner");
  twice.add_output("y");
  b.model.add_opset_import()->set_domain("own");
  return b;
}

TEST(Functions, AreExpandedWithTheirAttributes) {
  OnnxBuilder b = with_function();
  b.output(b.op("Scale", {b.input({2}, "inner")}));  // a name that the function has inside, too
  b.attr("alpha", 0.5f);
  b.model.mutable_graph()->mutable_node(0)->set_domain("own");
  EXPECT_EQ(run(b, {{-2, 3}}), (std::vector<Numbers>{{-2, 6}}));
  b.model.mutable_graph()->mutable_node(0)->clear_attribute();  // LeakyRelu's own default
  EXPECT_NEAR(run(b, {{-2, 3}})[0][0], -0.04, 1e-6);
}

/// A field that Debian 12's ONNX does not know, as its newer versions write it.
template <class Message>
void add_field(Message &m, int number, const std::string &bytes) {
  m.mutable_unknown_fields()->AddLengthDelimited(number, bytes);
}

onnx::NodeProto &only_node(OnnxBuilder &b) { return *b.model.mutable_graph()->mutable_node(0); }

TEST(Functions, HaveValuesForAttributesThatACallLeavesOut) {
  OnnxBuilder b = with_function();
  onnx::AttributeProto alpha;
  alpha.set_name("alpha");
  alpha.set_type(onnx::AttributeProto::FLOAT);
  alpha.set_f(0.25f);
  b.model.mutable_functions(0)->clear_attribute();
  add_field(*b.model.mutable_functions(0), 11, alpha.SerializeAsString());
  b.output(b.op("Scale", {b.input({2})}));
  only_node(b).set_domain("own");
  EXPECT_EQ(run(b, {{-2, 3}}), (std::vector<Numbers>{{-1, 6}}));
  b.attr("alpha", 0.5f);
  EXPECT_EQ(run(b, {{-2, 3}}), (std::vector<Numbers>{{-2, 6}}));
}

TEST(Functions, OfOneNameAreToldApartByTheirOverload) {
  OnnxBuilder b = with_function();
  *b.model.add_functions() = b.model.functions(0);
  add_field(*b.model.mutable_functions(1), 13, "other");
  b.model.mutable_functions(1)->mutable_node(1)->set_op_type("Mul");
  b.output(b.op("Scale", {b.input({2})}));
  only_node(b).set_domain("own");
  b.attr("alpha", 0.5f);
  EXPECT_EQ(run(b, {{-2, 3}}), (std::vector<Numbers>{{-2, 6}}));
  add_field(only_node(b), 8, "other");
  EXPECT_EQ(run(b, {{-2, 3}}), (std::vector<Numbers>{{1, 9}}));
}

TEST(Functions, AttributesThatTheyDoNotHaveAreNamed) {
  OnnxBuilder b = with_function();
  b.output(b.op("Scale", {b.input({2})}));
  only_node(b).set_domain("own");
  b.attr("beta", 0.5f);
  graph::Graph g;
  EXPECT_EQ(import(b, g),
            "one node cannot be compiled:\n  own.Scale 'Scale_0': attribute 'beta' is not one of the function; its "
            "attributes are: alpha");
}

/// The body of an If in a function sees the call's attributes, as the function's own nodes do.
TEST(Functions, HandTheirAttributesToBodies) {
  OnnxBuilder b = with_function(), leaky;
  leaky.output(leaky.op("LeakyRelu", {"x"}));
  *leaky.model.mutable_graph()->mutable_node(0)->add_attribute() = b.model.functions(0).node(0).attribute(0);
  onnx::FunctionProto &f = *b.model.mutable_functions(0);
  f.add_input("flag");
  onnx::NodeProto &choice = *f.mutable_node(0);
  choice.set_op_type("If");
  choice.set_input(0, "flag");
  choice.clear_attribute();
  for (const char *name : {"then_branch", "else_branch"}) {
    onnx::AttributeProto &a = *choice.add_attribute();
    a.set_name(name);
    a.set_type(onnx::AttributeProto::GRAPH);
    *a.mutable_g() = leaky.model.graph();
  }
  b.output(b.op("Scale", {b.input({2}), b.op("Greater", {b.scalar(2), b.scalar(1)})}));
  b.model.mutable_graph()->mutable_node(1)->set_domain("own");
  b.attr("alpha", 0.5f);
  EXPECT_EQ(run(b, {{-2, 3}}), (std::vector<Numbers>{{-2, 6}}));
}

TEST(Functions, AReferenceOutsideOfOneIsRefused) {
  OnnxBuilder b;
  b.output(b.op("LeakyRelu", {b.input({2})}));
  b.attr("alpha", 0.5f);
  only_node(b).mutable_attribute(0)->set_ref_attr_name("alpha");
  graph::Graph g;
  EXPECT_NE(import(b, g).find("an attribute refers to one of a function, and it is in none"), std::string::npos);
}

TEST(Functions, AFailureIsSaidOnce) {
  OnnxBuilder b = with_function();
  b.model.mutable_functions(0)->mutable_node(0)->set_op_type("Bernoulli");
  b.output(b.op("Scale", {b.input({2})}));
  b.model.mutable_graph()->mutable_node(0)->set_domain("own");
  graph::Graph g;
  EXPECT_EQ(import(b, g),
            "one node has an operator that is not supported:\n  Bernoulli 'inner': the operator is not "
            "supported");
}

TEST(Functions, AnAttributeThatACallLacksIsNamedWithTheCall) {
  OnnxBuilder b = with_function();
  onnx::NodeProto &constant = *b.model.mutable_functions(0)->mutable_node(0);
  constant.set_op_type("Constant");
  constant.clear_input();
  constant.mutable_attribute(0)->set_name("value_float");
  b.output(b.op("Scale", {b.input({2})}));
  b.named("c1");
  only_node(b).set_domain("own");
  graph::Graph g;
  const std::string text = import(b, g);
  EXPECT_NE(
      text.find("Constant 'c1/inner': it has none of the attributes value, value_float(s), value_int(s); its "
                "attribute 'value_float' is attribute 'alpha' of the function, which the call 'c1' does not give"),
      std::string::npos)
      << text;
}

/// The nodes of two calls have different names, and calls are not dead.
TEST(Functions, NodesAreNamedWithTheirCall) {
  OnnxBuilder b = with_function();
  const std::string first = b.op("Scale", {b.input({2})});
  b.named("c1");
  b.output(b.op("Scale", {first}));
  b.named("c2");
  for (int i = 0; i < 2; ++i) b.model.mutable_graph()->mutable_node(i)->set_domain("own");
  graph::Graph g;
  ASSERT_EQ(import(b, g), "");
  std::vector<std::string> names, fates;
  for (const graph::Source &s : g.sources) {
    names.push_back(s.name);
    fates.push_back(s.fate);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"c1", "c1/inner", "c1/y", "c2", "c2/inner", "c2/y"}));
  EXPECT_EQ(fates[0], graph::kInItsNodes);
  EXPECT_EQ(fates[3], graph::kInItsNodes);
}

TEST(Functions, ThatCallThemselvesAreRefused) {
  OnnxBuilder b = with_function();
  auto &call = *b.model.mutable_functions(0)->mutable_node(0);
  call.set_op_type("Scale");
  call.set_domain("own");
  b.output(b.op("Scale", {b.input({2})}));
  b.model.mutable_graph()->mutable_node(0)->set_domain("own");
  graph::Graph g;
  EXPECT_NE(import(b, g).find("the function calls itself"), std::string::npos);
}

}  // namespace
}  // namespace npu::test
