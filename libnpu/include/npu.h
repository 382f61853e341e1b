/* SPDX-License-Identifier: MIT */
#ifndef NPU_H
#define NPU_H

/*
 * libnpu: devices, buffers, contexts, jobs. A thin layer over the qnpu accel driver (transport "drm") or over the chip
 * model in this process (transport "sim"); NPU_DEVICE=drm|sim|auto chooses, auto takes sim only where the machine has
 * no accel node of this driver, and says so once on standard error unless NPU_QUIET=1. NPU_REQUIRE=drm and
 * npu_require_transport() make that an error.
 *
 * Errors: functions that return int return 0 or a negative errno value; npu_last_error() then has a text for the
 * calling thread that names what, where and what was expected. Nothing aborts, nothing else prints unless NPU_LOG or
 * npu_set_log() asks for it. Threads: everything may be called by any number of threads at once, except that an object
 * must not be destroyed while another thread uses it. Ownership: objects are reference counted where a _ref function
 * exists; a device outlives its buffers and contexts by itself. NULL is allowed in every _close, _unref and _destroy.
 */

#include <stddef.h>
#include <stdint.h>

/* libdrm's headers use what C11 brought: structures without a name. */
#if defined(__GNUC__) && !defined(__cplusplus)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#endif
#include <npu_accel.h>
#if defined(__GNUC__) && !defined(__cplusplus)
#pragma GCC diagnostic pop
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define NPU_API __attribute__((visibility("default")))

typedef struct npu_device npu_device;
typedef struct npu_bo npu_bo;
typedef struct npu_context npu_context;

/* ---- errors and news ---- */

/* Text of the calling thread's last failed call; "" if none failed yet. Valid until the thread's next failing call. */
NPU_API const char *npu_last_error(void);

#define NPU_LOG_DEBUG 0
#define NPU_LOG_INFO 1
#define NPU_LOG_WARNING 2
#define NPU_LOG_ERROR 3
#define NPU_LOG_OFF 4

/* One line, without newline. */
typedef void (*npu_log_fn)(void *arg, int level, const char *text);

/* Lines of at least `level` go to fn (NULL: standard error). Default: NPU_LOG_OFF, or the environment's
 * NPU_LOG=debug|info|warning|error. */
NPU_API void npu_set_log(int level, npu_log_fn fn, void *arg);

/* ---- devices ---- */

/* Number of devices, 0 if there are none; negative: a device node exists but cannot be opened (-EACCES), or NPU_DEVICE
 * is wrong (-EINVAL). */
NPU_API int npu_device_count(void);

/*
 * Opens device `index`. Within a process all opens of one index share one device file, hence one address space; close
 * as often as opened. -ENODEV: no such device. The sim transport takes its properties from
 * NPU_SIM="cores=2,lmem=8M,ddr=2G,queues=64,backend=auto", all optional; without ddr a card has half of the host's
 * memory, rounded down to a power of two, from 512 MiB to 64 GiB; several cards share that half. NPU_CACHE=strict
 * reports each forgotten npu_bo_sync(), also where the CPU's caches are coherent; NPU_CACHE=abort ends the process at
 * the first one (docs/reference/libnpu.md, "Cache").
 */
NPU_API int npu_device_open(unsigned int index, npu_device **device);
NPU_API npu_device *npu_device_ref(npu_device *device);
NPU_API void npu_device_close(npu_device *device);

/*
 * The only transport that this process may use from now on, "drm" or "sim"; NULL: what NPU_DEVICE chooses. NPU_REQUIRE
 * of the environment says the same, and where both say something, both hold. `auto` then takes the required transport,
 * or there is no device (-ENODEV); an NPU_DEVICE that names the other one is -EINVAL in npu_device_count() and
 * npu_device_open(). -EINVAL: neither of these names; -EBUSY: a device of the other transport is open.
 */
NPU_API int npu_require_transport(const char *name);

/* "drm" or "sim". */
NPU_API const char *npu_device_transport(const npu_device *device);

/*
 * What the device knows of itself: fills the first `bytes` of the answer to DRM_NPU_QUERY_..., and zeroes what goes
 * beyond it, so that programs and libraries that were built with different versions of the structures understand each
 * other. -EINVAL: no such query.
 */
