// SPDX-License-Identifier: MIT
// Lower bounds against numbers worked out by hand.
#include "compiler/api/bounds.h"

#include <gtest/gtest.h>

#include "compiler/api/npuc.h"
#include "tests/unit/compiler/onnx_builder.h"

namespace npu::test {
namespace {

using compiler::LoweredOp;

/// A matrix product of m rows by weights [k][n].
LoweredOp product(int64_t m, int64_t k, int64_t n, graph::TensorPtr weights) {
  compiler::MatMulOp op;
  op.a = compiler::dense_view(0, {1, m, k});
  op.b = std::move(weights);
  return {0, compiler::dense_view(1, {1, m, n}), std::move(op)};
}

/// Operators between two storages of float32.
compiler::Lowered lowered(std::vector<LoweredOp> ops) {
  compiler::Lowered all;
  compiler::Storage single;
  single.type = graph::Dtype::F32;
  all.storages = {single, single};
  all.ops = std::move(ops);
  return all;
}

graph::TensorPtr matrix(int64_t k, int64_t n) {
  return graph::make_f32({k, n}, std::vector<float>(static_cast<size_t>(k * n)));
}

// The chip multiplies 2048 numbers and moves 64 bytes a cycle.
TEST(OrderBound, LateWeightsWaitForRoom) {
  // 4096 * 64 * 64 / 2048 = 8192 cycles, then 64 * 4096 * 4 = 1 MiB of weights, of which 64 KiB fit: 960 KiB / 64 =
  // 15360.
  const auto late = lowered({product(4096, 64, 64, matrix(64, 64)), product(1, 64, 4096, matrix(64, 4096))});
  EXPECT_EQ(compiler::order_bound(late, 64 << 10), 8192u + 15360u);
  // With room for all of them it is the arithmetic: 64 * 4096 / 2048 more.
  EXPECT_EQ(compiler::order_bound(late, 1 << 20), 8192u + 128u);
}

TEST(OrderBound, EarlyWeightsDoNot) {
  // The bound ends with all arithmetic: 128 + 8192. Behind the first operator 16 KiB are left, which fit.
  const auto early = lowered({product(1, 64, 4096, matrix(64, 4096)), product(4096, 64, 64, matrix(64, 64))});
  EXPECT_EQ(compiler::order_bound(early, 64 << 10), 128u + 8192u);
}

TEST(OrderBound, WeightsThatWereUsedMayStillBeThere) {
  const graph::TensorPtr shared = matrix(64, 4096);
  const auto twice = lowered({product(16, 64, 4096, shared), product(16, 64, 4096, shared)});
  EXPECT_EQ(compiler::order_bound(twice, 64 << 10), 2u * 16 * 64 * 4096 / 2048);
}

TEST(OrderBound, IsInTheReportAndNoProgramIsFaster) {
  OnnxBuilder b;
  std::string x = b.op("Relu", {b.op("MatMul", {b.input({512, 64}), b.weights({64, 64})})});
  x = b.op("ReduceMax", {x});
  b.attr("axes", std::vector<int64_t>{0}).output(b.op("MatMul", {x, b.weights({64, 4096})}));
  compiler::Options options;
  options.lmem_bytes = 256 << 10;
  compiler::Compiled out;
  const std::string file = b.bytes();
  ASSERT_TRUE(compiler::compile_onnx(file.data(), file.size(), options, out).ok());
  // 512 * 64 * 64 / 2048, then 768 KiB of 1 MiB.
  EXPECT_EQ(out.report.order_bound, 1024u + 12288u);
  EXPECT_GE(out.report.cycles, out.report.order_bound);
}

TEST(MemoryBound, EachCoreHasItsOwnPort) {
  OnnxBuilder b;
  b.output(b.op("MatMul", {b.input({4, 512}), b.weights({512, 512})}));
  const std::string file = b.bytes();
  for (const int cores : {1, 2, 4}) {
    compiler::Options options;
    options.cores = cores;
    options.all_cores = true;
    compiler::Compiled out;
    ASSERT_TRUE(compiler::compile_onnx(file.data(), file.size(), options, out).ok());
    // 512 * 512 weights, 4 * 512 inputs and as many outputs, of 4 bytes.
    EXPECT_EQ(out.report.memory_bound, uint64_t{4 * (512 * 512 + 2 * 4 * 512) / 64} / static_cast<unsigned>(cores));
    EXPECT_GE(out.report.cycles, out.report.memory_bound) << cores;
  }
}

}  // namespace
}  // namespace npu::test
