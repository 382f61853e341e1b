// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shares of users: whose queues may give jobs to the card.
 *
 * The card serves queues in turn and does not interrupt a job, so whoever has most queues with jobs
 * has most of its cores. Therefore only some of a user's queues are active at a time; the jobs of
 * the others wait in the driver. A user who is alone may have twice as many active queues as the
 * card has cores. Several users share the cores: each may have as many active queues as there are
 * cores for each, but one at least. So a user with long jobs, in however many contexts, does not
 * keep another from all cores. Where users are more than cores each waits for one job of each other
 * one, since the card serves queues in turn.
 *
 * A user's share is kept for a while after the last job: somebody who waits for each job before the
 * next would otherwise find all cores taken each time.
 *
 * An active queue makes room for others of its user after a few jobs. It has only one job on the
 * card at a time if they are long: what is there cannot be taken back when another user comes.
 *
 * Where there are more users than cores, or all cores were taken before the other user came, a job
 * that has a core for long is killed: the card cannot be told to interrupt it and to go on with it
 * later.
 *
 * Contexts of high priority, which take a privilege, and the driver's own are always active.
 */
#include <linux/jiffies.h>

#include <drm/drm_print.h>

#include "npu_ctx.h"
#include "npu_device.h"
#include "npu_fair.h"
#include "npu_hw_queue.h"
#include "npu_params.h"
#include "npu_quota.h"

/* Jobs that a queue gives to the card before others of its user have their turn. */
#define NPU_FAIR_BURST		8

/* From this time on a job is long: giving it to the card earlier would gain nothing. */
#define NPU_FAIR_LONG_NS	(10 * NSEC_PER_MSEC)

/* How long the share of a user without jobs is kept. */
#define NPU_FAIR_LINGER		HZ

/**
 * npu_fair_depth - how many jobs a queue may have on the card
 * @job_ns: what its last job took
 */
u32 npu_fair_depth(u64 job_ns)
{
	return job_ns < NPU_FAIR_LONG_NS ? NPU_FAIR_BURST : 1;
}

/* Is it a queue that takes no part? */
static bool npu_fair_is_exempt(const struct npu_hw_queue *queue)
{
	return !queue->share;
}

static bool npu_share_counts(const struct npu_share *share)
{
	return atomic_read(&share->jobs) ||
	       time_before(jiffies, READ_ONCE(share->idle_since) + NPU_FAIR_LINGER);
}

/* Active queues that each user may have. */
static u32 npu_fair_limit(struct npu_device *npu)
{
	struct npu_share *share;
	u32 users = 0;

	lockdep_assert_held(&npu->fair.lock);

	list_for_each_entry(share, &npu->fair.shares, link)
		users += npu_share_counts(share);

	return users > 1 ? max(npu->info.cores / users, 1u) : 2 * npu->info.cores;
}

/* A queue has jobs that the card may not be given yet. */
static void npu_fair_wait(struct npu_hw_queue *queue)
{
	list_add_tail(&queue->fair_link, &queue->share->waiting);
	queue->npu->fair.waiting++;
}

static void npu_fair_stop_waiting(struct npu_hw_queue *queue)
{
	list_del_init(&queue->fair_link);
	queue->npu->fair.waiting--;
}

static void npu_fair_activate(struct npu_hw_queue *queue)
{
	queue->active = true;
	queue->burst = NPU_FAIR_BURST;
	queue->share->active++;
	npu_fair_stop_waiting(queue);
}

static void npu_fair_deactivate(struct npu_hw_queue *queue)
{
	queue->active = false;
	queue->share->active--;
}

/*
 * Give the card jobs of an active queue. One that has had its turn, or that is too much, becomes
 * inactive as soon as the card has none of its jobs any more.
 */
static void npu_fair_feed(struct npu_hw_queue *queue)
{
	struct npu_share *share = queue->share;

	if (!queue->burst && list_empty(&share->waiting))
		queue->burst = NPU_FAIR_BURST;
	if (npu_hw_queue_has_backlog(queue) && share->active <= npu_fair_limit(queue->npu))
		queue->burst -= npu_hw_queue_feed(queue, queue->burst);
	if (npu_hw_queue_on_card(queue))
		return;

	npu_fair_deactivate(queue);
	if (npu_hw_queue_has_backlog(queue))
		npu_fair_wait(queue);
}

