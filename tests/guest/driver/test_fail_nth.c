/* SPDX-License-Identifier: MIT */
/*
 * Each allocation of each call fails once: the first one, then the second one, until none is left. A call either fails
 * with an error and leaves nothing behind, or succeeds completely, because the kernel has fallbacks for some
 * allocations. Needs a kernel with CONFIG_FAILSLAB and CONFIG_FAIL_PAGE_ALLOC. Arguments: the step between allocations
 * of probe and unbind, which take long (1); one of the tests; and for "probing" one of the functions.
 */
#define _GNU_SOURCE /* memfd_create, F_ADD_SEALS */
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/udmabuf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/guest/driver/alloc_fail.h"
#include "tests/guest/driver/npu_machine.h"
#include "tests/guest/driver/npu_raw.h"
#include "tests/guest/driver/usage.h"

#define RW (DRM_NPU_REGION_READ | DRM_NPU_REGION_WRITE)
#define MAX_ALLOCATIONS 5000

struct operation {
  const char *name;
  void (*begin)(void);    /* sets up the call's arguments */
  int (*call)(void);      /* the call with failing allocations: 0 or a negative errno */
  void (*check)(void);    /* after success: checks the result */
  void (*end)(bool done); /* releases everything */
  bool never_fails;
};

/* Objects that the operations use. */
static int fd, other; /* files */
static uint32_t ctx;
static struct bo bo, more;
static struct stream stream;
static struct job jobs[3];
static struct drm_npu_job args[3];
static uint32_t syncs[4];
static int dma_buf;
static uint8_t *map;

/* Errors for a lack of memory: accept() and open() report too many open files, io_uring a retry. */
static bool is_out_of_memory(int error) {
  return error == -ENOMEM || error == -ENFILE || error == -EMFILE || error == -EAGAIN;
}

static void each_allocation(const struct operation *operation) {
  unsigned failed = 0, survived = 0, nth;
  char before[USAGE_BYTES];
  bool hit;

  usage_begin(before);
  for (nth = 1;; nth++) {
    int ret;

    operation->begin();
    alloc_fail_nth(nth);
    ret = operation->call();
    hit = alloc_fail_end();
    if (ret && (operation->never_fails || !hit || !is_out_of_memory(ret)))
      fail_msg("%s, allocation %u%s: %s", operation->name, nth, hit ? "" : " (not failed)", strerror(-ret));
    if (!ret) operation->check();
    operation->end(!ret);
    usage_expect(before);
    failed += ret != 0;
    survived += !ret && hit;
    if (!hit) break;
    assert_true(nth < MAX_ALLOCATIONS);
  }
  printf("%s: %u allocations, the call failed %u times, and went another way %u times\n", operation->name, nth - 1,
         failed, survived);
  /* Otherwise the test is void. */
  assert_true(operation->never_fails || failed + survived > 0);
}

static void nothing(void) {}

/* Files */

static int call_open(void) { return (fd = open("/dev/accel/accel0", O_RDWR | O_CLOEXEC)) < 0 ? -errno : 0; }

static void check_file(void) { run_nop(fd, ctx_create(fd)); }

static void close_opened(bool done) {
  if (done) close(fd);
}

static void open_file(void) {
  fd = npu_open();
  ctx = 0;
}

static void close_file(bool done) {
  (void)done;
  close(fd);
}

static int call_close(void) { return close(fd) ? -errno : 0; }

static void open_full_file(void) {
  open_file();
  ctx = ctx_create(fd);
  bo_create(fd, MIB(1), DRM_NPU_BO_CARD, &bo);
  bo_create(fd, KIB(64), DRM_NPU_BO_SYSTEM, &bo);
  run_nop(fd, ctx);
}

static void closed(bool done) { (void)done; }

static void opening(void **state) {
  const struct operation open = {"open", nothing, call_open, check_file, close_opened, false};
  const struct operation close = {"close", open_full_file, call_close, nothing, closed, true};

  (void)state;
  each_allocation(&open);
  each_allocation(&close);
}

/* Buffers */

static uint64_t size_to_create;
static uint32_t kind_to_create;

static int call_create(void) { return raw_bo_create(fd, size_to_create, kind_to_create, &bo); }

