// SPDX-License-Identifier: MIT
#include "compiler/passes/passes.h"

namespace npu::graph {
namespace {

/// A constant operand as one number a channel of `shape`, where `axis` is the channels; false when it varies along
/// another dimension.
bool per_channel(const Value &v, const Shape &shape, size_t axis, std::vector<double> &out) {
  if (!v.constant || v.dtype != Dtype::F32 || v.shape.size() > shape.size()) return false;
  const size_t shift = shape.size() - v.shape.size();
  for (size_t i = 0; i < v.shape.size(); ++i)
    if (v.shape[i] != 1 && (i + shift != axis || v.shape[i] != shape[axis])) return false;
  const auto channels = static_cast<size_t>(shape[axis]);
  const float *values = v.constant->as<float>();
  out.resize(channels);
  for (size_t c = 0; c < channels; ++c) out[c] = values[v.constant->count() == 1 ? 0 : c];
  return true;
}

/// y = x * factor + summand, a channel.
struct Affine {
  std::vector<double> factor, summand;
};

bool affine_of(const Graph &g, const Node &n, ValueId x, const Shape &shape, size_t axis, Affine &out) {
  const auto &attrs = std::get<BinaryAttrs>(n.attrs);
  if (n.inputs[0] == n.inputs[1] || g[n.output].shape != shape) return false;
  const bool left = n.inputs[0] == x;  // x OP constant
  std::vector<double> c;
  if (!per_channel(g[n.inputs[left ? 1 : 0]], shape, axis, c)) return false;
  out.factor.assign(c.size(), 1);
  out.summand.assign(c.size(), 0);
  for (size_t i = 0; i < c.size(); ++i) {
    switch (attrs.kind) {
      case BinaryKind::Add:
        out.summand[i] = c[i];
        break;
      case BinaryKind::Sub:
        out.factor[i] = left ? 1 : -1;
        out.summand[i] = left ? -c[i] : c[i];
        break;
      case BinaryKind::Mul:
        out.factor[i] = c[i];
        break;
      case BinaryKind::Div:
        if (!left) return false;
        out.factor[i] = 1 / c[i];
        break;
      default:
        return false;
    }
  }
  return true;
}

/// The weights with each output channel scaled. Channels are the first dimension of a convolution's weights, the last
/// of a matrix.
TensorPtr scale_weights(const Tensor &w, const std::vector<double> &factor, bool conv) {
  auto out = std::make_shared<Tensor>(w);
  const int64_t channels = static_cast<int64_t>(factor.size()), per = w.count() / channels;
  for (int64_t i = 0; i < w.count(); ++i)
    out->as<float>()[i] =
        static_cast<float>(w.as<float>()[i] * factor[static_cast<size_t>(conv ? i / per : i % channels)]);
  return out;
}

TensorPtr shift_bias(const Tensor *bias, const Affine &a) {
  std::vector<float> out(a.factor.size());
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<float>((bias ? bias->as<float>()[i] : 0.0) * a.factor[i] + a.summand[i]);
  return make_f32({static_cast<int64_t>(out.size())}, out);
}

/// A producer into which a factor can go, and the dimension of its channels.
bool foldable(const Graph &g, const Node &p, size_t &axis) {
  if ((p.op != Op::Conv && p.op != Op::MatMul) || g[p.output].dtype != Dtype::F32) return false;
  if (!g.is_constant(p.inputs[1]) || (p.inputs[2] != kNoValue && !g.is_constant(p.inputs[2]))) return false;
  if (p.op == Op::Conv) {
    axis = 1;
    return std::get<ConvAttrs>(p.attrs).act.kind == ActKind::None;
  }
  axis = g[p.output].shape.size() - 1;
  return std::get<MatMulAttrs>(p.attrs).act.kind == ActKind::None && g[p.inputs[1]].shape.size() == 2;
}

}  // namespace

void fold_affine(Graph &graph) {
  const std::vector<int> uses = graph.use_counts();
  std::vector<int> made = graph.producers();
  for (Node &n : graph.nodes) {
    if (n.op != Op::Binary || std::get<BinaryAttrs>(n.attrs).act.kind != ActKind::None) continue;
    for (ValueId x : {n.inputs[0], n.inputs[1]}) {
      const int producer = made[static_cast<size_t>(x)];
      size_t axis;
      Affine affine;
      if (producer < 0 || uses[static_cast<size_t>(x)] != 1) continue;
      Node &p = graph.nodes[static_cast<size_t>(producer)];
      if (!foldable(graph, p, axis) || !affine_of(graph, n, x, graph[x].shape, axis, affine)) continue;
      const bool scales = std::get<BinaryAttrs>(n.attrs).kind != BinaryKind::Add;
      if (scales)
        p.inputs[1] = graph.add_constant(scale_weights(*graph[p.inputs[1]].constant, affine.factor, p.op == Op::Conv));
      const Tensor *bias = p.inputs[2] == kNoValue ? nullptr : graph[p.inputs[2]].constant.get();
      p.inputs[2] = graph.add_constant(shift_bias(bias, affine));
      graph.sources[static_cast<size_t>(n.source)].fate = "in " + graph.sources[static_cast<size_t>(p.source)].name;
      std::swap(p.output, n.output);
      made.resize(graph.values.size(), -1);
      made[static_cast<size_t>(p.output)] = producer;
      made[static_cast<size_t>(n.output)] = -1;
      break;
    }
  }
  remove_dead(graph);
}

}  // namespace npu::graph
