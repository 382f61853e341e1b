/* SPDX-License-Identifier: MIT */
/*
 * A program of 32 bits and the driver of a kernel of 64: every call of docs/reference/uapi.md, with no library but
 * libc. Each test has a file and a context of its own. Prints what cmocka would, so that run.sh can read it.
 *
 *   compat           all tests
 *   compat --bits    only says what the program is: the kernel can execute it
 */
#define _GNU_SOURCE /* syscall() */
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/dma-buf.h>
#include <linux/io_uring.h>
#include <npu_accel.h>
#include <npu_isa.h>
#include <npu_regs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)
#define BYTES (256u << 10) /* of a buffer that jobs copy */
#define FOREVER_NS 120000000000ll
#define BEYOND (1ull << 32) /* added to an address: one that a program of 32 bits cannot have */
#define POINT ((3ull << 32) + 1)

/* Failures */

static jmp_buf test_failed;

__attribute__((format(printf, 2, 3), noreturn)) static void fail(int line, const char *format, ...) {
  va_list args;

  va_start(args, format);
  printf("compat.c:%d: ", line);
  vprintf(format, args);
  printf("\n");
  va_end(args);
  longjmp(test_failed, 1);
}

static long must(int line, const char *call, long result) {
  if (result == -1) fail(line, "%s: errno %d (%s), expected: no error", call, errno, strerror(errno));
  return result;
}

static void refused(int line, const char *call, long result, int error) {
  if (result != -1) fail(line, "%s: %ld, expected: errno %d (%s)", call, result, error, strerror(error));
  if (errno != error)
    fail(line, "%s: errno %d (%s), expected: %d (%s)", call, errno, strerror(errno), error, strerror(error));
}

static void equal(int line, const char *what, uint64_t value, const char *expected, uint64_t other) {
  if (value != other)
    fail(line, "%s: %#llx, expected: %s, %#llx", what, (unsigned long long)value, expected, (unsigned long long)other);
}

#define MUST(call) must(__LINE__, #call, call)
#define REFUSED(error, call) refused(__LINE__, #call, call, error)
#define EQUAL(value, other) equal(__LINE__, #value, value, #other, other)
#define HOLDS(condition) \
  if (!(condition)) fail(__LINE__, "expected: %s", #condition)

/* The device, and a context of it */

struct npu {
  int fd;
  struct drm_npu_dev_info info;
  struct drm_npu_ctx_create context;
  struct drm_npu_watch_info watch; /* when it was opened; not of this file alone */
};

static int open_node(void) {
  for (int i = 0; i < 64; i++) {
    char path[32];
    int fd;

    snprintf(path, sizeof(path), "/dev/accel/accel%d", i);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0) return fd;
  }
  return -1;
}

static void query(int fd, uint32_t type, void *to, uint32_t size) {
  struct drm_npu_dev_query args = {.type = type};

  MUST(ioctl(fd, DRM_IOCTL_NPU_DEV_QUERY, &args));
  EQUAL(args.size, size);
  args.pointer = (uintptr_t)to;
  MUST(ioctl(fd, DRM_IOCTL_NPU_DEV_QUERY, &args));
  EQUAL(args.size, size);
}

static struct drm_npu_watch_info watch_of(int fd) {
  struct drm_npu_watch_info watch;

  query(fd, DRM_NPU_QUERY_WATCH, &watch, sizeof(watch));
  return watch;
}

static void npu_open(struct npu *npu) {
  npu->fd = (int)MUST(open_node());
  query(npu->fd, DRM_NPU_QUERY_DEV, &npu->info, sizeof(npu->info));
  npu->watch = watch_of(npu->fd);
  npu->context = (struct drm_npu_ctx_create){.priority = DRM_NPU_PRIORITY_NORMAL};
  MUST(ioctl(npu->fd, DRM_IOCTL_NPU_CTX_CREATE, &npu->context));
}

/* Without a word about the caches. */
static void npu_leave(struct npu *npu) {
  struct drm_npu_ctx_destroy args = {.ctx_id = npu->context.ctx_id};

  MUST(ioctl(npu->fd, DRM_IOCTL_NPU_CTX_DESTROY, &args));
  MUST(close(npu->fd));
}

/* Meanwhile no maintenance was forgotten. */
static void npu_close(struct npu *npu) {
  struct drm_npu_watch_info watch = watch_of(npu->fd);

  EQUAL(watch.uncleaned, npu->watch.uncleaned);
  EQUAL(watch.stale, npu->watch.stale);
  EQUAL(watch.overwritten, npu->watch.overwritten);
  EQUAL(watch.discarded, npu->watch.discarded);
  npu_leave(npu);
}

/* Buffers */

struct buffer {
  uint32_t handle;
  uint64_t size;
  uint64_t offset;
  uint8_t *map;
};

static uint32_t card_or_system(const struct npu *npu) {
  return npu->info.ddr_bytes ? DRM_NPU_BO_CARD : DRM_NPU_BO_SYSTEM;
}

