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
 * It ends: an address space never has more card buffers than the card holds, see qnpu_vma_place(),
 * and no submission takes anything from the oldest waiter.
 */
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "qnpu_device.h"
#include "qnpu_gem.h"
#include "qnpu_residency.h"
#include "qnpu_vm.h"

/* Bounds the wait for a buffer that becomes idle without the end of a job. */
#define QNPU_RESIDENCY_WAIT	(HZ / 20)

static struct qnpu_mem *qnpu_residency_mem(const struct qnpu_residency *residency)
{
	return &residency->npu->mem;
}

static struct qnpu_mem *bo_to_qnpu_mem(struct qnpu_bo *bo)
{
	return &to_qnpu_device(bo->tbo.base.dev)->mem;
}

/**
 * qnpu_residency_init - prepare the attempts of a submission
 * @residency: of the caller
 * @npu: device
 */
void qnpu_residency_init(struct qnpu_residency *residency, struct qnpu_device *npu)
{
	memset(residency, 0, sizeof(*residency));
	residency->npu = npu;
	residency->task = current;
	residency->seq = U64_MAX;
	INIT_LIST_HEAD(&residency->link);
	INIT_LIST_HEAD(&residency->claims);
}

/**
 * qnpu_residency_begin - begin an attempt
 * @residency: of the caller, which locks all buffers next
 */
void qnpu_residency_begin(struct qnpu_residency *residency)
{
	residency->seen = atomic_read(&qnpu_residency_mem(residency)->freed);
	WRITE_ONCE(qnpu_residency_mem(residency)->system_full, false);
}

static int qnpu_residency_move(struct qnpu_residency *residency, struct qnpu_bo *bo)
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
static bool qnpu_residency_may_use(const struct qnpu_residency *residency, struct qnpu_bo *bo)
{
	return !atomic_read(&bo->leaving) || READ_ONCE(bo->claimant) == residency;
}

/**
 * qnpu_residency_add - bring a buffer to where jobs use it
 * @residency: attempt
 * @vma: mapping of the buffer with a reference, the buffer's reservation lock held
 *
 * -ENOSPC: there is no room at the moment. -EBUSY: it is about to move, or cannot do so now.
 */
int qnpu_residency_add(struct qnpu_residency *residency, struct qnpu_vma *vma)
{
	struct qnpu_bo *bo = vma->bo;
	int ret;

	dma_resv_assert_held(bo->tbo.base.resv);

	if (!qnpu_residency_may_use(residency, bo)) {
		residency->busy = bo;
		return -EBUSY;
	}
	if (!qnpu_bo_is_home(bo)) {
		ret = qnpu_residency_move(residency, bo);
		if (ret)
			return ret;
	}
	if (bo->flags & DRM_NPU_BO_CARD)
		ttm_bo_move_to_lru_tail_unlocked(&bo->tbo);

	return vma->mapped ? 0 : qnpu_vma_map(vma);
}

/**
 * qnpu_residency_try_add - qnpu_residency_add() for a buffer that is where jobs use it
 * @vma: mapping of the buffer with a reference, the buffer's reservation lock held
 *
 * -EAGAIN: it is elsewhere.
 */
int qnpu_residency_try_add(struct qnpu_vma *vma)
{
	struct qnpu_bo *bo = vma->bo;

	dma_resv_assert_held(bo->tbo.base.resv);

	if (!qnpu_bo_is_home(bo) || !vma->mapped || atomic_read(&bo->leaving))
		return -EAGAIN;
	if (bo->flags & DRM_NPU_BO_CARD)
		ttm_bo_move_to_lru_tail_unlocked(&bo->tbo);

	return 0;
}

/* Until jobs have freed buffers, or for a while. */
static long qnpu_residency_wait(struct qnpu_residency *residency)
{
	struct qnpu_mem *mem = qnpu_residency_mem(residency);

	return wait_event_interruptible_timeout(mem->freed_wait,
						(u32)atomic_read(&mem->freed) != residency->seen,
						QNPU_RESIDENCY_WAIT);
}

