// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * biactive_setup.c - attaches a configuration to its interface, and follows interfaces that come and go.
 */
#include <linux/if_arp.h>
#include <linux/mm.h>
#include <linux/netfilter_arp.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <linux/slab.h>
#include <net/netns/generic.h>

#include "biactive_internal.h"

unsigned int biactive_net_id __read_mostly;

struct biactive_net *biactive_of(const struct net *net)
{
	return net_generic(net, biactive_net_id);
}

static void add_op(struct biactive_setup *setup, nf_hookfn *hook, u8 pf, unsigned int hooknum, int priority)
{
	setup->ops[setup->op_count++] = (struct nf_hook_ops) {
		.hook = hook, .priv = setup, .pf = pf, .hooknum = hooknum, .priority = priority
	};
}

static void fill_ops(struct biactive_setup *setup)
{
	setup->op_count = 0;
	if (setup->v4_count)
		add_op(setup, biactive_arp_out, NFPROTO_ARP, NF_ARP_OUT, 0);
#if IS_ENABLED(CONFIG_IPV6)
	if (setup->v6_count)
		add_op(setup, biactive_nd_out, NFPROTO_IPV6, NF_INET_LOCAL_OUT, NF_IP6_PRI_LAST);
#endif
	if (setup->hook == BIACTIVE_HOOK_EARLY) {
		add_op(setup, biactive_early, NFPROTO_NETDEV, NF_NETDEV_INGRESS, 0);
		return;
	}
	if (setup->v4_count)
		add_op(setup, biactive_late_v4, NFPROTO_IPV4, NF_INET_PRE_ROUTING, BIACTIVE_LATE_PRIORITY);
#if IS_ENABLED(CONFIG_IPV6)
	if (setup->v6_count)
		add_op(setup, biactive_late_v6, NFPROTO_IPV6, NF_INET_PRE_ROUTING, BIACTIVE_LATE_PRIORITY);
#endif
}

static const u8 *nth_mac(const struct biactive_setup *setup, unsigned int n)
{
	return n < setup->v4_count ? setup->v4[n].mac : setup->v6[n - setup->v4_count].mac;
}

/* The interface stops receiving frames of the first count shared addresses. */
static void leave_macs(const struct biactive_setup *setup, struct net_device *dev, unsigned int count)
{
	while (count--)
		dev_mc_del(dev, nth_mac(setup, count));
}

static int attach(struct biactive_setup *setup, struct net_device *dev)
{
	unsigned int count = setup->v4_count + setup->v6_count, i;
	int error;

	ASSERT_RTNL();
	for (i = 0; i < count; i++) {
		error = dev_mc_add(dev, nth_mac(setup, i));
		if (error) {
			leave_macs(setup, dev, i);
			return error;
		}
	}
	for (i = 0; i < setup->op_count; i++) {
		if (setup->ops[i].pf == NFPROTO_NETDEV)
			setup->ops[i].dev = dev;
	}
	rcu_assign_pointer(setup->dev, dev);
	error = nf_register_net_hooks(dev_net(dev), setup->ops, setup->op_count);
	if (error) {
		RCU_INIT_POINTER(setup->dev, NULL);
		leave_macs(setup, dev, count);
	}
	return error;
}

static void detach(struct biactive_setup *setup)
{
	struct net_device *dev = rtnl_dereference(setup->dev);

	if (!dev)
		return;
	nf_unregister_net_hooks(dev_net(dev), setup->ops, setup->op_count);
	RCU_INIT_POINTER(setup->dev, NULL);
	leave_macs(setup, dev, setup->v4_count + setup->v6_count);
}

static void advertise_now(struct biactive_net *bn)
{
	WRITE_ONCE(bn->advertised, 0);
	mod_delayed_work(system_wq, &bn->advertise, 0);
}

static int set_locked(struct biactive_net *bn, struct biactive_setup *setup)
{
	struct net_device *dev = __dev_get_by_index(bn->net, setup->ifindex);
	struct biactive_setup *old = rtnl_dereference(bn->setup);
	int error;

	if (!dev)
		return -ENODEV;
	if (dev->type != ARPHRD_ETHER || (dev->flags & IFF_LOOPBACK))
		return -EINVAL;
	if (!bn->refused)
		bn->refused = kvcalloc(BIACTIVE_REFUSED_WORDS, sizeof(bn->refused[0]), GFP_KERNEL);
	if (!bn->refused)
		return -ENOMEM;
	setup->bn = bn;
	strscpy(setup->name, dev->name, sizeof(setup->name));
	fill_ops(setup);
	/* The former hooks are detached last: at every moment some hooks judge frames. */
	error = attach(setup, dev);
	if (error)
		return error;
	rcu_assign_pointer(bn->setup, setup);
	if (old) {
		detach(old);
		kfree_rcu(old, rcu);
	}
	biactive_lease_owner(bn, setup->lease_uid);
	advertise_now(bn);
	return 0;
}

int biactive_set(struct biactive_net *bn, struct biactive_setup *setup)
{
	int error;

	rtnl_lock();
	error = set_locked(bn, setup);
	rtnl_unlock();
	return error;
}

void biactive_drop_setup(struct biactive_net *bn)
{
	struct biactive_setup *old;

	rtnl_lock();
	old = rtnl_dereference(bn->setup);
	RCU_INIT_POINTER(bn->setup, NULL);
	if (old) {
		detach(old);
		kfree_rcu(old, rcu);
	}
	rtnl_unlock();
	cancel_delayed_work_sync(&bn->advertise);
}

void biactive_clear(struct biactive_net *bn)
{
	biactive_drop_setup(bn);
	biactive_lease_drop(bn);
	biactive_lease_owner(bn, INVALID_UID);
}

/* The interface, or another one with its name, has come. */
static void device_came(struct biactive_setup *setup, struct net_device *dev)
{
	struct net_device *attached = rtnl_dereference(setup->dev);
	int error;

	if (attached) {
		if (attached == dev)
			advertise_now(setup->bn);
		return;
	}
	if (strcmp(dev->name, setup->name) || dev->type != ARPHRD_ETHER)
		return;
	error = attach(setup, dev);
	if (error)
		netdev_warn(dev, "shared addresses cannot be attached: %d\n", error);
	else
		advertise_now(setup->bn);
}

int biactive_device_event(struct notifier_block *block, unsigned long event, void *pointer)
{
	struct net_device *dev = netdev_notifier_info_to_dev(pointer);
	struct biactive_net *bn = biactive_of(dev_net(dev));
	struct biactive_setup *setup = bn ? rtnl_dereference(bn->setup) : NULL;

	if (!setup)
		return NOTIFY_DONE;
	switch (event) {
	case NETDEV_CHANGENAME:
	case NETDEV_UP:
	case NETDEV_CHANGE:
		device_came(setup, dev);
		break;
	case NETDEV_UNREGISTER:
		if (rtnl_dereference(setup->dev) == dev)
			detach(setup);
		break;
	}
	return NOTIFY_DONE;
}
