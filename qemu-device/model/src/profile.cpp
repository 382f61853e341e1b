// SPDX-License-Identifier: MIT
#include "qemu-device/model/src/profile.h"

#include <algorithm>

namespace npu::model {

Error Profile::check() const {
  if (!on_) return {};
  const npu_job &h = job_.header;
  return check_region(job_, h.profile_region, h.profile_offset, h.profile_bytes, NPU_ACCESS_WRITE);
}

void Profile::start(unsigned engine, unsigned core, uint32_t index, const Command &command, const hw::Cost &cost,
                    uint64_t now) {
  const npu_cmd &head = command.head();
  npu_profile &r = streams_[engine].current;
  r = {};
  r.start = now;
  r.bytes = cost.flow_bytes;
  r.macs = cost.macs;
  r.command = index;
  r.layer = head.layer;
  r.engine = static_cast<uint8_t>(engine % 2);
  r.core = static_cast<uint8_t>(core);
  r.opcode = head.opcode;
  r.subop = head.subop;
}

void Profile::finish(unsigned engine, uint64_t now) {
  Stream &s = streams_[engine];
  s.current.end = now;
  ++s.total;
  if (s.records.size() < std::min(room(), kMaxRecords)) s.records.push_back(s.current);
}

void Profile::rewind(unsigned engine, uint64_t retired) {
  if (!on_) return;
  Stream &s = streams_[engine];
  s.total = retired;
  if (s.records.size() > retired) s.records.resize(retired);
}

Error Profile::write(Memory &memory, uint64_t cycles, uint64_t end_ns) {
  if (!on_) return {};
  const npu_job &h = job_.header;
  std::vector<npu_profile> records;
  uint64_t total = 0;
  for (const Stream &s : streams_) {
    const uint64_t fit = std::min<uint64_t>(room() - records.size(), s.records.size());
    records.insert(records.end(), s.records.begin(), s.records.begin() + static_cast<std::ptrdiff_t>(fit));
    total += s.total;
  }
  const uint64_t written = records.size();
  npu_profile_header head{};
  head.records = static_cast<uint32_t>(written);
  head.dropped = static_cast<uint32_t>(total - written);
  head.job_id = job_.id;
  head.cycles = cycles;
  head.begin_ns = begin_ns_;
  head.end_ns = end_ns;
  const uint64_t bytes = sizeof head + written * sizeof(npu_profile);
  uint64_t va;
  Fault fault = region_address(job_, h.profile_region, h.profile_offset, bytes, true, va);
  Memory::Section section(memory);
  if (!fault) fault = memory.write(va, &head, sizeof head);
  if (!fault && written) fault = memory.write(va + sizeof head, records.data(), written * sizeof(npu_profile));
  Error error;
  if (!fault) return error;
  error.status = fault.status;
  error.access = NPU_ACCESS_WRITE;
  error.region = h.profile_region;
  error.offset = h.profile_offset;
  error.bytes = saturate32(bytes);
  error.fault_addr = fault.addr;
  return error;
}

}  // namespace npu::model
