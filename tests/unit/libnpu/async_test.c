/* SPDX-License-Identifier: MIT */
/*
 * Asynchronous launches, by whichever way NPU_ASYNC selects: results and order, thousands in flight, errors, queues and
 * contexts that end with launches in flight, descriptors, threads, fork.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/libnpu/groups.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)

static npu_device *device;
static npu_context *context;

/* Launches of the tests that have many: NPU_ASYNC_LAUNCHES, for kernels that are slow. */
static unsigned many(void) {
  const char *text = getenv("NPU_ASYNC_LAUNCHES");
  const unsigned wanted = text ? (unsigned)atoi(text) : 2000;

  assert_in_range(wanted, 40, PROGRAM_COMMANDS);
  return wanted;
}

static npu_async *must_queue(void) {
  npu_async *queue = NULL;

  MUST(npu_async_create(device, NPU_ASYNC_AUTO, &queue));
  assert_non_null(queue);
  return queue;
}

static int set_up(void **state) {
  (void)state;
  device = must_open();
  context = must_context(device);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  npu_context_destroy(context);
  npu_device_close(device);
  return 0;
}

/* ---- what launches do: number i writes its value at slot i of a buffer ---- */

struct work {
  struct program program;
  npu_bo *slots;
};

static uint64_t value_of(unsigned i) { return 0x100000000ull * (i + 1) + i; }

static void work_init(struct work *work, unsigned launches) {
  program_init(&work->program, device);
  work->slots = must_create(device, 8ull * launches, DRM_NPU_BO_SYSTEM);
  for (unsigned i = 0; i < launches; i++) {
    struct npu_cmd_fill *fill = program_gdma(&work->program, NPU_OP_FILL);

    fill->value = value_of(i);
    fill->dst_region = 1;
    fill->dst_offset = 8ull * i;
    fill->dst_dtype = NPU_DTYPE_S64;
    for (int d = 0; d < 6; d++) fill->dims[d] = 1;
    fill->dst_stride[5] = 1;
  }
  program_flush(&work->program);
}

static void work_free(struct work *work) {
  MUST(npu_bo_wait(work->slots, LONG_TIME));
  program_free(&work->program);
  npu_bo_unref(work->slots);
}

/* Everything passed is gone after the call. */
static int launch_work(npu_async *queue, npu_context *to, const struct work *work, unsigned i, npu_async_fn fn,
                       void *arg) {
  struct npu_job_region regions[] = {
      {.bo = work->program.bo, .size = npu_bo_size(work->program.bo), .access = DRM_NPU_REGION_READ},
      {.bo = work->slots, .size = npu_bo_size(work->slots), .access = RW}};
  struct drm_npu_stream stream = {.gdma_count = 1, .gdma_offset = (uint64_t)i * NPU_CMD_BYTES};
  struct npu_job_desc job = {.regions = regions, .streams = &stream, .region_count = 2, .stream_count = 1};
  const int ret = npu_async_submit(queue, to, &job, 1, fn, arg);

  memset(regions, 0xff, sizeof(regions));
  memset(&stream, 0xff, sizeof(stream));
  memset(&job, 0xff, sizeof(job));
  return ret;
}

static void assert_slots(const struct work *work, unsigned launches) {
  uint64_t *got = must_alloc(8ull * launches);

  MUST(npu_read(work->slots, 0, got, 8ull * launches));
  for (unsigned i = 0; i < launches; i++)
    if (got[i] != value_of(i)) fail_msg("slot %u is %#llx", i, (unsigned long long)got[i]);
  free(got);
}

/* ---- what callbacks note ---- */

struct note {
  unsigned calls;
  unsigned turn; /* from 1 */
  pthread_t thread;
  struct npu_completion last;
  char text[256];
};

static unsigned turns; /* callbacks of this test; one thread */

static void keep(void *arg, const struct npu_completion *completion) {
  struct note *note = arg;

  note->calls++;
  note->turn = ++turns;
  note->thread = pthread_self();
  note->last = *completion;
  snprintf(note->text, sizeof(note->text), "%s", completion->error ? npu_last_error() : "");
}

/* Until no callback is missing. */
static void process_all(npu_async *queue) {
  while (npu_async_unfinished(queue)) {
    const int called = npu_async_process(queue, 0, LONG_TIME);

    if (called <= 0)
      fail_msg("%d callbacks, %llu missing: %s", called, (unsigned long long)npu_async_unfinished(queue),
               npu_last_error());
  }
  assert_int_equal(npu_async_process(queue, 0, -1), 0);
}

static void assert_ended(const struct note *note, int error) {
  if (note->calls != 1 || note->last.error != error)
    fail_msg("%u calls, error %d, expected %d: %s", note->calls, note->last.error, error, note->text);
}

/* Jobs that take seconds each: somebody destroys their context. A busy machine makes them longer. */
struct forever {
  struct program program;
  npu_bo *bo;
};

static void forever_init(struct forever *forever) {
  forever->bo = must_create(device, 8 * MIB, DRM_NPU_BO_CARD);
  program_init(&forever->program, device);
  program_long(&forever->program, 4 * MIB);
  program_flush(&forever->program);
}

static void forever_free(struct forever *forever) {
  MUST(npu_bo_wait(forever->bo, LONG_TIME));
  program_free(&forever->program);
  npu_bo_unref(forever->bo);
}

enum { ENOUGH = 40 }; /* of them never end */

static void launch_forever(npu_async *queue, npu_context *to, const struct forever *forever, struct note *notes) {
  struct npu_job_region regions[] = {
      {.bo = forever->program.bo, .size = npu_bo_size(forever->program.bo), .access = DRM_NPU_REGION_READ},
      {.bo = forever->bo, .size = npu_bo_size(forever->bo), .access = RW}};
  struct drm_npu_stream stream = {.gdma_count = forever->program.gdma_count};
  struct npu_job_desc job = {.regions = regions, .streams = &stream, .region_count = 2, .stream_count = 1};

  for (int i = 0; i < ENOUGH; i++) MUST(npu_async_submit(queue, to, &job, 1, keep, &notes[i]));
}

