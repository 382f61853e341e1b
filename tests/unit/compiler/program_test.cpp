// SPDX-License-Identifier: MIT
// Properties of compiled programs: synchronisation, determinism, aliases, tags, text form.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "compiler/api/text.h"
#include "compiler/schedule/check_sync.h"
#include "npu_cost.hpp"
#include "runtime/bmodel/container.h"
#include "tests/unit/compiler/chip.h"
#include "tests/unit/compiler/onnx_builder.h"
#include "uapi/hw/asm/assembler.h"

namespace npu::test {
namespace {

bmodel::StageDesc compile(const OnnxBuilder &b, int64_t lmem = 64 << 10) {
  compiler::Options options;
  options.lmem_bytes = lmem;
  compiler::Compiled out;
  const std::string file = b.bytes();
  const Status status = compiler::compile_onnx(file.data(), file.size(), options, out);
  EXPECT_TRUE(status.ok()) << status.message();
  return status.ok() ? out.net.stages[0] : bmodel::StageDesc{};
}

/// Large enough to be cut into many tiles in 64 KiB.
OnnxBuilder tiled() {
  OnnxBuilder b;
  std::string x = b.op("Conv", {b.input({1, 8, 60, 60}), b.weights({16, 8, 3, 3}), b.weights({16})});
  x = b.op("Relu", {x});
  x = b.op("MaxPool", {x});
  b.attr("kernel_shape", std::vector<int64_t>{2, 2}).attr("strides", std::vector<int64_t>{2, 2});
  x = b.op("Add", {x, b.weights({16, 1, 1})});
  b.output(b.op("Sigmoid", {b.op("MatMul", {b.op("Flatten", {x}), b.weights({16 * 29 * 29, 7})})}));
  return b;
}

uint32_t wait_of(const std::vector<uint8_t> &stream, size_t i) {
  uint32_t wait;
  std::memcpy(&wait, stream.data() + i * NPU_CMD_BYTES + offsetof(npu_cmd, wait), sizeof wait);
  return wait;
}

void set_wait(std::vector<uint8_t> &stream, size_t i, uint32_t wait) {
  std::memcpy(stream.data() + i * NPU_CMD_BYTES + offsetof(npu_cmd, wait), &wait, sizeof wait);
}

/// A network that is compiled for more local memory than it has a use for asks for what it uses, and is as fast.
TEST(LocalMemory, OnlyWhatIsUsedIsNeeded) {
  OnnxBuilder b;
  std::string x = b.op("Conv", {b.input({1, 3, 40, 40}), b.weights({16, 3, 3, 3}), b.weights({16})});
  x = b.op("Conv", {x, b.weights({8, 16, 3, 3}), b.weights({8})});
  b.output(b.op("Relu", {x}));
  const bmodel::StageDesc large = compile(b, 8 << 20);
  ASSERT_LT(large.lmem_bytes, uint64_t{512} << 10);
  const auto roomy = static_cast<int64_t>((large.lmem_bytes + 4095) / 4096 * 4096);
  EXPECT_EQ(compile(b, roomy).cycles, large.cycles);
  std::vector<float> image(3 * 40 * 40);
  for (size_t i = 0; i < image.size(); ++i) image[i] = static_cast<float>(i % 17) - 8;
  EXPECT_EQ(run_on_chip(large, {image}, roomy).cycles, large.cycles);
}

TEST(Synchronisation, CompiledProgramsAreOrdered) {
  const bmodel::StageDesc stage = compile(tiled());
  EXPECT_GT(stage.gdma.size() / NPU_CMD_BYTES, 20u);
  EXPECT_EQ(compiler::check_sync(stage.tiu, stage.gdma).message(), "");
}

/// The scheduler sets no wait that is not needed, so that each one that is taken away is a race, unless an earlier
/// command waits as long.
TEST(Synchronisation, EveryWaitThatIsTakenAwayIsFound) {
  const bmodel::StageDesc stage = compile(tiled());
  size_t tried = 0;
  for (int engine = 0; engine < 2; ++engine) {
    const std::vector<uint8_t> &stream = engine ? stage.gdma : stage.tiu;
    uint32_t before = 0;
    for (size_t i = 0; i < stream.size() / NPU_CMD_BYTES; ++i) {
      const uint32_t wait = wait_of(stream, i);
      if (wait > before) {
        bmodel::StageDesc broken = stage;
        set_wait(engine ? broken.gdma : broken.tiu, i, wait - 1);
        EXPECT_FALSE(compiler::check_sync(broken.tiu, broken.gdma).ok())
            << (engine ? "GDMA " : "TIU ") << i << " waits for " << wait - 1 << " instead of " << wait;
        ++tried;
      }
      before = std::max(before, wait);
    }
  }
  EXPECT_GT(tried, 20u);
}

TEST(Synchronisation, EnginesThatWaitForEachOtherAreFound) {
  bmodel::StageDesc stage = compile(tiled());
  set_wait(stage.gdma, 0, 1);
  EXPECT_NE(compiler::check_sync(stage.tiu, stage.gdma).message().find("for ever"), std::string::npos);
}

TEST(Programs, EqualInputGivesEqualBytes) {
  const std::string file = tiled().bytes();
  std::vector<uint8_t> first, second;
  for (auto *out : {&first, &second}) {
    compiler::Compiled compiled;
    ASSERT_TRUE(compiler::compile_onnx(file.data(), file.size(), {}, compiled).ok());
    ASSERT_TRUE(compiler::write_bmodel(compiled, *out).ok());
  }
  EXPECT_EQ(first, second);
}

/// x[N,40] times a constant matrix, compiled for N of the text.
void compile_stage(const char *shapes, compiler::Compiled &out) {
  OnnxBuilder b;
  b.output(b.op("MatMul", {b.input({1, 40}, "x"), b.weights({40, 30})}));
  auto *dims = b.model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  dims->mutable_dim(0)->set_dim_param("N");
  compiler::Options options;
  ASSERT_TRUE(compiler::parse_stage(shapes, options.shapes).ok());
  const std::string file = b.bytes();
  const Status status = compiler::compile_onnx(file.data(), file.size(), options, out);
  ASSERT_TRUE(status.ok()) << status.message();
}

TEST(Stages, AreOneNetworkWithTheCoefficientsOnce) {
  compiler::Compiled one, four, again;
  compile_stage("x=1,40", one);
  compile_stage("x=4,40", four);
  compile_stage("x=4,40", again);
  std::vector<uint8_t> alone, both;
  ASSERT_TRUE(compiler::write_bmodel(one, alone).ok());
  ASSERT_TRUE(compiler::add_stage(four, one).ok());
  EXPECT_EQ(compiler::add_stage(again, one).message(),
            "stage 2 of network '" + one.net.name + "' has the input shapes of stage 1");
  ASSERT_TRUE(compiler::write_bmodel(one, both).ok());
  std::unique_ptr<bmodel::Container> container;
  ASSERT_EQ(bmodel::Container::from_memory(both.data(), both.size(), container).message(), "");
  const auto &stages = *container->model().net()->Get(0)->parameter();
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(stages.Get(1)->input_tensor()->Get(0)->shape()->Get(0)->dim()->Get(0), 4u);
  const auto *first = stages.Get(0)->coeff_mem()->binary_coeff(), *second = stages.Get(1)->coeff_mem()->binary_coeff();
  EXPECT_EQ(first->start(), second->start());
  EXPECT_EQ(container->verify_hashes().message(), "");
  EXPECT_LT(both.size() - alone.size(), 40u * 30 * 4) << "the matrix is there once";
}

TEST(Stages, OfDifferentNetworksAreRefused) {
  compiler::Compiled one, other;
  compile_stage("x=1,40", one);
  other = one;
  other.net.stages[0].inputs[0].name = "z";
  EXPECT_NE(compiler::add_stage(other, one).message().find("differ in the names"), std::string::npos);
  std::map<std::string, graph::Shape> shapes;
  EXPECT_TRUE(compiler::parse_stage("x=1,2;y:0=3", shapes).ok());
  EXPECT_EQ(shapes["y:0"], (graph::Shape{3}));
  EXPECT_FALSE(compiler::parse_stage("z=1;", shapes).ok());
}

TEST(Stages, AreMarkedDynamicInTheBatchWhereAllTensorsHaveIt) {
  compiler::Compiled one, four;
  compile_stage("x=1,40", one);
  compile_stage("x=4,40", four);
  ASSERT_TRUE(compiler::add_stage(four, one).ok());
  ASSERT_TRUE(compiler::make_batch_dynamic(one).ok());
  for (const bmodel::StageDesc &stage : one.net.stages) {
    EXPECT_EQ(stage.is_dynamic, 1);
    EXPECT_EQ(stage.n_dynamic, 1);
  }
  const std::string output = four.net.stages[0].outputs[0].name;
  four.net.stages[0].outputs[0].shape[0] = 2;
  EXPECT_EQ(compiler::make_batch_dynamic(four).message(),
            "--dynamic-batch: dimension 0 of '" + output + "' is not that of 'x', the batch");
}

TEST(Programs, PredictedCyclesStandInTheStage) {
  const bmodel::StageDesc stage = compile(tiled());
  const ChipResult result = run_on_chip(stage, {std::vector<float>(8 * 60 * 60, 0.5f)}, 64 << 10);
  EXPECT_EQ(result.cycles, stage.cycles);
  EXPECT_GT(stage.cycles, 1000u);
}

TEST(Programs, SayWhichParametersOfTheChipTheirCyclesAreFor) {
  const bmodel::StageDesc stage = compile(tiled());
  const uint32_t expected[] = {32, 32, 2, 512, 128, 32, 32, 200, 64};
  EXPECT_TRUE(std::ranges::equal(stage.cost, expected));
  EXPECT_EQ(stage.rate_16, 2u);
  EXPECT_EQ(stage.rate_8, 4u);
}

TEST(Programs, DoubleBufferingOverlapsTheEngines) {
  const bmodel::StageDesc stage = compile(tiled());
  uint64_t alone = 0;
  for (int engine = 0; engine < 2; ++engine) {
    const std::vector<uint8_t> &stream = engine ? stage.gdma : stage.tiu;
    for (size_t at = 0; at < stream.size(); at += NPU_CMD_BYTES) {
      uint8_t bytes[NPU_CMD_BYTES];
      std::memcpy(bytes, stream.data() + at, sizeof bytes);
      alone += hw::uncontended(hw::command_cost(bytes, engine, {}), {});
    }
  }
  EXPECT_LT(stage.cycles * 10, alone * 9) << "one command after another would take " << alone;
}

/// With the memory of an output that no alias forbids filled over the input's, the result is the same.
TEST(Aliases, OutputsWrittenBeforeAnInputIsDeadAreListed) {
  OnnxBuilder b;
  const std::string x = b.input({1, 4, 90, 90}), y = b.op("Relu", {x});
  b.output(y).output(b.op("Sigmoid", {x}));
  const bmodel::StageDesc stage = compile(b);
  ASSERT_GE(stage.aliases.size(), 1u);
  EXPECT_EQ(stage.aliases[0].output, 0);
  EXPECT_EQ(stage.aliases[0].input, 0);
}

TEST(Aliases, AnInputThatIsReadAtOnceMayBeOverwritten) {
  OnnxBuilder b;
  b.output(b.op("Relu", {b.input({1, 4, 9, 9})}));
  EXPECT_TRUE(compile(b).aliases.empty());
}

/// Copies from the memory of an input.
size_t loads_of(const bmodel::StageDesc &stage, uint16_t input) {
  size_t loads = 0;
  for (size_t at = 0; at < stage.gdma.size(); at += NPU_CMD_BYTES) {
    npu_cmd_copy c;
    std::memcpy(&c, stage.gdma.data() + at, sizeof c);
    if (c.opcode != NPU_OP_COPY || c.src_region >= stage.regions.size()) continue;
    const npu_program_region &r = stage.regions[c.src_region];
    loads += r.kind == NPU_PROGRAM_INPUT && r.index == input;
  }
  return loads;
}

TEST(Loads, WhatIsSmallAndReadSeveralTimesIsLoadedOnce) {
  OnnxBuilder b;
  std::string x = b.input({64, 64}), small = b.input({64});
  for (const char *op : {"Mul", "Add", "Mul"}) x = b.op(op, {x, small});
  b.output(x);
  const bmodel::StageDesc stage = compile(b, 8 << 20);
  EXPECT_EQ(loads_of(stage, 0), 1u);
  EXPECT_EQ(loads_of(stage, 1), 1u);
}

/// A KV cache: a new row is made of what each layer gives, and may go into the memory of the rows that they read.
TEST(Aliases, AnOutputInPiecesIsStoredWhenAllInputsAreRead) {
  OnnxBuilder b;
  const std::string cache = b.input({128, 2, 32}, "cache");
  std::string x = b.input({1, 32}, "x");
  std::vector<std::string> rows;
  for (const int64_t layer : {0, 1}) {
    const std::string own = b.op("MatMul", {x, b.weights({32, 32})});
    rows.push_back(b.op("Relu", {own}));
    const std::string past = b.op("Gather", {cache, b.indices({}, {layer})});
    b.attr("axis", int64_t{1});
    const std::string seen = b.op("Concat", {own, past});
    b.attr("axis", int64_t{0});
    const std::string shares = b.op("Softmax", {b.op("MatMul", {x, b.op("Transpose", {seen})})});
    x = b.op("MatMul", {shares, seen});
  }
  const std::string row = b.op("Concat", rows);
  b.attr("axis", int64_t{1});
  b.output(x).output(b.op("Reshape", {row, b.ints({1, 2, 32})}));
  EXPECT_TRUE(compile(b, 8 << 20).aliases.empty());
}

/// Runs with input and output in the same memory wherever the stage's facts allow it.
TEST(Aliases, FactsHoldOnTheChip) {
  OnnxBuilder b;
  const std::string x = b.input({1, 4, 20, 20});
  const std::string y = b.op("Conv", {x, b.weights({4, 4, 3, 3})});
  b.attr("pads", std::vector<int64_t>{1, 1, 1, 1}).output(b.op("Tanh", {y}));
  const bmodel::StageDesc stage = compile(b, 8 << 20);
  ASSERT_TRUE(stage.aliases.empty());
  std::vector<float> input(4 * 20 * 20);
  std::minstd_rand random(3);
  for (float &f : input) f = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
  const std::vector<float> apart = run_on_chip(stage, {input}, 8 << 20).outputs[0];

  Machine machine;
  JobSpec job;
  const Area shared = machine.allocate(input.size() * sizeof(float));
  machine.put(shared, 0, input.data(), input.size() * sizeof(float));
  for (const npu_program_region &r : stage.regions) {
    Area area = shared;
    if (r.kind == NPU_PROGRAM_COEFF) {
      area = machine.allocate(r.bytes);
      machine.put(area, 0, stage.coeff.data(), r.bytes);
    }
    job.regions.push_back(area.region(r.access));
  }
  for (int engine : {NPU_ENGINE_TIU, NPU_ENGINE_GDMA}) {
    const std::vector<uint8_t> &stream = engine == NPU_ENGINE_GDMA ? stage.gdma : stage.tiu;
    for (size_t at = 0; at < stream.size(); at += NPU_CMD_BYTES) {
      Cmd c;
      std::memcpy(c.bytes.data(), stream.data() + at, NPU_CMD_BYTES);
      job.stream[engine].push_back(c);
    }
  }
  ASSERT_STATUS(machine.run(job), NPU_STATUS_OK);
  std::vector<float> together(apart.size());
  machine.get(shared, 0, together.data(), together.size() * sizeof(float));
  EXPECT_EQ(together, apart);
}

/// The chip's race detector watches: scheduler and checker take a command's accesses from one table.
TEST(Programs, TransfersThatRunBackwardsWaitForTheirData) {
  OnnxBuilder b;
  const std::string r = b.op("Sigmoid", {b.input({1, 4, 16, 16})});
  const std::string back = b.op("Slice", {r, b.ints({-1}), b.ints({-100000}), b.ints({2}), b.ints({-1})});
  b.output(b.op("Add", {b.op("Tanh", {back}), r}));
  std::vector<float> input(4 * 16 * 16), expected(input.size());
  for (size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>(i % 37) / 18.0f - 1.0f;
  const auto sigmoid = [&](size_t i) { return 1 / (1 + std::exp(-input[i])); };
  for (size_t i = 0; i < input.size(); ++i) {
    const size_t row = i / 16 % 16, mirrored = i + (15 - 2 * row) * 16;
    expected[i] = std::tanh(sigmoid(mirrored)) + sigmoid(i);
  }
  for (const int64_t lmem : {64 << 10, 8 << 20}) {
    const std::vector<float> got = run_on_chip(compile(b, lmem), {input}, lmem).outputs[0];
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-5) << i;
  }
}

TEST(Programs, LayerTagsAreNamesOfNodes) {
  OnnxBuilder b;
  const std::string y = b.op("Conv", {b.input({1, 1, 8, 8}), b.weights({2, 1, 3, 3})});
  b.named("edges").output(b.op("MaxPool", {y}));
  b.attr("kernel_shape", std::vector<int64_t>{2, 2}).named("smaller");
  const bmodel::StageDesc stage = compile(b);
  std::vector<std::string> seen;
  for (size_t i = 0; i < stage.tiu.size() / NPU_CMD_BYTES; ++i) {
    uint32_t layer;
    std::memcpy(&layer, stage.tiu.data() + i * NPU_CMD_BYTES + offsetof(npu_cmd, layer), sizeof layer);
    ASSERT_LT(layer, stage.layers.size());
    seen.push_back(stage.layers[layer]);
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"edges", "smaller"}));
}

/// The chip's own assembler reads what --dump-asm writes and comes to the same bytes.
TEST(Text, AssemblesToTheSameCommands) {
  const bmodel::StageDesc stage = compile(tiled());
  assembly::Program program;
  const auto error = assembly::assemble(compiler::disassemble(stage.tiu, stage.gdma, stage.layers), program);
  ASSERT_FALSE(error) << error->line << ": " << error->message;
  ASSERT_EQ(program.cores.size(), 1u);
  const auto flat = [](const std::vector<assembly::CommandBytes> &commands) {
    std::vector<uint8_t> out;
    for (const auto &c : commands) out.insert(out.end(), c.begin(), c.end());
    return out;
  };
  EXPECT_EQ(flat(program.cores[0].tiu), stage.tiu);
  EXPECT_EQ(flat(program.cores[0].gdma), stage.gdma);
}

}  // namespace
}  // namespace npu::test
