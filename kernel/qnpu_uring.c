// SPDX-License-Identifier: GPL-2.0-only
/*
 * Submission through io_uring: IORING_OP_URING_CMD with the arguments of the submit ioctl. The
 * completion is posted when the last job of the submission is finished.
 *
 * The first attempt is in the submitter's task and does not block. If the context is full or a lock
 * is taken, io_uring retries from a worker, which blocks as the ioctl does.
 *
 * Either the fence callback or the teardown of the ring completes a request that waits for jobs,
 * whichever removes the callback. If dma_fence_remove_callback() returns true, it is the teardown;
 * otherwise the callback has run or will run. A request without its callback yet is not cancelled;
 * the ring retries.
 *
 * io_uring pins the file, and so the module, until the completion.
 */
#include <linux/dma-fence-array.h>
#include <linux/io_uring/cmd.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include <drm/drm_ioctl.h>
#include <drm/npu_accel.h>

#include "qnpu_compat.h"
#include "qnpu_job.h"
#include "qnpu_submit.h"
#include "qnpu_uring.h"

/* A request with unfinished jobs: the command's pdu. */
struct qnpu_uring_req {
	struct dma_fence_cb cb;
	struct dma_fence *fence;	/* of the only job, or an array; with a reference */
};

/* Argument passed through drm_ioctl_kernel(). */
struct qnpu_uring_call {
	struct drm_npu_submit args;	/* private copy of the user's arguments */
	bool nonblock;			/* the submitter must not block */
	struct dma_fence *fence;	/* result, see struct qnpu_uring_req */
};

static struct qnpu_uring_req *qnpu_uring_req(struct io_uring_cmd *cmd)
{
	return io_uring_cmd_to_pdu(cmd, struct qnpu_uring_req);
}

/* The ring's teardown may access the request until the command is done. */
static void qnpu_uring_done(struct io_uring_cmd *cmd, int ret, unsigned int issue_flags)
{
	struct dma_fence *fence = qnpu_uring_req(cmd)->fence;

	io_uring_cmd_done(cmd, ret, issue_flags);
	dma_fence_put(fence);
}

static void qnpu_uring_finish(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	qnpu_uring_done(cmd, qnpu_fence_error(qnpu_uring_req(cmd)->fence), issue_flags);
}

#ifdef QNPU_HAVE_URING_TW_REQ
static void qnpu_uring_task_work(struct io_tw_req tw_req, io_tw_token_t tw)
{
	qnpu_uring_finish(io_uring_cmd_from_tw(tw_req), IO_URING_CMD_TASK_WORK_ISSUE_FLAGS);
}
#else
#define qnpu_uring_task_work qnpu_uring_finish
#endif

/* Runs in the interrupt handler that finished the job. */
static void qnpu_uring_signaled(struct dma_fence *fence, struct dma_fence_cb *cb)
{
	struct qnpu_uring_req *req = container_of(cb, struct qnpu_uring_req, cb);
	struct io_uring_cmd *cmd = container_of((void *)req, struct io_uring_cmd, pdu);

	io_uring_cmd_do_in_task_lazy(cmd, qnpu_uring_task_work);
}

/* The array's fence has the error of the first failed job. */
static int qnpu_uring_submit_many(struct drm_file *file, struct qnpu_uring_call *call)
{
	u32 i, count = call->args.job_count;
	struct dma_fence **fences = kcalloc(count, sizeof(*fences), GFP_KERNEL);
	struct dma_fence_array *array = dma_fence_array_alloc(count);
	int ret = -ENOMEM;

	if (fences && array)
		ret = qnpu_submit(file, &call->args, call->nonblock, fences);
	if (!ret) {
		dma_fence_array_init(array, count, fences, dma_fence_context_alloc(1), 1);
		call->fence = &array->base;
		return 0;
	}

	for (i = 0; fences && i < count; i++)
		dma_fence_put(fences[i]);
	kfree(fences);
	kfree(array);

	return ret;
}

static int qnpu_uring_call(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct qnpu_uring_call *call = data;
	int ret;

	ret = qnpu_submit_check(&call->args);
	if (ret)
		return ret;
	if (call->args.job_count > 1)
		return qnpu_uring_submit_many(file, call);

	ret = qnpu_submit(file, &call->args, call->nonblock, &call->fence);
	if (ret)
		dma_fence_put(call->fence);

	return ret;
}

/* User space can write the queue entry at any time, so each field is read once. */
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

	/* The request may be freed at any time after the last step. */
	req = qnpu_uring_req(cmd);
	INIT_LIST_HEAD(&req->cb.node);
	req->fence = call.fence;
	io_uring_cmd_mark_cancelable(cmd, issue_flags);
	if (dma_fence_add_callback(call.fence, &req->cb, qnpu_uring_signaled))
		qnpu_uring_finish(cmd, issue_flags);

	return -EIOCBQUEUED;
}

/*
 * Cancel a request on ring teardown; its jobs continue. The caller may be an io_uring worker, but
 * only the submitter's task work may post completions. The command is done at once nevertheless:
 * otherwise the worker would poll until the submitter runs, which may be stopped.
 */
static int qnpu_uring_cancel(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	struct qnpu_uring_req *req = qnpu_uring_req(cmd);

	if (dma_fence_remove_callback(req->fence, &req->cb))
		qnpu_uring_done(cmd, -ECANCELED, issue_flags & ~IO_URING_F_COMPLETE_DEFER);

	return 0;
}

/* file_operations.uring_cmd */
int qnpu_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	if (issue_flags & IO_URING_F_CANCEL)
		return qnpu_uring_cancel(cmd, issue_flags);
	if (cmd->cmd_op != DRM_NPU_URING_SUBMIT)
		return -EOPNOTSUPP;

	return qnpu_uring_submit(cmd, issue_flags);
}
