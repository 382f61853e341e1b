// SPDX-License-Identifier: MIT
// ELTWISE, UNARY, REQUANT, LUT and SELECT: elements of all types are brought into f32, computed with and written back
// chunk by chunk.
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <numeric>

#include "npu_arith.hpp"
#include "qemu-device/model/src/compute/onednn/kernels.h"
#include "qemu-device/model/src/compute/onednn/number_kernels.h"
#include "qemu-device/model/src/compute/onednn/onednn_backend.h"

namespace npu::model {
namespace {

// Elements of a chunk: small enough for the first-level cache with all operands.
constexpr size_t kChunk = 1024;
constexpr size_t kMostBytes = 4;  // of a number
// Elements of 8 bits from which on a table for all 256 of them is less work.
constexpr size_t kTableElements = 1024;

bool byte_sized(uint8_t dtype) { return dtype == NPU_DTYPE_S8 || dtype == NPU_DTYPE_U8; }

/// Numbers that are read along a run.
class Source {
 public:
  Source(const Number &number, const void *base, size_t step)
      : number_(number),
        base_(static_cast<const char *>(base)),
        size_(hw::arith::dtype_bytes(number.dtype)),
        step_(step) {}

  /// Elements of the run [at, at + count), whose first one is `first`, as f32: one only where all are the same. They
  /// may be in `room`.
  const float *take(size_t first, size_t at, size_t count, float *room) const {
    const char *from = base_ + (first + at * step_) * size_;
    char gathered[kChunk * kMostBytes];
    if (step_ > 1) {
      gather(from, count, gathered);
      from = gathered;
    }
    if (number_.plain() && from != gathered) return reinterpret_cast<const float *>(from);
    number_kernels().load(number_, from, step_ ? count : 1, room);
    return room;
  }
  /// 0 or 1: how far apart elements are then.
  size_t taken_step() const { return step_ != 0; }

 private:
  void gather(const char *from, size_t count, char *to) const {
    const size_t apart = step_ * size_;
    switch (size_) {
      case 1:
        for (size_t i = 0; i < count; ++i) to[i] = from[i * apart];
        return;
      case 2:
        for (size_t i = 0; i < count; ++i) std::memcpy(to + i * 2, from + i * apart, 2);
        return;
      default:
        for (size_t i = 0; i < count; ++i) std::memcpy(to + i * 4, from + i * apart, 4);
    }
  }

  const Number number_;
  const char *const base_;
  const size_t size_, step_;
};

/// Numbers that are written along a run.
class Sink {
 public:
  Sink(const Number &number, void *base)
      : number_(number), base_(static_cast<char *>(base)), size_(hw::arith::dtype_bytes(number.dtype)) {}

  /// Where to write elements from `first` on, as f32: their place, or `room`.
  float *place(size_t first, float *room) const {
    return number_.plain() ? reinterpret_cast<float *>(base_ + first * size_) : room;
  }
  void put(size_t first, const float *from, size_t count) const {
    if (!number_.plain()) number_kernels().store(number_, from, count, base_ + first * size_);
  }

 private:
  const Number number_;
  char *const base_;
  const size_t size_;
};

/// Five dimensions with strides for some operands, of which the last one is the result: those of 1 are dropped and
/// those that all operands cross without a break joined, so that the last is the longest possible. There elements of
/// the result follow each other.
template <size_t operands>
struct Loops {
  size_t dims[5], stride[operands][5];
  int rank = 0;

  Loops(const uint32_t (&sizes)[5], const std::array<std::array<size_t, 5>, operands> &strides) {
    for (size_t d = 0; d < 5; ++d) {
      if (sizes[d] == 1) continue;
      bool joins = rank > 0;
      for (size_t o = 0; o < operands && joins; ++o) joins = stride[o][rank - 1] == strides[o][d] * sizes[d];
      if (!joins) dims[rank++] = 1;
      dims[rank - 1] *= sizes[d];
      for (size_t o = 0; o < operands; ++o) stride[o][rank - 1] = strides[o][d];
    }
    if (rank > 0 && stride[operands - 1][rank - 1] == 1) return;
    dims[rank] = 1;
    for (auto &s : stride) s[rank] = 0;
    ++rank;
  }

  size_t run() const { return dims[rank - 1]; }
  size_t step(size_t operand) const { return stride[operand][rank - 1]; }

