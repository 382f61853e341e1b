// SPDX-License-Identifier: MIT
#include "tools/npuc/verify_compare.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "runtime/cpu/element.h"

namespace npu::npuc {
namespace {

using graph::Dtype;
using graph::Tensor;

/// A right result may be so many times as far away as runs with errors of rounding are. Fewer of integers of 8 bits,
/// whose errors are modelled from above: each tensor between nodes is rounded, also where the compiler fuses them.
constexpr double kTimes = 8, kTimesBytes = 4;

/// A part of integers of 8 bits that points elsewhere is of no use, however coarse its numbers are.
constexpr double kLeastCosine = 0.9;
constexpr int64_t kEnoughForCosine = 16;

/// Slices of a part that are judged by themselves.
constexpr int64_t kMostSlices = 128, kLeastInSlice = 16;

/// An element of the output.
struct Element {
  int64_t at = -1;  ///< -1: none
  double got = std::numeric_limits<double>::quiet_NaN(), wanted = got;
};

/// Sums over the elements of a group. An element is lost if it and the reference are not of one kind: finite, NaN, or
/// one of the infinities.
struct Sums {
  int64_t count = 0, finite = 0, lost = 0, differing = 0;
  int64_t unexplained = 0;  ///< lost, and none of the evaluator's runs has such a result
  int64_t undecided = 0;    ///< not of one kind in all runs with errors of rounding
  Element most, first_lost, first_unexplained;
  double largest = 0, squares = 0;
  double deviation = 0;                   // the largest of all runs
  std::vector<double> deviation_squares;  // sums, one a run
  std::vector<int64_t> flips;             // changed elements, one a run
  double size = 0, wanted_power = 0, got_power = 0, product = 0;
};

/// Both are finite, NaN or the same infinity.
bool same_kind(double a, double b) {
  return std::isfinite(a) ? std::isfinite(b) : a == b || (std::isnan(a) && std::isnan(b));
}

class Comparison {
 public:
  Comparison(const Tensor &got, const Expected &expected, const graph::OutputParts &parts)
      : got_(got),
        e_(expected),
        parts_(parts),
        integers_(cpu::is_integer(got.dtype) && (!graph::is_byte(got.dtype) || expected.decisions)) {}

  std::vector<PartResult> run() {
    std::vector<Sums> sums = sums_of(1, [](int64_t) { return 0; });
    for (size_t p = 0; p < sums.size(); ++p) {
      out_.push_back(judge(sums[p], sums[p], true));
      out_.back().name = parts_.names[p];
    }
    for (size_t axis = 0; axis < got_.shape.size(); ++axis) judge_slices(axis, sums);
    // An operand of a Concat whose elements are all left out of the output.
    std::erase_if(out_, [](const PartResult &p) { return p.count == 0; });
    return std::move(out_);
  }

 private:
  size_t part_of(int64_t i) const { return parts_.of.empty() ? 0 : parts_.of[static_cast<size_t>(i)]; }

  /// Sums of each part and each of its slices; `slice` says to which of them an element belongs.
  template <class Slice>
  std::vector<Sums> sums_of(int64_t slices, Slice slice) const {
    std::vector<Sums> sums(parts_.names.size() * static_cast<size_t>(slices));
    for (Sums &s : sums) {
      s.deviation_squares.resize(e_.rounded.size());
      s.flips.resize(e_.rounded.size());
    }
    for (int64_t i = 0; i < got_.count(); ++i)
      add(i, sums[part_of(i) * static_cast<size_t>(slices) + static_cast<size_t>(slice(i))]);
    return sums;
  }

