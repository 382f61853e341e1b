/* SPDX-License-Identifier: MIT */
/* Contexts and jobs: results in memory, order, numbers, waits, the fence page, profiles. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/fixture.h"
#include "tests/guest/driver/npu_machine.h"
#include "tests/guest/driver/npu_raw.h"

static void empty_jobs_are_numbered_from_one(void **state) {
  uint32_t own = ctx_create(fd);
  struct drm_npu_ctx_query query;
  struct stream stream;
  struct job job;

  (void)state;
  stream_create(fd, 4, &stream);
  stream_nop(&stream, 0);
  job_init(&job);
  job_gdma(&job, &stream);
  for (uint64_t i = 1; i <= 10; i++) {
    assert_int_equal(submit(fd, own, &job), i);
    wait_ok(fd, own, i);
  }
  ctx_query(fd, own, &query);
  assert_int_equal(query.submitted, 10);
  assert_int_equal(query.completed, 10);
  assert_int_equal(query.errors, 0);
  assert_int_equal(query.victims, 0);
  assert_int_equal(query.fault.seqno, 0);
  stream_destroy(fd, &stream);
  ctx_destroy(fd, own);
}

static void fill_and_copy_reach_memory(void **state) {
  static const uint32_t kinds[] = {DRM_NPU_BO_CARD, DRM_NPU_BO_SYSTEM};
  const uint32_t bytes = MIB(4) + 4096;
  struct stream stream;

  (void)state;
  stream_create(fd, 8, &stream);
  for (int from = 0; from < 2; from++) {
    for (int to = 0; to < 2; to++) {
      struct bo src, dst;
      struct job job;

      bo_create_mapped(fd, bytes, kinds[from], &src);
      bo_create_mapped(fd, bytes, kinds[to], &dst);
      for (uint32_t i = 0; i < bytes; i++) src.map[i] = (uint8_t)(i * 7 + (i >> 11));
      bo_sync(fd, &src, DRM_NPU_SYNC_TO_DEVICE);

      stream.count = 0;
      stream_copy(&stream, 1, 0, 2, 0, bytes);
      stream_fill(&stream, 2, 100, 1000, 0xee);
      job_init(&job);
      job_gdma(&job, &stream);
      assert_int_equal(job_region(&job, &src, DRM_NPU_REGION_READ), 1);
      assert_int_equal(job_region(&job, &dst, DRM_NPU_REGION_WRITE), 2);
      run_ok(fd, ctx, &job);

      bo_sync(fd, &dst, DRM_NPU_SYNC_FROM_DEVICE);
      assert_memory_equal(dst.map, src.map, 100);
      for (uint32_t i = 100; i < 1100; i++) assert_int_equal(dst.map[i], 0xee);
      assert_memory_equal(dst.map + 1100, src.map + 1100, bytes - 1100);
      bo_destroy(fd, &src);
      bo_destroy(fd, &dst);
    }
  }
  stream_destroy(fd, &stream);
}

static void regions_are_parts_of_buffers(void **state) {
  struct stream stream;
  struct bo bo;
  struct job job;

  (void)state;
  stream_create(fd, 8, &stream);
  bo_create_mapped(fd, 65536, DRM_NPU_BO_SYSTEM, &bo);
  stream_fill(&stream, 1, 0, 10, 0x11);
  job_init(&job);
  job_gdma(&job, &stream);
  job_region(&job, &bo, DRM_NPU_REGION_WRITE);
  job.regions[1].offset = 5001;
  job.regions[1].size = 10;
  run_ok(fd, ctx, &job);
  bo_sync(fd, &bo, DRM_NPU_SYNC_FROM_DEVICE);
  for (uint32_t i = 0; i < 65536; i++) assert_int_equal(bo.map[i], i >= 5001 && i < 5011 ? 0x11 : 0);
  bo_destroy(fd, &bo);
  stream_destroy(fd, &stream);
}

static void both_engines_run(void **state) {
  struct stream tiu, gdma;
  struct bo bo;
  struct job job;

  (void)state;
  stream_create(fd, 4, &tiu);
  stream_create(fd, 4, &gdma);
  bo_create_mapped(fd, 4096, DRM_NPU_BO_CARD, &bo);
  stream_nop(&tiu, 0);
  stream_nop(&tiu, 1);
  stream_nop(&gdma, 1);
  stream_fill(&gdma, 2, 0, 4096, 0x77);
  job_init(&job);
  job_tiu(&job, &tiu);
  job_gdma(&job, &gdma);
  job_region(&job, &bo, DRM_NPU_REGION_WRITE);
  run_ok(fd, ctx, &job);
  assert_int_equal(bo.map[0], 0x77);
  assert_int_equal(bo.map[4095], 0x77);
  bo_destroy(fd, &bo);
  stream_destroy(fd, &tiu);
  stream_destroy(fd, &gdma);
}

static void sealed_buffers_can_be_read_but_not_written(void **state) {
  struct stream stream;
  struct bo src, dst;
  struct job job;

  (void)state;
  stream_create(fd, 8, &stream);
  bo_create_mapped(fd, MIB(2), DRM_NPU_BO_CARD, &src);
  bo_create_mapped(fd, MIB(2), DRM_NPU_BO_SYSTEM, &dst);
  memset(src.map, 0x5a, src.size);
  assert_int_equal(raw_bo_seal(fd, src.handle), 0);

  stream_copy(&stream, 1, 0, 2, 0, MIB(2));
  job_init(&job);
  job_gdma(&job, &stream);
  job_region(&job, &src, DRM_NPU_REGION_READ);
  job_region(&job, &dst, DRM_NPU_REGION_WRITE);
  run_ok(fd, ctx, &job);
  assert_int_equal(dst.map[0], 0x5a);
  assert_int_equal(dst.map[MIB(2) - 1], 0x5a);

  job.regions[1].access = DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE;
  assert_int_equal(raw_submit(fd, ctx, &job), -EACCES);
  run_nop(fd, ctx);
  bo_destroy(fd, &src);
  bo_destroy(fd, &dst);
  stream_destroy(fd, &stream);
}

/* Jobs of a submission run in order on one buffer: each depends on the previous one's output. */
static void many_jobs_run_in_order(void **state) {
  enum { JOBS = 64 };
  struct drm_npu_submit args = {.ctx_id = ctx, .job_count = JOBS, .job_stride = sizeof(struct drm_npu_job)};
  struct drm_npu_job jobs[JOBS];
  struct job job[JOBS];
  struct stream stream;
  struct bo bo;

  (void)state;
  stream_create(fd, JOBS, &stream);
  bo_create_mapped(fd, 4096, DRM_NPU_BO_SYSTEM, &bo);
  bo.map[0] = 0x42;
  for (int i = 0; i < JOBS; i++) {
    stream_copy(&stream, 1, i, 1, i + 1, 1);
    job_init(&job[i]);
    job_gdma(&job[i], &stream);
    job[i].stream.gdma_count = 1;
    job[i].stream.gdma_offset = (uint64_t)i * NPU_CMD_BYTES;
    job_region(&job[i], &bo, DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE);
    jobs[i] = job[i].args;
  }
  for (int round = 0; round < 20; round++) {
    memset(bo.map + 1, 0, 4095);
    args.jobs = (uintptr_t)jobs;
    assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_SUBMIT, &args), 0);
    for (int i = 1; i < JOBS; i++) assert_int_equal(jobs[i].seqno, jobs[i - 1].seqno + 1);
    wait_ok(fd, ctx, jobs[JOBS - 1].seqno);
    for (int i = 0; i <= JOBS; i++) assert_int_equal(bo.map[i], 0x42);
    assert_int_equal(bo.map[JOBS + 1], 0);
  }
  bo_destroy(fd, &bo);
  stream_destroy(fd, &stream);
}

