// SPDX-License-Identifier: MIT
// The synchronisation checker: finds accesses of any two engines of all cores to the same bytes, at least one of them a
// write, that no waits and semaphores order. It works from the encoded streams alone and shares nothing with the
// scheduler but the footprint and the cost of a command.
#ifndef NPU_COMPILER_CHECK_SYNC_H
#define NPU_COMPILER_CHECK_SYNC_H

#include <cstdint>
#include <span>

#include "common/status.h"

namespace npu::compiler {

/// The streams of a core, 128 bytes a command.
struct EncodedCore {
  std::span<const uint8_t> tiu, gdma;
};

/// The error names both commands and the bytes. Also fails where the engines would wait for each other for ever, and
/// where a semaphore is signalled by more than one engine: how far which of them is would not be known. An operand
/// counts with the range that holds it; in the regions `exact`, whose parts several cores write, with its bytes.
Status check_sync(std::span<const EncodedCore> cores, std::span<const uint8_t> exact);
inline Status check_sync(std::span<const uint8_t> tiu, std::span<const uint8_t> gdma) {
  const EncodedCore core{tiu, gdma};
  return check_sync({&core, 1}, std::span<const uint8_t>());
}

}  // namespace npu::compiler

#endif  // NPU_COMPILER_CHECK_SYNC_H
