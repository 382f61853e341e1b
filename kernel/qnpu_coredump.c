// SPDX-License-Identifier: GPL-2.0-only
/*
 * Dumps of the card for those who want to know why a job failed: registers, the queue's rings, the
 * job's descriptor, a walk of the page tables and the commands around the place.
 * docs/reference/uapi.md describes the text; tools/npu-dump shows it with commands disassembled.
 *
 * A job that the watchdog kills is dumped at once, while it is on its core: memory comes without
 * waiting for it then, since jobs may have to end before any can be freed. A job that has failed by
 * itself is dumped by a work, which holds what the job used.
 */
#include <linux/devcoredump.h>
#include <linux/gfp.h>
#include <linux/highmem.h>
#include <linux/module.h>
#include <linux/ratelimit.h>
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

/* First line of a dump: raised when lines change their meaning. */
#define QNPU_COREDUMP_VERSION	1

/* A dump has this size at most, or less where memory is short. */
#define QNPU_COREDUMP_BYTES	SZ_256K

/* Commands shown before and behind the one in question. */
#define QNPU_COREDUMP_AROUND	8

#define QNPU_COREDUMP_INTERVAL	(10 * HZ)
#define QNPU_COREDUMP_BURST	20

/* Text */

static size_t qnpu_text_room(const struct qnpu_dump_text *text)
{
	return text->data ? (PAGE_SIZE << text->order) - text->used : 0;
}

static __printf(2, 3) void qnpu_text(struct qnpu_dump_text *text, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	text->used += vscnprintf(text->data + text->used, qnpu_text_room(text), format, args);
	va_end(args);
}

static void qnpu_text_hex(struct qnpu_dump_text *text, const void *data, u32 bytes)
{
	u32 at, step;

	/* printk's hexadecimal format takes up to 64 bytes. */
	for (at = 0; at < bytes; at += step) {
		step = min(bytes - at, 64u);
		qnpu_text(text, "%*phN", step, data + at);
	}
	qnpu_text(text, "\n");
}

static bool qnpu_text_alloc(struct qnpu_dump_text *text)
{
	text->used = 0;
	for (text->order = get_order(QNPU_COREDUMP_BYTES); ; text->order--) {
		text->data = (char *)__get_free_pages(GFP_NOWAIT | __GFP_NOWARN | __GFP_ZERO,
						      text->order);
		if (text->data || !text->order)
			return text->data;
	}
}

static void qnpu_text_free(struct qnpu_dump_text *text)
{
	if (text->data)
		free_pages((unsigned long)text->data, text->order);
	text->data = NULL;
}

/* Registers */

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

static void qnpu_dump_head(struct qnpu_device *npu, struct qnpu_dump_text *text)
{
	const struct qnpu_coredump *dump = &npu->coredump;

	qnpu_text(text, "qnpu-coredump %u\n", QNPU_COREDUMP_VERSION);
	qnpu_text(text, "reason %s\n", dump->reason);
	qnpu_text(text, "kernel %s %s\n", init_utsname()->release, init_utsname()->machine);
	qnpu_text(text, "driver %u.%u", npu->drm.driver->major, npu->drm.driver->minor);
#ifdef MODULE
	if (THIS_MODULE->srcversion)
		qnpu_text(text, " srcversion %s", THIS_MODULE->srcversion);
#endif
	qnpu_text(text, "\ndevice %s\n", dev_name(npu->drm.dev));
	qnpu_text(text, "time %lld, %lld ns after boot\n", ktime_get_real_seconds(),
		  ktime_get_boottime_ns());
	qnpu_text(text, "chip hardware %#x isa %u features %#x cores %u queues %u ddr %#llx\n",
		  npu->info.hw_version, npu->info.isa_version, npu->info.features,
		  npu->info.cores, npu->info.queues, npu->info.ddr_bytes);
	qnpu_text(text, "resets %u\n", npu->resets);
}

