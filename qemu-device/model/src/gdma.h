// SPDX-License-Identifier: MIT
// The DMA unit: strided copies and fills between memory and local memory.
#ifndef NPU_MODEL_GDMA_H
#define NPU_MODEL_GDMA_H

#include <cstdint>

#include "qemu-device/model/src/job.h"
#include "qemu-device/model/src/memory.h"
#include "qemu-device/model/src/pace.h"
#include "qemu-device/model/src/strided.h"
#include "qemu-device/model/src/validate.h"

namespace npu::model {

/// How the execution of a checked command ended: with a fault of one of its operands, or early because the job has to
/// stop.
struct Outcome {
  Fault fault;
  unsigned operand = 0;  ///< Operands::Place of the fault
  bool stopped = false;

  explicit operator bool() const { return fault || stopped; }
};

class Gdma {
 public:
  Gdma(Memory &memory, LocalMemory &local) : memory_(memory), local_(local) {}

  /// Runs a command tile by tile. One of any engine does nothing: it acts by its order alone.
  Outcome run(const Command &command, const Operands &ops, const Job &job, const Pace &pace);

 private:
  /// One side of a transfer: local memory, or memory from `base` on.
  struct Side {
    bool local = false;
    uint64_t base = 0;  ///< local address or virtual address of the first element
  };
  struct Tile {
    Strided shape;
    int64_t dst = 0, src = 0;  ///< byte offsets of its first element from the sides' bases
  };

  Outcome transfer(const npu_cmd_copy &c, const Operands &ops, const Job &job, const Pace &pace);
  Outcome transfer(const npu_cmd_fill &c, const Operands &ops, const Job &job, const Pace &pace);
  Outcome transfer(const npu_cmd_gather &c, const Operands &ops, const Job &job, const Pace &pace);
  Outcome transfer(const npu_cmd_scatter &c, const Operands &ops, const Job &job, const Pace &pace);
  template <class Cmd, class Each>
  Outcome indexed(const Cmd &c, const Operands &ops, const Job &job, const Pace &pace, Each each);
  Fault read_index(const Side &side, uint8_t dtype, uint64_t i, uint32_t rows, uint64_t &row);
  Fault read_row(const Side &side, int64_t offset, void *to, uint64_t bytes);
  Outcome locate(const Operand &o, uint64_t offset, const Job &job, Side &side) const;
  template <class Each>
  Outcome tiles(const Strided &shape, uint64_t limit, const Pace &pace, Each each);
  Fault copy_tile(const Side &dst, const Side &src, const Tile &t);
  Fault cast_tile(const npu_cmd_copy &c, const Side &dst, const Side &src, const Tile &t);
  void note_origin(const Side &dst, const Side &src, const Tile &t, const Pace &pace);
  Fault copy_row(const Side &dst, int64_t dst_at, const Side &src, int64_t src_at, uint64_t bytes);
  Fault copy_each(const Side &dst, const Side &src, const Tile &t);
  Fault fill_tile(const Side &dst, const Tile &t, uint64_t value);
  uint8_t *direct(const Side &side, int64_t first, const Strided &shape, const int64_t (&stride)[6], bool write);
  Fault gather(uint64_t va, const Strided &shape, const int64_t (&stride)[6], View &view);
  Fault scatter(uint64_t va, const Strided &shape, const uint8_t *dense);

  Memory &memory_;
  LocalMemory &local_;
  Buffer in_;
  Buffer out_;
  Buffer raw_;  ///< elements before a cast
};

}  // namespace npu::model

#endif  // NPU_MODEL_GDMA_H
