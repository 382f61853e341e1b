// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reports of a SoC's cache watch: the kind of missing cache maintenance, the buffer, and the
 * process that omitted it. A separate module, for developers of programs and of the driver.
 *
 * qnpu.ko reads reports in its interrupt handler and passes each to the trace event
 * qnpu_stale_line. This module attaches to that event; a work resolves buffer and process. A report
 * about a buffer is resolved before the buffer is closed (qnpu_file_notifiers).
 *
 * Locks, outermost first: qnpu_watch_mutex; those of the driver from 5 on (README.md);
 * qnpu_watch_lock.
 */
#include <linux/ctype.h>
#include <linux/debugfs.h>
#include <linux/iommu.h>
#include <linux/mm.h>
#include <linux/mod_devicetable.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/platform_device.h>
#include <linux/ratelimit.h>
#include <linux/sched/task.h>
#include <linux/seq_file.h>
#include <linux/string.h>

#include <drm/drm_print.h>
#include <drm/ttm/ttm_tt.h>

#include "qnpu_ctx.h"
#include "qnpu_device.h"
#include "qnpu_file.h"
#include "qnpu_gem.h"
#include "qnpu_query.h"
#include "qnpu_trace.h"
#include "qnpu_vm.h"

/* Capacity for unresolved reports, and for resolved ones in debugfs. */
#define QNPU_WATCH_RAW		256
#define QNPU_WATCH_KEPT		64

/* Processes with known address spaces; a new one replaces the oldest. */
#define QNPU_WATCH_TASKS	64

/* Log rate limit: QNPU_WATCH_KEPT lines per interval. */
#define QNPU_WATCH_LOG_INTERVAL	(5 * HZ)

/* Length of a symbol with offset, size and module. */
#define QNPU_WATCH_SYMBOL	96

/** struct qnpu_watch_report - the registers REPORT_*, docs/reference/hardware.md section 10 */
struct qnpu_watch_report {
	u32 kind;
	u32 bytes;
	u64 addr;
	u64 va;
	u32 asid;
	u32 queue;
	u64 job;
	u32 command;
	u32 engine;
	u32 layer;
	u32 level;
	u64 pc;
	u64 space;
};

/** struct qnpu_watch_task - a process; pid 0: unknown */
struct qnpu_watch_task {
	pid_t pid;
	/* without white space */
	char comm[TASK_COMM_LEN];
	/* physical address of its user page table */
	u64 space;
};

enum qnpu_watch_place {
	QNPU_WATCH_UNKNOWN,
	QNPU_WATCH_BUFFER,
	/* rings and descriptors of a queue */
	QNPU_WATCH_RING,
	/* fence page of a context */
	QNPU_WATCH_FENCE,
	/* page tables */
	QNPU_WATCH_TABLE,
};

/** struct qnpu_watch_entry - a resolved report */
struct qnpu_watch_entry {
	struct qnpu_watch_report report;

	enum qnpu_watch_place place;

	/* in its owner's file; 0: closed */
	u32 handle;

	/* from the start of the buffer, ring, page or table */
	u64 offset;

	/* size of the buffer */
	u64 size;

	/* process whose file holds the buffer */
	struct qnpu_watch_task owner;

	/* process that ran on the CPU */
	struct qnpu_watch_task task;

	/* context id of the job, in the owner's file; 0: none */
	u32 ctx;
};

/** struct qnpu_cache_watch - cache watch of a device, until the driver is unbound */
struct qnpu_cache_watch {
	/** @npu: with a reference */
	struct qnpu_device *npu;

	/** @link: in qnpu_watches */
	struct list_head link;

	/** @raw: ring of unresolved reports; with @first and @count under qnpu_watch_lock */
	struct qnpu_watch_report raw[QNPU_WATCH_RAW];
	u32 first;
	u32 count;

	/** @work: resolves @raw */
	struct work_struct work;

	/** @kept: ring of resolved reports; all below is protected by qnpu_watch_mutex */
	struct qnpu_watch_entry kept[QNPU_WATCH_KEPT];

