// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels.h"

namespace npu::cpu {

using graph::ActKind;
using graph::BinaryKind;
using graph::Dtype;
using graph::Shape;

float activate(const graph::Activation &act, double x) {
  switch (act.kind) {
    case ActKind::None:
      break;
    case ActKind::Relu:
      x = std::isnan(x) ? x : std::max(x, 0.0);
      break;
    case ActKind::Clip:
      x = std::isnan(x) ? x : std::min(std::max(x, static_cast<double>(act.a)), static_cast<double>(act.b));
      break;
    case ActKind::LeakyRelu:
      x = x < 0 ? act.a * x : x;
      break;
    case ActKind::Sigmoid:
      x = 1 / (1 + std::exp(-x));
      break;
    case ActKind::Tanh:
      x = std::tanh(x);
      break;
  }
  return static_cast<float>(x);
}

namespace {

template <class T>
T apply(BinaryKind kind, T a, T b) {
  switch (kind) {
    case BinaryKind::Add:
      return static_cast<T>(a + b);
    case BinaryKind::Sub:
      return static_cast<T>(a - b);
    case BinaryKind::Mul:
      return static_cast<T>(a * b);
    case BinaryKind::Div:
      return static_cast<T>(a / b);
    case BinaryKind::Max:
      return std::max(a, b);
    case BinaryKind::Min:
      return std::min(a, b);
  }
  return a;
}

/// Strides of a tensor seen through broadcasting to `shape`.
std::vector<int64_t> broadcast_strides(const Tensor &t, const Shape &shape) {
  const std::vector<int64_t> dense = graph::dense_strides(t.shape);
  std::vector<int64_t> out(shape.size(), 0);
  for (size_t i = 0; i < t.shape.size(); ++i)
    if (t.shape[i] != 1) out[i + shape.size() - t.shape.size()] = dense[i];
  return out;
}

/// Calls f(position in out, position in a, position in b) for every element of the shape.
template <class F>
void for_each(const Shape &shape, const std::vector<int64_t> &sa, const std::vector<int64_t> &sb, F f) {
  const int64_t n = graph::element_count(shape);
  std::vector<int64_t> index(shape.size());
  int64_t a = 0, b = 0;
  for (int64_t i = 0; i < n; ++i) {
    f(i, a, b);
    for (size_t d = shape.size(); d-- > 0;) {
      a += sa[d];
      b += sb[d];
      if (++index[d] < shape[d]) break;
      a -= sa[d] * shape[d];
      b -= sb[d] * shape[d];
      index[d] = 0;
    }
  }
}

template <class T>
void binary_as(const graph::BinaryAttrs &attrs, const Tensor &a, const Tensor &b, Tensor &out) {
  for_each(
      out.shape, broadcast_strides(a, out.shape), broadcast_strides(b, out.shape),
      [&](int64_t i, int64_t ia, int64_t ib) { out.as<T>()[i] = apply(attrs.kind, a.as<T>()[ia], b.as<T>()[ib]); });
}

template <class T>
bool has_zero(const Tensor &t) {
  return std::find(t.as<T>(), t.as<T>() + t.count(), T{0}) != t.as<T>() + t.count();
}

}  // namespace

Status binary(const graph::BinaryAttrs &attrs, const Tensor &a, const Tensor &b, Tensor &out) {
  const bool integer_division = attrs.kind == BinaryKind::Div && a.dtype != Dtype::F32;
  if (a.dtype == Dtype::F32)
    binary_as<float>(attrs, a, b, out);
  else if (a.dtype == Dtype::I64) {
    if (integer_division && has_zero<int64_t>(b)) return Status::error("integer division by zero");
    binary_as<int64_t>(attrs, a, b, out);
  } else if (a.dtype == Dtype::I32) {
    if (integer_division && has_zero<int32_t>(b)) return Status::error("integer division by zero");
    binary_as<int32_t>(attrs, a, b, out);
  } else {
    return Status::error(std::string("arithmetic on ") + dtype_name(a.dtype) + " is not supported");
  }
  if (a.dtype == Dtype::F32 && attrs.act.kind != ActKind::None)
    for (int64_t i = 0; i < out.count(); ++i) out.as<float>()[i] = activate(attrs.act, out.as<float>()[i]);
  return {};
}

void unary(const graph::UnaryAttrs &attrs, const Tensor &x, Tensor &out) {
  for (int64_t i = 0; i < out.count(); ++i) out.as<float>()[i] = activate(attrs.act, x.as<float>()[i]);
}

void softmax(const graph::SoftmaxAttrs &attrs, const Tensor &x, Tensor &out) {
  const int64_t n = x.shape[static_cast<size_t>(attrs.axis)],
                inner = graph::dense_strides(x.shape)[static_cast<size_t>(attrs.axis)];
  const int64_t count = x.count();
  for (int64_t start = 0; start < count; ++start) {
    if (start / inner % n) continue;
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t i = 0; i < n; ++i) top = std::max(top, static_cast<double>(x.as<float>()[start + i * inner]));
    for (int64_t i = 0; i < n; ++i) sum += std::exp(x.as<float>()[start + i * inner] - top);
    for (int64_t i = 0; i < n; ++i) {
      const double d = x.as<float>()[start + i * inner] - top;
      out.as<float>()[start + i * inner] = static_cast<float>(attrs.log ? d - std::log(sum) : std::exp(d) / sum);
    }
  }
}

