// SPDX-License-Identifier: MIT
#include "runtime/cpu/broadcast.h"

namespace npu::cpu {

std::vector<int64_t> broadcast_strides(const Shape &of, const Shape &to) {
  const std::vector<int64_t> dense = dense_strides(of);
  std::vector<int64_t> out(to.size(), 0);
  for (size_t i = 0; i < of.size(); ++i)
    if (of[i] != 1) out[i + to.size() - of.size()] = dense[i];
  return out;
}

template <size_t N>
Walk<N>::Walk(const Shape &shape, const std::array<std::vector<int64_t>, N> &strides) {
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

template <size_t N>
void Walk<N>::each_row(Places at, Row *row, void *function) const {
  const size_t last = shape_.size() - 1;
  const int64_t n = shape_[last], count = element_count(shape_);
  std::vector<int64_t> index(shape_.size());
  for (int64_t first = 0; first < count; first += n) {
    row(function, first, at, n, steps_[last]);
    for (size_t d = last; d-- > 0;) {
      const bool more = ++index[d] < shape_[d];
      for (size_t k = 0; k < N; ++k) at[k] += more ? steps_[d][k] : steps_[d][k] * (1 - shape_[d]);
      if (more) break;
      index[d] = 0;
    }
  }
}

template <size_t N>
bool Walk<N>::continues(const Places &step, int64_t length) const {
  for (size_t k = 0; k < N; ++k)
    if (steps_.back()[k] != step[k] * length) return false;
  return true;
}

template class Walk<1>;
template class Walk<2>;
template class Walk<3>;

}  // namespace npu::cpu
