// SPDX-License-Identifier: MIT
// LUT: what the chip accepts, what it costs, how it is cut, and its results on every back end.
#include <algorithm>

#include "tests/unit/commands/command.h"

namespace npu::test {
namespace {

/// What a table may hold.
constexpr uint8_t kTableTypes[] = {NPU_DTYPE_F32, NPU_DTYPE_F16, NPU_DTYPE_S8,  NPU_DTYPE_U8,  NPU_DTYPE_S16,
                                   NPU_DTYPE_U16, NPU_DTYPE_S32, NPU_DTYPE_U32, NPU_DTYPE_BF16};

npu_cmd_lut lut(uint8_t type = NPU_DTYPE_S8) {
  return with<npu_cmd_lut>([=](npu_cmd_lut &c) {
    c.count = 20;
    c.in_dtype = NPU_DTYPE_U8;
    c.out_dtype = type;
    c.out_addr = 4096;
    c.param_region = kLocal;
  });
}

class LutChecks : public Checks {};

TEST_F(LutChecks, Encoding) { encoding({kTiu}, lut(), 0, 0, 93); }

TEST_F(LutChecks, Fields) {
  BAD(lut(), 24, c.count = 0);
  for (unsigned t = 0; t < 16; ++t) {
    const auto type = static_cast<uint8_t>(t);
    if (type != NPU_DTYPE_S8 && type != NPU_DTYPE_U8) BAD(lut(), 28, c.in_dtype = type);
    if (std::count(std::begin(kTableTypes), std::end(kTableTypes), type))
      ok(kTiu, lut(type));
    else
      BAD(lut(), 30, c.out_dtype = type);
  }
  npu_cmd_lut c = lut();
  c.in_dtype = NPU_DTYPE_S8;
  ok(kTiu, c);
}

TEST_F(LutChecks, Operands) {
  for (const uint8_t type : kTableTypes) {
    const uint32_t size = size_of(type);
    local_operand(
        lut(type), 20, false, [](auto &x, uint32_t v) { x.in_addr = v; }, 1);
    local_operand(
        lut(type), 20 * size, true, [](auto &x, uint32_t v) { x.out_addr = v; }, size);
    local_operand(
        lut(type), 256 * size, false, [](auto &x, uint32_t v) { x.param_offset = v; }, size);
    region_operand(lut(type), 256 * size, false, [](auto &x, uint8_t region, uint64_t offset) {
      x.param_region = region;
      x.param_offset = offset;
    });
  }
}

TEST(LutCost, IsAsComputedByHand) {
  npu_cmd_lut c = with<npu_cmd_lut>([](npu_cmd_lut &l) {
    l.count = 5000;
    l.in_dtype = l.out_dtype = NPU_DTYPE_U8;
  });
  // 5000 in and out: 19.5 cycles of local memory, 9.8 rounds of 512 lanes.
  expect_cost(c, 32 + 20, 256, 0, "a table of bytes flows");
  c.out_dtype = NPU_DTYPE_F16;  // 15000 bytes: 29.3
  expect_cost(c, 32 + 30, 512, 0, "one of 16 bits");
  c.out_dtype = NPU_DTYPE_S32;  // 25000 bytes: 48.8; 39.06 rounds of 128
  expect_cost(c, 32 + 49, 1024, 0, "one of 32 bits");
  c.param_region = NPU_REGION_LOCAL;  // 26024: 50.8
  expect_cost(c, 32 + 51, 0, 0, "a table in local memory is an operand as the others");
}

// ---- random commands ----

struct LutCase {
  npu_cmd_lut c;
  Bytes in, table;
};

LutCase random_lut(Random &r) {
  LutCase t{lut(kTableTypes[r.range(0, 8)]), {}, {}};
  t.c.count = r.chance(3) ? r.range(500, 1500) : r.range(1, 70);
  t.c.in_dtype = r.chance(2) ? NPU_DTYPE_S8 : NPU_DTYPE_U8;
  t.in = random_elements(r, NPU_DTYPE_U8, t.c.count);
  t.table = random_elements(r, NPU_DTYPE_U8, 256 * size_of(t.c.out_dtype));  // any bits: NaNs stay as they are
  return t;
}

Bytes run(model::Backend &backend, const LutCase &t, bool in_place = false) {
  Bytes out = in_place ? t.in : Bytes(t.c.count * size_of(t.c.out_dtype), 0x5a);
  backend.run(t.c, in_place ? out.data() : t.in.data(), t.table.data(), out.data());
  return out;
}

Bytes expect(const LutCase &t) {
  const uint32_t size = size_of(t.c.out_dtype);
  Bytes out;
  for (const uint8_t index : t.in)
    out.insert(out.end(), t.table.begin() + index * size, t.table.begin() + index * size + size);
  return out;
}

TEST(LutSlices, GiveTheSameBits) {
  Random r(6);
  model::Reference reference;
  for (unsigned i = 0; i < 100; ++i) {
    const LutCase t = random_lut(r);
    for (const model::SliceLimits &limits : kLimits) {
      Bytes cut(t.c.count * size_of(t.c.out_dtype), 0x5a);
      for_slices(t.c, limits, [&](const model::Pointwise<npu_cmd_lut> &s) {
        EXPECT_EQ(s.param, 0u);
        reference.run(s.c, t.in.data() + s.a, t.table.data(), cut.data() + s.out * size_of(t.c.out_dtype));
        return true;
      });
      ASSERT_EQ(cut, expect(t)) << "limit " << limits.operations;
    }
  }
}

class LutResults : public OnBackend {};

INSTANTIATE_TEST_SUITE_P(Backends, LutResults, testing::ValuesIn(backend_names()),
                         [](const auto &i) { return i.param; });

TEST_P(LutResults, AreTheTablesBits) {
  Random r(22);
  for (int i = 0; i < 500; ++i) {
    const LutCase t = random_lut(r);
    ASSERT_EQ(run(*backend_, t), expect(t)) << "type " << int{t.c.out_dtype} << " count " << t.c.count;
    if (size_of(t.c.out_dtype) == 1) {
      ASSERT_EQ(run(*backend_, t, true), expect(t)) << "in place";
    }
  }
}

TEST_P(LutResults, OfATableAtAnyByte) {
  Random r(23);
  for (const uint8_t type : kTableTypes) {
    LutCase t = random_lut(r);
    t.c.out_dtype = type;
    t.table = random_elements(r, NPU_DTYPE_U8, 256 * size_of(type));
    for (const size_t lead : {1, 2, 3}) {
      Bytes moved(lead), out(t.c.count * size_of(type));
      moved.insert(moved.end(), t.table.begin(), t.table.end());
      backend_->run(t.c, t.in.data(), moved.data() + lead, out.data());
      EXPECT_EQ(out, expect(t));
    }
  }
}

class FaultyLut final : public model::Reference {
 public:
  const char *name() const override { return "faulty"; }
  void run(const npu_cmd_lut &c, const void *in, const void *table, void *out) override {
    Reference::run(c, in, table, out);
    static_cast<uint8_t *>(out)[0] ^= 1;  // one bit of the first element
  }
};

TEST(LutShadow, ReportsWrongResults) {
  Random r(42);
  std::vector<RunBytesOn> runs;
  for (int i = 0; i < 200; ++i)
    runs.push_back([t = random_lut(r)](model::Backend &backend) { return run(backend, t); });
  expect_shadowed_bytes<FaultyLut>("LUT", runs);
}

TEST_F(LutChecks, RunsOnTheChipWithTablesInMemoryAndInLocalMemory) {
  Random r(43);
  for (int i = 0; i < 80; ++i) {
    LutCase t = random_lut(r);
    const bool memory = i % 2;
    t.c.in_addr = 3;
    t.c.out_addr = 40000;
    t.c.param_region = memory ? 0 : kLocal;
    t.c.param_offset = memory ? kRegion - t.table.size() - 5 : 20000;
    if (memory) m_.put(area_, t.c.param_offset, t.table.data(), t.table.size());
    const Bytes want = expect(t);
    ASSERT_EQ(want, bytes_on_chip(t.c, {{3, t.in}, {20000, memory ? Bytes(4) : t.table}}, 40000,
                                  static_cast<uint32_t>(want.size())));
  }
}

}  // namespace
}  // namespace npu::test