static void check_zero_and_used(void) {
  struct stream fill;
  struct job use;

  bo_map(fd, &bo);
  for (uint64_t at = 0; at < bo.size; at += 512) assert_int_equal(bo.map[at], 0);
  ctx = ctx ? ctx : ctx_create(fd);
  stream_create(fd, 1, &fill);
  stream_fill(&fill, 1, bo.size - 4096, 4096, 0x33);
  job_init(&use);
  job_gdma(&use, &fill);
  job_region(&use, &bo, RW);
  run_ok(fd, ctx, &use);
  assert_int_equal(bo.map[bo.size - 1], 0x33);
  stream_destroy(fd, &fill);
}

static void end_create(bool done) {
  if (done) bo_destroy(fd, &bo);
  close(fd);
}

/* A file with an empty address space: leftovers of a failure would stay there. */
static void keep_file(void) {}

static void end_create_kept(bool done) {
  if (done) bo_destroy(fd, &bo);
}

static void creating_buffers(void **state) {
  static const struct {
    const char *name;
    uint64_t size;
    uint32_t kind;
  } kinds[] = {{"buffer on the card", 4096, DRM_NPU_BO_CARD},
               {"buffer that the card zeroes", MIB(3) + KIB(68), DRM_NPU_BO_CARD},
               {"buffer in system memory", KIB(132), DRM_NPU_BO_SYSTEM}};

  (void)state;
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
    struct operation create = {kinds[i].name, open_file, call_create, check_zero_and_used, end_create, false};

    size_to_create = kinds[i].size;
    kind_to_create = kinds[i].kind;
    each_allocation(&create);
    open_file();
    ctx = ctx_create(fd);
    create.begin = keep_file;
    create.end = end_create_kept;
    each_allocation(&create);
    close(fd);
  }
}

static void open_with_buffer(void) {
  open_file();
  bo_create(fd, KIB(260), kind_to_create, &bo);
}

static int call_gem_close(void) { return raw_gem_close(fd, bo.handle); }

static void open_with_used_buffer(void) {
  open_with_buffer();
  check_zero_and_used();
  bo_unmap(&bo);
}

static int call_map(void) {
  void *at = mmap(NULL, bo.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, bo.mmap_offset);

  if (at == MAP_FAILED) return -errno;
  bo.map = at;
  /* A page fault cannot return an error: it is retried. */
  for (uint64_t i = 0; i < bo.size; i += 4096) bo.map[i] = 7;
  return 0;
}

static void check_mapped(void) {
  for (uint64_t i = 0; i < bo.size; i += 4096) assert_int_equal(bo.map[i], 7);
}

static void using_buffers(void **state) {
  const struct operation map = {"mmap", open_with_buffer, call_map, check_mapped, end_create, false};
  const struct operation destroy = {"buffer close", open_with_used_buffer, call_gem_close, nothing, close_file, true};

  (void)state;
  for (int i = 0; i < 2; i++) {
    kind_to_create = i ? DRM_NPU_BO_SYSTEM : DRM_NPU_BO_CARD;
    each_allocation(&map);
    each_allocation(&destroy);
  }
}

/* Contexts */

static struct drm_npu_ctx_create created;

static int call_ctx_create(void) {
  created = (struct drm_npu_ctx_create){.priority = DRM_NPU_PRIORITY_NORMAL};
  return raw_ctx_create(fd, &created);
}

static void check_ctx(void) { run_nop(fd, created.ctx_id); }

static void end_ctx(bool done) {
  if (done) ctx_destroy(fd, created.ctx_id);
  close(fd);
}

static void open_with_ctx(void) {
  open_file();
  ctx = ctx_create(fd);
  run_nop(fd, ctx);
}

static int call_ctx_destroy(void) { return raw_ctx_destroy(fd, ctx); }

static int call_map_fence(void) {
  void *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, (off_t)ctx << 12);

  if (at == MAP_FAILED) return -errno;
  map = at;
  (void)*(volatile uint64_t *)map;
  return 0;
}

static void check_fence(void) {
  assert_int_equal(*(volatile uint64_t *)map, 1);
  munmap(map, 4096);
}

