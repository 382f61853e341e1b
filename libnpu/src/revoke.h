// SPDX-License-Identifier: MIT
#ifndef NPU_REVOKE_H
#define NPU_REVOKE_H

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace npu {

/// From now on an access to the mapping is SIGBUS; false if that is impossible.
inline bool revoke(void *mapping, uint64_t bytes) {
  const int empty = memfd_create("npu-revoked", MFD_CLOEXEC);
  if (empty < 0) return false;
  void *ptr = mmap(mapping, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, empty, 0);
  close(empty);
  return ptr != MAP_FAILED;
}

}  // namespace npu

#endif  // NPU_REVOKE_H
