// SPDX-License-Identifier: MIT
#include "tests/unit/commands/typed_product.h"

#include <sstream>

namespace npu::test {
namespace {

constexpr uint8_t k8Bits[] = {NPU_DTYPE_S8, NPU_DTYPE_U8};
constexpr uint64_t kMaxTerms = 200000;  // in a random case: hundreds of cases have to run under sanitizers

template <size_t N>
uint8_t one_of(Random &r, const uint8_t (&types)[N]) {
  return types[r.range(0, static_cast<int>(N) - 1)];
}

int32_t random_zero(Random &r, uint8_t dtype) {
  return is_real(dtype) || r.chance(3) ? 0 : r.range(static_cast<int>(lowest(dtype)), static_cast<int>(highest(dtype)));
}

/// Types, flags and activation that go together.
template <class Cmd>
void random_types(Random &r, Cmd &c, bool whole) {
  const bool integers = r.chance(2);
  c.in_dtype = integers ? one_of(r, k8Bits) : one_of(r, kFloats);
  c.wgt_dtype = integers ? one_of(r, k8Bits) : one_of(r, kFloats);
  c.in_zp = random_zero(r, c.in_dtype);
  c.wgt_zp = random_zero(r, c.wgt_dtype);
  if (r.chance(3)) c.flags |= NPU_CONV_PSUM_IN;
  c.out_dtype = integers ? NPU_DTYPE_S32 : NPU_DTYPE_F32;
  if (r.chance(5)) {
    c.flags |= NPU_CONV_PSUM_OUT;
    return;
  }
  if (r.chance(2)) c.flags |= NPU_CONV_BIAS;
  if (integers && r.chance(4)) return;  // the accumulators, with a bias
  if (integers) c.flags |= NPU_CONV_REQUANT;
  c.out_dtype = integers && !r.chance(4) ? one_of(r, k8Bits) : one_of(r, kFloats);
  c.out_zp = random_zero(r, c.out_dtype);
  c.act = static_cast<uint8_t>(r.range(NPU_ACT_NONE, NPU_ACT_LEAKY_RELU));
  if (is_real(c.out_dtype) && !whole && r.chance(3)) c.act = r.chance(2) ? NPU_ACT_SIGMOID : NPU_ACT_TANH;
  if (c.act == NPU_ACT_CLIP) {
    c.act_a = static_cast<float>(r.range(-20, 3));
    c.act_b = c.act_a + static_cast<float>(r.range(0, 40));
  }
  if (c.act == NPU_ACT_LEAKY_RELU) c.act_a = 0.25f;
}

/// Vectors of a product, and the partial sums.
template <class Cmd>
void random_vectors(Random &r, TypedProduct<Cmd> &t, uint32_t channels, bool whole) {
  const auto vector = [&](size_t count, int limit) {
    Bytes b(count * 4);
    for (size_t i = 0; i < count; ++i) {
      int32_t v = r.range(-limit, limit);
      if (t.integers() && r.chance(10)) v = static_cast<int32_t>(r.bits());  // sums wrap
      const float f = whole ? static_cast<float>(v) : r.real(-4, 4);
      std::memcpy(&b[i * 4], t.integers() ? static_cast<const void *>(&v) : &f, 4);
    }
    return b;
  };
  t.bias = vector(channels, t.integers() ? 30000 : 20);
  t.psum = vector(t.outputs, t.integers() ? 30000 : 20);
  Values m(channels);
  for (float &x : m) x = r.chance(20) ? 0.0f : r.real(-0.001f, 0.004f);
  t.multiplier = bytes_of(m);
}

/// What becomes of an element's accumulator, from its partial sum to the result.
template <class Cmd>
class Element {
 public:
  Element(const TypedProduct<Cmd> &t, Bytes &out, size_t at, uint32_t channel)
      : t_(t), c_(t.c), out_(out), at_(at), channel_(channel) {
    if (!t.psum_data()) return;
    if (t.integers())
      whole_ = integer_at(NPU_DTYPE_S32, t.psum.data(), at);
    else
      real_ = real_at(NPU_DTYPE_F32, t.psum.data(), at);
  }
  void add(size_t in, size_t wgt) {
    if (t_.integers())
      whole_ += (integer_at(c_.in_dtype, t_.in.data(), in) - c_.in_zp) *
                (integer_at(c_.wgt_dtype, t_.wgt.data(), wgt) - c_.wgt_zp);
    else
      real_ = plus(real_, times(real_at(c_.in_dtype, t_.in.data(), in), real_at(c_.wgt_dtype, t_.wgt.data(), wgt)));
  }
  ~Element() {
    if (c_.flags & NPU_CONV_BIAS) {
      if (t_.integers())
        whole_ += integer_at(NPU_DTYPE_S32, t_.bias.data(), channel_);
      else
        real_ = plus(real_, real_at(NPU_DTYPE_F32, t_.bias.data(), channel_));
    }
    const auto sum = static_cast<int32_t>(static_cast<uint32_t>(whole_));  // modulo 2^32
    if (c_.out_dtype == NPU_DTYPE_S32) {
      std::memcpy(&out_[at_ * 4], &sum, 4);
      return;
    }
    float v = real_;
    if (t_.integers()) v = times(static_cast<float>(sum), real_at(NPU_DTYPE_F32, t_.multiplier.data(), channel_));
    v = activated(c_.act, c_.act_a, c_.act_b, v);
    if (is_real(c_.out_dtype))
      store({c_.out_dtype, 0, 0}, v, out_.data(), at_);
    else
      store_steps({c_.out_dtype, 1, c_.out_zp}, v, out_.data(), at_);
  }

