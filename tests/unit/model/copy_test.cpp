// SPDX-License-Identifier: MIT
// The DMA unit against a loop over elements: random shapes, strides, types and places.
#include <algorithm>
#include <random>

#include "tests/unit/model/machine.h"

namespace npu::test {
namespace {

constexpr uint8_t kTypes[] = {NPU_DTYPE_U8, NPU_DTYPE_S16, NPU_DTYPE_F32, NPU_DTYPE_S64};
unsigned type_bytes(uint8_t t) { return t == NPU_DTYPE_U8 ? 1 : t == NPU_DTYPE_S16 ? 2 : t == NPU_DTYPE_F32 ? 4 : 8; }

/// One side of a transfer as the test knows it: strides in elements and the first element's byte offset.
struct Side {
  int32_t stride[6] = {};
  uint64_t offset = 0;
  uint64_t span = 0;  ///< bytes from 0 that it may touch
};

using Dims = std::array<uint32_t, 6>;

/// Calls f(dst byte, src byte) for each element in row-major order.
template <class F>
void each(const Dims &dims, const int32_t (&dst)[6], const int32_t (&src)[6], F f) {
  uint32_t i[6] = {};
  for (;;) {
    int64_t d = 0, s = 0;
    for (unsigned k = 0; k < 6; ++k) {
      d += int64_t{i[k]} * dst[k];
      s += int64_t{i[k]} * src[k];
    }
    f(d, s);
    unsigned k = 6;
    while (k-- > 0 && ++i[k] == dims[k]) i[k] = 0;
    if (k == ~0u) return;
  }
}

class CopyFuzz {
 public:
  explicit CopyFuzz(unsigned seed) : rng_(seed) {}

  uint32_t upto(uint32_t n) { return std::uniform_int_distribution<uint32_t>(0, n)(rng_); }

  Dims dims(uint64_t limit) {
    Dims d;
    do {
      for (auto &x : d) x = upto(3) == 0 ? 1 + upto(40) : 1 + upto(4);
      if (upto(3) == 0) d[upto(5)] = 1 + upto(2000);
    } while (product(d) > limit);
    return d;
  }

  static uint64_t product(const Dims &d) {
    uint64_t n = 1;
    for (uint32_t x : d) n *= x;
    return n;
  }

  /// Strides without overlap: a random order of the dims, some of them with gaps, some negative.
  Side injective(const Dims &dims, unsigned size) {
    Side s;
    unsigned order[6] = {0, 1, 2, 3, 4, 5};
    if (upto(2)) std::shuffle(order, order + 6, rng_);
    int64_t reach = 1;
    for (unsigned k = 6; k-- > 0;) {
      const unsigned i = order[k];
      const int64_t gap = upto(3) == 0 ? upto(5) : 0;
      s.stride[i] = static_cast<int32_t>(reach + gap);
      reach = (reach + gap) * dims[i];
      if (dims[i] == 1 && upto(1)) s.stride[i] = static_cast<int32_t>(upto(1000)) - 500;
    }
    finish(s, dims, size);
    return s;
  }

  /// Any strides: broadcasts, overlaps.
  Side any(const Dims &dims, unsigned size) {
    Side s = injective(dims, size);
    for (auto &x : s.stride)
      if (upto(2) == 0) x = upto(1) ? 0 : static_cast<int32_t>(upto(20)) - 10;
    finish(s, dims, size);
    return s;
  }

 private:
  void finish(Side &s, const Dims &dims, unsigned size) {
    int64_t low = 0, high = 0;
    for (unsigned i = 0; i < 6; ++i) {
      if (upto(3) == 0) s.stride[i] = -s.stride[i];
      const int64_t reach = int64_t{s.stride[i]} * (dims[i] - 1);
      (reach < 0 ? low : high) += reach;
    }
    s.offset = static_cast<uint64_t>(-low) * size;
    s.span = static_cast<uint64_t>(high - low + 1) * size;
  }

  std::mt19937 rng_;
};

/// A place for one side: an area with unaligned edges, or a piece of local memory.
struct Spot {
  bool local = false;
  uint64_t local_at = 0;
  Area area;
};

/// Runs commands of a job that first loads local memory, then does the command, then saves local memory.
class CopyTest {
 public:
  explicit CopyTest(Machine &m) : m_(m), before_(m.allocate(kLocal)), after_(m.allocate(kLocal)) {}

