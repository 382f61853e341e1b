// SPDX-License-Identifier: MIT
// Loops over pictures and the windows that slide over them.
#ifndef NPU_CPU_PICTURE_H
#define NPU_CPU_PICTURE_H

#include "runtime/cpu/attributes.h"

namespace npu::cpu {

/// [n][c][h][w] of a tensor with one or two spatial dimensions.
struct Picture {
  int64_t n, c, h, w;
  explicit Picture(const Shape &s) : n(s[0]), c(s[1]), h(s[2]), w(s.size() > 3 ? s[3] : 1) {}
  int64_t at(int64_t in, int64_t ic, int64_t iy, int64_t ix) const { return ((in * c + ic) * h + iy) * w + ix; }
};

/// Calls f(ky, kx, y, x) for the cells of the window of output (oy, ox) that lie inside the picture.
template <class F>
void for_cells(const Window &w, const Picture &p, int64_t oy, int64_t ox, F f) {
  for (int64_t ky = 0; ky < w.kernel[0]; ++ky) {
    const int64_t y = oy * w.stride[0] - w.begin[0] + ky * w.dilation[0];
    if (y < 0 || y >= p.h) continue;
    for (int64_t kx = 0; kx < w.kernel[1]; ++kx) {
      const int64_t x = ox * w.stride[1] - w.begin[1] + kx * w.dilation[1];
      if (x >= 0 && x < p.w) f(ky, kx, y, x);
    }
  }
}

template <class F>
void for_outputs(const Picture &o, F f) {
  for (int64_t n = 0; n < o.n; ++n)
    for (int64_t c = 0; c < o.c; ++c)
      for (int64_t y = 0; y < o.h; ++y)
        for (int64_t x = 0; x < o.w; ++x) f(n, c, y, x);
}

/// Cells of a window along one dimension that count for an average with padding.
inline int64_t counted(const PoolAttrs &a, int i, int64_t size, int64_t o) {
  int64_t n = 0;
  for (int64_t k = 0; k < a.window.kernel[i]; ++k)
    n += o * a.window.stride[i] - a.window.begin[i] + k * a.window.dilation[i] < size + a.counted_end[i];
  return n;
}

/// Cells of the window of output (oy, ox) that count so.
inline int64_t counted(const PoolAttrs &a, const Picture &p, int64_t oy, int64_t ox) {
  return counted(a, 0, p.h, oy) * counted(a, 1, p.w, ox);
}

}  // namespace npu::cpu

#endif  // NPU_CPU_PICTURE_H