static void submission_waits_for_room(void **state) {
  struct stream stream;
  struct job job;
  uint64_t last = 0;

  (void)state;
  stream_create(fd, 1, &stream);
  stream_nop(&stream, 0);
  job_init(&job);
  job_gdma(&job, &stream);
  for (int i = 0; i < 500; i++) last = submit(fd, ctx, &job);
  wait_ok(fd, ctx, last);
  stream_destroy(fd, &stream);
}

static void results_are_remembered_for_256_jobs(void **state) {
  struct drm_npu_wait wait;
  struct stream stream;
  struct job job;
  uint64_t first, last = 0;

  (void)state;
  stream_create(fd, 1, &stream);
  stream_nop(&stream, 0);
  job_init(&job);
  job_gdma(&job, &stream);
  first = submit(fd, ctx, &job);
  for (int i = 0; i < 255; i++) last = submit(fd, ctx, &job);
  assert_int_equal(last, first + 255);
  wait_ok(fd, ctx, last);
  wait_ok(fd, ctx, first);
  wait_ok(fd, ctx, submit(fd, ctx, &job));
  assert_int_equal(raw_wait(fd, ctx, first, FOREVER_MS, &wait), 0);
  assert_int_equal(wait.known, 0);
  assert_int_equal(wait.error, 0);
  stream_destroy(fd, &stream);
}

