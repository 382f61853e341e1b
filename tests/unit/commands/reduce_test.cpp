// SPDX-License-Identifier: MIT
// REDUCE: what the chip accepts, what it costs, how it is cut, and its results for all types on every back end.
#include <algorithm>
#include <sstream>

#include "tests/unit/commands/arithmetic.h"
#include "tests/unit/commands/command.h"

namespace npu::test {
namespace {

npu_cmd_reduce reduce(uint8_t op = NPU_REDUCE_SUM) {
  return with<npu_cmd_reduce>([=](npu_cmd_reduce &c) {
    c.subop = op;
    c.outer = 2;
    c.n = 5;
    c.inner = 3;
    c.out_addr = 4096;
    if (op >= NPU_REDUCE_ARGMAX) {
      c.out_dtype = NPU_DTYPE_S32;
      c.out_scale = 1;
    }
  });
}

class ReduceChecks : public Checks {};

TEST_F(ReduceChecks, Encoding) { encoding({kTiu}, reduce(), NPU_REDUCE_ARGMIN, 1, 78); }

TEST_F(ReduceChecks, Fields) {
  BAD(reduce(), 32, c.outer = 0);
  BAD(reduce(), 36, c.n = 0);
  BAD(reduce(), 40, c.inner = 0);
  for (const uint8_t type : kNumbers) {
    try_numbers(*this, reduce(), type, 44, 112, [](npu_cmd_reduce &c, const Kind &k) {
      c.in_dtype = k.dtype;
      c.in_scale = k.scale;
      c.in_zp = k.zero;
    });
    try_numbers(*this, reduce(NPU_REDUCE_L2), type, 48, 116, [](npu_cmd_reduce &c, const Kind &k) {
      c.out_dtype = k.dtype;
      c.out_scale = k.scale;
      c.out_zp = k.zero;
    });
  }
  for (const uint8_t t : {NPU_DTYPE_S32, NPU_DTYPE_U32, NPU_DTYPE_S4, NPU_DTYPE_U4, NPU_DTYPE_S64})
    BAD(reduce(), 28, c.in_dtype = t);
  for (const uint8_t t : {NPU_DTYPE_U32, NPU_DTYPE_S4, NPU_DTYPE_U4, NPU_DTYPE_S64}) BAD(reduce(), 30, c.out_dtype = t);
}

TEST_F(ReduceChecks, PlacesAreWholeNumbersAndNothingElseIs) {
  for (uint8_t op = NPU_REDUCE_SUM; op < NPU_REDUCE_ARGMAX; ++op) {
    BAD(reduce(op), 30, (c.out_dtype = NPU_DTYPE_S32, c.out_scale = 1));
    BAD(reduce(op), 2, c.flags = NPU_REDUCEF_LAST);
  }
  for (const uint8_t op : {NPU_REDUCE_ARGMAX, NPU_REDUCE_ARGMIN}) {
    ok(kTiu, reduce(op));
    npu_cmd_reduce c = reduce(op);
    c.flags = NPU_REDUCEF_LAST;
    c.in_dtype = NPU_DTYPE_U8;
    c.in_scale = 0.5f;
    c.in_zp = 200;
    ok(kTiu, c);
    BAD(reduce(op), 30, (c.out_dtype = NPU_DTYPE_F32, c.out_scale = 0));
    BAD(reduce(op), 30, c.out_dtype = NPU_DTYPE_S16);
    BAD(reduce(op), 48, c.out_scale = 2);
    BAD(reduce(op), 48, c.out_scale = 0);
    BAD(reduce(op), 116, c.out_zp = 1);
  }
}

TEST_F(ReduceChecks, Operands) {
  local_operand(reduce(), 30 * 4, false, [](auto &x, uint32_t v) { x.in_addr = v; });
  local_operand(reduce(), 6 * 4, true, [](auto &x, uint32_t v) { x.out_addr = v; });
  npu_cmd_reduce c = reduce();
  c.in_dtype = NPU_DTYPE_BF16;
  c.out_dtype = NPU_DTYPE_U8;
  c.out_scale = 1;
  local_operand(
      c, 60, false, [](auto &x, uint32_t v) { x.in_addr = v; }, 2);
  local_operand(
      c, 6, true, [](auto &x, uint32_t v) { x.out_addr = v; }, 1);
  c.outer = c.n = c.inner = 0xffffffff;
  access(kTiu, c, NPU_STATUS_LMEM_BOUNDS, kLocal, 0, 0xffffffff, false);
}

TEST(ReduceCost, IsAsComputedByHand) {
  npu_cmd_reduce c = with<npu_cmd_reduce>([](npu_cmd_reduce &r) { r.outer = 2, r.n = 100, r.inner = 3; });
  // 600 elements in, 6 out: 5 rounds of 128 lanes; 2424 bytes: 4.7.
  expect_cost(c, 32 + 5, 0, 0, "every element passes once");
  c.inner = 30;  // 6000 in, 60 out: 47 rounds; 24240 bytes: 47.3
  expect_cost(c, 32 + 48, 0, 0, "local memory decides");
  c.in_dtype = c.out_dtype = NPU_DTYPE_S8;  // 11.7 rounds of 512, 6060 bytes: 11.8
  expect_cost(c, 32 + 12, 0, 0, "8 bits");
  c.out_dtype = NPU_DTYPE_S32;
  c.subop = NPU_REDUCE_ARGMAX;
  expect_cost(c, 32 + 47, 0, 0, "the wider type decides");
}

// ---- random commands ----

struct ReduceCase {
  npu_cmd_reduce c;
  Bytes in;
  Kind from() const { return {c.in_dtype, c.in_scale, c.in_zp}; }
  Kind to() const { return {c.out_dtype, c.out_scale, c.out_zp}; }
  size_t out_bytes() const { return size_t{c.outer} * c.inner * size_of(c.out_dtype); }
};

ReduceCase random_reduce(Random &r) {
  ReduceCase t{reduce(static_cast<uint8_t>(r.range(NPU_REDUCE_SUM, NPU_REDUCE_ARGMIN))), {}};
  npu_cmd_reduce &c = t.c;
  Kind from = random_kind(r, kNumbers);
  if (!is_real(from.dtype) && c.subop == NPU_REDUCE_PROD) from.scale = size_of(from.dtype) == 1 ? 0.02f : 1e-4f;
  c.in_dtype = from.dtype, c.in_scale = from.scale, c.in_zp = from.zero;
  if (c.subop < NPU_REDUCE_ARGMAX) {
    const Kind to = random_kind(r, kNumbers);
    c.out_dtype = to.dtype, c.out_scale = to.scale, c.out_zp = to.zero;
  } else if (r.chance(2)) {
    c.flags = NPU_REDUCEF_LAST;
  }
  c.outer = r.range(1, 7);
  c.n = r.chance(4) ? r.range(50, 300) : r.range(1, 20);
  c.inner = r.chance(3) ? 1 : r.range(1, 30);
  t.in = random_elements(r, c.in_dtype, size_t{c.outer} * c.n * c.inner, r.chance(2));  // whole ones are often equal
  return t;
}

Bytes run(model::Backend &backend, const ReduceCase &t) {
  Bytes out(t.out_bytes(), 0x5a);
  backend.run(t.c, t.in.data(), out.data());
  return out;
}

/// What a column becomes, in double.
double reduced(uint8_t op, const Values &x) {
  double sum = 0, sizes = 0, squares = 0, product = 1;
  for (const float v : x) {
    sum += v;
    sizes += std::fabs(v);
    squares += double{v} * v;
    product *= v;
  }
  switch (op) {
    case NPU_REDUCE_SUM:
      return sum;
    case NPU_REDUCE_MEAN:
      return sum / static_cast<double>(x.size());
    case NPU_REDUCE_PROD:
      return product;
    case NPU_REDUCE_L1:
      return sizes;
    case NPU_REDUCE_L2:
      return std::sqrt(squares);
    case NPU_REDUCE_MAX:
      return *std::max_element(x.begin(), x.end());
    default:
      return *std::min_element(x.begin(), x.end());
  }
}

int32_t place(const npu_cmd_reduce &c, const Values &x) {
  int32_t at = -1;
  for (int32_t i = 0; i < static_cast<int32_t>(x.size()); ++i) {
    if (std::isnan(x[i])) continue;
    const bool better = at < 0 || (c.subop == NPU_REDUCE_ARGMAX ? x[i] > x[at] : x[i] < x[at]);
    if (better || (x[i] == x[at] && c.flags & NPU_REDUCEF_LAST)) at = i;
  }
  return std::max(at, 0);
}

Bytes expect(const ReduceCase &t) {
  const npu_cmd_reduce &c = t.c;
  Bytes out(t.out_bytes());
  for (size_t o = 0; o < c.outer; ++o)
    for (size_t i = 0; i < c.inner; ++i) {
      Values x(c.n);
      for (size_t k = 0; k < c.n; ++k) x[k] = load(t.from(), t.in.data(), (o * c.n + k) * c.inner + i);
      const size_t at = o * c.inner + i;
      const int32_t where = place(c, x);
      if (c.subop >= NPU_REDUCE_ARGMAX)
        std::memcpy(&out[at * 4], &where, 4);
      else
        store(t.to(), static_cast<float>(reduced(c.subop, x)), out.data(), at);
    }
  return out;
}

std::string describe(const npu_cmd_reduce &c) {
  std::ostringstream s;
  s << "reduce " << hw::k_npu_reduce[c.subop].name << " flags=" << c.flags << ' ' << c.outer << 'x' << c.n << 'x'
    << c.inner << " types=" << int{c.in_dtype} << ',' << int{c.out_dtype} << " scales=" << c.in_scale << ','
    << c.out_scale << " zeros=" << c.in_zp << ',' << c.out_zp;
  return s.str();
}

// ---- slices ----

TEST(ReduceSlices, GiveTheSameBits) {
  Random r(6);
  model::Reference reference;
  for (unsigned i = 0; i < 200 && !testing::Test::HasFatalFailure(); ++i) {
    const ReduceCase t = random_reduce(r);
    const Bytes whole = run(reference, t);
    for (const model::SliceLimits &limits : kLimits) {
      Bytes cut(whole.size(), 0x5a);
      for_slices(t.c, limits, [&](const model::Pointwise<npu_cmd_reduce> &s) {
        EXPECT_LE((s.a + size_t{s.c.outer} * s.c.n * s.c.inner) * size_of(t.c.in_dtype), t.in.size());
        reference.run(s.c, t.in.data() + s.a * size_of(t.c.in_dtype), cut.data() + s.out * size_of(t.c.out_dtype));
        return true;
      });
      expect_elements(t.c.out_dtype, whole, cut, describe(t.c) + " limit " + std::to_string(limits.operations));
    }
  }
}

TEST(ReduceSlices, AreBoundedWhereACommandCanBeCut) {
  npu_cmd_reduce c = reduce();
  c.outer = 1 << 20;
  c.n = 64;
  c.inner = 16;
  EXPECT_GT(first_slices(c,
                         [](const model::Pointwise<npu_cmd_reduce> &s) {
                           EXPECT_LE(uint64_t{s.c.outer} * s.c.n * s.c.inner, model::kStepOperations);
                         }),
            1u);
}

// ---- results ----

class ReduceResults : public OnBackend {};

INSTANTIATE_TEST_SUITE_P(Backends, ReduceResults, testing::ValuesIn(backend_names()),
                         [](const auto &i) { return i.param; });

TEST_P(ReduceResults, OfAllTypesAreThoseOfPlainLoops) {
  Random r(22);
  for (int i = 0; i < 1000 && !HasFatalFailure(); ++i) {
    const ReduceCase t = random_reduce(r);
    const bool exact = t.c.subop == NPU_REDUCE_MAX || t.c.subop == NPU_REDUCE_MIN || t.c.subop >= NPU_REDUCE_ARGMAX;
    // The order of a sum is the back end's: of the reference it is that of the elements.
    const double steps = exact || GetParam() == "reference" ? 0 : is_real(t.c.out_dtype) ? 2.0 * t.c.n : 1;
    expect_near_elements(t.c.out_dtype, expect(t), run(*backend_, t), steps, describe(t.c), steps ? 1e-6 : 0);
  }
}

TEST_P(ReduceResults, OfSpecialValues) {
  const auto of = [&](uint8_t op, const Values &x, uint16_t flags = 0) {
    ReduceCase t{reduce(op), bytes_of(x)};
    t.c.flags = flags;
    t.c.outer = t.c.inner = 1;
    t.c.n = static_cast<uint32_t>(x.size());
    return values_of(run(*backend_, t))[0];
  };
  const auto place_of = [&](uint8_t op, const Values &x, uint16_t flags = 0) {
    return std::bit_cast<int32_t>(of(op, x, flags));
  };
  EXPECT_TRUE(std::isnan(of(NPU_REDUCE_MAX, {1, kNaN, 2})));
  EXPECT_TRUE(std::isnan(of(NPU_REDUCE_MIN, {kNaN, 1, 2})));
  EXPECT_TRUE(std::isnan(of(NPU_REDUCE_SUM, {kInf, -kInf})));
  EXPECT_EQ(of(NPU_REDUCE_MAX, {-kInf, -kInf}), -kInf);
  EXPECT_EQ(std::bit_cast<uint32_t>(of(NPU_REDUCE_MAX, {-0.0f, 0.0f, -0.0f})), 0u);
  EXPECT_EQ(std::bit_cast<uint32_t>(of(NPU_REDUCE_MIN, {0.0f, -0.0f, 0.0f})), 0x80000000u);
  EXPECT_EQ(of(NPU_REDUCE_L1, {-kInf, 1}), kInf);
  EXPECT_EQ(of(NPU_REDUCE_SUM, {0x1p24f, 1, 1}), 0x1.000002p24f);  // no digit is lost on the way
  EXPECT_EQ(of(NPU_REDUCE_L2, {3e38f, 0}), 3e38f);                 // nor a square too large
  EXPECT_EQ(place_of(NPU_REDUCE_ARGMAX, {1, 5, 2, 5}), 1);
  EXPECT_EQ(place_of(NPU_REDUCE_ARGMAX, {1, 5, 2, 5}, NPU_REDUCEF_LAST), 3);
  EXPECT_EQ(place_of(NPU_REDUCE_ARGMIN, {3, 1, 1, 2}), 1);
  EXPECT_EQ(place_of(NPU_REDUCE_ARGMIN, {3, 1, 1, 2}, NPU_REDUCEF_LAST), 2);
  EXPECT_EQ(place_of(NPU_REDUCE_ARGMAX, {kNaN, -kInf, kNaN}), 1);
  EXPECT_EQ(place_of(NPU_REDUCE_ARGMAX, {kNaN, -kInf, -kInf}, NPU_REDUCEF_LAST), 2);
  EXPECT_EQ(place_of(NPU_REDUCE_ARGMIN, {kNaN, kInf, 5, kNaN, -kInf}), 4);
  EXPECT_EQ(place_of(NPU_REDUCE_ARGMAX, {kNaN, kNaN}), 0);
  EXPECT_EQ(place_of(NPU_REDUCE_ARGMAX, {kNaN, kNaN}, NPU_REDUCEF_LAST), 0);
  EXPECT_EQ(place_of(NPU_REDUCE_ARGMAX, {-0.0f, 0.0f}), 0);  // equal ones
}

// ---- the shadow ----

class FaultyReduce final : public model::Reference {
 public:
  const char *name() const override { return "faulty"; }
  void run(const npu_cmd_reduce &c, const void *in, void *out) override {
    Reference::run(c, in, out);
    flip_last(out, size_t{c.outer} * c.inner * size_of(c.out_dtype));
  }
};

TEST(ReduceShadow, ReportsWrongResults) {
  Random r(42);
  std::vector<RunBytesOn> runs;
  for (int i = 0; i < 300; ++i) {
    ReduceCase t = random_reduce(r);
    // A step of the result is no finer than the digits that a sum may lose.
    if (t.c.out_dtype != NPU_DTYPE_S32 && !is_real(t.c.out_dtype)) {
      t.c.in_scale = is_real(t.c.in_dtype) ? 0 : 0.5f;
      t.c.out_scale = std::max(t.c.out_scale, 0.5f);
    }
    runs.push_back([t](model::Backend &backend) { return run(backend, t); });
  }
  expect_shadowed_bytes<FaultyReduce>("REDUCE", runs);
}

// ---- the chip ----

TEST_F(ReduceChecks, RunsOnTheChip) {
  Random r(43);
  for (int i = 0; i < 100 && !HasFatalFailure(); ++i) {
    ReduceCase t = random_reduce(r);
    if (t.in.size() > 32000) continue;
    t.c.in_addr = 0;
    t.c.out_addr = 40000;
    const Bytes got = bytes_on_chip(t.c, {{0, t.in}}, 40000, static_cast<uint32_t>(t.out_bytes()));
    expect_elements(t.c.out_dtype, expect(t), got, describe(t.c));
  }
}

}  // namespace
}  // namespace npu::test
