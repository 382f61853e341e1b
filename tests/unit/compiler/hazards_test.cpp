// SPDX-License-Identifier: MIT
// Which commands stay in order: every pair that touches the same bytes, in lists that do not grow with its number.
#include "compiler/schedule/hazards.h"

#include <gtest/gtest.h>

#include <bitset>
#include <random>

#include "compiler/schedule/accesses.h"

namespace npu::test {
namespace {

using compiler::Command;

constexpr size_t kMost = 4096;  // commands of a program here

/// Copies `count` bytes, `pitch` apart in the source and side by side in the destination, within local memory.
Command copy_command(uint64_t src, int32_t pitch, uint64_t dst, uint32_t count) {
  npu_cmd_copy c{};
  c.opcode = NPU_OP_COPY;
  c.src_region = c.dst_region = NPU_REGION_LOCAL;
  c.src_dtype = c.dst_dtype = NPU_DTYPE_U8;
  c.src_offset = src;
  c.dst_offset = dst;
  for (uint32_t &d : c.dims) d = 1;
  c.dims[5] = count;
  c.src_stride[5] = pitch;
  c.dst_stride[5] = 1;
  return {c};
}

using Accesses = std::vector<compiler::Access>;

bool conflict(const Accesses &a, const Accesses &b) {
  for (const compiler::Access &x : a)
    for (const compiler::Access &y : b)
      if ((x.write || y.write) && x.region == y.region && x.low < y.high && y.low < x.high) return true;
  return false;
}

/// Checks that each command follows, directly or through others, all earlier ones that it conflicts with.
void expect_complete(const std::vector<Command> &program, const std::vector<std::vector<uint32_t>> &after) {
  ASSERT_LE(program.size(), kMost);
  std::vector<std::bitset<kMost>> follows(program.size());
  std::vector<Accesses> accesses;
  for (const Command &c : program) accesses.push_back(accesses_of(c));
  for (size_t i = 0; i < program.size(); ++i) {
    for (const uint32_t p : after[i]) {
      ASSERT_LT(p, i);
      follows[i] |= follows[p];
      follows[i].set(p);
    }
    for (size_t p = 0; p < i; ++p) {
      ASSERT_TRUE(follows[i].test(p) || !conflict(accesses[p], accesses[i])) << "command " << i << " after " << p;
    }
  }
}

size_t length(const std::vector<std::vector<uint32_t>> &after) {
  size_t sum = 0;
  for (const auto &list : after) sum += list.size();
  return sum;
}

TEST(Hazards, ManyReadersOfManyPieces) {
  constexpr uint32_t kPieces = 1300, kAt = kPieces * 8;
  std::vector<Command> program;
  for (uint32_t i = 0; i < kPieces; ++i) program.push_back(copy_command(1 << 20, 1, i * 8, 8));  // written in pieces
  for (uint32_t i = 0; i < kPieces; ++i)
    program.push_back(copy_command(i, 8, kAt + i * 2048, kPieces));                              // each reads all
  for (uint32_t i = 0; i < kPieces; ++i) program.push_back(copy_command(1 << 21, 1, i * 8, 8));  // written again
  const auto after = find_hazards(program);
  expect_complete(program, after);
  EXPECT_LT(length(after), program.size() * 300);
}

TEST(Hazards, RandomCommands) {
  std::mt19937 random(1);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  for (int round = 0; round < 6; ++round) {
    std::vector<Command> program;
    const uint32_t space = 1000u << (2 * round);
    for (int i = 0; i < 3000; ++i)
      program.push_back(copy_command(below(space), 1 + static_cast<int32_t>(below(40)), below(space), 1 + below(30)));
    const auto after = find_hazards(program);
    expect_complete(program, after);
  }
}

}  // namespace
}  // namespace npu::test
