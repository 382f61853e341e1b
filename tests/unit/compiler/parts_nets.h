// SPDX-License-Identifier: MIT
// Networks of float32 in which one scale for a whole tensor loses the numbers that count: masks, and parts with
// magnitudes of their own. A check compares their integers with float32, part by part.
#ifndef NPU_TEST_COMPILER_PARTS_NETS_H
#define NPU_TEST_COMPILER_PARTS_NETS_H

#include <functional>

#include "compiler/quantize/result.h"
#include "tests/unit/compiler/float_nets.h"

namespace npu::test {

struct PartsNet {
  /// Parts of an output along a dimension, by their lengths; one length: the output is one part.
  struct Output {
    size_t axis = 0;
    std::vector<int64_t> lengths;
  };
  OnnxBuilder b{14};
  std::vector<Output> outputs;
  bool bytes = false;             ///< the outputs are to be integers
  RandomSamples::Change change;   ///< makes masks of some inputs of the samples
  RandomSamples::Change no_mask;  ///< the same with nothing masked
  bool unseen = false;            ///< the samples that calibrate have nothing masked
};

/// `below`: makes a choice in [0, n). Equal choices make equal networks.
PartsNet make_parts_net(const std::function<int64_t(int64_t n)> &below);
PartsNet random_parts_net(uint32_t seed);

/// The ways in which masks come to scores. "negative": masked numbers are far above the others in front of a negative
/// factor; "rows": rows have factors, which become a convolution; "output": the Softmax is the network's output.
inline constexpr const char *kMaskKinds[] = {"constant", "input",   "where",    "times", "scaled", "columns",
                                             "twice",    "spelled", "negative", "rows",  "output"};
/// A score matrix with masked numbers, which Softmax and a product read. `kind`: one of kMaskKinds; `far`: what masked
/// numbers are.
PartsNet masked_attention(const std::string &kind, float far);
/// The maximum of what a condition selects, which a product reads. `far`: what it leaves out becomes that. `negated`:
/// computed as the minimum of the opposite numbers.
PartsNet masked_maximum(float far, bool negated = false);

/// Makes integers of a network and compares. Empty: each part has at least this cosine, or outputs are integers and a
/// warning names them; else what is wrong.
std::string check_parts(const PartsNet &net, double least, quantize::Result *result = nullptr);

}  // namespace npu::test

#endif  // NPU_TEST_COMPILER_PARTS_NETS_H
