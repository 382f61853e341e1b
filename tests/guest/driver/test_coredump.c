/* SPDX-License-Identifier: MIT */
/* Dumps: a job that was killed or had a machine error leaves one, which shows the cause. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/npu_machine.h"
#include "tests/guest/driver/npu_raw.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)
#define DATA "/sys/class/devcoredump/devcd*/data"
#define COMMANDS 20
#define AT 11 /* commands that the hanging job starts */

static char text[1 << 19];
static int fd;
static uint32_t ctx;
static struct bo bo;

static bool find_dump(char *path, size_t size) {
  glob_t found;
  bool any = !glob(DATA, 0, NULL, &found) && found.gl_pathc;

  if (any) snprintf(path, size, "%s", found.gl_pathv[0]);
  globfree(&found);
  return any;
}

static void discard_dump(void) {
  char path[128];

  for (int tries = 0; find_dump(path, sizeof(path)) && tries < 500; tries++) {
    try_write_file(path, "1");
    usleep(10000);
  }
}

/* Reads the dump, once it is there, into `text`. */
static void take_dump(void) {
  char path[128];
  size_t n = 0;
  int file;

  for (int tries = 0; !find_dump(path, sizeof(path)); tries++) {
    if (tries > 1000) fail_msg("there is no dump");
    usleep(10000);
  }
  file = open(path, O_RDONLY);
  assert_true(file >= 0);
  for (;;) {
    ssize_t got = read(file, text + n, sizeof(text) - 1 - n);

    assert_true(got >= 0);
    if (!got) break;
    n += (size_t)got;
  }
  close(file);
  text[n] = 0;
  assert_memory_equal(text, "qnpu-coredump 1\n", 16);
  assert_string_equal(text + n - 5, "\nend\n");
}

static void assert_says(const char *format, ...) {
  char line[512];
  va_list args;

  va_start(args, format);
  vsnprintf(line, sizeof(line), format, args);
  va_end(args);
  if (!strstr(text, line))
    fail_msg("the dump does not say \"%s\":\n%.1500s...%.3000s", line, text,
             strstr(text, "stream ") ? strstr(text, "stream ") : "");
}

static int set_up(void **state) {
  struct drm_npu_bo_wait zeroed = {0};

  (void)state;
  set_parameter("timeout_ms", 200);
  faults_clear();
  discard_dump();
  fd = npu_open();
  ctx = ctx_create(fd);
  bo_create(fd, MIB(3), DRM_NPU_BO_CARD, &bo);
  /* The driver's job that zeroes the buffer would take the fault intended for the test's job. */
  zeroed.handle = bo.handle;
  zeroed.timeout_ns = deadline_ns(FOREVER_MS);
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_BO_WAIT, &zeroed), 0);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  faults_clear();
  discard_dump();
  set_parameter("timeout_ms", 5000);
  return close(fd);
}

static void hex_of(const uint8_t *bytes, size_t n, char *hex) {
  for (size_t i = 0; i < n; i++) sprintf(hex + 2 * i, "%02x", bytes[i]);
}

/* A job with distinct commands, in a buffer of that kind. */
static void fill_job(struct stream *stream, struct job *job, uint32_t flags) {
  stream->count = 0;
  bo_create_mapped(fd, 64 * KIB(1), flags, &stream->bo);
  for (int i = 0; i < COMMANDS; i++) stream_fill(stream, 1, (uint64_t)i * 64, 64, (uint8_t)(i + 1));
  job_init(job);
  job_gdma(job, stream);
  job_region(job, &bo, RW);
}

static void a_hang_is_dumped(uint32_t flags, bool sealed) {
  char hex[2 * NPU_CMD_BYTES + 1];
  struct drm_npu_wait wait;
  struct stream stream;
  struct job job;

  fill_job(&stream, &job, flags);
  hex_of(stream.bo.map + AT * NPU_CMD_BYTES, NPU_CMD_BYTES, hex);
  if (sealed) {
    bo_unmap(&stream.bo);
    assert_int_equal(raw_bo_seal(fd, stream.bo.handle), 0);
  }
  fault_set("hang-after", AT);
  fault_set("hang", 1);
  wait_result(fd, ctx, submit(fd, ctx, &job), &wait);
  assert_int_equal(wait.error, -ETIME);
  take_dump();

  assert_says("\nreason watchdog\n");
  assert_says("\nkernel ");
  assert_says("\njob %llu queue ", (unsigned long long)wait.fault.seqno);
  assert_says("\nstream gdma core %u region 0 offset 0x0 count %u at %u\n", wait.fault.core, COMMANDS, AT);
  assert_says("\ncommand gdma %u %u > %s\n", wait.fault.core, AT, hex);
  assert_says("\ncommand gdma %u %u - ", wait.fault.core, AT - 8);
  assert_says("\ncommand gdma %u %u - ", wait.fault.core, COMMANDS - 1);
  assert_says("\nregion 1 address %#llx bytes %#llx access 3\n", (unsigned long long)bo.va,
              (unsigned long long)bo.size);
  assert_says("\nwalk of %#llx in address space ", (unsigned long long)stream.bo.va);
  assert_says("\nwalk level1 at 0x");
  assert_says("\ncore %u queue ", wait.fault.core);
  assert_says("\nregister CORE_BUSY %#x\n", 1u << wait.fault.core);
  assert_says("\nsq 0 ");
  assert_says("\ncq 31 ");
  assert_null(strstr(text, "unreadable"));
  discard_dump();
  bo_destroy(fd, &stream.bo);
}

