// SPDX-License-Identifier: MIT
#include "compiler/passes/passes.h"

namespace npu::graph {
namespace {

/// The number that stands for zero in the input of a window.
double zero_of(const Node &n) {
  if (const auto *conv = std::get_if<ConvAttrs>(&n.attrs)) return conv->quant.on ? conv->quant.x_zero : 0;
  return std::get<PoolAttrs>(n.attrs).in.zero;
}

bool pads_pictures_with_zero(const PadAttrs &pad, double zero, size_t rank) {
  if (pad.value != zero || (rank != 3 && rank != 4)) return false;
  return !pad.begin[0] && !pad.begin[1] && !pad.end[0] && !pad.end[1];
}

Window &window_of(Node &n) {
  return n.op == Op::Conv ? std::get<ConvAttrs>(n.attrs).window : std::get<PoolAttrs>(n.attrs).window;
}

/// Whether a pooling can count zeros that stand around its input: an average without padding that does not count, and
/// no window of which sees zeros alone.
bool counts_zeros(const PoolAttrs &pool, const PadAttrs &pad, size_t rank) {
  const Window &w = pool.window;
  bool padded = false;
  for (size_t i = 2; i < rank; ++i) {
    const size_t d = i - 2;
    const int64_t extent = w.extent(static_cast<int>(d));
    padded = padded || w.begin[d] || w.end[d];
    if (pad.begin[i] < 0 || pad.end[i] < 0 || w.begin[d] + pad.begin[i] >= extent || w.end[d] + pad.end[i] >= extent)
      return false;
  }
  return !pool.max && (!padded || pool.count_pad);
}

bool merges(const Node &n, const PadAttrs &pad, size_t rank) {
  if (!pads_pictures_with_zero(pad, zero_of(n), rank)) return false;
  return n.op == Op::Conv || (n.op == Op::Pool && counts_zeros(std::get<PoolAttrs>(n.attrs), pad, rank));
}

/// Zeros of a Pad node are data, which count in the divisor of an average.
void count_zeros(PoolAttrs &pool, const PadAttrs &pad, size_t rank) {
  pool.count_pad = true;
  for (size_t i = 2; i < rank; ++i) pool.counted_end[i - 2] += pad.end[i];
}

}  // namespace

void merge_pad(Graph &graph) {
  const std::vector<int> made = graph.producers();
  for (Node &n : graph.nodes) {
    if (n.op != Op::Conv && n.op != Op::Pool) continue;
    const int producer = made[static_cast<size_t>(n.inputs[0])];
    if (producer < 0) continue;
    const Node &p = graph.nodes[static_cast<size_t>(producer)];
    const size_t rank = graph[n.inputs[0]].shape.size();
    if (p.op != Op::Pad || !merges(n, std::get<PadAttrs>(p.attrs), rank)) continue;
    const auto &pad = std::get<PadAttrs>(p.attrs);
    Window &w = window_of(n);
    for (size_t i = 2; i < rank; ++i) {
      w.begin[i - 2] += pad.begin[i];
      w.end[i - 2] += pad.end[i];
    }
    if (n.op == Op::Pool) count_zeros(std::get<PoolAttrs>(n.attrs), pad, rank);
    n.inputs[0] = p.inputs[0];
    graph.sources[static_cast<size_t>(p.source)].fate = "in " + graph.sources[static_cast<size_t>(n.source)].name;
  }
  remove_dead(graph);
}

}  // namespace npu::graph
