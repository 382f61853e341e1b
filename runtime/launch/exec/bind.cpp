// SPDX-License-Identifier: MIT
#include "runtime/launch/exec/bind.h"

#include "npu_isa.h"

namespace npurt {

namespace {

npu_job_region whole(const Constant &c) { return {c.bo.get(), c.offset, c.bytes, DRM_NPU_REGION_READ, 0}; }

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

/// Finds the buffer behind a descriptor, and checks that `bytes` lie in both.
Status locate(npu_device *device, const bm_device_mem_t &mem, uint64_t bytes, Place &place) {
  place.bytes = bytes;
  const uint64_t size = bm_mem_get_device_size(mem);
  if (size < bytes)
    return Status::error("its device memory has " + std::to_string(size) + " bytes, the tensor needs " +
                         std::to_string(bytes));
  npu_bo *bo;
  if (npu_bo_find(device, bm_mem_get_device_addr(mem), &bo, &place.offset) != 0) return npu_error();
  place.bo.reset(bo);
  const uint64_t left = npu_bo_size(bo) - place.offset;
  if (left < bytes)
    return Status::error("its device memory ends " + std::to_string(left) +
                         " bytes behind its address, the tensor needs " + std::to_string(bytes));
  return {};
}

/// Outputs that may be written before an input in the same memory is dead get memory of their own, and a small job that
/// copies them: jobs of a context run in order.
Status stage_outputs(npu_device *device, const Plan::Node &node, std::span<const Place> places, Scratch &scratch,
                     std::vector<bool> &staged, Jobs &out) {
  const Unit &unit = node.unit;
  for (const npu_program_alias &a : unit.aliases) {
    const Place &output = places[node.outputs[a.output]];
    if (staged[a.output] || !overlap(output, places[node.inputs[a.input]])) continue;
    const uint64_t bytes = unit.outputs[a.output].bytes;
    Bo &bo = scratch.staging[a.output];
    npu_bo *made = nullptr;
    if (!bo && npu_bo_create(device, bytes, DRM_NPU_BO_CARD, &made) != 0)
      return npu_error().within("memory for an output that shares memory with an input");
    if (made) bo.reset(made);
    staged[a.output] = true;
    out.copy_regions.push_back({whole(unit.code),
                                {bo.get(), 0, bytes, DRM_NPU_REGION_READ, 0},
                                {output.bo.get(), output.offset, bytes, DRM_NPU_REGION_WRITE, 0}});
    drm_npu_stream s{};
    s.gdma_count = 1;
    s.gdma_offset = unit.copy_offset + a.output * NPU_CMD_BYTES;
    out.copy_streams.push_back(s);
  }
  return {};
}

}  // namespace

bool overlap(const Place &a, const Place &b) {
  return a.bo == b.bo && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

Place share(const Place &p) { return {Bo(p.bo ? npu_bo_ref(p.bo.get()) : nullptr), p.offset, p.bytes}; }

Status locate_tensors(std::span<const Card> cards, const Prepared &what, std::span<const bm_tensor_t> inputs,
                      std::span<const bm_tensor_t> outputs, std::vector<Place> &places) {
  const std::vector<Plan::Slot> &slots = what.stage->plan.slots;
  places.resize(slots.size());
  for (size_t s = 0; s < slots.size(); ++s) {
    const Plan::Slot &slot = slots[s];
    if (slot.between()) continue;
    const bool output = slot.is_output();
    const bm_tensor_t &tensor = (output ? outputs : inputs)[slot.number()];
    const TensorInfo &info = (output ? what.outputs : what.inputs)[slot.number()];
    const Status located = locate(cards[slot.device].device, tensor.device_mem, info.bytes, places[s]);
    if (!located.ok())
      return located.within(tensor_name(*what.network, output ? "output" : "input", slot.number(), info));
  }
  return {};
}

Status bind_program(npu_device *device, const Plan::Node &node, std::span<const Place> places, Scratch &scratch,
                    uint32_t core_mask, Jobs &out) {
  const Unit &unit = node.unit;
  std::vector<bool> staged(node.outputs.size());
  NPU_TRY(stage_outputs(device, node, places, scratch, staged, out));
  out.regions.reserve(unit.regions.size() + 1);
  for (const npu_program_region &r : unit.regions) {
    npu_job_region &region = out.regions.emplace_back(npu_job_region{nullptr, 0, r.bytes, r.access, 0});
    if (r.kind == NPU_PROGRAM_COEFF) {
      region.bo = unit.coeff.bo.get();
      region.offset = unit.coeff.offset;
    } else if (r.kind == NPU_PROGRAM_CTX) {
      region.bo = scratch.ctx.get();
      region.offset = scratch.ctx_offset;
    } else if (r.kind == NPU_PROGRAM_OUTPUT && staged[r.index]) {
      region.bo = scratch.staging[r.index].get();
    } else {
      const Place &place = places[(r.kind == NPU_PROGRAM_INPUT ? node.inputs : node.outputs)[r.index]];
      region.bo = place.bo.get();
      region.offset = place.offset;
    }
  }
  const auto code = static_cast<uint32_t>(out.regions.size());
  out.regions.push_back(whole(unit.code));
  out.streams = unit.streams;
  for (drm_npu_stream &s : out.streams) {
    if (s.tiu_count) s.tiu_region = code;
    if (s.gdma_count) s.gdma_region = code;
  }
  out.jobs.reserve(1 + out.copy_regions.size());
  out.jobs.push_back(job(out.regions, out.streams, core_mask));
  for (size_t i = 0; i < out.copy_regions.size(); ++i)
    out.jobs.push_back(job(out.copy_regions[i], {&out.copy_streams[i], 1}, core_mask));
  return {};
}

}  // namespace npurt
