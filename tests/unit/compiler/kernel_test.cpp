// SPDX-License-Identifier: MIT
// What kernels estimate, against numbers worked out by hand.
#include "compiler/kernels/kernel.h"

#include <gtest/gtest.h>

namespace npu::test {
namespace {

TEST(Pipelined, OneEngineIsAlwaysAtWork) {
  EXPECT_EQ(compiler::pipelined(1, 5, 7, 3), 15);
  // The arithmetic: the first load, 4 times 10, the last store.
  EXPECT_EQ(compiler::pipelined(4, 5, 10, 3), 5 + 40 + 3);
  // The transfers: 4 loads and 4 stores, and the work between the last of each.
  EXPECT_EQ(compiler::pipelined(4, 6, 10, 7), 4 * 13 + 10);
}

}  // namespace
}  // namespace npu::test
