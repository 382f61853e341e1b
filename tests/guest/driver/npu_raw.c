/* SPDX-License-Identifier: MIT */
#include "tests/guest/driver/npu_raw.h"

#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/sync_file.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define MUST(call)                                                \
  do {                                                            \
    int must_ret = (call);                                        \
    if (must_ret) fail_msg("%s: %s", #call, strerror(-must_ret)); \
  } while (0)

/* Before main(): selects the tests with these names. */
__attribute__((constructor)) static void choose_tests(void) {
  const char *pattern = getenv("NPU_TESTS");

  if (pattern) cmocka_set_test_filter(pattern);
}

int raw_ioctl(int fd, unsigned long request, void *arg) {
  int ret;

  do {
    ret = ioctl(fd, request, arg);
  } while (ret == -1 && errno == EINTR);
  return ret == -1 ? -errno : 0;
}

bool npu_try_open(int *fd) {
  char path[64];

  for (int i = 0; i < 64; i++) {
    char name[32] = "";
    struct drm_version version = {.name = name, .name_len = sizeof(name) - 1};

    snprintf(path, sizeof(path), "/dev/accel/accel%d", i);
    *fd = open(path, O_RDWR | O_CLOEXEC);
    if (*fd < 0) continue;
    if (!raw_ioctl(*fd, DRM_IOCTL_VERSION, &version) && !strcmp(name, "qnpu")) return true;
    close(*fd);
  }
  return false;
}

int npu_open(void) {
  int fd;

  if (!npu_try_open(&fd)) fail_msg("no /dev/accel/accel* of the driver qnpu can be opened");
  return fd;
}

void device_path(int fd, const char *file, char *path, size_t size) {
  struct stat node;

  assert_int_equal(fstat(fd, &node), 0);
  snprintf(path, size, "/sys/dev/char/%u:%u/device/%s", major(node.st_rdev), minor(node.st_rdev), file);
}

void device_name(int fd, char *name, size_t size) {
  char path[64], target[256];
  ssize_t length;

  device_path(fd, "", path, sizeof(path));
  path[strlen(path) - 1] = 0; /* the link itself, not its target */
  length = readlink(path, target, sizeof(target) - 1);
  if (length < 0) fail_msg("%s: %s", path, strerror(errno));
  target[length] = 0;
  snprintf(name, size, "%s", basename(target));
}

static void query(int fd, uint32_t type, void *to, uint32_t size) {
  struct drm_npu_dev_query args = {.type = type, .size = size, .pointer = (uintptr_t)to};

  MUST(raw_ioctl(fd, DRM_IOCTL_NPU_DEV_QUERY, &args));
  assert_int_equal(args.size, size);
}

void npu_info(int fd, struct drm_npu_dev_info *info) { query(fd, DRM_NPU_QUERY_DEV, info, sizeof(*info)); }
void npu_time(int fd, struct drm_npu_time_info *info) { query(fd, DRM_NPU_QUERY_TIME, info, sizeof(*info)); }

void npu_memory(int fd, struct drm_npu_memory_info *info) { query(fd, DRM_NPU_QUERY_MEMORY, info, sizeof(*info)); }

void npu_status(int fd, struct drm_npu_status_info *info) { query(fd, DRM_NPU_QUERY_STATUS, info, sizeof(*info)); }

void wait_cores_busy(int fd) {
  struct drm_npu_status_info status;
  struct drm_npu_dev_info info;

  npu_info(fd, &info);
  npu_status(fd, &status);
  for (int tries = 0; status.core_busy != (1u << info.cores) - 1; tries++) {
    if (tries > FOREVER_MS / 10) fail_msg("cores with a job: %#x", status.core_busy);
    usleep(10000);
    npu_status(fd, &status);
  }
}

void npu_memory_settled(int fd, struct drm_npu_memory_info *info) {
  struct drm_npu_memory_info last;
  int same = 0;

  npu_memory(fd, info);
  for (int tries = 0; tries < 300 && same < 5; tries++) {
    last = *info;
    usleep(20000);
    npu_memory(fd, info);
    same = memcmp(&last, info, sizeof(last)) ? 0 : same + 1;
  }
}

void expect_card_free(int fd, uint64_t bytes) {
  struct drm_npu_memory_info info;

  npu_memory(fd, &info);
  for (int tries = 0; tries < 250 && info.card_free != bytes; tries++) {
    usleep(tries < 50 ? 2000 : 100000);
    npu_memory(fd, &info);
  }
  assert_int_equal(info.card_free, bytes);
}

/* Buffers */

/* Description of the board's devices, which are all the same. */
static const struct drm_npu_dev_info *board_info(int fd) {
  static struct drm_npu_dev_info info;

  if (!info.cores) npu_info(fd, &info);
  return &info;
}

bool is_card(int fd) { return board_info(fd)->bus == DRM_NPU_BUS_PCI; }
bool has_card_memory(int fd) { return board_info(fd)->ddr_bytes != 0; }
bool is_coherent(int fd) { return !(board_info(fd)->flags & DRM_NPU_INFO_NONCOHERENT); }

uint32_t bo_place(int fd, uint32_t flags) {
  return flags == DRM_NPU_BO_CARD && !has_card_memory(fd) ? DRM_NPU_BO_SYSTEM : flags;
}

int raw_bo_create(int fd, uint64_t size, uint32_t flags, struct bo *bo) {
  struct drm_npu_bo_create args = {.size = size, .flags = bo_place(fd, flags)};
  int ret = raw_ioctl(fd, DRM_IOCTL_NPU_BO_CREATE, &args);

  memset(bo, 0, sizeof(*bo));
  if (ret) return ret;
  bo->handle = args.handle;
  bo->size = args.size;
  bo->va = args.va;
  bo->mmap_offset = args.mmap_offset;
  return 0;
}

int raw_gem_close(int fd, uint32_t handle) {
  struct drm_gem_close args = {.handle = handle};

  return raw_ioctl(fd, DRM_IOCTL_GEM_CLOSE, &args);
}

int raw_bo_seal(int fd, uint32_t handle) {
  struct drm_npu_bo_seal args = {.handle = handle};

  return raw_ioctl(fd, DRM_IOCTL_NPU_BO_SEAL, &args);
}

void bo_create(int fd, uint64_t size, uint32_t flags, struct bo *bo) {
  MUST(raw_bo_create(fd, size, flags, bo));
  assert_true(bo->size >= size);
}

/* Uncached on devices that do not snoop the caches: tests of cache maintenance map buffers themselves. */
void bo_map(int fd, struct bo *bo) {
  uint64_t offset = bo->mmap_offset | (is_coherent(fd) ? 0 : DRM_NPU_MMAP_WC);
  void *map = mmap(NULL, bo->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);

  if (map == MAP_FAILED) fail_msg("mmap of a buffer: %s", strerror(errno));
  bo->map = map;
}

uint8_t *bo_map_cached(int fd, const struct bo *bo) {
  void *map = mmap(NULL, bo->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)bo->mmap_offset);

  if (map == MAP_FAILED) fail_msg("mmap of a buffer: %s", strerror(errno));
  return map;
}

