// SPDX-License-Identifier: MIT
#include "profile.h"

#include <algorithm>

namespace npu::model {

Error Profile::check() const {
  if (!on_) return {};
  const npu_job &h = job_.header;
  return check_region(job_, h.profile_region, h.profile_offset, h.profile_bytes, NPU_ACCESS_WRITE);
}

void Profile::start(unsigned engine, uint32_t index, const Command &command, const hw::Cost &cost, uint64_t now) {
  const npu_cmd &head = command.head();
  npu_profile &r = streams_[engine].current;
  r = {};
  r.start = now;
  r.bytes = cost.flow_bytes;
  r.macs = cost.macs;
  r.command = index;
  r.layer = head.layer;
  r.engine = static_cast<uint8_t>(engine);
  r.core = core_;
  r.opcode = head.opcode;
  r.subop = head.subop;
}

void Profile::finish(unsigned engine, uint64_t now) {
  Stream &s = streams_[engine];
  s.current.end = now;
  ++s.total;
  if (s.records.size() < room()) s.records.push_back(s.current);
}

Error Profile::write(Memory &memory, uint64_t cycles) {
  if (!on_) return {};
  const npu_job &h = job_.header;
  uint64_t counts[2], left = room(), total = 0;
  for (unsigned e = 0; e < 2; ++e) {
    counts[e] = std::min<uint64_t>(left, streams_[e].records.size());
    left -= counts[e];
    total += streams_[e].total;
  }
  const uint64_t written = counts[0] + counts[1];
  npu_profile_header head{};
  head.records = static_cast<uint32_t>(written);
  head.dropped = static_cast<uint32_t>(total - written);
  head.job_id = job_.id;
  head.cycles = cycles;
  const uint64_t bytes = sizeof head + written * sizeof(npu_profile);
  uint64_t va;
  Fault fault = region_address(job_, h.profile_region, h.profile_offset, bytes, true, va);
  Memory::Section section(memory);
  if (!fault) fault = memory.write(va, &head, sizeof head);
  va += sizeof head;
  for (unsigned e = 0; !fault && e < 2; va += counts[e++] * sizeof(npu_profile))
    fault = memory.write(va, streams_[e].records.data(), counts[e] * sizeof(npu_profile));
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
