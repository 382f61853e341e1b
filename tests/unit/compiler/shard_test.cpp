// SPDX-License-Identifier: MIT
// Networks on several cores: the graphs of the cores against the whole one, their programs on the chip model, and what
// orders them.
#include "compiler/graph/shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <set>

#include "compiler/graph/evaluate.h"
#include "compiler/schedule/check_sync.h"
#include "tests/unit/compiler/cases.h"
#include "tests/unit/compiler/chip.h"
#include "tests/unit/compiler/cut_nets.h"

namespace npu::test {
namespace {

using graph::Cuts;
using graph::Graph;
using graph::Port;
using graph::Sharded;
using graph::Tensor;
using graph::ValueId;

constexpr int64_t kSizes[] = {int64_t{64} << 10, int64_t{8} << 20};

/// Plays the graphs of all cores: what one writes another reads as soon as all that is written of it is there.
class Together {
 public:
  Together(const Graph &whole, const Sharded &sharded, const std::vector<Tensor> &inputs)
      : sharded_(sharded), exchanges_(sharded.exchanges.size()), missing_(sharded.exchanges.size()) {
    for (ValueId v : whole.outputs) outputs.push_back(filled(whole[v].shape));
    for (const graph::CoreGraph &core : sharded.cores) {
      cores_.emplace_back(core.graph.values.size());
      for (size_t k = 0; k < core.inputs.size(); ++k)
        if (!core.inputs[k].exchange)
          value(cores_.size() - 1, core.graph.inputs[k]) = inputs[static_cast<size_t>(core.inputs[k].index)];
      for (const Port &p : core.outputs) {
        if (!p.exchange) continue;
        exchanges_[static_cast<size_t>(p.index)] = filled(p.whole);
        ++missing_[static_cast<size_t>(p.index)];
      }
    }
    next_.resize(cores_.size());
  }

  /// Whether all cores come to their end.
  bool run() {
    for (size_t c = 0; c < cores_.size(); ++c)
      for (size_t k = 0; k < sharded_.cores[c].outputs.size(); ++k)
        if (at(c, sharded_.cores[c].graph.outputs[k])) write(c, k);  // an input or a constant
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t c = 0; c < cores_.size(); ++c)
        while (step(c)) moved = true;
    }
    for (size_t c = 0; c < cores_.size(); ++c)
      if (next_[c] < sharded_.cores[c].graph.nodes.size()) return false;
    return true;
  }

  std::vector<Tensor> outputs;

 private:
  static Tensor filled(const graph::Shape &shape) {
    Tensor t(graph::Dtype::F32, shape);
    std::fill_n(t.as<float>(), t.count(), std::nanf(""));
    return t;
  }

  std::optional<Tensor> &value(size_t c, ValueId v) { return cores_[c][static_cast<size_t>(v)]; }

  const Tensor *at(size_t c, ValueId v) {
    const graph::CoreGraph &core = sharded_.cores[c];
    if (core.graph.is_constant(v)) return core.graph[v].constant.get();
    for (size_t k = 0; k < core.inputs.size(); ++k)
      if (core.graph.inputs[k] == v && core.inputs[k].exchange) {
        const auto e = static_cast<size_t>(core.inputs[k].index);
        return missing_[e] ? nullptr : &exchanges_[e];
      }
    return value(c, v) ? &*value(c, v) : nullptr;
  }

  bool step(size_t c) {
    const Graph &g = sharded_.cores[c].graph;
    if (next_[c] == g.nodes.size()) return false;
    const graph::Node &n = g.nodes[next_[c]];
    std::vector<const Tensor *> operands;
    for (ValueId v : n.inputs) {
      operands.push_back(v == graph::kNoValue ? nullptr : at(c, v));
      if (v != graph::kNoValue && !operands.back()) return false;
    }
    Tensor out(g[n.output].dtype, g[n.output].shape);
    EXPECT_TRUE(cpu::evaluate(n.op, n.attrs, operands, out).ok());
    value(c, n.output) = std::move(out);
    ++next_[c];
    for (size_t k = 0; k < g.outputs.size(); ++k)
      if (g.outputs[k] == n.output) write(c, k);
    return true;
  }

