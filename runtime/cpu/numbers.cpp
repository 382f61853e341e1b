// SPDX-License-Identifier: MIT
// Loops without branches: compilers make vectors of them.
#include "runtime/cpu/numbers.h"

#include <bit>
#include <cstring>

#include "runtime/cpu/element.h"

namespace npu::cpu {
namespace {

template <class T>
T get(const void *from, size_t i) {
  T v;
  std::memcpy(&v, static_cast<const char *>(from) + i * sizeof v, sizeof v);
  return v;
}

template <class T>
void put(void *to, size_t i, T v) {
  std::memcpy(static_cast<char *>(to) + i * sizeof v, &v, sizeof v);
}

float half_to_float(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16, rest = uint32_t{bits & 0x7fffu} << 13;
  // A multiplication moves the exponent to where float32 has it, of denormals as well.
  const auto number = std::bit_cast<uint32_t>(std::bit_cast<float>(rest) * 0x1p112f);
  const uint32_t special = rest | 0x7f800000u;  // infinity, NaN
  return std::bit_cast<float>(sign | (rest >= 0x7c00u << 13 ? special : number));
}

uint16_t float_to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
  // Denormals: where the last place of a sum is 2^-24, the addition rounds.
  const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5f) - std::bit_cast<uint32_t>(0.5f);
  const uint32_t normal = (size - (112u << 23) + 0xfffu + (size >> 13 & 1)) >> 13;
  const uint32_t large = size > 0x7f800000u ? 0x7e00u : 0x7c00u;  // from 65520 on
  const uint32_t finite = size < std::bit_cast<uint32_t>(0x1p-14f) ? small : normal;
  return static_cast<uint16_t>(sign | (size >= std::bit_cast<uint32_t>(65520.0f) ? large : finite));
}

float brain_to_float(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

uint16_t float_to_brain(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), rounded = bits + 0x7fffu + (bits >> 16 & 1);
  const uint32_t nan = bits | 0x400000u;
  return static_cast<uint16_t>(((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded) >> 16);
}

/// saturated() of a type of 8 or 16 bits: what saturates is less than 2^22, so that an addition rounds.
template <class T>
T rounded(float steps, int32_t zero) {
  using Limits = std::numeric_limits<T>;
  constexpr float kBound = 0x1p20f, kRound = 0x1.8p23f;
  steps = steps == steps ? steps : 0;
  steps = steps < kBound ? steps : kBound;
  steps = steps > -kBound ? steps : -kBound;
  const int32_t sum = static_cast<int32_t>((steps + kRound) - kRound) + zero;
  return static_cast<T>(std::min<int32_t>(std::max<int32_t>(sum, Limits::min()), Limits::max()));
}

template <class T>
void load_integers(const Quant &quant, const void *from, size_t count, float *to) {
  using Difference = std::conditional_t<sizeof(T) < 4, int32_t, int64_t>;
  const Quant q = quant;
  for (size_t i = 0; i < count; ++i) to[i] = static_cast<float>(Difference{get<T>(from, i)} - q.zero) * q.scale;
}

template <class T>
void store_integers(const Quant &quant, const float *from, size_t count, void *to) {
  const Quant q = quant;
  for (size_t i = 0; i < count; ++i)
    if constexpr (sizeof(T) < 4)
      put(to, i, rounded<T>(from[i] / q.scale, q.zero));
    else
      put(to, i, saturated<T>(from[i] / q.scale, q.zero));
}

}  // namespace

float of_f16(uint16_t bits) { return half_to_float(bits); }
uint16_t to_f16(float value) { return float_to_half(value); }
float of_bf16(uint16_t bits) { return brain_to_float(bits); }
uint16_t to_bf16(float value) { return float_to_brain(value); }

bool has_numbers(Dtype type) {
  return type == Dtype::F32 || type == Dtype::F16 || type == Dtype::BF16 ||
         (is_integer(type) && type != Dtype::Bool && dtype_bytes(type) <= 4);
}

void load_numbers(Dtype type, const Quant &quant, const void *from, size_t count, float *to) {
  if (type == Dtype::F32) {
    if (count) std::memcpy(to, from, count * sizeof *to);  // pointers of nothing may be null
  } else if (type == Dtype::F16) {
    for (size_t i = 0; i < count; ++i) to[i] = half_to_float(get<uint16_t>(from, i));
  } else if (type == Dtype::BF16) {
    for (size_t i = 0; i < count; ++i) to[i] = brain_to_float(get<uint16_t>(from, i));
  } else {
    with_integer(type, [&](auto v) {
      if constexpr (sizeof v <= 4) load_integers<decltype(v)>(quant, from, count, to);
    });
  }
}

void store_numbers(Dtype type, const Quant &quant, const float *from, size_t count, void *to) {
  if (type == Dtype::F32) {
    if (count) std::memcpy(to, from, count * sizeof *from);
  } else if (type == Dtype::F16) {
    for (size_t i = 0; i < count; ++i) put(to, i, float_to_half(from[i]));
  } else if (type == Dtype::BF16) {
    for (size_t i = 0; i < count; ++i) put(to, i, float_to_brain(from[i]));
  } else {
    with_integer(type, [&](auto v) {
      if constexpr (sizeof v <= 4) store_integers<decltype(v)>(quant, from, count, to);
    });
  }
}

}  // namespace npu::cpu
