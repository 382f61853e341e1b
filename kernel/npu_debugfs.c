// SPDX-License-Identifier: GPL-2.0-only
/*
 * debugfs: what is in use.
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/seq_file.h>

#include <drm/drm_debugfs.h>

#include "npu_ctx.h"
#include "npu_debugfs.h"
#include "npu_device.h"
#include "npu_file.h"
#include "npu_gem.h"
#include "npu_vm.h"

static struct npu_device *npu_of_seq_file(struct seq_file *m)
{
	struct drm_debugfs_entry *entry = m->private;

	return to_npu_device(entry->dev);
}

static void npu_show_context(struct seq_file *m, struct npu_ctx *ctx)
{
	struct npu_hw_queue *queue = &ctx->queue;
	int asid = READ_ONCE(ctx->vm->space.asid);
	unsigned long flags;

	spin_lock_irqsave(&queue->lock, flags);
	seq_printf(m, "%u %u %#x %d %d %llu %llu %llu %llu %u %u\n", ctx->id, queue->priority,
		   queue->core_mask, npu_hw_queue_is_attached(queue) ? (int)queue->index : -1, asid,
		   ctx->submitted, ctx->completed, ctx->errors, ctx->victims, queue->sq_tail,
		   queue->cq_head);
	spin_unlock_irqrestore(&queue->lock, flags);
}

/* Those that have no queue of the card at present have -1 there. */
static int npu_show_contexts(struct seq_file *m, void *data)
{
	struct npu_device *npu = npu_of_seq_file(m);
	struct npu_ctx *ctx;

	seq_puts(m, "context priority cores queue asid submitted completed errors victims tail head\n");
	mutex_lock(&npu->hw_lock);
	list_for_each_entry(ctx, &npu->ctxs, link) {
		if (!ctx->internal)
			npu_show_context(m, ctx);
	}
	mutex_unlock(&npu->hw_lock);

	return 0;
}

/* What the card says of itself: the first thing to look at when a job does not end. */
static int npu_show_card(struct seq_file *m, void *data)
{
	struct npu_device *npu = npu_of_seq_file(m);
	u32 i;
	int idx;

	if (!npu_device_enter_online(npu, &idx))
		return -ENODEV;

	seq_printf(m, "status %#x\n", npu_read(npu, NPU_REG_STATUS));
	seq_printf(m, "events %#x\n", npu_read(npu, NPU_REG_EVENT_STATUS));
	seq_printf(m, "progress %llu\n", npu_read64(npu, NPU_REG_PROGRESS));
	seq_printf(m, "invalidations %u of %u\n", npu_read(npu, NPU_REG_INV_DONE),
		   npu_read(npu, NPU_REG_INV_ISSUED));
	seq_printf(m, "busy %#x\n", npu_read(npu, NPU_REG_CORE_BUSY));
	for (i = 0; i < npu->info.cores; i++)
		seq_printf(m, "core %u: queue %u job %llu, retired %u tiu, %u gdma\n", i,
			   npu_read(npu, NPU_CORE_REG(i, NPU_CORE_QUEUE)),
			   npu_read64(npu, NPU_CORE_REG(i, NPU_CORE_JOB_ID)),
			   npu_read(npu, NPU_CORE_REG(i, NPU_CORE_TIU_COMMAND)),
			   npu_read(npu, NPU_CORE_REG(i, NPU_CORE_GDMA_COMMAND)));
	for (i = 0; i < npu->info.queues; i++) {
		u32 status = npu_read(npu, NPU_QUEUE_REG(i, NPU_QUEUE_STATUS));

		if (status)
			seq_printf(m, "queue %u: status %#x, head %u, tail %u\n", i, status,
				   npu_read(npu, NPU_QUEUE_REG(i, NPU_QUEUE_SQ_HEAD)),
				   npu_read(npu, NPU_QUEUE_REG(i, NPU_QUEUE_CQ_TAIL)));
	}
	npu_device_exit(npu, idx);

	return 0;
}

static int npu_show_memory(struct seq_file *m, void *data)
{
	struct npu_device *npu = npu_of_seq_file(m);
	struct npu_card_space space;

	npu_mem_card_space(npu, &space);
	seq_printf(m, "card total %llu\n", space.total);
	seq_printf(m, "card free %llu\n", space.free);
	seq_printf(m, "card largest %llu\n", space.largest);
	seq_printf(m, "card evicted %llu\n", (u64)atomic64_read(&npu->mem.evicted));
	seq_printf(m, "system used %llu\n", (u64)atomic64_read(&npu->mem.system.used));
	seq_printf(m, "tables used %d\n", atomic_read(&npu->mmu.tables_used));

	return 0;
}

static void npu_show_client(struct seq_file *m, struct drm_file *file)
{
	struct npu_gem_usage usage;
	struct task_struct *task;
	struct npu_ctx *ctx;
	unsigned long id;
	u32 contexts = 0;
	struct pid *pid;

	xa_for_each(&to_npu_file(file)->ctxs, id, ctx)
		contexts++;
	npu_gem_usage(file, &usage);

	rcu_read_lock();
	pid = rcu_dereference(file->pid);
	task = pid_task(pid, PIDTYPE_TGID);
	seq_printf(m, "%llu %d %s %u %llu %llu\n", file->client_id, pid_vnr(pid),
		   task ? task->comm : "-", contexts, usage.card, usage.system);
	rcu_read_unlock();
}