  void write(size_t c, size_t k) {
    const Port &port = sharded_.cores[c].outputs[k];
    const auto index = static_cast<size_t>(port.index);
    Tensor &to = port.exchange ? exchanges_[index] : outputs[index];
    const Tensor &part = *at(c, sharded_.cores[c].graph.outputs[k]);
    const std::vector<int64_t> strides = graph::dense_strides(to.shape);
    graph::Shape at_index(part.shape.size());
    for (int64_t i = 0; i < part.count(); ++i) {
      int64_t place = 0;
      for (size_t d = 0; d < at_index.size(); ++d) place += (port.begin[d] + at_index[d]) * strides[d];
      to.as<float>()[place] = part.as<float>()[i];
      for (size_t d = at_index.size(); d-- > 0;) {
        if (++at_index[d] < part.shape[d]) break;
        at_index[d] = 0;
      }
    }
    if (port.exchange) --missing_[index];
  }

  const Sharded &sharded_;
  std::vector<std::vector<std::optional<Tensor>>> cores_;
  std::vector<size_t> next_;
  std::vector<Tensor> exchanges_;
  std::vector<int> missing_;  ///< parts that are not written yet
};

Cuts random_cuts(const Graph &g, int cores, std::mt19937_64 &random) {
  Cuts cuts{cores, {}};
  for (const graph::Node &n : g.nodes) {
    const auto axis = static_cast<int>(random() % 5) - 1;
    cuts.axis.push_back(graph::can_cut(g, n, axis, cores) ? axis : graph::kWhole);
  }
  return cuts;
}

TEST(Shard, PartsTogetherAreTheWhole) {
  std::mt19937_64 random(1);
  size_t exchanges = 0;
  for (const OnnxBuilder &b : {pictures(), pictures(3), matrices(), made_weights()}) {
    const Graph g = import_graph(b.bytes());
    const std::vector<Tensor> inputs = random_inputs(g);
    std::vector<Tensor> want;
    ASSERT_TRUE(graph::evaluate_graph(g, inputs, want).ok());
    for (int i = 0; i < 30; ++i) {
      const Cuts cuts = random_cuts(g, 2 + i % 4, random);
      Sharded sharded;
      ASSERT_EQ(graph::shard(g, cuts, sharded).message(), "");
      exchanges += sharded.exchanges.size();
      Together together(g, sharded, inputs);
      ASSERT_TRUE(together.run()) << "the cores wait for each other";
      for (size_t k = 0; k < want.size(); ++k) expect_close(together.outputs[k], want[k]);
    }
  }
  EXPECT_GT(exchanges, 300u);
}

TEST(Shard, RowsGetTheRowsOfTheirNeighbours) {
  OnnxBuilder b;
  const std::string x = b.op("Relu", {b.input({1, 2, 8, 4}, "x")});
  const std::string y = b.op("MaxPool", {x});
  b.attr("kernel_shape", Dims{3, 3}).attr("pads", Dims{1, 1, 1, 1});
  b.output(y);
  const Graph g = import_graph(b.bytes());
  Sharded sharded;
  ASSERT_TRUE(graph::shard(g, {2, {2, 2}}, sharded).ok());
  EXPECT_EQ(node_lines(sharded.cores[0].graph),
            "x#1: float32 [1, 2, 4, 4] = Slice(x#0) start=[0, 0, 0, 0] step=[1, 1, 1, 1] count=[1, 2, 4, 4]\n"
            "t1#2: float32 [1, 2, 4, 4] = Unary(x#1) kind=Relu\n"
            "t1#3: float32 [1, 2, 1, 4] = Slice(t1#2) start=[0, 0, 3, 0] step=[1, 1, 1, 1] count=[1, 2, 1, 4]\n"
            "t1#5: float32 [1, 2, 1, 4] = Slice(t1#4) start=[0, 0, 1, 0] step=[1, 1, 1, 1] count=[1, 2, 1, 4]\n"
            "t1#6: float32 [1, 2, 5, 4] = Concat(t1#2, t1#5) axis=2\n"
            "t2: float32 [1, 2, 4, 4] = Pool(t1#6) kernel=[3, 3] begin=[1, 1] end=[0, 1] counted_end=[0, 1]\n"
            "output t1 = t1#3\noutput t2 = t2\n");
  ASSERT_EQ(sharded.exchanges, std::vector<int64_t>{16 * 4}) << "bytes of a row of each";
  const Port &out = sharded.cores[1].outputs[0];
  EXPECT_TRUE(out.exchange);
  EXPECT_EQ(out.begin, (std::vector<int64_t>{0, 0, 1, 0}));
  EXPECT_EQ(out.order, (std::vector<int>{2, 0, 3, 1}));
}

