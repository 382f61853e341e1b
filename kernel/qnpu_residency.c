// SPDX-License-Identifier: GPL-2.0-only
/*
 * Residency: moves the buffers of a submission to where its jobs use them.
 *
 * An attempt locks all buffers of the submission and validates each, which evicts idle buffers of
 * others, least recently used first. If too many are busy, the submission unlocks everything, waits
 * until jobs have finished, and retries.
 *
 * To avoid starvation, the oldest waiter claims as many bytes as it lacks, from the address spaces
 * that use most of the card. Claimed buffers take no new jobs, and are evicted for the waiter only;
 * their memory is set aside for it. If others stay busy for a second, claims on idle buffers are
 * dropped. The waiter's own buffers stay resident. Buffers that do not fit system memory are not
 * claimed; the submission of the oldest waiter fails if its evictions keep finding such buffers.
 * The wait ends: card buffers of one address space always fit the card (qnpu_vma_place()), and jobs
 * have time limits.
 */
#include <linux/list_sort.h>
#include <linux/sched.h>

#include "qnpu_ctx.h"
#include "qnpu_device.h"
#include "qnpu_gem.h"
#include "qnpu_residency.h"
#include "qnpu_vm.h"

/* Limits the wait for a buffer that becomes idle without the end of a job. */
#define QNPU_RESIDENCY_WAIT	(HZ / 20)

/* Limit for claims on idle buffers while others are busy. */
#define QNPU_RESIDENCY_HOLD	HZ

/* Consecutive attempts with an eviction that failed for lack of system memory. */
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
	INIT_LIST_HEAD(&residency->link);
	INIT_LIST_HEAD(&residency->claims);
}

/*
 * Adds a buffer that is already where jobs use it. Reservation lock held. -EAGAIN: it is elsewhere,
 * or about to move.
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
 * Moves a buffer to where jobs use it. Reservation lock held. -ENOSPC: no room now. -EBUSY: it is
 * about to move, or cannot move now.
 */
