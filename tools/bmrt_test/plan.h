// SPDX-License-Identifier: MIT
// What is to be run: the chosen networks and stages of a loaded model, and their parts of the reference data.
#ifndef BMRT_TEST_PLAN_H
#define BMRT_TEST_PLAN_H

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"
#include "tools/bmrt_test/options.h"

namespace bmrt_test {

struct TensorPlan {
  std::string name;
  bm_data_type_t dtype;
  bm_shape_t shape;
  uint64_t bytes;
  uint64_t offset;  ///< in the reference data, in the tensors' own types
  int zero_point;   ///< of integers that stand for other numbers, else 0
  /// Of an input: the file that it comes from; empty: zeros.
  std::string source = {};
};

/// One stage of one network.
struct Case {
  int network, stage;
  std::string name;
  std::vector<TensorPlan> inputs, outputs;
};

struct Plan {
  std::vector<Case> cases;
  std::vector<uint8_t> input_data;   ///< reference inputs, or zeros
  std::vector<uint8_t> output_data;  ///< reference outputs; empty: nothing to compare with
};

/// Fills `plan`; returns an empty string, or what is wrong with options or reference files.
npu::Status make_plan(void *p_bmrt, const Options &options, Plan &plan);

}  // namespace bmrt_test

#endif  // BMRT_TEST_PLAN_H
