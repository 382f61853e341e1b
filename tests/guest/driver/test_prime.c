/* SPDX-License-Identifier: MIT */
/* Buffers shared by dma-buf: with other processes, with another device's memory (udmabuf), after their end. */
#define _GNU_SOURCE /* memfd_create, F_ADD_SEALS */
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/udmabuf.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/fixture.h"
#include "tests/guest/driver/npu_raw.h"
#include "tests/guest/driver/stores.h"
#include "tests/guest/driver/usage.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)

static const uint32_t kinds[] = {DRM_NPU_BO_CARD, DRM_NPU_BO_SYSTEM};

static int raw_export(int file, uint32_t handle, uint32_t flags, int *dma_buf) {
  struct drm_prime_handle args = {.handle = handle, .flags = flags, .fd = -1};
  int ret = raw_ioctl(file, DRM_IOCTL_PRIME_HANDLE_TO_FD, &args);

  *dma_buf = args.fd;
  return ret;
}

static int export_of(int file, const struct bo *bo) {
  int dma_buf;

  assert_int_equal(raw_export(file, bo->handle, DRM_CLOEXEC | DRM_RDWR, &dma_buf), 0);
  return dma_buf;
}

static int raw_import(int file, int dma_buf, uint32_t *handle) {
  struct drm_prime_handle args = {.fd = dma_buf};
  int ret = raw_ioctl(file, DRM_IOCTL_PRIME_FD_TO_HANDLE, &args);

  *handle = args.handle;
  return ret;
}

static struct drm_npu_bo_info info_of(int file, uint32_t handle) {
  struct drm_npu_bo_info info = {.handle = handle};

  assert_int_equal(raw_ioctl(file, DRM_IOCTL_NPU_BO_INFO, &info), 0);
  return info;
}

static void import_to(int file, int dma_buf, struct bo *bo) {
  struct drm_npu_bo_info info;
  uint32_t handle;

  assert_int_equal(raw_import(file, dma_buf, &handle), 0);
  info = info_of(file, handle);
  *bo = (struct bo){.handle = handle, .size = info.size, .va = info.va, .mmap_offset = info.mmap_offset};
}

static void sync_access(int dma_buf, uint64_t flags) {
  struct dma_buf_sync args = {.flags = flags};

  assert_int_equal(ioctl(dma_buf, DMA_BUF_IOCTL_SYNC, &args), 0);
}

static void an_import_into_the_same_file_is_the_same_buffer(void **state) {
  struct bo bo, same;
  int dma_buf, again;

  (void)state;
  for (int k = 0; k < 2; k++) {
    bo_create(fd, MIB(1), kinds[k], &bo);
    dma_buf = export_of(fd, &bo);
    again = export_of(fd, &bo);
    import_to(fd, dma_buf, &same);
    assert_int_equal(same.handle, bo.handle);
    import_to(fd, again, &same);
    assert_int_equal(same.handle, bo.handle);
    assert_int_equal(same.va, bo.va);
    assert_int_equal(info_of(fd, bo.handle).flags, bo_place(fd, kinds[k]));
    close(dma_buf);
    close(again);
    bo_destroy(fd, &bo);
  }
}

/* Another file has the same memory at a different address, and its jobs and mappings work. */
static void two_files_share_a_buffer(void **state) {
  int other = npu_open();
  uint32_t other_ctx = ctx_create(other);
  struct bo bo, shared;

  (void)state;
  for (int k = 0; k < 2; k++) {
    int dma_buf;

    bo_create_mapped(fd, MIB(3), kinds[k], &bo);
    dma_buf = export_of(fd, &bo);
    import_to(other, dma_buf, &shared);
    close(dma_buf);
    assert_int_equal(info_of(other, shared.handle).flags, bo_place(fd, kinds[k]));
    bo_map(other, &shared);
    assert_int_equal(raw_fill(other, other_ctx, &shared, 0x5a), 0);
    assert_true(is_filled(bo.map, bo.size, 0x5a));
    assert_int_equal(raw_fill(fd, ctx, &bo, 0xa5), 0);
    assert_true(is_filled(shared.map, shared.size, 0xa5));
    /* The exporter closes its handle; the buffer stays. */
    bo_destroy(fd, &bo);
    assert_int_equal(raw_fill(other, other_ctx, &shared, 0x11), 0);
    assert_true(is_filled(shared.map, shared.size, 0x11));
    bo_destroy(other, &shared);
  }
  close(other);
}