static void cycles_repeat_exactly(void **state) {
  struct drm_npu_wait first, again;
  struct stream stream;
  struct job job;
  struct bo bo;

  (void)state;
  stream_create(fd, 4, &stream);
  bo_create(fd, MIB(1), DRM_NPU_BO_CARD, &bo);
  stream_fill(&stream, 1, 0, MIB(1), 1);
  stream_copy(&stream, 1, 0, 1, KIB(512), KIB(512));
  job_init(&job);
  job_gdma(&job, &stream);
  job_region(&job, &bo, DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE);
  wait_result(fd, ctx, submit(fd, ctx, &job), &first);
  assert_true(first.cycles > 0);
  wait_result(fd, ctx, submit(fd, ctx, &job), &again);
  assert_int_equal(first.cycles, again.cycles);
  bo_destroy(fd, &bo);
  stream_destroy(fd, &stream);
}

static void wait_checks_its_arguments(void **state) {
  struct drm_npu_wait wait = {.ctx_id = ctx, .pad = 1, .seqno = 1};
  struct drm_npu_ctx_query query;

  (void)state;
  run_nop(fd, ctx);
  ctx_query(fd, ctx, &query);
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_WAIT, &wait), -EINVAL);
  assert_int_equal(raw_wait(fd, ctx, 0, 1, &wait), -EINVAL);
  assert_int_equal(raw_wait(fd, ctx, query.submitted + 1, 1, &wait), -EINVAL);
  assert_int_equal(raw_wait(fd, ctx, UINT64_MAX, 1, &wait), -EINVAL);
  assert_int_equal(raw_wait(fd, ctx + 1000, 1, 1, &wait), -ENOENT);
  assert_int_equal(raw_wait(fd, ctx, query.submitted, -1000, &wait), 0);
}

static void waits_time_out_and_buffers_are_busy_meanwhile(void **state) {
  uint32_t patient = ctx_create_patient(fd, NULL);
  struct drm_npu_bo_wait bo_wait = {0};
  struct drm_npu_wait wait;
  struct stream stream;
  struct bo bo;
  struct job job;
  uint64_t seqno;

  (void)state;
  job_slow(fd, 100, &stream, &bo, &job);
  seqno = submit_held(fd, patient, &job);

  assert_int_equal(raw_wait(fd, patient, seqno, 0, &wait), -ETIME);
  assert_int_equal(raw_wait(fd, patient, seqno, 20, &wait), -ETIME);
  bo_wait.handle = bo.handle;
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_BO_WAIT, &bo_wait), -ETIME);
  assert_int_equal(raw_bo_seal(fd, bo.handle), -EBUSY);

  held_go_on();
  bo_wait.timeout_ns = deadline_ns(FOREVER_MS);
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_BO_WAIT, &bo_wait), 0);
  wait_ok(fd, patient, seqno);
  assert_int_equal(raw_bo_seal(fd, bo.handle), 0);
  bo_destroy(fd, &bo);
  stream_destroy(fd, &stream);
  ctx_destroy(fd, patient);
}

static void on_alarm(int signal) { (void)signal; }

/* Polling of any duration does not break a wait: its deadline, signals and the end of the job still work. */
static void waiters_that_look_first_can_be_interrupted(void **state) {
  const struct sigaction action = {.sa_handler = on_alarm};
  /* Repeatedly, because the first signal may come before the call waits. */
  const struct itimerval often = {.it_value.tv_usec = 50000, .it_interval.tv_usec = 50000}, never = {0};
  uint32_t own = ctx_create_patient(fd, NULL);
  struct drm_npu_wait wait = {.ctx_id = own};
  struct stream stream;
  struct job job;

  (void)state;
  set_parameter("busywait_us", 4000000000u);
  stream_create(fd, 1, &stream);
  stream_nop(&stream, 0);
  job_init(&job);
  job_gdma(&job, &stream);
  wait.seqno = submit_held(fd, own, &job); /* ends with its context */
  assert_int_equal(raw_wait(fd, own, wait.seqno, 20, &wait), -ETIME);
  assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
  wait.timeout_ns = deadline_ns(FOREVER_MS);
  assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
  assert_int_equal(ioctl(fd, DRM_IOCTL_NPU_WAIT, &wait), -1); /* not restarted: no SA_RESTART */
  assert_int_equal(errno, EINTR);
  assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
  assert_int_equal(raw_wait(fd, own, wait.seqno, 0, &wait), -ETIME);
  ctx_destroy(fd, own);
  run_nop(fd, ctx); /* seen at once */

  set_parameter("busywait_us", 0);
  run_nop(fd, ctx);
  set_parameter("busywait_us", 100);
  stream_destroy(fd, &stream);
}

