// SPDX-License-Identifier: MIT
// What a run has shown, for people and as JSON (docs/reference/schemas/bmrt-test.schema.json).
#ifndef BMRT_TEST_RESULTS_H
#define BMRT_TEST_RESULTS_H

#include <memory>

#include "tools/bmrt_test/worker.h"

namespace bmrt_test {

/// All that there is at the end of a run, however far it has come.
struct Run {
  ExitCode code = kSuccess;
  std::string error;  ///< empty: none
  uint32_t clock_khz = 0;
  double load = 0;  ///< seconds
  Plan plan;
  std::vector<std::unique_ptr<Worker>> workers;
};

/// A line a network and stage with its latencies, then the sums of the times.
void print_times(const Run &run);

/// With a line end behind it.
std::string results_json(const Options &options, const Run &run);

}  // namespace bmrt_test

#endif  // BMRT_TEST_RESULTS_H
