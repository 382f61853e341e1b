// SPDX-License-Identifier: MIT
// Commands as sequences of vector loops.
#include "qemu-device/model/src/compute/onednn/kernels.h"

#include "qemu-device/model/src/compute/numerics.h"

namespace npu::model::fast {
namespace {

const Kernels &choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    return kKernelsAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kKernelsAvx2;
#endif
  return kKernelsBaseline;
}

// Values that an operand with gaps is gathered into, and results before their activation: small enough for the
// first-level cache.
constexpr size_t kChunk = 1024;

// ELTWISE with dimensions of 1 dropped and those that both operands cross without a break joined: the last is the
// longest possible.
struct Loops {
  size_t dims[5], a[5], b[5];
  int rank = 0;

  explicit Loops(const npu_cmd_eltwise &c) {
    for (int d = 0; d < 5; ++d) {
      if (c.dims[d] == 1) continue;
      const size_t n = c.dims[d], sa = c.a_stride[d], sb = c.b_stride[d];
      if (rank && a[rank - 1] == sa * n && b[rank - 1] == sb * n) {
        dims[rank - 1] *= n;
        a[rank - 1] = sa;
        b[rank - 1] = sb;
        continue;
      }
      dims[rank] = n;
      a[rank] = sa;
      b[rank++] = sb;
    }
    if (rank == 0) dims[rank] = 1, a[rank] = b[rank] = 0, rank = 1;
  }
};

// One run along the last dimension.
struct Run {
  uint8_t op, act;
  float act_a, act_b;
  size_t a_step, b_step, count;

  void operator()(const Kernels &k, const float *a, const float *b, float *out) const {
    float gathered_a[kChunk], gathered_b[kChunk];
    for (size_t at = 0; at < count; at += kChunk) {
      const size_t n = std::min(kChunk, count - at);
      const float *x = operand(a, a_step, at, n, gathered_a);
      const float *y = operand(b, b_step, at, n, gathered_b);
      k.combine(op, x, a_step != 0, y, b_step != 0, out + at, n);
      if (act != NPU_ACT_NONE) k.activate(act, act_a, act_b, out + at, out + at, n);
    }
  }
  static const float *operand(const float *p, size_t step, size_t at, size_t n, float *gathered) {
    if (step <= 1) return p + at * step;
    for (size_t i = 0; i < n; ++i) gathered[i] = p[(at + i) * step];
    return gathered;
  }
};

float divisor(const npu_cmd_pool &c, int64_t y, int64_t x, const WindowRange &rows, const WindowRange &cols) {
  if (!(c.flags & NPU_POOLF_COUNT_PAD)) return static_cast<float>(rows.size() * cols.size());
  const WindowRange counted_rows = window_range(y, c.dh, c.kh, int64_t{c.ih} + std::max(c.pad_b, 0));
  const WindowRange counted_cols = window_range(x, c.dw, c.kw, int64_t{c.iw} + std::max(c.pad_r, 0));
  return static_cast<float>(counted_rows.last * counted_cols.last);
}

}  // namespace

const Kernels &kernels() {
  static const Kernels &chosen = choose();
  return chosen;
}

void activate(uint8_t act, float act_a, float act_b, const float *in, float *out, size_t count) {
  if (act == NPU_ACT_NONE && in == out) return;
  kernels().activate(act, act_a, act_b, in, out, count);
}

float largest(const float *x, size_t count) { return kernels().largest(x, count); }

void eltwise(const npu_cmd_eltwise &c, const float *a, const float *b, float *out) {
  Loops l(c);
  if (c.flags & NPU_ELTWISEF_B_IMM) b = &c.imm;
  const int last = l.rank - 1;
  const Run run{c.subop, c.act, c.act_a, c.act_b, l.a[last], l.b[last], l.dims[last]};
  const Kernels &k = kernels();
  size_t index[5] = {};
  for (;;) {
    run(k, a, b, out);
    out += run.count;
    int d = last - 1;
    for (; d >= 0; --d) {
      a += l.a[d];
      b += l.b[d];
      if (++index[d] < l.dims[d]) break;
      a -= l.a[d] * l.dims[d];
      b -= l.b[d] * l.dims[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

void pool(const npu_cmd_pool &c, const float *in, float *out) {
  const Kernels &k = kernels();
  const size_t row = size_t{c.iw} * c.c;
  for (int64_t n = 0; n < c.n; ++n, in += c.ih * row)
    for (int64_t oy = 0; oy < c.oh; ++oy)
      for (int64_t ox = 0; ox < c.ow; ++ox, out += c.c) {
        const int64_t y = oy * c.sh - c.pad_t, x = ox * c.sw - c.pad_l;
        const WindowRange rows = window_range(y, c.dh, c.kh, c.ih), cols = window_range(x, c.dw, c.kw, c.iw);
        const float *first = in + (y + rows.first * c.dh) * row + (x + cols.first * c.dw) * c.c;
        k.pool(c.subop, first, rows.size(), c.dh * row, cols.size(), size_t{c.dw} * c.c, divisor(c, y, x, rows, cols),
               out, c.c);
      }
}

void softmax(const npu_cmd_softmax &c, const float *in, float *out) {
  const Kernels &k = kernels();
  for (size_t r = 0; r < c.rows; ++r, in += c.cols, out += c.cols) k.softmax(c.subop, in, out, c.cols);
}

}  // namespace npu::model::fast
