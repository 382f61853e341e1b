// SPDX-License-Identifier: MIT
// POOL on vector loops. Windows are those of CONV; cells outside the image take no part.
#include <algorithm>

#include "npu_arith.hpp"
#include "qemu-device/model/src/compute/numerics.h"
#include "qemu-device/model/src/compute/onednn/kernels.h"
#include "qemu-device/model/src/compute/onednn/number_kernels.h"
#include "qemu-device/model/src/compute/onednn/onednn_backend.h"

namespace npu::model {
namespace {

/// The cells of one window that lie inside the image.
struct Window {
  int64_t y, x;  ///< where the window begins
  WindowRange rows, cols;

  Window(const npu_cmd_pool &c, int64_t oy, int64_t ox)
      : y(oy * c.sh - c.pad_t),
        x(ox * c.sw - c.pad_l),
        rows(window_range(y, c.dh, c.kh, c.ih)),
        cols(window_range(x, c.dw, c.kw, c.iw)) {}
  /// The first of them.
  int64_t first(const npu_cmd_pool &c) const { return (y + rows.first * c.dh) * c.iw + x + cols.first * c.dw; }
};

float divisor(const npu_cmd_pool &c, const Window &w) {
  if (!(c.flags & NPU_POOLF_COUNT_PAD)) return static_cast<float>(w.rows.size() * w.cols.size());
  const WindowRange rows = window_range(w.y, c.dh, c.kh, int64_t{c.ih} + std::max(c.pad_b, 0));
  const WindowRange cols = window_range(w.x, c.dw, c.kw, int64_t{c.iw} + std::max(c.pad_r, 0));
  return static_cast<float>(rows.last * cols.last);
}

/// Calls f(window, number of the output cell) for all windows of an image.
template <class F>
void each_window(const npu_cmd_pool &c, F f) {
  size_t cell = 0;
  for (int64_t oy = 0; oy < c.oh; ++oy)
    for (int64_t ox = 0; ox < c.ow; ++ox, ++cell) f(Window(c, oy, ox), cell);
}

/// Pools an image in f32 whose cells are `pitch` apart.
void pool_floats(const npu_cmd_pool &c, const Window &w, const float *image, size_t pitch, float *to) {
  kernels().pool(c.subop, image + static_cast<size_t>(w.first(c)) * pitch, w.rows.size(), c.dh * c.iw * pitch,
                 w.cols.size(), c.dw * pitch, divisor(c, w), to, c.c);
}

/// Whether the largest element is the largest number's, bit by bit.
bool compares_bits(const npu_cmd_pool &c) {
  constexpr float kSafe = 0x1p100f;  // times any element this is finite
  return c.subop == NPU_POOL_MAX && !is_float(c.in_dtype) && c.in_dtype == c.out_dtype && c.in_scale == c.out_scale &&
         c.in_zp == c.out_zp && c.in_scale < kSafe;
}

void pool_integers(const npu_cmd_pool &c, const char *image, size_t pitch, char *out, size_t out_pitch) {
  const NumberKernels &k = number_kernels();
  const size_t size = hw::arith::dtype_bytes(c.in_dtype);
  each_window(c, [&](const Window &w, size_t cell) {
    const char *first = image + static_cast<size_t>(w.first(c)) * pitch * size;
    for (int64_t row = 0; row < w.rows.size(); ++row)
      k.largest(c.in_dtype, first + static_cast<size_t>(row) * c.dh * c.iw * pitch * size,
                static_cast<size_t>(w.cols.size()), c.dw * pitch, row > 0, c.c, out + cell * out_pitch * size);
  });
}

/// Sums of integers are exact in f32 as long as they are no larger than its mantissa.
bool sums_exactly(const npu_cmd_pool &c) {
  const uint64_t largest = hw::arith::dtype_bytes(c.in_dtype) == 1 ? UINT8_MAX : UINT16_MAX;
  return uint64_t{c.kh} * c.kw * largest <= uint64_t{1} << 24;
}

}  // namespace

void Onednn::run(const npu_cmd_pool &c, const void *in, void *out) {
  const bool whole_sums = c.subop == NPU_POOL_AVG && !is_float(c.in_dtype);
  if (whole_sums && !sums_exactly(c)) return Reference::run(c, in, out);
  const size_t in_size = hw::arith::dtype_bytes(c.in_dtype), out_size = hw::arith::dtype_bytes(c.out_dtype);
  const size_t in_pitch = c.in_pitch ? c.in_pitch : c.c, out_pitch = c.out_pitch ? c.out_pitch : c.c;
  const size_t cells = size_t{c.ih} * c.iw, out_cells = size_t{c.oh} * c.ow;
  // An average adds whole numbers, then scales.
  const Number number{c.in_dtype, whole_sums ? 1 : c.in_scale, c.in_zp}, result{c.out_dtype, c.out_scale, c.out_zp};
  ThreadState &thread = ThreadState::current();
  float *const room = static_cast<float *>(thread.results.reserve(c.c * sizeof(float)));
  for (size_t n = 0; n < c.n; ++n) {
    const char *image = static_cast<const char *>(in) + n * cells * in_pitch * in_size;
    char *to = static_cast<char *>(out) + n * out_cells * out_pitch * out_size;
    if (compares_bits(c)) {
      pool_integers(c, image, in_pitch, to, out_pitch);
      continue;
    }
    const float *floats = reinterpret_cast<const float *>(image);
    size_t pitch = in_pitch;
    if (!number.plain()) {
      auto *staged = static_cast<float *>(thread.staged.reserve(cells * c.c * sizeof(float)));
      for (size_t cell = 0; cell < cells; ++cell)
        number_kernels().load(number, image + cell * in_pitch * in_size, c.c, staged + cell * c.c);
      floats = staged;
      pitch = c.c;
    }
    each_window(c, [&](const Window &w, size_t cell) {
      char *place = to + cell * out_pitch * out_size;
      float *y = result.plain() ? reinterpret_cast<float *>(place) : room;
      pool_floats(c, w, floats, pitch, y);
      if (whole_sums) kernels().combine(NPU_ELTWISE_MUL, y, 1, &c.in_scale, 0, y, c.c);
      if (!result.plain()) number_kernels().store(result, y, c.c, place);
    });
  }
}

}  // namespace npu::model
