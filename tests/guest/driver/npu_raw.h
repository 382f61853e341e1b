/* SPDX-License-Identifier: MIT */
/*
 * Raw ioctls for the driver's tests: no libnpu between the test and the driver.
 *
 * Functions whose name begins with raw_ return what the kernel said, 0 or a negative errno. The others are
 * for things that have to work: they end the test when they do not.
 */
#ifndef NPU_RAW_H
#define NPU_RAW_H

#include <npu_accel.h>
#include <npu_isa.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Long enough for any job of a test on a busy host. */
#define FOREVER_MS 120000
#define KIB(n) ((uint64_t)(n) << 10)
#define MIB(n) ((uint64_t)(n) << 20)

int raw_ioctl(int fd, unsigned long request, void *arg);

int npu_open(void);
bool npu_try_open(int *fd);
/* The device in sysfs, by an open node: its name on its bus, and the path of one of its files. */
void device_name(int fd, char *name, size_t size);
void device_path(int fd, const char *file, char *path, size_t size);
void npu_info(int fd, struct drm_npu_dev_info *info);
void npu_time(int fd, struct drm_npu_time_info *info);
void npu_memory(int fd, struct drm_npu_memory_info *info);
/* Finished jobs and closed files let go of their buffers a moment later: the figures when they have stopped changing,
 * and what is waited for. */
void npu_status(int fd, struct drm_npu_status_info *info);
void wait_cores_busy(int fd); /* until each core has a job */
void npu_memory_settled(int fd, struct drm_npu_memory_info *info);
void expect_card_free(int fd, uint64_t bytes);

/* Buffers */
struct bo {
  uint32_t handle;
  uint64_t size;
  uint64_t va;
  uint64_t mmap_offset;
  uint8_t *map; /* NULL until bo_map() */
};

/* Is the device a card, does it have memory of its own, and does it see the processors' caches? */
bool is_card(int fd);
bool has_card_memory(int fd);
bool is_coherent(int fd);
/* Replaces DRM_NPU_BO_CARD by _SYSTEM on a device without memory, for tests that work with either. */
uint32_t bo_place(int fd, uint32_t flags);
int raw_bo_create(int fd, uint64_t size, uint32_t flags, struct bo *bo);
int raw_gem_close(int fd, uint32_t handle);
int raw_bo_seal(int fd, uint32_t handle);
void bo_create(int fd, uint64_t size, uint32_t flags, struct bo *bo);
void bo_map(int fd, struct bo *bo);
uint8_t *bo_map_cached(int fd, const struct bo *bo);
void bo_create_mapped(int fd, uint64_t size, uint32_t flags, struct bo *bo);
void bo_unmap(struct bo *bo);
void bo_destroy(int fd, struct bo *bo);
void bo_sync(int fd, const struct bo *bo, uint32_t direction);
/* Cache maintenance of cached mappings: clean before the device reads, invalidate before the CPU reads. Without effect
 * on coherent devices, which must not need it. */
void bo_clean(int fd, const struct bo *bo);
void bo_invalidate(int fd, const struct bo *bo);

/* Contexts */
int raw_ctx_create(int fd, struct drm_npu_ctx_create *args);
int raw_ctx_destroy(int fd, uint32_t id);
uint32_t ctx_create(int fd);
void ctx_destroy(int fd, uint32_t id);
void ctx_query(int fd, uint32_t id, struct drm_npu_ctx_query *query);

/* Commands, written one after the other to a buffer */
struct stream {
  struct bo bo;
  uint32_t count;
};

void stream_create(int fd, uint64_t commands, struct stream *stream);
void stream_destroy(int fd, struct stream *stream);
void *stream_next(struct stream *stream); /* zeroed command */
void stream_nop(struct stream *stream, uint32_t wait);
void stream_fill(struct stream *stream, uint8_t region, uint64_t offset, uint32_t bytes, uint8_t value);
void stream_copy(struct stream *stream, uint8_t from, uint64_t from_offset, uint8_t to, uint64_t to_offset,
                 uint32_t bytes);
/* A copy that moves the same byte of a region again and again for about so long. */
void stream_slow_copy(struct stream *stream, uint8_t region, uint32_t ms);
/* Finds out how fast this board does that; to be called once, before the first slow copy. */
void calibrate(int fd, uint32_t ctx);

/* Jobs */
#define JOB_MAX_SYNCS 8
struct job {
  struct drm_npu_job args;
  struct drm_npu_region regions[NPU_MAX_REGIONS];
  struct drm_npu_stream stream;
  struct drm_npu_sync in[JOB_MAX_SYNCS];
  struct drm_npu_sync out[JOB_MAX_SYNCS];
};

void job_init(struct job *job);
uint32_t job_region(struct job *job, const struct bo *bo, uint32_t access);
/* A job of one slow copy; makes the stream, and the buffer that is its region 0. */
void job_slow(int fd, uint32_t ms, struct stream *stream, struct bo *bo, struct job *job);
void job_gdma(struct job *job, const struct stream *stream); /* adds the stream as a region and runs it */
void job_tiu(struct job *job, const struct stream *stream);
void job_in(struct job *job, uint32_t syncobj, uint64_t point);
void job_out(struct job *job, uint32_t syncobj, uint64_t point);

int raw_submit(int fd, uint32_t ctx, struct job *job);
uint64_t submit(int fd, uint32_t ctx, struct job *job); /* number of the job */
int raw_wait(int fd, uint32_t ctx, uint64_t seqno, int64_t ms, struct drm_npu_wait *wait);
void wait_result(int fd, uint32_t ctx, uint64_t seqno, struct drm_npu_wait *wait);
void wait_ok(int fd, uint32_t ctx, uint64_t seqno);
void run_ok(int fd, uint32_t ctx, struct job *job);
void run_nop(int fd, uint32_t ctx); /* the whole line still works */
int raw_fill(int fd, uint32_t ctx, const struct bo *bo,
             uint8_t value); /* a job fills all of it: how it ended, or was not submitted */
bool is_filled(const uint8_t *p, uint64_t size, uint8_t value);

/* Over a socket; send_fd() is for children: it ends the process where it fails. */
void send_fd(int socket, int file);
int receive_fd(int socket);

/* A value of a file's /proc/self/fdinfo, without its unit. */
unsigned long long fdinfo_number(int fd, const char *key);

/* Syncobjs */
uint32_t syncobj_create(int fd);
void syncobj_destroy(int fd, uint32_t handle);
int raw_syncobj_wait(int fd, uint32_t handle, uint64_t point, int64_t ms);
/* Waits for the fence of a syncobj, through a sync file. Returns 0, 1 if it does not signal, or its error. */
int syncobj_status(int fd, uint32_t handle);

int64_t deadline_ns(int64_t ms);
int64_t now_ms(void);
#define DEFAULT_BUDGET_MS 10000                       /* budget_ms */
void set_parameter(const char *name, unsigned value); /* of the module */

#endif
