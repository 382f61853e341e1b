// SPDX-License-Identifier: MIT
#include "compiler/graph/rounding.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/graph/evaluate.h"
#include "compiler/graph/moves.h"
#include "runtime/cpu/element.h"
#include "runtime/cpu/numbers.h"

namespace npu::graph {
namespace {

/// Errors of functions of one number, in ULP and as a difference: docs/explanation/numerics.md.
constexpr double kFunctionUlp = 4, kFunctionDifference = 1e-7;
constexpr double kUlp = 0x1p-23, kLargest = std::numeric_limits<float>::max();

/// A number beyond this hides others in front of a Softmax, and is none that integers of 8 bits have to hold.
constexpr double kMask = 9e3;

/// One in so many integers that are rounded from numbers is a step off. These have an error of up to a quarter of a
/// step, where a bias is in units of the sums.
constexpr uint64_t kStepsApart = 16;

/// splitmix64
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// From -1 to 1.
  double error() { return static_cast<double>(static_cast<int64_t>(next())) * 0x1p-63; }

 private:
  uint64_t state_;
};

bool is_exact_unary(ActKind kind) {
  switch (kind) {
    case ActKind::None:
    case ActKind::Relu:
    case ActKind::Clip:
    case ActKind::Abs:
    case ActKind::Neg:
    case ActKind::Floor:
    case ActKind::Ceil:
    case ActKind::Round:
    case ActKind::Sign:
    case ActKind::Not:
    case ActKind::IsNan:
    case ActKind::IsInf:
      return true;
    default:
      return false;
  }
}

/// True if each element of the result is one of an operand's, or follows from it without rounding.
bool is_exact(const Node &n) {
  if (moves(n) || is_max_pool(n)) return true;
  switch (n.op) {
    case Op::Unary:
      return is_exact_unary(std::get<UnaryAttrs>(n.attrs).act.kind);
    case Op::Binary: {
      const auto &a = std::get<BinaryAttrs>(n.attrs);
      return !cpu::is_quantized(a) && (a.kind == BinaryKind::Max || a.kind == BinaryKind::Min);
    }
    case Op::Reduce: {
      const ReduceKind kind = std::get<ReduceAttrs>(n.attrs).kind;
      return kind == ReduceKind::Max || kind == ReduceKind::Min;
    }
    case Op::Cast:
    case Op::Where:
    case Op::GatherElements:
    case Op::GatherNd:
    case Op::ScatterElements:
    case Op::ScatterNd:
    case Op::ArgMax:
    case Op::TopK:
    case Op::PoolIndices:
      return true;
    default:
      return false;
  }
}

/// Terms of the sums behind each element of the result.
int64_t terms_of(const Graph &g, const Node &n) {
  const auto shape = [&](size_t k) -> const Shape & { return g[n.inputs[k]].shape; };
  switch (n.op) {
    case Op::Conv:
      return element_count(shape(1)) / std::max<int64_t>(shape(1)[0], 1);
    case Op::MatMul:
      return shape(0).back();
    case Op::Pool:
    case Op::Reduce:
    case Op::CumSum:
      return std::max<int64_t>(element_count(shape(0)) / std::max<int64_t>(element_count(g[n.output].shape), 1), 1);
    default:
      return 1;
  }
}

/// The root of the mean square of the elements that are finite and no mask.
double size_of(const Tensor &t) {
  constexpr double kHuge = 1e18;
  double sum = 0;
  int64_t count = 0;
  const float *const x = t.as<float>();
  for (int64_t i = 0; i < t.count(); ++i)
    if (std::fabs(x[i]) < kHuge) sum += double{x[i]} * x[i], ++count;
  return count ? std::sqrt(sum / static_cast<double>(count)) : 0;
}

/// Largest minus smallest element, 0 included.
double range_of(const float *x, int64_t count, int64_t stride) {
  double low = 0, high = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double v = x[i * stride];
    if (!(std::fabs(v) < kMask)) continue;
    low = std::min(low, v);
    high = std::max(high, v);
  }
  return high - low;
}

class Errors {
 public:
  Errors(const Graph &g, const Rounding &rounding, uint64_t seed) : g_(g), rounding_(rounding), random_(seed) {}

  void add(const Node &n, std::span<const Tensor *const> operands, Tensor &t) {
    add_computed(n, operands, t);
    if (t.dtype == Dtype::F32) round_to(type_in_file(rounding_, n.output), t);
  }

  /// Makes numbers one of the two of a 16-bit type that are next to them; those that it has stay as they are.
  void round_to(Dtype type, Tensor &t) {
    if (!is_half(type)) return;
    const double unit = Rounding{type}.unit(), least = type == Dtype::F16 ? 0x1p-25 : 0;
    const auto nearest = [type](float v) {
      return type == Dtype::F16 ? cpu::of_f16(cpu::to_f16(v)) : cpu::of_bf16(cpu::to_bf16(v));
    };
    float *const x = t.as<float>();
    for (int64_t i = 0; i < t.count(); ++i) {
      if (nearest(x[i]) == x[i]) continue;
      int exponent = 0;
      (void)std::frexp(x[i], &exponent);
      const double half_step = std::max(std::ldexp(unit, exponent - 1), least);
      x[i] = nearest(static_cast<float>(x[i] + random_.error() * half_step));
    }
  }

  /// Weights as they are stored.
  void round_weights(const Node &n, Tensor &t) {
    if (rounding_.type == Dtype::I8)
      round_channels(n, t);
    else
      add(t, rounding_.unit(), 0);
  }

