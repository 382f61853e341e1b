// SPDX-License-Identifier: GPL-2.0-only
/*
 * Contexts: a hardware queue, a fence page, and what became of the jobs.
 *
 * The end of a context has two parts. npu_ctx_kill() stops the card and gives back whatever belongs
 * to the card; it runs once, from the ioctl, the end of the file or the end of the device. The
 * memory of the structure goes with the last reference, which a fence in a foreign hand may hold.
 */
#include <linux/capability.h>
#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/wait_bit.h>

#include <drm/drm_print.h>
#include <drm/drm_utils.h>

#include "npu_attach.h"
#include "npu_ctx.h"
#include "npu_file.h"
#include "npu_job.h"
#include "npu_params.h"
#include "npu_recover.h"
#include "npu_trace.h"

static void npu_ctx_release(struct kref *kref)
{
	struct npu_ctx *ctx = container_of(kref, struct npu_ctx, kref);

	put_page(ctx->fence_page);
	kfree_rcu(ctx, rcu);
}

/**
 * npu_ctx_put - drop a reference; does not sleep
 * @ctx: context
 */
void npu_ctx_put(struct npu_ctx *ctx)
{
	kref_put(&ctx->kref, npu_ctx_release);
}

/**
 * npu_ctx_lookup - find a context
 * @file: file
 * @id: its id
 *
 * Returns it with a reference, or NULL.
 */
struct npu_ctx *npu_ctx_lookup(struct drm_file *file, u32 id)
{
	struct npu_file *nfile = to_npu_file(file);
	struct npu_ctx *ctx;

	xa_lock(&nfile->ctxs);
	ctx = xa_load(&nfile->ctxs, id);
	if (ctx)
		npu_ctx_get(ctx);
	xa_unlock(&nfile->ctxs);

	return ctx;
}

/* Fence page */

/*
 * An ordinary page with its own reference count, so that a mapping can outlive context and card.
 * The card writes and the user reads without a call in between: where the card does not see the
 * caches the page, zeroed and cleaned, is mapped past them, and the kernel never looks at it again.
 */
static int npu_ctx_init_fence_page(struct npu_ctx *ctx)
{
	struct device *dev = ctx->npu->drm.dev;

	ctx->fence_page = alloc_page(NPU_GFP_USER | __GFP_ZERO);
	if (!ctx->fence_page)
		return -ENOMEM;

	ctx->fence_dma = dma_map_page(dev, ctx->fence_page, 0, PAGE_SIZE, DMA_BIDIRECTIONAL);
	if (dma_mapping_error(dev, ctx->fence_dma)) {
		put_page(ctx->fence_page);
		return -ENOMEM;
	}

	return 0;
}

static vm_fault_t npu_fence_page_fault(struct vm_fault *vmf)
{
	struct npu_ctx *ctx = vmf->vma->vm_private_data;

	if (vmf->pgoff != ctx->id)
		return VM_FAULT_SIGBUS;

	get_page(ctx->fence_page);
	vmf->page = ctx->fence_page;

	return 0;
}

static void npu_fence_page_open(struct vm_area_struct *vma)
{
	npu_ctx_get(vma->vm_private_data);
}

static void npu_fence_page_close(struct vm_area_struct *vma)
{
	npu_ctx_put(vma->vm_private_data);
}

static const struct vm_operations_struct npu_fence_page_ops = {
	.fault = npu_fence_page_fault,
	.open = npu_fence_page_open,
	.close = npu_fence_page_close,
};

/**
 * npu_ctx_mmap_fence - map the fence page of a context
 * @file: caller
 * @vma: mapping; its offset in pages is the context's id
 */
