// SPDX-License-Identifier: MIT
// What an EPContext node carries: bytes of anyone.
#include "ort/ep/group.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace npu::ort {
namespace {

Group example() {
  Group g;
  g.name = "net";
  g.inputs = {{2, "x", ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT}, {0, "index", ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64}};
  g.outputs = {{1, "y", ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16}};
  g.bmodel = {1, 2, 3, 4, 5};
  return g;
}

/// The bytes with a checksum that fits.
std::vector<uint8_t> summed(std::vector<uint8_t> bytes) {
  const std::string sum = digest(bytes.data() + 72, bytes.size() - 72);
  std::copy(sum.begin(), sum.end(), bytes.begin() + 8);
  return bytes;
}

TEST(Group, IsTheSameAfterPacking) {
  const std::vector<uint8_t> bytes = pack(example());
  Group g;
  ASSERT_TRUE(unpack(bytes.data(), bytes.size(), g).ok());
  EXPECT_EQ(g.name, "net");
  ASSERT_EQ(g.inputs.size(), 2u);
  EXPECT_EQ(g.inputs[1].place, 0u);
  EXPECT_EQ(g.inputs[1].name, "index");
  EXPECT_EQ(g.inputs[1].type, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64);
  EXPECT_EQ(g.outputs[0].name, "y");
  EXPECT_EQ(g.bmodel, example().bmodel);
  EXPECT_TRUE(g.network.empty());
}

TEST(Group, EveryChangedByteIsFound) {
  const std::vector<uint8_t> bytes = pack(example());
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::vector<uint8_t> other = bytes;
    other[i] ^= 0x20;
    Group g;
    EXPECT_FALSE(unpack(other.data(), other.size(), g).ok()) << i;
  }
}

TEST(Group, EveryLengthAndNumberIsChecked) {
  const std::vector<uint8_t> bytes = pack(example());
  for (size_t size = 0; size < bytes.size(); ++size) {
    Group g;
    std::vector<uint8_t> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    if (size >= 72) cut = summed(cut);
    EXPECT_FALSE(unpack(cut.data(), cut.size(), g).ok()) << size;
  }
  for (size_t i = 72; i + 8 <= bytes.size(); ++i) {
    std::vector<uint8_t> other = bytes;
    std::fill_n(other.begin() + static_cast<std::ptrdiff_t>(i), 8, uint8_t{0xff});
    other = summed(other);
    Group g;
    (void)unpack(other.data(), other.size(), g);  // an error or not, but nothing worse
  }
}

}  // namespace
}  // namespace npu::ort
