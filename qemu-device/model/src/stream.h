// SPDX-License-Identifier: MIT
// A command stream: commands are copied out of memory in batches before anyone looks at them.
#ifndef NPU_MODEL_STREAM_H
#define NPU_MODEL_STREAM_H

#include <array>
#include <cstdint>

#include "qemu-device/model/src/error.h"
#include "qemu-device/model/src/job.h"
#include "qemu-device/model/src/memory.h"
#include "qemu-device/model/src/validate.h"

namespace npu::model {

class Stream {
 public:
  /// The stream of an engine (NPU_ENGINE_) in the job's `place`-th pair.
  Stream(const Job &job, unsigned place, unsigned engine);

  uint32_t count() const { return count_; }
  /// Region, alignment and bounds of the whole stream, before its first command.
  Error check() const;
  /// Makes current() the command of that index, which only grows. Errors say what could not be read.
  Error seek(Memory &memory, uint32_t index);
  const Command &current() const { return batch_[index_ - first_]; }

  /// For an archive: all that changes.
  template <class A>
  void visit_state(A &a) {
    a(index_, first_, held_);
    if (held_ > kBatch) return a.refuse();
    a.raw(batch_.data(), held_ * sizeof batch_[0]);
  }

 private:
  static constexpr uint32_t kBatch = 32;

  Error fetch(Memory &memory);
  Error named(Error error, uint32_t command) const;

  const Job &job_;
  const unsigned engine_;
  const uint32_t region_;
  const uint64_t offset_;
  const uint32_t count_;
  uint32_t index_ = 0;
  uint32_t first_ = 0;  // index of batch_[0]
  uint32_t held_ = 0;   // commands in batch_
  std::array<Command, kBatch> batch_;
};

}  // namespace npu::model

#endif  // NPU_MODEL_STREAM_H
