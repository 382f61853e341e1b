/* SPDX-License-Identifier: MIT */
/* Buffers of memory of the process: pinned and accounted. */
#define _GNU_SOURCE /* memfd_create, MAP_ANONYMOUS */
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/fixture.h"
#include "tests/guest/driver/npu_raw.h"
#include "tests/guest/driver/stores.h"
#include "tests/guest/driver/usage.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)
#define PINNED (DRM_NPU_BO_SYSTEM | DRM_NPU_BO_PINNED)
#define PAGE 4096ull
#define NOBODY 65534

static int raw_userptr(int file, const void *addr, uint64_t size, uint32_t flags, struct bo *bo) {
  struct drm_npu_bo_userptr args = {.addr = (uintptr_t)addr, .size = size, .flags = flags};
  int ret = raw_ioctl(file, DRM_IOCTL_NPU_BO_USERPTR, &args);

  *bo = (struct bo){.handle = args.handle, .size = size, .va = args.va};
  return ret;
}

static uint32_t flags_of(int file, const struct bo *bo) {
  struct drm_npu_bo_info info = {.handle = bo->handle};

  assert_int_equal(raw_ioctl(file, DRM_IOCTL_NPU_BO_INFO, &info), 0);
  assert_int_equal(info.size, bo->size);
  assert_int_equal(info.va, bo->va);
  assert_int_equal(info.mmap_offset, 0);
  return info.flags;
}

static uint8_t *anonymous(uint64_t size, int prot, int flags) {
  uint8_t *p = mmap(NULL, size, prot, MAP_ANONYMOUS | flags, -1, 0);

  assert_ptr_not_equal(p, MAP_FAILED);
  return p;
}

static void fill_pattern(uint8_t *p, uint64_t size, uint32_t seed) {
  for (uint64_t i = 0; i < size; i++) p[i] = (uint8_t)((i * 2654435761u + seed) >> 13);
}

/* Submits a job that copies between buffers, after a delay. Returns the errno of the submission. */
static int raw_copy(int file, uint32_t id, const struct bo *from, const struct bo *to, uint64_t bytes,
                    uint32_t delay_ms, struct job *job) {
  static struct stream stream; /* a stream per job would be closed too early */
  uint8_t a, b;
  int ret;

  stream_create(file, 2, &stream);
  job_init(job);
  job_gdma(job, &stream);
  a = (uint8_t)job_region(job, from, DRM_NPU_REGION_READ);
  b = (uint8_t)job_region(job, to, RW);
  if (delay_ms) stream_slow_copy(&stream, b, delay_ms);
  stream_copy(&stream, a, 0, b, 0, (uint32_t)bytes);
  job->stream.gdma_count = stream.count;
  ret = raw_submit(file, id, job);
  stream_destroy(file, &stream); /* the job keeps it */
  return ret;
}

static void copy(int file, uint32_t id, const struct bo *from, const struct bo *to, uint64_t bytes) {
  struct job job;

  assert_int_equal(raw_copy(file, id, from, to, bytes, 0, &job), 0);
  wait_ok(file, id, job.args.seqno);
}

/* Pages pinned by the process, from the kernel. */
static uint64_t pinned_bytes(void) {
  unsigned long long kib = 0;
  bool found = false;
  char line[256];
  FILE *file = fopen("/proc/self/status", "r");

  assert_non_null(file);
  while (fgets(line, sizeof(line), file)) found |= sscanf(line, "VmPin: %llu", &kib) == 1;
  fclose(file);
  assert_true(found);
  return kib << 10;
}

/* Pins taken and not released in the whole system. The counters are per CPU; a read of stat_refresh sums them up. */
static long long pins_held(void) {
  long long acquired = -1, released = -1;
  char line[256];
  FILE *file = fopen("/proc/sys/vm/stat_refresh", "r");

  assert_non_null(file);
  assert_null(fgets(line, sizeof(line), file));
  assert_int_equal(ferror(file), 0);
  fclose(file);
  file = fopen("/proc/vmstat", "r");
  assert_non_null(file);
  while (fgets(line, sizeof(line), file)) {
    sscanf(line, "nr_foll_pin_acquired %lld", &acquired);
    sscanf(line, "nr_foll_pin_released %lld", &released);
  }
  fclose(file);
  assert_true(acquired >= 0 && released >= 0);
  return acquired - released;
}