static void qnpu_dump_registers(struct qnpu_device *npu, struct qnpu_dump_text *text)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(qnpu_dump_regs); i++)
		qnpu_text(text, "register %s %#x\n", qnpu_dump_regs[i].name,
			  qnpu_read(npu, qnpu_dump_regs[i].offset));
	qnpu_text(text, "register PROGRESS %#llx\n", qnpu_read64(npu, NPU_REG_PROGRESS));
	qnpu_text(text, "register ASID_TABLE %#llx\n", qnpu_read64(npu, NPU_REG_ASID_TABLE));

	for (i = 0; i < npu->info.cores; i++) {
		qnpu_text(text, "core %u queue %u job %llu tiu %u gdma %u", i,
			  qnpu_read(npu, NPU_CORE_REG(i, NPU_CORE_QUEUE)),
			  qnpu_read64(npu, NPU_CORE_REG(i, NPU_CORE_JOB_ID)),
			  qnpu_read(npu, NPU_CORE_REG(i, NPU_CORE_TIU_COMMAND)),
			  qnpu_read(npu, NPU_CORE_REG(i, NPU_CORE_GDMA_COMMAND)));
		qnpu_text(text, " progress %llu cycles %llu\n",
			  qnpu_read64(npu, NPU_CORE_REG(i, NPU_CORE_PROGRESS)),
			  qnpu_read64(npu, NPU_CORE_REG(i, NPU_CORE_BUSY_CYCLES)));
	}
}

static void qnpu_dump_queues(struct qnpu_device *npu, struct qnpu_dump_text *text)
{
	struct qnpu_hw_queue *queue;
	u32 i;

	for (i = 0; i < npu->info.queues; i++) {
		queue = npu->queues[i];
		if (!queue)
			continue;
		qnpu_text(text, "queue %u status %#x asid %u priority %u cores %#x", i,
			  qnpu_hw_queue_status(queue),
			  qnpu_read(npu, NPU_QUEUE_REG(i, NPU_QUEUE_ASID)), queue->priority,
			  queue->core_mask);
		qnpu_text(text, " card %u %u driver %u %u submitted %llu completed %llu\n",
			  qnpu_read(npu, NPU_QUEUE_REG(i, NPU_QUEUE_SQ_HEAD)),
			  qnpu_read(npu, NPU_QUEUE_REG(i, NPU_QUEUE_CQ_TAIL)),
			  READ_ONCE(queue->sq_tail), READ_ONCE(queue->cq_head),
			  READ_ONCE(queue->ctx->submitted), READ_ONCE(queue->ctx->completed));
	}
}

static void qnpu_dump_rings(const struct qnpu_hw_queue *queue, struct qnpu_dump_text *text)
{
	u32 i;

	for (i = 0; i < QNPU_RING_ENTRIES; i++) {
		qnpu_text(text, "sq %u ", i);
		qnpu_text_hex(text, &queue->rings->sq[i], sizeof(queue->rings->sq[i]));
	}
	for (i = 0; i < QNPU_RING_ENTRIES; i++) {
		qnpu_text(text, "cq %u ", i);
		qnpu_text_hex(text, &queue->rings->cq[i], sizeof(queue->rings->cq[i]));
	}
}

/* The job */

static const struct npu_job *qnpu_dump_header(const struct qnpu_coredump *dump)
{
	return (const struct npu_job *)dump->desc;
}

static const struct npu_stream *qnpu_dump_stream(const struct qnpu_coredump *dump, u32 index)
{
	return (const struct npu_stream *)(dump->desc + sizeof(struct npu_job)) + index;
}

static const struct npu_region *qnpu_dump_region(const struct qnpu_coredump *dump, u32 index)
{
	return (const struct npu_region *)qnpu_dump_stream(dump,
							   qnpu_dump_header(dump)->stream_count) +
	       index;
}

