// SPDX-License-Identifier: MIT
// Arithmetic on sizes that come from outside: saturated, so that no product of them wraps.
#ifndef NPU_HW_ARITH_HPP
#define NPU_HW_ARITH_HPP

#include <cstdint>

#include "npu_isa.h"

namespace npu::hw::arith {

__extension__ typedef __int128 i128;
__extension__ typedef unsigned __int128 u128;
inline constexpr uint64_t kMax = uint64_t{1} << 62;

constexpr uint64_t saturate(u128 v) { return v > kMax ? kMax : static_cast<uint64_t>(v); }
constexpr uint64_t mul(uint64_t a, uint64_t b) { return saturate(u128{a} * b); }
template <class... T>
constexpr uint64_t mul(uint64_t a, uint64_t b, T... rest) {
  return mul(mul(a, b), static_cast<uint64_t>(rest)...);
}
constexpr uint64_t add(uint64_t a, uint64_t b) { return saturate(u128{a} + b); }
constexpr uint64_t ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }
constexpr uint64_t round64(uint64_t bytes) { return mul(ceil_div(bytes, 64), 64); }

constexpr uint32_t dtype_bytes(uint8_t t) {
  switch (t) {
    case NPU_DTYPE_S8:
    case NPU_DTYPE_U8:
      return 1;
    case NPU_DTYPE_F16:
    case NPU_DTYPE_BF16:
    case NPU_DTYPE_S16:
    case NPU_DTYPE_U16:
      return 2;
    case NPU_DTYPE_F32:
    case NPU_DTYPE_S32:
    case NPU_DTYPE_U32:
      return 4;
    case NPU_DTYPE_S64:
      return 8;
    default:
      return 0;
  }
}

}  // namespace npu::hw::arith

#endif  // NPU_HW_ARITH_HPP