static char state_of(pid_t pid) {
  char path[64], state = 0;
  FILE *file;

  snprintf(path, sizeof(path), "/proc/%d/stat", pid);
  file = fopen(path, "r");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%*d %*s %c", &state), 1);
  fclose(file);
  return state;
}

static void wait_asleep(pid_t pid) {
  char now;

  for (int tries = 0; (now = state_of(pid)) != 'S'; tries++) {
    if (now == 'Z' || tries > FOREVER_MS / 10) fail_msg("process %d does not wait, its state is %c", (int)pid, now);
    usleep(10000);
  }
}

static void stop_by_debugger(pid_t pid) {
  int status;

  wait_asleep(pid);
  assert_int_equal(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL), 0);
  assert_int_equal(waitpid(pid, &status, __WALL), pid);
  assert_true(WIFSTOPPED(status));
}

/* A debugger stops a process in WAIT. WAIT resumes with the process; the job ends even while it is stopped. */
static void a_debugger_may_stop_who_waits(void **state) {
  uint32_t patient = ctx_create_patient(fd, NULL);
  struct drm_npu_wait wait = {.ctx_id = patient};
  struct stream stream;
  struct job job;
  int status;
  pid_t pid;

  (void)state;
  stream_create(fd, 1, &stream);
  stream_nop(&stream, 0);
  job_init(&job);
  job_gdma(&job, &stream);
  wait.seqno = submit_held(fd, patient, &job);
  wait.timeout_ns = deadline_ns(10 * FOREVER_MS);
  pid = fork();
  assert_true(pid >= 0);
  if (!pid) _exit(ioctl(fd, DRM_IOCTL_NPU_WAIT, &wait) ? errno : wait.error != 0); /* no wrapper that tries again */
  assert_int_equal(ptrace(PTRACE_SEIZE, pid, NULL, NULL), 0);
  for (int i = 0; i < 3; i++) {
    stop_by_debugger(pid);
    assert_int_equal(raw_wait(fd, patient, wait.seqno, 0, &wait), -ETIME);
    assert_int_equal(ptrace(PTRACE_CONT, pid, NULL, NULL), 0);
  }
  stop_by_debugger(pid);
  held_go_on();
  wait_ok(fd, patient, wait.seqno);
  assert_int_equal(ptrace(PTRACE_DETACH, pid, NULL, NULL), 0);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  stream_destroy(fd, &stream);
  ctx_destroy(fd, patient);
}

/* Handles may be closed while the job runs, which keeps its buffers. */
static void buffers_may_be_closed_while_a_job_uses_them(void **state) {
  uint32_t patient = ctx_create_patient(fd, NULL);
  struct stream stream;
  struct bo bo;
  struct job job;
  uint64_t seqno;

  (void)state;
  for (int i = 0; i < 5; i++) {
    stream_create(fd, 1, &stream);
    bo_create(fd, MIB(2), DRM_NPU_BO_CARD, &bo);
    stream_fill(&stream, 1, 0, MIB(2), 0xdd);
    job_init(&job);
    job_gdma(&job, &stream);
    job_region(&job, &bo, DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE);
    seqno = submit_held(fd, patient, &job);
    bo_destroy(fd, &bo);
    stream_destroy(fd, &stream);

    /* New buffers do not get memory that the job still writes. */
    bo_create_mapped(fd, MIB(2), DRM_NPU_BO_CARD, &bo);
    held_go_on();
    wait_ok(fd, patient, seqno);
    for (uint32_t k = 0; k < MIB(2); k += 511) assert_int_equal(bo.map[k], 0);
    bo_destroy(fd, &bo);
  }
  ctx_destroy(fd, patient);
}

