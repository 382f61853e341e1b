// SPDX-License-Identifier: MIT
// How long launches took.
#ifndef BMRT_TEST_LATENCY_H
#define BMRT_TEST_LATENCY_H

#include <cstdint>
#include <map>
#include <string>

namespace bmrt_test {

/// Any number of times in little memory: each is kept to 1/2048 of itself, the shortest, the longest and the sum
/// exactly.
class Latencies {
 public:
  void add(uint64_t ns);
  void add(const Latencies &other);

  uint64_t count() const { return count_; }
  uint64_t min() const { return count_ ? min_ : 0; }
  uint64_t max() const { return max_; }
  double mean() const { return count_ ? static_cast<double>(sum_) / static_cast<double>(count_) : 0; }
  /// The shortest time that at least `percent` of all launches did not exceed (nearest rank); 0 without launches.
  uint64_t percentile(unsigned percent) const;

 private:
  std::map<uint64_t, uint64_t> counts_;  ///< by the longest time of a class
  uint64_t count_ = 0, min_ = UINT64_MAX, max_ = 0, sum_ = 0;
};

/// "latency of 3 launches: p50 150 us, p90 160 us, p99 160 us, max 160 us; 6535.9 launches/s"
std::string latency_text(const Latencies &latencies, double throughput);

}  // namespace bmrt_test

#endif  // BMRT_TEST_LATENCY_H
