// SPDX-License-Identifier: MIT
// CONV and MATMUL as they are defined: one accumulator an output element, products added in the order ky, kx, c (or k).
// Floating-point numbers are multiplied as f32, those of 8 bits as integers modulo 2^32.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "qemu-device/model/src/backend.h"
#include "qemu-device/model/src/compute/numbers.h"
#include "qemu-device/model/src/compute/numerics.h"
#include "qemu-device/model/src/compute/reference.h"

namespace npu::model {
namespace {

// Output channels that are accumulated side by side. Each has its own accumulator, so the width changes no result.
constexpr size_t kWidth = 16;

// The weights of up to kWidth output channels with the channel innermost: no larger than the operand itself, as
// factors. Weight (term t, channel o) is element first + t * term_step + o * channel_step of `w`.
template <class T>
struct Packed {
  std::vector<T> data, run;
  size_t channels = 0;

  void load(uint8_t dtype, int32_t zero, const void *w, size_t first, size_t terms, size_t term_step, size_t count,
            size_t channel_step) {
    channels = count;
    data.resize(terms * channels);
    const size_t size = hw::arith::dtype_bytes(dtype);
    const auto *bytes = static_cast<const char *>(w);
    if (term_step == 1) {
      run.resize(terms);
      for (size_t o = 0; o < channels; ++o) {
        load_factors(dtype, zero, bytes + (first + o * channel_step) * size, terms, run.data());
        for (size_t t = 0; t < terms; ++t) data[t * channels + o] = run[t];
      }
      return;
    }
    for (size_t t = 0; t < terms; ++t)  // channels follow each other
      load_factors(dtype, zero, bytes + (first + t * term_step) * size, channels, data.data() + t * channels);
  }
  const T *term(size_t t) const { return data.data() + t * channels; }
};

// acc[o] += sum over i of x[i] * w[i][o], i ascending. Full width apart, for the compiler to keep it in registers.
template <class T>
void accumulate(T (&acc)[kWidth], const T *x, const T *w, size_t count, size_t channels) {
  if (channels != kWidth) {
    for (size_t i = 0; i < count; ++i)
      for (size_t o = 0; o < channels; ++o) acc[o] += x[i] * w[i * channels + o];
    return;
  }
  T sum[kWidth];
  std::copy(acc, acc + kWidth, sum);
  for (size_t i = 0; i < count; ++i)
    for (size_t o = 0; o < kWidth; ++o) sum[o] += x[i] * w[i * kWidth + o];
  std::copy(sum, sum + kWidth, acc);
}

// What happens to accumulators before and after the products. `index` is the position in the result, `channel` that
// of its first output channel.
template <class T>
struct Epilogue {
  const void *psum;
  ProductParams params;
  uint8_t act, dtype;
  float act_a, act_b;
  int32_t zero;
  char *out;

  template <class Cmd>
  Epilogue(const Cmd &c, const ProductParams &vectors, const void *sums, void *result)
      : psum(sums),
        params(vectors),
        act(c.act),
        dtype(c.out_dtype),
        act_a(c.act_a),
        act_b(c.act_b),
        zero(c.out_zp),
        out(static_cast<char *>(result)) {}

  void begin(T (&acc)[kWidth], size_t index, size_t channels) const {
    std::fill(acc, acc + kWidth, T{0});
    if (psum) std::memcpy(acc, static_cast<const char *>(psum) + index * sizeof(T), channels * sizeof(T));
  }
  void end(T (&acc)[kWidth], size_t channel, size_t channels, size_t index) const {
    if (params.bias)
      for (size_t o = 0; o < channels; ++o) acc[o] += load_as<T>(params.bias, channel + o);
    char *to = out + index * hw::arith::dtype_bytes(dtype);
    if (std::is_integral_v<T> && !params.multiplier) {
      std::memcpy(to, acc, channels * sizeof(T));
      return;
    }
    float value[kWidth];
    for (size_t o = 0; o < channels; ++o) value[o] = multiplied(acc[o], channel + o);
    activate(act, act_a, act_b, value, channels);
    if (is_float(dtype))
      store_numbers({dtype, 0, 0}, value, channels, to);
    else
      store_rounded(dtype, zero, value, channels, to);
  }

