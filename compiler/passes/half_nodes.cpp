// SPDX-License-Identifier: MIT
#include "compiler/passes/half_nodes.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "compiler/graph/moves.h"
#include "compiler/passes/half_values.h"
#include "runtime/cpu/element.h"
#include "runtime/cpu/operators.h"

namespace npu::graph {
namespace {

/// Factors and summands from here on make numbers that 16 bits hold badly or not at all: a sum that is an average times
/// the number of its elements, a mask in front of a Softmax.
constexpr float kLarge = 256;

/// Summands from here on may mask scores, of which a rounding of the sum would take the bits. Where all scores of a row
/// are masked, or a second mask comes after, these decide.
constexpr float kScoreMask = 16;

/// Factors below make a product so small that float16 has few bits of it.
constexpr float kSmallFactor = 1.0f / 16;

constexpr float kBelowF16 = 0x1p-14f;   ///< numbers below have fewer bits
constexpr float kLargeSlope = 1 << 10;  ///< a function with such a slope enlarges numbers

bool is_large(float c) { return std::isfinite(c) && std::fabs(c) > kLarge; }
bool is_tiny(float c, Dtype half) { return half == Dtype::F16 && c != 0 && std::fabs(c) < kBelowF16; }

float rounded(float c, Dtype half) {
  Tensor t(half, {});
  cpu::store(t, 0, static_cast<double>(c));
  return static_cast<float>(cpu::load(t, 0));
}

/// The numbers of a constant of float32; none of other values.
std::span<const float> numbers_of(const Graph &g, ValueId v) {
  if (v == kNoValue || !g.is_constant(v) || g[v].dtype != Dtype::F32) return {};
  const Tensor &t = *g[v].constant;
  return {t.as<float>(), static_cast<size_t>(t.count())};
}

template <class Wanted>
bool any_number(const Graph &g, const Node &n, Wanted wanted) {
  return std::ranges::any_of(n.inputs, [&](ValueId v) { return std::ranges::any_of(numbers_of(g, v), wanted); });
}

bool all_numbers_between(std::span<const float> numbers, float low, float high) {
  return !numbers.empty() &&
         std::ranges::all_of(numbers, [=](float c) { return std::fabs(c) >= low && std::fabs(c) <= high; });
}

Activation activation_of(const Node &n) {
  switch (n.op) {
    case Op::Conv:
      return std::get<ConvAttrs>(n.attrs).act;
    case Op::MatMul:
      return std::get<MatMulAttrs>(n.attrs).act;
    case Op::Binary:
      return std::get<BinaryAttrs>(n.attrs).act;
    case Op::Unary:
      return std::get<UnaryAttrs>(n.attrs).act;
    default:
      return {};
  }
}

}  // namespace

bool fits(const Tensor &constant, Dtype half) {
  Tensor narrow(half, constant.shape), back(Dtype::F32, constant.shape);
  cpu::cast(constant, cpu::Overflow::Wrap, narrow);
  cpu::cast(narrow, cpu::Overflow::Wrap, back);
  return std::equal(back.as<float>(), back.as<float>() + back.count(), constant.as<float>(),
                    [](float now, float was) { return std::isfinite(now) || !std::isfinite(was); });
}

bool is_subnormal(const Tensor &constant, Dtype half) {
  float most = 0;
  for (int64_t i = 0; i < constant.count(); ++i) most = std::max(most, std::fabs(constant.as<float>()[i]));
  return half == Dtype::F16 && most > 0 && most < 0x1p-14f;
}

bool is_periodic(const Node &n) {
  const auto *a = std::get_if<UnaryAttrs>(&n.attrs);
  return a && (a->act.kind == ActKind::Sin || a->act.kind == ActKind::Cos);
}

bool has_steps(const Node &n) {
  const auto *a = std::get_if<UnaryAttrs>(&n.attrs);
  if (!a) return false;
  switch (a->act.kind) {
    case ActKind::Sign:
    case ActKind::Floor:
    case ActKind::Ceil:
    case ActKind::Round:
      return true;
    default:
      return false;
  }
}

bool enlarges_errors(const Node &n) {
  if (n.op == Op::Pool) return !is_max_pool(n);
  const auto *a = std::get_if<UnaryAttrs>(&n.attrs);
  return a && (a->act.kind == ActKind::Exp || a->act.kind == ActKind::Log || is_periodic(n) || has_steps(n));
}

bool keeps_numbers(const Node &n) {
  if (is_max_pool(n)) return true;
  const auto *a = std::get_if<UnaryAttrs>(&n.attrs);
  return a && (a->act.kind == ActKind::None || a->act.kind == ActKind::Relu || a->act.kind == ActKind::Abs ||
               a->act.kind == ActKind::Neg || has_steps(n));
}

bool is_bounded(const Node &n, Dtype half) {
  const Activation act = activation_of(n);
  switch (act.kind) {
    case ActKind::Clip:
      return std::isfinite(act.a) && std::isfinite(act.b) && !is_large(act.a) && !is_large(act.b) &&
             !is_tiny(act.a, half) && !is_tiny(act.b, half);
    case ActKind::Sigmoid:
    case ActKind::Tanh:
    case ActKind::Erf:
    case ActKind::HardSigmoid:
    case ActKind::Sign:
    case ActKind::Sin:
    case ActKind::Cos:
      return true;
    default:
      return false;
  }
}

bool may_leave_range(const Graph &g, const Node &n) {
  if (is_bounded(n, Dtype::F16)) return false;
  switch (n.op) {
    case Op::Conv:
    case Op::MatMul:
      return true;
    case Op::Softmax:
      return std::get<SoftmaxAttrs>(n.attrs).log;
    case Op::Unary: {
      const Activation act = activation_of(n);
      if (act.kind == ActKind::LeakyRelu || act.kind == ActKind::Elu) return std::fabs(act.a) > kLargeSlope;
      return act.kind == ActKind::Exp || act.kind == ActKind::Rsqrt || act.kind == ActKind::Reciprocal;
    }
    case Op::Binary: {
      const BinaryKind kind = std::get<BinaryAttrs>(n.attrs).kind;
      const std::span<const float> divisor = numbers_of(g, n.inputs[1]), first = numbers_of(g, n.inputs[0]);
      if (kind == BinaryKind::Mul) return !all_numbers_between(divisor.empty() ? first : divisor, kSmallFactor, 1);
      if (kind == BinaryKind::Div) return !all_numbers_between(divisor, 1, 1 / kSmallFactor);
      return kind == BinaryKind::Add || kind == BinaryKind::Sub;
    }
    default:
      return false;
  }
}

bool has_extreme_operand(const Graph &g, const Node &n, Dtype half) {
  switch (std::get<BinaryAttrs>(n.attrs).kind) {
    case BinaryKind::Mul:
      return any_number(g, n, is_large);
    case BinaryKind::Div:
      return std::ranges::any_of(numbers_of(g, n.inputs[1]), [](float c) { return std::fabs(c) * kLarge < 1; });
    case BinaryKind::Add:
    case BinaryKind::Sub:
    case BinaryKind::Max:
    case BinaryKind::Min:
      // Vectors have small numbers by chance.
      for (ValueId v : n.inputs)
        if (const auto c = numbers_of(g, v); c.size() == 1 && is_tiny(c[0], half)) return true;
      return any_number(g, n, is_large);
    default:
      return false;
  }
}

bool brings_extremes(const Graph &g, const Node &n, Dtype half) {
  if (const auto *pad = std::get_if<PadAttrs>(&n.attrs))
    return std::isfinite(pad->value) && !std::isfinite(rounded(static_cast<float>(pad->value), half));
  if (n.op == Op::Where) return any_number(g, n, is_large);
  return std::ranges::any_of(
      n.inputs, [&](ValueId v) { return g.is_constant(v) && g[v].dtype == Dtype::F32 && !fits(*g[v].constant, half); });
}

bool has_large_bias(const Graph &g, const Node &n) {
  return (n.op == Op::Conv || n.op == Op::MatMul) && n.inputs.size() > 2 && !is_bounded(n, Dtype::F16) &&
         std::ranges::any_of(numbers_of(g, n.inputs[2]), is_large);
}

bool masks_scores(const Graph &g, const Node &n) {
  const auto masks = [](float c) { return std::isfinite(c) && std::fabs(c) > kScoreMask; };
  if (const auto *binary = std::get_if<BinaryAttrs>(&n.attrs))
    return (binary->kind == BinaryKind::Add || binary->kind == BinaryKind::Sub) && any_number(g, n, masks);
  return n.inputs.size() > 2 && std::ranges::any_of(numbers_of(g, n.inputs[2]), masks);
}

bool has_tiny_bound(const Node &n, Dtype half) {
  const Activation act = activation_of(n);
  return act.kind == ActKind::Clip && (is_tiny(act.a, half) || is_tiny(act.b, half));
}

bool has_other_bounds(const Graph &g, const Node &n, Dtype half) {
  const auto other = [half](float c) { return std::isfinite(c) && rounded(c, half) != c; };
  const Activation act = activation_of(n);
  if (act.kind == ActKind::Clip && (other(act.a) || other(act.b))) return true;
  const auto *binary = std::get_if<BinaryAttrs>(&n.attrs);
  return binary && (binary->kind == BinaryKind::Max || binary->kind == BinaryKind::Min) && any_number(g, n, other);
}

}  // namespace npu::graph