static uint8_t *map_at(int fd, uint64_t size, int protection, uint64_t offset) {
  return (uint8_t *)MUST((long)mmap(NULL, size, protection, MAP_SHARED, fd, (off_t)offset));
}

static struct buffer buffer_create(const struct npu *npu, uint64_t size, uint32_t flags) {
  struct drm_npu_bo_create args = {.size = size, .flags = flags};

  MUST(ioctl(npu->fd, DRM_IOCTL_NPU_BO_CREATE, &args));
  return (struct buffer){.handle = args.handle,
                         .size = args.size,
                         .offset = args.mmap_offset,
                         .map = map_at(npu->fd, args.size, PROT_READ | PROT_WRITE, args.mmap_offset)};
}

static void buffer_unmap(struct buffer *buffer) {
  MUST(munmap(buffer->map, buffer->size));
  buffer->map = NULL;
}

static void buffer_destroy(const struct npu *npu, struct buffer *buffer) {
  struct drm_gem_close args = {.handle = buffer->handle};

  if (buffer->map) buffer_unmap(buffer);
  MUST(ioctl(npu->fd, DRM_IOCTL_GEM_CLOSE, &args));
}

static struct drm_npu_bo_info buffer_info(int fd, uint32_t handle) {
  struct drm_npu_bo_info info = {.handle = handle};

  MUST(ioctl(fd, DRM_IOCTL_NPU_BO_INFO, &info));
  return info;
}

static void clean(const struct npu *npu, const struct buffer *buffer) {
  struct drm_npu_bo_sync args = {.handle = buffer->handle, .direction = DRM_NPU_SYNC_TO_DEVICE, .size = buffer->size};

  MUST(ioctl(npu->fd, DRM_IOCTL_NPU_BO_SYNC, &args));
}

static void invalidate(const struct npu *npu, const struct buffer *buffer) {
  struct drm_npu_bo_sync args = {.handle = buffer->handle, .direction = DRM_NPU_SYNC_FROM_DEVICE, .size = buffer->size};

  MUST(ioctl(npu->fd, DRM_IOCTL_NPU_BO_SYNC, &args));
}

/* What buffers hold: bytes that depend on a seed and on their place. */

static uint8_t pattern(uint32_t seed, uint32_t i) { return (uint8_t)(seed + i * 7 + (i >> 8) * 31); }

static void fill(uint8_t *bytes, uint32_t size, uint32_t seed) {
  for (uint32_t i = 0; i < size; i++) bytes[i] = pattern(seed, i);
}

static void expect_filled(int line, const uint8_t *bytes, uint32_t size, uint32_t seed) {
  for (uint32_t i = 0; i < size; i++)
    if (bytes[i] != pattern(seed, i))
      fail(line, "byte %u of %u: %#x, expected: %#x", i, size, bytes[i], pattern(seed, i));
}

#define FILLED(bytes, size, seed) expect_filled(__LINE__, bytes, size, seed)

static struct buffer buffer_filled(const struct npu *npu, uint32_t flags, uint32_t seed) {
  struct buffer buffer = buffer_create(npu, BYTES, flags);

  fill(buffer.map, BYTES, seed);
  clean(npu, &buffer);
  return buffer;
}

/* Jobs of one command: copy bytes of region 1 to region 2; the command is in region 0 */

struct job {
  struct buffer code;
  struct drm_npu_region regions[3];
  struct drm_npu_stream stream;
  struct drm_npu_sync in, out;
  struct drm_npu_job args;
};

static void write_copy(const struct npu *npu, struct buffer *code, uint32_t bytes) {
  struct npu_cmd_copy command = {.opcode = NPU_OP_COPY,
                                 .src_region = 1,
                                 .dst_region = 2,
                                 .src_dtype = NPU_DTYPE_U8,
                                 .dst_dtype = NPU_DTYPE_U8,
                                 .dims = {1, 1, 1, 1, 1, bytes},
                                 .src_stride = {0, 0, 0, 0, 0, 1},
                                 .dst_stride = {0, 0, 0, 0, 0, 1}};

  memcpy(code->map, &command, sizeof(command));
  clean(npu, code);
}

static void job_copy(const struct npu *npu, struct job *job, uint32_t from, uint32_t to, uint32_t bytes) {
  *job = (struct job){.code = buffer_create(npu, 4096, DRM_NPU_BO_SYSTEM), .stream = {.gdma_count = 1}};
  write_copy(npu, &job->code, bytes);
  job->regions[0] =
      (struct drm_npu_region){.handle = job->code.handle, .access = DRM_NPU_REGION_READ, .size = job->code.size};
  job->regions[1] = (struct drm_npu_region){.handle = from, .access = DRM_NPU_REGION_READ, .size = BYTES};
  job->regions[2] = (struct drm_npu_region){.handle = to, .access = DRM_NPU_REGION_WRITE, .size = BYTES};
  job->args = (struct drm_npu_job){.regions = (uintptr_t)job->regions,
                                   .region_count = 3,
                                   .region_stride = sizeof(job->regions[0]),
                                   .streams = (uintptr_t)&job->stream,
                                   .stream_count = 1,
                                   .stream_stride = sizeof(job->stream),
                                   .in_syncs = (uintptr_t)&job->in,
                                   .out_syncs = (uintptr_t)&job->out,
                                   .sync_stride = sizeof(job->in)};
}

