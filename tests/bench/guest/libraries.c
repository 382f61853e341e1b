/* SPDX-License-Identifier: MIT */
/* Workloads: jobs by libnpu, launches of a network by BMRuntime. */
#include <bmruntime_interface.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/guest/workloads.h"

/* ---- npu_submit and npu_wait ---- */

static npu_device *device;
static npu_context *context;
static struct npu_job_region region = {.access = DRM_NPU_REGION_READ};
static struct npu_job_desc desc = {
    .regions = &region, .streams = &card.jobs[0].stream, .region_count = 1, .stream_count = 1};
static struct npu_job_fence fence;

static void open_libnpu(void) {
  npu_bo *bo;

  open_card(); /* for the command, and its stream */
  check(npu_device_open(0, &device), "npu_device_open");
  check(npu_context_create(device, DRM_NPU_PRIORITY_NORMAL, 0, &context), "npu_context_create");
  check(npu_bo_create(device, 4096, DRM_NPU_BO_SYSTEM, &bo), "npu_bo_create");
  check(npu_write(bo, 0, card.stream.bo.map, NPU_CMD_BYTES), "npu_write");
  region.bo = bo;
  region.size = 4096;
}

static void wait_for(uint64_t seqno) {
  struct npu_result result;

  check(npu_wait(context, seqno, -1, &result), "npu_wait");
  check(result.error, "job");
}

static void run_libnpu(int times) {
  for (int i = 0; i < times; i += ROUND) {
    uint64_t seqno = 0;

    for (int j = 0; j < ROUND; j++) check(npu_submit(context, &desc, 1, &seqno), "npu_submit");
    wait_for(seqno);
    fence = (struct npu_job_fence){.context = context, .seqno = seqno};
  }
}

static void open_libnpu_fence(void) {
  open_libnpu();
  run_libnpu(ROUND);
  desc.in_fences = &fence;
  desc.in_fence_count = 1;
}

static void run_libnpu_wait(int times) {
  for (int i = 0; i < times; i++) {
    uint64_t seqno;

    check(npu_submit(context, &desc, 1, &seqno), "npu_submit");
    wait_for(seqno);
  }
}

/* ---- npu_async ---- */

static npu_async *async;
static int launches_left;

static void open_async(void) {
  open_libnpu();
  check(npu_async_create(device, NPU_ASYNC_URING, &async), "npu_async_create");
}

/* Launches again, in the same context. */
static void launched(void *arg, const struct npu_completion *completion) {
  check(completion->error, "launch");
  if (!launches_left) return;
  launches_left--;
  check(npu_async_submit(async, context, &desc, 1, launched, arg), "npu_async_submit");
}

static void launch_all(int times, int in_flight) {
  launches_left = times - in_flight;
  for (int i = 0; i < in_flight; i++)
    check(npu_async_submit(async, context, &desc, 1, launched, NULL), "npu_async_submit");
  while (npu_async_unfinished(async)) must(npu_async_process(async, 0, -1) >= 0, "npu_async_process", npu_last_error());
}

static void run_async(int times) { launch_all(times, DEPTH); }
static void run_async_one(int times) { launch_all(times, 1); }

/* ---- launches of a network with one input and one output ---- */

static struct {
  bm_handle_t handle;
  void *runtime;
  const bm_net_info_t *info;
  bm_tensor_t in, out;
} net;

static void open_network(void) {
  const char *path = getenv("NPU_BENCH_MODEL");
  const char **names = NULL;

  must(path != NULL, "NPU_BENCH_MODEL", "the path of a .bmodel is expected in this variable");
  must(bm_dev_request(&net.handle, 0) == BM_SUCCESS, "device 0", npu_last_error());
  net.runtime = bmrt_create(net.handle);
  must(net.runtime && bmrt_load_bmodel(net.runtime, path), path, bmrt_last_error());
  bmrt_get_network_names(net.runtime, &names);
  must(names != NULL, path, bmrt_last_error());
  net.info = bmrt_get_network_info(net.runtime, names[0]);
  free(names);
  must(net.info && net.info->input_num == 1 && net.info->output_num == 1, path,
       "a network with one input and one output is expected");
  must(bmrt_tensor(&net.in, net.runtime, net.info->input_dtypes[0], net.info->stages[0].input_shapes[0]), "input",
       bmrt_last_error());
  must(bmrt_tensor(&net.out, net.runtime, net.info->output_dtypes[0], net.info->stages[0].output_shapes[0]), "output",
       bmrt_last_error());
}

static void launch(int times, int between_syncs) {
  for (int i = 0; i < times; i += between_syncs) {
    for (int j = 0; j < between_syncs; j++)
      must(bmrt_launch_tensor_ex(net.runtime, net.info->name, &net.in, 1, &net.out, 1, true, true), "launch",
           bmrt_last_error());
    must(bm_thread_sync(net.handle) == BM_SUCCESS, "sync", npu_last_error());
  }
}

static void run_launch(int times) { launch(times, 1); }
static void run_launch_16(int times) { launch(times, 16); }

const struct workload library_workloads[] = {
    {"libnpu", "npu_submit, npu_wait after 32", "submit", JOBS, DEPTH, open_libnpu, run_libnpu},
    {"libnpu-fence", "the same with an in-fence that has signalled", "submit-fences", JOBS, DEPTH, open_libnpu_fence,
     run_libnpu},
    {"libnpu-wait", "npu_submit and npu_wait, one job in flight", "wait", JOBS, DEPTH, open_libnpu, run_libnpu_wait},
    {"async", "npu_async through io_uring, 64 launches in flight", "uring", JOBS, DEPTH, open_async, run_async},
    {"async-one", "npu_async through io_uring, one launch in flight", "libnpu-wait", JOBS, DEPTH, open_async,
     run_async_one},
    {"launch", "bmrt_launch_tensor_ex of digits, and bm_thread_sync", "wait", LAUNCHES, 64, open_network, run_launch},
    {"launch-16", "bmrt_launch_tensor_ex of digits, bm_thread_sync after 16", "launch", LAUNCHES, 64, open_network,
     run_launch_16},
    {0},
};
