// SPDX-License-Identifier: MIT
// POOL as it is defined. Windows are those of CONV; cells outside the image take no part.
#include "qemu-device/model/src/backend.h"
#include "qemu-device/model/src/compute/numerics.h"

namespace npu::model {
namespace {

// Cells of one window: image rows y0 + ky * dh and columns x0 + kx * dw.
struct Window {
  int64_t y0, x0;
  WindowRange rows, cols;
};

// COUNT_PAD counts the cells up to the padding's far edge; none of them lies before the near edge, where window 0
// begins.
float divisor(const npu_cmd_pool &c, const Window &w) {
  if (!(c.flags & NPU_POOLF_COUNT_PAD)) return static_cast<float>(w.rows.size() * w.cols.size());
  const int64_t bottom = int64_t{c.ih} + std::max(c.pad_b, 0) + c.pad_t;
  const int64_t right = int64_t{c.iw} + std::max(c.pad_r, 0) + c.pad_l;
  const WindowRange rows = window_range(w.y0 + c.pad_t, c.dh, c.kh, bottom);
  const WindowRange cols = window_range(w.x0 + c.pad_l, c.dw, c.kw, right);
  return static_cast<float>(rows.size() * cols.size());
}

void pool_window(const npu_cmd_pool &c, const float *image, const Window &w, float *out) {
  const bool max = c.subop == NPU_POOL_MAX;
  bool first = true;
  for (int64_t ky = w.rows.first; ky < w.rows.last; ++ky)
    for (int64_t kx = w.cols.first; kx < w.cols.last; ++kx, first = false) {
      const float *x = image + ((w.y0 + ky * c.dh) * c.iw + w.x0 + kx * c.dw) * c.c;
      for (size_t i = 0; i < c.c; ++i) out[i] = first ? x[i] : (max ? maximum(out[i], x[i]) : out[i] + x[i]);
    }
  if (max) return;
  const float count = divisor(c, w);
  for (size_t i = 0; i < c.c; ++i) out[i] /= count;
}

}  // namespace

void Reference::run(const npu_cmd_pool &c, const void *in, void *out) {
  float *to = f32(out);
  for (int64_t n = 0; n < c.n; ++n)
    for (int64_t oy = 0; oy < c.oh; ++oy)
      for (int64_t ox = 0; ox < c.ow; ++ox) {
        const int64_t y0 = oy * c.sh - c.pad_t;
        const int64_t x0 = ox * c.sw - c.pad_l;
        const Window w{y0, x0, window_range(y0, c.dh, c.kh, c.ih), window_range(x0, c.dw, c.kw, c.iw)};
        pool_window(c, f32(in) + n * c.ih * c.iw * int64_t{c.c}, w, to);
        to += c.c;
      }
}

}  // namespace npu::model
