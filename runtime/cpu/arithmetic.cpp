// SPDX-License-Identifier: MIT
// Functions of one number, softmax and matrix products.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "runtime/cpu/broadcast.h"
#include "runtime/cpu/element.h"

namespace npu::cpu {
namespace {

double gelu(double x) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }
double gelu_by_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 * std::numbers::inv_pi) * (x + 0.044715 * x * x * x)));
}
/// NaN stays, in all of these: comparisons with it are false.
double clip(double x, double low, double high) { return x < low ? low : x > high ? high : x; }
double softplus(double x) { return (x > 0 ? x : 0) + std::log1p(std::exp(-std::fabs(x))); }
double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }

/// Calls f with the function of doubles that a kind is: all below ActKind::Not.
template <class F>
auto with_function(const Activation &act, F f) {
  const double a = act.a, b = act.b;
  switch (act.kind) {
    case ActKind::Relu:
      return f([](double x) { return x <= 0 ? 0 : x; });
    case ActKind::Clip:
      return f([=](double x) { return clip(x, a, b); });
    case ActKind::LeakyRelu:
      return f([=](double x) { return x < 0 ? a * x : x; });
    case ActKind::Sigmoid:
      return f([](double x) { return 1 / (1 + std::exp(-x)); });
    case ActKind::Tanh:
      return f([](double x) { return std::tanh(x); });
    case ActKind::Exp:
      return f([](double x) { return std::exp(x); });
    case ActKind::Log:
      return f([](double x) { return std::log(x); });
    case ActKind::Sqrt:
      return f([](double x) { return std::sqrt(x); });
    case ActKind::Rsqrt:
      return f([](double x) { return 1 / std::sqrt(x); });
    case ActKind::Reciprocal:
      return f([](double x) { return 1 / x; });
    case ActKind::Abs:
      return f([](double x) { return std::fabs(x); });
    case ActKind::Neg:
      return f([](double x) { return -x; });
    case ActKind::Erf:
      return f([](double x) { return std::erf(x); });
    case ActKind::Gelu:
      return f([=](double x) { return a == 0 ? gelu(x) : gelu_by_tanh(x); });
    case ActKind::Elu:
      return f([=](double x) { return x < 0 ? a * std::expm1(x) : x; });
    case ActKind::HardSigmoid:
      return f([=](double x) { return clip(a * x + b, 0, 1); });
    case ActKind::HardSwish:
      return f([](double x) { return x * clip(x / 6 + 0.5, 0, 1); });
    case ActKind::Softplus:
      return f([](double x) { return softplus(x); });
    case ActKind::Floor:
      return f([](double x) { return std::floor(x); });
    case ActKind::Ceil:
      return f([](double x) { return std::ceil(x); });
    case ActKind::Round:
      return f([](double x) { return std::nearbyint(x); });
    case ActKind::Sign:
      return f([](double x) { return sign(x); });
    case ActKind::Sin:
      return f([](double x) { return std::sin(x); });
    case ActKind::Cos:
      return f([](double x) { return std::cos(x); });
    case ActKind::Tan:
      return f([](double x) { return std::tan(x); });
    case ActKind::Asin:
      return f([](double x) { return std::asin(x); });
    case ActKind::Acos:
      return f([](double x) { return std::acos(x); });
    case ActKind::Atan:
      return f([](double x) { return std::atan(x); });
    case ActKind::Sinh:
      return f([](double x) { return std::sinh(x); });
    case ActKind::Cosh:
      return f([](double x) { return std::cosh(x); });
    case ActKind::Asinh:
      return f([](double x) { return std::asinh(x); });
    case ActKind::Acosh:
      return f([](double x) { return std::acosh(x); });
    case ActKind::Atanh:
      return f([](double x) { return std::atanh(x); });
    case ActKind::None:
    case ActKind::Not:
    case ActKind::IsNan:
    case ActKind::IsInf:
      break;
  }
  return f([](double x) { return x; });
}

template <class T, class R, class F>
void map(const Tensor &x, Tensor &out, F f) {
  const int64_t n = out.count();
  const T *from = x.as<T>();
  R *to = out.as<R>();
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<R>(f(from[i]));
}

template <class T>
void unary_integer(ActKind kind, const Tensor &x, Tensor &out) {
  const auto each = [&](auto f) { map<T, T>(x, out, f); };
  switch (kind) {
    case ActKind::Relu:
      return each([](T v) { return std::max(v, T{0}); });
    case ActKind::Abs:
      return each([](T v) { return v < T{0} ? minus(T{0}, v) : v; });
    case ActKind::Neg:
      return each([](T v) { return minus(T{0}, v); });
    case ActKind::Sign:
      return each([](T v) { return (v > T{0}) - (v < T{0}); });
    case ActKind::Not:
      return each([](T v) { return ~v; });
    // infer() has refused integers for the others.
    case ActKind::None:
    case ActKind::Clip:
    case ActKind::LeakyRelu:
    case ActKind::Sigmoid:
    case ActKind::Tanh:
    case ActKind::Exp:
    case ActKind::Log:
    case ActKind::Sqrt:
    case ActKind::Rsqrt:
    case ActKind::Reciprocal:
    case ActKind::Erf:
    case ActKind::Gelu:
    case ActKind::Elu:
    case ActKind::HardSigmoid:
    case ActKind::HardSwish:
    case ActKind::Softplus:
    case ActKind::Floor:
    case ActKind::Ceil:
    case ActKind::Round:
    case ActKind::Sin:
    case ActKind::Cos:
    case ActKind::Tan:
    case ActKind::Asin:
    case ActKind::Acos:
    case ActKind::Atan:
    case ActKind::Sinh:
    case ActKind::Cosh:
    case ActKind::Asinh:
    case ActKind::Acosh:
    case ActKind::Atanh:
    case ActKind::IsNan:
    case ActKind::IsInf:
      break;
  }
}