	/** @next: sequence number of the next one in @kept, @shown: of the oldest not cleared */
	u64 next;
	u64 shown;

	struct ratelimit_state limit;

	struct dentry *file;
};

static const char * const qnpu_watch_kinds[] = {
	[NPU_WATCH_NONE] = "none",
	[NPU_WATCH_UNCLEANED] = "uncleaned",
	[NPU_WATCH_STALE] = "stale",
	[NPU_WATCH_OVERWRITTEN] = "overwritten",
	[NPU_WATCH_DISCARDED] = "discarded",
};

static const char * const qnpu_watch_places[] = {
	[QNPU_WATCH_UNKNOWN] = "unknown",
	[QNPU_WATCH_BUFFER] = "buffer",
	[QNPU_WATCH_RING] = "ring",
	[QNPU_WATCH_FENCE] = "fence",
	[QNPU_WATCH_TABLE] = "table",
};

/* Serialises resolution, and changes of the list. */
static DEFINE_MUTEX(qnpu_watch_mutex);

/* Protects reports and tasks, and with the mutex the list; taken by interrupt handlers. */
static DEFINE_SPINLOCK(qnpu_watch_lock);

static LIST_HEAD(qnpu_watches);

static struct qnpu_watch_task qnpu_watch_tasks[QNPU_WATCH_TASKS];
static u32 qnpu_watch_next_task;

static const char *qnpu_watch_kind(const struct qnpu_watch_report *report)
{
	return report->kind < ARRAY_SIZE(qnpu_watch_kinds) ? qnpu_watch_kinds[report->kind] :
							     "unknown";
}

/* Reports */

/* The caller holds either lock. */
static struct qnpu_cache_watch *qnpu_watch_of(struct qnpu_device *npu)
{
	struct qnpu_cache_watch *watch;

	list_for_each_entry(watch, &qnpu_watches, link) {
		if (watch->npu == npu)
			return watch;
	}

	return NULL;
}

