// SPDX-License-Identifier: MIT
#include "runtime/cpu/element.h"

#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "runtime/cpu/numbers.h"

namespace npu::cpu {

namespace {

/// In float32, rounded to odd: what is rounded once more, to at most 22 bits, is rounded as if that were the only time.
float to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || std::isnan(value)) return nearest;
  const bool away = std::fabs(static_cast<double>(nearest)) > std::fabs(value);
  const uint32_t down = std::bit_cast<uint32_t>(nearest) - (away ? 1 : 0);
  return std::bit_cast<float>(down | 1);
}

template <class T>
T get(const Tensor &t, int64_t i) {
  T v;
  std::memcpy(&v, t.data.data() + static_cast<size_t>(i) * sizeof v, sizeof v);
  return v;
}

template <class T>
void put(Tensor &t, int64_t i, T v) {
  std::memcpy(t.data.data() + static_cast<size_t>(i) * sizeof v, &v, sizeof v);
}

template <class T>
T truncated(double v) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(v)) return 0;
  if (v >= std::ldexp(1.0, Limits::digits)) return Limits::max();
  return v <= static_cast<double>(Limits::min()) ? Limits::min() : static_cast<T>(v);
}

template <class T, class From>
T converted(From v, Overflow overflow) {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_floating_point_v<From>) {
    return truncated<T>(static_cast<double>(v));
  } else {
    if (overflow == Overflow::Wrap || std::in_range<T>(v)) return static_cast<T>(v);
    return v < From{0} ? Limits::min() : Limits::max();
  }
}

template <class From>
void cast_from(const Tensor &x, Overflow overflow, Tensor &out) {
  const int64_t n = out.count();
  const From *from = x.as<From>();
  if (out.dtype == Dtype::F32)
    for (int64_t i = 0; i < n; ++i) out.as<float>()[i] = static_cast<float>(from[i]);
  else if (!is_integer(out.dtype) || out.dtype == Dtype::Bool)
    for (int64_t i = 0; i < n; ++i) store(out, i, static_cast<double>(from[i]));
  else
    with_integer(out.dtype, [&](auto type) {
      using To = decltype(type);
      for (int64_t i = 0; i < n; ++i) out.as<To>()[i] = converted<To>(from[i], overflow);
    });
}

}  // namespace

bool is_integer(Dtype type) {
  switch (type) {
    case Dtype::Bool:
    case Dtype::I8:
    case Dtype::U8:
    case Dtype::I16:
    case Dtype::U16:
    case Dtype::I32:
    case Dtype::U32:
    case Dtype::I64:
    case Dtype::U64:
      return true;
    default:
      return false;
  }
}

double load(const Tensor &t, int64_t i) {
  switch (t.dtype) {
    case Dtype::F16:
      return of_f16(get<uint16_t>(t, i));
    case Dtype::BF16:
      return of_bf16(get<uint16_t>(t, i));
    case Dtype::F32:
      return get<float>(t, i);
    case Dtype::F64:
      return get<double>(t, i);
    default:
      return with_integer(t.dtype, [&](auto type) { return static_cast<double>(get<decltype(type)>(t, i)); });
  }
}

void store(Tensor &t, int64_t i, double value) {
  switch (t.dtype) {
    case Dtype::F16:
      return put(t, i, to_f16(to_odd(value)));
    case Dtype::BF16:
      return put(t, i, to_bf16(to_odd(value)));
    case Dtype::F32:
      return put(t, i, static_cast<float>(value));
    case Dtype::F64:
      return put(t, i, value);
    case Dtype::Bool:
      return put<uint8_t>(t, i, value != 0);
    default:
      return with_integer(t.dtype, [&](auto type) { put(t, i, truncated<decltype(type)>(value)); });
  }
}

int64_t load_integer(const Tensor &t, int64_t i) {
  return with_integer(t.dtype, [&](auto type) { return static_cast<int64_t>(get<decltype(type)>(t, i)); });
}

void store_integer(Tensor &t, int64_t i, int64_t value, Overflow overflow) {
  if (t.dtype == Dtype::F32) return put(t, i, static_cast<float>(value));
  if (!is_integer(t.dtype) || t.dtype == Dtype::Bool) return store(t, i, static_cast<double>(value));
  with_integer(t.dtype, [&](auto type) { put(t, i, converted<decltype(type)>(value, overflow)); });
}

Status load_index(const Tensor &indices, int64_t i, size_t dimension, int64_t length, int64_t &out) {
  const int64_t given = indices.dtype == Dtype::I32 ? indices.as<int32_t>()[i] : indices.as<int64_t>()[i];
  if (given < -length || given >= length)
    return Status::error("index " + std::to_string(given) + " is outside dimension " + std::to_string(dimension) +
                         ", which has length " + std::to_string(length));
  out = given < 0 ? given + length : given;
  return {};
}

void cast(const Tensor &x, Overflow overflow, Tensor &out) {
  const int64_t n = out.count();
  const auto is_half = [](Dtype type) { return type == Dtype::F16 || type == Dtype::BF16; };
  if (is_half(x.dtype) && out.dtype == Dtype::F32)
    load_numbers(x.dtype, {}, x.data.data(), static_cast<size_t>(n), out.as<float>());
  else if (x.dtype == Dtype::F32 && is_half(out.dtype))
    store_numbers(out.dtype, {}, x.as<float>(), static_cast<size_t>(n), out.data.data());
  else if (x.dtype == Dtype::F32 || is_integer(x.dtype))
    with_number(x.dtype, [&](auto type) { cast_from<decltype(type)>(x, overflow, out); });
  else
    for (int64_t i = 0; i < n; ++i) store(out, i, load(x, i));
}

}  // namespace npu::cpu
