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
#include <linux/slab.h>
#include <linux/uaccess.h>

#include <drm/drm_ioctl.h>
#include <drm/npu_accel.h>

#include "npu_compat.h"
#include "npu_fence.h"
#include "npu_submit.h"
#include "npu_uring.h"

/** struct npu_uring_req - a request whose jobs are not finished; the command's pdu leads to it */
struct npu_uring_req {
	/** @cmd: io_uring's part */
	struct io_uring_cmd *cmd;

	/** @cb: waits for the last fence */
	struct dma_fence_cb cb;

	/** @count: entries of @fences */
	u32 count;

	/** @fences: of the jobs, in their order, with references */
	struct dma_fence *fences[] __counted_by(count);
};

/** struct npu_uring_call - what goes through drm_ioctl_kernel() */
struct npu_uring_call {
	/** @args: private copy of what user space asks for */
	struct drm_npu_submit args;

	/** @nonblock: the submitter must not wait */
	bool nonblock;

	/** @req: answer */
	struct npu_uring_req *req;
};

static struct npu_uring_req **npu_uring_pdu(struct io_uring_cmd *cmd)
{
	return io_uring_cmd_to_pdu(cmd, struct npu_uring_req *);
}

static void npu_uring_free(struct npu_uring_req *req)
{
	u32 i;

	for (i = 0; i < req->count; i++)
		dma_fence_put(req->fences[i]);
	kfree(req);
}

/* The first error of the jobs, all of them finished. */
static int npu_uring_result(const struct npu_uring_req *req)
{
	u32 i;
	int ret;

	for (i = 0; i < req->count; i++) {
		ret = npu_fence_error(req->fences[i]);
		if (ret)
			return ret;
	}

	return 0;
}

/* Until the command is done, a ring that goes away may look at the request. */
static void npu_uring_done(struct npu_uring_req *req, int ret, unsigned int issue_flags)
{
	npu_io_uring_cmd_done(req->cmd, ret, issue_flags);
	npu_uring_free(req);
}

static void npu_uring_finish(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	struct npu_uring_req *req = *npu_uring_pdu(cmd);

	npu_uring_done(req, npu_uring_result(req), issue_flags);
}

NPU_IO_URING_TASK_WORK(npu_uring_task_work, npu_uring_finish)

/* In the interrupt handler that finished the job. */
static void npu_uring_signaled(struct dma_fence *fence, struct dma_fence_cb *cb)
{
	struct npu_uring_req *req = container_of(cb, struct npu_uring_req, cb);

	io_uring_cmd_do_in_task_lazy(req->cmd, npu_uring_task_work);
}

/* Submission */

static int npu_uring_call(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct npu_uring_call *call = data;
	struct npu_uring_req *req;
	int ret;

	ret = npu_submit_check(&call->args);
	if (ret)
		return ret;

	req = kzalloc(struct_size(req, fences, call->args.job_count), GFP_KERNEL);
	if (!req)
		return -ENOMEM;
	req->count = call->args.job_count;
	INIT_LIST_HEAD(&req->cb.node);

	ret = npu_submit(file, &call->args, call->nonblock, req->fences);
	if (ret) {
		npu_uring_free(req);
		return ret;
	}
	call->req = req;

	return 0;
}

/* The entry lies in memory that user space writes: each field is read once. */
static int npu_uring_read(struct io_uring_cmd *cmd, struct drm_npu_submit *args)
{
	const struct drm_npu_uring_submit *entry =
		npu_io_uring_sqe_cmd(cmd->sqe, struct drm_npu_uring_submit);

	if (READ_ONCE(entry->flags) || READ_ONCE(entry->pad))
		return -EINVAL;
	if (copy_from_user(args, u64_to_user_ptr(READ_ONCE(entry->submit)), sizeof(*args)))
		return -EFAULT;

	return 0;
}

static int npu_uring_submit(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	struct npu_uring_call call = { .nonblock = issue_flags & IO_URING_F_NONBLOCK };
	struct npu_uring_req *req;
	int ret;

	ret = npu_uring_read(cmd, &call.args);
	if (ret)
		return ret;

	ret = drm_ioctl_kernel(cmd->file, npu_uring_call, &call, 0);
	if (ret)
		return ret == -ERESTARTSYS ? -EINTR : ret;

	/* From the last step on the request can be gone at any time. */
	req = call.req;
	req->cmd = cmd;
	*npu_uring_pdu(cmd) = req;
	io_uring_cmd_mark_cancelable(cmd, issue_flags);
	if (dma_fence_add_callback(req->fences[req->count - 1], &req->cb, npu_uring_signaled))
		npu_uring_done(req, npu_uring_result(req), issue_flags);

	return -EIOCBQUEUED;
}

/*
 * The ring goes away: the request ends, its jobs go on. A worker of io_uring may be the one that
 * says so, while completions of the ring belong to its submitter: the completion is left to task
 * work, as always. But from here on the command is done, or the worker would ask again without a
 * pause until the submitter runs, which takes as long as it likes if it is stopped.
 */
static int npu_uring_cancel(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	struct npu_uring_req *req = *npu_uring_pdu(cmd);

	if (dma_fence_remove_callback(req->fences[req->count - 1], &req->cb))
		npu_uring_done(req, -ECANCELED, issue_flags & ~IO_URING_F_COMPLETE_DEFER);

	return 0;
}

/**
 * npu_uring_cmd - file_operations.uring_cmd
 * @cmd: command
 * @issue_flags: io_uring's
 */
int npu_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	if (issue_flags & IO_URING_F_CANCEL)
		return npu_uring_cancel(cmd, issue_flags);
	if (cmd->cmd_op != DRM_NPU_URING_SUBMIT)
		return -EOPNOTSUPP;

	return npu_uring_submit(cmd, issue_flags);
}
