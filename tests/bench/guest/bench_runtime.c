/* SPDX-License-Identifier: MIT */
/*
 * What the libraries cost, on whichever transport NPU_DEVICE selects: copies of 64 MiB, loading a model, launches.
 * Prints one line for each figure: NAME VALUE UNIT. Ratios are for the caller.
 *
 *   bench_runtime memcpy              copies in the host's memory alone; needs no device
 *   bench_runtime copies
 *   bench_runtime load MODEL.bmodel
 *   bench_runtime launch MODEL.bmodel
 *   bench_runtime async               empty jobs from one thread
 */
#include <bmruntime_interface.h>
#include <errno.h>
#include <fcntl.h>
#include <npu.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/bench/guest/bench.h"

#define BYTES (64u << 20)
#define ROUNDS 9
#define LAUNCHES 300
#define MAX_THREADS 4

static void must(int ok, const char *what, const char *reason) {
  if (ok) return;
  fprintf(stderr, "bench_runtime: %s: %s\n", what, reason);
  exit(1);
}

/* ---- copies ---- */

/* Memory that is there: its pages have been touched. */
static uint8_t *touched(uint8_t value) {
  uint8_t *p = aligned_alloc(4096, BYTES);

  must(p != NULL, "64 MiB", strerror(errno));
  memset(p, value, BYTES);
  return p;
}

struct copies {
  bm_handle_t handle;
  bm_device_mem_t card, other;
  npu_bo *bo, *pinned;
  uint8_t *from, *to;
};

static int plain(struct copies *c) {
  memcpy(c->to, c->from, BYTES);
  return 0;
}
static int s2d(struct copies *c) { return bm_memcpy_s2d(c->handle, c->card, c->from); }
static int d2s(struct copies *c) { return bm_memcpy_d2s(c->handle, c->to, c->card); }
static int d2d(struct copies *c) { return bm_memcpy_d2d_byte(c->handle, c->other, 0, c->card, 0, BYTES); }
static int pinned_s2d(struct copies *c) { return npu_copy(c->bo, 0, c->pinned, 0, BYTES); }
static int pinned_d2s(struct copies *c) { return npu_copy(c->pinned, 0, c->bo, 0, BYTES); }

/* Megabytes a second. */
static void rate(const char *name, struct copies *c, int (*copy)(struct copies *)) {
  double samples[ROUNDS];

  must(!copy(c), name, npu_last_error()); /* the first one makes what is kept */
  for (int i = 0; i < ROUNDS; i++) {
    const double start = now_us();

    must(!copy(c), name, npu_last_error());
    samples[i] = now_us() - start;
  }
  report(name, BYTES / median(samples, ROUNDS), "MB/s");
}

static void bench_memcpy(void) {
  struct copies c = {.from = touched(1), .to = touched(2)};

  rate("host_memcpy", &c, plain);
  free(c.from);
  free(c.to);
}

static void bench_copies(void) {
  struct copies c = {.from = touched(1), .to = touched(2)};
  npu_device *device;

  must(bm_dev_request(&c.handle, 0) == BM_SUCCESS, "device 0", npu_last_error());
  must(!bm_malloc_device_byte(c.handle, &c.card, BYTES), "64 MiB of the card", npu_last_error());
  must(!bm_malloc_device_byte(c.handle, &c.other, BYTES), "64 MiB of the card", npu_last_error());
  must(!npu_device_open(0, &device), "device 0", npu_last_error());
  must(!npu_bo_create(device, BYTES, DRM_NPU_BO_CARD, &c.bo), "64 MiB of the card", npu_last_error());
  must(!npu_bo_create(device, BYTES, DRM_NPU_BO_SYSTEM, &c.pinned), "64 MiB that the card reaches", npu_last_error());
  rate("guest_memcpy", &c, plain);
  rate("s2d", &c, s2d);
  rate("d2s", &c, d2s);
  rate("d2d", &c, d2d);
  rate("pinned_s2d", &c, pinned_s2d);
  rate("pinned_d2s", &c, pinned_d2s);
  must(!memcmp(c.from, c.to, BYTES), "d2s after s2d", "the bytes differ");
  npu_bo_unref(c.bo);
  npu_bo_unref(c.pinned);
  npu_device_close(device);
  bm_free_device(c.handle, c.card);
  bm_free_device(c.handle, c.other);
  bm_dev_free(c.handle);
  free(c.from);
  free(c.to);
}