/* The two counters drift apart by a few pages, with more released than acquired; a leak is larger. */
static void expect_pins(uint64_t bytes) {
  const long long held = (long long)(bytes / PAGE);

  for (int tries = 0; tries < 200 && pins_held() > held; tries++) usleep(100000);
  assert_true(pins_held() <= held);
}

/* A finished job releases its buffers a moment after it is reported as finished. */
static void expect_pinned(uint64_t bytes) {
  for (int tries = 0; tries < 100 && pinned_bytes() != bytes; tries++) usleep(100000);
  assert_int_equal(pinned_bytes(), bytes);
}

static void jobs_read_and_write_memory_of_the_process(void **state) {
  const uint64_t size = MIB(3) + 3 * PAGE;
  uint8_t *from = anonymous(size, PROT_READ | PROT_WRITE, MAP_PRIVATE), *to;
  struct bo a, b;

  (void)state;
  to = anonymous(size, PROT_READ | PROT_WRITE, MAP_PRIVATE);
  fill_pattern(from, size, 1);
  assert_int_equal(raw_userptr(fd, from, size, 0, &a), 0);
  assert_int_equal(raw_userptr(fd, to, size, 0, &b), 0);
  assert_int_equal(flags_of(fd, &a), PINNED);
  assert_int_equal(pinned_bytes(), 2 * size);
  expect_pins(2 * size);

  for (uint32_t round = 0; round < 3; round++) {
    bo_sync(fd, &a, DRM_NPU_SYNC_TO_DEVICE);
    copy(fd, ctx, &a, &b, size);
    bo_sync(fd, &b, DRM_NPU_SYNC_FROM_DEVICE);
    assert_memory_equal(from, to, size);
    fill_pattern(from, size, 7 + round);
  }

  bo_destroy(fd, &a);
  expect_pinned(size);
  bo_destroy(fd, &b);
  expect_pinned(0);
  expect_pins(0);
  munmap(from, size);
  munmap(to, size);
}

/* The same pages in two buffers, one of which has only some of them. */
static void buffers_may_overlap(void **state) {
  uint8_t *p = anonymous(MIB(1), PROT_READ | PROT_WRITE, MAP_PRIVATE);
  struct bo all, part;

  (void)state;
  assert_int_equal(raw_userptr(fd, p, MIB(1), 0, &all), 0);
  assert_int_equal(raw_userptr(fd, p + 16 * PAGE, 16 * PAGE, 0, &part), 0);
  assert_int_equal(pinned_bytes(), MIB(1) + 16 * PAGE);
  assert_int_equal(raw_fill(fd, ctx, &all, 0x11), 0);
  assert_int_equal(raw_fill(fd, ctx, &part, 0x22), 0);
  bo_invalidate(fd, &all);
  assert_true(is_filled(p, 16 * PAGE, 0x11));
  assert_true(is_filled(p + 16 * PAGE, 16 * PAGE, 0x22));
  assert_true(is_filled(p + 32 * PAGE, MIB(1) - 32 * PAGE, 0x11));
  bo_destroy(fd, &all);
  assert_int_equal(raw_fill(fd, ctx, &part, 0x33), 0);
  bo_invalidate(fd, &part);
  assert_true(is_filled(p + 16 * PAGE, 16 * PAGE, 0x33));
  bo_destroy(fd, &part);
  expect_pinned(0);
  munmap(p, MIB(1));
}

