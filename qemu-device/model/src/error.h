// SPDX-License-Identifier: MIT
// How a job fails: the part of a completion entry that says what, where and which command.
#ifndef NPU_MODEL_ERROR_H
#define NPU_MODEL_ERROR_H

#include <cstdint>

#include "npu_regs.h"

namespace npu::model {

/// The reason of a failed job, in the terms of struct npu_cqe.
struct Error {
  uint16_t status = NPU_STATUS_OK;
  uint8_t engine = NPU_ENGINE_NONE;
  uint8_t access = 0;  ///< NPU_ACCESS_ of the failing access, 0: none
  uint32_t command = NPU_COMMAND_NONE;
  uint32_t region = NPU_REGION_NONE;
  uint32_t bytes = 0;
  uint64_t offset = 0;
  uint64_t fault_addr = 0;

  explicit operator bool() const { return status != NPU_STATUS_OK; }
};

/// A failed access to memory: status PAGE_FAULT, PAGE_ACCESS or DMA_ERROR and the virtual address.
struct Fault {
  uint16_t status = NPU_STATUS_OK;
  bool write = false;
  uint64_t addr = 0;

  explicit operator bool() const { return status != NPU_STATUS_OK; }
};

/// Why a running job has to end early. Later ones override earlier ones.
enum class Stop : uint8_t {
  None,
  Aborted,    ///< ABORT_JOB: completes with ABORTED
  CoreReset,  ///< CORE_RESET: completes with CORE_RESET
  Drop,       ///< queue disable, device reset, end of the model: no completion
};

/// Size field of a completion entry: 32 bits, saturated.
constexpr uint32_t saturate32(uint64_t bytes) {
  return bytes > 0xffffffffu ? 0xffffffffu : static_cast<uint32_t>(bytes);
}

}  // namespace npu::model

#endif  // NPU_MODEL_ERROR_H
