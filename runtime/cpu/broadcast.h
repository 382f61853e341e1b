// SPDX-License-Identifier: MIT
// Loops over tensors: through broadcasting and other strides, and along one axis.
#ifndef NPU_CPU_BROADCAST_H
#define NPU_CPU_BROADCAST_H

#include <array>

#include "runtime/cpu/tensor.h"

namespace npu::cpu {

/// Strides of a dense tensor of one shape seen through broadcasting to another.
std::vector<int64_t> broadcast_strides(const Shape &of, const Shape &to);

/// A walk through all elements of a shape, in row-major order, with N places that move by strides of their own: 1 to 3,
/// for which broadcast.cpp has the code.
template <size_t N>
class Walk {
 public:
  using Places = std::array<int64_t, N>;

  /// One stride for each dimension. Neighbouring dimensions that no place tells apart become one.
  Walk(const Shape &shape, const std::array<std::vector<int64_t>, N> &strides);

  /// Calls f(first, places, n, steps) for each row: elements first to first + n - 1, the k-th of them at
  /// places + k * steps. `at` are the places of element 0.
  template <class F>
  void rows(Places at, F f) const {
    each_row(
        at,
        [](void *function, int64_t first, const Places &places, int64_t n, const Places &steps) {
          (*static_cast<F *>(function))(first, places, n, steps);
        },
        &f);
  }

 private:
  /// Compiled once for all functions, of which there are more than a hundred.
  using Row = void(void *function, int64_t first, const Places &places, int64_t n, const Places &steps);
  void each_row(Places at, Row *row, void *function) const;
  bool continues(const Places &step, int64_t length) const;

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