void bo_create_mapped(int fd, uint64_t size, uint32_t flags, struct bo *bo) {
  bo_create(fd, size, flags, bo);
  bo_map(fd, bo);
}

void bo_unmap(struct bo *bo) {
  if (bo->map) assert_int_equal(munmap(bo->map, bo->size), 0);
  bo->map = NULL;
}

void bo_destroy(int fd, struct bo *bo) {
  bo_unmap(bo);
  MUST(raw_gem_close(fd, bo->handle));
}

void bo_sync(int fd, const struct bo *bo, uint32_t direction) {
  struct drm_npu_bo_sync args = {.handle = bo->handle, .direction = direction, .size = bo->size};

  MUST(raw_ioctl(fd, DRM_IOCTL_NPU_BO_SYNC, &args));
}

void bo_clean(int fd, const struct bo *bo) {
  if (!is_coherent(fd)) bo_sync(fd, bo, DRM_NPU_SYNC_TO_DEVICE);
}

void bo_invalidate(int fd, const struct bo *bo) {
  if (!is_coherent(fd)) bo_sync(fd, bo, DRM_NPU_SYNC_FROM_DEVICE);
}

/* Contexts */

int raw_ctx_create(int fd, struct drm_npu_ctx_create *args) { return raw_ioctl(fd, DRM_IOCTL_NPU_CTX_CREATE, args); }

int raw_ctx_destroy(int fd, uint32_t id) {
  struct drm_npu_ctx_destroy args = {.ctx_id = id};

  return raw_ioctl(fd, DRM_IOCTL_NPU_CTX_DESTROY, &args);
}