/* ---- results and order ---- */

static void a_launch_calls_back_once(void **state) {
  npu_async *queue = must_queue();
  struct note note = {0};
  struct work work;

  (void)state;
  work_init(&work, 1);
  assert_int_equal(npu_async_process(queue, 0, -1), 0); /* nothing to wait for */
  MUST(launch_work(queue, context, &work, 0, keep, &note));
  assert_int_equal(note.calls, 0);
  assert_int_equal(npu_async_unfinished(queue), 1);
  assert_int_equal(npu_async_process(queue, 0, -1), 1);
  assert_ended(&note, 0);
  assert_true(pthread_equal(note.thread, pthread_self()));
  assert_ptr_equal(note.last.context, context);
  assert_int_equal(note.last.count, 1);
  assert_int_equal(must_wait(context, note.last.seqno).error, 0);
  assert_int_equal(npu_async_unfinished(queue), 0);
  MUST(launch_work(queue, context, &work, 0, NULL, NULL)); /* nobody wants to know */
  process_all(queue);
  assert_slots(&work, 1);
  work_free(&work);
  npu_async_destroy(queue);
}

/* All are submitted before any is waited for. Those of a context end in their order, with numbers that follow each
 * other. */
static void thousands_are_in_flight(void **state) {
  enum { CONTEXTS = 4 };
  const unsigned launches = many();
  struct note *notes = calloc(launches, sizeof(*notes));
  npu_async *queue = must_queue();
  npu_context *contexts[CONTEXTS];
  struct work work;

  (void)state;
  assert_non_null(notes);
  turns = 0;
  work_init(&work, launches);
  for (int c = 0; c < CONTEXTS; c++) contexts[c] = must_context(device);
  for (unsigned i = 0; i < launches; i++) MUST(launch_work(queue, contexts[i % CONTEXTS], &work, i, keep, &notes[i]));
  assert_int_equal(npu_async_unfinished(queue), launches);
  process_all(queue);
  for (unsigned i = 0; i < launches; i++) {
    assert_ended(&notes[i], 0);
    assert_int_equal(notes[i].last.seqno, i / CONTEXTS + 1);
    if (i >= CONTEXTS) assert_true(notes[i].turn > notes[i - CONTEXTS].turn);
  }
  assert_slots(&work, launches);
  for (int c = 0; c < CONTEXTS; c++) npu_context_destroy(contexts[c]);
  work_free(&work);
  npu_async_destroy(queue);
  free(notes);
}

/* Somebody else locks the same buffers all the time, so that the first attempt to submit often fails. */
static struct {
  npu_context *context;
  struct npu_job_desc job;
  bool stop;
  char error[600];
} locker;

static void *lock_buffers(void *unused) {
  uint64_t seqno;

  (void)unused;
  while (!__atomic_load_n(&locker.stop, __ATOMIC_RELAXED)) {
    if (!npu_submit(locker.context, &locker.job, 1, &seqno)) continue;
    snprintf(locker.error, sizeof(locker.error), "%s", npu_last_error());
    break;
  }
  return NULL;
}

enum { CONTENDED = 24 };

/* A job with buffers that a thread locks all the time. */
struct contention {
  struct npu_job_region regions[CONTENDED];
  struct drm_npu_stream stream;
  struct npu_job_desc job;
  pthread_t thread;
};

static void contention_begin(struct contention *contention) {
  memset(contention, 0, sizeof(*contention));
  for (int i = 0; i < CONTENDED; i++)
    contention->regions[i] =
        (struct npu_job_region){.bo = must_create(device, 4096, DRM_NPU_BO_SYSTEM), .size = 4096, .access = RW};
  contention->job = (struct npu_job_desc){
      .regions = contention->regions, .streams = &contention->stream, .region_count = CONTENDED, .stream_count = 1};
  locker.context = must_context(device);
  locker.job = contention->job;
  locker.stop = false;
  *locker.error = 0;
  assert_int_equal(pthread_create(&contention->thread, NULL, lock_buffers, NULL), 0);
}

static void contention_end(struct contention *contention) {
  __atomic_store_n(&locker.stop, true, __ATOMIC_RELAXED);
  pthread_join(contention->thread, NULL);
  assert_string_equal(locker.error, "");
  npu_context_destroy(locker.context);
  for (int i = 0; i < CONTENDED; i++) npu_bo_unref(contention->regions[i].bo);
}

static void nobody_overtakes_where_buffers_are_contended(void **state) {
  const unsigned launches = many() / 4;
  struct note *notes = calloc(launches, sizeof(*notes));
  npu_context *own = must_context(device);
  npu_async *queue = must_queue();
  struct contention contention;

  (void)state;
  assert_non_null(notes);
  turns = 0;
  contention_begin(&contention);
  for (unsigned i = 0; i < launches; i++) {
    MUST(npu_async_submit(queue, own, &contention.job, 1, keep, &notes[i]));
    if (i % 50 == 0) npu_async_process(queue, 0, 0);
  }
  process_all(queue);
  for (unsigned i = 0; i < launches; i++) {
    assert_ended(&notes[i], 0);
    assert_int_equal(notes[i].last.seqno, i + 1);
    assert_int_equal(notes[i].turn, i + 1);
  }
  contention_end(&contention);
  npu_async_destroy(queue);
  npu_context_destroy(own);
  free(notes);
}

/* What the kernel has submitted while the queue ended is known to the context. */
static void a_queue_ends_while_the_kernel_submits(void **state) {
  struct contention contention;

  (void)state;
  contention_begin(&contention);
  for (int round = 0; round < 50; round++) {
    npu_context *own = must_context(device);
    npu_async *queue = must_queue();
    struct drm_npu_ctx_query query;
    struct note notes[2] = {0};

    for (int i = 0; i < 2; i++) MUST(npu_async_submit(queue, own, &contention.job, 1, keep, &notes[i]));
    npu_async_destroy(queue);
    for (int i = 0; i < 2; i++) assert_int_equal(notes[i].calls, 1);
    MUST(npu_context_state(own, &query));
    if (query.submitted) assert_int_equal(must_wait(own, query.submitted).error, 0);
    npu_context_destroy(own);
  }
  contention_end(&contention);
}

