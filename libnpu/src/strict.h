// SPDX-License-Identifier: MIT
// NPU_CACHE=strict: finds forgotten flushes and invalidations, also on hosts whose caches are coherent. It stands in
// front of any transport. Mappings stay those of the memory, so no result changes; a record beside each (shadow.h)
// holds the bytes that are wrong in a cache which only flush and invalidate keep coherent. Reports name buffer, offset
// and command.
#ifndef NPU_STRICT_H
#define NPU_STRICT_H

#include "libnpu/src/internal.h"

namespace npu {

enum class Cache {
  kCoherent,
  kStrict,  ///< mistakes are reported
  kAbort,   ///< and the first report ends the process
};

/// The choice of the environment's NPU_CACHE; -EINVAL with a text in npu_last_error().
int cache_choice(Cache *cache);

/// Puts the checks in front of a file, which they own from then on: afterwards device->transport and device->file are
/// theirs.
void make_strict(npu_device *device, bool aborts);

}  // namespace npu

#endif  // NPU_STRICT_H
