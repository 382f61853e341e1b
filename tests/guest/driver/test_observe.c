/* SPDX-License-Identifier: MIT */
/* State that the driver shows: trace events, sysfs, hwmon, fdinfo, debugfs. */
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/npu_raw.h"
#include "tests/guest/driver/trace.h"
#include "tests/guest/driver/users.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)

static int fd;
static uint32_t ctx;

static int set_up(void **state) {
  (void)state;
  fd = npu_open();
  ctx = ctx_create(fd);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  ctx_destroy(fd, ctx);
  return close(fd);
}

/* Trace events */

static const char *must_find(const char *from, const char *a, const char *b, const char *c) {
  const char *line = trace_find(from, a, b, c);

  if (!line) fail_msg("no event '%s %s %s' in:\n%s", a, b ? b : "", c ? c : "", from);
  return line;
}

static void one_job_is_followed_from_submission_to_completion(void **state) {
  static const char *const events[] = {"qnpu", "dma_fence/dma_fence_signaled"};
  char seqno[32], fence[64], fence_context[64], id[32];
  const char *submit_line, *run, *done, *signalled;
  struct drm_npu_wait wait;
  struct stream stream;
  struct job job;
  uint32_t out = syncobj_create(fd);
  char *text;

  (void)state;
  stream_create(fd, 1, &stream);
  stream_nop(&stream, 0);
  job_init(&job);
  job_gdma(&job, &stream);
  run_ok(fd, ctx, &job);
  job_out(&job, out, 0);

  trace_begin(events, COUNT(events));
  submit(fd, ctx, &job);
  wait_result(fd, ctx, job.args.seqno, &wait);
  assert_int_equal(syncobj_status(fd, out), 0);
  snprintf(seqno, sizeof(seqno), ":%llu ctx=", (unsigned long long)job.args.seqno);
  snprintf(id, sizeof(id), "ctx=%u ", ctx);
  text = trace_wait("qnpu_job_submit:", seqno, id);
  snprintf(fence_context, sizeof(fence_context), "context=%llu ",
           trace_number(must_find(text, "qnpu_job_submit:", seqno, id), "fence="));
  free(text);
  free(trace_wait("dma_fence_signaled:", fence_context, NULL));
  text = trace_end();

  submit_line = must_find(text, "qnpu_job_submit:", seqno, id);
  assert_int_equal(trace_number(submit_line, "regions="), 1);
  snprintf(fence, sizeof(fence), "fence=%llu:%llu ", trace_number(submit_line, "fence="),
           (unsigned long long)job.args.seqno);

  run = must_find(submit_line, "qnpu_job_run:", fence, "error=0");
  assert_int_equal(trace_number(run, "queue="), trace_number(submit_line, "queue="));
  done = must_find(run, "qnpu_job_done:", fence, "status=0 error=0");
  assert_int_equal(trace_number(done, "cycles="), wait.cycles);
  assert_int_equal(trace_number(done, "queue="), trace_number(run, "queue="));

  /* The fence in syncobjs and buffers. */
  signalled = must_find(done, "dma_fence_signaled:", "driver=qnpu", fence_context);
  assert_int_equal(trace_number(signalled, "seqno="), job.args.seqno);
  free(text);
  syncobj_destroy(fd, out);
  stream_destroy(fd, &stream);
}

