// SPDX-License-Identifier: GPL-2.0-only
/* The query ioctl and fdinfo. */
#include <linux/capability.h>
#include <linux/export.h>
#include <linux/math64.h>
#include <linux/uaccess.h>

#include <drm/drm_file.h>
#include <drm/drm_print.h>

#include "qnpu_ctx.h"
#include "qnpu_device.h"
#include "qnpu_file.h"
#include "qnpu_gem.h"
#include "qnpu_query.h"
#include "qnpu_vm.h"

/* Resolution of a device's busy time for users without CAP_PERFMON. */
#define QNPU_COARSE_NS	(100 * NSEC_PER_MSEC)

static void qnpu_query_memory(struct drm_file *file, struct drm_npu_memory_info *info)
{
	struct qnpu_device *npu = to_qnpu_file(file)->npu;
	struct qnpu_card_space space;
	struct qnpu_gem_usage usage;

	qnpu_mem_card_space(npu, &space);
	qnpu_gem_usage(file, &usage);

	info->card_total = space.total;
	info->card_free = space.free;
	info->card_largest = space.largest;
	info->file_card = usage.card.shared + usage.card.private;
	info->file_system = usage.system.shared + usage.system.private;
	info->file_largest = usage.largest;
	info->file_evicted = usage.evicted;
	info->file_card_max = space.total;
	info->card_evicted = atomic64_read(&npu->mem.evicted);
	info->evictions = atomic64_read(&npu->mem.evictions);
}

static int qnpu_query_time(struct qnpu_device *npu, struct drm_npu_time_info *info)
{
	int ret, idx;

	ret = qnpu_device_enter(npu, &idx);
	if (ret)
		return ret;
	qnpu_device_time(npu, info);
	qnpu_device_exit(npu, idx);

	/* A removed card reads as ones. */
	return info->card_ns == U64_MAX ? -ENODEV : 0;
}

/* Exact counters reveal which network another user runs, so they need CAP_PERFMON. */
static void qnpu_status_make_coarse(struct drm_npu_status_info *info)
{
	u32 core;

	info->flags |= DRM_NPU_STATUS_COARSE;
	info->core_busy = 0;
	for (core = 0; core < DRM_NPU_MAX_CORES; core++) {
		info->busy_cycles[core] = 0;
		info->jobs[core] = 0;
		info->busy_ns[core] -= info->busy_ns[core] % QNPU_COARSE_NS;
	}
}

/* Read exact counters. */
int qnpu_query_status(struct qnpu_device *npu, struct drm_npu_status_info *info)
{
	int ret, idx;

	ret = qnpu_device_enter(npu, &idx);
	if (ret)
		return ret;
	qnpu_device_status(npu, info);
	qnpu_device_exit(npu, idx);
	info->files = atomic_read(&npu->drm.open_count);

	return 0;
}

/* Read the counters of the cache watch, if any, into zeroed memory. */
int qnpu_query_watch(struct qnpu_device *npu, struct drm_npu_watch_info *info)
{
	int ret, idx;
	u32 ctrl;

	ret = qnpu_device_enter(npu, &idx);
	if (ret)
		return ret;
	ctrl = qnpu_read(npu, NPU_REG_WATCH_CTRL);
	if (ctrl & NPU_WATCH_CTRL_PRESENT) {
		info->flags = DRM_NPU_WATCH_PRESENT;
		if (ctrl & NPU_WATCH_CTRL_ENABLE)
			info->flags |= DRM_NPU_WATCH_ENABLED;
		info->lost = qnpu_read(npu, NPU_REG_WATCH_LOST);
		info->uncleaned = qnpu_read(npu, NPU_REG_WATCH_UNCLEANED);
		info->stale = qnpu_read(npu, NPU_REG_WATCH_STALE);
		info->overwritten = qnpu_read(npu, NPU_REG_WATCH_OVERWRITTEN);
		info->discarded = qnpu_read(npu, NPU_REG_WATCH_DISCARDED);
	}
	qnpu_device_exit(npu, idx);

	return 0;
}
EXPORT_SYMBOL_GPL(qnpu_query_watch);

