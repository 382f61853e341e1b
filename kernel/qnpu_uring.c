// SPDX-License-Identifier: GPL-2.0-only
/*
 * Submission through io_uring: IORING_OP_URING_CMD takes what the submit ioctl takes, and its
 * completion comes when the last job of the submission is finished.
 *
 * The first attempt is made in the submitter's context and does not wait: where the context is
 * full, or somebody has one of the locks, io_uring tries again from a worker of its own, which
 * waits as the ioctl does.
 *
 * A request that waits for its jobs belongs to two parties: the callback of the last fence, and
 * the ring that goes away. Whoever takes the callback off the fence completes the request:
 * dma_fence_remove_callback() says whether that is the ring's end; otherwise the callback has run,
 * or will. A request that is just being set up has no callback yet; the ring asks again.
 *
 * io_uring holds the file until the completion, and so the module.
 */
#include <linux/dma-fence.h>
#include <linux/io_uring/cmd.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include <drm/drm_ioctl.h>
#include <drm/npu_accel.h>

#include "qnpu_compat.h"
#include "qnpu_job.h"
#include "qnpu_submit.h"
#include "qnpu_uring.h"

/** struct qnpu_uring_batch - the fences of a submission with several jobs */
struct qnpu_uring_batch {
	/** @count: entries of @fences */
	u32 count;

	/** @fences: of the jobs, in their order, with references */
	struct dma_fence *fences[] __counted_by(count);
};

/** struct qnpu_uring_req - a request whose jobs are not finished: the command's pdu */
struct qnpu_uring_req {
	/** @cb: waits for the last fence */
	struct dma_fence_cb cb;

	/**
	 * @fences: the fence of the only job, with a reference, or a struct qnpu_uring_batch with
	 * QNPU_URING_BATCH set; the pdu has no room for more
	 */
	unsigned long fences;
};

#define QNPU_URING_BATCH	BIT(0)

/** struct qnpu_uring_call - what goes through drm_ioctl_kernel() */
struct qnpu_uring_call {
	/** @args: private copy of what user space asks for */
	struct drm_npu_submit args;

	/** @nonblock: the submitter must not wait */
	bool nonblock;

	/** @fences: answer, see struct qnpu_uring_req */
	unsigned long fences;
};

static struct qnpu_uring_req *qnpu_uring_req(struct io_uring_cmd *cmd)
{
	return io_uring_cmd_to_pdu(cmd, struct qnpu_uring_req);
}

static struct qnpu_uring_batch *qnpu_uring_batch(unsigned long fences)
{
	return fences & QNPU_URING_BATCH ? (void *)(fences & ~QNPU_URING_BATCH) : NULL;
}

static void qnpu_uring_free_batch(struct qnpu_uring_batch *batch)
{
	u32 i;

	for (i = 0; i < batch->count; i++)
		dma_fence_put(batch->fences[i]);
	kfree(batch);
}

static void qnpu_uring_put(unsigned long fences)
{
	struct qnpu_uring_batch *batch = qnpu_uring_batch(fences);

	if (batch)
		qnpu_uring_free_batch(batch);
	else
		dma_fence_put((struct dma_fence *)fences);
}

static struct dma_fence *qnpu_uring_last(unsigned long fences)
{
	struct qnpu_uring_batch *batch = qnpu_uring_batch(fences);

	return batch ? batch->fences[batch->count - 1] : (struct dma_fence *)fences;
}

/* The first error of the jobs, all of them finished. */
static int qnpu_uring_result(unsigned long fences)
{
	struct qnpu_uring_batch *batch = qnpu_uring_batch(fences);
	u32 i;
	int ret;

	if (!batch)
		return qnpu_fence_error((struct dma_fence *)fences);

	for (i = 0; i < batch->count; i++) {
		ret = qnpu_fence_error(batch->fences[i]);
		if (ret)
			return ret;
	}

	return 0;
}

/* Until the command is done, a ring that goes away may look at the request. */
static void qnpu_uring_done(struct io_uring_cmd *cmd, int ret, unsigned int issue_flags)
{
	unsigned long fences = qnpu_uring_req(cmd)->fences;

	io_uring_cmd_done(cmd, ret, issue_flags);
	qnpu_uring_put(fences);
}

static void qnpu_uring_finish(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	qnpu_uring_done(cmd, qnpu_uring_result(qnpu_uring_req(cmd)->fences), issue_flags);
}