/* Shared memory of a file; truncation removes the pages from the file, not from the buffer. */
static void truncation_leaves_the_pages_to_the_buffer(void **state) {
  int file = memfd_create("npu", MFD_CLOEXEC);
  struct bo bo, out;
  struct job job;
  uint8_t *p;

  (void)state;
  assert_int_equal(ftruncate(file, MIB(1)), 0);
  p = mmap(NULL, MIB(1), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  assert_ptr_not_equal(p, MAP_FAILED);
  memset(p, 0x44, MIB(1));
  bo_create_mapped(fd, MIB(1), DRM_NPU_BO_SYSTEM, &out);
  assert_int_equal(raw_userptr(fd, p, MIB(1), 0, &bo), 0);
  assert_int_equal(flags_of(fd, &bo), PINNED);
  bo_clean(fd, &bo);
  assert_int_equal(raw_copy(fd, ctx, &bo, &out, MIB(1), 300, &job), 0);
  assert_int_equal(ftruncate(file, 0), 0); /* while it is in use */
  wait_ok(fd, ctx, job.args.seqno);
  assert_true(is_filled(out.map, MIB(1), 0x44));
  assert_int_equal(ftruncate(file, MIB(1)), 0);
  assert_true(is_filled(p, MIB(1), 0)); /* new pages, which are not in the buffer */
  assert_int_equal(raw_fill(fd, ctx, &bo, 0x55), 0);
  assert_true(is_filled(p, MIB(1), 0));
  bo_destroy(fd, &bo);
  bo_destroy(fd, &out);
  munmap(p, MIB(1));
  close(file);
}

static void unmapped_memory_stays_the_buffers(void **state) {
  struct bo bo, out;

  (void)state;
  bo_create_mapped(fd, MIB(1), DRM_NPU_BO_SYSTEM, &out);
  for (int during = 0; during < 2; during++) {
    uint8_t *p = anonymous(MIB(1), PROT_READ | PROT_WRITE, MAP_PRIVATE), *again;
    struct job job;

    memset(p, 0x66 + during, MIB(1));
    assert_int_equal(raw_userptr(fd, p, MIB(1), 0, &bo), 0);
    bo_clean(fd, &bo);
    if (!during) assert_int_equal(munmap(p, MIB(1)), 0);
    assert_int_equal(raw_copy(fd, ctx, &bo, &out, MIB(1), 300, &job), 0);
    if (during) assert_int_equal(munmap(p, MIB(1)), 0);
    again = mmap(p, MIB(1), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    assert_ptr_equal(again, p);
    memset(again, 0x01, MIB(1));
    wait_ok(fd, ctx, job.args.seqno);
    assert_true(is_filled(out.map, MIB(1), (uint8_t)(0x66 + during)));
    assert_int_equal(raw_fill(fd, ctx, &bo, 0x77), 0);
    assert_true(is_filled(again, MIB(1), 0x01));
    bo_destroy(fd, &bo);
    munmap(again, MIB(1));
  }
  bo_destroy(fd, &out);
  expect_pinned(0);
}

/* After fork() the buffer stays with the parent's memory, regardless of the first writer. */
static void the_parent_keeps_its_memory_over_a_fork(void **state) {
  uint8_t *p = anonymous(MIB(1), PROT_READ | PROT_WRITE, MAP_PRIVATE);
  int go[2], done[2], status;
  struct bo bo, out;
  pid_t pid;
  char c = 1;

  (void)state;
  memset(p, 0x10, MIB(1));
  bo_create_mapped(fd, MIB(1), DRM_NPU_BO_SYSTEM, &out);
  assert_int_equal(raw_userptr(fd, p, MIB(1), 0, &bo), 0);
  assert_int_equal(pipe(go), 0);
  assert_int_equal(pipe(done), 0);
  pid = fork();
  if (!pid) {
    /* The first store of a child must not take the page away from the parent. */
    bool fine = pinned_bytes() == 0;

    memset(p, 0x20, MIB(1) / 2);
    if (write(done[1], &c, 1) != 1 || read(go[0], &c, 1) != 1) _exit(9);
    fine = fine && is_filled(p, MIB(1) / 2, 0x20) && is_filled(p + MIB(1) / 2, MIB(1) / 2, 0x10);
    _exit(fine ? 0 : 1);
  }
  assert_int_equal(read(done[0], &c, 1), 1);
  assert_true(is_filled(p, MIB(1), 0x10));
  bo_clean(fd, &bo);
  copy(fd, ctx, &bo, &out, MIB(1)); /* the card sees the parent's memory, not the child's */
  assert_true(is_filled(out.map, MIB(1), 0x10));
  memset(p, 0x30, MIB(1)); /* and still does after the parent's store */
  bo_clean(fd, &bo);
  copy(fd, ctx, &bo, &out, MIB(1));
  assert_true(is_filled(out.map, MIB(1), 0x30));
  assert_int_equal(raw_fill(fd, ctx, &bo, 0x40), 0);
  bo_invalidate(fd, &bo);
  assert_true(is_filled(p, MIB(1), 0x40));
  assert_int_equal(write(go[1], &c, 1), 1);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
  for (int i = 0; i < 2; i++) close(go[i]), close(done[i]);
  bo_destroy(fd, &bo);
  bo_destroy(fd, &out);
  munmap(p, MIB(1));
}

/* Runs a function in a child of an unprivileged user with this limit of locked memory. */
static int as_nobody(uint64_t limit, int (*function)(void)) {
  struct rlimit memlock = {.rlim_cur = limit, .rlim_max = limit};
  int status;
  pid_t pid = fork();

  if (!pid) {
    if (setrlimit(RLIMIT_MEMLOCK, &memlock) || setgid(NOBODY) || setuid(NOBODY)) _exit(99);
    _exit(function());
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  if (!WIFEXITED(status)) fail_msg("signal %d", WTERMSIG(status));
  return WEXITSTATUS(status);
}

#define CHECK(what) \
  if (!(what)) return __LINE__ & 0xff

static int fills_its_limit(void) {
  uint8_t *p = mmap(NULL, MIB(2), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int own = open("/dev/accel/accel0", O_RDWR);
  struct bo a, b, c;

  CHECK(own >= 0 && p != MAP_FAILED);
  for (int round = 0; round < 3; round++) {
    CHECK(raw_userptr(own, p, MIB(2), 0, &a) == -ENOMEM);
    CHECK(pinned_bytes() == 0);
    CHECK(!raw_userptr(own, p, MIB(1) - PAGE, 0, &a));
    CHECK(!raw_userptr(own, p, PAGE, 0, &b)); /* the same page counts twice */
    CHECK(pinned_bytes() == MIB(1));
    CHECK(raw_userptr(own, p + MIB(1), PAGE, 0, &c) == -ENOMEM);
    CHECK(raw_userptr(own, p + MIB(1), PAGE, DRM_NPU_USERPTR_READONLY, &c) == -ENOMEM);
    CHECK(!raw_gem_close(own, a.handle));
    CHECK(pinned_bytes() == PAGE);
    CHECK(!raw_gem_close(own, b.handle));
    CHECK(pinned_bytes() == 0);
  }
  /* Closing the file uncharges the memory, too. */
  CHECK(!raw_userptr(own, p, MIB(1), 0, &a));
  close(own);
  CHECK(pinned_bytes() == 0);
  return 0;
}

/* Children pin through their parent's file and exit: the memory stays pinned and charged. */
static int leaves_pins_behind(void) {
  int own = open("/dev/accel/accel0", O_RDWR), ret, status;
  int results[2];

  CHECK(own >= 0 && !pipe(results));
  for (int child = 0; child < 4; child++) {
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (!pid) {
      uint8_t *p = mmap(NULL, KIB(512), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      struct bo bo;

      ret = p == MAP_FAILED ? -EFAULT : raw_userptr(own, p, KIB(512), 0, &bo);
      _exit(write(results[1], &ret, sizeof(ret)) != sizeof(ret));
    }
    CHECK(waitpid(pid, &status, 0) == pid && !status);
    CHECK(read(results[0], &ret, sizeof(ret)) == sizeof(ret));
    CHECK(ret == (child < 2 ? 0 : -ENOMEM)); /* the limit is 1 MiB */
  }
  return 0;
}

static void the_limit_of_locked_memory_holds(void **state) {
  struct rlimit old, none = {0};
  struct bo bo;
  uint8_t *p;

  (void)state;
  assert_int_equal(as_nobody(MIB(1), fills_its_limit), 0);
  expect_pins(0);
  assert_int_equal(as_nobody(MIB(1), leaves_pins_behind), 0);
  expect_pins(0);

  /* A process with the capability is not limited. */
  p = anonymous(MIB(1), PROT_READ | PROT_WRITE, MAP_PRIVATE);
  assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &old), 0);
  none.rlim_max = old.rlim_max;
  assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &none), 0);
  assert_int_equal(raw_userptr(fd, p, MIB(1), 0, &bo), 0);
  assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &old), 0);
  assert_int_equal(flags_of(fd, &bo), PINNED);
  bo_destroy(fd, &bo);
  munmap(p, MIB(1));
}

