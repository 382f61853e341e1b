// SPDX-License-Identifier: MIT
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "uapi/hw/asm/assembler.h"
#include "uapi/hw/asm/tables.h"

namespace npu::assembly {
namespace {

using hw::FieldType;

uint64_t bits_at(const CommandBytes &bytes, size_t offset, unsigned size) {
  uint64_t bits = 0;
  for (unsigned i = 0; i < size; ++i) bits |= uint64_t{bytes[offset + i]} << 8 * i;
  return bits;
}

std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

// The shortest decimal that reads back as the same float; bits where there is none.
std::string float_text(uint64_t bits) {
  const auto word = static_cast<uint32_t>(bits);
  float value;
  std::memcpy(&value, &word, sizeof value);
  if (!std::isfinite(value)) return hex(word);
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

std::string flags_text(const NamedField &f, uint64_t bits) {
  std::string text;
  for (const hw::EnumValue &v : f.field.values)
    if (bits & v.value) {
      text += (text.empty() ? "" : "|") + lower(v.name);
      bits &= ~v.value;
    }
  if (bits) text += (text.empty() ? "" : "|") + hex(bits);
  return text;
}

// Addresses read best in hexadecimal, everything else in decimal.
bool is_address(std::string_view name) {
  return name.ends_with("_addr") || name.ends_with("_offset") || name.ends_with("_region") || name == "value";
}

std::string value_text(const NamedField &f, uint64_t bits) {
  if (f.is_flags) return flags_text(f, bits);
  if (f.field.type == FieldType::F32) return float_text(bits);
  for (const hw::EnumValue &v : f.field.values)
    if (v.value == bits) return lower(v.name);
  if (f.field.type == FieldType::S32) return std::to_string(static_cast<int32_t>(static_cast<uint32_t>(bits)));
  return is_address(f.field.name) ? hex(bits) : std::to_string(bits);
}

// " name=value", or nothing for a field of zeroes without a name for zero.
std::string field_text(const NamedField &f, const CommandBytes &bytes) {
  const unsigned size = hw::field_bytes(f.field.type);
  bool zero = true;
  for (unsigned i = 0; i < f.field.count; ++i) zero &= bits_at(bytes, f.field.offset + i * size, size) == 0;
  const bool is_operation = f.field.name == "subop" && !f.field.values.empty();
  if (zero && !is_operation) return "";
  std::string text = " " + std::string(f.field.name) + "=";
  if (f.field.count == 1) return text + value_text(f, bits_at(bytes, f.field.offset, size));
  for (unsigned i = 0; i < f.field.count; ++i)
    text += (i ? "," : "[") + value_text(f, bits_at(bytes, f.field.offset + i * size, size));
  return text + "]";
}

}  // namespace

std::string disassemble(const CommandBytes &command, bool &exact) {
  const hw::Command *description = hw::find_command(command[0]);
  if (!description) {
    exact = false;
    return "# unknown opcode " + hex(command[0]);
  }
  std::string text = lower(description->name);
  for (const NamedField &f : named_fields(*description)) text += field_text(f, command);
  uint8_t bytes[NPU_CMD_BYTES];
  std::memcpy(bytes, command.data(), sizeof bytes);
  const int reserved = hw::find_reserved_byte(*description, bytes);
  if (reserved >= 0) {
    exact = false;
    text += "  # reserved byte " + std::to_string(reserved) + " is " + hex(bytes[reserved]);
  }
  return text;
}

std::string disassemble(const Program &program, bool &exact) {
  exact = true;
  std::string text;
  const auto stream = [&](const char *name, const std::vector<CommandBytes> &commands) {
    text += name;
    for (const CommandBytes &c : commands) text += "  " + disassemble(c, exact) + "\n";
  };
  for (const CoreStreams &core : program.cores) {
    stream(".tiu\n", core.tiu);
    stream(".gdma\n", core.gdma);
  }
  return text;
}

}  // namespace npu::assembly
