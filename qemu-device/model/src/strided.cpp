// SPDX-License-Identifier: MIT
#include "qemu-device/model/src/strided.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace npu::model {

namespace {

constexpr uint64_t kBlock = 32;  // elements of a side of a transposed block: both sides of it stay in the first cache

/// Calls f(dst offset, src offset) for each combination of the dimensions in `outer`.
template <class F>
void for_each(const Strided &s, const int64_t (&src)[Strided::kDims], const unsigned *outer, unsigned n, int64_t d_at,
              int64_t s_at, F f) {
  if (n == 0) {
    f(d_at, s_at);
    return;
  }
  const unsigned k = outer[0];
  for (uint64_t i = 0; i < s.dims[k]; ++i, d_at += s.dst[k], s_at += src[k])
    for_each(s, src, outer + 1, n - 1, d_at, s_at, f);
}

/// Four rows of `cols` elements of four bytes from as many columns of the source, which are dense.
inline void transpose_rows(uint8_t *dst, const uint8_t *src, uint64_t cols, int64_t d_row, int64_t s_col) {
  typedef uint32_t Four __attribute__((vector_size(16)));
  uint64_t c = 0;
  for (; c + 4 <= cols; c += 4) {
    Four in[4];
    for (int i = 0; i < 4; ++i) std::memcpy(&in[i], src + (static_cast<int64_t>(c) + i) * s_col, sizeof(Four));
    const Four low_a = __builtin_shufflevector(in[0], in[1], 0, 4, 1, 5);
    const Four low_b = __builtin_shufflevector(in[2], in[3], 0, 4, 1, 5);
    const Four high_a = __builtin_shufflevector(in[0], in[1], 2, 6, 3, 7);
    const Four high_b = __builtin_shufflevector(in[2], in[3], 2, 6, 3, 7);
    const Four out[4] = {
        __builtin_shufflevector(low_a, low_b, 0, 1, 4, 5), __builtin_shufflevector(low_a, low_b, 2, 3, 6, 7),
        __builtin_shufflevector(high_a, high_b, 0, 1, 4, 5), __builtin_shufflevector(high_a, high_b, 2, 3, 6, 7)};
    for (int i = 0; i < 4; ++i) std::memcpy(dst + c * 4 + i * d_row, &out[i], sizeof(Four));
  }
  for (; c < cols; ++c)
    for (int i = 0; i < 4; ++i) std::memcpy(dst + c * 4 + i * d_row, src + static_cast<int64_t>(c) * s_col + i * 4, 4);
}

/// Rows of `cols` elements of four bytes that lie behind each other, from as many dense columns: channels that are
/// interleaved.
template <unsigned cols>
void interleave(uint8_t *dst, const uint8_t *src, uint64_t rows, int64_t s_col) {
  for (uint64_t r = 0; r < rows; ++r)
    for (unsigned c = 0; c < cols; ++c) std::memcpy(dst + (r * cols + c) * 4, src + c * s_col + r * 4, 4);
}

/// A matrix whose rows are dense in the destination and whose columns are dense in the source, of elements of four
/// bytes. Returns how many rows are done.
uint64_t transpose(uint8_t *dst, const uint8_t *src, uint64_t rows, uint64_t cols, int64_t d_row, int64_t s_col) {
  if (cols == 2 && d_row == 8) return interleave<2>(dst, src, rows, s_col), rows;
  if (cols == 3 && d_row == 12) return interleave<3>(dst, src, rows, s_col), rows;
  const uint64_t most = rows / 4 * 4;
  for (uint64_t c0 = 0; c0 < cols; c0 += kBlock)
    for (uint64_t r = 0; r < most; r += 4)
      transpose_rows(dst + static_cast<int64_t>(r) * d_row + c0 * 4, src + static_cast<int64_t>(c0) * s_col + r * 4,
                     std::min(cols - c0, kBlock), d_row, s_col);
  return most;
}

/// A matrix of elements of type T, copied block by block so that the cache lines of both sides are used whole.
template <class T>
void move_matrix(uint8_t *dst, const uint8_t *src, uint64_t rows, uint64_t cols, int64_t d_row, int64_t d_col,
                 int64_t s_row, int64_t s_col) {
  for (uint64_t r0 = 0; r0 < rows; r0 += kBlock)
    for (uint64_t c0 = 0; c0 < cols; c0 += kBlock) {
      const uint64_t r1 = std::min(rows, r0 + kBlock), c1 = std::min(cols, c0 + kBlock);
      for (uint64_t r = r0; r < r1; ++r) {
        uint8_t *d = dst + static_cast<int64_t>(r) * d_row + static_cast<int64_t>(c0) * d_col;
        const uint8_t *s = src + static_cast<int64_t>(r) * s_row + static_cast<int64_t>(c0) * s_col;
        for (uint64_t c = c0; c < c1; ++c, d += d_col, s += s_col) std::memcpy(d, s, sizeof(T));
      }
    }
}

void move_matrix(uint32_t size, uint8_t *dst, const uint8_t *src, uint64_t rows, uint64_t cols, int64_t d_row,
                 int64_t d_col, int64_t s_row, int64_t s_col) {
  switch (size) {
    case 1:
      return move_matrix<uint8_t>(dst, src, rows, cols, d_row, d_col, s_row, s_col);
    case 2:
      return move_matrix<uint16_t>(dst, src, rows, cols, d_row, d_col, s_row, s_col);
    case 4:
      if (d_col == 4 && s_row == 4) {
        const uint64_t done = transpose(dst, src, rows, cols, d_row, s_col);
        dst += static_cast<int64_t>(done) * d_row;
        src += done * 4;
        rows -= done;
      }
      return move_matrix<uint32_t>(dst, src, rows, cols, d_row, d_col, s_row, s_col);
    default:
      return move_matrix<uint64_t>(dst, src, rows, cols, d_row, d_col, s_row, s_col);
  }
}

template <class T>
void fill_row(uint8_t *dst, uint64_t n, int64_t stride, T value) {
  // What lies side by side is filled for one block, and the block copied on: as fast as memory.
  constexpr uint64_t kBlock = 4096 / sizeof value;
  const bool dense = stride == sizeof value;
  for (uint64_t i = 0; i < (dense ? std::min(n, kBlock) : n); ++i)
    std::memcpy(dst + static_cast<int64_t>(i) * stride, &value, sizeof value);
  for (uint64_t i = kBlock; dense && i < n; i += kBlock)
    std::memcpy(dst + i * sizeof value, dst, std::min(n - i, kBlock) * sizeof value);
}

/// Fills one row of n elements that lie `stride` bytes apart.
void fill_row(uint8_t *dst, uint64_t n, int64_t stride, uint32_t size, uint64_t value) {
  switch (size) {
    case 1:
      return fill_row(dst, n, stride, static_cast<uint8_t>(value));
    case 2:
      return fill_row(dst, n, stride, static_cast<uint16_t>(value));
    case 4:
      return fill_row(dst, n, stride, static_cast<uint32_t>(value));
    default:
      return fill_row(dst, n, stride, value);
  }
}

}  // namespace

