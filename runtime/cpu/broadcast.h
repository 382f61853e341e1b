// SPDX-License-Identifier: MIT
// Loops over tensors: through broadcasting and other strides, and along one axis.
#ifndef NPU_CPU_BROADCAST_H
#define NPU_CPU_BROADCAST_H

#include <array>

#include "runtime/cpu/tensor.h"

namespace npu::cpu {

/// Strides of a dense tensor of one shape seen through broadcasting to another.
inline std::vector<int64_t> broadcast_strides(const Shape &of, const Shape &to) {
  const std::vector<int64_t> dense = dense_strides(of);
  std::vector<int64_t> out(to.size(), 0);
  for (size_t i = 0; i < of.size(); ++i)
    if (of[i] != 1) out[i + to.size() - of.size()] = dense[i];
  return out;
}

/// A walk through all elements of a shape, in row-major order, with N places that move by strides of their own.
template <size_t N>
class Walk {
 public:
  using Places = std::array<int64_t, N>;

  /// One stride for each dimension. Neighbouring dimensions that no place tells apart become one.
  Walk(const Shape &shape, const std::array<std::vector<int64_t>, N> &strides) {
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == 1) continue;
      Places step;
      for (size_t k = 0; k < N; ++k) step[k] = strides[k][d];
      if (shape_.empty() || !continues(step, shape[d])) {
        shape_.push_back(shape[d]);
        steps_.push_back(step);
      } else {
        shape_.back() *= shape[d];
        steps_.back() = step;
      }
    }
    if (shape_.empty()) {
      shape_.push_back(1);
      steps_.push_back({});
    }
  }

  /// Calls f(first, places, n, steps) for each row: elements first to first + n - 1, the k-th of them at
  /// places + k * steps. `at` are the places of element 0.
  template <class F>
  void rows(Places at, F f) const {
    const size_t last = shape_.size() - 1;
    const int64_t n = shape_[last], count = element_count(shape_);
    std::vector<int64_t> index(shape_.size());
    for (int64_t first = 0; first < count; first += n) {
      f(first, at, n, steps_[last]);
      for (size_t d = last; d-- > 0;) {
        const bool more = ++index[d] < shape_[d];
        for (size_t k = 0; k < N; ++k) at[k] += more ? steps_[d][k] : steps_[d][k] * (1 - shape_[d]);
        if (more) break;
        index[d] = 0;
      }
    }
  }

 private:
  bool continues(const Places &step, int64_t length) const {
    for (size_t k = 0; k < N; ++k)
      if (steps_.back()[k] != step[k] * length) return false;
    return true;
  }

  Shape shape_;
  std::vector<Places> steps_;
};

/// Rows along an axis: element k of row (o, i) stands at (o * length + k) * inner + i.
struct Rows {
  int64_t outer = 1, length = 1, inner = 1;

  Rows(const Shape &shape, int axis) {
    for (int d = 0; d < static_cast<int>(shape.size()); ++d)
      (d < axis ? outer : d > axis ? inner : length) *= shape[static_cast<size_t>(d)];
  }
  int64_t at(int64_t o, int64_t i, int64_t k) const { return (o * length + k) * inner + i; }

  template <class Visit>
  void each(Visit visit) const {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i) visit(o, i);
  }
};

}  // namespace npu::cpu

#endif  // NPU_CPU_BROADCAST_H
