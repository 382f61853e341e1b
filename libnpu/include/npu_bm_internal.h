/* SPDX-License-Identifier: MIT */
#ifndef NPU_BM_INTERNAL_H
#define NPU_BM_INTERNAL_H

/*
 * Between libbmlib and the runtime, not installed: how launches of bmrt_* get to the chip and into bm_thread_sync().
 * Functions return 0 or a negative errno with a text in npu_last_error().
 */

#include "bmlib_internal.h"
#include "npu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The handle's device, borrowed: valid until bm_dev_free(); npu_device_ref() to keep it longer. -EINVAL: not a handle.
 */
NPU_API int npu_bm_device(bm_handle_t handle, npu_device **device);

/*
 * The context that carries the calling thread's launches on this handle, borrowed: it lives until bm_dev_free(). A
 * handle has up to 8 contexts; more threads, or a card without a free queue, share them. The same thread always gets
 * the same one, so its launches run in order.
 */
NPU_API int npu_bm_thread_context(bm_handle_t handle, npu_context **context);

/*
 * Job seqno of context is a launch of the calling thread: bm_thread_sync() of this thread waits for it and reports its
 * error, as bm_handle_sync() and bm_device_sync() wait for it. Call it once for each launch, right after npu_submit(),
 * with the last job's seqno if a launch has several.
 */
NPU_API int npu_bm_record(bm_handle_t handle, npu_context *context, uint64_t seqno);

/*
 * Like npu_bm_record(), and release(arg) is called exactly once after the job is finished: by the thread that notices
 * it first, in a call of bm_*_sync(), npu_bm_record*(), npu_bm_reap() or bm_dev_free() on this handle. No lock is held
 * meanwhile. When the call fails release is not called.
 */
NPU_API int npu_bm_record_release(bm_handle_t handle, npu_context *context, uint64_t seqno, void (*release)(void *arg),
                                  void *arg);

/*
 * Looks for finished launches of all threads on this handle and releases them. With wait, and unless one was found,
 * waits for the oldest. Returns how many were released (0: none was outstanding).
 */
NPU_API int npu_bm_reap(bm_handle_t handle, bool wait);

/*
 * Keeps the handle's device and contexts alive until npu_bm_unref(), also beyond bm_dev_free(): a runtime that outlives
 * its handle still finds the contexts of its unfinished launches. After bm_dev_free() of a referenced handle the
 * functions of this header still take it, those of bmlib_runtime.h do not.
 */
NPU_API int npu_bm_ref(bm_handle_t handle);
NPU_API void npu_bm_unref(bm_handle_t handle);

/*
 * A launch as data, what bm_send_api() takes: this header, stream_count struct drm_npu_stream, region_count regions.
 * Addresses are the device's, so that the record may be kept and its tensors moved.
 */
#define NPU_BM_API_LAUNCH 0x4e50
#define NPU_BM_API_MAGIC 0x49504142u /* "BAPI" */

struct npu_bm_api {
  uint32_t magic;
  uint32_t stream_count;
  uint32_t region_count;
  uint32_t core_mask;
};

struct npu_bm_api_region {
  uint64_t address;
  uint64_t bytes;
  uint32_t access;   /* DRM_NPU_REGION_ */
  uint32_t reserved; /* 0 */
};

/*
 * fn gets the synchronising calls and the copies of all handles, when they end: name, begin and end in nanoseconds of
 * CLOCK_MONOTONIC. NULL: nobody does; calls that are ending may still reach the old function for a moment.
 */
typedef void (*npu_bm_trace_fn)(const char *name, int64_t begin_ns, int64_t end_ns);
NPU_API void npu_bm_set_trace(npu_bm_trace_fn fn);

/* A line for the log of npu_set_log(), level NPU_LOG_. */
NPU_API void npu_bm_log(int level, const char *text);

/* npu_last_error()'s text goes to the log at BMLIB_LOG_ERROR, and an errno becomes a bm_status_t. */
NPU_API bm_status_t npu_bm_status(int error, const char *where);

#ifdef __cplusplus
}
#endif

#endif /* NPU_BM_INTERNAL_H */
