// SPDX-License-Identifier: GPL-2.0-or-later
/* biactive_netlink.c - the configuration: the generic netlink family of biactive.h. */
#include <linux/slab.h>
#include <linux/user_namespace.h>
#include <linux/version.h>
#include <net/genetlink.h>
#include <net/ipv6.h>
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
#include <linux/unaligned.h>
#else
#include <asm/unaligned.h>
#endif

#include "biactive_internal.h"

static struct genl_family family;

static const struct nla_policy policy[BIACTIVE_A_COUNT] = {
	[BIACTIVE_A_IFINDEX] = NLA_POLICY_MIN(NLA_U32, 1),
	[BIACTIVE_A_HOOK] = NLA_POLICY_MAX(NLA_U8, BIACTIVE_HOOK_COUNT - 1),
	[BIACTIVE_A_KEY] = NLA_POLICY_EXACT_LEN(BIACTIVE_KEY_BYTES),
	[BIACTIVE_A_LEASE_UID] = { .type = NLA_U32 },
	[BIACTIVE_A_ADDRESSES] = { .type = NLA_BINARY,
				   .len = BIACTIVE_ADDRESSES_MAX * sizeof(struct biactive_address) },
	[BIACTIVE_A_NAT] = NLA_POLICY_MAX(NLA_U8, 1),
};

/* Adds a shared address to the setup; -EINVAL when it cannot be one. */
static int add_address(struct biactive_setup *setup, const struct biactive_address *address)
{
	struct biactive_shared *shared;
	union biactive_ip ip;
	bool v4;

	memcpy(&ip, address->ip, sizeof(ip));
	v4 = ipv6_addr_v4mapped(&ip.v6);
	if (address->reserved[0] || address->reserved[1] || !is_multicast_ether_addr(address->mac))
		return -EINVAL;
	if (v4) {
		if (!ip.words[3] || ipv4_is_loopback(ip.words[3]) || ipv4_is_multicast(ip.words[3]) ||
		    ipv4_is_lbcast(ip.words[3]) || biactive_find_v4(setup, ip.words[3]))
			return -EINVAL;
		shared = &setup->v4[setup->v4_count++];
	} else {
		if (!IS_ENABLED(CONFIG_IPV6))
			return -EAFNOSUPPORT;
		if (ipv6_addr_any(&ip.v6) || ipv6_addr_loopback(&ip.v6) || ipv6_addr_is_multicast(&ip.v6) ||
		    biactive_find_v6(setup, &ip.v6))
			return -EINVAL;
		shared = &setup->v6[setup->v6_count++];
	}
	shared->ip = ip;
	ether_addr_copy(shared->mac, address->mac);
	return 0;
}

static int add_addresses(struct biactive_setup *setup, const struct nlattr *attribute)
{
	unsigned int bytes = nla_len(attribute), offset;
	struct biactive_address address;
	int error;

	if (!bytes || bytes % sizeof(address))
		return -EINVAL;
	for (offset = 0; offset < bytes; offset += sizeof(address)) {
		memcpy(&address, nla_data(attribute) + offset, sizeof(address));
		error = add_address(setup, &address);
		if (error)
			return error;
	}
	return 0;
}

static int parse_setup(struct biactive_setup *setup, const struct sk_buff *skb, const struct genl_info *info)
{
	const u8 *key;
	int attribute;

	for (attribute = BIACTIVE_A_IFINDEX; attribute <= BIACTIVE_A_ADDRESSES; attribute++) {
		if (attribute != BIACTIVE_A_IFNAME && !info->attrs[attribute]) {
			NL_SET_ERR_MSG(info->extack, "an attribute is missing");
			return -EINVAL;
		}
	}
	setup->ifindex = nla_get_u32(info->attrs[BIACTIVE_A_IFINDEX]);
	setup->hook = nla_get_u8(info->attrs[BIACTIVE_A_HOOK]);
	key = nla_data(info->attrs[BIACTIVE_A_KEY]);
	setup->key[0] = get_unaligned_le64(key);
	setup->key[1] = get_unaligned_le64(key + 8);
	setup->lease_uid = make_kuid(sk_user_ns(NETLINK_CB(skb).sk), nla_get_u32(info->attrs[BIACTIVE_A_LEASE_UID]));
	if (!uid_valid(setup->lease_uid)) {
		NL_SET_ERR_MSG(info->extack, "no such user here");
		return -EINVAL;
	}
	setup->nat = info->attrs[BIACTIVE_A_NAT] && nla_get_u8(info->attrs[BIACTIVE_A_NAT]);
	if (setup->nat && !IS_REACHABLE(CONFIG_NF_CONNTRACK)) {
		NL_SET_ERR_MSG(info->extack, "no connection tracking in this kernel");
		return -EOPNOTSUPP;
	}
	return add_addresses(setup, info->attrs[BIACTIVE_A_ADDRESSES]);
}

static int do_set(struct sk_buff *skb, struct genl_info *info)
{
	struct biactive_net *bn = biactive_of(genl_info_net(info));
	struct biactive_setup *setup = kzalloc(sizeof(*setup), GFP_KERNEL);
	int error;

	if (!setup)
		return -ENOMEM;
	error = parse_setup(setup, skb, info) ?: biactive_set(bn, setup);
	/* Hooks that were registered for a moment may still read the setup. */
	if (error)
		kfree_rcu(setup, rcu);
	return error;
}

