// SPDX-License-Identifier: MIT
#include "libnpu/src/submission.h"

#include <cerrno>
#include <cstring>

#include "libnpu/src/internal.h"

namespace npu {
namespace {

int convert_regions(const char *caller, const npu_context *context, const npu_job_desc &job, unsigned int number,
                    drm_npu_region *out) {
  for (uint32_t i = 0; i < job.region_count; i++) {
    const npu_job_region &r = job.regions[i];
    if (!r.bo || r.bo->device != context->device)
      return fail(-EINVAL, "%s: job %u region %u: %s", caller, number, i,
                  r.bo ? "a buffer of another device" : "no buffer");
    if (r.reserved) return fail(-EINVAL, "%s: job %u region %u: reserved must be 0", caller, number, i);
    if (!r.size || r.offset > r.bo->size || r.size > r.bo->size - r.offset)
      return fail(-EINVAL, "%s: job %u region %u: offset %#llx size %#llx in a buffer of %#llx bytes", caller, number,
                  i, (unsigned long long)r.offset, (unsigned long long)r.size, (unsigned long long)r.bo->size);
    out[i] = {r.bo->handle, r.access, r.offset, r.size};
  }
  return 0;
}

/// How a finished job ended, as far as known; 0 for one that is not finished.
int ended_with(npu_context *context, uint64_t seqno) {
  npu_result result{};
  return npu_wait(context, seqno, 0, &result) == 0 && result.known ? result.error : 0;
}

/// Sets *cancel when one of the jobs has already failed: timelines forget the errors of points that are passed, so the
/// driver cannot tell.
[[gnu::noinline]] int convert_fences(const char *caller, const npu_context *context, const npu_job_desc &job,
                                     unsigned int number, drm_npu_sync *out, bool *cancel) {
  for (uint32_t i = 0; i < job.in_fence_count; i++) {
    const npu_job_fence &f = job.in_fences[i];
    if (!f.context || f.context->device != context->device)
      return fail(-EINVAL, "%s: job %u in-fence %u: %s", caller, number, i,
                  f.context ? "a context of another device" : "no context");
    const uint64_t last = f.context->submitted.load();
    if (!f.seqno || f.seqno > last)
      return fail(-EINVAL, "%s: job %u in-fence %u: job %llu was not submitted, the last one is %llu", caller, number,
                  i, (unsigned long long)f.seqno, (unsigned long long)last);
    out[i] = {f.context->link.sync, 0, f.seqno};
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

/// Its arrays: `regions`, `in`, `out`.
drm_npu_job convert_job(const npu_job_desc &j, const drm_npu_region *regions, const drm_npu_sync *in,
                        const drm_npu_sync *out) {
  return {
      .regions = j.region_count ? reinterpret_cast<uintptr_t>(regions) : 0,
      .streams = reinterpret_cast<uintptr_t>(j.streams),
      .in_syncs = j.in_fence_count ? reinterpret_cast<uintptr_t>(in) : 0,
      .out_syncs = reinterpret_cast<uintptr_t>(out),
      .region_count = j.region_count,
      .region_stride = sizeof(drm_npu_region),
      .stream_count = j.stream_count,
      .stream_stride = sizeof(drm_npu_stream),
      .in_sync_count = j.in_fence_count,
      .out_sync_count = 1,
      .sync_stride = sizeof(drm_npu_sync),
      .flags = j.flags,
      .core_mask = j.core_mask,
      .profile_region = j.profile_region,
      .profile_offset = j.profile_offset,
      .profile_bytes = j.profile_bytes,
      .pad = 0,
      .budget = j.budget,
      .seqno = 0,
  };
}

/// Of a job: more than any driver takes, and little enough to allocate room for before the entries are looked at.
constexpr uint32_t kMostEntries = 65536;

/// Sizes the arrays for what the jobs have. The entries' values are left from the submission before.
int make_room(const char *caller, const npu_job_desc *jobs, unsigned int count, Submission &submission) {
  size_t regions = 0, fences = 0;
  for (unsigned int i = 0; i < count; i++) {
    const npu_job_desc &j = jobs[i];
    if (j.reserved) return fail(-EINVAL, "%s: job %u: reserved must be 0", caller, i);
    if ((j.region_count && !j.regions) || (j.stream_count && !j.streams) || (j.in_fence_count && !j.in_fences))
      return fail(-EINVAL, "%s: job %u: a count without an array", caller, i);
    if (j.region_count > kMostEntries || j.in_fence_count > kMostEntries)
      return fail(-EINVAL, "%s: job %u: %u regions and %u in-fences, at most %u each", caller, i, j.region_count,
                  j.in_fence_count, kMostEntries);
    regions += j.region_count;
    fences += j.in_fence_count;
  }
  submission.jobs.resize(count);
  submission.out.resize(count);
  submission.regions.resize(regions);
  submission.in.resize(fences);
  return 0;
}

}  // namespace

bool was_cancelled(npu_context *context, uint64_t seqno) {
  std::lock_guard lock(context->cancelled_mutex);
  return context->cancelled.count(seqno);
}

int submission_prepare(const char *caller, npu_context *context, const npu_job_desc *jobs, unsigned int count,
                       Submission &submission) {
  submission.cancelled.clear();
  if (int err = make_room(caller, jobs, count, submission)) return err;
  const uint64_t first = context->submitted.load() + 1;
  drm_npu_region *regions = submission.regions.data();
  drm_npu_sync *in = submission.in.data(), *const out = submission.out.data();
  drm_npu_job *const converted = submission.jobs.data();
  for (unsigned int i = 0; i < count; i++) {
    const npu_job_desc &j = jobs[i];
    if (int err = convert_regions(caller, context, j, i, regions)) return err;
    bool cancel = false;
    if (j.in_fence_count)
      if (int err = convert_fences(caller, context, j, i, in, &cancel)) return err;
    out[i] = {context->link.sync, 0, first + i};
    converted[i] = convert_job(j, regions, in, &out[i]);
    if (cancel) {
      submission.cancelled.push_back(first + i);
      make_empty(converted[i], submission.empty);
    }
    regions += j.region_count;
    in += j.in_fence_count;
  }
  submission.args.ctx_id = context->link.id;
  submission.args.jobs = reinterpret_cast<uintptr_t>(converted);
  submission.args.job_count = count;
  submission.args.job_stride = sizeof(drm_npu_job);
  context->announced.fetch_add(count);
  return 0;
}

void submission_done(npu_context *context, const Submission &submission) {
  if (!submission.cancelled.empty()) remember_cancelled(context, submission.cancelled);
  context->submitted = submission.jobs.back().seqno;
}

void submission_failed(npu_context *context, const Submission &submission) {
  context->announced.fetch_sub(submission.args.job_count);
}

const char *submission_error(int error) {
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

}  // namespace npu
