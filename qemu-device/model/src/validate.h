// SPDX-License-Identifier: MIT
// Checks of a command before it has any effect: docs/hardware.md sections 5.2 and 6.1.
#ifndef NPU_MODEL_VALIDATE_H
#define NPU_MODEL_VALIDATE_H

#include <cstdint>

#include "error.h"
#include "job.h"
#include "npu_isa.h"

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

/// Operands have fixed places, in the order of their fields.
struct Operands {
  enum Place : unsigned {
    kIn = 0,
    kOut = 1,
    kPsum = 2,
    kWeights = 3,
    kParam = 4,  // CONV, MATMUL; POOL, UNARY, SOFTMAX: the first two
    kA = 0,
    kB = 1,
    kResult = 2,  // ELTWISE
    kSrc = 0,
    kDst = 1,  // COPY, FILL
    kCount = 5,
  };
  Operand at[kCount];
};

/// Checks a command of an engine (NPU_ENGINE_) against the job and the size of local memory, and finds its operands.
/// The error lacks engine and command.
Error check_command(const Command &command, unsigned engine, const Job &job, uint32_t lmem_bytes, Operands &operands);

}  // namespace npu::model

#endif  // NPU_MODEL_VALIDATE_H
