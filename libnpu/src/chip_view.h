// SPDX-License-Identifier: MIT
// The little that libnpu knows of the chip itself: the fence page, fault codes, and the commands of the copy engine.
#ifndef NPU_CHIP_VIEW_H
#define NPU_CHIP_VIEW_H

#include <npu_accel.h>

#include <cstddef>
#include <cstdint>

namespace npu {

/// A fence page as it stands. A job that ended later may be changing it: see npu_wait().
struct FenceView {
  uint64_t seqno;
  uint64_t cycles;
  bool ok;  ///< that job ended without error
};
FenceView read_fence_page(const void *page);

/// One line about a fault, returns the length as snprintf does.
int fault_text(const drm_npu_fault &fault, char *text, size_t bytes);

// Commands; regions by number.
constexpr size_t kCommandBytes = 128;
/// bytes below 2^32.
void encode_copy(void *command, uint8_t dst_region, uint64_t dst_offset, uint8_t src_region, uint64_t src_offset,
                 uint64_t bytes);
/// value_bytes 1, 2, 4 or 8; count below 2^32.
void encode_fill(void *command, uint8_t dst_region, uint64_t dst_offset, uint64_t value, unsigned int value_bytes,
                 uint64_t count);
/// Whether a command is a COPY from this region, and the span of its source has this offset of it.
bool copy_reads(const void *command, uint32_t region, uint64_t offset);

}  // namespace npu

#endif  // NPU_CHIP_VIEW_H