int npu_ctx_mmap_fence(struct drm_file *file, struct vm_area_struct *vma)
{
	struct npu_ctx *ctx;

	if (vma->vm_pgoff > NPU_MAX_CTX_ID || vma_pages(vma) != 1)
		return -EINVAL;
	if (vma->vm_flags & VM_WRITE)
		return -EACCES;

	ctx = npu_ctx_lookup(file, vma->vm_pgoff);
	if (!ctx)
		return -ENOENT;

	vm_flags_mod(vma, VM_DONTEXPAND | VM_DONTDUMP, VM_MAYWRITE);
	if (!ctx->npu->coherent) {
		vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
		vm_flags_set(vma, VM_IO); /* nobody reads it for the user, through the caches */
	}
	vma->vm_private_data = ctx;
	vma->vm_ops = &npu_fence_page_ops;

	return 0;
}

/* Creation */

static void npu_ctx_kick_work(struct work_struct *work)
{
	struct npu_ctx *ctx = container_of(work, struct npu_ctx, kick_work);
	struct drm_device *drm = NULL;
	bool cookie = dma_fence_begin_signalling();

	npu_hw_queue_kick(&ctx->queue);
	dma_fence_end_signalling(cookie);
	if (READ_ONCE(ctx->orphaned) && !npu_hw_queue_waits_for_fences(&ctx->queue)) {
		WRITE_ONCE(ctx->orphaned, false);
		drm = &ctx->npu->drm;
	}
	npu_ctx_put(ctx);
	drm_dev_put(drm);
}

static struct npu_ctx *npu_ctx_new(struct npu_device *npu, struct npu_vm *vm, bool internal)
{
	static struct lock_class_key internal_key;
	struct npu_ctx *ctx;
	int ret;

	ctx = kzalloc_obj(*ctx, NPU_GFP_USER);
	if (!ctx)
		return ERR_PTR(-ENOMEM);

	kref_init(&ctx->kref);
	ctx->npu = npu;
	spin_lock_init(&ctx->fence_lock);
	ctx->fence_context = dma_fence_context_alloc(1);
	mutex_init(&ctx->kill_lock);
	mutex_init(&ctx->submit_lock);
	ctx->internal = internal;
	/* Buffers move in submissions of users: the driver's own lock is inside of theirs. */
	if (ctx->internal)
		lockdep_set_class_and_name(&ctx->submit_lock, &internal_key, "npu_copy_submit");
	init_waitqueue_head(&ctx->wait);
	INIT_WORK(&ctx->kick_work, npu_ctx_kick_work);
	INIT_DELAYED_WORK(&ctx->watch_work, npu_recover_watch_work);
	ctx->timeout = msecs_to_jiffies(max(READ_ONCE(npu_timeout_ms), 1u));

	ret = npu_ctx_init_fence_page(ctx);
	if (ret) {
		kfree(ctx);
		return ERR_PTR(ret);
	}
	atomic_inc(&npu->contexts);
	ctx->vm = npu_vm_get(vm);

	return ctx;
}

/* Undo npu_ctx_new(), or the same part at the end of a context. */
static void npu_ctx_drop(struct npu_ctx *ctx)
{
	unsigned long flags;
	struct npu_vm *vm;

	dma_unmap_page(ctx->npu->drm.dev, ctx->fence_dma, PAGE_SIZE, DMA_BIDIRECTIONAL);
	spin_lock_irqsave(&ctx->queue.lock, flags); /* orphans are finished elsewhere */
	vm = ctx->vm;
	ctx->vm = NULL;
	spin_unlock_irqrestore(&ctx->queue.lock, flags);
	npu_vm_put(vm);

	if (atomic_dec_and_test(&ctx->npu->contexts))
		wake_up_var(&ctx->npu->contexts);
}

static struct npu_ctx *npu_ctx_create(struct npu_device *npu, struct npu_vm *vm, bool internal,
				      u32 priority, u32 core_mask)
{
	struct npu_ctx *ctx;

	ctx = npu_ctx_new(npu, vm, internal);
	if (IS_ERR(ctx))
		return ctx;
	ctx->core_mask = core_mask;
	npu_hw_queue_init(&ctx->queue, ctx, priority, core_mask);
	mutex_lock(&npu->hw_lock);
	list_add_tail(&ctx->link, &npu->ctxs);
	mutex_unlock(&npu->hw_lock);

	return ctx;
}

