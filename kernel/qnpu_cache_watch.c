// SPDX-License-Identifier: GPL-2.0-only
/*
 * The cache watch of a SoC: who has forgotten to clean or to invalidate what.
 *
 * The interrupt handler takes reports from the block, and a work finds out what they are about:
 * the buffer at the address, whose it is, and which process was on the processor. Programs end, and
 * close their buffers before; so a report that waits is looked into before either happens.
 */
#include <linux/cleanup.h>
#include <linux/ctype.h>
#include <linux/iommu.h>
#include <linux/mm.h>
#include <linux/ratelimit.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/seq_file.h>
#include <linux/string.h>

#include <drm/drm_managed.h>
#include <drm/drm_print.h>
#include <drm/ttm/ttm_tt.h>

#include "qnpu_cache_watch.h"
#include "qnpu_ctx.h"
#include "qnpu_device.h"
#include "qnpu_file.h"
#include "qnpu_gem.h"
#include "qnpu_trace.h"
#include "qnpu_vm.h"

/* Reports taken at one interrupt; as long as there are more the line stays up. */
#define QNPU_CACHE_AT_ONCE	32

/* Reports looked into at one run of the work, so that other work gets its turn. */
#define QNPU_CACHE_BATCH	16

/* Pages that are looked at in a row, likewise. */
#define QNPU_CACHE_PAGES	1024

/* Lines in the log, all that is kept at once. */
#define QNPU_CACHE_LOG_INTERVAL	(5 * HZ)

/* A symbol with offset, size and module. */
#define QNPU_CACHE_SYMBOL	96

static const char * const qnpu_cache_kinds[] = {
	[NPU_WATCH_NONE] = "none",
	[NPU_WATCH_UNCLEANED] = "uncleaned",
	[NPU_WATCH_STALE] = "stale",
	[NPU_WATCH_OVERWRITTEN] = "overwritten",
	[NPU_WATCH_DISCARDED] = "discarded",
};

static const char * const qnpu_cache_places[] = {
	[QNPU_CACHE_UNKNOWN] = "unknown",
	[QNPU_CACHE_BUFFER] = "buffer",
	[QNPU_CACHE_RING] = "ring",
	[QNPU_CACHE_FENCE] = "fence",
	[QNPU_CACHE_TABLE] = "table",
};

static const char *qnpu_cache_kind(const struct qnpu_cache_report *report)
{
	return report->kind < ARRAY_SIZE(qnpu_cache_kinds) ? qnpu_cache_kinds[report->kind] :
							     "unknown";
}

/* From the block */

static void qnpu_cache_read(struct qnpu_device *npu, struct qnpu_cache_report *report)
{
	report->bytes = qnpu_read(npu, NPU_REG_REPORT_BYTES);
	report->addr = qnpu_read64(npu, NPU_REG_REPORT_ADDR);
	report->va = qnpu_read64(npu, NPU_REG_REPORT_VA);
	report->asid = qnpu_read(npu, NPU_REG_REPORT_ASID);
	report->queue = qnpu_read(npu, NPU_REG_REPORT_QUEUE);
	report->job = qnpu_read64(npu, NPU_REG_REPORT_JOB);
	report->command = qnpu_read(npu, NPU_REG_REPORT_COMMAND);
	report->engine = qnpu_read(npu, NPU_REG_REPORT_ENGINE);
	report->layer = qnpu_read(npu, NPU_REG_REPORT_LAYER);
	report->level = qnpu_read(npu, NPU_REG_REPORT_LEVEL);
	report->pc = qnpu_read64(npu, NPU_REG_REPORT_PC);
	report->space = qnpu_read64(npu, NPU_REG_REPORT_SPACE);
}

/* What finds no room is lost, but the block's counters have it. */
static void qnpu_cache_push(struct qnpu_cache_watch *watch, const struct qnpu_cache_report *report)
{
	if (watch->count < QNPU_CACHE_RAW)
		watch->raw[(watch->first + watch->count++) % QNPU_CACHE_RAW] = *report;
}