static void failures_and_waits_are_told(void **state) {
  static const char *const events[] = {"qnpu"};
  uint32_t syncobj = syncobj_create(fd);
  struct drm_npu_wait wait;
  struct stream stream;
  struct job bad, follower;
  struct bo bo;
  const char *line;
  char fence[64];
  char *text;

  (void)state;
  calibrate(fd, ctx);
  stream_create(fd, 2, &stream);
  bo_create(fd, KIB(4), DRM_NPU_BO_SYSTEM, &bo);
  job_init(&bad);
  job_gdma(&bad, &stream);
  job_region(&bad, &bo, RW);
  stream_slow_copy(&stream, 1, 100);
  stream_fill(&stream, 1, 0, 1 << 20, 0); /* beyond the region */
  bad.stream.gdma_count = 2;
  job_out(&bad, syncobj, 0);
  follower = bad;
  follower.args.out_sync_count = 0;
  follower.args.regions = (uintptr_t)follower.regions;
  follower.args.streams = (uintptr_t)&follower.stream;
  follower.args.in_syncs = (uintptr_t)follower.in;
  follower.args.out_syncs = (uintptr_t)follower.out;
  job_in(&follower, syncobj, 0);

  trace_begin(events, COUNT(events));
  submit(fd, ctx, &bad);
  submit(fd, ctx, &follower);
  wait_result(fd, ctx, follower.args.seqno, &wait);
  assert_int_equal(wait.error, -ECANCELED);
  text = trace_end();

  snprintf(fence, sizeof(fence), ":%llu ", (unsigned long long)bad.args.seqno);
  line = must_find(text, "qnpu_job_done:", fence, "error=-5");
  assert_int_equal(trace_number(line, "status="), NPU_STATUS_REGION_BOUNDS);
  snprintf(fence, sizeof(fence), ":%llu ", (unsigned long long)follower.args.seqno);
  must_find(text, "qnpu_job_wait:", fence, "waits for");
  must_find(line, "qnpu_job_run:", fence, "error=-125");
  must_find(line, "qnpu_job_done:", fence, "error=-125");
  free(text);
  bo_destroy(fd, &bo);
  stream_destroy(fd, &stream);
  syncobj_destroy(fd, syncobj);
}

static void life_of_a_buffer_is_told(void **state) {
  static const char *const events[] = {"qnpu"};
  const char *create, *unmap, *done;
  char address[48], ticket[32], created[48];
  struct bo bo;
  char *text;

  (void)state;
  trace_begin(events, COUNT(events));
  bo_create(fd, KIB(12), DRM_NPU_BO_CARD, &bo);
  assert_int_equal(raw_gem_close(fd, bo.handle), 0);
  free(trace_wait("qnpu_bo_free:", "size=12288", NULL));
  text = trace_end();

  snprintf(created, sizeof(created), "size=12288 flags=%#x", bo_place(fd, DRM_NPU_BO_CARD));
  create = must_find(text, "qnpu_bo_create:", created, NULL);
  must_find(text, "qnpu_bo_move:", "size=12288", has_card_memory(fd) ? "to=2" : "to=1");
  snprintf(address, sizeof(address), "va=%#llx bytes=0x3000", (unsigned long long)bo.va);
  must_find(create, "qnpu_invalidate:", address, NULL);
  unmap = must_find(strchr(create, '\n') + 1, "qnpu_invalidate:", NULL, NULL);
  snprintf(ticket, sizeof(ticket), "ticket=%llu ", trace_number(unmap, "ticket="));
  done = must_find(unmap, "qnpu_invalidate_done:", ticket, "answered=1");
  must_find(done, "qnpu_bo_free:", "size=12288", NULL);
  free(text);
}

/* Freeing a page table invalidates its range, since the card may cache the path to it. A table with entries stays. */
static void the_range_of_an_empty_table_is_invalidated(void **state) {
  static const char *const events[] = {"qnpu/qnpu_invalidate"};
  const uint64_t covered = 1ull << 39; /* by an entry of the root, which is all that stays */
  int other = npu_open();
  struct bo first, second;
  const char *line;
  char *text;

  (void)state;
  run_nop(other, ctx_create(other)); /* only ASIDs in use are invalidated */
  bo_create(other, KIB(12), DRM_NPU_BO_CARD, &first);
  bo_create(other, KIB(12), DRM_NPU_BO_CARD, &second);
  trace_begin(events, COUNT(events));
  assert_int_equal(raw_gem_close(other, first.handle), 0);
  assert_int_equal(raw_gem_close(other, second.handle), 0);
  text = trace_end();

  line = must_find(text, "qnpu_invalidate:", NULL, NULL);
  assert_int_equal(trace_number(line, "va="), first.va);
  assert_int_equal(trace_number(line, "bytes="), first.size);
  line = must_find(strchr(line, '\n') + 1, "qnpu_invalidate:", NULL, NULL);
  assert_int_equal(trace_number(line, "va="), second.va / covered * covered);
  assert_int_equal(trace_number(line, "bytes="), covered);
  free(text);
  close(other);
}