NPU_API int npu_device_query(npu_device *device, uint32_t query, void *answer, size_t bytes);

static inline int npu_device_info(npu_device *device, struct drm_npu_dev_info *info) {
  return npu_device_query(device, DRM_NPU_QUERY_DEV, info, sizeof(*info));
}
static inline int npu_device_memory(npu_device *device, struct drm_npu_memory_info *info) {
  return npu_device_query(device, DRM_NPU_QUERY_MEMORY, info, sizeof(*info));
}
static inline int npu_device_status(npu_device *device, struct drm_npu_status_info *info) {
  return npu_device_query(device, DRM_NPU_QUERY_STATUS, info, sizeof(*info));
}
static inline int npu_device_time(npu_device *device, struct drm_npu_time_info *info) {
  return npu_device_query(device, DRM_NPU_QUERY_TIME, info, sizeof(*info));
}
/* All zero where there is no cache watch. */
static inline int npu_device_watch(npu_device *device, struct drm_npu_watch_info *info) {
  return npu_device_query(device, DRM_NPU_QUERY_WATCH, info, sizeof(*info));
}

/*
 * Utilisation of a core between two answers of npu_device_status(): the share of that time in which a job was on the
 * core, a whole percentage from 0 to 100, rounded down. A device's is the mean of its cores'. -1: not known, since no
 * time has passed. A reset of the device in between lets its counters begin again.
 */
static inline int npu_utilisation(const struct drm_npu_status_info *before, const struct drm_npu_status_info *after,
                                  unsigned int core) {
  if (core >= DRM_NPU_MAX_CORES || after->card_ns <= before->card_ns) return -1;
  const uint64_t passed = after->card_ns - before->card_ns, now = after->busy_ns[core];
  const uint64_t busy = now < before->busy_ns[core] ? now : now - before->busy_ns[core];
  return busy < passed ? (int)(100.0 * (double)busy / (double)passed) : 100;
}

/* ---- buffers ---- */

/*
 * Creates a zeroed buffer; size in bytes is rounded up to pages; flags: exactly one of DRM_NPU_BO_CARD,
 * DRM_NPU_BO_SYSTEM. A device without memory of its own (a block in a SoC) gives system memory for both;
 * npu_bo_flags() says so. -ENOSPC, -ENOMEM: the text says requested, free and largest block. A buffer is freed when its
 * last reference is gone and no job uses it.
 */
NPU_API int npu_bo_create(npu_device *device, uint64_t size, uint32_t flags, npu_bo **bo);
NPU_API npu_bo *npu_bo_ref(npu_bo *bo);
NPU_API void npu_bo_unref(npu_bo *bo);
NPU_API uint64_t npu_bo_size(const npu_bo *bo);
NPU_API uint32_t npu_bo_flags(const npu_bo *bo);
/* Device address, page aligned, fixed for the buffer's life, never 0. Devices have no address in common. */
NPU_API uint64_t npu_bo_address(const npu_bo *bo);
NPU_API npu_device *npu_bo_device(const npu_bo *bo);

/* The buffer of the device that contains an address, with a new reference, and the offset in it. -ENOENT: no buffer of
 * this process contains it, or one of another device, which the text names. */
NPU_API int npu_bo_find(npu_device *device, uint64_t address, npu_bo **bo, uint64_t *offset);

/* Maps the whole buffer, read-write. Mappings are counted: the first maps, the last unmap unmaps, equal pointers
 * meanwhile. -EACCES: sealed. */
NPU_API int npu_bo_map(npu_bo *bo, void **ptr);
NPU_API void npu_bo_unmap(npu_bo *bo);

/* Cache maintenance of [offset, offset + size): direction DRM_NPU_SYNC_TO_DEVICE after CPU writes,
 * DRM_NPU_SYNC_FROM_DEVICE before CPU reads. */
NPU_API int npu_bo_sync(npu_bo *bo, uint64_t offset, uint64_t size, uint32_t direction);
/* Constant for the rest of its life: no CPU mapping any more, jobs only read it. -EBUSY: a job that writes it is
 * unfinished. */
NPU_API int npu_bo_seal(npu_bo *bo);
/* Waits until no unfinished job uses the buffer. timeout_ns is relative, negative: for ever. -ETIME. */
NPU_API int npu_bo_wait(npu_bo *bo, int64_t timeout_ns);

