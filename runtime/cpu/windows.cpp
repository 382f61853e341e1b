// SPDX-License-Identifier: MIT
// Operators with a sliding window.
#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/cpu/element.h"
#include "runtime/cpu/picture.h"

namespace npu::cpu {
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

namespace {

template <class T>
void pool_as(const PoolAttrs &attrs, const Tensor &x, Tensor &out) {
  const Picture in(x.shape), to(out.shape);
  for_outputs(to, [&](int64_t n, int64_t c, int64_t oy, int64_t ox) {
    double sum = 0, top = -std::numeric_limits<double>::infinity();
    int64_t cells = 0;
    for_cells(attrs.window, in, oy, ox, [&](int64_t, int64_t, int64_t iy, int64_t ix) {
      const double v = x.as<T>()[in.at(n, c, iy, ix)];
      sum += v;
      top = std::isnan(v) || v > top ? v : top;
      ++cells;
    });
    if (attrs.count_pad) cells = counted(attrs, in, oy, ox);
    out.as<T>()[to.at(n, c, oy, ox)] = static_cast<T>(attrs.max ? top : sum / static_cast<double>(cells));
  });
}

}  // namespace

void pool(const PoolAttrs &attrs, const Tensor &x, Tensor &out) {
  if (x.dtype == Dtype::F32) return pool_as<float>(attrs, x, out);
  x.dtype == Dtype::I8 ? pool_as<int8_t>(attrs, x, out) : pool_as<uint8_t>(attrs, x, out);
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
