// SPDX-License-Identifier: GPL-2.0-only
/*
 * Residency: buffers of a submission come to where its jobs use them.
 *
 * An attempt locks all buffers of the submission and validates each, which evicts idle buffers of
 * others, least recently used first. If too much is busy, the submission unlocks everything, waits
 * until jobs have finished, and tries again.
 *
 * The oldest waiter has claims, so that others cannot keep the card busy for ever: room of as many
 * bytes as it misses, of the address spaces that have most of the card. Buffers with such a claim
 * take no new jobs, and are evicted for the waiter only; what they leave is set aside for it. Idle
 * ones are let go of after a second, if others stay busy for longer. Its own buffers stay on the
 * card. It ends: an address space never has more card buffers than the card holds
 * (qnpu_vma_place()), and jobs have limits.
 */
#include <linux/list_sort.h>
#include <linux/sched.h>

#include "qnpu_ctx.h"
#include "qnpu_device.h"
#include "qnpu_gem.h"
#include "qnpu_residency.h"
#include "qnpu_vm.h"

/* Bounds the wait for a buffer that becomes idle without the end of a job. */
#define QNPU_RESIDENCY_WAIT	(HZ / 20)

/* Time for which an idle buffer is claimed while others are busy. */
#define QNPU_RESIDENCY_HOLD	HZ

/* Attempts in a row in which a buffer could not be evicted for want of system memory. */
#define QNPU_RESIDENCY_TRIES	16

static struct qnpu_mem *bo_to_qnpu_mem(struct qnpu_bo *bo)
{
	return &to_qnpu_device(bo->tbo.base.dev)->mem;
}

/* Prepares the attempts of a submission. */
void qnpu_residency_init(struct qnpu_residency *residency, struct qnpu_ctx *ctx)
{
	memset(residency, 0, sizeof(*residency));
	residency->ctx = ctx;
	residency->mem = &ctx->npu->mem;
	residency->task = current;
	residency->seen = atomic_read(&residency->mem->freed);
	residency->failed_moves = atomic_read(&residency->mem->failed_moves);
	INIT_LIST_HEAD(&residency->link);
	INIT_LIST_HEAD(&residency->claims);
}

/*
 * Takes a buffer that is where jobs use it, its reservation lock held. -EAGAIN: it is elsewhere, or
 * about to move.
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

/*
 * Brings a buffer to where jobs use it, its reservation lock held. -ENOSPC: there is no room at the
 * moment. -EBUSY: it is about to move, or cannot do so now.
 */
int qnpu_residency_add(struct qnpu_vma *vma)
{
	static const struct ttm_place place = { .mem_type = TTM_PL_VRAM };
	struct ttm_placement placement = { .placement = &place, .num_placement = 1 };
	/* Busy buffers are skipped; they are waited for when nothing is locked. */
	struct ttm_operation_ctx ctx = {
		.interruptible = true,
		.no_wait_gpu = true,
		.gfp_retry_mayfail = true,
	};
	struct qnpu_bo *bo = vma->bo;
	int ret;

	if (atomic_read(&bo->leaving))
		return -EBUSY;
	if (!qnpu_bo_is_home(bo)) {
		bo->refused = false;
		ret = ttm_bo_validate(&bo->tbo, &placement, &ctx);
		/* TTM also returns these where the card is full of busy, or of locked, buffers. */
		if ((ret == -ENOMEM || ret == -EBUSY) && bo->refused)
			ret = -ENOSPC;
		if (ret)
			return ret;
	}
	ret = vma->mapped ? 0 : qnpu_vma_map(vma);

	return ret ?: qnpu_residency_try_add(vma);
}

/* Claims */

static void qnpu_claim_set(struct qnpu_residency *residency, struct qnpu_bo *bo,
			   enum qnpu_claim claim)
{
	bo->claim = claim;
	list_add_tail(&bo->claim_link, &residency->claims);
	if (claim == QNPU_CLAIM_ROOM)
		atomic_inc(&bo->leaving);
}

static void qnpu_claim_drop(struct qnpu_bo *bo)
{
	if (bo->claim == QNPU_CLAIM_ROOM)
		atomic_dec(&bo->leaving);
	bo->claim = QNPU_CLAIM_NONE;
	list_del_init(&bo->claim_link);
}