static void the_fence_page_follows_the_jobs(void **state) {
  struct drm_npu_ctx_create args = {.priority = DRM_NPU_PRIORITY_LOW};
  volatile struct npu_fence *fence;
  struct drm_npu_wait wait;
  struct stream stream;
  struct job job;
  void *map;

  (void)state;
  assert_int_equal(raw_ctx_create(fd, &args), 0);
  assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, args.fence_offset), MAP_FAILED);
  assert_ptr_equal(mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, args.fence_offset), MAP_FAILED);
  assert_ptr_equal(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, args.fence_offset + (1 << 20)), MAP_FAILED);
  map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, args.fence_offset);
  assert_ptr_not_equal(map, MAP_FAILED);
  assert_int_not_equal(mprotect(map, 4096, PROT_READ | PROT_WRITE), 0);
  fence = map;
  assert_int_equal(fence->seqno, 0);

  stream_create(fd, 1, &stream);
  stream_nop(&stream, 0);
  job_init(&job);
  job_gdma(&job, &stream);
  for (uint64_t i = 1; i <= 5; i++) {
    wait_result(fd, args.ctx_id, submit(fd, args.ctx_id, &job), &wait);
    /* Written after the completion entry, for which the driver waits. */
    for (int tries = 0; fence->seqno != i && tries < FOREVER_MS; tries++) usleep(1000);
    assert_int_equal(fence->seqno, i);
    assert_int_equal(fence->status, NPU_STATUS_OK);
    assert_int_equal(fence->cycles, wait.cycles);
    assert_int_equal(fence->errors, 0);
  }
  /* The page keeps its contents after the context is destroyed. */
  ctx_destroy(fd, args.ctx_id);
  assert_int_equal(fence->seqno, 5);
  assert_ptr_equal(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, args.fence_offset), MAP_FAILED);
  munmap(map, 4096);
  stream_destroy(fd, &stream);
}

static void profiles_have_a_record_per_command(void **state) {
  struct drm_npu_time_info before, after;
  struct npu_profile_header *header;
  struct npu_profile *records;
  struct drm_npu_dev_info info;
  struct drm_npu_wait wait;
  struct stream stream;
  struct bo bo;
  struct job job;

  (void)state;
  stream_create(fd, 4, &stream);
  bo_create_mapped(fd, 65536, DRM_NPU_BO_SYSTEM, &bo);
  stream_fill(&stream, 1, 32768, 4096, 3);
  stream_copy(&stream, 1, 32768, 1, 40960, 4096);
  job_init(&job);
  job_gdma(&job, &stream);
  job_region(&job, &bo, DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE);
  job.args.profile_region = 1;
  job.args.profile_offset = 64;
  job.args.profile_bytes = 4096;
  npu_time(fd, &before);
  wait_result(fd, ctx, submit(fd, ctx, &job), &wait);
  assert_int_equal(wait.error, 0);
  header = (void *)(bo.map + 64);
  records = (void *)(header + 1);
  assert_int_equal(header->records, 2);
  assert_int_equal(header->dropped, 0);
  assert_int_equal(header->job_id, wait.seqno);
  assert_int_equal(header->cycles, wait.cycles);
  assert_int_equal(records[0].opcode, NPU_OP_FILL);
  assert_int_equal(records[1].opcode, NPU_OP_COPY);
  assert_int_equal(records[1].end, wait.cycles);
  assert_true(before.card_ns <= header->begin_ns && header->begin_ns <= header->end_ns);
  npu_time(fd, &after);
  assert_true(header->end_ns <= after.card_ns);
  npu_info(fd, &info);
  /* The clock may be at a quarter of its rate. */
  if (info.features & NPU_FEATURE_VIRTUAL_TIME)
    assert_in_range(header->end_ns - header->begin_ns, wait.cycles * 1000000 / info.clock_khz,
                    wait.cycles * 4000000 / info.clock_khz + 1);
  bo_destroy(fd, &bo);
  stream_destroy(fd, &stream);
}

