// SPDX-License-Identifier: MIT
#include "tests/unit/compute/oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "npu_enums.hpp"

namespace npu::test {
namespace {

// One ULP of a float near x; for tiny x, and for what is not finite, the smallest denormal.
double ulp(double x) {
  if (!std::isfinite(x)) return 0x1p-149;
  return std::max(std::ldexp(1.0, std::ilogb(std::max(std::fabs(x), 1e-38)) - 23), 0x1p-149);
}

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

// Floats from here on are whole numbers.
constexpr double kWhole = 0x1p23;

double floor_of(double x) {
  if (!(std::fabs(x) < kWhole)) return x;
  const auto whole = static_cast<int64_t>(x);
  return std::copysign(static_cast<double>(whole - (static_cast<double>(whole) > x)), x);
}

double round_of(double x) {
  if (!(std::fabs(x) < kWhole)) return x;
  const auto below = static_cast<int64_t>(std::fabs(x));
  const double part = std::fabs(x) - static_cast<double>(below);
  const bool up = part > 0.5 || (part == 0.5 && below % 2 == 1);
  return std::copysign(static_cast<double>(below + up), x);
}

// What only UNARY has and is exact: false if it is not.
bool apply_exact(uint8_t act, double x, double &value) {
  switch (act) {
    case NPU_ACT_SQRT:
      value = static_cast<float>(std::sqrt(static_cast<long double>(x)));
      return true;
    case NPU_ACT_RSQRT:
      value = static_cast<float>(1 / std::sqrt(x));
      return true;
    case NPU_ACT_RECIPROCAL:
      value = static_cast<float>(1 / static_cast<long double>(x));
      return true;
    case NPU_ACT_ABS:
      value = std::copysign(x, 1.0);
      return true;
    case NPU_ACT_NEG:
      value = x * -1;
      return true;
    case NPU_ACT_FLOOR:
      value = floor_of(x);
      return true;
    case NPU_ACT_CEIL:
      value = -floor_of(-x);
      return true;
    case NPU_ACT_ROUND:
      value = round_of(x);
      return true;
    case NPU_ACT_SIGN:
      value = std::isnan(x) ? x : (x > 0) - (x < 0);
      return true;
    default:
      return false;
  }
}

// What only UNARY has, by its definition, with more digits than the chip's.
long double function(uint8_t number, long double a, long double b, long double x) {
  const auto unit = [](long double y) { return std::isnan(y) ? y : std::fmin(std::fmax(y, 0.0L), 1.0L); };
  const long double pi = std::acos(-1.0L), cubic = x + 0.044715L * x * x * x;
  switch (static_cast<hw::Act>(number)) {
    case hw::Act::Exp:
      return std::exp(x);
    case hw::Act::Log:
      return std::log(x);
    case hw::Act::Erf:
      return std::erf(x);
    case hw::Act::Gelu:
      return 0.5L * x * (1 + (a == 0 ? std::erf(x / std::sqrt(2.0L)) : std::tanh(std::sqrt(2 / pi) * cubic)));
    case hw::Act::Elu:
      return x < 0 ? a * std::expm1(x) : x;
    case hw::Act::HardSigmoid:
      return unit(a * x + b);
    case hw::Act::HardSwish:
      return x * unit(x / 6 + 0.5L);
    case hw::Act::Softplus:
      return x > 50 ? x : std::log1p(std::exp(x));
    case hw::Act::Sin:
      return std::sin(x);
    case hw::Act::Cos:
      return std::cos(x);
    case hw::Act::None:  // apply() and apply_exact() have the others
    case hw::Act::Relu:
    case hw::Act::Clip:
    case hw::Act::LeakyRelu:
    case hw::Act::Sigmoid:
    case hw::Act::Tanh:
    case hw::Act::Sqrt:
    case hw::Act::Rsqrt:
    case hw::Act::Reciprocal:
    case hw::Act::Abs:
    case hw::Act::Neg:
    case hw::Act::Floor:
    case hw::Act::Ceil:
    case hw::Act::Round:
    case hw::Act::Sign:
      break;
  }
  return std::numeric_limits<long double>::quiet_NaN();
}

}  // namespace

void apply(uint8_t act, double a, double b, double &value, double &error) {
  const double x = value;
  if (act > NPU_ACT_TANH) {
    if (apply_exact(act, x, value)) return;
    value = static_cast<double>(function(act, a, b, x));
    error = 4 * ulp(value) + 1e-7;
    return;
  }
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
