// SPDX-License-Identifier: GPL-2.0-only
/*
 * Dumps of failed jobs; docs/reference/uapi.md describes the text, tools/npu-dump shows it. A job
 * that the watchdog kills is dumped on its core, one that fails by itself is dumped by a work.
 */
#include <linux/devcoredump.h>
#include <linux/highmem.h>
#include <linux/module.h>
#include <linux/ratelimit.h>
#include <linux/sched/mm.h>
#include <linux/sizes.h>
#include <linux/timekeeping.h>
#include <linux/utsname.h>
#include <linux/vmalloc.h>

#include <drm/drm_print.h>
#include <drm/ttm/ttm_tt.h>

#include "qnpu_coredump.h"
#include "qnpu_ctx.h"
#include "qnpu_device.h"
#include "qnpu_gem.h"
#include "qnpu_job.h"
#include "qnpu_mem.h"
#include "qnpu_pages.h"
#include "qnpu_userptr.h"
#include "qnpu_vm.h"

#define QNPU_COREDUMP_VERSION	1	/* incremented when lines change their meaning */
#define QNPU_COREDUMP_BYTES	SZ_256K	/* largest dump; less if memory is short */
#define QNPU_COREDUMP_AROUND	8	/* commands shown before and after the failed one */
#define QNPU_DUMP_NO_CORE	0xff	/* as in a completion without a core */

static void qnpu_dump_hex(struct drm_printer *p, const void *data, u32 bytes)
{
	u32 at, step;

	/* %*ph prints at most 64 bytes. */
	for (at = 0; at < bytes; at += step) {
		step = min(bytes - at, 64u);
		drm_printf(p, "%*phN", step, data + at);
	}
	drm_puts(p, "\n");
}

#define QNPU_DUMP_REG(name)	{ #name, NPU_REG_##name }

static const struct {
	const char *name;
	u32 offset;
} qnpu_dump_regs[] = {
	QNPU_DUMP_REG(CTRL), QNPU_DUMP_REG(STATUS), QNPU_DUMP_REG(CORE_BUSY),
	QNPU_DUMP_REG(EVENT_STATUS), QNPU_DUMP_REG(EVENT_ENABLE),
	QNPU_DUMP_REG(INV_ISSUED), QNPU_DUMP_REG(INV_DONE), QNPU_DUMP_REG(TEMP_MC),
	QNPU_DUMP_REG(POWER_MW), QNPU_DUMP_REG(VOLTAGE_MV), QNPU_DUMP_REG(CUR_CLOCK_KHZ),
	QNPU_DUMP_REG(ECC_CORRECTED), QNPU_DUMP_REG(ECC_UNCORRECTED),
};

static void qnpu_dump_head(struct qnpu_device *npu, struct drm_printer *p)
{
	const struct qnpu_coredump *dump = &npu->coredump;

	drm_printf(p, "qnpu-coredump %u\n", QNPU_COREDUMP_VERSION);
	drm_printf(p, "reason %s\n", dump->reason);
	drm_printf(p, "kernel %s %s\n", init_utsname()->release, init_utsname()->machine);
	drm_printf(p, "driver %u.%u", npu->drm.driver->major, npu->drm.driver->minor);
#ifdef MODULE
	if (THIS_MODULE->srcversion)
		drm_printf(p, " srcversion %s", THIS_MODULE->srcversion);
#endif
	drm_printf(p, "\ndevice %s\n", dev_name(npu->drm.dev));
	drm_printf(p, "time %lld, %lld ns after boot\n", ktime_get_real_seconds(),
		   ktime_get_boottime_ns());
	drm_printf(p, "chip hardware %#x isa %u features %#x cores %u queues %u ddr %#llx\n",
		   npu->info.hw_version, npu->info.isa_version, npu->info.features,
		   npu->info.cores, npu->info.queues, npu->info.ddr_bytes);
	drm_printf(p, "resets %u\n", npu->resets);
}

