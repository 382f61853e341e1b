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

Reason wait_for(const Launched &launched, size_t first) {
  for (size_t i = first; i < launched.jobs.size(); ++i) {
    const LaunchedJob &job = launched.jobs[i];
    npu_result result{};
    if (npu_wait(job.context, job.seqno, -1, &result) != 0) return npu_last_error();
    if (result.known && result.error != 0) return fault_text(*launched.network, *job.unit, result);
  }
  return {};
}

}  // namespace npurt