/* The memory of a page table is not reused before the invalidation is complete. */
static void a_page_table_is_freed_after_the_invalidation(void **state) {
  static const char *const events[] = {"qnpu/qnpu_invalidate", "qnpu/qnpu_invalidate_done", "kmem/kfree"};
  const char *line, *done, *freed;
  int other = npu_open();
  char ticket[32];
  struct bo bo;
  char *text;

  (void)state;
  run_nop(other, ctx_create(other));
  bo_create(other, KIB(12), DRM_NPU_BO_SYSTEM, &bo);
  trace_begin(events, COUNT(events));
  assert_int_equal(raw_gem_close(other, bo.handle), 0);
  text = trace_end();

  line = must_find(text, "qnpu_invalidate:", NULL, NULL);
  snprintf(ticket, sizeof(ticket), "ticket=%llu ", trace_number(line, "ticket="));
  done = must_find(line, "qnpu_invalidate_done:", ticket, "answered=1");
  freed = must_find(text, "observe-", "kfree:", "[qnpu]"); /* first free by this process in the module */
  if (freed < done) fail_msg("freed too early:\n%s", text);
  for (int table = 1; table < 3; table++) freed = must_find(strchr(freed, '\n') + 1, "observe-", "kfree:", "[qnpu]");
  free(text);
  close(other);
}

/* The entries of a sealed buffer change, with an invalidation before the call returns. */
static void a_seal_is_told_to_the_card(void **state) {
  static const char *const events[] = {"qnpu"};
  static const uint32_t kinds[] = {DRM_NPU_BO_CARD, DRM_NPU_BO_SYSTEM};
  char address[64], ticket[32];
  const char *line;
  struct bo bo;
  char *text;

  (void)state;
  for (size_t k = 0; k < COUNT(kinds); k++) {
    bo_create(fd, MIB(2) + KIB(12), kinds[k], &bo);
    trace_begin(events, COUNT(events));
    assert_int_equal(raw_bo_seal(fd, bo.handle), 0);
    text = trace_end();
    snprintf(address, sizeof(address), "va=%#llx bytes=%#llx ", (unsigned long long)bo.va, (unsigned long long)bo.size);
    line = must_find(text, "qnpu_invalidate:", address, NULL);
    snprintf(ticket, sizeof(ticket), "ticket=%llu ", trace_number(line, "ticket="));
    must_find(line, "qnpu_invalidate_done:", ticket, "answered=1");
    free(text);
    bo_destroy(fd, &bo);
  }
}

static void contexts_are_told(void **state) {
  static const char *const events[] = {"qnpu/qnpu_ctx_create", "qnpu/qnpu_ctx_kill"};
  struct drm_npu_ctx_create args = {.priority = DRM_NPU_PRIORITY_LOW, .core_mask = 1};
  char id[32];
  char *text;

  (void)state;
  trace_begin(events, COUNT(events));
  assert_int_equal(raw_ctx_create(fd, &args), 0);
  ctx_destroy(fd, args.ctx_id);
  text = trace_end();
  snprintf(id, sizeof(id), "ctx=%u ", args.ctx_id);
  must_find(must_find(text, "qnpu_ctx_create:", id, "priority=0 cores=0x1"), "qnpu_ctx_kill:", id, "error=-125");
  free(text);
}

/* Files */

/* Contents of a file below the device; ends the test if the file is missing. */
static void read_attribute(const char *name, char *text, size_t size) {
  char path[192];
  FILE *file;

  device_path(fd, name, path, sizeof(path));
  file = fopen(path, "r");
  if (!file) fail_msg("%s: %s", path, strerror(errno));
  text[fread(text, 1, size - 1, file)] = 0;
  fclose(file);
}

static unsigned long long number_of(const char *name) {
  char text[256];

  read_attribute(name, text, sizeof(text));
  return strtoull(text, NULL, 10);
}

static const char *core_attribute(uint32_t core, const char *name) {
  static char text[64];

  snprintf(text, sizeof(text), "qnpu/core%u_%s", core, name);
  return text;
}

