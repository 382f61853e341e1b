// SPDX-License-Identifier: MIT
// NORM: what the chip accepts, what it costs, how it is cut, and its results on every back end.
#include <algorithm>
#include <sstream>

#include "tests/unit/commands/arithmetic.h"
#include "tests/unit/commands/command.h"

namespace npu::test {
namespace {

constexpr uint16_t kBoth = NPU_NORMF_SCALE | NPU_NORMF_BIAS;

npu_cmd_norm norm(uint16_t flags = 0) {
  return with<npu_cmd_norm>([=](npu_cmd_norm &c) {
    c.flags = flags;
    c.rows = 3;
    c.cols = 10;
    c.epsilon = 1e-5f;
    c.out_addr = 4096;
    if (flags) c.param_region = kLocal;
  });
}

class NormChecks : public Checks {};

TEST_F(NormChecks, Encoding) { encoding({kTiu}, norm(), NPU_NORM_RMS, 3, 85); }

TEST_F(NormChecks, Fields) {
  BAD(norm(), 24, c.rows = 0);
  BAD(norm(), 32, c.cols = 0);
  BAD(norm(), 40, c.param_offset = 4);
  BAD(norm(), 49, c.param_region = 1);
  for (const float e : {-1e-5f, -kInf, kInf, kNaN}) BAD(norm(), 36, c.epsilon = e);
  for (const float e : {0.0f, -0.0f, 1.0f, 3e38f}) {
    npu_cmd_norm c = norm(kBoth);
    c.epsilon = e;
    ok(kTiu, c);
  }
  for (unsigned t = 0; t < 16; ++t) {
    const auto type = static_cast<uint8_t>(t);
    if (is_real(type)) continue;
    BAD(norm(), 28, c.in_dtype = type);
    BAD(norm(), 30, c.out_dtype = type);
  }
  for (const uint8_t from : kFloats)
    for (const uint8_t to : kFloats) {
      npu_cmd_norm c = norm(NPU_NORMF_BIAS);
      c.in_dtype = from;
      c.out_dtype = to;
      ok(kTiu, c);
    }
}

TEST_F(NormChecks, Operands) {
  npu_cmd_norm c = norm(kBoth);
  local_operand(c, 120, false, [](auto &x, uint32_t v) { x.in_addr = v; });
  local_operand(c, 120, true, [](auto &x, uint32_t v) { x.out_addr = v; });
  local_operand(c, 80, false, [](auto &x, uint32_t v) { x.param_offset = v; });
  const auto param = [](auto &x, uint8_t region, uint64_t offset) {
    x.param_region = region;
    x.param_offset = offset;
  };
  region_operand(c, 80, false, param);
  region_operand(norm(NPU_NORMF_SCALE), 40, false, param);
  region_operand(norm(NPU_NORMF_BIAS), 40, false, param);
  c.in_dtype = NPU_DTYPE_F16;
  c.out_dtype = NPU_DTYPE_BF16;
  local_operand(
      c, 60, false, [](auto &x, uint32_t v) { x.in_addr = v; }, 2);
  local_operand(
      c, 60, true, [](auto &x, uint32_t v) { x.out_addr = v; }, 2);
}

TEST(NormCost, IsAsComputedByHand) {
  npu_cmd_norm c = with<npu_cmd_norm>([](npu_cmd_norm &n) { n.rows = 5, n.cols = 300; });
  expect_cost(c, 32 + 4 * 12, 0, 0, "1500 elements are 12 rounds of lanes, 4 passes");
  c.in_dtype = c.out_dtype = NPU_DTYPE_F16;
  expect_cost(c, 32 + 4 * 6, 0, 0, "of 16 bits 6");
  c.flags = kBoth;
  expect_cost(c, 32 + 4 * 6, 38 * 64, 0, "600 elements of 4 bytes flow: 37.5");
  c.flags = NPU_NORMF_BIAS;
  expect_cost(c, 32 + 4 * 6, 19 * 64, 0, "300: 18.75");
  // In local memory they are an operand as the others. 12 rows of 8: 384 bytes, and 2 * 8 * 4 of vectors.
  c.rows = 12;
  c.cols = 8;
  c.flags = kBoth;
  c.param_region = NPU_REGION_LOCAL;
  expect_cost(c, 32 + 4, 0, 0, "the lanes take longer than 448 bytes");
}

// ---- random commands ----

struct NormCase {
  npu_cmd_norm c;
  Bytes in;
  Values scale, bias;
  size_t count() const { return size_t{c.rows} * c.cols; }
};

NormCase random_norm(Random &r) {
  NormCase t{norm(static_cast<uint16_t>(r.range(0, 3))), {}, {}, {}};
  npu_cmd_norm &c = t.c;
  c.subop = static_cast<uint8_t>(r.range(NPU_NORM_LAYER, NPU_NORM_RMS));
  c.rows = r.range(1, 9);
  c.cols = r.chance(4) ? r.range(100, 500) : r.range(2, 40);
  c.epsilon = r.chance(4) ? 0.1f : 1e-5f;
  c.in_dtype = random_kind(r, kFloats).dtype;
  c.out_dtype = random_kind(r, kFloats).dtype;
  t.in = random_elements(r, c.in_dtype, t.count());
  t.scale = r.values(c.cols, 2);
  t.bias = r.values(c.cols, 2);
  return t;
}

Bytes run(model::Backend &backend, const NormCase &t, bool in_place = false) {
  Bytes out = in_place ? t.in : Bytes(t.count() * size_of(t.c.out_dtype), 0x5a);
  backend.run(t.c, in_place ? out.data() : t.in.data(), t.c.flags & NPU_NORMF_SCALE ? t.scale.data() : nullptr,
              t.c.flags & NPU_NORMF_BIAS ? t.bias.data() : nullptr, out.data());
  return out;
}

Bytes by_reference(const NormCase &t) {
  model::Reference reference;
  return run(reference, t);
}

/// In long double, rounded once.
Bytes expect(const NormCase &t) {
  const npu_cmd_norm &c = t.c;
  Bytes out(t.count() * size_of(c.out_dtype));
  for (size_t row = 0; row < t.count(); row += c.cols) {
    long double sum = 0, squares = 0;
    const auto x = [&](size_t i) { return static_cast<long double>(load({c.in_dtype, 0, 0}, t.in.data(), row + i)); };
    for (size_t i = 0; i < c.cols; ++i) sum += x(i);
    const long double mean = c.subop == NPU_NORM_LAYER ? sum / c.cols : 0;
    for (size_t i = 0; i < c.cols; ++i) squares += (x(i) - mean) * (x(i) - mean);
    const long double size = std::sqrt(squares / c.cols + c.epsilon);
    for (size_t i = 0; i < c.cols; ++i) {
      long double y = (x(i) - mean) / size;
      if (c.flags & NPU_NORMF_SCALE) y *= t.scale[i];
      if (c.flags & NPU_NORMF_BIAS) y += t.bias[i];
      store({c.out_dtype, 0, 0}, static_cast<float>(y), out.data(), row + i);
    }
  }
  return out;
}

std::string describe(const npu_cmd_norm &c) {
  std::ostringstream s;
  s << "norm " << int{c.subop} << " flags=" << c.flags << ' ' << c.rows << 'x' << c.cols << " types=" << int{c.in_dtype}
    << ',' << int{c.out_dtype} << " epsilon=" << c.epsilon;
  return s.str();
}

// ---- slices ----

TEST(NormSlices, GiveTheSameBits) {
  Random r(6);
  model::Reference reference;
  for (unsigned i = 0; i < 100 && !testing::Test::HasFatalFailure(); ++i) {
    const NormCase t = random_norm(r);
    const Bytes whole = run(reference, t);
    for (const model::SliceLimits &limits : kLimits) {
      Bytes cut(whole.size(), 0x5a);
      for_slices(t.c, limits, [&](const model::Pointwise<npu_cmd_norm> &s) {
        EXPECT_EQ(s.param, 0u);
        NormCase part = t;
        part.c = s.c;
        part.in.assign(t.in.begin() + static_cast<int64_t>(s.a * size_of(t.c.in_dtype)), t.in.end());
        const Bytes some = run(reference, part);
        std::copy(some.begin(), some.end(), cut.begin() + static_cast<int64_t>(s.out * size_of(t.c.out_dtype)));
        return true;
      });
      expect_elements(t.c.out_dtype, whole, cut, describe(t.c) + " limit " + std::to_string(limits.operations));
    }
  }
}

// ---- results ----

class NormResults : public OnBackend {};

INSTANTIATE_TEST_SUITE_P(Backends, NormResults, testing::ValuesIn(backend_names()),
                         [](const auto &i) { return i.param; });

TEST_P(NormResults, OfAllTypesAreNearPlainLoops) {
  Random r(22);
  for (int i = 0; i < 500 && !HasFatalFailure(); ++i) {
    const NormCase t = random_norm(r);
    // Half way between two numbers double and long double may round apart; others may be a little further away.
    const bool reference = GetParam() == "reference";
    const Bytes got = run(*backend_, t);
    expect_near_elements(t.c.out_dtype, expect(t), got, 1, describe(t.c), reference ? 1e-7 : 2e-5);
    if (size_of(t.c.in_dtype) == size_of(t.c.out_dtype)) {
      EXPECT_EQ(run(*backend_, t, true), got) << describe(t.c) << " in place";
    }
  }
}

TEST_P(NormResults, AreThoseWrittenHere) {
  NormCase t{norm(), bytes_of({1, 3, -5, -5}), {}, {}};
  t.c.rows = 2;
  t.c.cols = 2;
  t.c.epsilon = 0.25f;
  const auto of = [&](uint8_t op, uint16_t flags) {
    t.c.subop = op;
    t.c.flags = flags;
    return values_of(run(*backend_, t));
  };
  t.scale = {2, 4};
  t.bias = {10, 100};
  t.c.epsilon = 0;
  EXPECT_EQ(of(NPU_NORM_LAYER, 0)[0], -1);
  EXPECT_EQ(of(NPU_NORM_LAYER, 0)[1], 1);
  EXPECT_TRUE(std::isnan(of(NPU_NORM_LAYER, 0)[2])) << "0 / 0";
  t.c.epsilon = 8;  // variance 1: a third
  EXPECT_EQ(of(NPU_NORM_LAYER, NPU_NORMF_BIAS), (Values{10 - 1 / 3.0f, 100 + 1 / 3.0f, 10, 100}));
  EXPECT_EQ(of(NPU_NORM_LAYER, kBoth), (Values{10 - 2 / 3.0f, 100 + 4 / 3.0f, 10, 100}));
  t.c.epsilon = 11;  // mean squares 5 and 25: 4 and 6
  EXPECT_EQ(of(NPU_NORM_RMS, NPU_NORMF_SCALE), (Values{0.5f, 3, -10 / 6.0f, -20 / 6.0f}));
}

TEST_P(NormResults, OfLargeNumbersDoNotOverflow) {
  NormCase t{norm(), bytes_of({3e38f, -3e38f, 3e38f, -3e38f}), {}, {}};
  t.c.rows = 1;
  t.c.cols = 4;
  EXPECT_EQ(values_of(run(*backend_, t)), (Values{1, -1, 1, -1}));
  t.in = bytes_of({1, kNaN, 2, 3});
  for (const float x : values_of(run(*backend_, t))) EXPECT_TRUE(std::isnan(x));
}

// ---- the shadow ----

class FaultyNorm final : public model::Reference {
 public:
  const char *name() const override { return "faulty"; }
  void run(const npu_cmd_norm &c, const void *in, const void *scale, const void *bias, void *out) override {
    Reference::run(c, in, scale, bias, out);
    flip_last(out, size_t{c.rows} * c.cols * size_of(c.out_dtype));
  }
};

TEST(NormShadow, ReportsWrongResults) {
  Random r(42);
  std::vector<RunBytesOn> runs;
  for (int i = 0; i < 200; ++i)
    runs.push_back([t = random_norm(r)](model::Backend &backend) { return run(backend, t); });
  expect_shadowed_bytes<FaultyNorm>("NORM", runs);
}

// ---- the chip ----

TEST_F(NormChecks, RunsOnTheChipWithVectorsInMemoryAndInLocalMemory) {
  Random r(43);
  for (int i = 0; i < 80 && !HasFatalFailure(); ++i) {
    NormCase t = random_norm(r);
    if (t.in.size() > 16000) continue;
    const Bytes want = by_reference(t);
    Values vectors = t.c.flags & NPU_NORMF_SCALE ? t.scale : Values{};
    if (t.c.flags & NPU_NORMF_BIAS) vectors.insert(vectors.end(), t.bias.begin(), t.bias.end());
    const Bytes param = vectors.empty() ? Bytes(4) : bytes_of(vectors);
    t.c.in_addr = 0;
    t.c.out_addr = 40000;
    const bool memory = i % 2;
    if (t.c.flags) {
      t.c.param_region = memory ? 0 : kLocal;
      // In memory: at an odd place behind what is loaded from there.
      t.c.param_offset = memory ? kRegion - param.size() - 3 : 20000;
      if (memory) m_.put(area_, t.c.param_offset, param.data(), param.size());
    }
    const Bytes got =
        bytes_on_chip(t.c, {{0, t.in}, {20000, memory ? Bytes(4) : param}}, 40000, static_cast<uint32_t>(want.size()));
    expect_elements(t.c.out_dtype, want, got, describe(t.c));
  }
}

}  // namespace
}  // namespace npu::test
