// SPDX-License-Identifier: MIT
#include "tools/bmrt_test/compare.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

namespace bmrt_test {

namespace {

double from_f16(uint16_t h) {
  const int exponent = h >> 10 & 0x1f, mantissa = h & 0x3ff;
  const double sign = h & 0x8000 ? -1.0 : 1.0;
  if (exponent == 0x1f)
    return mantissa ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(mantissa + 1024, exponent - 25);
}

template <class T>
T load(const void *data, uint64_t i) {
  T v;
  std::memcpy(&v, static_cast<const uint8_t *>(data) + i * sizeof v, sizeof v);
  return v;
}

double element(bm_data_type_t dtype, const void *data, uint64_t i) {
  switch (dtype) {
    case BM_FLOAT32:
      return load<float>(data, i);
    case BM_FLOAT16:
      return from_f16(load<uint16_t>(data, i));
    case BM_BFLOAT16:
      return std::bit_cast<float>(uint32_t{load<uint16_t>(data, i)} << 16);
    case BM_INT8:
      return load<int8_t>(data, i);
    case BM_INT16:
      return load<int16_t>(data, i);
    case BM_UINT16:
      return load<uint16_t>(data, i);
    case BM_INT32:
      return load<int32_t>(data, i);
    case BM_UINT32:
      return load<uint32_t>(data, i);
    default:
      return load<uint8_t>(data, i);
  }
}

bool is_float(bm_data_type_t dtype) { return dtype == BM_FLOAT32 || dtype == BM_FLOAT16 || dtype == BM_BFLOAT16; }

double smallest_normal(bm_data_type_t dtype) { return std::ldexp(1, dtype == BM_FLOAT16 ? -14 : -126); }

double difference(double got, double expected) {
  if (got == expected || (std::isnan(got) && std::isnan(expected))) return 0;
  const double d = std::fabs(got - expected);
  return std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
}

}  // namespace

Comparison compare(bm_data_type_t dtype, const void *got, const void *expected, uint64_t count,
                   const Tolerance &tolerance) {
  Comparison out;
  out.limit = static_cast<double>(tolerance.accuracy_i);
  if (is_float(dtype)) {
    double largest = 0;
    for (uint64_t i = 0; i < count; ++i) {
      const double v = std::fabs(element(dtype, expected, i));
      if (std::isfinite(v)) largest = std::max(largest, v);
    }
    out.limit = std::max(tolerance.accuracy_f * largest, smallest_normal(dtype));
  }
  for (uint64_t i = 0; i < count; ++i) {
    Element e{i, element(dtype, got, i), element(dtype, expected, i), 0};
    e.difference = difference(e.got, e.expected);
    if (e.difference > out.largest.difference) out.largest = e;
    if (e.difference <= out.limit) continue;
    if (out.mismatches++ == 0) out.first = e;
    out.equal = false;
  }
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

}  // namespace

std::string describe(const Comparison &c, const bm_shape_t &shape) {
  char text[512];
  std::snprintf(
      text, sizeof text,
      "element %llu (index %s): got %.9g, expected %.9g, difference %.6g is above %.6g; %llu of %llu elements "
      "differ, the largest difference is %.6g at element %llu (got %.9g, expected %.9g)",
      static_cast<unsigned long long>(c.first.index), index_text(c.first.index, shape).c_str(), c.first.got,
      c.first.expected, c.first.difference, c.limit, static_cast<unsigned long long>(c.mismatches),
      static_cast<unsigned long long>(bmrt_shape_count(&shape)), c.largest.difference,
      static_cast<unsigned long long>(c.largest.index), c.largest.got, c.largest.expected);
  return text;
}

}  // namespace bmrt_test