/* ---- contexts and jobs ---- */

/*
 * priority DRM_NPU_PRIORITY_, core_mask 0: all cores. -ENOSPC: all queues of the simulated card are taken, one for each
 * context; the driver's contexts share those of the card.
 */
NPU_API int npu_context_create(npu_device *device, uint32_t priority, uint32_t core_mask, npu_context **context);
/* Unfinished jobs are aborted. */
NPU_API void npu_context_destroy(npu_context *context);
/* Submitted, completed, errors, last fault. */
NPU_API int npu_context_state(npu_context *context, struct drm_npu_ctx_query *state);

struct npu_job_region {
  npu_bo *bo;
  uint64_t offset; /* any alignment */
  uint64_t size;   /* not 0 */
  uint32_t access; /* DRM_NPU_REGION_ flags */
  uint32_t reserved;
};

/* A job of a context of the same device. */
struct npu_job_fence {
  npu_context *context;
  uint64_t seqno;
};

struct npu_job_desc {
  const struct npu_job_region *regions;
  const struct drm_npu_stream *streams;
  const struct npu_job_fence
      *in_fences; /* jobs that must have finished without error; else this one ends with -ECANCELED */
  uint32_t region_count;
  uint32_t stream_count;
  uint32_t in_fence_count;
  uint32_t flags;          /* DRM_NPU_JOB_ flags */
  uint32_t core_mask;      /* 0: the context's */
  uint32_t profile_region; /* if profile_bytes is not 0 */
  uint64_t profile_offset;
  uint64_t budget; /* modelled cycles, 0: the driver's default */
  uint32_t profile_bytes;
  uint32_t reserved;
};

/*
 * Submits jobs in order; *seqno is the number of the last one (they are consecutive). Everything passed may be reused
 * at once; the buffers are kept alive by the job. Blocks while too many jobs of the context are unfinished. A failing
 * call has submitted nothing. -EBUSY: an npu_async has unfinished launches in the context.
 */
NPU_API int npu_submit(npu_context *context, const struct npu_job_desc *jobs, unsigned int count, uint64_t *seqno);

struct npu_result {
  int32_t error;   /* 0, or the negative errno with which the job ended */
  uint32_t known;  /* cycles, error and fault are valid (kept for the last 256 jobs of a context) */
  uint64_t cycles; /* modelled cycles */
  struct drm_npu_fault fault;
};

/*
 * Waits until job seqno of the context is finished: 0, or -ETIME (timeout_ns is relative, 0: just look, negative: for
 * ever). Whether the job failed stands in result (may be NULL); the text of npu_last_error() is not touched by a failed
 * job: npu_describe_fault() makes one.
 */
NPU_API int npu_wait(npu_context *context, uint64_t seqno, int64_t timeout_ns, struct npu_result *result);

/* One line like "TIU command 17, region 3, offset 0x8000 size 0x100 beyond the region". Returns the length as snprintf
 * does. */
NPU_API int npu_describe_fault(const struct drm_npu_fault *fault, char *text, size_t bytes);

/* ---- asynchronous launches: thousands in flight from one thread, completed by callback, by poll, or in a coroutine
 * (npu_async.hpp) ---- */

/*
 * A queue of launches and their completions. Launches of all contexts go to the card in the order of their submission;
 * what does not fit a context waits in the queue, and so does all behind it: contexts that must not wait for each other
 * get a queue each. It grows as long as there is memory. A queue submits through io_uring where the kernel can do that,
 * else by threads of its own, with the same behaviour.
 *
 * Threads: as everywhere, any number of threads may submit and process. Callbacks run in npu_async_process() and
 * npu_async_destroy() only, in the thread that called, without a lock held; they may submit, process and destroy. While
 * one thread processes, callbacks of a context come in the order of submission. Ownership: a queue keeps its device,
 * and the buffers of its unfinished launches. Contexts may be destroyed at any time, launches that are not finished
 * then end with -ECANCELED. While a queue has unfinished launches in a context (the callback has not been called),
 * npu_submit() to this context and launches by other queues are -EBUSY. After fork() a queue is the parent's: in the
 * child its calls fail with -EINVAL, and npu_async_destroy() does nothing.
 */
typedef struct npu_async npu_async;

