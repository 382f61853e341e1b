// SPDX-License-Identifier: MIT
// Text form of commands (docs/reference/hardware.md, section 6.2), driven by the tables of npu_isa.hpp. Functions keep
// no state, may be called from any thread and throw nothing but std::bad_alloc.
//
// Beyond that section: names are not case sensitive; several flags are joined by '|' (flags=bias|psum_in); a
// hexadecimal value of an f32 field gives its bits; illegal values that fit their field are accepted, so that tests of
// the chip's checks can be written.
#ifndef NPU_HW_ASM_ASSEMBLER_H
#define NPU_HW_ASM_ASSEMBLER_H

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "npu_isa.h"

namespace npu::assembly {

using CommandBytes = std::array<uint8_t, NPU_CMD_BYTES>;

struct CoreStreams {
  std::vector<CommandBytes> tiu, gdma;
  bool operator==(const CoreStreams &) const = default;
};

/// The streams of each core, from core 0 on.
struct Program {
  std::vector<CoreStreams> cores;
  bool operator==(const Program &) const = default;
};

/// Where the text is wrong, counted from 1, and what was expected there.
struct Error {
  unsigned line, column;
  std::string message;
};

/// Replaces `program`; on an error it is empty.
std::optional<Error> assemble(std::string_view text, Program &program);

/// One command as a line without its end. `exact` becomes false where the bytes say more than the text can (unknown
/// opcode, reserved bytes); a comment in the line then tells what.
std::string disassemble(const CommandBytes &command, bool &exact);
std::string disassemble(const Program &program, bool &exact);

/// A program as a file: a job descriptor without regions, then, at the next multiple of NPU_CMD_BYTES, all commands.
/// The streams' offsets count from the first command.
std::vector<uint8_t> to_file(const Program &program);
/// Returns what is wrong with the file.
std::optional<std::string> from_file(const std::vector<uint8_t> &file, Program &program);

}  // namespace npu::assembly

#endif  // NPU_HW_ASM_ASSEMBLER_H