#ifdef QNPU_HAVE_URING_TW_REQ
static void qnpu_uring_task_work(struct io_tw_req tw_req, io_tw_token_t tw)
{
	qnpu_uring_finish(io_uring_cmd_from_tw(tw_req), IO_URING_CMD_TASK_WORK_ISSUE_FLAGS);
}
#else
#define qnpu_uring_task_work qnpu_uring_finish
#endif

/* In the interrupt handler that finished the job. */
static void qnpu_uring_signaled(struct dma_fence *fence, struct dma_fence_cb *cb)
{
	struct qnpu_uring_req *req = container_of(cb, struct qnpu_uring_req, cb);
	struct io_uring_cmd *cmd = container_of((void *)req, struct io_uring_cmd, pdu);

	io_uring_cmd_do_in_task_lazy(cmd, qnpu_uring_task_work);
}

/* Submission */

static int qnpu_uring_call_batch(struct drm_file *file, struct qnpu_uring_call *call)
{
	struct qnpu_uring_batch *batch;
	int ret;

	batch = kzalloc_flex(*batch, fences, call->args.job_count);
	if (!batch)
		return -ENOMEM;
	batch->count = call->args.job_count;

	ret = qnpu_submit(file, &call->args, call->nonblock, batch->fences);
	if (ret)
		qnpu_uring_free_batch(batch);
	else
		call->fences = (unsigned long)batch | QNPU_URING_BATCH;

	return ret;
}

static int qnpu_uring_call(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct qnpu_uring_call *call = data;
	struct dma_fence *fence = NULL;
	int ret;

	ret = qnpu_submit_check(&call->args);
	if (ret)
		return ret;
	if (call->args.job_count > 1)
		return qnpu_uring_call_batch(file, call);

	ret = qnpu_submit(file, &call->args, call->nonblock, &fence);
	if (ret)
		dma_fence_put(fence);
	else
		call->fences = (unsigned long)fence;

	return ret;
}

/* The entry lies in memory that user space writes: each field is read once. */
static int qnpu_uring_read(struct io_uring_cmd *cmd, struct drm_npu_submit *args)
{
	const struct drm_npu_uring_submit *entry =
		io_uring_sqe_cmd(cmd->sqe, struct drm_npu_uring_submit);

	if (READ_ONCE(entry->flags) || READ_ONCE(entry->pad))
		return -EINVAL;
	if (copy_from_user(args, u64_to_user_ptr(READ_ONCE(entry->submit)), sizeof(*args)))
		return -EFAULT;

	return 0;
}

static int qnpu_uring_submit(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	struct qnpu_uring_call call = { .nonblock = issue_flags & IO_URING_F_NONBLOCK };
	struct qnpu_uring_req *req;
	int ret;

	ret = qnpu_uring_read(cmd, &call.args);
	if (ret)
		return ret;

	ret = drm_ioctl_kernel(cmd->file, qnpu_uring_call, &call, 0);
	if (ret)
		return ret == -ERESTARTSYS ? -EINTR : ret;

	/* From the last step on the request can be gone at any time. */
	req = qnpu_uring_req(cmd);
	INIT_LIST_HEAD(&req->cb.node);
	req->fences = call.fences;
	io_uring_cmd_mark_cancelable(cmd, issue_flags);
	if (dma_fence_add_callback(qnpu_uring_last(call.fences), &req->cb, qnpu_uring_signaled))
		qnpu_uring_finish(cmd, issue_flags);

	return -EIOCBQUEUED;
}

/*
 * The ring goes away: the request ends, its jobs go on. A worker of io_uring may be the one that
 * says so, while completions of the ring belong to its submitter: the completion is left to task
 * work, as always. But from here on the command is done, or the worker would ask again without a
 * pause until the submitter runs, which takes as long as it likes if it is stopped.
 */
static int qnpu_uring_cancel(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	struct qnpu_uring_req *req = qnpu_uring_req(cmd);

	if (dma_fence_remove_callback(qnpu_uring_last(req->fences), &req->cb))
		qnpu_uring_done(cmd, -ECANCELED, issue_flags & ~IO_URING_F_COMPLETE_DEFER);

	return 0;
}

/**
 * qnpu_uring_cmd - file_operations.uring_cmd
 * @cmd: command
 * @issue_flags: io_uring's
 */
int qnpu_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	if (issue_flags & IO_URING_F_CANCEL)
		return qnpu_uring_cancel(cmd, issue_flags);
	if (cmd->cmd_op != DRM_NPU_URING_SUBMIT)
		return -EOPNOTSUPP;

	return qnpu_uring_submit(cmd, issue_flags);
}
