// SPDX-License-Identifier: MIT
#include "compiler/quantize/parts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace npu::quantize {
namespace {

using graph::OutputParts;
using graph::Shape;

constexpr size_t kMostGroups = 8;
/// Slices of one group: the magnitude of each is less than so many times smaller than that of the next larger one, ...
constexpr float kGap = 4;
/// ... and less than so many times smaller than that of the largest.
constexpr float kSpread = 64;
/// Slices that are smaller than this part of the tensor's magnitude are what rounding leaves of 0.
constexpr float kNothing = 1e-6f;

float magnitude(const Range &r) { return std::max(-r.low, r.high); }

void widen(Range &r, float v) {
  if (!std::isfinite(v)) return;
  r.low = std::min(r.low, v);
  r.high = std::max(r.high, v);
}

void widen(Range &r, const Range &other) {
  r.low = std::min(r.low, other.low);
  r.high = std::max(r.high, other.high);
}

int64_t inner_of(const Shape &shape, size_t axis) {
  int64_t out = 1;
  for (size_t d = axis + 1; d < shape.size(); ++d) out *= shape[d];
  return out;
}

/// "0-3, 9": indices in rising order.
std::string indices_text(const std::vector<size_t> &indices) {
  std::string out;
  for (size_t i = 0; i < indices.size();) {
    size_t end = i + 1;
    while (end < indices.size() && indices[end] == indices[end - 1] + 1) ++end;
    if (out.size() > 40) return out + ", ...";
    out += (out.empty() ? "" : ", ") + std::to_string(indices[i]);
    if (end - i > 1) out += "-" + std::to_string(indices[end - 1]);
    i = end;
  }
  return out;
}

/// Groups of slices with similar magnitudes, the largest first.
std::vector<std::vector<size_t>> grouped(const std::vector<Range> &slices) {
  std::vector<size_t> order(slices.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return magnitude(slices[a]) > magnitude(slices[b]); });
  std::vector<std::vector<size_t>> out;
  float largest = 0, last = 0;  // magnitudes: the group's largest slice, and the slice before
  for (size_t i : order) {
    const float m = magnitude(slices[i]);
    if (m == 0 || m < magnitude(slices[order[0]]) * kNothing) break;
    if (out.empty() || (out.size() < kMostGroups && (m * kGap <= last || m * kSpread <= largest))) {
      out.emplace_back();
      largest = m;
    }
    out.back().push_back(i);
    last = m;
  }
  for (auto &group : out) std::sort(group.begin(), group.end());
  return out;
}

}  // namespace

Slices::Slices(const Shape &shape, const OutputParts &pieces)
    : shape_(shape), pieces_(pieces.of.empty() ? 0 : pieces.names.size()) {
  for (int64_t n : shape) axes_.emplace_back(static_cast<size_t>(n));
}

void Slices::add(const float *numbers, const OutputParts &pieces) {
  const int64_t count = graph::element_count(shape_);
  for (size_t d = 0; d < axes_.size(); ++d) {
    std::vector<Range> &axis = axes_[d];
    if (axis.size() < 2) continue;
    const int64_t inner = inner_of(shape_, d);
    size_t index = 0;
    for (int64_t i = 0; i < count; i += inner) {
      for (int64_t k = i; k < i + inner; ++k) widen(axis[index], numbers[k]);
      index = index + 1 == axis.size() ? 0 : index + 1;
    }
  }
  for (size_t i = 0; i < pieces.of.size(); ++i) widen(pieces_[pieces.of[i]], numbers[i]);
}

void Slices::merge(const Slices &other) {
  for (size_t d = 0; d < axes_.size(); ++d)
    for (size_t i = 0; i < axes_[d].size(); ++i) widen(axes_[d][i], other.axes_[d][i]);
  for (size_t i = 0; i < pieces_.size(); ++i) widen(pieces_[i], other.pieces_[i]);
}

Parts::Parts(const Shape &shape, const OutputParts &pieces, const Slices &slices) : shape_(shape) {
  if (!pieces.of.empty()) cut_pieces(pieces, slices.pieces());
  for (size_t d = 0; d < slices.axes().size(); ++d) cut_axis(d, slices.axes()[d]);
}

void Parts::cut_pieces(const OutputParts &pieces, const std::vector<Range> &ranges) {
  Cut cut;
  const int first = static_cast<int>(list_.size());
  for (size_t p = 0; p < ranges.size(); ++p)
    list_.push_back({"part " + (pieces.names[p].empty() ? std::to_string(p) : "'" + pieces.names[p] + "'"), ranges[p]});
  for (uint16_t p : pieces.of) cut.part.push_back(first + p);
  cuts_.push_back(std::move(cut));
}

void Parts::cut_axis(size_t axis, const std::vector<Range> &ranges) {
  const std::vector<std::vector<size_t>> groups = grouped(ranges);
  if (groups.size() < 2) return;
  Cut cut;
  cut.run = inner_of(shape_, axis);
  cut.part.assign(ranges.size(), -1);
  for (const std::vector<size_t> &group : groups) {
    Part part{
        (group.size() > 1 ? "indices " : "index ") + indices_text(group) + " of dimension " + std::to_string(axis), {}};
    for (size_t i : group) {
      cut.part[i] = static_cast<int>(list_.size());
      widen(part.range, ranges[i]);
    }
    list_.push_back(std::move(part));
  }
  cuts_.push_back(std::move(cut));
}

void Parts::add(const float *wanted, const float *got, std::vector<Difference> &out) const {
  out.resize(list_.size());
  const int64_t count = graph::element_count(shape_);
  for (const Cut &cut : cuts_) {
    size_t run = 0;
    for (int64_t i = 0; i < count; i += cut.run) {
      if (cut.part[run] >= 0) out[static_cast<size_t>(cut.part[run])].add(wanted + i, got + i, cut.run);
      run = run + 1 == cut.part.size() ? 0 : run + 1;
    }
  }
}

}  // namespace npu::quantize
