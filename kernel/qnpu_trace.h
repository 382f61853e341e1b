/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM qnpu

#if !defined(QNPU_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define QNPU_TRACE_H

/*
 * Events under /sys/kernel/tracing/events/qnpu, described in docs/reference/uapi.md. A job is
 * identified by its fence, "fence=CONTEXT:SEQNO", as in the dma_fence events.
 */
#include <linux/tracepoint.h>

#include "qnpu_ctx.h"
#include "qnpu_device.h"
#include "qnpu_gem.h"
#include "qnpu_hw_queue.h"
#include "qnpu_job.h"

/* Jobs */

TRACE_EVENT(qnpu_job_submit,
	TP_PROTO(struct qnpu_ctx_job *job),
	TP_ARGS(job),
	TP_STRUCT__entry(
		__string(dev, dev_name(job->ctx->npu->drm.dev))
		__field(u64, context)
		__field(u64, seqno)
		__field(u32, ctx)
		__field(u32, queue)
		__field(u32, regions)
		__field(u32, in_fences)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->context = job->fence->context;
		__entry->seqno = job->seqno;
		__entry->ctx = job->ctx->id;
		__entry->queue = job->ctx->queue.index;
		__entry->regions = job->region_count;
		__entry->in_fences = job->in_count;
	),
	TP_printk("dev=%s fence=%llu:%llu ctx=%u queue=%u regions=%u in_fences=%u",
		  __get_str(dev), __entry->context, __entry->seqno, __entry->ctx, __entry->queue,
		  __entry->regions, __entry->in_fences)
);

TRACE_EVENT(qnpu_job_wait,
	TP_PROTO(struct qnpu_ctx_job *job, struct dma_fence *in),
	TP_ARGS(job, in),
	TP_STRUCT__entry(
		__field(u64, context)
		__field(u64, seqno)
		__field(u64, in_context)
		__field(u64, in_seqno)
	),
	TP_fast_assign(
		__entry->context = job->fence->context;
		__entry->seqno = job->seqno;
		__entry->in_context = in->context;
		__entry->in_seqno = in->seqno;
	),
	TP_printk("fence=%llu:%llu waits for fence=%llu:%llu", __entry->context, __entry->seqno,
		  __entry->in_context, __entry->in_seqno)
);

/* Written to the ring; with an error: not written because of it. */
TRACE_EVENT(qnpu_job_run,
	TP_PROTO(struct qnpu_ctx_job *job, u32 tail, int error),
	TP_ARGS(job, tail, error),
	TP_STRUCT__entry(
		__string(dev, dev_name(job->ctx->npu->drm.dev))
		__field(u64, context)
		__field(u64, seqno)
		__field(u32, queue)
		__field(u32, tail)
		__field(int, error)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->context = job->fence->context;
		__entry->seqno = job->seqno;
		__entry->queue = job->ctx->queue.index;
		__entry->tail = tail;
		__entry->error = error;
	),
	TP_printk("dev=%s fence=%llu:%llu queue=%u tail=%u error=%d", __get_str(dev),
		  __entry->context, __entry->seqno, __entry->queue, __entry->tail, __entry->error)
);

/* The fence is about to signal. Times are core cycles; zero without a completion. */
TRACE_EVENT(qnpu_job_done,
	TP_PROTO(struct qnpu_ctx_job *job, int error, const struct npu_cqe *cqe),
	TP_ARGS(job, error, cqe),
	TP_STRUCT__entry(
		__string(dev, dev_name(job->ctx->npu->drm.dev))
		__field(u64, context)
		__field(u64, seqno)
		__field(u64, start)
		__field(u64, cycles)
		__field(u32, queue)
		__field(u32, core)
		__field(u32, status)
		__field(int, error)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->context = job->fence->context;
		__entry->seqno = job->seqno;
		__entry->start = cqe ? cqe->start_cycle : 0;
		__entry->cycles = cqe ? cqe->end_cycle - cqe->start_cycle : 0;
		__entry->queue = job->ctx->queue.index;
		__entry->core = cqe ? cqe->core : 0;
		__entry->status = cqe ? cqe->status : 0;
		__entry->error = error;
	),
	TP_printk("dev=%s fence=%llu:%llu queue=%u core=%u status=%u error=%d start=%llu cycles=%llu",
		  __get_str(dev), __entry->context, __entry->seqno, __entry->queue, __entry->core,
		  __entry->status, __entry->error, __entry->start, __entry->cycles)
);

/* Recovery */

