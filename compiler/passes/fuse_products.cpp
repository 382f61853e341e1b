// SPDX-License-Identifier: MIT
// Convolutions and matrix products of what integers stand for: the integers are multiplied and added up, and a factor
// for each channel makes the result of the sums. What scales and shifts channels behind them becomes factor and bias.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/graph/quantized_constant.h"
#include "compiler/passes/integers.h"

namespace npu::graph {
namespace {

/// Sums that do not wrap round in int32.
constexpr double kMostSum = std::numeric_limits<int32_t>::max();

/// How far a bias may be from an integer: in steps of the result; of a result of float32 as a part of itself.
constexpr double kBiasSteps = 0.25, kBiasPart = 1e-6;

struct Weights {
  ValueId value = kNoValue;
  std::vector<float> scales;  ///< one, or one for each channel
  int32_t zero = 0;
  std::vector<double> most;  ///< the sum of magnitudes, for each channel or all
  int source = -1;           ///< of what makes floating-point numbers of weights that are no constant
};

/// The largest magnitude of q - zero.
double widest(Dtype type, int32_t zero) {
  const int32_t low = type == Dtype::I8 ? -128 : 0;
  return std::max(zero - low, low + 255 - zero);
}

/// For each element of the axis the sum of the magnitudes of q - zero.
std::vector<double> sums(const Tensor &w, int32_t zero, size_t axis) {
  std::vector<double> out(static_cast<size_t>(w.shape[axis]));
  const int64_t inner = element_count(Shape(w.shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, w.shape.end()));
  for (int64_t i = 0; i < w.count(); ++i) {
    const int32_t q = w.dtype == Dtype::I8 ? w.as<int8_t>()[i] : w.as<uint8_t>()[i];
    out[static_cast<size_t>(i / inner) % out.size()] += std::abs(q - zero);
  }
  return out;
}

class Fusion {
 public:
  Fusion(IntegerWalk &walk, size_t i) : walk_(walk), graph_(walk.graph), n_(walk.nodes[i]) {}

  bool run() {
    const Activation &act = n_.op == Op::Conv ? std::get<ConvAttrs>(n_.attrs).act : std::get<MatMulAttrs>(n_.attrs).act;
    const Shape &y = graph_[n_.output].shape;
    if (is_quantized(n_) || graph_[n_.output].dtype != Dtype::F32 || act.kind != ActKind::None) return false;
    axis_ = n_.op == Op::Conv ? 1 : y.size() - 1;
    channels_ = static_cast<size_t>(y[axis_]);
    if (!find_x() || !find_weights() || !find_chain()) return false;
    if (!is_usual(x_.quant.scale) || !std::all_of(w_.scales.begin(), w_.scales.end(), is_usual))
      return miss("float32 cannot hold its sums");
    return to_bytes() || to_float();
  }

 private:
  /// A product with what follows it: sums * x_scale * w_scale * factor + summand.
  struct Stage {
    Affine affine;
    ValueId value = kNoValue;
    std::vector<size_t> absorbed;
  };

  bool miss(const char *reason) {
    walk_.reasons[n_.source] = reason;
    return false;
  }

  bool find_x() {
    std::optional<Integers> x;
    if (const Integers *known = walk_.bytes(n_.inputs[0]))
      x = *known;
    else if (n_.op == Op::MatMul && walk_.bytes(n_.inputs[1]))
      x = walk_.operand(n_.inputs[0]);  // a constant
    if (x) x_ = *x;
    return x.has_value();
  }

  bool find_weights() {
    const ValueId w = n_.inputs[1];
    const size_t axis = n_.op == Op::Conv ? 0 : graph_[w].shape.size() - 1;
    if (element_count(graph_[w].shape) == 0) return miss("its weights have no elements");
    if (const Integers *known = walk_.bytes(w)) {
      const Value &v = graph_[known->value];
      const auto terms = static_cast<double>(element_count(v.shape) / v.shape[axis]);
      w_ = {known->value, {known->quant.scale}, known->quant.zero, {}, known->source};
      w_.most = {terms * widest(v.dtype, w_.zero)};
      return true;
    }
    const std::shared_ptr<const QuantizedConstant> q = graph_[w].quantized;
    if (!q) return miss("its weights are not of 8 bits with known scales");
    if ((q->scales.size() > 1 || q->zeros.size() > 1) && q->axis != axis)
      return miss("its weights have scales along another axis than its channels");
    w_.scales = q->scales;
    if (!walk_.single_zero(q, w_.value, w_.zero)) return miss("its weights have zero points that none replaces");
    w_.most = sums(*graph_[w_.value].constant, w_.zero, axis);
    return true;
  }

