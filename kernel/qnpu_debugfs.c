// SPDX-License-Identifier: GPL-2.0-only
/* debugfs: resources in use. */
#include <linux/sched.h>
#include <linux/seq_file.h>

#include <drm/drm_debugfs.h>
#include <drm/drm_print.h>

#include "qnpu_coredump.h"
#include "qnpu_ctx.h"
#include "qnpu_debugfs.h"
#include "qnpu_device.h"
#include "qnpu_file.h"
#include "qnpu_gem.h"
#include "qnpu_vm.h"

static struct qnpu_device *qnpu_of_seq_file(struct seq_file *m)
{
	struct drm_debugfs_entry *entry = m->private;

	return to_qnpu_device(entry->dev);
}

static int qnpu_show_contexts(struct seq_file *m, void *data)
{
	struct qnpu_device *npu = qnpu_of_seq_file(m);
	struct qnpu_hw_queue *queue;
	struct qnpu_ctx *ctx;

	seq_puts(m, "context priority cores queue asid submitted completed errors victims tail head\n");
	guard(mutex)(&npu->hw_lock);
	list_for_each_entry(ctx, &npu->ctxs, link) {
		if (ctx->internal)
			continue;
		queue = &ctx->queue;
		/* QNPU_NO_QUEUE prints as -1. */
		spin_lock_irq(&queue->lock);
		seq_printf(m, "%u %u %#x %d %d %llu %llu %llu %llu %u %u\n", ctx->id,
			   queue->priority, queue->core_mask, (int)queue->index,
			   READ_ONCE(ctx->vm->space.asid), ctx->submitted, ctx->completed,
			   ctx->errors, ctx->victims, queue->sq_tail, queue->cq_head);
		spin_unlock_irq(&queue->lock);
	}

	return 0;
}

/* Registers: the first place to look when a job hangs. */
static int qnpu_show_card(struct seq_file *m, void *data)
{
	struct qnpu_device *npu = qnpu_of_seq_file(m);
	struct drm_printer p = drm_seq_file_printer(m);
	int ret, idx;

	ret = qnpu_device_enter(npu, &idx);
	if (ret)
		return ret;
	mutex_lock(&npu->hw_lock);
	qnpu_coredump_state(npu, &p);
	mutex_unlock(&npu->hw_lock);
	qnpu_device_exit(npu, idx);

	return 0;
}

static int qnpu_show_memory(struct seq_file *m, void *data)
{
	struct qnpu_device *npu = qnpu_of_seq_file(m);
	struct qnpu_card_space space;

	qnpu_mem_card_space(npu, &space);
	seq_printf(m, "card total %llu\n", space.total);
	seq_printf(m, "card free %llu\n", space.free);
	seq_printf(m, "card largest %llu\n", space.largest);
	seq_printf(m, "card evicted %llu\n", (u64)atomic64_read(&npu->mem.evicted));
	seq_printf(m, "system used %llu\n", ttm_resource_manager_usage(&npu->mem.system));
	seq_printf(m, "tables used %d\n", atomic_read(&npu->mmu.tables_used));

	return 0;
}

static void qnpu_show_client(struct seq_file *m, struct drm_file *file)
{
	struct qnpu_gem_usage usage;
	struct task_struct *task;
	struct qnpu_ctx *ctx;
	unsigned long id;
	u32 contexts = 0;
	struct pid *pid;

	xa_for_each(&to_qnpu_file(file)->ctxs, id, ctx)
		contexts++;
	qnpu_gem_usage(file, &usage);

	rcu_read_lock();
	pid = rcu_dereference(file->pid);
	task = pid_task(pid, PIDTYPE_TGID);
	seq_printf(m, "%llu %d %s %u %llu %llu\n", file->client_id, pid_vnr(pid),
		   task ? task->comm : "-", contexts, usage.card.shared + usage.card.private,
		   usage.system.shared + usage.system.private);
	rcu_read_unlock();
}

