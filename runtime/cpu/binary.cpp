// SPDX-License-Identifier: MIT
// Functions of two numbers, with broadcasting.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/cpu/broadcast.h"
#include "runtime/cpu/element.h"

namespace npu::cpu {
namespace {

Walk<2> walk(const Tensor &a, const Tensor &b, const Shape &shape) {
  return {shape, {broadcast_strides(a.shape, shape), broadcast_strides(b.shape, shape)}};
}

/// out = f(a, b), element by element. Rows without broadcasting have a loop that compilers vectorise.
template <class T, class R, class F>
void map(const Tensor &a, const Tensor &b, Tensor &out, F f) {
  walk(a, b, out.shape).rows({}, [&](int64_t first, const auto &at, int64_t n, const auto &step) {
    const T *x = a.as<T>() + at[0], *y = b.as<T>() + at[1];
    R *to = out.as<R>() + first;
    if (step[0] == 1 && step[1] == 1)
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<R>(f(x[i], y[i]));
    else
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<R>(f(x[i * step[0]], y[i * step[1]]));
  });
}

/// a % b in C++, but of the lowest number and -1 as well. b is not 0.
template <class T>
T remainder(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return std::fmod(a, b);
  if constexpr (std::is_integral_v<T> && std::is_signed_v<T>)
    if (b == T{-1}) return T{0};
  if constexpr (std::is_integral_v<T>) return static_cast<T>(a % b);
}

/// With the sign of the divisor, a 0 of floating-point numbers as well.
template <class T>
T modulo(T a, T b) {
  const T rest = remainder(a, b);
  if constexpr (std::is_floating_point_v<T>)
    if (rest == 0) return std::copysign(rest, b);
  return rest != T{0} && (rest < T{0}) != (b < T{0}) ? plus(rest, b) : rest;
}

/// Towards zero. b is not 0.
template <class T>
T quotient(T a, T b) {
  if constexpr (std::is_integral_v<T> && std::is_signed_v<T>)
    if (b == T{-1}) return minus(T{0}, a);
  return static_cast<T>(a / b);
}

/// An amount that leaves nothing of the number, or that is negative, gives what shifting by all bits gives.
template <class T>
T shift_left(T a, T by) {
  return static_cast<std::make_unsigned_t<T>>(by) >= sizeof(T) * 8 ? T{0}
                                                                   : static_cast<T>(static_cast<Wrapping<T>>(a) << by);
}

template <class T>
T shift_right(T a, T by) {
  if (static_cast<std::make_unsigned_t<T>>(by) >= sizeof(T) * 8) return static_cast<T>(a < T{0} ? -1 : 0);
  return static_cast<T>(a >> by);
}

/// The functions of all numbers.
template <class T>
void arithmetic(BinaryKind kind, const Tensor &a, const Tensor &b, Tensor &out) {
  const auto each = [&](auto f) { map<T, T>(a, b, out, f); };
  const auto compare = [&](auto f) { map<T, uint8_t>(a, b, out, f); };
  switch (kind) {
    case BinaryKind::Add:
      return each([](T x, T y) { return plus(x, y); });
    case BinaryKind::Sub:
      return each([](T x, T y) { return minus(x, y); });
    case BinaryKind::Mul:
      return each([](T x, T y) { return times(x, y); });
    case BinaryKind::Div:
      return each([](T x, T y) { return quotient(x, y); });
    case BinaryKind::Max:
      return each([](T x, T y) { return maximum(x, y); });
    case BinaryKind::Min:
      return each([](T x, T y) { return minimum(x, y); });
    case BinaryKind::Mod:
      return each([](T x, T y) { return modulo(x, y); });
    case BinaryKind::Fmod:
      return each([](T x, T y) { return remainder(x, y); });
    case BinaryKind::Equal:
      return compare([](T x, T y) { return x == y; });
    case BinaryKind::Less:
      return compare([](T x, T y) { return x < y; });
    case BinaryKind::LessOrEqual:
      return compare([](T x, T y) { return x <= y; });
    case BinaryKind::Pow:  // power()
    case BinaryKind::And:  // infer() has refused these for floating point
    case BinaryKind::Or:
    case BinaryKind::Xor:
    case BinaryKind::ShiftLeft:
    case BinaryKind::ShiftRight:
      break;
  }
}

template <class T>
void of_integers(BinaryKind kind, const Tensor &a, const Tensor &b, Tensor &out) {
  const auto each = [&](auto f) { map<T, T>(a, b, out, f); };
  switch (kind) {
    case BinaryKind::And:
      return each([](T x, T y) { return x & y; });
    case BinaryKind::Or:
      return each([](T x, T y) { return x | y; });
    case BinaryKind::Xor:
      return each([](T x, T y) { return x ^ y; });
    case BinaryKind::ShiftLeft:
      return each([](T x, T y) { return shift_left(x, y); });
    case BinaryKind::ShiftRight:
      return each([](T x, T y) { return shift_right(x, y); });
    case BinaryKind::Add:
    case BinaryKind::Sub:
    case BinaryKind::Mul:
    case BinaryKind::Div:
    case BinaryKind::Max:
    case BinaryKind::Min:
    case BinaryKind::Pow:
    case BinaryKind::Mod:
    case BinaryKind::Fmod:
    case BinaryKind::Equal:
    case BinaryKind::Less:
    case BinaryKind::LessOrEqual:
      return arithmetic<T>(kind, a, b, out);
  }
}

/// Any byte but 0 is true.
void of_bools(BinaryKind kind, const Tensor &a, const Tensor &b, Tensor &out) {
  const auto each = [&](auto f) {
    map<uint8_t, uint8_t>(a, b, out, [f](uint8_t x, uint8_t y) { return f(x != 0, y != 0); });
  };
  switch (kind) {
    case BinaryKind::And:
      return each([](bool x, bool y) { return x && y; });
    case BinaryKind::Or:
      return each([](bool x, bool y) { return x || y; });
    case BinaryKind::Xor:
      return each([](bool x, bool y) { return x != y; });
    case BinaryKind::Equal:
      return each([](bool x, bool y) { return x == y; });
    case BinaryKind::Less:
      return each([](bool x, bool y) { return !x && y; });
    case BinaryKind::LessOrEqual:
      return each([](bool x, bool y) { return !x || y; });
    case BinaryKind::Add:  // infer() has refused bool for the others
    case BinaryKind::Sub:
    case BinaryKind::Mul:
    case BinaryKind::Div:
    case BinaryKind::Max:
    case BinaryKind::Min:
    case BinaryKind::Pow:
    case BinaryKind::Mod:
    case BinaryKind::Fmod:
    case BinaryKind::ShiftLeft:
    case BinaryKind::ShiftRight:
      break;
  }
}

/// a to the power of an integer whose size that is.
template <class T>
T raised(T a, uint64_t size, bool negative) {
  if (!negative) {
    T out = 1;
    for (; size; size >>= 1, a = times(a, a))
      if (size & 1) out = times(out, a);
    return out;
  }
  // 1 / a^size towards zero; of 0 it is infinite, and saturates.
  if (a == T{0}) return std::numeric_limits<T>::max();
  if constexpr (std::is_signed_v<T>)
    if (a == T{-1}) return static_cast<T>(size & 1 ? -1 : 1);
  return a == T{1};
}

void power(const Tensor &a, const Tensor &b, Tensor &out) {
  if (a.dtype == Dtype::F32 && b.dtype == Dtype::F32)
    return map<float, float>(a, b, out, [](double x, double y) { return std::pow(x, y); });
  walk(a, b, out.shape).rows({}, [&](int64_t first, const auto &at, int64_t n, const auto &step) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t ia = at[0] + i * step[0], ib = at[1] + i * step[1];
      if (a.dtype == Dtype::F32 || b.dtype == Dtype::F32) {
        store(out, first + i, std::pow(load(a, ia), load(b, ib)));
        continue;
      }
      const int64_t e = load_integer(b, ib);
      const bool negative = e < 0 && b.dtype != Dtype::U64;
      const uint64_t size = negative ? uint64_t{0} - static_cast<uint64_t>(e) : static_cast<uint64_t>(e);
      with_integer(a.dtype, [&](auto type) {
        using T = decltype(type);
        out.as<T>()[first + i] = raised(a.as<T>()[ia], size, negative);
      });
    }
  });
}