static void contexts(void **state) {
  const struct operation create = {"context", open_file, call_ctx_create, check_ctx, end_ctx, false};
  const struct operation fence = {"fence page", open_with_ctx, call_map_fence, check_fence, close_file, false};
  const struct operation destroy = {"context destroy", open_with_ctx, call_ctx_destroy, nothing, close_file, true};

  (void)state;
  each_allocation(&create);
  each_allocation(&fence);
  each_allocation(&destroy);
}

/* Submission */

static struct drm_npu_submit batch;

/* Buffers, in-fences and out-fences of both kinds. */
static void prepare_jobs(uint32_t count) {
  uint64_t point = 1;
  struct drm_syncobj_timeline_array signal = {.points = (uintptr_t)&point, .count_handles = 1};

  open_file();
  ctx = ctx_create(fd);
  bo_create_mapped(fd, KIB(72), DRM_NPU_BO_CARD, &bo);
  bo_create_mapped(fd, KIB(8), DRM_NPU_BO_SYSTEM, &more);
  stream_create(fd, 2, &stream);
  stream_fill(&stream, 1, 0, 4096, 0x41);
  stream_fill(&stream, 2, 0, 4096, 0x42);
  for (int i = 0; i < 4; i++) syncs[i] = syncobj_create(fd);
  signal.handles = (uintptr_t)&syncs[1];
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL, &signal), 0);
  signal.handles = (uintptr_t)&syncs[0];
  assert_int_equal(raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_SIGNAL,
                             &(struct drm_syncobj_array){.handles = signal.handles, .count_handles = 1}),
                   0);
  for (uint32_t i = 0; i < count; i++) {
    job_init(&jobs[i]);
    job_gdma(&jobs[i], &stream);
    job_region(&jobs[i], &bo, RW);
    job_region(&jobs[i], &more, RW);
    job_in(&jobs[i], syncs[0], 0);
    job_in(&jobs[i], syncs[1], 1);
    job_out(&jobs[i], syncs[2], 0);
    job_out(&jobs[i], syncs[3], i + 1);
    args[i] = jobs[i].args;
  }
  batch = (struct drm_npu_submit){
      .ctx_id = ctx, .jobs = (uintptr_t)args, .job_count = count, .job_stride = sizeof(args[0])};
}

static void prepare_job(void) { prepare_jobs(1); }

static void prepare_explicit(void) {
  prepare_jobs(1);
  args[0].flags = DRM_NPU_JOB_EXPLICIT;
}

static void prepare_batch(void) { prepare_jobs(3); }

static int call_submit(void) { return raw_ioctl(fd, DRM_IOCTL_NPU_SUBMIT, &batch); }

/* All jobs ran, in this order, and all fences signal. */
static void check_jobs(void) {
  struct drm_npu_ctx_query query;

  assert_int_equal(args[0].seqno, 1);
  wait_ok(fd, ctx, batch.job_count);
  assert_int_equal(bo.map[4095], 0x41);
  assert_int_equal(more.map[4095], 0x42);
  assert_int_equal(syncobj_status(fd, syncs[2]), 0);
  assert_int_equal(raw_syncobj_wait(fd, syncs[3], batch.job_count, FOREVER_MS), 0);
  ctx_query(fd, ctx, &query);
  assert_int_equal(query.submitted, batch.job_count);
}

/* Or no job was queued, and the same submission works now. */
static void end_jobs(bool done) {
  struct drm_npu_ctx_query query;

  ctx_query(fd, ctx, &query);
  if (!done) {
    assert_int_equal(query.submitted, 0);
    assert_int_equal(raw_syncobj_wait(fd, syncs[2], 0, 0), -ETIME);
    assert_int_equal(raw_syncobj_wait(fd, syncs[3], 1, 0), -ETIME);
    assert_int_equal(call_submit(), 0);
    check_jobs();
  }
  bo_unmap(&bo);
  bo_unmap(&more);
  bo_unmap(&stream.bo);
  close(fd);
}

static struct io_uring ring;

