// SPDX-License-Identifier: MIT
// One of the devices of a runtime.
#ifndef NPURT_CARD_H
#define NPURT_CARD_H

#include <memory>

#include "npu_bm_internal.h"
#include "runtime/launch/model/io_memory.h"
#include "runtime/launch/trace/trace.h"

namespace npurt {

class Converter;

/// The room that launches owns the converter; the others only carry it.
struct ConverterDelete {
  void operator()(Converter *converter) const;
};

struct Card {
  bm_handle_t handle = nullptr;  ///< referenced by the runtime
  npu_device *device = nullptr;
  uint32_t cores = 0;
  std::unique_ptr<Tracing> tracing;
  std::unique_ptr<Converter, ConverterDelete> converter;
  std::unique_ptr<SharedIo> shared_io;
};

}  // namespace npurt

#endif  // NPURT_CARD_H
