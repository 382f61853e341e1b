// SPDX-License-Identifier: MIT
#include "compiler/schedule/accesses.h"

#include "npu_isa.hpp"

namespace npu::compiler {

std::vector<Access> accesses_of(const CommandBody &command) {
  hw::OperandList operands;
  std::visit([&](const auto &c) { hw::operands_detail::describe(c, operands); }, command);
  std::vector<Access> list;
  for (const hw::OperandShape &o : operands) {
    if (!o.used) continue;
    const hw::OperandShape::Hull hull = o.hull();
    const auto low = static_cast<int64_t>(hull.low);
    list.push_back({o.region, o.write, low, low + static_cast<int64_t>(hull.bytes)});
  }
  return list;
}

}  // namespace npu::compiler