  /// Calls f with the first elements of each run.
  template <class F>
  void each(F f) const {
    size_t index[5] = {}, at[operands] = {};
    for (;;) {
      f(at);
      int d = rank - 2;
      for (; d >= 0; --d) {
        for (size_t o = 0; o < operands; ++o) at[o] += stride[o][d];
        if (++index[d] < dims[d]) break;
        for (size_t o = 0; o < operands; ++o) at[o] -= stride[o][d] * dims[d];
        index[d] = 0;
      }
      if (d < 0) return;
    }
  }
};

std::array<size_t, 5> strides_of(const uint32_t (&stride)[5]) {
  return {stride[0], stride[1], stride[2], stride[3], stride[4]};
}

/// Those of a result whose rows are `pitch` apart.
std::array<size_t, 5> dense_strides(const uint32_t (&dims)[5], size_t pitch) {
  std::array<size_t, 5> s{0, 0, 0, pitch, 1};
  for (size_t d = 3; d-- > 0;) s[d] = s[d + 1] * dims[d + 1];
  return s;
}

size_t count_of(const uint32_t (&dims)[5]) {
  return std::accumulate(dims, dims + 5, size_t{1}, std::multiplies<size_t>());
}

/// All bytes, as the elements of which a table is made.
const uint8_t *all_bytes() {
  static const auto bytes = [] {
    std::array<uint8_t, 256> list;
    std::iota(list.begin(), list.end(), uint8_t{0});
    return list;
  }();
  return bytes.data();
}

/// ELTWISE with a constant as a table, if it is one and that is less work.
bool by_table(const npu_cmd_eltwise &c, const Loops<3> &loops, const void *a, void *out) {
  if (!(c.flags & NPU_ELTWISEF_B_IMM) || !byte_sized(c.a_dtype) || !byte_sized(c.out_dtype)) return false;
  if (loops.step(0) != 1 || count_of(c.dims) < kTableElements) return false;
  npu_cmd_eltwise one = c;
  for (size_t d = 0; d < 5; ++d) {
    one.dims[d] = d == 4 ? 256 : 1;
    one.a_stride[d] = d == 4;
  }
  one.out_pitch = 0;
  uint8_t table[256];
  Reference().run(one, all_bytes(), nullptr, table);
  loops.each([&](const size_t(&at)[3]) {
    number_kernels().look_up(1, static_cast<const uint8_t *>(a) + at[0], loops.run(), table,
                             static_cast<uint8_t *>(out) + at[2]);
  });
  return true;
}

/// ELTWISE of bytes in one loop, if it is one that has it.
bool by_bytes(const npu_cmd_eltwise &c, const Loops<3> &loops, const char *a, const char *b, char *out) {
  if (!byte_sized(c.a_dtype) || !byte_sized(c.b_dtype) || !byte_sized(c.out_dtype)) return false;
  if (loops.step(0) != 1 || loops.step(1) != 1) return false;
  if (c.subop != NPU_ELTWISE_ADD && c.subop != NPU_ELTWISE_MUL) return false;
  if (c.act != NPU_ACT_NONE && c.act != NPU_ACT_RELU) return false;
  const Number left{c.a_dtype, c.a_scale, c.a_zp}, right{c.b_dtype, c.b_scale, c.b_zp};
  const Number result{c.out_dtype, c.out_scale, c.out_zp};
  loops.each([&](const size_t(&at)[3]) {
    number_kernels().combine_bytes(c.subop, c.act, left, a + at[0], right, b + at[1], result, loops.run(), out + at[2]);
  });
  return true;
}

}  // namespace

void Onednn::run(const npu_cmd_eltwise &c, const void *a, const void *b, void *out) {
  const bool imm = c.flags & NPU_ELTWISEF_B_IMM;
  const Loops<3> loops(c.dims, {strides_of(c.a_stride), strides_of(c.b_stride),
                                dense_strides(c.dims, c.out_pitch ? c.out_pitch : c.dims[4])});
  if (by_table(c, loops, a, out)) return;
  if (!imm && by_bytes(c, loops, static_cast<const char *>(a), static_cast<const char *>(b), static_cast<char *>(out)))
    return;
  const Kernels &k = kernels();
  const Source left({c.a_dtype, c.a_scale, c.a_zp}, a, loops.step(0));
  const Source right({c.b_dtype, c.b_scale, c.b_zp}, imm ? &c.imm : b, loops.step(1));
  const Sink result({c.out_dtype, c.out_scale, c.out_zp}, out);
  loops.each([&](const size_t(&at)[3]) {
    float rooms[3][kChunk];
    for (size_t i = 0; i < loops.run(); i += kChunk) {
      const size_t count = std::min(kChunk, loops.run() - i), first = at[2] + i;
      const float *x = left.take(at[0], i, count, rooms[0]), *y = right.take(at[1], i, count, rooms[1]);
      float *to = result.place(first, rooms[2]);
      k.combine(c.subop, x, left.taken_step(), y, right.taken_step(), to, count);
      if (c.act != NPU_ACT_NONE) k.activate(c.act, c.act_a, c.act_b, to, to, count);
      result.put(first, to, count);
    }
  });
}

void Onednn::run(const npu_cmd_unary &c, const void *in, void *out) {
  // The library has primitives for some of these functions. They are farther from the exact value than is allowed, or
  // lose NaN or denormals, or do what the loops do as well.
  const Source from({c.in_dtype}, in, 1);
  const Sink result({c.out_dtype}, out);
  float rooms[2][kChunk];
  for (size_t i = 0; i < c.count; i += kChunk) {
    const size_t count = std::min<size_t>(kChunk, c.count - i);
    float *to = result.place(i, rooms[1]);
    if (!kernels().unary(c.subop, c.act_a, c.act_b, from.take(0, i, count, rooms[0]), to, count))
      return Reference::run(c, in, out);
    result.put(i, to, count);
  }
}

namespace {

/// REQUANT from 8 bits to 8 bits as a table.
void by_table(const npu_cmd_requant &c, const void *in, void *out) {
  npu_cmd_requant one = c;
  one.rows = 1;
  one.cols = 256;
  one.in_pitch = one.out_pitch = 0;
  uint8_t table[256];
  Reference().run(one, all_bytes(), nullptr, nullptr, table);
  const size_t in_pitch = c.in_pitch ? c.in_pitch : c.cols, out_pitch = c.out_pitch ? c.out_pitch : c.cols;
  const bool dense = in_pitch == c.cols && out_pitch == c.cols;
  const size_t rows = dense ? 1 : c.rows, cols = dense ? size_t{c.rows} * c.cols : c.cols;
  for (size_t row = 0; row < rows; ++row)
    number_kernels().look_up(1, static_cast<const uint8_t *>(in) + row * in_pitch, cols, table,
                             static_cast<uint8_t *>(out) + row * out_pitch);
}

}  // namespace

void Onednn::run(const npu_cmd_requant &c, const void *in, const void *in_scales, const void *out_scales, void *out) {
  if (byte_sized(c.in_dtype) && byte_sized(c.out_dtype) && !in_scales && !out_scales &&
      uint64_t{c.rows} * c.cols >= kTableElements)
    return by_table(c, in, out);
  const NumberKernels &k = number_kernels();
  const size_t in_size = hw::arith::dtype_bytes(c.in_dtype), out_size = hw::arith::dtype_bytes(c.out_dtype);
  const size_t in_pitch = c.in_pitch ? c.in_pitch : c.cols, out_pitch = c.out_pitch ? c.out_pitch : c.cols;
  const Number number{c.in_dtype, c.in_scale, c.in_zp}, result{c.out_dtype, c.out_scale, c.out_zp};
  const bool dense = in_pitch == c.cols && out_pitch == c.cols && !in_scales && !out_scales;
  const size_t rows = dense ? 1 : c.rows, cols = dense ? size_t{c.rows} * c.cols : c.cols;
  const auto scales_at = [](const void *scales, size_t i) {
    return static_cast<const char *>(scales) + i * sizeof(float);
  };
  float x[kChunk];
  for (size_t row = 0; row < rows; ++row)
    for (size_t i = 0; i < cols; i += kChunk) {
      const size_t count = std::min(kChunk, cols - i);
      const char *from = static_cast<const char *>(in) + (row * in_pitch + i) * in_size;
      char *to = static_cast<char *>(out) + (row * out_pitch + i) * out_size;
      in_scales ? k.load_scaled(number, scales_at(in_scales, i), from, count, x) : k.load(number, from, count, x);
      if (c.act != NPU_ACT_NONE) kernels().activate(c.act, c.act_a, c.act_b, x, x, count);
      out_scales ? k.store_scaled(result, scales_at(out_scales, i), x, count, to) : k.store(result, x, count, to);
    }
}

void Onednn::run(const npu_cmd_lut &c, const void *in, const void *table, void *out) {
  number_kernels().look_up(hw::arith::dtype_bytes(c.out_dtype), static_cast<const uint8_t *>(in), c.count, table, out);
}

void Onednn::run(const npu_cmd_select &c, const void *a, const void *b, const void *condition, void *out) {
  const size_t size = hw::arith::dtype_bytes(c.dtype);
  const Loops<4> loops(c.dims, {strides_of(c.a_stride), strides_of(c.b_stride), strides_of(c.c_stride),
                                dense_strides(c.dims, c.dims[4])});
  loops.each([&](const size_t(&at)[4]) {
    number_kernels().select(size, static_cast<const uint8_t *>(condition) + at[2], loops.step(2),
                            static_cast<const char *>(a) + at[0] * size, loops.step(0),
                            static_cast<const char *>(b) + at[1] * size, loops.step(1), loops.run(),
                            static_cast<char *>(out) + at[3] * size);
  });
}

}  // namespace npu::model
