// SPDX-License-Identifier: MIT
// Counters of a handle, and traces of its threads.
#include <cerrno>

#include "libnpu/bmlib/handle.h"

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
  // "In" and "out" are the host's.
  out->cdma_in_time = p.from_device.ns / kNsPerUs;
  out->cdma_in_counter = p.from_device.count;
  out->cdma_out_time = p.to_device.ns / kNsPerUs;
  out->cdma_out_counter = p.to_device.count;
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

bm_status_t bm_trace_enable(bm_handle_t handle) {
  const auto h = find(handle);
  if (!h) return bad_handle(__func__);
  h->trace(true);
  return BM_SUCCESS;
}

bm_status_t bm_trace_disable(bm_handle_t handle) {
  const auto h = find(handle);
  if (!h) return bad_handle(__func__);
  h->trace(false);
  return BM_SUCCESS;
}

bm_status_t bm_traceitem_number(bm_handle_t handle, long long *number) {
  const auto h = find(handle);
  if (!h) return bad_handle(__func__);
  if (!number) return npu_bm_status(fail(-EINVAL, "no place for the answer"), __func__);
  *number = static_cast<long long>(h->trace_size());
  return BM_SUCCESS;
}

bm_status_t bm_trace_dump(bm_handle_t handle, struct bm_trace_item_data *trace_data) {
  const auto h = find(handle);
  if (!h) return bad_handle(__func__);
  if (!trace_data) return npu_bm_status(fail(-EINVAL, "no place for the record"), __func__);
  return npu_bm_status(h->take_trace(trace_data, 1) ? 0 : fail(-EINVAL, "this thread has no record"), __func__);
}

bm_status_t bm_trace_dump_all(bm_handle_t handle, struct bm_trace_item_data *trace_data) {
  const auto h = find(handle);
  if (!h) return bad_handle(__func__);
  if (!trace_data) return npu_bm_status(fail(-EINVAL, "no place for the records"), __func__);
  h->take_trace(trace_data, h->trace_size());
  return BM_SUCCESS;
}