static void qnpu_dump_job(const struct qnpu_coredump *dump, struct qnpu_dump_text *text)
{
	const struct npu_cqe *cqe = &dump->cqe;
	u32 i;

	qnpu_text(text, "job %llu queue %u\n", dump->seqno, dump->ctx->queue.index);
	if (dump->completed) {
		qnpu_text(text, "completion status %u engine %u core %u command %u", cqe->status,
			  cqe->engine, cqe->core, cqe->command);
		qnpu_text(text, " region %u offset %#llx bytes %u address %#llx\n", cqe->region,
			  cqe->offset, cqe->bytes, cqe->fault_addr);
	}
	qnpu_text(text, "descriptor ");
	qnpu_text_hex(text, dump->desc, dump->desc_bytes);
	for (i = 0; i < dump->region_count; i++) {
		const struct npu_region *region = qnpu_dump_region(dump, i);

		qnpu_text(text, "region %u address %#llx bytes %#llx access %u\n", i, region->va,
			  region->bytes, region->access);
	}
}

/* Page tables, as the card sees them */

static u64 qnpu_dump_entry(struct qnpu_device *npu, struct qnpu_dump_text *text, const char *what,
			   u64 at)
{
	u64 entry;

	if (qnpu_mmu_read(npu, at, &entry)) {
		qnpu_text(text, "walk %s at %#llx is beyond the memory\n", what, at);
		return 0;
	}
	qnpu_text(text, "walk %s at %#llx: %#llx\n", what, at, entry);

	return entry;
}

static void qnpu_dump_walk(struct qnpu_device *npu, struct qnpu_dump_text *text, u32 asid, u64 va)
{
	static const char * const levels[NPU_PT_LEVELS] = {
		"level0", "level1", "level2", "level3",
	};
	u32 level = NPU_PT_LEVELS;
	u64 entry;

	qnpu_text(text, "walk of %#llx in address space %u\n", va, asid);
	entry = qnpu_dump_entry(npu, text, "root", npu->mmu.asid_table +
				(u64)asid * sizeof(struct npu_asid_entry));
	while (level-- && entry & NPU_PTE_VALID) {
		u32 index = va >> (NPU_PAGE_SHIFT + 9 * level) & (NPU_PT_ENTRIES - 1);

		entry = qnpu_dump_entry(npu, text, levels[level],
					(entry & NPU_PTE_ADDR) + index * sizeof(u64));
		if (entry & NPU_PTE_LARGE)
			break;
	}
}

/* Commands */

/*
 * What the CPU sees, which is what it has written, whether the card sees that or not: caches are
 * left alone, since what is only there would get lost or be hidden. But a buffer that is written
 * past them has nothing of its own in them.
 */
static void qnpu_dump_sync(struct qnpu_device *npu, struct qnpu_bo *bo, u64 at, size_t bytes)
{
	if (READ_ONCE(bo->uncached))
		qnpu_pages_sync(npu, bo->tbo.ttm, at, bytes,
				DRM_NPU_SYNC_TO_DEVICE | DRM_NPU_SYNC_FROM_DEVICE);
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
	qnpu_dump_sync(npu, bo, at, bytes);
	memcpy_from_page(to, pages[at >> PAGE_SHIFT], at - page, bytes);

	return 0;
}

/* Read from a job's region; nobody is waited for. */
static int qnpu_dump_read(struct qnpu_device *npu, u32 region, u64 offset, void *to, size_t bytes)
{
	const struct qnpu_coredump *dump = &npu->coredump;
	struct qnpu_bo *bo;
	u64 at, step;
	int ret = 0;

	if (region >= dump->region_count)
		return -EINVAL;
	if (offset > qnpu_dump_region(dump, region)->bytes ||
	    bytes > qnpu_dump_region(dump, region)->bytes - offset)
		return -ERANGE;

	bo = dump->vmas[region]->bo;
	at = qnpu_dump_region(dump, region)->va - dump->vmas[region]->node.start + offset;
	if (at > bo->tbo.base.size || bytes > bo->tbo.base.size - at)
		return -ERANGE;

	/* Who holds it may be waiting for the job that is dumped here. */
	if (!dma_resv_trylock(bo->tbo.base.resv))
		return -EBUSY;
	for (; bytes && !ret; bytes -= step, at += step, to += step) {
		step = min_t(u64, bytes, PAGE_SIZE - (at & ~PAGE_MASK));
		ret = qnpu_dump_read_page(npu, bo, at, to, step);
	}
	dma_resv_unlock(bo->tbo.base.resv);

	return ret;
}