/* Of two contexts: the second copies what the first writes, a buffer is all that orders them. */
static void buffers_order_launches_of_two_contexts(void **state) {
  npu_context *other = must_context(device);
  npu_bo *shared = must_create(device, MIB, DRM_NPU_BO_CARD), *copy = must_create(device, 4096, DRM_NPU_BO_CARD);
  npu_async *queue = must_queue();
  struct note notes[80] = {0};
  struct program slow, quick;
  uint64_t mark = 0x1122334455667788ull, got = 0;

  (void)state;
  program_init(&slow, device);
  program_long(&slow, MIB / 2);
  struct npu_cmd_fill *last = (void *)(slow.commands + (size_t)(slow.gdma_count - 1) * NPU_CMD_BYTES);
  memset(last, 0, sizeof(*last));
  last->opcode = NPU_OP_FILL;
  last->value = mark;
  last->dst_region = 1;
  last->dst_dtype = NPU_DTYPE_S64;
  for (int d = 0; d < 6; d++) last->dims[d] = 1;
  last->dst_stride[5] = 1;
  slow.gdma_count = 200;
  memcpy(slow.commands + 199 * NPU_CMD_BYTES, last, NPU_CMD_BYTES);
  program_flush(&slow);
  program_init(&quick, device);
  program_copy(&quick, 0, 0, sizeof(mark));
  program_flush(&quick);
  /* The first context is full, and what it has to do comes last. */
  for (int i = 0; i < 79; i++) {
    struct drm_npu_stream stream = {0};
    struct npu_job_desc job = {.streams = &stream, .stream_count = 1};
    struct npu_job_region both[] = {{.bo = slow.bo, .size = npu_bo_size(slow.bo), .access = DRM_NPU_REGION_READ},
                                    {.bo = shared, .size = npu_bo_size(shared), .access = RW}};
    if (i == 78) {
      stream.gdma_count = slow.gdma_count;
      job.regions = both;
      job.region_count = 2;
    }
    MUST(npu_async_submit(queue, context, &job, 1, keep, &notes[i]));
  }
  struct npu_job_region regions[] = {{.bo = quick.bo, .size = npu_bo_size(quick.bo), .access = DRM_NPU_REGION_READ},
                                     {.bo = copy, .size = 4096, .access = DRM_NPU_REGION_WRITE},
                                     {.bo = shared, .size = 4096, .access = DRM_NPU_REGION_READ}};
  struct drm_npu_stream stream = {.gdma_count = 1};
  struct npu_job_desc job = {.regions = regions, .streams = &stream, .region_count = 3, .stream_count = 1};
  MUST(npu_async_submit(queue, other, &job, 1, keep, &notes[79]));
  process_all(queue);
  for (int i = 0; i < 80; i++) assert_ended(&notes[i], 0);
  MUST(npu_read(copy, 0, &got, sizeof(got)));
  assert_true(got == mark);
  npu_async_destroy(queue);
  npu_context_destroy(other);
  program_free(&slow);
  program_free(&quick);
  npu_bo_unref(shared);
  npu_bo_unref(copy);
}

struct chain {
  npu_async *queue;
  const struct work *work;
  unsigned left;
  unsigned done;
};

static void link_again(void *arg, const struct npu_completion *completion) {
  struct chain *chain = arg;

  chain->done++;
  if (completion->error || !chain->left) return;
  chain->left--;
  if (launch_work(chain->queue, completion->context, chain->work, chain->left, link_again, chain)) chain->left = 0;
}

static void callbacks_submit_again(void **state) {
  enum { CHAINS = 8, LINKS = 100 };
  npu_async *queue = must_queue();
  struct chain chains[CHAINS];
  struct work work;

  (void)state;
  work_init(&work, LINKS + 1);
  for (int i = 0; i < CHAINS; i++) {
    chains[i] = (struct chain){queue, &work, LINKS, 0};
    MUST(launch_work(queue, context, &work, LINKS, link_again, &chains[i]));
  }
  process_all(queue);
  for (int i = 0; i < CHAINS; i++) assert_int_equal(chains[i].done, LINKS + 1);
  assert_slots(&work, LINKS + 1);
  work_free(&work);
  npu_async_destroy(queue);
}

/* ---- errors ---- */

static void one_fault_among_many(void **state) {
  enum { LAUNCHES = 300, WRONG = 137 };
  struct note *notes = calloc(LAUNCHES, sizeof(*notes));
  npu_async *queue = must_queue();
  uint64_t got = 1;
  struct work work;

  (void)state;
  assert_non_null(notes);
  work_init(&work, LAUNCHES);
  work.program.commands[WRONG * NPU_CMD_BYTES] = 0xfe;
  program_flush(&work.program);
  for (unsigned i = 0; i < LAUNCHES; i++) MUST(launch_work(queue, context, &work, i, keep, &notes[i]));
  process_all(queue);
  for (unsigned i = 0; i < LAUNCHES; i++) assert_ended(&notes[i], i == WRONG ? -EIO : 0);
  assert_int_equal(notes[WRONG].last.fault.seqno, notes[WRONG].last.seqno);
  assert_int_equal(notes[WRONG].last.fault.status, NPU_STATUS_BAD_OPCODE);
  assert_int_equal(notes[WRONG - 1].last.fault.seqno, 0);
  MUST(npu_read(work.slots, 8 * WRONG, &got, 8));
  assert_int_equal(got, 0);
  MUST(npu_read(work.slots, 8 * (LAUNCHES - 1), &got, 8));
  assert_true(got == value_of(LAUNCHES - 1));
  work_free(&work);
  npu_async_destroy(queue);
  free(notes);
}