uint32_t ctx_create(int fd) {
  struct drm_npu_ctx_create args = {.priority = DRM_NPU_PRIORITY_NORMAL};

  MUST(raw_ctx_create(fd, &args));
  assert_int_not_equal(args.ctx_id, 0);
  return args.ctx_id;
}

void ctx_destroy(int fd, uint32_t id) { MUST(raw_ctx_destroy(fd, id)); }

void ctx_query(int fd, uint32_t id, struct drm_npu_ctx_query *args) {
  memset(args, 0, sizeof(*args));
  args->ctx_id = id;
  MUST(raw_ioctl(fd, DRM_IOCTL_NPU_CTX_QUERY, args));
}

/* Commands */

void stream_create(int fd, uint64_t commands, struct stream *stream) {
  stream->count = 0;
  bo_create_mapped(fd, commands * NPU_CMD_BYTES, DRM_NPU_BO_SYSTEM, &stream->bo);
}

void stream_destroy(int fd, struct stream *stream) { bo_destroy(fd, &stream->bo); }

void *stream_next(struct stream *stream) {
  uint8_t *at = stream->bo.map + (size_t)stream->count * NPU_CMD_BYTES;

  assert_true((stream->count + 1ull) * NPU_CMD_BYTES <= stream->bo.size);
  stream->count++;
  memset(at, 0, NPU_CMD_BYTES);
  return at;
}

void stream_nop(struct stream *stream, uint32_t wait) {
  struct npu_cmd *cmd = stream_next(stream);

  cmd->opcode = NPU_OP_NOP;
  cmd->wait = wait;
}

static void row_of_bytes(uint32_t dims[6], uint32_t bytes) {
  for (int i = 0; i < 5; i++) dims[i] = 1;
  dims[5] = bytes;
}

void stream_fill(struct stream *stream, uint8_t region, uint64_t offset, uint32_t bytes, uint8_t value) {
  struct npu_cmd_fill *cmd = stream_next(stream);

  cmd->opcode = NPU_OP_FILL;
  cmd->value = value;
  cmd->dst_region = region;
  cmd->dst_offset = offset;
  cmd->dst_dtype = NPU_DTYPE_U8;
  cmd->dst_stride[5] = 1;
  row_of_bytes(cmd->dims, bytes);
}

void stream_copy(struct stream *stream, uint8_t from, uint64_t from_offset, uint8_t to, uint64_t to_offset,
                 uint32_t bytes) {
  struct npu_cmd_copy *cmd = stream_next(stream);

  cmd->opcode = NPU_OP_COPY;
  cmd->src_region = from;
  cmd->src_offset = from_offset;
  cmd->dst_region = to;
  cmd->dst_offset = to_offset;
  cmd->src_dtype = NPU_DTYPE_U8;
  cmd->dst_dtype = NPU_DTYPE_U8;
  cmd->src_stride[5] = 1;
  cmd->dst_stride[5] = 1;
  row_of_bytes(cmd->dims, bytes);
}

/* Bytes that a slow copy moves per millisecond. */
static uint32_t slow_bytes_per_ms;

static void add_slow_copy(struct stream *stream, uint8_t region, uint32_t bytes) {
  struct npu_cmd_copy *cmd = stream_next(stream);

  cmd->opcode = NPU_OP_COPY;
  cmd->src_region = region;
  cmd->dst_region = region;
  cmd->dst_offset = 1;
  cmd->src_dtype = NPU_DTYPE_U8;
  cmd->dst_dtype = NPU_DTYPE_U8;
  row_of_bytes(cmd->dims, bytes);
}

void stream_slow_copy(struct stream *stream, uint8_t region, uint32_t ms) {
  uint64_t bytes = (uint64_t)slow_bytes_per_ms * ms;

  assert_true(bytes > 0);
  add_slow_copy(stream, region, bytes < 0xf0000000 ? (uint32_t)bytes : 0xf0000000);
}

void calibrate(int fd, uint32_t ctx) {
  struct stream stream;
  struct job job;
  struct bo bo;
  const char *time = getenv("NPU_TIME");
  const bool exact = time && !strcmp(time, "exact"); /* a single sample suffices */
  const int tries = exact ? 1 : 4, enough = exact ? 8 : 50;
  uint32_t bytes = 1024;
  int64_t took;

  stream_create(fd, 1, &stream);
  bo_create(fd, 4096, DRM_NPU_BO_SYSTEM, &bo);
  job_init(&job);
  job_region(&job, &stream.bo, DRM_NPU_REGION_READ);
  job_region(&job, &bo, DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE);
  job.stream.gdma_count = 1;
  for (;; bytes *= 2) {
    stream.count = 0;
    add_slow_copy(&stream, 1, bytes);
    /* The best of several samples: a busy host makes the card look slow. */
    took = INT64_MAX;
    for (int i = 0; i < tries && took >= enough; i++) {
      int64_t began = now_ms(), ms;

      run_ok(fd, ctx, &job);
      ms = now_ms() - began;
      if (ms < took) took = ms;
    }
    if (took >= enough || bytes >= 1u << 30) break;
  }
  slow_bytes_per_ms = bytes / (took + 1) + 1;
  bo_destroy(fd, &bo);
  stream_destroy(fd, &stream);
}