/**
 * npu_ctx_create_internal - create a context for the driver itself
 * @npu: device
 * @vm: its address space
 *
 * It has the card's last queue, which users cannot have.
 */
struct npu_ctx *npu_ctx_create_internal(struct npu_device *npu, struct npu_vm *vm)
{
	struct npu_ctx *ctx;
	int ret;

	ctx = npu_ctx_create(npu, vm, true, DRM_NPU_PRIORITY_REALTIME,
			     GENMASK(npu->info.cores - 1, 0));
	if (IS_ERR(ctx))
		return ctx;
	ret = npu_attach_internal(&ctx->queue);
	if (ret) {
		npu_ctx_kill(ctx, ret);
		npu_ctx_put(ctx);
		return ERR_PTR(ret);
	}

	return ctx;
}

/**
 * npu_ioctl_ctx_create - DRM_IOCTL_NPU_CTX_CREATE
 * @drm: device
 * @data: struct drm_npu_ctx_create
 * @file: caller
 */
int npu_ioctl_ctx_create(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct npu_device *npu = to_npu_device(drm);
	struct npu_file *nfile = to_npu_file(file);
	struct drm_npu_ctx_create *args = data;
	u32 all = GENMASK(npu->info.cores - 1, 0), id;
	struct npu_vm *vm;
	struct npu_ctx *ctx;
	int ret, idx;

	if (args->flags || args->core_mask & ~all || args->priority > DRM_NPU_PRIORITY_REALTIME)
		return -EINVAL;
	if (args->priority >= DRM_NPU_PRIORITY_HIGH && !capable(CAP_SYS_NICE))
		return -EACCES;

	vm = npu_file_vm(file);
	if (IS_ERR(vm))
		return PTR_ERR(vm);

	/* Held, so that a device that goes away sees either no context or a whole one. */
	if (!npu_device_hold(npu, &idx))
		return -ENODEV;
	ret = npu_attach_prepare(npu, atomic_read(&npu->contexts) + 1);
	if (ret)
		ctx = ERR_PTR(ret);
	else
		ctx = npu_ctx_create(npu, vm, false, args->priority, args->core_mask ?: all);
	npu_device_release(idx);
	if (IS_ERR(ctx))
		return PTR_ERR(ctx);

	/* An entry without content first: nobody may find a context that does not know its id. */
	ret = xa_alloc(&nfile->ctxs, &id, NULL, XA_LIMIT(1, NPU_MAX_CTX_ID), GFP_KERNEL);
	if (ret) {
		npu_ctx_kill(ctx, -ECANCELED);
		npu_ctx_put(ctx);
		return ret;
	}
	ctx->id = id;
	args->ctx_id = id;
	args->fence_offset = (u64)id << PAGE_SHIFT;
	trace_npu_ctx_create(ctx);
	xa_store(&nfile->ctxs, id, ctx, GFP_KERNEL);

	return 0;
}

/* The end */

/**
 * npu_ctx_kill - stop a context and give back what it has of the card
 * @ctx: context
 * @error: what unfinished jobs end with
 */
void npu_ctx_kill(struct npu_ctx *ctx, int error)
{
	mutex_lock(&ctx->kill_lock);
	if (ctx->killed)
		goto out;

	/* No more submissions: those that wait for room are woken, those at work are waited for. */
	WRITE_ONCE(ctx->dead, error);
	trace_npu_ctx_kill(ctx);
	wake_up_all(&ctx->wait);
	mutex_lock(&ctx->submit_lock);
	mutex_unlock(&ctx->submit_lock);

	/* No more work on the card, then no more jobs, then nobody who looks after them. */
	npu_hw_queue_shutdown(&ctx->queue, error);
	if (cancel_work_sync(&ctx->kick_work))
		npu_ctx_put(ctx); /* of the work; a later one leaves the device alone */
	if (npu_hw_queue_orphan(&ctx->queue)) {
		drm_dev_get(&ctx->npu->drm);
		WRITE_ONCE(ctx->orphaned, true);
		npu_job_kick(ctx);
	}
	cancel_delayed_work_sync(&ctx->watch_work);

	npu_hw_queue_destroy(&ctx->queue);
	mutex_lock(&ctx->npu->hw_lock);
	list_del_init(&ctx->link);
	mutex_unlock(&ctx->npu->hw_lock);
	npu_ctx_drop(ctx);
	WRITE_ONCE(ctx->killed, true);
	wake_up_all(&ctx->wait);
out:
	mutex_unlock(&ctx->kill_lock);
}