/**
 * qnpu_cache_watch_drain - take reports from the block, some of them if there are many
 * @npu: device with a watch, awake
 *
 * Any context. A block without power has none, though its registers are not 0.
 *
 * Return: how many; less than QNPU_CACHE_AT_ONCE if no more were there
 */
u32 qnpu_cache_watch_drain(struct qnpu_device *npu)
{
	struct qnpu_cache_watch *watch = npu->cache_watch;
	struct qnpu_cache_report report;
	unsigned long flags;
	u32 n;

	spin_lock_irqsave(&watch->raw_lock, flags);
	for (n = 0; n < QNPU_CACHE_AT_ONCE; n++) {
		report.kind = qnpu_read(npu, NPU_REG_REPORT_KIND);
		if (report.kind == NPU_WATCH_NONE || qnpu_is_gone(report.kind))
			break;
		qnpu_cache_read(npu, &report);
		qnpu_write(npu, NPU_REG_REPORT_NEXT, 0);
		qnpu_cache_push(watch, &report);
	}
	/* Inside: who finds the block empty waits for the work. */
	if (n)
		queue_work(system_freezable_wq, &watch->work);
	spin_unlock_irqrestore(&watch->raw_lock, flags);

	return n;
}

static bool qnpu_cache_pop(struct qnpu_cache_watch *watch, struct qnpu_cache_report *report)
{
	unsigned long flags;
	bool any;

	spin_lock_irqsave(&watch->raw_lock, flags);
	any = watch->count;
	if (any) {
		*report = watch->raw[watch->first];
		watch->first = (watch->first + 1) % QNPU_CACHE_RAW;
		watch->count--;
	}
	spin_unlock_irqrestore(&watch->raw_lock, flags);

	return any;
}

/* Processes */

static void qnpu_cache_name(struct qnpu_cache_task *to, pid_t pid, const char *comm)
{
	char *c;

	to->pid = pid;
	strscpy(to->comm, comm, sizeof(to->comm));
	for (c = to->comm; *c; c++) {
		if (!isascii(*c) || !isgraph(*c))
			*c = '_';
	}
}

/* What the processor's register holds besides the address has no meaning here. */
static u64 qnpu_cache_space(const struct mm_struct *mm)
{
	return virt_to_phys(mm->pgd);
}

static bool qnpu_cache_is_space(u64 space, u64 of)
{
	return of && (space & ~1ull) == of;
}

/* Any of its threads: the first one may have ended. */
static bool qnpu_cache_runs_in(struct task_struct *task, u64 space)
{
	bool found;

	if (task->flags & PF_KTHREAD)
		return false;

	task_lock(task);
	found = task->mm && qnpu_cache_is_space(space, qnpu_cache_space(task->mm));
	task_unlock(task);

	return found;
}

static void qnpu_cache_find_task(u64 space, struct qnpu_cache_task *to)
{
	struct task_struct *process, *thread;

	guard(rcu)();
	for_each_process_thread(process, thread) {
		if (qnpu_cache_runs_in(thread, space)) {
			qnpu_cache_name(to, task_tgid_nr(process), process->comm);
			return;
		}
	}
}

static void qnpu_cache_name_file(struct qnpu_cache_task *to, struct drm_file *file)
{
	struct task_struct *task;
	struct pid *pid;

	rcu_read_lock();
	pid = rcu_dereference(file->pid);
	task = pid_task(pid, PIDTYPE_TGID);
	if (task)
		qnpu_cache_name(to, pid_nr(pid), task->comm);
	else
		*to = to_qnpu_file(file)->opener;
	rcu_read_unlock();
}

/**
 * qnpu_cache_watch_opened - remember who has opened a file
 * @nfile: file
 *
 * A process that ends has no memory any more when its files are closed.
 */