/* A line of heads, and the lines of every open file. */
static int npu_show_files(struct seq_file *m, const char *heads,
			  void (*show)(struct seq_file *m, struct drm_file *file))
{
	struct npu_device *npu = npu_of_seq_file(m);
	struct drm_file *file;
	int ret;

	ret = mutex_lock_interruptible(&npu->drm.filelist_mutex);
	if (ret)
		return ret;
	seq_puts(m, heads);
	list_for_each_entry(file, &npu->drm.filelist, lhead)
		show(m, file);
	mutex_unlock(&npu->drm.filelist_mutex);

	return 0;
}

static int npu_show_clients(struct seq_file *m, void *data)
{
	return npu_show_files(m, "client pid command contexts card system\n", npu_show_client);
}

static void npu_show_file_buffers(struct seq_file *m, struct drm_file *file)
{
	struct drm_gem_object *obj;
	int handle;

	spin_lock(&file->table_lock);
	idr_for_each_entry(&file->object_idr, obj, handle) {
		struct npu_bo *bo = gem_to_npu_bo(obj);
		u32 place = READ_ONCE(bo->mem_type);

		seq_printf(m, "%llu %d %zu %s %s%s%s\n", file->client_id, handle, obj->size,
			   bo->flags & DRM_NPU_BO_CARD ? "card" : "system",
			   place == TTM_PL_VRAM ? "card" : place == NPU_BO_NOWHERE ? "-" : "system",
			   READ_ONCE(bo->sealed) ? " sealed" : "",
			   dma_resv_test_signaled(obj->resv, DMA_RESV_USAGE_BOOKKEEP) ? "" :
										" busy");
	}
	spin_unlock(&file->table_lock);
}

/* Every handle; a buffer that two files have is listed twice. */
static int npu_show_buffers(struct seq_file *m, void *data)
{
	return npu_show_files(m, "client handle bytes asked is state\n", npu_show_file_buffers);
}

static void npu_show_vm(struct seq_file *m, struct drm_file *file)
{
	struct npu_vm *vm = READ_ONCE(to_npu_file(file)->vm);
	struct npu_space_usage usage;
	u32 level;

	if (IS_ERR_OR_NULL(vm))
		return;

	mutex_lock(&vm->lock);
	npu_space_usage(&vm->space, &usage);
	mutex_unlock(&vm->lock);

	seq_printf(m, "%llu %d", file->client_id, READ_ONCE(vm->space.asid));
	for (level = 0; level < NPU_PT_LEVELS; level++)
		seq_printf(m, " %u", usage.tables[level]);
	seq_printf(m, " %u %u\n", usage.small, usage.large);
}

static int npu_show_page_tables(struct seq_file *m, void *data)
{
	return npu_show_files(m, "client asid tables0 tables1 tables2 tables3 pages blocks\n",
			      npu_show_vm);
}

/* Not for everybody: each read interrupts the machine. */
static int npu_show_irq_test(struct seq_file *m, void *data)
{
	struct npu_device *npu = npu_of_seq_file(m);
	u64 ns;
	int ret, idx;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (!npu_device_enter_online(npu, &idx))
		return -ENODEV;

	ret = npu_irq_test(npu, &ns);
	npu_device_exit(npu, idx);
	if (!ret)
		seq_printf(m, "%llu\n", ns);

	return ret;
}

/* The cache watch; writing clears the reports, not the counters. */

static int npu_cache_watch_seq(struct seq_file *m, void *data)
{
	return npu_cache_watch_show(m->private, m);
}

static int npu_cache_watch_open(struct inode *inode, struct file *file)
{
	return single_open(file, npu_cache_watch_seq, inode->i_private);
}

static ssize_t npu_cache_watch_write(struct file *file, const char __user *user, size_t count,
				     loff_t *at)
{
	npu_cache_watch_clear(((struct seq_file *)file->private_data)->private);

	return count;
}

static const struct file_operations npu_cache_watch_fops = {
	.owner = THIS_MODULE,
	.open = npu_cache_watch_open,
	.read = seq_read,
	.write = npu_cache_watch_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static const struct drm_debugfs_info npu_debugfs_files[] = {
	{ "clients", npu_show_clients, 0 },
	{ "buffers", npu_show_buffers, 0 },
	{ "page_tables", npu_show_page_tables, 0 },
	{ "contexts", npu_show_contexts, 0 },
	{ "card", npu_show_card, 0 },
	{ "memory", npu_show_memory, 0 },
	{ "irq_test", npu_show_irq_test, 0 },
};

/**
 * npu_debugfs_init - add the driver's files
 * @npu: device
 */
void npu_debugfs_init(struct npu_device *npu)
{
	drm_debugfs_add_files(&npu->drm, npu_debugfs_files, ARRAY_SIZE(npu_debugfs_files));
	if (npu->cache_watch)
		debugfs_create_file("cache_watch", 0600, npu->drm.debugfs_root, npu,
				    &npu_cache_watch_fops);
}
