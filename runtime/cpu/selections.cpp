// SPDX-License-Identifier: MIT
// Operators that pick elements by their value.
#include <algorithm>
#include <numeric>

#include "runtime/cpu/broadcast.h"
#include "runtime/cpu/element.h"

namespace npu::cpu {
namespace {

/// a comes before b; NaN after everything.
template <class T>
bool before(T a, T b, bool smallest) {
  if (a != a || b != b) return a == a && b != b;
  return smallest ? a < b : a > b;
}

/// Calls visit(o, i, values) for each row along an axis. Values are int64_t, uint64_t or double: what holds all
/// elements of the type.
template <class Visit>
void each_row(const Tensor &x, int axis, Visit visit) {
  const Rows rows(x.shape, axis);
  const auto each = [&](auto type, auto read) {
    std::vector<decltype(type)> values(static_cast<size_t>(rows.length));
    rows.each([&](int64_t o, int64_t i) {
      for (int64_t k = 0; k < rows.length; ++k) values[static_cast<size_t>(k)] = read(rows.at(o, i, k));
      visit(o, i, values);
    });
  };
  if (!is_integer(x.dtype)) return each(double{}, [&](int64_t i) { return load(x, i); });
  if (x.dtype == Dtype::U64) return each(uint64_t{}, [&](int64_t i) { return x.as<uint64_t>()[i]; });
  each(int64_t{}, [&](int64_t i) { return load_integer(x, i); });
}

}  // namespace

void argmax(const ArgMaxAttrs &attrs, const Tensor &x, Tensor &out) {
  int64_t to = 0;
  each_row(x, attrs.axis, [&](int64_t, int64_t, const auto &values) {
    size_t best = 0;
    for (size_t k = 1; k < values.size(); ++k)
      if (before(values[k], values[best], attrs.smallest) ||
          (attrs.last && !before(values[best], values[k], attrs.smallest)))
        best = k;
    store(out, to++, static_cast<double>(best));
  });
}

void topk(const TopKAttrs &attrs, const Tensor &x, Tensor &indices) {
  const Rows places(indices.shape, attrs.axis);
  std::vector<size_t> order(static_cast<size_t>(x.shape[static_cast<size_t>(attrs.axis)]));
  each_row(x, attrs.axis, [&](int64_t o, int64_t i, const auto &values) {
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return before(values[a], values[b], attrs.smallest); });
    for (int64_t k = 0; k < attrs.count; ++k)
      store(indices, places.at(o, i, k), static_cast<double>(order[static_cast<size_t>(k)]));
  });
}

void nonzero(const Tensor &x, Tensor &positions, Tensor &number) {
  const int64_t columns = positions.shape[1];
  for (int64_t i = 0; i < positions.count(); ++i) store(positions, i, -1);
  int64_t found = 0;
  for (int64_t i = 0; i < x.count(); ++i) {
    if (load(x, i) == 0) continue;
    int64_t rest = i;
    for (size_t d = x.shape.size(); d-- > 0; rest /= x.shape[d])
      store(positions, static_cast<int64_t>(d) * columns + found, static_cast<double>(rest % x.shape[d]));
    ++found;
  }
  store(number, 0, static_cast<double>(found));
}

}  // namespace npu::cpu
