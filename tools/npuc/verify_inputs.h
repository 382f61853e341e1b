// SPDX-License-Identifier: MIT
// Values of a network's inputs for a comparison: given, of a sample for calibration, or random.
#ifndef NPU_NPUC_VERIFY_INPUTS_H
#define NPU_NPUC_VERIFY_INPUTS_H

#include <functional>

#include "compiler/api/reference.h"
#include "tools/npuc/verify.h"

namespace npu::npuc {

/// Called with inputs: whether the network can be computed with them.
using TryInputs = std::function<Status(const std::vector<graph::Tensor> &)>;

/// Makes inputs of the reference's kinds that `can` accepts, and says where they are from. Random integers are from 0
/// to 7, or fewer where one is no index or divides by 0; random numbers from -1 to 1 or as --verify-range says.
Status make_inputs(const compiler::Reference &reference, const VerifyArguments &args, quantize::Samples *samples,
                   const TryInputs &can, std::vector<graph::Tensor> &out, std::string &where);

}  // namespace npu::npuc

#endif  // NPU_NPUC_VERIFY_INPUTS_H