 private:
  float multiplied(T acc, size_t channel) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<float>(static_cast<int32_t>(acc)) * load_as<float>(params.multiplier, channel);
    else
      return acc;
  }
};

// The operands of a convolution as factors, cells without gaps.
template <class T>
struct Cells {
  const npu_cmd_conv &c;
  const T *in;
  int64_t rows, cols;  // of the image

  Cells(const npu_cmd_conv &cmd, const T *factors)
      : c(cmd), in(factors), rows((c.ih - int64_t{1}) * step(c.idh) + 1), cols((c.iw - int64_t{1}) * step(c.idw) + 1) {}

  static int64_t step(uint8_t dilation) { return dilation ? dilation : 1; }

  // Calls f(cell of the input, term of the window) for those of a window that lie in the image and are not between
  // input cells.
  template <class F>
  void window(int64_t n, int64_t y0, int64_t x0, F f) const {
    const WindowRange ys = window_range(y0, c.dh, c.kh, rows), xs = window_range(x0, c.dw, c.kw, cols);
    const int64_t idh = step(c.idh), idw = step(c.idw);
    for (int64_t ky = ys.first; ky < ys.last; ++ky) {
      const int64_t y = y0 + ky * c.dh;
      if (idh > 1 && y % idh) continue;
      const T *row = in + (n * c.ih + (idh > 1 ? y / idh : y)) * c.iw * c.ic;
      for (int64_t kx = xs.first; kx < xs.last; ++kx) {
        const int64_t x = x0 + kx * c.dw;
        if (idw > 1 && x % idw) continue;
        f(row + (idw > 1 ? x / idw : x) * c.ic, ky * c.kw + kx);
      }
    }
  }

