// SPDX-License-Identifier: MIT
// SELECT: what the chip accepts, what it costs, how it is cut, and its results on every back end.
#include <algorithm>
#include <sstream>

#include "tests/unit/commands/command.h"

namespace npu::test {
namespace {

npu_cmd_select select(uint8_t type = NPU_DTYPE_F32) {
  return with<npu_cmd_select>([=](npu_cmd_select &c) {
    c.dtype = type;
    c.b_addr = 1024;
    c.out_addr = 4096;
    c.c_addr = 2048;
    std::fill_n(c.dims, 5, 1u);
    c.dims[3] = 3;
    c.dims[4] = 8;
    c.a_stride[3] = 10;
    c.a_stride[4] = c.b_stride[4] = c.c_stride[4] = 1;
    c.c_stride[3] = 9;
  });
}

class SelectChecks : public Checks {};

TEST_F(SelectChecks, Encoding) { encoding({kTiu}, select(), 0, 0, 19); }

TEST_F(SelectChecks, Fields) {
  for (unsigned i = 0; i < 5; ++i) BAD(select(), 32 + 4 * i, c.dims[i] = 0);
  for (unsigned t = 0; t < 16; ++t) {
    const auto type = static_cast<uint8_t>(t);
    if (std::count(std::begin(kWholeTypes), std::end(kWholeTypes), type))
      ok(kTiu, select(type));
    else
      BAD(select(), 28, c.dtype = type);
  }
}

TEST_F(SelectChecks, Operands) {
  for (const uint8_t type : {NPU_DTYPE_U8, NPU_DTYPE_BF16, NPU_DTYPE_F32, NPU_DTYPE_S64}) {
    const uint32_t size = size_of(type);
    local_operand(
        select(type), 28 * size, false, [](auto &x, uint32_t v) { x.a_addr = v; }, size);
    local_operand(
        select(type), 8 * size, false, [](auto &x, uint32_t v) { x.b_addr = v; }, size);
    local_operand(
        select(type), 24 * size, true, [](auto &x, uint32_t v) { x.out_addr = v; }, size);
    local_operand(
        select(type), 26, false, [](auto &x, uint32_t v) { x.c_addr = v; }, 1);
  }
  npu_cmd_select c = select();
  std::fill_n(c.dims, 5, 0xffffffffu);
  std::fill_n(c.c_stride, 5, 0xffffffffu);
  std::fill_n(c.a_stride, 5, 0u);
  std::fill_n(c.b_stride, 5, 0u);
  access(kTiu, c, NPU_STATUS_LMEM_BOUNDS, kLocal, 4096, 0xffffffff, true);
}

TEST(SelectCost, IsAsComputedByHand) {
  npu_cmd_select c = with<npu_cmd_select>([](npu_cmd_select &s) {
    std::fill_n(s.dims, 5, 1u);
    s.dims[3] = 10;
    s.dims[4] = 100;
    s.a_stride[3] = 100;
    s.a_stride[4] = s.b_stride[4] = s.c_stride[3] = 1;
  });
  // 1000 results and as many of a, 100 of b, 10 conditions: 8410 bytes, 16.4; 8 rounds of lanes.
  expect_cost(c, 32 + 17, 0, 0, "local memory decides");
  c.dtype = NPU_DTYPE_U8;  // 2110 bytes, 4.1; 2 rounds of 512
  expect_cost(c, 32 + 5, 0, 0, "8 bits");
  c.dtype = NPU_DTYPE_S64;  // 16810 bytes, 32.8
  expect_cost(c, 32 + 33, 0, 0, "64 bits");
  std::fill_n(c.a_stride, 5, 0u);
  c.b_stride[4] = 0;
  c.dtype = NPU_DTYPE_S16;  // 2000 + 4 + 10 bytes, 3.93; 3.9 rounds of 256
  expect_cost(c, 32 + 4, 0, 0, "of two numbers");
}

// ---- random commands ----

struct SelectCase {
  npu_cmd_select c;
  Bytes a, b, condition;
  size_t count() const {
    size_t n = 1;
    for (const uint32_t d : c.dims) n *= d;
    return n;
  }
};

SelectCase random_select(Random &r) {
  SelectCase t{select(kWholeTypes[r.range(0, 9)]), {}, {}, {}};
  npu_cmd_select &c = t.c;
  for (int d = 0; d < 5; ++d) c.dims[d] = r.chance(2) ? 1 : d == 4 ? r.range(1, 40) : r.range(1, 5);
  const auto operand = [&](uint32_t(&stride)[5], uint32_t size) {
    uint32_t step = 1;
    for (int d = 4; d >= 0; --d) {
      stride[d] = r.chance(4) ? 0 : step;
      if (stride[d]) step *= c.dims[d];
      if (r.chance(5)) step += r.range(1, 3);
    }
    size_t last = 0;
    for (int d = 0; d < 5; ++d) last += size_t{c.dims[d] - 1} * stride[d];
    return random_elements(r, NPU_DTYPE_U8, (last + 1) * size);
  };
  t.a = operand(c.a_stride, size_of(c.dtype));
  t.b = operand(c.b_stride, size_of(c.dtype));
  t.condition = operand(c.c_stride, 1);
  for (uint8_t &x : t.condition)
    if (r.chance(2)) x = 0;
  return t;
}

Bytes run(model::Backend &backend, const SelectCase &t) {
  Bytes out(t.count() * size_of(t.c.dtype), 0x5a);
  backend.run(t.c, t.a.data(), t.b.data(), t.condition.data(), out.data());
  return out;
}

Bytes expect(const SelectCase &t) {
  const uint32_t size = size_of(t.c.dtype);
  Bytes out;
  for (size_t index = 0; index < t.count(); ++index) {
    size_t rest = index, a = 0, b = 0, c = 0;
    for (int d = 4; d >= 0; --d) {
      a += rest % t.c.dims[d] * t.c.a_stride[d];
      b += rest % t.c.dims[d] * t.c.b_stride[d];
      c += rest % t.c.dims[d] * t.c.c_stride[d];
      rest /= t.c.dims[d];
    }
    const uint8_t *from = t.condition[c] ? &t.a[a * size] : &t.b[b * size];
    out.insert(out.end(), from, from + size);
  }
  return out;
}

std::string describe(const npu_cmd_select &c) {
  std::ostringstream s;
  s << "select type=" << int{c.dtype} << " dims/a/b/c=";
  for (int d = 0; d < 5; ++d)
    s << c.dims[d] << '/' << c.a_stride[d] << '/' << c.b_stride[d] << '/' << c.c_stride[d] << ' ';
  return s.str();
}

TEST(SelectSlices, GiveTheSameBits) {
  Random r(6);
  model::Reference reference;
  for (unsigned i = 0; i < 200; ++i) {
    const SelectCase t = random_select(r);
    const uint32_t size = size_of(t.c.dtype);
    for (const model::SliceLimits &limits : kLimits) {
      Bytes cut(t.count() * size, 0x5a);
      for_slices(t.c, limits, [&](const model::Pointwise<npu_cmd_select> &s) {
        reference.run(s.c, t.a.data() + s.a * size, t.b.data() + s.b * size, t.condition.data() + s.c_at,
                      cut.data() + s.out * size);
        return true;
      });
      ASSERT_EQ(cut, expect(t)) << describe(t.c) << " limit " << limits.operations;
    }
  }
}

class SelectResults : public OnBackend {};

INSTANTIATE_TEST_SUITE_P(Backends, SelectResults, testing::ValuesIn(backend_names()),
                         [](const auto &i) { return i.param; });

TEST_P(SelectResults, AreThoseOfPlainLoops) {
  Random r(22);
  for (int i = 0; i < 1000; ++i) {
    const SelectCase t = random_select(r);
    ASSERT_EQ(run(*backend_, t), expect(t)) << describe(t.c);
  }
}

TEST_P(SelectResults, MayReplaceADenseOperand) {
  Random r(23);
  for (int i = 0; i < 200; ++i) {
    SelectCase t = random_select(r);
    const bool first = r.chance(2);
    uint32_t step = 1;
    for (int d = 4; d >= 0; --d) {
      (first ? t.c.a_stride : t.c.b_stride)[d] = step;
      step *= t.c.dims[d];
    }
    (first ? t.a : t.b) = random_elements(r, NPU_DTYPE_U8, t.count() * size_of(t.c.dtype));
    Bytes place = first ? t.a : t.b;
    backend_->run(t.c, first ? place.data() : t.a.data(), first ? t.b.data() : place.data(), t.condition.data(),
                  place.data());
    ASSERT_EQ(place, expect(t)) << describe(t.c);
  }
}

class FaultySelect final : public model::Reference {
 public:
  const char *name() const override { return "faulty"; }
  void run(const npu_cmd_select &c, const void *a, const void *b, const void *condition, void *out) override {
    Reference::run(c, a, b, condition, out);
    static_cast<uint8_t *>(out)[0] ^= 1;
  }
};

TEST(SelectShadow, ReportsWrongResults) {
  Random r(42);
  std::vector<RunBytesOn> runs;
  for (int i = 0; i < 300; ++i)
    runs.push_back([t = random_select(r)](model::Backend &backend) { return run(backend, t); });
  expect_shadowed_bytes<FaultySelect>("SELECT", runs);
}

TEST_F(SelectChecks, RunsOnTheChip) {
  Random r(43);
  for (int i = 0; i < 100; ++i) {
    SelectCase t = random_select(r);
    const Bytes want = expect(t);
    if (t.a.size() > 10000 || t.b.size() > 10000 || want.size() > 20000) continue;
    t.c.a_addr = 0;
    t.c.b_addr = 16000;
    t.c.c_addr = 32001;
    t.c.out_addr = 40000;
    ASSERT_EQ(want, bytes_on_chip(t.c, {{0, t.a}, {16000, t.b}, {32001, t.condition}}, 40000,
                                  static_cast<uint32_t>(want.size())))
        << describe(t.c);
  }
}

}  // namespace
}  // namespace npu::test