/* Those that were submitted before and after have their own results. */
static void what_is_refused_is_said_in_the_completion(void **state) {
  npu_bo *bo = must_create(device, 4096, DRM_NPU_BO_CARD), *sealed = must_create(device, 4096, DRM_NPU_BO_CARD);
  struct npu_job_region regions[] = {{.bo = bo, .size = 4096, .access = RW}};
  struct drm_npu_stream stream = {0};
  const struct npu_job_desc good = {.regions = regions, .streams = &stream, .region_count = 1, .stream_count = 1};
  struct npu_job_fence fence = {.context = context, .seqno = 1ull << 40};
  npu_async *queue = must_queue();
  struct note notes[7] = {0};
  struct npu_job_desc job = good;

  (void)state;
  MUST(npu_bo_seal(sealed));
  MUST(npu_async_submit(queue, context, &good, 1, keep, &notes[0]));
  job.regions = NULL;
  MUST(npu_async_submit(queue, context, &job, 1, keep, &notes[1]));
  job = good;
  regions[0].offset = 1;
  MUST(npu_async_submit(queue, context, &job, 1, keep, &notes[2]));
  regions[0].offset = 0;
  stream.gdma_count = 1;
  stream.gdma_offset = 64;
  MUST(npu_async_submit(queue, context, &job, 1, keep, &notes[3]));
  stream = (struct drm_npu_stream){0};
  regions[0].bo = sealed;
  MUST(npu_async_submit(queue, context, &job, 1, keep, &notes[4]));
  regions[0].bo = bo;
  job.in_fences = &fence;
  job.in_fence_count = 1;
  MUST(npu_async_submit(queue, context, &job, 1, keep, &notes[5]));
  MUST(npu_async_submit(queue, context, &good, 1, keep, &notes[6]));
  process_all(queue);
  assert_ended(&notes[0], 0);
  assert_ended(&notes[1], -EINVAL);
  assert_text(notes[1].text, "npu_async_submit: job 0: a count without an array");
  assert_ended(&notes[2], -EINVAL);
  assert_text(notes[2].text, "npu_async_submit: job 0 region 0: offset 0x1 size 0x1000 in a buffer of 0x1000 bytes");
  assert_ended(&notes[3], -EINVAL);
  assert_text(notes[3].text, "the driver refused an argument of a job");
  assert_ended(&notes[4], -EACCES);
  assert_text(notes[4].text, "a job writes a sealed buffer");
  assert_ended(&notes[5], -EINVAL);
  assert_text(notes[5].text, "was not submitted");
  assert_ended(&notes[6], 0);
  for (int i = 1; i < 6; i++) assert_int_equal(notes[i].last.seqno, 0);
  assert_int_equal(notes[6].last.seqno, notes[0].last.seqno + 1);
  npu_async_destroy(queue);
  npu_bo_unref(bo);
  npu_bo_unref(sealed);
}

static void what_cannot_be_accepted_fails_at_once(void **state) {
  struct drm_npu_stream stream = {0};
  const struct npu_job_desc job = {.streams = &stream, .stream_count = 1};
  npu_async *queue = (npu_async *)1;

  (void)state;
  MUST_FAIL(npu_async_create(NULL, 0, &queue), EINVAL, "no device");
  assert_null(queue);
  MUST_FAIL(npu_async_create(device, 3, &queue), EINVAL, "how is 3");
  MUST_FAIL(npu_async_create(device, 0, NULL), EINVAL, "no place");
  queue = must_queue();
  MUST_FAIL(npu_async_submit(NULL, context, &job, 1, NULL, NULL), EINVAL, "no queue");
  MUST_FAIL(npu_async_submit(queue, NULL, &job, 1, NULL, NULL), EINVAL, "no context");
  MUST_FAIL(npu_async_submit(queue, context, NULL, 1, NULL, NULL), EINVAL, "no jobs");
  MUST_FAIL(npu_async_submit(queue, context, &job, 0, NULL, NULL), EINVAL, "no jobs");
  MUST_FAIL(npu_async_process(NULL, 0, 0), EINVAL, "no queue");
  npu_async_destroy(queue);
  npu_async_destroy(NULL);
}

static void several_jobs_have_one_completion(void **state) {
  enum { JOBS = 5 };
  struct npu_job_region regions[2];
  struct drm_npu_stream streams[JOBS] = {0};
  struct npu_job_desc jobs[JOBS];
  struct note all = {0}, wrong = {0};
  npu_async *queue = must_queue();
  struct work work;
  uint64_t got = 0;

  (void)state;
  work_init(&work, JOBS);
  regions[0] = (struct npu_job_region){
      .bo = work.program.bo, .size = npu_bo_size(work.program.bo), .access = DRM_NPU_REGION_READ};
  regions[1] = (struct npu_job_region){.bo = work.slots, .size = npu_bo_size(work.slots), .access = RW};
  for (int i = 0; i < JOBS; i++) {
    streams[i] = (struct drm_npu_stream){.gdma_count = 1, .gdma_offset = (uint64_t)i * NPU_CMD_BYTES};
    jobs[i] = (struct npu_job_desc){.regions = regions, .streams = &streams[i], .region_count = 2, .stream_count = 1};
  }
  MUST(npu_async_submit(queue, context, jobs, JOBS, keep, &all));
  process_all(queue);
  assert_ended(&all, 0);
  assert_int_equal(all.last.count, JOBS);
  assert_slots(&work, JOBS);
  /* The second overruns its region, the third its budget. */
  struct npu_job_region small = regions[1], pair[2] = {regions[0], small};
  pair[1].size = 8;
  jobs[1].regions = pair;
  jobs[2].budget = 1;
  MUST(npu_fill(work.slots, 0, 8 * JOBS, 0, 8));
  MUST(npu_async_submit(queue, context, jobs, JOBS, keep, &wrong));
  process_all(queue);
  assert_ended(&wrong, -EIO);
  assert_int_equal(wrong.last.seqno, all.last.seqno + JOBS);
  assert_int_equal(wrong.last.fault.seqno, wrong.last.seqno - JOBS + 2);
  assert_int_equal(must_wait(context, wrong.last.seqno - JOBS + 3).error, -ETIME);
  MUST(npu_read(work.slots, 8 * (JOBS - 1), &got, 8));
  assert_true(got == value_of(JOBS - 1));
  work_free(&work);
  npu_async_destroy(queue);
}

