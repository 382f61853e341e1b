// SPDX-License-Identifier: MIT
#include "compiler/passes/affine.h"

#include <algorithm>
#include <cmath>

namespace npu::graph {
namespace {

/// Masks begin at 10^4; factors and summands of normalizations stay below, also those of channels without variance.
constexpr double kMostOfChannel = 8192;

bool is_of_channel(double v) { return std::fabs(v) <= kMostOfChannel; }

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

}  // namespace

bool affine_of(const Graph &g, const Node &n, ValueId x, const Shape &shape, size_t axis, Affine &out) {
  const auto &attrs = std::get<BinaryAttrs>(n.attrs);
  if (n.inputs[0] == n.inputs[1] || g[n.output].shape != shape || is_quantized(n)) return false;
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
  return std::ranges::all_of(out.factor, is_of_channel) && std::ranges::all_of(out.summand, is_of_channel);
}

bool foldable(const Graph &g, const Node &p, size_t &axis) {
  if ((p.op != Op::Conv && p.op != Op::MatMul) || g[p.output].dtype != Dtype::F32 || is_quantized(p)) return false;
  if (!g.is_constant(p.inputs[1]) || (p.inputs[2] != kNoValue && !g.is_constant(p.inputs[2]))) return false;
  if (p.op == Op::Conv) {
    axis = 1;
    return std::get<ConvAttrs>(p.attrs).act.kind == ActKind::None;
  }
  axis = g[p.output].shape.size() - 1;
  return std::get<MatMulAttrs>(p.attrs).act.kind == ActKind::None && g[p.inputs[1]].shape.size() == 2;
}

}  // namespace npu::graph
