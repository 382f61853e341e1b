// SPDX-License-Identifier: MIT
// Histograms, and the ranges that follow from them, against computations on the numbers themselves.
#include "compiler/quantize/ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace npu::test {
namespace {

using quantize::Histogram;
using quantize::Method;
using quantize::Range;

/// Numbers of one of several distributions.
std::vector<float> numbers(int kind, uint32_t seed, size_t count = 20000) {
  std::mt19937 random(seed);
  const auto uniform = [&] { return static_cast<double>(random()) / 4294967296.0 + 1e-10; };
  std::vector<float> out;
  for (size_t i = 0; i < count; ++i) {
    const double normal = std::sqrt(-2 * std::log(uniform())) * std::cos(6.2831853 * uniform());
    const double laplace = (random() % 2 ? 1 : -1) * std::log(uniform());
    const double v = kind == 0   ? normal
                     : kind == 1 ? std::max(0.0, normal)        // behind a Relu
                     : kind == 2 ? laplace * laplace * laplace  // long tails
                     : kind == 3 ? -std::fabs(laplace)
                     : kind == 4 ? std::clamp(normal * 4, 0.0, 6.0)
                                 : normal * 0.01 + (random() % 1000 == 0 ? 30 : 0);  // few far away
    out.push_back(static_cast<float>(v * 3.7));
  }
  return out;
}
constexpr int kKinds = 6;

Histogram histogram(const std::vector<float> &v) {
  Histogram h;
  EXPECT_TRUE(h.add(v));
  return h;
}

bool same(const Histogram &a, const Histogram &b) {
  bool equal = a.total() == b.total() && a.zeros() == b.zeros() && a.low() == b.low() && a.high() == b.high() &&
               a.width() == b.width();
  for (int i = -Histogram::kBins; i < Histogram::kBins; ++i) equal = equal && a[i] == b[i];
  return equal;
}

TEST(Histograms, CountWhatIsInTheirBins) {
  for (int kind = 0; kind < kKinds; ++kind) {
    const std::vector<float> v = numbers(kind, 1);
    const Histogram h = histogram(v);
    EXPECT_EQ(h.low(), *std::min_element(v.begin(), v.end()));
    EXPECT_EQ(h.high(), *std::max_element(v.begin(), v.end()));
    EXPECT_EQ(h.zeros(), static_cast<uint64_t>(std::count(v.begin(), v.end(), 0.f)));
    std::vector<float> sorted = v;
    std::sort(sorted.begin(), sorted.end());
    uint64_t all = h.zeros();
    for (int i = -Histogram::kBins; i < Histogram::kBins; ++i) {
      const auto first = std::lower_bound(sorted.begin(), sorted.end(), static_cast<float>(h.edge(i)));
      const auto last = std::lower_bound(sorted.begin(), sorted.end(), static_cast<float>(h.edge(i + 1)));
      ASSERT_EQ(h[i], static_cast<uint64_t>(last - first - std::count(first, last, 0.f))) << kind << " " << i;
      all += h[i];
    }
    EXPECT_EQ(all, v.size());
    // As fine as it can be.
    EXPECT_GT(std::max(-h.low(), h.high()), h.edge(Histogram::kBins / 2 - 1));
  }
}

TEST(Histograms, DoNotDependOnOrder) {
  for (int kind = 0; kind < kKinds; ++kind) {
    std::vector<float> v = numbers(kind, 2);
    const Histogram whole = histogram(v);
    std::sort(v.begin(), v.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); });
    Histogram pieces, others;
    for (size_t from = 0; from < v.size(); from += 100) {
      Histogram &to = from / 100 % 3 ? pieces : others;
      ASSERT_TRUE(to.add(std::span(v).subspan(from, 100)));
    }
    Histogram merged;
    merged.merge(others);
    merged.merge(pieces);
    EXPECT_TRUE(same(merged, whole)) << kind;
    pieces.merge(others);
    EXPECT_TRUE(same(pieces, whole)) << kind;
  }
}

