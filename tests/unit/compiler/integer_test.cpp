// SPDX-License-Identifier: MIT
// Networks of integers on the chip, against the operators on the host, bit for bit: random shapes, zero points and
// scales, and local memory in which they are cut into tiles of all kinds.
#include "tests/unit/compiler/graph_net.h"
#include "tests/unit/compiler/share.h"

namespace npu::test {
namespace {

using graph::Activation;
using graph::ActKind;
using graph::Dtype;
using graph::Graph;
using graph::Op;
using graph::Quant;
using graph::Shape;
using graph::ValueId;

Activation some_activation(Random &r) {
  switch (r.number(0, 3)) {
    case 0:
      return {ActKind::Relu};
    case 1:
      return {ActKind::Clip, -20, 35.5f};
    case 2:
      return {ActKind::LeakyRelu, 0.1f};
    default:
      return {};
  }
}

constexpr int64_t kSizes[] = {64 << 10, 128 << 10, 8 << 20};

graph::ProductQuant product_quant(Random &r, Dtype x, Dtype w) {
  graph::ProductQuant q;
  q.on = true;
  q.x_zero = r.zero(x);
  q.w_zero = r.chance() ? 0 : r.zero(w);
  constexpr Dtype kResults[] = {Dtype::I8, Dtype::U8, Dtype::F32, Dtype::I32};
  q.out = kResults[r.number(0, 3)];
  if (q.out == Dtype::I8 || q.out == Dtype::U8) q.out_zero = r.zero(q.out);
  return q;
}

TEST(Integers, Convolutions) {
  for (unsigned seed = 0; seed < share_of(120); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random r(seed);
    Net net(r);
    const Dtype x = r.byte_type(), w = r.byte_type();
    graph::ConvAttrs a;
    const int64_t kind = r.number(0, 3);
    int64_t ic = r.number(1, 70), oc = r.number(1, 70);
    if (kind == 0) a.groups = oc = ic;  // depthwise
    if (kind == 1) ic *= 2, oc *= 2, a.groups = 2;
    if (seed % 10 == 9) ic = 512, oc = 600, a.groups = 1;
    const int64_t size = r.number(3, 24), n = r.number(1, 2);
    for (size_t d = 0; d < 2; ++d) {
      a.window.kernel[d] = kind == 3 ? 1 : r.number(1, 3);
      a.window.stride[d] = r.number(1, 2);
      a.window.begin[d] = r.number(0, a.window.kernel[d] - 1);
      a.window.end[d] = r.number(0, a.window.kernel[d] - 1);
    }
    a.quant = product_quant(r, x, w);
    if (a.quant.out != Dtype::I32) a.act = some_activation(r);
    const float terms = static_cast<float>(ic / a.groups * a.window.kernel[0] * a.window.kernel[1]);
    std::vector<ValueId> in{net.input(x, {n, ic, size, size}),
                            net.constant(w, {oc, ic / a.groups, a.window.kernel[0], a.window.kernel[1]}),
                            r.chance() ? net.constant(Dtype::I32, {oc}) : graph::kNoValue};
    if (a.quant.out != Dtype::I32) in.push_back(net.multiplier(r.chance() ? oc : 1, 0.01f / std::sqrt(terms)));
    ASSERT_NO_FATAL_FAILURE(net.expect_same(net.add(Op::Conv, in, a), kSizes[seed % 3]));
  }
}

TEST(Integers, MatrixProducts) {
  for (unsigned seed = 0; seed < share_of(120); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random r(seed);
    Net net(r);
    const Dtype x = r.byte_type(), w = r.byte_type();
    const bool made = r.chance();
    int64_t m = r.number(1, 40), k = r.number(1, 300), n = r.number(1, 90);
    const int64_t batch = r.number(1, 3);
    if (seed % 10 == 9) k = 30000, n = 64, m = 3;
    graph::MatMulAttrs a;
    a.quant = product_quant(r, x, w);
    if (a.quant.out != Dtype::I32) a.act = some_activation(r);
    std::vector<ValueId> in{net.input(x, {batch, m, k})};
    in.push_back(made ? net.input(w, {batch, k, n}) : net.constant(w, {k, n}));
    in.push_back(r.chance() ? net.constant(Dtype::I32, {n}) : graph::kNoValue);
    if (a.quant.out != Dtype::I32)
      in.push_back(net.multiplier(r.chance() ? n : 1, 0.01f / std::sqrt(static_cast<float>(k))));
    ASSERT_NO_FATAL_FAILURE(net.expect_same(net.add(Op::MatMul, in, a), kSizes[seed % 3]));
  }
}

/// Sums, products and so on, of operands with scales of their own, also repeated, transposed or one number.
TEST(Integers, ElementWise) {
  constexpr Dtype kTypes[] = {Dtype::I8, Dtype::U8, Dtype::F32};
  for (unsigned seed = 0; seed < share_of(200); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random r(seed);
    Net net(r);
    const Dtype ta = kTypes[r.number(0, 2)], tb = kTypes[r.number(0, 2)];
    graph::BinaryAttrs a;
    a.kind = static_cast<graph::BinaryKind>(r.number(0, 5));
    a.a = r.quant(ta);
    a.b = r.quant(tb);
    a.out_type = ta == Dtype::F32 && tb == Dtype::F32 ? kTypes[r.number(0, 1)] : kTypes[r.number(0, 2)];
    a.out = r.quant(a.out_type);
    if (r.chance()) a.act = {ActKind::Relu};
    const Shape shape{r.number(1, 3), r.number(1, 40), r.number(1, 40), r.number(1, 9)};
    ValueId x = net.input(ta, shape);
    if (r.chance())
      x = net.add(Op::Transpose, {net.input(ta, {shape[0], shape[3], shape[1], shape[2]})},
                  graph::TransposeAttrs{{0, 2, 3, 1}});
    Shape other = shape;
    const int64_t form = r.number(0, 3);
    if (form == 1) other = {shape[1], 1, shape[3]};
    if (form == 2) other = {1};
    const ValueId y = form == 3 ? net.input(tb, shape) : net.constant(tb, other);
    ASSERT_NO_FATAL_FAILURE(net.expect_same(net.add(Op::Binary, {x, y}, a), kSizes[seed % 3]));
  }
}

TEST(Integers, Poolings) {
  for (unsigned seed = 0; seed < share_of(80); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random r(seed);
    Net net(r);
    const Dtype x = r.byte_type();
    graph::PoolAttrs a;
    a.max = r.chance();
    if (!a.max) {
      a.in = r.quant(x);
      a.out_type = r.byte_type();
      a.out = r.quant(a.out_type);
    }
    for (size_t d = 0; d < 2; ++d) {
      a.window.kernel[d] = r.number(1, 4);
      a.window.stride[d] = r.number(1, 3);
      a.window.begin[d] = r.number(0, a.window.kernel[d] - 1);
      a.window.end[d] = r.number(0, a.window.kernel[d] - 1);
    }
    a.count_pad = !a.max && r.chance();
    if (a.count_pad) a.counted_end = a.window.end;
    const ValueId in = net.input(x, {r.number(1, 2), r.number(1, 90), r.number(5, 40), r.number(5, 40)});
    ASSERT_NO_FATAL_FAILURE(net.expect_same(net.add(Op::Pool, {in}, a), kSizes[seed % 3]));
  }
}

TEST(Integers, SoftmaxRequantAndLookup) {
  constexpr Dtype kTypes[] = {Dtype::I8, Dtype::U8, Dtype::F32};
  for (unsigned seed = 0; seed < share_of(120); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random r(seed);
    Net net(r);
    const Shape shape{r.number(1, 5), r.number(1, 200), r.number(1, 200)};
    ValueId v;
    if (seed % 3 == 0) {
      graph::SoftmaxAttrs a;
      const Dtype from = kTypes[r.number(0, 1)];
      a.axis = static_cast<int>(r.number(0, 2));
      a.in = r.quant(from);
      a.out_type = kTypes[r.number(0, 1)];
      a.out = {1.0f / 256, r.zero(a.out_type)};
      v = net.add(Op::Softmax, {net.input(from, shape)}, a);
    } else if (seed % 3 == 1) {
      graph::RequantAttrs a;
      const Dtype from = kTypes[r.number(0, 2)];
      a.to = kTypes[r.number(0, from == Dtype::F32 ? 1 : 2)];
      a.in = r.quant(from);
      a.out = r.quant(a.to);
      v = net.input(from, shape);
      if (r.chance()) v = net.add(Op::Transpose, {v}, graph::TransposeAttrs{{1, 2, 0}});
      v = net.add(Op::Requant, {v}, a);
    } else {
      constexpr Dtype kTables[] = {Dtype::I8, Dtype::U8, Dtype::F32};
      v = net.input(r.byte_type(), shape);
      if (r.chance()) v = net.add(Op::Transpose, {v}, graph::TransposeAttrs{{2, 0, 1}});
      v = net.add(Op::Lookup, {v, net.constant(kTables[r.number(0, 2)], {256})}, {});
    }
    ASSERT_NO_FATAL_FAILURE(net.expect_same(v, kSizes[seed % 2]));
  }
}

/// A table and a Requant of what is repeated: the copy has all elements, the tensor fewer.
TEST(Integers, FunctionsOfRepeatedElements) {
  for (const int64_t repeats : {2, 3, 64})
    for (const bool table : {false, true}) {
      SCOPED_TRACE(std::to_string(repeats) + (table ? " Lookup" : " Requant"));
      Random r(7);
      Net net(r);
      const graph::RequantAttrs attrs{{0.5f, 3}, {0.25f, 9}, {}, Dtype::U8};
      // The operand is computed, and so in local memory.
      const ValueId x = net.add(Op::Requant, {net.input(Dtype::U8, {6, 6, 1})}, attrs);
      const ValueId wide = net.add(Op::Expand, {x}, graph::ShapeAttrs{{6, 6, repeats}});
      const ValueId y =
          table ? net.add(Op::Lookup, {wide, net.constant(Dtype::U8, {256})}, {}) : net.add(Op::Requant, {wide}, attrs);
      ASSERT_NO_FATAL_FAILURE(net.expect_same(y, kSizes[0]));
    }
}

/// What only moves elements takes 8 bits; a Concat is put together where its parts are made.
TEST(Integers, BlocksOfANetwork) {
  for (unsigned seed = 0; seed < share_of(24); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random r(seed);
    Net net(r);
    const int64_t c = r.number(4, 40), size = r.number(12, 50);
    const auto conv = [&](ValueId x, int64_t oc, int64_t kernel) {
      graph::ConvAttrs a;
      for (size_t d = 0; d < 2; ++d) a.window.kernel[d] = kernel, a.window.begin[d] = a.window.end[d] = kernel / 2;
      a.quant = {true, 0, 0, 0, Dtype::U8};
      a.act = {ActKind::Relu};
      const int64_t ic = net[x].shape[1];
      return net.add(Op::Conv,
                     {x, net.constant(Dtype::I8, {oc, ic, kernel, kernel}), net.constant(Dtype::I32, {oc}),
                      net.multiplier(oc, 0.02f / std::sqrt(static_cast<float>(ic * kernel * kernel)))},
                     a);
    };
    ValueId x = net.input(Dtype::F32, {r.number(1, 3), 3, size, size});
    graph::RequantAttrs enter;
    enter.to = Dtype::U8;
    enter.out = {0.03f, 0};
    x = net.add(Op::Requant, {x}, enter);
    x = conv(x, c, 3);
    graph::BinaryAttrs sum;
    sum.a = {0.02f, 0}, sum.b = {0.03f, 0}, sum.out = {0.04f, 3}, sum.out_type = Dtype::U8;
    const ValueId y = net.add(Op::Binary, {conv(conv(x, c, 1), c, 3), x}, sum);
    const ValueId joined = net.add(Op::Concat, {y, conv(y, 5, 1)}, graph::ConcatAttrs{1});
    graph::PoolAttrs pool;
    pool.window.kernel = pool.window.stride = {2, 2};
    x = net.add(Op::Pool, {joined}, pool);
    graph::PadAttrs pad{{0, 0, 1, 0}, {0, 2, 0, 1}, 7};
    x = conv(net.add(Op::Pad, {x}, pad), 10, 3);
    graph::PoolAttrs average;
    average.max = false;
    average.window.kernel = {net[x].shape[2], net[x].shape[3]};
    average.in = {0.1f, 0}, average.out = {0.05f, 0}, average.out_type = Dtype::U8;
    x = net.add(Op::Pool, {x}, average);
    graph::RequantAttrs leave;
    leave.in = {0.05f, 0};
    x = net.add(Op::Requant, {x}, leave);
    const auto turns = seed % 2 ? compiler::TakeTurns::Always : compiler::TakeTurns::Faster;
    ASSERT_NO_FATAL_FAILURE(net.expect_same(x, kSizes[seed % 3], turns));
  }
}

}  // namespace
}  // namespace npu::test