static void failed_in_fences_cancel(void **state) {
  npu_context *other = must_context(device);
  struct drm_npu_stream stream = {0};
  struct npu_job_fence fence = {.context = other};
  struct npu_job_desc job = {.streams = &stream, .stream_count = 1, .in_fences = &fence, .in_fence_count = 1};
  struct note bad = {0}, cancelled = {0}, good = {0}, plain = {0};
  npu_async *queue = must_queue();
  struct npu_result result;
  struct work work;
  uint64_t seqno;

  (void)state;
  work_init(&work, 2);
  work.program.commands[0] = 0xfe;
  program_flush(&work.program);
  MUST(launch_work(queue, other, &work, 0, keep, &bad));
  MUST(launch_work(queue, other, &work, 1, keep, &good));
  process_all(queue);
  assert_ended(&bad, -EIO);
  assert_ended(&good, 0);
  fence.seqno = bad.last.seqno;
  MUST(npu_async_submit(queue, context, &job, 1, keep, &cancelled));
  fence.seqno = good.last.seqno;
  MUST(npu_async_submit(queue, context, &job, 1, keep, &plain));
  process_all(queue);
  assert_ended(&cancelled, -ECANCELED);
  assert_ended(&plain, 0);
  assert_int_equal(plain.last.seqno, cancelled.last.seqno + 1);
  MUST(npu_wait(context, cancelled.last.seqno, 0, &result));
  assert_int_equal(result.error, -ECANCELED);
  /* The other way round: an ordinary job behind asynchronous ones. */
  fence.seqno = bad.last.seqno;
  MUST(npu_submit(context, &job, 1, &seqno));
  assert_int_equal(seqno, plain.last.seqno + 1);
  assert_int_equal(must_wait(context, seqno).error, -ECANCELED);
  npu_context_destroy(other);
  work_free(&work);
  npu_async_destroy(queue);
}

/* ---- whose the context is ---- */

static void a_context_has_one_submitter_at_a_time(void **state) {
  npu_async *queue = must_queue(), *second = must_queue();
  struct note first = {0}, later = {0}, last = {0};
  struct drm_npu_stream stream = {0};
  struct npu_job_desc job = {.streams = &stream, .stream_count = 1};
  uint64_t seqno;

  (void)state;
  MUST(npu_async_submit(queue, context, &job, 1, keep, &first));
  MUST_FAIL(npu_submit(context, &job, 1, &seqno), EBUSY, "an npu_async has unfinished launches in this context");
  MUST_FAIL(npu_async_submit(second, context, &job, 1, keep, &later), EBUSY,
            "another npu_async has unfinished launches");
  process_all(queue);
  assert_ended(&first, 0);
  MUST(npu_submit(context, &job, 1, &seqno));
  assert_int_equal(seqno, first.last.seqno + 1);
  MUST(npu_async_submit(second, context, &job, 1, keep, &later));
  process_all(second);
  MUST(npu_async_submit(queue, context, &job, 1, keep, &last));
  process_all(queue);
  assert_ended(&later, 0);
  assert_ended(&last, 0);
  assert_int_equal(later.last.seqno, seqno + 1);
  assert_int_equal(last.last.seqno, seqno + 2);
  npu_async_destroy(queue);
  npu_async_destroy(second);
}

/* As many jobs as it takes, by the ordinary call. */
static uint64_t fill_context(npu_context *full, const struct program *p, npu_bo *bo) {
  struct drm_npu_dev_info info;
  uint64_t seqno = 0;

  MUST(npu_device_info(device, &info));
  for (uint32_t i = 0; i < info.max_in_flight; i++) submit_long_job(full, p, bo, &seqno);
  return seqno;
}

static void launches_wait_for_room_that_others_make(void **state) {
  enum { LAUNCHES = 100 };
  npu_context *full = must_context(device);
  npu_bo *bo = must_create(device, MIB, DRM_NPU_BO_CARD);
  struct note notes[LAUNCHES] = {0};
  npu_async *queue = must_queue();
  struct program busy;
  struct work work;
  uint64_t seqno;

  (void)state;
  work_init(&work, LAUNCHES);
  program_init(&busy, device);
  for (int i = 0; i < 50; i++) program_copy(&busy, 0, 0, MIB / 2);
  for (int i = 0; i < 50; i++) ((struct npu_cmd_copy *)(busy.commands + i * NPU_CMD_BYTES))->src_region = 1;
  seqno = fill_context(full, &busy, bo);
  for (unsigned i = 0; i < LAUNCHES; i++) MUST(launch_work(queue, full, &work, i, keep, &notes[i]));
  process_all(queue);
  for (unsigned i = 0; i < LAUNCHES; i++) {
    assert_ended(&notes[i], 0);
    assert_int_equal(notes[i].last.seqno, seqno + 1 + i);
  }
  assert_slots(&work, LAUNCHES);
  npu_async_destroy(queue);
  npu_context_destroy(full);
  work_free(&work);
  program_free(&busy);
  npu_bo_unref(bo);
}

/* ---- ends ---- */

static void a_full_context_makes_nobody_wait(void **state) {
  npu_context *full = must_context(device);
  struct note notes[10] = {0};
  npu_async *queue = must_queue();
  struct forever forever;
  struct work work;

  (void)state;
  work_init(&work, 10);
  forever_init(&forever);
  fill_context(full, &forever.program, forever.bo);
  for (unsigned i = 0; i < 10; i++) MUST(launch_work(queue, full, &work, i, keep, &notes[i]));
  assert_int_equal(npu_async_process(queue, 0, 0), 0);
  npu_context_destroy(full);
  process_all(queue);
  for (unsigned i = 0; i < 10; i++) assert_ended(&notes[i], -ECANCELED);
  npu_async_destroy(queue);
  forever_free(&forever);
  work_free(&work);
}