static struct npu_ctx *npu_ctx_first(struct npu_device *npu)
{
	struct npu_ctx *ctx;

	mutex_lock(&npu->hw_lock);
	ctx = list_first_entry_or_null(&npu->ctxs, struct npu_ctx, link);
	if (ctx)
		npu_ctx_get(ctx);
	mutex_unlock(&npu->hw_lock);

	return ctx;
}

/**
 * npu_ctx_kill_all - end all contexts of a device that goes away
 * @npu: device, unplugged
 * @error: what unfinished jobs end with
 *
 * Waits for those that end elsewhere, too: they leave the table of queues before they have given
 * their memory back, which takes the device's DMA.
 */
void npu_ctx_kill_all(struct npu_device *npu, int error)
{
	struct npu_ctx *ctx;

	while ((ctx = npu_ctx_first(npu))) {
		npu_ctx_kill(ctx, error);
		npu_ctx_put(ctx);
	}
	wait_var_event(&npu->contexts, !atomic_read(&npu->contexts));
}

/**
 * npu_ctx_close - end all contexts of a file
 * @file: file that is being closed
 */
void npu_ctx_close(struct drm_file *file)
{
	struct npu_file *nfile = to_npu_file(file);
	struct npu_ctx *ctx;
	unsigned long id;

	xa_for_each(&nfile->ctxs, id, ctx) {
		npu_ctx_kill(ctx, -ECANCELED);
		npu_ctx_put(ctx);
	}
	xa_destroy(&nfile->ctxs);
}

/*
 * Take a context out of the table. The entry of one that is just being created is left alone:
 * erasing that would give its id away a second time, and the first context would be lost.
 */
static struct npu_ctx *npu_ctx_take(struct npu_file *nfile, u32 id)
{
	struct npu_ctx *ctx;

	xa_lock(&nfile->ctxs);
	ctx = xa_load(&nfile->ctxs, id);
	if (ctx)
		__xa_erase(&nfile->ctxs, id);
	xa_unlock(&nfile->ctxs);

	return ctx;
}

/**
 * npu_ioctl_ctx_destroy - DRM_IOCTL_NPU_CTX_DESTROY
 * @drm: device
 * @data: struct drm_npu_ctx_destroy
 * @file: caller
 */
int npu_ioctl_ctx_destroy(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_npu_ctx_destroy *args = data;
	struct npu_ctx *ctx;

	if (args->pad)
		return -EINVAL;

	ctx = npu_ctx_take(to_npu_file(file), args->ctx_id);
	if (!ctx)
		return -ENOENT;

	npu_ctx_kill(ctx, -ECANCELED);
	npu_ctx_put(ctx);

	return 0;
}

/* Questions */

/**
 * npu_ioctl_ctx_query - DRM_IOCTL_NPU_CTX_QUERY
 * @drm: device
 * @data: struct drm_npu_ctx_query
 * @file: caller
 */
int npu_ioctl_ctx_query(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_npu_ctx_query *args = data;
	struct npu_ctx *ctx;
	unsigned long flags;

	if (args->pad)
		return -EINVAL;

	ctx = npu_ctx_lookup(file, args->ctx_id);
	if (!ctx)
		return -ENOENT;

	spin_lock_irqsave(&ctx->queue.lock, flags);
	args->submitted = READ_ONCE(ctx->submitted);
	args->completed = ctx->completed;
	args->errors = ctx->errors;
	args->victims = ctx->victims;
	if (ctx->fault_count)
		args->fault = ctx->faults[(ctx->fault_count - 1) % NPU_CTX_FAULTS];
	spin_unlock_irqrestore(&ctx->queue.lock, flags);
	npu_ctx_put(ctx);

	return 0;
}

