// SPDX-License-Identifier: GPL-2.0-only
/*
 * Contexts: a hardware queue, a fence page, and the results of jobs.
 *
 * A context ends in two steps. qnpu_ctx_kill() stops the queue and releases all device resources.
 * It runs once, from the ioctl, the close of the file or the removal of the device. The structure
 * is freed with the last reference, which an exported fence may hold.
 */
#include <linux/capability.h>
#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/wait_bit.h>

#include <drm/drm_utils.h>

#include "qnpu_attach.h"
#include "qnpu_ctx.h"
#include "qnpu_device.h"
#include "qnpu_file.h"
#include "qnpu_job.h"
#include "qnpu_recover.h"
#include "qnpu_trace.h"
#include "qnpu_vm.h"

static unsigned int qnpu_timeout_ms = 5000;
module_param_named(timeout_ms, qnpu_timeout_ms, uint, 0644);
MODULE_PARM_DESC(timeout_ms, "time between two looks of the watchdog at a job, for new contexts");

static unsigned int qnpu_busywait_us = 100;
module_param_named(busywait_us, qnpu_busywait_us, uint, 0644);
MODULE_PARM_DESC(busywait_us, "time that a waiter looks for a short job before it sleeps, 0: sleeps at once");

static void qnpu_ctx_release(struct kref *kref)
{
	struct qnpu_ctx *ctx = container_of(kref, struct qnpu_ctx, kref);

	put_page(ctx->fence_page);
	kfree_rcu(ctx, rcu);
}

/* Drop a reference; accepts NULL, does not sleep. */
void qnpu_ctx_put(struct qnpu_ctx *ctx)
{
	if (ctx)
		kref_put(&ctx->kref, qnpu_ctx_release);
}

/* Returns a file's context by id, with a reference, or NULL. */
struct qnpu_ctx *qnpu_ctx_lookup(struct drm_file *file, u32 id)
{
	struct qnpu_file *nfile = to_qnpu_file(file);
	struct qnpu_ctx *ctx;

	xa_lock(&nfile->ctxs);
	ctx = xa_load(&nfile->ctxs, id);
	if (ctx)
		qnpu_ctx_get(ctx);
	xa_unlock(&nfile->ctxs);

	return ctx;
}

/* Fence page */

/*
 * An ordinary refcounted page, so that a mapping can outlive context and device. For a device that
 * does not snoop caches it is zeroed, cleaned and mapped uncached; the kernel never reads it.
 */
static int qnpu_ctx_init_fence_page(struct qnpu_ctx *ctx)
{
	struct device *dev = ctx->npu->drm.dev;

	ctx->fence_page = alloc_page(QNPU_GFP_USER | __GFP_ZERO);
	if (!ctx->fence_page)
		return -ENOMEM;

	ctx->fence_dma = dma_map_page(dev, ctx->fence_page, 0, PAGE_SIZE, DMA_BIDIRECTIONAL);
	if (dma_mapping_error(dev, ctx->fence_dma)) {
		put_page(ctx->fence_page);
		return -ENOMEM;
	}

	return 0;
}

static vm_fault_t qnpu_fence_page_fault(struct vm_fault *vmf)
{
	struct qnpu_ctx *ctx = vmf->vma->vm_private_data;

	if (vmf->pgoff != ctx->id)
		return VM_FAULT_SIGBUS;

	get_page(ctx->fence_page);
	vmf->page = ctx->fence_page;

	return 0;
}

static void qnpu_fence_page_open(struct vm_area_struct *vma)
{
	qnpu_ctx_get(vma->vm_private_data);
}

static void qnpu_fence_page_close(struct vm_area_struct *vma)
{
	qnpu_ctx_put(vma->vm_private_data);
}

static const struct vm_operations_struct qnpu_fence_page_ops = {
	.fault = qnpu_fence_page_fault,
	.open = qnpu_fence_page_open,
	.close = qnpu_fence_page_close,
};