static void prepare_uring(void) {
  struct io_uring_sqe *sqe;
  static struct drm_npu_uring_submit entry;

  prepare_jobs(3);
  assert_int_equal(io_uring_queue_init(4, &ring, 0), 0);
  sqe = io_uring_get_sqe(&ring);
  io_uring_prep_rw(IORING_OP_URING_CMD, sqe, fd, NULL, 0, 0);
  sqe->cmd_op = DRM_NPU_URING_SUBMIT;
  entry.submit = (uintptr_t)&batch;
  memcpy((uint8_t *)sqe + offsetof(struct io_uring_sqe, cmd), &entry, sizeof(entry));
}

static int call_uring(void) {
  struct io_uring_cqe *cqe;
  int ret = io_uring_submit(&ring);

  if (ret < 0) return ret;
  do {
    ret = io_uring_wait_cqe(&ring, &cqe);
  } while (ret == -EINTR || ret == -ENOMEM);
  if (!ret) ret = cqe->res;
  return ret;
}

static void end_uring(bool done) {
  io_uring_queue_exit(&ring);
  end_jobs(done);
}

static void submission(void **state) {
  const struct operation single = {"submit", prepare_job, call_submit, check_jobs, end_jobs, false};
  const struct operation alone = {"explicit submit", prepare_explicit, call_submit, check_jobs, end_jobs, false};
  const struct operation several = {"submit of a batch", prepare_batch, call_submit, check_jobs, end_jobs, false};
  const struct operation uring = {"io_uring submit", prepare_uring, call_uring, check_jobs, end_uring, false};

  (void)state;
  each_allocation(&single);
  each_allocation(&alone);
  each_allocation(&several);
  each_allocation(&uring);
}

/* Eviction: two files with a small buffer each, and one with a buffer that leaves room for only one of these. */

static struct owner {
  int fd;
  uint32_t ctx;
  struct stream stream;
  struct bo bo;
  struct job job;
} owners[3];
static struct owner *asking;

static void owner_open(struct owner *o, uint64_t bytes) {
  o->fd = npu_open();
  o->ctx = ctx_create(o->fd);
  stream_create(o->fd, 1, &o->stream);
  stream_fill(&o->stream, 1, 0, 4096, 1);
  bo_create_mapped(o->fd, bytes, DRM_NPU_BO_CARD, &o->bo);
  job_init(&o->job);
  job_gdma(&o->job, &o->stream);
  job_region(&o->job, &o->bo, RW);
}

static void owner_close(struct owner *o) {
  bo_unmap(&o->bo);
  bo_unmap(&o->stream.bo);
  close(o->fd);
}

static bool is_away(const struct owner *o) {
  struct drm_npu_bo_info info = {.handle = o->bo.handle};

  assert_int_equal(raw_ioctl(o->fd, DRM_IOCTL_NPU_BO_INFO, &info), 0);
  return info.flags & DRM_NPU_BO_EVICTED;
}

/* The evicted file submits; the other one's buffer is the least recently used. */
static void prepare_eviction(void) {
  run_ok(owners[2].fd, owners[2].ctx, &owners[2].job);
  asking = is_away(&owners[1]) ? &owners[1] : &owners[0];
  assert_true(is_away(asking));
}

static int call_eviction(void) { return raw_submit(asking->fd, asking->ctx, &asking->job); }

static void check_eviction(void) {
  wait_ok(asking->fd, asking->ctx, asking->job.args.seqno);
  assert_false(is_away(asking));
}

/* A failed move may be partly done; a retry continues from there. */
static void end_eviction(bool done) {
  if (!done) {
    assert_int_equal(call_eviction(), 0);
    check_eviction();
  }
  for (int i = 0; i < 2; i++)
    for (uint64_t at = 4096; at < owners[i].bo.size; at += 512) assert_int_equal(owners[i].bo.map[at], 0x50 + i);
}

static void eviction(void **state) {
  const struct operation evict = {"eviction", prepare_eviction, call_eviction, check_eviction, end_eviction, false};
  struct drm_npu_memory_info memory;
  char before[USAGE_BYTES];

  (void)state;
  usage_begin(before);
  for (int i = 0; i < 2; i++) {
    owner_open(&owners[i], KIB(512));
    memset(owners[i].bo.map, 0x50 + i, owners[i].bo.size);
  }
  npu_memory(owners[0].fd, &memory);
  owner_open(&owners[2], memory.card_free + KIB(256));
  prepare_eviction();
  assert_int_equal(call_eviction(), 0);
  check_eviction();
  each_allocation(&evict);
  for (int i = 0; i < 3; i++) owner_close(&owners[i]);
  usage_expect(before);
}

