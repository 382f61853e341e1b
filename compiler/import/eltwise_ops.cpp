// SPDX-License-Identifier: MIT
// Arithmetic, element by element.
#include "compiler/import/eltwise.h"
#include "runtime/cpu/element.h"

namespace npu::graph {

Status second_operand(OpContext &c, ValueId &b) {
  NPU_TRY(c.need_inputs(2, 2));
  b = c.in(1);
  if (c.opset >= 7 || !c.attr_i("broadcast", 0) || !c.has("axis")) return {};
  int axis;
  NPU_TRY(c.axis(c.attr_i("axis", 0), c.rank(0), axis, true));
  Shape shape = c.shape(1);
  if (static_cast<size_t>(axis) + shape.size() > c.shape(0).size())
    return Status::error("operand " + shape_text(shape) + " does not fit at axis " + std::to_string(axis));
  shape.insert(shape.end(), c.shape(0).size() - static_cast<size_t>(axis) - shape.size(), 1);
  return c.reshape(b, shape, b);
}

Status binary_operator(OpContext &c, BinaryKind kind, bool swapped) {
  ValueId a, b;
  NPU_TRY(second_operand(c, b));
  a = c.in(0);
  if (swapped) std::swap(a, b);
  return c.binary(kind, a, b, c.results[0]);
}

namespace {

template <BinaryKind kind>
Status variadic(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1 << 20));
  ValueId y = c.in(0);
  for (size_t k = 1; k < c.input_count(); ++k) {
    if (!c.has_input(k)) return Status::error("input " + std::to_string(k) + " is missing");
    NPU_TRY(c.binary(kind, y, c.in(k), y));
  }
  c.results[0] = y;
  return {};
}

Status mean(OpContext &c) {
  NPU_TRY(variadic<BinaryKind::Add>(c));
  if (c.input_count() == 1) return {};
  return c.binary(BinaryKind::Div, c.results[0], static_cast<double>(c.input_count()), c.results[0]);
}

/// Without fmod the result has the sign of the divisor, and operands are integers.
Status mod(OpContext &c) {
  const bool fmod = c.attr_i("fmod", 0) != 0;
  NPU_TRY(c.need_inputs(2, 2));
  if (!fmod && c.value(0).dtype == Dtype::F32) return Status::error("floating-point operands need fmod=1");
  return binary_operator(c, fmod ? BinaryKind::Fmod : BinaryKind::Mod);
}

Status bit_shift(OpContext &c) {
  const std::string direction = c.attr_s("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    return Status::error("direction is '" + direction + "', 'LEFT' or 'RIGHT' was expected");
  return binary_operator(c, direction == "LEFT" ? BinaryKind::ShiftLeft : BinaryKind::ShiftRight);
}

/// Whether the exponent is one constant number that leaves the shape of the float32 base as it is.
bool fixed_exponent(const Value &base, const Value &exponent, double &value) {
  if (base.dtype != Dtype::F32 || !exponent.constant || exponent.constant->count() != 1 ||
      exponent.shape.size() > base.shape.size())
    return false;
  value = cpu::load(*exponent.constant, 0);
  return true;
}

Status pow(OpContext &c) {
  ValueId b, square;
  NPU_TRY(second_operand(c, b));
  const ValueId x = c.in(0);
  ValueId &y = c.results[0];
  double exponent = 0;
  if (!fixed_exponent(c.graph[x], c.graph[b], exponent)) return c.binary(BinaryKind::Pow, x, b, y);
  if (exponent == -1) return c.unary(ActKind::Reciprocal, x, y);
  if (exponent == -0.5) return c.unary(ActKind::Rsqrt, x, y);
  if (exponent == 0.5) return c.unary(ActKind::Sqrt, x, y);
  if (exponent == 1) {
    y = x;
    return {};
  }
  if (exponent != 2 && exponent != 3) return c.binary(BinaryKind::Pow, x, b, y);
  NPU_TRY(c.binary(BinaryKind::Mul, x, x, square));
  y = square;
  return exponent == 3 ? c.binary(BinaryKind::Mul, square, x, y) : Status();
}

constexpr OpEntry kEltwiseOps[] = {
    {"Add", binary<BinaryKind::Add>},
    {"BitShift", bit_shift},
    {"Div", binary<BinaryKind::Div>},
    {"Max", variadic<BinaryKind::Max>},
    {"Mean", mean},
    {"Min", variadic<BinaryKind::Min>},
    {"Mod", mod},
    {"Mul", binary<BinaryKind::Mul>},
    {"Pow", pow},
    {"Sub", binary<BinaryKind::Sub>},
    {"Sum", variadic<BinaryKind::Add>},
};

}  // namespace

std::span<const OpEntry> eltwise_ops() { return kEltwiseOps; }

}  // namespace npu::graph
