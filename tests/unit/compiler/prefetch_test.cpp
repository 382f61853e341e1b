// SPDX-License-Identifier: MIT
// Weights that come into local memory ahead of their readers, convolutions of few channels, and sums.
#include "compiler/schedule/prefetch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "compiler/graph/evaluate.h"
#include "compiler/import/importer.h"
#include "compiler/schedule/accesses.h"
#include "compiler/schedule/bind.h"
#include "compiler/schedule/schedule.h"
#include "tests/unit/compiler/cases.h"
#include "tests/unit/compiler/chip.h"
#include "tests/unit/compiler/onnx_builder.h"

namespace npu::test {
namespace {

using compiler::Command;
using compiler::Generated;
using compiler::Lowered;
using compiler::Prefetched;

constexpr int64_t kSizes[] = {int64_t{64} << 10, int64_t{256} << 10, int64_t{8} << 20};

/// A picture that keeps the arithmetic busy, then layers with many weights for few pixels.
OnnxBuilder heavy() {
  OnnxBuilder b;
  const auto conv = [&](const std::string &x, int64_t from, int64_t to, int64_t kernel, int64_t stride) {
    const std::string y = b.op("Conv", {x, b.weights({to, from, kernel, kernel}), b.weights({to})});
    b.attr("strides", Dims{stride, stride}).attr("pads", Dims(4, kernel / 2));
    return b.op("Relu", {y});
  };
  std::string x = conv(b.input({1, 32, 24, 24}), 32, 32, 3, 1);
  x = conv(x, 32, 32, 3, 1);
  x = conv(x, 32, 64, 3, 4);
  x = conv(x, 64, 96, 3, 2);
  x = conv(x, 96, 128, 1, 1);
  b.output(b.op("MatMul", {b.op("Flatten", {x}), b.weights({128 * 9, 40})}));
  return b;
}

void make_graph(const OnnxBuilder &b, graph::Graph &g) { g = import_graph(b.bytes()); }

void make_commands(const OnnxBuilder &b, int64_t lmem, Lowered &lowered, Generated &out) {
  graph::Graph g;
  make_graph(b, g);
  ASSERT_TRUE(compiler::lower(g, lowered).ok());
  const Status status = compiler::generate(lowered, g.sources, {.lmem_bytes = lmem, .weight_block = lmem / 8}, out);
  ASSERT_TRUE(status.ok()) << status.message();
}

uint64_t cycles_of(const Lowered &lowered, std::vector<Command> commands) {
  compiler::Bound bound;
  EXPECT_TRUE(compiler::bind_memory({lowered}, {}, lowered.coeff.end(), commands, bound).ok());
  return compiler::schedule(commands).timeline.cycles;
}

bmodel::StageDesc compile(const OnnxBuilder &b, int64_t lmem) {
  compiler::Options options;
  options.lmem_bytes = lmem;
  compiler::Compiled out;
  const std::string file = b.bytes();
  const Status status = compiler::compile_onnx(file.data(), file.size(), options, out);
  EXPECT_TRUE(status.ok()) << status.message();
  return status.ok() ? out.net.stages[0] : bmodel::StageDesc{};
}

/// Outputs of the evaluator and of the chip for the same inputs.
struct Results {
  std::vector<std::vector<float>> want, got;
};

void run_both(const OnnxBuilder &b, int64_t lmem, Results &out) {
  graph::Graph g;
  make_graph(b, g);
  std::vector<graph::Tensor> inputs, outputs;
  std::vector<std::vector<float>> values;
  uint32_t random = 7;
  for (graph::ValueId v : g.inputs) {
    auto &x = values.emplace_back(static_cast<size_t>(graph::element_count(g[v].shape)));
    for (float &f : x) f = static_cast<float>((random = random * 1664525u + 1013904223u) >> 8) / 8388608.0f - 1.0f;
    inputs.push_back(*graph::make_f32(g[v].shape, x));
  }
  ASSERT_TRUE(graph::evaluate_graph(g, inputs, outputs).ok());
  for (const graph::Tensor &t : outputs) out.want.emplace_back(t.as<float>(), t.as<float>() + t.count());
  const bmodel::StageDesc stage = compile(b, lmem);
  const ChipResult result = run_on_chip(stage, values, lmem);
  EXPECT_EQ(result.cycles, stage.cycles);
  out.got = result.outputs;
  ASSERT_EQ(out.got.size(), out.want.size());
}

TEST(Prefetch, BringsWeightsAheadAndSavesCycles) {
  // Of 256 KiB the tensors leave little room for weights.
  const std::pair<int64_t, uint64_t> least_gain[] = {{256 << 10, 50}, {8 << 20, 5}};
  for (const auto &[lmem, share] : least_gain) {
    Lowered lowered;
    Generated generated;
    make_commands(heavy(), lmem, lowered, generated);
    const Prefetched way = compiler::prefetch(generated, lmem, {});
    EXPECT_GE(way.blocks, 2u);
    const auto copies =
        std::count_if(way.commands.begin(), way.commands.end(), [](const Command &c) { return c.ahead; });
    EXPECT_EQ(way.commands.size(), generated.commands.size() + static_cast<size_t>(copies));
    EXPECT_LE(way.lmem_bytes, lmem);
    const uint64_t before = cycles_of(lowered, generated.commands), after = cycles_of(lowered, way.commands);
    EXPECT_LT(after + after / share, before);
  }
}

/// Between a copy and the last reader nothing but the copies themselves writes there, and each reader finds all that it
/// reads.
TEST(Prefetch, BlocksAreWholeWhenTheyAreRead) {
  for (int64_t lmem : kSizes)
    for (bool all : {false, true}) {
      Lowered lowered;
      Generated generated;
      make_commands(heavy(), lmem, lowered, generated);
      const Prefetched way = compiler::prefetch(generated, lmem, {.all = all, .judge = !all, .piece_bytes = 4096});
      std::map<int64_t, int64_t> there;  // address of a word of weights that is in local memory -> its coefficient
      size_t readers = 0, next = 0;
      for (const Command &c : way.commands) {
        const auto accesses = compiler::accesses_of(c);
        for (const compiler::Access &a : accesses)
          if (a.write && a.region == NPU_REGION_LOCAL) there.erase(there.lower_bound(a.low), there.lower_bound(a.high));
        if (c.ahead) {
          const auto &copy = std::get<npu_cmd_copy>(c.body);
          for (int64_t i = 0; i < copy.dims[5]; ++i)
            there[static_cast<int64_t>(copy.dst_offset) + 4 * i] = static_cast<int64_t>(copy.src_offset) + 4 * i;
          continue;
        }
        const Command &plain = generated.commands[next++];
        const auto check = [&](const auto &before, const auto &now) {
          if constexpr (requires { now.wgt_region; }) {
            if (before.wgt_region == now.wgt_region) return;
            ++readers;
            for (const compiler::Access &a : compiler::accesses_of(plain)) {
              if (a.region != before.wgt_region || a.low != static_cast<int64_t>(before.wgt_offset)) continue;
              for (int64_t i = 0; i < a.high - a.low; i += 4) {
                const auto at = there.find(static_cast<int64_t>(now.wgt_offset) + i);
                ASSERT_TRUE(at != there.end() && at->second == a.low + i) << "word " << i << " of the weights";
              }
            }
          }
        };
        std::visit([&](const auto &now) { check(std::get<std::decay_t<decltype(now)>>(plain.body), now); }, c.body);
      }
      EXPECT_GE(readers, way.blocks);
    }
}

/// Where something holds all of local memory all the time, or no block fits, nothing changes.
TEST(Prefetch, ChangesNothingWithoutRoom) {
  const int64_t lmem = 256 << 10;
  Lowered lowered;
  Generated generated;
  make_commands(heavy(), lmem, lowered, generated);
  const auto expect_same = [&](const Prefetched &way) {
    EXPECT_EQ(way.blocks, 0u);
    ASSERT_EQ(way.commands.size(), generated.commands.size());
    for (size_t i = 0; i < way.commands.size(); ++i)
      EXPECT_EQ(compiler::encode(way.commands[i]), compiler::encode(generated.commands[i])) << "command " << i;
  };
  expect_same(compiler::prefetch(generated, 64, {.all = true}));
  generated.holds.push_back({0, lmem, 0, generated.commands.size()});
  expect_same(compiler::prefetch(generated, lmem, {.all = true}));
}

/// Tiles that use the same weights share one copy of them.
TEST(Prefetch, LoadsABlockOnceForAllTiles) {
  OnnxBuilder b;
  std::string x = b.input({1, 32, 40, 40});
  for (int i = 0; i < 2; ++i) {
    x = b.op("Conv", {x, b.weights({32, 32, 3, 3})});
    b.attr("pads", Dims(4, 1));
  }
  b.output(b.op("MatMul", {b.op("Flatten", {b.op("GlobalAveragePool", {x})}), b.weights({32, 600})}));
  const int64_t lmem = 256 << 10;
  Lowered lowered;
  Generated generated;
  make_commands(b, lmem, lowered, generated);
  const Prefetched way = compiler::prefetch(generated, lmem, {.all = true, .judge = false});
  std::multiset<uint64_t> sources;
  size_t readers = 0;
  for (const Command &c : way.commands) {
    if (c.ahead) sources.insert(std::get<npu_cmd_copy>(c.body).src_offset);
    if (const auto *conv = std::get_if<npu_cmd_conv>(&c.body)) readers += conv->wgt_region == NPU_REGION_LOCAL;
  }
  EXPECT_GT(sources.size(), 0u);
  EXPECT_GT(readers, way.blocks);
  for (uint64_t offset : sources) EXPECT_EQ(sources.count(offset), 1u) << offset;
}

TEST(Prefetch, ChipAgreesWithEvaluator) {
  for (int64_t lmem : kSizes) {
    Results r;
    run_both(heavy(), lmem, r);
    ASSERT_FALSE(HasFatalFailure());
    for (size_t k = 0; k < r.want.size(); ++k) EXPECT_EQ(compare(r.got[k], r.want[k], 1e-4), "") << lmem;
  }
}

TEST(Prefetch, EqualInputGivesEqualBytes) {
  const bmodel::StageDesc a = compile(heavy(), 256 << 10), b = compile(heavy(), 256 << 10);
  EXPECT_EQ(a.tiu, b.tiu);
  EXPECT_EQ(a.gdma, b.gdma);
  EXPECT_EQ(a.coeff, b.coeff);
}

/// Few channels with strides, dilations, uneven and negative pads, pads larger than the picture, several pictures.
TEST(FewChannels, ChipAgreesWithEvaluator) {
  struct Conv {
    Dims x, w, pads, strides, dilations;
  };
  const Conv convs[] = {
      {{1, 3, 40, 37}, {32, 3, 3, 3}, {1, 1, 1, 1}, {1, 1}, {1, 1}},
      {{1, 3, 41, 40}, {32, 3, 7, 7}, {3, 2, 1, 4}, {2, 3}, {1, 1}},
      {{3, 1, 30, 30}, {64, 1, 5, 5}, {0, 0, 0, 0}, {1, 1}, {1, 1}},
      {{2, 5, 33, 20}, {16, 5, 3, 2}, {-1, 2, 3, -2}, {2, 1}, {2, 3}},
      {{1, 2, 3, 3}, {32, 2, 4, 4}, {9, 8, 7, 6}, {1, 1}, {1, 1}},
      {{1, 48, 14, 14}, {64, 48, 3, 3}, {1, 1, 1, 1}, {1, 1}, {1, 1}},
      {{1, 3, 1, 400}, {32, 3, 1, 9}, {0, 4, 0, 4}, {1, 2}, {1, 1}},
  };
  for (const Conv &c : convs)
    for (int64_t lmem : kSizes)
      for (bool resident : {false, true}) {
        OnnxBuilder b;
        std::string x = b.input(c.x);
        if (resident) x = b.op("Conv", {x, b.weights({c.x[1], c.x[1], 1, 1})});
        const std::string y = b.op("Conv", {x, b.weights(c.w), b.weights({c.w[0]})});
        b.attr("pads", c.pads).attr("strides", c.strides).attr("dilations", c.dilations);
        b.output(b.op("Relu", {y}));
        Results r;
        run_both(b, lmem, r);
        ASSERT_FALSE(HasFatalFailure());
        EXPECT_EQ(compare(r.got[0], r.want[0], 1e-4), "") << c.w[2] << " x " << c.w[3] << " in " << lmem;
      }
}

/// A window of 7 x 7 x 3 elements fills 5 blocks of 32 lanes to 92 %: a first layer comes close to its arithmetic.
TEST(FewChannels, FirstLayersUseTheArithmetic) {
  OnnxBuilder b;
  b.output(b.op("Conv", {b.input({1, 3, 112, 112}), b.weights({64, 3, 7, 7}), b.weights({64})}));
  const uint64_t macs = uint64_t{106 * 106} * 64 * 147, rate = 32 * 32 * 2;
  const uint64_t cycles = compile(b, 8 << 20).cycles;
  EXPECT_LT(cycles, macs / rate * 3 / 2);
  EXPECT_GE(cycles, uint64_t{106 * 106} * 5 * 2 / 2);
}

/// Convolutions of one pixel with few output channels: sizes that do not divide, several pictures, sums, no bias.
TEST(FewChannels, PackedPixelsAgreeWithEvaluator) {
  const Dims inputs[] = {{1, 16, 20, 20}, {3, 40, 7, 5}, {2, 3, 31, 64}, {1, 5, 1, 1}};
  for (const Dims &x : inputs)
    for (int64_t channels : {1, 3, 10, 16, 24, 58})
      for (int64_t lmem : kSizes) {
        OnnxBuilder b;
        const std::string in = b.op("Relu", {b.input(x)});
        const std::string y = b.op("Conv", {in, b.weights({channels, x[1], 1, 1}), b.weights({channels})});
        const std::string z = b.op("Conv", {in, b.weights({channels, x[1], 1, 1})});
        b.output(b.op("Tanh", {b.op("Add", {y, z})}));
        b.output(b.op("Conv", {y, b.weights({2, channels, 3, 3})}));
        b.attr("pads", Dims(4, 1));
        Results r;
        run_both(b, lmem, r);
        ASSERT_FALSE(HasFatalFailure());
        for (size_t k = 0; k < 2; ++k)
          EXPECT_EQ(compare(r.got[k], r.want[k], 1e-4), "") << channels << " of " << x[1] << " in " << lmem;
      }
}

/// 16 output channels of 2 pixels, 24 of 4 and 1 of 32 fill whole columns; 32 do so alone.
TEST(FewChannels, PixelsAreComputedAsGroups) {
  for (const auto &[channels, pixels] : std::map<int64_t, uint32_t>{{16, 2}, {24, 4}, {1, 32}, {32, 1}}) {
    OnnxBuilder b;
    const std::string x = b.op("GlobalAveragePool", {b.input({1, 8, 4, 4})});
    const std::string y = b.op("Conv", {b.op("Expand", {x, b.ints({1, 8, 64, 64})}), b.weights({channels, 8, 1, 1})});
    b.output(b.op("GlobalMaxPool", {y}));
    Lowered lowered;
    Generated generated;
    make_commands(b, 8 << 20, lowered, generated);
    size_t convs = 0;
    for (const Command &c : generated.commands)
      if (const auto *conv = std::get_if<npu_cmd_conv>(&c.body)) {
        ++convs;
        EXPECT_EQ(conv->groups, pixels) << channels;
        EXPECT_EQ(conv->oc, channels * pixels);
      }
    EXPECT_GT(convs, 0u);
  }
}

/// A sum takes the place of an operand, also for one picture, whose stride says nothing.
TEST(Residency, SumsTakeThePlaceOfAnOperand) {
  OnnxBuilder b;
  const std::string x = b.op("Conv", {b.input({1, 32, 24, 24}), b.weights({32, 32, 1, 1})});
  const std::string y = b.op("Conv", {x, b.weights({32, 32, 1, 1})}), z = b.op("Conv", {x, b.weights({32, 32, 1, 1})});
  b.output(b.op("GlobalAveragePool", {b.op("Add", {y, z})}));
  Lowered lowered;
  Generated generated;
  make_commands(b, 8 << 20, lowered, generated);
  size_t sums = 0;
  for (const Command &c : generated.commands)
    if (const auto *sum = std::get_if<npu_cmd_eltwise>(&c.body)) {
      ++sums;
      EXPECT_TRUE(sum->out_addr == sum->a_addr || sum->out_addr == sum->b_addr);
    }
  EXPECT_EQ(sums, 1u);
}

/// A convolution begins with what is added to its result: nothing is left of the sum.
TEST(Sums, AreMadeByTheConvolution) {
  OnnxBuilder b;
  std::string x = b.op("Conv", {b.input({1, 32, 24, 24}), b.weights({32, 32, 1, 1})});
  const std::string y = b.op("Conv", {x, b.weights({32, 32, 3, 3}), b.weights({32})});
  b.attr("pads", Dims(4, 1));
  b.output(b.op("Conv", {b.op("Relu", {b.op("Add", {x, y})}), b.weights({32, 32, 1, 1})}));
  const bmodel::StageDesc stage = compile(b, 8 << 20);
  ASSERT_EQ(stage.tiu.size(), size_t{3} * NPU_CMD_BYTES);
  for (size_t i = 0; i < stage.tiu.size(); i += NPU_CMD_BYTES) EXPECT_EQ(stage.tiu[i], NPU_OP_CONV);
}

}  // namespace
}  // namespace npu::test
