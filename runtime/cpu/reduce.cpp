// SPDX-License-Identifier: MIT
// Operators that combine the elements along axes.
#include <limits>

#include "runtime/cpu/broadcast.h"
#include "runtime/cpu/element.h"

namespace npu::cpu {
namespace {

__extension__ typedef __int128 Wide;

/// Joins the elements that fall on each element of the result, from `start` on, as values of type A.
template <class T, class A, class F>
std::vector<A> fold(const Tensor &x, const Shape &result, A start, F f) {
  std::vector<A> out(static_cast<size_t>(element_count(result)), start);
  const Walk<1> walk(x.shape, {broadcast_strides(result, x.shape)});
  walk.rows({}, [&](int64_t first, const auto &at, int64_t n, const auto &step) {
    const T *from = x.as<T>() + first;
    A *to = out.data() + at[0];
    for (int64_t i = 0; i < n; ++i, to += step[0]) *to = f(*to, static_cast<A>(from[i]));
  });
  return out;
}

template <class T, class A>
void put(const std::vector<A> &from, Tensor &out) {
  for (size_t i = 0; i < from.size(); ++i) out.as<T>()[i] = static_cast<T>(from[i]);
}

template <class T>
void reduce_as(ReduceKind kind, const Tensor &x, Tensor &out) {
  using Limits = std::numeric_limits<T>;
  using Sum = std::conditional_t<std::is_floating_point_v<T>, double, T>;
  using Exact = std::conditional_t<std::is_floating_point_v<T>, double,  // kMaxElements of 32 bits fit into int64_t
                                   std::conditional_t<sizeof(T) < 8, int64_t, Wide>>;
  const T highest = Limits::has_infinity ? Limits::infinity() : x.dtype == Dtype::Bool ? T{1} : Limits::max();
  const T lowest = Limits::has_infinity ? static_cast<T>(-Limits::infinity()) : Limits::min();
  switch (kind) {
    case ReduceKind::Sum:
      return put<T>(fold<T>(x, out.shape, Sum{0}, plus<Sum>), out);
    case ReduceKind::Prod:
      return put<T>(fold<T>(x, out.shape, Sum{1}, times<Sum>), out);
    case ReduceKind::Max:
      return put<T>(fold<T>(x, out.shape, lowest, maximum<T>), out);
    case ReduceKind::Min:
      return put<T>(fold<T>(x, out.shape, highest, minimum<T>), out);
    case ReduceKind::Mean: {
      const int64_t results = out.count(), each = results ? x.count() / results : 0;
      auto sums = fold<T>(x, out.shape, Exact{0}, [](Exact a, Exact b) { return a + b; });
      for (Exact &s : sums) s /= static_cast<Exact>(each);
      return put<T>(sums, out);
    }
  }
}

template <class T>
void cumsum_as(const CumSumAttrs &attrs, const Tensor &x, Tensor &out) {
  using Sum = std::conditional_t<std::is_floating_point_v<T>, double, T>;
  const Rows rows(x.shape, attrs.axis);
  rows.each([&](int64_t o, int64_t i) {
    Sum sum = 0;
    for (int64_t k = 0; k < rows.length; ++k) {
      const int64_t at = rows.at(o, i, attrs.reverse ? rows.length - 1 - k : k);
      const Sum next = plus(sum, static_cast<Sum>(x.as<T>()[at]));
      out.as<T>()[at] = static_cast<T>(attrs.exclusive ? sum : next);
      sum = next;
    }
  });
}

}  // namespace

void reduce(const ReduceAttrs &attrs, const Tensor &x, Tensor &out) {
  with_number(x.dtype, [&](auto type) { reduce_as<decltype(type)>(attrs.kind, x, out); });
}

void cumsum(const CumSumAttrs &attrs, const Tensor &x, Tensor &out) {
  with_number(x.dtype, [&](auto type) { cumsum_as<decltype(type)>(attrs, x, out); });
}

}  // namespace npu::cpu
