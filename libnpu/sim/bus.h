// SPDX-License-Identifier: MIT
// System memory as the card sees it: bus addresses, each access checked against what is attached. Thread-safe.
#ifndef NPU_SIM_BUS_H
#define NPU_SIM_BUS_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <shared_mutex>

#include "libnpu/sim/ranges.h"

namespace npu::sim {

class Bus {
 public:
  Bus();

  /// Gives host memory a bus address (2 MiB aligned for large pieces, so that block entries can map it); 0 when the bus
  /// is full.
  uint64_t attach(void *host, uint64_t bytes);
  /// When it returns no access to the memory is in progress and none begins.
  void detach(uint64_t address);

  /// 0, or -EFAULT when any byte is not attached. Small aligned accesses are atomic word by word, for rings and fences
  /// that the CPU polls.
  int read(uint64_t address, void *to, size_t bytes);
  int write(uint64_t address, const void *from, size_t bytes);

 private:
  struct Piece {
    uint8_t *host;
    uint64_t bytes;
  };
  uint8_t *find(uint64_t address, uint64_t bytes) const;  // under mutex_

  std::shared_mutex mutex_;
  std::map<uint64_t, Piece> pieces_;  // under mutex_
  Ranges addresses_;                  // under mutex_
};

}  // namespace npu::sim

#endif  // NPU_SIM_BUS_H
