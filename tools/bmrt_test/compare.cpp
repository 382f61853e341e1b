// SPDX-License-Identifier: MIT
#include "tools/bmrt_test/compare.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

namespace bmrt_test {

namespace {

constexpr uint64_t kBlock = 4096;

bool is_float(bm_data_type_t dtype) { return dtype == BM_FLOAT32 || dtype == BM_FLOAT16 || dtype == BM_BFLOAT16; }

template <class T>
void load(const void *data, uint64_t count, double *to) {
  T v;
  for (uint64_t i = 0; i < count; ++i) {
    std::memcpy(&v, static_cast<const uint8_t *>(data) + i * sizeof v, sizeof v);
    to[i] = static_cast<double>(v);
  }
}

void load_integers(bm_data_type_t dtype, const void *data, uint64_t count, double *to) {
  switch (dtype) {
    case BM_INT8:
      return load<int8_t>(data, count, to);
    case BM_INT16:
      return load<int16_t>(data, count, to);
    case BM_UINT16:
      return load<uint16_t>(data, count, to);
    case BM_INT32:
      return load<int32_t>(data, count, to);
    case BM_UINT32:
      return load<uint32_t>(data, count, to);
    default:
      return load<uint8_t>(data, count, to);
  }
}

/// Elements of a tensor as numbers, a block of them at a time; integers as they are.
class Elements {
 public:
  Elements(bm_data_type_t dtype, const void *data, uint64_t count)
      : dtype_(dtype), data_(static_cast<const uint8_t *>(data)), count_(count) {}

  /// For rising places.
  double operator[](uint64_t i) {
    if (i / kBlock != block_) read(i / kBlock);
    return numbers_[i % kBlock];
  }

 private:
  void read(uint64_t block) {
    block_ = block;
    const uint64_t at = block * kBlock, n = std::min(kBlock, count_ - at);
    const void *const from = data_ + at * bmrt_data_type_size(dtype_);
    if (!is_float(dtype_)) return load_integers(dtype_, from, n, numbers_.data());
    float floats[kBlock];
    const bmrt_quant_t plain{dtype_, 1, 0};
    bmrt_dequantize(&plain, from, n, floats);
    std::copy(floats, floats + n, numbers_.begin());
  }

  bm_data_type_t dtype_;
  const uint8_t *data_;
  uint64_t count_, block_ = UINT64_MAX;
  std::array<double, kBlock> numbers_;
};

/// The place of a finite number of a floating-point type among all that the type has, 0 for zero.
int64_t place(bm_data_type_t dtype, double value) {
  const float size = std::fabs(static_cast<float>(value));
  int64_t out = std::bit_cast<uint32_t>(size);
  if (dtype == BM_BFLOAT16) out >>= 16;
  if (dtype == BM_FLOAT16) out = size < 0x1p-14f ? static_cast<int64_t>(size * 0x1p24f) : (out >> 13) - (112 << 10);
  return value < 0 ? -out : out;
}

double smallest_normal(bm_data_type_t dtype) { return std::ldexp(1, dtype == BM_FLOAT16 ? -14 : -126); }

double difference(double got, double expected) {
  if (got == expected || (std::isnan(got) && std::isnan(expected))) return 0;
  const double d = std::fabs(got - expected);
  return std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
}

double steps(bm_data_type_t dtype, double got, double expected) {
  const double d = difference(got, expected);
  if (d == 0 || !std::isfinite(d)) return d;
  return std::fabs(static_cast<double>(place(dtype, got) - place(dtype, expected)));
}

double largest_size(bm_data_type_t dtype, const void *expected, uint64_t count) {
  Elements elements(dtype, expected, count);
  double largest = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const double v = std::fabs(elements[i]);
    if (std::isfinite(v)) largest = std::max(largest, v);
  }
  return largest;
}

/// The limit of |got - expected| for floating point.
double absolute_limit(bm_data_type_t dtype, const void *expected, uint64_t count, const Tolerance &tolerance,
                      bool &tiny) {
  const double largest = largest_size(dtype, expected, count);
  const double tiny_limit = dtype == BM_FLOAT32 ? kTinyLimit : kTinyLimit16;
  tiny = tolerance.accuracy_abs < 0 && largest < kTiny * tiny_limit && tolerance.accuracy_f * largest < tiny_limit;
  return std::max({tolerance.accuracy_f * largest, tiny ? tiny_limit : tolerance.accuracy_abs, smallest_normal(dtype)});
}

}  // namespace