static void a_queue_ends_with_launches_that_wait_for_room(void **state) {
  npu_context *full = must_context(device);
  struct drm_npu_ctx_query query;
  struct note notes[10] = {0};
  npu_async *queue = must_queue();
  struct forever forever;
  struct work work;
  uint64_t seqno;

  (void)state;
  work_init(&work, 10);
  forever_init(&forever);
  seqno = fill_context(full, &forever.program, forever.bo);
  for (unsigned i = 0; i < 10; i++) MUST(launch_work(queue, full, &work, i, keep, &notes[i]));
  npu_async_destroy(queue);
  for (unsigned i = 0; i < 10; i++) assert_ended(&notes[i], -ECANCELED);
  assert_int_equal(notes[9].last.seqno, 0);
  MUST(npu_context_state(full, &query));
  assert_true(query.submitted <= seqno + 1); /* the long job can have ended, and made room for one */
  npu_context_destroy(full);
  forever_free(&forever);
  work_free(&work);
}

static void a_queue_ends_with_launches_in_flight(void **state) {
  enum { LAUNCHES = 100, ALL = ENOUGH + LAUNCHES };
  struct note *notes = calloc(ALL, sizeof(*notes));
  struct forever forever;
  struct work work;

  (void)state;
  assert_non_null(notes);
  work_init(&work, LAUNCHES);
  forever_init(&forever);
  for (int round = 0; round < 3; round++) {
    npu_context *busy = must_context(device);
    npu_async *queue = must_queue();

    memset(notes, 0, ALL * sizeof(*notes));
    launch_forever(queue, busy, &forever, notes);
    for (unsigned i = 0; i < LAUNCHES; i++) MUST(launch_work(queue, busy, &work, i, keep, &notes[ENOUGH + i]));
    npu_async_destroy(queue);
    for (unsigned i = 0; i < ALL; i++)
      if (notes[i].calls != 1 || notes[i].last.error) assert_ended(&notes[i], -ECANCELED);
    assert_ended(&notes[ALL - 1], -ECANCELED);
    assert_text(notes[ALL - 1].text, "the queue was destroyed");
    npu_context_destroy(busy);
    assert_works(device, context);
  }
  forever_free(&forever);
  work_free(&work);
  free(notes);
}

static void what_the_card_has_goes_on_without_the_queue(void **state) {
  enum { LAUNCHES = 200 };
  struct note *notes = calloc(LAUNCHES, sizeof(*notes));
  npu_context *fresh = must_context(device); /* has room for launches, whatever is known of its last ones */
  npu_async *queue = must_queue();
  struct work work;
  unsigned given = 0;

  (void)state;
  assert_non_null(notes);
  work_init(&work, LAUNCHES);
  for (unsigned i = 0; i < LAUNCHES; i++) MUST(launch_work(queue, fresh, &work, i, keep, &notes[i]));
  npu_async_destroy(queue);
  for (unsigned i = 0; i < LAUNCHES; i++) {
    assert_int_equal(notes[i].calls, 1);
    if (!notes[i].last.seqno) continue;
    assert_int_equal(must_wait(fresh, notes[i].last.seqno).error, 0);
    given++;
  }
  assert_true(given > 0);
  assert_slots(&work, given);
  assert_works(device, fresh);
  npu_context_destroy(fresh);
  work_free(&work);
  free(notes);
}

static void a_context_ends_with_launches_in_flight(void **state) {
  enum { LAUNCHES = 60, ALL = ENOUGH + 2 * LAUNCHES };
  struct note *notes = calloc(ALL, sizeof(*notes));
  npu_async *queue = must_queue();
  struct forever forever;
  struct work work;

  (void)state;
  assert_non_null(notes);
  work_init(&work, 2 * LAUNCHES);
  forever_init(&forever);
  for (int round = 0; round < 3; round++) {
    npu_context *doomed = must_context(device);

    memset(notes, 0, ALL * sizeof(*notes));
    launch_forever(queue, doomed, &forever, notes);
    for (unsigned i = 0; i < LAUNCHES; i++) {
      MUST(launch_work(queue, doomed, &work, 2 * i, keep, &notes[ENOUGH + 2 * i]));
      MUST(launch_work(queue, context, &work, 2 * i + 1, keep, &notes[ENOUGH + 2 * i + 1]));
    }
    npu_context_destroy(doomed);
    process_all(queue);
    for (unsigned i = 0; i < LAUNCHES; i++) {
      assert_ended(&notes[ENOUGH + 2 * i], -ECANCELED);
      assert_ended(&notes[ENOUGH + 2 * i + 1], 0);
    }
    for (unsigned i = 0; i < ENOUGH; i++) assert_int_equal(notes[i].calls, 1);
    assert_works(device, context);
  }
  npu_async_destroy(queue);
  forever_free(&forever);
  work_free(&work);
  free(notes);
}

/* And the queue does not forget callbacks of contexts that are gone. */
static void a_queue_ends_behind_its_context(void **state) {
  npu_context *doomed = must_context(device);
  struct note notes[ENOUGH + 50] = {0};
  npu_async *queue = must_queue();
  struct forever forever;
  struct work work;

  (void)state;
  work_init(&work, 50);
  forever_init(&forever);
  launch_forever(queue, doomed, &forever, notes);
  for (unsigned i = 0; i < 50; i++) MUST(launch_work(queue, doomed, &work, i, keep, &notes[ENOUGH + i]));
  npu_context_destroy(doomed);
  npu_async_destroy(queue);
  for (unsigned i = 0; i < ENOUGH; i++) assert_int_equal(notes[i].calls, 1);
  for (unsigned i = ENOUGH; i < ENOUGH + 50; i++) assert_ended(&notes[i], -ECANCELED);
  forever_free(&forever);
  work_free(&work);
}

