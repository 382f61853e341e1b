// SPDX-License-Identifier: MIT
// A launch: copies of what a program passed.
#include <cerrno>

#include "libnpu/src/async.h"
#include "libnpu/src/internal.h"

namespace npu {
namespace {

/// Appends an array and makes the pointer lead to the copy; nothing moves, since there is room for all.
template <typename T>
void take(std::vector<T> &to, const T *&from, uint32_t count) {
  const T *const copy = to.data() + to.size();
  to.insert(to.end(), from, from + count);
  from = count ? copy : nullptr;
}

bool has_arrays(const npu_job_desc &job) {
  return (job.regions || !job.region_count) && (job.streams || !job.stream_count) &&
         (job.in_fences || !job.in_fence_count);
}

}  // namespace

bool AsyncLaunch::copy(const npu_job_desc *from, unsigned int count) {
  size_t region_count = 0, stream_count = 0, fence_count = 0;
  completion.count = count;
  for (unsigned int i = 0; i < count; i++) {
    if (!has_arrays(from[i])) {
      completion.error = -EINVAL;
      text = "npu_async_submit: job " + std::to_string(i) + ": a count without an array";
      return false;
    }
    region_count += from[i].region_count;
    stream_count += from[i].stream_count;
    fence_count += from[i].in_fence_count;
  }
  regions.reserve(region_count);
  streams.reserve(stream_count);
  fences.reserve(fence_count);
  jobs.assign(from, from + count);
  for (npu_job_desc &job : jobs) {
    take(regions, job.regions, job.region_count);
    take(streams, job.streams, job.stream_count);
    take(fences, job.in_fences, job.in_fence_count);
  }
  for (npu_job_region &region : regions)
    if (region.bo) npu_bo_ref(region.bo);
  return true;
}

void AsyncLaunch::release() {
  for (npu_job_region &region : regions) npu_bo_unref(region.bo);
  regions.clear();
}

uint64_t AsyncLaunch::number() const {
  return submission.jobs.empty() ? 0 : __atomic_load_n(&submission.jobs.back().seqno, __ATOMIC_ACQUIRE);
}

}  // namespace npu