static int do_clear(struct sk_buff *skb, struct genl_info *info)
{
	biactive_clear(biactive_of(genl_info_net(info)));
	return 0;
}

static int put_addresses(struct sk_buff *skb, const struct biactive_setup *setup)
{
	unsigned int count = setup->v4_count + setup->v6_count, i;
	struct nlattr *attribute = nla_reserve(skb, BIACTIVE_A_ADDRESSES, count * sizeof(struct biactive_address));
	struct biactive_address *address;

	if (!attribute)
		return -EMSGSIZE;
	address = nla_data(attribute);
	for (i = 0; i < count; i++) {
		const struct biactive_shared *shared =
			i < setup->v4_count ? &setup->v4[i] : &setup->v6[i - setup->v4_count];
		struct biactive_address one = {};

		memcpy(one.ip, &shared->ip, sizeof(one.ip));
		memcpy(one.mac, shared->mac, sizeof(one.mac));
		memcpy(address + i, &one, sizeof(one));
	}
	return 0;
}

static int put_setup(struct sk_buff *skb, const struct biactive_setup *setup)
{
	const struct net_device *dev = rcu_dereference(setup->dev);

	return nla_put_u32(skb, BIACTIVE_A_IFINDEX, dev ? dev->ifindex : 0) ?:
	       nla_put_string(skb, BIACTIVE_A_IFNAME, setup->name) ?:
	       nla_put_u8(skb, BIACTIVE_A_HOOK, setup->hook) ?:
	       nla_put_u8(skb, BIACTIVE_A_NAT, setup->nat) ?:
	       nla_put_u32(skb, BIACTIVE_A_LEASE_UID, from_kuid_munged(current_user_ns(), setup->lease_uid)) ?:
	       put_addresses(skb, setup);
}

static int put_lease(struct sk_buff *skb, const struct biactive_lease *lease)
{
	return nla_put_u64_64bit(skb, BIACTIVE_A_LEASE_UNTIL, READ_ONCE(lease->until_ns), BIACTIVE_A_PAD) ?:
	       nla_put_u64_64bit(skb, BIACTIVE_A_SHARE_CHANGED, lease->changed_ns, BIACTIVE_A_PAD) ?:
	       nla_put(skb, BIACTIVE_A_SHARE, offsetof(struct bucket_share, member[lease->share.count]), &lease->share);
}

static int put_counters(struct sk_buff *skb, const struct biactive_net *bn)
{
	struct nlattr *nest = nla_nest_start(skb, BIACTIVE_A_COUNTERS);
	unsigned int counter, cpu;

	if (!nest)
		return -EMSGSIZE;
	for (counter = 0; counter < BIACTIVE_COUNTER_COUNT; counter++) {
		u64 sum = 0;

		for_each_possible_cpu(cpu) sum += READ_ONCE(per_cpu_ptr(bn->counters, cpu)->value[counter]);
		/* Padding within the nest has type 0. */
		if (nla_put_u64_64bit(skb, 1 + counter, sum, 0))
			return -EMSGSIZE;
	}
	nla_nest_end(skb, nest);
	return 0;
}

static int do_get(struct sk_buff *skb, struct genl_info *info)
{
	const struct biactive_net *bn = biactive_of(genl_info_net(info));
	struct sk_buff *answer = genlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL);
	const struct biactive_setup *setup;
	const struct biactive_lease *lease;
	void *header;
	int error = -EMSGSIZE;

	if (!answer)
		return -ENOMEM;
	header = genlmsg_put_reply(answer, info, &family, 0, BIACTIVE_CMD_GET);
	if (header) {
		rcu_read_lock();
		setup = rcu_dereference(bn->setup);
		lease = rcu_dereference(bn->lease);
		error = (setup ? put_setup(answer, setup) : 0) ?: (lease ? put_lease(answer, lease) : 0) ?:
			put_counters(answer, bn);
		rcu_read_unlock();
	}
	if (error) {
		nlmsg_free(answer);
		return error;
	}
	genlmsg_end(answer, header);
	return genlmsg_reply(answer, info);
}

static const struct genl_small_ops ops[] = {
	{ .cmd = BIACTIVE_CMD_SET, .flags = GENL_UNS_ADMIN_PERM, .doit = do_set },
	{ .cmd = BIACTIVE_CMD_GET, .flags = GENL_UNS_ADMIN_PERM, .doit = do_get },
	{ .cmd = BIACTIVE_CMD_CLEAR, .flags = GENL_UNS_ADMIN_PERM, .doit = do_clear },
};

static struct genl_family family __ro_after_init = {
	.name = BIACTIVE_FAMILY,
	.version = BIACTIVE_FAMILY_VERSION,
	.maxattr = BIACTIVE_A_COUNT - 1,
	.policy = policy,
	.netnsok = true,
	.module = THIS_MODULE,
	.small_ops = ops,
	.n_small_ops = ARRAY_SIZE(ops),
};

int __init biactive_netlink_init(void)
{
	return genl_register_family(&family);
}

void biactive_netlink_exit(void)
{
	genl_unregister_family(&family);
}