static void qnpu_watch_read(struct qnpu_device *npu, struct qnpu_watch_report *report)
{
	report->kind = qnpu_read(npu, NPU_REG_REPORT_KIND);
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

/* Probe of the trace event; if the ring is full, only the device counts the report. */
static void qnpu_watch_report(void *data, struct qnpu_device *npu)
{
	struct qnpu_cache_watch *watch;
	unsigned long flags;

	spin_lock_irqsave(&qnpu_watch_lock, flags);
	watch = qnpu_watch_of(npu);
	if (watch && watch->count < QNPU_WATCH_RAW)
		qnpu_watch_read(npu, &watch->raw[(watch->first + watch->count++) % QNPU_WATCH_RAW]);
	if (watch)
		queue_work(system_freezable_wq, &watch->work);
	spin_unlock_irqrestore(&qnpu_watch_lock, flags);
}

static bool qnpu_watch_pop(struct qnpu_cache_watch *watch, struct qnpu_watch_report *report)
{
	unsigned long flags;
	bool any;

	spin_lock_irqsave(&qnpu_watch_lock, flags);
	any = watch->count;
	if (any) {
		*report = watch->raw[watch->first];
		watch->first = (watch->first + 1) % QNPU_WATCH_RAW;
		watch->count--;
	}
	spin_unlock_irqrestore(&qnpu_watch_lock, flags);

	return any;
}

/* Processes */

static void qnpu_watch_name(struct qnpu_watch_task *to, pid_t pid, const char *comm)
{
	char *c;

	to->pid = pid;
	strscpy(to->comm, comm, sizeof(to->comm));
	for (c = to->comm; *c; c++) {
		if (!isascii(*c) || !isgraph(*c))
			*c = '_';
	}
}

/* Remember a process's address space now, because an exited one has none to compare. */
static void qnpu_watch_meet(struct task_struct *task)
{
	unsigned long flags;
	u64 space = 0;
	u32 i;

	task_lock(task);
	if (task->mm)
		space = virt_to_phys(task->mm->pgd);
	task_unlock(task);
	if (!space)
		return;

	spin_lock_irqsave(&qnpu_watch_lock, flags);
	for (i = 0; i < QNPU_WATCH_TASKS && qnpu_watch_tasks[i].space != space; i++)
		;
	if (i == QNPU_WATCH_TASKS)
		i = qnpu_watch_next_task++ % QNPU_WATCH_TASKS;
	qnpu_watch_tasks[i].space = space;
	qnpu_watch_name(&qnpu_watch_tasks[i], task_tgid_nr(task), task->group_leader->comm);
	spin_unlock_irqrestore(&qnpu_watch_lock, flags);
}

/*
 * Find the process by address space or by pid; bit 0 of the CPU's register is not part of the
 * address.
 */
static void qnpu_watch_find_task(u64 space, pid_t pid, struct qnpu_watch_task *to)
{
	unsigned long flags;
	u32 i;

	space &= ~1ull;
	spin_lock_irqsave(&qnpu_watch_lock, flags);
	for (i = 0; i < QNPU_WATCH_TASKS; i++) {
		if ((space && qnpu_watch_tasks[i].space == space) ||
		    (pid && qnpu_watch_tasks[i].pid == pid)) {
			*to = qnpu_watch_tasks[i];
			break;
		}
	}
	spin_unlock_irqrestore(&qnpu_watch_lock, flags);
}

static void qnpu_watch_meet_file(struct drm_file *file)
{
	struct task_struct *task;

	rcu_read_lock();
	task = pid_task(rcu_dereference(file->pid), PIDTYPE_TGID);
	if (task)
		qnpu_watch_meet(task);
	rcu_read_unlock();
}

static void qnpu_watch_name_file(struct qnpu_watch_task *to, struct drm_file *file)
{
	struct task_struct *task;
	struct pid *pid;

	rcu_read_lock();
	pid = rcu_dereference(file->pid);
	task = pid_task(pid, PIDTYPE_TGID);
	if (task)
		qnpu_watch_name(to, pid_nr(pid), task->comm);
	else
		qnpu_watch_find_task(0, pid_nr(pid), to);
	rcu_read_unlock();
}

/* Memory */

/*
 * Translates a DMA address to the physical address used in reports. Without an IOMMU they are
 * equal; with one, 0 means unmapped.
 */
static u64 qnpu_watch_phys(struct qnpu_device *npu, dma_addr_t dma)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(npu->drm.dev);

	return domain ? iommu_iova_to_phys(domain, dma) : dma;
}

/* Physical address of a page of a buffer; foreign memory is known only by its DMA mapping. */
static u64 qnpu_watch_page(const struct qnpu_bo *bo, u64 page)
{
	struct qnpu_device *npu = to_qnpu_device(bo->tbo.base.dev);
	const struct ttm_tt *tt = bo->tbo.ttm;

	if (tt->pages && tt->pages[page] && iommu_get_domain_for_dev(npu->drm.dev))
		return page_to_phys(tt->pages[page]);

	return qnpu_watch_phys(npu, tt->dma_address[page]);
}

/* Returns the offset of a physical address in a range of a buffer's pages; -1: not found. */
static s64 qnpu_watch_offset(const struct qnpu_bo *bo, u64 addr, u64 first, u64 end)
{
	u64 page, offset;

	if (!(bo->flags & DRM_NPU_BO_SYSTEM) || !bo->tbo.ttm || !bo->tbo.ttm->dma_address)
		return -1;
	for (page = first; page < min_t(u64, end, bo->tbo.ttm->num_pages); page++) {
		offset = addr - qnpu_watch_page(bo, page);
		if (offset < PAGE_SIZE)
			return (page << PAGE_SHIFT) + offset;
		cond_resched();
	}

	return -1;
}

/* A handle being closed is off the table: report the creator's handle unless it is reused. */
static u32 qnpu_watch_handle(struct drm_file *file, struct qnpu_bo *bo)
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

/*
 * Find the buffer: at the device's address (@by_va), if the memory there matches, or else by a slow
 * search of all pages. The address space still holds a buffer that is being closed.
 */
