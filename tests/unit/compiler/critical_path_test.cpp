// SPDX-License-Identifier: MIT
// The critical path of a schedule, and what the cycles of a command go to: numbers worked out by hand from
// docs/reference/hardware.md section 8.
#include <gtest/gtest.h>

#include "compiler/api/schedule_report.h"
#include "npu_isa.hpp"

namespace npu::test {
namespace {

using compiler::Command;
using compiler::Critical;
using compiler::Spent;
using compiler::Streams;

constexpr uint64_t kFixed = 32, kLatency = 200;

/// Floating-point numbers from memory (region 0) to local memory, or from there to region 1.
Command copy(uint32_t count, uint32_t local, bool load, uint32_t layer) {
  auto c = hw::make<npu_cmd_copy>();
  c.layer = layer;
  c.src_region = load ? 0 : NPU_REGION_LOCAL;
  c.dst_region = load ? NPU_REGION_LOCAL : 1;
  (load ? c.dst_offset : c.src_offset) = local;
  for (uint32_t &d : c.dims) d = 1;
  c.dims[5] = count;
  c.src_stride[5] = c.dst_stride[5] = 1;
  return {c};
}
Command load(uint32_t count, uint32_t local, uint32_t layer) { return copy(count, local, true, layer); }
Command store(uint32_t count, uint32_t local, uint32_t layer) { return copy(count, local, false, layer); }

Command relu(uint32_t count, uint32_t in, uint32_t out, uint32_t layer, uint8_t kind = NPU_ACT_RELU) {
  auto c = hw::make<npu_cmd_unary>();
  c.layer = layer;
  c.subop = kind;
  c.count = count;
  c.in_addr = in;
  c.out_addr = out;
  return {c};
}

std::vector<uint32_t> layers(const std::vector<Critical> &path) {
  std::vector<uint32_t> out;
  for (const Critical &c : path) out.push_back(c.command->layer());
  return out;
}

uint64_t cycles(const std::vector<Critical> &path) {
  uint64_t sum = 0;
  for (const Critical &c : path) sum += c.cycles;
  return sum;
}

void expect_spent(const Spent &s, uint64_t compute, uint64_t local, uint64_t memory, uint64_t latency) {
  EXPECT_EQ(s.compute, compute);
  EXPECT_EQ(s.local_memory, local);
  EXPECT_EQ(s.memory, memory);
  EXPECT_EQ(s.latency, latency);
}

TEST(CriticalPath, OneCommandAfterAnother) {
  const Streams s = compiler::schedule({load(16, 0, 1), relu(16, 0, 64, 2), store(16, 64, 3)});
  const auto path = compiler::critical_path(s);
  EXPECT_EQ(layers(path), (std::vector<uint32_t>{3, 2, 1}));
  // 64 bytes are one cycle of memory, 16 numbers one of the lanes.
  EXPECT_EQ(s.timeline.cycles, (kFixed + kLatency + 1) + (kFixed + 1) + (kFixed + kLatency + 1));
  EXPECT_EQ(cycles(path), s.timeline.cycles);
  expect_spent(compiler::spent_by(*path[2].command, path[2].cycles), 0, 0, 1, kFixed + kLatency);
  expect_spent(compiler::spent_by(*path[1].command, path[1].cycles), 1, 0, 0, kFixed);
}

/// Behind a long load: the short one of layer 2, and what is computed with it.
TEST(CriticalPath, WhatIsHiddenIsNotOnIt) {
  const Streams s = compiler::schedule(
      {load(16, 0, 2), relu(16, 0, 64, 3), load(1 << 16, 4096, 4), relu(16, 4096, 128, 5), store(16, 128, 6)});
  const auto path = compiler::critical_path(s);
  EXPECT_EQ(layers(path), (std::vector<uint32_t>{6, 5, 4, 2})) << "the GDMA brings one after the other";
  EXPECT_EQ(cycles(path), s.timeline.cycles);
  EXPECT_EQ(path[2].cycles, kFixed + kLatency + (1 << 18) / 64);
}

/// Where the TIU has more to do than memory, its commands are all of the path but for both ends.
TEST(CriticalPath, ArithmeticThatIsLonger) {
  std::vector<Command> program{load(16, 0, 1)};
  for (uint32_t i = 0; i < 4; ++i) program.push_back(relu(1 << 16, 1 << 20, 2 << 20, 2, NPU_ACT_SIGMOID));
  program.push_back(load(16, 64, 3));
  program.push_back(relu(16, 64, 128, 4));
  program.push_back(store(16, 128, 5));
  program[1] = relu(1 << 16, 0, 2 << 20, 2, NPU_ACT_SIGMOID);
  const Streams s = compiler::schedule(program);
  const auto path = compiler::critical_path(s);
  EXPECT_EQ(layers(path), (std::vector<uint32_t>{5, 4, 2, 2, 2, 2, 1}));
}

TEST(CriticalPath, OfNothingIsNothing) { EXPECT_TRUE(compiler::critical_path(compiler::schedule({})).empty()); }

TEST(SpentBy, LocalMemoryThatIsSlowerThanTheLanes) {
  // 512 cycles of the lanes; 2 * 256 KiB at 512 bytes a cycle.
  expect_spent(compiler::spent_by(relu(1 << 16, 0, 1 << 20, 1), kFixed + 1024), 512, 512, 0, kFixed);
  // Four passes: local memory is no slower.
  expect_spent(compiler::spent_by(relu(1 << 16, 0, 1 << 20, 1, NPU_ACT_EXP), kFixed + 2048), 2048, 0, 0, kFixed);
}

TEST(SpentBy, WeightsThatStreamMoreSlowlyThanTheyAreUsed) {
  auto c = hw::make<npu_cmd_matmul>();
  c.batch = c.m = 1;
  c.k = c.n = 64;
  c.wgt_region = 0;
  // 2 * 2 blocks of 32 x 32 for one row, of which two fit a cycle; 16 KiB of weights at 64 bytes a cycle.
  expect_spent(compiler::spent_by({c}, 256), 2, 0, 256 - kFixed - 2, kFixed);
}

TEST(SpentBy, MovesInLocalMemory) {
  Command c = load(1024, 0, 1);
  std::get<npu_cmd_copy>(c.body).src_region = NPU_REGION_LOCAL;
  std::get<npu_cmd_copy>(c.body).src_offset = 1 << 16;
  expect_spent(compiler::spent_by(c, kFixed + 16), 0, 16, 0, kFixed);
}

TEST(Bound, IsWhatMostCyclesGoTo) {
  compiler::LayerReport l;
  EXPECT_EQ(l.bound(), "");
  l.commands = 1;
  EXPECT_EQ(l.bound(), "hidden");
  l.cycles = 10;
  l.spent = {3, 0, 4, 3};
  EXPECT_EQ(l.bound(), "memory");
}

}  // namespace
}  // namespace npu::test