DECLARE_EVENT_CLASS(qnpu_job_recovery,
	TP_PROTO(struct qnpu_ctx_job *job, u32 cores),
	TP_ARGS(job, cores),
	TP_STRUCT__entry(
		__string(dev, dev_name(job->ctx->npu->drm.dev))
		__field(u64, context)
		__field(u64, seqno)
		__field(u32, queue)
		__field(u32, cores)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->context = job->fence->context;
		__entry->seqno = job->seqno;
		__entry->queue = job->ctx->queue.index;
		__entry->cores = cores;
	),
	TP_printk("dev=%s fence=%llu:%llu queue=%u cores=%#x", __get_str(dev), __entry->context,
		  __entry->seqno, __entry->queue, __entry->cores)
);

/* The watchdog aborts a job. If that fails, it resets the job's cores. */
DEFINE_EVENT(qnpu_job_recovery, qnpu_job_abort,
	TP_PROTO(struct qnpu_ctx_job *job, u32 cores), TP_ARGS(job, cores));
DEFINE_EVENT(qnpu_job_recovery, qnpu_core_reset,
	TP_PROTO(struct qnpu_ctx_job *job, u32 cores), TP_ARGS(job, cores));

DECLARE_EVENT_CLASS(qnpu_device_event,
	TP_PROTO(struct qnpu_device *npu),
	TP_ARGS(npu),
	TP_STRUCT__entry(
		__string(dev, dev_name(npu->drm.dev))
		__field(u32, resets)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->resets = npu->resets;
	),
	TP_printk("dev=%s resets=%u", __get_str(dev), __entry->resets)
);

/* A reset begins; afterwards the device works again or is lost. */
DEFINE_EVENT(qnpu_device_event, qnpu_device_reset, TP_PROTO(struct qnpu_device *npu), TP_ARGS(npu));
DEFINE_EVENT(qnpu_device_event, qnpu_device_restart,
	TP_PROTO(struct qnpu_device *npu), TP_ARGS(npu));
DEFINE_EVENT(qnpu_device_event, qnpu_device_lost, TP_PROTO(struct qnpu_device *npu), TP_ARGS(npu));

/* Contexts */

DECLARE_EVENT_CLASS(qnpu_ctx,
	TP_PROTO(struct qnpu_ctx *ctx),
	TP_ARGS(ctx),
	TP_STRUCT__entry(
		__string(dev, dev_name(ctx->npu->drm.dev))
		__field(u64, context)
		__field(u32, ctx)
		__field(u32, queue)
		__field(u32, priority)
		__field(u32, core_mask)
		__field(int, error)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->context = ctx->fence_context;
		__entry->ctx = ctx->id;
		__entry->queue = ctx->queue.index;
		__entry->priority = ctx->queue.priority;
		__entry->core_mask = ctx->core_mask;
		__entry->error = ctx->dead;
	),
	TP_printk("dev=%s fence=%llu ctx=%u queue=%u priority=%u cores=%#x error=%d",
		  __get_str(dev), __entry->context, __entry->ctx, __entry->queue,
		  __entry->priority, __entry->core_mask, __entry->error)
);

/* The context is killed: unfinished jobs end with the error. */
DEFINE_EVENT(qnpu_ctx, qnpu_ctx_create, TP_PROTO(struct qnpu_ctx *ctx), TP_ARGS(ctx));
DEFINE_EVENT(qnpu_ctx, qnpu_ctx_kill, TP_PROTO(struct qnpu_ctx *ctx), TP_ARGS(ctx));

/* Buffers and address spaces */

DECLARE_EVENT_CLASS(qnpu_bo,
	TP_PROTO(struct qnpu_bo *bo),
	TP_ARGS(bo),
	TP_STRUCT__entry(
		__string(dev, dev_name(bo->tbo.base.dev->dev))
		__field(const void *, bo)
		__field(u64, size)
		__field(u32, flags)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->bo = bo;
		__entry->size = bo->tbo.base.size;
		__entry->flags = bo->flags;
	),
	TP_printk("dev=%s bo=%p size=%llu flags=%#x", __get_str(dev), __entry->bo, __entry->size,
		  __entry->flags)
);

DEFINE_EVENT(qnpu_bo, qnpu_bo_create, TP_PROTO(struct qnpu_bo *bo), TP_ARGS(bo));
DEFINE_EVENT(qnpu_bo, qnpu_bo_free, TP_PROTO(struct qnpu_bo *bo), TP_ARGS(bo));

