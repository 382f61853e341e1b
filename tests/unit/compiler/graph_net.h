// SPDX-License-Identifier: MIT
// Graphs that a test makes node by node: on the chip, and by the operators on the host.
#ifndef NPU_TEST_COMPILER_GRAPH_NET_H
#define NPU_TEST_COMPILER_GRAPH_NET_H

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "compiler/api/compile_graph.h"
#include "compiler/graph/evaluate.h"
#include "runtime/cpu/element.h"
#include "tests/unit/compiler/chip.h"

namespace npu::test {

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int64_t number(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine_); }
  float real(float low, float high) { return std::uniform_real_distribution<float>(low, high)(engine_); }
  bool chance() { return number(0, 1); }
  graph::Dtype byte_type() { return chance() ? graph::Dtype::I8 : graph::Dtype::U8; }
  int32_t zero(graph::Dtype type) {
    const int64_t offset = type == graph::Dtype::I8 ? -128 : 0;
    return static_cast<int32_t>(chance() ? number(0, 255) + offset : number(0, 1) * 128 + offset);
  }
  /// None of real numbers.
  graph::Quant quant(graph::Dtype type) {
    return graph::is_real(type) ? graph::Quant{} : graph::Quant{real(0.005f, 0.1f), zero(type)};
  }
  graph::Dtype real_type() {
    constexpr graph::Dtype kReals[] = {graph::Dtype::F32, graph::Dtype::F16, graph::Dtype::BF16};
    return kReals[number(0, 2)];
  }

  graph::Tensor tensor(graph::Dtype type, const graph::Shape &shape) {
    graph::Tensor t(type, shape);
    for (int64_t i = 0; i < t.count(); ++i) {
      if (graph::is_real(type))
        cpu::store(t, i, static_cast<double>(real(-4, 4)));
      else if (type == graph::Dtype::I32)
        t.as<int32_t>()[i] = static_cast<int32_t>(number(-30000, 30000));
      else
        t.data[static_cast<size_t>(i)] = static_cast<uint8_t>(number(0, 255));
    }
    return t;
  }

 private:
  std::mt19937 engine_;
};

/// A graph that is made node by node; types and shapes follow by inference.
class Net {
 public:
  explicit Net(Random &r) : r_(r) { graph_.name = "n"; }

  graph::ValueId input(graph::Dtype type, const graph::Shape &shape) {
    const graph::ValueId v = graph_.add_value({{type, shape}, "in" + std::to_string(graph_.inputs.size()), nullptr});
    graph_.inputs.push_back(v);
    return v;
  }
  graph::ValueId constant(graph::Tensor t) {
    return graph_.add_constant(std::make_shared<graph::Tensor>(std::move(t)));
  }
  graph::ValueId constant(graph::Dtype type, const graph::Shape &shape) { return constant(r_.tensor(type, shape)); }
  graph::ValueId multiplier(int64_t count, float size) {
    graph::Tensor t(graph::Dtype::F32, {count});
    for (int64_t i = 0; i < count; ++i) t.as<float>()[i] = size * r_.real(0.3f, 2);
    return constant(std::move(t));
  }
  graph::ValueId add(graph::Op op, std::vector<graph::ValueId> inputs, graph::Attrs attrs) {
    graph::Node n{op, static_cast<int>(graph_.sources.size()), std::move(inputs), graph::kNoValue, std::move(attrs)};
    graph_.sources.push_back({"node" + std::to_string(n.source), "Node", ""});
    graph::TensorKind kind;
    const Status status = graph::infer(graph_, n, kind);
    EXPECT_TRUE(status.ok()) << graph::op_name(op) << ": " << status.message();
    n.output = graph_.add_value({kind, "", nullptr});
    graph_.nodes.push_back(n);
    return n.output;
  }
  const graph::Value &operator[](graph::ValueId v) const { return graph_[v]; }

  /// Compiles with `v` as the output, and compares what the chip makes with what the host does, bit for bit.
  void expect_same(graph::ValueId v, int64_t lmem, compiler::TakeTurns turns = compiler::TakeTurns::Faster) {
    expect(v, lmem, turns, [](const graph::Tensor &got, const graph::Tensor &wanted) {
      if (got.data == wanted.data) return;
      size_t i = 0;
      while (got.data[i] == wanted.data[i]) ++i;
      FAIL() << "byte " << i << " of " << wanted.data.size() << " is " << int{got.data[i]} << ", expected "
             << int{wanted.data[i]};
    });
  }

  /// The same of real numbers, which may differ by so much of their size or of 1, whichever is larger.
  void expect_near(graph::ValueId v, int64_t lmem, double part) {
    expect(v, lmem, compiler::TakeTurns::Faster, [part](const graph::Tensor &got, const graph::Tensor &wanted) {
      for (int64_t i = 0; i < wanted.count(); ++i) {
        const double a = cpu::load(got, i), b = cpu::load(wanted, i);
        if (a == b || std::fabs(a - b) <= part * std::max(1.0, std::fabs(b))) continue;
        FAIL() << "element " << i << " of " << wanted.count() << " is " << a << ", expected " << b;
      }
    });
  }

 private:
  template <class Compare>
  void expect(graph::ValueId v, int64_t lmem, compiler::TakeTurns turns, Compare compare) {
    graph_.outputs = {v};
    graph_.output_names = {"out"};
    std::vector<graph::Tensor> inputs, expected;
    for (graph::ValueId in : graph_.inputs) inputs.push_back(r_.tensor(graph_[in].dtype, graph_[in].shape));
    ASSERT_TRUE(graph::evaluate_graph(graph_, inputs, expected).ok());
    compiler::Options options;
    options.lmem_bytes = lmem;
    options.turns = turns;
    compiler::Compiled compiled;
    graph::Graph copy = graph_;
    const Status status = compiler::compile_graph(copy, options, compiled);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_EQ(compiled.report.host_parts, 0u);
    const bmodel::StageDesc &stage = compiled.net.stages[0];
    const StageResult result = run_stage(stage, inputs, lmem_of(stage));
    ASSERT_EQ(result.error, "");
    ASSERT_EQ(result.outputs.size(), 1u);
    ASSERT_EQ(result.outputs[0].shape, expected[0].shape);
    compare(result.outputs[0], expected[0]);
  }

  Random &r_;
  graph::Graph graph_;
};

}  // namespace npu::test

#endif  // NPU_TEST_COMPILER_GRAPH_NET_H
