// SPDX-License-Identifier: MIT
// Nearest-neighbour Resize: sizes, and which elements are taken, for all lengths from 1 to 64 and all modes, against
// numpy's single precision (tests/oracle/resize_table.py).
//
//     NPU_RESIZE_TABLE   the table; set by CMake
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <numeric>

#include "compiler/graph/evaluate.h"
#include "compiler/import/importer.h"
#include "tests/unit/compiler/chip.h"
#include "tests/unit/compiler/onnx_builder.h"

namespace npu::test {
namespace {

using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

constexpr const char *kCoordinates[] = {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric",
                                        "tf_half_pixel_for_nn"};
constexpr const char *kRoundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};

struct Record {
  const char *coordinates, *rounding;
  int64_t in, out;
  float scale;  ///< 0: the node is given sizes
  Floats index;
};

std::vector<Record> read_table() {
  const char *path = std::getenv("NPU_RESIZE_TABLE");
  std::ifstream file(path ? path : "NPU_RESIZE_TABLE is not set", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  std::vector<int32_t> numbers(bytes.size() / sizeof(int32_t));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(int32_t));
  std::vector<Record> out;
  for (size_t at = 0; at < numbers.size();) {
    const int32_t *n = numbers.data() + at;
    out.push_back(
        {kCoordinates[n[0]], kRoundings[n[1]], n[2], n[3], std::bit_cast<float>(n[4]), Floats(n + 5, n + 5 + n[3])});
    at += 5 + static_cast<size_t>(n[3]);
  }
  return out;
}

void add_resize(OnnxBuilder &b, const std::string &x, const Record &r) {
  std::vector<std::string> inputs{x, ""};
  if (r.scale == 0)
    inputs.insert(inputs.end(), {"", b.ints({r.out})});
  else
    inputs.push_back(b.floats({r.scale}));
  const std::string y = b.op("Resize", inputs);
  b.attr("coordinate_transformation_mode", r.coordinates).attr("nearest_mode", r.rounding).output(y);
}

/// A network with a node for each record that has the same input; its results are the indices when the input counts.
void expect_indices(const Record *first, const Record *last) {
  OnnxBuilder b;
  const std::string x = b.input({first->in});
  for (const Record *r = first; r != last; ++r) add_resize(b, x, *r);
  const std::string file = b.bytes();
  graph::RawModel raw;
  graph::Graph g;
  ASSERT_TRUE(graph::read_onnx(file.data(), file.size(), raw).ok());
  const Status status = graph::import_model(raw, {}, g);
  ASSERT_TRUE(status.ok()) << status.message();
  Floats counting(static_cast<size_t>(first->in));
  std::iota(counting.begin(), counting.end(), 0.0f);
  std::vector<graph::Tensor> outputs;
  ASSERT_TRUE(graph::evaluate_graph(g, {*graph::make_f32({first->in}, counting)}, outputs).ok());
  for (size_t k = 0; k < outputs.size(); ++k) {
    const float *values = outputs[k].as<float>();
    ASSERT_EQ(Floats(values, values + outputs[k].count()), first[k].index)
        << first[k].coordinates << ", " << first[k].rounding << ", " << first[k].in << " to " << first[k].out
        << ", scale " << first[k].scale;
  }
}

TEST(Resize, TakesTheElementsThatSinglePrecisionSays) {
  const std::vector<Record> table = read_table();
  ASSERT_GT(table.size(), 5u * 4 * 64 * 64);
  const Record *const end = table.data() + table.size();
  for (const Record *first = table.data(); first != end;) {
    const Record *last = first;
    while (last != end && last->in == first->in) ++last;
    ASSERT_NO_FATAL_FAILURE(expect_indices(first, last));
    first = last;
  }
}

Floats run(const OnnxBuilder &b, const Floats &input) {
  const std::string file = b.bytes();
  compiler::Compiled compiled;
  const Status status = compiler::compile_onnx(file.data(), file.size(), {}, compiled);
  EXPECT_TRUE(status.ok()) << status.message();
  return status.ok() ? run_on_chip(compiled.net.stages[0], {input}, 8 << 20).outputs[0] : Floats{};
}

Floats resized_on_chip(const Record &r) {
  OnnxBuilder b;
  add_resize(b, b.input({r.in}), r);
  Floats counting(static_cast<size_t>(r.in));
  std::iota(counting.begin(), counting.end(), 0.0f);
  return run(b, counting);
}

/// The exact coordinate of the fifth is 3; double precision makes it 2.9999999999999996.
TEST(Resize, SevenToNineTakesTheFourthElementForTheFifth) {
  EXPECT_EQ(resized_on_chip({"half_pixel", "floor", 7, 9, 0, {}}), (Floats{0, 0, 1, 2, 3, 3, 4, 5, 6}));
}

OnnxBuilder scaled(const Dims &dims, const Floats &scales) {
  OnnxBuilder b;
  const std::string y = b.op("Resize", {b.input(dims), "", b.floats(scales)});
  b.attr("coordinate_transformation_mode", "asymmetric").attr("nearest_mode", "floor").output(y);
  return b;
}

/// Element 2 of 3 would be taken from 2 / 1.3, but for a result that is as large as its input.
TEST(Resize, ToTheSameSizeChangesNothing) {
  EXPECT_EQ(run(scaled({3}, {1.3f}), {0, 1, 2}), (Floats{0, 1, 2}));
  EXPECT_EQ(run(scaled({3, 1}, {1.3f, 2}), {0, 1, 2}), (Floats{0, 0, 0, 0, 1, 1}));
}

/// The exact products are a little below an integer; in single precision they are the integer.
TEST(Resize, SizesAreProductsInSinglePrecision) {
  EXPECT_EQ(resized_on_chip({"asymmetric", "floor", 3, 5, 1.6666666f, {}}).size(), 5u);
  EXPECT_EQ(resized_on_chip({"asymmetric", "floor", 10, 13, 1.3f, {}}).size(), 13u);
  EXPECT_EQ(resized_on_chip({"asymmetric", "floor", 6, 7, 1.1666666f, {}}).size(), 7u);
}

std::string refusal(const OnnxBuilder &b) {
  compiler::Compiled compiled;
  const std::string file = b.bytes();
  return compiler::compile_onnx(file.data(), file.size(), {}, compiled).message();
}

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

OnnxBuilder old(const char *type, int64_t opset, float scale) {
  OnnxBuilder b(opset);
  b.output(b.op(type, {b.input({6}), b.floats({scale})}));
  return b;
}

/// ONNX's own test of operator set 10 takes elements 0 and 2 of 4 for a scale of 0.6: 1 / 0.6 is rounded up.
TEST(Resize, OfOperatorSetTenRoundsUpWhereTheResultIsSmaller) {
  EXPECT_EQ(run(old("Resize", 10, 0.6f), {0, 1, 2, 3, 4, 5}), (Floats{0, 2, 4}));
}

TEST(Resize, AndUpsampleBelongToTheirOperatorSets) {
  EXPECT_EQ(refusal(old("Upsample", 9, 2)), "");
  EXPECT_EQ(refusal(old("Resize", 10, 2)), "");
  EXPECT_SAYS(refusal(old("Upsample", 10, 2)), "operator set 10 has Resize instead");
  EXPECT_SAYS(refusal(old("Resize", 9, 2)), "operator set 9 has Upsample instead");
}

TEST(Resize, ModesAndScalesThatDoNotExistAreRefused) {
  EXPECT_SAYS(refusal(old("Upsample", 9, 0.5f)), "a scale is out of range");
  EXPECT_SAYS(refusal(old("Resize", 10, -2)), "a scale is out of range");
  EXPECT_SAYS(refusal(old("Resize", 10, std::nanf(""))), "a scale is out of range");
  EXPECT_SAYS(refusal(old("Resize", 10, 0.1f)), "the result [0] is empty or too large");
  for (const char *attribute : {"coordinate_transformation_mode", "nearest_mode"}) {
    OnnxBuilder b;
    const std::string y = b.op("Resize", {b.input({6}), "", b.floats({2})});
    b.attr(attribute, "sideways").output(y);
    EXPECT_SAYS(refusal(b), std::string(attribute) + " 'sideways' is not supported");
  }
}

}  // namespace
}  // namespace npu::test