static void contexts_check_their_arguments(void **state) {
  struct drm_npu_ctx_create args = {0};
  struct drm_npu_ctx_destroy destroy = {0};
  struct drm_npu_ctx_query query = {0};
  struct drm_npu_dev_info info;

  (void)state;
  npu_info(fd, &info);
  args.flags = 1;
  assert_int_equal(raw_ctx_create(fd, &args), -EINVAL);
  args = (struct drm_npu_ctx_create){.priority = 4};
  assert_int_equal(raw_ctx_create(fd, &args), -EINVAL);
  args = (struct drm_npu_ctx_create){.core_mask = 1u << info.cores};
  assert_int_equal(raw_ctx_create(fd, &args), -EINVAL);
  destroy = (struct drm_npu_ctx_destroy){.ctx_id = ctx, .pad = 1};
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_CTX_DESTROY, &destroy), -EINVAL);
  query = (struct drm_npu_ctx_query){.ctx_id = ctx, .pad = 1};
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_CTX_QUERY, &query), -EINVAL);
  query = (struct drm_npu_ctx_query){.ctx_id = 0};
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_CTX_QUERY, &query), -ENOENT);
  assert_int_equal(raw_ctx_destroy(fd, 0), -ENOENT);
  assert_int_equal(raw_ctx_destroy(fd, ~0u), -ENOENT);
}

static void every_core_can_be_chosen(void **state) {
  struct drm_npu_dev_info info;

  (void)state;
  npu_info(fd, &info);
  for (uint32_t core = 0; core < info.cores; core++) {
    struct drm_npu_ctx_create args = {.priority = DRM_NPU_PRIORITY_NORMAL, .core_mask = 1u << core};
    struct stream stream;
    struct job job;

    assert_int_equal(raw_ctx_create(fd, &args), 0);
    run_nop(fd, args.ctx_id);
    stream_create(fd, 1, &stream);
    stream_nop(&stream, 0);
    job_init(&job);
    job_gdma(&job, &stream);
    job.args.core_mask = ~args.core_mask;
    assert_int_equal(raw_submit(fd, args.ctx_id, &job), -EINVAL);
    job.args.core_mask = args.core_mask;
    run_ok(fd, args.ctx_id, &job);
    stream_destroy(fd, &stream);
    ctx_destroy(fd, args.ctx_id);
  }
}

/* A context holds a queue pair while it has jobs. */
static void contexts_beyond_the_queues_take_turns(void **state) {
  enum { ROUNDS = 3 };
  static uint32_t ids[4 * NPU_MAX_QUEUES];
  struct drm_npu_dev_info info;
  struct stream nops;
  struct job job;
  uint32_t count;

  (void)state;
  npu_info(fd, &info);
  count = 4 * info.queues;
  stream_create(fd, 1, &nops);
  stream_nop(&nops, 0);
  job_init(&job);
  job_gdma(&job, &nops);
  for (uint32_t i = 0; i < count; i++) ids[i] = ctx_create(fd);
  for (uint64_t round = 1; round <= ROUNDS; round++) {
    for (uint32_t i = 0; i < count; i++) {
      submit(fd, ids[i], &job);
      submit(fd, ids[i], &job);
    }
    for (uint32_t i = 0; i < count; i++) wait_ok(fd, ids[i], 2 * round);
  }
  for (uint32_t i = 0; i < count; i++) ctx_destroy(fd, ids[i]);
  stream_destroy(fd, &nops);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(empty_jobs_are_numbered_from_one),
      cmocka_unit_test(fill_and_copy_reach_memory),
      cmocka_unit_test(regions_are_parts_of_buffers),
      cmocka_unit_test(both_engines_run),
      cmocka_unit_test(sealed_buffers_can_be_read_but_not_written),
      cmocka_unit_test(many_jobs_run_in_order),
      cmocka_unit_test(submission_waits_for_room),
      cmocka_unit_test(results_are_remembered_for_256_jobs),
      cmocka_unit_test(cycles_repeat_exactly),
      cmocka_unit_test(wait_checks_its_arguments),
      cmocka_unit_test(waits_time_out_and_buffers_are_busy_meanwhile),
      cmocka_unit_test(waiters_that_look_first_can_be_interrupted),
      cmocka_unit_test(a_debugger_may_stop_who_waits),
      cmocka_unit_test(buffers_may_be_closed_while_a_job_uses_them),
      cmocka_unit_test(the_fence_page_follows_the_jobs),
      cmocka_unit_test(profiles_have_a_record_per_command),
      cmocka_unit_test(contexts_check_their_arguments),
      cmocka_unit_test(every_core_can_be_chosen),
      cmocka_unit_test(contexts_beyond_the_queues_take_turns),
  };

  return cmocka_run_group_tests_name("jobs", tests, set_up, tear_down);
}