/* Print registers and queues in use. The device is entered, hw_lock held. */
void qnpu_coredump_state(struct qnpu_device *npu, struct drm_printer *p)
{
	struct qnpu_hw_queue *queue;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(qnpu_dump_regs); i++)
		drm_printf(p, "register %s %#x\n", qnpu_dump_regs[i].name,
			   qnpu_read(npu, qnpu_dump_regs[i].offset));
	drm_printf(p, "register PROGRESS %#llx\n", qnpu_read64(npu, NPU_REG_PROGRESS));
	drm_printf(p, "register ASID_TABLE %#llx\n", qnpu_read64(npu, NPU_REG_ASID_TABLE));

	for (i = 0; i < npu->info.cores; i++) {
		drm_printf(p, "core %u queue %u job %llu tiu %u gdma %u", i,
			   qnpu_read(npu, NPU_CORE_REG(i, NPU_CORE_QUEUE)),
			   qnpu_read64(npu, NPU_CORE_REG(i, NPU_CORE_JOB_ID)),
			   qnpu_read(npu, NPU_CORE_REG(i, NPU_CORE_TIU_COMMAND)),
			   qnpu_read(npu, NPU_CORE_REG(i, NPU_CORE_GDMA_COMMAND)));
		drm_printf(p, " progress %llu cycles %llu\n",
			   qnpu_read64(npu, NPU_CORE_REG(i, NPU_CORE_PROGRESS)),
			   qnpu_read64(npu, NPU_CORE_REG(i, NPU_CORE_BUSY_CYCLES)));
	}

	i = 0;
	while ((queue = qnpu_hw_queue_next(npu, &i))) {
		drm_printf(p, "queue %u status %#x asid %u priority %u cores %#x", queue->index,
			   qnpu_hw_queue_status(queue),
			   qnpu_read(npu, NPU_QUEUE_REG(queue->index, NPU_QUEUE_ASID)),
			   queue->priority, queue->core_mask);
		drm_printf(p, " card %u %u driver %u %u submitted %llu completed %llu\n",
			   qnpu_read(npu, NPU_QUEUE_REG(queue->index, NPU_QUEUE_SQ_HEAD)),
			   qnpu_read(npu, NPU_QUEUE_REG(queue->index, NPU_QUEUE_CQ_TAIL)),
			   READ_ONCE(queue->sq_tail), READ_ONCE(queue->cq_head),
			   READ_ONCE(queue->ctx->submitted), READ_ONCE(queue->ctx->completed));
	}
}

static void qnpu_dump_ring(struct drm_printer *p, const char *name, const void *ring, u32 bytes)
{
	u32 i;

	for (i = 0; i < QNPU_RING_ENTRIES; i++) {
		drm_printf(p, "%s %u ", name, i);
		qnpu_dump_hex(p, ring + i * bytes, bytes);
	}
}

static const struct npu_stream *qnpu_dump_stream(const struct qnpu_ctx_job *job, u32 index)
{
	return (const struct npu_stream *)(job->desc + 1) + index;
}

static const struct npu_region *qnpu_dump_region(const struct qnpu_ctx_job *job, u32 index)
{
	return (const struct npu_region *)qnpu_dump_stream(job, job->desc->stream_count) + index;
}

static void qnpu_dump_job(const struct qnpu_coredump *dump, struct drm_printer *p)
{
	const struct qnpu_ctx_job *job = dump->job;
	const struct npu_cqe *cqe = &dump->cqe;
	u32 i;

	drm_printf(p, "job %llu queue %u\n", job->seqno, job->ctx->queue.index);
	if (dump->completed) {
		drm_printf(p, "completion status %u engine %u core %u command %u", cqe->status,
			   cqe->engine, cqe->core, cqe->command);
		drm_printf(p, " region %u offset %#llx bytes %u address %#llx\n", cqe->region,
			   cqe->offset, cqe->bytes, cqe->fault_addr);
	}
	drm_puts(p, "descriptor ");
	qnpu_dump_hex(p, job->desc, job->desc_bytes);
	for (i = 0; i < job->region_count; i++) {
		const struct npu_region *region = qnpu_dump_region(job, i);

		drm_printf(p, "region %u address %#llx bytes %#llx access %u\n", i, region->va,
			   region->bytes, region->access);
	}
}

/* Page tables as the card sees them; @level -1: the root. Returns 0 for an unreadable entry. */
static u64 qnpu_dump_entry(struct qnpu_device *npu, struct drm_printer *p, int level, u64 at)
{
	static const char * const names[] = { "root", "level0", "level1", "level2", "level3" };
	u64 entry = 0;

	if (qnpu_mmu_read(npu, at, &entry))
		drm_printf(p, "walk %s at %#llx is beyond the memory\n", names[level + 1], at);
	else
		drm_printf(p, "walk %s at %#llx: %#llx\n", names[level + 1], at, entry);

	return entry;
}