uint64_t Strided::elements() const {
  uint64_t n = 1;
  for (unsigned i = 0; i < count; ++i) n *= dims[i];
  return n;
}

void Strided::squeeze() {
  unsigned n = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (dims[i] == 1) continue;
    dims[n] = dims[i];
    dst[n] = dst[i];
    src[n++] = src[i];
  }
  if (n == 0) {
    dims[0] = 1;
    dst[0] = src[0] = size;
    n = 1;
  }
  count = n;
}

bool Strided::may_overlap() const {
  unsigned order[kDims];
  for (unsigned i = 0; i < count; ++i) order[i] = i;
  sort_dims(order, count, [&](unsigned a, unsigned b) { return std::abs(dst[a]) < std::abs(dst[b]); });
  // Each dimension has to step over all that the smaller ones reach.
  __extension__ typedef __int128 i128;
  i128 reach = size;
  for (unsigned i = 0; i < count; ++i) {
    const unsigned k = order[i];
    if (dims[k] == 1) continue;
    const i128 step = std::abs(dst[k]);
    if (step < reach) return true;
    reach += step * (dims[k] - 1);
  }
  return false;
}

void Strided::normalise(int64_t &dst_first, int64_t &src_first) {
  squeeze();
  for (unsigned i = 0; i < count; ++i) {
    if (dst[i] >= 0) continue;
    const int64_t last = static_cast<int64_t>(dims[i] - 1);
    dst_first += dst[i] * last;
    src_first += src[i] * last;
    dst[i] = -dst[i];
    src[i] = -src[i];
  }
  for (unsigned i = 1; i < count; ++i)
    for (unsigned j = i; j > 0 && dst[j - 1] < dst[j]; --j) {
      std::swap(dims[j - 1], dims[j]);
      std::swap(dst[j - 1], dst[j]);
      std::swap(src[j - 1], src[j]);
    }
  unsigned n = 0;
  for (unsigned i = 1; i < count; ++i) {
    const int64_t inner = static_cast<int64_t>(dims[i]);
    if (dst[n] == dst[i] * inner && src[n] == src[i] * inner) {
      dims[n] *= dims[i];
    } else {
      dims[++n] = dims[i];
    }
    dst[n] = dst[i];
    src[n] = src[i];
  }
  count = n + 1;
}