void qnpu_cache_watch_opened(struct qnpu_file *nfile)
{
	if (!nfile->npu->cache_watch || !current->mm)
		return;
	nfile->opener_space = qnpu_cache_space(current->mm);
	qnpu_cache_name(&nfile->opener, task_tgid_nr(current), current->group_leader->comm);
}

/* Memory */

/*
 * The watch has physical addresses. Without an IOMMU those on the bus are the same ones; behind one
 * 0 means that nothing is mapped there.
 */
static u64 qnpu_cache_phys(struct qnpu_device *npu, dma_addr_t dma)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(npu->drm.dev);

	return domain ? iommu_iova_to_phys(domain, dma) : dma;
}

static bool qnpu_cache_has_memory(const struct qnpu_bo *bo)
{
	return bo->flags & DRM_NPU_BO_SYSTEM && bo->tbo.ttm && bo->tbo.ttm->dma_address;
}

/*
 * Of a page of such a buffer. Imported and pinned memory is known by its mapping only; to look that
 * up takes longer.
 */
static u64 qnpu_cache_page(const struct qnpu_bo *bo, u64 page)
{
	struct qnpu_device *npu = to_qnpu_device(bo->tbo.base.dev);
	const struct ttm_tt *tt = bo->tbo.ttm;

	if (tt->pages && tt->pages[page] && iommu_get_domain_for_dev(npu->drm.dev))
		return page_to_phys(tt->pages[page]);

	return qnpu_cache_phys(npu, tt->dma_address[page]);
}

/* Is an address of memory at an offset in a buffer? */
static bool qnpu_cache_is_at(const struct qnpu_bo *bo, u64 offset, u64 addr)
{
	return offset < bo->tbo.base.size && qnpu_cache_has_memory(bo) &&
	       qnpu_cache_page(bo, offset >> PAGE_SHIFT) + offset_in_page(offset) == addr;
}

/* The offset of such an address in a buffer; -1: it is not there. */
static s64 qnpu_cache_offset(const struct qnpu_bo *bo, u64 addr)
{
	u64 offset;
	u32 i;

	for (i = 0; qnpu_cache_has_memory(bo) && i < bo->tbo.ttm->num_pages; i++) {
		offset = addr - qnpu_cache_page(bo, i);
		if (offset < PAGE_SIZE)
			return ((s64)i << PAGE_SHIFT) + offset;
		if (i % QNPU_CACHE_PAGES == 0)
			cond_resched();
	}

	return -1;
}

static void qnpu_cache_set_buffer(struct qnpu_cache_entry *entry, struct drm_file *file,
				  struct qnpu_bo *bo, u32 handle, u64 offset)
{
	entry->place = QNPU_CACHE_BUFFER;
	entry->handle = handle;
	entry->offset = offset;
	entry->size = bo->tbo.base.size;
	qnpu_cache_name_file(&entry->owner, file);
}

/*
 * One that is just being closed is in no table any more: it is the one that the buffer was made
 * with, unless that is another buffer's by now.
 */
static u32 qnpu_cache_handle(struct drm_file *file, struct qnpu_bo *bo)
{
	struct drm_gem_object *obj;
	int id, found = 0;

	spin_lock(&file->table_lock);
	idr_for_each_entry(&file->object_idr, obj, id) {
		if (obj == &bo->tbo.base) {
			found = id;
			break;
		}
	}
	if (!found && bo->maker == file->client_id && !idr_find(&file->object_idr, bo->handle))
		found = bo->handle;
	spin_unlock(&file->table_lock);

	return found;
}