/** struct qnpu_dump_engine - one of the two streams of a core of the job */
struct qnpu_dump_engine {
	const char *name;
	u32 core;
	u32 region;
	u64 offset;
	u32 count;
	/* the command in question: it has failed, or comes next */
	u32 at;
};

static void qnpu_dump_commands(struct qnpu_device *npu, struct qnpu_dump_text *text,
			       const struct qnpu_dump_engine *engine)
{
	u8 command[NPU_CMD_BYTES];
	u32 i, first, end;
	int ret;

	qnpu_text(text, "stream %s core %u region %u offset %#llx count %u at %u\n", engine->name,
		  engine->core, engine->region, engine->offset, engine->count, engine->at);
	if (!engine->count)
		return;

	first = engine->at > QNPU_COREDUMP_AROUND ? engine->at - QNPU_COREDUMP_AROUND : 0;
	end = min_t(u64, engine->count, (u64)engine->at + QNPU_COREDUMP_AROUND + 1);
	for (i = first; i < end; i++) {
		ret = qnpu_dump_read(npu, engine->region, engine->offset + (u64)i * NPU_CMD_BYTES,
				     command, sizeof(command));
		if (ret) {
			qnpu_text(text, "unreadable %s %u %u: error %d\n", engine->name,
				  engine->core, i, ret);
			return;
		}
		qnpu_text(text, "command %s %u %u %c ", engine->name, engine->core, i,
			  i == engine->at ? '>' : '-');
		qnpu_text_hex(text, command, sizeof(command));
	}
}

/* Find the core that has, or had, a stream of the job; they are taken in ascending order. */
static bool qnpu_dump_core(struct qnpu_device *npu, u32 stream, u32 *core)
{
	const struct qnpu_coredump *dump = &npu->coredump;
	u32 i;

	for (i = 0; i < npu->info.cores; i++) {
		if (qnpu_read(npu, NPU_CORE_REG(i, NPU_CORE_QUEUE)) != dump->ctx->queue.index ||
		    qnpu_read64(npu, NPU_CORE_REG(i, NPU_CORE_JOB_ID)) != dump->seqno)
			continue;
		if (!stream--) {
			*core = i;
			return true;
		}
	}

	return false;
}

static u32 qnpu_dump_position(struct qnpu_device *npu, bool found, u32 core, u32 engine)
{
	const struct npu_cqe *cqe = &npu->coredump.cqe;
	u32 reg = engine == NPU_ENGINE_TIU ? NPU_CORE_TIU_COMMAND : NPU_CORE_GDMA_COMMAND;

	if (npu->coredump.completed && cqe->engine == engine && cqe->core == core &&
	    cqe->command != NPU_COMMAND_NONE)
		return cqe->command;

	return found ? qnpu_read(npu, NPU_CORE_REG(core, reg)) : 0;
}