/* ---- models ---- */

static void read_whole(const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  struct stat info;
  uint8_t *data;
  ssize_t got;
  size_t at = 0;

  must(fd >= 0 && !fstat(fd, &info), path, strerror(errno));
  data = malloc((size_t)info.st_size);
  must(data != NULL, path, strerror(errno));
  while ((got = read(fd, data + at, (size_t)info.st_size - at)) > 0) at += (size_t)got;
  must(at == (size_t)info.st_size, path, "cannot be read whole");
  free(data);
  close(fd);
}

/* How the coefficients get from the file to the card: "" is what the runtime finds faster. */
static const char *const ways[] = {"", "mapping", "uring"};

static void bench_load(const char *path) {
  double reads[ROUNDS], loads[3][ROUNDS];
  bm_handle_t handle;

  must(bm_dev_request(&handle, 0) == BM_SUCCESS, "device 0", npu_last_error());
  read_whole(path); /* both find the file in the page cache */
  for (int i = 0; i < ROUNDS; i++) {
    double start = now_us();

    read_whole(path);
    reads[i] = now_us() - start;
    for (int way = 0; way < 3; way++) {
      void *runtime;

      setenv("NPU_LOAD", ways[way], 1);
      start = now_us();
      runtime = bmrt_create(handle);
      must(runtime && bmrt_load_bmodel(runtime, path), path, bmrt_last_error());
      loads[way][i] = now_us() - start;
      bmrt_destroy(runtime);
    }
  }
  unsetenv("NPU_LOAD");
  report("read_model", median(reads, ROUNDS), "us");
  report("load_model", median(loads[0], ROUNDS), "us");
  report("load_model_mapping", median(loads[1], ROUNDS), "us");
  report("load_model_uring", median(loads[2], ROUNDS), "us");
  bm_dev_free(handle);
}

/* ---- launches ---- */

struct network {
  bm_handle_t handle;
  void *runtime;
  const bm_net_info_t *info;
};

static void network_open(struct network *n, const char *path) {
  const char **names = NULL;

  must(bm_dev_request(&n->handle, 0) == BM_SUCCESS, "device 0", npu_last_error());
  n->runtime = bmrt_create(n->handle);
  must(n->runtime && bmrt_load_bmodel(n->runtime, path), path, bmrt_last_error());
  bmrt_get_network_names(n->runtime, &names);
  must(names != NULL, path, bmrt_last_error());
  n->info = bmrt_get_network_info(n->runtime, names[0]);
  free(names);
  must(n->info && n->info->input_num == 1 && n->info->output_num == 1, path,
       "a network with one input and one output is expected");
}

struct worker {
  const struct network *net;
  int in_flight;
};

static void *launch_often(void *arg) {
  const struct worker *w = arg;
  const struct network *n = w->net;
  bm_tensor_t in, out;

  must(bmrt_tensor(&in, n->runtime, n->info->input_dtypes[0], n->info->stages[0].input_shapes[0]), "input",
       bmrt_last_error());
  must(bmrt_tensor(&out, n->runtime, n->info->output_dtypes[0], n->info->stages[0].output_shapes[0]), "output",
       bmrt_last_error());
  for (int i = 1; i <= LAUNCHES; i++) {
    must(bmrt_launch_tensor_ex(n->runtime, n->info->name, &in, 1, &out, 1, true, true), "launch", bmrt_last_error());
    if (i % w->in_flight == 0) must(bm_thread_sync(n->handle) == BM_SUCCESS, "sync", npu_last_error());
  }
  must(bm_thread_sync(n->handle) == BM_SUCCESS, "sync", npu_last_error());
  bm_free_device(n->handle, in.device_mem);
  bm_free_device(n->handle, out.device_mem);
  return NULL;
}

static double launches_a_second(const struct network *net, int count, int in_flight) {
  struct worker worker = {net, in_flight};
  pthread_t threads[MAX_THREADS];
  const double start = now_us();

  for (int i = 0; i < count; i++)
    must(!pthread_create(&threads[i], NULL, launch_often, &worker), "a thread", strerror(errno));
  for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
  return count * LAUNCHES / ((now_us() - start) / 1e6);
}