/* The buffer at an address of a file; its memory has to be that which is meant. */
static bool qnpu_cache_find_va(struct qnpu_cache_entry *entry, struct drm_file *file)
{
	const struct qnpu_cache_report *report = &entry->report;
	struct qnpu_vm *vm = READ_ONCE(to_qnpu_file(file)->vm);
	struct drm_mm_node *node;
	bool found = false;

	if (IS_ERR_OR_NULL(vm) || !report->va ||
	    READ_ONCE(vm->space.asid) != (int)report->asid)
		return false;

	mutex_lock(&vm->lock);
	drm_mm_for_each_node_in_range(node, &vm->mm, report->va, report->va + 1) {
		struct qnpu_bo *bo = container_of(node, struct qnpu_vma, node)->bo;
		u64 offset = report->va - node->start;

		if (!qnpu_cache_is_at(bo, offset, report->addr))
			continue;
		qnpu_cache_set_buffer(entry, file, bo, qnpu_cache_handle(file, bo), offset);
		found = true;
	}
	mutex_unlock(&vm->lock);

	return found;
}

/*
 * Memory that the device has not accessed, or by an address that is gone: look at all buffers. They
 * are taken from the address space, where one stays that is just being closed.
 */
static bool qnpu_cache_find_addr(struct qnpu_cache_entry *entry, struct drm_file *file)
{
	struct qnpu_vm *vm = READ_ONCE(to_qnpu_file(file)->vm);
	struct drm_mm_node *node;
	bool found = false;

	if (IS_ERR_OR_NULL(vm))
		return false;

	mutex_lock(&vm->lock);
	drm_mm_for_each_node(node, &vm->mm) {
		struct qnpu_bo *bo = container_of(node, struct qnpu_vma, node)->bo;
		s64 offset = qnpu_cache_offset(bo, entry->report.addr);

		if (offset < 0)
			continue;
		qnpu_cache_set_buffer(entry, file, bo, qnpu_cache_handle(file, bo), offset);
		found = true;
		break;
	}
	mutex_unlock(&vm->lock);

	return found;
}

static void qnpu_cache_find_opener(struct qnpu_cache_entry *entry, struct drm_file *file)
{
	struct qnpu_file *nfile = to_qnpu_file(file);

	if (!entry->task.pid && qnpu_cache_is_space(entry->report.space, nfile->opener_space))
		entry->task = nfile->opener;
}

static void qnpu_cache_find_in_files(struct qnpu_device *npu, struct qnpu_cache_entry *entry)
{
	struct drm_file *file;
	bool found = false;

	mutex_lock(&npu->drm.filelist_mutex);
	list_for_each_entry(file, &npu->drm.filelist, lhead) {
		qnpu_cache_find_opener(entry, file);
		found = found || qnpu_cache_find_va(entry, file);
	}
	list_for_each_entry(file, &npu->drm.filelist, lhead)
		found = found || qnpu_cache_find_addr(entry, file);
	mutex_unlock(&npu->drm.filelist_mutex);
}

/* Memory of the driver's, at a bus address; pages that are neighbours there may be anywhere. */
static bool qnpu_cache_is_in(struct qnpu_device *npu, struct qnpu_cache_entry *entry,
			     enum qnpu_cache_place place, dma_addr_t start, u64 bytes)
{
	u64 at, offset;

	for (at = 0; at < bytes; at += PAGE_SIZE) {
		offset = entry->report.addr - qnpu_cache_phys(npu, start + at);
		if (offset >= min_t(u64, PAGE_SIZE, bytes - at))
			continue;
		entry->place = place;
		entry->offset = at + offset;
		return true;
	}

	return false;
}

/* What belongs to a queue, and whose it is. */
static void qnpu_cache_find_in_queues(struct qnpu_device *npu, struct qnpu_cache_entry *entry)
{
	struct qnpu_hw_queue *queue;
	u32 i;

	mutex_lock(&npu->hw_lock);
	for (i = 0; i < npu->info.queues; i++) {
		queue = npu->queues[i];
		if (!queue)
			continue;
		if (i == entry->report.queue && entry->report.job)
			entry->ctx = queue->ctx->id;
		if (entry->place != QNPU_CACHE_UNKNOWN)
			continue;
		if (qnpu_cache_is_in(npu, entry, QNPU_CACHE_RING, queue->rings_dma,
				     sizeof(*queue->rings)) ||
		    qnpu_cache_is_in(npu, entry, QNPU_CACHE_FENCE, queue->ctx->fence_dma,
				     PAGE_SIZE))
			entry->report.queue = i;
	}
	mutex_unlock(&npu->hw_lock);
}

