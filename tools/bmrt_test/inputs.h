// SPDX-License-Identifier: MIT
// --input: inputs that come from files.
#ifndef BMRT_TEST_INPUTS_H
#define BMRT_TEST_INPUTS_H

#include "tools/bmrt_test/plan.h"

namespace bmrt_test {

/// Puts the files of the options into the plan's input data, in place of zeros.
npu::Status read_inputs(void *p_bmrt, const Options &options, Plan &plan);

}  // namespace bmrt_test

#endif  // BMRT_TEST_INPUTS_H
