// SPDX-License-Identifier: MIT
// The job descriptor: its private copy and the checks that need no memory access.
#ifndef NPU_MODEL_JOB_H
#define NPU_MODEL_JOB_H

#include <array>
#include <cstdint>
#include <span>

#include "qemu-device/model/src/config.h"
#include "qemu-device/model/src/error.h"

namespace npu::model {

/// A job as the core runs it.
struct Job {
  npu_job header{};
  std::array<npu_stream, NPU_MAX_CORES> streams{};  ///< header.stream_count of them, one a core
  std::array<npu_region, NPU_MAX_REGIONS> regions{};
  uint64_t id = 0;
  uint32_t asid = 0;
  uint32_t core_mask = 0;

  unsigned cores() const { return header.stream_count; }
  bool profiled() const { return header.flags & NPU_JOB_PROFILE; }
  bool interrupts() const { return header.flags & NPU_JOB_IRQ; }
};

/// Largest descriptor that the chip reads.
inline constexpr uint32_t kMaxDescriptorBytes =
    sizeof(npu_job) + NPU_MAX_CORES * sizeof(npu_stream) + NPU_MAX_REGIONS * sizeof(npu_region);

/// Checks a submission entry: BAD_DESCRIPTOR with `bytes` 64, the size of the entry.
Error check_entry(const npu_sqe &entry);

/// Takes a descriptor of entry.desc_bytes apart. On an error `job` holds only what has been checked, its id always.
Error parse_descriptor(const npu_sqe &entry, std::span<const uint8_t> descriptor, uint32_t queue_mask, uint32_t asid,
                       Job &job);

/// Checks that an access of `bytes` at `offset` lies in a region of the job that allows it: REGION_ACCESS,
/// REGION_BOUNDS.
Error check_region(const Job &job, uint32_t region, uint64_t offset, uint64_t bytes, uint8_t access);

/// The address of a checked range. A range that leaves the address space faults as a whole, before any of it is
/// accessed.
Fault region_address(const Job &job, uint32_t region, uint64_t offset, uint64_t bytes, bool write, uint64_t &va);

}  // namespace npu::model

#endif  // NPU_MODEL_JOB_H
