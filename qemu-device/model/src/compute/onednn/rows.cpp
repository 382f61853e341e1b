// SPDX-License-Identifier: MIT
// SOFTMAX, NORM and REDUCE on vector loops.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "npu_arith.hpp"
#include "qemu-device/model/src/compute/numerics.h"
#include "qemu-device/model/src/compute/onednn/kernels.h"
#include "qemu-device/model/src/compute/onednn/number_kernels.h"
#include "qemu-device/model/src/compute/onednn/onednn_backend.h"

namespace npu::model {
namespace {

/// Calls f(from, to) for each of some dense rows, in f32.
template <class F>
void each_row(size_t rows, size_t cols, const Number &number, const void *in, const Number &result, void *out, F f) {
  const NumberKernels &k = number_kernels();
  const size_t in_row = cols * hw::arith::dtype_bytes(number.dtype);
  const size_t out_row = cols * hw::arith::dtype_bytes(result.dtype);
  std::vector<float> room(number.plain() && result.plain() ? 0 : cols);
  for (size_t row = 0; row < rows; ++row) {
    const char *from = static_cast<const char *>(in) + row * in_row;
    char *to = static_cast<char *>(out) + row * out_row;
    if (!number.plain()) k.load(number, from, cols, room.data());
    const float *x = number.plain() ? reinterpret_cast<const float *>(from) : room.data();
    float *y = result.plain() ? reinterpret_cast<float *>(to) : room.data();
    f(x, y);
    if (!result.plain()) k.store(result, y, cols, to);
  }
}

}  // namespace

void Onednn::run(const npu_cmd_softmax &c, const void *in, void *out) {
  each_row(c.rows, c.cols, {c.in_dtype, c.in_scale, c.in_zp}, in, {c.out_dtype, c.out_scale, c.out_zp}, out,
           [&](const float *x, float *y) { kernels().softmax(c.subop, x, y, c.cols); });
}

void Onednn::run(const npu_cmd_norm &c, const void *in, const void *scale, const void *bias, void *out) {
  each_row(c.rows, c.cols, {c.in_dtype}, in, {c.out_dtype}, out,
           [&](const float *x, float *y) { kernels().normalize(c.subop, c.epsilon, x, scale, bias, y, c.cols); });
}

namespace {

constexpr size_t kReducedChunk = 512;  // elements that are reduced beside each other

bool finds_places(const npu_cmd_reduce &c) { return c.subop == NPU_REDUCE_ARGMAX || c.subop == NPU_REDUCE_ARGMIN; }
bool finds_end(const npu_cmd_reduce &c) { return c.subop == NPU_REDUCE_MAX || c.subop == NPU_REDUCE_MIN; }

float result_of(const npu_cmd_reduce &c, double value) {
  if (c.subop == NPU_REDUCE_MEAN) value /= c.n;
  if (c.subop == NPU_REDUCE_L2) value = std::sqrt(value);
  return static_cast<float>(value);
}

/// What some elements of a result have seen so far.
class Reduction {
 public:
  Reduction(const npu_cmd_reduce &c, size_t count) : c_(c), count_(count) {
    std::fill_n(best_, count, 0.0f);
    std::fill_n(where_, count, -1);
  }
  /// The next element of the first `count`.
  void take(const float *x, size_t place, size_t count) {
    const Kernels &k = kernels();
    const auto at = static_cast<int32_t>(place);
    if (finds_places(c_)) return k.note_places(c_.subop, last(), x, at, best_, where_, count);
    if (!finds_end(c_)) return k.accumulate(c_.subop, x, place == 0, sums_, count);
    if (place == 0)
      std::copy_n(x, count, best_);
    else
      k.combine(c_.subop == NPU_REDUCE_MAX ? NPU_ELTWISE_MAX : NPU_ELTWISE_MIN, best_, 1, x, 1, best_, count);
  }
  /// The end of all elements.
  float end() const {
    float top = best_[0];
    for (size_t i = 1; i < count_; ++i)
      top = c_.subop == NPU_REDUCE_MAX ? maximum(top, best_[i]) : minimum(top, best_[i]);
    return top;
  }
  /// The place of the end of all elements, where each has seen every `step`-th one of a row.
  int32_t first_or_last(size_t step) const {
    const int32_t none = -1;
    int32_t best = none;
    float top = 0;
    for (size_t i = 0; i < count_; ++i) {
      if (where_[i] < 0) continue;
      const float x = best_[i];
      const auto place = where_[i] * static_cast<int32_t>(step) + static_cast<int32_t>(i);
      const bool nearer = c_.subop == NPU_REDUCE_ARGMAX ? x > top : x < top;
      if (best != none && !nearer && !(x == top && (last() ? place > best : place < best))) continue;
      best = place;
      top = x;
    }
    return std::max(best, 0);
  }
  void put(const Number &result, void *to) {
    if (finds_places(c_)) {
      for (size_t i = 0; i < count_; ++i) where_[i] = std::max(where_[i], 0);
      std::memcpy(to, where_, count_ * sizeof *where_);
      return;
    }
    if (!finds_end(c_))
      for (size_t i = 0; i < count_; ++i) best_[i] = result_of(c_, sums_[i]);
    number_kernels().store(result, best_, count_, to);
  }

