// SPDX-License-Identifier: MIT
// What GATHER and SCATTER have in common: random legal commands with their operands, and how the chip runs them with
// each operand in memory or in local memory.
#ifndef NPU_TESTS_COMMANDS_INDEXED_H
#define NPU_TESTS_COMMANDS_INDEXED_H

#include <algorithm>
#include <sstream>

#include "tests/unit/commands/command.h"

namespace npu::test {

/// A command with its operands. Rows of the indexed side: src of GATHER, dst of SCATTER.
template <class Cmd>
struct Indexed {
  Cmd c = hw::make<Cmd>();
  Bytes src, dst;  ///< dst as it is before
  std::vector<int64_t> index;

  static constexpr bool kScatter = std::is_same_v<Cmd, npu_cmd_scatter>;
  uint32_t size() const { return size_of(c.dtype); }
  /// The row that index i means.
  size_t row(size_t i) const { return static_cast<size_t>(index[i] < 0 ? index[i] + c.rows : index[i]); }
  Bytes index_bytes() const {
    Bytes b(index.size() * size_of(c.idx_dtype));
    for (size_t i = 0; i < index.size(); ++i)
      std::memcpy(&b[i * size_of(c.idx_dtype)], &index[i], size_of(c.idx_dtype));  // little endian
    return b;
  }
};

template <class Cmd>
Indexed<Cmd> random_indexed(Random &r) {
  Indexed<Cmd> t;
  Cmd &c = t.c;
  c.dtype = kWholeTypes[r.range(0, 9)];
  c.idx_dtype = r.chance(2) ? NPU_DTYPE_S32 : NPU_DTYPE_S64;
  c.rows = r.range(1, 12);
  c.count = r.chance(3) ? 1 : r.range(1, 20);
  c.cols = r.chance(3) ? 1 : r.range(1, 12);
  c.outer = r.chance(2) ? 1 : r.range(2, 4);
  const auto strides = [&](uint32_t rows, uint32_t &row, uint32_t &outer) {
    row = c.cols + (r.chance(2) ? r.range(0, 5) : 0);
    outer = rows * row + (r.chance(2) ? r.range(0, 9) : 0);
    return (size_t{c.outer - 1} * outer + size_t{rows - 1} * row + c.cols) * t.size();
  };
  const uint32_t src_rows = t.kScatter ? c.count : c.rows, dst_rows = t.kScatter ? c.rows : c.count;
  t.src = random_elements(r, NPU_DTYPE_U8, strides(src_rows, c.src_row_stride, c.src_outer_stride));
  t.dst = random_elements(r, NPU_DTYPE_U8, strides(dst_rows, c.dst_row_stride, c.dst_outer_stride));
  if (t.kScatter && c.dtype == NPU_DTYPE_F32) {  // numbers, for those that are joined
    t.src = random_elements(r, NPU_DTYPE_F32, t.src.size() / 4);
    t.dst = random_elements(r, NPU_DTYPE_F32, t.dst.size() / 4);
  }
  for (uint32_t i = 0; i < c.count; ++i)
    t.index.push_back(r.range(-static_cast<int>(c.rows), static_cast<int>(c.rows) - 1));
  return t;
}

template <class Cmd>
std::string describe(const Indexed<Cmd> &t) {
  std::ostringstream s;
  s << "subop=" << int{t.c.subop} << " type=" << int{t.c.dtype} << " indices=" << int{t.c.idx_dtype}
    << " rows=" << t.c.rows << " count=" << t.c.count << " cols=" << t.c.cols << " outer=" << t.c.outer
    << " src=" << t.c.src_row_stride << ',' << t.c.src_outer_stride << " dst=" << t.c.dst_row_stride << ','
    << t.c.dst_outer_stride << " regions " << int{t.c.src_region} << ' ' << int{t.c.dst_region} << ' '
    << int{t.c.idx_region};
  return s.str();
}

class IndexedChecks : public Checks {
 protected:
  /// Runs a command with its source, destination and indices in memory (bits 0, 1 and 2 of `memory`) or in local
  /// memory, and returns the destination. In memory they lie at odd places.
  template <class Cmd>
  Bytes run_indexed(const Indexed<Cmd> &t, unsigned memory) {
    constexpr uint32_t kAt[] = {0, 24000, 48000};  // of each operand, in both memories
    const Bytes contents[] = {t.src, t.dst, t.index_bytes()};
    Cmd c = t.c;
    JobSpec j;
    j.regions = {area_.region()};
    const auto place = [&](unsigned i, uint64_t &offset, uint8_t &region) {
      const bool there = memory >> i & 1;
      EXPECT_LE(contents[i].size(), 16000u);
      offset = kAt[i] + (there ? 1 + 2 * i : 0);
      region = there ? 0 : kLocal;
      m_.put(area_, kAt[i] + 1 + 2 * i, contents[i].data(), contents[i].size());
      if (!there) j.gdma(copy_bytes(static_cast<uint32_t>(contents[i].size()), 0, kAt[i] + 1 + 2 * i, kLocal, kAt[i]));
    };
    place(0, c.src_offset, c.src_region);
    place(1, c.dst_offset, c.dst_region);
    place(2, c.idx_offset, c.idx_region);
    j.gdma(c);
    const uint64_t out = kAt[1] + 3;
    if (c.dst_region == kLocal) j.gdma(copy_bytes(static_cast<uint32_t>(t.dst.size()), kLocal, kAt[1], 0, out));
    EXPECT_STATUS(m_.run(j), NPU_STATUS_OK);
    Bytes got(t.dst.size());
    m_.get(area_, out, got.data(), got.size());
    return got;
  }

  /// Every field of a command that is legal and small.
  template <class Cmd>
  void fields(const Cmd &good) {
    BAD(good, 40, c.rows = 0);
    BAD(good, 44, c.count = 0);
    BAD(good, 48, c.cols = 0);
    BAD(good, 52, c.outer = 0);
    for (unsigned t = 0; t < 16; ++t) {
      const auto type = static_cast<uint8_t>(t);
      if (!std::count(std::begin(kWholeTypes), std::end(kWholeTypes), type)) BAD(good, 34, c.dtype = type);
      if (type != NPU_DTYPE_S32 && type != NPU_DTYPE_S64) BAD(good, 37, c.idx_dtype = type);
    }
    BAD(good, 37, c.idx_dtype = 255);
  }
};

}  // namespace npu::test

#endif  // NPU_TESTS_COMMANDS_INDEXED_H
