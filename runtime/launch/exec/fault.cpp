// SPDX-License-Identifier: MIT
#include "runtime/launch/exec/fault.h"

#include <cstring>

namespace npurt {

namespace {

std::string region_name(const Unit &unit, uint32_t region) {
  if (region == unit.regions.size()) return "the commands";
  if (region > unit.regions.size()) return {};
  const npu_program_region &r = unit.regions[region];
  switch (r.kind) {
    case NPU_PROGRAM_COEFF:
      return "the coefficients";
    case NPU_PROGRAM_CTX:
      return "activation memory";
    case NPU_PROGRAM_INPUT:
      return "input " + std::to_string(r.index) + " '" + unit.inputs[r.index].name + "'";
    default:
      return "output " + std::to_string(r.index) + " '" + unit.outputs[r.index].name + "'";
  }
}

}  // namespace

Status fault_text(const Unit *unit, const npu_result &result) {
  char text[256];
  npu_describe_fault(&result.fault, text, sizeof text);
  const std::string where = std::string("the job failed: ") + std::strerror(-result.error);
  const std::string name = unit ? region_name(*unit, result.fault.region) : std::string();
  return Status::error(where + ": " + text +
                       (name.empty() ? "" : " (region " + std::to_string(result.fault.region) + " is " + name + ")"));
}

}  // namespace npurt
