/* SPDX-License-Identifier: MIT */
#ifndef _UAPI_NPU_ACCEL_H_
#define _UAPI_NPU_ACCEL_H_

#include "drm.h"

#if defined(__cplusplus)
extern "C" {
#endif

/*
 * User space interface of the qnpu accel driver.
 *
 * How it evolves: an ioctl number never changes its meaning. Structures grow only at the end (the
 * DRM core zero-extends shorter ones); new meaning comes by flags and query types. Every pad,
 * reserved field and unknown flag must be zero, otherwise the call fails with -EINVAL. Arrays are
 * passed as a user pointer, a count and the stride of an element, so that elements may grow, too.
 *
 * Addresses: each file has its own NPU address space. The kernel chooses a buffer's device address
 * when the buffer is created.
 *
 * Errors common to all calls: -EFAULT bad user pointer, -EINVAL bad argument, -ENOENT no such
 * handle or context, -ENODEV the card is gone.
 *
 * History
 * 1.0: the first version
 */

#define DRM_NPU_DEV_QUERY	0x00
#define DRM_NPU_BO_CREATE	0x01
#define DRM_NPU_BO_INFO		0x02
#define DRM_NPU_BO_SYNC		0x03
#define DRM_NPU_BO_SEAL		0x04
#define DRM_NPU_BO_WAIT		0x05
#define DRM_NPU_CTX_CREATE	0x06
#define DRM_NPU_CTX_DESTROY	0x07
#define DRM_NPU_CTX_QUERY	0x08
#define DRM_NPU_SUBMIT		0x09
#define DRM_NPU_WAIT		0x0a
#define DRM_NPU_BO_USERPTR	0x0b

/**
 * struct drm_npu_dev_query - ask about the device
 *
 * With a NULL @pointer the call only returns the size of the answer in @size. Otherwise min(@size,
 * size of the answer) bytes are copied and the rest of the user's buffer is zeroed.
 */
struct drm_npu_dev_query {
	/** @type: DRM_NPU_QUERY_ type */
	__u32 type;
	/** @size: in: bytes at @pointer; out: bytes of the answer */
	__u32 size;
	/** @pointer: user pointer to the answer, or 0 */
	__u64 pointer;
};

#define DRM_NPU_QUERY_DEV	0	/* struct drm_npu_dev_info */
#define DRM_NPU_QUERY_MEMORY	1	/* struct drm_npu_memory_info */
#define DRM_NPU_QUERY_STATUS	2	/* struct drm_npu_status_info */
#define DRM_NPU_QUERY_TIME	3	/* struct drm_npu_time_info */
#define DRM_NPU_QUERY_WATCH	4	/* struct drm_npu_watch_info */

#define DRM_NPU_BUS_PCI		0	/* a card */
#define DRM_NPU_BUS_PLATFORM	1	/* a block of a system on a chip; pci_ fields are 0 */

/*
 * The chip does not see what is in the processors' caches, nor they what it has written: system
 * buffers need DRM_IOCTL_NPU_BO_SYNC, or a mapping without caches. Elsewhere that call costs little
 * and changes nothing.
 */
#define DRM_NPU_INFO_NONCOHERENT	0x1

/** struct drm_npu_dev_info - what never changes while the device is bound */
struct drm_npu_dev_info {
	__u32 chip_id;		/* NPU_CHIP_ID */
	__u32 hw_version;
	__u32 isa_version;
	__u32 features;		/* NPU_FEATURE_ */
	__u32 cores;
	__u32 queues;		/* hardware queues for contexts, which share them */
	__u32 lmem_bytes;	/* of each core */
	__u32 clock_khz;
	__u64 ddr_bytes;	/* 0: no memory of its own, no card buffers */
	/* device addresses of buffers lie in [va_start, va_end), which no two devices share */
	__u64 va_start;
	__u64 va_end;
	__u32 max_regions;	/* regions of a job */
	__u32 max_jobs;		/* jobs of one submission */
	/* jobs that a context can have unfinished before a submission waits */
	__u32 max_in_flight;
	__u32 pci_domain;
	__u32 pci_bus;
	__u32 pci_device;
	__u32 pci_function;
	__u32 bus;		/* DRM_NPU_BUS_ */
	__u32 flags;		/* DRM_NPU_INFO_ */
	/* largest line of the processors' caches, bytes, where they are not coherent */
	__u32 cache_line;
};

/** struct drm_npu_memory_info - card memory and system memory in use, bytes */
struct drm_npu_memory_info {
	__u64 card_total;
	__u64 card_free;
	__u64 card_largest;	/* largest free block */
	/* card buffers of the asking file, also those that are in system memory at present */
	__u64 file_card;
	__u64 file_system;
	__u64 file_largest;	/* size of the asking file's largest buffer */
	__u64 file_card_max;	/* limit of file_card: -ENOSPC beyond it */
	__u64 file_evicted;	/* part of file_card that is in system memory at present */
	__u64 card_evicted;	/* the same of all files */
	__u64 evictions;	/* moves of buffers out of the card since the driver was bound */
};

#define DRM_NPU_MAX_CORES	8

/** struct drm_npu_status_info - sensors and counters */
struct drm_npu_status_info {
	__s32 temperature_mc;	/* thousandths of a degree Celsius */
	__u32 power_mw;
	__u32 voltage_mv;
	__u32 clock_khz;	/* present clock */
	__u32 ecc_corrected;
	__u32 ecc_uncorrected;
	__u32 resets;		/* device resets since the driver bound */
	__u32 core_busy;	/* mask of cores with a job */
	__u64 busy_cycles[DRM_NPU_MAX_CORES];	/* modelled cycles since reset */
	__u64 jobs[DRM_NPU_MAX_CORES];		/* jobs completed since reset */
	__u32 fan_rpm;
	__u32 core_resets;	/* resets of single cores since the driver bound */
	__u32 aborted_jobs;	/* jobs that the driver's watchdog has killed since then */
	/* times that the temperature limit was passed, either way, since then */
	__u32 thermal_events;
	/*
	 * Time in which a job was on the core, since reset, with the one that is there now. What it
	 * has grown by between two answers, divided by what card_ns has, is the core's utilisation.
	 */
	__u64 busy_ns[DRM_NPU_MAX_CORES];
	__u64 card_ns;		/* register TIME_NS when this was asked */
	__u32 files;		/* open files of the device, of all processes, this one included */
	/* times since then that the device was lost and came back with empty memory */
	__u32 losses;
	__u32 flags;		/* DRM_NPU_STATUS_ */
	__u32 pad;		/* 0 */
};

/*
 * The caller lacks CAP_PERFMON, and sees nothing of what others run but the time: core_busy,
 * busy_cycles and jobs are 0, and busy_ns has steps of 0.1 s.
 */
#define DRM_NPU_STATUS_COARSE	0x1

/**
 * struct drm_npu_time_info - the card's clock and the system's, looked at together
 *
 * The card's is the one of begin_ns and end_ns in profiles (struct npu_profile_header).
 */
struct drm_npu_time_info {
	__u64 card_ns;		/* register TIME_NS */
	__u64 monotonic_ns;	/* CLOCK_MONOTONIC half way between before that and after */
	__u64 window_ns;	/* how long it was from before to after */
};

#define DRM_NPU_WATCH_PRESENT	0x1	/* there is one; else all of the answer is 0 */
#define DRM_NPU_WATCH_ENABLED	0x2

/**
 * struct drm_npu_watch_info - what the cache watch of a SoC has counted since power-on: lines of 64
 * bytes whose maintenance was forgotten; see docs/reference/hardware.md section 10
 */
struct drm_npu_watch_info {
	__u32 flags;		/* DRM_NPU_WATCH_ */
	__u32 lost;		/* reports that found no room */
	__u32 uncleaned;	/* the chip read what a processor had not cleaned */
	__u32 stale;		/* a processor read what it had not invalidated */
	__u32 overwritten;	/* a line was cleaned, over what the chip had written */
	__u32 discarded;	/* a line was invalidated that was not cleaned */
};

/* for the card's DDR, mapped write-combined while it is there */
#define DRM_NPU_BO_CARD		0x1
#define DRM_NPU_BO_SYSTEM	0x2	/* place in system memory, mapped cached */

/**
 * struct drm_npu_bo_create - create a buffer, filled with zeros
 *
 * Exactly one of DRM_NPU_BO_CARD and DRM_NPU_BO_SYSTEM. A card buffer is on the card whenever a job
 * uses it; while it is idle it may be moved to system memory because others need the room, which
 * nobody but DRM_IOCTL_NPU_BO_INFO tells. One file can have as many card buffers as fit the card at
 * once. -ENOSPC: beyond that (DRM_NPU_QUERY_MEMORY has the figures); -ENOMEM: not enough system
 * memory or address space.
 */
struct drm_npu_bo_create {
	/** @size: in: bytes, not 0; out: rounded up to pages */
	__u64 size;
	/** @flags: DRM_NPU_BO_ flags */
	__u32 flags;
	/** @handle: out: GEM handle */
	__u32 handle;
	/** @va: out: device address */
	__u64 va;
	/** @mmap_offset: out: offset for mmap of the device node; see DRM_NPU_MMAP_WC */
	__u64 mmap_offset;
};

/*
 * Added to the offset of a system buffer: map it past the caches, write-combined, so that it needs
 * no DRM_IOCTL_NPU_BO_SYNC. What the caches hold of the buffer goes to memory in that moment; from
 * then on it is not to be written through other mappings. On a device that sees the caches
 * (DRM_NPU_INFO_NONCOHERENT is not set) the mapping is one like any other. -EINVAL for other
 * buffers: those of the card, imported ones, memory of processes.
 */
#define DRM_NPU_MMAP_WC		(1ull << 43)

/** struct drm_npu_bo_info - what a handle is */
struct drm_npu_bo_info {
	__u32 handle;
	/** @flags: out: DRM_NPU_BO_ flags and states */
	__u32 flags;
	__u64 size;		/* out */
	__u64 va;		/* out */
	__u64 mmap_offset;	/* out */
};

/* States, only in drm_npu_bo_info.flags */
#define DRM_NPU_BO_SEALED	0x100	/* constant, see DRM_IOCTL_NPU_BO_SEAL */
#define DRM_NPU_BO_EVICTED	0x200	/* for the card, but in system memory at the moment */
#define DRM_NPU_BO_IMPORTED	0x400	/* the memory belongs to the exporter of a dma-buf */
/* DRM_IOCTL_NPU_BO_USERPTR: the memory is that of a process */
#define DRM_NPU_BO_PINNED	0x800
#define DRM_NPU_BO_READONLY	0x1000	/* jobs may only read it */
/*
 * The device was lost and came back with empty memory: the contents are zeros. A job that names the
 * buffer fails with -ENODATA until the buffer is replaced: by DRM_IOCTL_NPU_BO_SYNC with
 * DRM_NPU_SYNC_TO_DEVICE for all of it, or by a job that writes all of it and does not read it.
 * Sealed buffers stay lost.
 */
#define DRM_NPU_BO_LOST		0x2000

#define DRM_NPU_SYNC_TO_DEVICE		0x1	/* the CPU wrote: make it visible to the chip */
#define DRM_NPU_SYNC_FROM_DEVICE	0x2	/* the chip wrote: make it visible to the CPU */

/**
 * struct drm_npu_bo_sync - cache maintenance of a range; waits for nobody
 *
 * Of exactly that range, but where the processors' cache lines (cache_line) reach beyond it: what
 * is beside the range in such a line must not be written by the one side while it is by the other.
 * Only that of a DRM_NPU_BO_IMPORTED buffer, which is its exporter's business, waits for jobs.
 */
struct drm_npu_bo_sync {
	__u32 handle;
	/** @direction: DRM_NPU_SYNC_ flags, at least one */
	__u32 direction;
	__u64 offset;
	/** @size: bytes; offset + size at most the buffer's size */
	__u64 size;
};

/* jobs only read; the memory may be read-only for the process, too */
#define DRM_NPU_USERPTR_READONLY	0x1

/**
 * struct drm_npu_bo_userptr - make a system buffer of memory of the calling process
 *
 * The pages behind the range at this moment are pinned, and are the buffer's until its end,
 * whatever becomes of the range. They count against RLIMIT_MEMLOCK of the process (VmPin; not with
 * CAP_IPC_LOCK). -EFAULT: part of the range is not mapped, or not with the access that is needed;
 * -EOPNOTSUPP: it cannot be pinned for long (mappings of devices, shared writable mappings of files
 * on disk); -ENOMEM: RLIMIT_MEMLOCK, or not enough memory. Such buffers cannot be mapped, sealed or
 * exported: -EOPNOTSUPP.
 */
struct drm_npu_bo_userptr {
	/** @addr: multiple of the page size */
	__u64 addr;
	/** @size: bytes, multiple of the page size, not 0 */
	__u64 size;
	/** @flags: DRM_NPU_USERPTR_ flags */
	__u32 flags;
	/** @handle: out: GEM handle */
	__u32 handle;
	/** @va: out: device address */
	__u64 va;
};

/**
 * struct drm_npu_bo_seal - make a buffer constant for the rest of its life
 *
 * What the CPU has written is visible to the chip then, without DRM_IOCTL_NPU_BO_SYNC.
 * CPU mappings are taken away (a later access is SIGBUS), mmap is refused with -EACCES, jobs may
 * only read. -EBUSY: a job that writes it is unfinished, or another device is attached to its
 * dma-buf. -EOPNOTSUPP: an imported buffer, or memory of a process. Sealing twice is no error.
 */
struct drm_npu_bo_seal {
	__u32 handle;
	__u32 pad;
};

#define DRM_NPU_BO_WAIT_WRITERS		0x1	/* only for the jobs that write it */

/** struct drm_npu_bo_wait - wait until no unfinished job uses a buffer; -ETIME */
struct drm_npu_bo_wait {
	__u32 handle;
	/** @flags: DRM_NPU_BO_WAIT_ flags */
	__u32 flags;
	/** @timeout_ns: absolute, CLOCK_MONOTONIC */
	__s64 timeout_ns;
};

#define DRM_NPU_PRIORITY_LOW		0
#define DRM_NPU_PRIORITY_NORMAL		1
#define DRM_NPU_PRIORITY_HIGH		2	/* needs CAP_SYS_NICE */
#define DRM_NPU_PRIORITY_REALTIME	3	/* needs CAP_SYS_NICE */

/**
 * struct drm_npu_ctx_create - create a context: a queue of jobs with an order of its own
 *
 * Jobs of a context begin and end in the order of their submission. A context has a queue of the
 * device while it has jobs; where more contexts have jobs than there are queues they take turns.
 * -EACCES: priority.
 */
struct drm_npu_ctx_create {
	__u32 priority;
	/** @core_mask: cores that its jobs may use, 0: all */
	__u32 core_mask;
	__u32 flags;		/* 0 */
	/** @ctx_id: out, not 0 */
	__u32 ctx_id;
	/**
	 * @fence_offset: out: mmap offset of the fence page (one page, read only, struct npu_fence
	 * at its start)
	 */
	__u64 fence_offset;
};

struct drm_npu_ctx_destroy {
	__u32 ctx_id;
	__u32 pad;
};

/*
 * Causes of the end of a job with status ABORTED or CORE_RESET. Later versions may add others.
 */
#define DRM_NPU_CAUSE_NONE	0	/* the job did not end so */
#define DRM_NPU_CAUSE_STALL	1	/* the watchdog saw no progress */
#define DRM_NPU_CAUSE_LIMIT	2	/* longer than the module's job_limit_ms */
#define DRM_NPU_CAUSE_RESET	3	/* the device was reset from outside of the driver */
#define DRM_NPU_CAUSE_RECOVERY	4	/* the driver has recovered it from another failure */
#define DRM_NPU_CAUSE_BUS	5	/* the device's bus has failed */
#define DRM_NPU_CAUSE_SLEEP	6	/* the system went to sleep, and the job did not end */
#define DRM_NPU_CAUSE_DESTROYED	7	/* its context was destroyed */
#define DRM_NPU_CAUSE_LOST	8	/* the device is gone */

/** struct drm_npu_fault - what went wrong with a job; all zero for a job that did not fail */
struct drm_npu_fault {
	__u64 seqno;
	__u64 offset;		/* see NPU_STATUS_ in hw/npu_regs.h */
	__u64 fault_addr;	/* device address */
	__u32 status;		/* NPU_STATUS_ */
	__u32 engine;		/* NPU_ENGINE_ */
	__u32 core;
	__u32 command;		/* index in its stream, ~0u: none */
	__u32 region;		/* index in the job's regions, 0xff local memory, 0x1ff none */
	__u32 access;		/* DRM_NPU_REGION_ flags of the failing access */
	__u32 bytes;		/* size of the failing access */
	__u32 cause;		/* DRM_NPU_CAUSE_ */
};

/** struct drm_npu_ctx_query - state of a context */
struct drm_npu_ctx_query {
	__u32 ctx_id;
	__u32 pad;
	__u64 submitted;	/* out: seqno of the last submitted job */
	__u64 completed;	/* out: seqno up to which all jobs are finished */
	__u64 errors;		/* out: jobs that failed through their own fault */
	/* out: innocent jobs lost to a reset, or cancelled for a failed in-fence */
	__u64 victims;
	/** @fault: out: the last failure */
	struct drm_npu_fault fault;
};

#define DRM_NPU_REGION_READ	0x1
#define DRM_NPU_REGION_WRITE	0x2

/** struct drm_npu_region - a part of a buffer that a job's commands address as (region, offset) */
struct drm_npu_region {
	__u32 handle;
	__u32 access;		/* DRM_NPU_REGION_ flags, at least one */
	__u64 offset;
	__u64 size;		/* not 0; offset + size at most the buffer's size */
};

/**
 * struct drm_npu_stream - the two command streams of one core; a stream with count 0 has region and
 * offset 0
 */
struct drm_npu_stream {
	__u32 tiu_region;	/* index in the job's regions, readable */
	__u32 gdma_region;
	__u32 tiu_count;	/* commands */
	__u32 gdma_count;
	__u64 tiu_offset;	/* bytes from the region's start, multiple of 128 */
	__u64 gdma_offset;
};

/** struct drm_npu_sync - a syncobj; point 0 for a binary one */
struct drm_npu_sync {
	__u32 handle;
	__u32 flags;		/* 0 */
	__u64 point;
};

#define DRM_NPU_JOB_EXPLICIT	0x1	/* no implicit fences: only in_syncs order this job */

/**
 * struct drm_npu_job - one job
 *
 * It starts when all in_syncs and, unless DRM_NPU_JOB_EXPLICIT, the implicit fences of its buffers
 * have signalled. If one of the in_syncs carries an error the job does not run and ends with
 * -ECANCELED. A point of a timeline carries the error of its own fence, until a later point of the
 * same timeline has signalled: the syncobj does not keep earlier ones. The job's own fence carries
 * the job's error.
 */
struct drm_npu_job {
	__u64 regions;			/* user pointer to struct drm_npu_region */
	/*
	 * user pointer to struct drm_npu_stream, one a core; stream i is for the i-th lowest of the
	 * job's cores
	 */
	__u64 streams;
	__u64 in_syncs;			/* user pointer to struct drm_npu_sync */
	__u64 out_syncs;		/* user pointer to struct drm_npu_sync */
	__u32 region_count;
	__u32 region_stride;
	/*
	 * cores that the job takes, all at once: 1 to those in its mask; more than 1 need
	 * NPU_FEATURE_GANG
	 */
	__u32 stream_count;
	__u32 stream_stride;
	__u32 in_sync_count;
	__u32 out_sync_count;
	__u32 sync_stride;		/* of both arrays */
	__u32 flags;			/* DRM_NPU_JOB_ flags */
	__u32 core_mask;		/* within the context's; 0: that */
	__u32 profile_region;		/* index of a writable region, if profile_bytes is not 0 */
	__u64 profile_offset;
	__u32 profile_bytes;		/* 0: no profile */
	__u32 pad;
	__u64 budget;			/* modelled cycles; 0 and more: the driver's limit */
	__u64 seqno;			/* out: this job's number in its context, from 1 */
};

/**
 * struct drm_npu_submit - submit jobs to a context
 *
 * The out_syncs of all its jobs have at most 256 points of timelines; binary ones do not count.
 * All jobs are checked before the first is queued; a failing call has queued nothing, unless the
 * memory of @jobs becomes unwritable meanwhile (-EFAULT). Blocks while the context has
 * max_in_flight unfinished jobs (-EINTR on a signal). -ECANCELED: the context is being destroyed.
 */
struct drm_npu_submit {
	__u32 ctx_id;
	__u32 flags;		/* 0 */
	__u64 jobs;		/* user pointer to struct drm_npu_job, written back */
	__u32 job_count;
	__u32 job_stride;
};

/**
 * struct drm_npu_uring_submit - the submission through io_uring: the cmd field of an
 * IORING_OP_URING_CMD whose cmd_op is DRM_NPU_URING_SUBMIT
 *
 * The completion comes when all jobs of the submission are finished; its result is the first error
 * that a job's fence carries, or 0. If the submission itself fails it comes at once, with what the
 * ioctl would return. The memory at @submit and all that it leads to belongs to the kernel until
 * the completion; then the numbers of the jobs stand in it, as with the ioctl.
 *
 * The submitter never waits: where the context is full or a lock is taken, a worker of io_uring
 * submits, and requests to the same context may overtake each other then. The end of the ring, and
 * execve() of the task that submitted, complete the request with -ECANCELED (-EINTR where a worker
 * waited); jobs that were submitted go on.
 */
struct drm_npu_uring_submit {
	__u64 submit;		/* user pointer to struct drm_npu_submit */
	__u32 flags;		/* 0 */
	__u32 pad;
};

/**
 * struct drm_npu_wait - wait for a job of a context
 *
 * Returns 0 when the job is finished, whatever its result, -ETIME when it is not by @timeout_ns,
 * -EINVAL for a @seqno that was not submitted yet. Cycles and error are remembered for the last 256
 * jobs of a context, the fault for the last 32 that failed; for older jobs known is 0.
 */
struct drm_npu_wait {
	__u32 ctx_id;
	__u32 pad;
	__u64 seqno;
	/** @timeout_ns: absolute, CLOCK_MONOTONIC */
	__s64 timeout_ns;
	__u64 cycles;		/* out: modelled cycles */
	__s32 error;		/* out: 0, or the negative errno that the job's fence carries */
	__u32 known;		/* out: 1 if cycles, error and fault are valid */
	struct drm_npu_fault fault;	/* out */
};

#define DRM_IOCTL_NPU_DEV_QUERY \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_NPU_DEV_QUERY, struct drm_npu_dev_query)
#define DRM_IOCTL_NPU_BO_CREATE \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_NPU_BO_CREATE, struct drm_npu_bo_create)
#define DRM_IOCTL_NPU_BO_INFO \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_NPU_BO_INFO, struct drm_npu_bo_info)
#define DRM_IOCTL_NPU_BO_SYNC \
	DRM_IOW(DRM_COMMAND_BASE + DRM_NPU_BO_SYNC, struct drm_npu_bo_sync)
#define DRM_IOCTL_NPU_BO_SEAL \
	DRM_IOW(DRM_COMMAND_BASE + DRM_NPU_BO_SEAL, struct drm_npu_bo_seal)
#define DRM_IOCTL_NPU_BO_WAIT \
	DRM_IOW(DRM_COMMAND_BASE + DRM_NPU_BO_WAIT, struct drm_npu_bo_wait)
#define DRM_IOCTL_NPU_CTX_CREATE \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_NPU_CTX_CREATE, struct drm_npu_ctx_create)
#define DRM_IOCTL_NPU_CTX_DESTROY \
	DRM_IOW(DRM_COMMAND_BASE + DRM_NPU_CTX_DESTROY, struct drm_npu_ctx_destroy)
#define DRM_IOCTL_NPU_CTX_QUERY \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_NPU_CTX_QUERY, struct drm_npu_ctx_query)
#define DRM_IOCTL_NPU_SUBMIT \
	DRM_IOW(DRM_COMMAND_BASE + DRM_NPU_SUBMIT, struct drm_npu_submit)
#define DRM_IOCTL_NPU_WAIT \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_NPU_WAIT, struct drm_npu_wait)
#define DRM_IOCTL_NPU_BO_USERPTR \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_NPU_BO_USERPTR, struct drm_npu_bo_userptr)

/* cmd_op of IORING_OP_URING_CMD; not an ioctl */
#define DRM_NPU_URING_SUBMIT \
	DRM_IOW(DRM_COMMAND_BASE + DRM_NPU_SUBMIT, struct drm_npu_uring_submit)

#if defined(__cplusplus)
}
#endif

#endif /* _UAPI_NPU_ACCEL_H_ */
