// SPDX-License-Identifier: MIT
#include "runtime/launch/trace/traced_code.h"

#include <algorithm>
#include <cstring>

#include "npu_cost.hpp"

namespace npurt {

namespace {

constexpr std::string_view kSizes[] = {"n",    "ih",   "iw",     "ic",    "oc",    "oh",  "ow",    "c",
                                       "kh",   "kw",   "groups", "sh",    "sw",    "m",   "batch", "k",
                                       "rows", "cols", "count",  "outer", "inner", "dims"};

bool is_size(const npu::hw::Field &field) {
  return std::find(std::begin(kSizes), std::end(kSizes), field.name) != std::end(kSizes);
}

bool is_type(const npu::hw::Field &field) { return field.name.ends_with("dtype"); }

uint64_t value_of(const npu::hw::Field &field, const uint8_t *command, unsigned index) {
  const unsigned bytes = npu::hw::field_bytes(field.type);
  uint64_t value = 0;
  std::memcpy(&value, command + field.offset + index * bytes, bytes);
  return value;
}

std::string text_of(const npu::hw::Field &field, const uint8_t *command) {
  if (field.count == 1) return std::to_string(value_of(field, command, 0));
  std::string out = "[";
  for (unsigned i = 0; i < field.count; ++i) out += (i ? "," : "") + std::to_string(value_of(field, command, i));
  return out + "]";
}

}  // namespace

const uint8_t *TracedCode::find(size_t stream, const npu_profile &r) const {
  if (stream >= streams.size()) return nullptr;
  const drm_npu_stream &s = streams[stream];
  const bool gdma = r.engine == NPU_ENGINE_GDMA;
  if (r.command >= (gdma ? s.gdma_count : s.tiu_count)) return nullptr;
  const uint64_t at = (gdma ? s.gdma_offset : s.tiu_offset) + uint64_t{r.command} * NPU_CMD_BYTES;
  if (at + NPU_CMD_BYTES > bytes.size()) return nullptr;
  npu_cmd head;
  std::memcpy(&head, bytes.data() + at, sizeof head);
  return head.opcode == r.opcode && head.layer == r.layer ? bytes.data() + at : nullptr;
}

std::string command_shape(const uint8_t *command) {
  const npu::hw::Command *const known = npu::hw::find_command(command[0]);
  std::string out;
  for (const npu::hw::Field &field : known ? known->fields : std::span<const npu::hw::Field>())
    if (is_size(field)) out += (out.empty() ? "" : " ") + std::string(field.name) + "=" + text_of(field, command);
  return out;
}

std::string command_types(const uint8_t *command) {
  const npu::hw::Command *const known = npu::hw::find_command(command[0]);
  std::vector<std::string_view> names;
  for (const npu::hw::Field &field : known ? known->fields : std::span<const npu::hw::Field>()) {
    if (!is_type(field)) continue;
    for (const npu::hw::EnumValue &v : field.values)
      if (v.value == value_of(field, command, 0) && std::find(names.begin(), names.end(), v.name) == names.end())
        names.push_back(v.name);
  }
  std::string out;
  for (const std::string_view name : names) out += (out.empty() ? "" : ", ") + std::string(name);
  return out;
}

double most_macs(const uint8_t *command) {
  constexpr npu::hw::CostParams chip;
  const npu::hw::Command *const known = npu::hw::find_command(command[0]);
  if (!known || (known->opcode != NPU_OP_CONV && known->opcode != NPU_OP_MATMUL)) return 0;
  for (const npu::hw::Field &field : known->fields)
    if (field.name == "in_dtype")
      return static_cast<double>(chip.mac_ic) * chip.mac_oc * chip.mac_pixels *
             chip.rate(static_cast<uint8_t>(value_of(field, command, 0)));
  return 0;
}

}  // namespace npurt