/* Map the fence page of a context; the page offset of @vma is the context id. */
int qnpu_ctx_mmap_fence(struct drm_file *file, struct vm_area_struct *vma)
{
	struct qnpu_ctx *ctx;

	if (vma->vm_pgoff > QNPU_MAX_CTX_ID || vma_pages(vma) != 1)
		return -EINVAL;
	if (vma->vm_flags & VM_WRITE)
		return -EACCES;

	ctx = qnpu_ctx_lookup(file, vma->vm_pgoff);
	if (!ctx)
		return -ENOENT;

	vm_flags_mod(vma, VM_DONTEXPAND | VM_DONTDUMP, VM_MAYWRITE);
	if (!ctx->npu->coherent) {
		vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
		vm_flags_set(vma, VM_IO); /* keeps get_user_pages() from making cached accesses */
	}
	vma->vm_private_data = ctx;
	vma->vm_ops = &qnpu_fence_page_ops;

	return 0;
}

/* Creation */

static void qnpu_ctx_kick_work(struct work_struct *work)
{
	struct qnpu_ctx *ctx = container_of(work, struct qnpu_ctx, kick_work);
	struct drm_device *drm = NULL;
	bool cookie = dma_fence_begin_signalling();

	qnpu_hw_queue_push(&ctx->queue, NULL, 0);
	dma_fence_end_signalling(cookie);
	if (READ_ONCE(ctx->orphaned) && !qnpu_ctx_is_busy(ctx)) {
		WRITE_ONCE(ctx->orphaned, false);
		drm = &ctx->npu->drm;
	}
	qnpu_ctx_put(ctx);
	drm_dev_put(drm);
}

/* Release the fence page's DMA mapping and the address space. */
static void qnpu_ctx_drop(struct qnpu_ctx *ctx)
{
	struct qnpu_vm *vm = ctx->vm;
	unsigned long flags;

	dma_unmap_page(ctx->npu->drm.dev, ctx->fence_dma, PAGE_SIZE, DMA_BIDIRECTIONAL);
	spin_lock_irqsave(&ctx->queue.lock, flags); /* orphans finish elsewhere */
	ctx->vm = NULL;
	spin_unlock_irqrestore(&ctx->queue.lock, flags);
	qnpu_vm_put(vm);
	if (atomic_dec_and_test(&ctx->npu->contexts))
		wake_up_var(&ctx->npu->contexts);
}

/* Creates a user's context, or the driver's own, which gets the last queue pair. */
struct qnpu_ctx *qnpu_ctx_create(struct qnpu_device *npu, struct qnpu_vm *vm, bool internal,
				 u32 priority, u32 core_mask)
{
	static struct lock_class_key internal_key;
	struct qnpu_ctx *ctx;
	int ret;

	ctx = kzalloc_obj(*ctx, QNPU_GFP_USER);
	if (!ctx)
		return ERR_PTR(-ENOMEM);
	kref_init(&ctx->kref);
	ctx->npu = npu;
	ctx->core_mask = core_mask;
	ctx->internal = internal;
	spin_lock_init(&ctx->fence_lock);
	ctx->fence_context = dma_fence_context_alloc(1);
	mutex_init(&ctx->kill_lock);
	mutex_init(&ctx->submit_lock);
	/* Submissions evict under the user's lock, so the driver's own lock nests inside it. */
	if (internal)
		lockdep_set_class_and_name(&ctx->submit_lock, &internal_key, "qnpu_copy_submit");
	init_waitqueue_head(&ctx->wait);
	INIT_WORK(&ctx->kick_work, qnpu_ctx_kick_work);
	INIT_DELAYED_WORK(&ctx->watch_work, qnpu_recover_watch_work);
	ctx->timeout = msecs_to_jiffies(max(READ_ONCE(qnpu_timeout_ms), 1u));

	ret = qnpu_ctx_init_fence_page(ctx);
	if (ret) {
		kfree(ctx);
		return ERR_PTR(ret);
	}
	atomic_inc(&npu->contexts);
	ctx->vm = qnpu_vm_get(vm);
	qnpu_hw_queue_init(&ctx->queue, ctx, priority, core_mask);
	guard(mutex)(&npu->hw_lock);
	list_add_tail(&ctx->link, &npu->ctxs);

	return ctx;
}

