// SPDX-License-Identifier: GPL-2.0-only
/*
 * debugfs: what is in use.
 */
#include <linux/seq_file.h>

#include <drm/drm_debugfs.h>

#include "npu_ctx.h"
#include "npu_debugfs.h"
#include "npu_device.h"

static struct npu_device *npu_of_seq_file(struct seq_file *m)
{
	struct drm_debugfs_entry *entry = m->private;

	return to_npu_device(entry->dev);
}

static void npu_show_queue(struct seq_file *m, struct npu_hw_queue *queue)
{
	struct npu_ctx *ctx = queue->ctx;
	unsigned long flags;

	spin_lock_irqsave(&queue->lock, flags);
	seq_printf(m, "%u %u %u %#x %llu %llu %llu %llu %u %u\n", queue->index,
		   ctx->vm->space.asid, queue->priority, queue->core_mask, ctx->submitted,
		   ctx->completed, ctx->errors, ctx->victims, queue->sq_tail, queue->cq_head);
	spin_unlock_irqrestore(&queue->lock, flags);
}

static int npu_show_queues(struct seq_file *m, void *data)
{
	struct npu_device *npu = npu_of_seq_file(m);
	u32 i;

	seq_puts(m, "queue asid priority cores submitted completed errors victims tail head\n");
	mutex_lock(&npu->hw_lock);
	for (i = 0; i < npu_copy_user_queues(npu); i++) {
		if (npu->queues[i])
			npu_show_queue(m, npu->queues[i]);
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

	if (!npu_device_enter(npu, &idx))
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
	npu_device_exit(idx);

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
	seq_printf(m, "tables used %d of %u\n", atomic_read(&npu->mmu.tables_used),
		   npu->mmu.table_count);
	seq_printf(m, "asids used %d of %u\n", atomic_read(&npu->mmu.asids_used), npu->asids);

	return 0;
}

static const struct drm_debugfs_info npu_debugfs_files[] = {
	{ "queues", npu_show_queues, 0 },
	{ "card", npu_show_card, 0 },
	{ "memory", npu_show_memory, 0 },
};

/**
 * npu_debugfs_init - add the driver's files
 * @npu: device
 */
void npu_debugfs_init(struct npu_device *npu)
{
	drm_debugfs_add_files(&npu->drm, npu_debugfs_files, ARRAY_SIZE(npu_debugfs_files));
}