  void add(int64_t i, Sums &s) const {
    const double got = cpu::load(got_, i), wanted = cpu::load(*e_.wanted, i), exact = cpu::load(*e_.exact, i);
    ++s.count;
    bool decided = true;
    for (size_t r = 0; r < e_.rounded.size(); ++r) {
      const double rounded = cpu::load(*e_.rounded[r], i);
      decided = decided && same_kind(rounded, cpu::load(*e_.rounded[0], i));
      s.flips[r] += rounded != exact && !(std::isnan(rounded) && std::isnan(exact));
      if (!std::isfinite(rounded) || !std::isfinite(exact)) continue;
      const double d = std::fabs(rounded - exact);
      s.deviation = std::max(s.deviation, d);
      s.deviation_squares[r] += d * d;
    }
    s.undecided += !decided;
    if (!same_kind(got, wanted)) {
      ++s.differing;
      if (++s.lost == 1) s.first_lost = {i, got, wanted};
      const bool explained = is_possible(i, got) && is_possible(i, wanted);
      if (!explained && ++s.unexplained == 1) s.first_unexplained = {i, got, wanted};
      return;
    }
    if (!std::isfinite(wanted)) return;
    const double d = std::fabs(got - wanted);
    ++s.finite;
    s.differing += d > 0;
    s.squares += d * d;
    s.size = std::max(s.size, std::fabs(wanted));
    s.wanted_power += wanted * wanted;
    s.got_power += got * got;
    s.product += got * wanted;
    if (s.most.at < 0 || d > s.largest) s.most = {i, got, wanted};
    s.largest = std::max(s.largest, d);
  }

  /// A run of the evaluator has a result of the same kind and sign.
  bool is_possible(int64_t i, double value) const {
    const auto fits = [&](const Tensor *run) {
      const double v = cpu::load(*run, i);
      return same_kind(value, v) && (std::isnan(v) || v == 0 || value == 0 || (v < 0) == (value < 0));
    };
    return fits(e_.exact) || std::ranges::any_of(e_.rounded, fits);
  }

  /// The error of rounding an output whose numbers have at most this size.
  double own_rounding(double size) const {
    constexpr double kUlps = 4;
    const auto unit = [](Dtype type) { return graph::is_half(type) ? graph::Rounding{type}.unit() : 0; };
    const double ulp = std::max({0x1p-23, e_.rounding.unit(), unit(e_.stored), unit(e_.in_file)});
    const double integers = graph::is_byte(got_.dtype) ? 1 : e_.step;  // one step
    // The smallest normal number of float32, or the distance of the smallest two of float16.
    const double smallest = e_.in_file == Dtype::F16 ? 0x1p-24 : 0x1p-126;
    return (e_.rounding.type == Dtype::I8 ? 2 * e_.rounding.unit() * size : kUlps * ulp * size) + integers + smallest;
  }

  /// `part`: the sums of the whole part, whose range its slices share.
  PartResult judge(const Sums &s, const Sums &part, bool whole) const {
    PartResult r;
    r.count = s.count;
    show(s.most.at < 0 ? s.first_lost : s.most, r);
    r.integers = integers_;
    if (s.differing > 0) r.cosine = s.product / std::sqrt(s.got_power * s.wanted_power);
    integers_ ? judge_integers(s, r) : judge_numbers(s, part, whole, r);
    return r;
  }

  static void show(const Element &element, PartResult &r) {
    r.at = element.at;
    r.got = element.got;
    r.wanted = element.wanted;
  }

  /// Indices and decisions: equal, but where rounding decides.
  static void judge_integers(const Sums &s, PartResult &r) {
    const int64_t flips = s.flips.empty() ? 0 : *std::max_element(s.flips.begin(), s.flips.end());
    r.largest = static_cast<double>(s.differing);
    r.allowed = flips ? static_cast<double>(4 * flips + 1) : 0;
    if (r.largest > r.allowed) {
      r.verdict = Verdict::Wrong;
      r.reason = "integers differ that do not depend on rounding";
    } else if (s.count && r.allowed >= 0.5 * static_cast<double>(s.count) && s.differing) {
      r.verdict = Verdict::Unclear;
      r.reason = "rounding alone decides most of these integers";
    }
  }