static void attributes_agree_with_queries(void **state) {
  struct drm_npu_status_info now, later;
  struct drm_npu_dev_info info;
  unsigned long long jobs = 0;
  char text[256];

  (void)state;
  npu_info(fd, &info);
  read_attribute("qnpu/hw_version", text, sizeof(text));
  assert_string_equal(text, "1.0\n");
  assert_int_equal(number_of("qnpu/isa_version"), info.isa_version);
  assert_int_equal(number_of("qnpu/cores"), info.cores);
  assert_int_equal(number_of("qnpu/queues"), info.queues);
  assert_int_equal(number_of("qnpu/max_clock_khz"), info.clock_khz);
  assert_true(number_of("qnpu/clock_khz") <= info.clock_khz);

  run_nop(fd, ctx);
  npu_status(fd, &now);
  for (uint32_t i = 0; i < info.cores; i++) {
    unsigned long long n = number_of(core_attribute(i, "jobs"));

    npu_status(fd, &later); /* the driver may have jobs of its own */
    assert_in_range(n, now.jobs[i], later.jobs[i]);
    assert_true(number_of(core_attribute(i, "busy_cycles")) >= now.busy_cycles[i]);
    jobs += n;
  }
  assert_true(jobs > 0);
  device_path(fd, core_attribute(info.cores, "jobs"), text, sizeof(text));
  assert_int_not_equal(access(text, F_OK), 0);
  assert_int_equal(number_of("qnpu/resets"), now.resets);
  assert_int_equal(number_of("qnpu/core_resets"), now.core_resets);
  assert_int_equal(number_of("qnpu/aborted_jobs"), now.aborted_jobs);
  assert_int_equal(number_of("qnpu/thermal_events"), now.thermal_events);
  assert_int_equal(number_of("qnpu/ecc_corrected"), now.ecc_corrected);
  assert_int_equal(number_of("qnpu/ecc_uncorrected"), now.ecc_uncorrected);
}

static int sees_only_time(int socket) {
  struct drm_npu_status_info status = {0};
  struct drm_npu_dev_query query = {
      .type = DRM_NPU_QUERY_STATUS, .size = sizeof(status), .pointer = (uintptr_t)&status};
  int own = npu_open();
  char path[192];

  (void)socket;
  CHECK(!raw_ioctl(own, DRM_IOCTL_NPU_DEV_QUERY, &query));
  CHECK(status.flags & DRM_NPU_STATUS_COARSE);
  CHECK(!status.core_busy);
  for (int i = 0; i < DRM_NPU_MAX_CORES; i++)
    CHECK(!status.jobs[i] && !status.busy_cycles[i] && status.busy_ns[i] % 100000000 == 0);
  device_path(own, "qnpu/core0_jobs", path, sizeof(path));
  CHECK(open(path, O_RDONLY) < 0 && errno == EACCES);
  device_path(own, "qnpu/core0_busy_cycles", path, sizeof(path));
  CHECK(open(path, O_RDONLY) < 0 && errno == EACCES);
  return 0;
}

/* Exact counters of the entire device would reveal what another user runs. */
static void counters_of_others_are_private(void **state) {
  struct drm_npu_status_info status;

  (void)state;
  run_nop(fd, ctx);
  npu_status(fd, &status);
  assert_false(status.flags & DRM_NPU_STATUS_COARSE);
  assert_true(status.jobs[0] > 0 || status.jobs[1] > 0);
  as_user(ALICE, fd, sees_only_time);
}

/* A job that keeps the board busy for about `ms`. */
struct work {
  struct stream stream;
  struct bo bo;
  struct job job;
};

static void work_create(struct work *work, uint32_t ms) {
  stream_create(fd, 1, &work->stream);
  stream_slow_copy(&work->stream, 1, ms);
  bo_create(fd, KIB(4), DRM_NPU_BO_SYSTEM, &work->bo);
  job_init(&work->job);
  job_gdma(&work->job, &work->stream);
  job_region(&work->job, &work->bo, RW);
}

static void work_destroy(struct work *work) {
  bo_destroy(fd, &work->bo);
  stream_destroy(fd, &work->stream);
}

