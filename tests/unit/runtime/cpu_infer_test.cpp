// SPDX-License-Identifier: MIT
// What infer() makes of the operands of each operator, and everything that it refuses: a .bmodel may name any operator
// with any attributes and shapes.
#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "runtime/cpu/names.h"

namespace npu::cpu {
namespace {

using Operands = std::vector<std::optional<TensorKind>>;
constexpr std::nullopt_t kNone = std::nullopt;
constexpr int64_t kHuge = std::numeric_limits<int64_t>::max(), kLow = std::numeric_limits<int64_t>::min();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TensorKind f32(Shape shape) { return {Dtype::F32, std::move(shape)}; }
TensorKind i32(Shape shape) { return {Dtype::I32, std::move(shape)}; }
TensorKind i64(Shape shape) { return {Dtype::I64, std::move(shape)}; }
TensorKind i8(Shape shape) { return {Dtype::I8, std::move(shape)}; }
TensorKind u8(Shape shape) { return {Dtype::U8, std::move(shape)}; }
TensorKind boolean(Shape shape) { return {Dtype::Bool, std::move(shape)}; }

Status infer_all(Op op, const Attrs &attrs, const Operands &operands, TensorKind &out) {
  std::vector<const TensorKind *> in;
  for (const auto &o : operands) in.push_back(o ? &*o : nullptr);
  return infer(op, attrs, in, out);
}

Window window(int64_t kernel, int64_t stride = 1, int64_t dilation = 1, int64_t begin = 0, int64_t end = 0) {
  Window w;
  w.kernel = {kernel, kernel};
  w.stride = {stride, stride};
  w.dilation = {dilation, dilation};
  w.begin = {begin, begin};
  w.end = {end, end};
  return w;
}

ConvAttrs conv(const Window &w, int64_t groups = 1, Activation act = {}) { return {w, groups, act}; }
PoolAttrs pool(const Window &w) { return {w, true, false, {0, 0}}; }
PoolAttrs counted(int64_t end) { return {window(2), false, true, {end, 0}}; }
UnaryAttrs function(ActKind kind, float a = 0, float b = 0) { return {{kind, a, b}}; }
UnaryAttrs function(int kind) { return {{static_cast<ActKind>(kind), 0, 0}}; }
BinaryAttrs of_two(BinaryKind kind, Activation act = {}) { return {kind, act}; }
BinaryAttrs of_two(int kind) { return {static_cast<BinaryKind>(kind), {}}; }
ReduceAttrs over(ReduceKind kind, std::vector<int> axes) { return {kind, std::move(axes)}; }
ScatterAttrs scatter(int axis, Reduction reduction = Reduction::None) { return {axis, reduction}; }
SliceAttrs slice(int64_t start, int64_t step, int64_t count) { return {{start}, {step}, {count}}; }

struct Accepted {
  Op op;
  Attrs attrs;
  Operands operands;
  TensorKind result;
};

const Accepted kAccepted[] = {
    {Op::Conv, conv(window(3, 2, 1, 1, 1), 2), {f32({1, 4, 7, 8}), f32({6, 2, 3, 3}), kNone}, f32({1, 6, 4, 4})},
    {Op::MatMul, MatMulAttrs{}, {f32({5, 1, 2, 3}), f32({4, 3, 7}), f32({7})}, f32({5, 4, 2, 7})},
    {Op::Pool, pool(window(2, 2)), {f32({2, 3, 5, 4})}, f32({2, 3, 2, 2})},
    {Op::Binary, of_two(BinaryKind::Add), {f32({4, 1}), f32({3})}, f32({4, 3})},
    {Op::Unary, function(ActKind::Sin), {f32({2, 3})}, f32({2, 3})},
    {Op::Softmax, SoftmaxAttrs{1, false}, {f32({2, 3})}, f32({2, 3})},
    {Op::Transpose, TransposeAttrs{{1, 0}}, {u8({2, 3})}, u8({3, 2})},
    {Op::Reshape, ShapeAttrs{{6}}, {u8({2, 3})}, u8({6})},
    {Op::Concat, ConcatAttrs{1}, {u8({2, 3}), u8({2, 1}), u8({2, 0})}, u8({2, 4})},
    {Op::Slice, slice(4, -2, 3), {u8({5})}, u8({3})},
    {Op::Pad, PadAttrs{{1, 0}, {0, 2}, 1.5}, {u8({2, 3})}, u8({3, 5})},
    {Op::Expand, ShapeAttrs{{4, 2, 3}}, {u8({2, 1})}, u8({4, 2, 3})},
    {Op::Gather, GatherAttrs{1}, {u8({2, 3, 4}), i32({5, 6})}, u8({2, 5, 6, 4})},
    {Op::Cast, CastAttrs{Dtype::F16, false}, {f32({2})}, {Dtype::F16, {2}}},
    {Op::Where, {}, {boolean({2, 1}), u8({3}), u8({4, 1, 1})}, u8({4, 2, 3})},
    {Op::Reduce, over(ReduceKind::Mean, {0, 2}), {f32({2, 3, 4})}, f32({1, 3, 1})},
    {Op::ArgMax, ArgMaxAttrs{1, false, false}, {u8({2, 3})}, i64({2, 1})},
    {Op::TopK, TopKAttrs{1, 2, false}, {f32({2, 3})}, i64({2, 2})},
    {Op::CumSum, CumSumAttrs{0, false, false}, {i32({2, 3})}, i32({2, 3})},
    {Op::GatherElements, GatherAttrs{0}, {u8({2, 3}), i64({5, 2})}, u8({5, 2})},
    {Op::GatherNd, GatherNdAttrs{1}, {u8({2, 3, 4, 5}), i64({2, 7, 2})}, u8({2, 7, 5})},
    {Op::ScatterElements, scatter(0), {u8({2, 3}), i64({5, 2}), u8({5, 2})}, u8({2, 3})},
    {Op::ScatterNd, scatter(0), {u8({2, 3, 4}), i32({5, 2}), u8({5, 4})}, u8({2, 3, 4})},
    {Op::PoolIndices, PoolIndicesAttrs{window(2, 2), true}, {f32({2, 3, 5, 4})}, i64({2, 3, 2, 2})},
    {Op::Requant, RequantAttrs{{0.5f, -3}, {0.25f, 7}, {}, Dtype::U8}, {i8({2, 3})}, u8({2, 3})},
    {Op::Lookup, {}, {u8({2, 3}), f32({256})}, f32({2, 3})},
    {Op::PluginOutput, PluginOutputAttrs{64, f32({2, 3})}, {u8({88})}, f32({2, 3})},
    {Op::Fail, ShapeAttrs{{2, 3}}, {u8({})}, u8({2, 3})},
};

/// Number of the operators, which are numbered from 0 on.
constexpr int count_ops() {
  int count = 0;
  while (name_of(static_cast<Op>(count))) ++count;
  return count;
}
constexpr int kOps = count_ops();
static_assert(std::size(kAccepted) == kOps - 1);  // a Plugin needs a library: python/tests/test_plugin.py

/// Real numbers of 16 bits, alone and beside others.
const Accepted kHalf[] = {
    {Op::Unary, function(ActKind::Sin), {{{Dtype::F16, {2, 3}}}}, {Dtype::F16, {2, 3}}},
    {Op::MatMul,
     MatMulAttrs{{}, {.out = Dtype::BF16}},
     {{{Dtype::F16, {2, 3}}}, f32({3, 4}), f32({4})},
     {Dtype::BF16, {2, 4}}},
    {Op::Binary,
     BinaryAttrs{BinaryKind::Add, {}, {}, {}, {}, Dtype::F16},
     {{{Dtype::BF16, {4, 1}}}, {{Dtype::F16, {3}}}},
     {Dtype::F16, {4, 3}}},
};

TEST(Infer, GivesTypeAndShape) {
  const auto expect_result = [](const Accepted &a) {
    SCOPED_TRACE(op_name(a.op));
    TensorKind out;
    EXPECT_EQ(infer_all(a.op, a.attrs, a.operands, out).message(), "");
    EXPECT_EQ(kind_text(out), kind_text(a.result));
  };
  int number = 0;
  for (const Accepted &a : kAccepted) {
    number += static_cast<Op>(number) == Op::Plugin;
    EXPECT_EQ(static_cast<int>(a.op), number++);
    expect_result(a);
  }
  for (const Accepted &a : kHalf) expect_result(a);
}

TEST(Infer, MayWriteOverAnOperand) {
  TensorKind x = u8({2, 3});
  const TensorKind *in[] = {&x};
  EXPECT_EQ(infer(Op::Transpose, TransposeAttrs{{1, 0}}, in, x).message(), "");
  EXPECT_EQ(kind_text(x), "uint8 [3, 2]");
}

void expect_refused(Op op, const Attrs &attrs, const Operands &operands, const std::string &says) {
  TensorKind out = u8({42});
  const Status status = infer_all(op, attrs, operands, out);
  EXPECT_FALSE(status.ok()) << op_name(op) << ": " << says;
  EXPECT_NE(status.message().find(says), std::string::npos) << op_name(op) << ": " << status.message();
  EXPECT_EQ(kind_text(out), "uint8 [42]");
}

TEST(Infer, RefusesOperandsOfAnyOperator) {
  for (const Accepted &a : kAccepted) {
    Operands many = a.operands;
    for (int i = 0; i < 3; ++i) many.push_back(a.operands[0]);
    if (a.op != Op::Concat) expect_refused(a.op, a.attrs, many, " operands, expected ");
    expect_refused(a.op, a.attrs, {}, "0 operands, expected ");
    const bool third = a.op == Op::Conv || a.op == Op::MatMul;
    for (size_t k = 0; k < a.operands.size(); ++k) {
      const auto with = [&](std::optional<TensorKind> kind, const std::string &says) {
        Operands in = a.operands;
        in[k] = std::move(kind);
        expect_refused(a.op, a.attrs, in, "operand " + std::to_string(k) + says);
      };
      if (k < 2 || !third) with(kNone, " is missing");
      for (int type : {0, 8, 14, 15, 17, 255}) with({{static_cast<Dtype>(type), {2, 3}}}, " has an element type");
      with(f32({3, -1}), " [3, -1] has a negative dimension");
      with(f32({1 << 20, 1 << 20}), " [1048576, 1048576] has more than ");
      with(f32({kHuge, kHuge}), " [9223372036854775807, 9223372036854775807] has more than ");
      with(f32({0, 1 << 20, 1 << 20}), " [0, 1048576, 1048576] has more than ");  // its strides would be too large
      with(f32(Shape(65, 1)), " has 65 dimensions");
    }
  }
}

TEST(Infer, RefusesAttributesOfAnotherOperator) {
  for (const Accepted &a : kAccepted)
    for (const Accepted &other : kAccepted)
      if (a.attrs.index() != other.attrs.index())
        expect_refused(a.op, other.attrs, a.operands, "the attributes are those of another operator");
}

TEST(Infer, RefusesUnknownOperators) {
  for (int op = kOps; op < 256; ++op) {
    expect_refused(static_cast<Op>(op), {}, {f32({1})}, "operator " + std::to_string(op) + " is unknown");
    EXPECT_STREQ(op_name(static_cast<Op>(op)), "unknown");
  }
  EXPECT_STREQ(op_name(Op::Conv), "Conv");
  EXPECT_STREQ(op_name(Op::Fail), "Fail");
}

struct Refused {
  const char *says;
  Op op;
  Attrs attrs;
  Operands operands;
};

void expect_all_refused(std::span<const Refused> list) {
  for (const Refused &r : list) expect_refused(r.op, r.attrs, r.operands, r.says);
}

Window second(int64_t kernel, int64_t stride, int64_t begin, int64_t end) {
  Window w;
  w.kernel[1] = kernel;
  w.stride[1] = stride;
  w.begin[1] = begin;
  w.end[1] = end;
  return w;
}

TEST(Infer, RefusesWindows) {
  const TensorKind x = f32({1, 4, 7, 8}), w = f32({6, 4, 3, 3});
  const auto of_pool = [&](const Window &window) { return Attrs(PoolIndicesAttrs{window, false}); };
  const Refused list[] = {
      {"the input is float64, supported: float32", Op::Pool, pool(window(2)), {{{Dtype::F64, {1, 4, 7, 8}}}}},
      {"the input is int32", Op::PoolIndices, of_pool(window(2)), {i32({1, 4, 7, 8})}},
      {"0 spatial dimensions", Op::Pool, pool(window(1)), {f32({1, 4})}},
      {"3 spatial dimensions", Op::Pool, pool(window(1)), {f32({1, 4, 7, 8, 9})}},
      {"dilation 0 is outside", Op::Pool, pool(window(0)), {x}},
      {"dilation 65536 is outside", Op::Pool, pool(window(65536)), {x}},
      {"dilation -1 is outside", Op::Pool, pool(window(2, -1)), {x}},
      {"dilation 0 is outside", Op::Pool, pool(window(2, 0)), {x}},
      {"dilation 0 is outside", Op::Pool, pool(window(2, 1, 0)), {x}},
      {"dilation 9223372036854775807 is", Op::PoolIndices, of_pool(window(2, 1, kHuge)), {x}},
      {"padding -9223372036854775808 is", Op::Pool, pool(window(2, 1, 1, kLow)), {x}},
      {"padding 268435457 is out of range", Op::Pool, pool(window(2, 1, 1, 0, (1 << 28) + 1)), {x}},
      {"negative padding of a pooling", Op::Pool, pool(window(2, 1, 1, -1)), {x}},
      {"negative padding of a pooling", Op::PoolIndices, of_pool(window(2, 1, 1, 0, -1)), {x}},
      {"counted padding -1", Op::Pool, counted(-1), {x}},
      {"counted padding 268435457", Op::Pool, counted((1 << 28) + 1), {x}},
      {"over two dimensions", Op::Pool, pool(second(2, 1, 0, 0)), {f32({1, 4, 7})}},
      {"over two dimensions", Op::Pool, pool(second(1, 2, 0, 0)), {f32({1, 4, 7})}},
      {"over two dimensions", Op::Pool, pool(second(1, 1, 1, 0)), {f32({1, 4, 7})}},
      {"over two dimensions", Op::PoolIndices, of_pool(second(1, 1, 0, 1)), {f32({1, 4, 7})}},
      {"a window of 8 does not fit spatial dimension 0", Op::Pool, pool(window(8)), {x}},
      {"a window of 1 does not fit spatial dimension 0", Op::Pool, pool(window(1)), {f32({1, 4, 0, 8})}},
      {"window 0 of spatial dimension 0 sees nothing", Op::Pool, pool(window(2, 1, 1, 2)), {x}},
      {"window 8 of spatial dimension 1 sees nothing", Op::PoolIndices, of_pool(second(2, 1, 0, 2)), {x}},
      {"window 6 of spatial dimension 0 sees nothing", Op::Pool, pool(window(2, 1, 9, 8, 8)), {x}},
      {"the result [1, 1048576, 46, 46] has more", Op::Pool, pool(window(2, 1, 1, 1, 1)), {f32({1, 1 << 20, 45, 45})}},
      {"the input is uint8", Op::Conv, conv(window(3)), {u8({1, 4, 7, 8}), u8({6, 4, 3, 3})}},
      {"operand 1 is int32, supported: float32, float16", Op::Conv, conv(window(3)), {x, i32({6, 4, 3, 3})}},
      {"function 6 only works alone", Op::Conv, conv(window(3), 1, {ActKind::Exp}), {x, w}},
      {"padding 268435457", Op::Conv, conv(window(3, 1, 1, (1 << 28) + 1)), {x, w}},
      {"weights [6, 4, 3] do not fit", Op::Conv, conv(window(3)), {x, f32({6, 4, 3})}},
      {"group 0 do not fit", Op::Conv, conv(window(3), 0), {x, w}},
      {"group -2 do not fit", Op::Conv, conv(window(3), -2), {x, f32({6, 2, 3, 3})}},
      {"group 3 do not fit", Op::Conv, conv(window(3), 3), {x, w}},
      {"group 4 do not fit", Op::Conv, conv(window(3), 4), {x, f32({6, 1, 3, 3})}},
      {"group 2 do not fit", Op::Conv, conv(window(3), 2), {x, w}},
      {"group 9223372036854775807 do not fit", Op::Conv, conv(window(3), kHuge), {x, w}},
      {"kernel_shape differs", Op::Conv, conv(window(2)), {x, w}},
      {"bias [5] does not have 6 elements", Op::Conv, conv(window(3)), {x, w, f32({5})}},
      {"bias [6, 1] does not have", Op::Conv, conv(window(3)), {x, w, f32({6, 1})}},
      {"the bias is int32, supported: float32", Op::Conv, conv(window(3)), {x, w, i32({6})}},
      {"the bias is float16, supported: float32", Op::Conv, conv(window(3)), {x, w, {{Dtype::F16, {6}}}}},
      {"a window of 7 does not fit spatial dimension 0", Op::Conv, conv(window(3, 1, 3, -1)), {x, w}},
  };
  expect_all_refused(list);
}

/// Of 268 million windows, most of them in front of the data, those that repeat are not looked at.
TEST(Infer, LooksAtFewWindows) {
  const Window w{{4098, 1}, {1, 1}, {65535, 1}, {1 << 28, 0}, {1 << 28, 0}};
  TensorKind out;
  EXPECT_EQ(infer_all(Op::Pool, pool(w), {f32({1, 1, 65535, 1})}, out).message(), "");
  EXPECT_EQ(kind_text(out), "float32 [1, 1, 268439552, 1]");
  expect_refused(Op::Pool, pool(w), {f32({1, 1, 65534, 1})}, "window 4095 of spatial dimension 0 sees nothing");
}

TEST(Infer, RefusesArithmetic) {
  const TensorKind a = f32({2, 3}), b = f32({3, 4}), n = i32({2, 3});
  const Dtype f64 = Dtype::F64;
  const Refused list[] = {
      {"an operand is int8", Op::MatMul, MatMulAttrs{}, {{{Dtype::I8, {2, 3}}}, {{Dtype::I8, {3, 4}}}}},
      {"an operand is float64", Op::MatMul, MatMulAttrs{}, {{{f64, {2, 3}}}, {{f64, {3, 4}}}}},
      {"operand 1 is int32", Op::MatMul, MatMulAttrs{}, {a, i32({3, 4})}},
      {"function 13 only works alone", Op::MatMul, MatMulAttrs{{ActKind::Erf, 0, 0}}, {a, b}},
      {"inside an operator is int32", Op::MatMul, MatMulAttrs{{ActKind::Relu, 0, 0}}, {n, i32({3, 4})}},
      {"cannot be multiplied", Op::MatMul, MatMulAttrs{}, {f32({3}), b}},
      {"cannot be multiplied", Op::MatMul, MatMulAttrs{}, {a, f32({3})}},
      {"cannot be multiplied", Op::MatMul, MatMulAttrs{}, {a, f32({2, 4})}},
      {"[2, 2, 3] and [3, 3, 4] do not broadcast", Op::MatMul, MatMulAttrs{}, {f32({2, 2, 3}), f32({3, 3, 4})}},
      {"bias [3] does not have 4", Op::MatMul, MatMulAttrs{}, {a, b, f32({3})}},
      {"the bias is int32", Op::MatMul, MatMulAttrs{}, {a, b, i32({4})}},
      {"operands of different types", Op::MatMul, MatMulAttrs{}, {i32({2, 3}), i64({3, 4})}},
      {"the result [65536, 65536] has", Op::MatMul, MatMulAttrs{}, {f32({65536, 1}), f32({1, 65536})}},

      {"function 6 of two numbers is unknown", Op::Binary, of_two(6), {a, a}},
      {"function 127 of two numbers", Op::Binary, of_two(127), {a, a}},
      {"function 139 of two numbers", Op::Binary, of_two(139), {a, a}},
      {"function 255 of two numbers", Op::Binary, of_two(255), {a, a}},
      {"different types, float32 and int32", Op::Binary, of_two(BinaryKind::Add), {a, n}},
      {"different types, int64 and uint8", Op::Binary, of_two(BinaryKind::Less), {i64({1}), u8({1})}},
      {"an operand is bool", Op::Binary, of_two(BinaryKind::Add), {boolean({1}), boolean({1})}},
      {"an operand is bool", Op::Binary, of_two(BinaryKind::Max), {boolean({1}), boolean({1})}},
      {"an operand is float64", Op::Binary, of_two(BinaryKind::Mul), {{{f64, {1}}}, {{f64, {1}}}}},
      {"an operand is bfloat16", Op::Binary, of_two(BinaryKind::Mod), {{{Dtype::BF16, {1}}}, {{Dtype::BF16, {1}}}}},
      {"an operand is float64", Op::Binary, of_two(BinaryKind::Equal), {{{Dtype::F64, {1}}}, {{Dtype::F64, {1}}}}},
      {"an operand is float32, supported: bool, integers", Op::Binary, of_two(BinaryKind::And), {a, a}},
      {"an operand is float32, supported: bool, integers", Op::Binary, of_two(BinaryKind::Xor), {a, a}},
      {"an operand is bool, supported: integers",
       Op::Binary,
       of_two(BinaryKind::ShiftLeft),
       {boolean({1}), boolean({1})}},
      {"an operand is float32, supported: integers", Op::Binary, of_two(BinaryKind::ShiftRight), {a, a}},
      {"an operand is bool", Op::Binary, of_two(BinaryKind::Pow), {boolean({1}), a}},
      {"the exponent is bool", Op::Binary, of_two(BinaryKind::Pow), {a, boolean({1})}},
      {"the exponent is float64", Op::Binary, of_two(BinaryKind::Pow), {a, {{Dtype::F64, {1}}}}},
      {"inside an operator is int32", Op::Binary, of_two(BinaryKind::Add, {ActKind::Relu}), {n, n}},
      {"inside an operator is bool", Op::Binary, of_two(BinaryKind::Less, {ActKind::Relu}), {a, a}},
      {"function 24 only works alone", Op::Binary, of_two(BinaryKind::Add, {ActKind::Cos}), {a, a}},
      {"function 138 only works alone", Op::Binary, of_two(BinaryKind::Add, {ActKind::IsNan}), {a, a}},
      {"[2, 3] and [3, 4] do not broadcast", Op::Binary, of_two(BinaryKind::Add), {a, b}},
      {"[0] and [2] do not broadcast", Op::Binary, of_two(BinaryKind::Add), {f32({0}), f32({2})}},
      {"the result [65536, 65536] has", Op::Binary, of_two(BinaryKind::Add), {f32({65536, 1}), f32({65536})}},

      {"function 25 is unknown", Op::Unary, function(25), {a}},
      {"function 127 is unknown", Op::Unary, function(127), {a}},
      {"function 140 is unknown", Op::Unary, function(140), {a}},
      {"function 255 is unknown", Op::Unary, function(255), {a}},
      {"a parameter that function 1 does not have", Op::Unary, function(ActKind::Relu, 1), {a}},
      {"a parameter that function 1 does not have", Op::Unary, function(ActKind::Relu, kNan), {a}},
      {"a parameter that function 3 does not have", Op::Unary, function(ActKind::LeakyRelu, 1, 1), {a}},
      {"bounds 2.000000 and 1.000000 are not in order", Op::Unary, function(ActKind::Clip, 2, 1), {a}},
      {"are not in order", Op::Unary, function(ActKind::Clip, kNan, 1), {a}},
      {"are not in order", Op::Binary, of_two(BinaryKind::Add, {ActKind::Clip, 1, kNan}), {a, a}},
      {"GELU of kind 2", Op::Unary, function(ActKind::Gelu, 2), {a}},
      {"the input is int32, supported: float32", Op::Unary, function(ActKind::Clip, 1, 2), {n}},
      {"the input is int32", Op::Unary, function(ActKind::None), {n}},
      {"the input is int32", Op::Unary, function(ActKind::Atanh), {n}},
      {"the input is int32", Op::Unary, function(ActKind::IsNan), {n}},
      {"the input is float64", Op::Unary, function(ActKind::IsInf, 1, 1), {{{Dtype::F64, {1}}}}},
      {"the input is float64", Op::Unary, function(ActKind::Exp), {{{f64, {1}}}}},
      {"the input is float16", Op::Unary, function(ActKind::Tan), {{{Dtype::F16, {1}}}}},
      {"the input is uint8, supported: float32, signed", Op::Unary, function(ActKind::Neg), {u8({1})}},
      {"the input is uint64", Op::Unary, function(ActKind::Neg), {{{Dtype::U64, {1}}}}},
      {"the input is bool", Op::Unary, function(ActKind::Abs), {boolean({1})}},
      {"the input is bool", Op::Unary, function(ActKind::Relu), {boolean({1})}},
      {"the input is bool", Op::Unary, function(ActKind::Sign), {boolean({1})}},
      {"the input is float32, supported: bool, integers", Op::Unary, function(ActKind::Not), {a}},

      {"the input is int32", Op::Softmax, SoftmaxAttrs{0, false}, {n}},
      {"axis 2 is outside [2, 3]", Op::Softmax, SoftmaxAttrs{2, false}, {a}},
      {"axis -1 is outside [2, 3]", Op::Softmax, SoftmaxAttrs{-1, false}, {a}},
      {"axis 0 is outside []", Op::Softmax, SoftmaxAttrs{0, false}, {f32({})}},
  };
  expect_all_refused(list);
}

TEST(Infer, RefusesReductionsAndSelections) {
  const TensorKind a = f32({2, 3}), flags = boolean({2, 3});
  const TensorKind half{Dtype::F16, {2, 3}};
  const Refused list[] = {
      {"reduction 5 is unknown", Op::Reduce, over(static_cast<ReduceKind>(5), {0}), {a}},
      {"reduction 255 is unknown", Op::Reduce, over(static_cast<ReduceKind>(255), {0}), {a}},
      {"the input is bool", Op::Reduce, over(ReduceKind::Sum, {0}), {flags}},
      {"the input is bool", Op::Reduce, over(ReduceKind::Mean, {0}), {flags}},
      {"the input is float16", Op::Reduce, over(ReduceKind::Max, {0}), {half}},
      {"axis 2 is outside [2, 3]", Op::Reduce, over(ReduceKind::Sum, {0, 2}), {a}},
      {"axis -1 is outside [2, 3]", Op::Reduce, over(ReduceKind::Sum, {-1}), {a}},
      {"not in rising order", Op::Reduce, over(ReduceKind::Sum, {1, 0}), {a}},
      {"not in rising order", Op::Reduce, over(ReduceKind::Sum, {1, 1}), {a}},
      {"the mean of no integers", Op::Reduce, over(ReduceKind::Mean, {0}), {i32({0, 3})}},

      {"the input is float16", Op::ArgMax, ArgMaxAttrs{0, false, false}, {half}},
      {"axis 2 is outside", Op::ArgMax, ArgMaxAttrs{2, false, false}, {a}},
      {"axis -2147483648 is outside", Op::ArgMax, ArgMaxAttrs{-2147483647 - 1, false, false}, {a}},
      {"axis 1 of [2, 0] is empty", Op::ArgMax, ArgMaxAttrs{1, false, false}, {f32({2, 0})}},
      {"the input is float16", Op::TopK, TopKAttrs{0, 1, false}, {half}},
      {"axis 2 is outside", Op::TopK, TopKAttrs{2, 1, false}, {a}},
      {"the first 4 of 3 elements", Op::TopK, TopKAttrs{1, 4, false}, {a}},
      {"the first -1 of 3 elements", Op::TopK, TopKAttrs{1, -1, false}, {a}},
      {"the input is bool", Op::CumSum, CumSumAttrs{0, false, false}, {flags}},
      {"the input is float16", Op::CumSum, CumSumAttrs{0, false, false}, {half}},
      {"axis 2 is outside", Op::CumSum, CumSumAttrs{2, false, false}, {a}},
  };
  expect_all_refused(list);
}

TEST(Infer, RefusesMoves) {
  const TensorKind x = u8({2, 3});
  const Refused list[] = {
      {"perm does not have 2 entries", Op::Transpose, TransposeAttrs{{0}}, {x}},
      {"perm does not have 2 entries", Op::Transpose, TransposeAttrs{{0, 1, 2}}, {x}},
      {"not a permutation", Op::Transpose, TransposeAttrs{{0, 0}}, {x}},
      {"not a permutation", Op::Transpose, TransposeAttrs{{0, 2}}, {x}},
      {"not a permutation", Op::Transpose, TransposeAttrs{{-1, 0}}, {x}},
      {"cannot reshape [2, 3] to [5]", Op::Reshape, ShapeAttrs{{5}}, {x}},
      {"cannot reshape", Op::Reshape, ShapeAttrs{{-2, -3}}, {x}},
      {"cannot reshape", Op::Reshape, ShapeAttrs{{kHuge, kHuge}}, {x}},
      {"the result has 65 dimensions", Op::Reshape, ShapeAttrs{Shape(65, 1)}, {u8({})}},
      {"cannot reshape", Op::Reshape, ShapeAttrs{{0, 65536, 65536}}, {u8({0})}},

      {"axis 2 is outside", Op::Concat, ConcatAttrs{2}, {x, x}},
      {"axis -1 is outside", Op::Concat, ConcatAttrs{-1}, {x, x}},
      {"axis 0 is outside []", Op::Concat, ConcatAttrs{0}, {u8({}), u8({})}},
      {"different types, uint8 and bool", Op::Concat, ConcatAttrs{0}, {x, boolean({2, 3})}},
      {"[2, 3] and [2] differ in rank", Op::Concat, ConcatAttrs{0}, {x, u8({2})}},
      {"[2, 3] and [2, 4] differ outside axis 0", Op::Concat, ConcatAttrs{0}, {x, u8({2, 4})}},
      {"the result [2147483649] has more", Op::Concat, ConcatAttrs{0}, {u8({kMaxElements}), u8({kMaxElements})}},

      {"do not have 1 entries", Op::Slice, SliceAttrs{{0, 0}, {1}, {1}}, {u8({5})}},
      {"do not have 1 entries", Op::Slice, SliceAttrs{{0}, {}, {1}}, {u8({5})}},
      {"do not have 1 entries", Op::Slice, SliceAttrs{{0}, {1}, {1, 1}}, {u8({5})}},
      {"a slice has step 0", Op::Slice, slice(0, 0, 1), {u8({5})}},
      {"a slice of -1 elements", Op::Slice, slice(0, 1, -1), {u8({5})}},
      {"a slice of 9223372036854775807 elements", Op::Slice, slice(0, 1, kHuge), {u8({5})}},
      {"slice leaves [5]", Op::Slice, slice(-1, 1, 1), {u8({5})}},
      {"slice leaves [5]", Op::Slice, slice(5, 1, 1), {u8({5})}},
      {"slice leaves [5]", Op::Slice, slice(0, 1, 6), {u8({5})}},
      {"slice leaves [5]", Op::Slice, slice(2, -1, 4), {u8({5})}},
      {"slice leaves [5]", Op::Slice, slice(0, kHuge, 3), {u8({5})}},
      {"slice leaves [5]", Op::Slice, slice(4, kHuge, 2), {u8({5})}},
      {"slice leaves [5]", Op::Slice, slice(4, kLow, 3), {u8({5})}},

      {"padding does not have 2 entries", Op::Pad, PadAttrs{{1}, {1, 1}, 0}, {x}},
      {"padding does not have 2 entries", Op::Pad, PadAttrs{{1, 1}, {1, 1, 1}, 0}, {x}},
      {"padding -1 is out of range", Op::Pad, PadAttrs{{1, 1}, {1, -1}, 0}, {x}},
      {"padding 9223372036854775807", Op::Pad, PadAttrs{{kHuge, 1}, {kHuge, 1}, 0}, {x}},
      {"the result [2147483650, 3] has", Op::Pad, PadAttrs{{kMaxElements, 0}, {0, 0}, 0}, {x}},
      {"cannot expand [2, 3] to [2]", Op::Expand, ShapeAttrs{{2}}, {x}},
      {"cannot expand [2, 3] to [1, 3]", Op::Expand, ShapeAttrs{{1, 3}}, {x}},
      {"cannot expand [2, 3] to [3]", Op::Expand, ShapeAttrs{{3}}, {x}},
      {"the result [-4] has a negative dimension", Op::Expand, ShapeAttrs{{-4}}, {u8({})}},
      {"the result [65536, 65536] has", Op::Expand, ShapeAttrs{{65536, 65536}}, {u8({})}},
      {"the result has 65 dimensions", Op::Expand, ShapeAttrs{Shape(65, 1)}, {u8({})}},
      {"the result has an element type", Op::Cast, CastAttrs{Dtype::Undefined, false}, {x}},
      {"the result has an element type", Op::Cast, CastAttrs{Dtype::String, false}, {x}},
      {"the result has an element type", Op::Cast, CastAttrs{static_cast<Dtype>(200), false}, {x}},

      {"the condition is uint8, supported: bool", Op::Where, {}, {x, x, x}},
      {"different types, uint8 and float32", Op::Where, {}, {boolean({1}), x, f32({2, 3})}},
      {"[2, 3] and [2] do not broadcast", Op::Where, {}, {boolean({1}), x, u8({2})}},
      {"[2] and [2, 3] do not broadcast", Op::Where, {}, {boolean({2}), x, x}},
      {"the result [65536, 65536] has", Op::Where, {}, {boolean({65536, 1}), u8({65536}), u8({})}},
  };
  expect_all_refused(list);
}

TEST(Infer, RefusesMovesByIndices) {
  const TensorKind x = f32({2, 3}), k = i64({2, 2});
  const GatherNdAttrs none{0}, one{1};
  const Attrs add = scatter(0, Reduction::Add);
  const Refused list[] = {
      {"the operand of indices is float32, supported: int32, int64", Op::Gather, GatherAttrs{0}, {x, x}},
      {"the operand of indices is uint64", Op::Gather, GatherAttrs{0}, {x, {{Dtype::U64, {1}}}}},
      {"axis 2 is outside", Op::Gather, GatherAttrs{2}, {x, k}},
      {"axis -1 is outside", Op::Gather, GatherAttrs{-1}, {x, k}},
      {"axis 0 is outside []", Op::Gather, GatherAttrs{0}, {f32({}), k}},
      {"the result [65536, 65536] has", Op::Gather, GatherAttrs{0}, {f32({2, 65536}), i64({65536})}},
      {"the result has 66 dimensions", Op::Gather, GatherAttrs{0}, {f32(Shape(34, 1)), i64(Shape(33, 1))}},

      {"the operand of indices is uint8", Op::GatherElements, GatherAttrs{0}, {x, u8({2, 2})}},
      {"axis 2 is outside", Op::GatherElements, GatherAttrs{2}, {x, k}},
      {"indices [2] do not fit input [2, 3]", Op::GatherElements, GatherAttrs{0}, {x, i64({2})}},
      {"indices [2, 4] do not fit input [2, 3]", Op::GatherElements, GatherAttrs{0}, {x, i64({2, 4})}},

      {"the operand of indices is bool", Op::GatherNd, none, {x, boolean({2, 2})}},
      {"batch_dims is -1", Op::GatherNd, GatherNdAttrs{-1}, {x, k}},
      {"do not fit input [2, 3] behind 2 dimensions", Op::GatherNd, GatherNdAttrs{2}, {x, k}},
      {"do not fit input [2, 3] behind 1 dimensions", Op::GatherNd, one, {x, i64({1})}},
      {"indices [2, 0] do not fit", Op::GatherNd, none, {x, i64({2, 0})}},
      {"indices [2, 3] do not fit", Op::GatherNd, none, {x, i64({2, 3})}},
      {"indices [2, 2] do not fit", Op::GatherNd, one, {x, i64({2, 2})}},
      {"indices [3, 1] do not fit", Op::GatherNd, one, {x, i64({3, 1})}},
      {"indices [] do not fit", Op::GatherNd, none, {x, i64({})}},
      {"indices [2, 2] do not fit input []", Op::GatherNd, none, {f32({}), k}},

      {"the operand of indices is float32", Op::ScatterElements, scatter(0), {x, x, x}},
      {"axis 2 is outside", Op::ScatterElements, scatter(2), {x, k, f32({2, 2})}},
      {"indices [3, 2] do not fit", Op::ScatterElements, scatter(1), {x, i64({3, 2}), f32({3, 2})}},
      {"updates [2, 3], expected [2, 2]", Op::ScatterElements, scatter(1), {x, k, x}},
      {"different types, float32 and int64", Op::ScatterElements, scatter(1), {x, k, k}},
      {"reduction 5 is unknown", Op::ScatterElements, scatter(1, static_cast<Reduction>(5)), {x, k, f32({2, 2})}},
      {"the input of a reduction is bool", Op::ScatterElements, add, {boolean({2, 3}), k, boolean({2, 2})}},

      {"the operand of indices is float32", Op::ScatterNd, scatter(0), {x, x, x}},
      {"indices [2, 3] do not fit", Op::ScatterNd, scatter(0), {x, i64({2, 3}), x}},
      {"indices [1, 0] do not fit", Op::ScatterNd, scatter(0), {x, i64({1, 0}), f32({1, 2, 3})}},
      {"updates [2, 3], expected [2]", Op::ScatterNd, scatter(0), {x, k, x}},
      {"different types", Op::ScatterNd, scatter(0), {x, k, i64({2})}},
      {"reduction 255 is unknown", Op::ScatterNd, scatter(0, static_cast<Reduction>(255)), {x, k, f32({2})}},
      {"the input of a reduction is float16", Op::ScatterNd, add, {{{Dtype::F16, {2, 3}}}, k, {{Dtype::F16, {2}}}}},
  };
  expect_all_refused(list);
}

}  // namespace
}  // namespace npu::cpu
