// SPDX-License-Identifier: MIT
// Elements of every type as docs/reference/hardware.md has them, written apart from the chip: halves by a table of all
// of them, integers in 64 bits, each rounding by what it means.
#ifndef NPU_TESTS_COMPUTE_ELEMENTS_H
#define NPU_TESTS_COMPUTE_ELEMENTS_H

#include "tests/unit/compute/cases.h"

namespace npu::test {

using Bytes = std::vector<uint8_t>;

/// A type with what its integers stand for.
struct Kind {
  uint8_t dtype = NPU_DTYPE_F32;
  float scale = 0;
  int32_t zero = 0;
};

inline constexpr uint8_t kFloats[] = {NPU_DTYPE_F32, NPU_DTYPE_F16, NPU_DTYPE_BF16};
/// What most commands take: floating point, and integers of 8 and 16 bits.
inline constexpr uint8_t kNumbers[] = {NPU_DTYPE_F32, NPU_DTYPE_F16, NPU_DTYPE_BF16, NPU_DTYPE_S8,
                                       NPU_DTYPE_U8,  NPU_DTYPE_S16, NPU_DTYPE_U16};
/// Those of whole bytes.
inline constexpr uint8_t kWholeTypes[] = {NPU_DTYPE_F32, NPU_DTYPE_F16, NPU_DTYPE_S8,  NPU_DTYPE_U8,   NPU_DTYPE_S16,
                                          NPU_DTYPE_U16, NPU_DTYPE_S32, NPU_DTYPE_U32, NPU_DTYPE_BF16, NPU_DTYPE_S64};

bool is_real(uint8_t dtype);
uint32_t size_of(uint8_t dtype);
/// Smallest and largest number of an integer type of at most 32 bits.
int64_t lowest(uint8_t dtype);
int64_t highest(uint8_t dtype);

/// What 16 bits are as a floating-point number of the type.
double value_of_half(uint8_t dtype, uint16_t bits);
/// The nearest number of the type, of two as near the one with the even last digit.
uint16_t nearest_half(uint8_t dtype, double x);

/// Element i of an integer tensor, and of a floating-point one.
int64_t integer_at(uint8_t dtype, const void *tensor, size_t i);
float real_at(uint8_t dtype, const void *tensor, size_t i);
/// The nearest whole number, of two as near the even one. NaN and infinities stay.
double to_whole(double x);
/// Element i as the number that it stands for, and a number into it.
float load(const Kind &k, const void *tensor, size_t i);
void store(const Kind &k, float v, void *tensor, size_t i);
/// The whole number nearest to v plus the zero point, as far as the type reaches: results of products.
void store_steps(const Kind &k, float v, void *tensor, size_t i);

/// A type of the list, with a scale and a zero point where it wants some.
template <size_t N>
Kind random_kind(Random &r, const uint8_t (&types)[N]);
Kind random_kind_of(Random &r, uint8_t dtype);
/// Integers are any, others near 0; `whole`: small whole numbers, whose sums are exact in any order.
Bytes random_elements(Random &r, uint8_t dtype, size_t count, bool whole = false);
/// f32 numbers as bytes, and back.
Bytes bytes_of(const Values &v);
Values values_of(const Bytes &b);

/// Fails the test at the first element that differs in a bit; which NaN it is says nothing. The bytes may have gaps
/// between elements: they are compared, too.
void expect_elements(uint8_t dtype, const Bytes &want, const Bytes &got, const std::string &what);
/// The same give or take `steps` of an integer, or so many ULPs of a floating-point type, of which each is at least
/// that of `least`.
void expect_near_elements(uint8_t dtype, const Bytes &want, const Bytes &got, double steps, const std::string &what,
                          double least = 0);

template <size_t N>
Kind random_kind(Random &r, const uint8_t (&types)[N]) {
  return random_kind_of(r, types[r.range(0, static_cast<int>(N) - 1)]);
}

}  // namespace npu::test

#endif  // NPU_TESTS_COMPUTE_ELEMENTS_H