Hull hull(const Strided &shape, const int64_t (&stride)[Strided::kDims]) {
  Hull h{0, shape.size};
  for (unsigned i = 0; i < shape.count; ++i) {
    const int64_t reach = stride[i] * static_cast<int64_t>(shape.dims[i] - 1);
    (reach < 0 ? h.low : h.high) += reach;
  }
  return h;
}

void move_elements(const Strided &s, uint8_t *dst, const View &src) {
  const unsigned inner = s.count - 1;  // the destination's strides descend
  unsigned outer[Strided::kDims], n = 0;
  if (s.dst[inner] == s.size && src.stride[inner] == s.size) {
    for (unsigned i = 0; i < inner; ++i) outer[n++] = i;
    const uint64_t bytes = s.dims[inner] * s.size;
    for_each(s, src.stride, outer, n, 0, 0, [&](int64_t d, int64_t f) { std::memmove(dst + d, src.data + f, bytes); });
    return;
  }
  // The matrix of the destination's innermost dimension and the one in which the source is closest.
  unsigned row = inner;
  for (unsigned i = 0; i < inner; ++i)
    if (src.stride[i] != 0 && (row == inner || std::abs(src.stride[i]) < std::abs(src.stride[row]))) row = i;
  for (unsigned i = 0; i < inner; ++i)
    if (i != row) outer[n++] = i;
  const uint64_t rows = row == inner ? 1 : s.dims[row];
  const int64_t d_row = row == inner ? 0 : s.dst[row], s_row = row == inner ? 0 : src.stride[row];
  for_each(s, src.stride, outer, n, 0, 0, [&](int64_t d, int64_t f) {
    move_matrix(s.size, dst + d, src.data + f, rows, s.dims[inner], d_row, s.dst[inner], s_row, src.stride[inner]);
  });
}

void fill_elements(const Strided &s, uint8_t *dst, uint64_t value) {
  unsigned outer[Strided::kDims], n = 0;
  for (unsigned i = 0; i + 1 < s.count; ++i) outer[n++] = i;
  for_each(s, s.dst, outer, n, 0, 0,
           [&](int64_t d, int64_t) { fill_row(dst + d, s.dims[s.count - 1], s.dst[s.count - 1], s.size, value); });
}

}  // namespace npu::model