/* The same for one buffer: until its jobs are finished, and it has moved if somebody wants that. */
static long qnpu_residency_wait_busy(struct qnpu_residency *residency)
{
	struct qnpu_mem *mem = qnpu_residency_mem(residency);
	struct qnpu_bo *bo = residency->busy;
	long left;

	left = dma_resv_wait_timeout(bo->tbo.base.resv, DMA_RESV_USAGE_BOOKKEEP, true,
				     QNPU_RESIDENCY_WAIT);
	if (left < 0)
		return left;

	return wait_event_interruptible_timeout(mem->freed_wait,
						qnpu_residency_may_use(residency, bo),
						QNPU_RESIDENCY_WAIT);
}

/* Is it the oldest waiter? */
static bool qnpu_residency_is_oldest(const struct qnpu_residency *residency)
{
	return !list_empty(&residency->link) &&
	       READ_ONCE(qnpu_residency_mem(residency)->waiters.next) == &residency->link;
}

/**
 * qnpu_residency_retry - wait after a failed attempt, if another one is worthwhile
 * @residency: attempt, all buffers unlocked
 * @error: what went wrong
 *
 * -EAGAIN: begin again. Everything else is for the caller's caller.
 */
int qnpu_residency_retry(struct qnpu_residency *residency, int error)
{
	long left;

	/* Lock order with an eviction: all locks are dropped, so that it can be tried again. */
	if (error == -EDEADLK)
		return -EAGAIN;
	if (error == -EBUSY) {
		/* It waits for something else than room, and has no claims meanwhile. */
		qnpu_residency_leave(residency);
		left = qnpu_residency_wait_busy(residency);
		return left < 0 ? left : -EAGAIN;
	}
	if (error != -ENOSPC)
		return error;

	if (!residency->evict) {
		residency->evict = true;
		return -EAGAIN;
	}
	/* The buffers that it waits for are idle, and cannot leave the card. */
	if (qnpu_residency_is_oldest(residency) &&
	    READ_ONCE(qnpu_residency_mem(residency)->system_full))
		return -ENOMEM;
	left = qnpu_residency_wait(residency);

	return left < 0 ? left : -EAGAIN;
}

/* Claims */

static void qnpu_claim_set(struct qnpu_residency *residency, struct qnpu_bo *bo,
			   enum qnpu_claim claim)
{
	bo->claim = claim;
	WRITE_ONCE(bo->claimant, residency);
	list_add_tail(&bo->claim_link, &residency->claims);
	if (claim == QNPU_CLAIM_ROOM) {
		atomic_inc(&bo->leaving);
		residency->claimed += bo->tbo.base.size;
	}
}

static void qnpu_claim_drop(struct qnpu_bo *bo)
{
	if (bo->claim == QNPU_CLAIM_ROOM) {
		atomic_dec(&bo->leaving);
		bo->claimant->claimed -= bo->tbo.base.size;
	}
	bo->claim = QNPU_CLAIM_NONE;
	WRITE_ONCE(bo->claimant, NULL);
	list_del_init(&bo->claim_link);
}

static void qnpu_claims_drop(struct qnpu_residency *residency)
{
	struct qnpu_bo *bo, *next;

	lockdep_assert_held(&qnpu_residency_mem(residency)->claim_lock);

	list_for_each_entry_safe(bo, next, &residency->claims, claim_link)
		qnpu_claim_drop(bo);
	residency->missing = 0;
}

/**
 * qnpu_residency_leave - the end of all attempts, successful or not; drops all claims
 * @residency: attempt, its buffers unlocked
 */
void qnpu_residency_leave(struct qnpu_residency *residency)
{
	struct qnpu_mem *mem = qnpu_residency_mem(residency);

	if (list_empty(&residency->link))
		return;
	mutex_lock(&mem->claim_lock);
	qnpu_claims_drop(residency);
	list_del_init(&residency->link);
	mutex_unlock(&mem->claim_lock);
	qnpu_residency_wake(residency->npu);
}