static struct drm_npu_submit submission(const struct npu *npu, struct drm_npu_job *jobs, uint32_t count) {
  return (struct drm_npu_submit){
      .ctx_id = npu->context.ctx_id, .jobs = (uintptr_t)jobs, .job_count = count, .job_stride = sizeof(*jobs)};
}

static int try_submit(const struct npu *npu, struct job *job) {
  struct drm_npu_submit args = submission(npu, &job->args, 1);

  return ioctl(npu->fd, DRM_IOCTL_NPU_SUBMIT, &args);
}

static int64_t deadline(void) {
  struct timespec now;

  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000ll + now.tv_nsec + FOREVER_NS;
}

static struct drm_npu_wait wait_for(const struct npu *npu, uint64_t seqno) {
  struct drm_npu_wait wait = {.ctx_id = npu->context.ctx_id, .seqno = seqno, .timeout_ns = deadline()};

  MUST(ioctl(npu->fd, DRM_IOCTL_NPU_WAIT, &wait));
  EQUAL(wait.known, 1);
  return wait;
}

static void run_copy(const struct npu *npu, uint32_t from, uint32_t to) {
  struct job job;

  job_copy(npu, &job, from, to, BYTES);
  MUST(try_submit(npu, &job));
  EQUAL(wait_for(npu, job.args.seqno).error, 0);
  buffer_destroy(npu, &job.code);
}

/* A copy between buffers that are there already: the whole line works. */
static void copies_work(const struct npu *npu, struct buffer *from, struct buffer *to, uint32_t seed) {
  fill(from->map, BYTES, seed);
  clean(npu, from);
  run_copy(npu, from->handle, to->handle);
  invalidate(npu, to);
  FILLED(to->map, BYTES, seed);
}

/* Syncobjs */

static uint32_t syncobj_create(int fd) {
  struct drm_syncobj_create args = {0};

  MUST(ioctl(fd, DRM_IOCTL_SYNCOBJ_CREATE, &args));
  return args.handle;
}

static void syncobj_destroy(int fd, uint32_t handle) {
  struct drm_syncobj_destroy args = {.handle = handle};

  MUST(ioctl(fd, DRM_IOCTL_SYNCOBJ_DESTROY, &args));
}

static void syncobj_wait(int fd, uint32_t handle) {
  struct drm_syncobj_wait args = {.handles = (uintptr_t)&handle, .timeout_nsec = deadline(), .count_handles = 1};

  MUST(ioctl(fd, DRM_IOCTL_SYNCOBJ_WAIT, &args));
}

static void timeline_wait(int fd, uint32_t handle, uint64_t point) {
  struct drm_syncobj_timeline_wait args = {
      .handles = (uintptr_t)&handle, .points = (uintptr_t)&point, .timeout_nsec = deadline(), .count_handles = 1};

  MUST(ioctl(fd, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &args));
}

/* Tests */

static void the_program_has_32_bits(void) {
  EQUAL(sizeof(void *), 4);
  EQUAL(sizeof(off_t), 8);
  EQUAL(sizeof(time_t), 8);
}

/* The one structure of these calls that is laid out otherwise in 32 bits: the kernel's DRM part translates it. */
static void the_driver_has_a_name(void) {
  char name[8] = "", about[128] = "";
  struct drm_version version = {
      .name = name, .name_len = sizeof(name) - 1, .desc = about, .desc_len = sizeof(about) - 1};
  struct npu npu;

  npu_open(&npu);
  MUST(ioctl(npu.fd, DRM_IOCTL_VERSION, &version));
  HOLDS(!strcmp(name, "qnpu"));
  EQUAL(version.name_len, 4);
  EQUAL(version.desc_len, strlen(about));
  EQUAL(version.version_major, 1);
  npu_close(&npu);
}

static void the_device_answers_all_questions(void) {
  struct drm_npu_memory_info memory;
  struct drm_npu_status_info status;
  struct drm_npu_time_info time;
  struct npu npu;

  npu_open(&npu);
  EQUAL(npu.info.chip_id, NPU_CHIP_ID);
  HOLDS(npu.info.cores >= 1 && npu.info.cores <= DRM_NPU_MAX_CORES);
  HOLDS(npu.info.va_end > npu.info.va_start);
  query(npu.fd, DRM_NPU_QUERY_MEMORY, &memory, sizeof(memory));
  HOLDS(memory.card_total <= npu.info.ddr_bytes && !memory.card_total == !npu.info.ddr_bytes);
  query(npu.fd, DRM_NPU_QUERY_STATUS, &status, sizeof(status));
  HOLDS(status.clock_khz && status.clock_khz <= npu.info.clock_khz);
  query(npu.fd, DRM_NPU_QUERY_TIME, &time, sizeof(time));
  HOLDS(time.monotonic_ns && time.monotonic_ns < (uint64_t)deadline());
  npu_close(&npu);
}

