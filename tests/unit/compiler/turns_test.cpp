// SPDX-License-Identifier: MIT
// Runs of nodes in turns: the graphs of their pieces against the whole, their programs on the chip model, and where the
// compiler takes them.
#include "compiler/graph/turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "compiler/graph/evaluate.h"
#include "compiler/lowering/lowered.h"
#include "tests/unit/compiler/cases.h"
#include "tests/unit/compiler/chip.h"
#include "tests/unit/compiler/cut_nets.h"

namespace npu::test {
namespace {

using compiler::Compiled;
using compiler::TakeTurns;
using graph::Graph;
using graph::Tensor;
using graph::Turns;

constexpr int64_t kSizes[] = {int64_t{64} << 10, int64_t{8} << 20};

std::string lines_in_turns(const OnnxBuilder &b, const std::vector<Turns> &runs) {
  Graph turned;
  EXPECT_EQ(graph::take_turns(import_graph(b.bytes()), runs, turned).message(), "");
  return node_lines(turned);
}

/// A window with a halo behind an element-wise node.
OnnxBuilder relu_and_pool() {
  OnnxBuilder b;
  const std::string x = b.op("Relu", {b.input({2, 2, 4, 4}, "x")});
  const std::string y = b.op("MaxPool", {x});
  b.attr("kernel_shape", Dims{3, 3}).attr("pads", Dims{1, 1, 1, 1});
  b.output(y);
  return b;
}

TEST(Turns, PicturesOfABatchFollowEachOther) {
  EXPECT_EQ(lines_in_turns(relu_and_pool(), {{0, 2, 0, 2, {}}}),
            "x#1: float32 [1, 2, 4, 4] = Slice(x#0) start=[0, 0, 0, 0] step=[1, 1, 1, 1] count=[1, 2, 4, 4]\n"
            "t1#2: float32 [1, 2, 4, 4] = Unary(x#1) kind=Relu\n"
            "t2#3: float32 [1, 2, 4, 4] = Pool(t1#2) kernel=[3, 3] begin=[1, 1] end=[1, 1] counted_end=[1, 1]\n"
            "x#4: float32 [1, 2, 4, 4] = Slice(x#0) start=[1, 0, 0, 0] step=[1, 1, 1, 1] count=[1, 2, 4, 4]\n"
            "t1#5: float32 [1, 2, 4, 4] = Unary(x#4) kind=Relu\n"
            "t2#6: float32 [1, 2, 4, 4] = Pool(t1#5) kernel=[3, 3] begin=[1, 1] end=[1, 1] counted_end=[1, 1]\n"
            "t2#7: float32 [2, 2, 4, 4] = Concat(t2#3, t2#6)\noutput t2 = t2#7\n");
}

TEST(Turns, RowsThatTwoPiecesNeedAreComputedTwice) {
  EXPECT_EQ(lines_in_turns(relu_and_pool(), {{0, 2, 2, 2, {}}}),
            "x#1: float32 [2, 2, 3, 4] = Slice(x#0) start=[0, 0, 0, 0] step=[1, 1, 1, 1] count=[2, 2, 3, 4]\n"
            "t1#2: float32 [2, 2, 3, 4] = Unary(x#1) kind=Relu\n"
            "t2#3: float32 [2, 2, 2, 4] = Pool(t1#2) kernel=[3, 3] begin=[1, 1] end=[0, 1] counted_end=[0, 1]\n"
            "x#4: float32 [2, 2, 3, 4] = Slice(x#0) start=[0, 0, 1, 0] step=[1, 1, 1, 1] count=[2, 2, 3, 4]\n"
            "t1#5: float32 [2, 2, 3, 4] = Unary(x#4) kind=Relu\n"
            "t2#6: float32 [2, 2, 2, 4] = Pool(t1#5) kernel=[3, 3] begin=[0, 1] end=[1, 1] counted_end=[1, 1]\n"
            "t2#7: float32 [2, 2, 4, 4] = Concat(t2#3, t2#6) axis=2\noutput t2 = t2#7\n");
}

/// What others read of a run is each piece's own part; what the piece reads itself is copied there.
TEST(Turns, WhatOthersReadIsPutTogether) {
  OnnxBuilder b = relu_and_pool();
  b.output("t1");
  EXPECT_EQ(lines_in_turns(b, {{0, 2, 0, 2, {}}}),
            "x#1: float32 [1, 2, 4, 4] = Slice(x#0) start=[0, 0, 0, 0] step=[1, 1, 1, 1] count=[1, 2, 4, 4]\n"
            "t1#2: float32 [1, 2, 4, 4] = Unary(x#1) kind=Relu\n"
            "t1#3: float32 [1, 2, 4, 4] = Slice(t1#2) start=[0, 0, 0, 0] step=[1, 1, 1, 1] count=[1, 2, 4, 4]\n"
            "t2#4: float32 [1, 2, 4, 4] = Pool(t1#2) kernel=[3, 3] begin=[1, 1] end=[1, 1] counted_end=[1, 1]\n"
            "x#5: float32 [1, 2, 4, 4] = Slice(x#0) start=[1, 0, 0, 0] step=[1, 1, 1, 1] count=[1, 2, 4, 4]\n"
            "t1#6: float32 [1, 2, 4, 4] = Unary(x#5) kind=Relu\n"
            "t1#7: float32 [1, 2, 4, 4] = Slice(t1#6) start=[0, 0, 0, 0] step=[1, 1, 1, 1] count=[1, 2, 4, 4]\n"
            "t2#8: float32 [1, 2, 4, 4] = Pool(t1#6) kernel=[3, 3] begin=[1, 1] end=[1, 1] counted_end=[1, 1]\n"
            "t1#9: float32 [2, 2, 4, 4] = Concat(t1#3, t1#7)\n"
            "t2#10: float32 [2, 2, 4, 4] = Concat(t2#4, t2#8)\noutput t2 = t2#10\noutput t1 = t1#9\n");
}

/// A node that needs all of what the run makes cannot be in it.
TEST(Turns, WhatNeedsAllEndsARun) {
  OnnxBuilder b;
  const std::string x = b.op("Relu", {b.input({1, 2, 8, 8})});
  b.output(b.op("Relu", {b.op("GlobalAveragePool", {x})}));
  Graph turned;
  const Graph g = import_graph(b.bytes());
  EXPECT_EQ(graph::take_turns(g, {{0, 2, 2, 2, {}}}, turned).message(), "node 1 cannot be computed in turns");
  EXPECT_EQ(graph::longest_runs(g), (std::vector<Turns>{{0, 3, 1, 2, {}}})) << "channels do not depend on each other";
}

/// Results of several ranks that others read, too. The last has more pieces than the others have rows: some of their
/// pieces need nothing.
OnnxBuilder ranks() {
  OnnxBuilder b;
  const std::string x = b.op("Relu", {b.input({1, 2, 3})});
  b.output(x).output(b.op("Sigmoid", {b.op("Reshape", {x, b.ints({1, 1, 2, 3})})}));
  b.output(b.op("Relu", {b.input({1, 1, 6})}));
  return b;
}

TEST(Turns, PiecesTogetherAreTheWhole) {
  std::mt19937_64 random(1);
  size_t taken = 0, long_ones = 0;
  for (const OnnxBuilder &b : {pictures(), pictures(3), matrices(), made_weights(), ranks()}) {
    const Graph g = import_graph(b.bytes());
    const std::vector<Tensor> inputs = random_inputs(g);
    std::vector<Tensor> want, got;
    ASSERT_TRUE(graph::evaluate_graph(g, inputs, want).ok());
    for (int i = 0; i < 400; ++i) {
      const size_t begin = random() % g.nodes.size(), end = begin + 1 + random() % (g.nodes.size() - begin);
      const graph::Shape &shape = g[g.nodes[end - 1].output].shape;
      const size_t axis = random() % shape.size();
      const Turns run{begin, end, static_cast<int>(axis), 2 + static_cast<int64_t>(random() % 6), {}};
      Graph turned;
      const Status status = graph::take_turns(g, {run}, turned);
      if (!status.ok()) {
        ASSERT_NE(status.message().find("cannot be computed in turns"), std::string::npos) << status.message();
        continue;
      }
      ++taken;
      long_ones += end - begin > 3;
      ASSERT_TRUE(graph::evaluate_graph(turned, inputs, got).ok());
      for (size_t k = 0; k < want.size(); ++k) expect_close(got[k], want[k]);
    }
  }
  EXPECT_GT(taken, 400u);
  EXPECT_GT(long_ones, 100u);
}

/// A long chain whose nodes all read what the first one makes.
TEST(Turns, RunsAreLookedForUpToTheEndOfALongNetwork) {
  OnnxBuilder b;
  const std::string first = b.op("Relu", {b.input({1, 8, 128, 128})});
  std::string x = first;
  for (int i = 0; i < 1000; ++i) x = b.op("Add", {b.op("Tanh", {x}), first});
  b.output(x);
  const Graph g = import_graph(b.bytes());
  const auto found = graph::find_turns(g, g.nodes.size(), int64_t{256} << 10);
  ASSERT_FALSE(found.empty());
  for (const graph::TurnsFound &f : found) {
    EXPECT_LE(f.runs.front().begin, 1u);
    EXPECT_EQ(f.runs.back().end, g.nodes.size());
  }
}

TEST(Turns, WeightsOfAllPiecesAreOne) {
  const Graph g = import_graph(pictures(3).bytes());
  Graph turned;
  ASSERT_TRUE(graph::take_turns(g, {{0, 4, 0, 3, {}}}, turned).ok());
  std::set<const Tensor *> before, after;
  for (const graph::Value &v : g.values)
    if (v.constant) before.insert(v.constant.get());
  for (const graph::Value &v : turned.values)
    if (v.constant) after.insert(v.constant.get());
  EXPECT_TRUE(std::includes(before.begin(), before.end(), after.begin(), after.end()));
}

TEST(Turns, ResultsGoToMemoryWhereTheRunSaysSo) {
  for (bool to_memory : {false, true}) {
    Turns run{0, 1, 0, 2, {}};
    if (to_memory) run.to_memory = {0};
    Graph turned;
    ASSERT_TRUE(graph::take_turns(import_graph(relu_and_pool().bytes()), {run}, turned).ok());
    compiler::Lowered lowered;
    ASSERT_TRUE(compiler::lower(turned, lowered).ok());
    const auto shared = std::count_if(lowered.storages.begin(), lowered.storages.end(),
                                      [](const compiler::Storage &s) { return s.shared; });
    EXPECT_EQ(shared, to_memory ? 1 : 0);
    std::set<int> places;
    for (const compiler::LoweredOp &op : lowered.ops)
      if (op.as<compiler::UnaryOp>()) places.insert(op.out.storage);
    EXPECT_EQ(places.size(), 1u) << "each piece is computed into its place";
  }
}

Compiled compile(const OnnxBuilder &b, int64_t lmem, TakeTurns turns) {
  compiler::Options options;
  options.lmem_bytes = lmem;
  options.turns = turns;
  Compiled compiled;
  const std::string file = b.bytes();
  EXPECT_EQ(compiler::compile_onnx(file.data(), file.size(), options, compiled).message(), "");
  return compiled;
}

void expect_right(const OnnxBuilder &b, const Compiled &compiled, int64_t lmem) {
  const Graph g = import_graph(b.bytes());
  const std::vector<Tensor> inputs = random_inputs(g);
  std::vector<Tensor> want;
  ASSERT_TRUE(graph::evaluate_graph(g, inputs, want).ok());
  const StageResult result = run_stage(compiled.net.stages[0], inputs, lmem);
  ASSERT_EQ(result.error, "");
  EXPECT_EQ(result.cycles, compiled.net.stages[0].cycles);
  for (size_t k = 0; k < want.size(); ++k)
    EXPECT_EQ(compare(floats(result.outputs[k]), floats(want[k])), "") << "output " << k;
}

TEST(TakeTurns, ComputeTheSameOnTheChip) {
  for (const OnnxBuilder &b : {pictures(), pictures(3), matrices(), made_weights()})
    for (int64_t lmem : kSizes) {
      const Compiled compiled = compile(b, lmem, TakeTurns::Always);
      EXPECT_FALSE(compiled.report.turns.runs.empty());
      expect_right(b, compiled, lmem);
    }
}

/// Convolutions and a skip connection over all but the first; `side` rows and columns of 8 channels.
OnnxBuilder large(int64_t batch, int64_t side) {
  OnnxBuilder b;
  std::string x = b.input({batch, 8, side, side});
  std::string skip;
  for (int i = 0; i < 4; ++i) {
    x = b.op("Relu", {conv(b, x, {8, 8, 3, 3}, {1, 1}, {1, 1, 1, 1})});
    if (i == 0) skip = x;
  }
  b.output(b.op("Add", {x, skip}));
  return b;
}

bool same_program(const Compiled &a, const Compiled &b) {
  const bmodel::StageDesc &x = a.net.stages[0], &y = b.net.stages[0];
  return x.tiu == y.tiu && x.gdma == y.gdma && x.coeff == y.coeff;
}

TEST(TakeTurns, RowsWhereTheResultsOfOnePictureAreTooLarge) {
  const OnnxBuilder b = large(1, 96);
  const Compiled plain = compile(b, kSizes[0], TakeTurns::Never), turned = compile(b, kSizes[0], TakeTurns::Faster);
  EXPECT_TRUE(plain.report.turns.runs.empty());
  ASSERT_FALSE(turned.report.turns.runs.empty());
  EXPECT_EQ(turned.report.turns.runs[0].axis, 2);
  EXPECT_LT(turned.net.stages[0].cycles, plain.net.stages[0].cycles);
  EXPECT_LT(turned.report.turns.bytes, turned.report.turns.plain_bytes);
  EXPECT_EQ(turned.report.turns.plain_cycles, plain.net.stages[0].cycles);
  EXPECT_EQ(turned.report.turns.cycles, turned.net.stages[0].cycles);
  EXPECT_EQ(turned.report.macs, plain.report.macs) << "rows that are computed twice are no work of the network";
  EXPECT_NE(turned.report.text().find("turns          "), std::string::npos) << turned.report.text();
  expect_right(b, turned, kSizes[0]);
}

TEST(TakeTurns, PicturesWhereTheResultsOfTheBatchAreTooLarge) {
  const OnnxBuilder b = large(8, 16);
  const Compiled plain = compile(b, kSizes[0], TakeTurns::Never), turned = compile(b, kSizes[0], TakeTurns::Faster);
  ASSERT_EQ(turned.report.turns.runs.size(), 1u);
  EXPECT_EQ(turned.report.turns.runs[0].axis, 0);
  EXPECT_LT(turned.net.stages[0].cycles, plain.net.stages[0].cycles * 3 / 4);
  EXPECT_EQ(turned.report.turns.bytes, 0u);
  EXPECT_LE(turned.net.stages[0].coeff.size(), plain.net.stages[0].coeff.size()) << "weights stand there once";
  expect_right(b, turned, kSizes[0]);
}

TEST(TakeTurns, RowsOfEachPictureOfABatch) {
  const OnnxBuilder b = large(2, 96);
  const Compiled turned = compile(b, kSizes[0], TakeTurns::Faster);
  const auto &runs = turned.report.turns.runs;
  ASSERT_GT(runs.size(), 1u);
  EXPECT_EQ(runs[0].axis, 0);
  EXPECT_EQ(runs[1].axis, 2);
  EXPECT_EQ(runs[1].repeats, 2);
  EXPECT_LT(turned.net.stages[0].cycles, compile(b, kSizes[0], TakeTurns::Never).net.stages[0].cycles);
  expect_right(b, turned, kSizes[0]);
}

TEST(TakeTurns, NothingChangesWhereResultsStayInLocalMemory) {
  for (const OnnxBuilder &b : {pictures(), matrices(), large(1, 96)}) {
    const Compiled plain = compile(b, kSizes[1], TakeTurns::Never), now = compile(b, kSizes[1], TakeTurns::Faster);
    EXPECT_TRUE(now.report.turns.runs.empty());
    EXPECT_TRUE(same_program(plain, now));
    EXPECT_EQ(now.report.text().find("turns "), std::string::npos);
  }
}

/// A loop over each row of a matrix would have millions of nodes, and take all memory there is.
TEST(TakeTurns, RowsOfAMatrixAreNoPictures) {
  OnnxBuilder b;
  std::string x = b.input({1'000'000, 32});
  for (const char *op : {"Sigmoid", "Tanh", "Sigmoid", "Tanh"}) x = b.op(op, {x});
  b.output(x);
  const Compiled turned = compile(b, int64_t{1} << 20, TakeTurns::Faster);
  ASSERT_FALSE(turned.report.turns.runs.empty());
  for (const compiler::RunReport &run : turned.report.turns.runs) EXPECT_LT(run.count, 10'000);
  EXPECT_LT(turned.net.stages[0].cycles, turned.report.turns.plain_cycles);
}

/// A search looks for schedules of the network in turns.
TEST(TakeTurns, ASearchBeginsWithThem) {
  const OnnxBuilder b = large(8, 16);
  compiler::Options options;
  options.lmem_bytes = kSizes[0];
  options.optimize = [](const compiler::SearchState &s) { return s.tried < 40; };
  Compiled found;
  const std::string file = b.bytes();
  ASSERT_TRUE(compiler::compile_onnx(file.data(), file.size(), options, found).ok());
  EXPECT_EQ(found.report.search.programs, 1u);
  EXPECT_EQ(found.report.search.plain_cycles, compile(b, kSizes[0], TakeTurns::Faster).net.stages[0].cycles);
  EXPECT_LE(found.net.stages[0].cycles, found.report.search.plain_cycles);
  expect_right(b, found, kSizes[0]);
}

/// What a node has that ends a run need not have the dimension along which another one is cut.
TEST(TakeTurns, ResultsOfFewDimensions) {
  OnnxBuilder b;
  const std::string x = b.op("Relu", {conv(b, b.input({2, 11, 36, 83}), {11, 11, 3, 3}, {1, 1}, {1, 1, 1, 1})});
  const std::string y = b.op("ReduceMean", {x});
  b.attr("keepdims", int64_t{0});
  b.output(y);
  for (TakeTurns turns : {TakeTurns::Faster, TakeTurns::Always})
    expect_right(b, compile(b, kSizes[0], turns), kSizes[0]);
}

}  // namespace
}  // namespace npu::test
