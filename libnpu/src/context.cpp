// SPDX-License-Identifier: MIT
#include <sched.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "internal.h"

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
  const bool last = context->announced.load(std::memory_order_acquire) == seqno;
  *view = read_fence_page(context->link.fence_page);
  if (view->seqno < seqno) return false;
  // Nobody submitted a later job before, while or after we read: the page cannot have been about to change.
  *exact = last && view->seqno == seqno && context->announced.load(std::memory_order_acquire) == seqno;
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

struct Arrays {
  std::vector<drm_npu_job> jobs;
  std::vector<std::vector<drm_npu_region>> regions;
  std::vector<std::vector<drm_npu_sync>> in;
  std::vector<drm_npu_sync> out;
  std::vector<drm_npu_stream> empty;  // of cancelled jobs
  std::vector<uint64_t> cancelled;
};

int convert_regions(const npu_context *context, const npu_job_desc &job, unsigned int number,
                    std::vector<drm_npu_region> &out) {
  for (uint32_t i = 0; i < job.region_count; i++) {
    const npu_job_region &r = job.regions[i];
    if (!r.bo || r.bo->device != context->device)
      return fail(-EINVAL, "npu_submit: job %u region %u: %s", number, i,
                  r.bo ? "a buffer of another device" : "no buffer");
    if (r.reserved) return fail(-EINVAL, "npu_submit: job %u region %u: reserved must be 0", number, i);
    if (!r.size || r.offset > r.bo->size || r.size > r.bo->size - r.offset)
      return fail(-EINVAL, "npu_submit: job %u region %u: offset %#llx size %#llx in a buffer of %#llx bytes", number,
                  i, (unsigned long long)r.offset, (unsigned long long)r.size, (unsigned long long)r.bo->size);
    out.push_back({r.bo->handle, r.access, r.offset, r.size});
  }
  return 0;
}

bool was_cancelled(npu_context *context, uint64_t seqno) {
  std::lock_guard lock(context->cancelled_mutex);
  return context->cancelled.count(seqno);
}

/// How a finished job ended, as far as known; 0 for one that is not finished.
int ended_with(npu_context *context, uint64_t seqno) {
  npu_result result{};
  return npu_wait(context, seqno, 0, &result) == 0 && result.known ? result.error : 0;
}

/// Sets *cancel when one of the jobs has already failed: timelines forget the errors of points that are passed, so the
/// driver cannot tell.
int convert_fences(const npu_context *context, const npu_job_desc &job, unsigned int number,
                   std::vector<drm_npu_sync> &out, bool *cancel) {
  for (uint32_t i = 0; i < job.in_fence_count; i++) {
    const npu_job_fence &f = job.in_fences[i];
    if (!f.context || f.context->device != context->device)
      return fail(-EINVAL, "npu_submit: job %u in-fence %u: %s", number, i,
                  f.context ? "a context of another device" : "no context");
    const uint64_t last = f.context->submitted.load();
    if (!f.seqno || f.seqno > last)
      return fail(-EINVAL, "npu_submit: job %u in-fence %u: job %llu was not submitted, the last one is %llu", number,
                  i, (unsigned long long)f.seqno, (unsigned long long)last);
    out.push_back({f.context->link.sync, 0, f.seqno});
    *cancel = *cancel || was_cancelled(f.context, f.seqno) || ended_with(f.context, f.seqno);
  }
  return 0;
}

void remember_cancelled(npu_context *context, const std::vector<uint64_t> &seqnos) {
  constexpr size_t kRemembered = 256;
  std::lock_guard lock(context->cancelled_mutex);
  context->cancelled.insert(seqnos.begin(), seqnos.end());
  while (context->cancelled.size() > kRemembered) context->cancelled.erase(context->cancelled.begin());
}

/// Keeps place and order of a job, does nothing.
void make_empty(drm_npu_job &job, const drm_npu_stream &empty) {
  job.regions = 0;
  job.region_count = 0;
  job.streams = reinterpret_cast<uintptr_t>(&empty);
  job.in_sync_count = 0;
  job.profile_region = job.profile_bytes = 0;
  job.profile_offset = 0;
}

