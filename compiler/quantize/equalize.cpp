// SPDX-License-Identifier: MIT
#include "compiler/quantize/equalize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace npu::quantize {
namespace {

using graph::ActKind;
using graph::Graph;
using graph::kNoValue;
using graph::Node;
using graph::Op;
using graph::Tensor;
using graph::ValueId;

constexpr int kMostSweeps = 20;
constexpr double kStill = 1e-3;  ///< factors that are as near to 1 change nothing any more

bool has_weights(const Graph &g, const Node &n) {
  return n.op == Op::Conv && g.is_constant(n.inputs[1]) && g[n.inputs[1]].dtype == graph::Dtype::F32 &&
         (n.inputs.size() < 3 || n.inputs[2] == kNoValue || g.is_constant(n.inputs[2]));
}

/// f(x * c) = f(x) * c for positive c.
bool keeps_factors(const Node &n) {
  const auto *unary = std::get_if<graph::UnaryAttrs>(&n.attrs);
  return unary && (unary->act.kind == ActKind::Relu || unary->act.kind == ActKind::LeakyRelu);
}

struct Pair {
  size_t first = 0, second = 0;  ///< nodes
};

std::vector<Pair> find_pairs(const Graph &g) {
  const std::vector<int> made = g.producers(), uses = g.use_counts();
  std::vector<Pair> out;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    if (!has_weights(g, g.nodes[i])) continue;
    ValueId v = g.nodes[i].inputs[0];
    int from = made[at(v)];
    if (from >= 0 && uses[at(v)] == 1 && keeps_factors(g.nodes[static_cast<size_t>(from)])) {
      v = g.nodes[static_cast<size_t>(from)].inputs[0];
      from = made[at(v)];
    }
    if (from >= 0 && uses[at(v)] == 1 && has_weights(g, g.nodes[static_cast<size_t>(from)]))
      out.push_back({static_cast<size_t>(from), i});
  }
  return out;
}

/// Calls f(channel, place) for each weight of a convolution, by the channel of its operand.
template <class F>
void for_inputs(const Tensor &w, int64_t groups, F f) {
  const int64_t per = w.shape[1], cells = w.count() / (w.shape[0] * per), outputs = w.shape[0] / groups;
  for (int64_t i = 0; i < w.count(); ++i) {
    const int64_t outer = i / (per * cells);
    f(static_cast<size_t>(outer / outputs * per + i / cells % per), static_cast<size_t>(i));
  }
}

/// The same by the channel of its result.
template <class F>
void for_outputs(const Tensor &w, F f) {
  const int64_t cells = w.count() / w.shape[0];
  for (int64_t i = 0; i < w.count(); ++i) f(static_cast<size_t>(i / cells), static_cast<size_t>(i));
}

/// Copies of the weights of convolutions that are in a pair.
class Equalizer {
 public:
  explicit Equalizer(Graph &graph) : g_(graph), pairs_(find_pairs(graph)) {
    for (const Pair &pair : pairs_)
      for (size_t i : {pair.first, pair.second}) copy(i);
  }

  size_t run() {
    for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
      double farthest = 0;
      for (const Pair &pair : pairs_) farthest = std::max(farthest, equalize(pair));
      if (farthest < kStill) break;
    }
    for (auto &[i, copies] : copies_)
      for (size_t k = 0; k < copies.size(); ++k)
        if (copies[k]) g_.nodes[i].inputs[k] = g_.add_constant(copies[k], g_[g_.nodes[i].inputs[k]].name);
    return pairs_.size();
  }

 private:
  void copy(size_t i) {
    std::vector<std::shared_ptr<Tensor>> &copies = copies_[i];
    const Node &n = g_.nodes[i];
    copies.resize(n.inputs.size());
    for (size_t k = 1; k < n.inputs.size(); ++k)
      if (n.inputs[k] != kNoValue) copies[k] = std::make_shared<Tensor>(*g_[n.inputs[k]].constant);
  }

  /// Factors by which biases do not become larger than the largest one: a channel of tiny weights beside a bias would
  /// need a range that leaves nothing of the other channels. A bias that is the largest already has no room to grow.
  static std::vector<double> room_of(const std::vector<std::shared_ptr<Tensor>> &operands, size_t channels) {
    std::vector<double> out(channels, std::numeric_limits<double>::infinity());
    if (operands.size() < 3 || !operands[2]) return out;
    const float *bias = operands[2]->as<float>();
    double most = 0;
    for (size_t c = 0; c < channels; ++c) most = std::max<double>(most, std::fabs(bias[c]));
    for (size_t c = 0; c < channels; ++c)
      if (bias[c] != 0) out[c] = most / std::fabs(bias[c]);
    return out;
  }

  /// How far factors are from 1 at most.
  double equalize(const Pair &pair) {
    auto &made_by = copies_[pair.first];
    Tensor &first = *made_by[1], &second = *copies_[pair.second][1];
    const int64_t groups = std::get<graph::ConvAttrs>(g_.nodes[pair.second].attrs).groups;
    std::vector<double> makes(static_cast<size_t>(first.shape[0])), reads(makes.size());
    const auto most = [](const Tensor &t, std::vector<double> &list) {
      return [&](size_t c, size_t i) { list[c] = std::max<double>(list[c], std::fabs(t.as<float>()[i])); };
    };
    for_outputs(first, most(first, makes));
    for_inputs(second, groups, most(second, reads));
    std::vector<float> factor(makes.size(), 1);
    const std::vector<double> room = room_of(made_by, makes.size());
    double farthest = 0;
    for (size_t c = 0; c < factor.size(); ++c) {
      if (makes[c] == 0 || reads[c] == 0) continue;
      factor[c] = static_cast<float>(std::min(std::sqrt(reads[c] / makes[c]), room[c]));
      farthest = std::max(farthest, std::fabs(std::log(static_cast<double>(factor[c]))));
    }
    for_outputs(first, [&](size_t c, size_t i) { first.as<float>()[i] *= factor[c]; });
    for_inputs(second, groups, [&](size_t c, size_t i) { second.as<float>()[i] /= factor[c]; });
    if (made_by.size() > 2 && made_by[2])
      for (size_t c = 0; c < factor.size(); ++c) made_by[2]->as<float>()[c] *= factor[c];
    return farthest;
  }

  Graph &g_;
  const std::vector<Pair> pairs_;
  std::map<size_t, std::vector<std::shared_ptr<Tensor>>> copies_;  // by node, for each operand
};

}  // namespace

size_t equalize(Graph &g) { return Equalizer(g).run(); }

}  // namespace npu::quantize
