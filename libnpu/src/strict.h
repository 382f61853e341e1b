// SPDX-License-Identifier: MIT
// NPU_CACHE=strict: a cache between program and chip that nothing but flush and invalidate keeps coherent, so that a
// forgotten call shows on hosts whose caches are. It stands in front of any transport: mappings are copies of the
// memory (shadow.h), and what was forgotten is told with buffer, offset and command.
#ifndef NPU_STRICT_H
#define NPU_STRICT_H

#include "libnpu/src/internal.h"

namespace npu {

/// What NPU_CACHE=coherent|strict says; -EINVAL with a text in npu_last_error().
int cache_choice(bool *strict);

/// Puts the cache in front of a file, which it owns from then on: afterwards device->transport and device->file are the
/// cache's.
void make_strict(npu_device *device);

}  // namespace npu

#endif  // NPU_STRICT_H
