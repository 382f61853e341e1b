// SPDX-License-Identifier: MIT
// ELTWISE: what the chip accepts, what it costs, how it is cut, and its results on every back end.
#include <algorithm>
#include <sstream>

#include "tests/unit/commands/arithmetic.h"
#include "tests/unit/commands/command.h"

namespace npu::test {
namespace {

npu_cmd_eltwise eltwise() {
  return with<npu_cmd_eltwise>([](npu_cmd_eltwise &c) {
    c.out_addr = 4096;
    c.b_addr = 2048;
    std::fill_n(c.dims, 5, 1u);
    c.dims[4] = 8;
    c.a_stride[4] = c.b_stride[4] = 1;
  });
}

class EltwiseChecks : public Checks {};

TEST_F(EltwiseChecks, Encoding) { encoding({kTiu}, eltwise(), NPU_ELTWISE_CMP_LE, 1, 0); }

TEST_F(EltwiseChecks, Fields) {
  BAD(eltwise(), 28, c.a_dtype = NPU_DTYPE_S32);
  for (const uint8_t act : {NPU_ACT_EXP, NPU_ACT_GELU, NPU_ACT_COS}) BAD(eltwise(), 31, c.act = act);
  for (unsigned i = 0; i < 5; ++i) {
    BAD(eltwise(), 32 + 4 * i, c.dims[i] = 0);
    BAD(eltwise(), 72 + 4 * i,
        (c.flags = NPU_ELTWISEF_B_IMM, c.b_addr = 0, std::fill_n(c.b_stride, 5, 0u), c.b_stride[i] = 1));
  }
  BAD(eltwise(), 92, c.imm = 1);
  BAD(eltwise(), 20, c.flags = NPU_ELTWISEF_B_IMM);
  npu_cmd_eltwise c = eltwise();
  c.flags = NPU_ELTWISEF_B_IMM;
  c.b_addr = 0;
  c.b_stride[4] = 0;
  c.imm = 3;
  ok(kTiu, c);
  activation_parameters(eltwise(), [](npu_cmd_eltwise &x, uint8_t act) { x.act = act; });
}

TEST_F(EltwiseChecks, Types) {
  for (const uint8_t type : kNumbers) {
    try_numbers(*this, eltwise(), type, 96, 116, [](npu_cmd_eltwise &c, const Kind &k) {
      c.a_dtype = k.dtype;
      c.a_scale = k.scale;
      c.a_zp = k.zero;
    });
    try_numbers(*this, eltwise(), type, 100, 120, [](npu_cmd_eltwise &c, const Kind &k) {
      c.b_dtype = k.dtype;
      c.b_scale = k.scale;
      c.b_zp = k.zero;
    });
    try_numbers(*this, eltwise(), type, 112, 124, [](npu_cmd_eltwise &c, const Kind &k) {
      c.out_dtype = k.dtype;
      c.out_scale = k.scale;
      c.out_zp = k.zero;
    });
  }
  for (const uint8_t t : {NPU_DTYPE_S32, NPU_DTYPE_U32, NPU_DTYPE_S4, NPU_DTYPE_U4, NPU_DTYPE_S64}) {
    BAD(eltwise(), 28, c.a_dtype = t);
    BAD(eltwise(), 29, c.b_dtype = t);
    BAD(eltwise(), 30, c.out_dtype = t);
  }
  BAD(eltwise(), 12, c.out_pitch = 7);
  const auto constant = [](npu_cmd_eltwise &c) {
    c.flags = NPU_ELTWISEF_B_IMM;
    c.b_addr = c.b_stride[4] = 0;
    c.a_dtype = NPU_DTYPE_U8;
    c.a_scale = 1;
  };
  npu_cmd_eltwise c = eltwise();
  constant(c);
  ok(kTiu, c);
  BAD(eltwise(), 29, (constant(c), c.b_dtype = NPU_DTYPE_U8, c.b_scale = 1));
  BAD(eltwise(), 100, (constant(c), c.b_scale = 1));
  // All activations go with all types: they work on what the result stands for.
  for (uint8_t act = NPU_ACT_NONE; act <= NPU_ACT_TANH; ++act) {
    c.act = act;
    c.out_dtype = NPU_DTYPE_S16;
    c.out_scale = 0.5f;
    ok(kTiu, c);
  }
}

TEST_F(EltwiseChecks, Comparisons) {
  for (const uint8_t op : {NPU_ELTWISE_CMP_EQ, NPU_ELTWISE_CMP_LT, NPU_ELTWISE_CMP_LE}) {
    const auto compare = [=](npu_cmd_eltwise &c) {
      c.subop = op;
      c.out_dtype = NPU_DTYPE_U8;
      c.out_scale = 1;
    };
    npu_cmd_eltwise c = eltwise();
    compare(c);
    ok(kTiu, c);
    local_operand(
        c, 8, true, [](auto &x, uint32_t v) { x.out_addr = v; }, 1);
    BAD(eltwise(), 30, c.subop = op);
    BAD(eltwise(), 30, (compare(c), c.out_dtype = NPU_DTYPE_S8));
    BAD(eltwise(), 31, (compare(c), c.act = NPU_ACT_RELU));
    BAD(eltwise(), 112, (compare(c), c.out_scale = 2));
    BAD(eltwise(), 124, (compare(c), c.out_zp = 1));
  }
}

TEST_F(EltwiseChecks, OperandsOfOtherTypes) {
  npu_cmd_eltwise e = eltwise();
  e.dims[3] = 3;
  e.a_stride[3] = 10;
  e.a_dtype = NPU_DTYPE_U16;
  e.b_dtype = NPU_DTYPE_S8;
  e.out_dtype = NPU_DTYPE_F16;
  e.a_scale = e.b_scale = 1;
  e.out_pitch = 13;
  local_operand(
      e, (20 + 8) * 2, false, [](auto &x, uint32_t v) { x.a_addr = v; }, 2);
  local_operand(
      e, 8, false, [](auto &x, uint32_t v) { x.b_addr = v; }, 1);
  local_operand(
      e, (26 + 8) * 2, true, [](auto &x, uint32_t v) { x.out_addr = v; }, 2);
}

TEST_F(EltwiseChecks, Operands) {
  npu_cmd_eltwise e = eltwise();
  e.dims[3] = 3;
  e.a_stride[3] = 10;
  e.b_stride[4] = 0;
  local_operand(e, (20 + 8) * 4, false, [](auto &x, uint32_t v) { x.a_addr = v; });
  local_operand(e, 4, false, [](auto &x, uint32_t v) { x.b_addr = v; });
  local_operand(e, 24 * 4, true, [](auto &x, uint32_t v) { x.out_addr = v; });
  e = eltwise();
  std::fill_n(e.dims, 5, 0xffffffffu);
  std::fill_n(e.a_stride, 5, 0xffffffffu);
  access(kTiu, e, NPU_STATUS_LMEM_BOUNDS, kLocal, 0, 0xffffffff, false);
}

TEST_F(EltwiseChecks, RunsOnTheChip) {
  const npu_cmd_eltwise c = with<npu_cmd_eltwise>([](npu_cmd_eltwise &x) {  // 4 x 16, minus its first row
    x.subop = NPU_ELTWISE_SUB;
    x.a_addr = 512;
    x.b_addr = 512;
    x.out_addr = 2048;
    std::fill_n(x.dims, 5, 1u);
    x.dims[3] = 4;
    x.dims[4] = 16;
    x.a_stride[3] = 16;
    x.a_stride[4] = x.b_stride[4] = 1;
  });
  Values in(64);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i) - 20;
  const Values out = on_chip(c, in, c.a_addr, c.out_addr, 64);
  for (unsigned i = 0; i < 64; ++i) EXPECT_EQ(out[i], in[i] - in[i % 16]);
}

TEST(EltwiseCost, IsAsComputedByHand) {
  npu_cmd_eltwise c = with<npu_cmd_eltwise>([](npu_cmd_eltwise &e) {
    std::fill_n(e.dims, 5, 1u);
    e.dims[3] = 10;
    e.dims[4] = 26;
    e.a_stride[3] = 26;
    e.a_stride[4] = e.b_stride[4] = 1;  // b is one row for all
  });
  // 260 results: 3 rounds of lanes. Local: 260 + 260 + 26 elements, 2184 bytes: 4.3.
  expect_cost(c, 32 + 5, 0, 0, "local memory decides");
  c.subop = NPU_ELTWISE_DIV;
  expect_cost(c, 32 + 4 * 3, 0, 0, "a division takes four times as long");
  c.act = NPU_ACT_TANH;
  expect_cost(c, 32 + 4 * 3 + 4 * 3, 0, 0, "a fused tanh");
  c.subop = NPU_ELTWISE_MUL;
  c.act = NPU_ACT_NONE;
  c.dims[3] = 20;  // 520 results and as many of a: 4160 bytes, 8.1; with 26 of b 8.3
  expect_cost(c, 32 + 9, 0, 0, "b is read once");
  c.flags = NPU_ELTWISEF_B_IMM;
  c.b_stride[4] = 0;
  c.dims[3] = 19;
  c.dims[4] = 27;  // 513 results: 4104 bytes, 8.02 and 5 rounds of lanes
  expect_cost(c, 32 + 9, 0, 0, "a constant is no operand");
}

TEST(EltwiseCost, OfSmallerElements) {
  npu_cmd_eltwise c = with<npu_cmd_eltwise>([](npu_cmd_eltwise &e) {
    std::fill_n(e.dims, 5, 1u);
    e.dims[4] = 2000;
    e.a_stride[4] = e.b_stride[4] = 1;
    e.a_dtype = e.b_dtype = e.out_dtype = NPU_DTYPE_S8;
    e.subop = NPU_ELTWISE_POW;
  });
  expect_cost(c, 32 + 4 * 4, 0, 0, "512 elements of 8 bits at a time, four times each");
  c.out_dtype = NPU_DTYPE_F16;
  expect_cost(c, 32 + 4 * 8, 0, 0, "the widest type decides");
  c.b_dtype = NPU_DTYPE_F32;
  expect_cost(c, 32 + 4 * 16, 0, 0, "of all three");
  c.flags = NPU_ELTWISEF_B_IMM;
  c.b_stride[4] = 0;
  expect_cost(c, 32 + 4 * 8, 0, 0, "a constant has no width");
  c.act = NPU_ACT_SIGMOID;
  expect_cost(c, 32 + 4 * 8 + 4 * 16, 0, 0, "a function takes 32 bits");
  c.act = NPU_ACT_NONE;
  c.out_dtype = NPU_DTYPE_U8;
  for (const uint8_t op : {NPU_ELTWISE_CMP_EQ, NPU_ELTWISE_CMP_LT, NPU_ELTWISE_CMP_LE}) {
    c.subop = op;
    c.out_pitch = 5000;
    expect_cost(c, 32 + 8, 0, 0, "4000 bytes");
  }
}

// ---- random commands ----

struct EltwiseCase {
  npu_cmd_eltwise c = hw::make<npu_cmd_eltwise>();
  Values a, b;
  size_t outputs() const {
    size_t n = 1;
    for (const uint32_t d : c.dims) n *= d;
    return n;
  }
  bool immediate() const { return c.flags & NPU_ELTWISEF_B_IMM; }
};

EltwiseCase random_eltwise(Random &r) {
  EltwiseCase t;
  npu_cmd_eltwise &c = t.c;
  c.subop = static_cast<uint8_t>(r.range(NPU_ELTWISE_ADD, NPU_ELTWISE_MIN));
  const int rank = r.range(1, 5);
  for (int d = 0; d < 5; ++d) c.dims[d] = d < 5 - rank ? 1 : (d == 4 ? r.range(1, 40) : r.range(1, 6));
  const auto operand = [&](uint32_t(&stride)[5]) {
    // Dense, with gaps, or broadcast along some dimensions.
    uint32_t step = 1;
    for (int d = 4; d >= 0; --d) {
      stride[d] = r.chance(4) ? 0 : step;
      if (stride[d]) step *= c.dims[d];
      if (r.chance(5)) step += r.range(1, 3);
    }
    size_t last = 0;
    for (int d = 0; d < 5; ++d) last += size_t{c.dims[d] - 1} * stride[d];
    return r.values(last + 1, 3);
  };
  t.a = operand(c.a_stride);
  if (r.chance(4)) {
    c.flags = NPU_ELTWISEF_B_IMM;
    c.imm = r.real(-2, 2);
  } else {
    t.b = operand(c.b_stride);
  }
  random_activation(r, c.act, c.act_a, c.act_b);
  return t;
}

Values run(model::Backend &backend, const EltwiseCase &t) {
  Values out(t.outputs(), kNaN);
  backend.run(t.c, t.a.data(), t.immediate() ? nullptr : t.b.data(), out.data());
  return out;
}

std::string describe(const npu_cmd_eltwise &c) {
  std::ostringstream s;
  s << "eltwise " << int{c.subop} << " flags=" << c.flags << " act=" << int{c.act} << " dims/a/b=";
  for (int d = 0; d < 5; ++d) s << c.dims[d] << '/' << c.a_stride[d] << '/' << c.b_stride[d] << ' ';
  return s.str();
}

Expected expect(const EltwiseCase &t) {
  const npu_cmd_eltwise &c = t.c;
  Expected e;
  for (size_t index = 0; index < t.outputs(); ++index) {
    size_t rest = index, at_a = 0, at_b = 0;
    for (int d = 4; d >= 0; --d) {
      at_a += rest % c.dims[d] * c.a_stride[d];
      at_b += rest % c.dims[d] * c.b_stride[d];
      rest /= c.dims[d];
    }
    const double a = t.a[at_a], b = c.flags & NPU_ELTWISEF_B_IMM ? c.imm : t.b[at_b];
    double value = 0;
    switch (c.subop) {
      case NPU_ELTWISE_ADD:
        value = a + b;
        break;
      case NPU_ELTWISE_SUB:
        value = a - b;
        break;
      case NPU_ELTWISE_MUL:
        value = a * b;
        break;
      case NPU_ELTWISE_DIV:
        value = a / b;
        break;
      case NPU_ELTWISE_MAX:
        value = std::fmax(a, b);
        break;
      case NPU_ELTWISE_MIN:
        value = std::fmin(a, b);
        break;
    }
    // Each operation is rounded once, to nearest: the double result rounded to float is the only right one.
    value = static_cast<float>(value);
    double error = 0;
    apply(c.act, c.act_a, c.act_b, value, error);
    e.value.push_back(value);
    e.error.push_back(error);
  }
  return e;
}

// ---- all types ----

struct TypedEltwise {
  npu_cmd_eltwise c;
  Bytes a, b;
  bool immediate() const { return c.flags & NPU_ELTWISEF_B_IMM; }
  size_t rows() const { return size_t{c.dims[0]} * c.dims[1] * c.dims[2] * c.dims[3]; }
  size_t pitch() const { return c.out_pitch ? c.out_pitch : c.dims[4]; }
  Bytes place() const { return Bytes(((rows() - 1) * pitch() + c.dims[4]) * size_of(c.out_dtype), 0x5a); }
};

/// Of small numbers, so that POW and comparisons have something to say. `functions`: also those that are not exact.
TypedEltwise random_typed_eltwise(Random &r, bool functions) {
  EltwiseCase shape = random_eltwise(r);
  TypedEltwise t{shape.c, {}, {}};
  npu_cmd_eltwise &c = t.c;
  const Kind a = random_kind(r, kNumbers), b = random_kind(r, kNumbers), out = random_kind(r, kNumbers);
  c.subop = static_cast<uint8_t>(r.range(NPU_ELTWISE_ADD, NPU_ELTWISE_CMP_LE));
  if (c.subop == NPU_ELTWISE_POW && !functions) c.subop = NPU_ELTWISE_DIV;
  if (c.act > NPU_ACT_LEAKY_RELU && !functions) c.act = NPU_ACT_NONE;
  c.a_dtype = a.dtype, c.a_scale = a.scale, c.a_zp = a.zero;
  c.out_dtype = out.dtype, c.out_scale = out.scale, c.out_zp = out.zero;
  t.a = random_elements(r, a.dtype, shape.a.size(), r.chance(2));
  if (t.immediate()) {
    if (r.chance(2)) c.imm = static_cast<float>(r.range(-4, 4));
  } else {
    c.b_dtype = b.dtype, c.b_scale = b.scale, c.b_zp = b.zero;
    t.b = random_elements(r, b.dtype, shape.b.size(), r.chance(2));
  }
  if (c.subop >= NPU_ELTWISE_CMP_EQ) {
    c.out_dtype = NPU_DTYPE_U8, c.out_scale = 1, c.out_zp = 0;
    c.act = NPU_ACT_NONE;
    c.act_a = c.act_b = 0;
  }
  if (r.chance(2)) c.out_pitch = c.dims[4] + r.range(0, 5);
  return t;
}

Bytes run(model::Backend &backend, const TypedEltwise &t) {
  Bytes out = t.place();
  backend.run(t.c, t.a.data(), t.immediate() ? nullptr : t.b.data(), out.data());
  return out;
}

float combined(uint8_t op, float a, float b) {
  switch (op) {
    case NPU_ELTWISE_ADD:
      return plus(a, b);
    case NPU_ELTWISE_SUB:
      return plus(a, -b);
    case NPU_ELTWISE_MUL:
      return times(a, b);
    case NPU_ELTWISE_DIV:
      return static_cast<float>(double{a} / b);
    case NPU_ELTWISE_MAX:
      return a > b || (a == b && !std::signbit(a)) ? a : b;
    case NPU_ELTWISE_MIN:
      return a < b || (a == b && std::signbit(a)) ? a : b;
    case NPU_ELTWISE_POW:
      return static_cast<float>(std::pow(double{a}, double{b}));
    case NPU_ELTWISE_CMP_EQ:
      return a == b;
    case NPU_ELTWISE_CMP_LT:
      return a < b;
    default:
      return a <= b;
  }
}

Bytes expect(const TypedEltwise &t) {
  const npu_cmd_eltwise &c = t.c;
  Bytes out = t.place();
  for (size_t index = 0; index < t.rows() * c.dims[4]; ++index) {
    size_t rest = index, at_a = 0, at_b = 0;
    for (int d = 4; d >= 0; --d) {
      at_a += rest % c.dims[d] * c.a_stride[d];
      at_b += rest % c.dims[d] * c.b_stride[d];
      rest /= c.dims[d];
    }
    const float a = load({c.a_dtype, c.a_scale, c.a_zp}, t.a.data(), at_a);
    const float b = t.immediate() ? c.imm : load({c.b_dtype, c.b_scale, c.b_zp}, t.b.data(), at_b);
    const size_t at = index / c.dims[4] * t.pitch() + index % c.dims[4];
    if (c.subop >= NPU_ELTWISE_CMP_EQ)
      out[at] = combined(c.subop, a, b) != 0;
    else
      store({c.out_dtype, c.out_scale, c.out_zp}, activated(c.act, c.act_a, c.act_b, combined(c.subop, a, b)),
            out.data(), at);
  }
  return out;
}

std::string describe(const TypedEltwise &t) {
  std::ostringstream s;
  const npu_cmd_eltwise &c = t.c;
  s << describe(c) << " types=" << int{c.a_dtype} << ',' << int{c.b_dtype} << ',' << int{c.out_dtype}
    << " scales=" << c.a_scale << ',' << c.b_scale << ',' << c.out_scale << " zeros=" << c.a_zp << ',' << c.b_zp << ','
    << c.out_zp << " pitch=" << c.out_pitch << " imm=" << c.imm << " act=" << c.act_a << ',' << c.act_b;
  return s.str();
}

// ---- slices ----

TEST(EltwiseSlices, OfAllTypesGiveTheSameBits) {
  Random r(5);
  model::Reference reference;
  for (unsigned i = 0; i < 300 && !testing::Test::HasFatalFailure(); ++i) {
    const TypedEltwise t = random_typed_eltwise(r, true);
    const Bytes whole = run(reference, t);
    for (const model::SliceLimits &limits : kLimits) {
      Bytes cut = t.place();
      for_slices(t.c, limits, [&](const model::Pointwise<npu_cmd_eltwise> &s) {
        reference.run(s.c, t.a.data() + s.a * size_of(t.c.a_dtype),
                      t.immediate() ? nullptr : t.b.data() + s.b * size_of(t.c.b_dtype),
                      cut.data() + s.out * size_of(t.c.out_dtype));
        return true;
      });
      expect_elements(t.c.out_dtype, whole, cut, describe(t) + " limit " + std::to_string(limits.operations));
    }
  }
}

TEST(EltwiseSlices, GiveTheSameBits) {
  Random r(4);
  model::Reference reference;
  for (unsigned i = 0; i < 100; ++i) {
    const EltwiseCase t = random_eltwise(r);
    const Values whole = run(reference, t);
    for (const model::SliceLimits &limits : kLimits) {
      SCOPED_TRACE(describe(t.c) + " limit " + std::to_string(limits.operations));
      Values cut(t.outputs(), NAN);
      for_slices(t.c, limits, [&](const model::Pointwise<npu_cmd_eltwise> &s) {
        reference.run(s.c, t.a.data() + s.a, t.immediate() ? nullptr : t.b.data() + s.b, cut.data() + s.out);
        return true;
      });
      expect_same(whole, cut);
    }
  }
}

// ---- results ----

class EltwiseResults : public OnBackend {};

INSTANTIATE_TEST_SUITE_P(Backends, EltwiseResults, testing::ValuesIn(backend_names()),
                         [](const auto &i) { return i.param; });

TEST_P(EltwiseResults, OfRandomShapesAreRight) {
  Random r(22);
  for (int i = 0; i < 800 && !HasFatalFailure(); ++i) {
    const EltwiseCase t = random_eltwise(r);
    expect_near(expect(t), run(*backend_, t), describe(t.c));
  }
}

TEST_P(EltwiseResults, OfAllTypesAreThoseOfPlainLoops) {
  Random r(26);
  for (int i = 0; i < 1500 && !HasFatalFailure(); ++i) {
    const TypedEltwise t = random_typed_eltwise(r, GetParam() == "reference");
    expect_elements(t.c.out_dtype, expect(t), run(*backend_, t), describe(t));
  }
}

TEST_P(EltwiseResults, OfAllTypesAreNearPlainLoopsWhereTheyAreFunctions) {
  Random r(27);
  for (int i = 0; i < 300 && !HasFatalFailure(); ++i) {
    TypedEltwise t = random_typed_eltwise(r, true);
    if (t.c.subop >= NPU_ELTWISE_POW) t.c.subop = NPU_ELTWISE_MUL;
    t.c.act = r.chance(2) ? NPU_ACT_SIGMOID : NPU_ACT_TANH;
    t.c.act_a = t.c.act_b = 0;
    const Leeway l = leeway_of(t.c.out_dtype, true);
    expect_near_elements(t.c.out_dtype, expect(t), run(*backend_, t), l.steps, describe(t), l.least);
  }
}

// Of operands of one size each, in place of either.
TEST_P(EltwiseResults, OfOtherTypesMayReplaceAnOperandOfTheirSize) {
  Random r(28);
  unsigned tried = 0;
  for (int i = 0; i < 600 && !HasFatalFailure(); ++i) {
    TypedEltwise t = random_typed_eltwise(r, false);
    npu_cmd_eltwise &c = t.c;
    const bool first = t.immediate() || r.chance(2);
    if (size_of(first ? c.a_dtype : c.b_dtype) != size_of(c.out_dtype)) continue;
    // The operand's elements lie where the result's do.
    uint32_t step = static_cast<uint32_t>(t.pitch());
    uint32_t(&stride)[5] = first ? c.a_stride : c.b_stride;
    stride[4] = 1;
    for (int d = 3; d >= 0; --d) {
      stride[d] = step;
      step *= c.dims[d];
    }
    (first ? t.a : t.b) = random_elements(r, first ? c.a_dtype : c.b_dtype, t.place().size() / size_of(c.out_dtype));
    const Bytes want = run(*backend_, t);
    Bytes place = first ? t.a : t.b;
    const void *b = t.immediate() ? nullptr : t.b.data();
    backend_->run(c, first ? place.data() : t.a.data(), first ? b : place.data(), place.data());
    const uint32_t size = size_of(c.out_dtype);
    for (size_t row = 0; row < t.rows(); ++row)
      ASSERT_EQ(0, std::memcmp(&want[row * t.pitch() * size], &place[row * t.pitch() * size], c.dims[4] * size))
          << describe(t);
    ++tried;
  }
  EXPECT_GT(tried, 100u);
}

TEST_P(EltwiseResults, OfComparisonsWithNaNAreFalse) {
  const Values special = {0.0f, -0.0f, 1, -1, kInf, -kInf, kNaN, 0x1p-149f};
  for (const uint8_t op : {NPU_ELTWISE_CMP_EQ, NPU_ELTWISE_CMP_LT, NPU_ELTWISE_CMP_LE}) {
    TypedEltwise t{hw::make<npu_cmd_eltwise>(), bytes_of(special), bytes_of(special)};
    t.c.subop = op;
    t.c.out_dtype = NPU_DTYPE_U8;
    t.c.out_scale = 1;
    std::fill_n(t.c.dims, 5, 1u);
    t.c.dims[3] = t.c.dims[4] = static_cast<uint32_t>(special.size());
    t.c.a_stride[3] = t.c.b_stride[4] = 1;
    const Bytes got = run(*backend_, t);
    for (size_t i = 0; i < got.size(); ++i) {
      const float a = special[i / special.size()], b = special[i % special.size()];
      const bool want = op == NPU_ELTWISE_CMP_EQ ? a == b : op == NPU_ELTWISE_CMP_LT ? a < b : a <= b;
      EXPECT_EQ(got[i], want) << int{op} << ": " << a << ", " << b;
    }
  }
}

TEST_P(EltwiseResults, OfPowAreThoseOfC) {
  Random r(29);
  EltwiseCase t;
  t.c.subop = NPU_ELTWISE_POW;
  std::fill_n(t.c.dims, 5, 1u);
  t.a = {0, -0.0f, 1, -1, 2, -2, -8, kInf, -kInf, kNaN, 1, 0.5f, 0, -0.0f, 3e38f};
  t.b = {0, -3, kNaN, kInf, 0.5f, 3, 1 / 3.0f, -1, 3, 0, kNaN, kInf, -1, -2, 2};
  for (int i = 0; i < 3000; ++i) {
    t.a.push_back(r.chance(4) ? static_cast<float>(r.range(-5, 5)) : r.real(0, 30));
    t.b.push_back(r.chance(2) ? static_cast<float>(r.range(-5, 5)) : r.real(-20, 20));
  }
  t.c.dims[4] = static_cast<uint32_t>(t.a.size());
  t.c.a_stride[4] = t.c.b_stride[4] = 1;
  const Values got = run(*backend_, t);
  for (size_t i = 0; i < got.size(); ++i) {
    const long double want = std::pow(static_cast<long double>(t.a[i]), static_cast<long double>(t.b[i]));
    const auto rounded = static_cast<float>(want);
    if (std::isnan(rounded)) {
      EXPECT_TRUE(std::isnan(got[i])) << t.a[i] << " ** " << t.b[i];
      continue;
    }
    const double ulp = std::nextafter(std::fabs(double{rounded}), 1e300) < 1e38
                           ? std::nextafter(std::fabs(rounded), kInf) - std::fabs(rounded)
                           : 0;
    EXPECT_TRUE(got[i] == rounded || std::fabs(double{got[i]} - double{rounded}) <= 4 * ulp + 1e-7)
        << t.a[i] << " ** " << t.b[i] << " is " << got[i] << ", not " << rounded;
  }
}

TEST_P(EltwiseResults, MayReplaceADenseOperand) {
  Random r(23);
  for (int i = 0; i < 200; ++i) {
    EltwiseCase t = random_eltwise(r);
    const bool first = t.immediate() || r.chance(2);
    uint32_t step = 1;
    for (int d = 4; d >= 0; --d) {
      (first ? t.c.a_stride : t.c.b_stride)[d] = step;
      step *= t.c.dims[d];
    }
    (first ? t.a : t.b) = r.values(t.outputs());
    const Values want = run(*backend_, t);
    Values place = first ? t.a : t.b;
    const float *b = t.immediate() ? nullptr : t.b.data();
    backend_->run(t.c, first ? place.data() : t.a.data(), first ? b : place.data(), place.data());
    ASSERT_EQ(0, std::memcmp(want.data(), place.data(), want.size() * 4)) << describe(t.c);
  }
}

// All pairs of special values meet all operations; lengths beside vector widths.
TEST_P(EltwiseResults, TreatSpecialValuesAsIeee754) {
  const Values special = {0.0f, -0.0f, 1, -1, kInf, -kInf, kNaN, 0x1p-149f, -0x1p-130f, 3.4e38f};
  for (unsigned op = NPU_ELTWISE_ADD; op <= NPU_ELTWISE_MIN; ++op) {
    EltwiseCase t;
    t.c.subop = op;
    for (uint32_t &d : t.c.dims) d = 1;
    t.c.dims[3] = t.c.dims[4] = special.size();
    t.c.a_stride[3] = t.c.b_stride[4] = 1;
    t.a = t.b = special;
    const Values got = run(*backend_, t);
    for (size_t i = 0; i < got.size(); ++i) {
      const float a = special[i / special.size()], b = special[i % special.size()];
      float want = a;
      if (op == NPU_ELTWISE_ADD) want = a + b;
      if (op == NPU_ELTWISE_SUB) want = a - b;
      if (op == NPU_ELTWISE_MUL) want = a * b;
      if (op == NPU_ELTWISE_DIV) want = a / b;
      if (op >= NPU_ELTWISE_MAX) {
        const bool less = a < b || (a == b && std::signbit(a) > std::signbit(b));
        want = std::isnan(a) || std::isnan(b) ? kNaN : ((op == NPU_ELTWISE_MAX) == less ? b : a);
      }
      if (std::isnan(want))
        EXPECT_TRUE(std::isnan(got[i])) << op << ": " << a << ", " << b;
      else
        EXPECT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want)) << op << ": " << a << ", " << b;
    }
  }
}

