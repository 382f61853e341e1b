// SPDX-License-Identifier: MIT
// What a random network is made from: numbers, and nothing else. Any numbers make a valid network, and fewer and
// smaller ones a smaller network, so that a finding is shrunk without knowing what the numbers mean.
#ifndef NPU_FUZZ_NETS_PLAN_H
#define NPU_FUZZ_NETS_PLAN_H

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace npu::test {
struct PartsNet;
struct QuantizedNet;
}  // namespace npu::test

namespace npu::fuzz {

/// SplitMix64: the same numbers on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next();
  /// In [0, n).
  uint32_t below(uint32_t n) { return static_cast<uint32_t>((next() >> 32) % n); }

 private:
  uint64_t state_;
};

enum class NetKind : uint8_t {
  Float,
  Quantized,   ///< operators between nodes that quantize
  Calibrated,  ///< float32 with masks and small parts, of which npuc makes integers by samples
  Reals,       ///< float32, compiled for results of 16 bits
};

struct Plan {
  NetKind kind = NetKind::Float;
  uint64_t data = 0;                         ///< seed of weights and inputs
  std::vector<uint32_t> head;                ///< operator set, sizes, inputs
  std::vector<std::vector<uint32_t>> nodes;  ///< of each: operator, operands, attributes
};

Plan random_plan(uint64_t seed, NetKind kind = NetKind::Float);

/// The numbers of a part of a plan, one after another; 0 where there are no more.
class Choices {
 public:
  explicit Choices(const std::vector<uint32_t> &numbers) : numbers_(numbers) {}

  /// What has been chosen so far: numbers that choose the same, the smallest ones.
  const std::vector<uint32_t> &chosen() const { return chosen_; }

  /// In [0, n), 0 for n = 0.
  int64_t below(int64_t n);
  /// In [least, most].
  int64_t from(int64_t least, int64_t most) { return least + below(most - least + 1); }
  /// True in `percent` of a hundred cases.
  bool chance(int64_t percent) { return below(100) >= 100 - percent; }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[below(static_cast<int64_t>(values.size()))];
  }

 private:
  const std::vector<uint32_t> &numbers_;
  std::vector<uint32_t> chosen_;
};

/// The elements of an input: between -most and most, or with `mask` 0 or `most`.
struct InputNumbers {
  double most = 1;
  bool mask = false;
};

struct Made {
  std::string model;  ///< the ONNX file
  uint64_t data = 0;  ///< seed of the inputs
  /// ONNX Runtime means the same by all operators in it (docs/develop/testing.md has the exceptions).
  bool onnxruntime = true;
  std::shared_ptr<const test::QuantizedNet> quantized;  ///< null: it is not
  bool reals = false;                                   ///< for results of 16 bits
  std::vector<InputNumbers> inputs = {};                ///< one an input, or empty
  std::shared_ptr<const test::PartsNet> parts;          ///< null: npuc makes no integers of it
};

/// With `smallest`: the smallest numbers that make the same network.
Made make_network(const Plan &plan, Plan *smallest = nullptr);

}  // namespace npu::fuzz

#endif  // NPU_FUZZ_NETS_PLAN_H
