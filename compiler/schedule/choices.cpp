// SPDX-License-Identifier: MIT
#include "compiler/schedule/choices.h"

#include <algorithm>
#include <numeric>

namespace npu::compiler {
namespace {

bool touches(const LoweredOp &op, int storage) {
  const ViewList<const View> inputs = op.inputs();
  return op.out.storage == storage ||
         std::any_of(inputs.begin(), inputs.end(), [&](const View *v) { return v->storage == storage; });
}

/// Whole storages are compared: parts of a result keep their order.
bool may_pass(const LoweredOp &op, const LoweredOp &other) {
  return !touches(op, other.out.storage) && !touches(other, op.out.storage);
}

}  // namespace

std::vector<uint32_t> order_of(const Lowered &lowered, const std::vector<Move> &moves) {
  std::vector<uint32_t> order(lowered.ops.size());
  std::iota(order.begin(), order.end(), 0u);
  for (const Move &m : moves) {
    auto at = std::find(order.begin(), order.end(), m.op);
    const auto before = std::find(order.begin(), at, m.before);
    if (at == order.end() || before == at) continue;
    for (; at != before && may_pass(lowered.ops[*at], lowered.ops[*(at - 1)]); --at) std::iter_swap(at, at - 1);
  }
  return order;
}

}  // namespace npu::compiler
