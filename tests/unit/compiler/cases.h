// SPDX-License-Identifier: MIT
// Networks with inputs and the oracle's outputs, as tests/oracle/gen_nets.py writes them.
#ifndef NPU_TEST_COMPILER_CASES_H
#define NPU_TEST_COMPILER_CASES_H

#include <string>
#include <vector>

namespace npu::test {

struct Case {
  std::string name, model;
  std::vector<float> inputs, outputs;  ///< all tensors one after another
};

/// All cases of a directory, by name. Fails the test when there are none or a file cannot be read.
std::vector<Case> read_cases(const std::string &directory);
/// The tensors of the given sizes out of one run of numbers.
std::vector<std::vector<float>> cut(const std::vector<float> &all, const std::vector<size_t> &sizes);
/// |got - want| <= relative * |want| + share * (largest |want|) everywhere; says where not. The share is for numbers
/// that are small because large ones cancel each other.
std::string compare(const std::vector<float> &got, const std::vector<float> &want, double relative = 1e-3,
                    double share = 1e-5);

}  // namespace npu::test

#endif  // NPU_TEST_COMPILER_CASES_H