int qnpu_ioctl_dev_query(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct qnpu_device *npu = to_qnpu_device(drm);
	struct drm_npu_dev_query *args = data;
	void __user *to = u64_to_user_ptr(args->pointer);
	union {
		struct drm_npu_dev_info dev;
		struct drm_npu_memory_info memory;
		struct drm_npu_status_info status;
		struct drm_npu_time_info time;
		struct drm_npu_watch_info watch;
	} answer = {};
	u32 size, room = args->size;
	int ret = 0;

	switch (args->type) {
	case DRM_NPU_QUERY_DEV:
		size = sizeof(answer.dev);
		answer.dev = npu->info;
		answer.dev.queues = qnpu_copy_user_queues(npu);
		break;
	case DRM_NPU_QUERY_MEMORY:
		size = sizeof(answer.memory);
		if (to)
			qnpu_query_memory(file, &answer.memory);
		break;
	case DRM_NPU_QUERY_STATUS:
		size = sizeof(answer.status);
		ret = to ? qnpu_query_status(npu, &answer.status) : 0;
		if (!perfmon_capable())
			qnpu_status_make_coarse(&answer.status);
		break;
	case DRM_NPU_QUERY_TIME:
		size = sizeof(answer.time);
		ret = to ? qnpu_query_time(npu, &answer.time) : 0;
		break;
	case DRM_NPU_QUERY_WATCH:
		size = sizeof(answer.watch);
		ret = to ? qnpu_query_watch(npu, &answer.watch) : 0;
		break;
	default:
		return -EINVAL;
	}
	if (ret)
		return ret;

	args->size = size;
	if (!to)
		return 0;

	if (copy_to_user(to, &answer, min(room, size)))
		return -EFAULT;
	if (room > size && clear_user(to + size, room - size))
		return -EFAULT;

	return 0;
}

/* Time so far of a core's current job, if it is of this address space. */
static u64 qnpu_query_running_ns(struct qnpu_device *npu, struct qnpu_vm *vm, u32 core)
{
	u32 index = qnpu_read(npu, NPU_CORE_REG(core, NPU_CORE_QUEUE));
	u64 seqno = qnpu_read64(npu, NPU_CORE_REG(core, NPU_CORE_JOB_ID));
	struct qnpu_hw_queue *queue;
	u64 since, begin, now;

	lockdep_assert_held(&npu->hw_lock);

	queue = index < npu->info.queues ? npu->queues[index] : NULL;
	if (!queue || READ_ONCE(queue->ctx->vm) != vm)
		return 0;
	since = qnpu_hw_queue_since_ns(queue, seqno);
	begin = max_t(u64, since, atomic64_read(&npu->counters.done_ns[core]));
	now = ktime_get_ns();

	return since && now > begin ? now - begin : 0;
}

/* Add the time of running jobs, without waiting for a resume or reset: readers tolerate a lag. */
static void qnpu_query_add_running(struct qnpu_device *npu, struct qnpu_vm *vm, u64 *busy_ns)
{
	u32 core, busy;
	int idx;

	if (!qnpu_device_try_enter(npu, &idx))
		return;
	if (mutex_trylock(&npu->hw_lock)) {
		busy = qnpu_read(npu, NPU_REG_CORE_BUSY);
		for (core = 0; core < npu->info.cores && !qnpu_is_gone(busy); core++) {
			if (busy & BIT(core))
				busy_ns[core] += qnpu_query_running_ns(npu, vm, core);
		}
		mutex_unlock(&npu->hw_lock);
	}
	qnpu_device_exit(npu, idx);
}

/*
 * Usage of a file, see Documentation/gpu/drm-usage-stats.rst. Modelled time and cycles are not host
 * time, so monitors must not derive a utilisation from them.
 */
void qnpu_show_fdinfo(struct drm_printer *p, struct drm_file *file)
{
	struct qnpu_file *nfile = to_qnpu_file(file);
	struct qnpu_device *npu = nfile->npu;
	struct qnpu_vm *vm = READ_ONCE(nfile->vm);
	u64 cycles, busy_ns[NPU_MAX_CORES] = {};
	struct qnpu_gem_usage usage;
	u32 core;

	for (core = 0; vm && core < npu->info.cores; core++)
		busy_ns[core] = atomic64_read(&vm->busy_ns[core]);
	/* Sampled last, so that a job that ends meanwhile does not count twice. */
	if (vm)
		qnpu_query_add_running(npu, vm, busy_ns);
	for (core = 0; core < npu->info.cores; core++) {
		cycles = vm ? atomic64_read(&vm->cycles[core]) : 0;
		drm_printf(p, "drm-engine-core%u:\t%llu ns\n", core, busy_ns[core]);
		drm_printf(p, "qnpu-modelled-core%u:\t%llu ns\n", core,
			   mul_u64_u32_div(cycles, NSEC_PER_MSEC, npu->info.clock_khz));
		drm_printf(p, "qnpu-cycles-core%u:\t%llu\n", core, cycles);
	}
	drm_printf(p, "qnpu-submissions:\t%llu\n",
		   vm ? (u64)atomic64_read(&vm->submissions) : 0);
	drm_printf(p, "qnpu-jobs:\t%llu\n", vm ? (u64)atomic64_read(&vm->jobs) : 0);

	qnpu_gem_usage(file, &usage);
	/* Nothing is purgeable: contents are lost only with their buffer. */
	drm_print_memory_stats(p, &usage.card, DRM_GEM_OBJECT_RESIDENT, "card");
	drm_print_memory_stats(p, &usage.system, DRM_GEM_OBJECT_RESIDENT, "system");
}
