// SPDX-License-Identifier: MIT
// Operators that pick elements by their value.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/cpu/element.h"

namespace npu::cpu {
namespace {

/// Rows along an axis: element k of row (o, i) stands at (o * length + k) * inner + i.
struct Rows {
  int64_t outer = 1, length = 1, inner = 1;

  Rows(const Tensor &t, int axis) {
    for (int d = 0; d < static_cast<int>(t.shape.size()); ++d)
      (d < axis ? outer : d > axis ? inner : length) *= t.shape[static_cast<size_t>(d)];
  }
  int64_t at(int64_t o, int64_t i, int64_t k) const { return (o * length + k) * inner + i; }

  template <class Visit>
  void each(Visit visit) const {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i) visit(o, i);
  }
};

/// a comes before b; NaN after everything.
bool before(double a, double b, bool smallest) {
  if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
  return smallest ? a < b : a > b;
}

}  // namespace

void argmax(const ArgMaxAttrs &attrs, const Tensor &x, Tensor &out) {
  const Rows rows(x, attrs.axis);
  rows.each([&](int64_t o, int64_t i) {
    int64_t best = 0;
    for (int64_t k = 1; k < rows.length; ++k) {
      const double a = load(x, rows.at(o, i, k)), b = load(x, rows.at(o, i, best));
      if (before(a, b, false) || (attrs.last && !before(b, a, false))) best = k;
    }
    store(out, o * rows.inner + i, static_cast<double>(best));
  });
}

void topk(const TopKAttrs &attrs, const Tensor &x, Tensor &values, Tensor &indices) {
  const Rows rows(x, attrs.axis);
  std::vector<double> row(static_cast<size_t>(rows.length));
  std::vector<int64_t> order(row.size());
  rows.each([&](int64_t o, int64_t i) {
    for (int64_t k = 0; k < rows.length; ++k) row[static_cast<size_t>(k)] = load(x, rows.at(o, i, k));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return before(row[static_cast<size_t>(a)], row[static_cast<size_t>(b)], attrs.smallest);
    });
    for (int64_t k = 0; k < attrs.count; ++k) {
      const int64_t from = order[static_cast<size_t>(k)], to = (o * attrs.count + k) * rows.inner + i;
      store(values, to, row[static_cast<size_t>(from)]);
      store(indices, to, static_cast<double>(from));
    }
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