static bool qnpu_watch_find_in_file(struct qnpu_watch_entry *entry, struct drm_file *file,
				    bool by_va)
{
	const struct qnpu_watch_report *report = &entry->report;
	struct qnpu_vm *vm = READ_ONCE(to_qnpu_file(file)->vm);
	struct drm_mm_node *node;

	if (IS_ERR_OR_NULL(vm) || (by_va && READ_ONCE(vm->space.asid) != (int)report->asid))
		return false;

	mutex_lock(&vm->lock);
	drm_mm_for_each_node(node, &vm->mm) {
		struct qnpu_bo *bo = container_of(node, struct qnpu_vma, node)->bo;
		u64 page = (report->va - node->start) >> PAGE_SHIFT;
		s64 offset;

		if (by_va && report->va - node->start >= node->size)
			continue;
		offset = by_va ? qnpu_watch_offset(bo, report->addr, page, page + 1) :
				 qnpu_watch_offset(bo, report->addr, 0, U64_MAX);
		if (offset < 0)
			continue;
		entry->place = QNPU_WATCH_BUFFER;
		entry->handle = qnpu_watch_handle(file, bo);
		entry->offset = offset;
		entry->size = bo->tbo.base.size;
		qnpu_watch_name_file(&entry->owner, file);
		break;
	}
	mutex_unlock(&vm->lock);

	return entry->place == QNPU_WATCH_BUFFER;
}

static bool qnpu_watch_find_in_all(struct qnpu_device *npu, struct qnpu_watch_entry *entry,
				   struct drm_file *closing, bool by_va)
{
	struct drm_file *file;

	if (closing && qnpu_watch_find_in_file(entry, closing, by_va))
		return true;
	list_for_each_entry(file, &npu->drm.filelist, lhead) {
		if (qnpu_watch_find_in_file(entry, file, by_va))
			return true;
	}

	return false;
}

/* @closing: file that closes a buffer, perhaps already off all lists, or NULL. */
static void qnpu_watch_find_in_files(struct qnpu_device *npu, struct qnpu_watch_entry *entry,
				     struct drm_file *closing)
{
	struct drm_file *file;

	mutex_lock(&npu->drm.filelist_mutex);
	list_for_each_entry(file, &npu->drm.filelist, lhead)
		qnpu_watch_meet_file(file);
	if (!entry->report.va || !qnpu_watch_find_in_all(npu, entry, closing, true))
		qnpu_watch_find_in_all(npu, entry, closing, false);
	mutex_unlock(&npu->drm.filelist_mutex);
}

/* Searches driver memory, whose pages need not be contiguous, by DMA address. */
static bool qnpu_watch_is_in(struct qnpu_device *npu, struct qnpu_watch_entry *entry,
			     enum qnpu_watch_place place, dma_addr_t start, u64 bytes)
{
	u64 at, offset;

	for (at = 0; at < bytes; at += PAGE_SIZE) {
		offset = entry->report.addr - qnpu_watch_phys(npu, start + at);
		if (offset >= min_t(u64, PAGE_SIZE, bytes - at))
			continue;
		entry->place = place;
		entry->offset = at + offset;
		return true;
	}

	return false;
}

/* Find the job's context, and memory of queues. */
static void qnpu_watch_find_in_queues(struct qnpu_device *npu, struct qnpu_watch_entry *entry)
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
		if (entry->place != QNPU_WATCH_UNKNOWN)
			continue;
		if (qnpu_watch_is_in(npu, entry, QNPU_WATCH_RING, queue->rings_dma,
				     sizeof(*queue->rings)) ||
		    qnpu_watch_is_in(npu, entry, QNPU_WATCH_FENCE, queue->ctx->fence_dma,
				     PAGE_SIZE))
			entry->report.queue = i;
	}
	mutex_unlock(&npu->hw_lock);
}

static void qnpu_watch_find_in_tables(struct qnpu_device *npu, struct qnpu_watch_entry *entry)
{
	s64 offset;

	if (entry->place != QNPU_WATCH_UNKNOWN)
		return;
	offset = qnpu_mmu_find_table(npu, entry->report.addr);
	if (offset >= 0) {
		entry->place = QNPU_WATCH_TABLE;
		entry->offset = offset;
	}
}