/* Sharing */

static int call_export(void) {
  struct drm_prime_handle args = {.handle = bo.handle, .flags = DRM_CLOEXEC | DRM_RDWR, .fd = -1};
  int ret = raw_ioctl(fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &args);

  dma_buf = args.fd;
  return ret;
}

static int call_import(void) {
  struct drm_prime_handle args = {.fd = dma_buf};
  int ret = raw_ioctl(other, DRM_IOCTL_PRIME_FD_TO_HANDLE, &args);

  more.handle = args.handle;
  return ret;
}

/* A job of the current owner uses it. */
static void check_import(void) {
  struct drm_npu_bo_info info = {.handle = more.handle};
  int kept = fd;

  assert_int_equal(raw_ioctl(other, DRM_IOCTL_NPU_BO_INFO, &info), 0);
  more.size = info.size;
  fd = other;
  ctx = 0;
  bo = more;
  bo.mmap_offset = info.mmap_offset;
  check_zero_and_used();
  bo_unmap(&bo);
  fd = kept;
}

static void check_export(void) {
  other = npu_open();
  assert_int_equal(call_import(), 0);
  check_import();
  close(other);
}

static void end_export(bool done) {
  if (done) close(dma_buf);
  close(fd);
}

static void prepare_import(void) {
  open_with_buffer();
  assert_int_equal(call_export(), 0);
  other = npu_open();
}

static void end_import(bool done) {
  (void)done;
  close(dma_buf);
  close(other);
  close(fd);
}

