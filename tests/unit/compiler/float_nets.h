// SPDX-License-Identifier: MIT
// Networks of float32 and samples for them, made in a test.
#ifndef NPU_TEST_COMPILER_FLOAT_NETS_H
#define NPU_TEST_COMPILER_FLOAT_NETS_H

#include <functional>

#include "compiler/quantize/options.h"
#include "tests/unit/compiler/onnx_builder.h"

namespace npu::test {

/// Random numbers of [-1, 1], or what a function makes of them.
class RandomSamples : public quantize::Samples {
 public:
  using Change = std::function<void(size_t sample, std::vector<graph::Tensor> &)>;
  explicit RandomSamples(size_t count, Change change = {}) : count_(count), change_(std::move(change)) {}

  Status open(const std::vector<quantize::Input> &inputs) override;
  size_t count() const override { return count_; }
  std::string name(size_t index) const override { return std::to_string(index); }
  Status load(size_t index, std::vector<graph::Tensor> &out) const override;

 private:
  size_t count_;
  Change change_;
  std::vector<quantize::Input> inputs_;
};

/// Options to make int8 of a network by so many random samples.
quantize::Options int8_options(size_t samples = 4, RandomSamples::Change change = {});

/// A random network of operators that integers can compute, all of them. It follows from its seed.
OnnxBuilder random_float_net(uint32_t seed);

}  // namespace npu::test

#endif  // NPU_TEST_COMPILER_FLOAT_NETS_H