static void qnpu_dump_streams(struct qnpu_device *npu, struct qnpu_dump_text *text)
{
	const struct qnpu_coredump *dump = &npu->coredump;
	u32 i;

	for (i = 0; i < qnpu_dump_header(dump)->stream_count; i++) {
		const struct npu_stream *stream = qnpu_dump_stream(dump, i);
		u32 core = dump->completed && !i ? dump->cqe.core : 0xff;
		bool found = qnpu_dump_core(npu, i, &core);
		const struct qnpu_dump_engine tiu = {
			"tiu", core, stream->tiu_region, stream->tiu_offset, stream->tiu_count,
			qnpu_dump_position(npu, found, core, NPU_ENGINE_TIU),
		};
		const struct qnpu_dump_engine gdma = {
			"gdma", core, stream->gdma_region, stream->gdma_offset, stream->gdma_count,
			qnpu_dump_position(npu, found, core, NPU_ENGINE_GDMA),
		};

		qnpu_dump_commands(npu, text, &tiu);
		qnpu_dump_commands(npu, text, &gdma);
	}
}

/* The whole */

/* Addresses that are worth a walk: that of the fault, or where the streams begin. */
static void qnpu_dump_walks(struct qnpu_device *npu, struct qnpu_dump_text *text, u32 asid)
{
	const struct qnpu_coredump *dump = &npu->coredump;
	const struct npu_stream *stream = qnpu_dump_stream(dump, 0);

	if (dump->completed && dump->cqe.fault_addr) {
		qnpu_dump_walk(npu, text, asid, dump->cqe.fault_addr);
		return;
	}
	if (stream->tiu_count && stream->tiu_region < dump->region_count)
		qnpu_dump_walk(npu, text, asid, qnpu_dump_region(dump, stream->tiu_region)->va);
	if (stream->gdma_count && stream->gdma_region < dump->region_count)
		qnpu_dump_walk(npu, text, asid, qnpu_dump_region(dump, stream->gdma_region)->va);
}

/* The device is entered. */
static void qnpu_coredump_write(struct qnpu_device *npu)
{
	struct qnpu_coredump *dump = &npu->coredump;
	struct qnpu_hw_queue *queue = &dump->ctx->queue;
	struct qnpu_dump_text *text = &dump->text;

	lockdep_assert_held(&npu->hw_lock);

	if (!qnpu_text_alloc(text))
		return;
	qnpu_dump_head(npu, text);
	qnpu_dump_job(dump, text);
	qnpu_dump_registers(npu, text);
	qnpu_dump_queues(npu, text);
	/* A context that has ended meanwhile has no rings any more. */
	if (npu->queues[queue->index] == queue) {
		qnpu_dump_walks(npu, text, dump->asid);
		qnpu_dump_streams(npu, text);
		qnpu_dump_rings(queue, text);
	}
	qnpu_text(text, "end\n");
}

static void qnpu_coredump_publish(struct qnpu_device *npu)
{
	struct qnpu_dump_text *text = &npu->coredump.text;
	char *data;

	data = text->used ? vmalloc(text->used) : NULL;
	if (!data)
		return;
	memcpy(data, text->data, text->used);
	drm_info(&npu->drm, "dump of job %llu: npu-dump shows it (/sys/class/devcoredump)\n",
		 npu->coredump.seqno);
	dev_coredumpv(npu->drm.dev, data, text->used, GFP_KERNEL);
}

static void qnpu_coredump_release(struct qnpu_coredump *dump)
{
	unsigned long flags;
	u32 i;

	for (i = 0; dump->own_vmas && i < dump->region_count; i++)
		qnpu_vma_put(dump->vmas[i]);
	qnpu_text_free(&dump->text);
	qnpu_ctx_put(dump->ctx);

	spin_lock_irqsave(&dump->lock, flags);
	dump->busy = false;
	spin_unlock_irqrestore(&dump->lock, flags);
}

static void qnpu_coredump_work(struct work_struct *work)
{
	struct qnpu_device *npu = container_of(work, struct qnpu_device, coredump.work);
	int idx;

	if (!npu->coredump.text.data && qnpu_device_enter_awake(npu, &idx)) {
		mutex_lock(&npu->hw_lock);
		qnpu_coredump_write(npu);
		mutex_unlock(&npu->hw_lock);
		qnpu_device_exit(npu, idx);
	}
	qnpu_coredump_publish(npu);
	qnpu_coredump_release(&npu->coredump);
}