static bool npu_ctx_is_completed(struct npu_ctx *ctx, u64 seqno)
{
	unsigned long flags;
	bool done;

	/* With the lock, completion and the signalling of the fence are one step. */
	spin_lock_irqsave(&ctx->queue.lock, flags);
	done = ctx->completed >= seqno;
	spin_unlock_irqrestore(&ctx->queue.lock, flags);

	return done || READ_ONCE(ctx->killed);
}

/*
 * A short job is finished before its waiter could sleep and be woken again. So the one that is next
 * to finish is looked for a while first, unless somebody else wants the processor.
 */
static void npu_ctx_busywait(struct npu_ctx *ctx, const struct drm_npu_wait *args)
{
	s64 now = ktime_get_ns();
	s64 end = min(args->timeout_ns, now + READ_ONCE(npu_busywait_us) * NSEC_PER_USEC);
	int idx;

	/* Entered for each look alone: a device that goes away does not wait for us. */
	while (now < end && READ_ONCE(ctx->completed) + 1 == args->seqno && !need_resched() &&
	       !signal_pending(current)) {
		if (!npu_device_try_enter(ctx->npu, &idx))
			return;
		npu_hw_queue_process(&ctx->queue);
		npu_device_exit(ctx->npu, idx);
		cpu_relax();
		now = ktime_get_ns();
	}
}

static void npu_ctx_find_fault(const struct npu_ctx *ctx, u64 seqno, struct drm_npu_fault *fault)
{
	u32 i;

	for (i = 0; i < NPU_CTX_FAULTS; i++) {
		if (ctx->faults[i].seqno == seqno)
			*fault = ctx->faults[i];
	}
}

static int npu_ctx_wait(struct npu_ctx *ctx, struct drm_npu_wait *args)
{
	struct npu_result *result;
	unsigned long flags;
	long left;

	npu_ctx_busywait(ctx, args);
	left = wait_event_interruptible_timeout(ctx->wait, npu_ctx_is_completed(ctx, args->seqno),
						drm_timeout_abs_to_jiffies(args->timeout_ns));
	if (left < 0)
		return left;
	if (!left)
		return -ETIME;

	spin_lock_irqsave(&ctx->queue.lock, flags);
	if (ctx->completed < args->seqno) {
		spin_unlock_irqrestore(&ctx->queue.lock, flags);
		return READ_ONCE(ctx->dead);
	}
	memset(&args->fault, 0, sizeof(args->fault));
	args->known = ctx->completed - args->seqno < NPU_CTX_RESULTS;
	result = &ctx->results[args->seqno % NPU_CTX_RESULTS];
	args->cycles = args->known ? result->cycles : 0;
	args->error = args->known ? result->error : 0;
	if (args->error)
		npu_ctx_find_fault(ctx, args->seqno, &args->fault);
	spin_unlock_irqrestore(&ctx->queue.lock, flags);

	return 0;
}

/**
 * npu_ioctl_wait - DRM_IOCTL_NPU_WAIT
 * @drm: device
 * @data: struct drm_npu_wait
 * @file: caller
 */
int npu_ioctl_wait(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_npu_wait *args = data;
	struct npu_ctx *ctx;
	int ret;

	if (args->pad)
		return -EINVAL;

	ctx = npu_ctx_lookup(file, args->ctx_id);
	if (!ctx)
		return -ENOENT;

	if (!args->seqno || args->seqno > READ_ONCE(ctx->submitted))
		ret = -EINVAL;
	else
		ret = npu_ctx_wait(ctx, args);
	npu_ctx_put(ctx);

	return ret;
}