static void prepare_foreign(void) {
  struct udmabuf_create args = {.flags = UDMABUF_FLAGS_CLOEXEC, .size = KIB(72)};
  int device = open("/dev/udmabuf", O_RDWR);

  assert_true(device >= 0);
  args.memfd = (uint32_t)memfd_create("npu", MFD_ALLOW_SEALING | MFD_CLOEXEC);
  assert_int_equal(ftruncate((int)args.memfd, (off_t)args.size), 0);
  assert_int_equal(fcntl((int)args.memfd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  dma_buf = ioctl(device, UDMABUF_CREATE, &args);
  assert_true(dma_buf >= 0);
  close((int)args.memfd);
  close(device);
  fd = npu_open();
  other = npu_open();
}

static void sharing(void **state) {
  const struct operation export = {"export", open_with_buffer, call_export, check_export, end_export, false};
  const struct operation import = {"import", prepare_import, call_import, check_import, end_import, false};
  const struct operation foreign = {
      "import of foreign memory", prepare_foreign, call_import, check_import, end_import, false};

  (void)state;
  for (int i = 0; i < 2; i++) {
    kind_to_create = i ? DRM_NPU_BO_SYSTEM : DRM_NPU_BO_CARD;
    each_allocation(&export);
    each_allocation(&import);
  }
  each_allocation(&foreign);
}

/* Driver and card. If the write of the command to sysfs fails, the operation has not started. */

static char address[32];

static int call_bind(void) { return try_card_bind(address); }
static int call_unbind(void) { return try_card_unbind(address); }
static bool is_bound(void) { return card_is_bound(address); }

/*
 * Allocations that a probe can do without: devfreq, debugfs, and some of the kernel's core, such as names of interrupts
 * in /proc and the node in devtmpfs.
 */
static void check_bound(bool all) {
  struct drm_npu_status_info info;

  if (!all && access("/dev/accel/accel0", F_OK)) return;
  open_file();
  npu_status(fd, &info);
  run_nop(fd, ctx_create(fd));
  close(fd);
}

/* The parts of a probe, except where the kernel itself cannot handle a failure. */
static const struct {
  const char *function, *spared;
  unsigned step;
} parts[] = {
    /* DRM's unwinding dereferences an error pointer there (6.12 and 7.2). */
    {"__devm_drm_dev_alloc", "drm_sysfs_minor_alloc", 1},
    {"pcim_enable_device", NULL, 1},
    {"pcim_request_all_regions", NULL, 1},
    {"pcim_iomap", NULL, 1},
    {"devm_ioremap_wc", NULL, 1},
    {"qnpu_mmu_init", NULL, 1},
    {"qnpu_mem_init", NULL, 1},
    {"alloc_workqueue", NULL, 2},
    /* The kernel warns at the removal of /proc entries that it failed to create. The vectors are all alike. */
    {"qnpu_irq_init", "register_irq_proc", 9},
    {"qnpu_copy_init", NULL, 1},
    {"qnpu_debugfs_init", NULL, 3},
    {"qnpu_devfreq_init", NULL, 1},
    {"qnpu_hwmon_init", NULL, 2},
    {"drm_dev_register", NULL, 1},
    {"device_add_groups", NULL, 1},
};

static const char *only_part;
static unsigned stride = 1, phase; /* for probe and unbind: the step between allocations, and the first one */

/* Always the first one, and then every step-th, from the phase on. */
static unsigned next_nth(unsigned nth, unsigned step) {
  return nth == 1 && phase % step ? 1 + phase % step : nth + step;
}

static void probe_part(const char *function, unsigned step) {
  unsigned failed = 0, survived = 0, nth;
  bool hit = true;

  for (nth = 1; hit; nth = next_nth(nth, step)) {
    int ret;

    alloc_fail_nth(nth);
    ret = call_bind();
    hit = alloc_fail_end();
    if (ret && !hit) fail_msg("probe, %s, allocation %u not failed: %s", function, nth, strerror(-ret));
    failed += ret != 0;
    survived += !ret && hit;
    assert_int_equal(!ret, is_bound());
    if (ret) continue;
    check_bound(!hit);
    assert_int_equal(call_unbind(), 0);
  }
  printf("probe, %s: fewer than %u allocations, it failed %u times, and did without %u times\n", function, nth, failed,
         survived);
  assert_true(failed + survived > 0);
}

static void probing(void **state) {
  (void)state;
  snprintf(address, sizeof(address), "%s", card_address());
  assert_int_equal(call_unbind(), 0);
  for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
    if (only_part && strcmp(only_part, parts[i].function)) continue;
    alloc_fail_inside(parts[i].function, parts[i].spared);
    probe_part(parts[i].function, parts[i].step * stride);
    fflush(stdout);
  }
  alloc_fail_anywhere();
  assert_int_equal(call_bind(), 0);
  check_bound(true);
}

static void unbinding(void **state) {
  unsigned nth, failed = 0;
  bool hit = true;

  (void)state;
  snprintf(address, sizeof(address), "%s", card_address());
  kind_to_create = DRM_NPU_BO_CARD;
  for (nth = 1; hit; nth = next_nth(nth, stride)) {
    int ret;

    open_with_used_buffer();
    alloc_fail_nth(nth);
    ret = call_unbind();
    hit = alloc_fail_end();
    close(fd);
    failed += ret != 0;
    /* The write may fail. A successful one must be carried out. */
    assert_int_equal(ret != 0, is_bound());
    if (!ret) assert_int_equal(call_bind(), 0);
    check_bound(true);
  }
  printf("unbind: fewer than %u allocations, it failed %u times\n", nth, failed);
}

static int set_up(void **state) {
  (void)state;
  /* Code must be in the page cache, since reads from files would fail. */
  mlockall(MCL_CURRENT);
  return alloc_fail_begin() ? 0 : -1;
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(opening),  cmocka_unit_test(creating_buffers), cmocka_unit_test(using_buffers),
      cmocka_unit_test(contexts), cmocka_unit_test(submission),       cmocka_unit_test(eviction),
      cmocka_unit_test(sharing),  cmocka_unit_test(probing),          cmocka_unit_test(unbinding),
  };

  if (argc > 1) stride = (unsigned)atoi(argv[1]);
  if (argc > 2 && strcmp(argv[2], "-")) cmocka_set_test_filter(argv[2]);
  if (argc > 3) only_part = argv[3];
  if (getenv("NPU_SAMPLE")) phase = (unsigned)atoi(getenv("NPU_SAMPLE")) * stride / 10;
  return cmocka_run_group_tests_name("fail_nth", tests, set_up, NULL);
}
