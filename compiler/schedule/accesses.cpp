// SPDX-License-Identifier: MIT
#include "compiler/schedule/accesses.h"

#include "npu_isa.hpp"

namespace npu::compiler {

namespace {

std::vector<hw::OperandShape> operands_of(const Command &command) {
  hw::OperandList operands;
  std::visit(
      [&](const auto &c) {
        if constexpr (!kIsSemaphore<std::decay_t<decltype(c)>>) hw::operands_detail::describe(c, operands);
      },
      command.body);
  std::vector<hw::OperandShape> used;
  for (const hw::OperandShape &o : operands)
    if (o.used) used.push_back(o);
  return used;
}

Access hull_of(const hw::OperandShape &o) {
  const hw::OperandShape::Hull hull = o.hull();
  const auto low = static_cast<int64_t>(hull.low);
  return {o.region, o.write, low, low + static_cast<int64_t>(hull.bytes)};
}

/// Adds the runs of an operand from its step `s` on.
void add_runs(const hw::OperandShape &o, unsigned s, unsigned inner, int64_t at, int64_t run,
              std::vector<Access> &list) {
  if (s == inner) {
    list.push_back({o.region, o.write, at, at + run});
    return;
  }
  for (uint64_t i = 0; i < o.step[s].count; ++i)
    add_runs(o, s + 1, inner, at + static_cast<int64_t>(i) * o.step[s].stride * o.size, run, list);
}

}  // namespace

std::vector<Access> accesses_of(const Command &command) {
  std::vector<Access> list;
  for (const hw::OperandShape &o : operands_of(command)) list.push_back(hull_of(o));
  const Meeting &m = command.meeting;
  if (m.exchange >= 0) list.push_back({m.region, command.is_wait(), m.low, m.high});
  return list;
}

std::vector<Access> runs_of(const Command &command, uint8_t region) {
  std::vector<Access> list;
  for (const hw::OperandShape &o : operands_of(command)) {
    if (o.region != region) continue;
    // The innermost steps are one run.
    unsigned inner = o.steps;
    int64_t run = 1;
    while (inner > 0 && (o.step[inner - 1].count == 1 || o.step[inner - 1].stride == run))
      run *= static_cast<int64_t>(o.step[--inner].count);
    add_runs(o, 0, inner, static_cast<int64_t>(o.offset), run * o.size, list);
  }
  return list;
}

}  // namespace npu::compiler
