// SPDX-License-Identifier: MIT
// BAR0: which access means what. docs/reference/hardware.md section 2.
#ifndef NPU_MODEL_REGISTERS_H
#define NPU_MODEL_REGISTERS_H

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "qemu-device/model/src/chip.h"

namespace npu::model {

class Registers {
 public:
  explicit Registers(Chip &chip);

  uint64_t read(uint64_t offset, unsigned size);
  void write(uint64_t offset, uint64_t value, unsigned size);

  /// For an archive: halves that wait.
  void visit_state(Archive &a);

 private:
  Chip &chip_;
  /// Low halves of 64-bit registers that wait for their high halves, by offset / 4 below the doorbells.
  std::unique_ptr<std::atomic<uint32_t>[]> low_;
};

}  // namespace npu::model

#endif  // NPU_MODEL_REGISTERS_H
