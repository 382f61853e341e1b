// SPDX-License-Identifier: MIT
// Networks of float32 that become networks of integers by samples.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "compiler/api/npuc.h"
#include "compiler/graph/evaluate.h"
#include "compiler/graph/print.h"
#include "compiler/passes/io_types.h"
#include "compiler/passes/passes.h"
#include "compiler/quantize/equalize.h"
#include "compiler/quantize/half.h"
#include "compiler/quantize/insert.h"
#include "compiler/quantize/parts.h"
#include "runtime/cpu/element.h"
#include "tests/unit/compiler/chip.h"
#include "tests/unit/compiler/float_nets.h"
#include "tests/unit/compiler/parts_nets.h"
#include "tests/unit/compiler/quantized_nets.h"
#include "tests/unit/compiler/share.h"

namespace npu::test {
namespace {

using graph::Dtype;
using graph::Graph;
using graph::Tensor;
using quantize::Options;
using quantize::Range;
using quantize::Type;

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

// Scales.

TEST(Scales, UseAllSteps) {
  EXPECT_EQ(quant_of({0, 255}, Type::Int8, false), (graph::Quant{1, -128}));
  EXPECT_EQ(quant_of({0, 255}, Type::Uint8, false), (graph::Quant{1, 0}));
  EXPECT_EQ(quant_of({-255, 0}, Type::Int8, false), (graph::Quant{1, 127}));
  EXPECT_EQ(quant_of({-51, 204}, Type::Int8, false), (graph::Quant{1, -77}));
  EXPECT_EQ(quant_of({-51, 204}, Type::Uint8, false), (graph::Quant{1, 51}));
}

TEST(Scales, HaveZeroInTheirRange) {
  EXPECT_EQ(quant_of({10, 255}, Type::Uint8, false), (graph::Quant{1, 0}));
  EXPECT_EQ(quant_of({-255, -3}, Type::Uint8, false), (graph::Quant{1, 255}));
}

TEST(Scales, SymmetricOnesHaveTheirZeroInTheMiddle) {
  EXPECT_EQ(quant_of({-127, 3}, Type::Int8, true), (graph::Quant{1, 0}));
  EXPECT_EQ(quant_of({-1, 127}, Type::Uint8, true), (graph::Quant{1, 128}));
  EXPECT_EQ(quant_of({0, 255}, Type::Int8, true), (graph::Quant{1, -128}));  // never negative
}

TEST(Scales, OfNothing) {
  EXPECT_GT(quant_of({0, 0}, Type::Int8, false).scale, 0);
  EXPECT_TRUE(std::isnormal(quant_of({0, 1e-45f}, Type::Int8, false).scale));
}

// What becomes of operators.

/// The network as the passes leave it, and as it was.
struct Made {
  std::string error;
  Graph real, integer;
  quantize::Result result;
};
Made make(const OnnxBuilder &b, const Options &options) {
  Made out;
  out.real = import_graph(b.bytes());
  graph::merge_equal(out.real);
  graph::merge_pad(out.real);
  graph::fold_affine(out.real);
  out.integer = out.real;
  out.error = quantize::quantize(out.integer, options, out.result).message();
  graph::fuse_quantized(out.integer);
  return out;
}

std::string text(const OnnxBuilder &b, Options options = int8_options()) {
  const Made made = make(b, options);
  EXPECT_EQ(made.error, "");
  return node_lines(made.integer);
}

/// Ranges by the table alone.
Options by_table(const std::map<std::string, Range> &ranges) {
  Options out;
  out.type = Type::Int8;
  out.table.emplace();
  for (const auto &[name, range] : ranges) out.table->tensors[name] = {range, "manual"};
  return out;
}

TEST(Quantize, AConvolutionWithItsReluIsOneOperator) {
  OnnxBuilder b(14);
  const std::string c = b.op("Conv", {b.input({1, 1, 2, 2}, "x"), b.constant({1, 1, 1, 1}, {2}), b.floats({0.5f})});
  const std::string r = b.op("Relu", {c});
  b.output(b.op("Conv", {r, b.constant({1, 1, 1, 1}, {127})}));
  EXPECT_EQ(text(b, by_table({{"x", {-128, 127}}, {r, {0, 255}}})),
            "#10: int8 [1, 1, 2, 2] = Requant(x) out_quant=1@0 to=int8\n"
            "#17: int8 [1, 1, 2, 2] = Conv(#10, #14, #15, #16) kind=Relu quantized=true out_zero=-128 out=int8\n"
            "t6: float32 [1, 1, 2, 2] = Conv(#17, #18, -, #19) quantized=true x_zero=-128\noutput t6 = t6\n");
}

TEST(Quantize, DumpsShowRanges) {
  OnnxBuilder b(14);
  const std::string c = b.op("Conv", {b.input({1, 1, 2, 2}, "x"), b.constant({1, 1, 1, 1}, {2})});
  b.output(b.op("Conv", {c, b.constant({1, 1, 1, 1}, {127})}));
  const Made made = make(b, by_table({{"x", {-128, 127}}, {c, {0, 127.5f}}}));
  const std::string lines = graph::to_text(made.integer, true);
  EXPECT_SAYS(lines, "int8 [1, 1, 2, 2] {-128 to 127, 1@0} = Requant(x)");
  EXPECT_SAYS(lines, "int8 [1, 1, 2, 2] {0 to 127.5, 0.5@-128} = Conv(");
}

TEST(Quantize, AFormulaIsOneTable) {
  OnnxBuilder b(14);
  const std::string c = b.op("Conv", {b.input({1, 1, 2, 2}, "x"), b.weights({2, 1, 1, 1})});
  const std::string y = b.op("Mul", {c, b.op("Sigmoid", {c})});
  b.output(b.op("Conv", {y, b.weights({1, 2, 1, 1})}));
  const std::string lines = text(b);
  EXPECT_SAYS(lines, "Lookup(");
  EXPECT_EQ(lines.find("Binary"), std::string::npos) << lines;
  EXPECT_EQ(lines.find("Unary"), std::string::npos) << lines;
}

TEST(Quantize, PartsOfAConcatHaveItsScale) {
  OnnxBuilder b(14);
  const std::string x = b.input({1, 1, 2, 2}, "x");
  const std::string p = b.op("Conv", {x, b.constant({1, 1, 1, 1}, {1})}),
                    q = b.op("Conv", {x, b.constant({1, 1, 1, 1}, {5})});
  const std::string all = b.op("Concat", {p, q});
  b.attr("axis", int64_t{1});
  b.output(b.op("Conv", {all, b.weights({1, 2, 1, 1})}));
  const Made made = make(b, int8_options());
  ASSERT_EQ(made.error, "");
  EXPECT_EQ(made.result.table.tensors.at(p).range, made.result.table.tensors.at(all).range);
  EXPECT_EQ(made.result.table.tensors.at(q).range, made.result.table.tensors.at(all).range);
  size_t requants = 0;
  for (const graph::Node &n : made.integer.nodes) requants += n.op == graph::Op::Requant;
  EXPECT_EQ(requants, 1u) << node_lines(made.integer);  // of the input
}

TEST(Quantize, NormalizationsStayInFloat) {
  OnnxBuilder b(17);
  const std::string m = b.op("MatMul", {b.input({1, 4, 8}, "x"), b.weights({8, 8})});
  const std::string n = b.op("LayerNormalization", {m, b.weights({8}), b.weights({8})});
  b.output(b.op("MatMul", {n, b.weights({8, 3})}));
  const std::string lines = text(b);
  EXPECT_SAYS(lines, "Rsqrt");
  EXPECT_EQ(lines.find("out_type"), std::string::npos) << lines;  // that of arithmetic between integers
  EXPECT_EQ(lines.find("Lookup"), std::string::npos) << lines;
  for (const char *product : {"MatMul(#21, ", "MatMul(#23, "}) EXPECT_SAYS(lines, product);
}

TEST(Quantize, ClassesStayInFloat) {
  OnnxBuilder b(14);
  b.output(b.op("Softmax", {b.op("MatMul", {b.input({1, 8}, "x"), b.weights({8, 5})})}));
  const std::string lines = text(b);
  EXPECT_SAYS(lines, "float32 [1, 5] = Softmax(");
  EXPECT_SAYS(lines, "float32 [1, 5] = MatMul(");
}

/// Older operator sets compute a softmax of two dimensions between changes of shape.
TEST(Quantize, ClassesStayInFloatBehindMoves) {
  OnnxBuilder b(11);
  const std::string x = b.op("Conv", {b.input({1, 4, 1, 1}, "x"), b.weights({5, 4, 1, 1})});
  b.output(b.op("Softmax", {x}));
  b.attr("axis", int64_t{1});
  EXPECT_SAYS(text(b), " [1, 5] = Softmax(");
  EXPECT_EQ(text(b).find("int8 [1, 5] = Softmax("), std::string::npos) << text(b);
}

/// Scores and boxes side by side in one result: each has a range of its own.
TEST(Quantize, ResultsThatAreOneTensorKeepTheirRanges) {
  OnnxBuilder b(14);
  const std::string x = b.input({1, 4, 2, 2}, "x");
  const std::string boxes = b.op("Conv", {x, b.weights({4, 4, 1, 1})});
  const std::string scores = b.op("Sigmoid", {b.op("Conv", {x, b.weights({2, 4, 1, 1})})});
  b.output(b.op("Concat", {boxes, scores}));
  b.attr("axis", int64_t{1});
  EXPECT_SAYS(text(b), "float32 [1, 6, 2, 2] = Concat(");
}

/// A mask in front of a softmax: steps of a range that reaches to -1e9 are larger than all scores.
TEST(Quantize, MasksStayInFloat) {
  OnnxBuilder b(14);
  const std::string x = b.input({1, 4, 8}, "x");
  const std::string turned = b.op("Transpose", {x});
  b.attr("perm", std::vector<int64_t>{0, 2, 1});
  const std::string scores = b.op("MatMul", {x, turned});
  std::vector<float> mask(16, 0);
  for (int i = 0; i < 4; ++i)
    for (int k = i + 1; k < 4; ++k) mask[static_cast<size_t>(i * 4 + k)] = -1e9f;
  const std::string sum = b.op("Add", {scores, b.constant({4, 4}, mask)});
  b.named("masked");
  const std::string shares = b.op("Softmax", {sum});
  b.output(b.op("MatMul", {shares, x}));
  const Made made = make(b, int8_options(4));
  ASSERT_EQ(made.error, "");
  EXPECT_EQ(made.result.table.reals, (std::set<std::string>{sum}));
  EXPECT_SAYS(made.result.text(), "in float32     tensor '" + sum + "': half of the steps or more would go to masked ");
  EXPECT_GE(made.result.outputs.at(0).difference.cosine(), 0.999);
}

/// Masks of all sizes, and wherever they come in.
TEST(Quantize, MasksTakeNoSteps) {
  for (const char *kind : kMaskKinds)
    for (float far : {-100.f, -300.f, -9000.f, -1e4f, -1e9f, -3.4028235e38f, -INFINITY})
      if (kind != std::string("times") || std::isfinite(far)) {
        EXPECT_EQ(check_parts(masked_attention(kind, far), 0.99), "") << kind << " " << far;
      }
  for (float far : {-100.f, -9000.f, -1e9f, -INFINITY}) {
    EXPECT_EQ(check_parts(masked_maximum(far), 0.99), "") << far;
    EXPECT_EQ(check_parts(masked_maximum(far, true), 0.99), "") << far;
  }
}

/// Samples without padding have nothing that shows how far masked numbers are.
TEST(Quantize, MasksThatNoSampleHas) {
  for (const char *kind : {"input", "times", "where"})
    for (const float far : {-1e4f, -1e9f}) {
      PartsNet net = masked_attention(kind, far);
      net.unseen = true;
      quantize::Result told;
      EXPECT_EQ(check_parts(net, 0.95, &told), "") << kind << " " << far;
      std::string warnings;
      for (const std::string &w : told.warnings) warnings += w + "\n";
      // A Where that has never chosen looks as one of which both operands are ordinary.
      if (kind != std::string("where")) {
        EXPECT_SAYS(warnings, "no sample has masked elements (tensor '");
      }
    }
  quantize::Result told;
  EXPECT_EQ(check_parts(masked_attention("input", -1e4f), 0.95, &told), "");
  EXPECT_TRUE(told.warnings.empty()) << told.warnings[0];
}

/// The state of a recurrent network in its first step.
TEST(Quantize, InputsThatWereZeroAreNamed) {
  OnnxBuilder b(14);
  const std::string x = b.op("MatMul", {b.input({1, 8}, "x"), b.weights({8, 8})});
  const std::string h = b.op("MatMul", {b.input({1, 8}, "h"), b.weights({8, 8})});
  b.output(b.op("Tanh", {b.op("Add", {x, h})}));
  const Made made = make(b, int8_options(4, [](size_t, std::vector<Tensor> &inputs) {
                           std::fill_n(inputs[1].as<float>(), inputs[1].count(), 0.0f);
                         }));
  ASSERT_EQ(made.error, "");
  ASSERT_EQ(made.result.warnings.size(), 1u);
  EXPECT_SAYS(made.result.warnings[0], "input 'h' was 0 in all samples, and other numbers of it are lost");
}

/// Equal nodes become one node. --keep-float finds it by the name of either.
TEST(Quantize, EqualNodesAreKeptByEitherName) {
  for (const char *name : {"first", "second"}) {
    OnnxBuilder b(14);
    const std::string x = b.input({4, 8}, "x"), w = b.weights({8, 8});
    const std::string first = b.op("MatMul", {x, w});
    b.named("first");
    const std::string second = b.op("MatMul", {x, w});
    b.named("second");
    b.output(b.op("MatMul", {b.op("Relu", {b.op("Add", {first, second})}), b.weights({8, 8})}));
    Options options = int8_options(4);
    options.keep = {name};
    const Made made = make(b, options);
    EXPECT_EQ(made.error, "") << name;
    EXPECT_TRUE(made.result.table.keep.count("first")) << name;
  }
}

/// Numbers of two magnitudes, which a function reads. The large ones are a mask only if the function's result spans
/// less than a fourth of both. x is 0.5 to 1, so channels of `reader` are 0.005 to 0.01 and `large` / 2 to `large`.
std::set<std::string> reals_in_front_of(const char *reader, float large) {
  OnnxBuilder b(14);
  const std::string x = b.input({1, 1, 4, 4}, "x");
  const std::string u = b.op("Conv", {x, b.constant({2, 1, 1, 1}, {0.01f, large})});
  const bool adds = reader == std::string("Add");
  const std::string y = adds ? b.op("Add", {u, b.weights({1, 2, 4, 4})}) : b.op(reader, {u});
  b.output(b.op("Gemm", {b.op("Flatten", {b.op("GlobalAveragePool", {y})}), b.weights({2, 3})}));
  PartsNet net;
  net.b = b;
  net.outputs = {{1, {3}}};
  net.change = [](size_t, std::vector<Tensor> &inputs) {
    for (int64_t i = 0; i < inputs[0].count(); ++i) inputs[0].as<float>()[i] = inputs[0].as<float>()[i] / 4 + 0.75f;
  };
  quantize::Result result;
  EXPECT_EQ(check_parts(net, 0.99, &result), "") << reader << " " << large;
  return result.table.reals;
}

/// A sigmoid's result spans 0.982 behind numbers up to 4, and 0.976 behind numbers up to 3.7: a fourth of their range.
/// A sum has the magnitude of its operand, so an average that reads it needs all numbers, whatever they are.
TEST(Quantize, OrdinaryNumbersOfTwoMagnitudesAreNoMask) {
  for (const float large : {1.f, 2.f, 3.7f}) EXPECT_TRUE(reals_in_front_of("Sigmoid", large).empty()) << large;
  for (const float large : {4.1f, 300.f, 1e4f}) EXPECT_EQ(reals_in_front_of("Sigmoid", large).size(), 1u) << large;
  for (const float large : {1.f, 17.f, 300.f}) EXPECT_TRUE(reals_in_front_of("Add", large).empty()) << large;
}

/// Scores of a mask that is no mask: a number that all others are near.
TEST(Quantize, ScoresWithoutAMaskBecomeIntegers) {
  quantize::Result result;
  EXPECT_EQ(check_parts(masked_attention("constant", -2), 0.99, &result), "");
  EXPECT_EQ(result.table.reals, std::set<std::string>());
}

TEST(Quantize, RandomPartsAreNearOrWarnedOf) {
  for (uint32_t seed = 0; seed < share_of(96); ++seed) {
    EXPECT_EQ(check_parts(random_parts_net(seed), 0.97), "") << seed;
  }
}

/// Boxes of 0 to 640 beside scores of 0 to 1, in one output of integers or behind arithmetic.
OnnxBuilder boxes_and_scores(bool read_by_conv = false) {
  OnnxBuilder b(14);
  const std::string x = b.input({1, 4, 4, 4}, "x");
  const std::string boxes = b.op("Mul", {b.op("Relu", {b.op("Conv", {x, b.weights({4, 4, 1, 1})})}), b.scalar(640)});
  const std::string scores = b.op("Sigmoid", {b.op("Conv", {x, b.weights({2, 4, 1, 1})})});
  const std::string all = b.op("Concat", {boxes, scores});
  b.attr("axis", int64_t{1}).named("join");
  if (read_by_conv) {
    b.output(b.op("Conv", {all, b.constant({1, 6, 1, 1}, {0, 0, 0, 0, 1, 1})}));
    b.named("reader");
  } else {
    b.output(b.op("Mul", {all, b.scalar(0.5f)}));
  }
  return b;
}

TEST(Quantize, SmallPartsOfAnOutputOfIntegersAreWarnedOf) {
  const OnnxBuilder b = boxes_and_scores();
  Options options = int8_options();
  const std::string name = import_graph(b.bytes()).output_names[0];
  const Made real = make(b, options);
  ASSERT_EQ(real.error, "");
  EXPECT_TRUE(real.result.warnings.empty()) << real.result.text();
  options.outputs = {name};
  const Made made = make(b, options);
  ASSERT_EQ(made.error, "");
  EXPECT_GT(made.result.outputs.at(0).difference.cosine(), 0.999);
  ASSERT_FALSE(made.result.warnings.empty());
  EXPECT_SAYS(made.result.warnings[0], "output '" + name + "' has one scale for all its parts: part '");
  EXPECT_SAYS(made.result.warnings[0], "--output-type '" + name + "=float32' keeps it in real numbers");
  EXPECT_SAYS(made.result.warnings.back(), "of output '" + name + "' has a cosine of 0.0");
  ASSERT_TRUE(quantize::parse_accuracy("cosine:0.9", options.accuracy));
  EXPECT_SAYS(make(b, options).error, "whose parts share a scale: --output-type '" + name + "=float32'");
}

/// Factors of channels, which become a convolution, leave parts what they are: nothing is added up.
TEST(Quantize, FactorsOfChannelsKeepPartsApart) {
  for (const bool concat : {true, false}) {
    PartsNet net;
    OnnxBuilder &b = net.b;
    const std::string x = b.input({1, 4, 4, 4}, "x");
    std::vector<float> uneven(24, 0.5f);
    std::fill_n(uneven.begin(), 16, 3e4f);
    const std::string large = b.op("Relu", {b.op("Conv", {x, b.weights({4, 4, 1, 1})})});
    std::string y;
    if (concat) {
      y = b.op("Concat",
               {b.op("Mul", {large, b.scalar(3e4f)}), b.op("Sigmoid", {b.op("Conv", {x, b.weights({2, 4, 1, 1})})})});
      b.attr("axis", int64_t{1});
    } else {
      y = b.op("Add", {b.op("Conv", {x, b.constant({6, 4, 1, 1}, uneven)}),
                       b.op("Conv", {x, b.constant({6, 4, 1, 1}, uneven)})});
    }
    y = b.op("Mul", {y, b.scalar(0.5f)});
    b.output(b.op("Mul", {y, b.constant({1, 6, 1, 1}, {1, -2, 0.5f, -0.25f, 3, -1})}));
    net.outputs = {{1, {4, 2}}};
    quantize::Result result;
    EXPECT_EQ(check_parts(net, 0.99, &result), "") << concat;
    EXPECT_EQ(result.warnings, std::vector<std::string>()) << concat;
  }
}

/// A product that reads all parts needs one scale for them, and the warning names a remedy.
TEST(Quantize, SmallPartsThatAProductReadsAreWarnedOf) {
  const OnnxBuilder b = boxes_and_scores(true);
  Options options = int8_options();
  Made made = make(b, options);
  ASSERT_EQ(made.error, "");
  ASSERT_FALSE(made.result.warnings.empty());
  EXPECT_SAYS(made.result.warnings[0], "of node 'join' has one scale for all its parts");
  EXPECT_SAYS(made.result.warnings[0], "--keep-float 'reader' keeps what reads it in float32");
  EXPECT_LT(made.result.outputs.at(0).difference.cosine(), quantize::kLeastCosine);
  EXPECT_SAYS(made.result.warnings.back(), "has a cosine of 0.");
  options.keep = {"reader"};
  made = make(b, options);
  ASSERT_EQ(made.error, "");
  EXPECT_TRUE(made.result.warnings.empty()) << made.result.text();
  EXPECT_GT(made.result.outputs.at(0).difference.cosine(), 0.99);
}

/// Each slice of each dimension counts: groups of similar ones are found wherever they are.
TEST(Parts, AreFoundAlongEveryDimension) {
  const graph::Shape shape{3, 4, 5};
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    Tensor wanted(Dtype::F32, shape), got(Dtype::F32, shape);
    int64_t inner = 1;
    for (size_t d = axis + 1; d < shape.size(); ++d) inner *= shape[d];
    for (int64_t i = 0; i < wanted.count(); ++i) {
      const bool small = i / inner % shape[axis] == 1;
      wanted.as<float>()[i] = (small ? 0.5f : 500) + static_cast<float>(i % 3);
      got.as<float>()[i] = small ? 0 : wanted.as<float>()[i];
    }
    quantize::Slices slices(shape, {});
    slices.add(wanted.as<float>(), {});
    const quantize::Parts parts(shape, {}, slices);
    ASSERT_EQ(parts.list().size(), 2u) << axis;
    EXPECT_EQ(parts.list()[1].name, "index 1 of dimension " + std::to_string(axis));
    EXPECT_EQ(parts.list()[1].range, (Range{0, 2.5f}));
    std::vector<quantize::Difference> differences;
    parts.add(wanted.as<float>(), got.as<float>(), differences);
    quantize::Difference all;
    all.add(wanted.as<float>(), got.as<float>(), wanted.count());
    EXPECT_GT(all.cosine(), 0.9999);
    EXPECT_EQ(differences[0].cosine(), 1);
    EXPECT_EQ(differences[1].cosine(), 0);
  }
}

TEST(Quantize, NodesThatAreKeptStayInFloat) {
  OnnxBuilder b(14);
  const std::string c = b.op("Conv", {b.input({1, 1, 2, 2}, "x"), b.weights({2, 1, 1, 1})});
  b.named("first");
  b.output(b.op("Conv", {c, b.weights({1, 2, 1, 1})}));
  Options options = int8_options();
  options.keep = {"first"};
  const std::string lines = text(b, options);
  EXPECT_SAYS(lines, "float32 [1, 2, 2, 2] = Conv(x, ");
  EXPECT_SAYS(lines, "quantized=true");
  options.keep = {"second"};
  EXPECT_EQ(make(b, options).error, "no node of the network has the name 'second'");
}

TEST(Quantize, BiasesTooLargeForTheSumsAreNot) {
  // A channel whose weights are next to nothing beside its bias.
  OnnxBuilder b(14);
  const std::string c =
      b.op("Conv", {b.input({1, 1, 2, 2}, "x"), b.constant({2, 1, 1, 1}, {1, 1e-12f}), b.floats({0.5f, 100})});
  b.output(b.op("Conv", {c, b.weights({1, 2, 1, 1})}));
  const Made made = make(b, int8_options());
  ASSERT_EQ(made.error, "");
  const std::string lines = node_lines(made.integer);
  EXPECT_EQ(lines.find("Binary"), std::string::npos) << lines;
  EXPECT_GT(made.result.outputs.at(0).difference.sqnr(), 30);
}

// Whole networks.

TEST(Quantize, RandomNetworksAreNearAndAllIntegers) {
  for (uint32_t seed = 0; seed < share_of(160); ++seed) {
    const OnnxBuilder b = random_float_net(seed);
    Options options = int8_options(3);
    options.threads = 1;
    const Made made = make(b, options);
    ASSERT_EQ(made.error, "") << seed;
    for (const graph::Node &n : made.integer.nodes)
      EXPECT_TRUE(graph::is_quantized(n) || graph::is_byte(made.integer[n.output].dtype) ||
                  quantize::passes_integers(n))
          << seed << "\n"
          << node_lines(made.integer);
    for (const auto &output : made.result.outputs)
      EXPECT_GT(output.difference.sqnr(), 15) << seed << "\n" << node_lines(made.integer);
  }
}

/// What the report says of the outputs is what integers make of the samples.
TEST(Quantize, DifferencesAreThoseOfTheIntegers) {
  for (uint32_t seed = 200; seed < 200 + share_of(24); ++seed) {
    const OnnxBuilder b = random_float_net(seed);
    const Made made = make(b, int8_options(3));
    ASSERT_EQ(made.error, "") << seed;
    std::vector<double> noise(made.real.outputs.size());
    RandomSamples samples(3);
    ASSERT_TRUE(samples.open({{{Dtype::F32, made.real[made.real.inputs[0]].shape}, "x"}}).ok());
    for (size_t s = 0; s < 3; ++s) {
      std::vector<Tensor> inputs, wanted, got;
      ASSERT_TRUE(samples.load(s, inputs).ok());
      ASSERT_TRUE(graph::evaluate_graph(made.real, inputs, wanted).ok());
      ASSERT_TRUE(graph::evaluate_graph(made.integer, inputs, got).ok());
      for (size_t o = 0; o < noise.size(); ++o)
        for (int64_t i = 0; i < wanted[o].count(); ++i)
          noise[o] += std::pow(wanted[o].as<float>()[i] - double{got[o].as<float>()[i]}, 2);
    }
    for (size_t o = 0; o < noise.size(); ++o)
      EXPECT_NEAR(made.result.outputs[o].difference.noise, noise[o], noise[o] * 1e-6 + 1e-12) << seed;
  }
}

compiler::Compiled compiled(const OnnxBuilder &b, const Options &options) {
  compiler::Options all;
  all.quantize = options;
  compiler::Compiled out;
  const std::string file = b.bytes();
  EXPECT_EQ(compiler::compile_onnx(file.data(), file.size(), all, out).message(), "");
  return out;
}

std::vector<uint8_t> bytes_of(const compiler::Compiled &made) {
  std::vector<uint8_t> out;
  EXPECT_TRUE(compiler::write_bmodel(made, out).ok());
  return out;
}

TEST(Quantize, BytesDoNotDependOnThreads) {
  for (uint32_t seed = 300; seed < 300 + share_of(8) / 2 + 1; ++seed)
    for (quantize::Method method : {quantize::Method::Mse, quantize::Method::Kl}) {
      const OnnxBuilder b = random_float_net(seed);
      Options options = int8_options(9);
      options.rule.method = method;
      options.equalize = seed % 2;
      options.threads = 1;
      const auto one = compiled(b, options);
      options.threads = 4;
      const auto four = compiled(b, options);
      EXPECT_EQ(bytes_of(one), bytes_of(four)) << seed;
      EXPECT_EQ(one.quantized.text(), four.quantized.text()) << seed;
      EXPECT_EQ(one.quantized.html(), four.quantized.html()) << seed;
    }
}

TEST(Quantize, ATableAndMeansMakeTheSameWithoutSamples) {
  const OnnxBuilder b = random_float_net(310);
  Options options = int8_options();
  const auto made = compiled(b, options);
  options.samples = nullptr;
  options.means = made.quantized.means;
  ASSERT_TRUE(quantize::parse_table(quantize::table_text(made.quantized.table), options.table.emplace()).ok());
  EXPECT_EQ(bytes_of(compiled(b, options)), bytes_of(made));
}

TEST(Quantize, ATableKnowsWhatStaysReal) {
  for (const float far : {-300.f, -INFINITY}) {
    const PartsNet net = masked_attention("constant", far);
    Options options = int8_options(4);
    const auto made = compiled(net.b, options);
    EXPECT_FALSE(made.quantized.table.reals.empty());
    options.samples = nullptr;
    options.means = made.quantized.means;
    ASSERT_TRUE(quantize::parse_table(quantize::table_text(made.quantized.table), options.table.emplace()).ok());
    EXPECT_EQ(bytes_of(compiled(net.b, options)), bytes_of(made));
    options.table->reals.insert("nowhere");
    EXPECT_EQ(make(net.b, options).error,
              "the calibration table has a line for 'nowhere', which the network does not have");
  }
}

TEST(Quantize, TheChipComputesWhatTheIntegersAre) {
  for (uint32_t seed = 320; seed < 320 + share_of(24); ++seed) {
    const OnnxBuilder b = random_float_net(seed);
    const Options options = int8_options(2);
    const auto made = compiled(b, options);
    const Made graphs = make(b, options);
    ASSERT_EQ(graphs.error, "");
    std::vector<Tensor> inputs, wanted;
    RandomSamples samples(1);
    ASSERT_TRUE(samples.open({{{Dtype::F32, graphs.real[graphs.real.inputs[0]].shape}, "x"}}).ok());
    ASSERT_TRUE(samples.load(0, inputs).ok());
    ASSERT_TRUE(graph::evaluate_graph(graphs.integer, inputs, wanted).ok());
    const StageResult got = run_stage(made.net.stages[0], inputs, lmem_of(made.net.stages[0]));
    ASSERT_EQ(got.error, "") << seed;
    for (size_t o = 0; o < wanted.size(); ++o)
      for (int64_t i = 0; i < wanted[o].count(); ++i)
        EXPECT_FLOAT_EQ(got.outputs[o].as<float>()[i], wanted[o].as<float>()[i]) << seed;
  }
}

TEST(Quantize, StagesAfterTheFirstTakeItsTable) {
  OnnxBuilder b(14);
  b.output(b.op("Relu", {b.op("Conv", {b.input({1, 2, -1, 4}, "x"), b.weights({3, 2, 3, 3})})}));
  compiler::Options options;
  options.quantize = int8_options();
  const std::string file = b.bytes();
  compiler::Compiled first, second;
  options.shapes["x"] = {1, 2, 4, 4};
  ASSERT_EQ(compiler::compile_onnx(file.data(), file.size(), options, first).message(), "");
  options.quantize.samples = nullptr;
  options.quantize.table = first.quantized.table;
  options.shapes["x"] = {1, 2, 9, 4};
  ASSERT_EQ(compiler::compile_onnx(file.data(), file.size(), options, second).message(), "");
  EXPECT_EQ(quantize::table_text(first.quantized.table), quantize::table_text(second.quantized.table));
  EXPECT_EQ(compiler::add_stage(second, first).message(), "");
}

// Outputs of integers.

/// Networks whose result is made by what integers compute, by what stays in float32, and by moves of both.
OnnxBuilder net_with_output(const std::string &kind) {
  OnnxBuilder b(14);
  const std::string x = b.input({1, 4, 4, 4}, "x"), y = b.op("Conv", {x, b.weights({4, 4, 1, 1})});
  const auto flat = [&b](const std::string &v) { return b.op("Reshape", {v, b.ints({1, 64})}); };
  if (kind == "Conv") b.output(y);
  if (kind == "Reshape") b.output(flat(y));
  if (kind == "Softmax") b.output(b.op("Softmax", {flat(y)}));
  if (kind == "Softmax, Reshape") b.output(b.op("Reshape", {b.op("Softmax", {flat(y)}), b.ints({8, 8})}));
  if (kind == "Exp") b.output(b.op("Exp", {b.op("Exp", {y})}));
  if (kind == "Concat") {
    b.output(b.op("Concat", {y, b.op("Sigmoid", {b.op("Conv", {x, b.weights({4, 4, 1, 1})})})}));
    b.attr("axis", int64_t{1});
  }
  if (kind == "MaxPool") {
    b.output(b.op("MaxPool", {y}));
    b.attr("kernel_shape", std::vector<int64_t>{2, 2});
  }
  if (kind == "two readers") {
    b.output(y);
    b.output(b.op("Softmax", {flat(y)}));
  }
  return b;
}

TEST(Quantize, OutputsOfIntegersHaveAScale) {
  for (const char *kind : {"Conv", "Reshape", "Softmax", "Softmax, Reshape", "Exp", "Concat", "MaxPool", "two readers"})
    for (Dtype type : {Dtype::I8, Dtype::U8}) {
      SCOPED_TRACE(kind);
      const OnnxBuilder b = net_with_output(kind);
      Options options = int8_options(4);
      const Graph plain = import_graph(b.bytes());
      options.outputs.insert(plain.output_names.begin(), plain.output_names.end());
      const Made made = make(b, options);
      ASSERT_EQ(made.error, "");
      Graph bytes = made.integer;
      graph::IoTypes types;
      types.outputs.all = type;
      ASSERT_EQ(graph::set_io_types(bytes, types).message(), "") << node_lines(made.integer);
      std::vector<Tensor> inputs, wanted, got;
      RandomSamples samples(1);
      ASSERT_TRUE(samples.open({{{Dtype::F32, {1, 4, 4, 4}}, "x"}}).ok());
      ASSERT_TRUE(samples.load(0, inputs).ok());
      ASSERT_TRUE(graph::evaluate_graph(made.real, inputs, wanted).ok());
      ASSERT_TRUE(graph::evaluate_graph(bytes, inputs, got).ok());
      for (size_t o = 0; o < got.size(); ++o) {
        const graph::Quant q = bytes[bytes.outputs[o]].quant;
        ASSERT_EQ(got[o].dtype, type);
        ASSERT_EQ(got[o].shape, wanted[o].shape);
        quantize::Difference d;
        std::vector<float> numbers;
        for (int64_t i = 0; i < got[o].count(); ++i)
          numbers.push_back(q.scale * static_cast<float>(cpu::load(got[o], i) - q.zero));
        d.add(wanted[o].as<float>(), numbers.data(), got[o].count());
        EXPECT_GT(d.sqnr(), 25) << node_lines(bytes);
      }
    }
}

/// An output is made by the operator of integers itself, without float32 on the way.
TEST(Quantize, OutputsOfIntegersAreWhatTheOperatorMakes) {
  for (const char *kind : {"Conv", "Reshape", "MaxPool", "Concat"}) {
    const OnnxBuilder b = net_with_output(kind);
    Options options = int8_options();
    options.outputs = {import_graph(b.bytes()).output_names[0]};
    Made made = make(b, options);
    ASSERT_EQ(made.error, "");
    graph::IoTypes types;
    types.outputs.all = Dtype::I8;
    ASSERT_EQ(graph::set_io_types(made.integer, types).message(), "");
    size_t requants = 0;
    for (const graph::Node &n : made.integer.nodes) {
      EXPECT_EQ(made.integer[n.output].dtype, Dtype::I8) << kind << "\n" << node_lines(made.integer);
      requants += n.op == graph::Op::Requant;
    }
    EXPECT_EQ(requants, 1u) << kind << "\n" << node_lines(made.integer);  // of the input
  }
}

/// Another output of the same value, or of moves of it, stays what it is without.
TEST(Quantize, OutputsOfFloat32AreNotRoundedByOthers) {
  for (const char *kind : {"Softmax", "moves", "Concat"}) {
    SCOPED_TRACE(kind);
    OnnxBuilder b(14);
    const std::string x = b.input({1, 4, 4, 4}, "x"), y = b.op("Conv", {x, b.weights({4, 4, 1, 1})});
    std::string p = b.op("Softmax", {b.op("Reshape", {y, b.ints({8, 8})})}), other;
    if (kind == std::string("Concat")) {
      p = b.op("Concat", {y, b.op("Mul", {b.op("Conv", {x, b.weights({4, 4, 1, 1})}), b.constant({}, {1e3f})})});
      b.attr("axis", int64_t{1});
    }
    if (kind == std::string("moves")) {
      p = b.op("Reshape", {p, b.ints({4, 16})});
      other = b.op("Transpose", {p});
    } else {
      other = b.op("Identity", {p});
    }
    b.output(p).output(other);
    Options options = int8_options(4);
    const std::vector<std::string> names = import_graph(b.bytes()).output_names;
    std::vector<Tensor> inputs, without, with;
    RandomSamples samples(1);
    ASSERT_TRUE(samples.open({{{Dtype::F32, {1, 4, 4, 4}}, "x"}}).ok());
    ASSERT_TRUE(samples.load(0, inputs).ok());
    const Made plain = make(b, options);
    ASSERT_EQ(plain.error, "");
    ASSERT_TRUE(graph::evaluate_graph(plain.integer, inputs, without).ok());
    options.outputs = {names[0]};
    Made made = make(b, options);
    ASSERT_EQ(made.error, "");
    graph::IoTypes types;
    types.outputs.named[names[0]] = Dtype::U8;
    ASSERT_EQ(graph::set_io_types(made.integer, types).message(), "") << node_lines(made.integer);
    ASSERT_TRUE(graph::evaluate_graph(made.integer, inputs, with).ok());
    EXPECT_EQ(with[0].dtype, Dtype::U8);
    ASSERT_EQ(with[1].dtype, Dtype::F32);
    EXPECT_EQ(with[1].data, without[1].data) << node_lines(made.integer);
  }
}

TEST(Quantize, OnlyOutputsThatAreMadeGetAScale) {
  OnnxBuilder b(14);
  const std::string x = b.input({1, 4, 2, 2}, "x");
  b.output(b.op("Conv", {x, b.weights({4, 4, 1, 1})}));
  b.output(b.op("Identity", {x}));
  Options options = int8_options();
  const auto names = import_graph(b.bytes()).output_names;
  options.outputs.insert(names.begin(), names.end());
  Made made = make(b, options);
  ASSERT_EQ(made.error, "");
  graph::IoTypes types;
  types.outputs.named[names[1]] = Dtype::I8;
  EXPECT_SAYS(graph::set_io_types(made.integer, types).message(), "it has no scale: it is an input");
}

// Real numbers of 16 bits.

TEST(CompareHalf, DifferencesAreThoseOfRounding) {
  OnnxBuilder b(14);
  const std::string x = b.input({1, 4, 4, 4}, "x"), y = b.op("Conv", {x, b.weights({4, 4, 1, 1})});
  b.named("first");
  b.output(b.op("Conv", {y, b.weights({2, 4, 1, 1})}));
  const Graph exact = import_graph(b.bytes());
  Options options = int8_options(5);
  options.reals = Dtype::BF16;
  quantize::Result result;
  ASSERT_EQ(quantize::compare_half(exact, options, result).message(), "");
  Graph half = exact;
  graph::use_half(half, Dtype::BF16);
  quantize::Difference layer, output;
  RandomSamples samples(5);
  ASSERT_TRUE(samples.open({{{Dtype::F32, {1, 4, 4, 4}}, "x"}}).ok());
  for (size_t s = 0; s < 5; ++s) {
    std::vector<Tensor> inputs, got, wanted;
    std::vector<float> seen[2];
    ASSERT_TRUE(samples.load(s, inputs).ok());
    const auto keep = [&](size_t which, const Graph &g) {
      return [&, which](graph::ValueId v, const Tensor &t) {
        if (v != exact.nodes[0].output) return;
        EXPECT_EQ(t.dtype, which ? Dtype::BF16 : Dtype::F32) << g.name;
        for (int64_t i = 0; i < t.count(); ++i) seen[which].push_back(static_cast<float>(cpu::load(t, i)));
      };
    };
    ASSERT_TRUE(graph::evaluate_graph(exact, inputs, keep(0, exact), wanted).ok());
    ASSERT_TRUE(graph::evaluate_graph(half, inputs, keep(1, half), got).ok());
    layer.add(seen[0].data(), seen[1].data(), std::ssize(seen[0]));
    output.add(wanted[0].as<float>(), got[0].as<float>(), wanted[0].count());
  }
  ASSERT_EQ(result.layers.size(), 1u);
  EXPECT_EQ(result.layers[0].name, "first");
  EXPECT_EQ(result.layers[0].stored, "bfloat16");
  EXPECT_DOUBLE_EQ(result.layers[0].difference.sqnr(), layer.sqnr());
  EXPECT_DOUBLE_EQ(result.outputs.at(0).difference.sqnr(), output.sqnr());
  EXPECT_LT(output.sqnr(), 70);
}

/// Numbers that float16 does not have are noise without end.
TEST(CompareHalf, Overflow) {
  OnnxBuilder b(14);
  const std::string y = b.op("Conv", {b.input({1, 1, 2, 2}, "x"), b.constant({1, 1, 1, 1}, {60000})});
  b.output(b.op("Conv", {b.op("Relu", {y}), b.constant({1, 1, 1, 1}, {1})}));
  Options options = int8_options(2, [](size_t, std::vector<Tensor> &x) { x[0].as<float>()[0] = 4; });
  options.reals = Dtype::F16;
  quantize::Result result;
  ASSERT_EQ(quantize::compare_half(import_graph(b.bytes()), options, result).message(), "");
  EXPECT_SAYS(result.text(), "none  0.000000        inf stored as float16");
}

/// What stays in floating point beside integers is in 16 bits, and so are the outputs that the report compares.
/// What is NaN or infinite in float32 too has no difference; the report says how much was left out.
TEST(CompareHalf, NumbersThatAreNotFiniteAreCounted) {
  OnnxBuilder b(14);
  b.output(b.op("Log", {b.op("Conv", {b.input({1, 4, 4, 4}, "x"), b.weights({4, 4, 1, 1})})}));
  const Graph exact = import_graph(b.bytes());
  Options options = int8_options(2);
  options.reals = Dtype::BF16;
  int64_t wanted = 0;
  RandomSamples samples(2);
  ASSERT_TRUE(samples.open({{{Dtype::F32, {1, 4, 4, 4}}, "x"}}).ok());
  for (size_t s = 0; s < 2; ++s) {
    std::vector<Tensor> inputs, out;
    ASSERT_TRUE(samples.load(s, inputs).ok());
    ASSERT_TRUE(graph::evaluate_graph(exact, inputs, out).ok());
    for (int64_t i = 0; i < out[0].count(); ++i) wanted += !std::isfinite(out[0].as<float>()[i]);
  }
  ASSERT_GT(wanted, 0);
  quantize::Result result;
  ASSERT_EQ(quantize::compare_half(exact, options, result).message(), "");
  EXPECT_EQ(result.outputs.at(0).difference.left_out, wanted);
  const std::string said = "without " + std::to_string(wanted) + " numbers that are NaN or infinite";
  EXPECT_NE(result.text().find(said), std::string::npos) << result.text();
}

TEST(CompareHalf, BesideIntegers) {
  OnnxBuilder b(14);
  const std::string y = b.op("Conv", {b.input({1, 4, 4, 4}, "x"), b.weights({4, 4, 3, 3})});
  b.named("first");
  b.output(b.op("Conv", {y, b.weights({2, 4, 1, 1})}));
  Options options = int8_options(4);
  options.keep = {"first"};
  options.reals = Dtype::BF16;
  Made made = make(b, options);
  ASSERT_EQ(made.error, "");
  graph::use_half(made.integer, Dtype::BF16);
  quantize::Difference output;
  RandomSamples samples(4);
  ASSERT_TRUE(samples.open({{{Dtype::F32, {1, 4, 4, 4}}, "x"}}).ok());
  for (size_t s = 0; s < 4; ++s) {
    std::vector<Tensor> inputs, wanted, got;
    ASSERT_TRUE(samples.load(s, inputs).ok());
    ASSERT_TRUE(graph::evaluate_graph(made.real, inputs, wanted).ok());
    ASSERT_TRUE(graph::evaluate_graph(made.integer, inputs, got).ok());
    output.add(wanted[0].as<float>(), got[0].as<float>(), wanted[0].count());
  }
  EXPECT_NEAR(made.result.outputs.at(0).difference.noise, output.noise, output.noise * 1e-9);
}

// Equalization and biases.

TEST(Equalize, TheNetworkComputesTheSame) {
  for (uint32_t seed = 400; seed < 400 + share_of(40); ++seed) {
    const OnnxBuilder b = random_float_net(seed);
    Graph g = import_graph(b.bytes());
    const Graph before = g;
    quantize::equalize(g);
    std::vector<Tensor> inputs, wanted, got;
    RandomSamples samples(1);
    ASSERT_TRUE(samples.open({{{Dtype::F32, g[g.inputs[0]].shape}, "x"}}).ok());
    ASSERT_TRUE(samples.load(0, inputs).ok());
    ASSERT_TRUE(graph::evaluate_graph(before, inputs, wanted).ok());
    ASSERT_TRUE(graph::evaluate_graph(g, inputs, got).ok());
    for (size_t o = 0; o < wanted.size(); ++o)
      for (int64_t i = 0; i < wanted[o].count(); ++i)
        EXPECT_NEAR(got[o].as<float>()[i], wanted[o].as<float>()[i], 1e-4 * std::fabs(wanted[o].as<float>()[i]) + 1e-4)
            << seed;
  }
}

/// Two convolutions between which one channel is far larger than the other.
OnnxBuilder uneven() {
  OnnxBuilder b(14);
  const std::string c =
      b.op("Conv", {b.input({1, 1, 8, 8}, "x"), b.constant({2, 1, 1, 1}, {1000, 0.01f}), b.floats({5, 0})});
  b.output(b.op("Conv", {b.op("Relu", {c}), b.constant({1, 2, 1, 1}, {0.001f, 100})}));
  return b;
}

TEST(Equalize, WeightsOnBothSidesGetTheSameSize) {
  Graph g = import_graph(uneven().bytes());
  EXPECT_EQ(quantize::equalize(g), 1u);
  const float *first = g[g.nodes[0].inputs[1]].constant->as<float>();
  const float *second = g[g.nodes[2].inputs[1]].constant->as<float>();
  EXPECT_FLOAT_EQ(first[0], 1);
  EXPECT_FLOAT_EQ(second[0], 1);
  EXPECT_FLOAT_EQ(first[1], 1);
  EXPECT_FLOAT_EQ(second[1], 1);
  EXPECT_FLOAT_EQ(g[g.nodes[0].inputs[2]].constant->as<float>()[0], 0.005f);
}

TEST(Equalize, LessNoise) {
  Options options = int8_options();
  const double before = make(uneven(), options).result.outputs.at(0).difference.sqnr();
  options.equalize = true;
  EXPECT_GT(make(uneven(), options).result.outputs.at(0).difference.sqnr(), before + 20);
}

/// A channel of tiny weights whose bias is all that it gives: with factors that only weights decide, its range would
/// leave nothing of the other channels.
TEST(Equalize, BiasesStayAsLargeAsTheyAre) {
  OnnxBuilder b(14);
  std::string x =
      b.op("Conv", {b.input({1, 1, 4, 4}, "x"), b.constant({2, 1, 1, 1}, {1, 1e-12f}), b.floats({0.5f, 1})});
  x = b.op("Relu", {x});
  b.output(b.op("Conv", {x, b.constant({1, 2, 1, 1}, {1, 1})}));
  Options options = int8_options(4);
  options.equalize = true;
  const Made made = make(b, options);
  ASSERT_EQ(made.error, "");
  for (const auto &[name, line] : made.result.table.tensors) EXPECT_LE(line.range.high, 4) << name;
  EXPECT_GE(made.result.outputs.at(0).difference.cosine(), 0.999);
}

TEST(Biases, MakeUpForWhatRoundingLosesInTheMean) {
  double with = 0, without = 0;
  const auto positive = [](size_t, std::vector<Tensor> &inputs) {
    for (int64_t i = 0; i < inputs[0].count(); ++i) inputs[0].as<float>()[i] += 1;  // rounding adds up
  };
  for (uint32_t seed = 0; seed < 8; ++seed) {
    OnnxBuilder b(14);
    const std::string x = b.input({1, 16, 4, 4}, "x");
    for (uint32_t skip = 0; skip < seed; ++skip) b.weights({1});
    b.output(b.op("Conv", {x, b.weights({8, 16, 3, 3}), b.weights({8})}));
    Options options = int8_options(4, positive);
    with += make(b, options).result.outputs.at(0).difference.noise;
    options.correct_biases = false;
    without += make(b, options).result.outputs.at(0).difference.noise;
  }
  EXPECT_LT(with, without * 0.8);
}

// Accuracy.

/// A network whose first layer has few numbers far out and all else near 0: nothing that 256 steps could hold.
OnnxBuilder spiky() {
  OnnxBuilder b(14);
  const std::string x = b.input({1, 4, 4, 4}, "x");
  const std::string c = b.op("Conv", {x, b.weights({4, 4, 1, 1})});
  b.named("fine");
  const std::string far = b.op("Mul", {c, b.op("Mul", {c, b.op("Mul", {c, b.op("Mul", {c, c})})})});
  b.output(b.op("Conv", {far, b.weights({3, 4, 1, 1})}));
  b.named("last");
  return b;
}

TEST(Accuracy, LayersStayInFloatUntilTheLimitHolds) {
  Options options = int8_options(8);
  ASSERT_TRUE(quantize::parse_accuracy("cosine:0.9999", options.accuracy));
  const Made made = make(spiky(), options);
  ASSERT_EQ(made.error, "");
  size_t kept = 0;
  for (const auto &layer : made.result.layers) {
    kept += !layer.integer;
    ASSERT_TRUE(layer.sensitivity);
    // None that is kept hurts less than one that is not.
    for (const auto &other : made.result.layers)
      if (!layer.integer && other.integer) {
        EXPECT_GE(*layer.sensitivity, *other.sensitivity);
      }
  }
  EXPECT_GT(kept, 0u);
  EXPECT_LT(kept, made.result.layers.size());
  EXPECT_GE(made.result.outputs.at(0).difference.cosine(), 0.9999);
  EXPECT_FALSE(made.result.table.keep.empty());
}

TEST(Accuracy, NothingIsKeptWhereTheLimitHolds) {
  Options options = int8_options(8);
  ASSERT_TRUE(quantize::parse_accuracy("cosine:0.5", options.accuracy));
  const Made made = make(spiky(), options);
  ASSERT_EQ(made.error, "");
  EXPECT_EQ(made.result.table.keep.size(), 0u);
}

TEST(Accuracy, ALimitThatNothingReachesIsAnError) {
  Options options = int8_options(8);
  ASSERT_TRUE(quantize::parse_accuracy("cosine:1", options.accuracy));
  EXPECT_SAYS(make(spiky(), options).error, "in float32 it is cosine 0.");
  EXPECT_SAYS(make(spiky(), options).error, "at least 1 is expected");
}

TEST(Accuracy, OfOneLayer) {
  OnnxBuilder b(14);
  b.output(b.op("Conv", {b.input({1, 4, 2, 2}, "x"), b.weights({2, 4, 1, 1})}));
  Options options = int8_options(4);
  ASSERT_TRUE(quantize::parse_accuracy("cosine:1", options.accuracy));
  EXPECT_SAYS(make(b, options).error, "with 0 of 1 layers in float32 it is cosine 0.99");
}

/// Without the convolution the sigmoid has no integers to read: nothing would be left.
TEST(Accuracy, ANetworkWithoutIntegersIsNoAnswer) {
  OnnxBuilder b(14);
  const std::string c = b.op("Conv", {b.input({1, 2, 4, 4}, "x"), b.constant({1, 2, 1, 1}, {300, -299})});
  b.output(b.op("Sigmoid", {c}));
  Options options = int8_options(8);
  ASSERT_TRUE(quantize::parse_accuracy("cosine:1", options.accuracy));
  EXPECT_SAYS(make(b, options).error, "the accuracy is not reached as long as any layer has integers");
}

/// Integers round what is near zero to zero, which has no finite reciprocal.
TEST(Accuracy, WhatIsNotFiniteIsNotReached) {
  OnnxBuilder b(14);
  const std::string c = b.op("Conv", {b.input({1, 1, 40, 40}, "x"), b.constant({1, 1, 1, 1}, {2})});
  b.output(b.op("Reciprocal", {c}));
  Options options = int8_options(8);
  const Made made = make(b, options);
  ASSERT_EQ(made.error, "");
  ASSERT_EQ(made.result.outputs.at(0).difference.cosine(), 0) << "the test does not make what it is about";
  ASSERT_TRUE(quantize::parse_accuracy("cosine:0.5", options.accuracy));
  const Made limited = make(b, options);
  if (limited.error.empty()) {
    EXPECT_GE(limited.result.outputs.at(0).difference.cosine(), 0.5);
  } else {
    EXPECT_SAYS(limited.error, "the accuracy is not reached");
  }
}

/// The middle of a formula gets integers where a part of it is kept and others go on reading it.
TEST(Accuracy, FormulasThatShareTheirBegin) {
  OnnxBuilder b(14);
  const std::string x = b.op("Tanh", {b.input({1, 4, 6, 6}, "x")});
  const std::string p = b.op("PRelu", {x, b.constant({4, 1, 1}, {0.1f, 3e6f, -2, 7})});
  const std::string s = b.op("Sigmoid", {x});
  b.output(b.op("Conv", {p, b.constant({1, 4, 1, 1}, {1, 0, 1, -1})}));  // without the channel of large numbers
  b.output(b.op("Conv", {s, b.weights({3, 4, 1, 1})}));
  for (const char *limit : {"cosine:0.9", "cosine:0.999", "cosine:0.99999", "cosine:1"}) {
    Options options = int8_options(4);
    ASSERT_TRUE(quantize::parse_accuracy(limit, options.accuracy));
    Made made;
    ASSERT_NO_THROW(made = make(b, options)) << limit;
    if (!made.error.empty()) {
      EXPECT_SAYS(made.error, "the accuracy is not reached");
    }
  }
}

TEST(Accuracy, ClassesAreNumbersOfFloat32) {
  OnnxBuilder b(14);
  b.output(b.op("ArgMax", {b.op("MatMul", {b.input({1, 3}, "x"), b.weights({3, 3})})}));
  Options options = int8_options(2);
  ASSERT_TRUE(quantize::parse_accuracy("top1:0.1", options.accuracy));
  options.labels = {{"0", 0}, {"1", 0}};
  EXPECT_SAYS(make(b, options).error, "is of int32, numbers of float32 for the classes are expected");
}

TEST(Difference, OfWhatIsNotFinite) {
  const float wanted[] = {1, INFINITY, NAN, 2}, same[] = {1, INFINITY, NAN, 2}, other[] = {1, INFINITY, 0, 2};
  quantize::Difference d, e;
  d.add(wanted, same, 4);
  EXPECT_EQ(d.cosine(), 1);
  EXPECT_EQ(d.signal, 5);
  e.add(wanted, other, 4);
  EXPECT_EQ(e.cosine(), 0);
  EXPECT_EQ(e.sqnr(), -INFINITY);
}

TEST(Accuracy, LabelsAreCounted) {
  OnnxBuilder b(14);
  b.output(b.op("MatMul", {b.input({1, 3}, "x"), b.constant({3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1})}));
  Options options = int8_options(10);
  ASSERT_TRUE(quantize::parse_accuracy("top1:0.0", options.accuracy));
  size_t right = 0;
  for (size_t s = 0; s < 10; ++s) {
    RandomSamples samples(10);
    std::vector<Tensor> inputs;
    ASSERT_TRUE(samples.open({{{Dtype::F32, {1, 3}}, "x"}}).ok());
    ASSERT_TRUE(samples.load(s, inputs).ok());
    const float *x = inputs[0].as<float>();
    const int64_t label = s < 4 ? 0 : std::max_element(x, x + 3) - x;
    right += std::max_element(x, x + 3) - x == label;
    options.labels[std::to_string(s)] = label;
  }
  const Made made = make(b, options);
  ASSERT_EQ(made.error, "");
  EXPECT_EQ(*made.result.float_top1, static_cast<double>(right) / 10);
  EXPECT_GE(*made.result.top1, *made.result.float_top1) << "no class less is right";
  options.labels["3"] = 3;
  EXPECT_EQ(make(b, options).error, "sample '3' has the label 3, output 't2' has classes 0 to 2");
  options.labels.clear();
  EXPECT_EQ(make(b, options).error, "none of the samples has a label");
}

TEST(Accuracy, Limits) {
  quantize::AccuracyLimit limit;
  EXPECT_TRUE(quantize::parse_accuracy("top1:0.01", limit));
  EXPECT_EQ(limit.limit, 0.01);
  for (const char *text : {"", "cosine", "cosine:", "cosine:2", "cosine:-1", "cosine:nan", "top5:0.1", "top1:0.1x"})
    EXPECT_FALSE(quantize::parse_accuracy(text, limit)) << text;
}

// Errors.

OnnxBuilder plain() {
  OnnxBuilder b(14);
  b.output(b.op("Conv", {b.input({1, 1, 2, 2}, "x"), b.weights({2, 1, 1, 1})}));
  return b;
}

TEST(QuantizeErrors, NetworksOfIntegers) {
  OnnxBuilder b(21);
  const Scaled q{0.5f, 3, kUint8};
  b.output(b.op("Relu", {rounded(b, b.input({1, 4}, "x"), q)}));
  EXPECT_EQ(make(b, int8_options()).error, "the network is quantized already: it has integers with scales");
  OnnxBuilder nothing(14);
  nothing.output(nothing.op("Sin", {nothing.op("Flatten", {nothing.input({1, 4}, "x")})}));
  nothing.model.mutable_graph()->mutable_node(1)->set_op_type("Exp");
  EXPECT_EQ(make(nothing, int8_options()).error, "the network has no operator that integers could compute");
}

TEST(QuantizeErrors, Samples) {
  EXPECT_EQ(make(plain(), int8_options(0)).error, "there are no samples to calibrate with");
  EXPECT_EQ(make(plain(), int8_options(3,
                                       [](size_t s, auto &t) {
                                         if (s) t[0].template as<float>()[2] = NAN;
                                       }))
                .error,
            "sample '1': input 'x': element 2 is nan, a finite number is expected");
  EXPECT_EQ(make(plain(), int8_options(3,
                                       [](size_t, auto &t) {
                                         t[0] = Tensor(Dtype::F32, {2, 2});
                                       }))
                .error,
            "sample '0': input 'x' is float32 [2, 2], expected float32 [1, 1, 2, 2]");
  EXPECT_EQ(make(plain(), int8_options(3, [](size_t, auto &t) { t.clear(); })).error,
            "sample '0' has 0 tensors, the network has 1 inputs");
  OnnxBuilder huge(14);
  const std::string far = huge.op("Conv", {huge.input({1, 1, 2, 2}, "x"), huge.constant({1, 1, 1, 1}, {3e38f})});
  huge.output(huge.op("Conv", {huge.op("Add", {far, far}), huge.weights({2, 1, 1, 1})}));
  EXPECT_SAYS(make(huge, int8_options()).error, "that are not finite");
}

/// The operand of a product needs integers. The message names a remedy. A convolution from one channel to one with one
/// weight would be no product: it adds nothing up.
TEST(QuantizeErrors, InfinityThatAProductReads) {
  OnnxBuilder b(14);
  const std::string x = b.input({1, 1, 2, 2}, "x");
  b.output(b.op("Conv", {b.op("Conv", {x, b.weights({2, 1, 1, 1})}), b.weights({1, 2, 1, 1})}));
  b.named("last");
  b.output(b.op("Conv", {x, b.weights({2, 1, 1, 1})}));
  b.named("other");
  const auto infinite = [](size_t, std::vector<Tensor> &t) { t[0].as<float>()[1] = INFINITY; };
  Options options = int8_options(2, infinite);
  const std::string error = make(b, options).error;
  EXPECT_SAYS(error, "tensor 'x' has numbers that are not finite, for which no integers stand: 2 infinite ones; ");
  EXPECT_SAYS(error, "--keep-float 'other' keeps what multiplies them in float32");
  const auto nan = [](size_t, std::vector<Tensor> &t) { t[0].as<float>()[1] = NAN; };
  EXPECT_SAYS(make(b, int8_options(2, nan)).error, "a finite number is expected");
  OnnxBuilder n(14);
  const std::string y = n.op("Sqrt", {n.op("Conv", {n.input({1, 1, 2, 2}, "x"), n.weights({1, 1, 1, 1})})});
  n.named("root");
  n.output(n.op("Conv", {y, n.weights({1, 1, 1, 1})}));
  EXPECT_SAYS(make(n, int8_options()).error, "float32 makes NaN in tensor '" + y + "' of node 'root'");
}

TEST(QuantizeErrors, WeightsThatAreNotFinite) {
  OnnxBuilder b(14);
  const std::string w = b.constant({1, 1, 1, 1}, {INFINITY});
  b.output(b.op("Conv", {b.input({1, 1, 2, 2}, "x"), w}));
  b.named("hot");
  EXPECT_EQ(make(b, by_table({{"x", {0, 1}}})).error,
            "constant '" + w +
                "' of node 'hot' has a number that is not finite, which no integer stands for; "
                "--keep-float 'hot' leaves it as it is");
}

/// Scales so small that the scale of their product would be 0.
TEST(Quantize, TinyWeightsAndInputs) {
  OnnxBuilder b(14);
  const std::string c = b.op("Conv", {b.input({1, 1, 2, 2}, "x"), b.constant({1, 1, 1, 1}, {1e-38f}), b.floats({0})});
  b.output(c);
  Made made = make(b, by_table({{"x", {0, 1e-30f}}}));
  ASSERT_EQ(made.error, "");
  std::vector<Tensor> out;
  ASSERT_TRUE(graph::evaluate_graph(made.integer, {Tensor(Dtype::F32, {1, 1, 2, 2})}, out).ok());
  EXPECT_EQ(out[0].as<float>()[0], 0);
}

TEST(QuantizeErrors, Tables) {
  EXPECT_EQ(make(plain(), by_table({{"y", {0, 1}}})).error,
            "the calibration table has a line for 'y', which the network does not have");
  EXPECT_EQ(make(plain(), by_table({})).error,
            "the calibration table has no line for tensor 'x', and there are no samples");
  Options nothing;
  nothing.type = Type::Int8;
  EXPECT_EQ(make(plain(), nothing).error, "samples or a calibration table are needed");
}

}  // namespace
}  // namespace npu::test