int qnpu_residency_add(struct qnpu_vma *vma)
{
	static const struct ttm_place place = { .mem_type = TTM_PL_VRAM };
	struct ttm_placement placement = { .placement = &place, .num_placement = 1 };
	/* Busy buffers are skipped; the wait for them holds no locks. */
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
		/* TTM returns the same errors if the card is full of busy or locked buffers. */
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

/* Returns the oldest waiter, the only one with claims. */
static struct qnpu_residency *qnpu_claims_owner(struct qnpu_mem *mem)
{
	lockdep_assert_held(&mem->claim_lock);

	return list_first_entry_or_null(&mem->waiters, struct qnpu_residency, link);
}

/*
 * Queues the submission as a waiter after an attempt without room, and drops earlier claims. The
 * caller then passes all its locked buffers to qnpu_residency_use().
 */
void qnpu_residency_queue(struct qnpu_residency *residency)
{
	struct qnpu_mem *mem = residency->mem;

	guard(mutex)(&mem->claim_lock);
	if (list_empty(&residency->link))
		list_add_tail(&residency->link, &mem->waiters);
	qnpu_claims_drop(residency);
}

/* Claims a buffer of the submission. Reservation lock held. */
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

/* Orders address spaces for list_sort(): the largest users of the card first. */
static int qnpu_claim_order(void *unused, const struct list_head *a, const struct list_head *b)
{
	return list_entry(a, struct qnpu_vm, residents_link)->resident <
	       list_entry(b, struct qnpu_vm, residents_link)->resident;
}

/* Claims the missing memory for the oldest waiter, in buffers that system memory has room for. */
static void qnpu_claim_room(struct qnpu_residency *residency)
{
	struct qnpu_mem *mem = residency->mem;
	struct qnpu_vm *vm;
	struct qnpu_bo *bo;
	u64 claimed, room = qnpu_mem_system_room();

	guard(mutex)(&mem->claim_lock);
	if (qnpu_claims_owner(mem) != residency)
		return;
	claimed = residency->aside;
	list_sort(NULL, &mem->spaces, qnpu_claim_order);
	list_for_each_entry(vm, &mem->spaces, residents_link) {
		list_for_each_entry(bo, &vm->residents, resident_link) {
			if (claimed >= residency->missing)
				return;
			if (bo->claim != QNPU_CLAIM_NONE || bo->tbo.base.size > room)
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

/* Returns true if a claimed buffer is busy; with @let_go drops claims on idle ones. */
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

/* Bytes of the card that are set aside for another thread's submission. */
u64 qnpu_residency_aside(struct qnpu_bo *bo)
{
	struct qnpu_mem *mem = bo_to_qnpu_mem(bo);
	struct qnpu_residency *owner;

	guard(mutex)(&mem->claim_lock);
	owner = qnpu_claims_owner(mem);

	return owner && owner->task != current ? owner->aside : 0;
}

/* Ends all attempts and drops all claims. Buffers are unlocked. */
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

/* Counts consecutive attempts with a failed eviction. Returns false after too many. */
static bool qnpu_residency_may_try(struct qnpu_residency *residency, int error)
{
	guard(mutex)(&residency->mem->claim_lock);
	residency->tries = error == -ENOSPC && residency->move_failed ? residency->tries + 1 : 0;
	residency->move_failed = false;

	return residency->tries <= QNPU_RESIDENCY_TRIES;
}

/*
 * Waits after an attempt that failed with @error, with all buffers unlocked. The wait ends when
 * jobs release buffers, with claims when all claimed buffers are idle, or by timeout. Returns
 * -EAGAIN if another attempt is worthwhile, else an error for user space.
 */
int qnpu_residency_retry(struct qnpu_residency *residency, int error)
{
	unsigned long let_go = jiffies + QNPU_RESIDENCY_HOLD;
	struct qnpu_mem *mem = residency->mem;
	long left;

	/* The lock order conflicts with an eviction; all locks are dropped, so retry. */
	if (error == -EDEADLK)
		return -EAGAIN;
	if (error != -EBUSY && error != -ENOSPC)
		return error;
	if (!qnpu_residency_may_try(residency, error))
		return -ENOMEM;
	if (error == -EBUSY)
		/* It waits for something other than room, so it must not hold claims. */
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

/* Returns true if the caller may evict a buffer. */
bool qnpu_residency_may_evict(struct qnpu_bo *bo)
{
	struct qnpu_mem *mem = bo_to_qnpu_mem(bo);

	guard(mutex)(&mem->claim_lock);

	return bo->claim == QNPU_CLAIM_NONE ||
	       (bo->claim == QNPU_CLAIM_ROOM && qnpu_claims_owner(mem)->task == current);
}

/* Updates the resident list after a move or before a free. Reservation lock held. */
void qnpu_residency_moved(struct qnpu_bo *bo)
{
	struct qnpu_mem *mem = bo_to_qnpu_mem(bo);
	bool to_card = bo->mem_type == TTM_PL_VRAM;
	struct qnpu_vm *vm = bo->owner;
	struct qnpu_residency *owner;

	/* Imports are never on the card. */
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

/*
 * An eviction by this thread found no system memory. Only the oldest waiter takes note: the others
 * wait until it has finished, and must not fail because of its evictions.
 */
void qnpu_residency_move_failed(struct qnpu_device *npu)
{
	struct qnpu_residency *owner;

	guard(mutex)(&npu->mem.claim_lock);
	owner = qnpu_claims_owner(&npu->mem);
	if (owner && owner->task == current)
		owner->move_failed = true;
}

/* A job has released its buffers, or claims have changed. */
void qnpu_residency_wake(struct qnpu_device *npu)
{
	struct qnpu_mem *mem = &npu->mem;

	atomic_inc(&mem->freed);
	if (wq_has_sleeper(&mem->freed_wait))
		wake_up_all(&mem->freed_wait);
}