static void qnpu_dump_walk(struct qnpu_device *npu, struct drm_printer *p, u64 va)
{
	u32 asid = npu->coredump.asid;
	int level = NPU_PT_LEVELS;
	u64 entry, index;

	drm_printf(p, "walk of %#llx in address space %u\n", va, asid);
	entry = qnpu_dump_entry(npu, p, -1, npu->mmu.asid_table +
				(u64)asid * sizeof(struct npu_asid_entry));
	while (level-- && entry & NPU_PTE_VALID) {
		index = va >> (NPU_PAGE_SHIFT + 9 * level) & (NPU_PT_ENTRIES - 1);
		entry = qnpu_dump_entry(npu, p, level,
					(entry & NPU_PTE_ADDR) + index * sizeof(u64));
		if (entry & NPU_PTE_LARGE)
			break;
	}
}

static int qnpu_dump_read_page(struct qnpu_device *npu, struct qnpu_bo *bo, u64 at, void *to,
			       size_t bytes)
{
	struct ttm_buffer_object *tbo = &bo->tbo;
	u64 page = round_down(at, PAGE_SIZE);
	struct qnpu_mem_run run;
	struct page **pages;

	if (!tbo->resource)
		return -ENODATA;
	if (tbo->resource->mem_type == TTM_PL_VRAM) {
		qnpu_mem_run(bo, false, page, &run);
		memcpy_fromio(to, npu->ddr + run.addr + (at - page), bytes);
		return 0;
	}

	pages = bo->userptr && bo->userptr->pages ? bo->userptr->pages :
		tbo->ttm ? tbo->ttm->pages : NULL;
	if (!pages || !pages[at >> PAGE_SHIFT])
		return -ENODATA;
	/* The CPU's view is shown. Only uncached buffers can have stale cache lines. */
	if (READ_ONCE(bo->uncached))
		qnpu_pages_sync(npu, tbo->ttm, at, bytes,
				DRM_NPU_SYNC_TO_DEVICE | DRM_NPU_SYNC_FROM_DEVICE);
	memcpy_from_page(to, pages[at >> PAGE_SHIFT], at - page, bytes);

	return 0;
}

/* Read from a job's region, without waiting for locks. */
static int qnpu_dump_read(struct qnpu_device *npu, u32 index, u64 offset, void *to, size_t bytes)
{
	const struct qnpu_ctx_job *job = npu->coredump.job;
	const struct npu_region *region;
	struct qnpu_bo *bo;
	u64 at, step;
	int ret = 0;

	if (index >= job->region_count)
		return -EINVAL;
	region = qnpu_dump_region(job, index);
	if (offset > region->bytes || bytes > region->bytes - offset)
		return -ERANGE;

	bo = job->vmas[index]->bo;
	at = region->va - job->vmas[index]->node.start + offset;
	if (at > bo->tbo.base.size || bytes > bo->tbo.base.size - at)
		return -ERANGE;

	/* The lock's owner may be waiting for the very job that is dumped. */
	if (!dma_resv_trylock(bo->tbo.base.resv))
		return -EBUSY;
	for (; bytes && !ret; bytes -= step, at += step, to += step) {
		step = min_t(u64, bytes, PAGE_SIZE - (at & ~PAGE_MASK));
		ret = qnpu_dump_read_page(npu, bo, at, to, step);
	}
	dma_resv_unlock(bo->tbo.base.resv);

	return ret;
}

/* Print one of a core's two streams; @at: the command that failed or comes next. */
static void qnpu_dump_commands(struct qnpu_device *npu, struct drm_printer *p, const char *name,
			       u32 core, u32 region, u64 offset, u32 count, u32 at)
{
	u32 i, first = at > QNPU_COREDUMP_AROUND ? at - QNPU_COREDUMP_AROUND : 0;
	u32 end = min_t(u64, count, (u64)at + QNPU_COREDUMP_AROUND + 1);
	u8 command[NPU_CMD_BYTES];
	int ret;

	drm_printf(p, "stream %s core %u region %u offset %#llx count %u at %u\n", name, core,
		   region, offset, count, at);
	for (i = first; i < end; i++) {
		ret = qnpu_dump_read(npu, region, offset + (u64)i * NPU_CMD_BYTES, command,
				     sizeof(command));
		if (ret) {
			drm_printf(p, "unreadable %s %u %u: error %d\n", name, core, i, ret);
			return;
		}
		drm_printf(p, "command %s %u %u %c ", name, core, i, i == at ? '>' : '-');
		qnpu_dump_hex(p, command, sizeof(command));
	}
}