TEST(Histograms, RefuseWhatIsNotFinite) {
  for (float bad : {INFINITY, -INFINITY, NAN}) {
    Histogram h;
    EXPECT_FALSE(h.add(std::vector<float>{1, bad, 2}));
    EXPECT_EQ(h.total(), 0u);
  }
}

TEST(Histograms, OfZerosAlone) {
  Histogram h = histogram(std::vector<float>(10, 0.f));
  EXPECT_TRUE(h.empty());
  EXPECT_EQ(h.zeros(), 10u);
  for (Method m : {Method::MinMax, Method::Percentile, Method::Kl, Method::Mse})
    EXPECT_EQ(find_range(h, {m}), (Range{0, 0}));
  h.merge(histogram({3, -1}));
  EXPECT_TRUE(same(h, histogram({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, -1})));
}

TEST(Ranges, MinMaxHasAllAndZero) {
  for (int kind = 0; kind < kKinds; ++kind) {
    const std::vector<float> v = numbers(kind, 3);
    const Range r = find_range(histogram(v), {Method::MinMax});
    EXPECT_EQ(r.low, std::min(0.f, *std::min_element(v.begin(), v.end())));
    EXPECT_EQ(r.high, std::max(0.f, *std::max_element(v.begin(), v.end())));
  }
}

/// The share of numbers that are left out by an end of a range, without counting those within a bin of it.
struct Outside {
  double least = 0, most = 0;
};
Outside outside(const std::vector<float> &v, double sign, double end, double bin) {
  Outside out;
  for (float x : v) {
    out.least += sign * x > sign * end + bin;
    out.most += sign * x > sign * end - bin;
  }
  return {out.least / static_cast<double>(v.size()), out.most / static_cast<double>(v.size())};
}

TEST(Ranges, PercentilesLeaveOutTheirShare) {
  for (int kind = 0; kind < kKinds; ++kind)
    for (double percent : {90., 99., 99.9}) {
      const std::vector<float> v = numbers(kind, 4);
      const Histogram h = histogram(v);
      const Range r = find_range(h, {Method::Percentile, percent});
      const bool both = h.low() < 0 && h.high() > 0;
      const double share = (1 - percent / 100) / (both ? 2 : 1);
      if (h.high() > 0) {
        const Outside high = outside(v, 1, r.high, h.width());
        EXPECT_LE(high.least, share) << kind << " " << percent;
        EXPECT_GE(high.most, share) << kind << " " << percent;
      }
      if (h.low() < 0) {
        const Outside low = outside(v, -1, r.low, h.width());
        EXPECT_LE(low.least, share) << kind << " " << percent;
        EXPECT_GE(low.most, share) << kind << " " << percent;
      }
    }
}

TEST(Ranges, APercentileOfAllIsMinMax) {
  for (int kind = 0; kind < kKinds; ++kind) {
    const Histogram h = histogram(numbers(kind, 5));
    EXPECT_EQ(find_range(h, {Method::Percentile, 100}), find_range(h, {Method::MinMax}));
  }
}

TEST(Ranges, APercentileThatLeavesNothingButZeroIsMinMax) {
  std::vector<float> v(20000, 0.f);
  v[7] = 5;
  EXPECT_EQ(find_range(histogram(v), {Method::Percentile, 99.99}), (Range{0, 5}));
  v[8] = -3;
  EXPECT_EQ(find_range(histogram(v), {Method::Percentile, 99.9}), (Range{-3, 5}));
}

/// The mean square of what 256 steps change in numbers.
double mean_square(const std::vector<float> &v, double low, double high) {
  const double scale = (high - low) / 255, zero = std::nearbyint(-low / scale);
  double sum = 0;
  for (float x : v) {
    const double q = std::clamp(std::nearbyint(x / scale) + zero, 0., 255.);
    sum += (x - (q - zero) * scale) * (x - (q - zero) * scale);
  }
  return sum / static_cast<double>(v.size());
}