  static constexpr uint64_t kLocal = 256 * 1024;

  Cmd whole(bool save) {
    return with<npu_cmd_copy>([&](npu_cmd_copy &c) {
      c.src_dtype = c.dst_dtype = NPU_DTYPE_U8;
      c.src_region = save ? NPU_REGION_LOCAL : 0;
      c.dst_region = save ? 1 : NPU_REGION_LOCAL;
      std::fill_n(c.dims, 6, 1u);
      c.dims[5] = kLocal;
      c.src_stride[5] = c.dst_stride[5] = 1;
    });
  }

  /// Region 2 is the source, 3 the destination.
  npu_cqe run(const Cmd &c, const Area &src, const Area &dst, const std::vector<uint8_t> &local) {
    m_.put(before_, 0, local.data(), kLocal);
    JobSpec j;
    j.regions = {before_.region(), after_.region(), src.region(NPU_ACCESS_READ), dst.region(NPU_ACCESS_WRITE)};
    j.gdma(whole(false)).gdma(c).gdma(whole(true));
    return m_.run(j);
  }

  std::vector<uint8_t> local() { return m_.content(after_); }

 private:
  Machine &m_;
  const Area before_, after_;
};

std::vector<uint8_t> noise(uint64_t bytes, unsigned seed) {
  std::vector<uint8_t> v(bytes);
  std::mt19937 rng(seed);
  for (auto &x : v) x = static_cast<uint8_t>(rng());
  return v;
}

/// One random transfer between two kinds of places. kind 0 is local memory.
void random_copy(Machine &m, CopyTest &t, CopyFuzz &f, unsigned src_kind, unsigned dst_kind, bool overlapping,
                 unsigned seed) {
  const uint8_t type = kTypes[f.upto(3)];
  const unsigned size = type_bytes(type);
  Dims dims;
  Side src, dst;
  const uint64_t room = CopyTest::kLocal / 2 - 64;
  do {
    dims = f.dims(20000);
    src = f.upto(1) ? f.any(dims, size) : f.injective(dims, size);
    dst = overlapping ? f.any(dims, size) : f.injective(dims, size);
  } while (src.span > room || dst.span > room);
  const auto area = [&](unsigned kind, uint64_t bytes) {
    return kind ? m.allocate_at(f.upto(5000), bytes, kPlaces[kind - 1]) : m.allocate(8);
  };
  const Area from = area(src_kind, src.span), to = area(dst_kind, dst.span);
  std::vector<uint8_t> local = noise(CopyTest::kLocal, seed), source = noise(src.span, seed + 1),
                       expected(dst.span, 0xee);
  const uint64_t src_local = f.upto(3) * 8, dst_local = CopyTest::kLocal / 2 + f.upto(3) * 8;
  if (src_kind)
    m.put(from, 0, source.data(), source.size());
  else
    std::memcpy(&local[src_local], source.data(), source.size());
  if (dst_kind)
    m.put(to, 0, expected.data(), expected.size());
  else
    std::memcpy(expected.data(), &local[dst_local], expected.size());
  each(dims, dst.stride, src.stride, [&](int64_t d, int64_t s) {
    std::memcpy(&expected[dst.offset + static_cast<uint64_t>(d * size)],
                &source[src.offset + static_cast<uint64_t>(s * size)], size);
  });
  const Cmd c = with<npu_cmd_copy>([&](npu_cmd_copy &x) {
    x.src_dtype = x.dst_dtype = type;
    x.src_region = src_kind ? 2 : NPU_REGION_LOCAL;
    x.dst_region = dst_kind ? 3 : NPU_REGION_LOCAL;
    x.src_offset = src.offset + (src_kind ? 0 : src_local);
    x.dst_offset = dst.offset + (dst_kind ? 0 : dst_local);
    std::copy(dims.begin(), dims.end(), x.dims);
    std::copy_n(src.stride, 6, x.src_stride);
    std::copy_n(dst.stride, 6, x.dst_stride);
  });
  ASSERT_STATUS(t.run(c, from, to, local), NPU_STATUS_OK);
  if (!dst_kind) std::memcpy(&local[dst_local], expected.data(), expected.size());
  ASSERT_EQ(t.local(), local) << "local memory, seed " << seed;
  if (dst_kind) {
    ASSERT_EQ(m.content(to), expected) << "seed " << seed;
  }
  if (src_kind) {
    ASSERT_EQ(m.content(from), source);
  }
}

class CopyPlaces : public testing::TestWithParam<std::tuple<unsigned, unsigned>> {};

TEST_P(CopyPlaces, EqualsALoopOverElements) {
  const auto [src, dst] = GetParam();
  Machine m({.cores = 1, .ddr = 512 << 20});
  CopyTest t(m);
  CopyFuzz f(src * 16 + dst);
  for (unsigned i = 0; i < 40 && !testing::Test::HasFatalFailure(); ++i)
    random_copy(m, t, f, src, dst, i % 5 == 4, i * 7 + 1);
}

INSTANTIATE_TEST_SUITE_P(All, CopyPlaces, testing::Combine(testing::Range(0u, 6u), testing::Range(0u, 6u)));

/// Transfers of many steps between two places in memory.
TEST(Copy, LargeShapesEqualALoopOverElements) {
  Machine m({.cores = 1, .ddr = 1024 << 20});
  CopyFuzz f(99);
  for (unsigned i = 0; i < 30; ++i) {
    const uint8_t type = kTypes[f.upto(3)];
    const unsigned size = type_bytes(type);
    Dims dims;
    Side src, dst;
    do {
      dims = f.dims(400000);
      src = f.upto(2) ? f.injective(dims, size) : f.any(dims, size);
      dst = f.injective(dims, size);
    } while (CopyFuzz::product(dims) < 50000 || src.span > 8 << 20 || dst.span > 8 << 20);
    const Area from = m.allocate_at(f.upto(5000), src.span, kPlaces[i % 5]);
    const Area to = m.allocate_at(f.upto(5000), dst.span, kPlaces[i / 5 % 5]);
    const auto source = noise(src.span, i);
    std::vector<uint8_t> expected(dst.span, 0xee);
    m.put(from, 0, source.data(), source.size());
    m.put(to, 0, expected.data(), expected.size());
    each(dims, dst.stride, src.stride, [&](int64_t d, int64_t s) {
      std::memcpy(&expected[dst.offset + static_cast<uint64_t>(d * size)],
                  &source[src.offset + static_cast<uint64_t>(s * size)], size);
    });
    JobSpec j;
    j.regions = {from.region(), to.region()};
    j.gdma(with<npu_cmd_copy>([&](npu_cmd_copy &x) {
      x.src_dtype = x.dst_dtype = type;
      x.dst_region = 1;
      x.src_offset = src.offset;
      x.dst_offset = dst.offset;
      std::copy(dims.begin(), dims.end(), x.dims);
      std::copy_n(src.stride, 6, x.src_stride);
      std::copy_n(dst.stride, 6, x.dst_stride);
    }));
    ASSERT_STATUS(m.run(j), NPU_STATUS_OK);
    ASSERT_TRUE(m.content(to) == expected) << i;
  }
}

// ---- shapes that compilers use ----

Cmd copy_2(uint8_t type, const Dims &dims, const std::array<int32_t, 6> &dst, const std::array<int32_t, 6> &src) {
  return with<npu_cmd_copy>([&](npu_cmd_copy &c) {
    c.src_dtype = c.dst_dtype = type;
    c.dst_region = 1;
    std::copy(dims.begin(), dims.end(), c.dims);
    std::copy(src.begin(), src.end(), c.src_stride);
    std::copy(dst.begin(), dst.end(), c.dst_stride);
  });
}

TEST(Copy, NchwToNhwcAndBack) {
  Machine m;
  const uint32_t n = 2, ch = 3, h = 50, w = 64;
  const uint64_t bytes = uint64_t{n} * ch * h * w * 4;
  for (Place place : kPlaces) {
    const Area a = m.allocate(bytes, place), b = m.allocate(bytes, place), c = m.allocate(bytes, place);
    const auto data = noise(bytes, 3);
    m.put(a, 0, data.data(), bytes);
    const Dims dims{1, 1, n, ch, h, w};
    const std::array<int32_t, 6> nchw{0, 0, ch * h * w, h * w, w, 1}, nhwc{0, 0, h * w * ch, 1, w * ch, ch};
    JobSpec j;
    j.regions = {a.region(), b.region(), c.region()};
    j.gdma(copy_2(NPU_DTYPE_F32, dims, nhwc, nchw));
    npu_cmd_copy back = hw::decode<npu_cmd_copy>(copy_2(NPU_DTYPE_F32, dims, nchw, nhwc).bytes.data());
    back.src_region = 1;
    back.dst_region = 2;
    j.gdma(back);
    ASSERT_STATUS(m.run(j), NPU_STATUS_OK);
    const auto got = m.content(b);
    for (uint32_t i = 0; i < n; ++i)
      for (uint32_t k = 0; k < ch; ++k)
        for (uint32_t y = 0; y < h; ++y)
          for (uint32_t x = 0; x < w; ++x)
            ASSERT_EQ(
                std::memcmp(&got[(((i * h + y) * w + x) * ch + k) * 4], &data[(((i * ch + k) * h + y) * w + x) * 4], 4),
                0);
    EXPECT_EQ(m.content(c), data);
  }
}

TEST(Copy, LongTransfersAreDoneInSteps) {
  Machine m({.ddr = 256 << 20});
  const uint64_t bytes = 40 << 20;
  const Area a = m.allocate(bytes), b = m.allocate(bytes);
  const auto data = noise(bytes, 9);
  m.put(a, 0, data.data(), bytes);
  JobSpec j;
  j.regions = {a.region(), b.region()};
  j.gdma(copy_2(NPU_DTYPE_S64, {1, 1, 1, 1, 1, bytes / 8}, {0, 0, 0, 0, 0, 1}, {0, 0, 0, 0, 0, 1}));
  const uint64_t before = m.r64(NPU_REG_PROGRESS);
  ASSERT_STATUS(m.run(j), NPU_STATUS_OK);
  EXPECT_GE(m.r64(NPU_REG_PROGRESS) - before, 5u);
  EXPECT_EQ(m.content(b), data);
}

TEST(Copy, UnmappedPagesThatNoElementTouchesDoNotMatter) {
  Machine m;
  const Area a = m.allocate(8 * kPage), b = m.allocate(8 * kPage);
  for (const Area &x : {a, b})
    for (uint64_t page : {1, 3, 5}) m.unmap(0, x.va + page * kPage);
  const std::array<int32_t, 6> stride{0, 0, 0, 0, 2 * kPage / 4, 1};
  JobSpec j;
  j.regions = {a.region(), b.region()};
  const auto data = noise(kPage, 4);
  for (uint64_t page : {0, 2, 4, 6}) m.put(a, page * kPage, data.data(), kPage);
  j.gdma(copy_2(NPU_DTYPE_F32, {1, 1, 1, 1, 4, 1024}, stride, stride));
  j.gdma(copy_2(NPU_DTYPE_F32, {1, 1, 1, 1, 4, 7}, stride, stride));
  ASSERT_STATUS(m.run(j), NPU_STATUS_OK);
  std::vector<uint8_t> got(kPage);
  for (uint64_t page : {0, 2, 4, 6}) {
    m.get(b, page * kPage, got.data(), kPage);
    EXPECT_EQ(got, data);
  }
  const npu_cqe c = [&] {
    JobSpec bad = j;
    bad.stream[kGdma] = {copy_2(NPU_DTYPE_F32, {1, 1, 1, 1, 4, 1025}, stride, stride)};
    return m.run(bad);
  }();
  EXPECT_STATUS(c, NPU_STATUS_PAGE_FAULT);
  EXPECT_EQ(c.fault_addr, a.va + kPage);
}

// ---- fill ----

TEST(Fill, EqualsALoopOverElements) {
  Machine m({.cores = 1, .ddr = 512 << 20});
  CopyTest t(m);
  CopyFuzz f(5);
  for (unsigned i = 0; i < 120 && !testing::Test::HasFatalFailure(); ++i) {
    const unsigned kind = i % 6;
    const uint8_t type = kTypes[f.upto(3)];
    const unsigned size = type_bytes(type);
    Dims dims;
    Side dst;
    do {
      dims = f.dims(20000);
      dst = i % 5 == 4 ? f.any(dims, size) : f.injective(dims, size);
    } while (dst.span > CopyTest::kLocal);
    const Area to = kind ? m.allocate_at(f.upto(5000), dst.span, kPlaces[kind - 1]) : m.allocate(8);
    uint64_t value = 0x1122334455667788ull * (i + 1);
    if (size < 8) value &= (1ull << size * 8) - 1;
    std::vector<uint8_t> local = noise(CopyTest::kLocal, i), expected(dst.span, 0xee);
    if (kind)
      m.put(to, 0, expected.data(), expected.size());
    else
      std::copy_n(local.begin(), dst.span, expected.begin());
    each(dims, dst.stride, dst.stride, [&](int64_t d, int64_t) {
      std::memcpy(&expected[dst.offset + static_cast<uint64_t>(d * size)], &value, size);
    });
    const Cmd c = with<npu_cmd_fill>([&](npu_cmd_fill &x) {
      x.value = value;
      x.dst_dtype = type;
      x.dst_region = kind ? 3 : NPU_REGION_LOCAL;
      x.dst_offset = dst.offset;
      std::copy(dims.begin(), dims.end(), x.dims);
      std::copy_n(dst.stride, 6, x.dst_stride);
    });
    ASSERT_STATUS(t.run(c, to, to, local), NPU_STATUS_OK);
    if (!kind) std::copy(expected.begin(), expected.end(), local.begin());
    ASSERT_EQ(t.local(), local);
    if (kind) {
      ASSERT_EQ(m.content(to), expected) << i;
    }
  }
}

// ---- local memory ----

TEST(LocalMemory, ReadsZeroAtTheStartOfEveryJob) {
  Machine m({.cores = 1});
  const uint64_t lmem = m.r32(NPU_REG_LMEM_BYTES);
  const Area out = m.allocate(lmem);
  JobSpec dirty, look;
  dirty.gdma(with<npu_cmd_fill>([&](npu_cmd_fill &c) {
    c.value = 0xa5;
    c.dst_dtype = NPU_DTYPE_U8;
    c.dst_region = NPU_REGION_LOCAL;
    std::fill_n(c.dims, 6, 1u);
    c.dims[5] = static_cast<uint32_t>(lmem);
    c.dst_stride[5] = 1;
  }));
  // What a failing job wrote is gone as well, and what the tensor unit wrote.
  JobSpec failing = dirty;
  failing.gdma(Cmd{});
  JobSpec tiu;
  tiu.tiu(with<npu_cmd_eltwise>([&](npu_cmd_eltwise &c) {
    c.subop = NPU_ELTWISE_ADD;
    c.flags = NPU_ELTWISEF_B_IMM;
    c.imm = 1;
    std::fill_n(c.dims, 5, 1u);
    c.dims[4] = 16;
    c.a_stride[4] = 1;
    c.out_addr = static_cast<uint32_t>(lmem - 64);
  }));
  look.regions = {out.region()};
  look.gdma(with<npu_cmd_copy>([&](npu_cmd_copy &c) {
    c.src_dtype = c.dst_dtype = NPU_DTYPE_U8;
    c.src_region = NPU_REGION_LOCAL;
    std::fill_n(c.dims, 6, 1u);
    c.dims[5] = static_cast<uint32_t>(lmem);
    c.src_stride[5] = c.dst_stride[5] = 1;
  }));
  for (const JobSpec *before : {&dirty, &failing, &tiu}) {
    std::vector<uint8_t> junk(lmem, 0x77);
    m.put(out, 0, junk.data(), lmem);
    m.run(*before);
    ASSERT_STATUS(m.run(look), NPU_STATUS_OK);
    EXPECT_EQ(m.content(out), std::vector<uint8_t>(lmem));
  }
}

}  // namespace
}  // namespace npu::test
