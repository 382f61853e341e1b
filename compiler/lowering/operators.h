// SPDX-License-Identifier: MIT
// The operators that kernels make commands of, one struct each. What they compute on are views of storages; what they
// multiply with may be a constant, which has no storage: kernels store it in the form of their commands.
//
// Each struct has each_input(), which calls f for all views that it reads: who reorders operators or places storages
// needs to know no more.
#ifndef NPU_COMPILER_OPERATORS_H
#define NPU_COMPILER_OPERATORS_H

#include <array>
#include <concepts>
#include <optional>
#include <variant>

#include "compiler/graph/ir.h"
#include "compiler/lowering/view.h"

namespace npu::compiler {

/// What a convolution or matrix product multiplies with: a constant, or what the network makes or gets.
using Weights = std::variant<graph::TensorPtr, View>;

struct ConvOp {
  static constexpr const char *kName = "Conv";
  View input;                   ///< [n, h, w, c]
  std::optional<View> addend;   ///< shaped like the result: added to it before the activation
  Weights weights;              ///< constant [oc][c of a group][kh][kw], or view [oc, kh, kw, c of a group]
  graph::TensorPtr bias;        ///< [oc], or null
  graph::TensorPtr multiplier;  ///< [oc] of integers, or null
  graph::Window window;
  int64_t groups = 1;
  graph::Activation act;
  graph::ProductQuant quant;

  template <class Self, class F>
  static void each_input(Self &op, F f) {
    f(op.input);
    if (op.addend) f(*op.addend);
    if (auto *made = std::get_if<View>(&op.weights)) f(*made);
  }
};

struct MatMulOp {
  static constexpr const char *kName = "MatMul";
  View a;                       ///< [batch, m, k]
  Weights b;                    ///< constant [k][n], or view [batch, k, n]
  graph::TensorPtr bias;        ///< [n], or null
  graph::TensorPtr multiplier;  ///< [n] of integers, or null
  graph::Activation act;
  graph::ProductQuant quant;

  template <class Self, class F>
  static void each_input(Self &op, F f) {
    f(op.a);
    if (auto *made = std::get_if<View>(&op.b)) f(*made);
  }
};

struct PoolOp {
  static constexpr const char *kName = "Pool";
  View input;  ///< [n, h, w, c]
  graph::Window window;
  bool max = true;
  bool count_pad = false;                    ///< of an average: padding counts in the divisor
  std::array<int64_t, 2> counted_end{0, 0};  ///< so much of that at the end
  graph::Quant in_quant, out_quant;

  template <class Self, class F>
  static void each_input(Self &op, F f) {
    f(op.input);
  }
};

struct BinaryOp {
  static constexpr const char *kName = "Binary";
  graph::BinaryKind kind = graph::BinaryKind::Add;
  View a;                       ///< shaped like the result; strides of 0 broadcast
  std::variant<View, float> b;  ///< the same, or one number
  graph::Activation act;
  graph::Quant a_quant, b_quant, out_quant;

  template <class Self, class F>
  static void each_input(Self &op, F f) {
    f(op.a);
    if (auto *b = std::get_if<View>(&op.b)) f(*b);
  }
};

struct UnaryOp {
  static constexpr const char *kName = "Unary";
  View input;  ///< shaped like the result
  graph::Activation act;

  template <class Self, class F>
  static void each_input(Self &op, F f) {
    f(op.input);
  }
};

struct SoftmaxOp {
  static constexpr const char *kName = "Softmax";
  View input;  ///< shaped like the result; a row is the last dimension
  bool log = false;
  graph::Quant in_quant, out_quant;

  template <class Self, class F>
  static void each_input(Self &op, F f) {
    f(op.input);
  }
};

/// The same numbers in another type, or with another scale and zero point.
struct RequantOp {
  static constexpr const char *kName = "Requant";
  View input;  ///< shaped like the result
  graph::Quant in_quant, out_quant;
  graph::Activation act;

  template <class Self, class F>
  static void each_input(Self &op, F f) {
    f(op.input);
  }
};

struct LookupOp {
  static constexpr const char *kName = "Lookup";
  View input;  ///< of 8 bits, shaped like the result
  graph::TensorPtr table;

  template <class Self, class F>
  static void each_input(Self &op, F f) {
    f(op.input);
  }
};

struct CopyOp {
  static constexpr const char *kName = "Copy";
  View input;  ///< shaped like the result

  template <class Self, class F>
  static void each_input(Self &op, F f) {
    f(op.input);
  }
};

struct FillOp {
  static constexpr const char *kName = "Fill";
  float value = 0;

  template <class Self, class F>
  static void each_input(Self &, F) {}
};

/// Pointers to the views that an operator reads, in the order of its fields.
template <class V>
class ViewList {
 public:
  void add(V &v) { views_[size_++] = &v; }
  size_t size() const { return size_; }
  V *operator[](size_t i) const { return views_[i]; }
  V *const *begin() const { return views_.data(); }
  V *const *end() const { return views_.data() + size_; }

 private:
  std::array<V *, 3> views_{};  // a convolution's are the most
  size_t size_ = 0;
};

/// Alternatives for std::visit. Together they name every kind, so that a new kind compiles only where somebody has
/// thought of it.
template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;  // clang 14 does not find it by itself
template <class Op, class... Kinds>
concept OneOf = (std::same_as<Op, Kinds> || ...);

struct LoweredOp {
  using Body =
      std::variant<ConvOp, MatMulOp, PoolOp, BinaryOp, UnaryOp, SoftmaxOp, CopyOp, FillOp, RequantOp, LookupOp>;

  int source = 0;  ///< index in Graph::sources: the layer tag
  View out;        ///< Conv, Pool: [n, h, w, c]; MatMul: [batch, m, n]
  Body body;

  /// All that it reads. Valid as long as the operator stays where it is.
  ViewList<View> inputs() { return inputs_of<View>(body); }
  ViewList<const View> inputs() const { return inputs_of<const View>(body); }

  template <class Op>
  Op *as() {
    return std::get_if<Op>(&body);
  }
  template <class Op>
  const Op *as() const {
    return std::get_if<Op>(&body);
  }
  const char *name() const {
    return std::visit([](const auto &op) { return op.kName; }, body);
  }

 private:
  template <class V, class AnyBody>
  static ViewList<V> inputs_of(AnyBody &body) {
    ViewList<V> list;
    std::visit([&](auto &op) { op.each_input(op, [&](V &v) { list.add(v); }); }, body);
    return list;
  }
};

/// Weights that are a constant; else null.
inline graph::TensorPtr constant_of(const Weights &weights) {
  const auto *tensor = std::get_if<graph::TensorPtr>(&weights);
  return tensor ? *tensor : nullptr;
}

/// The constants that an operator's kernel stores, null where it has none.
struct OpConstants {
  graph::TensorPtr weights, bias, multiplier;

  std::array<graph::TensorPtr, 3> all() const { return {weights, bias, multiplier}; }
};
OpConstants constants_of(const LoweredOp &op);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_OPERATORS_H
