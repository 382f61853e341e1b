// SPDX-License-Identifier: MIT
// What ONNX operators mean, where the tests of ONNX itself do not say: small networks compiled and run on the chip
// model, against numbers worked out by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/unit/compiler/chip.h"
#include "tests/unit/compiler/onnx_builder.h"

namespace npu::test {
namespace {

using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

std::vector<Floats> run(const OnnxBuilder &b, const std::vector<Floats> &inputs) {
  compiler::Compiled compiled;
  const std::string file = b.bytes();
  const Status status = compiler::compile_onnx(file.data(), file.size(), {}, compiled);
  EXPECT_TRUE(status.ok()) << status.message();
  if (!status.ok()) return {};
  return run_on_chip(compiled.net.stages[0], inputs, 8 << 20).outputs;
}

/// Output 0 of a network of which parts run on the CPU.
Floats evaluate(const OnnxBuilder &b, const std::vector<Floats> &inputs) {
  compiler::Compiled compiled;
  const std::string file = b.bytes();
  EXPECT_EQ(compiler::compile_onnx(file.data(), file.size(), {}, compiled).message(), "");
  if (compiled.net.stages.empty()) return {};
  const bmodel::StageDesc &stage = compiled.net.stages[0];
  std::vector<graph::Tensor> in;
  for (size_t k = 0; k < inputs.size(); ++k)
    in.push_back(*graph::make_f32(graph::Shape(stage.inputs[k].shape.begin(), stage.inputs[k].shape.end()), inputs[k]));
  const StageResult result = run_stage(stage, in, lmem_of(stage));
  EXPECT_EQ(result.error, "");
  if (result.outputs.empty()) return {};
  const graph::Tensor &out = result.outputs[0];
  return {out.as<float>(), out.as<float>() + out.count()};
}

std::string refusal(const OnnxBuilder &b) {
  compiler::Compiled compiled;
  const std::string file = b.bytes();
  return compiler::compile_onnx(file.data(), file.size(), {}, compiled).message();
}

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

/// The network's result is its input, 0, plus a constant quotient of integers.
template <class Constant>
OnnxBuilder quotient(Constant constant, int64_t a, int64_t b) {
  OnnxBuilder net;
  const std::string q = net.op("Div", {constant(net, a), constant(net, b)}), f = net.op("Cast", {q});
  net.attr("to", int64_t{onnx::TensorProto::FLOAT});
  net.output(net.op("Add", {net.input({1}), f}));
  return net;
}

const auto kInt64 = [](OnnxBuilder &b, int64_t v) { return b.ints({v}); };
const auto kInt32 = [](OnnxBuilder &b, int64_t v) { return b.ints32({static_cast<int32_t>(v)}); };

/// The quotient does not exist in the type; as in numpy it wraps round.
TEST(ConstantDivision, OfTheLowestIntegerByMinusOne) {
  EXPECT_EQ(run(quotient(kInt64, INT64_MIN, -1), {{0}})[0], Floats{-9223372036854775808.0f});
  EXPECT_EQ(run(quotient(kInt32, INT32_MIN, -1), {{0}})[0], Floats{-2147483648.0f});
}

TEST(ConstantDivision, GoesTowardsZero) {
  EXPECT_EQ(run(quotient(kInt64, -7, 2), {{0}})[0], Floats{-3});
  EXPECT_EQ(run(quotient(kInt32, 7, -2), {{0}})[0], Floats{-3});
  EXPECT_EQ(run(quotient(kInt32, 7, -1), {{0}})[0], Floats{-7});
}

TEST(ConstantDivision, ByZeroIsRefused) {
  EXPECT_SAYS(refusal(quotient(kInt64, 7, 0)), "integer division by zero");
  EXPECT_SAYS(refusal(quotient(kInt32, 7, 0)), "integer division by zero");
}

/// Overflow wraps round, and is no undefined behaviour of the compiler.
TEST(ConstantArithmetic, WrapsRound) {
  OnnxBuilder b;
  const std::string big = b.ints({INT64_MAX});
  const std::string sum = b.op("Add", {big, b.ints({2})}), product = b.op("Mul", {big, big});
  const std::string all = b.op("Concat", {sum, product, b.op("Sub", {b.ints({-2}), big})});
  b.attr("axis", int64_t{0});
  const std::string f = b.op("Cast", {all});
  b.attr("to", int64_t{onnx::TensorProto::FLOAT});
  b.output(b.op("Add", {b.input({3}), f}));
  EXPECT_EQ(run(b, {{0, 0, 0}})[0], (Floats{-9223372036854775808.0f, 1, 9223372036854775808.0f}));
}

/// min(max(x, 5), -5) is -5 for every x.
TEST(Clip, WithCrossedBoundsGivesTheUpperOne) {
  OnnxBuilder b;
  b.output(b.op("Clip", {b.input({3}), b.scalar(5), b.scalar(-5)}));
  EXPECT_EQ(run(b, {{-9, 0, 9}})[0], (Floats{-5, -5, -5}));
}

TEST(MatMul, OfBatchesThatDoNotBroadcastIsRefused) {
  OnnxBuilder b;
  b.output(b.op("MatMul", {b.input({2, 3, 4}), b.input({3, 4, 5})}));
  EXPECT_SAYS(refusal(b), "operands [2, 3, 4] and [3, 4, 5] do not broadcast");
}

OnnxBuilder pool(const char *type, const Dims &x, const Ints &kernel, const Ints &strides, const Ints &pads) {
  OnnxBuilder b;
  const std::string y = b.op(type, {b.input(x)});
  b.attr("kernel_shape", kernel).attr("strides", strides).attr("pads", pads).attr("ceil_mode", int64_t{1}).output(y);
  return b;
}

/// Windows of 2 at -1, 2 and 5: the third would begin behind the data, in the padding at the end.
TEST(CeilMode, AddsNoWindowThatBeginsBehindTheData) {
  EXPECT_EQ(run(pool("MaxPool", {1, 1, 4}, {2}, {3}, {1, 1}), {{1, 2, 3, 4}})[0], (Floats{1, 4}));
  // At -1 and 2; one at 5 would begin just behind the data.
  EXPECT_EQ(run(pool("MaxPool", {1, 1, 5}, {2}, {3}, {1, 1}), {{1, 2, 3, 4, 5}})[0], (Floats{1, 4}));
  // At 0, 2, 4, with nothing left for one at 6.
  EXPECT_EQ(run(pool("MaxPool", {1, 1, 6}, {3}, {2}, {0, 1}), {{1, 2, 3, 4, 5, 6}})[0], (Floats{3, 5, 6}));
}

/// Windows fit without a rest, and the last would begin behind the data: at -1, 2 and 5; at 0 and 4, where the window
/// that is left ends in the data.
TEST(CeilMode, LeavesOutAWindowThatBeginsBehindTheDataAlsoWhereNothingIsRoundedUp) {
  EXPECT_EQ(run(pool("MaxPool", {1, 1, 4}, {2}, {3}, {1, 3}), {{1, 2, 3, 4}})[0], (Floats{1, 4}));
  EXPECT_EQ(run(pool("AveragePool", {1, 1, 4}, {2}, {3}, {1, 3}), {{1, 2, 3, 4}})[0], (Floats{1, 3.5f}));
  EXPECT_EQ(run(pool("MaxPool", {1, 1, 3}, {1}, {4}, {0, 2}), {{1, 2, 3}})[0], (Floats{1}));
}

TEST(CeilMode, LeavesOutOneWindowAndNoMore) {
  EXPECT_SAYS(refusal(pool("MaxPool", {1, 1, 4}, {2}, {3}, {1, 6})), "sees nothing but padding");
}

TEST(CeilMode, AddsAWindowThatHangsOverTheEnd) {
  EXPECT_EQ(run(pool("MaxPool", {1, 1, 4}, {3}, {2}, {0, 0}), {{-4, -3, -2, -1}})[0], (Floats{-2, -1}));
  EXPECT_EQ(run(pool("AveragePool", {1, 1, 4}, {3}, {2}, {0, 0}), {{1, 2, 3, 6}})[0], (Floats{2, 4.5f}));
}

TEST(GlobalMaxPool, TakesTheLargestOfEachChannel) {
  OnnxBuilder b;
  b.output(b.op("GlobalMaxPool", {b.input({1, 2, 2, 2})}));
  EXPECT_EQ(run(b, {{-4, -3, -2, -5, 1, 9, 2, 3}})[0], (Floats{-2, 9}));
}

/// Split of an axis of 6 into those sizes; no sizes: into equal parts.
OnnxBuilder split(size_t outputs, const Ints &sizes) {
  OnnxBuilder b;
  const std::string x = b.input({6});
  b.op("Split", sizes.empty() ? std::vector<std::string>{x} : std::vector<std::string>{x, b.ints(sizes)});
  onnx::NodeProto &node = *b.model.mutable_graph()->mutable_node(0);
  for (size_t k = 1; k < outputs; ++k) node.add_output("part" + std::to_string(k));
  for (const std::string &name : node.output()) b.output(name);
  return b;
}

TEST(Split, IntoEqualAndIntoNamedParts) {
  EXPECT_EQ(run(split(3, {}), {{1, 2, 3, 4, 5, 6}}), (std::vector<Floats>{{1, 2}, {3, 4}, {5, 6}}));
  EXPECT_EQ(run(split(3, {1, 3, 2}), {{1, 2, 3, 4, 5, 6}}), (std::vector<Floats>{{1}, {2, 3, 4}, {5, 6}}));
}

TEST(Split, OfWhichAPartIsNotWanted) {
  OnnxBuilder b = split(3, {1, 3, 2});
  b.model.mutable_graph()->mutable_node(0)->set_output(1, "");
  b.model.mutable_graph()->mutable_output()->DeleteSubrange(1, 1);
  EXPECT_EQ(run(b, {{1, 2, 3, 4, 5, 6}}), (std::vector<Floats>{{1}, {5, 6}}));
}

TEST(Split, IntoPartsThatDoNotMakeUpTheWholeIsRefused) {
  EXPECT_SAYS(refusal(split(2, {1, 3})), "the parts [1, 3] do not make up axis 0 of [6]");
  EXPECT_SAYS(refusal(split(2, {4, 3})), "the parts [4, 3] do not make up axis 0 of [6]");
  EXPECT_SAYS(refusal(split(2, {1, 2, 3})), "the parts [1, 2, 3] do not make up");
  EXPECT_SAYS(refusal(split(2, {7, -1})), "the parts [7, -1] do not make up");
  EXPECT_SAYS(refusal(split(4, {})), "cannot split [6] into 4 equal parts");
}

TEST(OperatorSets, FirstAndLastOfTheRange) {
  for (int64_t opset : {1, 25, 26}) {
    OnnxBuilder b(opset);
    b.output(b.op("Relu", {b.input({3})}));
    const bool taken = opset <= 25;
    EXPECT_EQ(refusal(b),
              taken ? "" : "the model uses operator set " + std::to_string(opset) + ", versions 1 to 25 are supported");
  }
}

/// x = -0.5 and 0.5 are the places 0.5 and 2.5 of four, which go to 0 and 2.
TEST(GridSample, OfThreeDimensionsRoundsHalvesToTheEvenNeighbour) {
  OnnxBuilder b(20);
  b.output(b.op("GridSample", {b.input({1, 1, 1, 1, 4}), b.constant({1, 1, 1, 2, 3}, {-0.5f, 0, 0, 0.5f, 0, 0})}));
  b.attr("mode", "nearest");
  EXPECT_EQ(run(b, {{1, 2, 3, 4}})[0], (Floats{1, 3}));
}

TEST(Swish, IsTheInputTimesItsSigmoid) {
  for (const float alpha : {1.0f, 2.0f}) {
    OnnxBuilder b(24);
    b.output(b.op("Swish", {b.input({3})}));
    if (alpha != 1) b.attr("alpha", alpha);
    const Floats y = run(b, {{-2, 0, 3}})[0];
    EXPECT_NEAR(y[0], -2 / (1 + std::exp(2 * alpha)), 1e-6);
    EXPECT_EQ(y[1], 0);
    EXPECT_NEAR(y[2], 3 / (1 + std::exp(-3 * alpha)), 1e-6);
  }
}

/// Two pictures with a cache of 3 places, into which 2 rows of one number go.
OnnxBuilder tensor_scatter(const Ints &at, const char *mode) {
  OnnxBuilder b(24);
  std::vector<std::string> inputs{b.input({2, 3, 1}), b.input({2, 2, 1})};
  if (!at.empty()) inputs.push_back(b.ints(at));
  b.output(b.op("TensorScatter", inputs));
  b.attr("mode", mode);
  return b;
}

TEST(TensorScatter, PutsRowsIntoACache) {
  const std::vector<Floats> inputs{{1, 2, 3, 4, 5, 6}, {10, 20, 30, 40}};
  EXPECT_EQ(evaluate(tensor_scatter({}, "linear"), inputs), (Floats{10, 20, 3, 30, 40, 6}));
  EXPECT_EQ(evaluate(tensor_scatter({1, 0}, "linear"), inputs), (Floats{1, 10, 20, 30, 40, 6}));
  EXPECT_EQ(evaluate(tensor_scatter({2, 4}, "circular"), inputs), (Floats{20, 2, 10, 4, 30, 40}));
  EXPECT_SAYS(refusal(tensor_scatter({1}, "linear")), "write_indices are [1], one for each of 2 was expected");
  EXPECT_SAYS(refusal(tensor_scatter({}, "round")), "mode is 'round'");
}

/// All keys are alike, so that the result is the mean of the values that count: of 1 of the first picture, 3 of the
/// other.
OnnxBuilder padded_attention(int64_t opset) {
  OnnxBuilder b(opset);
  const std::string q = b.input({2, 1, 1, 1}), k = b.constant({2, 1, 4, 1}, Floats(8, 1)), v = b.input({2, 1, 4, 1});
  b.output(b.op("Attention", {q, k, v, "", "", "", b.ints({1, 3})}));
  return b;
}

TEST(Attention, LeavesOutKeysThatArePadding) {
  const Floats y = evaluate(padded_attention(24), {{1, 1}, {5, 9, 9, 9, 1, 2, 6, 99}});
  EXPECT_NEAR(y[0], 5, 1e-6);
  EXPECT_NEAR(y[1], 3, 1e-6);
  EXPECT_SAYS(refusal(padded_attention(23)), "it has 7 inputs, at most 6 are expected");
}

/// A weight of 1 on each cell of the window: the sum of 4 cells, of which padding is 10 each.
TEST(Pad, OfAnotherValueThanZeroInFrontOfAConvolution) {
  OnnxBuilder b;
  const std::string padded = b.op("Pad", {b.input({1, 1, 1, 2}), b.ints({0, 0, 1, 0, 0, 0, 0, 1}), b.scalar(10)});
  const std::string ones = b.op("ConstantOfShape", {b.ints({1, 1, 2, 2})});
  onnx::AttributeProto &value = *b.model.mutable_graph()->mutable_node(1)->add_attribute();
  value.set_name("value");
  value.set_type(onnx::AttributeProto::TENSOR);
  value.mutable_t()->set_data_type(onnx::TensorProto::FLOAT);
  value.mutable_t()->add_dims(1);
  value.mutable_t()->add_float_data(1);
  b.output(b.op("Conv", {padded, ones}));
  // 10 10 10
  //  1  2 10
  EXPECT_EQ(run(b, {{1, 2}})[0], (Floats{23, 32}));
}

/// The second one sees what the first left: only one of them fits into the command of the sum.
TEST(Activations, TwoOneAfterTheOther) {
  OnnxBuilder b;
  const std::string sum = b.op("Add", {b.input({4}), b.input({4})});
  const std::string leaky = b.op("LeakyRelu", {sum});
  b.attr("alpha", 0.5f);
  b.output(b.op("Clip", {leaky, b.scalar(-0.015f), b.scalar(2)}));
  const std::vector<Floats> result = run(b, {{-4, 1, -0.02f, 5}, {0, 0, 0, 0}});
  EXPECT_EQ(result[0], (Floats{-0.015f, 1, -0.01f, 2}));
}

/// What is put into a row of numbers in [-1, 1] that does not fit 64 KiB.
struct LongRow {
  const char *name;
  void (*change)(std::vector<float> &);
};

class LongSoftmax : public testing::TestWithParam<LongRow> {};

/// In blocks as if the row were one: with double precision, whatever stands where blocks begin.
TEST_P(LongSoftmax, IsThatOfTheWholeRow) {
  std::vector<float> x(20000);
  uint32_t random = 5;
  for (float &v : x) v = static_cast<float>((random = random * 1664525u + 1013904223u) >> 8) / 8388608.0f - 1.0f;
  GetParam().change(x);
  const double top = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (const float v : x) sum += std::exp(v - top);
  for (const char *type : {"Softmax", "LogSoftmax"}) {
    OnnxBuilder b;
    b.output(b.op(type, {b.input({1, static_cast<int64_t>(x.size())})}));
    compiler::Options options;
    options.lmem_bytes = compiler::kMinLmemBytes;
    compiler::Compiled out;
    const std::string file = b.bytes();
    ASSERT_EQ(compiler::compile_onnx(file.data(), file.size(), options, out).message(), "");
    const Floats got = run_on_chip(out.net.stages[0], {x}, options.lmem_bytes).outputs.at(0);
    const bool log = type[0] == 'L';
    for (size_t i = 0; i < x.size(); ++i) {
      const auto exact = static_cast<float>(log ? x[i] - top - std::log(sum) : std::exp(x[i] - top) / sum);
      if (std::isinf(exact)) {
        ASSERT_EQ(got[i], exact) << type << ", " << i;
      } else {
        ASSERT_NEAR(got[i], exact, 2e-5 * std::fabs(exact) + (log ? 2e-7 : 1e-12)) << type << ", " << i;
      }
    }
  }
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

INSTANTIATE_TEST_SUITE_P(
    Rows, LongSoftmax,
    testing::Values(LongRow{"AsItIs", [](std::vector<float> &) {}},
                    LongRow{"AMaskedFirstElement", [](std::vector<float> &x) { x[0] = -kInfinity; }},
                    LongRow{"AMaskedHalf", [](std::vector<float> &x) { std::fill_n(x.begin(), 10000, -kInfinity); }},
                    LongRow{"OnlyOneThatIsNotMasked",
                            [](std::vector<float> &x) {
                              std::fill(x.begin(), x.end(), -kInfinity);
                              x[19999] = 3;
                            }},
                    LongRow{"AFiniteMask", [](std::vector<float> &x) { std::fill_n(x.begin(), 10000, -3e38f); }},
                    LongRow{"LargeNumbers",
                            [](std::vector<float> &x) {
                              for (float &v : x) v += 10000;
                            }},
                    LongRow{"TheWholeRange",
                            [](std::vector<float> &x) {
                              std::fill(x.begin(), x.end(), -3e38f);
                              x[77] = 3e38f;
                            }}),
    [](const auto &info) { return std::string(info.param.name); });

/// PyTorch exports a real signal as [batch, length], without the dimension of its one part.
TEST(Stft, TakesARealSignalWithAndWithoutItsLastDimension) {
  for (const Ints &shape : {Ints{2, 4}, Ints{2, 4, 1}}) {
    OnnxBuilder b(17);
    b.output(b.op("STFT", {b.input(shape), b.indices({}, {2}), "", b.indices({}, {2})}));
    // Frames (1, 2), (3, 4), (5, 7), (0, -1): their sums and differences, whose imaginary parts are 0.
    Floats got = run(b, {{1, 2, 3, 4, 5, 7, 0, -1}}).at(0);
    ASSERT_EQ(got.size(), 16u);
    const Floats want{3, 0, -1, 0, 7, 0, -1, 0, 12, 0, -2, 0, -1, 0, 1, 0};
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6) << i;
  }
  OnnxBuilder flat(17);
  flat.output(flat.op("STFT", {flat.input({4}), flat.indices({}, {2}), "", flat.indices({}, {2})}));
  EXPECT_SAYS(refusal(flat), "signal [4] is not [batch, length] or [batch, length, 1 or 2]");
}

}  // namespace
}  // namespace npu::test