/* Let queues that wait begin, as far as the limit allows. */
static void npu_fair_begin(struct npu_share *share, u32 limit)
{
	struct npu_hw_queue *queue;

	while (share->active < limit && !list_empty(&share->waiting)) {
		queue = list_first_entry(&share->waiting, struct npu_hw_queue, fair_link);
		npu_fair_activate(queue);
		queue->burst -= npu_hw_queue_feed(queue, queue->burst);
		/* Its jobs have ended otherwise, or wait for a reset: npu_fair_update() follows. */
		if (!npu_hw_queue_on_card(queue))
			npu_fair_deactivate(queue);
	}
}

/* Whoever could not begin may do so when another user's share ends. */
static void npu_fair_dispatch(struct npu_device *npu)
{
	struct npu_share *share;
	u32 limit;

	if (!npu->fair.waiting)
		return;

	limit = npu_fair_limit(npu);
	list_for_each_entry(share, &npu->fair.shares, link)
		npu_fair_begin(share, limit);
	if (npu->fair.waiting && !timer_pending(&npu->fair.timer))
		mod_timer(&npu->fair.timer, jiffies + NPU_FAIR_LINGER / 4);
}

static void npu_fair_timer(struct timer_list *timer)
{
	struct npu_fair *fair = container_of(timer, struct npu_fair, timer);
	struct npu_device *npu = container_of(fair, struct npu_device, fair);
	unsigned long flags;

	spin_lock_irqsave(&fair->lock, flags);
	npu_fair_dispatch(npu);
	spin_unlock_irqrestore(&fair->lock, flags);
}

/**
 * npu_fair_update - a queue has new jobs, or has finished some
 * @queue: queue, its lock not held
 */
void npu_fair_update(struct npu_hw_queue *queue)
{
	struct npu_device *npu = queue->npu;
	unsigned long flags;

	if (npu_fair_is_exempt(queue)) {
		npu_hw_queue_feed(queue, NPU_RING_JOBS);
		return;
	}

	spin_lock_irqsave(&npu->fair.lock, flags);
	if (queue->active)
		npu_fair_feed(queue);
	else if (list_empty(&queue->fair_link) && npu_hw_queue_has_backlog(queue))
		npu_fair_wait(queue);
	npu_fair_dispatch(npu);
	spin_unlock_irqrestore(&npu->fair.lock, flags);
}

/* Jobs that have a core for long */

/* See which job each core works on, and since when. */
static void npu_fair_look_at_cores(struct npu_device *npu)
{
	u32 core, busy = npu_read(npu, NPU_REG_CORE_BUSY);

	for (core = 0; core < npu->info.cores; core++) {
		struct npu_hold *hold = &npu->fair.holds[core];
		struct npu_hold now = { .queue = U32_MAX };

		if (busy & BIT(core)) {
			now.queue = npu_read(npu, NPU_CORE_REG(core, NPU_CORE_QUEUE));
			now.seqno = npu_read64(npu, NPU_CORE_REG(core, NPU_CORE_JOB_ID));
		}
		if (now.queue == hold->queue && now.seqno == hold->seqno)
			continue;
		now.since = jiffies;
		*hold = now;
	}
}

/* Whose job a core works on; NULL: nobody's. */
static struct npu_user *npu_fair_holder(struct npu_device *npu, u32 core)
{
	u32 queue = npu->fair.holds[core].queue;

	lockdep_assert_held(&npu->hw_lock);

	if (queue >= npu->info.queues || !npu->queues[queue])
		return NULL;

	return npu->queues[queue]->ctx->user;
}

static bool npu_fair_is_free(struct npu_device *npu, u32 core)
{
	return npu->fair.holds[core].queue == U32_MAX;
}

/* Does a user wait with this queue who has no core at all? */
static bool npu_fair_is_starved(struct npu_hw_queue *queue)
{
	struct npu_user *user = queue->ctx->user;
	struct npu_device *npu = queue->npu;
	u32 core;

	if (!user || !npu_hw_queue_is_waiting(queue))
		return false;
	for (core = 0; core < npu->info.cores; core++) {
		if (npu_fair_holder(npu, core) == user ||
		    (queue->core_mask & BIT(core) && npu_fair_is_free(npu, core)))
			return false;
	}

	return true;
}

