// SPDX-License-Identifier: MIT
// CONV and MATMUL as they are defined: one accumulator an output element, products added in the order ky, kx, c (or k).
#include <vector>

#include "qemu-device/model/src/backend.h"
#include "qemu-device/model/src/compute/numerics.h"
#include "qemu-device/model/src/compute/reference.h"

namespace npu::model {
namespace {

// Output channels that are accumulated side by side. Each has its own accumulator, so the width changes no result.
constexpr size_t kWidth = 16;

// The weights of up to kWidth output channels with the channel innermost: no larger than the operand itself.
// Weight (term t, channel o) is element first + t * term_step + o * channel_step of `w`.
struct Packed {
  std::vector<float> data;
  size_t channels = 0;

  void load(const void *w, size_t first, size_t terms, size_t term_step, size_t count, size_t channel_step) {
    channels = count;
    data.resize(terms * channels);
    for (size_t t = 0; t < terms; ++t)
      for (size_t o = 0; o < channels; ++o)
        data[t * channels + o] = load_f32(w, first + t * term_step + o * channel_step);
  }
  const float *term(size_t t) const { return data.data() + t * channels; }
};

// acc[o] += sum over i of x[i] * w[i][o], i ascending. Full width apart, for the compiler to keep it in registers.
void accumulate(float (&acc)[kWidth], const float *x, const float *w, size_t count, size_t channels) {
  if (channels != kWidth) {
    for (size_t i = 0; i < count; ++i)
      for (size_t o = 0; o < channels; ++o) acc[o] += x[i] * w[i * channels + o];
    return;
  }
  float sum[kWidth];
  std::copy(acc, acc + kWidth, sum);
  for (size_t i = 0; i < count; ++i)
    for (size_t o = 0; o < kWidth; ++o) sum[o] += x[i] * w[i * kWidth + o];
  std::copy(sum, sum + kWidth, acc);
}

// What happens to accumulators before and after the products.
struct Epilogue {
  const float *psum;
  const void *bias;
  uint8_t act;
  float act_a, act_b;

