// SPDX-License-Identifier: MIT
// One thread's work: run a case, time it, compare it.
#ifndef BMRT_TEST_WORKER_H
#define BMRT_TEST_WORKER_H

#include <cstdint>
#include <string>
#include <vector>

#include "tools/bmrt_test/plan.h"

namespace bmrt_test {

/// Seconds, summed over what a worker did.
struct Times {
  double load_input = 0, calculate = 0, get_output = 0, compare = 0;
};

/// What the workers share.
struct Session {
  const Options &options;
  const Plan &plan;
  bm_handle_t handle;
  void *p_bmrt;
  uint32_t clock_khz;
};

class Worker {
 public:
  explicit Worker(const Session &session) : session_(session) {}
  /// All cases, as often as the options say. Returns an ExitCode and stops at the first failure.
  int run();
  const Times &times() const { return times_; }
  /// Outputs of the last loop, case after case.
  const std::vector<uint8_t> &outputs() const { return outputs_; }

 private:
  class Tensors;
  int run_case(const Case &c);
  int launch(const Case &c, Tensors &tensors);
  int check_outputs(const Case &c, size_t first_byte);

  const Session &session_;
  Times times_;
  std::vector<uint8_t> outputs_;
};

}  // namespace bmrt_test

#endif  // BMRT_TEST_WORKER_H