// ---- the shadow ----

class FaultyEltwise final : public Faulty {
 public:
  using Faulty::Faulty;
  void run(const npu_cmd_eltwise &c, const void *a, const void *b, void *out) override {
    Reference::run(c, a, b, out);
    spoil(out, size_t{c.dims[0]} * c.dims[1] * c.dims[2] * c.dims[3] * c.dims[4]);
  }
};

TEST(EltwiseShadow, ReportsWrongResults) {
  Random r(41);
  std::vector<RunOn> runs;
  for (int i = 0; i < 300; ++i)
    runs.push_back([t = random_eltwise(r)](model::Backend &backend) { return run(backend, t); });
  expect_shadowed<FaultyEltwise>("ELTWISE", runs);
}

class FaultyTypedEltwise final : public model::Reference {
 public:
  const char *name() const override { return "faulty"; }
  void run(const npu_cmd_eltwise &c, const void *a, const void *b, void *out) override {
    Reference::run(c, a, b, out);
    flip_last(out, TypedEltwise{c, {}, {}}.place().size());
  }
};

TEST(EltwiseShadow, ReportsWrongResultsOfAllTypes) {
  Random r(42);
  std::vector<RunBytesOn> runs;
  for (int i = 0; i < 300; ++i) {
    TypedEltwise t = random_typed_eltwise(r, true);
    // Steps of no fewer digits than the result has: else a right one may be many of them off.
    if (!is_real(t.c.out_dtype)) t.c.out_scale = std::max(t.c.out_scale, t.c.subop < NPU_ELTWISE_CMP_EQ ? 1e-4f : 1);
    runs.push_back([t](model::Backend &backend) { return run(backend, t); });
  }
  expect_shadowed_bytes<FaultyTypedEltwise>("ELTWISE", runs);
}

// ---- the chip ----

TEST_F(EltwiseChecks, AllTypesRunOnTheChip) {
  Random r(43);
  for (int i = 0; i < 100 && !HasFatalFailure(); ++i) {
    TypedEltwise t = random_typed_eltwise(r, true);
    const Bytes place = t.place();
    if (t.a.size() + t.b.size() + place.size() > 32000) continue;
    t.c.a_addr = 0;
    t.c.b_addr = t.immediate() ? 0 : 16384;
    t.c.out_addr = 40000;
    if (t.a.size() > 16384) continue;
    const Bytes got = bytes_on_chip(t.c, {{0, t.a}, {16384, t.immediate() ? Bytes(1) : t.b}, {40000, place}}, 40000,
                                    static_cast<uint32_t>(place.size()));
    expect_elements(t.c.out_dtype, expect(t), got, describe(t));
  }
}

}  // namespace
}  // namespace npu::test
