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
 * - where too much is busy it lets go of everything, stands in line, waits until jobs have
 *   finished, and begins again. Nobody waits for a job with the locks of buffers held.
 *
 * The first one in line has claims, so that others cannot keep all of the card busy for ever: as
 * much as it misses of the buffers of those users who have most of the card. Such buffers take no
 * new jobs, and the room that they leave, like the room that was free before, is set aside for it.
 * Everybody else, whose buffers are on the card and not claimed, goes on. So each one in line waits
 * for the jobs that were queued when its turn came, and for those before it in line.
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
	INIT_LIST_HEAD(&residency->link);
}

/* Is it the first one in line? Only the one whose it is asks, so the answer can only become yes. */
static bool npu_residency_is_first(const struct npu_residency *residency)
{
	return !list_empty(&residency->link) &&
	       READ_ONCE(npu_residency_mem(residency)->line.next) == &residency->link;
}

/**
 * npu_residency_begin - take a turn
 * @residency: attempt
 *
 * On success the caller locks all buffers, adds them, and calls npu_residency_end() when it has
 * unlocked them, or npu_residency_retry() after an error.
 */
int npu_residency_begin(struct npu_residency *residency)
{
	struct npu_mem *mem = npu_residency_mem(residency);
	int ret;

	residency->seen = atomic_read(&mem->freed);
	if (!residency->evict)
		return down_read_interruptible(&mem->turns);

	ret = down_write_killable(&mem->turns);
	if (ret)
		return ret;
	if (npu_residency_is_first(residency))
		WRITE_ONCE(mem->holder, current);
	WRITE_ONCE(mem->system_full, false);

	return 0;
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

	/* A fence that somebody has put on an idle buffer from outside. */
	if (ret == -EBUSY) {
		residency->busy = bo;
		return ret;
	}

	/* TTM says "no memory" also where the card is full. */
	return ret && bo->refused ? -ENOSPC : ret;
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

	if (atomic_read(&bo->leaving) && !npu_residency_is_first(residency)) {
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

	if (!npu_bo_is_home(bo) || !vma->mapped || atomic_read(&bo->leaving))
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
	struct npu_mem *mem = npu_residency_mem(residency);

	if (!residency->evict) {
		up_read(&mem->turns);
		return;
	}

	if (npu_residency_is_first(residency))
		WRITE_ONCE(mem->holder, NULL);
	up_write(&mem->turns);
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

	return wait_event_interruptible_timeout(mem->freed_wait, !atomic_read(&bo->leaving),
						NPU_RESIDENCY_WAIT);
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
	long left;

	npu_residency_end(residency);
	if (error == -EBUSY) {
		/* Who waits for something else than room makes way for the next in line. */
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
	/* What there is to wait for is idle already, and there is nowhere for it to go. */
	if (npu_residency_is_first(residency) &&
	    READ_ONCE(npu_residency_mem(residency)->system_full))
		return -ENOMEM;
	left = npu_residency_wait(residency);

	return left < 0 ? left : -EAGAIN;
}

/* The line, and claims of the one whose turn it is */

static void npu_claim_set(struct npu_mem *mem, struct npu_bo *bo, enum npu_claim claim)
{
	lockdep_assert_held(&mem->claim_lock);

	WRITE_ONCE(bo->claim, claim);
	list_add_tail(&bo->claim_link, &mem->claims);
	if (claim == NPU_CLAIM_ROOM) {
		atomic_inc(&bo->leaving);
		mem->claimed += bo->tbo.base.size;
	}
}

static void npu_claim_drop(struct npu_mem *mem, struct npu_bo *bo)
{
	lockdep_assert_held(&mem->claim_lock);

	if (bo->claim == NPU_CLAIM_ROOM) {
		atomic_dec(&bo->leaving);
		mem->claimed -= bo->tbo.base.size;
	}
	WRITE_ONCE(bo->claim, NPU_CLAIM_NONE);
	list_del_init(&bo->claim_link);
}

static void npu_claims_drop(struct npu_mem *mem)
{
	struct npu_bo *bo, *next;

	list_for_each_entry_safe(bo, next, &mem->claims, claim_link)
		npu_claim_drop(mem, bo);
	mem->missing = 0;
}

/**
 * npu_residency_leave - the end of all attempts, successful or not; drops all claims
 * @residency: attempt, no turn taken
 */
void npu_residency_leave(struct npu_residency *residency)
{
	struct npu_mem *mem = npu_residency_mem(residency);

	/* Nobody but the caller puts it into the line. */
	if (list_empty(&residency->link))
		return;

	mutex_lock(&mem->claim_lock);
	if (npu_residency_is_first(residency))
		npu_claims_drop(mem);
	list_del_init(&residency->link);
	mutex_unlock(&mem->claim_lock);
	npu_residency_wake(residency->npu);
}

/**
 * npu_residency_claim_begin - stand in line, and claim anew if it is our turn
 * @residency: attempt that has found no room
 *
 * Returns whether it is: then the caller tells all buffers that it uses, all of them locked.
 */
bool npu_residency_claim_begin(struct npu_residency *residency)
{
	struct npu_mem *mem = npu_residency_mem(residency);
	bool first;

	if (!residency->evict)
		return false;

	mutex_lock(&mem->claim_lock);
	if (list_empty(&residency->link))
		list_add_tail(&residency->link, &mem->line);
	first = npu_residency_is_first(residency);
	if (first)
		npu_claims_drop(mem);
	mutex_unlock(&mem->claim_lock);

	return first;
}

/**
 * npu_residency_claim_use - a buffer that the submission names
 * @residency: attempt between npu_residency_claim_begin() and _end()
 * @bo: buffer, its reservation lock held
 */
void npu_residency_claim_use(struct npu_residency *residency, struct npu_bo *bo)
{
	struct npu_mem *mem = npu_residency_mem(residency);

	mutex_lock(&mem->claim_lock);
	if (bo->claim == NPU_CLAIM_NONE) {
		npu_claim_set(mem, bo, NPU_CLAIM_USE);
		if (!npu_bo_is_home(bo))
			mem->missing += npu_bo_card_bytes(bo);
	}
	mutex_unlock(&mem->claim_lock);
}

/* Of those users whose buffers have not been gone over the one who has most of the card. */
static struct npu_user *npu_claim_largest_user(struct npu_mem *mem)
{
	struct npu_user *user = NULL;
	struct npu_bo *bo;

	list_for_each_entry(bo, &mem->resident, resident_link) {
		if (!bo->user->passed && (!user || bo->user->card > user->card))
			user = bo->user;
	}

	return user;
}

static void npu_claim_of_user(struct npu_mem *mem, struct npu_user *user, u64 wanted)
{
	struct npu_bo *bo;

	user->passed = true;
	list_for_each_entry(bo, &mem->resident, resident_link) {
		if (mem->claimed >= wanted)
			return;
		if (bo->user == user && bo->claim == NPU_CLAIM_NONE)
			npu_claim_set(mem, bo, NPU_CLAIM_ROOM);
	}
}

/**
 * npu_residency_claim_end - claim the room that is missing
 * @residency: attempt
 */
void npu_residency_claim_end(struct npu_residency *residency)
{
	struct npu_mem *mem = npu_residency_mem(residency);
	u64 free = READ_ONCE(mem->card.buddy.avail);
	struct npu_user *user;
	struct npu_bo *bo;

	mutex_lock(&mem->claim_lock);
	list_for_each_entry(bo, &mem->resident, resident_link)
		bo->user->passed = false;
	while (free + mem->claimed < mem->missing && (user = npu_claim_largest_user(mem)))
		npu_claim_of_user(mem, user, mem->missing - free);
	mutex_unlock(&mem->claim_lock);
}

/**
 * npu_residency_set_aside - free card memory that the caller must leave to the first one in line
 * @npu: device
 */
u64 npu_residency_set_aside(struct npu_device *npu)
{
	struct npu_mem *mem = &npu->mem;
	u64 aside;

	if (READ_ONCE(mem->holder) == current)
		return 0;

	mutex_lock(&mem->claim_lock);
	aside = mem->missing > mem->claimed ? mem->missing - mem->claimed : 0;
	mutex_unlock(&mem->claim_lock);

	return aside;
}

/**
 * npu_residency_may_evict - may the caller move a buffer out of the card?
 * @bo: buffer
 */
bool npu_residency_may_evict(struct npu_bo *bo)
{
	enum npu_claim claim = READ_ONCE(bo->claim);

	return claim == NPU_CLAIM_NONE ||
	       (claim == NPU_CLAIM_ROOM && READ_ONCE(bo_to_npu_mem(bo)->holder) == current);
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

	mutex_lock(&mem->claim_lock);
	was_there = !list_empty(&bo->resident_link);
	if (to_card && !was_there) {
		list_add_tail(&bo->resident_link, &mem->resident);
		bo->user->card += bo->tbo.base.size;
		if (bo->claim == NPU_CLAIM_USE)
			mem->missing -= min(mem->missing, bo->tbo.base.size);
	}
	if (!to_card && was_there) {
		list_del_init(&bo->resident_link);
		bo->user->card -= bo->tbo.base.size;
		if (bo->claim == NPU_CLAIM_ROOM)
			npu_claim_drop(mem, bo);
	}
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
	if (bo->claim != NPU_CLAIM_NONE)
		npu_claim_drop(mem, bo);
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