/* DRM_IOCTL_NPU_CTX_CREATE */
int qnpu_ioctl_ctx_create(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct qnpu_device *npu = to_qnpu_device(drm);
	struct drm_npu_ctx_create *args = data;
	u32 all = GENMASK(npu->info.cores - 1, 0);
	struct qnpu_vm *vm;
	struct qnpu_ctx *ctx;
	int ret, idx;

	if (args->flags || args->core_mask & ~all || args->priority > DRM_NPU_PRIORITY_REALTIME)
		return -EINVAL;
	if (args->priority >= DRM_NPU_PRIORITY_HIGH && !capable(CAP_SYS_NICE))
		return -EACCES;

	vm = qnpu_file_vm(file);
	if (IS_ERR(vm))
		return PTR_ERR(vm);

	/* Removal then finds either no context or a complete one. */
	if (!drm_dev_enter(drm, &idx))
		return -ENODEV;
	ret = qnpu_attach_prepare(npu, atomic_read(&npu->contexts) + 1);
	ctx = ret ? ERR_PTR(ret) :
		    qnpu_ctx_create(npu, vm, false, args->priority, args->core_mask ?: all);
	drm_dev_exit(idx);
	if (IS_ERR(ctx))
		return PTR_ERR(ctx);

	/* Once published, it may be destroyed at any time. */
	qnpu_ctx_get(ctx);
	ret = xa_alloc(&to_qnpu_file(file)->ctxs, &ctx->id, ctx, XA_LIMIT(1, QNPU_MAX_CTX_ID),
		       GFP_KERNEL);
	if (ret) {
		qnpu_ctx_kill(ctx, -ECANCELED);
		qnpu_ctx_put(ctx);
	} else {
		args->ctx_id = ctx->id;
		args->fence_offset = (u64)ctx->id << PAGE_SHIFT;
		trace_qnpu_ctx_create(ctx);
	}
	qnpu_ctx_put(ctx);

	return ret;
}

/* Teardown */

/* Stop a context and release its device resources. Unfinished jobs end with @error. */
void qnpu_ctx_kill(struct qnpu_ctx *ctx, int error)
{
	guard(mutex)(&ctx->kill_lock);
	if (ctx->killed)
		return;

	/* No new submissions: end waits for room, and wait for a submission in progress. */
	WRITE_ONCE(ctx->dead, error);
	trace_qnpu_ctx_kill(ctx);
	wake_up_all(&ctx->wait);
	mutex_lock(&ctx->submit_lock);
	mutex_unlock(&ctx->submit_lock);

	/* Order: stop the device, end the jobs, then cancel the works. */
	qnpu_hw_queue_shutdown(&ctx->queue, error);
	if (cancel_work_sync(&ctx->kick_work))
		qnpu_ctx_put(ctx); /* the work's reference; a later work leaves the device alone */
	/*
	 * Jobs with unsignalled in-fences will not run, but must not signal early. A waiter for
	 * the last of several jobs may assume that all earlier ones are done.
	 */
	if (qnpu_ctx_is_busy(ctx)) {
		drm_dev_get(&ctx->npu->drm);
		WRITE_ONCE(ctx->orphaned, true);
		qnpu_job_kick(ctx);
	}

	scoped_guard(mutex, &ctx->npu->hw_lock)
		list_del_init(&ctx->link);
	qnpu_ctx_drop(ctx);
	WRITE_ONCE(ctx->killed, true);
	wake_up_all(&ctx->wait);
}

static struct qnpu_ctx *qnpu_ctx_first(struct qnpu_device *npu)
{
	struct qnpu_ctx *ctx;

	guard(mutex)(&npu->hw_lock);
	ctx = list_first_entry_or_null(&npu->ctxs, struct qnpu_ctx, link);

	return ctx ? qnpu_ctx_get(ctx) : NULL;
}

/*
 * Kill all contexts of an unplugged device; unfinished jobs end with @error. Waits for kills in
 * other threads: a context leaves the list before its DMA mappings are undone.
 */
void qnpu_ctx_kill_all(struct qnpu_device *npu, int error)
{
	struct qnpu_ctx *ctx;

	while ((ctx = qnpu_ctx_first(npu))) {
		qnpu_ctx_kill(ctx, error);
		qnpu_ctx_put(ctx);
	}
	wait_var_event(&npu->contexts, !atomic_read(&npu->contexts));
}

/* Kill all contexts of a file that is being closed. */
void qnpu_ctx_close(struct drm_file *file)
{
	struct qnpu_file *nfile = to_qnpu_file(file);
	struct qnpu_ctx *ctx;
	unsigned long id;

	xa_for_each(&nfile->ctxs, id, ctx) {
		qnpu_ctx_kill(ctx, -ECANCELED);
		qnpu_ctx_put(ctx);
	}
	xa_destroy(&nfile->ctxs);
}