  // `index` is the position in the result, `channel` that of its first output channel.
  void begin(float (&acc)[kWidth], size_t index, size_t channels) const {
    std::fill(acc, acc + kWidth, 0.0f);
    if (psum) std::copy(psum + index, psum + index + channels, acc);
  }
  void end(float (&acc)[kWidth], size_t channel, size_t channels, float *out) const {
    if (bias)
      for (size_t o = 0; o < channels; ++o) acc[o] += load_f32(bias, channel + o);
    activate(act, act_a, act_b, acc, channels);
    std::copy(acc, acc + channels, out);
  }
};

// The part of CONV that concerns kWidth or fewer output channels of one group: their packed weights meet every output
// pixel.
void conv_block(const npu_cmd_conv &c, const Epilogue &epilogue, const float *in, const Packed &packed, size_t group,
                size_t channel, float *out) {
  const size_t channels = packed.channels;
  const size_t icg = c.ic / c.groups;
  for (int64_t n = 0; n < c.n; ++n)
    for (int64_t oy = 0; oy < c.oh; ++oy) {
      const int64_t y0 = oy * c.sh - c.pad_t;
      const WindowRange rows = window_range(y0, c.dh, c.kh, c.ih);
      for (int64_t ox = 0; ox < c.ow; ++ox) {
        const int64_t x0 = ox * c.sw - c.pad_l;
        const WindowRange cols = window_range(x0, c.dw, c.kw, c.iw);
        const size_t index = ((n * c.oh + oy) * c.ow + ox) * size_t{c.oc} + channel;
        float acc[kWidth];
        epilogue.begin(acc, index, channels);
        for (int64_t ky = rows.first; ky < rows.last; ++ky)
          for (int64_t kx = cols.first; kx < cols.last; ++kx) {
            const int64_t cell = (n * c.ih + y0 + ky * c.dh) * c.iw + x0 + kx * c.dw;
            accumulate(acc, in + cell * c.ic + group * icg, packed.term((ky * c.kw + kx) * icg), icg, channels);
          }
        epilogue.end(acc, channel, channels, out + index);
      }
    }
}

// One input and one output channel a group: kWidth groups side by side, each with the one product a window cell.
void conv_depthwise_block(const npu_cmd_conv &c, const Epilogue &epilogue, const float *in, const Packed &packed,
                          size_t channel, float *out) {
  const size_t channels = packed.channels;
  for (int64_t n = 0; n < c.n; ++n)
    for (int64_t oy = 0; oy < c.oh; ++oy) {
      const int64_t y0 = oy * c.sh - c.pad_t;
      const WindowRange rows = window_range(y0, c.dh, c.kh, c.ih);
      for (int64_t ox = 0; ox < c.ow; ++ox) {
        const int64_t x0 = ox * c.sw - c.pad_l;
        const WindowRange cols = window_range(x0, c.dw, c.kw, c.iw);
        const size_t index = ((n * c.oh + oy) * c.ow + ox) * size_t{c.oc} + channel;
        float acc[kWidth];
        epilogue.begin(acc, index, channels);
        for (int64_t ky = rows.first; ky < rows.last; ++ky)
          for (int64_t kx = cols.first; kx < cols.last; ++kx) {
            const int64_t cell = (n * c.ih + y0 + ky * c.dh) * c.iw + x0 + kx * c.dw;
            const float *x = in + cell * c.ic + channel;
            const float *w = packed.term(ky * c.kw + kx);
            for (size_t o = 0; o < channels; ++o) acc[o] += x[o] * w[o];
          }
        epilogue.end(acc, channel, channels, out + index);
      }
    }
}

}  // namespace

bool Reference::run(const npu_cmd_conv &c, const void *in, const Streamed &wgt, const void *bias, const void *psum,
                    void *out) {
  const void *weights = wgt.fetch(wgt.arg);
  if (!weights) return false;
  const Epilogue epilogue{f32(psum), bias, c.act, c.act_a, c.act_b};
  const size_t icg = c.ic / c.groups;
  const size_t ocg = c.oc / c.groups;
  const size_t window = size_t{c.kh} * c.kw;
  Packed packed;
  if (icg == 1 && ocg == 1) {
    for (size_t channel = 0; channel < c.oc; channel += kWidth) {
      const size_t channels = std::min<size_t>(kWidth, c.oc - channel);
      packed.load(weights, channel * window, window, 1, channels, window);
      conv_depthwise_block(c, epilogue, f32(in), packed, channel, f32(out));
    }
    return true;
  }
  const size_t terms = window * icg;
  for (size_t group = 0; group < c.groups; ++group)
    for (size_t o = 0; o < ocg; o += kWidth) {
      const size_t channel = group * ocg + o;
      const size_t channels = std::min(kWidth, ocg - o);
      packed.load(weights, channel * terms, terms, 1, channels, terms);
      conv_block(c, epilogue, f32(in), packed, group, channel, f32(out));
    }
  return true;
}

bool Reference::run(const npu_cmd_matmul &c, const void *in, const Streamed &wgt, const void *bias, const void *psum,
                    void *out) {
  const void *b = wgt.fetch(wgt.arg);
  if (!b) return false;
  const Epilogue epilogue{f32(psum), bias, c.act, c.act_a, c.act_b};
  const bool trans = c.flags & NPU_CONV_TRANS_B;
  const size_t k = c.k;
  const size_t n = c.n;
  Packed packed;
  for (size_t batch = 0; batch < c.batch; ++batch) {
    const float *rows = f32(in) + batch * c.a_batch_stride;
    for (size_t column = 0; column < n; column += kWidth) {
      const size_t columns = std::min(kWidth, n - column);
      const size_t first = batch * c.b_batch_stride + column * (trans ? k : 1);
      packed.load(b, first, k, trans ? 1 : n, columns, trans ? k : 1);
      for (size_t row = 0; row < c.m; ++row) {
        const size_t index = (batch * c.m + row) * n + column;
        float acc[kWidth];
        epilogue.begin(acc, index, columns);
        accumulate(acc, rows + row * k, packed.term(0), k, columns);
        epilogue.end(acc, column, columns, f32(out) + index);
      }
    }
  }
  return true;
}

}  // namespace npu::model