static void bench_launch(const char *path) {
  const int threads[] = {1, 2, 4}, depths[] = {1, 16};
  struct network net;
  char name[64];

  network_open(&net, path);
  for (int d = 0; d < 2; d++)
    for (int t = 0; t < 3; t++) {
      snprintf(name, sizeof(name), "launches_depth%d_threads%d", depths[d], threads[t]);
      report(name, launches_a_second(&net, threads[t], depths[d]), "1/s");
    }
  bmrt_destroy(net.runtime);
  bm_dev_free(net.handle);
}

/* ---- asynchronous launches ---- */

#define ASYNC_MS 400
#define MAX_CONTEXTS 16

struct queue {
  npu_async *async;
  npu_context *contexts[MAX_CONTEXTS];
  struct drm_npu_stream stream;
  struct npu_job_desc job;
  uint64_t done;
  int first; /* launches of the first round that have not ended: time begins with the last of them */
  double end;
};

/* Launches again, in the same context, until the time is over. */
static void launched(void *arg, const struct npu_completion *completion) {
  struct queue *q = arg;

  must(!completion->error, "an empty job", strerror(-completion->error));
  if (q->first && --q->first == 0) q->end = now_us() + ASYNC_MS * 1e3;
  if (!q->first && now_us() >= q->end) return;
  if (!q->first) q->done++;
  must(!npu_async_submit(q->async, completion->context, &q->job, 1, launched, q), "launch", npu_last_error());
}

static double async_rate(npu_device *device, uint32_t how, int in_flight, int contexts) {
  struct queue q = {.job = {.stream_count = 1}, .first = in_flight};

  q.job.streams = &q.stream;
  must(!npu_async_create(device, how, &q.async), "a queue", npu_last_error());
  for (int i = 0; i < contexts; i++)
    must(!npu_context_create(device, DRM_NPU_PRIORITY_NORMAL, 0, &q.contexts[i]), "a context", npu_last_error());
  for (int i = 0; i < in_flight; i++)
    must(!npu_async_submit(q.async, q.contexts[i % contexts], &q.job, 1, launched, &q), "launch", npu_last_error());
  while (npu_async_unfinished(q.async)) must(npu_async_process(q.async, 0, -1) >= 0, "process", npu_last_error());
  npu_async_destroy(q.async);
  for (int i = 0; i < contexts; i++) npu_context_destroy(q.contexts[i]);
  return (double)q.done / (ASYNC_MS / 1e3);
}

static double wait_rate(npu_device *device) {
  struct drm_npu_stream stream = {0};
  const struct npu_job_desc job = {.streams = &stream, .stream_count = 1};
  const double end = now_us() + ASYNC_MS * 1e3;
  npu_context *context;
  uint64_t seqno, done = 0;

  must(!npu_context_create(device, DRM_NPU_PRIORITY_NORMAL, 0, &context), "a context", npu_last_error());
  for (; now_us() < end; done++)
    must(!npu_submit(context, &job, 1, &seqno) && !npu_wait(context, seqno, -1, NULL), "an empty job",
         npu_last_error());
  npu_context_destroy(context);
  return (double)done / (ASYNC_MS / 1e3);
}

static void bench_async(void) {
  const struct {
    const char *name;
    uint32_t how;
  } ways[] = {{"uring", NPU_ASYNC_URING}, {"threads", NPU_ASYNC_THREADS}};
  const int depths[] = {1, 64, 1024};
  npu_device *device;
  char name[64];

  must(!npu_device_open(0, &device), "device 0", npu_last_error());
  report("npu_submit_and_wait", wait_rate(device), "1/s");
  for (int w = strcmp(npu_device_transport(device), "drm") ? 1 : 0; w < 2; w++)
    for (int d = 0; d < 3; d++) {
      snprintf(name, sizeof(name), "async_%s_depth%d", ways[w].name, depths[d]);
      report(name, async_rate(device, ways[w].how, depths[d], depths[d] > 64 ? MAX_CONTEXTS : 1), "1/s");
    }
  npu_device_close(device);
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";

  if (!strcmp(what, "memcpy"))
    bench_memcpy();
  else if (!strcmp(what, "copies"))
    bench_copies();
  else if (!strcmp(what, "async"))
    bench_async();
  else if (!strcmp(what, "load") && argc == 3)
    bench_load(argv[2]);
  else if (!strcmp(what, "launch") && argc == 3)
    bench_launch(argv[2]);
  else {
    fprintf(stderr, "usage: bench_runtime memcpy | copies | load MODEL.bmodel | launch MODEL.bmodel | async\n");
    return 2;
  }
  return 0;
}
