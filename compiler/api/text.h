// SPDX-License-Identifier: MIT
// Commands as text, in the form of docs/reference/hardware.md section 6.2.
#ifndef NPU_COMPILER_TEXT_H
#define NPU_COMPILER_TEXT_H

#include <cstdint>
#include <span>
#include <string>

namespace npu::compiler {

/// One command a line, ".tiu" and ".gdma" in front of the streams, the layer's name as a comment where it changes.
std::string disassemble(std::span<const uint8_t> tiu, std::span<const uint8_t> gdma,
                        std::span<const std::string> layers);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_TEXT_H
