// SPDX-License-Identifier: MIT
// Shapes that a file declares for its tensors, against those that the importer infers.
#include <gtest/gtest.h>

#include "compiler/api/npuc.h"
#include "tests/unit/compiler/onnx_builder.h"

namespace npu::test {
namespace {

std::string message(const OnnxBuilder &b, const char *shapes = "") {
  compiler::Options options;
  EXPECT_TRUE(!*shapes || compiler::parse_stage(shapes, options.shapes).ok());
  compiler::Compiled out;
  const std::string file = b.bytes();
  return compiler::compile_onnx(file.data(), file.size(), options, out).message();
}

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

/// x [batch, 2, 5, 5] -> Conv 't' [batch, 3, 3, 3] -> Relu 'y'; batch < 0: the file leaves it open.
struct Net {
  explicit Net(int64_t batch) {
    t = b.op("Conv", {b.input({1, 2, 5, 5}, "x"), b.weights({3, 2, 3, 3})});
    y = b.op("Relu", {t});
    b.output(y);
    auto &shape = *b.model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
    if (batch < 0) shape.mutable_dim(0)->set_dim_param("N");
  }
  OnnxBuilder b;
  std::string t, y;
};

TEST(DeclaredShapes, ThatAreRight) {
  Net net(1);
  net.b.declare(net.t, {1, 3, 3, 3}).declare_output({1, 3, 3, 3});
  EXPECT_EQ(message(net.b), "");
}

TEST(DeclaredShapes, ThatLeaveDimensionsOpenMatchAnything) {
  Net net(1);
  net.b.declare(net.t, {-1, 3, -1, 3}).declare_output({-1, -1, -1, -1});
  EXPECT_EQ(message(net.b), "");
}

TEST(DeclaredShapes, OfAnOutputThatDifferAreAnError) {
  Net net(1);
  net.b.declare_output({1, 3, 3, 4});
  EXPECT_SAYS(message(net.b), "'" + net.y + "' has the shape [1, 3, 3, 3], the file declares [1, 3, 3, 4]");
}

/// The node that makes it is named, and not those behind it.
TEST(DeclaredShapes, OfATensorInsideThatDifferAreAnErrorOfItsNode) {
  Net net(1);
  net.b.declare(net.t, {1, 3, 4, -1}).declare_output({1, 3, 4, 3});
  const std::string text = message(net.b);
  EXPECT_SAYS(text, "one node cannot be compiled");
  EXPECT_SAYS(text, "Conv 'Conv_0': '" + net.t + "' has the shape [1, 3, 3, 3], the file declares [1, 3, 4, ?]");
}

TEST(DeclaredShapes, OfAnotherRankAreAnError) {
  Net net(1);
  net.b.declare_output({3, 3, 3});
  EXPECT_SAYS(message(net.b), "has the shape [1, 3, 3, 3], the file declares [3, 3, 3]");
}

TEST(DeclaredShapes, OfAnOutputThatNoNodeMakesAreCompared) {
  OnnxBuilder b;
  b.output(b.op("Relu", {b.input({2, 3}, "x")})).output("x").declare_output({2, 4});
  EXPECT_SAYS(message(b), "output 'x' has the shape [2, 3], the file declares [2, 4]");
}

/// Files whose inputs were opened afterwards still have the old batch everywhere else.
TEST(DeclaredShapes, MayBeOfAnotherBatchWhereTheCallerGivesTheBatch) {
  Net net(-1);
  net.b.declare(net.t, {1, 3, 3, 3}).declare_output({1, 3, 3, 3});
  EXPECT_EQ(message(net.b, "x=1,2,5,5"), "");
  EXPECT_EQ(message(net.b, "x=4,2,5,5"), "");
}

TEST(DeclaredShapes, AreStillComparedInDimensionsThatTheBatchDoesNotReach) {
  Net net(-1);
  net.b.declare(net.t, {1, 3, 3, 4});
  EXPECT_SAYS(message(net.b, "x=4,2,5,5"),
              "'" + net.t + "' has the shape [4, 3, 3, 3], the file declares [1, 3, 3, 4]");
}

TEST(DeclaredShapes, OfTensorsThatTheGivenInputDoesNotReachAreStillCompared) {
  Net net(-1);
  const std::string other = net.b.op("Relu", {net.b.input({2, 7}, "z")});
  net.b.output(other).declare(other, {1, 7});
  EXPECT_SAYS(message(net.b, "x=4,2,5,5"), "'" + other + "' has the shape [2, 7], the file declares [1, 7]");
}

/// With twice the batch the network is none: what would become of its tensors then nobody knows.
TEST(DeclaredShapes, AreNotComparedWhereNothingElseThanWhatIsGivenFits) {
  Net net(-1);
  const std::string flat = net.b.op("Reshape", {net.y, net.b.ints({4, 27})});
  net.b.output(flat).declare(flat, {1, 27});
  EXPECT_EQ(message(net.b, "x=4,2,5,5"), "");
}

TEST(DeclaredShapes, OfInputsWithoutAnyShapeInTheFile) {
  Net net(1);
  net.b.model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  net.b.declare_output({1, 3, 3, 3});
  EXPECT_EQ(message(net.b, "x=4,2,5,6"), "");
  EXPECT_SAYS(message(net.b, "x=4,2,5"), "weights [3, 2, 3, 3] do not fit input [4, 2, 5]");
}

TEST(DeclaredShapes, OfAResizeSayHowItsSizeIsComputed) {
  OnnxBuilder b;
  b.output(b.op("Resize", {b.input({1, 1, 3, 3}), "", b.floats({1, 1, 1.6666666f, 1.6666666f})}));
  b.declare_output({1, 1, 5, 5});
  EXPECT_EQ(message(b), "");
  b.declare_output({1, 1, 4, 4});
  EXPECT_SAYS(message(b),
              "has the shape [1, 1, 5, 5], the file declares [1, 1, 4, 4] (a size is that of the input "
              "times the scale, in single precision, rounded down)");
}

/// Windows of 2 at -1, 2 and 5 of 4 elements: older tools count the third, which sees nothing but padding.
TEST(DeclaredShapes, WithAPoolingWindowInThePaddingAtTheEnd) {
  for (const char *type : {"MaxPool", "AveragePool"}) {
    OnnxBuilder b;
    const std::string y = b.op(type, {b.input({1, 1, 4})});
    b.attr("kernel_shape", Dims{2}).attr("strides", Dims{3}).attr("pads", Dims{1, 3}).attr("ceil_mode", int64_t{1});
    b.output(y).declare_output({1, 1, 2});
    EXPECT_EQ(message(b), "");
    b.declare_output({1, 1, 3});
    EXPECT_SAYS(message(b),
                "has the shape [1, 1, 2], the file declares [1, 1, 3] (ceil_mode adds no window that begins "
                "in the padding behind the data)");
  }
}

}  // namespace
}  // namespace npu::test
