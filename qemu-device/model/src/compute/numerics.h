// SPDX-License-Identifier: MIT
// What one element's arithmetic means (docs/reference/hardware.md, section 7): shared by every back end, so that it is
// defined once.
#ifndef NPU_MODEL_COMPUTE_NUMERICS_H
#define NPU_MODEL_COMPUTE_NUMERICS_H

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "npu_isa.h"

namespace npu::model {

inline const float *f32(const void *p) { return static_cast<const float *>(p); }
inline float *f32(void *p) { return static_cast<float *>(p); }

/// Element i of a vector that may lie at any byte: operands in memory follow their region, which has any alignment.
template <class T>
T load_as(const void *base, size_t i) {
  T v;
  std::memcpy(&v, static_cast<const char *>(base) + i * sizeof v, sizeof v);
  return v;
}
inline float load_f32(const void *base, size_t i) { return load_as<float>(base, i); }

/// IEEE 754-2019 maximum: NaN if one is NaN, -0 below +0.
inline float maximum(float a, float b) {
  if (a > b) return a;
  if (b > a) return b;
  if (a == b) return std::signbit(a) ? b : a;
  return a + b;
}

inline float minimum(float a, float b) {
  if (a < b) return a;
  if (b < a) return b;
  if (a == b) return std::signbit(a) ? a : b;
  return a + b;
}

/// max(x, 0); the comparison is false for NaN, which stays.
inline float relu(float x) { return x <= 0.0f ? 0.0f : x; }

inline float clip(float x, float lo, float hi) { return x < lo ? lo : (x > hi ? hi : x); }

inline float leaky_relu(float x, float a) { return x < 0.0f ? a * x : x; }

/// -1, 0 or 1; NaN stays.
inline float sign(float x) { return x > 0.0f ? 1.0f : (x < 0.0f ? -1.0f : (x == 0.0f ? 0.0f : x)); }

/// Window positions i in [first, last) for which base + i * step lies in [0, limit).
struct WindowRange {
  int64_t first;
  int64_t last;
  int64_t size() const { return last - first; }
};

inline WindowRange window_range(int64_t base, int64_t step, int64_t count, int64_t limit) {
  const int64_t first = base < 0 ? (-base + step - 1) / step : 0;
  const int64_t last = limit > base ? (limit - base + step - 1) / step : 0;
  const int64_t end = std::min(count, last);
  return {std::min(first, end), end};
}

}  // namespace npu::model

#endif  // NPU_MODEL_COMPUTE_NUMERICS_H