TEST(Shard, ConstantsOfEqualPartsAreOne) {
  const Graph g = import_graph(pictures().bytes());
  Cuts rows{2, {}};
  for (const graph::Node &n : g.nodes) rows.axis.push_back(graph::can_cut(g, n, 2, 2) ? 2 : graph::kWhole);
  Sharded sharded;
  ASSERT_TRUE(graph::shard(g, rows, sharded).ok());
  std::set<const Tensor *> of_core[2];
  for (size_t c = 0; c < 2; ++c)
    for (const graph::Value &v : sharded.cores[c].graph.values)
      if (v.constant) of_core[c].insert(v.constant.get());
  // What cannot be cut at the end is the first core's alone.
  EXPECT_TRUE(std::includes(of_core[0].begin(), of_core[0].end(), of_core[1].begin(), of_core[1].end()));
}

compiler::Compiled compile(const OnnxBuilder &b, int cores, int64_t lmem, bool all) {
  compiler::Options options;
  options.lmem_bytes = lmem;
  options.cores = cores;
  options.all_cores = all;
  compiler::Compiled compiled;
  const std::string file = b.bytes();
  const Status status = compiler::compile_onnx(file.data(), file.size(), options, compiled);
  EXPECT_EQ(status.message(), "");
  return compiled;
}

TEST(Cores, ComputeTheSameOnTheChip) {
  for (const OnnxBuilder &b : {pictures(), pictures(3), matrices(), made_weights()}) {
    const Graph g = import_graph(b.bytes());
    const std::vector<Tensor> inputs = random_inputs(g);
    std::vector<Tensor> want;
    ASSERT_TRUE(graph::evaluate_graph(g, inputs, want).ok());
    for (int64_t lmem : kSizes)
      for (int cores : {2, 5}) {
        const compiler::Compiled compiled = compile(b, cores, lmem, true);
        const bmodel::StageDesc &stage = compiled.net.stages[0];
        EXPECT_EQ(stage.more_cores.size() + 1, static_cast<size_t>(cores));
        const StageResult result = run_stage(stage, inputs, lmem);
        ASSERT_EQ(result.error, "") << cores << " cores, local memory " << lmem;
        EXPECT_EQ(result.cycles, stage.cycles);
        for (size_t k = 0; k < want.size(); ++k)
          EXPECT_EQ(compare(floats(result.outputs[k]), floats(want[k])), "") << "output " << k;
      }
  }
}

/// A network with arithmetic for more than one core.
OnnxBuilder large() {
  OnnxBuilder b;
  std::string x = b.input({1, 64, 56, 56});
  for (int i = 0; i < 4; ++i) x = b.op("Relu", {conv(b, x, {64, 64, 3, 3}, {1, 1}, {1, 1, 1, 1})});
  b.output(x);
  return b;
}

TEST(Cores, AreUsedWhereTheyAreFaster) {
  const compiler::Compiled one = compile(large(), 1, kSizes[1], false), two = compile(large(), 2, kSizes[1], false);
  EXPECT_EQ(two.report.cores, 2u);
  EXPECT_LT(two.net.stages[0].cycles, one.net.stages[0].cycles * 7 / 10);
  // What both read stands in the file once.
  EXPECT_LE(two.net.stages[0].coeff.size(), one.net.stages[0].coeff.size());
  OnnxBuilder tiny;
  tiny.output(tiny.op("Relu", {tiny.input({1, 4})}));
  EXPECT_EQ(compile(tiny, 2, kSizes[1], false).report.cores, 1u);
  EXPECT_TRUE(compile(tiny, 2, kSizes[1], false).net.stages[0].more_cores.empty());
}