/**
 * qnpu_residency_claim_begin - become a waiter, and drop earlier claims
 * @residency: attempt that has found no room; the caller tells all buffers that it uses, which are
 *	locked, and calls qnpu_residency_claim_end()
 */
void qnpu_residency_claim_begin(struct qnpu_residency *residency)
{
	struct qnpu_mem *mem = qnpu_residency_mem(residency);

	mutex_lock(&mem->claim_lock);
	if (list_empty(&residency->link)) {
		residency->seq = mem->next_seq++;
		list_add_tail(&residency->link, &mem->waiters);
	}
	qnpu_claims_drop(residency);
	mutex_unlock(&mem->claim_lock);
}

/**
 * qnpu_residency_claim_use - a buffer that the submission names
 * @residency: attempt
 * @bo: buffer, its reservation lock held
 *
 * Claims of younger waiters give way.
 */
void qnpu_residency_claim_use(struct qnpu_residency *residency, struct qnpu_bo *bo)
{
	struct qnpu_mem *mem = qnpu_residency_mem(residency);

	mutex_lock(&mem->claim_lock);
	if (bo->claimant && bo->claimant != residency && bo->claimant->seq > residency->seq)
		qnpu_claim_drop(bo);
	if (!bo->claimant) {
		qnpu_claim_set(residency, bo, QNPU_CLAIM_USE);
		if (!qnpu_bo_is_home(bo))
			residency->missing += qnpu_bo_card_bytes(bo);
	}
	mutex_unlock(&mem->claim_lock);
}

/* The address space with most of the card, of those whose buffers have not been looked at. */
static struct qnpu_vm *qnpu_claim_largest(struct qnpu_mem *mem)
{
	struct qnpu_vm *vm = NULL;
	struct qnpu_bo *bo;

	list_for_each_entry(bo, &mem->resident, resident_link) {
		if (!bo->owner->passed && (!vm || bo->owner->resident > vm->resident))
			vm = bo->owner;
	}

	return vm;
}

static void qnpu_claim_of(struct qnpu_residency *residency, struct qnpu_vm *vm, u64 wanted)
{
	struct qnpu_mem *mem = qnpu_residency_mem(residency);
	struct qnpu_bo *bo;

	vm->passed = true;
	list_for_each_entry(bo, &mem->resident, resident_link) {
		if (residency->claimed >= wanted)
			return;
		if (bo->owner != vm || bo->claimant == residency)
			continue;
		if (bo->claimant && bo->claimant->seq < residency->seq)
			continue;
		if (bo->claimant)
			qnpu_claim_drop(bo);
		qnpu_claim_set(residency, bo, QNPU_CLAIM_ROOM);
	}
}

/**
 * qnpu_residency_claim_end - claim the room that is missing
 * @residency: attempt
 */
void qnpu_residency_claim_end(struct qnpu_residency *residency)
{
	struct qnpu_mem *mem = qnpu_residency_mem(residency);
	struct qnpu_vm *vm;
	struct qnpu_bo *bo;
	u64 wanted;

	mutex_lock(&mem->claim_lock);
	wanted = residency->missing - min(residency->missing, residency->aside);
	list_for_each_entry(bo, &mem->resident, resident_link)
		bo->owner->passed = false;
	while (residency->claimed < wanted && (vm = qnpu_claim_largest(mem)))
		qnpu_claim_of(residency, vm, wanted);
	mutex_unlock(&mem->claim_lock);
}

/* The caller's, if it waits for card memory. */
static struct qnpu_residency *qnpu_residency_of_current(struct qnpu_mem *mem)
{
	struct qnpu_residency *residency;

	lockdep_assert_held(&mem->claim_lock);

	list_for_each_entry(residency, &mem->waiters, link) {
		if (residency->task == current)
			return residency;
	}

	return NULL;
}

/**
 * qnpu_residency_set_aside - free card memory that is set aside for others than the caller
 * @npu: device
 */
