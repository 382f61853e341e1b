// SPDX-License-Identifier: MIT
#include "submit.h"

#include "fault.h"

namespace npurt {

Reason submit_unit(const Card &card, const Unit &unit, const std::vector<Place> &inputs,
                   const std::vector<Place> &outputs, Scratch &scratch, uint32_t core_mask, Launched &launched) {
  Binder binder(unit, inputs, outputs, scratch);
  Reason why = binder.stage_outputs(card.device);
  if (!why.empty()) return why;
  Jobs jobs;
  binder.bind(core_mask, jobs);
  Bo profile;
  if (card.tracing->on()) why = card.tracing->attach(unit, jobs, profile);
  if (!why.empty()) return why;
  const auto count = static_cast<unsigned int>(jobs.jobs.size());
  const int64_t begin_ns = card.tracing->on() ? trace_now_ns() : 0;
  npu_context *context;
  uint64_t last;
  launched.jobs.reserve(launched.jobs.size() + count);  // nothing may fail once it is submitted
  if (npu_bm_thread_context(card.handle, &context) != 0 || npu_submit(context, jobs.jobs.data(), count, &last) != 0)
    return npu_last_error();
  for (unsigned int i = 0; i < count; ++i)
    launched.jobs.push_back({context, last - (count - 1) + i, &unit, &card, i > 0});
  if (card.tracing->on())
    card.tracing->launched(*launched.network, unit, context, last - (count - 1), std::move(profile), begin_ns);
  return {};
}

Reason submit_conversions(const Card &card, const Unit &unit, std::span<const Conversion> conversions,
                          uint32_t core_mask, Launched &launched) {
  if (conversions.empty()) return {};
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
    const Conversion &c = conversions[i];
    Parts &p = parts[i];
    const Reason why = card.converter->commands(c.tensor, c.from_mode, c.to_mode, codes[i], p.stream.gdma_count);
    if (!why.empty()) return why;
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
    return npu_last_error();
  for (unsigned int i = 0; i < count; ++i)
    launched.jobs.push_back({context, last - (count - 1) + i, &unit, &card, true});
  return {};
}

Reason wait_for(const Launched &launched, size_t first) {
  Reason why;
  // All of them, whatever becomes of the first: they use the launch's activation memory.
  for (size_t i = first; i < launched.jobs.size(); ++i) {
    const LaunchedJob &job = launched.jobs[i];
    npu_result result{};
    if (npu_wait(job.context, job.seqno, -1, &result) != 0) {
      if (why.empty()) why = npu_last_error();
    } else if (why.empty() && result.known && result.error != 0) {
      why = fault_text(*launched.network, *job.unit, result);
    }
  }
  return why;
}

}  // namespace npurt
