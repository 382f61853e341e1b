/* SPDX-License-Identifier: MIT */
#ifndef BMLIB_INTERNAL_H_
#define BMLIB_INTERNAL_H_

/*
 * What the vendor keeps in a header of this name, and some programs use all the same: launches as data, traces of a
 * thread, odds and ends. bmlib_runtime.h does not include it, since other programs declare these functions themselves.
 */

#include "bmlib_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- launches as data ---- */

/*
 * Sends a launch that get_bmodel_api_info_c() (bmruntime_interface.h) made: api_id, api and size are api_id[i],
 * api_data[i] and api_data_subsize[i] of it. Returns at once; bm_thread_sync() waits for it. BM_NOT_SUPPORTED: another
 * api_id. BM_ERR_PARAM: api is damaged, or points to memory that is not the device's any more.
 */
BMLIB_API bm_status_t bm_send_api(bm_handle_t handle, int api_id, const unsigned char *api, unsigned int size);
/* Likewise; launches wait in one order whatever is passed here: core_id is checked and then the launch's own list of
 * cores counts. */
BMLIB_API bm_status_t bm_send_api_to_core(bm_handle_t handle, int api_id, const unsigned char *api, unsigned int size,
                                          int core_id);
/* bm_thread_sync() under the name that goes with bm_send_api(). */
BMLIB_API bm_status_t bm_sync_api(bm_handle_t handle);

/* ---- trace of a thread ---- */

/* A copy, or a launch whose end a sync call has seen. Times in microseconds of CLOCK_MONOTONIC. */
struct bm_trace_item_data {
  int trace_type;      /* 0: copy, 1: launch */
  uint64_t sent_time;  /* the call began */
  uint64_t start_time; /* likewise: nobody sees when the card begins */
  uint64_t end_time;   /* the copy was done, or the sync call saw the end of the launch */
  int api_id;          /* 0 */
  int cdma_dir;        /* of a copy: 0 system to device, 1 device to system */
};

/* From now on copies and launches of the calling thread on this handle are recorded, at most 65536 that nobody has
 * fetched; later ones are left out. What was recorded before is forgotten. */
BMLIB_API bm_status_t bm_trace_enable(bm_handle_t handle);
/* No more is recorded; what was stays. */
BMLIB_API bm_status_t bm_trace_disable(bm_handle_t handle);
/* How many records of the calling thread there are. */
BMLIB_API bm_status_t bm_traceitem_number(bm_handle_t handle, long long *number);
/* Takes the oldest of them. BM_ERR_PARAM: there is none. */
BMLIB_API bm_status_t bm_trace_dump(bm_handle_t handle, struct bm_trace_item_data *trace_data);
/* Takes all, oldest first; bm_traceitem_number() says how many must have room. */
BMLIB_API bm_status_t bm_trace_dump_all(bm_handle_t handle, struct bm_trace_item_data *trace_data);

/* ---- cores ---- */

/* The lowest core that is not at work at this moment; core 0 when all are. */
BMLIB_API bm_status_t bmdev_get_idle_coreid(bm_handle_t handle, int *core_id);
/* Not supported: a job that hangs is ended by the driver, which resets the core itself; the card is reset as root by
 * npu-smi --reset. */
BMLIB_API bm_status_t bm_reset_tpu(bm_handle_t handle);

#ifdef __cplusplus
}
#endif

#endif /* BMLIB_INTERNAL_H_ */
