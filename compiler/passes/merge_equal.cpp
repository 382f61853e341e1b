// SPDX-License-Identifier: MIT
// Files contain an expression as often as the program that wrote them. Besides the work, what is computed twice could
// be rounded in two ways: x * 3 - Floor(x * 3) is right only with one product.
#include <algorithm>
#include <cmath>
#include <concepts>
#include <map>
#include <tuple>

#include "compiler/graph/partition.h"
#include "compiler/passes/passes.h"

namespace npu::graph {
namespace {

constexpr size_t kMostBytes = 4096;  // of a constant that is compared with others

/// The signs of zeros, which compare equal.
template <class T>
std::vector<bool> signs(const T &attrs) {
  std::vector<bool> out;
  if constexpr (requires { attrs.act; }) out = {std::signbit(attrs.act.a), std::signbit(attrs.act.b)};
  if constexpr (std::same_as<T, PadAttrs>) out = {std::signbit(attrs.value)};
  return out;
}

/// Attributes without a comparison belong to operators that the CPU computes.
bool same(const Attrs &a, const Attrs &b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&b](const auto &x) {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::equality_comparable<T>) return x == std::get<T>(b) && signs(x) == signs(std::get<T>(b));
        return false;
      },
      a);
}

class Merging {
 public:
  explicit Merging(Graph &graph) : g_(graph) {
    for (size_t v = 0; v < g_.values.size(); ++v) now_.push_back(static_cast<ValueId>(v));
  }

  void run() {
    merge_constants();
    std::vector<Node> kept;
    std::map<std::tuple<Op, std::vector<ValueId>, Shape, uint64_t>, std::vector<size_t>> known;
    for (Node &n : g_.nodes) {
      for (ValueId &v : n.inputs)
        if (v != kNoValue) v = now_[at(v)];
      std::vector<size_t> &others = known[{n.op, n.inputs, g_[n.output].shape, first_of(n)}];
      const auto equal = std::ranges::find_if(others, [&](size_t i) { return gives_same(kept[i], n); });
      if (equal != others.end() && runs_on_chip(g_, n)) {
        merge(n, kept[*equal]);
      } else {
        others.push_back(kept.size());
        kept.push_back(std::move(n));
      }
    }
    g_.nodes = std::move(kept);
    for (ValueId &v : g_.outputs) v = now_[at(v)];
  }

 private:
  /// A number of the attributes that tells apart the parts that a tensor is cut into.
  static uint64_t first_of(const Node &n) {
    const auto *slice = std::get_if<SliceAttrs>(&n.attrs);
    uint64_t out = 0;
    for (size_t d = 0; slice && d < slice->start.size(); ++d)
      out = out * 1000003 + static_cast<uint64_t>(slice->start[d]);
    return out;
  }

  bool gives_same(const Node &a, const Node &b) const {
    const Value &x = g_[a.output], &y = g_[b.output];
    return same(a.attrs, b.attrs) && x.dtype == y.dtype && x.shape == y.shape && x.quant == y.quant;
  }

  void merge(const Node &n, const Node &first) {
    now_[at(n.output)] = first.output;
    Value &value = g_[first.output];
    value.inner = value.inner || g_[n.output].inner;  // the operator may need numbers that 16 bits do not hold
    value.exact = value.exact || g_[n.output].exact;
    if (n.source == first.source) return;
    graph::Source &source = g_.sources[static_cast<size_t>(n.source)];
    source.fate = "in " + g_.sources[static_cast<size_t>(first.source)].name;
    source.merged_into = first.source;
  }

  void merge_constants() {
    std::map<std::tuple<Dtype, Shape, bool, bool, std::vector<uint8_t>>, ValueId> known;
    for (const Node &n : g_.nodes) {
      for (ValueId v : n.inputs) {
        if (v == kNoValue || !g_.is_constant(v) || g_[v].quantized || g_[v].quant.scale != 0) continue;
        const Tensor &t = *g_[v].constant;
        if (t.data.size() > kMostBytes) continue;
        const auto key = std::make_tuple(t.dtype, t.shape, g_[v].exact, g_[v].single, t.data);
        now_[at(v)] = known.try_emplace(key, v).first->second;
      }
    }
  }

  Graph &g_;
  std::vector<ValueId> now_;
};

}  // namespace

void merge_equal(Graph &graph) { Merging(graph).run(); }

}  // namespace npu::graph
