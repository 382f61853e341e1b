// SPDX-License-Identifier: GPL-2.0-only
/*
 * Residency: buffers of a submission come to where its jobs use them.
 *
 * Idle card buffers may be in system memory because others needed the room. They come back when a
 * submission names them. An attempt locks all buffers of the submission and validates each:
 *
 * - the first attempt takes only free memory;
 * - the next ones evict idle buffers, least recently used first;
 * - if too much is busy, the submission unlocks everything, waits until jobs have finished, and
 *   tries again. No job is waited for with a reservation lock held.
 *
 * A waiting submission has claims, so that others cannot keep the card busy for ever: room of as
 * many bytes as it misses, of the address spaces that have most of the card. Buffers with such a
 * claim take no new jobs. The room that they leave is set aside for the claimant. Its own buffers
 * that are on the card stay there, except when an older waiter needs their room. Submissions whose
 * buffers are on the card and not claimed go on; so do those that find free memory or idle buffers.
 *
 * It ends: an address space never has more card buffers than the card holds, see npu_vma_place(),
 * and no submission takes anything from the oldest waiter.
 */
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "npu_device.h"
#include "npu_gem.h"
#include "npu_residency.h"
#include "npu_vm.h"

/* Bounds the wait for a buffer that becomes idle without the end of a job. */
#define NPU_RESIDENCY_WAIT	(HZ / 20)

static struct npu_mem *npu_residency_mem(const struct npu_residency *residency)
{
	return &residency->npu->mem;
}

static struct npu_mem *bo_to_npu_mem(struct npu_bo *bo)
{
	return &to_npu_device(bo->tbo.base.dev)->mem;
}

/**
 * npu_residency_init - prepare the attempts of a submission
 * @residency: of the caller
 * @npu: device
 */
void npu_residency_init(struct npu_residency *residency, struct npu_device *npu)
{
	memset(residency, 0, sizeof(*residency));
	residency->npu = npu;
	residency->task = current;
	residency->seq = U64_MAX;
	INIT_LIST_HEAD(&residency->link);
	INIT_LIST_HEAD(&residency->claims);
}

/**
 * npu_residency_begin - begin an attempt
 * @residency: of the caller, which locks all buffers next
 */
void npu_residency_begin(struct npu_residency *residency)
{
	residency->seen = atomic_read(&npu_residency_mem(residency)->freed);
	WRITE_ONCE(npu_residency_mem(residency)->system_full, false);
}

static int npu_residency_move(struct npu_residency *residency, struct npu_bo *bo)
{
	/* Without eviction "desired" asks for free memory only. */
	const struct ttm_place place = {
		.mem_type = TTM_PL_VRAM,
		.flags = residency->evict ? 0 : TTM_PL_FLAG_DESIRED,
	};
	struct ttm_placement placement = { .placement = &place, .num_placement = 1 };
	/* Busy buffers are skipped; they are waited for when nothing is locked. */
	struct ttm_operation_ctx ctx = {
		.interruptible = true,
		.no_wait_gpu = true,
		.gfp_retry_mayfail = true,
	};
	int ret;

	bo->refused = false;
	ret = ttm_bo_validate(&bo->tbo, &placement, &ctx);
	/* A fence that somebody has put on an idle buffer from outside. */
	if (ret == -EBUSY) {
		residency->busy = bo;
		return ret;
	}

	/* TTM says "no memory" also where the card is full. */
	return ret && bo->refused ? -ENOSPC : ret;
}

/* A buffer that is to move takes jobs of its claimant only. */
static bool npu_residency_may_use(const struct npu_residency *residency, struct npu_bo *bo)
{
	return !atomic_read(&bo->leaving) || READ_ONCE(bo->claimant) == residency;
}

/**
 * npu_residency_add - bring a buffer to where jobs use it
 * @residency: attempt
 * @vma: mapping of the buffer with a reference, the buffer's reservation lock held
 *
 * -ENOSPC: there is no room at the moment. -EBUSY: it is about to move, or cannot do so now.
 */
