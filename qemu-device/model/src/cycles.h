// SPDX-License-Identifier: MIT
// The chip's cycles by the board's clock, docs/reference/hardware.md section 8.4.
#ifndef NPU_MODEL_CYCLES_H
#define NPU_MODEL_CYCLES_H

#include <cstdint>

namespace npu::model {

/// Counts from 0 at `ns`; the rate may change. Times ascend.
class Cycles {
 public:
  Cycles(uint64_t ns, uint32_t khz) : ns_(ns), khz_(khz) {}

  uint32_t khz() const { return khz_; }
  void change(uint64_t ns, uint32_t khz) {
    parts_ = parts(ns);
    ns_ = ns;
    khz_ = khz;
  }
  /// Whole cycles that have passed at that time.
  uint64_t at(uint64_t ns) const { return static_cast<uint64_t>(parts(ns) / kParts); }
  /// The first nanosecond at which so many have passed, UINT64_MAX where none is.
  uint64_t ns_of(uint64_t cycle) const {
    const u128 wanted = u128{cycle} * kParts;
    if (wanted <= parts_) return ns_;
    const u128 ns = ns_ + (wanted - parts_ + khz_ - 1) / khz_;
    return ns < UINT64_MAX ? static_cast<uint64_t>(ns) : UINT64_MAX;
  }

  /// For an archive: all that changes.
  template <class A>
  void visit_state(A &a) {
    a(ns_, khz_, parts_);
  }

 private:
  __extension__ using u128 = unsigned __int128;
  static constexpr uint32_t kParts = 1000000;  // of a cycle: a nanosecond at 1 kHz is one

  u128 parts(uint64_t ns) const { return parts_ + u128{ns - ns_} * khz_; }

  uint64_t ns_;
  uint32_t khz_;
  u128 parts_ = 0;  ///< passed at ns_
};

}  // namespace npu::model

#endif  // NPU_MODEL_CYCLES_H
