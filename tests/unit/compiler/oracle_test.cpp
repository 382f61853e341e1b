// SPDX-License-Identifier: MIT
// Every network of the generator: the evaluator and the compiled program against the oracle in numpy, which shares no
// code with either.
//
//     NPU_COMPILER_CASES   the directory of the cases; set by CMake
#include <gtest/gtest.h>

#include <cstdlib>

#include "compiler/graph/evaluate.h"
#include "compiler/import/importer.h"
#include "compiler/passes/passes.h"
#include "tests/unit/compiler/cases.h"
#include "tests/unit/compiler/chip.h"

namespace npu::test {
namespace {

std::string cases_directory() {
  const char *path = std::getenv("NPU_COMPILER_CASES");
  return path ? path : "NPU_COMPILER_CASES is not set";
}

graph::Graph import(const std::string &path) {
  graph::RawModel raw;
  graph::Graph g;
  Status status = graph::read_onnx_file(path, raw);
  EXPECT_TRUE(status.ok()) << status.message();
  status = graph::import_model(raw, {}, g);
  EXPECT_TRUE(status.ok()) << status.message();
  return g;
}

void expect_evaluates(const graph::Graph &g, const Case &c) {
  std::vector<size_t> sizes;
  for (graph::ValueId v : g.inputs) sizes.push_back(static_cast<size_t>(graph::element_count(g[v].shape)));
  const auto values = cut(c.inputs, sizes);
  std::vector<graph::Tensor> inputs, outputs;
  for (size_t k = 0; k < values.size(); ++k) inputs.push_back(*graph::make_f32(g[g.inputs[k]].shape, values[k]));
  const Status status = graph::evaluate_graph(g, inputs, outputs);
  ASSERT_TRUE(status.ok()) << status.message();
  std::vector<float> all;
  for (const graph::Tensor &t : outputs) all.insert(all.end(), t.as<float>(), t.as<float>() + t.count());
  EXPECT_EQ(compare(all, c.outputs), "");
}

TEST(Oracle, EvaluatorAgreesOnImportedGraphs) {
  for (const Case &c : read_cases(cases_directory())) {
    SCOPED_TRACE(c.name);
    expect_evaluates(import(c.model), c);
  }
}

TEST(Oracle, PassesKeepTheMeaning) {
  for (const Case &c : read_cases(cases_directory())) {
    SCOPED_TRACE(c.name);
    graph::Graph g = import(c.model);
    graph::merge_pad(g);
    graph::fold_affine(g);
    graph::fuse_activation(g);
    graph::split_pool(g, 4);
    graph::remove_dead(g);
    expect_evaluates(g, c);
  }
}

class OnChip : public testing::TestWithParam<int64_t> {};

TEST_P(OnChip, ProgramsComputeWhatTheOracleComputesInThePredictedTime) {
  for (const Case &c : read_cases(cases_directory())) {
    SCOPED_TRACE(c.name);
    compiler::Options options;
    options.lmem_bytes = GetParam();
    compiler::Compiled compiled;
    const Status status = compiler::compile_onnx_file(c.model, options, compiled);
    ASSERT_TRUE(status.ok()) << status.message();
    const bmodel::StageDesc &stage = compiled.net.stages[0];
    EXPECT_LE(stage.lmem_bytes, static_cast<uint64_t>(GetParam()));
    std::vector<size_t> sizes;
    for (const auto &t : stage.inputs) sizes.push_back(t.bytes / sizeof(float));
    const ChipResult result = run_on_chip(stage, cut(c.inputs, sizes), GetParam());
    EXPECT_EQ(result.cycles, stage.cycles);
    std::vector<float> all;
    for (const auto &o : result.outputs) all.insert(all.end(), o.begin(), o.end());
    EXPECT_EQ(compare(all, c.outputs), "");
  }
}

INSTANTIATE_TEST_SUITE_P(LocalMemory, OnChip, testing::Values(int64_t{64} << 10, int64_t{256} << 10, int64_t{8} << 20),
                         [](const auto &size) { return std::to_string(size.param >> 10) + "KiB"; });

}  // namespace
}  // namespace npu::test
