// SPDX-License-Identifier: MIT
// One thread's work: run a case, time it, compare it.
#ifndef BMRT_TEST_WORKER_H
#define BMRT_TEST_WORKER_H

#include <cstdint>
#include <string>
#include <vector>

#include "tools/bmrt_test/compare.h"
#include "tools/bmrt_test/latency.h"
#include "tools/bmrt_test/plan.h"

namespace bmrt_test {

/// Seconds, summed over what a worker did.
struct Times {
  double load_input = 0, calculate = 0, get_output = 0, compare = 0;
  void add(const Times &other) {
    load_input += other.load_input;
    calculate += other.calculate;
    get_output += other.get_output;
    compare += other.compare;
  }
};

/// What a worker has seen of a case.
struct CaseResult {
  Latencies latencies;              ///< of a launch: from before its call until all of its loop have finished
  double launching = 0;             ///< seconds in launches and waiting for them
  uint64_t cycles = 0;              ///< modelled, of the last launch; 0: not known
  std::vector<Comparison> outputs;  ///< of the last loop; empty: nothing was compared

  /// Launches a second.
  double throughput() const { return launching > 0 ? static_cast<double>(latencies.count()) / launching : 0; }
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
  explicit Worker(const Session &session) : session_(session), results_(session.plan.cases.size()) {}
  /// All cases, as often as the options say. Returns an ExitCode and stops at the first failure.
  int run();
  const Times &times() const { return times_; }
  /// One a case of the plan.
  const std::vector<CaseResult> &results() const { return results_; }
  /// Why it stopped.
  const std::string &error() const { return error_; }
  /// Outputs of the last loop, case after case.
  const std::vector<uint8_t> &outputs() const { return outputs_; }

 private:
  class Tensors;
  int run_case(const Case &c, CaseResult &result);
  int launch(const Case &c, Tensors &tensors, CaseResult &result);
  int check_outputs(const Case &c, size_t first_byte, CaseResult &result);
  int fail(int code, const Case &c, const std::string &why);

  const Session &session_;
  Times times_;
  std::vector<uint8_t> outputs_;
  std::vector<CaseResult> results_;
  std::string error_;
};

}  // namespace bmrt_test

#endif  // BMRT_TEST_WORKER_H
