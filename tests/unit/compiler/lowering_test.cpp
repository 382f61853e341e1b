// SPDX-License-Identifier: MIT
// What passes over lowered operators make of small networks.
#include <gtest/gtest.h>

#include "compiler/lowering/lowered.h"
#include "tests/unit/compiler/chip.h"
#include "tests/unit/compiler/onnx_builder.h"

namespace npu::test {
namespace {

using compiler::ConvOp;
using compiler::Lowered;
using compiler::LoweredOp;
using compiler::PoolOp;
using compiler::View;

Lowered lowered(const OnnxBuilder &b) {
  graph::Graph g = import_graph(b.bytes());
  Lowered out;
  EXPECT_TRUE(compiler::lower(g, out).ok());
  return out;
}

/// Rows of a picture in its storage: the first one and how many.
std::string rows_of(const View &v) { return std::to_string(v.offset / v.strides[1]) + "+" + std::to_string(v.dims[1]); }

int64_t padding_above(const LoweredOp &op) {
  if (const ConvOp *conv = op.as<ConvOp>()) return conv->window.begin[0];
  if (const PoolOp *pool = op.as<PoolOp>()) return pool->window.begin[0];
  return 0;
}

/// Operators with the rows that they read and write, and the padding above.
std::string rows(const Lowered &l) {
  std::string out;
  for (const LoweredOp &op : l.ops)
    out += std::string(op.name()) + " " + rows_of(*op.inputs()[0]) + " pad " + std::to_string(padding_above(op)) +
           " -> " + rows_of(op.out) + "\n";
  return out;
}

std::string kinds(const Lowered &l) {
  std::string out;
  for (const LoweredOp &op : l.ops) out += std::string(op.name()) + " ";
  return out;
}

/// 288 KiB of input, 3 bands, take 4608 cycles and 3 * 232; the convolution's arithmetic 48 * 128 / 2.
OnnxBuilder waits_for_input() {
  OnnxBuilder b;
  const std::string x = b.op("Conv", {b.input({1, 3, 96, 256}), b.weights({8, 3, 3, 3})});
  b.attr("strides", Dims{2, 2}).attr("pads", Dims(4, 1));
  const std::string y = b.op("MaxPool", {x});
  b.attr("kernel_shape", Dims{3, 3}).attr("strides", Dims{2, 2}).attr("pads", Dims(4, 1));
  b.output(b.op("GlobalMaxPool", {y}));
  return b;
}

TEST(CutBands, ComputesWhatTheRowsThatAreThereSufficeFor) {
  Lowered l = lowered(waits_for_input());
  EXPECT_EQ(rows(l), "Conv 0+96 pad 1 -> 0+48\nPool 0+48 pad 1 -> 0+24\nPool 0+24 pad 0 -> 0+1\n");
  compiler::cut_bands(l, 8 << 20);
  EXPECT_EQ(rows(l),
            "Copy 0+32 pad 0 -> 0+32\nCopy 32+32 pad 0 -> 32+32\nCopy 64+32 pad 0 -> 64+32\n"
            "Conv 0+32 pad 1 -> 0+16\nPool 0+16 pad 1 -> 0+8\n"
            "Conv 31+33 pad 0 -> 16+16\nPool 15+17 pad 0 -> 8+8\n"
            "Conv 63+33 pad 0 -> 32+16\nPool 31+17 pad 0 -> 16+8\n"
            "Pool 0+24 pad 0 -> 0+1\n");
}

TEST(CutBands, LeavesWhatDoesNotFitOrDoesNotWait) {
  Lowered l = lowered(waits_for_input());
  compiler::cut_bands(l, 512 << 10);  // 288 KiB of input, 192 and 48 KiB of results
  EXPECT_EQ(kinds(l), "Conv Pool Pool ");
  OnnxBuilder b;  // 90 * 250 pixels, 5 blocks of the window and 2 of the channels: 112500 cycles
  const std::string x = b.op("Conv", {b.input({1, 3, 96, 256}), b.weights({64, 3, 7, 7})});
  b.output(b.op("GlobalMaxPool", {x}));
  l = lowered(b);
  compiler::cut_bands(l, 8 << 20);
  EXPECT_EQ(kinds(l), "Conv Pool ");
}

TEST(SinkCopies, LetsOthersPass) {
  OnnxBuilder b;
  const std::string x = b.op("Conv", {b.input({1, 4, 8, 8}), b.weights({8, 4, 1, 1})});
  const auto half = [&](int64_t first) {
    return b.op("Slice", {x, b.ints({first}), b.ints({8}), b.ints({1}), b.ints({2})});
  };
  const std::string kept = half(0), y = b.op("Conv", {half(1), b.weights({4, 4, 1, 1})});
  const std::string both = b.op("Concat", {kept, b.op("Conv", {y, b.weights({4, 4, 1, 1})})});
  b.attr("axis", int64_t{1}).output(b.op("Conv", {both, b.weights({4, 8, 1, 1})}));
  Lowered l = lowered(b);
  EXPECT_EQ(kinds(l), "Conv Copy Conv Conv Conv ");
  compiler::sink_copies(l, 4096);  // the copy and what it would pass touch 2048 + 2048 + 1024 bytes
  EXPECT_EQ(kinds(l), "Conv Copy Conv Conv Conv ");
  compiler::sink_copies(l, 16384);
  EXPECT_EQ(kinds(l), "Conv Conv Copy Conv Conv ");
}

}  // namespace
}  // namespace npu::test
