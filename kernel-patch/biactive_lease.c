// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * biactive_lease.c - takes the share and the lease. The announcer writes both to the lease file of its network
 * namespace. It needs no capability for that: it only has to own the file.
 */
#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/ktime.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/user_namespace.h>

#include "biactive_internal.h"

static bool lease_is_valid(const struct bucket_lease *lease)
{
	const struct bucket_share *share = &lease->share;
	u32 i, j;

	/* With id 0 this node would own buckets that have no owner. */
	if (lease->version != BUCKET_LEASE_VERSION || lease->reserved || !share->self_id ||
	    share->count > BUCKET_MEMBERS_MAX)
		return false;
	for (i = 0; i < share->count; i++) {
		const struct bucket_member *member = &share->member[i];

		if (!member->id || !member->weight || member->weight > BUCKET_WEIGHT_MAX)
			return false;
		for (j = 0; j < i; j++) {
			if (share->member[j].id == member->id)
				return false;
		}
	}
	return true;
}

static struct biactive_lease *lease_new(const struct bucket_lease *written, const struct bucket_share *former)
{
	struct biactive_lease *lease = kvzalloc(sizeof(*lease), GFP_KERNEL_ACCOUNT);
	u32 bucket;

	if (!lease)
		return NULL;
	lease->until_ns = written->until_ns;
	lease->share = written->share;
	if (former)
		lease->former = *former;
	for (bucket = 0; bucket < BUCKETS; bucket++) {
		lease->owner[bucket] = bucket_owner_place(&lease->share, bucket);
		if (bucket % 1024 == 0)
			cond_resched();
	}
	/* The new share is used from this moment on: SYNs refused until now were refused by the former share. */
	lease->changed_ns = ktime_get_ns();
	return lease;
}

/* Most writes renew a lease; few change the share. */
static int lease_publish(struct biactive_net *bn, const struct bucket_lease *written)
{
	struct biactive_lease *old, *lease;
	int error = 0;

	mutex_lock(&bn->lease_mutex);
	old = rcu_dereference_protected(bn->lease, lockdep_is_held(&bn->lease_mutex));
	if (old && !memcmp(&old->share, &written->share, sizeof(old->share))) {
		WRITE_ONCE(old->until_ns, written->until_ns);
		goto out;
	}
	lease = lease_new(written, old ? &old->share : NULL);
	if (!lease) {
		error = -ENOMEM;
		goto out;
	}
	rcu_assign_pointer(bn->lease, lease);
	if (old)
		kvfree_rcu(old, rcu);
out:
	mutex_unlock(&bn->lease_mutex);
	return error;
}

static ssize_t lease_write(struct file *file, const char __user *bytes, size_t count, loff_t *position)
{
	struct biactive_net *bn = pde_data(file_inode(file));
	struct bucket_lease *written;
	int error;

	if (count != sizeof(*written)) {
		biactive_count(bn, BIACTIVE_LEASES_REFUSED);
		return -EINVAL;
	}
	written = memdup_user(bytes, sizeof(*written));
	if (IS_ERR(written))
		return PTR_ERR(written);
	if (lease_is_valid(written)) {
		/* Bytes behind the last member mean nothing and must make no difference. */
		memset(&written->share.member[written->share.count], 0,
		       (BUCKET_MEMBERS_MAX - written->share.count) * sizeof(written->share.member[0]));
		error = lease_publish(bn, written);
	} else {
		error = -EINVAL;
	}
	biactive_count(bn, error ? BIACTIVE_LEASES_REFUSED : BIACTIVE_LEASES);
	kfree(written);
	return error ?: count;
}

static const struct proc_ops lease_ops = {
	.proc_write = lease_write,
	.proc_lseek = noop_llseek,
};

void biactive_lease_drop(struct biactive_net *bn)
{
	struct biactive_lease *old;

	mutex_lock(&bn->lease_mutex);
	old = rcu_replace_pointer(bn->lease, NULL, lockdep_is_held(&bn->lease_mutex));
	mutex_unlock(&bn->lease_mutex);
	if (old)
		kvfree_rcu(old, rcu);
}

void biactive_lease_owner(struct biactive_net *bn, kuid_t uid)
{
	kuid_t root = make_kuid(bn->net->user_ns, 0);

	if (!uid_valid(uid))
		uid = uid_valid(root) ? root : GLOBAL_ROOT_UID;
	proc_set_user(bn->lease_file, uid, GLOBAL_ROOT_GID);
}

int biactive_lease_init(struct biactive_net *bn)
{
	mutex_init(&bn->lease_mutex);
	bn->directory = proc_net_mkdir(bn->net, BIACTIVE_LEASE_DIRECTORY, bn->net->proc_net);
	if (!bn->directory)
		return -ENOMEM;
	bn->lease_file = proc_create_data(BIACTIVE_LEASE_FILE, 0200, bn->directory, &lease_ops, bn);
	if (!bn->lease_file) {
		proc_remove(bn->directory);
		return -ENOMEM;
	}
	biactive_lease_owner(bn, INVALID_UID);
	return 0;
}

void biactive_lease_exit(struct biactive_net *bn)
{
	proc_remove(bn->lease_file);
	proc_remove(bn->directory);
	biactive_lease_drop(bn);
}
