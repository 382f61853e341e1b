// SPDX-License-Identifier: MIT
// Memory that a program gives for a model (bmrt_load_bmodel_with_mem), where the runtime would allocate its own
// otherwise.
#ifndef NPURT_USER_MEMORY_H
#define NPURT_USER_MEMORY_H

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "bmruntime_interface.h"
#include "runtime/bmodel/container.h"
#include "runtime/bmodel/room.h"
#include "runtime/launch/memory/sealed.h"
#include "runtime/launch/memory/shared_scratch.h"

namespace npurt {

struct Card;

/// Fills memory from its beginning; without memory it only counts.
class Extent {
 public:
  static constexpr uint64_t kIoAlign = npu::bmodel::kTensorAlign;

  /// Where the next `bytes` go.
  uint64_t add(uint64_t bytes, uint64_t align) {
    const uint64_t at = (end_ + align - 1) / align * align;
    end_ = at + bytes;
    return at;
  }
  /// Likewise, but contents that have been added before stay where they are; `place` tells contents apart.
  uint64_t add_once(uint64_t place, uint64_t bytes, bool &is_new);
  /// The inputs and outputs of a stage, `bytes` in all. With `like`, which are their sizes: those of the last one with
  /// the same.
  uint64_t add_io(uint64_t bytes, const std::vector<uint64_t> *like);
  uint64_t bytes() const { return end_; }

 private:
  uint64_t end_ = 0;
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> known_;  // by place and size
  std::map<std::vector<uint64_t>, uint64_t> io_;             // by the sizes of the tensors
};

/// What a model needs. The same sums as when it is loaded.
struct Needs {
  Extent instructions, coefficients, io;
  uint64_t activations = 0;  ///< of one launch of the largest stage

  /// A program with `outputs` outputs, and the stage's coefficients.
  void add(const npu::bmodel::Program &program, size_t outputs, std::span<const uint8_t> coefficients);
};

/// Of a model that cannot be loaded, and of steps on several cards: what its file says. Of a model's head: at least as
/// much as of the model.
Needs measure(const npu::bmodel::Container &model);
void describe(const Needs &needs, mem_info_t &info);

/// One kind of memory.
struct UserPart {
  Bo bo;  ///< null: it is not given
  uint64_t offset = 0;
  Extent used;

  explicit operator bool() const { return bo != nullptr; }
  npu_bo *ref() const { return npu_bo_ref(bo.get()); }
};

struct UserMemory {
  npu::bmodel::MappedFile file;  ///< of the model
  UserPart instructions, coefficients, io;
  std::shared_ptr<SharedScratch> activations;  ///< null: not given

  /// Finds what `info` (may be null) gives on the first of the cards, and checks that it is enough.
  static Status find(std::span<const Card> cards, const npu::bmodel::Container &model, const mem_info_t *info,
                     UserMemory &out);
  /// Activation memory alone, at least `need` bytes.
  static Status find_activations(std::span<const Card> cards, const memory_t &mem, uint64_t need,
                                 std::shared_ptr<SharedScratch> &out);
};

/// Constant memory: shared and sealed, or in memory of the program's.
struct Constant {
  std::shared_ptr<npu_bo> bo;
  uint64_t offset = 0, bytes = 0;
};

/// Puts bytes into a part that is given, else into a buffer that is shared by content and sealed. `what` begins the
/// message of a failure, `file` may have them. `once`: the part may have them already.
Status store(npu_device *device, const char *what, std::span<const uint8_t> bytes, const npu::bmodel::MappedFile &file,
             UserPart &part, bool once, Constant &out);

}  // namespace npurt

#endif  // NPURT_USER_MEMORY_H
