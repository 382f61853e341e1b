// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <numeric>

#include "element.h"

namespace npu::cpuop {

namespace {

/// Rows along an axis: element k of row (o, i) stands at (o * length + k) * inner + i.
struct Rows {
  int64_t outer = 1, length = 1, inner = 1;

  Rows(const Tensor &t, int32_t axis) {
    const auto rank = static_cast<int32_t>(t.shape.size());
    const int32_t at = axis < 0 ? axis + rank : axis;
    for (int32_t d = 0; d < rank; ++d) (d < at ? outer : d > at ? inner : length) *= t.shape[static_cast<size_t>(d)];
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

void cast(const Tensor &x, Tensor &y) {
  for (int64_t i = 0; i < elements(x); ++i) store(y, i, load(x, i));
}

void argmax(const npu_cpu_param &p, const Tensor &x, Tensor &y) {
  const Rows rows(x, p.axis);
  const bool last = p.flags & NPU_CPU_LAST_INDEX;
  rows.each([&](int64_t o, int64_t i) {
    int64_t best = 0;
    for (int64_t k = 1; k < rows.length; ++k) {
      const double a = load(x, rows.at(o, i, k)), b = load(x, rows.at(o, i, best));
      if (before(a, b, false) || (last && !before(b, a, false))) best = k;
    }
    store(y, o * rows.inner + i, static_cast<double>(best));
  });
}

void topk(const npu_cpu_param &p, const Tensor &x, Tensor &values, Tensor &indices) {
  const Rows rows(x, p.axis);
  const auto count = static_cast<int64_t>(p.count);
  std::vector<double> row(static_cast<size_t>(rows.length));
  std::vector<int64_t> order(row.size());
  rows.each([&](int64_t o, int64_t i) {
    for (int64_t k = 0; k < rows.length; ++k) row[static_cast<size_t>(k)] = load(x, rows.at(o, i, k));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return before(row[static_cast<size_t>(a)], row[static_cast<size_t>(b)], p.flags & NPU_CPU_SMALLEST);
    });
    for (int64_t k = 0; k < count; ++k) {
      const int64_t from = order[static_cast<size_t>(k)], to = (o * count + k) * rows.inner + i;
      store(values, to, row[static_cast<size_t>(from)]);
      store(indices, to, static_cast<double>(from));
    }
  });
}

void softmax(const npu_cpu_param &p, const Tensor &x, Tensor &y) {
  const Rows rows(x, p.axis);
  rows.each([&](int64_t o, int64_t i) {
    double largest = load(x, rows.at(o, i, 0)), sum = 0;
    for (int64_t k = 1; k < rows.length; ++k) largest = std::max(largest, load(x, rows.at(o, i, k)));
    for (int64_t k = 0; k < rows.length; ++k) sum += std::exp(load(x, rows.at(o, i, k)) - largest);
    for (int64_t k = 0; k < rows.length; ++k)
      store(y, rows.at(o, i, k), std::exp(load(x, rows.at(o, i, k)) - largest) / sum);
  });
}

void nonzero(const Tensor &x, Tensor &positions, Tensor &number) {
  const int64_t columns = positions.shape[1];
  for (int64_t i = 0; i < elements(positions); ++i) store(positions, i, -1);
  int64_t found = 0;
  for (int64_t i = 0; i < elements(x); ++i) {
    if (load(x, i) == 0) continue;
    int64_t rest = i;
    for (size_t d = x.shape.size(); d-- > 0; rest /= x.shape[d])
      store(positions, static_cast<int64_t>(d) * columns + found, static_cast<double>(rest % x.shape[d]));
    ++found;
  }
  store(number, 0, static_cast<double>(found));
}

}  // namespace

bool is_true(const Tensor &condition) { return load(condition, 0) != 0; }

void run(int32_t op, const npu_cpu_param &p, std::span<const Tensor> in, std::span<Tensor> out) {
  for (Tensor &t : out) make(t);
  switch (op) {
    case NPU_CPU_CAST:
      return cast(in[0], out[0]);
    case NPU_CPU_COPY:
      out[0].data = in[0].data;
      return;
    case NPU_CPU_ARGMAX:
      return argmax(p, in[0], out[0]);
    case NPU_CPU_TOPK:
      return topk(p, in[0], out[0], out[1]);
    case NPU_CPU_SOFTMAX:
      return softmax(p, in[0], out[0]);
    case NPU_CPU_NONZERO:
      return nonzero(in[0], out[0], out[1]);
    default:
      return nms(p, in[0], in[1], out[0], out[1]);
  }
}

}  // namespace npu::cpuop