  void judge_numbers(const Sums &s, const Sums &part, bool whole, PartResult &r) const {
    const bool bytes = e_.rounding.type == Dtype::I8;
    const double times = bytes ? kTimesBytes : kTimes, own = own_rounding(bytes ? part.size : s.size);
    double deviation_rms = 0;
    for (double squares : s.deviation_squares)
      deviation_rms = std::max(deviation_rms, std::sqrt(squares / static_cast<double>(std::max<int64_t>(s.count, 1))));
    r.largest = s.largest;
    r.allowed = times * s.deviation + own;
    r.rms = s.finite ? std::sqrt(s.squares / static_cast<double>(s.finite)) : 0;
    r.allowed_rms = times * deviation_rms + own;
    const auto wrong = [&r](const char *why) {
      r.verdict = Verdict::Wrong;
      r.reason = why;
    };
    const auto unclear = [&r](const char *why) {
      r.verdict = Verdict::Unclear;
      r.reason = why;
    };
    // A slice has few elements: one more where rounding decides others of the part.
    const bool lost = s.unexplained > s.undecided + (part.undecided > 0);
    r.not_compared = lost ? s.lost - s.unexplained : s.lost;
    if (lost) show(s.first_unexplained, r);
    if (lost)
      wrong("NaN or infinity where a number is expected, or the other way round");
    else if (r.largest > r.allowed)
      wrong("the largest difference is more than rounding explains");
    else if (r.rms > r.allowed_rms)
      wrong("the mean difference is more than rounding explains");
    else if (bytes && whole && s.count >= kEnoughForCosine && s.wanted_power > 0 && !(r.cosine >= kLeastCosine))
      wrong("integers of 8 bits do not hold this part: its cosine is below 0.9");
    else if (s.count && s.finite == 0)
      unclear("no element is a finite number");
    else if (s.size > 0 && s.largest > 0 && r.allowed > 0.5 * s.size)
      unclear("rounding alone moves it by as much as its numbers are large");
  }

  /// Scores and coordinates may be the indices of a dimension. The worst slice of each part counts.
  void judge_slices(size_t axis, const std::vector<Sums> &parts) {
    const int64_t length = got_.shape[axis];
    if (integers_ || length < 2 || length > kMostSlices || (axis == 0 && got_.shape.size() > 1)) return;
    const int64_t stride = graph::dense_strides(got_.shape)[axis];
    const std::vector<Sums> sums = sums_of(length, [&](int64_t i) { return i / stride % length; });
    for (size_t k = 0; k < sums.size(); ++k) {
      const size_t p = k / static_cast<size_t>(length);
      if (sums[k].count < kLeastInSlice) continue;
      const PartResult slice = judge(sums[k], parts[p], false);
      if (slice.verdict != Verdict::Wrong || out_[p].verdict == Verdict::Wrong) continue;
      PartResult &r = out_[p];
      const std::string name = r.name;
      r = slice;
      r.name = name;
      r.where = "index " + std::to_string(k % static_cast<size_t>(length)) + " of dimension " + std::to_string(axis);
    }
  }

  const Tensor &got_;
  const Expected &e_;
  const graph::OutputParts &parts_;
  const bool integers_;
  std::vector<PartResult> out_;
};

}  // namespace

const char *verdict_name(Verdict verdict) {
  return verdict == Verdict::Right ? "right" : verdict == Verdict::Unclear ? "unclear" : "wrong";
}

Verdict OutputResult::verdict() const {
  Verdict worst = Verdict::Right;
  for (const PartResult &p : parts) worst = std::max(worst, p.verdict);
  return worst;
}

OutputResult compare_output(const std::string &name, const Tensor &got, const Expected &expected,
                            const graph::OutputParts &parts) {
  return {name, got, Comparison(got, expected, parts).run()};
}

}  // namespace npu::npuc
