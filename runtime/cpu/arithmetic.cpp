// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "runtime/cpu/element.h"

namespace npu::cpu {

float activate(const Activation &act, double x) {
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

float apply(BinaryKind kind, float a, float b) {
  switch (kind) {
    case BinaryKind::Add:
      return a + b;
    case BinaryKind::Sub:
      return a - b;
    case BinaryKind::Mul:
      return a * b;
    case BinaryKind::Div:
      return a / b;
    case BinaryKind::Max:
      return std::max(a, b);
    case BinaryKind::Min:
      return std::min(a, b);
  }
  return a;
}

/// Integers wrap round, as numpy's do, the lowest divided by -1 as well. A divisor is not 0.
template <class T>
T apply(BinaryKind kind, T a, T b) {
  using U = std::make_unsigned_t<T>;
  const auto ua = static_cast<U>(a), ub = static_cast<U>(b);
  switch (kind) {
    case BinaryKind::Add:
      return static_cast<T>(ua + ub);
    case BinaryKind::Sub:
      return static_cast<T>(ua - ub);
    case BinaryKind::Mul:
      return static_cast<T>(ua * ub);
    case BinaryKind::Div:
      return b == -1 ? static_cast<T>(U{0} - ua) : a / b;
    case BinaryKind::Max:
      return std::max(a, b);
    case BinaryKind::Min:
      return std::min(a, b);
  }
  return a;
}

/// Strides of a tensor seen through broadcasting to `shape`.
std::vector<int64_t> broadcast_strides(const Tensor &t, const Shape &shape) {
  const std::vector<int64_t> dense = dense_strides(t.shape);
  std::vector<int64_t> out(shape.size(), 0);
  for (size_t i = 0; i < t.shape.size(); ++i)
    if (t.shape[i] != 1) out[i + shape.size() - t.shape.size()] = dense[i];
  return out;
}

/// Calls f(position in out, position in a, position in b) for every element of the shape.
template <class F>
void for_each(const Shape &shape, const std::vector<int64_t> &sa, const std::vector<int64_t> &sb, F f) {
  const int64_t n = element_count(shape);
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
void binary_as(const BinaryAttrs &attrs, const Tensor &a, const Tensor &b, Tensor &out) {
  for_each(
      out.shape, broadcast_strides(a, out.shape), broadcast_strides(b, out.shape),
      [&](int64_t i, int64_t ia, int64_t ib) { out.as<T>()[i] = apply(attrs.kind, a.as<T>()[ia], b.as<T>()[ib]); });
}

template <class T>
bool has_zero(const Tensor &t) {
  return std::find(t.as<T>(), t.as<T>() + t.count(), T{0}) != t.as<T>() + t.count();
}

}  // namespace

Status binary(const BinaryAttrs &attrs, const Tensor &a, const Tensor &b, Tensor &out) {
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

void unary(const UnaryAttrs &attrs, const Tensor &x, Tensor &out) {
  for (int64_t i = 0; i < out.count(); ++i) out.as<float>()[i] = activate(attrs.act, x.as<float>()[i]);
}

void softmax(const SoftmaxAttrs &attrs, const Tensor &x, Tensor &out) {
  const int64_t n = x.shape[static_cast<size_t>(attrs.axis)],
                inner = dense_strides(x.shape)[static_cast<size_t>(attrs.axis)];
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

void matmul(const MatMulAttrs &attrs, const Tensor &a, const Tensor &b, const Tensor *bias, Tensor &out) {
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

void cast(const Tensor &x, Overflow overflow, Tensor &out) {
  const int64_t n = out.count();
  if (is_integer(x.dtype))
    for (int64_t i = 0; i < n; ++i) store_integer(out, i, load_integer(x, i), overflow);
  else
    for (int64_t i = 0; i < n; ++i) store(out, i, load(x, i));
}

}  // namespace npu::cpu
