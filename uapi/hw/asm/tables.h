// SPDX-License-Identifier: MIT
// What assembler and disassembler share: the fields that every command has, in the form of the generated tables.
#ifndef NPU_HW_ASM_TABLES_H
#define NPU_HW_ASM_TABLES_H

#include <string>
#include <vector>

#include "npu_isa.hpp"

namespace npu::assembly {

/// A field as it can be named in text. Flags are a set of names, other fields one of them.
struct NamedField {
  hw::Field field;
  bool is_flags;
};

/// All fields of a command but its opcode, in the order in which they are printed.
inline std::vector<NamedField> named_fields(const hw::Command &command) {
  std::vector<NamedField> fields;
  fields.push_back({{"subop", offsetof(npu_cmd, subop), hw::FieldType::U8, 1, command.subops}, false});
  for (const hw::Field &f : command.fields) fields.push_back({f, false});
  fields.push_back({{"flags", offsetof(npu_cmd, flags), hw::FieldType::U16, 1, command.flags}, true});
  fields.push_back({{"wait", offsetof(npu_cmd, wait), hw::FieldType::U32, 1, {}}, false});
  fields.push_back({{"layer", offsetof(npu_cmd, layer), hw::FieldType::U32, 1, {}}, false});
  return fields;
}

inline std::string lower(std::string_view s) {
  std::string result(s);
  for (char &c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

}  // namespace npu::assembly

#endif  // NPU_HW_ASM_TABLES_H
