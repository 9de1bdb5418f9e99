// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * biactive_main.c - loads the module, and follows network namespaces that come and go.
 */
#include <linux/mm.h>
#include <linux/module.h>
#include <net/genetlink.h>
#include <net/netns/generic.h>

#include "biactive_internal.h"

static struct notifier_block device_notifier = {
	.notifier_call = biactive_device_event,
};

static int __net_init net_init(struct net *net)
{
	struct biactive_net *bn = biactive_of(net);
	int error;

	bn->net = net;
	bn->cookies_until = jiffies;
	INIT_DELAYED_WORK(&bn->advertise, biactive_advertise);
	bn->counters = alloc_percpu(struct biactive_counters);
	if (!bn->counters)
		return -ENOMEM;
	error = biactive_lease_init(bn);
	if (error)
		free_percpu(bn->counters);
	return error;
}

/* A grace period passes between this and net_exit(), so no hook runs any more then. */
static void __net_exit net_pre_exit(struct net *net)
{
	biactive_drop_setup(biactive_of(net));
}

static void __net_exit net_exit(struct net *net)
{
	struct biactive_net *bn = biactive_of(net);

	biactive_lease_exit(bn);
	free_percpu(bn->counters);
	kvfree(bn->refused);
}

static struct pernet_operations net_ops = {
	.init = net_init,
	.pre_exit = net_pre_exit,
	.exit = net_exit,
	.id = &biactive_net_id,
	.size = sizeof(struct biactive_net),
};

static int __init biactive_init(void)
{
	int error = register_pernet_subsys(&net_ops);

	if (error)
		return error;
	error = register_netdevice_notifier(&device_notifier);
	if (error)
		goto fail_notifier;
	error = biactive_netlink_init();
	if (error)
		goto fail_netlink;
	return 0;
fail_netlink:
	unregister_netdevice_notifier(&device_notifier);
fail_notifier:
	unregister_pernet_subsys(&net_ops);
	return error;
}

static void __exit biactive_exit(void)
{
	biactive_netlink_exit();
	unregister_netdevice_notifier(&device_notifier);
	unregister_pernet_subsys(&net_ops);
}

module_init(biactive_init);
module_exit(biactive_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("dprd: shared addresses: each node accepts its share of the connections");
#ifdef DPRD_VERSION
MODULE_VERSION(DPRD_VERSION);
#endif
MODULE_ALIAS_GENL_FAMILY(BIACTIVE_FAMILY);