static void qnpu_claims_drop(struct qnpu_residency *residency)
{
	struct qnpu_bo *bo, *next;

	list_for_each_entry_safe(bo, next, &residency->claims, claim_link)
		qnpu_claim_drop(bo);
	residency->missing = 0;
}

/* The oldest waiter, which alone has claims. */
static struct qnpu_residency *qnpu_claims_owner(struct qnpu_mem *mem)
{
	lockdep_assert_held(&mem->claim_lock);

	return list_first_entry_or_null(&mem->waiters, struct qnpu_residency, link);
}

/*
 * After an attempt that has found no room: makes it a waiter, and drops earlier claims. The caller
 * names all its buffers, which are locked, by qnpu_residency_use().
 */
void qnpu_residency_queue(struct qnpu_residency *residency)
{
	struct qnpu_mem *mem = residency->mem;

	guard(mutex)(&mem->claim_lock);
	if (list_empty(&residency->link))
		list_add_tail(&residency->link, &mem->waiters);
	qnpu_claims_drop(residency);
}

/* Claims a buffer that the submission names, its reservation lock held. */
void qnpu_residency_use(struct qnpu_residency *residency, struct qnpu_bo *bo)
{
	struct qnpu_mem *mem = residency->mem;

	guard(mutex)(&mem->claim_lock);
	if (qnpu_claims_owner(mem) != residency || !qnpu_bo_card_bytes(bo) ||
	    bo->claim != QNPU_CLAIM_NONE)
		return;
	qnpu_claim_set(residency, bo, QNPU_CLAIM_USE);
	if (!qnpu_bo_is_home(bo))
		residency->missing += bo->tbo.base.size;
}

/* The order of address spaces for list_sort(): those with most of the card come first. */
static int qnpu_claim_order(void *unused, const struct list_head *a, const struct list_head *b)
{
	return list_entry(a, struct qnpu_vm, residents_link)->resident <
	       list_entry(b, struct qnpu_vm, residents_link)->resident;
}

/* Claims the room that is missing for the oldest waiter. */
static void qnpu_claim_room(struct qnpu_residency *residency)
{
	struct qnpu_mem *mem = residency->mem;
	struct qnpu_vm *vm;
	struct qnpu_bo *bo;
	u64 claimed;

	guard(mutex)(&mem->claim_lock);
	if (qnpu_claims_owner(mem) != residency)
		return;
	claimed = residency->aside;
	list_sort(NULL, &mem->spaces, qnpu_claim_order);
	list_for_each_entry(vm, &mem->spaces, residents_link) {
		list_for_each_entry(bo, &vm->residents, resident_link) {
			if (claimed >= residency->missing)
				return;
			if (bo->claim != QNPU_CLAIM_NONE)
				continue;
			qnpu_claim_set(residency, bo, QNPU_CLAIM_ROOM);
			claimed += bo->tbo.base.size;
		}
	}
}

static bool qnpu_claim_is_busy(struct qnpu_bo *bo)
{
	return bo->claim == QNPU_CLAIM_ROOM &&
	       !dma_resv_test_signaled(bo->tbo.base.resv, DMA_RESV_USAGE_BOOKKEEP);
}

/* Is some of the claimed room busy? With @let_go those that are not are claimed no longer. */
static bool qnpu_claims_are_busy(struct qnpu_residency *residency, bool let_go)
{
	struct qnpu_bo *bo, *next;
	bool busy = false;

	guard(mutex)(&residency->mem->claim_lock);
	list_for_each_entry(bo, &residency->claims, claim_link)
		busy |= qnpu_claim_is_busy(bo);
	list_for_each_entry_safe(bo, next, &residency->claims, claim_link) {
		if (busy && let_go && bo->claim == QNPU_CLAIM_ROOM && !qnpu_claim_is_busy(bo))
			qnpu_claim_drop(bo);
	}

	return busy;
}

/* Bytes of the card that are set aside for a submission of another thread. */
u64 qnpu_residency_aside(struct qnpu_bo *bo)
{
	struct qnpu_mem *mem = bo_to_qnpu_mem(bo);
	struct qnpu_residency *owner;

	guard(mutex)(&mem->claim_lock);
	owner = qnpu_claims_owner(mem);

	return owner && owner->task != current ? owner->aside : 0;
}