/* Returns the core of a stream of the job; streams are assigned to cores in ascending order. */
static u32 qnpu_dump_core(struct qnpu_device *npu, u32 stream)
{
	const struct qnpu_ctx_job *job = npu->coredump.job;
	u32 i;

	for (i = 0; i < npu->info.cores; i++) {
		if (qnpu_read(npu, NPU_CORE_REG(i, NPU_CORE_QUEUE)) == job->ctx->queue.index &&
		    qnpu_read64(npu, NPU_CORE_REG(i, NPU_CORE_JOB_ID)) == job->seqno &&
		    !stream--)
			return i;
	}

	return QNPU_DUMP_NO_CORE;
}

static void qnpu_dump_streams(struct qnpu_device *npu, struct drm_printer *p)
{
	const struct qnpu_coredump *dump = &npu->coredump;
	const struct npu_cqe *cqe = &dump->cqe;
	u32 i;

	for (i = 0; i < dump->job->desc->stream_count; i++) {
		const struct npu_stream *stream = qnpu_dump_stream(dump->job, i);
		u32 tiu = 0, gdma = 0, core = qnpu_dump_core(npu, i);

		if (core != QNPU_DUMP_NO_CORE) {
			tiu = qnpu_read(npu, NPU_CORE_REG(core, NPU_CORE_TIU_COMMAND));
			gdma = qnpu_read(npu, NPU_CORE_REG(core, NPU_CORE_GDMA_COMMAND));
		} else if (dump->completed && !i) {
			core = cqe->core;
		}
		if (dump->completed && cqe->core == core && cqe->command != NPU_COMMAND_NONE) {
			tiu = cqe->engine == NPU_ENGINE_TIU ? cqe->command : tiu;
			gdma = cqe->engine == NPU_ENGINE_GDMA ? cqe->command : gdma;
		}
		qnpu_dump_commands(npu, p, "tiu", core, stream->tiu_region, stream->tiu_offset,
				   stream->tiu_count, tiu);
		qnpu_dump_commands(npu, p, "gdma", core, stream->gdma_region, stream->gdma_offset,
				   stream->gdma_count, gdma);
	}
}

/* Walk the page tables for the faulting address, or for the start of each stream. */
static void qnpu_dump_walks(struct qnpu_device *npu, struct drm_printer *p)
{
	const struct qnpu_coredump *dump = &npu->coredump;
	const struct qnpu_ctx_job *job = dump->job;
	const struct npu_stream *stream = qnpu_dump_stream(job, 0);

	if (dump->completed && dump->cqe.fault_addr) {
		qnpu_dump_walk(npu, p, dump->cqe.fault_addr);
		return;
	}
	if (stream->tiu_count && stream->tiu_region < job->region_count)
		qnpu_dump_walk(npu, p, qnpu_dump_region(job, stream->tiu_region)->va);
	if (stream->gdma_count && stream->gdma_region < job->region_count)
		qnpu_dump_walk(npu, p, qnpu_dump_region(job, stream->gdma_region)->va);
}

/* The device is entered, so even drm_printf() must not reclaim memory: that may wait for jobs. */
static void qnpu_coredump_write(struct qnpu_device *npu)
{
	struct qnpu_coredump *dump = &npu->coredump;
	struct qnpu_hw_queue *queue = &dump->job->ctx->queue;
	unsigned int flags = memalloc_noreclaim_save();
	struct drm_print_iterator iter = {};
	struct drm_printer p = drm_coredump_printer(&iter);
	size_t size;

	lockdep_assert_held(&npu->hw_lock);

	for (size = QNPU_COREDUMP_BYTES; size >= SZ_4K; size /= 2) {
		dump->text = kmalloc(size, GFP_NOWAIT | __GFP_NOWARN | __GFP_NOMEMALLOC);
		if (dump->text)
			break;
	}
	if (dump->text) {
		iter.data = dump->text;
		iter.remain = size;
		qnpu_dump_head(npu, &p);
		qnpu_dump_job(dump, &p);
		qnpu_coredump_state(npu, &p);
		/* A detached queue has no rings. */
		if (qnpu_hw_queue_is_attached(queue)) {
			qnpu_dump_walks(npu, &p);
			qnpu_dump_streams(npu, &p);
			qnpu_dump_ring(&p, "sq", queue->rings->sq, sizeof(struct npu_sqe));
			qnpu_dump_ring(&p, "cq", queue->rings->cq, sizeof(struct npu_cqe));
		}
		drm_puts(&p, "end\n");
		dump->used = size - iter.remain;
	}
	memalloc_noreclaim_restore(flags);
}

