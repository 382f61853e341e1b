// SPDX-License-Identifier: MIT
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "libnpu/src/async.h"
#include "libnpu/src/internal.h"
#include "libnpu/src/submission.h"

namespace npu {
namespace {

// How long a completion is looked for on the fence page before the driver is asked to wake us.
constexpr int64_t kPollNs = 50000;

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// True when the fence page says that the job is finished; `exact` then tells whether `view` is about this very job.
bool look(const npu_context *context, uint64_t seqno, FenceView *view, bool *exact) {
  *view = read_fence_page(context->link.fence_page);
  if (view->seqno < seqno) return false;
  // No later job existed when we had read all: the page was about this job, and nobody was changing it.
  *exact = context->announced.load(std::memory_order_acquire) == seqno;
  return true;
}

/// What the fence page alone can answer.
bool finished_by_page(const npu_context *context, uint64_t seqno, int64_t poll_until, npu_result *result) {
  for (;;) {
    FenceView view{};
    bool exact = false;
    if (look(context, seqno, &view, &exact)) {
      if (!result) return true;
      if (!exact || !view.ok) return false;
      *result = {};
      result->known = 1;
      result->cycles = view.cycles;
      return true;
    }
    if (now_ns() >= poll_until) return false;
    relax();
  }
}

int wait(npu_context *context, uint64_t seqno, int64_t timeout_ns, npu_result *result) {
  const int64_t deadline = deadline_of(timeout_ns);
  const int64_t poll_until = timeout_ns ? std::min(deadline, now_ns() + kPollNs) : 0;
  if (finished_by_page(context, seqno, poll_until, result)) return 0;
  drm_npu_wait args{};
  args.ctx_id = context->link.id;
  args.seqno = seqno;
  args.timeout_ns = timeout_ns ? deadline : 0;
  if (int err = call(context->device, DRM_IOCTL_NPU_WAIT, &args))
    return fail(err, "npu_wait: job %llu: %s", (unsigned long long)seqno,
                err == -ETIME ? "not finished yet" : strerror(-err));
  if (result) *result = {args.error, args.known, args.cycles, args.fault};
  return 0;
}

}  // namespace

int context_create(npu_device *device, uint32_t priority, uint32_t core_mask, bool owns_device, npu_context **context) {
  drm_npu_ctx_create args{};
  args.priority = priority;
  args.core_mask = core_mask;
  npu_transport_context link{};
  if (int err = device->transport->ctx_create(device->file, &args, &link)) {
    drm_npu_dev_info info{};
    if (err == -ENOSPC && npu_device_info(device, &info) == 0)
      return fail(err,
                  "npu_context_create: priority %u, core mask %#x: all queues of the card are in use: it has %u, and "
                  "each context takes one, as does each thread that launches by a handle",
                  priority, core_mask, info.queues);
    const char *why = err == -EACCES ? "the priority needs CAP_SYS_NICE" : strerror(-err);
    return fail(err, "npu_context_create: priority %u, core mask %#x: %s", priority, core_mask, why);
  }
  auto *c = new npu_context{};
  c->device = device;
  c->owns_device = owns_device;
  c->link = link;
  if (owns_device) npu_device_ref(device);
  *context = c;
  return 0;
}

}  // namespace npu

int npu_context_create(npu_device *device, uint32_t priority, uint32_t core_mask, npu_context **context) {
  if (context) *context = nullptr;
  if (!device || !context) return npu::fail(-EINVAL, "npu_context_create: no device or no place for the context");
  return npu::context_create(device, priority, core_mask, true, context);
}

void npu_context_destroy(npu_context *context) {
  if (!context) return;
  npu_device *device = context->device;
  const auto queues = npu::async_forget(context);
  device->transport->ctx_destroy(device->file, &context->link);
  npu::async_forgotten(queues);
  if (context->owns_device) npu::device_unref(device);
  delete context;
}

int npu_context_state(npu_context *context, struct drm_npu_ctx_query *state) {
  if (!context || !state) return npu::fail(-EINVAL, "npu_context_state: no context or no place for the answer");
  *state = {};
  state->ctx_id = context->link.id;
  if (int err = npu::call(context->device, DRM_IOCTL_NPU_CTX_QUERY, state))
    return npu::fail(err, "npu_context_state: %s", strerror(-err));
  return 0;
}

int npu_submit(npu_context *context, const struct npu_job_desc *jobs, unsigned int count, uint64_t *seqno) {
  if (!context || !jobs || !count) return npu::fail(-EINVAL, "npu_submit: no context or no jobs");
  std::lock_guard lock(context->submit_mutex);
  if (context->async_launches.load(std::memory_order_acquire))
    return npu::fail(-EBUSY, "npu_submit: an npu_async has unfinished launches in this context");
  npu::Submission &submission = context->submission;
  try {
    if (int err = npu::submission_prepare("npu_submit", context, jobs, count, submission)) return err;
  } catch (const std::bad_alloc &) {
    return npu::fail(-ENOMEM, "npu_submit: not enough memory for %u jobs and what they name", count);
  }
  if (int err = npu::call(context->device, DRM_IOCTL_NPU_SUBMIT, &submission.args)) {
    npu::submission_failed(context, submission);
    return npu::fail(err, "npu_submit: %s", npu::submission_error(err));
  }
  npu::submission_done(context, submission);
  if (seqno) *seqno = submission.jobs.back().seqno;
  return 0;
}

int npu_wait(npu_context *context, uint64_t seqno, int64_t timeout_ns, struct npu_result *result) {
  if (!context) return npu::fail(-EINVAL, "npu_wait: no context");
  if (!seqno || seqno > context->submitted.load())
    return npu::fail(-EINVAL, "npu_wait: job %llu was not submitted, the last one is %llu", (unsigned long long)seqno,
                     (unsigned long long)context->submitted.load());
  if (int err = npu::wait(context, seqno, timeout_ns, result)) return err;
  if (result && npu::was_cancelled(context, seqno)) {
    *result = {};
    result->error = -ECANCELED;
    result->known = 1;
  }
  return 0;
}

int npu_describe_fault(const struct drm_npu_fault *fault, char *text, size_t bytes) {
  return fault ? npu::fault_text(*fault, text, bytes) : npu::fail(-EINVAL, "npu_describe_fault: no fault");
}
