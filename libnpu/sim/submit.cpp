// SPDX-License-Identifier: MIT
// Submission: everything that a program passes is copied, then checked, then used.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "libnpu/sim/file.h"

namespace npu::sim {
namespace {

constexpr uint32_t kMaxSyncs = 256;   // of a job, in or out
constexpr uint32_t kMaxPoints = 256;  // of timelines, signalled by a submission
constexpr uint32_t kMaxStride = 1024;

/// Element i of an array whose elements are stride bytes apart. What we do not know of a longer one must be zero.
template <typename T>
bool fetch(uint64_t array, uint32_t stride, uint32_t i, T &out) {
  const auto *from = reinterpret_cast<const uint8_t *>(static_cast<uintptr_t>(array)) + static_cast<size_t>(i) * stride;
  memcpy(&out, from, sizeof(T));
  return std::all_of(from + sizeof(T), from + stride, [](uint8_t byte) { return !byte; });
}

template <typename T>
bool array_ok(uint64_t array, uint32_t stride, uint32_t count) {
  return !count || (array && stride >= sizeof(T) && stride <= kMaxStride && stride % 8 == 0);
}

bool within(uint64_t offset, uint64_t bytes, uint64_t size) { return offset <= size && bytes <= size - offset; }

/// One engine's stream: it must lie in a readable region; what it does is the chip's to check.
bool stream_ok(uint32_t region, uint32_t count, uint64_t offset, const std::vector<npu_region> &regions) {
  if (!count) return !region && !offset;
  return count <= NPU_MAX_STREAM_COMMANDS && offset % NPU_CMD_BYTES == 0 && region < regions.size() &&
         regions[region].access & NPU_ACCESS_READ &&
         within(offset, uint64_t{count} * NPU_CMD_BYTES, regions[region].bytes);
}

bool job_args_ok(const drm_npu_job &args, uint32_t context_mask) {
  if (args.pad || args.flags & ~DRM_NPU_JOB_EXPLICIT || args.core_mask & ~context_mask) return false;
  if (args.region_count > NPU_MAX_REGIONS) return false;
  const int cores = std::popcount(args.core_mask ? args.core_mask : context_mask);
  if (!args.stream_count || args.stream_count > static_cast<uint32_t>(cores)) return false;
  if (args.in_sync_count > kMaxSyncs || args.out_sync_count > kMaxSyncs) return false;
  return array_ok<drm_npu_region>(args.regions, args.region_stride, args.region_count) &&
         array_ok<drm_npu_stream>(args.streams, args.stream_stride, args.stream_count) &&
         array_ok<drm_npu_sync>(args.in_syncs, args.sync_stride, args.in_sync_count) &&
         array_ok<drm_npu_sync>(args.out_syncs, args.sync_stride, args.out_sync_count);
}

bool profile_ok(const drm_npu_job &args, const std::vector<npu_region> &regions) {
  if (!args.profile_bytes) return !args.profile_region && !args.profile_offset;
  return args.profile_region < regions.size() && regions[args.profile_region].access & NPU_ACCESS_WRITE &&
         args.profile_offset % 8 == 0 && args.profile_bytes >= sizeof(npu_profile_header) &&
         within(args.profile_offset, args.profile_bytes, regions[args.profile_region].bytes);
}

}  // namespace

int File::check_job(const Context &context, const drm_npu_job &args, Job &job) {
  if (!job_args_ok(args, context.core_mask)) return -EINVAL;
  for (uint32_t i = 0; i < args.region_count; i++) {
    drm_npu_region r;
    if (!fetch(args.regions, args.region_stride, i, r)) return -EINVAL;
    const auto bo = find_bo(r.handle);
    if (!bo) return -ENOENT;
    const bool writes = r.access & DRM_NPU_REGION_WRITE;
    if (!r.access || r.access & ~(DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)) return -EINVAL;
    if (!r.size || !within(r.offset, r.size, bo->size)) return -EINVAL;
    if (writes && bo->sealed) return -EACCES;
    job.regions.push_back({bo->va + r.offset, r.size, r.access, 0, 0});
    job.bos.emplace_back(bo, writes);
  }
  for (uint32_t i = 0; i < args.stream_count; i++) {
    drm_npu_stream s;
    if (!fetch(args.streams, args.stream_stride, i, s)) return -EINVAL;
    if (!stream_ok(s.tiu_region, s.tiu_count, s.tiu_offset, job.regions)) return -EINVAL;
    if (!stream_ok(s.gdma_region, s.gdma_count, s.gdma_offset, job.regions)) return -EINVAL;
    npu_stream &stream = job.streams.emplace_back();
    stream.tiu_offset = s.tiu_offset;
    stream.gdma_offset = s.gdma_offset;
    stream.tiu_count = s.tiu_count;
    stream.gdma_count = s.gdma_count;
    stream.tiu_region = static_cast<uint8_t>(s.tiu_region);
    stream.gdma_region = static_cast<uint8_t>(s.gdma_region);
  }
  if (!profile_ok(args, job.regions)) return -EINVAL;
  job.header.magic = NPU_JOB_MAGIC;
  job.header.version = NPU_JOB_VERSION;
  job.header.flags = NPU_JOB_IRQ | (args.profile_bytes ? NPU_JOB_PROFILE : 0);
  job.header.stream_count = args.stream_count;
  job.header.region_count = args.region_count;
  job.header.core_mask = args.core_mask;
  job.header.profile_region = args.profile_region;
  job.header.budget = args.budget ? args.budget : kDefaultBudgetMs * chip_->read32(NPU_REG_CLOCK_KHZ);
  job.header.profile_offset = args.profile_offset;
  job.header.profile_bytes = args.profile_bytes;
  return 0;
}

int File::add_dependencies(const std::shared_ptr<Context> &context, const drm_npu_job &args, Job &job) {
  for (uint32_t i = 0; i < args.in_sync_count; i++) {
    drm_npu_sync sync;
    if (!fetch(args.in_syncs, args.sync_stride, i, sync) || sync.flags) return -EINVAL;
    const auto other = find_context(sync.handle);
    if (!other) return -ENOENT;
    if (!sync.point || sync.point > other->submitted) return -EINVAL;
    const Result *ended = other->completed >= sync.point ? other->result(sync.point) : nullptr;
    if (other->completed < sync.point || (ended && ended->error)) job.dependencies.push_back({other, sync.point, true});
  }
  for (uint32_t i = 0; i < args.out_sync_count; i++) {
    drm_npu_sync sync;
    if (!fetch(args.out_syncs, args.sync_stride, i, sync) || sync.flags) return -EINVAL;
    // The only sync objects there are: a context's own timeline.
    if (sync.handle != context->id || sync.point != job.seqno) return -EINVAL;
  }
  return 0;
}

/// A job that writes a buffer follows all earlier users of it, a job that reads it the earlier writers. The context's
/// own order needs no word.
void File::enqueue(const std::shared_ptr<Context> &context, std::shared_ptr<Job> job) {
  for (const auto &[bo, writes] : job->bos) {
    for (const auto &[user, user_writes] : bo->users) {
      if (!job->implicit || user.first == context->id || !(writes || user_writes)) continue;
      if (const auto other = find_context(user.first)) job->dependencies.push_back({other, user.second, false});
    }
    bool &marked = bo->users[{context->id, job->seqno}];
    marked = marked || writes;
  }
  context->submitted = job->seqno;
  context->pending.push_back(std::move(job));
}

int File::submit(drm_npu_submit &args) {
  if (args.flags || !args.job_count || args.job_count > kMaxInFlight ||
      !array_ok<drm_npu_job>(args.jobs, args.job_stride, 1))
    return -EINVAL;
  Lock lock(mutex_);
  const auto context = find_context(args.ctx_id);
  if (!context) return -ENOENT;
  progress();
  while (context->unfinished() + args.job_count > kMaxInFlight) {
    if (context->closing) return -ECANCELED;
    if (dead_) return -ENODEV;
    changed_.wait(lock);
    progress();
  }
  if (context->closing) return -ECANCELED;
  if (dead_) return -ENODEV;

  std::vector<std::shared_ptr<Job>> jobs;
  uint32_t points = 0;
  for (uint32_t i = 0; i < args.job_count; i++) {
    drm_npu_job a;
    if (!fetch(args.jobs, args.job_stride, i, a)) return -EINVAL;
    auto job = std::make_shared<Job>();
    job->seqno = context->submitted + 1 + i;
    if (int err = check_job(*context, a, *job)) return err;
    if (int err = add_dependencies(context, a, *job)) return err;
    if ((points += a.out_sync_count) > kMaxPoints) return -EINVAL;
    job->implicit = !(a.flags & DRM_NPU_JOB_EXPLICIT);
    jobs.push_back(std::move(job));
  }
  for (uint32_t i = 0; i < args.job_count; i++) {
    auto *written =
        reinterpret_cast<uint8_t *>(static_cast<uintptr_t>(args.jobs)) + static_cast<size_t>(i) * args.job_stride;
    memcpy(written + offsetof(drm_npu_job, seqno), &jobs[i]->seqno, sizeof(uint64_t));
    enqueue(context, std::move(jobs[i]));
  }
  progress();
  return 0;
}

}  // namespace npu::sim