TEST(Ranges, MseIsNearTheLeastThatThereIs) {
  for (int kind = 0; kind < kKinds; ++kind) {
    const std::vector<float> v = numbers(kind, 6, 1500);
    const Range all = find_range(histogram(v), {Method::MinMax}), r = find_range(histogram(v), {Method::Mse});
    double least = INFINITY;
    for (int i = 1; i <= 25; ++i)
      for (int k = 0; k <= (all.low < 0 && all.high > 0 ? 25 : 0); ++k) {
        const double part = i / 25., other = all.low < 0 && all.high > 0 ? k / 25. : part;
        if (part * all.high - other * all.low > 0)
          least = std::min(least, mean_square(v, other * all.low, part * all.high));
      }
    EXPECT_LE(mean_square(v, r.low, r.high), least * 1.1) << kind;
  }
}

/// As the paper has it, with arrays P and Q: the divergence that a threshold of that many bins leaves.
double reference_divergence(const std::vector<double> &bins, size_t threshold, size_t levels) {
  std::vector<double> p(bins.begin(), bins.begin() + static_cast<std::ptrdiff_t>(threshold)), q(threshold, 0.);
  const std::vector<double> inside = p;
  for (size_t i = threshold; i < bins.size(); ++i) p.back() += bins[i];
  for (size_t level = 0; level < levels; ++level) {
    const size_t from = level * threshold / levels, to = (level + 1) * threshold / levels;
    double sum = 0, filled = 0;
    for (size_t i = from; i < to; ++i) {
      sum += inside[i];
      filled += inside[i] != 0;
    }
    for (size_t i = from; i < to; ++i)
      if (inside[i] != 0) q[i] = sum / filled;
  }
  if (inside.back() == 0 && p.back() != 0) q.back() = 1;
  double p_sum = 0, q_sum = 0, divergence = 0;
  for (size_t i = 0; i < threshold; ++i) {
    p_sum += p[i];
    q_sum += q[i];
  }
  for (size_t i = 0; i < threshold; ++i)
    if (p[i] != 0) divergence += p[i] / p_sum * std::log(p[i] / p_sum / (q[i] / q_sum));
  return divergence;
}

TEST(Ranges, KlIsNearTheLeastDivergence) {
  for (int kind = 0; kind < kKinds; ++kind) {
    const Histogram h = histogram(numbers(kind, 7));
    const Range r = find_range(h, {Method::Kl});
    std::vector<double> bins;
    for (int i = 0; i < Histogram::kBins; i += 2)
      bins.push_back(static_cast<double>(h[i] + h[i + 1] + h[-1 - i] + h[-2 - i]));
    while (bins.back() == 0) bins.pop_back();
    const size_t levels = h.low() < 0 && h.high() > 0 ? 128 : 256;
    const double end = std::max<double>(-r.low, r.high);
    const auto found = std::min(static_cast<size_t>(std::ceil(end / h.width() / 2)), bins.size());
    double least = INFINITY;
    for (size_t t = levels + 1; t <= bins.size(); t += 7)
      least = std::min(least, reference_divergence(bins, t, levels));
    EXPECT_GE(least, 0) << "no divergence is negative";
    EXPECT_LE(reference_divergence(bins, found, levels), least * 1.1 + 1e-6) << kind;
  }
}

TEST(Ranges, AreWithinWhatThereWas) {
  for (int kind = 0; kind < kKinds; ++kind) {
    const Histogram h = histogram(numbers(kind, 8));
    const Range all = find_range(h, {Method::MinMax});
    for (Method m : {Method::Percentile, Method::Kl, Method::Mse}) {
      const Range r = find_range(h, {m});
      EXPECT_LE(all.low, r.low);
      EXPECT_LE(r.low, 0);
      EXPECT_LE(0, r.high);
      EXPECT_LE(r.high, all.high);
      EXPECT_LT(r.low, r.high);
    }
  }
}

}  // namespace
}  // namespace npu::test
