// SPDX-License-Identifier: MIT
#include "tests/fuzz/nets/tolerance.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/cpu/element.h"
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

/// Functions that give what is in float32 already.
bool exact_function(graph::ActKind kind) {
  switch (kind) {
    case graph::ActKind::None:
    case graph::ActKind::Relu:
    case graph::ActKind::Clip:
    case graph::ActKind::Abs:
    case graph::ActKind::Neg:
    case graph::ActKind::Floor:
    case graph::ActKind::Ceil:
    case graph::ActKind::Round:
    case graph::ActKind::Sign:
      return true;
    default:
      return false;
  }
}

graph::Reduction reduction_of(const Node &n) {
  const auto *scatter = std::get_if<graph::ScatterAttrs>(&n.attrs);
  return scatter ? scatter->reduction : graph::Reduction::None;
}

/// Nodes whose results are sums.
bool sums_up(const Node &n) {
  const auto *reduce = std::get_if<graph::ReduceAttrs>(&n.attrs);
  if (reduce) return reduce->kind == graph::ReduceKind::Sum || reduce->kind == graph::ReduceKind::Mean;
  return n.op == Op::Conv || n.op == Op::MatMul || n.op == Op::Pool || n.op == Op::CumSum ||
         reduction_of(n) == graph::Reduction::Add;
}

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
      return kind != graph::BinaryKind::Max && kind != graph::BinaryKind::Min && kind != graph::BinaryKind::Fmod;
    }
    case Op::Unary:
      return !exact_function(std::get<graph::UnaryAttrs>(n.attrs).act.kind);
    case Op::Softmax:
      return g[n.output].shape[static_cast<size_t>(std::get<graph::SoftmaxAttrs>(n.attrs).axis)];
    case Op::Reduce: {
      const graph::ReduceKind kind = std::get<graph::ReduceAttrs>(n.attrs).kind;
      if (kind == graph::ReduceKind::Max || kind == graph::ReduceKind::Min) return 0;
      return graph::element_count(g[n.inputs[0]].shape) / std::max<int64_t>(graph::element_count(g[n.output].shape), 1);
    }
    case Op::CumSum:
      return g[n.output].shape[static_cast<size_t>(std::get<graph::CumSumAttrs>(n.attrs).axis)];
    case Op::ScatterElements:
    case Op::ScatterNd:
      return sums_up(n) || reduction_of(n) == graph::Reduction::Mul ? graph::element_count(g[n.inputs[2]].shape) : 0;
    default:
      return 0;
  }
}

/// Functions that are not algebraic.
bool exponential(const Node &n) {
  if (n.op == Op::Softmax) return true;
  if (const auto *binary = std::get_if<graph::BinaryAttrs>(&n.attrs)) return binary->kind == graph::BinaryKind::Pow;
  const auto *unary = std::get_if<graph::UnaryAttrs>(&n.attrs);
  if (!unary) return false;
  switch (unary->act.kind) {
    case graph::ActKind::LeakyRelu:
    case graph::ActKind::HardSigmoid:
    case graph::ActKind::HardSwish:
      return false;
    default:
      return !exact_function(unary->act.kind);
  }
}

double largest(const Tensor &t) {
  double top = 0;
  for (int64_t i = 0; i < t.count(); ++i) top = std::max(top, std::fabs(static_cast<double>(t.as<float>()[i])));
  return top;
}

/// The sums of the absolute values of what a node adds up: they are what rounding errors of a sum go by, whatever is
/// left of it. Empty for other nodes.
Status absolute_sums(const Node &n, const std::vector<const Tensor *> &operands, Tensor &out) {
  if (!sums_up(n)) {
    out.data.clear();
    return {};
  }
  std::vector<Tensor> absolute;
  for (const Tensor *t : operands) {
    absolute.push_back(t ? *t : Tensor());
    if (!t || t->dtype != graph::Dtype::F32) continue;
    for (int64_t i = 0; i < t->count(); ++i) absolute.back().as<float>()[i] = std::fabs(t->as<float>()[i]);
  }
  std::vector<const Tensor *> pointers;
  for (size_t i = 0; i < operands.size(); ++i) pointers.push_back(operands[i] ? &absolute[i] : nullptr);
  return cpu::evaluate(n.op, n.attrs, pointers, out);
}

Status disturb(const Graph &g, const Node &n, const std::vector<const Tensor *> &operands, Random &random, Tensor &t) {
  const int64_t k = t.dtype == graph::Dtype::F32 ? terms(g, n) : 0;
  if (k == 0) return {};
  Tensor sums(graph::Dtype::F32, t.shape);
  NPU_TRY(absolute_sums(n, operands, sums));
  const double top = largest(t), share = (4 + static_cast<double>(k) / 4) * kUlp,
               more = exponential(n) ? 4 * kUlp * top + 1e-7 : 0;
  for (int64_t i = 0; i < t.count(); ++i) {
    // What cancels altogether has no error of its own.
    if (n.op == Op::Binary && t.as<float>()[i] == 0) continue;
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
    NPU_TRY(cpu::evaluate(n.op, n.attrs, operands, *made.back()));
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
      double &most = tolerances[k].absolute;
      for (int64_t i = 0; i < outputs[k].count(); ++i) {
        const double way = std::fabs(cpu::load(outputs[k], i) - cpu::load(moved[k], i));
        // Where rounding decides whether there is a number at all, nothing can be said.
        if (std::isnan(way) && !std::isnan(cpu::load(outputs[k], i))) most = std::numeric_limits<double>::infinity();
        most = std::max(most, kSafety * way);
      }
    }
  }
  return {};
}

std::string difference(const Tensor &got, const Tensor &want, const Tolerance &tolerance, double factor) {
  if (got.dtype != want.dtype || got.count() != want.count())
    return graph::kind_text(got) + " instead of " + graph::kind_text(want);
  int64_t bad = 0, first = 0;
  const int64_t count = want.count();
  for (int64_t i = 0; i < count; ++i) {
    const double a = cpu::load(got, i), b = cpu::load(want, i);
    const bool same = a == b || (std::isnan(a) && std::isnan(b));
    if (same || std::fabs(a - b) <= factor * tolerance.absolute) continue;
    if (bad++ == 0) first = i;
  }
  if (!bad) return {};
  char text[200];
  std::snprintf(text, sizeof text, "%lld of %lld elements, the first at %lld: %.9g instead of %.9g, allowed is %.3g",
                static_cast<long long>(bad), static_cast<long long>(count), static_cast<long long>(first),
                cpu::load(got, first), cpu::load(want, first), factor * tolerance.absolute);
  return text;
}

}  // namespace npu::fuzz
