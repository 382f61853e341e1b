// SPDX-License-Identifier: MIT
#include "runtime/launch/exec/bind.h"

#include "npu_isa.h"
#include "runtime/launch/exec/launch_check.h"

namespace npurt {

namespace {

/// Of a buffer's owner, whoever that is.
template <class Owner>
npu_job_region region(const Owner &bo, uint64_t offset, uint64_t size, uint32_t access) {
  return {bo.get(), offset, size, access, 0};
}

npu_job_region whole(const Constant &c) { return region(c.bo, c.offset, c.bytes, DRM_NPU_REGION_READ); }

npu_job_desc job(const std::vector<npu_job_region> &regions, std::span<const drm_npu_stream> streams,
                 uint32_t core_mask) {
  npu_job_desc j{};
  j.regions = regions.data();
  j.region_count = static_cast<uint32_t>(regions.size());
  j.streams = streams.data();
  j.stream_count = static_cast<uint32_t>(streams.size());
  j.core_mask = core_mask;
  return j;
}

}  // namespace

bool overlap(const Place &a, const Place &b) {
  return a.address < b.address + b.bytes && b.address < a.address + a.bytes;
}

Place share(const Place &p) { return {Bo(p.bo ? npu_bo_ref(p.bo.get()) : nullptr), p.offset, p.address, p.bytes}; }

Status locate(npu_device *device, const bm_device_mem_t &mem, uint64_t bytes, Place &place) {
  place.address = bm_mem_get_device_addr(mem);
  place.bytes = bytes;
  const uint64_t size = bm_mem_get_device_size(mem);
  if (size < bytes)
    return Status::error("its device memory has " + std::to_string(size) + " bytes, the tensor needs " +
                         std::to_string(bytes));
  npu_bo *bo;
  if (npu_bo_find(device, place.address, &bo, &place.offset) != 0) return npu_error();
  place.bo.reset(bo);
  const uint64_t left = npu_bo_size(bo) - place.offset;
  if (left < bytes)
    return Status::error("its device memory ends " + std::to_string(left) +
                         " bytes behind its address, the tensor needs " + std::to_string(bytes));
  return {};
}

Status Binder::stage_outputs(npu_device *device) {
  for (const npu_program_alias &a : unit_.aliases) {
    if (staged_[a.output] || !overlap(tensors_.output(a.output), tensors_.input(a.input))) continue;
    Bo &bo = scratch_.staging[a.output];
    if (!bo) {
      npu_bo *p;
      if (npu_bo_create(device, unit_.outputs[a.output].bytes, DRM_NPU_BO_CARD, &p) != 0)
        return npu_error().within("memory for an output that shares memory with an input");
      bo.reset(p);
    }
    staged_[a.output] = true;
  }
  return {};
}

npu_job_region Binder::bind_region(const npu_program_region &r) const {
  switch (r.kind) {
    case NPU_PROGRAM_COEFF:
      return region(unit_.coeff.bo, unit_.coeff.offset, r.bytes, r.access);
    case NPU_PROGRAM_CTX:
      return region(scratch_.ctx, scratch_.ctx_offset, r.bytes, r.access);
    case NPU_PROGRAM_INPUT:
      return region(tensors_.input(r.index).bo, tensors_.input(r.index).offset, r.bytes, r.access);
    default:
      if (staged_[r.index]) return region(scratch_.staging[r.index], 0, r.bytes, r.access);
      return region(tensors_.output(r.index).bo, tensors_.output(r.index).offset, r.bytes, r.access);
  }
}

/// One small job for each staged output; jobs of a context run in order.
void Binder::add_copies(Jobs &out) const {
  for (size_t i = 0; i < staged_.size(); ++i) {
    if (!staged_[i]) continue;
    const uint64_t bytes = unit_.outputs[i].bytes;
    out.copy_regions.push_back({whole(unit_.code), region(scratch_.staging[i], 0, bytes, DRM_NPU_REGION_READ),
                                region(tensors_.output(i).bo, tensors_.output(i).offset, bytes, DRM_NPU_REGION_WRITE)});
    drm_npu_stream s{};
    s.gdma_count = 1;
    s.gdma_offset = unit_.copy_offset + i * NPU_CMD_BYTES;
    out.copy_streams.push_back(s);
  }
}

void Binder::bind(uint32_t core_mask, Jobs &out) const {
  out.regions.reserve(unit_.regions.size() + 1);
  for (const npu_program_region &r : unit_.regions) out.regions.push_back(bind_region(r));
  const auto code = static_cast<uint32_t>(out.regions.size());
  out.regions.push_back(whole(unit_.code));
  out.streams = unit_.streams;
  for (drm_npu_stream &s : out.streams) {
    if (s.tiu_count) s.tiu_region = code;
    if (s.gdma_count) s.gdma_region = code;
  }
  add_copies(out);
  out.jobs.reserve(1 + out.copy_regions.size());
  out.jobs.push_back(job(out.regions, out.streams, core_mask));
  for (size_t i = 0; i < out.copy_regions.size(); ++i)
    out.jobs.push_back(job(out.copy_regions[i], {&out.copy_streams[i], 1}, core_mask));
}

}  // namespace npurt
