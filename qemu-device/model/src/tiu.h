// SPDX-License-Identifier: MIT
// The tensor unit: finds the operands of checked commands and hands them to the arithmetic.
#ifndef NPU_MODEL_TIU_H
#define NPU_MODEL_TIU_H

#include "qemu-device/model/src/backend.h"
#include "qemu-device/model/src/gdma.h"
#include "qemu-device/model/src/job.h"
#include "qemu-device/model/src/memory.h"
#include "qemu-device/model/src/validate.h"

namespace npu::model {

template <class Cmd>
struct Product;
template <class Cmd>
struct Pointwise;

class Tiu {
 public:
  Tiu(Memory &memory, LocalMemory &local, Backend &backend) : memory_(memory), local_(local), backend_(backend) {}

  /// Runs a command slice by slice, each in an access section of its own. One of any engine does nothing: it acts by
  /// its order alone.
  Outcome run(const Command &command, const Operands &ops, const Job &job, const Pace &pace);
  /// Gives large buffers back.
  void trim();
  /// Those of the calling thread only.
  void trim_thread();

 private:
  struct Source;
  template <class Cmd>
  struct Call;

  Outcome execute(const npu_cmd_conv &c, const Operands &ops, const Job &job, const Pace &pace) {
    return product(c, ops, job, pace);
  }
  Outcome execute(const npu_cmd_matmul &c, const Operands &ops, const Job &job, const Pace &pace) {
    return product(c, ops, job, pace);
  }
  template <class Cmd>
  Outcome execute(const Cmd &c, const Operands &ops, const Job &job, const Pace &pace);
  template <class Cmd>
  Outcome product(const Cmd &c, const Operands &ops, const Job &job, const Pace &pace);
  template <class Cmd>
  Outcome run_slice(const Call<Cmd> &call, const Product<Cmd> &slice, Source &weights, const Source &vectors);
  template <class Cmd>
  void run_slice(const Cmd &c, const Pointwise<Cmd> &slice, const Source &vectors);
  void run_slice(const npu_cmd_eltwise &c, const Pointwise<npu_cmd_eltwise> &slice, const Source &vectors);
  void run_slice(const npu_cmd_select &c, const Pointwise<npu_cmd_select> &slice, const Source &vectors);
  void run_slice(const npu_cmd_norm &c, const Pointwise<npu_cmd_norm> &slice, const Source &vectors);
  void run_slice(const npu_cmd_lut &c, const Pointwise<npu_cmd_lut> &slice, const Source &table);
  void run_slice(const npu_cmd_requant &c, const Pointwise<npu_cmd_requant> &slice, const Source &vectors);
  template <class Cmd>
  bool find_sums(const Call<Cmd> &call, const Product<Cmd> &slice, const void *&psum, void *&out);
  Outcome load_vectors(const Operand &o, const Job &job, Source &vectors);
  static const void *fetch(void *source);
  uint8_t *element(uint32_t addr, uint64_t index, uint64_t size) { return local_.at(addr + index * size); }

  Memory &memory_;
  LocalMemory &local_;
  Backend &backend_;
  Buffer weights_;
  Buffer vectors_;
  Buffer sums_;  ///< of a chain of slices
};

}  // namespace npu::model

#endif  // NPU_MODEL_TIU_H