Status check(const bmodel::StageDesc &stage) {
  std::vector<compiler::EncodedCore> cores{{stage.tiu, stage.gdma}};
  for (const bmodel::CoreDesc &core : stage.more_cores) cores.push_back({core.tiu, core.gdma});
  std::vector<uint8_t> outputs;
  for (size_t r = 0; r < stage.regions.size(); ++r)
    if (stage.regions[r].kind == NPU_PROGRAM_OUTPUT) outputs.push_back(static_cast<uint8_t>(r));
  return compiler::check_sync(cores, outputs);
}

/// Calls f with each SEM_WAIT or SEM_SIGNAL of a stage.
template <class T, class F>
void for_semaphores(bmodel::StageDesc &stage, uint8_t opcode, F f) {
  for (size_t c = 0; c <= stage.more_cores.size(); ++c) {
    std::vector<uint8_t> &gdma = c ? stage.more_cores[c - 1].gdma : stage.gdma;
    for (size_t at = 0; at < gdma.size(); at += NPU_CMD_BYTES)
      if (gdma[at] == opcode) f(*reinterpret_cast<T *>(gdma.data() + at));
  }
}

/// Each wait in turn asks for less, or for what its own core has written.
TEST(Cores, EverySemaphoreThatIsTakenAwayIsFound) {
  bmodel::StageDesc stage = compile(large(), 2, kSizes[1], true).net.stages[0];
  EXPECT_EQ(check(stage).message(), "");
  size_t less = 0, own = 0;
  for_semaphores<npu_cmd_sem_wait>(stage, NPU_OP_SEM_WAIT, [&](npu_cmd_sem_wait &wait) {
    const npu_cmd_sem_wait right = wait;
    if (wait.value > 1) {
      --wait.value;
      ++less;
    } else {
      wait.sem = 1 - wait.sem;
      ++own;
    }
    EXPECT_NE(check(stage).message().find("no wait orders"), std::string::npos) << right.sem << " " << right.value;
    wait = right;
  });
  EXPECT_GT(less, 3u);
  EXPECT_EQ(own, 2u);
  EXPECT_EQ(check(stage).message(), "");
}

/// Parts of an output that lie between each other in small pieces: the first core writes it alone.
TEST(Cores, ManyPiecesOfAnOutputAreOnesOwn) {
  OnnxBuilder b;
  std::string x = b.input({70000, 8});
  for (int i = 0; i < 20; ++i) {
    x = b.op("Softmax", {x});
    b.attr("axis", int64_t{0});
  }
  b.output(x);
  const compiler::Compiled compiled = compile(b, 2, kSizes[1], false);
  EXPECT_EQ(compiled.report.cores, 2u);
  const std::vector<Tensor> inputs = random_inputs(import_graph(b.bytes()));
  const StageResult result = run_stage(compiled.net.stages[0], inputs, kSizes[1]);
  ASSERT_EQ(result.error, "");
  for (float v : floats(result.outputs[0])) ASSERT_NEAR(v, 1.0f / 70000, 1e-8);
}

TEST(Cores, ASemaphoreThatTwoSignalIsRefused) {
  bmodel::StageDesc stage = compile(large(), 2, kSizes[1], true).net.stages[0];
  for_semaphores<npu_cmd_sem_signal>(stage, NPU_OP_SEM_SIGNAL, [](npu_cmd_sem_signal &signal) { signal.sem = 0; });
  EXPECT_NE(check(stage).message().find("semaphore 0 is signalled by core 1's GDMA and by core 0's GDMA"),
            std::string::npos)
      << check(stage).message();
}

TEST(Cores, NumbersOutOfRangeAreRefused) {
  for (int cores : {0, -1, 9}) {
    compiler::Options options;
    options.cores = cores;
    compiler::Compiled compiled;
    const std::string file = pictures().bytes();
    EXPECT_EQ(compiler::compile_onnx(file.data(), file.size(), options, compiled).message(),
              std::to_string(cores) + " cores: 1 to 8 are expected");
  }
}

}  // namespace
}  // namespace npu::test
