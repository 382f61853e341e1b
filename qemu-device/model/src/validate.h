// SPDX-License-Identifier: MIT
// Checks of a command before it has any effect: docs/reference/hardware.md sections 5.2 and 6.1.
#ifndef NPU_MODEL_VALIDATE_H
#define NPU_MODEL_VALIDATE_H

#include <cstdint>

#include "npu_isa.hpp"
#include "qemu-device/model/src/error.h"
#include "qemu-device/model/src/job.h"

namespace npu::model {

/// A private copy of a command.
struct alignas(16) Command {
  uint8_t bytes[NPU_CMD_BYTES];

  const npu_cmd &head() const { return *reinterpret_cast<const npu_cmd *>(bytes); }
};

/// The byte range that an operand of a command spans.
struct Operand {
  bool used = false;
  bool write = false;
  uint8_t region = 0;  ///< NPU_REGION_LOCAL: local memory
  uint8_t align = 1;   ///< element size, for local addresses
  uint64_t offset = 0;
  uint64_t bytes = 0;

  bool local() const { return region == NPU_REGION_LOCAL; }
};

/// The operands of a command in their places.
struct Operands : hw::OperandPlaces {
  Operand at[kCount];
};

/// Checks a command of an engine (NPU_ENGINE_) against the job and the size of local memory, and finds its operands.
/// The error lacks engine and command.
Error check_command(const Command &command, unsigned engine, const Job &job, uint32_t lmem_bytes, Operands &operands);

}  // namespace npu::model

#endif  // NPU_MODEL_VALIDATE_H