static void a_queue_keeps_device_and_buffers(void **state) {
  npu_device *own = must_open();
  npu_context *last = NULL;
  npu_async *queue = NULL;
  struct note notes[200] = {0};
  struct work work;

  (void)state;
  work_init(&work, 200);
  MUST(npu_context_create(own, DRM_NPU_PRIORITY_NORMAL, 0, &last));
  MUST(npu_async_create(own, NPU_ASYNC_AUTO, &queue));
  npu_device_close(own);
  for (unsigned i = 0; i < 200; i++) {
    struct npu_job_region region = {.bo = must_create(device, 4096, DRM_NPU_BO_CARD), .size = 4096, .access = RW};
    struct drm_npu_stream stream = {0};
    struct npu_job_desc job = {.regions = &region, .streams = &stream, .region_count = 1, .stream_count = 1};

    MUST(npu_async_submit(queue, last, &job, 1, keep, &notes[i]));
    npu_bo_unref(region.bo);
  }
  process_all(queue);
  for (unsigned i = 0; i < 200; i++) assert_ended(&notes[i], 0);
  npu_async_destroy(queue);
  npu_context_destroy(last);
  work_free(&work);
}

struct ender {
  npu_async *queue;
  struct note note;
  int again;
};

static void end_the_queue(void *arg, const struct npu_completion *completion) {
  struct ender *ender = arg;

  keep(&ender->note, completion);
  npu_async_destroy(ender->queue);
}

static void submit_to_the_end(void *arg, const struct npu_completion *completion) {
  struct ender *ender = arg;
  struct drm_npu_stream stream = {0};
  struct npu_job_desc job = {.streams = &stream, .stream_count = 1};

  keep(&ender->note, completion);
  ender->again = npu_async_submit(ender->queue, completion->context, &job, 1, keep, NULL);
}

static void a_callback_ends_its_queue(void **state) {
  struct drm_npu_stream stream = {0};
  struct npu_job_desc job = {.streams = &stream, .stream_count = 1};
  struct ender first = {.queue = must_queue()}, second = {.queue = first.queue};
  struct note rest[100] = {0};

  (void)state;
  MUST(npu_async_submit(first.queue, context, &job, 1, end_the_queue, &first));
  MUST(npu_async_submit(first.queue, context, &job, 1, submit_to_the_end, &second));
  for (int i = 0; i < 100; i++) MUST(npu_async_submit(first.queue, context, &job, 1, keep, &rest[i]));
  assert_true(npu_async_process(first.queue, 0, LONG_TIME) > 0);
  assert_ended(&first.note, 0);
  assert_int_equal(second.note.calls, 1);
  assert_int_equal(second.again, -ECANCELED);
  for (int i = 0; i < 100; i++) assert_int_equal(rest[i].calls, 1);
  assert_works(device, context);
}

/* ---- waiting ---- */

static bool readable(npu_async *queue, int timeout_ms) {
  struct pollfd entry = {.fd = npu_async_fd(queue), .events = POLLIN};

  return poll(&entry, 1, timeout_ms) == 1 && entry.revents & POLLIN;
}

static void the_descriptor_tells_when_to_process(void **state) {
  enum { LAUNCHES = 150 };
  npu_async *queue = must_queue();
  struct note notes[LAUNCHES] = {0};
  unsigned called = 0;
  struct work work;

  (void)state;
  work_init(&work, LAUNCHES);
  assert_false(readable(queue, 0));
  for (unsigned i = 0; i < LAUNCHES; i++) MUST(launch_work(queue, context, &work, i, keep, &notes[i]));
  /* As an event loop does it: one callback a turn. */
  while (called < LAUNCHES) {
    int ret;

    assert_true(readable(queue, (int)(LONG_TIME / 1000000)));
    ret = npu_async_process(queue, 1, 0);
    assert_in_range(ret, 0, 1);
    called += (unsigned)ret;
  }
  assert_int_equal(npu_async_unfinished(queue), 0);
  assert_int_equal(npu_async_process(queue, 0, 0), 0);
  assert_false(readable(queue, 0));
  for (unsigned i = 0; i < LAUNCHES; i++) assert_ended(&notes[i], 0);
  npu_async_destroy(queue);
  work_free(&work);
}

static void processing_has_a_time_limit(void **state) {
  npu_context *busy = must_context(device);
  struct note notes[ENOUGH] = {0};
  npu_async *queue = must_queue();
  struct forever forever;

  (void)state;
  forever_init(&forever);
  launch_forever(queue, busy, &forever, notes);
  assert_int_equal(npu_async_process(queue, 0, 0), 0);
  assert_int_equal(npu_async_process(queue, 0, 1000), 0);
  assert_false(readable(queue, 1));
  npu_context_destroy(busy);
  process_all(queue);
  for (int i = 0; i < ENOUGH; i++) assert_ended(&notes[i], -ECANCELED);
  npu_async_destroy(queue);
  forever_free(&forever);
}

/* ---- threads ---- */

enum { THREADS = 4 };

static unsigned each(void) { return many() / (2 * THREADS); }

struct worker {
  pthread_t thread;
  npu_async *queue;
  npu_context *context;
  const struct work *work;
  unsigned number;
  unsigned launches;
  unsigned count; /* callbacks, atomic */
  char error[600];
};

static void count(void *arg, const struct npu_completion *completion) {
  struct worker *worker = arg;

  if (completion->error) snprintf(worker->error, sizeof(worker->error), "ended with %d", completion->error);
  __atomic_fetch_add(&worker->count, 1, __ATOMIC_RELAXED);
}

static void *submit_and_process(void *arg) {
  struct worker *worker = arg;

  for (unsigned i = 0; i < worker->launches; i++) {
    if (launch_work(worker->queue, worker->context, worker->work, worker->number * worker->launches + i, count,
                    worker)) {
      snprintf(worker->error, sizeof(worker->error), "%s", npu_last_error());
      return NULL;
    }
    if (i % 100 == 99 && npu_async_process(worker->queue, 10, 0) < 0)
      snprintf(worker->error, sizeof(worker->error), "%s", npu_last_error());
  }
  while (npu_async_unfinished(worker->queue))
    if (npu_async_process(worker->queue, 0, -1) < 0)
      snprintf(worker->error, sizeof(worker->error), "%s", npu_last_error());
  return NULL;
}

