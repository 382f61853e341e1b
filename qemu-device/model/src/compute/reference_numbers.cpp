// SPDX-License-Identifier: MIT
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "qemu-device/model/src/compute/numbers.h"

namespace npu::model {
namespace {

template <class T>
T element(const void *from, size_t i) {
  T v;
  std::memcpy(&v, static_cast<const char *>(from) + i * sizeof v, sizeof v);
  return v;
}

float of_f16(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16, rest = bits & 0x7fffu;
  if (rest >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  // The exponent is rebiased by a multiplication, which also makes denormals what they are.
  const float size = std::bit_cast<float>(rest << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(size));
}

uint16_t to_f16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x), sign = bits >> 16 & 0x8000u;
  const float size = std::bit_cast<float>(bits & 0x7fffffffu);
  if (std::isnan(x)) return static_cast<uint16_t>(sign | 0x7e00u);
  if (size >= 65520.0f) return static_cast<uint16_t>(sign | 0x7c00u);
  if (size < 0x1p-14f) {
    // Adding 1.5 * 2^-1 rounds to multiples of 2^-24, the denormals.
    const float shifted = size + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5f)));
  }
  const uint32_t value = std::bit_cast<uint32_t>(size) - (112u << 23);
  return static_cast<uint16_t>(sign | (value + 0xfffu + (value >> 13 & 1)) >> 13);
}

float of_bf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

uint16_t to_bf16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

template <class T>
void load_integers(float scale, int32_t zero, const void *from, size_t count, float *to) {
  for (size_t i = 0; i < count; ++i) to[i] = static_cast<float>(int64_t{element<T>(from, i)} - zero) * scale;
}

/// The same where the difference fits into 32 bits: vectors of these convert faster.
template <class T>
void load_short(float scale, int32_t zero, const void *from, size_t count, float *to) {
  for (size_t i = 0; i < count; ++i) to[i] = static_cast<float>(int32_t{element<T>(from, i)} - zero) * scale;
}

/// Of a value that is rounded already. NaN is 0.
template <class T>
T saturate(float rounded, int32_t zero) {
  constexpr double kLow = std::numeric_limits<T>::min(), kHigh = std::numeric_limits<T>::max();
  const double sum = std::isnan(rounded) ? zero : double{rounded} + zero;
  return static_cast<T>(sum < kLow ? kLow : sum > kHigh ? kHigh : sum);
}

template <class T>
void store_integers(float scale, int32_t zero, const float *from, size_t count, void *out) {
  T *to = static_cast<T *>(out);
  for (size_t i = 0; i < count; ++i) to[i] = saturate<T>(std::nearbyint(from[i] / scale), zero);
}

template <class From, class T>
void subtract(int32_t zero, const void *from, size_t count, T *to) {
  for (size_t i = 0; i < count; ++i) to[i] = static_cast<T>(int32_t{element<From>(from, i)} - zero);
}

}  // namespace

void load_numbers(const Number &n, const void *from, size_t count, float *to) {
  switch (n.dtype) {
    case NPU_DTYPE_F32:
      if (count != 0) std::memcpy(to, from, count * sizeof *to);  // pointers of nothing may be null
      return;
    case NPU_DTYPE_F16:
      for (size_t i = 0; i < count; ++i) to[i] = of_f16(element<uint16_t>(from, i));
      return;
    case NPU_DTYPE_BF16:
      for (size_t i = 0; i < count; ++i) to[i] = of_bf16(element<uint16_t>(from, i));
      return;
    case NPU_DTYPE_S8:
      return load_short<int8_t>(n.scale, n.zero, from, count, to);
    case NPU_DTYPE_U8:
      return load_short<uint8_t>(n.scale, n.zero, from, count, to);
    case NPU_DTYPE_S16:
      return load_short<int16_t>(n.scale, n.zero, from, count, to);
    case NPU_DTYPE_U16:
      return load_short<uint16_t>(n.scale, n.zero, from, count, to);
    case NPU_DTYPE_S32:
      return load_integers<int32_t>(n.scale, n.zero, from, count, to);
  }
}

void store_numbers(const Number &n, const float *from, size_t count, void *to) {
  switch (n.dtype) {
    case NPU_DTYPE_F32:
      if (count != 0) std::memcpy(to, from, count * sizeof *from);
      return;
    case NPU_DTYPE_F16:
      for (size_t i = 0; i < count; ++i) static_cast<uint16_t *>(to)[i] = to_f16(from[i]);
      return;
    case NPU_DTYPE_BF16:
      for (size_t i = 0; i < count; ++i) static_cast<uint16_t *>(to)[i] = to_bf16(from[i]);
      return;
    case NPU_DTYPE_S8:
      return store_integers<int8_t>(n.scale, n.zero, from, count, to);
    case NPU_DTYPE_U8:
      return store_integers<uint8_t>(n.scale, n.zero, from, count, to);
    case NPU_DTYPE_S16:
      return store_integers<int16_t>(n.scale, n.zero, from, count, to);
    case NPU_DTYPE_U16:
      return store_integers<uint16_t>(n.scale, n.zero, from, count, to);
    case NPU_DTYPE_S32:
      return store_integers<int32_t>(n.scale, n.zero, from, count, to);
  }
}

void load_factors(uint8_t dtype, int32_t, const void *from, size_t count, float *to) {
  load_numbers({dtype, 0, 0}, from, count, to);
}

void load_factors(uint8_t dtype, int32_t zero, const void *from, size_t count, uint32_t *to) {
  if (dtype == NPU_DTYPE_S8)
    subtract<int8_t>(zero, from, count, to);
  else
    subtract<uint8_t>(zero, from, count, to);
}

void store_rounded(uint8_t dtype, int32_t zero, const float *v, size_t count, void *out) {
  for (size_t i = 0; i < count; ++i) {
    const float rounded = std::nearbyint(v[i]);
    if (dtype == NPU_DTYPE_S8)
      static_cast<int8_t *>(out)[i] = saturate<int8_t>(rounded, zero);
    else
      static_cast<uint8_t *>(out)[i] = saturate<uint8_t>(rounded, zero);
  }
}

}  // namespace npu::model