int npu_residency_add(struct npu_residency *residency, struct npu_vma *vma)
{
	struct npu_bo *bo = vma->bo;
	int ret;

	dma_resv_assert_held(bo->tbo.base.resv);

	if (!npu_residency_may_use(residency, bo)) {
		residency->busy = bo;
		return -EBUSY;
	}
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
 * npu_residency_try_add - npu_residency_add() for a buffer that is where jobs use it
 * @vma: mapping of the buffer with a reference, the buffer's reservation lock held
 *
 * -EAGAIN: it is elsewhere.
 */
int npu_residency_try_add(struct npu_vma *vma)
{
	struct npu_bo *bo = vma->bo;

	dma_resv_assert_held(bo->tbo.base.resv);

	if (!npu_bo_is_home(bo) || !vma->mapped || atomic_read(&bo->leaving))
		return -EAGAIN;
	if (bo->flags & DRM_NPU_BO_CARD)
		ttm_bo_move_to_lru_tail_unlocked(&bo->tbo);

	return 0;
}

/* Until jobs have freed buffers, or for a while. */
static long npu_residency_wait(struct npu_residency *residency)
{
	struct npu_mem *mem = npu_residency_mem(residency);

	return wait_event_interruptible_timeout(mem->freed_wait,
						(u32)atomic_read(&mem->freed) != residency->seen,
						NPU_RESIDENCY_WAIT);
}

/* The same for one buffer: until its jobs are finished, and it has moved if somebody wants that. */
static long npu_residency_wait_busy(struct npu_residency *residency)
{
	struct npu_mem *mem = npu_residency_mem(residency);
	struct npu_bo *bo = residency->busy;
	long left;

	left = dma_resv_wait_timeout(bo->tbo.base.resv, DMA_RESV_USAGE_BOOKKEEP, true,
				     NPU_RESIDENCY_WAIT);
	if (left < 0)
		return left;

	return wait_event_interruptible_timeout(mem->freed_wait,
						npu_residency_may_use(residency, bo),
						NPU_RESIDENCY_WAIT);
}

/* Is it the oldest waiter? */
static bool npu_residency_is_oldest(const struct npu_residency *residency)
{
	return !list_empty(&residency->link) &&
	       READ_ONCE(npu_residency_mem(residency)->waiters.next) == &residency->link;
}

/**
 * npu_residency_retry - wait after a failed attempt, if another one is worthwhile
 * @residency: attempt, all buffers unlocked
 * @error: what went wrong
 *
 * -EAGAIN: begin again. Everything else is for the caller's caller.
 */
int npu_residency_retry(struct npu_residency *residency, int error)
{
	long left;

	/* Lock order with an eviction: all locks are dropped, so that it can be tried again. */
	if (error == -EDEADLK)
		return -EAGAIN;
	if (error == -EBUSY) {
		/* It waits for something else than room, and has no claims meanwhile. */
		npu_residency_leave(residency);
		left = npu_residency_wait_busy(residency);
		return left < 0 ? left : -EAGAIN;
	}
	if (error != -ENOSPC)
		return error;

	if (!residency->evict) {
		residency->evict = true;
		return -EAGAIN;
	}
	/* The buffers that it waits for are idle, and cannot leave the card. */
	if (npu_residency_is_oldest(residency) &&
	    READ_ONCE(npu_residency_mem(residency)->system_full))
		return -ENOMEM;
	left = npu_residency_wait(residency);

	return left < 0 ? left : -EAGAIN;
}

/* Claims */

static void npu_claim_set(struct npu_residency *residency, struct npu_bo *bo,
			  enum npu_claim claim)
{
	bo->claim = claim;
	WRITE_ONCE(bo->claimant, residency);
	list_add_tail(&bo->claim_link, &residency->claims);
	if (claim == NPU_CLAIM_ROOM) {
		atomic_inc(&bo->leaving);
		residency->claimed += bo->tbo.base.size;
	}
}

static void npu_claim_drop(struct npu_bo *bo)
{
	if (bo->claim == NPU_CLAIM_ROOM) {
		atomic_dec(&bo->leaving);
		bo->claimant->claimed -= bo->tbo.base.size;
	}
	bo->claim = NPU_CLAIM_NONE;
	WRITE_ONCE(bo->claimant, NULL);
	list_del_init(&bo->claim_link);
}

static void npu_claims_drop(struct npu_residency *residency)
{
	struct npu_bo *bo, *next;

	lockdep_assert_held(&npu_residency_mem(residency)->claim_lock);

	list_for_each_entry_safe(bo, next, &residency->claims, claim_link)
		npu_claim_drop(bo);
	residency->missing = 0;
}

/**
 * npu_residency_leave - the end of all attempts, successful or not; drops all claims
 * @residency: attempt, its buffers unlocked
 */
void npu_residency_leave(struct npu_residency *residency)
{
	struct npu_mem *mem = npu_residency_mem(residency);

	if (list_empty(&residency->link))
		return;
	mutex_lock(&mem->claim_lock);
	npu_claims_drop(residency);
	list_del_init(&residency->link);
	mutex_unlock(&mem->claim_lock);
	npu_residency_wake(residency->npu);
}

/**
 * npu_residency_claim_begin - become a waiter, and drop earlier claims
 * @residency: attempt that has found no room; the caller tells all buffers that it uses, which are
 *	locked, and calls npu_residency_claim_end()
 */
void npu_residency_claim_begin(struct npu_residency *residency)
{
	struct npu_mem *mem = npu_residency_mem(residency);

	mutex_lock(&mem->claim_lock);
	if (list_empty(&residency->link)) {
		residency->seq = mem->next_seq++;
		list_add_tail(&residency->link, &mem->waiters);
	}
	npu_claims_drop(residency);
	mutex_unlock(&mem->claim_lock);
}

/**
 * npu_residency_claim_use - a buffer that the submission names
 * @residency: attempt
 * @bo: buffer, its reservation lock held
 *
 * Claims of younger waiters give way.
 */
void npu_residency_claim_use(struct npu_residency *residency, struct npu_bo *bo)
{
	struct npu_mem *mem = npu_residency_mem(residency);

	mutex_lock(&mem->claim_lock);
	if (bo->claimant && bo->claimant != residency && bo->claimant->seq > residency->seq)
		npu_claim_drop(bo);
	if (!bo->claimant) {
		npu_claim_set(residency, bo, NPU_CLAIM_USE);
		if (!npu_bo_is_home(bo))
			residency->missing += npu_bo_card_bytes(bo);
	}
	mutex_unlock(&mem->claim_lock);
}

/* The address space with most of the card, of those whose buffers have not been looked at. */
static struct npu_vm *npu_claim_largest(struct npu_mem *mem)
{
	struct npu_vm *vm = NULL;
	struct npu_bo *bo;

	list_for_each_entry(bo, &mem->resident, resident_link) {
		if (!bo->owner->passed && (!vm || bo->owner->resident > vm->resident))
			vm = bo->owner;
	}

	return vm;
}

static void npu_claim_of(struct npu_residency *residency, struct npu_vm *vm, u64 wanted)
{
	struct npu_mem *mem = npu_residency_mem(residency);
	struct npu_bo *bo;

	vm->passed = true;
	list_for_each_entry(bo, &mem->resident, resident_link) {
		if (residency->claimed >= wanted)
			return;
		if (bo->owner != vm || bo->claimant == residency)
			continue;
		if (bo->claimant && bo->claimant->seq < residency->seq)
			continue;
		if (bo->claimant)
			npu_claim_drop(bo);
		npu_claim_set(residency, bo, NPU_CLAIM_ROOM);
	}
}

/**
 * npu_residency_claim_end - claim the room that is missing
 * @residency: attempt
 */
void npu_residency_claim_end(struct npu_residency *residency)
{
	struct npu_mem *mem = npu_residency_mem(residency);
	struct npu_vm *vm;
	struct npu_bo *bo;
	u64 wanted;

	mutex_lock(&mem->claim_lock);
	wanted = residency->missing - min(residency->missing, residency->aside);
	list_for_each_entry(bo, &mem->resident, resident_link)
		bo->owner->passed = false;
	while (residency->claimed < wanted && (vm = npu_claim_largest(mem)))
		npu_claim_of(residency, vm, wanted);
	mutex_unlock(&mem->claim_lock);
}

/* The caller's, if it waits for card memory. */
static struct npu_residency *npu_residency_of_current(struct npu_mem *mem)
{
	struct npu_residency *residency;

	lockdep_assert_held(&mem->claim_lock);

	list_for_each_entry(residency, &mem->waiters, link) {
		if (residency->task == current)
			return residency;
	}

	return NULL;
}

/**
 * npu_residency_set_aside - free card memory that is set aside for others than the caller
 * @npu: device
 */
u64 npu_residency_set_aside(struct npu_device *npu)
{
	struct npu_mem *mem = &npu->mem;
	struct npu_residency *residency;
	u64 aside = 0;

	mutex_lock(&mem->claim_lock);
	list_for_each_entry(residency, &mem->waiters, link) {
		if (residency->task != current)
			aside += min(residency->aside, residency->missing);
	}
	mutex_unlock(&mem->claim_lock);

	return aside;
}

/**
 * npu_residency_may_evict - may the caller move a buffer out of the card?
 * @bo: buffer
 */
bool npu_residency_may_evict(struct npu_bo *bo)
{
	struct npu_mem *mem = bo_to_npu_mem(bo);
	struct npu_residency *own;
	bool may = true;

	mutex_lock(&mem->claim_lock);
	if (bo->claimant) {
		own = npu_residency_of_current(mem);
		may = own && (own == bo->claimant ? bo->claim == NPU_CLAIM_ROOM :
						    own->seq < bo->claimant->seq);
	}
	mutex_unlock(&mem->claim_lock);

	return may;
}

static void npu_residency_arrived(struct npu_mem *mem, struct npu_bo *bo)
{
	struct npu_residency *claimant = bo->claimant;
	u64 size = bo->tbo.base.size;

	list_add_tail(&bo->resident_link, &mem->resident);
	bo->owner->resident += size;
	if (bo->claim == NPU_CLAIM_USE) {
		claimant->missing -= min(claimant->missing, size);
		claimant->aside -= min(claimant->aside, size);
	}
}

static void npu_residency_left(struct npu_mem *mem, struct npu_bo *bo)
{
	struct npu_residency *own = npu_residency_of_current(mem);
	u64 size = bo->tbo.base.size;

	list_del_init(&bo->resident_link);
	bo->owner->resident -= size;
	if (bo->claim != NPU_CLAIM_ROOM)
		return;
	/* Unless an older waiter has moved it out, for itself. */
	if (!own || own == bo->claimant)
		bo->claimant->aside += size;
	npu_claim_drop(bo);
}

/**
 * npu_residency_moved - a buffer has come to the card, or left it
 * @bo: buffer, its reservation lock held
 * @to_card: which of the two
 */
void npu_residency_moved(struct npu_bo *bo, bool to_card)
{
	struct npu_mem *mem = bo_to_npu_mem(bo);
	bool was_there;

	/* Imports never are on the card. */
	if (!bo->owner)
		return;
	mutex_lock(&mem->claim_lock);
	was_there = !list_empty(&bo->resident_link);
	if (to_card && !was_there)
		npu_residency_arrived(mem, bo);
	if (!to_card && was_there)
		npu_residency_left(mem, bo);
	mutex_unlock(&mem->claim_lock);
}

/**
 * npu_residency_forget - the end of a buffer
 * @bo: buffer
 */
void npu_residency_forget(struct npu_bo *bo)
{
	struct npu_mem *mem = bo_to_npu_mem(bo);

	npu_residency_moved(bo, false);
	mutex_lock(&mem->claim_lock);
	if (bo->claimant)
		npu_claim_drop(bo);
	mutex_unlock(&mem->claim_lock);
}

/**
 * npu_residency_hold - no new jobs for a buffer until npu_residency_release(): it is to move
 * @bo: buffer
 */
void npu_residency_hold(struct npu_bo *bo)
{
	atomic_inc(&bo->leaving);
}

/**
 * npu_residency_release - undo npu_residency_hold()
 * @bo: buffer
 */
void npu_residency_release(struct npu_bo *bo)
{
	atomic_dec(&bo->leaving);
	npu_residency_wake(to_npu_device(bo->tbo.base.dev));
}

/**
 * npu_residency_wake - a job does not need its buffers any more, or claims have changed
 * @npu: device
 */
void npu_residency_wake(struct npu_device *npu)
{
	struct npu_mem *mem = &npu->mem;

	atomic_inc(&mem->freed);
	if (wq_has_sleeper(&mem->freed_wait))
		wake_up_all(&mem->freed_wait);
}
