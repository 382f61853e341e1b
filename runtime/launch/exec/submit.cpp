// SPDX-License-Identifier: MIT
#include "runtime/launch/exec/submit.h"

#include "runtime/launch/exec/fault.h"

namespace npurt {

namespace {

/// "x float32 [1,8], ...": for the trace.
std::string tensors_text(const std::vector<TensorInfo> &tensors) {
  std::string out;
  for (const TensorInfo &t : tensors)
    out += (out.empty() ? "" : ", ") + t.name + " " + npu::bmodel::dtype_name(static_cast<uint32_t>(t.dtype)) + " " +
           shape_text(t.shape);
  return out;
}

}  // namespace

Status submit_unit(const Card &card, const Plan::Node &node, std::span<const Place> places, Scratch &scratch,
                   uint32_t core_mask, Launched &launched) {
  const Unit &unit = node.unit;
  Jobs jobs;
  NPU_TRY(bind_program(card.device, node, places, scratch, core_mask, jobs));
  Bo profile;
  if (card.tracing->on())
    NPU_TRY(card.tracing->attach(uint64_t{unit.tiu_count} + unit.gdma_count, jobs.regions, jobs.jobs[0], profile));
  const auto count = static_cast<unsigned int>(jobs.jobs.size());
  const int64_t begin_ns = card.tracing->on() ? trace_now_ns() : 0;
  npu_context *context;
  uint64_t last;
  launched.jobs.reserve(launched.jobs.size() + count);  // nothing may fail once it is submitted
  if (npu_bm_thread_context(card.handle, &context) != 0 || npu_submit(context, jobs.jobs.data(), count, &last) != 0)
    return npu_error();
  for (unsigned int i = 0; i < count; ++i)
    launched.jobs.push_back({context, last - (count - 1) + i, &unit, &card, i > 0});
  if (card.tracing->on())
    card.tracing->launched(
        {launched.network->name(), unit.layers, unit.traced, tensors_text(unit.inputs), tensors_text(unit.outputs)},
        context, last - (count - 1), std::move(profile), begin_ns);
  return {};
}

namespace {

/// Conversions of one card.
Status submit_on_card(const Card &card, std::span<const Conversion *const> conversions, uint32_t core_mask,
                      Launched &launched) {
  struct Parts {
    npu_job_region regions[3];
    drm_npu_stream stream{};
  };
  std::vector<Parts> parts(conversions.size());
  std::vector<Sealed> codes(conversions.size());
  std::vector<npu_job_desc> jobs(conversions.size());
  npu_job_fence before{};
  for (const LaunchedJob &job : launched.jobs)
    if (job.card == &card) before = {job.context, job.seqno};
  for (size_t i = 0; i < jobs.size(); ++i) {
    const Conversion &c = *conversions[i];
    Parts &p = parts[i];
    NPU_TRY(card.converter->commands(c.tensor, c.from_mode, c.to_mode, codes[i], p.stream.gdma_count));
    p.regions[0] = {codes[i].get(), 0, npu_bo_size(codes[i].get()), DRM_NPU_REGION_READ, 0};
    p.regions[1] = {c.from.bo.get(), c.from.offset, c.from.bytes, DRM_NPU_REGION_READ, 0};
    p.regions[2] = {c.to.bo.get(), c.to.offset, c.to.bytes, DRM_NPU_REGION_WRITE, 0};
    npu_job_desc &j = jobs[i];
    j.regions = p.regions;
    j.region_count = 3;
    j.streams = &p.stream;
    j.stream_count = 1;
    j.core_mask = core_mask;
    j.in_fences = &before;
    j.in_fence_count = before.context ? 1 : 0;
  }
  npu_context *context;
  uint64_t last;
  const auto count = static_cast<unsigned int>(jobs.size());
  launched.jobs.reserve(launched.jobs.size() + count);  // nothing may fail once it is submitted
  if (npu_bm_thread_context(card.handle, &context) != 0 || npu_submit(context, jobs.data(), count, &last) != 0)
    return npu_error();
  for (unsigned int i = 0; i < count; ++i)
    launched.jobs.push_back({context, last - (count - 1) + i, nullptr, &card, true});
  return {};
}

}  // namespace

Status submit_conversions(std::span<const Card> cards, std::span<const Conversion> conversions, uint32_t core_mask,
                          Launched &launched) {
  if (conversions.empty()) return {};
  for (const Card &card : cards) {
    std::vector<const Conversion *> own;
    for (const Conversion &c : conversions)
      if (c.card == &card) own.push_back(&c);
    if (!own.empty()) NPU_TRY(submit_on_card(card, own, core_mask, launched));
  }
  return {};
}

Status wait_for(const Launched &launched, size_t first) {
  Status first_failure;
  // All of them, whatever becomes of the first: they use the launch's activation memory.
  for (size_t i = first; i < launched.jobs.size(); ++i) {
    const LaunchedJob &job = launched.jobs[i];
    npu_result result{};
    if (npu_wait(job.context, job.seqno, -1, &result) != 0) {
      if (first_failure.ok()) first_failure = npu_error();
    } else if (first_failure.ok() && result.known && result.error != 0) {
      first_failure = fault_text(job.unit, result);
    }
  }
  return first_failure;
}

}  // namespace npurt