/* DRM_IOCTL_NPU_CTX_DESTROY */
int qnpu_ioctl_ctx_destroy(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_npu_ctx_destroy *args = data;
	struct qnpu_ctx *ctx;

	if (args->pad)
		return -EINVAL;

	ctx = xa_erase(&to_qnpu_file(file)->ctxs, args->ctx_id);
	if (!ctx)
		return -ENOENT;
	qnpu_ctx_kill(ctx, -ECANCELED);
	qnpu_ctx_put(ctx);

	return 0;
}

/* DRM_IOCTL_NPU_CTX_QUERY */
int qnpu_ioctl_ctx_query(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_npu_ctx_query *args = data;
	struct qnpu_ctx *ctx __free(qnpu_ctx) = qnpu_ctx_lookup(file, args->ctx_id);
	unsigned long flags;

	if (args->pad)
		return -EINVAL;
	if (!ctx)
		return -ENOENT;

	spin_lock_irqsave(&ctx->queue.lock, flags);
	args->submitted = READ_ONCE(ctx->submitted);
	args->completed = ctx->completed;
	args->errors = ctx->errors;
	args->victims = ctx->victims;
	if (ctx->fault_count)
		args->fault = ctx->faults[(ctx->fault_count - 1) % QNPU_CTX_FAULTS];
	spin_unlock_irqrestore(&ctx->queue.lock, flags);

	return 0;
}

static bool qnpu_ctx_is_completed(struct qnpu_ctx *ctx, u64 seqno)
{
	unsigned long flags;
	bool done;

	/* Makes completion and signalling of the fence appear as one step. */
	spin_lock_irqsave(&ctx->queue.lock, flags);
	done = ctx->completed >= seqno;
	spin_unlock_irqrestore(&ctx->queue.lock, flags);

	return done || READ_ONCE(ctx->killed);
}

/*
 * Poll for the next job to finish, unless another task needs the CPU: a short job finishes before
 * its waiter could sleep and wake.
 */
static void qnpu_ctx_busywait(struct qnpu_ctx *ctx, const struct drm_npu_wait *args)
{
	s64 now = ktime_get_ns();
	s64 end = min(args->timeout_ns, now + READ_ONCE(qnpu_busywait_us) * NSEC_PER_USEC);
	int idx;

	/* Entered for each poll separately, so that removal does not wait. */
	while (now < end && READ_ONCE(ctx->completed) + 1 == args->seqno && !need_resched() &&
	       !signal_pending(current)) {
		if (!qnpu_device_try_enter(ctx->npu, &idx))
			return;
		qnpu_hw_queue_process(&ctx->queue);
		qnpu_device_exit(ctx->npu, idx);
		cpu_relax();
		now = ktime_get_ns();
	}
}

static int qnpu_ctx_wait(struct qnpu_ctx *ctx, struct drm_npu_wait *args)
{
	const struct qnpu_result *result = &ctx->results[args->seqno % QNPU_CTX_RESULTS];
	unsigned long flags;
	u32 i;
	long left;

	qnpu_ctx_busywait(ctx, args);
	left = wait_event_interruptible_timeout(ctx->wait, qnpu_ctx_is_completed(ctx, args->seqno),
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
	args->known = ctx->completed - args->seqno < QNPU_CTX_RESULTS;
	args->cycles = args->known ? result->cycles : 0;
	args->error = args->known ? result->error : 0;
	for (i = 0; args->error && i < QNPU_CTX_FAULTS; i++) {
		if (ctx->faults[i].seqno == args->seqno)
			args->fault = ctx->faults[i];
	}
	spin_unlock_irqrestore(&ctx->queue.lock, flags);

	return 0;
}

/* DRM_IOCTL_NPU_WAIT */
int qnpu_ioctl_wait(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_npu_wait *args = data;
	struct qnpu_ctx *ctx __free(qnpu_ctx) = qnpu_ctx_lookup(file, args->ctx_id);

	if (args->pad)
		return -EINVAL;
	if (!ctx)
		return -ENOENT;
	if (!args->seqno || args->seqno > READ_ONCE(ctx->submitted))
		return -EINVAL;

	return qnpu_ctx_wait(ctx, args);
}