static void qnpu_cache_find_in_tables(struct qnpu_device *npu, struct qnpu_cache_entry *entry)
{
	s64 offset;

	if (entry->place != QNPU_CACHE_UNKNOWN)
		return;
	offset = qnpu_mmu_find_table(npu, entry->report.addr);
	if (offset >= 0) {
		entry->place = QNPU_CACHE_TABLE;
		entry->offset = offset;
	}
}

/* Text */

/* Who was on the processor, and where; "kernel" where it was that. */
static void qnpu_cache_who(const struct qnpu_cache_entry *entry, char *text, size_t room)
{
	const struct qnpu_cache_task *task = &entry->task;

	if (entry->report.level && task->pid)
		scnprintf(text, room, "the kernel for %s[%d]", task->comm, task->pid);
	else if (entry->report.level)
		scnprintf(text, room, "the kernel");
	else if (task->pid)
		scnprintf(text, room, "%s[%d]", task->comm, task->pid);
	else
		scnprintf(text, room, "a process that has ended");
}

static void qnpu_cache_where(const struct qnpu_cache_report *report, char *text, size_t room)
{
	if (!report->pc)
		scnprintf(text, room, "a place unknown");
	else if (report->level)
		scnprintf(text, room, "%pS", (void *)(unsigned long)report->pc);
	else
		scnprintf(text, room, "pc %#llx", report->pc);
}

/* What happened. */
static void qnpu_cache_what(const struct qnpu_cache_entry *entry, char *text, size_t room)
{
	char who[64], where[QNPU_CACHE_SYMBOL];

	qnpu_cache_who(entry, who, sizeof(who));
	qnpu_cache_where(&entry->report, where, sizeof(where));
	switch (entry->report.kind) {
	case NPU_WATCH_UNCLEANED:
		scnprintf(text, room, "NPU read what %s wrote at %s and nobody cleaned", who,
			  where);
		break;
	case NPU_WATCH_STALE:
		scnprintf(text, room, "%s read at %s what NPU wrote and nobody invalidated", who,
			  where);
		break;
	case NPU_WATCH_OVERWRITTEN:
		scnprintf(text, room, "what %s cleaned at %s replaced what NPU wrote", who, where);
		break;
	case NPU_WATCH_DISCARDED:
		scnprintf(text, room, "%s invalidated at %s what was written and nobody cleaned",
			  who, where);
		break;
	default:
		scnprintf(text, room, "report of kind %u", entry->report.kind);
	}
}

static void qnpu_cache_memory(const struct qnpu_cache_entry *entry, char *text, size_t room)
{
	const struct qnpu_cache_report *report = &entry->report;

	switch (entry->place) {
	case QNPU_CACHE_BUFFER:
		scnprintf(text, room, "buffer %u of %s[%d] +%#llx", entry->handle,
			  entry->owner.comm, entry->owner.pid, entry->offset);
		break;
	case QNPU_CACHE_RING:
	case QNPU_CACHE_FENCE:
		scnprintf(text, room, "%s of queue %u +%#llx", qnpu_cache_places[entry->place],
			  report->queue, entry->offset);
		break;
	default:
		scnprintf(text, room, "%s memory at %#llx", qnpu_cache_places[entry->place],
			  report->addr);
	}
}

/* Which command; "" where it is none. */
static void qnpu_cache_command(const struct qnpu_cache_report *report, char *text, size_t room)
{
	u32 engine = report->engine & 0xff;
	int used;

	*text = 0;
	if (!report->job)
		return;
	used = scnprintf(text, room, ", job %llu of queue %u", report->job, report->queue);
	if (report->command != NPU_COMMAND_NONE)
		scnprintf(text + used, room - used, ", core %u %s command %u", report->engine >> 8,
			  engine == NPU_ENGINE_TIU ? "TIU" : "GDMA", report->command);
}

