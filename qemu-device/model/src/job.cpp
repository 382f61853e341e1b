// SPDX-License-Identifier: MIT
#include "qemu-device/model/src/job.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <optional>

namespace npu::model {

namespace {

constexpr uint64_t kVaEnd = uint64_t{1} << NPU_VA_BITS;
constexpr uint32_t kMinDescriptorBytes = sizeof(npu_job) + sizeof(npu_stream);

Error malformed(uint64_t byte, uint64_t bytes) {
  Error e;
  e.status = NPU_STATUS_BAD_DESCRIPTOR;
  e.offset = byte;
  e.bytes = saturate32(bytes);
  return e;
}

/// One thing that has to hold, and the byte of the structure that is to blame otherwise.
struct Demand {
  bool holds;
  uint64_t byte;
};

/// The byte to blame for the first demand that does not hold.
std::optional<uint64_t> broken(std::initializer_list<Demand> demands) {
  for (const Demand &d : demands)
    if (!d.holds) return d.byte;
  return std::nullopt;
}

std::optional<uint64_t> check_header(const npu_job &h, uint32_t queue_mask) {
  const bool profile = h.flags & NPU_JOB_PROFILE;
  const unsigned cores = std::min<unsigned>(std::popcount(h.core_mask ? h.core_mask : queue_mask), NPU_MAX_CORES);
  return broken({
      {h.magic == NPU_JOB_MAGIC, offsetof(npu_job, magic)},
      {h.version == NPU_JOB_VERSION, offsetof(npu_job, version)},
      {(h.flags & ~(NPU_JOB_PROFILE | NPU_JOB_IRQ)) == 0, offsetof(npu_job, flags)},
      {h.stream_count >= 1 && h.stream_count <= cores, offsetof(npu_job, stream_count)},
      {h.region_count <= NPU_MAX_REGIONS, offsetof(npu_job, region_count)},
      {(h.core_mask & ~queue_mask) == 0, offsetof(npu_job, core_mask)},
      {profile || h.profile_region == 0, offsetof(npu_job, profile_region)},
      {profile ? h.profile_offset % 8 == 0 : h.profile_offset == 0, offsetof(npu_job, profile_offset)},
      {profile ? h.profile_bytes >= sizeof(npu_profile_header) : h.profile_bytes == 0,
       offsetof(npu_job, profile_bytes)},
      {h.reserved0 == 0, offsetof(npu_job, reserved0)},
      {h.reserved1[0] == 0, offsetof(npu_job, reserved1)},
      {h.reserved1[1] == 0, offsetof(npu_job, reserved1) + 8},
  });
}

std::optional<uint64_t> check_stream(const npu_stream &s) {
  const auto unused = [](uint64_t count, uint64_t value) { return count != 0 || value == 0; };
  if (auto byte = broken({
          {unused(s.tiu_count, s.tiu_offset), offsetof(npu_stream, tiu_offset)},
          {unused(s.gdma_count, s.gdma_offset), offsetof(npu_stream, gdma_offset)},
          {s.tiu_count <= NPU_MAX_STREAM_COMMANDS, offsetof(npu_stream, tiu_count)},
          {s.gdma_count <= NPU_MAX_STREAM_COMMANDS, offsetof(npu_stream, gdma_count)},
          {unused(s.tiu_count, s.tiu_region), offsetof(npu_stream, tiu_region)},
          {unused(s.gdma_count, s.gdma_region), offsetof(npu_stream, gdma_region)},
      }))
    return byte;
  for (size_t i = 0; i < sizeof s.reserved; ++i)
    if (s.reserved[i]) return offsetof(npu_stream, reserved) + i;
  return std::nullopt;
}

std::optional<uint64_t> check_region_entry(const npu_region &r) {
  return broken({
      {(r.access & ~(NPU_ACCESS_READ | NPU_ACCESS_WRITE)) == 0, offsetof(npu_region, access)},
      {r.reserved0 == 0, offsetof(npu_region, reserved0)},
      {r.reserved1 == 0, offsetof(npu_region, reserved1)},
  });
}

}  // namespace

Error check_entry(const npu_sqe &e) {
  auto byte = broken({
      {e.job_id != 0, offsetof(npu_sqe, job_id)},
      {e.desc_addr % 64 == 0, offsetof(npu_sqe, desc_addr)},
      {e.desc_bytes >= kMinDescriptorBytes && e.desc_bytes <= kMaxDescriptorBytes, offsetof(npu_sqe, desc_bytes)},
      {e.flags == 0, offsetof(npu_sqe, flags)},
  });
  for (size_t i = 0; !byte && i < std::size(e.reserved); ++i)
    if (e.reserved[i]) byte = offsetof(npu_sqe, reserved) + i * sizeof e.reserved[0];
  return byte ? malformed(*byte, sizeof e) : Error{};
}

Error parse_descriptor(const npu_sqe &entry, std::span<const uint8_t> descriptor, uint32_t queue_mask, uint32_t asid,
                       Job &job) {
  job.id = entry.job_id;
  job.asid = asid;
  const uint64_t size = descriptor.size();
  std::memcpy(&job.header, descriptor.data(), sizeof job.header);
  if (auto byte = check_header(job.header, queue_mask)) return malformed(*byte, size);
  const uint64_t streams = sizeof job.header, regions = streams + job.header.stream_count * sizeof(npu_stream);
  if (size != regions + job.header.region_count * sizeof(npu_region))
    return malformed(offsetof(npu_sqe, desc_bytes), sizeof entry);
  for (uint32_t i = 0; i < job.header.stream_count; ++i) {
    const uint64_t at = streams + i * sizeof(npu_stream);
    std::memcpy(&job.streams[i], &descriptor[at], sizeof(npu_stream));
    if (auto byte = check_stream(job.streams[i])) return malformed(at + *byte, size);
  }
  for (uint32_t i = 0; i < job.header.region_count; ++i) {
    const uint64_t at = regions + i * sizeof(npu_region);
    std::memcpy(&job.regions[i], &descriptor[at], sizeof(npu_region));
    if (auto byte = check_region_entry(job.regions[i])) return malformed(at + *byte, size);
  }
  job.core_mask = job.header.core_mask ? job.header.core_mask : queue_mask;
  return {};
}

Error check_region(const Job &job, uint32_t region, uint64_t offset, uint64_t bytes, uint8_t access) {
  Error e;
  e.region = region;
  e.offset = offset;
  e.bytes = saturate32(bytes);
  e.access = access;
  if (region >= job.header.region_count || (job.regions[region].access & access) != access)
    e.status = NPU_STATUS_REGION_ACCESS;
  else if (offset > job.regions[region].bytes || bytes > job.regions[region].bytes - offset)
    e.status = NPU_STATUS_REGION_BOUNDS;
  return e;
}

Fault region_address(const Job &job, uint32_t region, uint64_t offset, uint64_t bytes, bool write, uint64_t &va) {
  const uint64_t base = job.regions[region].va;
  if (!__builtin_add_overflow(base, offset, &va)) {
    if (va <= kVaEnd && bytes <= kVaEnd - va) return {};
    return {NPU_STATUS_PAGE_FAULT, write, std::max(va, kVaEnd)};
  }
  return {NPU_STATUS_PAGE_FAULT, write, UINT64_MAX};
}

}  // namespace npu::model
