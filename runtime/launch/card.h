// SPDX-License-Identifier: MIT
// One of the devices of a runtime.
#ifndef NPURT_CARD_H
#define NPURT_CARD_H

#include <memory>

#include "convert.h"
#include "io_memory.h"
#include "npu_bm_internal.h"
#include "trace.h"

namespace npurt {

struct Card {
  bm_handle_t handle = nullptr;  ///< referenced by the runtime
  npu_device *device = nullptr;
  uint32_t cores = 0;
  std::unique_ptr<Tracing> tracing;
  std::unique_ptr<Converter> converter;
  std::unique_ptr<SharedIo> shared_io;
};

}  // namespace npurt

#endif  // NPURT_CARD_H
