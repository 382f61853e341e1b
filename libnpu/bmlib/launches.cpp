// SPDX-License-Identifier: MIT
// Synchronisation, and the runtime's side of it.
#include <cerrno>

#include "libnpu/bmlib/handle.h"

using namespace npu::bm;

bm_status_t bm_thread_sync(bm_handle_t handle) {
  const TracedCall traced(__func__);
  const auto h = find(handle);
  return h ? npu_bm_status(h->sync_thread(), __func__) : bad_handle(__func__);
}

bm_status_t bm_handle_sync(bm_handle_t handle) {
  const TracedCall traced(__func__);
  const auto h = find(handle);
  return h ? npu_bm_status(h->sync_all(), __func__) : bad_handle(__func__);
}

namespace npu::bm {

bm_status_t check_core(const char *where, bm_handle_t handle, int core_id) {
  const auto h = find(handle);
  if (!h) return bad_handle(where);
  drm_npu_dev_info info{};
  if (int err = npu_device_info(h->npu(), &info)) return npu_bm_status(err, where);
  if (core_id >= 0 && static_cast<uint32_t>(core_id) < info.cores) return BM_SUCCESS;
  return npu_bm_status(fail(-EINVAL, "core %d: expected 0 to %u", core_id, info.cores - 1), where);
}

}  // namespace npu::bm

bm_status_t bm_thread_sync_from_core(bm_handle_t handle, int core_id) {
  const bm_status_t status = check_core(__func__, handle, core_id);
  return status == BM_SUCCESS ? bm_thread_sync(handle) : status;
}

bm_status_t bm_handle_sync_from_core(bm_handle_t handle, int core_id) {
  const bm_status_t status = check_core(__func__, handle, core_id);
  return status == BM_SUCCESS ? bm_handle_sync(handle) : status;
}

void bm_flush(bm_handle_t handle) { bm_handle_sync(handle); }

bm_status_t bm_device_sync(bm_handle_t handle) {
  const TracedCall traced(__func__);
  const auto h = find(handle);
  if (!h) return bad_handle(__func__);
  int first = 0;
  for (const auto &other : handles_of(h->device())) {
    const int err = other->sync_all();
    if (!first) first = err;
  }
  return npu_bm_status(first, __func__);
}

bm_status_t bm_set_sync_timeout(bm_handle_t handle, int timeout) {
  const auto h = find(handle);
  if (!h) return bad_handle(__func__);
  h->timeout_ms = timeout;
  return BM_SUCCESS;
}

int npu_bm_device(bm_handle_t handle, npu_device **device) {
  const auto h = find_referenced(handle);
  if (!h || !device) return -EINVAL;
  *device = h->npu();
  return 0;
}

int npu_bm_thread_context(bm_handle_t handle, npu_context **context) {
  const auto h = find_referenced(handle);
  return h && context ? h->thread_context(context) : -EINVAL;
}

int npu_bm_record(bm_handle_t handle, npu_context *context, uint64_t seqno) {
  return npu_bm_record_release(handle, context, seqno, nullptr, nullptr);
}

int npu_bm_record_release(bm_handle_t handle, npu_context *context, uint64_t seqno, void (*release)(void *arg),
                          void *arg) {
  const auto h = find_referenced(handle);
  return h && context ? h->record(context, seqno, release, arg) : -EINVAL;
}

int npu_bm_reap(bm_handle_t handle, bool wait) {
  const auto h = find_referenced(handle);
  return h ? h->reap(wait) : -EINVAL;
}