static void wrong_ranges_are_refused(void **state) {
  uint8_t *p = anonymous(16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
  struct bo bo;

  (void)state;
  assert_int_equal(munmap(p + 8 * PAGE, PAGE), 0);
  for (uint32_t flags = 0; flags <= DRM_NPU_USERPTR_READONLY; flags += DRM_NPU_USERPTR_READONLY) {
    assert_int_equal(raw_userptr(fd, p, 0, flags, &bo), -EINVAL);
    assert_int_equal(raw_userptr(fd, p + 1, PAGE, flags, &bo), -EINVAL);
    assert_int_equal(raw_userptr(fd, p, PAGE + 8, flags, &bo), -EINVAL);
    assert_int_equal(raw_userptr(fd, p, UINT64_MAX, flags, &bo), -EINVAL);
    assert_int_equal(raw_userptr(fd, p, -PAGE, flags, &bo), -EINVAL);
    assert_int_equal(raw_userptr(fd, (void *)(1ull << 40), 1ull << 40, flags, &bo), -ENOMEM);
    assert_int_equal(raw_userptr(fd, (void *)-MIB(1), MIB(1), flags, &bo), -EINVAL);
    assert_int_equal(raw_userptr(fd, (void *)-MIB(2), MIB(1), flags, &bo), -EFAULT);
    assert_int_equal(raw_userptr(fd, (void *)0xffff888000000000ull, MIB(1), flags, &bo), -EFAULT);
    assert_int_equal(raw_userptr(fd, (void *)0x7ffffffff000ull, 2 * PAGE, flags, &bo), -EFAULT);
    assert_int_equal(raw_userptr(fd, NULL, PAGE, flags, &bo), -EFAULT);
    assert_int_equal(raw_userptr(fd, p, 16 * PAGE, flags, &bo), -EFAULT); /* a hole */
    assert_int_equal(raw_userptr(fd, p + 8 * PAGE, PAGE, flags, &bo), -EFAULT);
  }
  assert_int_equal(raw_userptr(fd, p, PAGE, 2, &bo), -EINVAL);
  assert_int_equal(raw_userptr(fd, p, PAGE, ~0u, &bo), -EINVAL);
  assert_int_equal(mprotect(p, PAGE, PROT_NONE), 0);
  assert_int_equal(raw_userptr(fd, p, PAGE, DRM_NPU_USERPTR_READONLY, &bo), -EFAULT);
  assert_int_equal(pinned_bytes(), 0);
  expect_pins(0);
  munmap(p, 16 * PAGE);
}

static void read_only_memory_is_only_read(void **state) {
  uint8_t *p = anonymous(MIB(1), PROT_READ | PROT_WRITE, MAP_PRIVATE);
  struct bo bo, out;

  (void)state;
  bo_create_mapped(fd, MIB(1), DRM_NPU_BO_SYSTEM, &out);
  /* Untouched memory: later stores are visible to the card. */
  assert_int_equal(raw_userptr(fd, p, MIB(1), DRM_NPU_USERPTR_READONLY, &bo), 0);
  assert_int_equal(flags_of(fd, &bo), PINNED | DRM_NPU_BO_READONLY);
  memset(p, 0x51, MIB(1));
  bo_sync(fd, &bo, DRM_NPU_SYNC_TO_DEVICE | DRM_NPU_SYNC_FROM_DEVICE);
  copy(fd, ctx, &bo, &out, MIB(1));
  assert_true(is_filled(out.map, MIB(1), 0x51));
  assert_int_equal(raw_fill(fd, ctx, &bo, 1), -EACCES);
  bo_invalidate(fd, &bo);
  assert_true(is_filled(p, MIB(1), 0x51));
  bo_destroy(fd, &bo);

  assert_int_equal(mprotect(p, MIB(1), PROT_READ), 0);
  assert_int_equal(raw_userptr(fd, p, MIB(1), 0, &bo), -EFAULT);
  assert_int_equal(raw_userptr(fd, p, MIB(1), DRM_NPU_USERPTR_READONLY, &bo), 0);
  memset(out.map, 0, MIB(1));
  copy(fd, ctx, &bo, &out, MIB(1));
  assert_true(is_filled(out.map, MIB(1), 0x51));
  bo_destroy(fd, &bo);
  bo_destroy(fd, &out);
  munmap(p, MIB(1));
}

static void what_others_could_keep_is_refused(void **state) {
  uint8_t *p = anonymous(MIB(1), PROT_READ | PROT_WRITE, MAP_PRIVATE);
  struct drm_prime_handle export = {.flags = DRM_CLOEXEC | DRM_RDWR};
  struct drm_npu_bo_info info = {0};
  struct bo bo, card;
  int refused = 0;

  (void)state;
  bo_create_mapped(fd, MIB(1), DRM_NPU_BO_CARD, &card);
  assert_int_equal(raw_userptr(fd, p, MIB(1), 0, &bo), 0);
  assert_int_equal(flags_of(fd, &bo), PINNED);
  export.handle = bo.handle;
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &export), -EOPNOTSUPP);
  assert_int_equal(raw_bo_seal(fd, bo.handle), -EOPNOTSUPP);
  /* No call returns its mmap offset, which is near that of the last buffer. */
  info.handle = card.handle;
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_NPU_BO_INFO, &info), 0);
  for (int page = -4096; page < 4096; page++) {
    off_t offset = (off_t)(info.mmap_offset + (uint64_t)((int64_t)page * (int64_t)PAGE));
    void *map = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, offset);

    if (map == MAP_FAILED) {
      refused += errno == EOPNOTSUPP;
      continue;
    }
    assert_int_equal(page, 0);
    munmap(map, PAGE);
  }
  assert_int_equal(refused, 1);
  bo_destroy(fd, &bo);
  bo_destroy(fd, &card);
  munmap(p, MIB(1));
}

