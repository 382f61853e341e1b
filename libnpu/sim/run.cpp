// SPDX-License-Identifier: MIT
// Jobs on their way through the rings. All functions: mutex_ held.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "libnpu/sim/file.h"

namespace npu::sim {
namespace {

int error_of(uint32_t status) {
  switch (status) {
    case NPU_STATUS_OK:
      return 0;
    case NPU_STATUS_BUDGET:
      return -ETIME;
    case NPU_STATUS_ABORTED:
    case NPU_STATUS_CORE_RESET:
      return -ECANCELED;
    default:
      return -EIO;
  }
}

Result result_of(const npu_cqe &e) {
  Result r;
  r.cycles = e.end_cycle - e.start_cycle;
  r.error = error_of(e.status);
  if (e.status == NPU_STATUS_OK) return r;
  r.fault.seqno = e.job_id;
  r.fault.offset = e.offset;
  r.fault.fault_addr = e.fault_addr;
  r.fault.status = e.status;
  r.fault.engine = e.engine;
  r.fault.core = e.core;
  r.fault.command = e.command;
  r.fault.region = e.region;
  r.fault.access = (e.phase & NPU_CQE_ACCESS_READ ? DRM_NPU_REGION_READ : 0) |
                   (e.phase & NPU_CQE_ACCESS_WRITE ? DRM_NPU_REGION_WRITE : 0);
  r.fault.bytes = e.bytes;
  return r;
}

/// The entry at the head of the completion ring, if the chip has written it.
bool next_completion(const Context &context, npu_cqe &out) {
  const npu_cqe *entry = &context.ring().cq[context.cq_head];
  const uint32_t phase = __atomic_load_n(&entry->phase, __ATOMIC_ACQUIRE);
  if ((phase & NPU_CQE_PHASE) != context.phase) return false;
  memcpy(&out, entry, sizeof(out));
  return true;
}

}  // namespace

void File::on_interrupt() {
  Lock lock(mutex_);
  if (!dead_) progress();
}

void File::progress() {
  if (dead_) return;
  bool again = true;
  while (again) {
    again = false;
    for (const auto &[id, context] : contexts_) {
      if (context->closing) continue;
      // Both: completions may let jobs of contexts that were already visited start.
      if (take_completions(*context)) again = true;
      if (start_jobs(*context)) again = true;
    }
  }
}

bool File::take_completions(Context &context) {
  bool any = false;
  npu_cqe entry;
  while (!context.running.empty() && next_completion(context, entry)) {
    const auto job = context.running.front();
    context.running.pop_front();
    if (++context.cq_head == 1u << kRingLog2) {
      context.cq_head = 0;
      context.phase ^= NPU_CQE_PHASE;
    }
    chip_->write32(NPU_DOORBELL_REG(context.queue, NPU_DOORBELL_CQ_HEAD), context.cq_head);
    finish(context, job, result_of(entry));
    any = true;
  }
  return any;
}

void File::finish(Context &context, const std::shared_ptr<Job> &job, const Result &result) {
  Result &kept = context.results[job->seqno % kResults];
  kept = result;
  kept.seqno = job->seqno;
  context.completed = job->seqno;
  if (kept.error == -ECANCELED || kept.error == -ENODEV)
    context.victims++;
  else if (kept.error)
    context.errors++;
  if (kept.fault.seqno) context.fault = kept.fault;
  for (const auto &[bo, writes] : job->bos) bo->users.erase({context.id, job->seqno});
  // The last reference to a buffer may go here, with the mutex held.
  job->bos.clear();
  job->dependencies.clear();
  changed_.notify_all();
}

/// Moves pending jobs whose dependencies are met to the ring; true if one ended without running, which others may wait
/// for.
bool File::start_jobs(Context &context) {
  while (!context.pending.empty()) {
    const auto job = context.pending.front();
    bool failed = false;
    for (const Dependency &d : job->dependencies) {
      if (d.context->completed < d.seqno) return false;
      const Result *ended = d.context->result(d.seqno);
      failed = failed || (d.pass_error && ended && ended->error);
    }
    // Jobs end in order, so one that is cancelled waits for those before it.
    if (failed && !context.running.empty()) return false;
    context.pending.pop_front();
    if (failed) {
      Result cancelled;
      cancelled.error = -ECANCELED;
      finish(context, job, cancelled);
      return true;
    }
    push(context, job);
  }
  return false;
}

void File::push(Context &context, const std::shared_ptr<Job> &job) {
  Ring &ring = context.ring();
  const uint32_t index = context.sq_tail;
  uint8_t *const begin = ring.slots[index].descriptor;
  memcpy(begin, &job->header, sizeof(npu_job));
  auto *const streams = reinterpret_cast<npu_stream *>(begin + sizeof(npu_job));
  auto *const regions = std::copy(job->streams.begin(), job->streams.end(), streams);
  const auto *const end = std::copy(job->regions.begin(), job->regions.end(), reinterpret_cast<npu_region *>(regions));
  npu_sqe entry{};
  entry.job_id = job->seqno;
  entry.desc_addr = context.bus + offsetof(Ring, slots) + index * sizeof(Ring::Slot);
  entry.desc_bytes = static_cast<uint32_t>(reinterpret_cast<const uint8_t *>(end) - begin);
  ring.sq[index] = entry;
  context.running.push_back(job);
  context.sq_tail = (index + 1) & ((1u << kRingLog2) - 1);
  __atomic_thread_fence(__ATOMIC_RELEASE);
  chip_->write32(NPU_DOORBELL_REG(context.queue, NPU_DOORBELL_SQ_TAIL), context.sq_tail);
}

}  // namespace npu::sim