/// Rows of a by columns of b: `sums` are those of one row.
template <class T, class Sum, class Finish>
void multiply(const T *a, const T *b, int64_t m, int64_t n, int64_t k, std::vector<Sum> &sums, Finish finish) {
  for (int64_t y = 0; y < m; ++y) {
    std::fill(sums.begin(), sums.end(), Sum{0});
    for (int64_t t = 0; t < k; ++t) {
      const auto left = static_cast<Sum>(a[y * k + t]);
      for (int64_t x = 0; x < n; ++x)
        sums[static_cast<size_t>(x)] = plus(sums[static_cast<size_t>(x)], times(left, static_cast<Sum>(b[t * n + x])));
    }
    for (int64_t x = 0; x < n; ++x) finish(y * n + x, x, sums[static_cast<size_t>(x)]);
  }
}

template <class T>
void matmul_as(const MatMulAttrs &attrs, const Tensor &a, const Tensor &b, const Tensor *bias, Tensor &out) {
  using Sum = std::conditional_t<std::is_floating_point_v<T>, double, T>;
  const size_t rank = out.shape.size();
  const int64_t m = out.shape[rank - 2], n = out.shape[rank - 1], k = a.shape.back();
  const auto outer = [](const Tensor &t) { return Shape(t.shape.begin(), t.shape.end() - 2); };
  const Shape batch = outer(out);
  std::vector<Sum> sums(static_cast<size_t>(n));
  const Walk<2> walk(batch, {broadcast_strides(outer(a), batch), broadcast_strides(outer(b), batch)});
  walk.rows({}, [&](int64_t first, const auto &at, int64_t count, const auto &step) {
    for (int64_t i = 0; i < count; ++i) {
      T *to = out.as<T>() + (first + i) * m * n;
      const T *left = a.as<T>() + (at[0] + i * step[0]) * m * k, *right = b.as<T>() + (at[1] + i * step[1]) * k * n;
      multiply(left, right, m, n, k, sums, [&](int64_t place, int64_t column, Sum sum) {
        if (bias) sum = plus(sum, static_cast<Sum>(bias->as<T>()[column]));
        if constexpr (std::is_floating_point_v<T>)
          to[place] = activate(attrs.act, sum);
        else
          to[place] = sum;
      });
    }
  });
}

}  // namespace

float activate(const Activation &act, double x) {
  return with_function(act, [x](auto function) { return static_cast<float>(function(x)); });
}

void unary(const UnaryAttrs &attrs, const Tensor &x, Tensor &out) {
  const Activation &act = attrs.act;
  if (act.kind == ActKind::IsNan)
    map<float, uint8_t>(x, out, [](float v) { return std::isnan(v); });
  else if (act.kind == ActKind::IsInf)
    map<float, uint8_t>(x, out, [&](float v) { return std::isinf(v) && (v > 0 ? act.a : act.b) != 0; });
  else if (x.dtype == Dtype::Bool)
    map<uint8_t, uint8_t>(x, out, [](uint8_t v) { return v == 0; });
  else if (x.dtype == Dtype::F32)
    with_function(act, [&](auto function) { map<float, float>(x, out, [&](float v) { return function(v); }); });
  else
    with_integer(x.dtype, [&](auto type) { unary_integer<decltype(type)>(act.kind, x, out); });
}

void softmax(const SoftmaxAttrs &attrs, const Tensor &x, Tensor &out) {
  const Rows rows(x.shape, attrs.axis);
  const float *from = x.as<float>();
  rows.each([&](int64_t o, int64_t i) {
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t k = 0; k < rows.length; ++k) top = std::max(top, static_cast<double>(from[rows.at(o, i, k)]));
    for (int64_t k = 0; k < rows.length; ++k) sum += std::exp(from[rows.at(o, i, k)] - top);
    for (int64_t k = 0; k < rows.length; ++k) {
      const double d = from[rows.at(o, i, k)] - top;
      out.as<float>()[rows.at(o, i, k)] = static_cast<float>(attrs.log ? d - std::log(sum) : std::exp(d) / sum);
    }
  });
}

void matmul(const MatMulAttrs &attrs, const Tensor &a, const Tensor &b, const Tensor *bias, Tensor &out) {
  switch (a.dtype) {
    case Dtype::F32:
      return matmul_as<float>(attrs, a, b, bias, out);
    case Dtype::I32:
    case Dtype::U32:  // wrap round alike
      return matmul_as<uint32_t>(attrs, a, b, bias, out);
    default:
      return matmul_as<uint64_t>(attrs, a, b, bias, out);
  }
}

}  // namespace npu::cpu