/* Take the only place for a dump, unless it is taken or it is too soon. */
static bool qnpu_coredump_claim(struct qnpu_coredump *dump, struct qnpu_ctx_job *job,
				const struct npu_cqe *cqe, const char *reason)
{
	unsigned long flags;
	bool mine;

	spin_lock_irqsave(&dump->lock, flags);
	mine = !dump->busy && job->desc_bytes <= sizeof(dump->desc) && __ratelimit(&dump->limit);
	if (mine)
		dump->busy = true;
	spin_unlock_irqrestore(&dump->lock, flags);
	if (!mine)
		return false;

	dump->reason = reason;
	dump->ctx = qnpu_ctx_get(job->ctx);
	dump->asid = READ_ONCE(job->ctx->vm->space.asid);
	dump->seqno = job->seqno;
	dump->completed = cqe;
	if (cqe)
		dump->cqe = *cqe;
	dump->desc_bytes = job->desc_bytes;
	memcpy(dump->desc, job->desc, job->desc_bytes);
	dump->region_count = job->region_count;
	memcpy(dump->vmas, job->vmas, job->region_count * sizeof(job->vmas[0]));
	dump->own_vmas = false;

	return true;
}

/* Errors of the machine, or of the driver; not those of the commands that users write. */
static bool qnpu_coredump_is_worth(u16 status)
{
	switch (status) {
	case NPU_STATUS_PAGE_FAULT:
	case NPU_STATUS_PAGE_ACCESS:
	case NPU_STATUS_DMA_ERROR:
	case NPU_STATUS_ECC:
	case NPU_STATUS_INTERNAL:
		return true;
	default:
		return false;
	}
}

/**
 * qnpu_coredump_fault - a job has ended with an error
 * @job: job; the lock of its queue is held
 * @cqe: what the card said
 *
 * Any context. The dump follows.
 */
void qnpu_coredump_fault(struct qnpu_ctx_job *job, const struct npu_cqe *cqe)
{
	struct qnpu_coredump *dump = &job->ctx->npu->coredump;
	u32 i;

	if (!qnpu_coredump_is_worth(cqe->status) || !qnpu_coredump_claim(dump, job, cqe, "fault"))
		return;

	for (i = 0; i < dump->region_count; i++)
		kref_get(&dump->vmas[i]->kref);
	dump->own_vmas = true;
	queue_work(system_freezable_wq, &dump->work);
}

/**
 * qnpu_coredump_kill - a job is about to be killed, or the like
 * @job: job, which stays during the call; hw_lock is held and the device entered
 * @reason: why
 */
void qnpu_coredump_kill(struct qnpu_ctx_job *job, const char *reason)
{
	struct qnpu_device *npu = job->ctx->npu;

	if (!qnpu_coredump_claim(&npu->coredump, job, NULL, reason))
		return;

	qnpu_coredump_write(npu);
	npu->coredump.region_count = 0;
	queue_work(system_freezable_wq, &npu->coredump.work);
}

/**
 * qnpu_coredump_init - make ready for dumps
 * @npu: device
 */
void qnpu_coredump_init(struct qnpu_device *npu)
{
	struct qnpu_coredump *dump = &npu->coredump;

	spin_lock_init(&dump->lock);
	ratelimit_state_init(&dump->limit, QNPU_COREDUMP_INTERVAL, QNPU_COREDUMP_BURST);
	ratelimit_set_flags(&dump->limit, RATELIMIT_MSG_ON_RELEASE);
	INIT_WORK(&dump->work, qnpu_coredump_work);
}

/**
 * qnpu_coredump_fini - wait for a dump that is being made
 * @npu: device, without jobs
 */
void qnpu_coredump_fini(struct qnpu_device *npu)
{
	flush_work(&npu->coredump.work);
}