/* Offsets are beyond what 32 bits can say: mmap2() takes them in pages. */
static void buffer_is_mapped(const struct npu *npu, uint32_t flags) {
  struct buffer buffer = buffer_filled(npu, flags, 1);
  struct drm_npu_bo_info info = buffer_info(npu->fd, buffer.handle);
  uint8_t *again;

  HOLDS(buffer.offset >> 32);
  EQUAL(info.flags, flags);
  EQUAL(info.size, BYTES);
  EQUAL(info.mmap_offset, buffer.offset);
  HOLDS(info.va >= npu->info.va_start && info.va + BYTES <= npu->info.va_end);
  again = map_at(npu->fd, BYTES, PROT_READ, buffer.offset);
  FILLED(again, BYTES, 1);
  MUST(munmap(again, BYTES));
  buffer_destroy(npu, &buffer);
}

static void buffers_are_mapped(void) {
  struct npu npu;

  npu_open(&npu);
  buffer_is_mapped(&npu, DRM_NPU_BO_SYSTEM);
  buffer_is_mapped(&npu, card_or_system(&npu));
  npu_close(&npu);
}

static void buffers_are_mapped_past_the_caches(void) {
  struct buffer from, to;
  struct npu npu;

  npu_open(&npu);
  from = buffer_create(&npu, BYTES, DRM_NPU_BO_SYSTEM);
  to = buffer_create(&npu, BYTES, DRM_NPU_BO_SYSTEM);
  buffer_unmap(&from);
  buffer_unmap(&to);
  from.map = map_at(npu.fd, BYTES, PROT_READ | PROT_WRITE, from.offset | DRM_NPU_MMAP_WC);
  to.map = map_at(npu.fd, BYTES, PROT_READ, to.offset | DRM_NPU_MMAP_WC);
  fill(from.map, BYTES, 2);
  run_copy(&npu, from.handle, to.handle);
  FILLED(to.map, BYTES, 2);
  buffer_destroy(&npu, &from);
  buffer_destroy(&npu, &to);
  npu_close(&npu);
}

static void a_job_copies(void) {
  struct drm_npu_ctx_query state = {0};
  struct drm_npu_bo_wait idle = {0};
  volatile struct npu_fence *fence;
  struct buffer from, to;
  struct drm_npu_wait wait;
  struct job job;
  struct npu npu;

  npu_open(&npu);
  fence = (void *)map_at(npu.fd, (uint64_t)sysconf(_SC_PAGESIZE), PROT_READ, npu.context.fence_offset);
  from = buffer_filled(&npu, card_or_system(&npu), 3);
  to = buffer_create(&npu, BYTES, DRM_NPU_BO_SYSTEM);
  job_copy(&npu, &job, from.handle, to.handle, BYTES);
  job.out.handle = syncobj_create(npu.fd);
  job.args.out_sync_count = 1;
  MUST(try_submit(&npu, &job));
  EQUAL(job.args.seqno, 1);
  syncobj_wait(npu.fd, job.out.handle);
  wait = wait_for(&npu, 1);
  EQUAL(wait.error, 0);
  HOLDS(wait.cycles);
  EQUAL(fence->seqno, 1);
  EQUAL(fence->cycles, wait.cycles);
  idle = (struct drm_npu_bo_wait){.handle = to.handle, .timeout_ns = deadline()};
  MUST(ioctl(npu.fd, DRM_IOCTL_NPU_BO_WAIT, &idle));
  invalidate(&npu, &to);
  FILLED(to.map, BYTES, 3);
  state.ctx_id = npu.context.ctx_id;
  MUST(ioctl(npu.fd, DRM_IOCTL_NPU_CTX_QUERY, &state));
  EQUAL(state.submitted, 1);
  EQUAL(state.completed, 1);
  EQUAL(state.errors, 0);
  syncobj_destroy(npu.fd, job.out.handle);
  npu_close(&npu);
}

