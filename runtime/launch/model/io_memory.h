// SPDX-License-Identifier: MIT
// The memory behind stages[].input_mems and output_mems.
#ifndef NPURT_IO_MEMORY_H
#define NPURT_IO_MEMORY_H

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/launch/error.h"
#include "runtime/launch/memory/handles.h"

namespace npurt {

struct Card;
struct UserPart;
struct Stage;

/// What networks with addr_mode 0 have in common on one card. Stages whose tensors have the same sizes have the same
/// memory: programs that run such networks one after another write inputs that all of them want to the first one only.
class SharedIo {
 public:
  /// The memory for tensors of these sizes: that of a stage that has it, or a new one of `bytes`.
  Status get(npu_device *device, const std::vector<uint64_t> &sizes, uint64_t bytes, SharedBo &out);

 private:
  std::mutex mutex_;
  std::map<std::vector<uint64_t>, std::weak_ptr<npu_bo>> known_;  // guarded by mutex_
};

/// Gives a loaded stage its memory, on each card that has some of its tensors: a part of `given`, or Card::shared_io's.
/// `shared`: what stages have in common.
Status allocate_io(std::span<const Card> cards, bool shared, UserPart &user, Stage &stage);

}  // namespace npurt

#endif  // NPURT_IO_MEMORY_H
