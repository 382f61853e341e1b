// SPDX-License-Identifier: MIT
// Values of a network's inputs for a comparison: given, of a sample for calibration, or random.
#ifndef NPU_NPUC_VERIFY_INPUTS_H
#define NPU_NPUC_VERIFY_INPUTS_H

#include <functional>
#include <span>

#include "compiler/api/reference.h"
#include "tools/npuc/verify.h"

namespace npu::npuc {

/// Called with inputs: whether the network can be computed with them.
using TryInputs = std::function<Status(const std::vector<graph::Tensor> &)>;

/// Results of a calibration: samples, which may be null, and ranges of the inputs.
struct Calibrated {
  quantize::Samples *samples = nullptr;
  std::span<const quantize::InputResult> inputs;
};

/// The shapes of the arrays of --verify-input that have as many dimensions as their inputs.
Status given_shapes(const compiler::Reference &reference, const VerifyArguments &args,
                    std::map<std::string, graph::Shape> &out);

/// Values of the inputs, in the order of the graph.
struct ChosenInputs {
  std::vector<graph::Tensor> values;
  std::string origin;
  std::vector<std::string> notes;
};

/// Makes inputs of the reference's kinds that `can` accepts. Random integers are from 0
/// to 7, or fewer where one is no index or divides by 0. Random numbers are as --verify-range says, else of the
/// calibrated range, else from -1 to 1.
Status make_inputs(const compiler::Reference &reference, const VerifyArguments &args, const Calibrated &calibrated,
                   const TryInputs &can, ChosenInputs &out);

}  // namespace npu::npuc

#endif  // NPU_NPUC_VERIFY_INPUTS_H
