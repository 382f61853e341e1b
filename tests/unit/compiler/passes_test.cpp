// SPDX-License-Identifier: MIT
// What each pass makes of a small graph, as text.
#include "compiler/passes/passes.h"

#include <gtest/gtest.h>

#include <limits>

#include "compiler/graph/evaluate.h"
#include "compiler/graph/print.h"
#include "tests/unit/compiler/chip.h"
#include "tests/unit/compiler/onnx_builder.h"

namespace npu::test {
namespace {

graph::Graph import(const OnnxBuilder &b) { return import_graph(b.bytes()); }

TEST(Text, ShowsEverythingThatIsNotAtItsDefault) {
  OnnxBuilder b;
  const std::string x = b.input({1, 2, 6, 6}, "x");
  const std::string y = b.op("MaxPool", {x});
  b.attr("kernel_shape", std::vector<int64_t>{3, 2}).attr("strides", std::vector<int64_t>{2, 2});
  b.output(b.op("Mul", {b.op("Greater", {y, b.scalar(0.5f)}), b.op("Less", {y, b.scalar(-1)})}));
  b.model.mutable_graph()->mutable_node(3)->set_op_type("And");
  EXPECT_EQ(graph::to_text(import(b)),
            "input x: float32 [1, 2, 6, 6]\n"
            "constant s2: float32 [] = 0.5\n"
            "constant s4: float32 [] = -1\n"
            "t1: float32 [1, 2, 2, 3] = Pool(x) kernel=[3, 2] stride=[2, 2]\n"
            "t3: bool [1, 2, 2, 3] = Binary(s2, t1) kind=Less\n"
            "t5: bool [1, 2, 2, 3] = Binary(t1, s4) kind=Less\n"
            "t6#6: bool [1, 2, 2, 3] = Binary(t3, t5) kind=And\n"
            "t6#7: uint8 [1, 2, 2, 3] = Cast(t6#6) to=uint8 saturate=true\n"
            "output t6 = t6#7\n");
}

TEST(Text, IsAPictureToo) {
  OnnxBuilder b;
  b.output(b.op("Relu", {b.input({3}, "a \"b\"")}));
  EXPECT_EQ(graph::to_dot(import(b)),
            "digraph \"built\" {\n  node [shape=box];\n  v0 [shape=ellipse, label=\"a \\\"b\\\"\"];\n"
            "  n0 [label=\"Unary kind=Relu\\nRelu_0\"];\n  v0 -> n0 [label=\"float32 [3]\"];\n"
            "  o0 [shape=ellipse, label=\"t1\"];\n  n0 -> o0 [label=\"float32 [3]\"];\n}\n");
}

TEST(RemoveDead, LeavesWhatOutputsNeed) {
  OnnxBuilder b;
  const std::string x = b.input({3}, "x"), y = b.op("Relu", {x});
  b.output(y).output(b.op("Split", {x}));
  b.attr("axis", int64_t{0}).more_output();
  b.model.mutable_graph()->mutable_node(1)->set_op_type("Dropout");
  b.model.mutable_graph()->mutable_node(1)->clear_attribute();
  graph::Graph g = import(b);
  g.outputs.pop_back();
  g.output_names.pop_back();
  graph::remove_dead(g);
  EXPECT_EQ(node_lines(g), "t1: float32 [3] = Unary(x) kind=Relu\noutput t1 = t1\n");
}

TEST(MergeEqual, LeavesOneOfThoseThatComputeTheSame) {
  OnnxBuilder b;
  const std::string x = b.input({2, 3}, "x");
  const std::string first = b.op("Mul", {x, b.floats({1, 2, 3})}), second = b.op("Mul", {x, b.floats({1, 2, 3})});
  const std::string other = b.op("Mul", {x, b.floats({1, 2, 4})});
  b.output(b.op("Sub", {b.op("Relu", {first}), b.op("Relu", {second})}));
  b.output(first).output(second).output(b.op("Abs", {other})).output(b.op("Exp", {other}));
  graph::Graph g = import(b);
  graph::merge_equal(g);
  EXPECT_EQ(node_lines(g),
            "t2: float32 [2, 3] = Binary(x, c1) kind=Mul\n"
            "t6: float32 [2, 3] = Binary(x, c5) kind=Mul\n"
            "t7: float32 [2, 3] = Unary(t2) kind=Relu\n"
            "t9: float32 [2, 3] = Binary(t7, t7) kind=Sub\n"
            "t10: float32 [2, 3] = Unary(t6) kind=Abs\n"
            "t11: float32 [2, 3] = Unary(t6) kind=Exp\n"
            "output t9 = t9\noutput t2 = t2\noutput t4 = t2\noutput t10 = t10\noutput t11 = t11\n");
}

/// 1 / -0 is another infinity.
TEST(MergeEqual, KeepsTheSignsOfZeros) {
  OnnxBuilder b;
  const std::string x = b.input({2}, "x"), pads = b.ints({1, 0});
  for (const float zero : {0.0f, -0.0f}) b.output(b.op("Reciprocal", {b.op("Pad", {x, pads, b.scalar(zero)})}));
  graph::Graph g = import(b);
  graph::merge_equal(g);
  EXPECT_EQ(g.nodes.size(), 4u) << graph::to_text(g);
}

TEST(MergePad, MovesZerosIntoTheConvolution) {
  OnnxBuilder b;
  const std::string padded = b.op("Pad", {b.input({1, 2, 5, 5}, "x"), b.ints({0, 0, 1, 2, 0, 0, 3, 0})});
  b.output(b.op("Conv", {padded, b.weights({4, 2, 3, 3})}));
  graph::Graph g = import(b);
  EXPECT_EQ(node_lines(g),
            "t2: float32 [1, 2, 9, 7] = Pad(x) begin=[0, 0, 1, 2] end=[0, 0, 3, 0]\n"
            "t4: float32 [1, 4, 7, 5] = Conv(t2, w3, -) kernel=[3, 3]\noutput t4 = t4\n");
  graph::merge_pad(g);
  EXPECT_EQ(node_lines(g),
            "t4: float32 [1, 4, 7, 5] = Conv(x, w3, -) kernel=[3, 3] begin=[1, 2] end=[3, 0]\noutput t4 = t4\n");
}

/// Zeros of a Pad node are data for an average: they count. A maximum would see them, and so may no window see them
/// alone.
TEST(MergePad, MovesZerosIntoAnAverage) {
  const auto padded = [](const char *type, int64_t above, int64_t kernel) {
    OnnxBuilder b;
    const std::string x = b.op("Pad", {b.input({1, 2, 6, 6}, "x"), b.ints({0, 0, above, 1, 0, 0, 1, 0})});
    b.output(b.op(type, {x}));
    b.attr("kernel_shape", Dims{kernel, kernel}).attr("strides", Dims{kernel, kernel});
    graph::Graph g = import(b);
    graph::merge_pad(g);
    return node_lines(g);
  };
  EXPECT_EQ(padded("AveragePool", 1, 2),
            "t3: float32 [1, 2, 4, 3] = Pool(x) kernel=[2, 2] stride=[2, 2] begin=[1, 1] end=[1, 0] max=false "
            "count_pad=true counted_end=[1, 0]\noutput t3 = t3\n");
  EXPECT_NE(padded("MaxPool", 1, 2).find("Pad(x)"), std::string::npos);
  EXPECT_NE(padded("AveragePool", 2, 2).find("Pad(x)"), std::string::npos);
}

TEST(FoldAffine, PutsFactorAndSummandIntoWeightsAndBias) {
  OnnxBuilder b;
  const std::string y = b.op("MatMul", {b.input({2, 2}, "x"), b.constant({2, 2}, {1, 2, 3, 4})});
  b.output(b.op("Add", {b.op("Mul", {y, b.floats({10, 100})}), b.floats({5, 6})}));
  graph::Graph g = import(b);
  graph::fold_affine(g);
  EXPECT_EQ(graph::to_text(g),
            "input x: float32 [2, 2]\n"
            "constant #7: float32 [2, 2] = 10, 200, 30, 400\n"
            "constant #8: float32 [2] = 5, 6\n"
            "t6: float32 [2, 2] = MatMul(x, #7, #8)\noutput t6 = t6\n");
}

TEST(FoldAffine, PutsAFactorIntoAllProductsBehindIt) {
  OnnxBuilder b;
  const std::string norm = b.op("Div", {b.input({2, 2}, "x"), b.input({2, 1}, "y")});
  const std::string scaled = b.op("Mul", {norm, b.floats({10, 100})});
  b.output(b.op("MatMul", {scaled, b.constant({2, 2}, {1, 2, 3, 4})}));
  b.output(b.op("MatMul", {scaled, b.constant({2, 1}, {5, 6})}));
  graph::Graph g = import(b);
  graph::fold_affine(g);
  EXPECT_EQ(graph::to_text(g),
            "input x: float32 [2, 2]\n"
            "input y: float32 [2, 1]\n"
            "constant #9: float32 [2, 2] = 10, 20, 300, 400\n"
            "constant #10: float32 [2, 1] = 50, 600\n"
            "t1: float32 [2, 2] = Binary(x, y) kind=Div\n"
            "t5: float32 [2, 2] = MatMul(t1, #9, -)\n"
            "t7: float32 [2, 1] = MatMul(t1, #10, -)\n"
            "output t5 = t5\noutput t7 = t7\n");
}

TEST(FoldAffine, LeavesAFactorThatSomethingElseReads) {
  OnnxBuilder b;
  const std::string scaled = b.op("Mul", {b.input({2, 2}, "x"), b.floats({10, 100})});
  b.output(b.op("MatMul", {scaled, b.weights({2, 2})})).output(b.op("Relu", {scaled}));
  // Along the rows, not along what is summed up.
  const std::string rows = b.op("Mul", {b.input({2, 2}, "y"), b.constant({2, 1}, {10, 100})});
  b.output(b.op("MatMul", {rows, b.weights({2, 2})}));
  graph::Graph g = import(b);
  const std::string before = graph::to_text(g);
  graph::fold_affine(g);
  EXPECT_EQ(graph::to_text(g), before);
}

/// As a bias a mask takes the bits of a sum's other terms, and as a factor it enlarges their roundings: 3 - 2 of a
/// product is exact, and (1 - m) * L is 0 there.
TEST(FoldAffine, LeavesMasksOutside) {
  for (const float masked : {-1e4f, -1e9f, std::numeric_limits<float>::lowest()})
    for (const bool factor : {false, true}) {
      SCOPED_TRACE(std::to_string(masked) + (factor ? " as a factor" : " as a summand"));
      OnnxBuilder b;
      std::string x = b.op("MatMul", {b.input({2, 2}), b.constant({2, 2}, {3, 3, -2, -2})});
      if (factor) x = b.op("Sub", {b.scalar(1), x});
      b.output(b.op(factor ? "Mul" : "Add", {x, b.floats({factor ? masked : 0, masked})}));
      graph::Graph g = import(b);
      const std::vector<graph::Tensor> in{*graph::make_f32({2, 2}, {1, 1, 0, 0})};
      std::vector<graph::Tensor> wanted, got;
      ASSERT_TRUE(graph::evaluate_graph(g, in, wanted).ok());
      graph::fold_affine(g);
      EXPECT_EQ(g.nodes.size(), 2u);
      ASSERT_TRUE(graph::evaluate_graph(g, in, got).ok());
      EXPECT_EQ(got[0].data, wanted[0].data);
    }
}

/// Two convolutions, joined, scaled and shifted: batch normalization behind the Concat.
TEST(FoldAffine, PassesAConcatAndAPositiveFactorARelu) {
  OnnxBuilder b;
  const std::string x = b.input({1, 1, 2, 2}, "x");
  const std::string p = b.op("Conv", {x, b.constant({1, 1, 1, 1}, {2})});
  const std::string q = b.op("Conv", {x, b.constant({2, 1, 1, 1}, {3, 4})});
  const std::string joined = b.op("Concat", {p, q});
  b.attr("axis", int64_t{1});
  const std::string scaled = b.op("Mul", {joined, b.constant({3, 1, 1}, {10, 1, 100})});
  b.output(b.op("Add", {scaled, b.constant({3, 1, 1}, {5, 6, 7})}));
  const std::string r = b.op("Relu", {b.op("Conv", {x, b.constant({1, 1, 1, 1}, {7})})});
  b.output(b.op("Div", {r, b.scalar(2)}));
  graph::Graph g = import(b);
  graph::fold_affine(g);
  EXPECT_EQ(graph::to_text(g),
            "input x: float32 [1, 1, 2, 2]\n"
            "constant #21: float32 [1, 1, 1, 1] = 20\n"
            "constant #22: float32 [2, 1, 1, 1] = 3, 400\n"
            "constant #23: float32 [1, 1, 1, 1] = 3.5\n"
            "constant #28: float32 [1] = 5\n"
            "constant #29: float32 [2] = 6, 7\n"
            "#25: float32 [1, 1, 2, 2] = Conv(x, #21, #28)\n"
            "#27: float32 [1, 2, 2, 2] = Conv(x, #22, #29)\n"
            "t9: float32 [1, 3, 2, 2] = Concat(#25, #27) axis=1\n"
            "#20: float32 [1, 1, 2, 2] = Conv(x, #23, -)\n"
            "t14: float32 [1, 1, 2, 2] = Unary(#20) kind=Relu\noutput t9 = t9\noutput t14 = t14\n");
}

TEST(FoldAffine, PassesNothingThatCannotTakeIt) {
  OnnxBuilder b;
  const std::string x = b.input({1, 2, 2, 2}, "x"), c = b.op("Conv", {x, b.weights({2, 2, 1, 1})});
  const std::string joined = b.op("Concat", {c, x});  // x is no product
  b.attr("axis", int64_t{1}).output(b.op("Mul", {joined, b.scalar(3)}));
  const std::string rows =
      b.op("Concat", {b.op("Conv", {x, b.weights({2, 2, 1, 1})}), b.op("Conv", {x, b.weights({2, 2, 1, 1})})});
  b.attr("axis", int64_t{2}).output(b.op("Mul", {rows, b.constant({2, 1, 1}, {2, 3})}));
  const std::string read = b.op("Conv", {x, b.weights({2, 2, 1, 1})});  // twice
  const std::string twice = b.op("Concat", {read, b.op("Conv", {x, b.weights({2, 2, 1, 1})})});
  b.attr("axis", int64_t{1}).output(b.op("Mul", {twice, b.scalar(3)})).output(read);
  const std::string relu = b.op("Relu", {b.op("Conv", {x, b.weights({2, 2, 1, 1})})});
  b.output(b.op("Mul", {relu, b.constant({2, 1, 1}, {2, -3})}));  // below zero
  const std::string other = b.op("Relu", {b.op("Conv", {x, b.weights({2, 2, 1, 1})})});
  b.output(b.op("Add", {other, b.scalar(1)}));  // no factor
  graph::Graph g = import(b);
  const std::string before = node_lines(g);
  graph::fold_affine(g);
  EXPECT_EQ(node_lines(g), before);
}

TEST(FuseActivation, GoesBehindViews) {
  OnnxBuilder b;
  const std::string y = b.op("Conv", {b.input({1, 2, 4, 4}, "x"), b.weights({3, 2, 1, 1})});
  const std::string z = b.op("Transpose", {y});
  b.attr("perm", Dims{0, 2, 3, 1}).output(b.op("Sigmoid", {b.op("Reshape", {z, b.ints({1, 16, 3})})}));
  graph::Graph g = import(b);
  graph::fuse_activation(g);
  EXPECT_EQ(node_lines(g),
            "t2: float32 [1, 3, 4, 4] = Conv(x, w1, -) kind=Sigmoid\n"
            "t3: float32 [1, 4, 4, 3] = Transpose(t2) perm=[0, 2, 3, 1]\n"
            "t6: float32 [1, 16, 3] = Reshape(t3) shape=[1, 16, 3]\noutput t6 = t6\n");
}

TEST(FuseActivation, LeavesWhatOthersReadBeforeIt) {
  OnnxBuilder b;
  const std::string y = b.op("Conv", {b.input({1, 2, 4, 4}, "x"), b.weights({3, 2, 1, 1})});
  b.output(b.op("Sigmoid", {b.op("Reshape", {y, b.ints({1, 48})})})).output(b.op("Neg", {y}));
  graph::Graph g = import(b);
  const std::string before = node_lines(g);
  graph::fuse_activation(g);
  EXPECT_EQ(node_lines(g), before);
}

std::string enlarged_sum(bool of_convolution) {
  OnnxBuilder b;
  const std::string small = b.op("Relu", {b.input({1, 2, 3, 4}, "x")});
  const std::string large = b.op("Resize", {small, "", b.floats({1, 1, 2, 3})});
  b.attr("mode", "nearest").attr("coordinate_transformation_mode", "asymmetric").attr("nearest_mode", "floor");
  std::string y = b.input({1, 2, 6, 12}, "y");
  if (of_convolution) y = b.op("Conv", {y, b.weights({2, 2, 1, 1})});
  b.output(b.op("Add", {y, large}));
  graph::Graph g = import(b);
  graph::repeat_late(g);
  return node_lines(g);
}

TEST(RepeatLate, ReadsWhatIsRepeatedInPlace) {
  EXPECT_EQ(enlarged_sum(false),
            "t1: float32 [1, 2, 3, 4] = Unary(x) kind=Relu\n"
            "#4: float32 [1, 2, 3, 1, 4, 1] = Reshape(t1) shape=[1, 2, 3, 1, 4, 1]\n"
            "#5: float32 [1, 2, 3, 2, 4, 3] = Expand(#4) shape=[1, 2, 3, 2, 4, 3]\n"
            "#8: float32 [1, 2, 3, 2, 4, 3] = Reshape(y) shape=[1, 2, 3, 2, 4, 3]\n"
            "#9: float32 [1, 2, 3, 2, 4, 3] = Binary(#8, #5)\n"
            "t4: float32 [1, 2, 6, 12] = Reshape(#9) shape=[1, 2, 6, 12]\noutput t4 = t4\n");
}

/// A convolution begins with what is added to it, for which that must be a picture.
TEST(RepeatLate, LeavesSumsToConvolutions) {
  EXPECT_NE(enlarged_sum(true).find("Binary(t5, t3)"), std::string::npos) << enlarged_sum(true);
}

/// (x - {2, 3}) * {4, 5}, then 1 minus that: the third node stays.
TEST(JoinAffine, MakesAConvolutionOfTwoNodes) {
  OnnxBuilder b;
  const std::string x = b.op("GlobalMaxPool", {b.input({1, 2, 3, 3}, "x")});
  const std::string y = b.op("Sub", {x, b.constant({2, 1, 1}, {2, 3})});
  const std::string z = b.op("Mul", {b.constant({1, 2, 1, 1}, {4, 5}), y});
  b.output(b.op("Sub", {b.scalar(1), z}));
  graph::Graph g = import(b);
  graph::join_affine(g);
  EXPECT_EQ(graph::to_text(g),
            "input x: float32 [1, 2, 3, 3]\n"
            "constant s6: float32 [] = 1\n"
            "constant #8: float32 [2, 1, 1, 1] = 4, 5\n"
            "constant #9: float32 [2] = -8, -15\n"
            "t1: float32 [1, 2, 1, 1] = Pool(x) kernel=[3, 3]\n"
            "t5: float32 [1, 2, 1, 1] = Conv(t1, #8, #9) groups=2\n"
            "t7: float32 [1, 2, 1, 1] = Binary(s6, t5) kind=Sub\noutput t7 = t7\n");
}

TEST(JoinAffine, LeavesInputsAndWhatOthersRead) {
  OnnxBuilder b;
  const std::string x = b.input({1, 2, 3, 3}, "x"), y = b.op("Mul", {x, b.constant({2, 1, 1}, {2, 3})});
  b.output(b.op("Add", {y, b.scalar(1)}));
  const std::string p = b.op("GlobalMaxPool", {x}), q = b.op("Mul", {p, b.scalar(3)});
  b.output(b.op("Add", {q, b.scalar(1)})).output(q);
  graph::Graph g = import(b);
  const std::string before = node_lines(g);
  graph::join_affine(g);
  EXPECT_EQ(node_lines(g), before);
}

TEST(FuseActivation, GoesIntoTheCommandInFront) {
  OnnxBuilder b;
  const std::string sum = b.op("Add", {b.input({3}, "x"), b.input({3}, "y")});
  b.output(b.op("LeakyRelu", {sum}));
  b.attr("alpha", 0.5f);
  graph::Graph g = import(b);
  graph::fuse_activation(g);
  EXPECT_EQ(node_lines(g), "t2: float32 [3] = Binary(x, y) kind=LeakyRelu a=0.5\noutput t2 = t2\n");
}

TEST(FuseActivation, LeavesFunctionsThatOnlyUnaryHasAndSumsOfIntegers) {
  OnnxBuilder b;
  const std::string sum = b.op("Add", {b.input({3}, "x"), b.input({3}, "y")});
  const std::string whole = b.op("Add", {b.input({3}, "i", onnx::TensorProto::INT32), b.ints32({1, 2, 3})});
  b.output(b.op("Exp", {sum})).output(b.op("Relu", {whole}));
  graph::Graph g = import(b);
  const std::string before = node_lines(g);
  graph::fuse_activation(g);
  EXPECT_EQ(node_lines(g), before);
}

std::string expanded(const char *type, const Dims &dims, const std::vector<int64_t> &axes) {
  OnnxBuilder b;
  b.output(b.op(type, {b.input(dims, "x")}));
  b.attr("axes", axes).attr("keepdims", int64_t{1});
  if (std::string(type) == "ReduceSum") {
    b.model.mutable_graph()->mutable_node(0)->clear_attribute();
    b.model.mutable_graph()->mutable_node(0)->add_input(b.ints(axes));
  }
  graph::Graph g = import(b);
  graph::expand_reduce(g);
  return node_lines(g);
}

TEST(ExpandReduce, IsAPoolingOverAllThatIsReduced) {
  EXPECT_EQ(expanded("ReduceMax", {2, 3, 4}, {1}),
            "#2: float32 [2, 4, 3] = Transpose(x) perm=[0, 2, 1]\n"
            "#3: float32 [2, 4, 3, 1] = Reshape(#2) shape=[2, 4, 3, 1]\n"
            "#4: float32 [2, 4, 1, 1] = Pool(#3) kernel=[3, 1]\n"
            "t1: float32 [2, 1, 4] = Reshape(#4) shape=[2, 1, 4]\noutput t1 = t1\n");
}

TEST(ExpandReduce, OfSumsMultipliesTheMean) {
  EXPECT_EQ(expanded("ReduceSum", {2, 5}, {1}),
            "#3: float32 [1, 2, 5, 1] = Reshape(x) shape=[1, 2, 5, 1]\n"
            "#4: float32 [1, 2, 1, 1] = Pool(#3) kernel=[5, 1] max=false\n"
            "#6: float32 [1, 2, 1, 1] = Binary(#4, #5) kind=Mul\n"
            "t1: float32 [2, 1] = Reshape(#6) shape=[2, 1]\noutput t1 = t1\n");
}

TEST(ExpandReduce, OfProductsMultipliesHalves) {
  EXPECT_EQ(expanded("ReduceProd", {3}, {0}),
            "#2: float32 [1, 3] = Reshape(x) shape=[1, 3]\n"
            "#3: float32 [1, 1] = Slice(#2) start=[0, 2] step=[1, 1] count=[1, 1]\n"
            "#4: float32 [1, 1] = Slice(#2) start=[0, 0] step=[1, 1] count=[1, 1]\n"
            "#5: float32 [1, 1] = Slice(#2) start=[0, 1] step=[1, 1] count=[1, 1]\n"
            "#6: float32 [1, 1] = Binary(#4, #5) kind=Mul\n"
            "#7: float32 [1, 1] = Binary(#6, #3) kind=Mul\n"
            "t1: float32 [1] = Reshape(#7) shape=[1]\noutput t1 = t1\n");
}

TEST(SplitPool, MakesRowsAndColumnsOfAWindowThatDoesNotFit) {
  OnnxBuilder b;
  b.output(b.op("MaxPool", {b.input({1, 1, 20, 20}, "x")}));
  b.attr("kernel_shape", std::vector<int64_t>{10, 5});
  graph::Graph g = import(b);
  graph::split_pool(g, 50);
  EXPECT_EQ(node_lines(g), "t1: float32 [1, 1, 11, 16] = Pool(x) kernel=[10, 5]\noutput t1 = t1\n");
  graph::split_pool(g, 49);
  EXPECT_EQ(node_lines(g),
            "t1#2: float32 [1, 1, 20, 16] = Pool(x) kernel=[1, 5]\n"
            "t1#1: float32 [1, 1, 11, 16] = Pool(t1#2) kernel=[10, 1]\noutput t1 = t1#1\n");
}

}  // namespace
}  // namespace npu::test
