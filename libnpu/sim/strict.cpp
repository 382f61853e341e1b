// SPDX-License-Identifier: MIT
// What a file checks and reports with NPU_SIM="cache=strict". mutex_ is held where nothing else is said.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "file.h"

namespace npu::sim {
namespace {

std::string name_of(const Bo &bo) {
  char text[96];
  snprintf(text, sizeof(text), "buffer at %#llx of %llu bytes", static_cast<unsigned long long>(bo.va),
           static_cast<unsigned long long>(bo.size));
  return text;
}

uint64_t element_bytes(uint8_t dtype) {
  switch (dtype) {
    case NPU_DTYPE_S8:
    case NPU_DTYPE_U8:
      return 1;
    case NPU_DTYPE_F16:
    case NPU_DTYPE_BF16:
    case NPU_DTYPE_S16:
    case NPU_DTYPE_U16:
      return 2;
    case NPU_DTYPE_B64:
      return 8;
    default:
      return 4;
  }
}

/// Whether the span of a copy's source contains an offset of its region.
bool reads(const npu_cmd_copy &c, uint64_t offset) {
  int64_t low = 0, high = 0;
  for (int i = 0; i < 6; i++) {
    const int64_t reach = (static_cast<int64_t>(c.dims[i]) - 1) * c.src_stride[i];
    (reach < 0 ? low : high) += reach;
  }
  const auto bytes = static_cast<int64_t>(element_bytes(c.src_dtype));
  const auto at = static_cast<int64_t>(offset) - static_cast<int64_t>(c.src_offset);
  return at >= low * bytes && at < (high + 1) * bytes;
}

}  // namespace

/// The memory of a buffer as the chip sees it.
uint8_t *File::memory_of(const Bo &bo) const {
  return bo.card() ? chip_->ddr().data() + bo.ddr_offset : bo.memory->data();
}

/// " (GDMA command 3)": the first copy of the job that reads this offset of a region, or " (commands)" where its
/// commands are; "" if neither.
std::string File::reader_of(const Job &job, uint32_t region, uint64_t offset) const {
  npu_job header;
  npu_stream stream;
  memcpy(&header, job.descriptor.data(), sizeof(header));
  memcpy(&stream, job.descriptor.data() + sizeof(header), sizeof(stream));
  const auto within = [&](uint32_t count, uint32_t code, uint64_t start) {
    return count && code == region && offset >= start && offset - start < uint64_t{count} * NPU_CMD_BYTES;
  };
  if (within(stream.gdma_count, stream.gdma_region, stream.gdma_offset) ||
      within(stream.tiu_count, stream.tiu_region, stream.tiu_offset))
    return " (commands)";
  if (!stream.gdma_count) return "";
  const Use &code = job.uses[stream.gdma_region];
  const uint8_t *commands = memory_of(*code.bo) + code.offset + stream.gdma_offset;
  for (uint32_t i = 0; i < stream.gdma_count; i++) {
    npu_cmd_copy c;
    memcpy(&c, commands + static_cast<size_t>(i) * sizeof(c), sizeof(c));
    if (c.opcode == NPU_OP_COPY && c.src_region == region && reads(c, offset))
      return " (GDMA command " + std::to_string(i) + ")";
  }
  return "";
}

void File::check_flushed(const Context &context, const Job &job) {
  if (!strict_) return;
  for (uint32_t region = 0; region < job.uses.size(); region++) {
    const Use &use = job.uses[region];
    if (!use.reads) continue;
    for (const auto &[ptr, shadow] : use.bo->shadows) {
      const Difference dirty = shadow->dirty(use.offset, use.size);
      if (!dirty.count) continue;
      reports_.push_back("cache: job " + std::to_string(job.seqno) + " of context " + std::to_string(context.id) +
                         " reads region " + std::to_string(region) + reader_of(job, region, dirty.first - use.offset) +
                         ", " + name_of(*use.bo) + ", but " + text_of(dirty) +
                         " were written by the program and not flushed");
    }
  }
}

void File::note_writes(const Context &context, const Job &job) {
  for (const Use &use : job.uses)
    if (use.writes)
      for (const auto &[ptr, shadow] : use.bo->shadows)
        if (shadow->stale(use.offset, use.size).count) shadow->wrote({use.offset, use.size, context.id, job.seqno});
}

void File::sync_shadows(Bo &bo, const drm_npu_bo_sync &args) {
  for (const auto &[ptr, shadow] : bo.shadows) {
    if (args.direction & DRM_NPU_SYNC_TO_DEVICE) shadow->flush(args.offset, args.size);
    if (!(args.direction & DRM_NPU_SYNC_FROM_DEVICE)) continue;
    const Difference lost = shadow->invalidate(args.offset, args.size);
    if (lost.count)
      reports_.push_back("cache: an invalidation of " + name_of(bo) + " has discarded " + text_of(lost) +
                         ", written by the program and not flushed");
  }
}

/// A mapping ends: what it and the memory never told each other.
void File::check_end(const Bo &bo, const Shadow &shadow) {
  const Difference dirty = shadow.dirty(0, bo.size), stale = shadow.stale(0, bo.size);
  if (dirty.count)
    reports_.push_back("cache: the mapping of " + name_of(bo) + " ends, and " + text_of(dirty) +
                       " were written by the program and never flushed");
  if (!stale.count) return;
  const std::string writer = shadow.writer_of(stale.first);
  reports_.push_back("cache: the mapping of " + name_of(bo) + " ends, and " + text_of(stale) + " were written by " +
                     (writer.empty() ? "a copy" : writer) +
                     " and never invalidated: a program that read them there saw what was there before");
}

void File::check_mappings() {
  Lock lock(mutex_);
  for (const auto &[handle, bo] : bos_)
    for (const auto &[ptr, shadow] : bo->shadows) check_end(*bo, *shadow);
}

void File::tell(void (*report)(const char *text)) {
  std::vector<std::string> reports;
  {
    Lock lock(mutex_);
    reports.swap(reports_);
  }
  if (report)
    for (const std::string &text : reports) report(text.c_str());
}

}  // namespace npu::sim
