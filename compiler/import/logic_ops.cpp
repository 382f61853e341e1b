// SPDX-License-Identifier: MIT
// Truth values, bits and comparisons, element by element.
#include "compiler/import/eltwise.h"

namespace npu::graph {
namespace {

/// a > b is b < a.
template <BinaryKind kind>
Status swapped(OpContext &c) {
  return binary_operator(c, kind, true);
}

template <ActKind kind>
Status unary(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  return c.unary(kind, c.in(0), c.results[0]);
}

Status is_inf(OpContext &c) {
  NPU_TRY(c.need_inputs(1, 1));
  const float positive = c.attr_i("detect_positive", 1) ? 1.0f : 0.0f;
  const float negative = c.attr_i("detect_negative", 1) ? 1.0f : 0.0f;
  return c.unary(ActKind::IsInf, c.in(0), c.results[0], positive, negative);
}

Status where(OpContext &c) {
  NPU_TRY(c.need_inputs(3, 3));
  return c.where(c.in(0), c.in(1), c.in(2), c.results[0]);
}

constexpr OpEntry kLogicOps[] = {
    {"And", binary<BinaryKind::And>},
    {"BitwiseAnd", binary<BinaryKind::And>},
    {"BitwiseNot", unary<ActKind::Not>},
    {"BitwiseOr", binary<BinaryKind::Or>},
    {"BitwiseXor", binary<BinaryKind::Xor>},
    {"Equal", binary<BinaryKind::Equal>},
    {"Greater", swapped<BinaryKind::Less>},
    {"GreaterOrEqual", swapped<BinaryKind::LessOrEqual>},
    {"IsInf", is_inf},
    {"IsNaN", unary<ActKind::IsNan>},
    {"Less", binary<BinaryKind::Less>},
    {"LessOrEqual", binary<BinaryKind::LessOrEqual>},
    {"Not", unary<ActKind::Not>},
    {"Or", binary<BinaryKind::Or>},
    {"Where", where},
    {"Xor", binary<BinaryKind::Xor>},
};

}  // namespace

std::span<const OpEntry> logic_ops() { return kLogicOps; }

}  // namespace npu::graph