void matmul(const graph::MatMulAttrs &attrs, const Tensor &a, const Tensor &b, const Tensor *bias, Tensor &out) {
  const size_t rank = out.shape.size();
  const int64_t m = out.shape[rank - 2], n = out.shape[rank - 1], k = a.shape.back();
  const Shape batch(out.shape.begin(), out.shape.end() - 2);
  Tensor outer_a, outer_b;  // shapes only: one element a matrix
  outer_a.shape.assign(a.shape.begin(), a.shape.end() - 2);
  outer_b.shape.assign(b.shape.begin(), b.shape.end() - 2);
  for_each(batch, broadcast_strides(outer_a, batch), broadcast_strides(outer_b, batch),
           [&](int64_t i, int64_t ia, int64_t ib) {
             const float *pa = a.as<float>() + ia * m * k, *pb = b.as<float>() + ib * k * n;
             float *po = out.as<float>() + i * m * n;
             for (int64_t y = 0; y < m; ++y)
               for (int64_t x = 0; x < n; ++x) {
                 double sum = 0;
                 for (int64_t t = 0; t < k; ++t) sum += static_cast<double>(pa[y * k + t]) * pb[t * n + x];
                 if (bias) sum += bias->as<float>()[x];
                 po[y * n + x] = activate(attrs.act, sum);
               }
           });
}

namespace {

template <class From, class To>
void cast_as(const Tensor &x, Tensor &out) {
  for (int64_t i = 0; i < out.count(); ++i) out.as<To>()[i] = static_cast<To>(x.as<From>()[i]);
}

template <class From>
void cast_from(const Tensor &x, Tensor &out) {
  switch (out.dtype) {
    case Dtype::F32:
      cast_as<From, float>(x, out);
      break;
    case Dtype::I64:
      cast_as<From, int64_t>(x, out);
      break;
    case Dtype::I32:
      cast_as<From, int32_t>(x, out);
      break;
    default:
      for (int64_t i = 0; i < out.count(); ++i) out.as<uint8_t>()[i] = x.as<From>()[i] != From{0};
  }
}

/// Floating-point numbers beyond the integer's range have no defined value in C++: they saturate.
template <class From>
void cast_from_float(const Tensor &x, Tensor &out) {
  if (out.dtype != Dtype::I64 && out.dtype != Dtype::I32) return cast_from<From>(x, out);
  const double top = out.dtype == Dtype::I64 ? 9.2e18 : 2147483647.0,
               bottom = out.dtype == Dtype::I64 ? -9.2e18 : -2147483648.0;
  for (int64_t i = 0; i < out.count(); ++i) {
    const double v = static_cast<double>(x.as<From>()[i]);
    const auto n = std::isnan(v) ? int64_t{0} : static_cast<int64_t>(std::clamp(v, bottom, top));
    if (out.dtype == Dtype::I64)
      out.as<int64_t>()[i] = n;
    else
      out.as<int32_t>()[i] = static_cast<int32_t>(n);
  }
}

}  // namespace

Status cast(const Tensor &x, Tensor &out) {
  switch (x.dtype) {
    case Dtype::F32:
      cast_from_float<float>(x, out);
      return {};
    case Dtype::F64:
      cast_from_float<double>(x, out);
      return {};
    case Dtype::I64:
      cast_from<int64_t>(x, out);
      return {};
    case Dtype::I32:
      cast_from<int32_t>(x, out);
      return {};
    case Dtype::U8:
    case Dtype::Bool:
      cast_from<uint8_t>(x, out);
      return {};
    default:
      return Status::error(std::string("cannot cast from ") + dtype_name(x.dtype));
  }
}

}  // namespace npu::cpu
