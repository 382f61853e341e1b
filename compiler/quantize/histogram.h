// SPDX-License-Identifier: MIT
// How often numbers of which size occur. What a histogram holds follows from the numbers alone, not from the order in
// which they came or in which histograms were merged.
#ifndef NPU_QUANTIZE_HISTOGRAM_H
#define NPU_QUANTIZE_HISTOGRAM_H

#include <cstdint>
#include <span>
#include <vector>

namespace npu::quantize {

class Histogram {
 public:
  /// Bins on each side of 0. Their width is the least power of 2 by which all numbers have one: the larger half of the
  /// bins on the side of the number farthest from 0 is never empty as a whole.
  static constexpr int kBins = 4096;

  /// False: one of the numbers is not finite, and nothing has been added.
  bool add(std::span<const float> numbers);
  /// The same, where infinities are counted and left out. False: one of the numbers is NaN.
  bool add_finite(std::span<const float> numbers);
  void merge(const Histogram &other);

  uint64_t total() const { return total_; }
  /// Numbers that are exactly 0; they are in no bin.
  uint64_t zeros() const { return zeros_; }
  /// Infinite numbers that add_finite() has left out; they are not in the total.
  uint64_t infinities() const { return infinities_; }
  float low() const { return low_; }
  float high() const { return high_; }
  bool empty() const { return counts_.empty(); }  ///< there were no numbers but 0

  /// Bin i, from -kBins to kBins - 1, has the numbers from edge(i) to edge(i + 1).
  uint64_t operator[](int i) const { return counts_.empty() ? 0 : counts_[static_cast<size_t>(i + kBins)]; }
  double edge(int i) const { return i * width_; }
  double width() const { return width_; }

 private:
  /// Makes bins wide enough for a magnitude.
  void widen(float most);

  std::vector<uint64_t> counts_;
  double width_ = 0;
  uint64_t total_ = 0, zeros_ = 0, infinities_ = 0;
  float low_ = 0, high_ = 0;
};

}  // namespace npu::quantize

#endif  // NPU_QUANTIZE_HISTOGRAM_H