/* Ends all attempts, successful or not: drops all claims. Buffers are unlocked. */
void qnpu_residency_leave(struct qnpu_residency *residency)
{
	struct qnpu_mem *mem = residency->mem;

	if (list_empty(&residency->link))
		return;
	mutex_lock(&mem->claim_lock);
	qnpu_claims_drop(residency);
	residency->aside = 0;
	list_del_init(&residency->link);
	mutex_unlock(&mem->claim_lock);
	qnpu_residency_wake(residency->ctx->npu);
}

/*
 * After an attempt that has failed with @error, all buffers unlocked: waits until jobs have freed
 * buffers, or for a while; with claims, until all that room is idle. -EAGAIN: another attempt is
 * worthwhile. Everything else is for the caller's caller.
 */
int qnpu_residency_retry(struct qnpu_residency *residency, int error)
{
	unsigned long let_go = jiffies + QNPU_RESIDENCY_HOLD;
	struct qnpu_mem *mem = residency->mem;
	u32 failed;
	long left;

	/* Lock order with an eviction: all locks are dropped, so that it can be tried again. */
	if (error == -EDEADLK)
		return -EAGAIN;
	if (error != -EBUSY && error != -ENOSPC)
		return error;
	failed = atomic_read(&mem->failed_moves);
	residency->tries = failed == residency->failed_moves ? 0 : residency->tries + 1;
	residency->failed_moves = failed;
	if (residency->tries > QNPU_RESIDENCY_TRIES)
		return -ENOMEM;
	if (error == -EBUSY)
		/* It waits for something else than room, and has no claims meanwhile. */
		qnpu_residency_leave(residency);
	else
		qnpu_claim_room(residency);

	do {
		left = wait_event_interruptible_timeout(mem->freed_wait,
							(u32)atomic_read(&mem->freed) !=
							residency->seen, QNPU_RESIDENCY_WAIT);
		residency->seen = atomic_read(&mem->freed);
	} while (left >= 0 && !READ_ONCE(residency->ctx->dead) &&
		 qnpu_claims_are_busy(residency, time_after(jiffies, let_go)));

	return left < 0 ? left : -EAGAIN;
}

/* May the caller move a buffer out of the card? */
bool qnpu_residency_may_evict(struct qnpu_bo *bo)
{
	struct qnpu_mem *mem = bo_to_qnpu_mem(bo);

	guard(mutex)(&mem->claim_lock);

	return bo->claim == QNPU_CLAIM_NONE ||
	       (bo->claim == QNPU_CLAIM_ROOM && qnpu_claims_owner(mem)->task == current);
}

/* Notes that a buffer has come to the card, has left it, or ends; its reservation lock is held. */
void qnpu_residency_moved(struct qnpu_bo *bo)
{
	struct qnpu_mem *mem = bo_to_qnpu_mem(bo);
	bool to_card = bo->mem_type == TTM_PL_VRAM;
	struct qnpu_vm *vm = bo->owner;
	struct qnpu_residency *owner;

	/* Imports never are on the card. */
	if (!vm)
		return;
	guard(mutex)(&mem->claim_lock);
	if (to_card && list_empty(&bo->resident_link)) {
		if (list_empty(&vm->residents))
			list_add_tail(&vm->residents_link, &mem->spaces);
		list_add_tail(&bo->resident_link, &vm->residents);
		vm->resident += bo->tbo.base.size;
	} else if (!to_card && !list_empty(&bo->resident_link)) {
		list_del_init(&bo->resident_link);
		vm->resident -= bo->tbo.base.size;
		if (list_empty(&vm->residents))
			list_del(&vm->residents_link);
	}
	owner = qnpu_claims_owner(mem);
	if (owner && bo->claim == QNPU_CLAIM_ROOM && !to_card)
		owner->aside += bo->tbo.base.size;
	else if (owner && owner->task == current && to_card)
		owner->aside -= min(owner->aside, bo->tbo.base.size);
	if (bo->mem_type == QNPU_BO_NOWHERE || (!to_card && bo->claim == QNPU_CLAIM_ROOM))
		qnpu_claim_drop(bo);
}

/* A job does not need its buffers any more, or claims have changed. */
void qnpu_residency_wake(struct qnpu_device *npu)
{
	struct qnpu_mem *mem = &npu->mem;

	atomic_inc(&mem->freed);
	if (wq_has_sleeper(&mem->freed_wait))
		wake_up_all(&mem->freed_wait);
}