 private:
  bool last() const { return c_.flags & NPU_REDUCEF_LAST; }

  const npu_cmd_reduce &c_;
  const size_t count_;
  double sums_[kReducedChunk];
  float best_[kReducedChunk];
  int32_t where_[kReducedChunk];
};

/// A row that becomes one element. Ends and their places are looked for in lanes beside each other first.
class RowReduction {
 public:
  explicit RowReduction(const npu_cmd_reduce &c) : c_(c), lanes_(c, std::min<size_t>(c.n, kLanes)) {}

  /// Elements [first, first + count) of the row; all but the last ones are whole lanes.
  void take(const float *x, size_t first, size_t count) {
    const Kernels &k = kernels();
    if (c_.subop == NPU_REDUCE_PROD) {
      if (first == 0) sum_ = 1;
      for (size_t i = 0; i < count; ++i) sum_ *= x[i];
      return;
    }
    if (!finds_places(c_) && !finds_end(c_)) {
      sum_ += k.accumulate_all(c_.subop, x, count);
      return;
    }
    for (size_t i = 0; i < count; i += kLanes) lanes_.take(x + i, (first + i) / kLanes, std::min(kLanes, count - i));
  }
  void put(const Number &result, void *to) {
    if (finds_places(c_)) {
      const int32_t place = lanes_.first_or_last(kLanes);
      std::memcpy(to, &place, sizeof place);
      return;
    }
    const float value = finds_end(c_) ? lanes_.end() : result_of(c_, sum_);
    number_kernels().store(result, &value, 1, to);
  }

 private:
  static constexpr size_t kLanes = 32;

  const npu_cmd_reduce &c_;
  Reduction lanes_;
  double sum_ = 0;
};

}  // namespace

void Onednn::run(const npu_cmd_reduce &c, const void *in, void *out) {
  const Number number{c.in_dtype, c.in_scale, c.in_zp}, result{c.out_dtype, c.out_scale, c.out_zp};
  const size_t in_size = hw::arith::dtype_bytes(c.in_dtype), out_size = hw::arith::dtype_bytes(c.out_dtype);
  float room[kReducedChunk];
  const auto load = [&](size_t first, size_t count) -> const float * {
    const char *from = static_cast<const char *>(in) + first * in_size;
    if (number.plain()) return reinterpret_cast<const float *>(from);
    number_kernels().load(number, from, count, room);
    return room;
  };
  char *to = static_cast<char *>(out);
  for (size_t o = 0; o < c.outer; ++o) {
    const size_t block = o * c.n * c.inner;
    if (c.inner == 1) {
      RowReduction row(c);
      for (size_t i = 0; i < c.n; i += kReducedChunk) {
        const size_t count = std::min<size_t>(kReducedChunk, c.n - i);
        row.take(load(block + i, count), i, count);
      }
      row.put(result, to);
      to += out_size;
      continue;
    }
    for (size_t i = 0, count; i < c.inner; i += count, to += count * out_size) {
      count = std::min<size_t>(kReducedChunk, c.inner - i);
      Reduction part(c, count);
      for (size_t k = 0; k < c.n; ++k) part.take(load(block + k * c.inner + i, count), k, count);
      part.put(result, to);
    }
  }
}

}  // namespace npu::model
