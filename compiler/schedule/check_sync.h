// SPDX-License-Identifier: MIT
// The synchronisation checker: finds accesses of the two engines to the same bytes, at least one of them a write, that
// no wait orders. It works from the encoded streams alone and shares nothing with the scheduler but the footprint of a
// command.
#ifndef NPU_COMPILER_CHECK_SYNC_H
#define NPU_COMPILER_CHECK_SYNC_H

#include <cstdint>
#include <span>

#include "common/status.h"

namespace npu::compiler {

/// Streams of 128-byte commands. The error names both commands and the bytes. Also fails where the engines would wait
/// for each other for ever.
Status check_sync(std::span<const uint8_t> tiu, std::span<const uint8_t> gdma);

}  // namespace npu::compiler

#endif  // NPU_COMPILER_CHECK_SYNC_H
