// SPDX-License-Identifier: MIT
// SOFTMAX, NORM and REDUCE as they are defined: in double, rounded once.
#include <algorithm>
#include <limits>
#include <vector>

#include "npu_arith.hpp"
#include "npu_enums.hpp"
#include "qemu-device/model/src/backend.h"
#include "qemu-device/model/src/compute/numbers.h"
#include "qemu-device/model/src/compute/numerics.h"

namespace npu::model {
namespace {

void softmax(bool log, const float *from, size_t count, float *to) {
  double top = -std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < count; ++i) top = std::max(top, static_cast<double>(from[i]));
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += std::exp(from[i] - top);
  const double log_sum = std::log(sum);
  for (size_t i = 0; i < count; ++i) {
    const double x = from[i] - top;
    to[i] = static_cast<float>(log ? x - log_sum : std::exp(x) / sum);
  }
}

void normalize(const npu_cmd_norm &c, const void *scale, const void *bias, float *x) {
  double mean = 0, squares = 0;
  if (c.subop == NPU_NORM_LAYER) {
    for (size_t i = 0; i < c.cols; ++i) mean += x[i];
    mean /= c.cols;
  }
  for (size_t i = 0; i < c.cols; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const double factor = 1 / std::sqrt(squares / c.cols + c.epsilon);
  for (size_t i = 0; i < c.cols; ++i) {
    const double one = (x[i] - mean) * factor;
    x[i] = static_cast<float>(one * (scale ? load_f32(scale, i) : 1) + (bias ? load_f32(bias, i) : 0));
  }
}

/// Rows of a command that reads and writes as many elements.
template <class F>
void each_row(size_t rows, size_t cols, const Number &from, const void *in, const Number &to, void *out, F f) {
  std::vector<float> x(cols);
  const size_t in_row = cols * hw::arith::dtype_bytes(from.dtype), out_row = cols * hw::arith::dtype_bytes(to.dtype);
  for (size_t row = 0; row < rows; ++row) {
    load_numbers(from, static_cast<const char *>(in) + row * in_row, cols, x.data());
    f(x.data());
    store_numbers(to, x.data(), cols, static_cast<char *>(out) + row * out_row);
  }
}

/// What a reduction has seen so far of one element of its result.
struct Seen {
  double value = 0;
  int32_t place = 0;
  bool any = false;  ///< for the places: a number that is no NaN
};

void take(const npu_cmd_reduce &c, float x, int32_t place, Seen &seen) {
  switch (hw::Reduce{c.subop}) {
    case hw::Reduce::Sum:
    case hw::Reduce::Mean:
      seen.value += x;
      return;
    case hw::Reduce::L1:
      seen.value += std::fabs(x);
      return;
    case hw::Reduce::L2:
      seen.value += double{x} * x;
      return;
    case hw::Reduce::Prod:
      seen.value = place ? seen.value * x : x;
      return;
    case hw::Reduce::Max:
      seen.value = place ? maximum(static_cast<float>(seen.value), x) : x;
      return;
    case hw::Reduce::Min:
      seen.value = place ? minimum(static_cast<float>(seen.value), x) : x;
      return;
    case hw::Reduce::Argmax:
    case hw::Reduce::Argmin:
      break;
  }
  if (std::isnan(x)) return;
  const double way = c.subop == NPU_REDUCE_ARGMAX ? double{x} - seen.value : seen.value - x;
  if (!seen.any || x == seen.value ? !seen.any || c.flags & NPU_REDUCEF_LAST : way > 0) seen = {x, place, true};
}

float result_of(const npu_cmd_reduce &c, double value) {
  switch (hw::Reduce{c.subop}) {
    case hw::Reduce::Mean:
      return static_cast<float>(value / c.n);
    case hw::Reduce::L2:
      return static_cast<float>(std::sqrt(value));
    case hw::Reduce::Sum:
    case hw::Reduce::L1:
    case hw::Reduce::Prod:
    case hw::Reduce::Max:
    case hw::Reduce::Min:
    case hw::Reduce::Argmax:
    case hw::Reduce::Argmin:
      break;
  }
  return static_cast<float>(value);
}

}  // namespace

void Reference::run(const npu_cmd_softmax &c, const void *in, void *out) {
  each_row(c.rows, c.cols, {c.in_dtype, c.in_scale, c.in_zp}, in, {c.out_dtype, c.out_scale, c.out_zp}, out,
           [&](float *x) { softmax(c.subop == NPU_SOFTMAX_LOG, x, c.cols, x); });
}

void Reference::run(const npu_cmd_norm &c, const void *in, const void *scale, const void *bias, void *out) {
  each_row(c.rows, c.cols, {c.in_dtype}, in, {c.out_dtype}, out, [&](float *x) { normalize(c, scale, bias, x); });
}

void Reference::run(const npu_cmd_reduce &c, const void *in, void *out) {
  const Number from{c.in_dtype, c.in_scale, c.in_zp}, to{c.out_dtype, c.out_scale, c.out_zp};
  const size_t in_size = hw::arith::dtype_bytes(c.in_dtype), out_size = hw::arith::dtype_bytes(c.out_dtype);
  const bool places = c.subop == NPU_REDUCE_ARGMAX || c.subop == NPU_REDUCE_ARGMIN;
  std::vector<float> row(c.inner);
  std::vector<Seen> seen(c.inner);
  for (size_t o = 0; o < c.outer; ++o) {
    std::fill(seen.begin(), seen.end(), Seen{});
    for (size_t k = 0; k < c.n; ++k) {
      load_numbers(from, static_cast<const char *>(in) + (o * c.n + k) * c.inner * in_size, c.inner, row.data());
      for (size_t i = 0; i < c.inner; ++i) take(c, row[i], static_cast<int32_t>(k), seen[i]);
    }
    char *result = static_cast<char *>(out) + o * c.inner * out_size;
    for (size_t i = 0; i < c.inner; ++i) {
      if (places) {
        std::memcpy(result + i * out_size, &seen[i].place, out_size);
        continue;
      }
      const float value = result_of(c, seen[i].value);
      store_numbers(to, &value, 1, result + i * out_size);
    }
  }
}

}  // namespace npu::model