static void utilisation_rises_and_falls(void **state) {
  unsigned long long busiest = 0, n;
  int64_t end = now_ms() + FOREVER_MS;
  struct drm_npu_dev_info info;
  struct work work;

  (void)state;
  npu_info(fd, &info);
  work_create(&work, 100);
  /* A reading covers the time since the previous one, in which a core always, or nearly always, had a job. */
  while (busiest < 50 && now_ms() < end) {
    for (int i = 0; i < 8; i++) submit(fd, ctx, &work.job);
    number_of("qnpu/core0_utilization");
    run_ok(fd, ctx, &work.job);
    for (uint32_t i = 0; i < info.cores; i++) {
      n = number_of(core_attribute(i, "utilization"));
      assert_true(n <= 100);
      if (n > busiest) busiest = n;
    }
  }
  assert_true(busiest >= 50);
  while (number_of("qnpu/core0_utilization")) {
    assert_true(now_ms() < end);
    usleep(50000);
  }
  work_destroy(&work);
}

/* The card's devfreq folder. */
static int devfreq_folder(char *path, size_t size) {
  char name[64];

  device_name(fd, name, sizeof(name));
  snprintf(path, size, "/sys/class/devfreq/%s", name);
  return !access(path, F_OK);
}

static unsigned long clock_after(unsigned long wanted, struct work *work) {
  unsigned long khz = 0;

  for (int i = 0; i < 50 && khz != wanted; i++) {
    if (work) submit(fd, ctx, &work->job);
    usleep(250000);
    khz = number_of("qnpu/clock_khz");
    if (work) wait_ok(fd, ctx, work->job.args.seqno);
  }
  return khz;
}

static void clock_follows_the_load(void **state) {
  struct drm_npu_dev_info info;
  struct work work;
  char path[96];

  (void)state;
  npu_info(fd, &info);
  /* Without devfreq, as in the debug kernel, the clock does not change. */
  if (!devfreq_folder(path, sizeof(path))) {
    if (!access("/sys/class/devfreq", F_OK)) fail_msg("devfreq does not know the card");
    assert_int_equal(number_of("qnpu/clock_khz"), info.clock_khz);
    return;
  }
  work_create(&work, 600);
  assert_int_equal(clock_after(info.clock_khz / 4, NULL), info.clock_khz / 4);
  assert_int_equal(clock_after(info.clock_khz, &work), info.clock_khz);
  assert_int_equal(clock_after(info.clock_khz / 4, NULL), info.clock_khz / 4);
  work_destroy(&work);
}

static FILE *hwmon_file(const char *name) {
  char path[96], kind[32];

  for (int i = 0; i < 16; i++) {
    FILE *file;

    snprintf(path, sizeof(path), "/sys/class/hwmon/hwmon%d/name", i);
    file = fopen(path, "r");
    if (!file) continue;
    if (fscanf(file, "%31s", kind) != 1) kind[0] = 0;
    fclose(file);
    if (strcmp(kind, "qnpu")) continue;
    snprintf(path, sizeof(path), "/sys/class/hwmon/hwmon%d/%s", i, name);
    file = fopen(path, "r");
    if (!file) fail_msg("%s: %s", path, strerror(errno));
    return file;
  }
  fail_msg("no hwmon device of the driver");
  return NULL;
}

static long hwmon_number(const char *name) {
  FILE *file = hwmon_file(name);
  long value;

  assert_int_equal(fscanf(file, "%ld", &value), 1);
  fclose(file);
  return value;
}

static void hwmon_label(const char *name, const char *label) {
  FILE *file = hwmon_file(name);
  char text[32] = "";

  assert_int_equal(fscanf(file, "%31s", text), 1);
  fclose(file);
  assert_string_equal(text, label);
}

static void sensors_have_values_labels_and_limits(void **state) {
  struct drm_npu_status_info now;
  struct drm_npu_dev_info info;

  (void)state;
  npu_info(fd, &info);
  npu_status(fd, &now);
  hwmon_label("temp1_label", "chip");
  hwmon_label("power1_label", "board");
  hwmon_label("in0_label", "core");
  hwmon_label("fan1_label", "fan");
  assert_int_equal(hwmon_number("temp1_crit"), NPU_TEMP_LIMIT_MC);
  assert_int_equal(hwmon_number("temp1_crit_hyst"), NPU_TEMP_RESUME_MC);
  assert_int_equal(hwmon_number("power1_max"), (4 + 6 * info.cores) * 1000000);
  assert_in_range(hwmon_number("power1_input"), 2000000, hwmon_number("power1_max"));
  assert_in_range(hwmon_number("in0_input"), 600, 800);
  assert_int_equal(hwmon_number("fan1_max"), 4500);
  assert_in_range(hwmon_number("fan1_input"), 900, 4500);
  /* 60 turns per degree above 30. */
  assert_in_range(now.fan_rpm, 900 + (now.temperature_mc - 30000) * 60 / 1000 - 61,
                  900 + (now.temperature_mc - 30000) * 60 / 1000 + 61);
}

