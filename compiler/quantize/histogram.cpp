// SPDX-License-Identifier: MIT
#include "compiler/quantize/histogram.h"

#include <algorithm>
#include <cmath>

namespace npu::quantize {

void Histogram::widen(float most) {
  if (most == 0) return;
  int exponent;
  std::frexp(most, &exponent);  // most < 2^exponent
  const double width = std::ldexp(1, exponent) / kBins;
  if (counts_.empty()) {
    counts_.assign(2 * kBins, 0);
    width_ = width;
  }
  while (width_ < width) {
    std::vector<uint64_t> wide(counts_.size());
    for (int i = -kBins; i < kBins; ++i)
      wide[static_cast<size_t>((i >= 0 ? i / 2 : (i - 1) / 2) + kBins)] += counts_[static_cast<size_t>(i + kBins)];
    counts_ = std::move(wide);
    width_ *= 2;
  }
}

bool Histogram::add(std::span<const float> numbers) {
  if (numbers.empty()) return true;
  float low = numbers[0], high = numbers[0], sum = 0;
  for (float v : numbers) {
    low = std::min(low, v);
    high = std::max(high, v);
    sum += v * 0;  // 0, or NaN
  }
  if (sum != 0) return false;
  low_ = total_ ? std::min(low_, low) : low;
  high_ = total_ ? std::max(high_, high) : high;
  total_ += numbers.size();
  widen(std::max(std::fabs(low), std::fabs(high)));
  if (counts_.empty()) {
    zeros_ += numbers.size();
    return true;
  }
  const double per_width = 1 / width_;
  for (float v : numbers)
    if (v == 0)
      ++zeros_;
    else
      ++counts_[static_cast<size_t>(static_cast<int>(std::floor(v * per_width)) + kBins)];
  return true;
}

bool Histogram::add_finite(std::span<const float> numbers) {
  if (add(numbers)) return true;
  std::vector<float> finite;
  for (float v : numbers) {
    if (std::isnan(v)) return false;
    if (std::isfinite(v)) finite.push_back(v);
  }
  infinities_ += numbers.size() - finite.size();
  return add(finite);
}

void Histogram::merge(const Histogram &other) {
  infinities_ += other.infinities_;
  if (other.total_ == 0) return;
  low_ = total_ ? std::min(low_, other.low_) : other.low_;
  high_ = total_ ? std::max(high_, other.high_) : other.high_;
  total_ += other.total_;
  zeros_ += other.zeros_;
  if (other.empty()) return;
  Histogram wide = other;
  wide.widen(std::max(std::fabs(low_), std::fabs(high_)));
  widen(std::max(std::fabs(low_), std::fabs(high_)));
  for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += wide.counts_[i];
}

}  // namespace npu::quantize