/*
 * Memory that is just being freed: nobody wants what either side has written there. The kernel
 * cannot maintain it in a way that the watch takes for none.
 */
static bool qnpu_cache_is_harmless(const struct qnpu_cache_entry *entry)
{
	u32 kind = entry->report.kind;

	return entry->place == QNPU_CACHE_UNKNOWN && entry->report.level &&
	       (kind == NPU_WATCH_OVERWRITTEN || kind == NPU_WATCH_DISCARDED);
}

/*
 * Memory that the driver has just got: what its cleaning replaces was somebody's before. Exporters
 * may unmap an importer's pages and give them back without a look at the caches (udmabuf), and the
 * importer must not do it for them: others may be writing there. The driver's own memory is mapped
 * past the caches, and never maintained from then on.
 */
static bool qnpu_cache_is_past(const struct qnpu_cache_entry *entry)
{
	u32 kind = entry->report.kind;

	return entry->report.level &&
	       (kind == NPU_WATCH_OVERWRITTEN || kind == NPU_WATCH_DISCARDED) &&
	       (entry->place == QNPU_CACHE_RING || entry->place == QNPU_CACHE_FENCE ||
		entry->place == QNPU_CACHE_TABLE);
}

static void qnpu_cache_log(struct qnpu_cache_watch *watch, const struct qnpu_cache_entry *entry)
{
	char what[256], memory[80], command[80];

	if (qnpu_cache_is_harmless(entry) || !__ratelimit(&watch->limit))
		return;
	qnpu_cache_what(entry, what, sizeof(what));
	qnpu_cache_memory(entry, memory, sizeof(memory));
	qnpu_cache_command(&entry->report, command, sizeof(command));
	drm_err(&watch->npu->drm, "caches: %s: %s: %s (%u bytes)%s\n",
		qnpu_cache_kind(&entry->report), what, memory, entry->report.bytes, command);
}

static const char *qnpu_cache_engine(const struct qnpu_cache_report *report)
{
	if (!report->job || report->command == NPU_COMMAND_NONE)
		return "-";

	return (report->engine & 0xff) == NPU_ENGINE_TIU ? "tiu" : "gdma";
}

static const char *qnpu_cache_comm(const struct qnpu_cache_task *task)
{
	return task->pid ? task->comm : "-";
}

/* Where in the kernel, as one word. */
static void qnpu_cache_symbol(const struct qnpu_cache_report *report, char *text, size_t room)
{
	if (!report->level || !report->pc) {
		strscpy(text, "-", room);
		return;
	}
	qnpu_cache_where(report, text, room);
	strreplace(text, ' ', '_');
}

/* A line of keys and values that programs read: docs/reference/uapi.md has them. */
static void qnpu_cache_show_entry(struct seq_file *m, const struct qnpu_cache_entry *entry)
{
	const struct qnpu_cache_report *report = &entry->report;
	bool command = report->job && report->command != NPU_COMMAND_NONE;
	char symbol[QNPU_CACHE_SYMBOL];

	qnpu_cache_symbol(report, symbol, sizeof(symbol));
	seq_printf(m, "kind=%s place=%s buffer=%u offset=%#llx bytes=%u size=%#llx",
		   qnpu_cache_kind(report), qnpu_cache_places[entry->place], entry->handle,
		   entry->offset, report->bytes, entry->size);
	seq_printf(m, " owner_pid=%d owner=%s pid=%d comm=%s level=%u pc=%#llx symbol=%s",
		   entry->owner.pid, qnpu_cache_comm(&entry->owner), entry->task.pid,
		   qnpu_cache_comm(&entry->task), report->level, report->pc, symbol);
	seq_printf(m, " job=%llu queue=%d ctx=%u core=%d engine=%s command=%d layer=%u",
		   report->job, report->job ? (int)report->queue : -1, entry->ctx,
		   command ? (int)(report->engine >> 8) : -1, qnpu_cache_engine(report),
		   command ? (int)report->command : -1, command ? report->layer : 0);
	seq_printf(m, " addr=%#llx va=%#llx asid=%u\n", report->addr, report->va, report->asid);
}