/* Nothing else orders them: they are in two contexts, and explicit. */
static void a_job_waits_for_its_in_sync(void) {
  struct buffer from, between, to;
  struct job first, second;
  struct npu npu, other;

  npu_open(&npu);
  other = npu;
  MUST(ioctl(npu.fd, DRM_IOCTL_NPU_CTX_CREATE, &other.context));
  from = buffer_filled(&npu, DRM_NPU_BO_SYSTEM, 4);
  between = buffer_create(&npu, BYTES, card_or_system(&npu));
  to = buffer_create(&npu, BYTES, DRM_NPU_BO_SYSTEM);
  job_copy(&npu, &first, from.handle, between.handle, BYTES);
  job_copy(&npu, &second, between.handle, to.handle, BYTES);
  second.in = first.out = (struct drm_npu_sync){.handle = syncobj_create(npu.fd), .point = POINT};
  second.out = (struct drm_npu_sync){.handle = first.out.handle, .point = POINT + 1};
  first.args.out_sync_count = second.args.in_sync_count = second.args.out_sync_count = 1;
  first.args.flags = second.args.flags = DRM_NPU_JOB_EXPLICIT;
  REFUSED(EINVAL, try_submit(&other, &second)); /* nobody has promised that point */
  MUST(try_submit(&npu, &first));
  MUST(try_submit(&other, &second));
  timeline_wait(npu.fd, second.out.handle, POINT + 1);
  EQUAL(wait_for(&other, second.args.seqno).error, 0);
  invalidate(&npu, &to);
  FILLED(to.map, BYTES, 4);
  npu_close(&npu);
}

static void a_submission_has_several_jobs(void) {
  struct drm_npu_submit args;
  struct drm_npu_job jobs[3];
  struct buffer buffers[4];
  struct job single[3];
  struct npu npu;

  npu_open(&npu);
  buffers[0] = buffer_filled(&npu, DRM_NPU_BO_SYSTEM, 5);
  for (int i = 0; i < 3; i++) {
    buffers[i + 1] = buffer_create(&npu, BYTES, i < 2 ? card_or_system(&npu) : DRM_NPU_BO_SYSTEM);
    job_copy(&npu, &single[i], buffers[i].handle, buffers[i + 1].handle, BYTES);
    jobs[i] = single[i].args;
  }
  args = submission(&npu, jobs, 3);
  MUST(ioctl(npu.fd, DRM_IOCTL_NPU_SUBMIT, &args));
  for (uint64_t i = 0; i < 3; i++) EQUAL(jobs[i].seqno, i + 1);
  EQUAL(wait_for(&npu, 3).error, 0);
  invalidate(&npu, &buffers[3]);
  FILLED(buffers[3].map, BYTES, 5);
  npu_close(&npu);
}

static void a_sealed_buffer_is_constant(void) {
  struct drm_npu_bo_seal seal;
  struct buffer sealed, to;
  struct job job;
  struct npu npu;

  npu_open(&npu);
  sealed = buffer_create(&npu, BYTES, DRM_NPU_BO_SYSTEM);
  fill(sealed.map, BYTES, 6);
  buffer_unmap(&sealed);
  seal = (struct drm_npu_bo_seal){.handle = sealed.handle};
  MUST(ioctl(npu.fd, DRM_IOCTL_NPU_BO_SEAL, &seal));
  EQUAL(buffer_info(npu.fd, sealed.handle).flags, DRM_NPU_BO_SYSTEM | DRM_NPU_BO_SEALED);
  REFUSED(EACCES, (long)mmap(NULL, BYTES, PROT_READ, MAP_SHARED, npu.fd, (off_t)sealed.offset));
  to = buffer_create(&npu, BYTES, DRM_NPU_BO_SYSTEM);
  job_copy(&npu, &job, to.handle, sealed.handle, BYTES);
  REFUSED(EACCES, try_submit(&npu, &job));
  run_copy(&npu, sealed.handle, to.handle);
  invalidate(&npu, &to);
  FILLED(to.map, BYTES, 6);
  npu_close(&npu);
}

