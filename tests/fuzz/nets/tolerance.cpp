// SPDX-License-Identifier: MIT
#include "tests/fuzz/nets/tolerance.h"

#include <algorithm>
#include <cmath>

#include "compiler/graph/evaluate.h"
#include "tests/fuzz/nets/plan.h"

namespace npu::fuzz {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::Tensor;

constexpr int kTrials = 3;
constexpr double kSafety = 8;
const double kUlp = std::ldexp(1.0, -23);

/// How many products or summands a result has; 0 for an operator that only moves elements.
int64_t terms(const Graph &g, const Node &n) {
  switch (n.op) {
    case Op::Conv: {
      const graph::Shape &w = g[n.inputs[1]].shape;
      return graph::element_count(w) / w[0];
    }
    case Op::MatMul:
      return g[n.inputs[0]].shape.back();
    case Op::Pool: {
      const auto &p = std::get<graph::PoolAttrs>(n.attrs);
      return p.max ? 0 : p.window.kernel[0] * p.window.kernel[1];
    }
    case Op::Binary: {
      const auto kind = std::get<graph::BinaryAttrs>(n.attrs).kind;
      return kind != graph::BinaryKind::Max && kind != graph::BinaryKind::Min;
    }
    case Op::Unary: {
      const auto kind = std::get<graph::UnaryAttrs>(n.attrs).act.kind;
      return kind != graph::ActKind::Relu && kind != graph::ActKind::Clip && kind != graph::ActKind::None;
    }
    case Op::Softmax:
      return g[n.output].shape[static_cast<size_t>(std::get<graph::SoftmaxAttrs>(n.attrs).axis)];
    default:
      return 0;
  }
}

bool exponential(const Node &n) {
  if (n.op == Op::Softmax) return true;
  const auto *unary = std::get_if<graph::UnaryAttrs>(&n.attrs);
  return unary && (unary->act.kind == graph::ActKind::Sigmoid || unary->act.kind == graph::ActKind::Tanh);
}

double largest(const Tensor &t) {
  double top = 0;
  for (int64_t i = 0; i < t.count(); ++i) top = std::max(top, std::fabs(static_cast<double>(t.as<float>()[i])));
  return top;
}

/// The sums of the absolute values of what a node adds up: they are what rounding errors of a sum go by, whatever is
/// left of it. Empty for other nodes.
Status absolute_sums(const Node &n, const std::vector<const Tensor *> &operands, Tensor &out) {
  if (n.op != Op::Conv && n.op != Op::MatMul && n.op != Op::Pool) {
    out.data.clear();
    return {};
  }
  std::vector<Tensor> absolute;
  for (const Tensor *t : operands) {
    absolute.push_back(t ? *t : Tensor());
    for (int64_t i = 0; t && i < t->count(); ++i) absolute.back().as<float>()[i] = std::fabs(t->as<float>()[i]);
  }
  std::vector<const Tensor *> pointers;
  for (size_t i = 0; i < operands.size(); ++i) pointers.push_back(operands[i] ? &absolute[i] : nullptr);
  return graph::evaluate_node(n, pointers, out);
}

Status disturb(const Graph &g, const Node &n, const std::vector<const Tensor *> &operands, Random &random, Tensor &t) {
  const int64_t k = terms(g, n);
  if (k == 0) return {};
  Tensor sums(graph::Dtype::F32, t.shape);
  NPU_TRY(absolute_sums(n, operands, sums));
  const double top = largest(t), share = (4 + static_cast<double>(k) / 4) * kUlp,
               more = exponential(n) ? 4 * kUlp * top + 1e-7 : 0;
  for (int64_t i = 0; i < t.count(); ++i) {
    const double most = share * (sums.data.empty() ? top : sums.as<float>()[i]) + more;
    // Up or down by half of that and more: an output of one element moves in every trial.
    const double size = most * (0.5 + static_cast<double>(random.below(1 << 15)) / 65536.0);
    t.as<float>()[i] += static_cast<float>(random.below(2) ? size : -size);
  }
  return {};
}

/// The network, node by node; with `random` each result is disturbed.
Status evaluate(const Graph &g, const std::vector<Tensor> &inputs, Random *random, std::vector<Tensor> &outputs) {
  std::vector<const Tensor *> values(g.values.size());
  std::vector<std::unique_ptr<Tensor>> made;
  for (size_t i = 0; i < g.values.size(); ++i) values[i] = g.values[i].constant.get();
  for (size_t i = 0; i < g.inputs.size(); ++i) values[static_cast<size_t>(g.inputs[i])] = &inputs[i];
  for (const Node &n : g.nodes) {
    std::vector<const Tensor *> operands;
    for (graph::ValueId v : n.inputs)
      operands.push_back(v == graph::kNoValue ? nullptr : values[static_cast<size_t>(v)]);
    made.push_back(std::make_unique<Tensor>(g[n.output].dtype, g[n.output].shape));
    NPU_TRY(graph::evaluate_node(n, operands, *made.back()));
    if (random) NPU_TRY(disturb(g, n, operands, *random, *made.back()));
    values[static_cast<size_t>(n.output)] = made.back().get();
  }
  outputs.clear();
  for (graph::ValueId v : g.outputs) outputs.push_back(*values[static_cast<size_t>(v)]);
  return {};
}

}  // namespace

Status evaluate_with_tolerance(const Graph &g, const std::vector<Tensor> &inputs, uint64_t seed,
                               std::vector<Tensor> &outputs, std::vector<Tolerance> &tolerances) {
  NPU_TRY(evaluate(g, inputs, nullptr, outputs));
  tolerances.assign(outputs.size(), {});
  Random random(seed);
  std::vector<Tensor> moved;
  for (int trial = 0; trial < kTrials; ++trial) {
    NPU_TRY(evaluate(g, inputs, &random, moved));
    for (size_t k = 0; k < outputs.size(); ++k) {
      const float *a = outputs[k].as<float>(), *b = moved[k].as<float>();
      double &most = tolerances[k].absolute;
      for (int64_t i = 0; i < outputs[k].count(); ++i)
        most = std::max(most, kSafety * std::fabs(static_cast<double>(a[i]) - b[i]));
    }
  }
  return {};
}

std::string difference(const float *got, const float *want, int64_t count, const Tolerance &tolerance, double factor) {
  int64_t bad = 0, first = 0;
  for (int64_t i = 0; i < count; ++i) {
    const bool same = got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]));
    if (same || std::fabs(static_cast<double>(got[i]) - want[i]) <= factor * tolerance.absolute) continue;
    if (bad++ == 0) first = i;
  }
  if (!bad) return {};
  char text[200];
  std::snprintf(text, sizeof text, "%lld of %lld elements, the first at %lld: %.9g instead of %.9g, allowed is %.3g",
                static_cast<long long>(bad), static_cast<long long>(count), static_cast<long long>(first),
                static_cast<double>(got[first]), static_cast<double>(want[first]), factor * tolerance.absolute);
  return text;
}

}  // namespace npu::fuzz
