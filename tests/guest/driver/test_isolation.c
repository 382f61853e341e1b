/* SPDX-License-Identifier: MIT */
/* Processes are isolated: same addresses, different memory; access rights; local memory of others. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/npu_raw.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)
#define BYTES MIB(1)

/* Runs jobs over a buffer at an address that the other process uses, too. Exit status 0: all data was its own. */
static int run_alone(uint8_t mark, int report) {
  int fd = npu_open();
  uint32_t ctx = ctx_create(fd);
  struct stream stream;
  struct job job;
  struct bo from, to;

  bo_create_mapped(fd, BYTES, DRM_NPU_BO_CARD, &from);
  bo_create_mapped(fd, BYTES, DRM_NPU_BO_SYSTEM, &to);
  if (write(report, &from.va, sizeof(from.va)) != sizeof(from.va)) return 1;
  stream_create(fd, 2, &stream);
  stream_copy(&stream, 1, 0, 2, 0, BYTES);
  job_init(&job);
  job_gdma(&job, &stream);
  job_region(&job, &from, DRM_NPU_REGION_READ);
  job_region(&job, &to, DRM_NPU_REGION_WRITE);
  for (int i = 0; i < 100; i++) {
    memset(from.map, mark + i, BYTES);
    memset(to.map, 0, BYTES);
    run_ok(fd, ctx, &job);
    for (uint32_t k = 0; k < BYTES; k++)
      if (to.map[k] != (uint8_t)(mark + i)) return 2;
  }
  close(fd);
  return 0;
}

static void same_addresses_different_memory(void **state) {
  uint64_t va[4];
  int fds[2], status;

  (void)state;
  assert_int_equal(pipe(fds), 0);
  for (int i = 0; i < 4; i++)
    if (!fork()) _exit(run_alone((uint8_t)(i * 60), fds[1]));
  assert_int_equal(read(fds[0], va, sizeof(va[0])), sizeof(va[0]));
  for (int i = 1; i < 4; i++) {
    assert_int_equal(read(fds[0], &va[i], sizeof(va[i])), sizeof(va[i]));
    assert_int_equal(va[i], va[0]);
  }
  for (int i = 0; i < 4; i++) {
    assert_true(wait(&status) > 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
  }
  close(fds[0]);
  close(fds[1]);
}

/* Local memory of a finished job is not visible to the next. */
static void local_memory_starts_as_zero(void **state) {
  struct drm_npu_dev_info info;
  int fd[2] = {npu_open(), npu_open()};
  uint32_t ctx[2] = {ctx_create(fd[0]), ctx_create(fd[1])};
  struct stream write_stream, read_stream;
  struct job writer, reader;
  struct bo bo;

  (void)state;
  npu_info(fd[0], &info);
  stream_create(fd[0], 1, &write_stream);
  stream_fill(&write_stream, NPU_REGION_LOCAL, 0, info.lmem_bytes, 0xcc);
  job_init(&writer);
  job_gdma(&writer, &write_stream);
  stream_create(fd[1], 1, &read_stream);
  bo_create_mapped(fd[1], info.lmem_bytes, DRM_NPU_BO_SYSTEM, &bo);
  stream_copy(&read_stream, NPU_REGION_LOCAL, 0, 1, 0, info.lmem_bytes);
  job_init(&reader);
  job_gdma(&reader, &read_stream);
  job_region(&reader, &bo, DRM_NPU_REGION_WRITE);
  for (int i = 0; i < 8; i++) {
    memset(bo.map, 0x11, bo.size);
    run_ok(fd[0], ctx[0], &writer);
    run_ok(fd[1], ctx[1], &reader);
    assert_int_equal(bo.map[0], 0);
    assert_memory_equal(bo.map, bo.map + 1, info.lmem_bytes - 1);
  }
  bo_unmap(&bo);
  bo_unmap(&write_stream.bo);
  bo_unmap(&read_stream.bo);
  close(fd[0]);
  close(fd[1]);
}

static void contexts_belong_to_their_file(void **state) {
  int fd = npu_open(), other = npu_open();
  uint32_t ctx = ctx_create(fd);
  struct drm_npu_ctx_query query = {.ctx_id = ctx};
  struct drm_npu_wait wait;

  (void)state;
  run_nop(fd, ctx);
  assert_int_equal(raw_ioctl(other, DRM_IOCTL_NPU_CTX_QUERY, &query), -ENOENT);
  assert_int_equal(raw_wait(other, ctx, 1, 0, &wait), -ENOENT);
  assert_int_equal(raw_ctx_destroy(other, ctx), -ENOENT);
  run_nop(fd, ctx);
  close(fd);
  close(other);
}

static void high_priorities_need_the_right(void **state) {
  int fd = npu_open(), status;

  (void)state;
  for (uint32_t priority = 0; priority <= DRM_NPU_PRIORITY_REALTIME; priority++) {
    struct drm_npu_ctx_create args = {.priority = priority};

    assert_int_equal(raw_ctx_create(fd, &args), 0);
    run_nop(fd, args.ctx_id);
    ctx_destroy(fd, args.ctx_id);
  }
  if (!fork()) {
    struct drm_npu_ctx_create args = {0};
    int bad = 0;

    if (setgid(65534) || setuid(65534)) _exit(9);
    for (uint32_t priority = 0; priority <= DRM_NPU_PRIORITY_REALTIME; priority++) {
      args = (struct drm_npu_ctx_create){.priority = priority};
      bad |= raw_ctx_create(fd, &args) != (priority >= DRM_NPU_PRIORITY_HIGH ? -EACCES : 0);
    }
    _exit(bad);
  }
  assert_true(wait(&status) > 0);
  assert_int_equal(status, 0);
  close(fd);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(same_addresses_different_memory),
      cmocka_unit_test(local_memory_starts_as_zero),
      cmocka_unit_test(contexts_belong_to_their_file),
      cmocka_unit_test(high_priorities_need_the_right),
  };

  return cmocka_run_group_tests_name("isolation", tests, NULL, NULL);
}
