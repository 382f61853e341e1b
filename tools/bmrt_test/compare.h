// SPDX-License-Identifier: MIT
// Comparing an output with its reference.
#ifndef BMRT_TEST_COMPARE_H
#define BMRT_TEST_COMPARE_H

#include <cstdint>
#include <string>

#include "bmruntime_interface.h"

namespace bmrt_test {

struct Tolerance {
  double accuracy_f = 1e-2;
  long long accuracy_i = 0;
  long long ulp = -1;       ///< floating point, instead of accuracy_f; negative: accuracy_f counts
  double accuracy_abs = 0;  ///< floating point, besides accuracy_f; negative: kTinyLimit for tiny numbers
};

/// Rounding errors of numbers near 1, in float32 and in types of 16 bits. They are the limit for a tensor all of whose
/// expected numbers are smaller than kTiny times that: results of cancellation, for which a share of the largest
/// number means nothing.
inline constexpr double kTinyLimit = 1e-7, kTinyLimit16 = 1e-5, kTiny = 10;

/// An element that differs, or the one that differs most.
struct Element {
  uint64_t index = 0;
  double got = 0, expected = 0;
  double difference = 0;  ///< infinite if just one is NaN or they are different infinities
};

struct Comparison {
  bool equal = true;
  uint64_t mismatches = 0, differing = 0;  ///< beyond the limit; at all
  double limit = 0;                        ///< what a difference may be
  bool tiny = false;                       ///< the limit is that of tensors of tiny numbers
  const char *unit = "";                   ///< of differences: " LSB", " ULP", or nothing for |got - expected|
  Element first;                           ///< first mismatch
  Element first_differing;
  Element largest;  ///< largest difference, mismatch or not
  /// Of all numbers that both have, as directions; NaN: one of them has no direction, or something is not finite.
  double cosine = 1;
};

/*
 * Floating point: got and expected agree if |got - expected| <= accuracy_f * max |expected|, the maximum taken over the
 * finite elements of the tensor: what is small because large numbers cancel each other has their errors. They also
 * agree if |got - expected| <= accuracy_abs. Below the type's smallest normal number, which a device may flush to zero,
 * all agree. NaN agrees with NaN, an infinity with itself. With `ulp`: if as many steps of the type lie between them at
 * most; 0 and -0 are the same, NaN and infinities as before. Integers: if |got - expected| <= accuracy_i, steps of what
 * they stand for (LSB). `zero_point` is the integer that stands for 0, for the cosine.
 */
Comparison compare(bm_data_type_t dtype, const void *got, const void *expected, uint64_t count,
                   const Tolerance &tolerance, int zero_point = 0);

/// "3 of 40 elements differ, at most by 1 LSB, first element 17 (index [0,1,3]): got 5, expected 6; cosine 0.999871";
/// "all 40 elements are equal"
std::string summary(const Comparison &c, const bm_shape_t &shape);

/// "element 17 (index [0,1,3]): got 1.5, expected 1.25, difference 0.25 is above 0.0125; ..."
std::string describe(const Comparison &c, const bm_shape_t &shape);

}  // namespace bmrt_test

#endif  // BMRT_TEST_COMPARE_H