/* Work */

static void qnpu_cache_keep(struct qnpu_cache_watch *watch, const struct qnpu_cache_entry *entry)
{
	mutex_lock(&watch->kept_lock);
	watch->kept[watch->next++ % QNPU_CACHE_KEPT] = *entry;
	if (watch->next - watch->shown > QNPU_CACHE_KEPT)
		watch->shown = watch->next - QNPU_CACHE_KEPT;
	mutex_unlock(&watch->kept_lock);
}

static void qnpu_cache_look_into(struct qnpu_cache_watch *watch, struct qnpu_cache_entry *entry)
{
	struct qnpu_device *npu = watch->npu;

	qnpu_cache_find_task(entry->report.space, &entry->task);
	qnpu_cache_find_in_files(npu, entry);
	qnpu_cache_find_in_queues(npu, entry);
	qnpu_cache_find_in_tables(npu, entry);
	if (qnpu_cache_is_past(entry))
		return;
	trace_qnpu_stale_line(npu, entry);
	qnpu_cache_log(watch, entry);
	qnpu_cache_keep(watch, entry);
}

static void qnpu_cache_work(struct work_struct *work)
{
	struct qnpu_cache_watch *watch = container_of(work, struct qnpu_cache_watch, work);
	u32 i;

	for (i = 0; i < QNPU_CACHE_BATCH; i++) {
		struct qnpu_cache_entry entry = {};

		if (!qnpu_cache_pop(watch, &entry.report))
			return;
		qnpu_cache_look_into(watch, &entry);
		cond_resched();
	}
	queue_work(system_freezable_wq, work);
}

/* Until nothing is left, for those who may wait. */
static void qnpu_cache_finish(struct qnpu_cache_watch *watch)
{
	while (flush_work(&watch->work))
		cond_resched();
}

static bool qnpu_cache_has_room(struct qnpu_cache_watch *watch)
{
	return READ_ONCE(watch->count) + QNPU_CACHE_AT_ONCE <= QNPU_CACHE_RAW;
}

/* Are there more? */
static bool qnpu_cache_drain_awake(struct qnpu_device *npu)
{
	bool more = false;
	int idx;

	if (!qnpu_device_enter(npu, &idx)) {
		more = qnpu_cache_watch_drain(npu) == QNPU_CACHE_AT_ONCE;
		qnpu_device_exit(npu, idx);
	}

	return more;
}

/**
 * qnpu_cache_watch_flush - look into the reports made so far, since what they are about goes
 * @npu: device; it is woken: while it slept processors may have made mistakes
 *
 * As many as the block and the driver have room for, however many others make meanwhile.
 */
void qnpu_cache_watch_flush(struct qnpu_device *npu)
{
	struct qnpu_cache_watch *watch = npu->cache_watch;
	bool more = true;
	u32 i;

	if (!watch)
		return;
	for (i = 0; i <= 2 * QNPU_CACHE_RAW; i += QNPU_CACHE_BATCH) {
		if (more && qnpu_cache_has_room(watch))
			more = qnpu_cache_drain_awake(npu);
		if (!flush_work(&watch->work) && !more)
			return;
		cond_resched();
	}
}

/**
 * qnpu_cache_watch_closing - the same for a file that is closed, before any of what it has goes
 * @nfile: file
 */
void qnpu_cache_watch_closing(struct qnpu_file *nfile)
{
	qnpu_cache_watch_flush(nfile->npu);
	nfile->closing = true;
}

/* Answers */

/**
 * qnpu_cache_watch_info - counters of the watch
 * @npu: device
 * @info: answer, zeroed
 */