static void the_dma_buf_itself_can_be_mapped(void **state) {
  struct bo bo;

  (void)state;
  for (int k = 0; k < 2; k++) {
    int dma_buf;
    uint8_t *map;

    bo_create(fd, MIB(1), kinds[k], &bo);
    dma_buf = export_of(fd, &bo);
    map = mmap(NULL, bo.size, PROT_READ | PROT_WRITE, MAP_SHARED, dma_buf, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    sync_access(dma_buf, DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW);
    assert_true(is_filled(map, bo.size, 0));
    memset(map, 3, bo.size);
    sync_access(dma_buf, DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW);
    assert_int_equal(raw_fill(fd, ctx, &bo, 0x77), 0);
    sync_access(dma_buf, DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ);
    assert_true(is_filled(map, bo.size, 0x77));
    sync_access(dma_buf, DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ);
    /* Sealing zaps this mapping, too. */
    assert_int_equal(raw_bo_seal(fd, bo.handle), 0);
    assert_ptr_equal(mmap(NULL, bo.size, PROT_READ, MAP_SHARED, dma_buf, 0), MAP_FAILED);
    if (!fork()) {
      signal(SIGBUS, SIG_DFL);
      _exit(*(volatile uint8_t *)map);
    } else {
      int status;

      assert_true(wait(&status) > 0);
      assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    }
    munmap(map, bo.size);
    close(dma_buf);
    bo_destroy(fd, &bo);
  }
}

/* A sealed buffer stays sealed for importers, who cannot seal it while the creator has mappings. */
static void a_shared_seal_holds_for_all(void **state) {
  int other = npu_open();
  uint32_t other_ctx = ctx_create(other);
  struct bo bo, shared;
  int dma_buf;

  (void)state;
  bo_create(fd, MIB(1), DRM_NPU_BO_CARD, &bo);
  dma_buf = export_of(fd, &bo);
  import_to(other, dma_buf, &shared);
  assert_int_equal(raw_bo_seal(other, shared.handle), -EPERM);
  bo_map(fd, &bo);
  memset(bo.map, 1, bo.size);
  bo_unmap(&bo);
  assert_int_equal(raw_bo_seal(fd, bo.handle), 0);
  assert_int_equal(info_of(other, shared.handle).flags, bo_place(fd, DRM_NPU_BO_CARD) | DRM_NPU_BO_SEALED);
  assert_int_equal(raw_fill(other, other_ctx, &shared, 1), -EACCES);
  close(dma_buf);
  close(other);
  bo_destroy(fd, &bo);
}

/* The exporter is killed: shared buffers stay, others are freed, and in the end all are. */
static void a_killed_exporter_leaves_what_it_shared(void **state) {
  char before[USAGE_BYTES];
  int sockets[2], status;

  (void)state;
  usage_begin(before);
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  for (int k = 0; k < 2; k++) {
    struct bo shared;
    pid_t pid = fork();
    int dma_buf;

    if (!pid) {
      int own = npu_open();
      struct bo bo, secret;

      bo_create_mapped(own, MIB(4), kinds[k], &bo);
      bo_create(own, MIB(8), DRM_NPU_BO_CARD, &secret);
      memset(bo.map, 0x42, bo.size);
      send_fd(sockets[1], export_of(own, &bo));
      for (;;) pause();
    }
    dma_buf = receive_fd(sockets[0]);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    import_to(fd, dma_buf, &shared);
    close(dma_buf);
    bo_map(fd, &shared);
    assert_true(is_filled(shared.map, shared.size, 0x42));
    assert_int_equal(raw_fill(fd, ctx, &shared, 0x24), 0);
    assert_true(is_filled(shared.map, shared.size, 0x24));
    bo_destroy(fd, &shared);
  }
  usage_expect(before);
  close(sockets[0]);
  close(sockets[1]);
}

static int make_udmabuf(uint64_t size, uint8_t **map) {
  struct udmabuf_create args = {.flags = UDMABUF_FLAGS_CLOEXEC, .size = size};
  int device = open("/dev/udmabuf", O_RDWR), dma_buf;

  if (device < 0) fail_msg("/dev/udmabuf: %s", strerror(errno));
  args.memfd = (uint32_t)memfd_create("npu", MFD_ALLOW_SEALING | MFD_CLOEXEC);
  assert_int_equal(ftruncate((int)args.memfd, (off_t)size), 0);
  assert_int_equal(fcntl((int)args.memfd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, (int)args.memfd, 0);
  assert_ptr_not_equal(*map, MAP_FAILED);
  dma_buf = ioctl(device, UDMABUF_CREATE, &args);
  assert_true(dma_buf >= 0);
  close((int)args.memfd);
  close(device);
  return dma_buf;
}

/* The contents of a buffer as a job reads them. */
static bool job_sees(const struct bo *bo, uint8_t value) {
  struct stream stream;
  struct job job;
  struct bo seen;
  bool same;

  bo_create_mapped(fd, bo->size, DRM_NPU_BO_SYSTEM, &seen);
  stream_create(fd, 1, &stream);
  job_init(&job);
  stream_copy(&stream, (uint8_t)job_region(&job, bo, DRM_NPU_REGION_READ), 0,
              (uint8_t)job_region(&job, &seen, DRM_NPU_REGION_WRITE), 0, (uint32_t)bo->size);
  job_gdma(&job, &stream);
  run_ok(fd, ctx, &job);
  same = is_filled(seen.map, seen.size, value);
  stream_destroy(fd, &stream);
  bo_destroy(fd, &seen);
  return same;
}

static void foreign_memory_is_used_by_jobs(void **state) {
  const uint64_t size = MIB(2) + 4096 * 3;
  struct drm_npu_memory_info before, after;
  struct bo bo, again;
  uint8_t *map;
  int dma_buf = make_udmabuf(size, &map);

  (void)state;
  npu_memory_settled(fd, &before);
  sync_access(dma_buf, DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW);
  memset(map, 7, size);
  sync_access(dma_buf, DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW);
  import_to(fd, dma_buf, &bo);
  assert_int_equal(bo.size, size);
  assert_int_equal(info_of(fd, bo.handle).flags, DRM_NPU_BO_SYSTEM | DRM_NPU_BO_IMPORTED);
  import_to(fd, dma_buf, &again);
  assert_int_equal(again.handle, bo.handle);
  assert_true(job_sees(&bo, 7));
  assert_true(is_filled(map, size, 7));
  for (uint8_t i = 0; i < 3; i++) {
    assert_int_equal(raw_fill(fd, ctx, &bo, 0x99 + i), 0);
    bo_sync(fd, &bo, DRM_NPU_SYNC_FROM_DEVICE);
    assert_true(is_filled(map, size, 0x99 + i));
    memset(map, 8 + i, size);
    bo_sync(fd, &bo, DRM_NPU_SYNC_TO_DEVICE);
    assert_true(job_sees(&bo, 8 + i));
  }
  memset(map, 8, size);
  bo_sync(fd, &bo, DRM_NPU_SYNC_TO_DEVICE);
  bo.map = bo_map_cached(fd, &bo);
  assert_true(is_filled(bo.map, size, 8));
  assert_int_equal(raw_bo_seal(fd, bo.handle), -EOPNOTSUPP);
  /* It can be shared again. */
  int handed = export_of(fd, &bo);
  close(dma_buf);
  close(handed);
  assert_int_equal(raw_fill(fd, ctx, &bo, 0x31), 0);
  bo_invalidate(fd, &bo);
  assert_true(is_filled(map, size, 0x31));
  bo_destroy(fd, &bo);
  munmap(map, size);
  npu_memory_settled(fd, &after);
  assert_memory_equal(&before, &after, sizeof(before));
}

/* The exporter has not seen any access yet: no stores are lost, before the import or after it. */
static void foreign_memory_is_cleaned_first(void **state) {
  struct bo bo;
  uint8_t *map;
  int dma_buf;

  (void)state;
  for (int late = 0; late < 2; late++) {
    dma_buf = make_udmabuf(MIB(1), &map);
    if (!late) memset(map, 0x66, MIB(1));
    import_to(fd, dma_buf, &bo);
    close(dma_buf);
    if (late) memset(map, 0x66, MIB(1));
    bo_sync(fd, &bo, DRM_NPU_SYNC_TO_DEVICE);
    assert_true(job_sees(&bo, 0x66));
    assert_true(is_filled(map, MIB(1), 0x66));
    bo_destroy(fd, &bo);
    munmap(map, MIB(1));
  }
}

/* Zeros of new pages may be in caches only, while memory holds data of former owners. */
static void foreign_memory_shows_nothing_of_others(void **state) {
  struct bo bo;
  uint8_t *map;
  int dma_buf;

  (void)state;
  for (int i = 0; i < 4; i++) {
    dma_buf = make_udmabuf(MIB(4), &map);
    import_to(fd, dma_buf, &bo);
    close(dma_buf);
    if (i & 1) bo_sync(fd, &bo, DRM_NPU_SYNC_FROM_DEVICE);
    assert_true(job_sees(&bo, 0));
    bo_invalidate(fd, &bo);
    assert_true(is_filled(map, MIB(4), 0));
    assert_int_equal(raw_fill(fd, ctx, &bo, 0x5e), 0);
    bo_destroy(fd, &bo);
    munmap(map, MIB(4));
  }
}

static void imports_outlive_their_file_descriptors_many_times(void **state) {
  (void)state;
  for (int i = 0; i < 50; i++) {
    int own = npu_open();
    uint32_t id = ctx_create(own);
    uint8_t *map;
    int dma_buf = make_udmabuf(MIB(1), &map);
    struct stream stream;
    struct job job;
    struct bo bo;

    import_to(own, dma_buf, &bo);
    close(dma_buf);
    stream_create(own, 1, &stream);
    stream_fill(&stream, 0, 0, (uint32_t)bo.size, 1);
    job_init(&job);
    job_region(&job, &bo, RW);
    job_gdma(&job, &stream);
    for (int k = 0; k < 8; k++) submit(own, id, &job);
    bo_unmap(&stream.bo);
    munmap(map, MIB(1));
    close(own); /* with jobs in flight */
  }
}

/* Imports, and the accesses of a program around them, do not maintain caches that other processes store through. */
static void imports_discard_no_stores(void **state) {
  struct stores stores;
  struct bo bo;
  uint8_t *map;
  int dma_buf = make_udmabuf(KIB(64), &map);

  (void)state;
  stores_begin(&stores, map);
  for (int i = 0; i < 200; i++) {
    import_to(fd, dma_buf, &bo);
    bo_destroy(fd, &bo);
  }
  stores_end(&stores);
  munmap(map, KIB(64));
  close(dma_buf);
}

/* A process that submits all the time, and counts its jobs. */
static pid_t start_submitter(uint32_t *jobs) {
  pid_t pid = fork();

  if (!pid) {
    int own;
    uint32_t id;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    own = npu_open();
    id = ctx_create(own);
    for (;;) {
      run_nop(own, id);
      __atomic_add_fetch(jobs, 1, __ATOMIC_RELEASE);
    }
  }
  return pid;
}

static uint32_t jobs_of(uint32_t *jobs) { return __atomic_load_n(jobs, __ATOMIC_ACQUIRE); }

/* Endless imports of another driver's memory do not stall the jobs of another process. */
static void imports_do_not_stall_other_processes(void **state) {
  enum { IMPORTS = 64, JOBS = 100 };
  uint32_t *jobs = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int64_t end = now_ms() + FOREVER_MS;
  struct drm_npu_memory_info info, after;
  char before[USAGE_BYTES];
  pid_t pid;

  (void)state;
  assert_ptr_not_equal(jobs, MAP_FAILED);
  usage_begin(before);
  npu_memory_settled(fd, &info);
  pid = start_submitter(jobs);
  while (!jobs_of(jobs)) usleep(1000);
  for (uint32_t i = 0, had = jobs_of(jobs); i < IMPORTS || jobs_of(jobs) < had + JOBS; i++) {
    uint8_t *map;
    int dma_buf = make_udmabuf(KIB(256), &map);
    struct bo bo;

    import_to(fd, dma_buf, &bo);
    if (i % 4 == 0) assert_int_equal(raw_fill(fd, ctx, &bo, 0x4d), 0);
    bo_destroy(fd, &bo);
    munmap(map, KIB(256));
    close(dma_buf);
    assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
    assert_true(now_ms() < end);
  }
  kill(pid, SIGKILL);
  assert_int_equal(waitpid(pid, NULL, 0), pid);
  munmap(jobs, 4096);
  usage_expect(before);
  npu_memory_settled(fd, &after);
  assert_memory_equal(&info, &after, sizeof(info));
}

static int raw_job_of(int file, uint32_t context, const struct bo *bo, uint32_t access) {
  struct stream nops;
  struct job job;
  int ret;

  stream_create(file, 1, &nops);
  stream_nop(&nops, 0);
  job_init(&job);
  job_region(&job, bo, access);
  job_gdma(&job, &nops);
  ret = raw_submit(file, context, &job);
  if (!ret) wait_ok(file, context, job.args.seqno);
  stream_destroy(file, &nops);
  return ret;
}

/* Without DRM_RDWR importers have read access: their jobs and mappings cannot write, even after another export. */
static void a_share_without_write_access_is_only_read(void **state) {
  (void)state;
  for (unsigned i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
    int other = npu_open(), dma_buf, again;
    uint32_t context = ctx_create(other);
    struct bo bo, seen;
    void *map;

    bo_create_mapped(fd, KIB(256), bo_place(fd, kinds[i]), &bo);
    memset(bo.map, 0x44, bo.size);
    bo_clean(fd, &bo);
    assert_int_equal(raw_export(fd, bo.handle, DRM_CLOEXEC, &dma_buf), 0);
    import_to(other, dma_buf, &seen);
    assert_true(info_of(other, seen.handle).flags & DRM_NPU_BO_READONLY);
    assert_int_equal(raw_job_of(other, context, &seen, DRM_NPU_REGION_WRITE), -EACCES);
    assert_int_equal(raw_job_of(other, context, &seen, RW), -EACCES);
    assert_int_equal(raw_job_of(other, context, &seen, DRM_NPU_REGION_READ), 0);
    map = mmap(NULL, seen.size, PROT_READ | PROT_WRITE, MAP_SHARED, other, (off_t)seen.mmap_offset);
    assert_ptr_equal(map, MAP_FAILED);
    assert_int_equal(errno, EACCES);
    map = mmap(NULL, seen.size, PROT_READ, MAP_SHARED, other, (off_t)seen.mmap_offset);
    assert_ptr_not_equal(map, MAP_FAILED);
    assert_int_equal(mprotect(map, seen.size, PROT_READ | PROT_WRITE), -1);
    bo_invalidate(other, &seen);
    assert_true(is_filled(map, seen.size, 0x44));
    munmap(map, seen.size);
    if (!raw_export(other, seen.handle, DRM_CLOEXEC | DRM_RDWR, &again)) {
      assert_ptr_equal(mmap(NULL, seen.size, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0), MAP_FAILED);
      close(again);
    }
    /* The same buffer, also shared with write access. */
    close(dma_buf);
    dma_buf = export_of(fd, &bo);
    import_to(other, dma_buf, &seen);
    assert_int_equal(raw_job_of(other, context, &seen, RW), 0);
    close(dma_buf);
    close(other);
    assert_true(is_filled(bo.map, bo.size, 0x44));
    bo_destroy(fd, &bo);
  }
}

static void wrong_shares_are_refused(void **state) {
  uint32_t handle;
  int dma_buf, pipe_fds[2];

  (void)state;
  assert_int_equal(raw_export(fd, 0x7fffffff, DRM_CLOEXEC, &dma_buf), -ENOENT);
  assert_int_equal(raw_import(fd, -1, &handle), -EBADF);
  assert_int_equal(pipe(pipe_fds), 0);
  assert_int_equal(raw_import(fd, pipe_fds[0], &handle), -EINVAL);
  close(pipe_fds[0]);
  close(pipe_fds[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_import_into_the_same_file_is_the_same_buffer),
      cmocka_unit_test(two_files_share_a_buffer),
      cmocka_unit_test(the_dma_buf_itself_can_be_mapped),
      cmocka_unit_test(a_shared_seal_holds_for_all),
      cmocka_unit_test(a_killed_exporter_leaves_what_it_shared),
      cmocka_unit_test(foreign_memory_is_used_by_jobs),
      cmocka_unit_test(foreign_memory_is_cleaned_first),
      cmocka_unit_test(foreign_memory_shows_nothing_of_others),
      cmocka_unit_test(imports_outlive_their_file_descriptors_many_times),
      cmocka_unit_test(imports_discard_no_stores),
      cmocka_unit_test(imports_do_not_stall_other_processes),
      cmocka_unit_test(a_share_without_write_access_is_only_read),
      cmocka_unit_test(wrong_shares_are_refused),
  };

  return cmocka_run_group_tests_name("prime", tests, set_up, tear_down);
}
