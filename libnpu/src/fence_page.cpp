// SPDX-License-Identifier: MIT
#include <npu_regs.h>

#include "libnpu/src/chip_view.h"

namespace npu {

FenceView read_fence_page(const void *page) {
  const auto *fence = static_cast<const npu_fence *>(page);
  FenceView view;
  view.seqno = __atomic_load_n(&fence->seqno, __ATOMIC_ACQUIRE);
  view.cycles = __atomic_load_n(&fence->cycles, __ATOMIC_ACQUIRE);
  // status shares its word with a reserved field; the chip writes words.
  const auto *word = reinterpret_cast<const uint64_t *>(&fence->status);
  view.ok = static_cast<uint32_t>(__atomic_load_n(word, __ATOMIC_ACQUIRE)) == NPU_STATUS_OK;
  return view;
}

}  // namespace npu