u64 qnpu_residency_set_aside(struct qnpu_device *npu)
{
	struct qnpu_mem *mem = &npu->mem;
	struct qnpu_residency *residency;
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
 * qnpu_residency_may_evict - may the caller move a buffer out of the card?
 * @bo: buffer
 */
bool qnpu_residency_may_evict(struct qnpu_bo *bo)
{
	struct qnpu_mem *mem = bo_to_qnpu_mem(bo);
	struct qnpu_residency *own;
	bool may = true;

	mutex_lock(&mem->claim_lock);
	if (bo->claimant) {
		own = qnpu_residency_of_current(mem);
		may = own && (own == bo->claimant ? bo->claim == QNPU_CLAIM_ROOM :
						    own->seq < bo->claimant->seq);
	}
	mutex_unlock(&mem->claim_lock);

	return may;
}

static void qnpu_residency_arrived(struct qnpu_mem *mem, struct qnpu_bo *bo)
{
	struct qnpu_residency *claimant = bo->claimant;
	u64 size = bo->tbo.base.size;

	list_add_tail(&bo->resident_link, &mem->resident);
	bo->owner->resident += size;
	if (bo->claim == QNPU_CLAIM_USE) {
		claimant->missing -= min(claimant->missing, size);
		claimant->aside -= min(claimant->aside, size);
	}
}

static void qnpu_residency_left(struct qnpu_mem *mem, struct qnpu_bo *bo)
{
	struct qnpu_residency *own = qnpu_residency_of_current(mem);
	u64 size = bo->tbo.base.size;

	list_del_init(&bo->resident_link);
	bo->owner->resident -= size;
	if (bo->claim != QNPU_CLAIM_ROOM)
		return;
	/* Unless an older waiter has moved it out, for itself. */
	if (!own || own == bo->claimant)
		bo->claimant->aside += size;
	qnpu_claim_drop(bo);
}

/**
 * qnpu_residency_moved - a buffer has come to the card, or left it
 * @bo: buffer, its reservation lock held
 * @to_card: which of the two
 */
void qnpu_residency_moved(struct qnpu_bo *bo, bool to_card)
{
	struct qnpu_mem *mem = bo_to_qnpu_mem(bo);
	bool was_there;

	/* Imports never are on the card. */
	if (!bo->owner)
		return;
	mutex_lock(&mem->claim_lock);
	was_there = !list_empty(&bo->resident_link);
	if (to_card && !was_there)
		qnpu_residency_arrived(mem, bo);
	if (!to_card && was_there)
		qnpu_residency_left(mem, bo);
	mutex_unlock(&mem->claim_lock);
}

/**
 * qnpu_residency_forget - the end of a buffer
 * @bo: buffer
 */
void qnpu_residency_forget(struct qnpu_bo *bo)
{
	struct qnpu_mem *mem = bo_to_qnpu_mem(bo);

	qnpu_residency_moved(bo, false);
	mutex_lock(&mem->claim_lock);
	if (bo->claimant)
		qnpu_claim_drop(bo);
	mutex_unlock(&mem->claim_lock);
}

/**
 * qnpu_residency_hold - no new jobs for a buffer until qnpu_residency_release(): it is to move
 * @bo: buffer
 */
void qnpu_residency_hold(struct qnpu_bo *bo)
{
	atomic_inc(&bo->leaving);
}

/**
 * qnpu_residency_release - undo qnpu_residency_hold()
 * @bo: buffer
 */
void qnpu_residency_release(struct qnpu_bo *bo)
{
	atomic_dec(&bo->leaving);
	qnpu_residency_wake(to_qnpu_device(bo->tbo.base.dev));
}

/**
 * qnpu_residency_wake - a job does not need its buffers any more, or claims have changed
 * @npu: device
 */
void qnpu_residency_wake(struct qnpu_device *npu)
{
	struct qnpu_mem *mem = &npu->mem;

	atomic_inc(&mem->freed);
	if (wq_has_sleeper(&mem->freed_wait))
		wake_up_all(&mem->freed_wait);
}