/// submit_mutex is held.
int convert(const npu_context *context, const npu_job_desc *jobs, unsigned int count, Arrays &arrays) {
  arrays.regions.resize(count);
  arrays.in.resize(count);
  arrays.out.resize(count);
  arrays.empty.resize(1);
  for (unsigned int i = 0; i < count; i++) {
    const npu_job_desc &j = jobs[i];
    const uint64_t seqno = context->submitted.load() + 1 + i;
    if (j.reserved) return fail(-EINVAL, "npu_submit: job %u: reserved must be 0", i);
    if ((j.region_count && !j.regions) || (j.stream_count && !j.streams) || (j.in_fence_count && !j.in_fences))
      return fail(-EINVAL, "npu_submit: job %u: a count without an array", i);
    if (int err = convert_regions(context, j, i, arrays.regions[i])) return err;
    bool cancel = false;
    if (int err = convert_fences(context, j, i, arrays.in[i], &cancel)) return err;
    arrays.out[i] = {context->link.sync, 0, seqno};
    drm_npu_job d{};
    d.regions = reinterpret_cast<uintptr_t>(arrays.regions[i].data());
    d.streams = reinterpret_cast<uintptr_t>(j.streams);
    d.in_syncs = reinterpret_cast<uintptr_t>(arrays.in[i].data());
    d.out_syncs = reinterpret_cast<uintptr_t>(&arrays.out[i]);
    d.region_count = j.region_count;
    d.region_stride = sizeof(drm_npu_region);
    d.stream_count = j.stream_count;
    d.stream_stride = sizeof(drm_npu_stream);
    d.in_sync_count = j.in_fence_count;
    d.out_sync_count = 1;
    d.sync_stride = sizeof(drm_npu_sync);
    d.flags = j.flags;
    d.core_mask = j.core_mask;
    d.profile_region = j.profile_region;
    d.profile_offset = j.profile_offset;
    d.profile_bytes = j.profile_bytes;
    d.budget = j.budget;
    if (cancel) make_empty(d, arrays.empty[0]);
    if (cancel) arrays.cancelled.push_back(seqno);
    arrays.jobs.push_back(d);
  }
  return 0;
}

const char *submit_error(int error) {
  switch (error) {
    case -EINVAL:
      return "the driver refused an argument of a job (region, stream, flags, core mask or profile)";
    case -EACCES:
      return "a job writes a sealed buffer";
    case -ENODEV:
      return "the device is gone";
    case -ECANCELED:
      return "the context is being destroyed";
    default:
      return strerror(-error);
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
  if (int err = context->device->transport->wait(context->device->file, &args))
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
    const char *why = err == -ENOSPC   ? "all queues of the card are in use"
                      : err == -EACCES ? "the priority needs CAP_SYS_NICE"
                                       : strerror(-err);
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
  device->transport->ctx_destroy(device->file, &context->link);
  if (context->owns_device) npu::device_unref(device);
  delete context;
}

int npu_context_state(npu_context *context, struct drm_npu_ctx_query *state) {
  if (!context || !state) return npu::fail(-EINVAL, "npu_context_state: no context or no place for the answer");
  *state = {};
  state->ctx_id = context->link.id;
  if (int err = context->device->transport->ctx_query(context->device->file, state))
    return npu::fail(err, "npu_context_state: %s", strerror(-err));
  return 0;
}

int npu_submit(npu_context *context, const struct npu_job_desc *jobs, unsigned int count, uint64_t *seqno) {
  if (!context || !jobs || !count) return npu::fail(-EINVAL, "npu_submit: no context or no jobs");
  std::lock_guard lock(context->submit_mutex);
  npu::Arrays arrays;
  if (int err = npu::convert(context, jobs, count, arrays)) return err;
  drm_npu_submit args{};
  args.ctx_id = context->link.id;
  args.jobs = reinterpret_cast<uintptr_t>(arrays.jobs.data());
  args.job_count = count;
  args.job_stride = sizeof(drm_npu_job);
  context->announced.fetch_add(count);
  if (int err = context->device->transport->submit(context->device->file, &args)) {
    context->announced.fetch_sub(count);
    return npu::fail(err, "npu_submit: %s", npu::submit_error(err));
  }
  if (!arrays.cancelled.empty()) npu::remember_cancelled(context, arrays.cancelled);
  context->submitted = arrays.jobs.back().seqno;
  if (seqno) *seqno = arrays.jobs.back().seqno;
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
