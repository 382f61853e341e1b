// SPDX-License-Identifier: MIT
// Windows of CONV in the form that oneDNN takes.
#include "qemu-device/model/src/compute/onednn/geometry.h"

#include <gtest/gtest.h>

namespace npu::test {
namespace {

using model::Axis;

void expect_axis(const Axis &a, int64_t skip, int64_t in, int64_t before, int64_t behind) {
  EXPECT_TRUE(a.usable);
  EXPECT_EQ(a.skip, skip);
  EXPECT_EQ(a.in, in);
  EXPECT_EQ(a.before, before);
  EXPECT_EQ(a.behind, behind);
}

TEST(Axis, PaddingBehindFollowsFromTheResult) {
  expect_axis(Axis::of(8, 8, 3, 1, 1, 1), 0, 8, 1, 1);
  expect_axis(Axis::of(8, 12, 3, 1, 1, 1), 0, 8, 1, 5);
  expect_axis(Axis::of(224, 112, 7, 2, 1, 3), 0, 224, 3, 2);
  expect_axis(Axis::of(8, 8, 3, 1, 2, 2), 0, 8, 2, 2);
}

TEST(Axis, NegativePaddingAndCellsThatNoWindowReachesAreLeftOut) {
  expect_axis(Axis::of(10, 6, 3, 1, 1, -2), 2, 8, 0, 0);
  expect_axis(Axis::of(10, 3, 3, 1, 1, 0), 0, 5, 0, 0);
  // Less than a stride too many is what the library expects.
  expect_axis(Axis::of(56, 28, 1, 2, 1, 0), 0, 56, 0, 0);
  expect_axis(Axis::of(57, 28, 1, 2, 1, 0), 0, 55, 0, 0);
}

TEST(Axis, WhatTheLibraryCannotTakeIsSaid) {
  EXPECT_FALSE(Axis::of(4, 4, 3, 1, 1, -4).usable);
  EXPECT_FALSE(Axis::of(4, 1, 1, 1, 1, 7).usable) << "the only window lies before the image";
  EXPECT_FALSE(Axis::of(4, 1, 1, 1, 1, 1 << 30).usable);
  EXPECT_FALSE(Axis::of(4, 4, 65535, 65535, 65535, 0).usable);
}

}  // namespace
}  // namespace npu::test