/* TTM memory types: 0 system, 1 system and mapped for the device, 2 card; -1: none. */
TRACE_EVENT(qnpu_bo_move,
	TP_PROTO(struct qnpu_bo *bo, int from, int to),
	TP_ARGS(bo, from, to),
	TP_STRUCT__entry(
		__string(dev, dev_name(bo->tbo.base.dev->dev))
		__field(const void *, bo)
		__field(u64, size)
		__field(int, from)
		__field(int, to)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->bo = bo;
		__entry->size = bo->tbo.base.size;
		__entry->from = from;
		__entry->to = to;
	),
	TP_printk("dev=%s bo=%p size=%llu from=%d to=%d", __get_str(dev), __entry->bo,
		  __entry->size, __entry->from, __entry->to)
);

/* The driver invalidates TLB entries. Zero bytes stand for the whole address space. */
TRACE_EVENT(qnpu_invalidate,
	TP_PROTO(struct qnpu_device *npu, u32 asid, u64 va, u64 bytes, u32 ticket),
	TP_ARGS(npu, asid, va, bytes, ticket),
	TP_STRUCT__entry(
		__string(dev, dev_name(npu->drm.dev))
		__field(u64, va)
		__field(u64, bytes)
		__field(u32, asid)
		__field(u32, ticket)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->va = va;
		__entry->bytes = bytes;
		__entry->asid = asid;
		__entry->ticket = ticket;
	),
	TP_printk("dev=%s asid=%u va=%#llx bytes=%#llx ticket=%u", __get_str(dev), __entry->asid,
		  __entry->va, __entry->bytes, __entry->ticket)
);

/* The invalidation has completed or timed out; after a timeout the device is reset. */
TRACE_EVENT(qnpu_invalidate_done,
	TP_PROTO(struct qnpu_device *npu, u32 asid, u32 ticket, bool answered),
	TP_ARGS(npu, asid, ticket, answered),
	TP_STRUCT__entry(
		__string(dev, dev_name(npu->drm.dev))
		__field(u32, asid)
		__field(u32, ticket)
		__field(bool, answered)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->asid = asid;
		__entry->ticket = ticket;
		__entry->answered = answered;
	),
	TP_printk("dev=%s asid=%u ticket=%u answered=%d", __get_str(dev), __entry->asid,
		  __entry->ticket, __entry->answered)
);

/* A cache watch report, still in the device's registers; qnpu_watch.ko adds buffer and process. */
TRACE_EVENT(qnpu_stale_line,
	TP_PROTO(struct qnpu_device *npu),
	TP_ARGS(npu),
	TP_STRUCT__entry(
		__string(dev, dev_name(npu->drm.dev))
		__field(u64, addr)
		__field(u64, va)
		__field(u64, job)
		__field(u64, pc)
		__field(u32, kind)
		__field(u32, bytes)
		__field(u32, asid)
		__field(u32, queue)
		__field(u32, engine)
		__field(u32, command)
		__field(u32, level)
	),
	TP_fast_assign(
		__assign_str(dev);
		__entry->addr = qnpu_read64(npu, NPU_REG_REPORT_ADDR);
		__entry->va = qnpu_read64(npu, NPU_REG_REPORT_VA);
		__entry->job = qnpu_read64(npu, NPU_REG_REPORT_JOB);
		__entry->pc = qnpu_read64(npu, NPU_REG_REPORT_PC);
		__entry->kind = qnpu_read(npu, NPU_REG_REPORT_KIND);
		__entry->bytes = qnpu_read(npu, NPU_REG_REPORT_BYTES);
		__entry->asid = qnpu_read(npu, NPU_REG_REPORT_ASID);
		__entry->queue = qnpu_read(npu, NPU_REG_REPORT_QUEUE);
		__entry->engine = qnpu_read(npu, NPU_REG_REPORT_ENGINE);
		__entry->command = qnpu_read(npu, NPU_REG_REPORT_COMMAND);
		__entry->level = qnpu_read(npu, NPU_REG_REPORT_LEVEL);
	),
	TP_printk("dev=%s kind=%s addr=%#llx va=%#llx asid=%u bytes=%u level=%u pc=%#llx job=%llu queue=%u core=%u engine=%u command=%d",
		  __get_str(dev),
		  __print_symbolic(__entry->kind, { NPU_WATCH_UNCLEANED, "uncleaned" },
				   { NPU_WATCH_STALE, "stale" },
				   { NPU_WATCH_OVERWRITTEN, "overwritten" },
				   { NPU_WATCH_DISCARDED, "discarded" }),
		  __entry->addr, __entry->va, __entry->asid, __entry->bytes, __entry->level,
		  __entry->pc, __entry->job, __entry->queue, __entry->engine >> 8,
		  __entry->engine & 0xff, (int)__entry->command)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE qnpu_trace
#include <trace/define_trace.h>