#define NPU_ASYNC_AUTO 0    /* NPU_ASYNC=uring|threads of the environment, else io_uring where it works */
#define NPU_ASYNC_URING 1   /* io_uring or an error */
#define NPU_ASYNC_THREADS 2 /* a thread for each context in use */

/* How a launch ended. */
struct npu_completion {
  npu_context *context; /* of npu_async_submit(); for comparing only, if it has been destroyed */
  uint64_t seqno;       /* number of its last job, 0 if it was not submitted */
  uint32_t count;       /* its jobs */
  int32_t error; /* 0; why it was not submitted (npu_last_error() has the text during the callback); or the first error
                    of its jobs */
  struct drm_npu_fault fault; /* of that job, all zero if none is known */
};

/* Called once for every launch that npu_async_submit() accepted, whatever happens. The completion is valid during the
 * call. */
typedef void (*npu_async_fn)(void *arg, const struct npu_completion *completion);

/* how: NPU_ASYNC_. -EOPNOTSUPP: NPU_ASYNC_URING, and kernel or transport cannot do it (the text says what is missing);
 * -EINVAL: no such way. */
NPU_API int npu_async_create(npu_device *device, uint32_t how, npu_async **async);

/*
 * Ends the queue without waiting for jobs: callbacks of launches that are not finished are called now, with -ECANCELED.
 * Jobs that were given to the card already go on, and keep their buffers; npu_bo_wait() waits for them. Launches that
 * callbacks submit meanwhile are refused with -ECANCELED.
 */
NPU_API void npu_async_destroy(npu_async *async);

/* "io_uring" or "threads". */
NPU_API const char *npu_async_backend(const npu_async *async);

/*
 * Submits jobs of one context as npu_submit() does, without ever waiting for the card; fn (may be NULL) is called when
 * they are finished. Everything passed may be reused at once. Contexts that in-fences name must exist until then. What
 * is wrong with the jobs, and what the driver refuses, comes as the result of the completion. -EBUSY: the context is in
 * use by npu_submit() in another thread, or by another queue; -ECANCELED: the queue is being destroyed; -EINVAL: no
 * jobs, a context of another device; after an error there is no callback.
 */
NPU_API int npu_async_submit(npu_async *async, npu_context *context, const struct npu_job_desc *jobs,
                             unsigned int count, npu_async_fn fn, void *arg);

/*
 * Waits until a launch is finished, then calls the callbacks of those that are, at most `max` (0: all that are there
 * now), and gives the card what had to wait. Returns the number of callbacks called: 0 if timeout_ns (relative, 0: do
 * not wait, negative: for ever) has passed, or at once if no launch is unfinished. Launches that wait for room in their
 * context make progress in this call only.
 */
NPU_API int npu_async_process(npu_async *async, unsigned int max, int64_t timeout_ns);

/* Launches whose callback has not been called yet. */
NPU_API uint64_t npu_async_unfinished(const npu_async *async);

/*
 * For poll(), select() and epoll: readable as long as npu_async_process() has something to do; now and then that is no
 * callback. It belongs to the queue, which alone reads and closes it. With io_uring, epoll_wait() in a thread that has
 * submitted can return EINTR, as after a signal.
 */
NPU_API int npu_async_fd(const npu_async *async);

/* ---- copies; synchronous; any alignment; through the card's DMA and a pinned staging buffer where that is faster ----
 */

/* Between a buffer and the process, or between two buffers of one device; ranges of one buffer may overlap. A copy
 * waits for the jobs that were submitted before it and use the buffers. -EACCES: the buffer to be written is sealed. */
NPU_API int npu_write(npu_bo *bo, uint64_t offset, const void *data, uint64_t size);
NPU_API int npu_read(npu_bo *bo, uint64_t offset, void *data, uint64_t size);
NPU_API int npu_copy(npu_bo *dst, uint64_t dst_offset, npu_bo *src, uint64_t src_offset, uint64_t size);
/* Fills with a repeated value of value_bytes (1, 2, 4 or 8) bytes; size is a multiple of it. */
NPU_API int npu_fill(npu_bo *bo, uint64_t offset, uint64_t size, uint64_t value, unsigned int value_bytes);

#ifdef __cplusplus
}
#endif

#endif /* NPU_H */
