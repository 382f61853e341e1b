// SPDX-License-Identifier: MIT
// Operators with a sliding window.
#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/cpu/operators.h"

namespace npu::cpu {
namespace {

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
int64_t counted(const PoolAttrs &a, int i, int64_t size, int64_t o) {
  int64_t n = 0;
  for (int64_t k = 0; k < a.window.kernel[i]; ++k)
    n += o * a.window.stride[i] - a.window.begin[i] + k * a.window.dilation[i] < size + a.counted_end[i];
  return n;
}

}  // namespace

void conv(const ConvAttrs &attrs, const Tensor &x, const Tensor &w, const Tensor *bias, Tensor &out) {
  const Picture in(x.shape), to(out.shape), k(w.shape);
  const int64_t per_group = to.c / attrs.groups;
  for_outputs(to, [&](int64_t n, int64_t oc, int64_t oy, int64_t ox) {
    double sum = 0;
    const int64_t first = oc / per_group * k.c;
    for_cells(attrs.window, in, oy, ox, [&](int64_t ky, int64_t kx, int64_t iy, int64_t ix) {
      for (int64_t c = 0; c < k.c; ++c)
        sum += static_cast<double>(x.as<float>()[in.at(n, first + c, iy, ix)]) * w.as<float>()[k.at(oc, c, ky, kx)];
    });
    if (bias) sum += bias->as<float>()[oc];
    out.as<float>()[to.at(n, oc, oy, ox)] = activate(attrs.act, sum);
  });
}

void pool(const PoolAttrs &attrs, const Tensor &x, Tensor &out) {
  const Picture in(x.shape), to(out.shape);
  for_outputs(to, [&](int64_t n, int64_t c, int64_t oy, int64_t ox) {
    double sum = 0, top = -std::numeric_limits<double>::infinity();
    int64_t cells = 0;
    for_cells(attrs.window, in, oy, ox, [&](int64_t, int64_t, int64_t iy, int64_t ix) {
      const double v = x.as<float>()[in.at(n, c, iy, ix)];
      sum += v;
      top = std::isnan(v) || v > top ? v : top;
      ++cells;
    });
    if (attrs.count_pad) cells = counted(attrs, 0, in.h, oy) * counted(attrs, 1, in.w, ox);
    out.as<float>()[to.at(n, c, oy, ox)] = static_cast<float>(attrs.max ? top : sum / static_cast<double>(cells));
  });
}

void pool_indices(const PoolIndicesAttrs &attrs, const Tensor &x, Tensor &out) {
  const Picture in(x.shape), to(out.shape);
  for_outputs(to, [&](int64_t n, int64_t c, int64_t oy, int64_t ox) {
    int64_t best = -1;
    float top = 0;
    for_cells(attrs.window, in, oy, ox, [&](int64_t, int64_t, int64_t iy, int64_t ix) {
      const float v = x.as<float>()[in.at(n, c, iy, ix)];
      if (best >= 0 && !(v > top) && !(std::isnan(top) && !std::isnan(v))) return;
      top = v;
      best = attrs.column_major ? (n * in.c + c) * in.h * in.w + ix * in.h + iy : in.at(n, c, iy, ix);
    });
    out.as<int64_t>()[to.at(n, c, oy, ox)] = best;
  });
}

}  // namespace npu::cpu