/* Text of a debugfs file of the card. */
static void read_debugfs(const char *name, char *text, size_t size) {
  char path[128], device[64];

  if (access("/sys/kernel/debug/accel", F_OK))
    assert_int_equal(mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL), 0);
  device_name(fd, device, sizeof(device));
  /* Named after the minor, or after the device. */
  for (int i = -1; i < 64; i++) {
    FILE *file;

    if (i < 0)
      snprintf(path, sizeof(path), "/sys/kernel/debug/accel/%s/%s", device, name);
    else
      snprintf(path, sizeof(path), "/sys/kernel/debug/accel/%d/%s", i, name);
    file = fopen(path, "r");
    if (!file) continue;
    text[fread(text, 1, size - 1, file)] = 0;
    fclose(file);
    return;
  }
  fail_msg("no debugfs file '%s'", name);
}

static unsigned count_lines(const char *text, const char *what) {
  unsigned n = 0;

  for (const char *at = text; (at = strstr(at, what)); at += strlen(what)) n++;
  return n;
}

static void debugfs_shows_buffers_and_tables(void **state) {
  static char text[65536], before[65536];
  const char *place = has_card_memory(fd) ? " 16384 card card" : " 16384 system system";
  struct bo card, system;
  char sealed[48];

  (void)state;
  read_debugfs("buffers", before, sizeof(before));
  bo_create(fd, 12345, DRM_NPU_BO_CARD, &card);
  bo_create(fd, MIB(2), DRM_NPU_BO_SYSTEM, &system);
  read_debugfs("buffers", text, sizeof(text));
  assert_int_equal(count_lines(text, place), count_lines(before, place) + 1);
  assert_int_equal(count_lines(text, " 2097152 system system"), count_lines(before, " 2097152 system system") + 1);
  assert_int_equal(raw_bo_seal(fd, card.handle), 0);
  read_debugfs("buffers", text, sizeof(text));
  snprintf(sealed, sizeof(sealed), "%s sealed\n", place);
  assert_non_null(strstr(text, sealed));

  read_debugfs("page_tables", text, sizeof(text));
  assert_int_equal(count_lines(text, "\n") > 1, 1);
  read_debugfs("contexts", text, sizeof(text));
  assert_true(count_lines(text, "\n") > 1);
  read_debugfs("card", text, sizeof(text));
  assert_non_null(strstr(text, "\ncore 0 queue "));
  read_debugfs("clients", text, sizeof(text));
  assert_non_null(strstr(text, "observe"));
  bo_destroy(fd, &card);
  bo_destroy(fd, &system);
}

static unsigned long long fdinfo_of_core(const char *what, uint32_t core) {
  char key[40];

  snprintf(key, sizeof(key), "%s-core%u", what, core);
  return fdinfo_number(fd, key);
}

