// SPDX-License-Identifier: MIT
// Profile records of a job: collected while it runs, written to its buffer at its end. docs/reference/hardware.md
// section 4.4.
#ifndef NPU_MODEL_PROFILE_H
#define NPU_MODEL_PROFILE_H

#include <cstdint>
#include <vector>

#include "npu_cost.hpp"
#include "qemu-device/model/src/error.h"
#include "qemu-device/model/src/job.h"
#include "qemu-device/model/src/memory.h"
#include "qemu-device/model/src/validate.h"

namespace npu::model {

class Profile {
 public:
  /// Of a job that begins at `begin_ns`.
  Profile(const Job &job, uint64_t begin_ns)
      : job_(job), on_(job.profiled()), begin_ns_(begin_ns), streams_(job.cores() * 2) {}

  /// Checks the buffer before the job runs: REGION_ACCESS, REGION_BOUNDS.
  Error check() const;
  /// Engines are numbered place * 2 + engine; `core` is the number of the core at that place.
  void begin(unsigned engine, unsigned core, uint32_t index, const Command &command, const hw::Cost &cost,
             uint64_t now) {
    if (on_) start(engine, core, index, command, cost, now);
  }
  void retire(unsigned engine, uint64_t now) {
    if (on_) finish(engine, now);
  }
  /// Forgets what an engine retired beyond so many commands.
  void rewind(unsigned engine, uint64_t retired);
  /// Writes header and records.
  Error write(Memory &memory, uint64_t cycles, uint64_t end_ns);

  /// For an archive: all that changes.
  template <class A>
  void visit_state(A &a) {
    a(begin_ns_);
    for (Stream &s : streams_) a(s.records, s.current, s.total);
  }

 private:
  struct Stream {
    std::vector<npu_profile> records;
    npu_profile current{};
    uint64_t total = 0;
  };

  void start(unsigned engine, unsigned core, uint32_t index, const Command &command, const hw::Cost &cost,
             uint64_t now);
  void finish(unsigned engine, uint64_t now);
  uint64_t room() const { return (job_.header.profile_bytes - sizeof(npu_profile_header)) / sizeof(npu_profile); }
  static constexpr uint64_t kMaxRecords = uint64_t{1} << 18;  // that the host keeps of an engine

  const Job &job_;
  const bool on_;
  uint64_t begin_ns_;
  std::vector<Stream> streams_;
};

}  // namespace npu::model

#endif  // NPU_MODEL_PROFILE_H
