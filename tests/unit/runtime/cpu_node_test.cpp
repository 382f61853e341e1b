// SPDX-License-Identifier: MIT
// What evaluate() computes, with results worked out by hand, and what it finds wrong in data.
#include "runtime/cpu/element.h"
#include "tests/unit/runtime/cpu_run.h"

namespace npu::cpu {
namespace {

Tensor function(ActKind kind, const Tensor &x, float a = 0, float b = 0) {
  return run(Op::Unary, UnaryAttrs{{kind, a, b}}, {x});
}
Tensor binary(BinaryKind kind, const Tensor &a, const Tensor &b) {
  return run(Op::Binary, BinaryAttrs{kind, {}}, {a, b});
}
template <class T>
Tensor binary(BinaryKind kind, const std::vector<T> &a, const std::vector<T> &b) {
  return binary(kind, row(a), row(b));
}

// Real numbers of 16 bits: read exactly, computed in float32, the result rounded once.

Tensor of_type(Dtype type, const std::vector<float> &values) {
  Tensor t(type, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) store(t, static_cast<int64_t>(i), static_cast<double>(values[i]));
  return t;
}

std::vector<float> as_floats(const Tensor &t) {
  std::vector<float> values;
  for (int64_t i = 0; i < t.count(); ++i) values.push_back(static_cast<float>(load(t, i)));
  return values;
}

TEST(CpuHalf, AResultIsRoundedOnceToNearestEven) {
  // float16 has 11 bits: 2049 lies between 2048 and 2050, 2051 between 2050 and 2052. 65504 is the largest, 65520 the
  // middle between that and 65536.
  BinaryAttrs add{BinaryKind::Add};
  add.out_type = Dtype::F16;
  const Tensor a = of_type(Dtype::F16, {2048, 2050, 65504, 65504, 1});
  const Tensor b = row<float>({1, 1, 15.9f, 16, 0.00048828125f});
  EXPECT_EQ(as_floats(run(Op::Binary, add, {a, b})), (std::vector<float>{2048, 2052, 65504, kInf, 1}));
  // bfloat16 has 8: 257 lies between 256 and 258.
  add.out_type = Dtype::BF16;
  EXPECT_EQ(as_floats(run(Op::Binary, add, {row<float>({256, 258}), of_type(Dtype::BF16, {1, 1})})),
            (std::vector<float>{256, 260}));
}

TEST(CpuHalf, SumsOfProductsAreFloat32) {
  // 2048 + 1 + 1 is 2050; with a rounding behind each step it would be 2048.
  Tensor x = of_type(Dtype::F16, {2048, 1, 1}), w = of_type(Dtype::F16, {1, 1, 1});
  x.shape = {1, 3};
  w.shape = {3, 1};
  MatMulAttrs attrs;
  attrs.quant.out = Dtype::F16;
  EXPECT_EQ(as_floats(run(Op::MatMul, attrs, {x, w})), (std::vector<float>{2050}));
}

// Functions of one number.

TEST(CpuUnary, FunctionsOfFloats) {
  struct Case {
    ActKind kind;
    float a, b, x, y;
  };
  const float e = 2.71828183f, pi = 3.14159265f;
  const Case cases[] = {
      {ActKind::None, 0, 0, 1.5f, 1.5f},
      {ActKind::Relu, 0, 0, -2, 0},
      {ActKind::Relu, 0, 0, -0.f, 0},
      {ActKind::Relu, 0, 0, kNan, kNan},
      {ActKind::Clip, -1, 2, 3, 2},
      {ActKind::Clip, -1, 2, -3, -1},
      {ActKind::Clip, -1, 2, kNan, kNan},
      {ActKind::LeakyRelu, 0.5f, 0, -3, -1.5f},
      {ActKind::Sigmoid, 0, 0, 0, 0.5f},
      {ActKind::Sigmoid, 0, 0, -kInf, 0},
      {ActKind::Tanh, 0, 0, 1, 0.761594156f},
      {ActKind::Exp, 0, 0, 1, e},
      {ActKind::Exp, 0, 0, 100, kInf},
      {ActKind::Log, 0, 0, e, 1},
      {ActKind::Log, 0, 0, -1, kNan},
      {ActKind::Sqrt, 0, 0, 2, 1.41421356f},
      {ActKind::Rsqrt, 0, 0, 4, 0.5f},
      {ActKind::Reciprocal, 0, 0, -0.f, -kInf},
      {ActKind::Abs, 0, 0, -0.f, 0},
      {ActKind::Neg, 0, 0, 0, -0.f},
      {ActKind::Erf, 0, 0, 0.5f, 0.520499878f},
      {ActKind::Gelu, 0, 0, 1, 0.841344746f},
      {ActKind::Gelu, 0, 0, -10, -7.6198529e-23f},
      {ActKind::Gelu, 1, 0, 1, 0.841191991f},
      {ActKind::Elu, 2, 0, -1, -1.26424112f},
      {ActKind::Elu, 2, 0, 3, 3},
      {ActKind::HardSigmoid, 0.25f, 0.5f, 1, 0.75f},
      {ActKind::HardSigmoid, 0.25f, 0.5f, 9, 1},
      {ActKind::HardSigmoid, 0.25f, 0.5f, kNan, kNan},
      {ActKind::HardSwish, 0, 0, 1, 0.666666667f},
      {ActKind::HardSwish, 0, 0, -4, -0.f},
      {ActKind::Softplus, 0, 0, 0, 0.693147181f},
      {ActKind::Softplus, 0, 0, 1e4f, 1e4f},
      {ActKind::Floor, 0, 0, -1.5f, -2},
      {ActKind::Ceil, 0, 0, 1.5f, 2},
      {ActKind::Round, 0, 0, 2.5f, 2},
      {ActKind::Round, 0, 0, -3.5f, -4},
      {ActKind::Sign, 0, 0, -7, -1},
      {ActKind::Sign, 0, 0, 0, 0},
      {ActKind::Sign, 0, 0, kNan, kNan},
      {ActKind::Sin, 0, 0, pi / 6, 0.5f},
      {ActKind::Cos, 0, 0, 0, 1},
      {ActKind::Tan, 0, 0, 1, 1.55740772f},
      {ActKind::Asin, 0, 0, 1, pi / 2},
      {ActKind::Asin, 0, 0, 2, kNan},
      {ActKind::Acos, 0, 0, -1, pi},
      {ActKind::Atan, 0, 0, 1, pi / 4},
      {ActKind::Sinh, 0, 0, 1, 1.17520119f},
      {ActKind::Cosh, 0, 0, 1, 1.54308063f},
      {ActKind::Asinh, 0, 0, 1, 0.881373587f},
      {ActKind::Acosh, 0, 0, 2, 1.31695790f},
      {ActKind::Atanh, 0, 0, 0.5f, 0.549306144f},
  };
  for (const Case &c : cases) {
    SCOPED_TRACE("function " + std::to_string(static_cast<int>(c.kind)) + " of " + std::to_string(c.x));
    const Tensor found = function(c.kind, tensor<float>({}, {c.x}), c.a, c.b);
    if (std::isfinite(c.y) && c.y != 0)
      EXPECT_FLOAT_EQ(found.as<float>()[0], c.y);
    else
      expect<float>(found, {}, {c.y});
  }
}

TEST(CpuUnary, IntegersWrapRound) {
  expect<int8_t>(function(ActKind::Neg, row<int8_t>({-128, 5, 0})), {-128, -5, 0});
  expect<int8_t>(function(ActKind::Abs, row<int8_t>({-128, -5, 7})), {-128, 5, 7});
  expect<int64_t>(function(ActKind::Abs, row<int64_t>({kLeast<int64_t>, -5})), {kLeast<int64_t>, 5});
  expect<uint16_t>(function(ActKind::Abs, row<uint16_t>({65535, 1})), {65535, 1});
  expect<int32_t>(function(ActKind::Sign, row<int32_t>({-9, 0, 9})), {-1, 0, 1});
  expect<uint8_t>(function(ActKind::Sign, row<uint8_t>({200, 0})), {1, 0});
  expect<int16_t>(function(ActKind::Relu, row<int16_t>({-9, 0, 9})), {0, 0, 9});
  expect<uint64_t>(function(ActKind::Relu, row<uint64_t>({kMost<uint64_t>})), {kMost<uint64_t>});
}

TEST(CpuUnary, Not) {
  expect<Truth>(function(ActKind::Not, row<Truth>({kNo, kYes, static_cast<Truth>(7)})), {kYes, kNo, kNo});
  expect<uint8_t>(function(ActKind::Not, row<uint8_t>({0, 0xf0})), {0xff, 0x0f});
  expect<int64_t>(function(ActKind::Not, row<int64_t>({0, 5})), {-1, -6});
}

TEST(CpuUnary, NanAndInfinity) {
  const Tensor x = row<float>({1, kNan, kInf, -kInf});
  expect<Truth>(function(ActKind::IsNan, x), {kNo, kYes, kNo, kNo});
  expect<Truth>(function(ActKind::IsInf, x, 1, 1), {kNo, kNo, kYes, kYes});
  expect<Truth>(function(ActKind::IsInf, x, 1, 0), {kNo, kNo, kYes, kNo});
  expect<Truth>(function(ActKind::IsInf, x, 0, 1), {kNo, kNo, kNo, kYes});
  expect<Truth>(function(ActKind::IsInf, x, 0, 0), {kNo, kNo, kNo, kNo});
}

// Functions of two numbers.

TEST(CpuBinary, IntegersWrapRound) {
  expect<uint8_t>(binary<uint8_t>(BinaryKind::Add, {200, 3}, {100, 4}), {44, 7});
  expect<int8_t>(binary<int8_t>(BinaryKind::Sub, {-128, 3}, {1, 4}), {127, -1});
  expect<uint16_t>(binary<uint16_t>(BinaryKind::Mul, {65535, 256}, {65535, 256}), {1, 0});
  expect<int16_t>(binary<int16_t>(BinaryKind::Mul, {-32768, 181}, {-1, 182}), {-32768, -32594});
  expect<int32_t>(binary<int32_t>(BinaryKind::Mul, {kMost<int32_t>, 65536}, {2, 65536}), {-2, 0});
  expect<uint32_t>(binary<uint32_t>(BinaryKind::Sub, {0}, {1}), {kMost<uint32_t>});
  expect<int64_t>(binary<int64_t>(BinaryKind::Add, {kMost<int64_t>}, {1}), {kLeast<int64_t>});
  expect<uint64_t>(binary<uint64_t>(BinaryKind::Add, {kMost<uint64_t>}, {2}), {1});
}

TEST(CpuBinary, DivisionGoesTowardsZero) {
  expect<int32_t>(binary<int32_t>(BinaryKind::Div, {7, -7, 7, kLeast<int32_t>}, {2, 2, -2, -1}),
                  {3, -3, -3, kLeast<int32_t>});
  expect<int8_t>(binary<int8_t>(BinaryKind::Div, {-128}, {-1}), {-128});
  expect<int64_t>(binary<int64_t>(BinaryKind::Div, {kLeast<int64_t>}, {-1}), {kLeast<int64_t>});
  expect<uint64_t>(binary<uint64_t>(BinaryKind::Div, {kMost<uint64_t>}, {2}), {kMost<uint64_t> / 2});
  expect<float>(binary<float>(BinaryKind::Div, {1, -1, 0}, {0, 0, 0}), {kInf, -kInf, kNan});
}

TEST(CpuBinary, Remainders) {
  expect<int32_t>(binary<int32_t>(BinaryKind::Mod, {-4, 7, 5, 4, -7, 8, 6}, {2, -3, 8, -2, 3, 5, -3}),
                  {0, -2, 5, 0, 2, 3, 0});
  expect<int32_t>(binary<int32_t>(BinaryKind::Fmod, {-4, 7, 5, 4, -7, 8}, {2, -3, 8, -2, 3, 5}), {0, 1, 5, 0, -1, 3});
  expect<int64_t>(binary<int64_t>(BinaryKind::Mod, {kLeast<int64_t>}, {-1}), {0});
  expect<int8_t>(binary<int8_t>(BinaryKind::Fmod, {-128}, {-1}), {0});
  expect<uint8_t>(binary<uint8_t>(BinaryKind::Mod, {250, 7}, {100, 255}), {50, 7});
  expect<float>(binary<float>(BinaryKind::Mod, {-4.3f, 7.25f, 4, -4, 4, 1}, {2, -3, 2, 2, -2, 0}),
                {2 - 0.3000002f, -1.75f, 0, 0, -0.f, kNan});
  expect<float>(binary<float>(BinaryKind::Fmod, {-4.5f, 7.25f, -4, 5, kInf}, {2, -3, 2, kInf, 2}),
                {-0.5f, 1.25f, -0.f, 5, kNan});
}

TEST(CpuBinary, ExtremesKeepNan) {
  expect<float>(binary<float>(BinaryKind::Max, {1, kNan, 1, -0.f, 0}, {2, 1, kNan, 0, -0.f}), {2, kNan, kNan, 0, 0});
  expect<float>(binary<float>(BinaryKind::Min, {1, kNan, 1, -0.f, 0}, {2, 1, kNan, 0, -0.f}),
                {1, kNan, kNan, -0.f, -0.f});
  expect<uint64_t>(binary<uint64_t>(BinaryKind::Max, {kMost<uint64_t>}, {1}), {kMost<uint64_t>});
  expect<int8_t>(binary<int8_t>(BinaryKind::Min, {-128, 3}, {127, 2}), {-128, 2});
}

TEST(CpuBinary, Logic) {
  const std::vector<Truth> a{kNo, kNo, kYes, static_cast<Truth>(2)}, b{kNo, kYes, kNo, kYes};
  expect<Truth>(binary(BinaryKind::And, a, b), {kNo, kNo, kNo, kYes});
  expect<Truth>(binary(BinaryKind::Or, a, b), {kNo, kYes, kYes, kYes});
  expect<Truth>(binary(BinaryKind::Xor, a, b), {kNo, kYes, kYes, kNo});
  expect<Truth>(binary(BinaryKind::Equal, a, b), {kYes, kNo, kNo, kYes});
  expect<Truth>(binary(BinaryKind::Less, a, b), {kNo, kYes, kNo, kNo});
  expect<Truth>(binary(BinaryKind::LessOrEqual, a, b), {kYes, kYes, kNo, kYes});
  expect<uint8_t>(binary<uint8_t>(BinaryKind::And, {12}, {10}), {8});
  expect<int16_t>(binary<int16_t>(BinaryKind::Or, {-256}, {15}), {-241});
  expect<uint64_t>(binary<uint64_t>(BinaryKind::Xor, {kMost<uint64_t>}, {1}), {kMost<uint64_t> - 1});
}

TEST(CpuBinary, Shifts) {
  expect<uint8_t>(binary<uint8_t>(BinaryKind::ShiftLeft, {16, 255, 1, 1}, {1, 4, 7, 8}), {32, 240, 128, 0});
  expect<uint64_t>(binary<uint64_t>(BinaryKind::ShiftLeft, {1, 1}, {63, 64}), {uint64_t{1} << 63, 0});
  expect<uint16_t>(binary<uint16_t>(BinaryKind::ShiftRight, {0x8000, 7}, {15, 16}), {1, 0});
  expect<int32_t>(binary<int32_t>(BinaryKind::ShiftRight, {-8, -8, 8, -8}, {1, 32, 40, -1}), {-4, -1, 0, -1});
  expect<int8_t>(binary<int8_t>(BinaryKind::ShiftLeft, {-1, 1, 1}, {7, 8, -1}), {-128, 0, 0});
}

TEST(CpuBinary, Comparisons) {
  expect<Truth>(binary<float>(BinaryKind::Equal, {1, kNan, 0, kInf}, {1, kNan, -0.f, kInf}), {kYes, kNo, kYes, kYes});
  expect<Truth>(binary<float>(BinaryKind::Less, {1, kNan, 1, 0}, {2, 1, kNan, -0.f}), {kYes, kNo, kNo, kNo});
  expect<Truth>(binary<float>(BinaryKind::LessOrEqual, {2, kNan, 1, 0}, {2, kNan, kNan, -0.f}), {kYes, kNo, kNo, kYes});
  expect<Truth>(binary<int64_t>(BinaryKind::Equal, {kMost<int64_t>}, {kMost<int64_t> - 1}), {kNo});
  expect<Truth>(binary<int64_t>(BinaryKind::Less, {kMost<int64_t> - 1, -1}, {kMost<int64_t>, 1}), {kYes, kYes});
  expect<Truth>(binary<uint64_t>(BinaryKind::Less, {1}, {kMost<uint64_t>}), {kYes});
  expect<Truth>(binary<uint8_t>(BinaryKind::LessOrEqual, {200, 200}, {100, 200}), {kNo, kYes});
}

TEST(CpuBinary, PowersOfIntegersAreExact) {
  const auto power = [](const Tensor &a, const Tensor &b) { return binary(BinaryKind::Pow, a, b); };
  expect<int64_t>(power(row<int64_t>({3, 2, -2, 7, 0}), row<int64_t>({39, 64, 63, 0, 0})),
                  {4052555153018976267, 0, kLeast<int64_t>, 1, 1});
  expect<uint8_t>(power(row<uint8_t>({3, 2}), row<int64_t>({6, 7})), {217, 128});
  expect<uint16_t>(power(row<uint16_t>({65535}), row<uint8_t>({2})), {1});
  expect<int32_t>(power(row<int32_t>({3, -1}), row<uint64_t>({1, kMost<uint64_t>})), {3, -1});
  expect<int32_t>(power(row<int32_t>({2, 1, -1, -1, 0}), row<int8_t>({-1, -3, -3, -2, -1})),
                  {0, 1, -1, 1, kMost<int32_t>});
  expect<int64_t>(power(row<int64_t>({-1}), row<int64_t>({kLeast<int64_t>})), {1});
}

TEST(CpuBinary, PowersOfMixedTypes) {
  const auto power = [](const Tensor &a, const Tensor &b) { return binary(BinaryKind::Pow, a, b); };
  expect<float>(power(row<float>({2, -2, 4, 0}), row<float>({0.5f, 3, -0.5f, -1})), {1.41421356f, -8, 0.5f, kInf});
  expect<float>(power(row<float>({2, -3}), row<int32_t>({-2, 3})), {0.25f, -27});
  expect<float>(power(row<float>({-1}), row<uint64_t>({3})), {-1});
  expect<int32_t>(power(row<int32_t>({9, 2, 10, -8, 0}), row<float>({0.5f, 3.5f, 10, 0.5f, -1})),
                  {3, 11, kMost<int32_t>, 0, kMost<int32_t>});
  expect<uint8_t>(power(tensor<uint8_t>({2, 1}, {2, 3}), row<float>({2, 6})), {2, 2}, {4, 64, 9, 255});
}

TEST(CpuBinary, Broadcasts) {
  const Tensor column = tensor<float>({3, 1}, {10, 20, 30}), line = row<float>({1, 2});
  expect<float>(binary(BinaryKind::Sub, column, line), {3, 2}, {9, 8, 19, 18, 29, 28});
  expect<float>(binary(BinaryKind::Sub, line, column), {3, 2}, {-9, -8, -19, -18, -29, -28});
  expect<float>(binary(BinaryKind::Add, tensor<float>({}, {1}), tensor<float>({}, {2})), {}, {3});
  expect<int32_t>(
      binary(BinaryKind::Mul, tensor<int32_t>({2, 1, 2}, {1, 2, 3, 4}), tensor<int32_t>({3, 1}, {1, 10, 100})),
      {2, 3, 2}, {1, 2, 10, 20, 100, 200, 3, 4, 30, 40, 300, 400});
  expect<float>(binary(BinaryKind::Add, tensor<float>({0, 1}, {}), line), {0, 2}, {});
  expect<Truth>(binary(BinaryKind::Less, tensor<int8_t>({2, 2}, {1, 2, 3, 4}), row<int8_t>({3})), {2, 2},
                {kYes, kYes, kNo, kNo});
}

TEST(CpuBinary, ActivationFollows) {
  const BinaryAttrs attrs{BinaryKind::Sub, {ActKind::Clip, -1, 1}};
  expect<float>(run(Op::Binary, attrs, {row<float>({5, 5, 5}), row<float>({2, 4.5f, 9})}), {1, 0.5f, -1});
}

TEST(CpuBinary, IntegersAreNotDividedByZero) {
  for (BinaryKind kind : {BinaryKind::Div, BinaryKind::Mod, BinaryKind::Fmod}) {
    const BinaryAttrs attrs{kind, {}};
    EXPECT_EQ(error(Op::Binary, attrs, {row<int8_t>({1, 2}), row<int8_t>({1, 0})}), "integer division by zero");
    EXPECT_EQ(error(Op::Binary, attrs, {row<uint64_t>({1}), row<uint64_t>({0})}), "integer division by zero");
    EXPECT_EQ(error(Op::Binary, attrs, {row<int64_t>({}), row<int64_t>({0})}), "");
    EXPECT_EQ(error(Op::Binary, attrs, {row<float>({1}), row<float>({0})}), "");
  }
}

TEST(CpuWhere, ChoosesWithBroadcasting) {
  const Tensor yes = tensor<Truth>({2, 1}, {kYes, static_cast<Truth>(0)});
  expect<int64_t>(run(Op::Where, {}, {yes, row<int64_t>({1, 2}), tensor<int64_t>({}, {9})}), {2, 2}, {1, 2, 9, 9});
  expect<uint16_t>(run(Op::Where, {}, {row<Truth>({kNo, kYes}), row<uint16_t>({1, 2}), row<uint16_t>({3, 4})}), {3, 2});
  expect<Truth>(run(Op::Where, {}, {row<Truth>({kNo, kYes}), row<Truth>({kYes}), row<Truth>({kNo})}), {kNo, kYes});
  expect<float>(run(Op::Where, {}, {row<Truth>({kNo}), row<float>({1}), row<float>({-0.f})}), {-0.f});
}

// Matrices, softmax and windows.

TEST(CpuMatMul, Types) {
  const Shape square{2, 2};
  expect<float>(run(Op::MatMul, MatMulAttrs{{ActKind::Relu, 0, 0}},
                    {tensor<float>(square, {1, 2, 3, 4}), tensor<float>(square, {1, -1, 1, -1}), row<float>({-4, 1})}),
                square, {0, 0, 3, 0});
  expect<int32_t>(run(Op::MatMul, MatMulAttrs{},
                      {tensor<int32_t>(square, {kMost<int32_t>, 1, -1, 2}), tensor<int32_t>(square, {1, 2, 1, 3})}),
                  square, {kLeast<int32_t>, 1, 1, 4});
  expect<uint64_t>(
      run(Op::MatMul, MatMulAttrs{}, {tensor<uint64_t>({1, 1}, {kMost<uint64_t>}), tensor<uint64_t>({1, 2}, {1, 2})}),
      {1, 2}, {kMost<uint64_t>, kMost<uint64_t> - 1});
  expect<int64_t>(
      run(Op::MatMul, MatMulAttrs{}, {tensor<int64_t>({1, 1}, {-3}), tensor<int64_t>({1, 1}, {5}), row<int64_t>({1})}),
      {1, 1}, {-14});
  expect<uint32_t>(run(Op::MatMul, MatMulAttrs{}, {tensor<uint32_t>({1, 0}, {}), tensor<uint32_t>({0, 2}, {})}), {1, 2},
                   {0, 0});
}

TEST(CpuMatMul, BatchesBroadcast) {
  const Tensor a = tensor<float>({2, 1, 1, 2}, {1, 2, 3, 4}), b = tensor<float>({3, 2, 1}, {1, 0, 0, 1, 1, 1});
  expect<float>(run(Op::MatMul, MatMulAttrs{}, {a, b}), {2, 3, 1, 1}, {1, 2, 3, 3, 4, 7});
}

TEST(CpuSoftmax, AlongAnAxis) {
  const float half = std::log(0.5f);
  expect<float>(run(Op::Softmax, SoftmaxAttrs{0, false}, {tensor<float>({2, 2}, {5, 1000, 5, -1000})}), {2, 2},
                {0.5f, 1, 0.5f, 0});
  expect<float>(run(Op::Softmax, SoftmaxAttrs{1, true}, {tensor<float>({1, 2}, {7, 7})}), {1, 2}, {half, half});
  expect<float>(run(Op::Softmax, SoftmaxAttrs{1, false}, {tensor<float>({2, 0}, {})}), {2, 0}, {});
}

TEST(CpuConv, GroupsStrideAndPadding) {
  ConvAttrs attrs;
  attrs.window.kernel[0] = 2;
  attrs.window.stride[0] = 2;
  attrs.window.begin[0] = 1;
  attrs.groups = 2;
  const Tensor x = tensor<float>({1, 2, 3}, {1, 2, 3, 10, 20, 30}), w = tensor<float>({2, 1, 2}, {1, 2, -1, 1});
  expect<float>(run(Op::Conv, attrs, {x, w, row<float>({0, 0.5f})}), {1, 2, 2}, {2, 8, 10.5f, 10.5f});
}

Window square(int64_t kernel, int64_t stride) {
  Window w;
  w.kernel = {kernel, kernel};
  w.stride = {stride, stride};
  return w;
}

TEST(CpuPool, MaximumAndItsPlace) {
  const Tensor x = tensor<float>({1, 2, 2, 3}, {1, 5, 5, 5, 2, 3, kNan, 1, 1, -kInf, 1, kNan});
  expect<float>(run(Op::Pool, PoolAttrs{square(2, 1), true, false, {0, 0}}, {x}), {1, 2, 1, 2}, {5, 5, kNan, kNan});
  expect<int64_t>(run(Op::PoolIndices, PoolIndicesAttrs{square(2, 1), false}, {x}), {1, 2, 1, 2}, {1, 1, 7, 7});
  expect<int64_t>(run(Op::PoolIndices, PoolIndicesAttrs{square(2, 1), true}, {x}), {1, 2, 1, 2}, {2, 2, 8, 8});
}

TEST(CpuPool, PlaceOfNothingLarge) {
  PoolIndicesAttrs attrs;
  attrs.window.kernel[0] = 2;
  attrs.window.begin[0] = 1;
  const Tensor x = tensor<float>({1, 1, 4}, {-kInf, -kInf, kNan, kNan});
  expect<int64_t>(run(Op::PoolIndices, attrs, {x}), {1, 1, 4}, {0, 0, 1, 2});
}

// Reductions.

Tensor reduce(ReduceKind kind, const Tensor &x, std::vector<int> axes) {
  return run(Op::Reduce, ReduceAttrs{kind, std::move(axes)}, {x});
}

TEST(CpuReduce, Axes) {
  const Tensor x = tensor<float>({2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  expect<float>(reduce(ReduceKind::Sum, x, {0}), {1, 3, 2}, {8, 10, 12, 14, 16, 18});
  expect<float>(reduce(ReduceKind::Sum, x, {1}), {2, 1, 2}, {9, 12, 27, 30});
  expect<float>(reduce(ReduceKind::Mean, x, {0, 2}), {1, 3, 1}, {4.5f, 6.5f, 8.5f});
  expect<float>(reduce(ReduceKind::Max, x, {0, 1, 2}), {1, 1, 1}, {12});
  expect<float>(reduce(ReduceKind::Prod, x, {1, 2}), {2, 1, 1}, {720, 665280});
  expect<float>(reduce(ReduceKind::Min, x, {}), {2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
}

TEST(CpuReduce, Floats) {
  const Tensor x = row<float>({1e8f, 1, -1e8f, 1});
  expect<float>(reduce(ReduceKind::Sum, x, {0}), {2});
  expect<float>(reduce(ReduceKind::Mean, x, {0}), {0.5f});
  expect<float>(reduce(ReduceKind::Prod, row<float>({1e30f, 1e30f, 1e-30f, 1e-30f}), {0}), {1});
  for (ReduceKind kind : {ReduceKind::Sum, ReduceKind::Mean, ReduceKind::Max, ReduceKind::Min, ReduceKind::Prod})
    expect<float>(reduce(kind, row<float>({1, kNan, 2}), {0}), {kNan});
}

TEST(CpuReduce, IntegersAreExact) {
  const int64_t large = int64_t{1} << 62;
  const Tensor x = row<int64_t>({large, large + 1, large, large + 3});
  expect<int64_t>(reduce(ReduceKind::Sum, x, {0}), {4});
  expect<int64_t>(reduce(ReduceKind::Mean, x, {0}), {large + 1});
  expect<int64_t>(reduce(ReduceKind::Max, x, {0}), {large + 3});
  expect<int64_t>(reduce(ReduceKind::Min, x, {0}), {large});
  expect<int64_t>(reduce(ReduceKind::Prod, row<int64_t>({large, 3}), {0}), {-large});
  expect<int8_t>(reduce(ReduceKind::Sum, row<int8_t>({100, 100}), {0}), {-56});
  expect<int8_t>(reduce(ReduceKind::Mean, row<int8_t>({100, 101}), {0}), {100});
  expect<int8_t>(reduce(ReduceKind::Mean, row<int8_t>({-100, -101}), {0}), {-100});
  expect<uint16_t>(reduce(ReduceKind::Prod, row<uint16_t>({65535, 65535}), {0}), {1});
  expect<uint64_t>(reduce(ReduceKind::Mean, row<uint64_t>({kMost<uint64_t>, kMost<uint64_t>}), {0}), {kMost<uint64_t>});
  expect<uint8_t>(reduce(ReduceKind::Max, row<uint8_t>({1, 255}), {0}), {255});
}

TEST(CpuReduce, Bools) {
  const Tensor x = tensor<Truth>({2, 2}, {kYes, kNo, kYes, kYes});
  expect<Truth>(reduce(ReduceKind::Max, x, {1}), {2, 1}, {kYes, kYes});
  expect<Truth>(reduce(ReduceKind::Min, x, {1}), {2, 1}, {kNo, kYes});
  expect<Truth>(reduce(ReduceKind::Min, tensor<Truth>({0, 1}, {}), {0}), {1, 1}, {kYes});
  expect<Truth>(reduce(ReduceKind::Max, tensor<Truth>({0, 1}, {}), {0}), {1, 1}, {kNo});
}

TEST(CpuReduce, NoElements) {
  const Tensor none = tensor<float>({2, 0}, {}), no_integers = tensor<int32_t>({2, 0}, {});
  expect<float>(reduce(ReduceKind::Sum, none, {1}), {2, 1}, {0, 0});
  expect<float>(reduce(ReduceKind::Prod, none, {1}), {2, 1}, {1, 1});
  expect<float>(reduce(ReduceKind::Max, none, {1}), {2, 1}, {-kInf, -kInf});
  expect<float>(reduce(ReduceKind::Min, none, {1}), {2, 1}, {kInf, kInf});
  expect<float>(reduce(ReduceKind::Mean, none, {1}), {2, 1}, {kNan, kNan});
  expect<float>(reduce(ReduceKind::Sum, none, {0}), {1, 0}, {});
  expect<int32_t>(reduce(ReduceKind::Max, no_integers, {1}), {2, 1}, {kLeast<int32_t>, kLeast<int32_t>});
  expect<int32_t>(reduce(ReduceKind::Min, no_integers, {0, 1}), {1, 1}, {kMost<int32_t>});
  expect<int32_t>(reduce(ReduceKind::Mean, no_integers, {0}), {1, 0}, {});
}

Tensor cumsum(const Tensor &x, int axis, bool exclusive, bool reverse) {
  return run(Op::CumSum, CumSumAttrs{axis, exclusive, reverse}, {x});
}

TEST(CpuCumSum, Directions) {
  const Tensor x = tensor<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  expect<float>(cumsum(x, 1, false, false), {2, 3}, {1, 3, 6, 4, 9, 15});
  expect<float>(cumsum(x, 1, true, false), {2, 3}, {0, 1, 3, 0, 4, 9});
  expect<float>(cumsum(x, 1, false, true), {2, 3}, {6, 5, 3, 15, 11, 6});
  expect<float>(cumsum(x, 1, true, true), {2, 3}, {5, 3, 0, 11, 6, 0});
  expect<float>(cumsum(x, 0, false, false), {2, 3}, {1, 2, 3, 5, 7, 9});
  expect<float>(cumsum(row<float>({1e8f, 1, -1e8f}), 0, false, false), {1e8f, 1e8f, 1});
  expect<int8_t>(cumsum(row<int8_t>({100, 100, 1}), 0, false, false), {100, -56, -55});
  expect<uint64_t>(cumsum(row<uint64_t>({kMost<uint64_t>, 2}), 0, false, false), {kMost<uint64_t>, 1});
  expect<int32_t>(cumsum(tensor<int32_t>({0, 2}, {}), 0, true, false), {0, 2}, {});
}

// Selections.

TEST(CpuArgMax, TiesAndNan) {
  const auto arg = [](const Tensor &x, int axis, bool last, bool smallest) {
    return run(Op::ArgMax, ArgMaxAttrs{axis, last, smallest}, {x});
  };
  const Tensor x = tensor<float>({2, 4}, {1, 3, kNan, 3, kNan, -1, -1, 2});
  expect<int64_t>(arg(x, 1, false, false), {2, 1}, {1, 3});
  expect<int64_t>(arg(x, 1, true, false), {2, 1}, {3, 3});
  expect<int64_t>(arg(x, 1, false, true), {2, 1}, {0, 1});
  expect<int64_t>(arg(x, 1, true, true), {2, 1}, {0, 2});
  expect<int64_t>(arg(x, 0, false, false), {1, 4}, {0, 0, 1, 0});
  expect<int64_t>(arg(row<int64_t>({kMost<int64_t> - 1, kMost<int64_t>}), 0, false, false), {1});
  expect<int64_t>(arg(row<int64_t>({kLeast<int64_t> + 1, kLeast<int64_t>}), 0, false, true), {1});
  expect<int64_t>(arg(row<uint64_t>({5, kMost<uint64_t>}), 0, false, false), {1});
  expect<int64_t>(arg(row<Truth>({kNo, kYes, kYes}), 0, false, false), {1});
  expect<int64_t>(arg(tensor<float>({0, 2}, {}), 1, false, false), {0, 1}, {});
}

TEST(CpuTopK, Order) {
  const auto top = [](const Tensor &x, int axis, int64_t count, bool smallest) {
    return run(Op::TopK, TopKAttrs{axis, count, smallest}, {x});
  };
  const Tensor x = tensor<float>({2, 3}, {1, 3, 3, kNan, -1, 0});
  expect<int64_t>(top(x, 1, 3, false), {2, 3}, {1, 2, 0, 2, 1, 0});
  expect<int64_t>(top(x, 1, 2, true), {2, 2}, {0, 1, 1, 2});
  expect<int64_t>(top(x, 0, 1, false), {1, 3}, {0, 0, 0});
  expect<int64_t>(top(x, 0, 0, false), {0, 3}, {});
  expect<int64_t>(top(row<int64_t>({kMost<int64_t> - 1, kMost<int64_t>, 0}), 0, 2, false), {1, 0});
  expect<int64_t>(top(row<uint8_t>({200, 100, 255}), 0, 3, true), {1, 0, 2});
}

// Moves.

TEST(CpuMoves, EveryType) {
  const Tensor x = tensor<int16_t>({2, 3}, {1, 2, 3, 4, 5, 6});
  expect<int16_t>(run(Op::Transpose, TransposeAttrs{{1, 0}}, {x}), {3, 2}, {1, 4, 2, 5, 3, 6});
  expect<int16_t>(run(Op::Reshape, ShapeAttrs{{3, 2}}, {x}), {3, 2}, {1, 2, 3, 4, 5, 6});
  expect<int16_t>(run(Op::Concat, ConcatAttrs{1}, {x, tensor<int16_t>({2, 0}, {}), tensor<int16_t>({2, 1}, {7, 8})}),
                  {2, 4}, {1, 2, 3, 7, 4, 5, 6, 8});
  expect<int16_t>(run(Op::Expand, ShapeAttrs{{2, 2, 3}}, {tensor<int16_t>({2, 1}, {1, 2})}), {2, 2, 3},
                  {1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2});
  expect<Truth>(run(Op::Expand, ShapeAttrs{{0, 2}}, {tensor<Truth>({1, 1}, {kYes})}), {0, 2}, {});
  expect<double>(run(Op::Transpose, TransposeAttrs{{2, 0, 1}}, {tensor<double>({1, 2, 2}, {1, 2, 3, 4})}), {2, 1, 2},
                 {1, 3, 2, 4});
}

TEST(CpuMoves, Slices) {
  const Tensor x = tensor<uint8_t>({2, 5}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  const auto slice = [&](std::vector<int64_t> start, std::vector<int64_t> step, std::vector<int64_t> count) {
    return run(Op::Slice, SliceAttrs{std::move(start), std::move(step), std::move(count)}, {x});
  };
  expect<uint8_t>(slice({0, 1}, {1, 2}, {2, 2}), {2, 2}, {1, 3, 6, 8});
  expect<uint8_t>(slice({1, 4}, {-1, -4}, {2, 2}), {2, 2}, {9, 5, 4, 0});
  const int64_t far = kMost<int64_t>;
  expect<uint8_t>(slice({1, 2}, {far, -far}, {1, 1}), {1, 1}, {7});
  expect<uint8_t>(slice({far, -far}, {far, far}, {0, 0}), {0, 0}, {});
}

TEST(CpuMoves, PaddingOfTheTensorsType) {
  const auto pad = [](const Tensor &x, double value) { return run(Op::Pad, PadAttrs{{1, 0}, {0, 2}, value}, {x}); };
  expect<float>(pad(tensor<float>({1, 1}, {5}), -0.0), {2, 3}, {-0.f, -0.f, -0.f, 5, -0.f, -0.f});
  expect<int64_t>(pad(tensor<int64_t>({1, 1}, {5}), -7.9), {2, 3}, {-7, -7, -7, 5, -7, -7});
  expect<uint8_t>(pad(tensor<uint8_t>({1, 1}, {5}), 300), {2, 3}, {255, 255, 255, 5, 255, 255});
  expect<Truth>(pad(tensor<Truth>({1, 1}, {kNo}), 2), {2, 3}, {kYes, kYes, kYes, kNo, kYes, kYes});
  expect<float>(pad(tensor<float>({0, 1}, {}), kInf), {1, 3}, {kInf, kInf, kInf});
  expect<int8_t>(run(Op::Pad, PadAttrs{{0, 1}, {0, 0}, 9}, {tensor<int8_t>({2, 1}, {1, 2})}), {2, 2}, {9, 1, 9, 2});
  expect<float>(run(Op::Pad, PadAttrs{{}, {}, 9}, {tensor<float>({}, {1})}), {}, {1});
}

TEST(CpuCast, Numbers) {
  const auto cast = [](Dtype to, const Tensor &x, bool saturate = false) {
    return run(Op::Cast, CastAttrs{to, saturate}, {x});
  };
  const Tensor x = row<float>({-1.9f, 300, kNan, kInf, -kInf});
  expect<uint8_t>(cast(Dtype::U8, x), {0, 255, 0, 255, 0});
  expect<int8_t>(cast(Dtype::I8, x), {-1, 127, 0, 127, -128});
  expect<int64_t>(cast(Dtype::I64, x), {-1, 300, 0, kMost<int64_t>, kLeast<int64_t>});
  expect<Truth>(cast(Dtype::Bool, row<float>({0, -0.f, 0.1f, kNan})), {kNo, kNo, kYes, kYes});
  const Tensor n = row<int32_t>({-1, 300, 256});
  expect<uint8_t>(cast(Dtype::U8, n), {255, 44, 0});
  expect<uint8_t>(cast(Dtype::U8, n, true), {0, 255, 255});
  expect<uint64_t>(cast(Dtype::U64, n), {kMost<uint64_t>, 300, 256});
  expect<uint64_t>(cast(Dtype::U64, n, true), {0, 300, 256});
  expect<Truth>(cast(Dtype::Bool, n), {kYes, kYes, kYes});
  const Tensor large = row<uint64_t>({kMost<uint64_t>, uint64_t{1} << 63});
  expect<float>(cast(Dtype::F32, large), {18446744073709551616.f, 9223372036854775808.f});
  expect<int64_t>(cast(Dtype::I64, large), {-1, kLeast<int64_t>});
  expect<int64_t>(cast(Dtype::I64, large, true), {kMost<int64_t>, kMost<int64_t>});
  expect<float>(cast(Dtype::F32, row<int64_t>({(int64_t{1} << 60) + (int64_t{1} << 36) + 1})), {1152921642045800448.f});
  expect<float>(cast(Dtype::F32, row<Truth>({kNo, kYes})), {0, 1});
}

TEST(CpuCast, SmallFloatsRoundToNearestEven) {
  const auto bits = [](Dtype to, float x) {
    return run(Op::Cast, CastAttrs{to, false}, {row<float>({x})}).as<uint16_t>()[0];
  };
  EXPECT_EQ(bits(Dtype::F16, 1 + 1.f / 2048), 0x3c00);  // halfway between 1 and the next
  EXPECT_EQ(bits(Dtype::F16, 1 + 3.f / 2048), 0x3c02);
  EXPECT_EQ(bits(Dtype::F16, 65520), 0x7c00);
  EXPECT_EQ(bits(Dtype::BF16, 1 + 1.f / 256), 0x3f80);
  EXPECT_EQ(bits(Dtype::BF16, 1 + 3.f / 256), 0x3f82);
  expect<float>(run(Op::Cast, CastAttrs{Dtype::F32, false}, {bits16(Dtype::F16, {0x3c01, 0xfc00})}),
                {1 + 1.f / 1024, -kInf});
  expect<float>(run(Op::Cast, CastAttrs{Dtype::F32, false}, {bits16(Dtype::BF16, {0x3f81})}), {1 + 1.f / 128});
}

// Moves by indices.

TEST(CpuGather, NegativeIndicesCountFromTheEnd) {
  const Tensor x = tensor<int8_t>({2, 3}, {1, 2, 3, 4, 5, 6});
  expect<int8_t>(run(Op::Gather, GatherAttrs{1}, {x, tensor<int64_t>({2, 1}, {-1, 0})}), {2, 2, 1}, {3, 1, 6, 4});
  expect<int8_t>(run(Op::Gather, GatherAttrs{0}, {x, tensor<int32_t>({}, {-2})}), {3}, {1, 2, 3});
  expect<int8_t>(run(Op::Gather, GatherAttrs{0}, {x, row<int32_t>({})}), {0, 3}, {});
}

TEST(CpuGather, Elements) {
  const Tensor x = tensor<float>({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  expect<float>(run(Op::GatherElements, GatherAttrs{0}, {x, tensor<int32_t>({2, 3}, {1, 2, 0, 2, 0, 0})}), {2, 3},
                {4, 8, 3, 7, 2, 3});
  expect<float>(run(Op::GatherElements, GatherAttrs{0}, {x, tensor<int64_t>({1, 3}, {-1, -2, -3})}), {1, 3}, {7, 5, 3});
  expect<float>(run(Op::GatherElements, GatherAttrs{1}, {x, tensor<int64_t>({2, 1}, {2, 0})}), {2, 1}, {3, 4});
}

TEST(CpuGather, Nd) {
  const Tensor x = tensor<int32_t>({2, 2}, {0, 1, 2, 3}),
               cube = tensor<Truth>({2, 2, 2}, {kNo, kYes, kNo, kNo, kYes, kYes, kNo, kYes});
  expect<int32_t>(run(Op::GatherNd, GatherNdAttrs{0}, {x, tensor<int64_t>({2, 2}, {0, 0, -1, 1})}), {0, 3});
  expect<int32_t>(run(Op::GatherNd, GatherNdAttrs{0}, {x, tensor<int32_t>({2, 1}, {1, 0})}), {2, 2}, {2, 3, 0, 1});
  expect<Truth>(run(Op::GatherNd, GatherNdAttrs{1}, {cube, tensor<int64_t>({2, 1}, {1, 0})}), {2, 2},
                {kNo, kNo, kYes, kYes});
  expect<Truth>(run(Op::GatherNd, GatherNdAttrs{1}, {cube, tensor<int64_t>({2, 2, 2}, {0, 1, 1, 1, -1, -1, 1, 0})}),
                {2, 2}, {kYes, kNo, kYes, kNo});
  expect<Truth>(run(Op::GatherNd, GatherNdAttrs{2}, {cube, tensor<int64_t>({2, 2, 1}, {1, 0, 0, -1})}), {2, 2},
                {kYes, kNo, kYes, kYes});
}

TEST(CpuScatter, Elements) {
  const auto scatter = [](Reduction reduction, const Tensor &x, const Tensor &indices, const Tensor &updates) {
    return run(Op::ScatterElements, ScatterAttrs{1, reduction}, {x, indices, updates});
  };
  const Tensor x = tensor<float>({1, 5}, {1, 2, 3, 4, 5}), twice = tensor<int64_t>({1, 3}, {1, -4, 3});
  const Tensor updates = tensor<float>({1, 3}, {1.5f, 4, -2});
  expect<float>(scatter(Reduction::None, x, twice, updates), {1, 5}, {1, 4, 3, -2, 5});
  expect<float>(scatter(Reduction::Add, x, twice, updates), {1, 5}, {1, 7.5f, 3, 2, 5});
  expect<float>(scatter(Reduction::Mul, x, twice, updates), {1, 5}, {1, 12, 3, -8, 5});
  expect<float>(scatter(Reduction::Max, x, twice, updates), {1, 5}, {1, 4, 3, 4, 5});
  expect<float>(scatter(Reduction::Min, x, twice, updates), {1, 5}, {1, 1.5f, 3, -2, 5});
  expect<float>(scatter(Reduction::Max, x, tensor<int32_t>({1, 1}, {0}), tensor<float>({1, 1}, {kNan})), {1, 5},
                {kNan, 2, 3, 4, 5});
  expect<uint8_t>(scatter(Reduction::Add, tensor<uint8_t>({1, 2}, {250, 1}), tensor<int32_t>({1, 1}, {0}),
                          tensor<uint8_t>({1, 1}, {10})),
                  {1, 2}, {4, 1});
  expect<Truth>(scatter(Reduction::None, tensor<Truth>({2, 2}, {kNo, kNo, kNo, kNo}), tensor<int32_t>({1, 1}, {1}),
                        tensor<Truth>({1, 1}, {kYes})),
                {2, 2}, {kNo, kYes, kNo, kNo});
  expect<float>(scatter(Reduction::None, x, tensor<int64_t>({1, 0}, {}), tensor<float>({1, 0}, {})), {1, 5},
                {1, 2, 3, 4, 5});
}

TEST(CpuScatter, Nd) {
  const auto scatter = [](Reduction reduction, const Tensor &x, const Tensor &indices, const Tensor &updates) {
    return run(Op::ScatterNd, ScatterAttrs{0, reduction}, {x, indices, updates});
  };
  const Tensor x = tensor<int32_t>({3, 2}, {1, 2, 3, 4, 5, 6}), rows = tensor<int64_t>({2, 1}, {-1, 2});
  const Tensor updates = tensor<int32_t>({2, 2}, {10, 20, 30, -40});
  expect<int32_t>(scatter(Reduction::None, x, rows, updates), {3, 2}, {1, 2, 3, 4, 30, -40});
  expect<int32_t>(scatter(Reduction::Add, x, rows, updates), {3, 2}, {1, 2, 3, 4, 45, -14});
  expect<int32_t>(scatter(Reduction::Mul, x, rows, updates), {3, 2}, {1, 2, 3, 4, 1500, -4800});
  expect<int32_t>(scatter(Reduction::Max, x, rows, updates), {3, 2}, {1, 2, 3, 4, 30, 20});
  expect<int32_t>(scatter(Reduction::Min, x, rows, updates), {3, 2}, {1, 2, 3, 4, 5, -40});
  expect<int32_t>(scatter(Reduction::None, x, tensor<int32_t>({1, 2}, {0, -1}), row<int32_t>({9})), {3, 2},
                  {1, 9, 3, 4, 5, 6});
}

TEST(CpuIndices, OutsideTheirDimension) {
  const Tensor x = tensor<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto column = [](int64_t value) { return tensor<int64_t>({1, 1}, {value}); };
  const Tensor one = tensor<float>({1, 1}, {0});
  EXPECT_EQ(error(Op::Gather, GatherAttrs{1}, {x, row<int32_t>({0, 3})}),
            "index 3 is outside dimension 1, which has length 3");
  EXPECT_EQ(error(Op::Gather, GatherAttrs{0}, {x, row<int64_t>({-3})}),
            "index -3 is outside dimension 0, which has length 2");
  EXPECT_EQ(error(Op::Gather, GatherAttrs{0}, {tensor<float>({0}, {}), row<int64_t>({0})}),
            "index 0 is outside dimension 0, which has length 0");
  EXPECT_EQ(error(Op::GatherElements, GatherAttrs{0}, {x, column(2)}),
            "index 2 is outside dimension 0, which has length 2");
  EXPECT_EQ(error(Op::GatherNd, GatherNdAttrs{1}, {x, tensor<int64_t>({2, 1}, {0, kMost<int64_t>})}),
            "index 9223372036854775807 is outside dimension 1, which has length 3");
  EXPECT_EQ(error(Op::ScatterElements, ScatterAttrs{1, Reduction::None}, {x, column(kLeast<int64_t>), one}),
            "index -9223372036854775808 is outside dimension 1, which has length 3");
  EXPECT_EQ(error(Op::ScatterNd, ScatterAttrs{}, {x, column(2), tensor<float>({1, 3}, {1, 2, 3})}),
            "index 2 is outside dimension 0, which has length 2");
  EXPECT_EQ(
      error(Op::ScatterNd, ScatterAttrs{}, {tensor<float>({0, 3}, {}), column(0), tensor<float>({1, 3}, {1, 2, 3})}),
      "index 0 is outside dimension 0, which has length 0");
}

}  // namespace
}  // namespace npu::cpu
