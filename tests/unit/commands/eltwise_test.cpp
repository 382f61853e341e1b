// SPDX-License-Identifier: MIT
// ELTWISE: what the chip accepts, what it costs, how it is cut, and its results on every back end.
#include <sstream>

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

TEST_F(EltwiseChecks, Encoding) { encoding({kTiu}, eltwise(), NPU_ELTWISE_MIN, 1); }

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

// ---- slices ----

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

}  // namespace
}  // namespace npu::test