/* Text output */

/* Describes the code that ran on the CPU. */
static void qnpu_watch_who(const struct qnpu_watch_entry *entry, char *text, size_t room)
{
	const struct qnpu_watch_task *task = &entry->task;

	if (entry->report.level && task->pid)
		scnprintf(text, room, "the kernel for %s[%d]", task->comm, task->pid);
	else if (entry->report.level)
		scnprintf(text, room, "the kernel");
	else if (task->pid)
		scnprintf(text, room, "%s[%d]", task->comm, task->pid);
	else
		scnprintf(text, room, "a process that has ended");
}

static void qnpu_watch_where(const struct qnpu_watch_report *report, char *text, size_t room)
{
	if (!report->pc)
		scnprintf(text, room, "a place unknown");
	else if (report->level)
		scnprintf(text, room, "%pS", (void *)(unsigned long)report->pc);
	else
		scnprintf(text, room, "pc %#llx", report->pc);
}

static void qnpu_watch_what(const struct qnpu_watch_entry *entry, char *text, size_t room)
{
	char who[64], where[QNPU_WATCH_SYMBOL];

	qnpu_watch_who(entry, who, sizeof(who));
	qnpu_watch_where(&entry->report, where, sizeof(where));
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

static void qnpu_watch_memory(const struct qnpu_watch_entry *entry, char *text, size_t room)
{
	const struct qnpu_watch_report *report = &entry->report;

	switch (entry->place) {
	case QNPU_WATCH_BUFFER:
		scnprintf(text, room, "buffer %u of %s[%d] +%#llx", entry->handle,
			  entry->owner.comm, entry->owner.pid, entry->offset);
		break;
	case QNPU_WATCH_RING:
	case QNPU_WATCH_FENCE:
		scnprintf(text, room, "%s of queue %u +%#llx", qnpu_watch_places[entry->place],
			  report->queue, entry->offset);
		break;
	default:
		scnprintf(text, room, "%s memory at %#llx", qnpu_watch_places[entry->place],
			  report->addr);
	}
}

/* Writes "" if there is no command. */
static void qnpu_watch_command(const struct qnpu_watch_report *report, char *text, size_t room)
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

/* Memory that is being freed: its contents do not matter. */
static bool qnpu_watch_is_harmless(const struct qnpu_watch_entry *entry)
{
	u32 kind = entry->report.kind;

	return entry->place == QNPU_WATCH_UNKNOWN && entry->report.level &&
	       (kind == NPU_WATCH_OVERWRITTEN || kind == NPU_WATCH_DISCARDED);
}

/*
 * New memory of the driver: its first cleaning overwrites data of a former owner. Exporters may
 * free an importer's pages without maintenance (udmabuf). The importer must not do it for them, as
 * other processes may be writing there. Afterwards the driver maps its own memory uncached and does
 * not maintain it.
 */
static bool qnpu_watch_is_past(const struct qnpu_watch_entry *entry)
{
	u32 kind = entry->report.kind;

	return entry->report.level &&
	       (kind == NPU_WATCH_OVERWRITTEN || kind == NPU_WATCH_DISCARDED) &&
	       (entry->place == QNPU_WATCH_RING || entry->place == QNPU_WATCH_FENCE ||
		entry->place == QNPU_WATCH_TABLE);
}

static void qnpu_watch_log(struct qnpu_cache_watch *watch, const struct qnpu_watch_entry *entry)
{
	char what[256], memory[80], command[80];

	if (qnpu_watch_is_harmless(entry) || !__ratelimit(&watch->limit))
		return;
	qnpu_watch_what(entry, what, sizeof(what));
	qnpu_watch_memory(entry, memory, sizeof(memory));
	qnpu_watch_command(&entry->report, command, sizeof(command));
	drm_err(&watch->npu->drm, "caches: %s: %s: %s (%u bytes)%s\n",
		qnpu_watch_kind(&entry->report), what, memory, entry->report.bytes, command);
}

static const char *qnpu_watch_engine(const struct qnpu_watch_report *report)
{
	if (!report->job || report->command == NPU_COMMAND_NONE)
		return "-";

	return (report->engine & 0xff) == NPU_ENGINE_TIU ? "tiu" : "gdma";
}

static const char *qnpu_watch_comm(const struct qnpu_watch_task *task)
{
	return task->pid ? task->comm : "-";
}

/* Prints the kernel code location, without white space. */
static void qnpu_watch_symbol(const struct qnpu_watch_report *report, char *text, size_t room)
{
	if (!report->level || !report->pc) {
		strscpy(text, "-", room);
		return;
	}
	qnpu_watch_where(report, text, room);
	strreplace(text, ' ', '_');
}

/* Keys and values for programs, described in docs/reference/uapi.md. */
static void qnpu_watch_show_entry(struct seq_file *m, const struct qnpu_watch_entry *entry)
{
	const struct qnpu_watch_report *report = &entry->report;
	bool command = report->job && report->command != NPU_COMMAND_NONE;
	char symbol[QNPU_WATCH_SYMBOL];

	qnpu_watch_symbol(report, symbol, sizeof(symbol));
	seq_printf(m, "kind=%s place=%s buffer=%u offset=%#llx bytes=%u size=%#llx",
		   qnpu_watch_kind(report), qnpu_watch_places[entry->place], entry->handle,
		   entry->offset, report->bytes, entry->size);
	seq_printf(m, " owner_pid=%d owner=%s pid=%d comm=%s level=%u pc=%#llx symbol=%s",
		   entry->owner.pid, qnpu_watch_comm(&entry->owner), entry->task.pid,
		   qnpu_watch_comm(&entry->task), report->level, report->pc, symbol);
	seq_printf(m, " job=%llu queue=%d ctx=%u core=%d engine=%s command=%d layer=%u",
		   report->job, report->job ? (int)report->queue : -1, entry->ctx,
		   command ? (int)(report->engine >> 8) : -1, qnpu_watch_engine(report),
		   command ? (int)report->command : -1, command ? report->layer : 0);
	seq_printf(m, " addr=%#llx va=%#llx asid=%u\n", report->addr, report->va, report->asid);
}

/* Resolution */

static void qnpu_watch_keep(struct qnpu_cache_watch *watch, const struct qnpu_watch_entry *entry)
{
	watch->kept[watch->next++ % QNPU_WATCH_KEPT] = *entry;
	if (watch->next - watch->shown > QNPU_WATCH_KEPT)
		watch->shown = watch->next - QNPU_WATCH_KEPT;
}

static void qnpu_watch_resolve(struct qnpu_cache_watch *watch, struct drm_file *closing)
{
	struct qnpu_device *npu = watch->npu;
	u32 i;

	lockdep_assert_held(&qnpu_watch_mutex);

	/* Bounded by the size of the ring, even if reports keep coming. */
	for (i = 0; i < QNPU_WATCH_RAW; i++) {
		struct qnpu_watch_entry entry = {};

		if (!qnpu_watch_pop(watch, &entry.report))
			return;
		qnpu_watch_find_in_files(npu, &entry, closing);
		qnpu_watch_find_in_queues(npu, &entry);
		qnpu_watch_find_in_tables(npu, &entry);
		qnpu_watch_find_task(entry.report.space, 0, &entry.task);
		if (!qnpu_watch_is_past(&entry)) {
			qnpu_watch_log(watch, &entry);
			qnpu_watch_keep(watch, &entry);
		}
		cond_resched();
	}
}

static void qnpu_watch_work(struct work_struct *work)
{
	struct qnpu_cache_watch *watch = container_of(work, struct qnpu_cache_watch, work);

	mutex_lock(&qnpu_watch_mutex);
	qnpu_watch_resolve(watch, NULL);
	mutex_unlock(&qnpu_watch_mutex);
}

/* Resumes the device: CPUs cause reports while it sleeps. Returns true if it has more. */
static bool qnpu_watch_drain(struct qnpu_device *npu)
{
	bool more = false;
	int idx;

	if (!qnpu_device_enter(npu, &idx)) {
		more = qnpu_irq_take_reports(npu) == QNPU_IRQ_REPORTS;
		qnpu_device_exit(npu, idx);
	}

	return more;
}

/* Resolve all reports so far. */
static void qnpu_watch_flush(struct qnpu_cache_watch *watch, struct drm_file *closing)
{
	bool more = true;
	u32 i;

	for (i = 0; more && i <= 2 * QNPU_WATCH_RAW; i += QNPU_IRQ_REPORTS) {
		more = qnpu_watch_drain(watch->npu);
		qnpu_watch_resolve(watch, closing);
	}
}

static int qnpu_watch_file_event(struct notifier_block *nb, unsigned long event, void *data)
{
	struct drm_file *file = data;
	struct qnpu_cache_watch *watch;

	if (event == QNPU_FILE_GETS_BO) {
		qnpu_watch_meet(current);
		return NOTIFY_DONE;
	}

	mutex_lock(&qnpu_watch_mutex);
	watch = qnpu_watch_of(to_qnpu_file(file)->npu);
	if (watch)
		qnpu_watch_flush(watch, file);
	mutex_unlock(&qnpu_watch_mutex);

	return NOTIFY_DONE;
}

static struct notifier_block qnpu_watch_file_nb = { .notifier_call = qnpu_watch_file_event };

/* debugfs: counters and the last reports; a write clears the reports */

static int qnpu_watch_show(struct seq_file *m, void *data)
{
	struct qnpu_cache_watch *watch = m->private;
	struct drm_npu_watch_info info = {};
	u64 i;
	int ret;

	mutex_lock(&qnpu_watch_mutex);
	qnpu_watch_flush(watch, NULL);
	ret = qnpu_query_watch(watch->npu, &info);
	if (!ret)
		seq_printf(m, "enabled=%d uncleaned=%u stale=%u overwritten=%u discarded=%u lost=%u\n",
			   !!(info.flags & DRM_NPU_WATCH_ENABLED), info.uncleaned, info.stale,
			   info.overwritten, info.discarded, info.lost);
	for (i = watch->shown; !ret && i != watch->next; i++)
		qnpu_watch_show_entry(m, &watch->kept[i % QNPU_WATCH_KEPT]);
	mutex_unlock(&qnpu_watch_mutex);

	return ret;
}

static int qnpu_watch_open(struct inode *inode, struct file *file)
{
	return single_open(file, qnpu_watch_show, inode->i_private);
}

static ssize_t qnpu_watch_write(struct file *file, const char __user *user, size_t count,
				loff_t *at)
{
	struct qnpu_cache_watch *watch = ((struct seq_file *)file->private_data)->private;

	mutex_lock(&qnpu_watch_mutex);
	qnpu_watch_flush(watch, NULL);
	watch->shown = watch->next;
	mutex_unlock(&qnpu_watch_mutex);

	return count;
}

static const struct file_operations qnpu_watch_fops = {
	.owner = THIS_MODULE,
	.open = qnpu_watch_open,
	.read = seq_read,
	.write = qnpu_watch_write,
	.llseek = seq_lseek,
	.release = single_release,
};

/* Devices */

static struct qnpu_cache_watch *qnpu_watch_create(struct qnpu_device *npu)
{
	struct qnpu_cache_watch *watch = kzalloc_obj(*watch);

	if (!watch)
		return NULL;
	drm_dev_get(&npu->drm);
	watch->npu = npu;
	INIT_WORK(&watch->work, qnpu_watch_work);
	ratelimit_state_init(&watch->limit, QNPU_WATCH_LOG_INTERVAL, QNPU_WATCH_KEPT);

	return watch;
}

/* The device is locked. */
static void qnpu_watch_add(struct device *dev)
{
	struct drm_npu_watch_info info = {};
	struct qnpu_cache_watch *watch = NULL;
	struct qnpu_device *npu;

	if (!dev->driver || strcmp(dev->driver->name, "qnpu"))
		return;
	npu = dev_get_drvdata(dev);
	if (qnpu_query_watch(npu, &info) || !(info.flags & DRM_NPU_WATCH_PRESENT))
		return;

	mutex_lock(&qnpu_watch_mutex);
	/* The bus notifier may have added it during module load. */
	if (!qnpu_watch_of(npu))
		watch = qnpu_watch_create(npu);
	if (watch) {
		watch->file = debugfs_create_file("cache_watch", 0600, npu->drm.debugfs_root,
						  watch, &qnpu_watch_fops);
		spin_lock_irq(&qnpu_watch_lock);
		list_add_tail(&watch->link, &qnpu_watches);
		spin_unlock_irq(&qnpu_watch_lock);
	}
	mutex_unlock(&qnpu_watch_mutex);
}

/* @npu: NULL: any. Returns false if there is none. */
static bool qnpu_watch_remove(struct qnpu_device *npu)
{
	struct qnpu_cache_watch *watch;

	mutex_lock(&qnpu_watch_mutex);
	watch = npu ? qnpu_watch_of(npu) :
		      list_first_entry_or_null(&qnpu_watches, struct qnpu_cache_watch, link);
	if (watch) {
		qnpu_watch_flush(watch, NULL);
		spin_lock_irq(&qnpu_watch_lock);
		list_del(&watch->link);
		spin_unlock_irq(&qnpu_watch_lock);
	}
	mutex_unlock(&qnpu_watch_mutex);
	if (!watch)
		return false;

	/* Outside the mutex, which both may be waiting for. */
	debugfs_remove(watch->file);
	cancel_work_sync(&watch->work);
	drm_dev_put(&watch->npu->drm);
	kfree(watch);

	return true;
}

static int qnpu_watch_bus_event(struct notifier_block *nb, unsigned long event, void *data)
{
	struct device *dev = data;

	if (event == BUS_NOTIFY_BOUND_DRIVER)
		qnpu_watch_add(dev);
	else if (event == BUS_NOTIFY_UNBIND_DRIVER && dev_get_drvdata(dev))
		qnpu_watch_remove(dev_get_drvdata(dev));

	return NOTIFY_DONE;
}

static struct notifier_block qnpu_watch_bus_nb = { .notifier_call = qnpu_watch_bus_event };

static int qnpu_watch_add_bound(struct device *dev, void *data)
{
	device_lock(dev);
	qnpu_watch_add(dev);
	device_unlock(dev);

	return 0;
}

static int __init qnpu_watch_init(void)
{
	int ret;

	ret = register_trace_qnpu_stale_line(qnpu_watch_report, NULL);
	if (ret)
		return ret;
	blocking_notifier_chain_register(&qnpu_file_notifiers, &qnpu_watch_file_nb);
	bus_register_notifier(&platform_bus_type, &qnpu_watch_bus_nb);
	bus_for_each_dev(&platform_bus_type, NULL, NULL, qnpu_watch_add_bound);

	return 0;
}

static void __exit qnpu_watch_exit(void)
{
	bus_unregister_notifier(&platform_bus_type, &qnpu_watch_bus_nb);
	while (qnpu_watch_remove(NULL))
		;
	blocking_notifier_chain_unregister(&qnpu_file_notifiers, &qnpu_watch_file_nb);
	unregister_trace_qnpu_stale_line(qnpu_watch_report, NULL);
	tracepoint_synchronize_unregister();
}

module_init(qnpu_watch_init);
module_exit(qnpu_watch_exit);

/* For autoload along with the driver. */
static const struct of_device_id qnpu_watch_ids[] __maybe_unused = {
	{ .compatible = "qnpu,qnpu1" },
	{ }
};
MODULE_DEVICE_TABLE(of, qnpu_watch_ids);

MODULE_DESCRIPTION("Reports of missing cache maintenance for QNPU devices");
MODULE_LICENSE("GPL");

#if IS_ENABLED(CONFIG_DRM_ACCEL_QNPU_KUNIT_TEST)
#include "qnpu_watch_test.c"
#endif