  // Calls f(image, first row, first column, position in the result) for each output cell.
  template <class F>
  void each(F f) const {
    const size_t pitch = c.out_pitch ? c.out_pitch : c.oc;
    size_t index = 0;
    for (int64_t n = 0; n < c.n; ++n)
      for (int64_t oy = 0; oy < c.oh; ++oy)
        for (int64_t ox = 0; ox < c.ow; ++ox, index += pitch) f(n, oy * c.sh - c.pad_t, ox * c.sw - c.pad_l, index);
  }
};

// The part of CONV that concerns kWidth or fewer output channels of one group: their packed weights meet every output
// pixel.
template <class T>
void conv_block(const Cells<T> &cells, const Epilogue<T> &epilogue, const Packed<T> &packed, size_t group,
                size_t channel) {
  const size_t channels = packed.channels, icg = cells.c.ic / cells.c.groups;
  cells.each([&](int64_t n, int64_t y0, int64_t x0, size_t index) {
    T acc[kWidth];
    epilogue.begin(acc, index + channel, channels);
    cells.window(n, y0, x0, [&](const T *cell, int64_t term) {
      accumulate(acc, cell + group * icg, packed.term(static_cast<size_t>(term) * icg), icg, channels);
    });
    epilogue.end(acc, channel, channels, index + channel);
  });
}

// One input and one output channel a group: kWidth groups side by side, each with the one product a window cell.
template <class T>
void conv_depthwise_block(const Cells<T> &cells, const Epilogue<T> &epilogue, const Packed<T> &packed, size_t channel) {
  const size_t channels = packed.channels;
  cells.each([&](int64_t n, int64_t y0, int64_t x0, size_t index) {
    T acc[kWidth];
    epilogue.begin(acc, index + channel, channels);
    cells.window(n, y0, x0, [&](const T *cell, int64_t term) {
      const T *x = cell + channel, *w = packed.term(static_cast<size_t>(term));
      for (size_t o = 0; o < channels; ++o) acc[o] += x[o] * w[o];
    });
    epilogue.end(acc, channel, channels, index + channel);
  });
}

// `rows` runs of `count` elements, `pitch` apart, as factors without gaps. What has that form already is used as it is.
template <class T>
const T *factors(uint8_t dtype, int32_t zero, const void *from, size_t rows, size_t count, size_t pitch,
                 std::vector<T> &own) {
  if constexpr (std::is_same_v<T, float>)
    if (dtype == NPU_DTYPE_F32 && (pitch == count || rows == 1)) return f32(from);
  own.resize(rows * count);
  const size_t step = pitch * hw::arith::dtype_bytes(dtype);
  const auto *bytes = static_cast<const char *>(from);
  if (pitch == count) return load_factors(dtype, zero, bytes, own.size(), own.data()), own.data();
  for (size_t row = 0; row < rows; ++row)
    load_factors(dtype, zero, bytes + row * step, count, own.data() + row * count);
  return own.data();
}

template <class T>
void conv(const npu_cmd_conv &c, const void *in, const void *weights, const ProductParams &params, const void *psum,
          void *out) {
  const Epilogue<T> epilogue(c, params, psum, out);
  std::vector<T> own;
  const Cells<T> cells(
      c, factors(c.in_dtype, c.in_zp, in, size_t{c.n} * c.ih * c.iw, c.ic, c.in_pitch ? c.in_pitch : c.ic, own));
  const size_t icg = c.ic / c.groups;
  const size_t ocg = c.oc / c.groups;
  const size_t window = size_t{c.kh} * c.kw;
  Packed<T> packed;
  if (icg == 1 && ocg == 1) {
    for (size_t channel = 0; channel < c.oc; channel += kWidth) {
      const size_t channels = std::min<size_t>(kWidth, c.oc - channel);
      packed.load(c.wgt_dtype, c.wgt_zp, weights, channel * window, window, 1, channels, window);
      conv_depthwise_block(cells, epilogue, packed, channel);
    }
    return;
  }
  const size_t terms = window * icg;
  for (size_t group = 0; group < c.groups; ++group)
    for (size_t o = 0; o < ocg; o += kWidth) {
      const size_t channel = group * ocg + o;
      const size_t channels = std::min(kWidth, ocg - o);
      packed.load(c.wgt_dtype, c.wgt_zp, weights, channel * terms, terms, 1, channels, terms);
      conv_block(cells, epilogue, packed, group, channel);
    }
}

template <class T>
void matmul(const npu_cmd_matmul &c, const void *in, const void *b, const ProductParams &params, const void *psum,
            void *out) {
  const Epilogue<T> epilogue(c, params, psum, out);
  const bool trans = c.flags & NPU_CONV_TRANS_B;
  const size_t k = c.k, n = c.n;
  const size_t a_row = c.a_row_stride ? c.a_row_stride : k, out_row = c.out_row_stride ? c.out_row_stride : n;
  const size_t b_row = c.b_row_stride ? c.b_row_stride : (trans ? k : n);
  const size_t out_batch = c.out_batch_stride ? c.out_batch_stride : c.m * out_row;
  const size_t size = hw::arith::dtype_bytes(c.in_dtype);
  Packed<T> packed;
  std::vector<T> own;
  for (size_t batch = 0; batch < c.batch; ++batch) {
    const T *rows = factors(c.in_dtype, c.in_zp, static_cast<const char *>(in) + batch * c.a_batch_stride * size, c.m,
                            k, a_row, own);
    for (size_t column = 0; column < n; column += kWidth) {
      const size_t columns = std::min(kWidth, n - column);
      const size_t first = batch * c.b_batch_stride + column * (trans ? b_row : 1);
      packed.load(c.wgt_dtype, c.wgt_zp, b, first, k, trans ? 1 : b_row, columns, trans ? b_row : 1);
      for (size_t row = 0; row < c.m; ++row) {
        const size_t index = batch * out_batch + row * out_row + column;
        T acc[kWidth];
        epilogue.begin(acc, index, columns);
        accumulate(acc, rows + row * k, packed.term(0), k, columns);
        epilogue.end(acc, column, columns, index);
      }
    }
  }
}

}  // namespace

bool Reference::run(const npu_cmd_conv &c, const void *in, const Streamed &wgt, const ProductParams &params,
                    const void *psum, void *out) {
  const void *weights = wgt.fetch(wgt.arg);
  if (!weights) return false;
  if (is_float(c.in_dtype))
    conv<float>(c, in, weights, params, psum, out);
  else
    conv<uint32_t>(c, in, weights, params, psum, out);
  return true;
}

bool Reference::run(const npu_cmd_matmul &c, const void *in, const Streamed &wgt, const ProductParams &params,
                    const void *psum, void *out) {
  const void *b = wgt.fetch(wgt.arg);
  if (!b) return false;
  if (is_float(c.in_dtype))
    matmul<float>(c, in, b, params, psum, out);
  else
    matmul<uint32_t>(c, in, b, params, psum, out);
  return true;
}

}  // namespace npu::model