  /// The product, and with each node behind it that scales and shifts channels. Moves may stand in between.
  bool find_chain() {
    Stage stage;
    stage.affine.factor.assign(channels_, 1);
    stage.affine.summand.assign(channels_, 0);
    stage.value = n_.output;
    if (const ValueId bias = n_.inputs.size() > 2 ? n_.inputs[2] : kNoValue; bias != kNoValue) {
      const TensorPtr known = graph_[bias].constant;
      if (!known) return miss("its bias is not known");
      for (size_t c = 0; c < channels_; ++c) stage.affine.summand[c] = known->as<float>()[c];
    }
    chain_.push_back(stage);
    size_t axis = axis_;
    for (ValueId v = n_.output;;) {
      const int reader = walk_.only_reader(v);
      if (reader < 0) return true;
      const Node &next = walk_.nodes[static_cast<size_t>(reader)];
      if (next.op == Op::Transpose || next.op == Op::Reshape) {
        if (!moved_axis(next, graph_[v].shape, axis)) return true;
        v = next.output;
        continue;
      }
      Affine a;
      if (next.op != Op::Binary || is_quantized(next)) return true;
      if (std::get<BinaryAttrs>(next.attrs).act.kind != ActKind::None) return true;
      if (!affine_of(graph_, next, v, graph_[v].shape, axis, a)) return true;
      for (size_t c = 0; c < channels_; ++c) {
        stage.affine.factor[c] *= a.factor[c];
        stage.affine.summand[c] = stage.affine.summand[c] * a.factor[c] + a.summand[c];
      }
      stage.value = v = next.output;
      stage.absorbed.push_back(static_cast<size_t>(reader));
      chain_.push_back(stage);
    }
  }

  float product_scale(size_t c) const { return x_.quant.scale * w_.scales[w_.scales.size() > 1 ? c : 0]; }

  /// Factors of the sums for a result with that scale; false: they are no numbers that float32 has.
  bool find_multiplier(const Stage &stage, float y_scale) {
    const auto &f = stage.affine.factor;
    const bool one = w_.scales.size() == 1 && std::all_of(f.begin(), f.end(), [&](double v) { return v == f[0]; });
    multiplier_.clear();
    for (size_t c = 0; c < (one ? 1 : channels_); ++c) {
      float v = product_scale(c);
      if (f[c] != 1) v = static_cast<float>(v * f[c]);
      v /= y_scale;
      if (!std::isnormal(v)) return false;
      multiplier_.push_back(v);
    }
    return true;
  }

  /// The bias in units of the sums. False: it is too far from integers, or the sums may wrap round. `gain`: how many
  /// steps of integers that depend on the result an error in it is; 0: it is a result of float32.
  bool find_bias(const Stage &stage, double gain) {
    bias_.assign(channels_, 0);
    for (size_t c = 0; c < channels_; ++c) {
      const double units = stage.affine.summand[c] / (static_cast<double>(product_scale(c)) * stage.affine.factor[c]);
      const double whole = std::nearbyint(units), error = std::fabs(whole - units);
      const double most = w_.most[w_.most.size() > 1 ? c : 0] * widest(graph_[x_.value].dtype, x_.quant.zero);
      if (!(most + std::fabs(whole) <= kMostSum)) return false;
      const double factor = std::fabs(multiplier_[multiplier_.size() > 1 ? c : 0]);
      if (gain > 0 ? error * factor * gain > kBiasSteps : error > kBiasPart * std::fabs(units)) return false;
      bias_[c] = static_cast<int32_t>(whole);
    }
    return true;
  }

  /// The operator with its operands as they were found; `act` works in steps of the result.
  Node product(const Activation &act, Dtype type, int32_t zero) {
    Node out;
    out.op = n_.op;
    const ProductQuant quant{true, x_.quant.zero, w_.zero, zero, type};
    ValueId bias = kNoValue;
    if (std::any_of(bias_.begin(), bias_.end(), [](int32_t b) { return b != 0; })) {
      auto ints = std::make_shared<Tensor>(Dtype::I32, Shape{static_cast<int64_t>(channels_)});
      std::copy(bias_.begin(), bias_.end(), ints->as<int32_t>());
      bias = walk_.constant(ints);
    }
    const ValueId factor = walk_.constant(make_f32({static_cast<int64_t>(multiplier_.size())}, multiplier_));
    out.inputs = {x_.value, w_.value, bias, factor};
    if (n_.op == Op::Conv) {
      ConvAttrs attrs = std::get<ConvAttrs>(n_.attrs);
      attrs.act = act;
      attrs.quant = quant;
      out.attrs = attrs;
    } else {
      out.attrs = MatMulAttrs{act, quant};
    }
    walk_.takes(x_, n_.source);
    walk_.takes({w_.value, {}, w_.source}, n_.source);
    return out;
  }