/* Jobs */

void job_init(struct job *job) {
  memset(job, 0, sizeof(*job));
  job->args.regions = (uintptr_t)job->regions;
  job->args.streams = (uintptr_t)&job->stream;
  job->args.in_syncs = (uintptr_t)job->in;
  job->args.out_syncs = (uintptr_t)job->out;
  job->args.region_stride = sizeof(job->regions[0]);
  job->args.stream_stride = sizeof(job->stream);
  job->args.sync_stride = sizeof(job->in[0]);
  job->args.stream_count = 1;
}

uint32_t job_region(struct job *job, const struct bo *bo, uint32_t access) {
  uint32_t index = job->args.region_count++;

  assert_true(index < NPU_MAX_REGIONS);
  job->regions[index] = (struct drm_npu_region){.handle = bo->handle, .access = access, .size = bo->size};
  return index;
}

void job_slow(int fd, uint32_t ms, struct stream *stream, struct bo *bo, struct job *job) {
  stream_create(fd, 1, stream);
  stream_slow_copy(stream, 0, ms);
  bo_create(fd, 4096, DRM_NPU_BO_SYSTEM, bo);
  job_init(job);
  job_region(job, bo, DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE);
  job_gdma(job, stream);
}

void job_gdma(struct job *job, const struct stream *stream) {
  job->stream.gdma_region = job_region(job, &stream->bo, DRM_NPU_REGION_READ);
  job->stream.gdma_count = stream->count;
}

void job_tiu(struct job *job, const struct stream *stream) {
  job->stream.tiu_region = job_region(job, &stream->bo, DRM_NPU_REGION_READ);
  job->stream.tiu_count = stream->count;
}

void job_in(struct job *job, uint32_t syncobj, uint64_t point) {
  job->in[job->args.in_sync_count++] = (struct drm_npu_sync){.handle = syncobj, .point = point};
}

void job_out(struct job *job, uint32_t syncobj, uint64_t point) {
  job->out[job->args.out_sync_count++] = (struct drm_npu_sync){.handle = syncobj, .point = point};
}

int raw_submit(int fd, uint32_t ctx, struct job *job) {
  struct drm_npu_submit args = {
      .ctx_id = ctx, .jobs = (uintptr_t)&job->args, .job_count = 1, .job_stride = sizeof(job->args)};

  return raw_ioctl(fd, DRM_IOCTL_NPU_SUBMIT, &args);
}

uint64_t submit(int fd, uint32_t ctx, struct job *job) {
  MUST(raw_submit(fd, ctx, job));
  assert_int_not_equal(job->args.seqno, 0);
  return job->args.seqno;
}

int raw_wait(int fd, uint32_t ctx, uint64_t seqno, int64_t ms, struct drm_npu_wait *wait) {
  memset(wait, 0, sizeof(*wait));
  wait->ctx_id = ctx;
  wait->seqno = seqno;
  wait->timeout_ns = deadline_ns(ms);
  return raw_ioctl(fd, DRM_IOCTL_NPU_WAIT, wait);
}

void wait_result(int fd, uint32_t ctx, uint64_t seqno, struct drm_npu_wait *wait) {
  MUST(raw_wait(fd, ctx, seqno, FOREVER_MS, wait));
  assert_int_equal(wait->known, 1);
}

void wait_ok(int fd, uint32_t ctx, uint64_t seqno) {
  struct drm_npu_wait wait;

  wait_result(fd, ctx, seqno, &wait);
  if (wait.error)
    fail_msg("job %llu: %s (status %u, engine %u, command %u, region %u, offset %#llx)", (unsigned long long)seqno,
             strerror(-wait.error), wait.fault.status, wait.fault.engine, wait.fault.command, wait.fault.region,
             (unsigned long long)wait.fault.offset);
}

