// SPDX-License-Identifier: MIT
#include "tools/bmrt_test/latency.h"

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cstdio>

namespace bmrt_test {

namespace {

constexpr int kBits = 12;  // of a time that are kept

/// The longest time that counts as the same.
uint64_t class_of(uint64_t ns) {
  const int lost = std::max(static_cast<int>(std::bit_width(ns)) - kBits, 0);
  return ns | ((uint64_t{1} << lost) - 1);
}

}  // namespace

void Latencies::add(uint64_t ns) {
  ++counts_[class_of(ns)];
  ++count_;
  min_ = std::min(min_, ns);
  max_ = std::max(max_, ns);
  sum_ += ns;
}

void Latencies::add(const Latencies &other) {
  for (const auto &[ns, count] : other.counts_) counts_[ns] += count;
  count_ += other.count_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
}

uint64_t Latencies::percentile(unsigned percent) const {
  const uint64_t rank = std::max<uint64_t>((count_ / 100) * percent + ((count_ % 100) * percent + 99) / 100, 1);
  uint64_t passed = 0;
  for (const auto &[ns, count] : counts_) {
    passed += count;
    if (passed >= rank) return std::min(ns, max_);
  }
  return max_;
}

std::string latency_text(const Latencies &l, double throughput) {
  const auto us = [&](uint64_t ns) { return static_cast<double>(ns) / 1e3; };
  char text[256];
  std::snprintf(text, sizeof text,
                "latency of %" PRIu64 " launch%s: p50 %.0f us, p90 %.0f us, p99 %.0f us, max %.0f us; %.1f launches/s",
                l.count(), l.count() == 1 ? "" : "es", us(l.percentile(50)), us(l.percentile(90)), us(l.percentile(99)),
                us(l.max()), throughput);
  return text;
}

}  // namespace bmrt_test
