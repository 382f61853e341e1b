// SPDX-License-Identifier: MIT
// Quantized networks as tools write them: which of their operators compute with integers, that each makes what the file
// says, step by step, and that the chip makes the same.
#include "tests/unit/compiler/exported_nets.h"

#include <gtest/gtest.h>

#include "compiler/api/npuc.h"
#include "compiler/graph/evaluate.h"
#include "compiler/graph/partition.h"
#include "compiler/passes/passes.h"
#include "tests/unit/compiler/chip.h"
#include "tests/unit/compiler/compare_quantized.h"

namespace npu::test {
namespace {

using graph::Graph;
using graph::Tensor;

/// The types of nodes, each named once.
template <class F>
std::vector<std::string> types_of(const Graph &g, F wanted) {
  std::vector<std::string> out;
  int last = -1;
  for (const graph::Node &n : g.nodes)
    if (n.source != last && wanted(n)) {
      out.push_back(g.sources[static_cast<size_t>(n.source)].type);
      last = n.source;
    }
  return out;
}

class ExportedForms : public testing::TestWithParam<ExportedForm> {};

TEST_P(ExportedForms, AreIntegersAndWhatTheFileSays) {
  const ExportedForm &form = GetParam();
  for (uint32_t seed = 1; seed <= 16 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const QuantizedNet net = form.make(seed);
    const Graph g = import_graph(net.b.bytes());
    Graph f = g;
    graph::fuse_quantized(f);
    const auto in_float = [&](const graph::Node &n) {
      return !graph::is_quantized(n) && f[n.output].dtype == graph::Dtype::F32;
    };
    EXPECT_EQ(types_of(f, in_float), form.in_float) << node_lines(f);
    const std::vector<Tensor> inputs = random_inputs(g, seed);
    std::vector<Tensor> outputs;
    ASSERT_EQ(graph::evaluate_graph(f, inputs, outputs).message(), "");
    EXPECT_EQ(compare_steps(g, inputs, outputs, net.outputs), "") << node_lines(g) << "\n" << node_lines(f);
  }
}

TEST_P(ExportedForms, RunOnTheChip) {
  const QuantizedNet net = GetParam().make(99);
  const Graph g = import_graph(net.b.bytes());
  const std::vector<Tensor> inputs = random_inputs(g, 99);
  Graph f = g;
  graph::fuse_quantized(f);
  graph::expand_reduce(f);
  const auto on_cpu = [&](const graph::Node &n) { return !graph::runs_on_chip(f, n); };
  EXPECT_EQ(types_of(f, on_cpu), GetParam().on_cpu) << node_lines(f);
  compiler::Compiled out;
  const std::string file = net.b.bytes();
  ASSERT_EQ(compiler::compile_onnx(file.data(), file.size(), {}, out).message(), "");
  const bmodel::StageDesc &stage = out.net.stages[0];
  const StageResult result = run_stage(stage, inputs, lmem_of(stage));
  ASSERT_EQ(result.error, "");
  EXPECT_EQ(compare_steps(g, inputs, result.outputs, net.outputs), "");
}

INSTANTIATE_TEST_SUITE_P(Tools, ExportedForms, testing::ValuesIn(exported_forms().begin(), exported_forms().end()),
                         [](const auto &form) { return std::string(form.param.name); });

}  // namespace
}  // namespace npu::test