static void a_killed_job_is_dumped(void **state) {
  (void)state;
  a_hang_is_dumped(DRM_NPU_BO_SYSTEM, false);
  a_hang_is_dumped(DRM_NPU_BO_CARD, false);
  a_hang_is_dumped(DRM_NPU_BO_CARD, true);
}

/* The job is gone when its dump is written. */
static void an_error_of_the_machine_is_dumped(void **state) {
  struct drm_npu_wait wait;
  struct stream stream;
  struct job job;

  (void)state;
  fill_job(&stream, &job, DRM_NPU_BO_SYSTEM);
  fault_set("ecc-uncorrected", 1);
  submit(fd, ctx, &job);
  bo_destroy(fd, &stream.bo);
  wait_result(fd, ctx, job.args.seqno, &wait);
  assert_int_equal(wait.fault.status, NPU_STATUS_ECC);
  take_dump();
  assert_says("\nreason fault\n");
  assert_says("\ncompletion status %u engine 1 core %u command 0 region 1 offset 0x0 bytes 64 address %#llx\n",
              NPU_STATUS_ECC, wait.fault.core, (unsigned long long)bo.va);
  assert_says("\nwalk of %#llx in address space ", (unsigned long long)bo.va);
  assert_says("\ncommand gdma %u 0 > 41", wait.fault.core);
  discard_dump();
}

static void a_lie_is_dumped(void **state) {
  struct drm_npu_wait wait;
  struct stream stream;
  struct job job;

  (void)state;
  fill_job(&stream, &job, DRM_NPU_BO_SYSTEM);
  fault_set("corrupt-id", 1);
  wait_result(fd, ctx, submit(fd, ctx, &job), &wait);
  assert_int_equal(wait.error, -EIO);
  take_dump();
  assert_says("\nreason a completion that cannot be true\n");
  assert_says("\njob %llu queue ", (unsigned long long)wait.fault.seqno);
  discard_dump();
  bo_destroy(fd, &stream.bo);
}

/* Mistakes of users cause no dumps. */
static void wrong_commands_are_not_dumped(void **state) {
  struct drm_npu_wait wait;
  struct stream stream;
  struct job job;

  (void)state;
  stream_create(fd, 1, &stream);
  stream_nop(&stream, 0);
  stream.bo.map[0] = 0xee;
  job_init(&job);
  job_gdma(&job, &stream);
  wait_result(fd, ctx, submit(fd, ctx, &job), &wait);
  assert_int_equal(wait.fault.status, NPU_STATUS_BAD_OPCODE);
  stream_destroy(fd, &stream);

  /* A dump of that job would be kept, and block this one. */
  fill_job(&stream, &job, DRM_NPU_BO_SYSTEM);
  fault_set("hang", 1);
  wait_result(fd, ctx, submit(fd, ctx, &job), &wait);
  take_dump();
  assert_says("\nreason watchdog\n");
  discard_dump();
  bo_destroy(fd, &stream.bo);
}

static void the_tool_shows_commands(void **state) {
  struct drm_npu_wait wait;
  struct stream stream;
  struct job job;
  FILE *tool;
  size_t n;

  (void)state;
  fill_job(&stream, &job, DRM_NPU_BO_SYSTEM);
  fault_set("hang-after", AT);
  fault_set("hang", 1);
  wait_result(fd, ctx, submit(fd, ctx, &job), &wait);
  take_dump();
  tool = popen("npu-dump 2>&1", "r");
  assert_non_null(tool);
  n = fread(text, 1, sizeof(text) - 1, tool);
  text[n] = 0;
  assert_int_equal(pclose(tool), 0);
  assert_says("\n>   11  fill value=0xc dst_offset=0x2c0 dst_region=0x1");
  assert_int_equal(system("npu-dump --commands | grep -q '^GDMA of core [01]: at command 11 of '"), 0);
  assert_int_equal(system("npu-dump --discard"), 0);
  for (int tries = 0; tries < 100 && !system("npu-dump --raw >/dev/null 2>&1"); tries++) usleep(10000);
  assert_int_not_equal(system("npu-dump >/dev/null 2>&1"), 0);
  bo_destroy(fd, &stream.bo);
}

/* The first dump is kept until it is read; later ones are dropped. */
static void many_make_one(void **state) {
  struct drm_npu_wait wait;
  struct stream stream;
  uint64_t first = 0;
  struct job job;
  glob_t found;

  (void)state;
  fill_job(&stream, &job, DRM_NPU_BO_SYSTEM);
  for (int i = 0; i < 40; i++) {
    fault_set("ecc-uncorrected", 1);
    wait_result(fd, ctx, submit(fd, ctx, &job), &wait);
    if (!first) first = wait.fault.seqno;
  }
  take_dump();
  assert_int_equal(glob(DATA, 0, NULL, &found), 0);
  assert_int_equal(found.gl_pathc, 1);
  globfree(&found);
  assert_says("\njob %llu queue ", (unsigned long long)first);
  bo_destroy(fd, &stream.bo);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_killed_job_is_dumped),  cmocka_unit_test(an_error_of_the_machine_is_dumped),
      cmocka_unit_test(a_lie_is_dumped),         cmocka_unit_test(wrong_commands_are_not_dumped),
      cmocka_unit_test(the_tool_shows_commands), cmocka_unit_test(many_make_one),
  };

  return cmocka_run_group_tests_name("coredump", tests, set_up, tear_down);
}
