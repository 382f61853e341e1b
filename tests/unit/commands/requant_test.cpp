// SPDX-License-Identifier: MIT
// REQUANT: what the chip accepts, what it costs, how it is cut, and its results for all types on every back end.
#include <algorithm>
#include <sstream>

#include "tests/unit/commands/arithmetic.h"
#include "tests/unit/commands/command.h"

namespace npu::test {
namespace {

constexpr uint8_t kTypes[] = {NPU_DTYPE_F32, NPU_DTYPE_F16, NPU_DTYPE_BF16, NPU_DTYPE_S8,
                              NPU_DTYPE_U8,  NPU_DTYPE_S16, NPU_DTYPE_U16,  NPU_DTYPE_S32};
constexpr uint16_t kBoth = NPU_REQUANTF_IN_SCALES | NPU_REQUANTF_OUT_SCALES;

void set_in(npu_cmd_requant &c, const Kind &k) { c.in_dtype = k.dtype, c.in_scale = k.scale, c.in_zp = k.zero; }
void set_out(npu_cmd_requant &c, const Kind &k) { c.out_dtype = k.dtype, c.out_scale = k.scale, c.out_zp = k.zero; }

npu_cmd_requant requant(uint16_t flags = 0) {
  return with<npu_cmd_requant>([=](npu_cmd_requant &c) {
    c.flags = flags;
    c.rows = 3;
    c.cols = 10;
    c.out_addr = 4096;
    if (flags) c.param_region = kLocal;
    if (flags & NPU_REQUANTF_IN_SCALES) set_in(c, {NPU_DTYPE_U8, 1, 128});
    if (flags & NPU_REQUANTF_OUT_SCALES) set_out(c, {NPU_DTYPE_S8, 1, -1});
  });
}

class RequantChecks : public Checks {};

TEST_F(RequantChecks, Encoding) { encoding({kTiu}, requant(), 0, 3, 56); }

TEST_F(RequantChecks, Fields) {
  BAD(requant(), 24, c.rows = 0);
  BAD(requant(), 32, c.cols = 0);
  BAD(requant(), 40, c.param_offset = 4);
  BAD(requant(), 49, c.param_region = 1);
  BAD(requant(), 60, c.in_pitch = 9);
  BAD(requant(), 64, c.out_pitch = 9);
  for (const uint8_t act : {NPU_ACT_EXP, NPU_ACT_GELU, NPU_ACT_COS}) BAD(requant(), 31, c.act = act);
  activation_parameters(requant(), [](npu_cmd_requant &c, uint8_t act) { c.act = act; });
  for (const uint8_t t : {NPU_DTYPE_U32, NPU_DTYPE_S4, NPU_DTYPE_U4, NPU_DTYPE_S64}) {
    BAD(requant(), 28, c.in_dtype = t);
    BAD(requant(), 30, c.out_dtype = t);
  }
  for (const uint8_t type : kTypes) {
    try_numbers(*this, requant(), type, 52, 112, [](npu_cmd_requant &c, const Kind &k) { set_in(c, k); });
    try_numbers(*this, requant(), type, 56, 116, [](npu_cmd_requant &c, const Kind &k) { set_out(c, k); });
  }
}

TEST_F(RequantChecks, AScaleForEachColumnTakesThePlaceOfTheOne) {
  ok(kTiu, requant(NPU_REQUANTF_IN_SCALES));
  ok(kTiu, requant(NPU_REQUANTF_OUT_SCALES));
  ok(kTiu, requant(kBoth));
  BAD(requant(kBoth), 52, c.in_scale = 2);
  BAD(requant(kBoth), 52, c.in_scale = 0);
  BAD(requant(kBoth), 56, c.out_scale = 0.5f);
  // Floating-point numbers have none.
  BAD(requant(kBoth), 52, set_in(c, {NPU_DTYPE_F32, 0, 0}));
  BAD(requant(kBoth), 56, set_out(c, {NPU_DTYPE_F16, 0, 0}));
}

TEST_F(RequantChecks, Operands) {
  npu_cmd_requant c = requant(kBoth);
  set_in(c, {NPU_DTYPE_S32, 1, 0});
  set_out(c, {NPU_DTYPE_S16, 1, 0});
  c.in_pitch = 12;
  c.out_pitch = 15;
  local_operand(c, (24 + 10) * 4, false, [](auto &x, uint32_t v) { x.in_addr = v; });
  local_operand(
      c, (30 + 10) * 2, true, [](auto &x, uint32_t v) { x.out_addr = v; }, 2);
  local_operand(c, 80, false, [](auto &x, uint32_t v) { x.param_offset = v; });
  const auto param = [](auto &x, uint8_t region, uint64_t offset) {
    x.param_region = region;
    x.param_offset = offset;
  };
  region_operand(c, 80, false, param);
  region_operand(requant(NPU_REQUANTF_IN_SCALES), 40, false, param);
  region_operand(requant(NPU_REQUANTF_OUT_SCALES), 40, false, param);
  c = requant();
  set_in(c, {NPU_DTYPE_U8, 1, 0});
  set_out(c, {NPU_DTYPE_BF16, 0, 0});
  local_operand(
      c, 30, false, [](auto &x, uint32_t v) { x.in_addr = v; }, 1);
  local_operand(
      c, 60, true, [](auto &x, uint32_t v) { x.out_addr = v; }, 2);
}

TEST(RequantCost, IsAsComputedByHand) {
  npu_cmd_requant c = with<npu_cmd_requant>([](npu_cmd_requant &q) { q.rows = 20, q.cols = 50; });
  set_out(c, {NPU_DTYPE_S8, 1, 0});
  expect_cost(c, 32 + 10, 0, 0, "5000 bytes are 9.8 cycles, 1000 elements 7.8 rounds of 128");
  set_in(c, {NPU_DTYPE_U8, 1, 0});
  expect_cost(c, 32 + 4, 0, 0, "2000 bytes, 2 rounds of 512");
  c.act = NPU_ACT_SIGMOID;
  expect_cost(c, 32 + 4 * 2, 0, 0, "a function passes four times");
  c.act = NPU_ACT_CLIP;
  c.in_pitch = c.out_pitch = 1000;
  c.flags = NPU_REQUANTF_IN_SCALES;
  expect_cost(c, 32 + 4, 4 * 64, 0, "200 bytes of scales flow");
  c.flags = kBoth;
  expect_cost(c, 32 + 4, 7 * 64, 0, "400");
  c.param_region = NPU_REGION_LOCAL;  // 2400 bytes: 4.7
  expect_cost(c, 32 + 5, 0, 0, "in local memory they are an operand as the others");
}

// ---- random commands ----

struct RequantCase {
  npu_cmd_requant c;
  Bytes in;
  Values in_scales, out_scales;
  size_t in_pitch() const { return c.in_pitch ? c.in_pitch : c.cols; }
  size_t out_pitch() const { return c.out_pitch ? c.out_pitch : c.cols; }
  Bytes place() const { return Bytes(((c.rows - 1) * out_pitch() + c.cols) * size_of(c.out_dtype), 0x5a); }
};

/// `functions`: also activations that are not exact.
RequantCase random_requant(Random &r, bool functions) {
  RequantCase t{requant(), {}, {}, {}};
  npu_cmd_requant &c = t.c;
  set_in(c, random_kind(r, kTypes));
  set_out(c, random_kind(r, kTypes));
  if (!is_real(c.in_dtype) && r.chance(2)) c.flags |= NPU_REQUANTF_IN_SCALES, c.in_scale = 1;
  if (!is_real(c.out_dtype) && r.chance(2)) c.flags |= NPU_REQUANTF_OUT_SCALES, c.out_scale = 1;
  c.rows = r.range(1, 12);
  c.cols = r.chance(3) ? r.range(200, 600) : r.range(1, 40);
  if (r.chance(2)) c.in_pitch = c.cols + r.range(0, 5);
  if (r.chance(2)) c.out_pitch = c.cols + r.range(0, 5);
  random_activation(r, c.act, c.act_a, c.act_b);
  if (!functions && c.act > NPU_ACT_LEAKY_RELU) c.act = NPU_ACT_NONE;
  t.in = random_elements(r, c.in_dtype, (c.rows - 1) * t.in_pitch() + c.cols);
  const auto scales = [&] {
    Values v(c.cols);
    for (float &x : v) x = random_kind_of(r, NPU_DTYPE_S8).scale;
    return v;
  };
  t.in_scales = scales();
  t.out_scales = scales();
  return t;
}

Bytes run(model::Backend &backend, const RequantCase &t) {
  Bytes out = t.place();
  backend.run(t.c, t.in.data(), t.c.flags & NPU_REQUANTF_IN_SCALES ? t.in_scales.data() : nullptr,
              t.c.flags & NPU_REQUANTF_OUT_SCALES ? t.out_scales.data() : nullptr, out.data());
  return out;
}

Bytes expect(const RequantCase &t) {
  const npu_cmd_requant &c = t.c;
  Bytes out = t.place();
  for (size_t row = 0; row < c.rows; ++row)
    for (size_t i = 0; i < c.cols; ++i) {
      const Kind from{c.in_dtype, c.flags & NPU_REQUANTF_IN_SCALES ? t.in_scales[i] : c.in_scale, c.in_zp};
      const Kind to{c.out_dtype, c.flags & NPU_REQUANTF_OUT_SCALES ? t.out_scales[i] : c.out_scale, c.out_zp};
      const float x = load(from, t.in.data(), row * t.in_pitch() + i);
      store(to, activated(c.act, c.act_a, c.act_b, x), out.data(), row * t.out_pitch() + i);
    }
  return out;
}

std::string describe(const npu_cmd_requant &c) {
  std::ostringstream s;
  s << "requant flags=" << c.flags << ' ' << c.rows << 'x' << c.cols << " pitches=" << c.in_pitch << ',' << c.out_pitch
    << " types=" << int{c.in_dtype} << ',' << int{c.out_dtype} << " scales=" << c.in_scale << ',' << c.out_scale
    << " zeros=" << c.in_zp << ',' << c.out_zp << " act=" << int{c.act} << ' ' << c.act_a << ',' << c.act_b;
  return s.str();
}

// ---- slices ----

TEST(RequantSlices, GiveTheSameBits) {
  Random r(6);
  model::Reference reference;
  for (unsigned i = 0; i < 150 && !testing::Test::HasFatalFailure(); ++i) {
    const RequantCase t = random_requant(r, true);
    const Bytes whole = run(reference, t);
    for (const model::SliceLimits &limits : kLimits) {
      Bytes cut = t.place();
      for_slices(t.c, limits, [&](const model::Pointwise<npu_cmd_requant> &s) {
        EXPECT_LE(s.param + s.c.cols, t.c.cols);
        reference.run(s.c, t.in.data() + s.a * size_of(t.c.in_dtype),
                      t.c.flags & NPU_REQUANTF_IN_SCALES ? t.in_scales.data() + s.param : nullptr,
                      t.c.flags & NPU_REQUANTF_OUT_SCALES ? t.out_scales.data() + s.param : nullptr,
                      cut.data() + s.out * size_of(t.c.out_dtype));
        return true;
      });
      expect_elements(t.c.out_dtype, whole, cut, describe(t.c) + " limit " + std::to_string(limits.operations));
    }
  }
}

// ---- results ----

class RequantResults : public OnBackend {};

INSTANTIATE_TEST_SUITE_P(Backends, RequantResults, testing::ValuesIn(backend_names()),
                         [](const auto &i) { return i.param; });

TEST_P(RequantResults, OfAllTypesAreThoseOfPlainLoops) {
  Random r(22);
  for (int i = 0; i < 1000 && !HasFatalFailure(); ++i) {
    const RequantCase t = random_requant(r, GetParam() == "reference");
    expect_elements(t.c.out_dtype, expect(t), run(*backend_, t), describe(t.c));
  }
}

TEST_P(RequantResults, OfFunctionsAreNear) {
  Random r(23);
  for (int i = 0; i < 200 && !HasFatalFailure(); ++i) {
    RequantCase t = random_requant(r, true);
    t.c.act = r.chance(2) ? NPU_ACT_SIGMOID : NPU_ACT_TANH;
    t.c.act_a = t.c.act_b = 0;
    for (float &x : t.out_scales) x = std::max(x, 1e-4f);  // steps of no fewer digits than the result has
    if (!is_real(t.c.out_dtype)) t.c.out_scale = std::max(t.c.out_scale, 1e-4f);
    const Leeway l = leeway_of(t.c.out_dtype, GetParam() != "reference");
    expect_near_elements(t.c.out_dtype, expect(t), run(*backend_, t), l.steps, describe(t.c), l.least);
  }
}

TEST_P(RequantResults, MayTakeThePlaceOfElementsOfTheirSize) {
  Random r(24);
  unsigned tried = 0;
  for (int i = 0; i < 400 && !HasFatalFailure(); ++i) {
    RequantCase t = random_requant(r, false);
    if (size_of(t.c.in_dtype) != size_of(t.c.out_dtype)) continue;
    t.c.in_pitch = t.c.out_pitch = t.c.cols;
    t.in.resize(t.place().size());
    const Bytes want = expect(t);
    backend_->run(t.c, t.in.data(), t.c.flags & NPU_REQUANTF_IN_SCALES ? t.in_scales.data() : nullptr,
                  t.c.flags & NPU_REQUANTF_OUT_SCALES ? t.out_scales.data() : nullptr, t.in.data());
    expect_elements(t.c.out_dtype, want, t.in, describe(t.c));
    ++tried;
  }
  EXPECT_GT(tried, 50u);
}

// QuantizeLinear, DequantizeLinear and both in one.
TEST_P(RequantResults, AreThoseOfOnnx) {
  const auto of = [&](const Kind &from, const Bytes &in, const Kind &to) {
    RequantCase t{requant(), in, {}, {}};
    set_in(t.c, from);
    set_out(t.c, to);
    t.c.rows = 1;
    t.c.cols = static_cast<uint32_t>(in.size() / size_of(from.dtype));
    return run(*backend_, t);
  };
  const Kind real{}, u8{NPU_DTYPE_U8, 2, 128}, s8{NPU_DTYPE_S8, 0.5f, -3};
  EXPECT_EQ(of(real, bytes_of({0, 2, 3, 1000, -254, -1000, 1, 5}), u8), (Bytes{128, 129, 130, 255, 1, 0, 128, 130}));
  EXPECT_EQ(values_of(of(u8, {0, 1, 128, 255}, real)), (Values{-256, -254, 0, 254}));
  EXPECT_EQ(of(u8, {120, 128, 129, 255}, s8), (Bytes{uint8_t(-35), uint8_t(-3), 1, 127}));
}

// ---- the shadow ----

class FaultyRequant final : public model::Reference {
 public:
  const char *name() const override { return "faulty"; }
  void run(const npu_cmd_requant &c, const void *in, const void *in_scales, const void *out_scales,
           void *out) override {
    Reference::run(c, in, in_scales, out_scales, out);
    flip_last(out, RequantCase{c, {}, {}, {}}.place().size());
  }
};

TEST(RequantShadow, ReportsWrongResults) {
  Random r(42);
  std::vector<RunBytesOn> runs;
  for (int i = 0; i < 300; ++i) {
    RequantCase t = random_requant(r, true);
    // Steps of no fewer digits than the result has: else a right one may be many of them off.
    for (float &x : t.out_scales) x = std::max(x, 1e-4f);
    if (!is_real(t.c.out_dtype)) t.c.out_scale = std::max(t.c.out_scale, 1e-4f);
    runs.push_back([t](model::Backend &backend) { return run(backend, t); });
  }
  expect_shadowed_bytes<FaultyRequant>("REQUANT", runs);
}

// ---- the chip ----

TEST_F(RequantChecks, RunsOnTheChipWithScalesInMemoryAndInLocalMemory) {
  Random r(43);
  for (int i = 0; i < 100 && !HasFatalFailure(); ++i) {
    RequantCase t = random_requant(r, true);
    const Bytes place = t.place(), want = expect(t);
    Values vectors = t.c.flags & NPU_REQUANTF_IN_SCALES ? t.in_scales : Values{};
    if (t.c.flags & NPU_REQUANTF_OUT_SCALES) vectors.insert(vectors.end(), t.out_scales.begin(), t.out_scales.end());
    const Bytes param = vectors.empty() ? Bytes(4) : bytes_of(vectors);
    const bool memory = i % 2;
    if (t.in.size() > 16000 || place.size() > 24000 || t.in.size() + place.size() + param.size() > 32000) continue;
    t.c.in_addr = 0;
    t.c.out_addr = 40000;
    if (t.c.flags) {
      t.c.param_region = memory ? 0 : kLocal;
      t.c.param_offset = memory ? kRegion - param.size() - 1 : 20000;
      if (memory) m_.put(area_, t.c.param_offset, param.data(), param.size());
    }
    const Bytes got = bytes_on_chip(t.c, {{0, t.in}, {20000, memory ? Bytes(4) : param}, {40000, place}}, 40000,
                                    static_cast<uint32_t>(place.size()));
    expect_elements(t.c.out_dtype, want, got, describe(t.c));
  }
}

}  // namespace
}  // namespace npu::test
