// SPDX-License-Identifier: MIT
// The tensor unit: finds the operands of checked commands and hands them to the arithmetic.
#ifndef NPU_MODEL_TIU_H
#define NPU_MODEL_TIU_H

#include "backend.h"
#include "gdma.h"
#include "job.h"
#include "memory.h"
#include "validate.h"

namespace npu::model {

class Tiu {
 public:
  Tiu(Memory &memory, LocalMemory &local, Backend &backend) : memory_(memory), local_(local), backend_(backend) {}

  Outcome run(const Command &command, const Operands &ops, const Job &job, const Pace &pace);
  /// Gives large buffers back.
  void trim() {
    weights_.trim();
    bias_.trim();
  }

 private:
  struct Source;

  template <class Cmd>
  Outcome product(const Cmd &c, const Operands &ops, const Job &job, const Pace &pace,
                  bool (Backend::*run)(const Cmd &, const void *, const Streamed &, const void *, const void *,
                                       void *));
  void pointwise(const Command &command);
  static const void *fetch(void *source);
  void *at(const Operand &o) { return o.used ? local_.at(o.offset) : nullptr; }

  Memory &memory_;
  LocalMemory &local_;
  Backend &backend_;
  Buffer weights_;
  Buffer bias_;
};

}  // namespace npu::model

#endif  // NPU_MODEL_TIU_H