  /// How much larger a function makes an error.
  static double gain_of(const Activation &act) {
    return act.kind == ActKind::LeakyRelu ? std::max<double>(1, std::fabs(act.a)) : 1;
  }

  bool to_bytes() {
    const Stage &stage = chain_.back();
    Tail tail;
    if (!walk_.tail(stage.value, Takes::Activation, tail)) return false;
    Activation act = tail.act;
    if (!find_multiplier(stage, tail.quant.scale) || !find_bias(stage, gain_of(act))) return false;
    if (act.kind == ActKind::Clip) {
      act.a /= tail.quant.scale;
      act.b /= tail.quant.scale;
    }
    Node out = product(act, tail.type, tail.quant.zero);
    const ValueId y = walk_.add(out.op, std::move(out.inputs), std::move(out.attrs), n_.source);
    walk_.drop(stage.absorbed, n_.source);
    walk_.drop(tail.absorbed, n_.source);
    walk_.set(n_.output, {y, tail.quant, n_.source});
    return true;
  }

  /// What an error of a result of float32 is in steps of the sum that it is part of; 0: it is part of none that is
  /// quantized.
  double gain_of_sum(ValueId v) const {
    const int reader = walk_.only_reader(v);
    if (reader < 0) return 0;
    const Node &next = walk_.nodes[static_cast<size_t>(reader)];
    const BinaryAttrs *attrs = std::get_if<BinaryAttrs>(&next.attrs);
    if (!attrs || is_quantized(next) || next.inputs[0] == next.inputs[1]) return 0;
    if ((attrs->kind != BinaryKind::Add && attrs->kind != BinaryKind::Sub) || attrs->act.kind != ActKind::None)
      return 0;
    Tail tail;
    return walk_.tail(next.output, Takes::Activation, tail) ? gain_of(tail.act) / tail.quant.scale : 0;
  }

  /// The whole chain where its bias is one in whole units, or nearly that for a sum that is quantized; or all but its
  /// last node; else the bias is added afterwards.
  bool to_float() {
    const auto as_integer = [&](const Stage &stage, double gain) {
      return find_multiplier(stage, 1) && find_bias(stage, gain);
    };
    const size_t last = chain_.size() - 1;
    const double gain = gain_of_sum(chain_[last].value);
    if (gain > 0 && as_integer(chain_[last], gain)) return put_float(chain_[last]);
    if (as_integer(chain_[last], 0)) return put_float(chain_[last]);
    if (last > 0 && as_integer(chain_[last - 1], 0)) return put_float(chain_[last - 1]);
    for (size_t s = chain_.size(); s-- > 0;) {
      Stage plain = chain_[s];
      const std::vector<double> summand = std::exchange(plain.affine.summand, std::vector<double>(channels_, 0));
      if (as_integer(plain, 0)) return put_float(plain, summand);
    }
    return miss("its sums may not fit 32 bits");
  }

  bool put_float(const Stage &stage, const std::vector<double> &summand = {}) {
    Node out = product({}, Dtype::F32, 0);
    if (summand.empty()) {
      walk_.add(out.op, std::move(out.inputs), std::move(out.attrs), n_.source, n_.output);
    } else {
      const ValueId y = walk_.add(out.op, std::move(out.inputs), std::move(out.attrs), n_.source);
      Shape wide(graph_[y].shape.size() - axis_, 1);
      wide[0] = static_cast<int64_t>(channels_);
      const ValueId bias = walk_.constant(make_f32(wide, std::vector<float>(summand.begin(), summand.end())));
      walk_.add(Op::Binary, {y, bias}, BinaryAttrs{BinaryKind::Add, {}}, n_.source, n_.output);
    }
    walk_.drop(stage.absorbed, n_.source);
    return true;
  }

  IntegerWalk &walk_;
  Graph &graph_;
  const Node &n_;
  size_t axis_ = 0;  // of the result, where its channels are
  size_t channels_ = 0;
  Integers x_;
  Weights w_;
  std::vector<Stage> chain_;
  std::vector<float> multiplier_;
  std::vector<int32_t> bias_;
};

}  // namespace

bool fuse_product(IntegerWalk &walk, size_t i) {
  const Op op = walk.nodes[i].op;
  return (op == Op::Conv || op == Op::MatMul) && Fusion(walk, i).run();
}

}  // namespace npu::graph
