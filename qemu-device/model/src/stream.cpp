// SPDX-License-Identifier: MIT
#include "qemu-device/model/src/stream.h"

#include <algorithm>

namespace npu::model {

Stream::Stream(const Job &job, unsigned place, unsigned engine)
    : job_(job),
      engine_(engine),
      region_(engine == NPU_ENGINE_TIU ? job.streams[place].tiu_region : job.streams[place].gdma_region),
      offset_(engine == NPU_ENGINE_TIU ? job.streams[place].tiu_offset : job.streams[place].gdma_offset),
      count_(engine == NPU_ENGINE_TIU ? job.streams[place].tiu_count : job.streams[place].gdma_count) {}

Error Stream::named(Error error, uint32_t command) const {
  error.engine = static_cast<uint8_t>(engine_);
  error.command = command;
  return error;
}

Error Stream::check() const {
  if (count_ == 0) return {};
  const uint64_t bytes = uint64_t{count_} * NPU_CMD_BYTES;
  Error e;
  if (offset_ % NPU_CMD_BYTES) {
    e.status = NPU_STATUS_UNALIGNED;
    e.region = region_;
    e.offset = offset_;
    e.bytes = saturate32(bytes);
    e.access = NPU_ACCESS_READ;
  } else {
    e = check_region(job_, region_, offset_, bytes, NPU_ACCESS_READ);
  }
  return e ? named(e, NPU_COMMAND_NONE) : Error{};
}

Error Stream::seek(Memory &memory, uint32_t index) {
  index_ = index;
  return index_ - first_ < held_ ? Error{} : fetch(memory);
}

/// Copies the batch that starts with the current command. What cannot be read of it is an error only once it is needed.
Error Stream::fetch(Memory &memory) {
  const uint64_t offset = offset_ + uint64_t{index_} * NPU_CMD_BYTES;
  const uint64_t bytes = std::min<uint64_t>(kBatch, count_ - index_) * NPU_CMD_BYTES;
  uint64_t va, done = 0;
  Fault fault = region_address(job_, region_, offset, bytes, false, va);
  if (!fault) {
    Memory::Section section(memory);
    fault = memory.fetch(va, batch_.data(), bytes, done);
  }
  first_ = index_;
  held_ = static_cast<uint32_t>(done / NPU_CMD_BYTES);
  if (held_) return {};
  Error e;
  e.status = fault.status;
  e.region = region_;
  e.offset = offset;
  e.bytes = NPU_CMD_BYTES;
  e.access = NPU_ACCESS_READ;
  e.fault_addr = fault.addr;
  return named(e, index_);
}

}  // namespace npu::model