void run_ok(int fd, uint32_t ctx, struct job *job) { wait_ok(fd, ctx, submit(fd, ctx, job)); }

void run_nop(int fd, uint32_t ctx) {
  struct stream stream;
  struct job job;

  stream_create(fd, 1, &stream);
  stream_nop(&stream, 0);
  job_init(&job);
  job_gdma(&job, &stream);
  run_ok(fd, ctx, &job);
  stream_destroy(fd, &stream);
}

int raw_fill(int fd, uint32_t ctx, const struct bo *bo, uint8_t value) {
  struct drm_npu_wait wait;
  struct stream stream;
  struct job job;
  int ret;

  stream_create(fd, 1, &stream);
  job_init(&job);
  stream_fill(&stream, (uint8_t)job_region(&job, bo, DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE), 0, (uint32_t)bo->size,
              value);
  job_gdma(&job, &stream);
  ret = raw_submit(fd, ctx, &job);
  if (!ret) {
    wait_result(fd, ctx, job.args.seqno, &wait);
    ret = wait.error;
  }
  stream_destroy(fd, &stream);
  return ret;
}

bool is_filled(const uint8_t *p, uint64_t size, uint8_t value) { return p[0] == value && !memcmp(p, p + 1, size - 1); }

/* Descriptors for other processes */

void send_fd(int socket, int file) {
  char c = 1, control[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec io = {.iov_base = &c, .iov_len = 1};
  struct msghdr message = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
  struct cmsghdr *head = CMSG_FIRSTHDR(&message);

  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(head), &file, sizeof(file));
  if (sendmsg(socket, &message, 0) != 1) _exit(9);
}

int receive_fd(int socket) {
  char c, control[CMSG_SPACE(sizeof(int))];
  struct iovec io = {.iov_base = &c, .iov_len = 1};
  struct msghdr message = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
  int file;

  assert_int_equal(recvmsg(socket, &message, 0), 1);
  assert_non_null(CMSG_FIRSTHDR(&message));
  memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(file));
  return file;
}

unsigned long long fdinfo_number(int fd, const char *key) {
  unsigned long long value = ~0ull;
  char path[64], line[256];
  FILE *file;

  snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
  file = fopen(path, "r");
  assert_non_null(file);
  while (fgets(line, sizeof(line), file))
    if (!strncmp(line, key, strlen(key)) && line[strlen(key)] == ':')
      value = strtoull(line + strlen(key) + 1, NULL, 10);
  fclose(file);
  if (value == ~0ull) fail_msg("fdinfo has no %s", key);
  return value;
}

/* Syncobjs */

uint32_t syncobj_create(int fd) {
  struct drm_syncobj_create args = {0};

  MUST(raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_CREATE, &args));
  return args.handle;
}

void syncobj_destroy(int fd, uint32_t handle) {
  struct drm_syncobj_destroy args = {.handle = handle};

  MUST(raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_DESTROY, &args));
}

int raw_syncobj_wait(int fd, uint32_t handle, uint64_t point, int64_t ms) {
  struct drm_syncobj_timeline_wait args = {
      .handles = (uintptr_t)&handle,
      .points = (uintptr_t)&point,
      .timeout_nsec = deadline_ns(ms),
      .count_handles = 1,
      .flags = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT,
  };

  return raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &args);
}

int syncobj_status(int fd, uint32_t handle) {
  struct drm_syncobj_handle args = {
      .handle = handle, .flags = DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE, .fd = -1};
  struct sync_file_info info = {0};

  MUST(raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &args));
  poll(&(struct pollfd){.fd = args.fd, .events = POLLIN}, 1, FOREVER_MS);
  MUST(raw_ioctl(args.fd, SYNC_IOC_FILE_INFO, &info));
  close(args.fd);
  if (info.status < 0) return info.status;
  return info.status ? 0 : 1;
}

/* Time and parameters */

int64_t deadline_ns(int64_t ms) {
  struct timespec ts;

  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (ts.tv_sec * 1000 + ms) * 1000000ll + ts.tv_nsec;
}

int64_t now_ms(void) { return deadline_ns(0) / 1000000; }

void set_parameter(const char *name, unsigned value) {
  char path[128];
  FILE *file;

  snprintf(path, sizeof(path), "/sys/module/qnpu/parameters/%s", name);
  file = fopen(path, "w");
  if (!file) fail_msg("%s: %s", path, strerror(errno));
  fprintf(file, "%u\n", value);
  assert_int_equal(fclose(file), 0);
}