/* In the upper half of what 32 bits address: a pointer that is made longer by its sign would be wrong. */
static uint8_t *upper_memory(void) {
  const uintptr_t wish = 0xb0000000u;
  void *map = (void *)MUST((long)mmap((void *)wish, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

  HOLDS((uintptr_t)map > INT32_MAX);
  return map;
}

static void memory_of_the_process_is_a_buffer(void) {
  struct drm_npu_bo_userptr args = {.size = BYTES};
  uint8_t *memory = upper_memory();
  struct buffer user, other;
  struct npu npu;

  npu_open(&npu);
  args.addr = (uintptr_t)memory;
  MUST(ioctl(npu.fd, DRM_IOCTL_NPU_BO_USERPTR, &args));
  HOLDS(args.va >= npu.info.va_start && args.va + BYTES <= npu.info.va_end);
  EQUAL(buffer_info(npu.fd, args.handle).flags, DRM_NPU_BO_SYSTEM | DRM_NPU_BO_PINNED);
  user = (struct buffer){.handle = args.handle, .size = BYTES, .map = memory};
  other = buffer_create(&npu, BYTES, card_or_system(&npu));
  copies_work(&npu, &user, &other, 7);
  copies_work(&npu, &other, &user, 8);
  args.addr += BEYOND;
  REFUSED(EFAULT, ioctl(npu.fd, DRM_IOCTL_NPU_BO_USERPTR, &args));
  buffer_destroy(&npu, &user);
  npu_close(&npu);
}

static void access_begins(int dma_buf) {
  struct dma_buf_sync args = {.flags = DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW};

  MUST(ioctl(dma_buf, DMA_BUF_IOCTL_SYNC, &args));
}

static void access_ends(int dma_buf) {
  struct dma_buf_sync args = {.flags = DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW};

  MUST(ioctl(dma_buf, DMA_BUF_IOCTL_SYNC, &args));
}

static void a_buffer_is_shared(void) {
  struct drm_prime_handle out = {.flags = DRM_CLOEXEC | DRM_RDWR, .fd = -1}, in = {0};
  struct drm_npu_bo_info info;
  struct npu npu, other;
  struct buffer buffer, to;
  uint8_t *map;

  npu_open(&npu);
  npu_open(&other);
  buffer = buffer_create(&npu, BYTES, card_or_system(&npu));
  out.handle = buffer.handle;
  MUST(ioctl(npu.fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &out));
  map = map_at(out.fd, BYTES, PROT_READ | PROT_WRITE, 0);
  access_begins(out.fd);
  fill(map, BYTES, 11);
  access_ends(out.fd);
  in.fd = out.fd;
  MUST(ioctl(other.fd, DRM_IOCTL_PRIME_FD_TO_HANDLE, &in));
  info = buffer_info(other.fd, in.handle);
  EQUAL(info.size, BYTES);
  EQUAL(info.flags, card_or_system(&npu));
  HOLDS(info.mmap_offset >> 32);
  to = buffer_create(&other, BYTES, DRM_NPU_BO_SYSTEM);
  run_copy(&other, in.handle, to.handle);
  invalidate(&other, &to);
  FILLED(to.map, BYTES, 11);
  fill(to.map, BYTES, 12);
  clean(&other, &to);
  run_copy(&other, to.handle, in.handle);
  access_begins(out.fd);
  FILLED(map, BYTES, 12);
  access_ends(out.fd);
  MUST(munmap(map, BYTES));
  MUST(close(out.fd));
  npu_close(&other);
  npu_close(&npu);
}

static void a_job_fails(void) {
  struct drm_npu_ctx_query state = {0};
  struct drm_npu_wait wait;
  struct buffer from, to;
  struct job job;
  struct npu npu;

  npu_open(&npu);
  from = buffer_create(&npu, BYTES, DRM_NPU_BO_SYSTEM);
  to = buffer_create(&npu, BYTES, DRM_NPU_BO_SYSTEM);
  job_copy(&npu, &job, from.handle, to.handle, BYTES + 64);
  MUST(try_submit(&npu, &job));
  wait = wait_for(&npu, job.args.seqno);
  EQUAL(wait.error, -EIO);
  EQUAL(wait.fault.seqno, job.args.seqno);
  EQUAL(wait.fault.status, NPU_STATUS_REGION_BOUNDS);
  EQUAL(wait.fault.command, 0);
  state.ctx_id = npu.context.ctx_id;
  MUST(ioctl(npu.fd, DRM_IOCTL_NPU_CTX_QUERY, &state));
  EQUAL(state.errors, 1);
  HOLDS(!memcmp(&state.fault, &wait.fault, sizeof(wait.fault)));
  copies_work(&npu, &from, &to, 13);
  npu_close(&npu);
}

static void wrong_jobs_are_refused(void) {
  struct drm_npu_submit args;
  struct buffer from, to;
  struct job job;
  struct npu npu;

  npu_open(&npu);
  from = buffer_create(&npu, BYTES, DRM_NPU_BO_SYSTEM);
  to = buffer_create(&npu, BYTES, card_or_system(&npu));
  job_copy(&npu, &job, from.handle, to.handle, BYTES);
  job.args.pad = 1;
  REFUSED(EINVAL, try_submit(&npu, &job));
  job.args.pad = 0;
  job.args.region_stride -= 8;
  REFUSED(EINVAL, try_submit(&npu, &job));
  job.args.region_stride += 8;
  job.args.regions += BEYOND;
  REFUSED(EFAULT, try_submit(&npu, &job));
  job.args.regions -= BEYOND;
  job.regions[1].handle = ~0u;
  REFUSED(ENOENT, try_submit(&npu, &job));
  args = submission(&npu, &job.args, 1);
  args.jobs += BEYOND;
  REFUSED(EFAULT, ioctl(npu.fd, DRM_IOCTL_NPU_SUBMIT, &args));
  copies_work(&npu, &from, &to, 14);
  npu_close(&npu);
}

static void wrong_arguments_are_refused(void) {
  struct drm_npu_bo_create create = {.size = BYTES, .flags = DRM_NPU_BO_CARD | DRM_NPU_BO_SYSTEM};
  struct drm_npu_bo_info info = {.handle = ~0u};
  struct drm_npu_ctx_create context = {.flags = 1};
  struct drm_npu_wait wait = {.seqno = 1};
  struct drm_npu_dev_query question = {
      .type = DRM_NPU_QUERY_DEV, .size = sizeof(info), .pointer = BEYOND + (uintptr_t)&info};
  struct drm_auth magic;
  struct buffer from, to;
  struct npu npu;

  npu_open(&npu);
  REFUSED(EINVAL, ioctl(npu.fd, DRM_IOCTL_NPU_BO_CREATE, &create));
  REFUSED(ENOENT, ioctl(npu.fd, DRM_IOCTL_NPU_BO_INFO, &info));
  REFUSED(EINVAL, ioctl(npu.fd, DRM_IOCTL_NPU_CTX_CREATE, &context));
  wait.ctx_id = npu.context.ctx_id;
  REFUSED(EINVAL, ioctl(npu.fd, DRM_IOCTL_NPU_WAIT, &wait));
  REFUSED(EFAULT, ioctl(npu.fd, DRM_IOCTL_NPU_DEV_QUERY, &question));
  REFUSED(EINVAL, ioctl(npu.fd, DRM_IOWR(DRM_COMMAND_END - 1, struct drm_npu_wait), &wait));
  REFUSED(EACCES, ioctl(npu.fd, DRM_IOCTL_GET_MAGIC, &magic)); /* the driver lets no such call through */
  from = buffer_create(&npu, BYTES, DRM_NPU_BO_SYSTEM);
  to = buffer_create(&npu, BYTES, card_or_system(&npu));
  copies_work(&npu, &from, &to, 15);
  npu_close(&npu);
}

/* io_uring without its library */

struct ring {
  int fd;
  struct io_uring_params params;
  struct io_uring_sqe *entries;
  uint8_t *rings; /* both in one mapping */
};

static void ring_create(struct ring *ring) {
  uint32_t bytes;

  *ring = (struct ring){0};
  ring->fd = (int)MUST(syscall(__NR_io_uring_setup, 1, &ring->params));
  HOLDS(ring->params.features & IORING_FEAT_SINGLE_MMAP);
  bytes = ring->params.cq_off.cqes + ring->params.cq_entries * (uint32_t)sizeof(struct io_uring_cqe);
  ring->rings = map_at(ring->fd, bytes, PROT_READ | PROT_WRITE, IORING_OFF_SQ_RING);
  ring->entries = (void *)map_at(ring->fd, sizeof(*ring->entries), PROT_READ | PROT_WRITE, IORING_OFF_SQES);
}

static uint32_t *ring_word(struct ring *ring, uint32_t offset) { return (uint32_t *)(void *)(ring->rings + offset); }

/* The result of one command. */
static int ring_run(struct ring *ring, int fd, const struct drm_npu_uring_submit *command) {
  struct io_uring_cqe *done = (void *)(ring->rings + ring->params.cq_off.cqes);
  uint32_t *sent = ring_word(ring, ring->params.sq_off.tail), *seen = ring_word(ring, ring->params.cq_off.head);

  memset(ring->entries, 0, sizeof(*ring->entries));
  ring->entries->opcode = IORING_OP_URING_CMD;
  ring->entries->fd = fd;
  ring->entries->cmd_op = DRM_NPU_URING_SUBMIT;
  memcpy((uint8_t *)ring->entries + offsetof(struct io_uring_sqe, cmd), command, sizeof(*command));
  *ring_word(ring, ring->params.sq_off.array) = 0;
  __atomic_store_n(sent, *sent + 1, __ATOMIC_RELEASE);
  EQUAL(MUST(syscall(__NR_io_uring_enter, ring->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0)), 1);
  EQUAL(__atomic_load_n(ring_word(ring, ring->params.cq_off.tail), __ATOMIC_ACQUIRE), *seen + 1);
  done += *seen & *ring_word(ring, ring->params.cq_off.ring_mask);
  __atomic_store_n(seen, *seen + 1, __ATOMIC_RELEASE);
  return done->res;
}

static void a_job_comes_by_io_uring(void) {
  struct drm_npu_uring_submit command = {0};
  struct drm_npu_submit args;
  struct buffer from, to;
  struct ring ring;
  struct job job;
  struct npu npu;

  npu_open(&npu);
  ring_create(&ring);
  from = buffer_filled(&npu, card_or_system(&npu), 16);
  to = buffer_create(&npu, BYTES, DRM_NPU_BO_SYSTEM);
  job_copy(&npu, &job, from.handle, to.handle, BYTES);
  args = submission(&npu, &job.args, 1);
  command.submit = BEYOND + (uintptr_t)&args;
  EQUAL(ring_run(&ring, npu.fd, &command), -EFAULT);
  command.submit = (uintptr_t)&args;
  EQUAL(ring_run(&ring, npu.fd, &command), 0);
  EQUAL(job.args.seqno, 1);
  invalidate(&npu, &to);
  FILLED(to.map, BYTES, 16);
  MUST(close(ring.fd));
  npu_close(&npu);
}

/* The cache watch of a SoC */

/* All that writes in it is in this section, whose bounds the linker names. */
__attribute__((noinline, section("forgetful"))) static void write_and_forget(volatile uint8_t *bytes) {
  for (uint32_t i = 0; i < BYTES; i++) bytes[i] = 17;
}

extern const char __start_forgetful[], __stop_forgetful[];

static unsigned long long number_after(const char *report, const char *key) {
  const char *found = strstr(report, key);

  if (!found) fail(__LINE__, "cache_watch: %s, expected: %s", report, key);
  return strtoull(found + strlen(key), NULL, 0);
}

/* The watch's last report, root only; and it forgets all: others do not have to know of a mistake that is meant. */
static void take_report(char *report, size_t size) {
  FILE *pipe = popen("cd /sys/kernel/debug/accel/*/ && tail -n 1 cache_watch && echo 0 >cache_watch", "re");

  HOLDS(pipe);
  if (!fgets(report, (int)size, pipe)) fail(__LINE__, "tail -n 1 cache_watch: nothing, expected: a report");
  pclose(pipe);
}

/* The program counter of 32-bit code is another register of the processor than that of 64-bit code. */
static void a_forgotten_flush_is_found(void) {
  unsigned long long pc;
  struct buffer from, to;
  char report[1024];
  struct npu npu;

  npu_open(&npu);
  from = buffer_create(&npu, BYTES, DRM_NPU_BO_SYSTEM);
  to = buffer_create(&npu, BYTES, DRM_NPU_BO_SYSTEM);
  write_and_forget(from.map);
  run_copy(&npu, from.handle, to.handle);
  HOLDS(watch_of(npu.fd).uncleaned > npu.watch.uncleaned);
  take_report(report, sizeof(report));
  HOLDS(!strncmp(report, "kind=uncleaned ", 15));
  EQUAL(number_after(report, " buffer="), from.handle);
  EQUAL(number_after(report, " pid="), (uint64_t)getpid());
  EQUAL(number_after(report, " level="), 0);
  pc = number_after(report, " pc=");
  if (pc < (uintptr_t)__start_forgetful || pc >= (uintptr_t)__stop_forgetful)
    fail(__LINE__, "pc of the report: %#llx, expected: in write_and_forget(), %p to %p", pc, __start_forgetful,
         __stop_forgetful);
  npu_leave(&npu);
}

static bool has_watch(void) {
  struct drm_npu_watch_info watch = {0};
  struct drm_npu_dev_query args = {.type = DRM_NPU_QUERY_WATCH, .size = sizeof(watch), .pointer = (uintptr_t)&watch};
  int fd = open_node();

  if (fd < 0) return false;
  ioctl(fd, DRM_IOCTL_NPU_DEV_QUERY, &args);
  close(fd);
  return watch.flags & DRM_NPU_WATCH_ENABLED;
}

/* All of them */

#define TEST(function) \
  { #function, function }

static const struct {
  const char *name;
  void (*run)(void);
} tests[] = {
    TEST(the_program_has_32_bits),
    TEST(the_driver_has_a_name),
    TEST(the_device_answers_all_questions),
    TEST(buffers_are_mapped),
    TEST(buffers_are_mapped_past_the_caches),
    TEST(a_job_copies),
    TEST(a_job_waits_for_its_in_sync),
    TEST(a_submission_has_several_jobs),
    TEST(a_sealed_buffer_is_constant),
    TEST(memory_of_the_process_is_a_buffer),
    TEST(a_buffer_is_shared),
    TEST(a_job_fails),
    TEST(wrong_jobs_are_refused),
    TEST(wrong_arguments_are_refused),
    TEST(a_job_comes_by_io_uring),
    TEST(a_forgotten_flush_is_found), /* the last one, and only where something looks for that */
};

static bool passes(unsigned i) {
  printf("[ RUN      ] %s\n", tests[i].name);
  if (setjmp(test_failed)) {
    printf("[  FAILED  ] %s\n", tests[i].name);
    return false;
  }
  tests[i].run();
  printf("[       OK ] %s\n", tests[i].name);
  return true;
}

static bool is_wanted(unsigned i) {
  const char *pattern = getenv("NPU_TESTS");

  if (tests[i].run == a_forgotten_flush_is_found && !has_watch()) return false;
  return !pattern || !fnmatch(pattern, tests[i].name, 0);
}

int main(int argc, char **argv) {
  const unsigned count = sizeof(tests) / sizeof(tests[0]);
  unsigned passed = 0, failed = 0;

  setvbuf(stdout, NULL, _IOLBF, 0);
  printf("compat: sizeof(void *) is %zu, of off_t %zu, of time_t %zu\n", sizeof(void *), sizeof(off_t), sizeof(time_t));
  if (argc > 1) return strcmp(argv[1], "--bits") ? 2 : 0;
  for (unsigned i = 0; i < count; i++) {
    if (!is_wanted(i)) continue;
    if (passes(i))
      passed++;
    else
      failed++;
  }
  printf("[  PASSED  ] %u test(s).\n", passed);
  if (failed) printf("[  FAILED  ] %u test(s)\n", failed);
  return failed ? 1 : 0;
}