/* Mappings of a device have no pages that can be pinned. */
static void device_mappings_are_refused(void **state) {
  struct bo card, bo;

  (void)state;
  bo_create_mapped(fd, KIB(256), DRM_NPU_BO_CARD, &card);
  assert_int_equal(raw_userptr(fd, card.map, KIB(256), 0, &bo), -EOPNOTSUPP);
  assert_int_equal(raw_userptr(fd, card.map, KIB(256), DRM_NPU_USERPTR_READONLY, &bo), -EOPNOTSUPP);
  assert_int_equal(pinned_bytes(), 0);
  bo_destroy(fd, &card);
}

/* A folder on a disk file system: the host's, shared by check.py. */
static bool disk_folder(char *path, size_t size) {
  FILE *file = fopen("/proc/mounts", "r");
  char device[256], target[256], type[64], options[512];
  bool found = false;

  assert_non_null(file);
  while (!found && fscanf(file, "%255s %255s %63s %511s %*d %*d", device, target, type, options) == 4)
    if (!strcmp(type, "9p") && !strncmp(options, "rw", 2)) found = snprintf(path, size, "%s/userptr-test", target) > 0;
  fclose(file);
  return found;
}

static void shared_file_mappings_are_refused(void **state) {
  const uint64_t size = KIB(64);
  char path[320];
  uint8_t *p;
  struct bo bo;
  int file;

  (void)state;
  if (!disk_folder(path, sizeof(path)))
    fail_msg("there is no file system on a disk here: this test needs npu-vm --share DIR");
  file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  assert_true(file >= 0);
  assert_int_equal(ftruncate(file, (off_t)size), 0);

  /* A private copy is ordinary memory. */
  p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
  assert_ptr_not_equal(p, MAP_FAILED);
  assert_int_equal(raw_userptr(fd, p, size, 0, &bo), 0);
  assert_int_equal(flags_of(fd, &bo), PINNED);
  assert_int_equal(raw_fill(fd, ctx, &bo, 0x12), 0);
  bo_invalidate(fd, &bo);
  assert_true(is_filled(p, size, 0x12));
  bo_destroy(fd, &bo);
  munmap(p, size);

  /* The card would write behind the writeback of the file. */
  p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  assert_ptr_not_equal(p, MAP_FAILED);
  assert_int_equal(raw_userptr(fd, p, size, 0, &bo), -EOPNOTSUPP);
  munmap(p, size);
  close(file);
  unlink(path);
}

