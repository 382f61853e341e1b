// SPDX-License-Identifier: MIT
// Counters of a handle.
#include <cerrno>

#include "handle.h"

using namespace npu::bm;

namespace {

constexpr uint64_t kNsPerUs = 1000;

/// Modelled cycles as microseconds at the nominal clock.
int microseconds(const Handle &handle, uint64_t cycles, uint64_t *us) {
  drm_npu_dev_info info{};
  if (int err = npu_device_info(handle.npu(), &info)) return err;
  if (!info.clock_khz) return fail(-EIO, "the card says that its clock is 0");
  *us = cycles / info.clock_khz * 1000 + cycles % info.clock_khz * 1000 / info.clock_khz;
  return 0;
}

int profile_of(const Handle &handle, bm_profile_t *out) {
  const Profile &p = handle.profile;
  uint64_t us = 0;
  if (int err = microseconds(handle, p.cycles, &us)) return err;
  *out = {};
  out->cdma_in_time = p.in.ns / kNsPerUs;
  out->cdma_in_counter = p.in.count;
  out->cdma_out_time = p.out.ns / kNsPerUs;
  out->cdma_out_counter = p.out.count;
  out->tpu_process_time = us;
  out->sent_api_counter = p.sent;
  out->completed_api_counter = p.completed;
  return 0;
}

}  // namespace

bm_status_t bm_get_profile(bm_handle_t handle, bm_profile_t *profile) {
  const auto h = find(handle);
  if (!h) return bad_handle(__func__);
  return npu_bm_status(profile ? profile_of(*h, profile) : fail(-EINVAL, "no place for the answer"), __func__);
}

bm_status_t bm_get_last_api_process_time_us(bm_handle_t handle, uint64_t *time_us) {
  const auto h = find(handle);
  if (!h) return bad_handle(__func__);
  if (!time_us) return npu_bm_status(fail(-EINVAL, "no place for the answer"), __func__);
  uint64_t cycles = 0;
  if (!h->last_cycles(&cycles))
    return npu_bm_status(fail(-EINVAL, "no launch of this thread on this handle has been waited for"), __func__);
  return npu_bm_status(microseconds(*h, cycles, time_us), __func__);
}
