// SPDX-License-Identifier: MIT
// Results in double precision, written apart from the back ends: padded images, im2col matrices and index arithmetic.
#ifndef NPU_TESTS_COMPUTE_ORACLE_H
#define NPU_TESTS_COMPUTE_ORACLE_H

#include "tests/unit/compute/cases.h"

namespace npu::test {

/// What a result may be: `value` give or take `error`.
struct Expected {
  std::vector<double> value, error;
};

Expected expect(const ConvCase &t);
Expected expect(const MatmulCase &t);
Expected expect(const PoolCase &t);
Expected expect(const EltwiseCase &t);
/// f(x) for UNARY, or a fused activation of a value known up to `error`.
void apply(uint8_t act, double a, double b, double &value, double &error);

/// Fails the test, naming `what`, at the first element outside.
void expect_near(const Expected &want, const Values &got, const std::string &what);

}  // namespace npu::test

#endif  // NPU_TESTS_COMPUTE_ORACLE_H