static int64_t monotonic_ns(void) {
  struct timespec now;

  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* The chip's time and cycles have separate keys: monitors must not mistake them for time that the engine was busy. */
static void fdinfo_has_the_time_of_each_core(void **state) {
  struct drm_npu_ctx_create args = {.priority = DRM_NPU_PRIORITY_NORMAL};
  struct drm_npu_dev_info info;
  struct drm_npu_wait wait;
  struct stream stream;
  struct job job;

  (void)state;
  npu_info(fd, &info);
  stream_create(fd, 1, &stream);
  stream_nop(&stream, 0);
  job_init(&job);
  job_gdma(&job, &stream);
  for (uint32_t core = 0; core < info.cores; core++) {
    const unsigned long long jobs = fdinfo_number(fd, "qnpu-jobs"), cycles = fdinfo_of_core("qnpu-cycles", core);
    const unsigned long long busy = fdinfo_of_core("drm-engine", core);
    int64_t begin;

    args.core_mask = 1u << core;
    assert_int_equal(raw_ctx_create(fd, &args), 0);
    begin = monotonic_ns();
    wait_result(fd, args.ctx_id, submit(fd, args.ctx_id, &job), &wait);
    assert_in_range(fdinfo_of_core("drm-engine", core) - busy, 1, monotonic_ns() - begin);
    ctx_destroy(fd, args.ctx_id);
    assert_true(wait.cycles > 0);
    assert_int_equal(fdinfo_of_core("qnpu-cycles", core), cycles + wait.cycles);
    assert_int_equal(fdinfo_of_core("qnpu-modelled", core), (cycles + wait.cycles) * 1000000 / info.clock_khz);
    assert_int_equal(fdinfo_number(fd, "qnpu-jobs"), jobs + 1);
  }
  stream_destroy(fd, &stream);
}

/* The sum of all cores. */
static unsigned long long engine_ns(uint32_t cores) {
  unsigned long long sum = 0;

  for (uint32_t core = 0; core < cores; core++) sum += fdinfo_of_core("drm-engine", core);
  return sum;
}

static uint64_t card_ns(uint32_t cores) {
  struct drm_npu_status_info status;
  uint64_t sum = 0;

  npu_status(fd, &status);
  for (uint32_t core = 0; core < cores; core++) sum += status.busy_ns[core];
  return sum;
}

/* The card counts for all files together; the driver sees the end of a job a moment later. */
static void engine_time_is_that_of_the_card(void **state) {
  struct drm_npu_dev_info info;
  struct stream stream;
  struct job job;
  struct bo bo;

  (void)state;
  npu_info(fd, &info);
  job_slow(fd, 300, &stream, &bo, &job);
  for (int tries = 0; tries < 20; tries++) {
    const uint64_t card = card_ns(info.cores);
    const unsigned long long before = engine_ns(info.cores);
    const uint64_t seqno = submit(fd, ctx, &job);
    unsigned long long now;
    struct drm_npu_wait wait;
    bool runs;

    do {
      now = engine_ns(info.cores);
      runs = raw_wait(fd, ctx, seqno, 0, &wait) == -ETIME;
    } while (runs && now == before);
    wait_ok(fd, ctx, seqno);
    assert_true(engine_ns(info.cores) - before >= (card_ns(info.cores) - card) / 2);
    if (!runs) continue; /* too fast to be sampled */
    assert_true(now > before);
    assert_true(engine_ns(info.cores) >= now);
    break;
  }
  stream_destroy(fd, &stream);
  bo_destroy(fd, &bo);
}

/* The jobs run one after the other, on any cores: their total time is at most the elapsed time. */
static void jobs_of_a_queue_share_the_time(void **state) {
  const int64_t begin = monotonic_ns();
  struct drm_npu_dev_info info;
  unsigned long long before;
  struct stream stream;
  struct job job;
  struct bo bo;
  uint64_t last = 0;

  (void)state;
  npu_info(fd, &info);
  before = engine_ns(info.cores);
  job_slow(fd, 20, &stream, &bo, &job);
  for (int i = 0; i < 6; i++) last = submit(fd, ctx, &job);
  wait_ok(fd, ctx, last);
  assert_in_range(engine_ns(info.cores) - before, 1, monotonic_ns() - begin);
  stream_destroy(fd, &stream);
  bo_destroy(fd, &bo);
}

/* A size, followed by its unit. */
static unsigned long long fdinfo_bytes(const char *key) {
  unsigned long long value = 0;
  char path[64], line[256], unit[8] = "";
  bool found = false;
  FILE *file;

  snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
  file = fopen(path, "r");
  assert_non_null(file);
  while (fgets(line, sizeof(line), file))
    if (!strncmp(line, key, strlen(key)) && line[strlen(key)] == ':')
      found = sscanf(line + strlen(key) + 1, "%llu %7s", &value, unit) >= 1;
  fclose(file);
  if (!found) fail_msg("fdinfo has no %s", key);
  return value * (!strcmp(unit, "KiB") ? 1024 : !strcmp(unit, "MiB") ? 1024 * 1024 : 1);
}

/* Bytes of both kinds; on a device without memory all are system memory. */
static void expect_fdinfo(const char *what, uint64_t card, uint64_t system) {
  char key[32];

  if (!has_card_memory(fd)) {
    system += card;
    card = 0;
  }
  snprintf(key, sizeof(key), "drm-%s-card", what);
  assert_int_equal(fdinfo_bytes(key), card);
  snprintf(key, sizeof(key), "drm-%s-system", what);
  assert_int_equal(fdinfo_bytes(key), system);
}

/* Memory of both kinds, and its shared part; both an export and another file make it shared. */
static void fdinfo_tells_shared_memory(void **state) {
  static uint8_t memory[KIB(64)] __attribute__((aligned(4096)));
  struct drm_npu_bo_userptr userptr = {.addr = (uintptr_t)memory, .size = sizeof(memory)};
  struct drm_prime_handle out = {.flags = DRM_CLOEXEC | DRM_RDWR}, in = {0};
  struct bo card[2], system[2], exported;
  int other = npu_open();
  char line[256], path[64];
  FILE *file;

  (void)state;
  assert_int_equal(fdinfo_bytes("drm-total-card"), 0);
  assert_int_equal(fdinfo_bytes("drm-shared-card"), 0);
  for (int i = 0; i < 2; i++) {
    bo_create(fd, MIB(1 + i), DRM_NPU_BO_CARD, &card[i]);
    bo_create(fd, KIB(100 + 100 * i), DRM_NPU_BO_SYSTEM, &system[i]);
  }
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_BO_USERPTR, &userptr), 0);
  expect_fdinfo("total", MIB(3), KIB(364));
  expect_fdinfo("resident", MIB(3), KIB(364));
  expect_fdinfo("shared", 0, 0);

  out.handle = card[1].handle;
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &out), 0);
  in.fd = out.fd;
  assert_int_equal(raw_ioctl(other, DRM_IOCTL_PRIME_FD_TO_HANDLE, &in), 0);
  close(out.fd);
  expect_fdinfo("shared", MIB(2), 0);
  expect_fdinfo("total", MIB(3), KIB(364));
  assert_int_equal(raw_gem_close(other, in.handle), 0);

  exported = system[0];
  out.handle = exported.handle;
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &out), 0);
  expect_fdinfo("shared", MIB(2), KIB(100)); /* a dma-buf lives as long as its handle */
  expect_fdinfo("total", MIB(3), KIB(364));
  close(out.fd);

  /* Nothing is purgeable, so there is no such key. */
  snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
  file = fopen(path, "r");
  assert_non_null(file);
  while (fgets(line, sizeof(line), file)) assert_null(strstr(line, "drm-purgeable"));
  fclose(file);

  assert_int_equal(raw_gem_close(fd, userptr.handle), 0);
  for (int i = 0; i < 2; i++) {
    bo_destroy(fd, &card[i]);
    bo_destroy(fd, &system[i]);
  }
  close(other);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_job_is_followed_from_submission_to_completion),
      cmocka_unit_test(failures_and_waits_are_told),
      cmocka_unit_test(life_of_a_buffer_is_told),
      cmocka_unit_test(the_range_of_an_empty_table_is_invalidated),
      cmocka_unit_test(a_page_table_is_freed_after_the_invalidation),
      cmocka_unit_test(a_seal_is_told_to_the_card),
      cmocka_unit_test(contexts_are_told),
      cmocka_unit_test(attributes_agree_with_queries),
      cmocka_unit_test(counters_of_others_are_private),
      cmocka_unit_test(utilisation_rises_and_falls),
      cmocka_unit_test(clock_follows_the_load),
      cmocka_unit_test(sensors_have_values_labels_and_limits),
      cmocka_unit_test(debugfs_shows_buffers_and_tables),
      cmocka_unit_test(fdinfo_has_the_time_of_each_core),
      cmocka_unit_test(engine_time_is_that_of_the_card),
      cmocka_unit_test(jobs_of_a_queue_share_the_time),
      cmocka_unit_test(fdinfo_tells_shared_memory),
  };

  return cmocka_run_group_tests_name("observe", tests, set_up, tear_down);
}