Comparison compare(bm_data_type_t dtype, const void *got, const void *expected, uint64_t count,
                   const Tolerance &tolerance, int zero_point) {
  Comparison out;
  const bool floats = is_float(dtype), in_ulp = floats && tolerance.ulp >= 0;
  if (in_ulp) {
    out.limit = static_cast<double>(tolerance.ulp);
    out.unit = " ULP";
  } else if (floats) {
    out.limit = absolute_limit(dtype, expected, count, tolerance, out.tiny);
  } else {
    out.limit = static_cast<double>(tolerance.accuracy_i);
    out.unit = " LSB";
  }
  Elements have(dtype, got, count), want(dtype, expected, count);
  double product = 0, got_power = 0, expected_power = 0;
  for (uint64_t i = 0; i < count; ++i) {
    Element e{i, have[i], want[i], 0};
    const double a = e.got - zero_point, b = e.expected - zero_point;
    product += a * b;
    got_power += a * a;
    expected_power += b * b;
    e.difference = in_ulp ? steps(dtype, e.got, e.expected) : difference(e.got, e.expected);
    if (e.difference == 0) continue;
    if (out.differing++ == 0) out.first_differing = e;
    if (e.difference > out.largest.difference) out.largest = e;
    if (e.difference <= out.limit) continue;
    if (out.mismatches++ == 0) out.first = e;
    out.equal = false;
  }
  if (out.differing) out.cosine = product / std::sqrt(got_power * expected_power);
  return out;
}

namespace {

std::string index_text(uint64_t flat, const bm_shape_t &shape) {
  std::string out;
  for (int d = shape.num_dims - 1; d >= 0; --d) {
    const auto n = static_cast<uint64_t>(shape.dims[d]);
    out = std::to_string(flat % n) + (out.empty() ? "" : "," + out);
    flat /= n;
  }
  return "[" + out + "]";
}

template <class... T>
std::string print(const char *format, T... args) {
  char text[512];
  std::snprintf(text, sizeof text, format, args...);
  return text;
}

std::string element_text(const Element &e, const bm_shape_t &shape) {
  return print("element %llu (index %s): got %.9g, expected %.9g", static_cast<unsigned long long>(e.index),
               index_text(e.index, shape).c_str(), e.got, e.expected);
}

}  // namespace

std::string summary(const Comparison &c, const bm_shape_t &shape) {
  const auto all = static_cast<unsigned long long>(bmrt_shape_count(&shape));
  if (c.differing == 0) return print("all %llu elements are equal", all);
  return print("%llu of %llu elements differ, at most by %.6g%s, first ", static_cast<unsigned long long>(c.differing),
               all, c.largest.difference, c.unit) +
         element_text(c.first_differing, shape) + (std::isnan(c.cosine) ? "" : print("; cosine %.6f", c.cosine)) +
         (c.tiny ? print("; may differ by %.6g, as all expected numbers are tiny (--accuracy_abs)", c.limit) : "");
}

std::string describe(const Comparison &c, const bm_shape_t &shape) {
  return element_text(c.first, shape) +
         print(
             ", difference %.6g%s is above %.6g; %llu of %llu elements differ, the largest difference is %.6g%s at "
             "element %llu (got %.9g, expected %.9g)",
             c.first.difference, c.unit, c.limit, static_cast<unsigned long long>(c.mismatches),
             static_cast<unsigned long long>(bmrt_shape_count(&shape)), c.largest.difference, c.unit,
             static_cast<unsigned long long>(c.largest.index), c.largest.got, c.largest.expected);
}

}  // namespace bmrt_test
