// SPDX-License-Identifier: MIT
// POOL as it is defined. Windows are those of CONV; cells outside the image take no part.
#include <algorithm>
#include <vector>

#include "npu_arith.hpp"
#include "qemu-device/model/src/backend.h"
#include "qemu-device/model/src/compute/numbers.h"
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

/// Floating-point sums are f32, one rounding a cell.
double sum(const npu_cmd_pool &c, double a, float b) {
  return is_float(c.in_dtype) ? double{static_cast<float>(a) + b} : a + b;
}

/// The window's cells in double: sums of integers are exact.
void pool_window(const npu_cmd_pool &c, const Number &number, const char *image, const Window &w, float *cell,
                 double *out) {
  const bool max = c.subop == NPU_POOL_MAX;
  const size_t pitch = c.in_pitch ? c.in_pitch : c.c, size = hw::arith::dtype_bytes(c.in_dtype);
  bool first = true;
  for (int64_t ky = w.rows.first; ky < w.rows.last; ++ky)
    for (int64_t kx = w.cols.first; kx < w.cols.last; ++kx, first = false) {
      const size_t at = static_cast<size_t>((w.y0 + ky * c.dh) * c.iw + w.x0 + kx * c.dw);
      load_numbers(number, image + at * pitch * size, c.c, cell);
      for (size_t i = 0; i < c.c; ++i)
        out[i] = first ? double{cell[i]} : max ? maximum(static_cast<float>(out[i]), cell[i]) : sum(c, out[i], cell[i]);
    }
}

}  // namespace

void Reference::run(const npu_cmd_pool &c, const void *in, void *out) {
  // An average adds whole numbers, then scales: its sum is exact.
  const bool average = c.subop == NPU_POOL_AVG;
  const float scale = average && !is_float(c.in_dtype) ? c.in_scale : 1;
  const Number from{c.in_dtype, average ? 1 : c.in_scale, c.in_zp}, to{c.out_dtype, c.out_scale, c.out_zp};
  const size_t pitch = c.out_pitch ? c.out_pitch : c.c, step = pitch * hw::arith::dtype_bytes(c.out_dtype);
  const size_t image = size_t{c.ih} * c.iw * (c.in_pitch ? c.in_pitch : c.c) * hw::arith::dtype_bytes(c.in_dtype);
  std::vector<float> cell(c.c);
  std::vector<double> sums(c.c);
  char *result = static_cast<char *>(out);
  for (int64_t n = 0; n < c.n; ++n)
    for (int64_t oy = 0; oy < c.oh; ++oy)
      for (int64_t ox = 0; ox < c.ow; ++ox, result += step) {
        const int64_t y0 = oy * c.sh - c.pad_t;
        const int64_t x0 = ox * c.sw - c.pad_l;
        const Window w{y0, x0, window_range(y0, c.dh, c.kh, c.ih), window_range(x0, c.dw, c.kw, c.iw)};
        pool_window(c, from, static_cast<const char *>(in) + static_cast<size_t>(n) * image, w, cell.data(),
                    sums.data());
        const float count = average ? divisor(c, w) : 1;
        for (size_t i = 0; i < c.c; ++i) cell[i] = static_cast<float>(sums[i]) / count * scale;
        store_numbers(to, cell.data(), c.c, result);
      }
}

}  // namespace npu::model