/* Print a heading, and lines for each open file. */
static int qnpu_show_files(struct seq_file *m, const char *heads,
			   void (*show)(struct seq_file *m, struct drm_file *file))
{
	struct qnpu_device *npu = qnpu_of_seq_file(m);
	struct drm_file *file;

	scoped_cond_guard(mutex_intr, return -EINTR, &npu->drm.filelist_mutex) {
		seq_puts(m, heads);
		list_for_each_entry(file, &npu->drm.filelist, lhead)
			show(m, file);
	}

	return 0;
}

static int qnpu_show_clients(struct seq_file *m, void *data)
{
	return qnpu_show_files(m, "client pid command contexts card system\n", qnpu_show_client);
}

static void qnpu_show_file_buffers(struct seq_file *m, struct drm_file *file)
{
	struct drm_gem_object *obj;
	int handle;

	spin_lock(&file->table_lock);
	idr_for_each_entry(&file->object_idr, obj, handle) {
		struct qnpu_bo *bo = gem_to_qnpu_bo(obj);
		u32 place = READ_ONCE(bo->mem_type);

		seq_printf(m, "%llu %d %zu %s %s%s%s\n", file->client_id, handle, obj->size,
			   bo->flags & DRM_NPU_BO_CARD ? "card" : "system",
			   place == TTM_PL_VRAM ? "card" :
			   place == QNPU_BO_NOWHERE ? "-" : "system",
			   READ_ONCE(bo->sealed) ? " sealed" : "",
			   dma_resv_test_signaled(obj->resv, DMA_RESV_USAGE_BOOKKEEP) ? "" :
											" busy");
	}
	spin_unlock(&file->table_lock);
}

/* Lists every handle; a buffer shared by two files appears twice. */
static int qnpu_show_buffers(struct seq_file *m, void *data)
{
	return qnpu_show_files(m, "client handle bytes asked is state\n", qnpu_show_file_buffers);
}

static void qnpu_show_vm(struct seq_file *m, struct drm_file *file)
{
	struct qnpu_vm *vm = READ_ONCE(to_qnpu_file(file)->vm);
	struct qnpu_space_usage usage;
	u32 level;

	if (IS_ERR_OR_NULL(vm))
		return;

	mutex_lock(&vm->lock);
	qnpu_space_usage(&vm->space, &usage);
	mutex_unlock(&vm->lock);

	seq_printf(m, "%llu %d", file->client_id, READ_ONCE(vm->space.asid));
	for (level = 0; level < NPU_PT_LEVELS; level++)
		seq_printf(m, " %u", usage.tables[level]);
	seq_printf(m, " %u %u\n", usage.small, usage.large);
}

static int qnpu_show_page_tables(struct seq_file *m, void *data)
{
	return qnpu_show_files(m, "client asid tables0 tables1 tables2 tables3 pages blocks\n",
			       qnpu_show_vm);
}

/* Root only: each read raises an interrupt. */
static int qnpu_show_irq_test(struct seq_file *m, void *data)
{
	struct qnpu_device *npu = qnpu_of_seq_file(m);
	u64 ns;
	int ret, idx;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	ret = qnpu_device_enter(npu, &idx);
	if (ret)
		return ret;
	ret = qnpu_irq_test(npu, &ns);
	qnpu_device_exit(npu, idx);
	if (!ret)
		seq_printf(m, "%llu\n", ns);

	return ret;
}

static const struct drm_debugfs_info qnpu_debugfs_files[] = {
	{ "clients", qnpu_show_clients, 0 },
	{ "buffers", qnpu_show_buffers, 0 },
	{ "page_tables", qnpu_show_page_tables, 0 },
	{ "contexts", qnpu_show_contexts, 0 },
	{ "card", qnpu_show_card, 0 },
	{ "memory", qnpu_show_memory, 0 },
	{ "irq_test", qnpu_show_irq_test, 0 },
};

void qnpu_debugfs_init(struct qnpu_device *npu)
{
	drm_debugfs_add_files(&npu->drm, qnpu_debugfs_files, ARRAY_SIZE(qnpu_debugfs_files));
}
