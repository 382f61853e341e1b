// SPDX-License-Identifier: GPL-2.0-only
/*
 * Quotas: how much of a card one user can have.
 *
 * A user is the effective uid of who opened the node: what is made through a file is that user's,
 * whoever the file was handed to. Everybody is counted, so that limits can change at any time; a
 * limit is only looked at when something new is made, and not for CAP_SYS_RESOURCE.
 */
#include <linux/capability.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include <drm/drm_managed.h>

#include "npu_device.h"
#include "npu_quota.h"

/**
 * npu_quota_init - no limits, no users
 * @npu: device
 */
int npu_quota_init(struct npu_device *npu)
{
	INIT_LIST_HEAD(&npu->quotas.users);

	return drmm_mutex_init(&npu->drm, &npu->quotas.lock);
}

static struct npu_user *npu_user_find_locked(struct npu_quotas *quotas, kuid_t uid)
{
	struct npu_user *user;

	lockdep_assert_held(&quotas->lock);

	list_for_each_entry(user, &quotas->users, link) {
		if (uid_eq(user->uid, uid))
			return npu_user_get(user);
	}

	return NULL;
}

/**
 * npu_user_find - the account of a user
 * @npu: device
 * @uid: user
 *
 * Returns it with a reference, or NULL without memory.
 */
struct npu_user *npu_user_find(struct npu_device *npu, kuid_t uid)
{
	struct npu_quotas *quotas = &npu->quotas;
	struct npu_user *user, *fresh;

	fresh = kzalloc(sizeof(*fresh), NPU_GFP_USER);
	if (!fresh)
		return NULL;
	kref_init(&fresh->kref);
	fresh->quotas = quotas;
	npu_fair_init_share(&fresh->share);
	fresh->uid = uid;

	mutex_lock(&quotas->lock);
	user = npu_user_find_locked(quotas, uid);
	if (!user)
		list_add_tail(&fresh->link, &quotas->users);
	mutex_unlock(&quotas->lock);
	if (!user)
		return fresh;

	kfree(fresh);

	return user;
}

/**
 * npu_user_get - take a reference
 * @user: account
 */
struct npu_user *npu_user_get(struct npu_user *user)
{
	kref_get(&user->kref);

	return user;
}

static void npu_user_release(struct kref *kref)
{
	struct npu_user *user = container_of(kref, struct npu_user, kref);
	struct npu_quotas *quotas = user->quotas;

	list_del(&user->link);
	mutex_unlock(&quotas->lock);
	kfree(user);
}

/**
 * npu_user_put - drop a reference; may sleep
 * @user: account or NULL
 */
void npu_user_put(struct npu_user *user)
{
	if (user)
		kref_put_mutex(&user->kref, npu_user_release, &user->quotas->lock);
}

/**
 * npu_quota_charge - count something new
 * @user: whose; NULL: the driver's own
 * @kind: what
 * @amount: how much
 *
 * -EDQUOT: it would be too much, and is not counted.
 */
int npu_quota_charge(struct npu_user *user, enum npu_quota_kind kind, u64 amount)
{
	u64 limit, used;

	if (!user)
		return 0;
	limit = READ_ONCE(user->quotas->limits[kind]);
	used = atomic64_add_return(amount, &user->used[kind]);

	/* The question about the capability is asked last: it marks who uses it. */
	if (!limit || used <= limit || capable(CAP_SYS_RESOURCE))
		return 0;
	npu_quota_uncharge(user, kind, amount);

	return -EDQUOT;
}

/**
 * npu_quota_uncharge - count something no more; any context
 * @user: whose, or NULL
 * @kind: what
 * @amount: how much, as it was charged
 */
void npu_quota_uncharge(struct npu_user *user, enum npu_quota_kind kind, u64 amount)
{
	if (user)
		atomic64_sub(amount, &user->used[kind]);
}

/**
 * npu_quota_show - limits, and what each user has
 * @npu: device
 * @m: where to
 */
void npu_quota_show(struct npu_device *npu, struct seq_file *m)
{
	struct npu_quotas *quotas = &npu->quotas;
	struct npu_user *user;
	u32 kind;

	seq_puts(m, "uid memory contexts jobs spaces tables\nlimit");
	for (kind = 0; kind < NPU_QUOTA_KINDS; kind++)
		seq_printf(m, " %llu", READ_ONCE(quotas->limits[kind]));
	seq_puts(m, "\n");

	mutex_lock(&quotas->lock);
	list_for_each_entry(user, &quotas->users, link) {
		seq_printf(m, "%u", from_kuid_munged(seq_user_ns(m), user->uid));
		for (kind = 0; kind < NPU_QUOTA_KINDS; kind++)
			seq_printf(m, " %lld", atomic64_read(&user->used[kind]));
		seq_puts(m, "\n");
	}
	mutex_unlock(&quotas->lock);
}
