// SPDX-License-Identifier: GPL-2.0-only
/*
 * Residency: the buffers of a submission come to where its jobs use them.
 *
 * Card buffers that nobody uses at present may be in system memory, because others needed the room.
 * They come back when a submission names them. An attempt to lock all buffers of a submission and
 * to bring them home has a turn:
 *
 * - in a shared turn it takes what is free on the card;
 * - where that is not enough it begins again with a turn of its own, and moves idle buffers out,
 *   the least recently used ones first. Nobody else holds locks of several buffers meanwhile, so
 *   two that need the whole card do not take it from each other piece by piece for ever;
 * - where too much is busy it lets go of everything, waits until jobs have finished, and begins
 *   again. Nobody waits for a job with the locks of buffers held.
 *
 * It ends: an address space never has more card buffers than the card holds, see npu_vma_place().
 */
#include <linux/sched/signal.h>

#include "npu_device.h"
#include "npu_gem.h"
#include "npu_residency.h"
#include "npu_vm.h"

/* A buffer can also be busy for reasons that end without a job: a look now and then. */
#define NPU_RESIDENCY_WAIT	(HZ / 20)

/**
 * npu_residency_begin - take a turn
 * @residency: attempt
 *
 * On success the caller locks all buffers, adds them, and calls npu_residency_end() when it has
 * unlocked them, or npu_residency_retry() after an error.
 */
int npu_residency_begin(struct npu_residency *residency)
{
	struct npu_mem *mem = &residency->npu->mem;

	residency->seen = atomic_read(&mem->freed);

	return residency->evict ? down_write_killable(&mem->turns) :
				  down_read_interruptible(&mem->turns);
}

static int npu_residency_move(struct npu_residency *residency, struct npu_bo *bo)
{
	/* Without eviction "desired" asks for free memory only. */
	const struct ttm_place place = {
		.mem_type = TTM_PL_VRAM,
		.flags = residency->evict ? 0 : TTM_PL_FLAG_DESIRED,
	};
	struct ttm_placement placement = { .placement = &place, .num_placement = 1 };
	/* Busy buffers are passed over; they are waited for when nothing is locked. */
	struct ttm_operation_ctx ctx = {
		.interruptible = true,
		.no_wait_gpu = true,
		.gfp_retry_mayfail = true,
	};
	int ret;

	bo->refused = false;
	ret = ttm_bo_validate(&bo->tbo, &placement, &ctx);

	/* TTM says "no memory" also where the card is full. */
	return ret && bo->refused ? -ENOSPC : ret;
}

/**
 * npu_residency_add - bring a buffer to where jobs use it
 * @residency: attempt
 * @vma: mapping of the buffer with a reference, the buffer's reservation lock held
 *
 * -ENOSPC: there is no room at the moment.
 */
int npu_residency_add(struct npu_residency *residency, struct npu_vma *vma)
{
	struct npu_bo *bo = vma->bo;
	int ret;

	dma_resv_assert_held(bo->tbo.base.resv);

	if (!npu_bo_is_home(bo)) {
		ret = npu_residency_move(residency, bo);
		if (ret)
			return ret;
	}
	if (bo->flags & DRM_NPU_BO_CARD)
		ttm_bo_move_to_lru_tail_unlocked(&bo->tbo);

	return vma->mapped ? 0 : npu_vma_map(vma);
}

/**
 * npu_residency_try_begin - take a shared turn if that needs no waiting
 * @residency: attempt
 */
bool npu_residency_try_begin(struct npu_residency *residency)
{
	return down_read_trylock(&residency->npu->mem.turns);
}

/**
 * npu_residency_try_add - the same as npu_residency_add() for a buffer that is where jobs use it
 * @vma: mapping of the buffer with a reference, the buffer's reservation lock held
 *
 * -EAGAIN: it is elsewhere.
 */
int npu_residency_try_add(struct npu_vma *vma)
{
	struct npu_bo *bo = vma->bo;

	dma_resv_assert_held(bo->tbo.base.resv);

	if (!npu_bo_is_home(bo) || !vma->mapped)
		return -EAGAIN;
	if (bo->flags & DRM_NPU_BO_CARD)
		ttm_bo_move_to_lru_tail_unlocked(&bo->tbo);

	return 0;
}

/**
 * npu_residency_end - give the turn back
 * @residency: attempt
 */
void npu_residency_end(struct npu_residency *residency)
{
	struct npu_mem *mem = &residency->npu->mem;

	if (residency->evict)
		up_write(&mem->turns);
	else
		up_read(&mem->turns);
}

/**
 * npu_residency_retry - give the turn back after an error, and wait if another try is worth while
 * @residency: attempt, all buffers unlocked
 * @error: what went wrong
 *
 * -EAGAIN: begin again. Everything else is for the caller's caller.
 */
int npu_residency_retry(struct npu_residency *residency, int error)
{
	struct npu_mem *mem = &residency->npu->mem;
	long left;

	npu_residency_end(residency);
	if (error != -ENOSPC)
		return error;

	if (!residency->evict) {
		residency->evict = true;
		return -EAGAIN;
	}

	left = wait_event_interruptible_timeout(mem->freed_wait,
						(u32)atomic_read(&mem->freed) != residency->seen,
						NPU_RESIDENCY_WAIT);

	return left < 0 ? left : -EAGAIN;
}

/**
 * npu_residency_wake - a job does not need its buffers any more
 * @npu: device
 */
void npu_residency_wake(struct npu_device *npu)
{
	struct npu_mem *mem = &npu->mem;

	atomic_inc(&mem->freed);
	if (wq_has_sleeper(&mem->freed_wait))
		wake_up_all(&mem->freed_wait);
}