/* 2 MiB pages, if the kernel has them, become blocks of the card's page tables (except behind an IOMMU). */
static void huge_pages_are_used(void **state) {
  uint8_t *all = anonymous(MIB(8), PROT_READ | PROT_WRITE, MAP_PRIVATE);
  uint8_t *p = (uint8_t *)(((uintptr_t)all + MIB(2) - 1) & ~(uintptr_t)(MIB(2) - 1));
  struct bo bo;

  (void)state;
  assert_int_equal(madvise(p, MIB(4), MADV_HUGEPAGE), 0);
  fill_pattern(p, MIB(4), 5);
  assert_int_equal(raw_userptr(fd, p, MIB(4), 0, &bo), 0);
  assert_int_equal(bo.va % MIB(2), 0);
  assert_int_equal(flags_of(fd, &bo), PINNED);
  bo_clean(fd, &bo);
  assert_int_equal(raw_fill(fd, ctx, &bo, 0x3c), 0);
  bo_invalidate(fd, &bo);
  assert_true(is_filled(p, MIB(4), 0x3c));
  /* Splitting the huge page under the buffer changes nothing. */
  assert_int_equal(munmap(p + MIB(1), MIB(1)), 0);
  assert_int_equal(raw_fill(fd, ctx, &bo, 0x3d), 0);
  bo_invalidate(fd, &bo);
  assert_true(is_filled(p, MIB(1), 0x3d));
  assert_true(is_filled(p + MIB(2), MIB(2), 0x3d));
  bo_destroy(fd, &bo);
  expect_pinned(0);
  munmap(all, MIB(8));
}

