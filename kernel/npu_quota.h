/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NPU_QUOTA_H
#define NPU_QUOTA_H

#include <linux/atomic.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/types.h>
#include <linux/uidgid.h>

#include "npu_fair.h"

struct npu_device;
struct seq_file;

/*
 * Memory for what users ask for: charged to the memory cgroup of who asks. At its limit the call
 * fails; without __GFP_RETRY_MAYFAIL a process of the cgroup would be killed.
 */
#define NPU_GFP_USER	(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/** enum npu_quota_kind - what is limited */
enum npu_quota_kind {
	/** @NPU_QUOTA_MEMORY: bytes of buffers with memory of their own */
	NPU_QUOTA_MEMORY,

	/** @NPU_QUOTA_CONTEXTS: contexts that have a queue */
	NPU_QUOTA_CONTEXTS,

	/** @NPU_QUOTA_JOBS: unfinished jobs */
	NPU_QUOTA_JOBS,

	/** @NPU_QUOTA_SPACES: address spaces */
	NPU_QUOTA_SPACES,

	/** @NPU_QUOTA_TABLES: page tables */
	NPU_QUOTA_TABLES,

	/** @NPU_QUOTA_KINDS: how many there are */
	NPU_QUOTA_KINDS,
};

/** struct npu_quotas - limits of a card, and its users */
struct npu_quotas {
	/** @limits: for each user, by kind; 0: none; read and written as they are */
	u64 limits[NPU_QUOTA_KINDS];

	/** @users: those who have something, under @lock */
	struct list_head users;

	/** @lock: protects @users; nothing inside of it */
	struct mutex lock;
};

/** struct npu_user - what a user has of a card */
struct npu_user {
	/** @kref: files, buffers, contexts and jobs; the last one goes under npu_quotas.lock */
	struct kref kref;

	/** @quotas: where it is listed */
	struct npu_quotas *quotas;

	/** @link: in npu_quotas.users */
	struct list_head link;

	/** @uid: who */
	kuid_t uid;

	/** @card: bytes of buffers on the card at present; under npu_mem.claim_lock */
	u64 card;

	/** @passed: claims have gone over all its buffers; under npu_mem.claim_lock */
	bool passed;

	/** @share: of the cores */
	struct npu_share share;

	/** @moved: bytes of its buffers' pages that are charged to nobody, see npu_pages.c */
	atomic64_t moved;

	/** @used: by kind */
	atomic64_t used[NPU_QUOTA_KINDS];
};

int npu_quota_init(struct npu_device *npu);
struct npu_user *npu_user_find(struct npu_device *npu, kuid_t uid);
struct npu_user *npu_user_get(struct npu_user *user);
void npu_user_put(struct npu_user *user);

int npu_quota_charge(struct npu_user *user, enum npu_quota_kind kind, u64 amount);
void npu_quota_uncharge(struct npu_user *user, enum npu_quota_kind kind, u64 amount);
void npu_quota_show(struct npu_device *npu, struct seq_file *m);

#endif
