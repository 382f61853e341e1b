// SPDX-License-Identifier: MIT
#ifndef BMRT_TEST_RUNNER_H
#define BMRT_TEST_RUNNER_H

#include "tools/bmrt_test/options.h"

namespace bmrt_test {

/// Opens the device, loads the model, runs everything. Returns an ExitCode; what went wrong is on standard error.
int run(const Options &options);

}  // namespace bmrt_test

#endif  // BMRT_TEST_RUNNER_H