 private:
  const TypedProduct<Cmd> &t_;
  const Cmd &c_;
  Bytes &out_;
  const size_t at_;
  const uint32_t channel_;
  int64_t whole_ = 0;
  float real_ = 0;
};

size_t or_else(size_t a, size_t b) { return a ? a : b; }

void random_channels(Random &r, npu_cmd_conv &c) {
  switch (r.range(0, 3)) {
    case 0:  // depthwise
      c.groups = c.ic = c.oc = r.range(1, 40);
      return;
    case 1:
      c.groups = r.range(2, 4);
      c.ic = c.groups * r.range(1, 8);
      c.oc = c.groups * r.range(1, 20);
      return;
    default:
      c.groups = 1;
      c.ic = r.range(1, 24);
      c.oc = r.range(1, 40);
  }
}

template <class Cmd>
void describe_types(std::ostringstream &s, const Cmd &c) {
  s << " types=" << int{c.in_dtype} << ',' << int{c.wgt_dtype} << ',' << int{c.out_dtype} << " zeros=" << c.in_zp << ','
    << c.wgt_zp << ',' << c.out_zp << " act=" << c.act_a << ',' << c.act_b;
}

}  // namespace

TypedConv random_typed_conv(Random &r, bool whole) {
  TypedConv t;
  npu_cmd_conv &c = t.c;
  const auto size = [&](uint16_t most) { return static_cast<uint16_t>(r.chance(2) ? 1 : r.range(1, most)); };
  do {
    c = hw::make<npu_cmd_conv>();
    random_channels(r, c);
    c.n = r.range(1, 2);
    c.ih = r.range(1, 9);
    c.iw = r.range(1, 9);
    c.kh = size(4), c.kw = size(4), c.sh = size(3), c.sw = size(3), c.dh = size(3), c.dw = size(3);
    if (r.chance(2)) c.idh = static_cast<uint8_t>(r.range(0, 4));
    if (r.chance(2)) c.idw = static_cast<uint8_t>(r.range(0, 4));
    c.pad_t = r.range(-3, 6);
    c.pad_l = r.range(-3, 6);
    c.oh = r.range(1, 12);
    c.ow = r.range(1, 12);
  } while (uint64_t{c.n} * c.oh * c.ow * c.oc * c.kh * c.kw * (c.ic / c.groups) > kMaxTerms);
  if (r.chance(2)) c.in_pitch = c.ic + r.range(0, 5);
  if (r.chance(2)) c.out_pitch = c.oc + r.range(0, 5);
  random_types(r, c, whole);
  t.in = random_elements(r, c.in_dtype, (size_t{c.n} * c.ih * c.iw - 1) * or_else(c.in_pitch, c.ic) + c.ic, whole);
  t.wgt = random_elements(r, c.wgt_dtype, size_t{c.oc} * c.kh * c.kw * (c.ic / c.groups), whole);
  t.outputs = (size_t{c.n} * c.oh * c.ow - 1) * or_else(c.out_pitch, c.oc) + c.oc;
  random_vectors(r, t, c.oc, whole);
  return t;
}

Bytes expect_product(const TypedConv &t, bool in_place) {
  const npu_cmd_conv &c = t.c;
  Bytes out = t.prepared(in_place);
  const int idh = c.idh ? c.idh : 1, idw = c.idw ? c.idw : 1;
  const uint32_t icg = c.ic / c.groups, ocg = c.oc / c.groups;
  size_t cell = 0;
  for (uint32_t n = 0; n < c.n; ++n)
    for (uint32_t oy = 0; oy < c.oh; ++oy)
      for (uint32_t ox = 0; ox < c.ow; ++ox, ++cell)
        for (uint32_t o = 0; o < c.oc; ++o) {
          Element e(t, out, cell * or_else(c.out_pitch, c.oc) + o, o);
          for (int ky = 0; ky < c.kh; ++ky)
            for (int kx = 0; kx < c.kw; ++kx) {
              const int y = static_cast<int>(oy) * c.sh - c.pad_t + ky * c.dh,
                        x = static_cast<int>(ox) * c.sw - c.pad_l + kx * c.dw;
              // A cell of the image is one of the input where both coordinates are multiples of the dilation.
              if (y < 0 || x < 0 || y % idh || x % idw) continue;
              if (y / idh >= static_cast<int>(c.ih) || x / idw >= static_cast<int>(c.iw)) continue;
              const size_t from = (size_t{n} * c.ih + y / idh) * c.iw + x / idw;
              for (uint32_t i = 0; i < icg; ++i)
                e.add(from * or_else(c.in_pitch, c.ic) + o / ocg * icg + i,
                      ((size_t{o} * c.kh + ky) * c.kw + kx) * icg + i);
            }
        }
  return out;
}

TypedMatmul random_typed_matmul(Random &r, bool whole) {
  TypedMatmul t;
  npu_cmd_matmul &c = t.c;
  do {
    c.batch = r.chance(2) ? 1 : r.range(2, 4);
    c.m = r.chance(3) ? 1 : r.range(1, 20);
    c.k = r.chance(6) ? 1 : r.range(1, 80);
    c.n = r.chance(6) ? 1 : r.range(1, 70);
  } while (uint64_t{c.batch} * c.m * c.k * c.n > kMaxTerms);
  if (r.chance(2)) c.flags |= NPU_CONV_TRANS_B;
  const bool trans = c.flags & NPU_CONV_TRANS_B;
  // Dense, with gaps, or rows that overlap: those of A and B may.
  const auto row = [&](uint32_t dense, bool overlap) -> uint32_t {
    if (r.chance(3)) return 0;
    return overlap && r.chance(3) ? r.range(1, static_cast<int>(dense)) : dense + r.range(0, 7);
  };
  const uint32_t b_rows = trans ? c.n : c.k, b_cols = trans ? c.k : c.n;
  c.a_row_stride = row(c.k, true);
  c.b_row_stride = row(b_cols, true);
  c.out_row_stride = row(c.n, false);
  const auto extent = [](size_t rows, size_t stride, size_t cols) { return (rows - 1) * or_else(stride, cols) + cols; };
  const size_t a = extent(c.m, c.a_row_stride, c.k), b = extent(b_rows, c.b_row_stride, b_cols),
               out = extent(c.m, c.out_row_stride, c.n);
  const auto batch = [&](size_t one) { return static_cast<uint32_t>(r.chance(3) ? 0 : one + r.range(0, 9)); };
  c.a_batch_stride = batch(a);
  c.b_batch_stride = batch(b);
  c.out_batch_stride = batch(out);
  random_types(r, c, whole);
  const size_t last = c.batch - 1;
  t.in = random_elements(r, c.in_dtype, last * c.a_batch_stride + a, whole);
  t.wgt = random_elements(r, c.wgt_dtype, last * c.b_batch_stride + b, whole);
  t.outputs = last * or_else(c.out_batch_stride, c.m * or_else(c.out_row_stride, c.n)) + out;
  random_vectors(r, t, c.n, whole);
  return t;
}

Bytes expect_product(const TypedMatmul &t, bool in_place) {
  const npu_cmd_matmul &c = t.c;
  Bytes out = t.prepared(in_place);
  const bool trans = c.flags & NPU_CONV_TRANS_B;
  const size_t out_row = or_else(c.out_row_stride, c.n), out_batch = or_else(c.out_batch_stride, c.m * out_row);
  const size_t a_row = or_else(c.a_row_stride, c.k), b_row = or_else(c.b_row_stride, trans ? c.k : c.n);
  for (size_t b = 0; b < c.batch; ++b)
    for (size_t m = 0; m < c.m; ++m)
      for (uint32_t n = 0; n < c.n; ++n) {
        Element e(t, out, b * out_batch + m * out_row + n, n);
        for (size_t k = 0; k < c.k; ++k)
          e.add(b * c.a_batch_stride + m * a_row + k, b * c.b_batch_stride + (trans ? n * b_row + k : k * b_row + n));
      }
  return out;
}

std::string describe(const TypedConv &t) {
  std::ostringstream s;
  s << describe(t.c) << " input dilation=" << int{t.c.idh} << 'x' << int{t.c.idw} << " pitches=" << t.c.in_pitch << ','
    << t.c.out_pitch;
  describe_types(s, t.c);
  return s.str();
}

std::string describe(const TypedMatmul &t) {
  std::ostringstream s;
  s << describe(t.c) << " rows=" << t.c.a_row_stride << ',' << t.c.b_row_stride << ',' << t.c.out_row_stride
    << " batch of results=" << t.c.out_batch_stride;
  describe_types(s, t.c);
  return s.str();
}

}  // namespace npu::test