bool has_zero(const Tensor &t) {
  return with_integer(t.dtype, [&](auto type) {
    const auto *first = t.as<decltype(type)>(), *last = first + t.count();
    return std::find(first, last, decltype(type){0}) != last;
  });
}

}  // namespace

Status binary(const BinaryAttrs &attrs, const Tensor &a, const Tensor &b, Tensor &out) {
  const BinaryKind kind = attrs.kind;
  const bool divides = kind == BinaryKind::Div || kind == BinaryKind::Mod || kind == BinaryKind::Fmod;
  if (divides && b.dtype != Dtype::F32 && out.count() && has_zero(b)) return Status::error("integer division by zero");
  if (kind == BinaryKind::Pow)
    power(a, b, out);
  else if (a.dtype == Dtype::F32)
    arithmetic<float>(kind, a, b, out);
  else if (a.dtype == Dtype::Bool)
    of_bools(kind, a, b, out);
  else
    with_integer(a.dtype, [&](auto type) { of_integers<decltype(type)>(kind, a, b, out); });
  if (attrs.act.kind != ActKind::None) unary({attrs.act}, out, out);
  return {};
}

void where(const Tensor &condition, const Tensor &a, const Tensor &b, Tensor &out) {
  const auto strides = [&](const Tensor &t) { return broadcast_strides(t.shape, out.shape); };
  const Walk<3> walk(out.shape, {strides(condition), strides(a), strides(b)});
  with_size(out.dtype, [&](auto size) {
    walk.rows({}, [&](int64_t first, const auto &at, int64_t n, const auto &step) {
      const auto place = [&](const Tensor &t, size_t k, int64_t i) {
        return t.data.data() + static_cast<size_t>(at[k] + i * step[k]) * size;
      };
      uint8_t *to = out.data.data() + static_cast<size_t>(first) * size;
      for (int64_t i = 0; i < n; ++i, to += size) {
        const bool yes = condition.data[static_cast<size_t>(at[0] + i * step[0])] != 0;
        std::memcpy(to, yes ? place(a, 1, i) : place(b, 2, i), size);
      }
    });
  });
}

}  // namespace npu::cpu
