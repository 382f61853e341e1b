// SPDX-License-Identifier: MIT
// What the chip's document leaves open, chosen by a seed. docs/reference/hardware.md section 8.5.
#ifndef NPU_MODEL_DICE_H
#define NPU_MODEL_DICE_H

#include <cstdint>

namespace npu::model {

/// Pseudo-random numbers, the same ones for the same seed (SplitMix64, Steele, Lea and Flood 2014). Seed 0: always 0.
class Dice {
 public:
  static constexpr uint64_t kDelays = 2048;  // cycles that something may come later: less than that

  explicit Dice(uint64_t seed) : seed_(seed), state_(seed) {}

  bool on() const { return seed_ != 0; }
  /// Less than `limit`.
  uint64_t below(uint64_t limit) {
    if (!on()) return 0;
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % limit;
  }
  uint64_t delay() { return below(kDelays); }

  /// For an archive. Another seed's numbers begin here.
  template <class A>
  void visit_state(A &a) {
    uint64_t seed = seed_, state = state_;
    a(seed, state);
    state_ = seed == seed_ ? state : seed_;
  }

 private:
  uint64_t seed_;
  uint64_t state_;
};

}  // namespace npu::model

#endif  // NPU_MODEL_DICE_H