/* The core that has been another user's for longest, of those that a queue can use. */
static int npu_fair_longest(struct npu_hw_queue *queue)
{
	struct npu_device *npu = queue->npu;
	unsigned long mask = queue->core_mask, since = jiffies;
	int core, longest = -1;

	for_each_set_bit(core, &mask, npu->info.cores) {
		struct npu_hold *hold = &npu->fair.holds[core];

		if (!npu_fair_holder(npu, core) || npu_fair_is_exempt(npu->queues[hold->queue]) ||
		    time_after(hold->since, since))
			continue;
		since = hold->since;
		longest = core;
	}

	return longest;
}

/**
 * npu_fair_look - kill a job that has a core for long while a user who has none waits for it
 * @npu: device, entered
 *
 * One job at a time: the core that becomes free may be enough. Called once in a second. Returns
 * true if the card has to be reset.
 */
bool npu_fair_look(struct npu_device *npu)
{
	u32 i, limit = READ_ONCE(npu_contended_ms);
	struct npu_hold *hold;
	bool reset = false;
	int core = -1;

	npu_fair_look_at_cores(npu);
	if (!limit)
		return false;

	mutex_lock(&npu->hw_lock);
	for (i = 0; i < npu->info.queues && core < 0; i++) {
		if (npu->queues[i] && npu_fair_is_starved(npu->queues[i]))
			core = npu_fair_longest(npu->queues[i]);
	}
	if (core >= 0) {
		hold = &npu->fair.holds[core];
		if (time_after(jiffies, hold->since + msecs_to_jiffies(limit)))
			reset = npu_hw_queue_recall(npu->queues[hold->queue], hold->seqno);
	}
	mutex_unlock(&npu->hw_lock);

	return reset;
}

/* Life */

/**
 * npu_fair_add - a queue takes part
 * @queue: queue; @share tells whose, NULL if it is always active
 */
void npu_fair_add(struct npu_hw_queue *queue)
{
	struct npu_fair *fair = &queue->npu->fair;
	unsigned long flags;

	if (npu_fair_is_exempt(queue))
		return;

	spin_lock_irqsave(&fair->lock, flags);
	if (!queue->share->queues++)
		list_add_tail(&queue->share->link, &fair->shares);
	spin_unlock_irqrestore(&fair->lock, flags);
}

/**
 * npu_fair_remove - undo npu_fair_add()
 * @queue: queue without jobs
 */
void npu_fair_remove(struct npu_hw_queue *queue)
{
	struct npu_fair *fair = &queue->npu->fair;
	unsigned long flags;

	if (npu_fair_is_exempt(queue))
		return;

	spin_lock_irqsave(&fair->lock, flags);
	if (!list_empty(&queue->fair_link))
		npu_fair_stop_waiting(queue);
	if (queue->active)
		npu_fair_deactivate(queue);
	if (!--queue->share->queues)
		list_del_init(&queue->share->link);
	npu_fair_dispatch(queue->npu);
	spin_unlock_irqrestore(&fair->lock, flags);
}

/**
 * npu_fair_init_share - a user without jobs
 * @share: share
 */
void npu_fair_init_share(struct npu_share *share)
{
	INIT_LIST_HEAD(&share->link);
	INIT_LIST_HEAD(&share->waiting);
	share->idle_since = jiffies - NPU_FAIR_LINGER;
}

/**
 * npu_fair_init - no users
 * @npu: device
 */
void npu_fair_init(struct npu_device *npu)
{
	spin_lock_init(&npu->fair.lock);
	INIT_LIST_HEAD(&npu->fair.shares);
	timer_setup(&npu->fair.timer, npu_fair_timer, 0);
}

/**
 * npu_fair_fini - undo npu_fair_init(); all queues of users are removed
 * @npu: device
 */
void npu_fair_fini(struct npu_device *npu)
{
	timer_shutdown_sync(&npu->fair.timer);
}
