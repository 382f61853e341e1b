// SPDX-License-Identifier: MIT
// Casts, which COPY does where its types differ: every pair of types, every number of up to 16 bits, every way to lie.
#include "qemu-device/model/src/cast.h"

#include <algorithm>
#include <numeric>

#include "tests/unit/commands/command.h"

namespace npu::test {
namespace {

/// The f32 number nearest to a whole one, of two as near the one with the even last digit.
float nearest_float(int64_t x) {
  const uint64_t size = x < 0 ? 0 - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
  int cut = 0;
  while (size >> cut >= 1u << 24) ++cut;
  uint64_t digits = size >> cut;
  const uint64_t rest = size - (digits << cut), half = cut ? uint64_t{1} << (cut - 1) : 1;
  if (cut && (rest > half || (rest == half && digits % 2))) ++digits;
  return static_cast<float>(std::ldexp(x < 0 ? -static_cast<double>(digits) : static_cast<double>(digits), cut));
}

/// One element: whole numbers keep their low bits, others lose what is behind the point and stop at the type's ends;
/// NaN is 0. What becomes a half is f32 on the way.
void cast_one(uint8_t from, const void *in, uint8_t to, void *out, size_t i) {
  char *at = static_cast<char *>(out) + i * size_of(to);
  if (is_real(to)) {
    store({to, 0, 0}, is_real(from) ? real_at(from, in, i) : nearest_float(integer_at(from, in, i)), out, i);
    return;
  }
  int64_t v;
  if (!is_real(from)) {
    v = integer_at(from, in, i);
  } else {
    const bool wide = to == NPU_DTYPE_S64;
    const double x = std::trunc(double{real_at(from, in, i)});
    const double low = wide ? -0x1p63 : static_cast<double>(lowest(to)),
                 end = wide ? 0x1p63 : static_cast<double>(highest(to)) + 1;
    v = std::isnan(x) ? 0
        : x >= end    ? (wide ? std::numeric_limits<int64_t>::max() : highest(to))
        : x < low     ? static_cast<int64_t>(low)
                      : static_cast<int64_t>(x);
  }
  std::memcpy(at, &v, size_of(to));  // little endian
}

Bytes expect(uint8_t from, const Bytes &in, uint8_t to) {
  Bytes out(in.size() / size_of(from) * size_of(to));
  for (size_t i = 0; i < in.size() / size_of(from); ++i) cast_one(from, in.data(), to, out.data(), i);
  return out;
}

/// Every number of up to 16 bits; of wider types some of each size, and those around the ends of all types.
Bytes numbers_of(uint8_t type) {
  Random r(51);
  Bytes b;
  const auto add = [&](uint64_t bits) {
    for (uint32_t k = 0; k < size_of(type); ++k) b.push_back(static_cast<uint8_t>(bits >> 8 * k));
  };
  if (size_of(type) <= 2) {
    for (unsigned bits = 0; bits < 1u << 8 * size_of(type); ++bits) add(bits);
    return b;
  }
  for (int i = 0; i < 20000; ++i) {
    const uint64_t bits = uint64_t{r.bits()} << 32 | r.bits();
    add(bits);
    add(is_real(type) ? std::bit_cast<uint32_t>(r.real(-300, 300)) : bits >> r.range(0, 63));
    add(is_real(type) ? std::bit_cast<uint32_t>(std::ldexp(r.real(-1, 1), r.range(0, 66))) : ~(bits >> r.range(0, 63)));
  }
  for (int shift = 0; shift < 64; ++shift)
    for (int64_t near = -3; near <= 3; ++near)
      for (const uint64_t sign : {0, 1}) {
        const uint64_t whole = (uint64_t{1} << shift) + static_cast<uint64_t>(near);
        if (!is_real(type)) {
          add(sign ? 0 - whole : whole);
          continue;
        }
        const float x = std::ldexp(1.0f, shift), y = near < 0   ? std::nextafter(x, 0.0f)
                                                     : near > 0 ? std::nextafter(x, kInf)
                                                                : x;
        add(std::bit_cast<uint32_t>(sign ? -y : y));
        add(std::bit_cast<uint32_t>((sign ? -1 : 1) * (x + static_cast<float>(near) / 4)));
      }
  if (is_real(type))
    for (const float x : {kNaN, -kNaN, kInf, -kInf, -0.0f, 0x1p-149f, 65519.996f, 65520.0f, -65520.0f})
      add(std::bit_cast<uint32_t>(x));
  return b;
}

TEST(Cast, OfEveryPairOfTypes) {
  for (const uint8_t from : kWholeTypes) {
    const Bytes in = numbers_of(from);
    for (const uint8_t to : kWholeTypes) {
      if (from == to) continue;  // COPY moves bits
      const Bytes want = expect(from, in, to);
      Bytes got(want.size());
      model::cast_elements(from, in.data(), to, got.data(), in.size() / size_of(from));
      expect_elements(to, want, got, std::to_string(from) + " to " + std::to_string(to));
      if (HasFatalFailure()) return;
    }
  }
}

// What the test's own arithmetic has to give, too.
TEST(Cast, OfNumbersThatAreWrittenHere) {
  const auto of = [](uint8_t from, const auto &x, uint8_t to) {
    Bytes out(8);
    model::cast_elements(from, &x, to, out.data(), 1);
    return out;
  };
  const auto whole = [&](float x, uint8_t to) { return integer_at(to, of(NPU_DTYPE_F32, x, to).data(), 0); };
  EXPECT_EQ(whole(-1.9f, NPU_DTYPE_S8), -1);
  EXPECT_EQ(whole(127.9f, NPU_DTYPE_S8), 127);
  EXPECT_EQ(whole(-500, NPU_DTYPE_S8), -128);
  EXPECT_EQ(whole(-0.9f, NPU_DTYPE_U8), 0);
  EXPECT_EQ(whole(300, NPU_DTYPE_U8), 255);
  EXPECT_EQ(whole(4.3e9f, NPU_DTYPE_U32), 0xffffffff);
  EXPECT_EQ(whole(0x1p31f, NPU_DTYPE_S32), 0x7fffffff);
  EXPECT_EQ(whole(0x1p63f, NPU_DTYPE_S64), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(whole(-kInf, NPU_DTYPE_S64), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(whole(kNaN, NPU_DTYPE_S16), 0);
  EXPECT_EQ(integer_at(NPU_DTYPE_S8, of(NPU_DTYPE_S32, int32_t{0x12345681}, NPU_DTYPE_S8).data(), 0), -127);
  EXPECT_EQ(integer_at(NPU_DTYPE_S64, of(NPU_DTYPE_S8, int8_t{-2}, NPU_DTYPE_S64).data(), 0), -2);
  EXPECT_EQ(integer_at(NPU_DTYPE_S64, of(NPU_DTYPE_U32, 0xfffffffeu, NPU_DTYPE_S64).data(), 0), 0xfffffffe);
  EXPECT_EQ(integer_at(NPU_DTYPE_U32, of(NPU_DTYPE_S8, int8_t{-2}, NPU_DTYPE_U32).data(), 0), 0xfffffffe);
  EXPECT_EQ(real_at(NPU_DTYPE_F32, of(NPU_DTYPE_S32, int32_t{16777217}, NPU_DTYPE_F32).data(), 0), 16777216);
  EXPECT_EQ(real_at(NPU_DTYPE_F32, of(NPU_DTYPE_S32, int32_t{16777219}, NPU_DTYPE_F32).data(), 0), 16777220);
  EXPECT_EQ(real_at(NPU_DTYPE_F16, of(NPU_DTYPE_S32, int32_t{70000}, NPU_DTYPE_F16).data(), 0), kInf);
  EXPECT_EQ(real_at(NPU_DTYPE_BF16, of(NPU_DTYPE_U8, uint8_t{255}, NPU_DTYPE_BF16).data(), 0), 255);
}

// ---- the chip ----

class CastChecks : public Checks {};

/// A transfer of another type with strides of either sign; `overlap`: elements of the destination may be one.
struct CastCase {
  npu_cmd_copy c = hw::make<npu_cmd_copy>();
  Bytes src, dst;
  int64_t src_first = 0, dst_first = 0;  ///< elements from the lowest to the first
};

CastCase random_cast(Random &r, uint8_t from, uint8_t to, bool overlap) {
  CastCase t;
  npu_cmd_copy &c = t.c;
  c.src_dtype = from;
  c.dst_dtype = to;
  for (uint32_t &d : c.dims) d = r.chance(2) ? 1 : r.range(1, 6);
  const auto strides = [&](int32_t(&stride)[6], int64_t &first, bool free) {
    unsigned order[6];
    std::iota(order, order + 6, 0u);
    for (unsigned i = 5; i > 0; --i) std::swap(order[i], order[r.range(0, static_cast<int>(i))]);
    int64_t step = 1, reach = 1;
    for (const unsigned d : order) {
      stride[d] = static_cast<int32_t>(step);
      if (free && r.chance(4)) stride[d] = r.range(0, 3);
      if (r.chance(4)) {
        stride[d] = -stride[d];
        first -= int64_t{stride[d]} * (c.dims[d] - 1);
      }
      reach += std::abs(int64_t{stride[d]}) * (c.dims[d] - 1);
      step = step * c.dims[d] + (r.chance(5) ? r.range(1, 3) : 0);
    }
    return static_cast<size_t>(reach);
  };
  t.src = random_elements(r, from, strides(c.src_stride, t.src_first, true));
  t.dst = random_elements(r, NPU_DTYPE_U8, strides(c.dst_stride, t.dst_first, overlap) * size_of(to));
  return t;
}

Bytes expect(const CastCase &t) {
  const npu_cmd_copy &c = t.c;
  const Bytes cast = expect(c.src_dtype, t.src, c.dst_dtype);
  const uint32_t size = size_of(c.dst_dtype);
  Bytes out = t.dst;
  uint64_t count = 1;
  for (const uint32_t d : c.dims) count *= d;
  for (uint64_t index = 0; index < count; ++index) {
    int64_t rest = static_cast<int64_t>(index), from = t.src_first, to = t.dst_first;
    for (int d = 5; d >= 0; --d) {
      from += rest % c.dims[d] * c.src_stride[d];
      to += rest % c.dims[d] * c.dst_stride[d];
      rest /= c.dims[d];
    }
    std::memcpy(&out[static_cast<size_t>(to) * size], &cast[static_cast<size_t>(from) * size], size);
  }
  return out;
}

TEST_F(CastChecks, OfEveryPairAndShapeBetweenAllMemories) {
  Random r(52);
  unsigned n = 0;
  for (const uint8_t from : kWholeTypes)
    for (const uint8_t to : kWholeTypes)
      for (unsigned round = 0; round < 8; ++round, ++n) {
        if (from == to) continue;
        CastCase t = random_cast(r, from, to, round % 4 == 3);
        if (t.src.size() > 20000 || t.dst.size() > 20000) continue;
        const bool src_there = n & 1, dst_there = n & 2;
        constexpr uint32_t kDst = 32000;
        JobSpec j;
        j.regions = {area_.region()};
        m_.put(area_, 1, t.src.data(), t.src.size());
        m_.put(area_, kDst + 3, t.dst.data(), t.dst.size());
        if (!src_there) j.gdma(copy_bytes(static_cast<uint32_t>(t.src.size()), 0, 1, kLocal, 0));
        if (!dst_there) j.gdma(copy_bytes(static_cast<uint32_t>(t.dst.size()), 0, kDst + 3, kLocal, kDst));
        t.c.src_region = src_there ? 0 : kLocal;
        t.c.src_offset = src_there + static_cast<uint64_t>(t.src_first) * size_of(from);
        t.c.dst_region = dst_there ? 0 : kLocal;
        t.c.dst_offset = kDst + (dst_there ? 3 : 0) + static_cast<uint64_t>(t.dst_first) * size_of(to);
        j.gdma(t.c);
        if (!dst_there) j.gdma(copy_bytes(static_cast<uint32_t>(t.dst.size()), kLocal, kDst, 0, kDst + 3));
        ASSERT_STATUS(m_.run(j), NPU_STATUS_OK);
        Bytes got(t.dst.size());
        m_.get(area_, kDst + 3, got.data(), got.size());
        expect_elements(NPU_DTYPE_U8, expect(t), got,
                        "case " + std::to_string(n) + ": " + std::to_string(from) + " to " + std::to_string(to));
        if (HasFatalFailure()) return;
      }
}

TEST_F(CastChecks, Operands) {
  const npu_cmd_copy c = with<npu_cmd_copy>([](npu_cmd_copy &x) {
    x.src_region = x.dst_region = kLocal;
    x.src_dtype = NPU_DTYPE_U8;
    x.dst_dtype = NPU_DTYPE_S64;
    std::fill_n(x.dims, 6, 1u);
    x.dims[5] = 10;
    x.src_stride[5] = 3;
    x.dst_stride[5] = 2;
    x.dst_offset = 4096;
  });
  local_operand(
      c, 28, false, [](auto &x, uint32_t v) { x.src_offset = v; }, 1);
  local_operand(
      c, 19 * 8, true, [](auto &x, uint32_t v) { x.dst_offset = v; }, 8);
}

TEST(CastCost, IsThatOfBothSides) {
  npu_cmd_copy c = with<npu_cmd_copy>([](npu_cmd_copy &x) {
    x.src_region = 0;
    x.dst_region = kLocal;
    x.src_dtype = NPU_DTYPE_F32;
    x.dst_dtype = NPU_DTYPE_F16;
    std::fill_n(x.dims, 6, 1u);
    x.dims[4] = 10;
    x.dims[5] = 100;
    x.src_stride[4] = 200;
    x.dst_stride[4] = 100;
    x.src_stride[5] = x.dst_stride[5] = 1;
  });
  expect_cost(c, 232, 10 * 448, 0, "10 rows of 400 bytes come");
  std::swap(c.src_region, c.dst_region);
  expect_cost(c, 232, 2048, 0, "2000 dense bytes go");
  c.dst_region = kLocal;
  expect_cost(c, 32 + 12, 0, 0, "6000 bytes of local memory");
}

}  // namespace
}  // namespace npu::test
