/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef QNPU_CACHE_WATCH_H
#define QNPU_CACHE_WATCH_H

#include <linux/mutex.h>
#include <linux/ratelimit_types.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include <drm/npu_accel.h>

struct qnpu_device;
struct qnpu_file;
struct seq_file;

/* Reports that wait for being looked into, and that are kept for those who ask. */
#define QNPU_CACHE_RAW		256
#define QNPU_CACHE_KEPT		64

/** struct qnpu_cache_report - what the watch says, docs/reference/hardware.md section 10 */
struct qnpu_cache_report {
	/** @kind: NPU_WATCH_ */
	u32 kind;

	/** @bytes: from the first to the last one that is meant */
	u32 bytes;

	/** @addr: physical address of the first one */
	u64 addr;

	/** @va: the device's address of it; 0: it has none */
	u64 va;

	/** @asid: address space of that */
	u32 asid;

	/** @queue: whose job made the access */
	u32 queue;

	/** @job: that job; 0: none */
	u64 job;

	/** @command: of the job, or NPU_COMMAND_NONE */
	u32 command;

	/** @engine: core << 8 | NPU_ENGINE_ */
	u32 engine;

	/** @layer: tag of the command */
	u32 layer;

	/** @level: exception level of the processor */
	u32 level;

	/** @pc: its program counter, 0: unknown */
	u64 pc;

	/** @space: its table for user addresses */
	u64 space;
};

/** struct qnpu_cache_task - a process, as it was called when somebody looked */
struct qnpu_cache_task {
	/** @pid: its number; 0: not known */
	pid_t pid;

	/** @comm: its name, without white space */
	char comm[TASK_COMM_LEN];
};

/** enum qnpu_cache_place - whose memory it is */
enum qnpu_cache_place {
	/** @QNPU_CACHE_UNKNOWN: nobody's any more */
	QNPU_CACHE_UNKNOWN,

	/** @QNPU_CACHE_BUFFER: a buffer's */
	QNPU_CACHE_BUFFER,

	/** @QNPU_CACHE_RING: rings and descriptors of a queue */
	QNPU_CACHE_RING,

	/** @QNPU_CACHE_FENCE: the fence page of a context */
	QNPU_CACHE_FENCE,

	/** @QNPU_CACHE_TABLE: page tables */
	QNPU_CACHE_TABLE,
};

/** struct qnpu_cache_entry - a report with what the driver knows about it */
struct qnpu_cache_entry {
	/** @report: what the watch says */
	struct qnpu_cache_report report;

	/** @place: what is at the address; all up to @owner is of a buffer */
	enum qnpu_cache_place place;

	/** @handle: handle of the buffer in its owner's file; 0: it has none any more */
	u32 handle;

	/** @offset: in the buffer, or of other memory from its start */
	u64 offset;

	/** @size: of the buffer */
	u64 size;

	/** @owner: whose file the buffer is in */
	struct qnpu_cache_task owner;

	/** @task: who was on the processor */
	struct qnpu_cache_task task;

	/** @ctx: the owner's id of the context whose queue it is; 0: none any more */
	u32 ctx;
};

/** struct qnpu_cache_watch - the watch of a SoC whose caches are not coherent */
struct qnpu_cache_watch {
	/** @npu: device */
	struct qnpu_device *npu;

	/** @raw_lock: protects @raw, @first and @count; taken by interrupt handlers */
	spinlock_t raw_lock;

	/** @raw: ring of reports that @work has to look into */
	struct qnpu_cache_report raw[QNPU_CACHE_RAW];

	/** @first: the oldest one in @raw */
	u32 first;

	/** @count: how many are in @raw */
	u32 count;

	/** @work: looks into them */
	struct work_struct work;

	/** @kept_lock: protects all below */
	struct mutex kept_lock;

	/** @kept: ring of the last ones */
	struct qnpu_cache_entry kept[QNPU_CACHE_KEPT];

	/** @next: where in @kept the next one goes, counted on without end */
	u64 next;

	/** @shown: the oldest one in @kept that was not cleared, counted likewise */
	u64 shown;

	/** @limit: how often the log is written to */
	struct ratelimit_state limit;
};

int qnpu_cache_watch_init(struct qnpu_device *npu);
void qnpu_cache_watch_fini(struct qnpu_device *npu);
u32 qnpu_cache_watch_drain(struct qnpu_device *npu);
void qnpu_cache_watch_flush(struct qnpu_device *npu);
void qnpu_cache_watch_opened(struct qnpu_file *nfile);
void qnpu_cache_watch_closing(struct qnpu_file *nfile);
int qnpu_cache_watch_info(struct qnpu_device *npu, struct drm_npu_watch_info *info);
int qnpu_cache_watch_show(struct qnpu_device *npu, struct seq_file *m);
void qnpu_cache_watch_clear(struct qnpu_device *npu);

#endif