int qnpu_cache_watch_info(struct qnpu_device *npu, struct drm_npu_watch_info *info)
{
	int ret, idx;

	if (!npu->cache_watch)
		return 0;
	ret = qnpu_device_enter(npu, &idx);
	if (ret)
		return ret;
	info->flags = DRM_NPU_WATCH_PRESENT;
	if (qnpu_read(npu, NPU_REG_WATCH_CTRL) & NPU_WATCH_CTRL_ENABLE)
		info->flags |= DRM_NPU_WATCH_ENABLED;
	info->lost = qnpu_read(npu, NPU_REG_WATCH_LOST);
	info->uncleaned = qnpu_read(npu, NPU_REG_WATCH_UNCLEANED);
	info->stale = qnpu_read(npu, NPU_REG_WATCH_STALE);
	info->overwritten = qnpu_read(npu, NPU_REG_WATCH_OVERWRITTEN);
	info->discarded = qnpu_read(npu, NPU_REG_WATCH_DISCARDED);
	qnpu_device_exit(npu, idx);

	return 0;
}

/**
 * qnpu_cache_watch_show - counters, and the last reports
 * @npu: device with a watch
 * @m: where to
 */
int qnpu_cache_watch_show(struct qnpu_device *npu, struct seq_file *m)
{
	struct qnpu_cache_watch *watch = npu->cache_watch;
	struct drm_npu_watch_info info = {};
	int ret;
	u64 i;

	qnpu_cache_watch_flush(npu);
	qnpu_cache_finish(watch);
	ret = qnpu_cache_watch_info(npu, &info);
	if (ret)
		return ret;

	seq_printf(m, "enabled=%d uncleaned=%u stale=%u overwritten=%u discarded=%u lost=%u\n",
		   !!(info.flags & DRM_NPU_WATCH_ENABLED), info.uncleaned, info.stale,
		   info.overwritten, info.discarded, info.lost);
	mutex_lock(&watch->kept_lock);
	for (i = watch->shown; i != watch->next; i++)
		qnpu_cache_show_entry(m, &watch->kept[i % QNPU_CACHE_KEPT]);
	mutex_unlock(&watch->kept_lock);

	return 0;
}

/**
 * qnpu_cache_watch_clear - forget the last reports
 * @npu: device with a watch
 */
void qnpu_cache_watch_clear(struct qnpu_device *npu)
{
	struct qnpu_cache_watch *watch = npu->cache_watch;

	qnpu_cache_watch_flush(npu);
	qnpu_cache_finish(watch);
	mutex_lock(&watch->kept_lock);
	watch->shown = watch->next;
	mutex_unlock(&watch->kept_lock);
}

/* Set-up */

/**
 * qnpu_cache_watch_init - find out if there is a watch
 * @npu: device, identified
 */
int qnpu_cache_watch_init(struct qnpu_device *npu)
{
	struct qnpu_cache_watch *watch;
	int ret;

	if (!(qnpu_read(npu, NPU_REG_WATCH_CTRL) & NPU_WATCH_CTRL_PRESENT))
		return 0;
	watch = drmm_kzalloc(&npu->drm, sizeof(*watch), GFP_KERNEL);
	if (!watch)
		return -ENOMEM;
	ret = drmm_mutex_init(&npu->drm, &watch->kept_lock);
	if (ret)
		return ret;

	watch->npu = npu;
	spin_lock_init(&watch->raw_lock);
	INIT_WORK(&watch->work, qnpu_cache_work);
	ratelimit_state_init(&watch->limit, QNPU_CACHE_LOG_INTERVAL, QNPU_CACHE_KEPT);
	npu->cache_watch = watch;

	return 0;
}

/**
 * qnpu_cache_watch_fini - finish what has been reported
 * @npu: device, its interrupts gone
 */
void qnpu_cache_watch_fini(struct qnpu_device *npu)
{
	if (npu->cache_watch)
		qnpu_cache_finish(npu->cache_watch);
}

#if IS_ENABLED(CONFIG_DRM_ACCEL_QNPU_KUNIT_TEST)
#include "qnpu_cache_watch_test.c"
#endif