static void killed_processes_leave_no_pins(void **state) {
  char before[USAGE_BYTES];
  uint8_t *shared = anonymous(MIB(1), PROT_READ | PROT_WRITE, MAP_SHARED);

  (void)state;
  usage_begin(before);
  for (int i = 0; i < 10; i++) {
    int ready[2], status;
    pid_t pid;
    char c = 1;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (!pid) {
      int own = npu_open();
      uint32_t id = ctx_create(own);
      uint8_t *p = anonymous(MIB(4), PROT_READ | PROT_WRITE, MAP_PRIVATE);
      struct bo a, b;
      struct job job;

      assert_int_equal(raw_userptr(own, p, MIB(4), 0, &a), 0);
      assert_int_equal(raw_userptr(own, shared, MIB(1), 0, &b), 0);
      for (int k = 0; k < 8; k++) assert_int_equal(raw_copy(own, id, &a, &b, MIB(1), 50, &job), 0);
      if (write(ready[1], &c, 1) != 1) _exit(1);
      for (;;) pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &c, 1), 1);
    close(ready[0]);
    usleep((unsigned)i * 9000);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
  }
  expect_pins(0);
  usage_expect(before);
  munmap(shared, MIB(1));
  run_nop(fd, ctx);
}

/* Closed while a job uses it: the pages stay pinned until the job has released them. */
static void a_closed_buffer_is_pinned_until_its_job_ends(void **state) {
  uint8_t *p = anonymous(MIB(1), PROT_READ | PROT_WRITE, MAP_PRIVATE);
  struct bo bo, out;
  struct job job;

  (void)state;
  memset(p, 0x2e, MIB(1));
  bo_create_mapped(fd, MIB(1), DRM_NPU_BO_SYSTEM, &out);
  assert_int_equal(raw_userptr(fd, p, MIB(1), 0, &bo), 0);
  bo_clean(fd, &bo);
  assert_int_equal(raw_copy(fd, ctx, &bo, &out, MIB(1), 500, &job), 0);
  assert_int_equal(raw_gem_close(fd, bo.handle), 0);
  assert_int_equal(pinned_bytes(), MIB(1));
  wait_ok(fd, ctx, job.args.seqno);
  assert_true(is_filled(out.map, MIB(1), 0x2e));
  expect_pins(0);
  expect_pinned(0);
  bo_destroy(fd, &out);
  munmap(p, MIB(1));
}

