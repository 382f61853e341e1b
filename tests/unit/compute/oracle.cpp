// SPDX-License-Identifier: MIT
#include "tests/unit/compute/oracle.h"

#include <gtest/gtest.h>

#include <cmath>

namespace npu::test {
namespace {

// One ULP of a float near x; for tiny x the smallest denormal.
double ulp(double x) { return std::max(std::ldexp(1.0, std::ilogb(std::max(std::fabs(x), 1e-38)) - 23), 0x1p-149); }

// rows x inner times columns x inner (both with the inner index contiguous), values and magnitudes.
struct Product {
  Doubles value, size;
  Product(const Doubles &a, const Doubles &b, size_t inner) {
    for (size_t i = 0; i < a.size(); i += inner)
      for (size_t j = 0; j < b.size(); j += inner) {
        double v = 0, s = 0;
        for (size_t k = 0; k < inner; ++k) {
          v += a[i + k] * b[j + k];
          s += std::fabs(a[i + k] * b[j + k]);
        }
        value.push_back(v);
        size.push_back(s);
      }
  }
};

// Adds partial sum and bias to a sum of `terms` products, states its bound and applies the activation.
template <class Command>
void finish(const Command &c, double psum, double bias, size_t terms, double &value, double &size) {
  if (c.flags & NPU_CONV_PSUM_IN) {
    value += psum;
    size += std::fabs(psum);
  }
  if (c.flags & NPU_CONV_BIAS) {
    value += bias;
    size += std::fabs(bias);
  }
  size *= (double(terms) + 2) * kUnit;
  apply(c.act, c.act_a, c.act_b, value, size);
}

}  // namespace

void apply(uint8_t act, double a, double b, double &value, double &error) {
  const double x = value;
  const auto settle = [&](double y) {
    value = y;
    error += 4 * ulp(y) + 1e-7;
  };
  switch (act) {
    case NPU_ACT_RELU:
      value = std::fmax(x, 0.0);
      break;
    case NPU_ACT_CLIP:
      value = std::fmin(std::fmax(x, a), b);
      break;
    case NPU_ACT_LEAKY_RELU:
      if (x < 0) value = a * x;
      error = error * std::max(1.0, std::fabs(a)) + ulp(value);
      break;
    case NPU_ACT_SIGMOID:
      settle(0.5 + 0.5 * std::tanh(x / 2));
      break;
    case NPU_ACT_TANH:
      settle(1 - 2 / (std::exp(2 * x) + 1));
      break;
    default:
      break;
  }
}

Expected expect(const ConvCase &t) {
  const npu_cmd_conv &c = t.c;
  const int icg = c.ic / c.groups, ocg = c.oc / c.groups;
  const size_t inner = size_t(c.kh) * c.kw * icg;
  Expected e{Doubles(t.outputs()), Doubles(t.outputs())};
  for (uint32_t n = 0; n < c.n; ++n) {
    const Padded image(c, c.ic, t.in.data() + size_t(n) * c.ih * c.iw * c.ic);
    for (uint32_t g = 0; g < c.groups; ++g) {
      Doubles columns;
      for (uint32_t oy = 0; oy < c.oh; ++oy)
        for (uint32_t ox = 0; ox < c.ow; ++ox)
          for (int ky = 0; ky < c.kh; ++ky)
            for (int kx = 0; kx < c.kw; ++kx)
              for (int i = 0; i < icg; ++i)
                columns.push_back(image.at(oy * c.sh + ky * c.dh, ox * c.sw + kx * c.dw, g * icg + i));
      const Doubles weights(t.wgt.begin() + g * ocg * inner, t.wgt.begin() + (g + 1) * ocg * inner);
      const Product p(columns, weights, inner);
      for (size_t pixel = 0; pixel < size_t(c.oh) * c.ow; ++pixel)
        for (int o = 0; o < ocg; ++o) {
          const size_t at = (size_t(n) * c.oh * c.ow + pixel) * c.oc + g * ocg + o;
          e.value[at] = p.value[pixel * ocg + o];
          e.error[at] = p.size[pixel * ocg + o];
          finish(c, t.psum[at], t.bias[g * ocg + o], inner, e.value[at], e.error[at]);
        }
    }
  }
  return e;
}

Expected expect(const MatmulCase &t) {
  const npu_cmd_matmul &c = t.c;
  Expected e;
  for (uint32_t batch = 0; batch < c.batch; ++batch) {
    const auto a0 = t.a.begin() + size_t(batch) * c.a_batch_stride;
    const auto b0 = t.b.begin() + size_t(batch) * c.b_batch_stride;
    const Doubles a(a0, a0 + size_t(c.m) * c.k);
    Doubles b;
    for (uint32_t j = 0; j < c.n; ++j)
      for (uint32_t k = 0; k < c.k; ++k)
        b.push_back(c.flags & NPU_CONV_TRANS_B ? b0[size_t(j) * c.k + k] : b0[size_t(k) * c.n + j]);
    Product p(a, b, c.k);
    for (size_t i = 0; i < p.value.size(); ++i) {
      finish(c, t.psum[e.value.size()], t.bias[i % c.n], c.k, p.value[i], p.size[i]);
      e.value.push_back(p.value[i]);
      e.error.push_back(p.size[i]);
    }
  }
  return e;
}

void expect_near(const Expected &want, const Values &got, const std::string &what) {
  ASSERT_EQ(want.value.size(), got.size()) << what;
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_LE(std::fabs(want.value[i] - got[i]), want.error[i])
        << what << ": element " << i << " is " << got[i] << ", expected " << want.value[i];
}

}  // namespace npu::test