/* dev_coredumpm() would pin the module until the dump is read. */
static void qnpu_coredump_work(struct work_struct *work)
{
	struct qnpu_device *npu = container_of(work, struct qnpu_device, coredump.work);
	struct qnpu_coredump *dump = &npu->coredump;
	void *data;
	int idx;

	if (!dump->text && qnpu_device_enter_awake(npu, &idx)) {
		scoped_guard(mutex, &npu->hw_lock)
			qnpu_coredump_write(npu);
		qnpu_device_exit(npu, idx);
	}
	data = dump->text ? vmalloc(dump->used) : NULL;
	if (data) {
		memcpy(data, dump->text, dump->used);
		drm_info(&npu->drm,
			 "dump of job %llu: npu-dump shows it (/sys/class/devcoredump)\n",
			 dump->job->seqno);
		dev_coredumpv(npu->drm.dev, data, dump->used, GFP_KERNEL);
	}
	kfree(dump->text);
	dump->text = NULL;
	qnpu_job_put(dump->job);
	clear_bit_unlock(0, &dump->busy);
}

/* Claim the single dump, unless one is in progress or the rate limit applies. */
static bool qnpu_coredump_claim(struct qnpu_coredump *dump, struct qnpu_ctx_job *job,
				const struct npu_cqe *cqe, const char *reason)
{
	if (test_and_set_bit_lock(0, &dump->busy))
		return false;
	if (!__ratelimit(&dump->limit)) {
		clear_bit_unlock(0, &dump->busy);
		return false;
	}

	qnpu_job_get(job);
	dump->job = job;
	dump->reason = reason;
	dump->asid = READ_ONCE(job->ctx->vm->space.asid);
	dump->completed = cqe;
	if (cqe)
		dump->cqe = *cqe;

	return true;
}

/*
 * Queue a dump of a job that failed because of the hardware or the driver, not of the user's
 * commands. The lock of the job's queue is held.
 */
void qnpu_coredump_fault(struct qnpu_ctx_job *job, const struct npu_cqe *cqe)
{
	struct qnpu_coredump *dump = &job->ctx->npu->coredump;

	switch (cqe->status) {
	case NPU_STATUS_PAGE_FAULT:
	case NPU_STATUS_PAGE_ACCESS:
	case NPU_STATUS_DMA_ERROR:
	case NPU_STATUS_ECC:
	case NPU_STATUS_INTERNAL:
		if (qnpu_coredump_claim(dump, job, cqe, "fault"))
			queue_work(system_freezable_wq, &dump->work);
	}
}

/* Dump a job that is about to be killed. hw_lock is held and the device entered. */
void qnpu_coredump_kill(struct qnpu_ctx_job *job, const char *reason)
{
	struct qnpu_device *npu = job->ctx->npu;

	if (!qnpu_coredump_claim(&npu->coredump, job, NULL, reason))
		return;
	qnpu_coredump_write(npu);
	queue_work(system_freezable_wq, &npu->coredump.work);
}

void qnpu_coredump_init(struct qnpu_device *npu)
{
	struct qnpu_coredump *dump = &npu->coredump;

	ratelimit_state_init(&dump->limit, 10 * HZ, 20);
	ratelimit_set_flags(&dump->limit, RATELIMIT_MSG_ON_RELEASE);
	INIT_WORK(&dump->work, qnpu_coredump_work);
}

/* Wait for a dump in progress. No jobs are left. */
void qnpu_coredump_fini(struct qnpu_device *npu)
{
	flush_work(&npu->coredump.work);
}