/* For a thread that waits without a limit: whoever delivers the last completion must wake it. */
static void must_end(pthread_t thread) {
  struct timespec limit;

  clock_gettime(CLOCK_REALTIME, &limit);
  limit.tv_sec += 4 * LONG_TIME / SECOND;
  if (pthread_timedjoin_np(thread, NULL, &limit)) fail_msg("a thread waits for launches, and there are none any more");
}

static void in_threads(npu_async *shared) {
  struct worker workers[THREADS];
  struct work work;

  memset(workers, 0, sizeof(workers));
  work_init(&work, THREADS * each());
  for (unsigned i = 0; i < THREADS; i++) {
    workers[i] = (struct worker){.queue = shared ? shared : must_queue(),
                                 .context = must_context(device),
                                 .work = &work,
                                 .number = i,
                                 .launches = each()};
    assert_int_equal(pthread_create(&workers[i].thread, NULL, submit_and_process, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) must_end(workers[i].thread);
  if (shared) process_all(shared);
  for (int i = 0; i < THREADS; i++) {
    if (*workers[i].error) fail_msg("thread %d: %s", i, workers[i].error);
    assert_int_equal(workers[i].count, each());
    if (!shared) npu_async_destroy(workers[i].queue);
    npu_context_destroy(workers[i].context);
  }
  assert_slots(&work, THREADS * each());
  work_free(&work);
}

static void a_queue_for_each_thread(void **state) {
  (void)state;
  in_threads(NULL);
}

static void threads_share_a_queue(void **state) {
  npu_async *queue = must_queue();

  (void)state;
  in_threads(queue);
  npu_async_destroy(queue);
}

static void *submit_only(void *arg) {
  struct worker *worker = arg;

  for (unsigned i = 0; i < worker->launches; i++)
    if (launch_work(worker->queue, worker->context, worker->work, i, count, worker))
      snprintf(worker->error, sizeof(worker->error), "%s", npu_last_error());
  return NULL;
}

static void a_thread_that_submitted_is_gone(void **state) {
  struct worker worker = {.queue = must_queue(), .context = context, .launches = each()};
  struct work work;

  (void)state;
  work_init(&work, each());
  worker.work = &work;
  assert_int_equal(pthread_create(&worker.thread, NULL, submit_only, &worker), 0);
  pthread_join(worker.thread, NULL);
  process_all(worker.queue);
  assert_string_equal(worker.error, "");
  assert_int_equal(worker.count, each());
  assert_slots(&work, each());
  npu_async_destroy(worker.queue);
  work_free(&work);
}

/* ---- ways ---- */

static void the_way_can_be_chosen(void **state) {
  const char *wanted = getenv("NPU_ASYNC");
  char *kept = wanted ? strdup(wanted) : NULL;
  npu_async *queue = must_queue();

  (void)state;
  if (kept) assert_string_equal(npu_async_backend(queue), strcmp(kept, "uring") ? kept : "io_uring");
  npu_async_destroy(queue);
  MUST(npu_async_create(device, NPU_ASYNC_THREADS, &queue));
  assert_string_equal(npu_async_backend(queue), "threads");
  npu_async_destroy(queue);
  const char *cache = getenv("NPU_CACHE");
  const bool strict = cache && !strcmp(cache, "strict");
  if (strict || !strcmp(npu_device_transport(device), "sim")) {
    MUST_FAIL(npu_async_create(device, NPU_ASYNC_URING, &queue), EOPNOTSUPP,
              strict ? "NPU_CACHE=strict looks at every job" : "the transport sim has no kernel behind it");
  } else {
    MUST(npu_async_create(device, NPU_ASYNC_URING, &queue));
    assert_string_equal(npu_async_backend(queue), "io_uring");
    npu_async_destroy(queue);
  }
  setenv("NPU_ASYNC", "magic", 1);
  MUST_FAIL(npu_async_create(device, NPU_ASYNC_AUTO, &queue), EINVAL,
            "NPU_ASYNC=magic: expected auto, uring or threads");
  unsetenv("NPU_ASYNC");
  queue = must_queue();
  assert_string_equal(npu_async_backend(queue), strcmp(npu_device_transport(device), "sim") ? "io_uring" : "threads");
  npu_async_destroy(queue);
  if (kept) setenv("NPU_ASYNC", kept, 1);
  free(kept);
}

int async_tests(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_launch_calls_back_once),
      cmocka_unit_test(thousands_are_in_flight),
      cmocka_unit_test(nobody_overtakes_where_buffers_are_contended),
      cmocka_unit_test(buffers_order_launches_of_two_contexts),
      cmocka_unit_test(callbacks_submit_again),
      cmocka_unit_test(one_fault_among_many),
      cmocka_unit_test(what_is_refused_is_said_in_the_completion),
      cmocka_unit_test(what_cannot_be_accepted_fails_at_once),
      cmocka_unit_test(several_jobs_have_one_completion),
      cmocka_unit_test(failed_in_fences_cancel),
      cmocka_unit_test(a_context_has_one_submitter_at_a_time),
      cmocka_unit_test(launches_wait_for_room_that_others_make),
      cmocka_unit_test(a_full_context_makes_nobody_wait),
      cmocka_unit_test(a_queue_ends_with_launches_in_flight),
      cmocka_unit_test(a_queue_ends_with_launches_that_wait_for_room),
      cmocka_unit_test(what_the_card_has_goes_on_without_the_queue),
      cmocka_unit_test(a_queue_ends_while_the_kernel_submits),
      cmocka_unit_test(a_context_ends_with_launches_in_flight),
      cmocka_unit_test(a_queue_ends_behind_its_context),
      cmocka_unit_test(a_queue_keeps_device_and_buffers),
      cmocka_unit_test(a_callback_ends_its_queue),
      cmocka_unit_test(the_descriptor_tells_when_to_process),
      cmocka_unit_test(processing_has_a_time_limit),
      cmocka_unit_test(a_queue_for_each_thread),
      cmocka_unit_test(threads_share_a_queue),
      cmocka_unit_test(a_thread_that_submitted_is_gone),
      cmocka_unit_test(the_way_can_be_chosen),
  };
  return cmocka_run_group_tests_name("async", tests, set_up, tear_down);
}
