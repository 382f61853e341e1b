// SPDX-License-Identifier: MIT
// Damaged ONNX files, through the fuzzer's own function, which ends the process when the compiler does not keep its
// word.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "tests/unit/compiler/onnx_builder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern unsigned long fuzz_onnx_programs;

namespace {

using npu::test::OnnxBuilder;

std::string convolutions() {
  OnnxBuilder b;
  const std::string in = b.input({1, 3, 9, 7}, "x");
  std::string t = b.op("Conv", {in, b.weights({4, 3, 3, 3}), b.weights({4})});
  b.attr("pads", std::vector<int64_t>{1, 1, 1, 1}).attr("strides", std::vector<int64_t>{2, 2});
  t = b.op("Relu", {t});
  t = b.op("MaxPool", {t});
  b.attr("kernel_shape", std::vector<int64_t>{2, 2});
  t = b.op("Flatten", {t});
  b.output(b.op("Softmax", {t}));
  return b.bytes();
}

std::string moves() {
  OnnxBuilder b;
  const std::string in = b.input({2, 6, 5}, "x");
  std::string t = b.op("Transpose", {in});
  b.attr("perm", std::vector<int64_t>{0, 2, 1});
  t = b.op("MatMul", {t, b.weights({6, 8})});
  t = b.op("Slice", {t, b.ints({0}), b.ints({7}), b.ints({2}), b.ints({2})});
  t = b.op("Add", {t, b.weights({4})});
  const std::string u = b.op("Concat", {t, t});
  b.attr("axis", int64_t{1});
  b.output(b.op("Reshape", {u, b.ints({-1, 5})}));
  return b.bytes();
}

void damage(std::string &file, std::mt19937 &random) {
  for (unsigned changes = 1 + random() % 3; changes--;) {
    if (file.empty()) return;
    const size_t at = random() % file.size();
    switch (random() % 5) {
      case 0:
        file[at] = static_cast<char>(random());
        break;
      case 1:
        file[at] = static_cast<char>(file[at] ^ (1 << random() % 8));
        break;
      case 2:
        file.erase(at, 1 + random() % 8);
        break;
      case 3:
        file.insert(at, file, random() % file.size(), 1 + random() % 16);
        break;
      default:
        if (random() % 8 == 0) file.resize(at);
    }
  }
}

TEST(DamagedFiles, ThatOnceWereFindingsAreNone) {
  int files = 0;
  for (const auto &entry : std::filesystem::directory_iterator(NPU_FUZZ_CORPUS)) {
    std::ifstream stream(entry.path(), std::ios::binary);
    const std::string file((std::istreambuf_iterator<char>(stream)), {});
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t *>(file.data()), file.size());
    files++;
  }
  EXPECT_GT(files, 0);
}

constexpr int kDamaged = 4000;

TEST(DamagedFiles, AreRefusedOrBecomeProgramsThatHold) {
  std::mt19937 random(20261122);
  for (const std::string &whole : {convolutions(), moves()}) {
    const unsigned long before = fuzz_onnx_programs;
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t *>(whole.data()), whole.size());
    ASSERT_EQ(fuzz_onnx_programs, before + 1) << "the undamaged file was refused";
    for (int i = 0; i < kDamaged; i++) {
      std::string file = whole;
      damage(file, random);
      LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t *>(file.data()), file.size());
    }
    // Damaged weights are weights, damaged names are names; damaged shapes are refused.
    const unsigned long programs = fuzz_onnx_programs - before - 1;
    RecordProperty("programs", static_cast<int>(programs));
    EXPECT_GT(programs, kDamaged / 20u);
    EXPECT_LT(programs, kDamaged * 19u / 20);
  }
}

}  // namespace