/* Commands may be in user memory, too. */
static void commands_run_from_memory_of_the_process(void **state) {
  uint8_t *p = anonymous(PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
  struct stream stream = {0};
  struct bo out;
  struct job job;

  (void)state;
  bo_create_mapped(fd, KIB(64), DRM_NPU_BO_SYSTEM, &out);
  assert_int_equal(raw_userptr(fd, p, PAGE, DRM_NPU_USERPTR_READONLY, &stream.bo), 0);
  stream.bo.map = p;
  stream_fill(&stream, 1, 0, KIB(64), 0x29);
  bo_clean(fd, &stream.bo);
  job_init(&job);
  job_gdma(&job, &stream);
  job_region(&job, &out, RW);
  run_ok(fd, ctx, &job);
  assert_true(is_filled(out.map, KIB(64), 0x29));
  stream.bo.map = NULL;
  bo_destroy(fd, &stream.bo);
  bo_destroy(fd, &out);
  munmap(p, PAGE);
}

/* Counters start at zero: jobs of the previous test have released their buffers. */
static int nothing_is_pinned(void **state) {
  (void)state;
  expect_pinned(0);
  return 0;
}

/* Creating and closing a buffer maintains no caches that the process stores through. */
static void a_buffer_discards_no_stores(void **state) {
  struct stores stores;
  struct bo bo;
  uint8_t *p = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  (void)state;
  assert_ptr_not_equal(p, MAP_FAILED);
  memset(p, 0, 16 * PAGE);
  stores_begin(&stores, p);
  for (int i = 0; i < 500; i++) {
    assert_int_equal(raw_userptr(fd, p, 16 * PAGE, 0, &bo), 0);
    bo_destroy(fd, &bo);
  }
  stores_end(&stores);
  munmap(p, 16 * PAGE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(jobs_read_and_write_memory_of_the_process, nothing_is_pinned),
      cmocka_unit_test_setup(commands_run_from_memory_of_the_process, nothing_is_pinned),
      cmocka_unit_test_setup(buffers_may_overlap, nothing_is_pinned),
      cmocka_unit_test_setup(truncation_leaves_the_pages_to_the_buffer, nothing_is_pinned),
      cmocka_unit_test_setup(unmapped_memory_stays_the_buffers, nothing_is_pinned),
      cmocka_unit_test_setup(the_parent_keeps_its_memory_over_a_fork, nothing_is_pinned),
      cmocka_unit_test_setup(the_limit_of_locked_memory_holds, nothing_is_pinned),
      cmocka_unit_test_setup(wrong_ranges_are_refused, nothing_is_pinned),
      cmocka_unit_test_setup(read_only_memory_is_only_read, nothing_is_pinned),
      cmocka_unit_test_setup(what_others_could_keep_is_refused, nothing_is_pinned),
      cmocka_unit_test_setup(device_mappings_are_refused, nothing_is_pinned),
      cmocka_unit_test_setup(shared_file_mappings_are_refused, nothing_is_pinned),
      cmocka_unit_test_setup(huge_pages_are_used, nothing_is_pinned),
      cmocka_unit_test_setup(a_closed_buffer_is_pinned_until_its_job_ends, nothing_is_pinned),
      cmocka_unit_test_setup(a_buffer_discards_no_stores, nothing_is_pinned),
      cmocka_unit_test_setup(killed_processes_leave_no_pins, nothing_is_pinned),
  };

  return cmocka_run_group_tests_name("userptr", tests, set_up, tear_down);
}