 private:
  void add_computed(const Node &n, std::span<const Tensor *const> operands, Tensor &t) {
    if (is_exact(n)) return;
    if (is_byte(t.dtype) && is_quantized(n)) return move_steps(t);
    if (t.dtype != Dtype::F32) return;
    const bool function = n.op == Op::Unary || n.op == Op::Softmax;
    const double relative =
        (function ? kFunctionUlp : 1) * kUlp + (rounding_.type == Dtype::F32 ? 0 : rounding_.unit());
    const double sums = n.op == Op::Binary || function ? 0 : kUlp * std::sqrt(static_cast<double>(terms_of(g_, n)));
    double same = (function ? kFunctionDifference : 0) + sums * size_of_sums(n, operands, t);
    if (rounding_.type == Dtype::I8) {
      same += rounding_.unit() * range_of(t.as<float>(), t.count(), 1);
      add(t, kUlp, same, n.op == Op::Binary);
    } else {
      add(t, relative, same);
    }
  }

  /// Sums of products have the errors of their terms, also where these cancel.
  double size_of_sums(const Node &n, std::span<const Tensor *const> operands, const Tensor &t) const {
    const bool product = n.op == Op::Conv || n.op == Op::MatMul;
    if (!product || operands[0]->dtype != Dtype::F32 || operands[1]->dtype != Dtype::F32) return size_of(t);
    const double root = std::sqrt(static_cast<double>(terms_of(g_, n)));
    return std::max(size_of(t), root * size_of(*operands[0]) * size_of(*operands[1]));
  }

  /// `keep_zeros`: integers have 0, and 1 - mask is 0 for what counts: a factor of -1e9 follows.
  void add(Tensor &t, double relative, double same, bool keep_zeros = false) {
    float *const x = t.as<float>();
    for (int64_t i = 0; i < t.count(); ++i)
      if (std::isfinite(x[i]) && !(keep_zeros && x[i] == 0)) {
        const double moved = x[i] + random_.error() * (relative * std::fabs(double{x[i]}) + same);
        x[i] = static_cast<float>(std::clamp<double>(moved, -kLargest, kLargest));  // no mask becomes infinite
      }
  }

  void move_steps(Tensor &t) {
    for (int64_t i = 0; i < t.count(); ++i) {
      const uint64_t r = random_.next();
      if (r % kStepsApart == 0) cpu::store(t, i, cpu::load(t, i) + ((r >> 32) % 2 ? 1 : -1));
    }
  }

  /// Each output channel has a range of its own: the first dimension of a convolution's weights, the last one of a
  /// matrix.
  void round_channels(const Node &n, Tensor &t) {
    const bool conv = n.op == Op::Conv;
    const int64_t channels = conv ? t.shape.front() : t.shape.back(), each = t.count() / std::max<int64_t>(channels, 1);
    const int64_t stride = conv ? 1 : channels;
    for (int64_t c = 0; c < channels; ++c) {
      float *const x = t.as<float>() + (conv ? c * each : c);
      const double step = rounding_.unit() * range_of(x, each, stride);
      for (int64_t i = 0; i < each; ++i) x[i * stride] = static_cast<float>(x[i * stride] + random_.error() * step);
    }
  }

  const Graph &g_;
  const Rounding rounding_;
  Random random_;
};

/// Rounds constants to the types that they have in the file: those that were computed from others, or cast.
void round_constants(const Rounding &rounding, Errors &errors, Graph &g) {
  for (size_t v = 0; v < g.values.size(); ++v) {
    const Dtype type = type_in_file(rounding, static_cast<ValueId>(v));
    if (!is_half(type) || !g.values[v].constant || g.values[v].dtype != Dtype::F32) continue;
    auto rounded = std::make_shared<Tensor>(*g.values[v].constant);
    errors.round_to(type, *rounded);
    g.values[v].constant = std::move(rounded);
  }
}

/// The graph with the weights of its products as they are stored.
Graph with_stored_weights(const Graph &g, Errors &errors) {
  Graph out = g;
  std::vector<bool> done(g.values.size());
  for (const Node &n : g.nodes) {
    if ((n.op != Op::Conv && n.op != Op::MatMul) || n.inputs.size() < 2 || n.inputs[1] == kNoValue) continue;
    const TensorPtr weights = g[n.inputs[1]].constant;
    if (!weights || weights->dtype != Dtype::F32 || weights->shape.empty() || done[at(n.inputs[1])]) continue;
    done[at(n.inputs[1])] = true;
    auto rounded = std::make_shared<Tensor>(*weights);
    errors.round_weights(n, *rounded);
    out[n.inputs[1]].constant = std::move(rounded);
  }
  return out;
}

}  // namespace

double Rounding::unit() const {
  switch (type) {
    case Dtype::F16:
      return 0x1p-11;
    case Dtype::BF16:
      return 0x1p-8;
    case Dtype::I8:
      return 0.5 / 255;
    default:
      return 0x1p-24;
  }
}

Dtype type_in_file(const Rounding &rounding, ValueId v) {
  const bool known = rounding.in_file && v != kNoValue && at(v) < rounding.in_file->size();
  return known && is_half((*rounding.in_file)[at(v)]) ? (*rounding.in_file)[at(v)] : Dtype::F32;
}

Status evaluate_rounded(const Graph &graph, const std::vector<Tensor> &inputs, const Rounding &rounding, uint64_t seed,
                        std::vector<Tensor> &outputs) {
  Errors errors(graph, rounding, seed);
  const auto change = [&](const Node &n, std::span<const Tensor *const> operands, Tensor &t) {
    errors.add(n, operands, t);
  };
  if (rounding.type == Dtype::F32 && !rounding.in_file) return evaluate_changed(graph, inputs, change, outputs);
  Graph stored = rounding.type == Dtype::F32 ? graph : with_stored_weights(graph, errors);
  round_constants(rounding, errors, stored);
  return evaluate_changed(stored, inputs, change, outputs);
}

}  // namespace npu::graph
