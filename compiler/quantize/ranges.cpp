// SPDX-License-Identifier: MIT
#include "compiler/quantize/ranges.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace npu::quantize {
namespace {

constexpr int kBins = Histogram::kBins;
constexpr int kCandidates = 256;  // thresholds that are tried
constexpr int kJoined = 2;        // bins that are one for the divergence, which has 2048

Range whole(const Histogram &h) { return {std::min(h.low(), 0.f), std::max(h.high(), 0.f)}; }

Range cut(const Histogram &h, double low, double high) {
  const Range all = whole(h);
  return {static_cast<float>(std::max<double>(all.low, low)), static_cast<float>(std::min<double>(all.high, high))};
}

/// The share of numbers that are left out is cut off at both ends, half of it at each; where numbers have one sign, at
/// the end far from 0. Where nothing but 0 is left, it is all of them.
Range percentile(const Histogram &h, double percent) {
  const double out = static_cast<double>(h.total()) * (1 - percent / 100);
  const bool both = h.low() < 0 && h.high() > 0;
  const double each = both ? out / 2 : out;
  double low = 0, high = 0;
  double below = 0;
  for (int i = -kBins; i < 0 && low == 0; ++i) {
    below += static_cast<double>(h[i]);
    if (below > each) low = h.edge(i);
  }
  double above = 0;
  for (int i = kBins; i-- > 0 && high == 0;) {
    above += static_cast<double>(h[i]);
    if (above > each) high = h.edge(i + 1);
  }
  return low == 0 && high == 0 ? whole(h) : cut(h, low, high);
}

/// Divergence of P, which has what is beyond the threshold in its last bin, from Q, in which bins of one step have the
/// same number, except for those in which nothing is (as in "8-bit inference with TensorRT", 2017).
double divergence(const std::vector<double> &bins, size_t threshold, size_t levels, double beyond) {
  double total = beyond, merged = 0;
  for (size_t i = 0; i < threshold; ++i) merged += bins[i];
  if (merged == 0) return std::numeric_limits<double>::infinity();
  total += merged;
  // The last bin may have nothing but what is beyond: in Q as if it had a single number.
  if (beyond > 0 && bins[threshold - 1] == 0) ++merged;
  double sum = 0;
  for (size_t level = 0; level < levels; ++level) {
    const size_t from = level * threshold / levels, to = (level + 1) * threshold / levels;
    double count = 0;
    size_t filled = 0;
    for (size_t i = from; i < to; ++i) {
      count += bins[i];
      filled += bins[i] > 0;
    }
    for (size_t i = from; i < to; ++i) {
      const double p = (bins[i] + (i + 1 == threshold ? beyond : 0)) / total;
      if (p == 0) continue;
      const double q = (bins[i] > 0 ? count / static_cast<double>(filled) : 1) / merged;
      sum += p * std::log(p / q);
    }
  }
  return sum;
}

/// The magnitude that leaves least divergence. Numbers that are 0 stay 0 whatever it is, and do not count.
Range kl(const Histogram &h) {
  std::vector<double> bins(kBins / kJoined);
  size_t used = 0;
  for (int i = 0; i < kBins; ++i) {
    const auto k = static_cast<size_t>(i / kJoined);
    bins[k] += static_cast<double>(h[i] + h[-1 - i]);
    if (bins[k] > 0) used = k + 1;
  }
  const size_t levels = h.low() < 0 && h.high() > 0 ? 128 : 256, step = std::max<size_t>(used / kCandidates, 1);
  size_t best = used;
  double least = divergence(bins, used, levels, 0), beyond = 0;
  for (size_t t = used; t > levels + step;) {
    for (size_t k = 0; k < step; ++k) beyond += bins[--t];
    const double d = divergence(bins, t, levels, beyond);
    if (d < least) {
      least = d;
      best = t;
    }
  }
  const double most = h.edge(static_cast<int>(best) * kJoined);
  return cut(h, -most, most);
}

/// To the nearest integer, for numbers that int has.
double rounded(double v) { return static_cast<int>(v < 0 ? v - 0.5 : v + 0.5); }

/// The sum of squared errors when 256 integers stand for that range, of the bins' middles.
double square_error(const Histogram &h, const Range &r) {
  const double scale = (static_cast<double>(r.high) - r.low) / 255;
  if (scale <= 0) return std::numeric_limits<double>::infinity();
  const double first = -rounded(-r.low / scale), per_scale = 1 / scale;
  double sum = 0;
  for (int i = -kBins; i < kBins; ++i) {
    if (h[i] == 0) continue;
    const double v = (h.edge(i) + h.width() / 2) * per_scale;
    const double e = v - rounded(std::clamp(v, first, first + 255));
    sum += static_cast<double>(h[i]) * e * e;
  }
  return sum * scale * scale;
}

/// Moves one end of a range to the part of the whole by which the error is least, of `steps` parts from `from` on.
/// Returns that part.
double move_end(const Histogram &h, float Range::*end, double from, double step, int steps, Range &best,
                double &least) {
  const Range all = whole(h);
  double found = 1;
  for (int k = 0; k < steps; ++k) {
    const double part = from + k * step;
    if (part <= 0 || part > 1) continue;
    Range r = best;
    r.*end = static_cast<float>(all.*end * part);
    const double e = square_error(h, r);
    if (e > least) continue;
    least = e;
    best = r;
    found = part;
  }
  return found;
}

/// Both ends come nearer as far as the error falls, one after the other, twice; first in coarse steps, then in fine
/// ones.
Range mse(const Histogram &h) {
  constexpr int kCoarse = 24, kFine = 8;
  constexpr double kStep = 1. / kCoarse / kFine;
  Range best = whole(h);
  double least = square_error(h, best);
  for (int round = 0; round < 2; ++round)
    for (float Range::*end : {&Range::high, &Range::low}) {
      if (best.*end == 0) continue;
      const double part = move_end(h, end, 1. / kCoarse, 1. / kCoarse, kCoarse, best, least);
      move_end(h, end, part - (kFine - 1) * kStep, kStep, 2 * kFine - 1, best, least);
    }
  return best;
}

}  // namespace

Range find_range(const Histogram &h, const RangeRule &rule) {
  if (h.empty()) return whole(h);
  switch (rule.method) {
    case Method::Percentile:
      return percentile(h, rule.percentile);
    case Method::Kl:
      return kl(h);
    case Method::Mse:
      return mse(h);
    default:
      return whole(h);
  }
}

}  // namespace npu::quantize
