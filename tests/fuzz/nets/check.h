// SPDX-License-Identifier: MIT
// One network through the compiler and on the chip model, against the evaluator and ONNX Runtime.
#ifndef NPU_FUZZ_NETS_CHECK_H
#define NPU_FUZZ_NETS_CHECK_H

#include "tests/fuzz/nets/onnxruntime.h"
#include "tests/fuzz/nets/plan.h"

namespace npu::fuzz {

/// What is wrong with a network. Its kind is what shrinking keeps.
struct Finding {
  std::string kind;  ///< empty: nothing is wrong
  std::string text;
};

struct Counts {
  int64_t networks = 0, nodes = 0, programs = 0;
  int64_t runs = 0;      ///< programs that were run: a network has one for each local memory, often the same one
  int64_t compared = 0;  ///< networks, with ONNX Runtime
};

/// `runtime` may be null. A network that the compiler refuses is a finding: the generator makes only what it takes.
Finding check_network(const Made &made, const OnnxRuntime *runtime, Counts &counts);

/// The inputs with which a network is checked, of the types that its file declares.
Status make_declared_inputs(const Made &made, std::vector<cpu::Tensor> &out);

}  // namespace npu::fuzz

#endif  // NPU_FUZZ_NETS_CHECK_H
