// SPDX-License-Identifier: MIT
#include "qemu-device/model/src/gdma.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "npu_arith.hpp"
#include "npu_isa.hpp"
#include "qemu-device/model/src/cast.h"
#include "qemu-device/model/src/compute/numerics.h"

namespace npu::model {

namespace {

constexpr uint64_t kTileBytes = 256 * 1024;  // of a strided transfer: stays in the second cache
constexpr uint64_t kRowBytes =
    4 * 1024 * 1024;                // of a dense one: long enough for memory speed, short enough to stop soon
constexpr uint64_t kLongRow = 512;  // bytes from which a row is worth a translation of its own
constexpr uint64_t kTileElements = 16 * 1024;  // of a transfer in strict order

/// Elements of two sizes; the shape has the destination's.
Strided shape_of(const uint32_t (&dims)[6], const int32_t (&dst)[6], uint32_t dst_size, const int32_t (&src)[6],
                 uint32_t src_size) {
  Strided s;
  s.count = 6;
  s.size = dst_size;
  for (unsigned i = 0; i < 6; ++i) {
    s.dims[i] = dims[i];
    s.dst[i] = int64_t{dst[i]} * dst_size;
    s.src[i] = int64_t{src[i]} * src_size;
  }
  s.squeeze();
  return s;
}

/// The strides of a shape's elements without gaps, in the order of its dimensions.
void make_dense(const Strided &s, uint32_t size, int64_t (&stride)[Strided::kDims]) {
  for (unsigned i = s.count; i-- > 0;)
    stride[i] = i + 1 == s.count ? size : stride[i + 1] * static_cast<int64_t>(s.dims[i + 1]);
}

/// Calls f(dst offset, src offset) for each combination of the dimensions in `order`, until it returns a fault.
template <class F>
Fault walk(const Strided &s, const int64_t (&dst)[Strided::kDims], const int64_t (&src)[Strided::kDims],
           const unsigned *order, unsigned n, int64_t to, int64_t from, const F &f) {
  if (n == 0) return f(to, from);
  const unsigned k = order[0];
  for (uint64_t i = 0; i < s.dims[k]; ++i, to += dst[k], from += src[k])
    if (Fault fault = walk(s, dst, src, order + 1, n - 1, to, from, f)) return fault;
  return {};
}

/// What SCATTER leaves where a joins b.
float joined(uint8_t subop, float a, float b) {
  switch (subop) {
    case NPU_SCATTER_ADD:
      return a + b;
    case NPU_SCATTER_MUL:
      return a * b;
    case NPU_SCATTER_MAX:
      return maximum(a, b);
    default:
      return minimum(a, b);
  }
}

using hw::arith::dtype_bytes;

constexpr unsigned kInOrder[Strided::kDims] = {0, 1, 2, 3, 4, 5};

}  // namespace

Outcome Gdma::locate(const Operand &o, uint64_t offset, const Job &job, Side &side) const {
  side.local = o.local();
  side.base = offset;
  if (side.local) return {};
  uint64_t low;
  const Fault fault = region_address(job, o.region, o.offset, o.bytes, o.write, low);
  side.base = low + (offset - o.offset);
  return {fault, o.write ? Operands::kDst : Operands::kSrc};
}

/// Cuts a transfer into tiles of at most `limit` elements (a suffix of its dimensions, the last one of them cut) and
/// runs each as a step of its own.
template <class Each>
Outcome Gdma::tiles(const Strided &shape, uint64_t limit, const Pace &pace, Each each) {
  unsigned cut = shape.count - 1;
  uint64_t inside = 1;
  while (cut > 0 && inside * shape.dims[cut] <= limit) inside *= shape.dims[cut--];
  const uint64_t chunk = std::max<uint64_t>(1, std::min(shape.dims[cut], limit / inside));
  Tile tile{shape, 0, 0};
  tile.shape.count = shape.count - cut;
  std::copy_n(shape.dims + cut, tile.shape.count, tile.shape.dims);
  std::copy_n(shape.dst + cut, tile.shape.count, tile.shape.dst);
  std::copy_n(shape.src + cut, tile.shape.count, tile.shape.src);
  uint64_t index[Strided::kDims] = {};
  for (;;) {
    tile.dst = tile.src = 0;
    for (unsigned i = 0; i <= cut; ++i) {
      tile.dst += static_cast<int64_t>(index[i]) * shape.dst[i];
      tile.src += static_cast<int64_t>(index[i]) * shape.src[i];
    }
    tile.shape.dims[0] = std::min(chunk, shape.dims[cut] - index[cut]);
    Fault fault;
    if (!pace.repeats()) {
      Memory::Section section(memory_);
      fault = each(tile);
    }
    if (fault) return {fault, fault.write ? Operands::kDst : Operands::kSrc};
    index[cut] += tile.shape.dims[0];
    unsigned k = cut;
    for (; index[k] == shape.dims[k]; ++index[--k]) {
      if (k == 0) return {};
      index[k] = 0;
    }
    if (!pace.step()) return {{}, 0, true};
  }
}

/// Commands of any engine, which visit leaves out, act by their order alone.
Outcome Gdma::run(const Command &command, const Operands &ops, const Job &job, const Pace &pace) {
  Outcome outcome;
  hw::visit_gdma(command.bytes, [&](const auto &c) { outcome = transfer(c, ops, job, pace); });
  return outcome;
}

Outcome Gdma::transfer(const npu_cmd_copy &c, const Operands &ops, const Job &job, const Pace &pace) {
  Side src, dst;
  if (Outcome o = locate(ops.at[Operands::kSrc], c.src_offset, job, src)) return o;
  if (Outcome o = locate(ops.at[Operands::kDst], c.dst_offset, job, dst)) return o;
  const uint32_t size = dtype_bytes(c.src_dtype);
  Strided shape = shape_of(c.dims, c.dst_stride, dtype_bytes(c.dst_dtype), c.src_stride, size);
  if (c.src_dtype != c.dst_dtype)
    return tiles(shape, kTileElements, pace, [&](const Tile &t) { return cast_tile(c, dst, src, t); });
  if (shape.may_overlap())
    return tiles(shape, kTileElements, pace, [&](const Tile &t) { return copy_each(dst, src, t); });
  int64_t dst_first = 0, src_first = 0;
  shape.normalise(dst_first, src_first);
  dst.base += static_cast<uint64_t>(dst_first);
  src.base += static_cast<uint64_t>(src_first);
  const bool dense = shape.dense_dst() && shape.dense_src();
  const uint64_t limit = (dense ? kRowBytes : kTileBytes) / shape.size;
  return tiles(shape, limit, pace, [&](const Tile &t) {
    const Fault fault = copy_tile(dst, src, t);
    if (!fault && dense && dst.local && !src.local) note_origin(dst, src, t, pace);
    return fault;
  });
}

/// Remembers where a dense copy comes from if its contents have an identity, in the section of the copy. Not in virtual
/// time, where other commands write between two steps of one.
void Gdma::note_origin(const Side &dst, const Side &src, const Tile &t, const Pace &pace) {
  const uint64_t to = dst.base + static_cast<uint64_t>(t.dst), from = src.base + static_cast<uint64_t>(t.src);
  uint32_t identity;
  if (pace.fiber || !memory_.constant(from, t.shape.bytes(), pace, identity)) return;
  local_.origins().note({to, to + t.shape.bytes(), from, identity});
}

Outcome Gdma::transfer(const npu_cmd_fill &c, const Operands &ops, const Job &job, const Pace &pace) {
  Side dst;
  if (Outcome o = locate(ops.at[Operands::kDst], c.dst_offset, job, dst)) return o;
  // The order of equal elements does not matter, so an overlap does not either. The source's strides only take part in
  // joining dimensions.
  const uint32_t size = dtype_bytes(c.dst_dtype);
  Strided shape = shape_of(c.dims, c.dst_stride, size, c.dst_stride, size);
  for (unsigned i = 0; i < shape.count; ++i)
    if (shape.dst[i] == 0) shape.dims[i] = 1;
  int64_t first = 0, unused = 0;
  shape.normalise(first, unused);
  dst.base += static_cast<uint64_t>(first);
  return tiles(shape, kTileBytes / shape.size, pace, [&](const Tile &t) { return fill_tile(dst, t, c.value); });
}

/// The side's first element as a host pointer, if all that the tile spans there lies in local memory or contiguously in
/// DDR.
uint8_t *Gdma::direct(const Side &side, int64_t first, const Strided &shape, const int64_t (&stride)[6], bool write) {
  const uint64_t at = side.base + static_cast<uint64_t>(first);
  if (side.local) return local_.at(at);
  const Hull h = hull(shape, stride);
  const uint64_t span = static_cast<uint64_t>(h.high - h.low);
  // Looking at the pages in between has to cost less than translating each row.
  if (span / kPageBytes > 64 + 4 * shape.elements()) return nullptr;
  Fault hole;  // a page that no element touches may be missing
  uint8_t *low = memory_.contiguous(at + static_cast<uint64_t>(h.low), span, write, hole);
  return low ? low - h.low : nullptr;
}

Fault Gdma::copy_row(const Side &dst, int64_t dst_at, const Side &src, int64_t src_at, uint64_t bytes) {
  const uint64_t to = dst.base + static_cast<uint64_t>(dst_at), from = src.base + static_cast<uint64_t>(src_at);
  if (dst.local && src.local) {
    std::memmove(local_.at(to), local_.at(from), bytes);
    return {};
  }
  if (dst.local) return memory_.read(from, local_.at(to), bytes);
  if (src.local) return memory_.write(to, local_.at(from), bytes);
  return memory_.copy(to, from, bytes);
}

/// Element by element in the order of the command: destinations that overlap, where the last write wins.
Fault Gdma::copy_each(const Side &dst, const Side &src, const Tile &t) {
  return walk(t.shape, t.shape.dst, t.shape.src, kInOrder, t.shape.count, t.dst, t.src,
              [&](int64_t to, int64_t from) { return copy_row(dst, to, src, from, t.shape.size); });
}

Fault Gdma::copy_tile(const Side &dst, const Side &src, const Tile &t) {
  const Strided &s = t.shape;
  const unsigned inner = s.count - 1;
  const uint64_t row = s.dims[inner] * s.size;
  if (s.dst[inner] == s.size && s.src[inner] == s.size && (s.count == 1 || row >= kLongRow))
    return walk(s, s.dst, s.src, kInOrder, inner, t.dst, t.src,
                [&](int64_t to, int64_t from) { return copy_row(dst, to, src, from, row); });
  View from;
  std::copy_n(s.src, s.count, from.stride);
  from.data = direct(src, t.src, s, s.src, false);
  if (!from.data)
    if (Fault fault = gather(src.base + static_cast<uint64_t>(t.src), s, s.src, from)) return fault;
  if (uint8_t *to = direct(dst, t.dst, s, s.dst, true)) {
    move_elements(s, to, from);
    return {};
  }
  Strided dense = s;
  make_dense(s, s.size, dense.dst);
  uint8_t *stage = out_.reserve(s.bytes());
  if (!stage) return {NPU_STATUS_INTERNAL, true, 0};
  move_elements(dense, stage, from);
  return scatter(dst.base + static_cast<uint64_t>(t.dst), s, stage);
}

/// Elements of another type: all are read, cast, and written in the order of the command.
Fault Gdma::cast_tile(const npu_cmd_copy &c, const Side &dst, const Side &src, const Tile &t) {
  Strided from = t.shape;
  from.size = dtype_bytes(c.src_dtype);
  View view;
  std::copy_n(from.src, from.count, view.stride);
  view.data = direct(src, t.src, from, from.src, false);
  if (!view.data)
    if (Fault fault = gather(src.base + static_cast<uint64_t>(t.src), from, from.src, view)) return fault;
  const uint64_t count = from.elements();
  uint8_t *raw = raw_.reserve(count * from.size), *cast = out_.reserve(t.shape.bytes());
  if (!raw || !cast) return {NPU_STATUS_INTERNAL, true, 0};
  make_dense(from, from.size, from.dst);
  move_elements(from, raw, view);
  cast_elements(c.src_dtype, raw, c.dst_dtype, cast, count);
  if (!dst.local) return scatter(dst.base + static_cast<uint64_t>(t.dst), t.shape, cast);
  return walk(t.shape, t.shape.dst, t.shape.dst, kInOrder, t.shape.count, t.dst, t.dst, [&](int64_t at, int64_t) {
    std::memcpy(local_.at(dst.base + static_cast<uint64_t>(at)), cast, t.shape.size);
    cast += t.shape.size;
    return Fault{};
  });
}

/// Index `i` of an operand, from 0 to below `rows`.
Fault Gdma::read_index(const Side &side, uint8_t dtype, uint64_t i, uint32_t rows, uint64_t &row) {
  const uint32_t size = dtype_bytes(dtype);
  int64_t wide = 0;
  int32_t narrow = 0;
  void *to = dtype == NPU_DTYPE_S64 ? static_cast<void *>(&wide) : &narrow;
  const uint64_t at = side.base + i * size;
  if (side.local)
    std::memcpy(to, local_.at(at), size);
  else if (const Fault fault = memory_.read(at, to, size))
    return fault;
  int64_t index = dtype == NPU_DTYPE_S64 ? wide : narrow;
  if (index < 0) index += rows;
  if (index < 0 || index >= rows) return {NPU_STATUS_INDEX_BOUNDS, false, i};
  row = static_cast<uint64_t>(index);
  return {};
}

/// GATHER and SCATTER: rows one after the other, each with its index. `each(row of the indexed side, o, i)`.
template <class Cmd, class Each>
Outcome Gdma::indexed(const Cmd &c, const Operands &ops, const Job &job, const Pace &pace, Each each) {
  Side index;
  if (const Outcome o = locate(ops.at[Operands::kIndex], c.idx_offset, job, index)) return {o.fault, Operands::kIndex};
  const uint64_t row_bytes = uint64_t{c.cols} * dtype_bytes(c.dtype), total = uint64_t{c.outer} * c.count;
  const uint64_t step = std::clamp<uint64_t>(kTileBytes / row_bytes, 1, kTileElements);
  for (uint64_t at = 0; at < total; at += step) {
    if (at && !pace.step()) return {{}, 0, true};
    if (pace.repeats()) continue;
    Memory::Section section(memory_);
    for (uint64_t k = at; k < std::min(at + step, total); ++k) {
      uint64_t row = 0;
      if (const Fault fault = read_index(index, c.idx_dtype, k % c.count, c.rows, row))
        return {fault, Operands::kIndex};
      if (const Fault fault = each(row, k / c.count, k % c.count))
        return {fault, fault.write ? Operands::kDst : Operands::kSrc};
    }
  }
  return {};
}

Outcome Gdma::transfer(const npu_cmd_gather &c, const Operands &ops, const Job &job, const Pace &pace) {
  Side src, dst;
  if (Outcome o = locate(ops.at[Operands::kSrc], c.src_offset, job, src)) return o;
  if (Outcome o = locate(ops.at[Operands::kDst], c.dst_offset, job, dst)) return o;
  const uint64_t size = dtype_bytes(c.dtype);
  return indexed(c, ops, job, pace, [&](uint64_t row, uint64_t o, uint64_t i) {
    const uint64_t from = (o * c.src_outer_stride + row * c.src_row_stride) * size,
                   to = (o * c.dst_outer_stride + i * c.dst_row_stride) * size;
    return copy_row(dst, static_cast<int64_t>(to), src, static_cast<int64_t>(from), c.cols * size);
  });
}

Outcome Gdma::transfer(const npu_cmd_scatter &c, const Operands &ops, const Job &job, const Pace &pace) {
  Side src, dst;
  if (Outcome o = locate(ops.at[Operands::kSrc], c.src_offset, job, src)) return o;
  if (Outcome o = locate(ops.at[Operands::kDst], c.dst_offset, job, dst)) return o;
  const uint64_t size = dtype_bytes(c.dtype), bytes = c.cols * size;
  return indexed(c, ops, job, pace, [&](uint64_t row, uint64_t o, uint64_t i) -> Fault {
    const auto from = static_cast<int64_t>((o * c.src_outer_stride + i * c.src_row_stride) * size),
               to = static_cast<int64_t>((o * c.dst_outer_stride + row * c.dst_row_stride) * size);
    if (c.subop == NPU_SCATTER_SET) return copy_row(dst, to, src, from, bytes);
    float *added = reinterpret_cast<float *>(in_.reserve(bytes)), *sum = reinterpret_cast<float *>(out_.reserve(bytes));
    if (!added || !sum) return {NPU_STATUS_INTERNAL, true, 0};
    if (Fault fault = read_row(src, from, added, bytes)) return fault;
    if (Fault fault = read_row(dst, to, sum, bytes)) return {fault.status, true, fault.addr};
    for (uint32_t k = 0; k < c.cols; ++k) sum[k] = joined(c.subop, sum[k], added[k]);
    const uint64_t at = dst.base + static_cast<uint64_t>(to);
    if (!dst.local) return memory_.write(at, sum, bytes);
    std::memcpy(local_.at(at), sum, bytes);
    return {};
  });
}

Fault Gdma::read_row(const Side &side, int64_t offset, void *to, uint64_t bytes) {
  const uint64_t at = side.base + static_cast<uint64_t>(offset);
  if (!side.local) return memory_.read(at, to, bytes);
  std::memcpy(to, local_.at(at), bytes);
  return {};
}

Fault Gdma::fill_tile(const Side &dst, const Tile &t, uint64_t value) {
  const Strided &s = t.shape;
  if (uint8_t *to = direct(dst, t.dst, s, s.dst, true)) {
    fill_elements(s, to, value);
    return {};
  }
  uint8_t *stage = out_.reserve(s.bytes());
  if (!stage) return {NPU_STATUS_INTERNAL, true, 0};
  Strided row;
  row.count = 1;
  row.size = s.size;
  row.dims[0] = s.elements();
  row.dst[0] = s.size;
  fill_elements(row, stage, value);
  return scatter(dst.base + static_cast<uint64_t>(t.dst), s, stage);
}

/// Reads the elements of a side that has no pointer into a buffer, in the order of their addresses and in pieces as
/// long as they are dense.
Fault Gdma::gather(uint64_t va, const Strided &s, const int64_t (&stride)[6], View &view) {
  unsigned order[Strided::kDims], n = 0;
  for (unsigned i = 0; i < s.count; ++i)
    if (stride[i] != 0) order[n++] = i;
  sort_dims(order, n, [&](unsigned a, unsigned b) { return std::abs(stride[a]) > std::abs(stride[b]); });
  int64_t up[Strided::kDims] = {}, low = 0, step = s.size, first = 0;
  uint64_t bytes = s.size;
  for (unsigned k = n; k-- > 0; step *= static_cast<int64_t>(s.dims[order[k]])) {
    const unsigned i = order[k];
    const int64_t last = static_cast<int64_t>(s.dims[i] - 1);
    up[i] = std::abs(stride[i]);
    view.stride[i] = stride[i] < 0 ? -step : step;
    if (stride[i] < 0) {
      low += stride[i] * last;
      first += step * last;
    }
    bytes *= s.dims[i];
  }
  for (unsigned i = 0; i < s.count; ++i)
    if (stride[i] == 0) view.stride[i] = 0;
  uint64_t row = s.size;
  while (n > 0 && static_cast<uint64_t>(up[order[n - 1]]) == row) row *= s.dims[order[--n]];
  uint8_t *to = in_.reserve(bytes);
  if (!to) return {NPU_STATUS_INTERNAL, false, va};
  view.data = to + first;
  return walk(s, up, up, order, n, low, low, [&](int64_t at, int64_t) {
    const Fault fault = memory_.read(va + static_cast<uint64_t>(at), to, row);
    to += row;
    return fault;
  });
}

/// Writes a dense copy of the destination's elements to where they belong; their strides descend.
Fault Gdma::scatter(uint64_t va, const Strided &s, const uint8_t *dense) {
  unsigned n = s.count;
  uint64_t row = s.size;
  while (n > 0 && static_cast<uint64_t>(s.dst[n - 1]) == row) row *= s.dims[--n];
  return walk(s, s.dst, s.dst, kInOrder, n, 0, 0, [&](int64_t at, int64_t) {
    const Fault fault = memory_.write(va + static_cast<uint64_t>(at), dense, row);
    dense += row;
    return fault;
  });
}

}  // namespace npu::model
