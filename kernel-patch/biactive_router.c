// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * biactive_router.c - makes snooping switches deliver the frames. In a network with a querier, a snooping switch sends
 * a multicast frame that holds a unicast IP address only to "routers". So the node announces itself as one: Multicast
 * Router Advertisements (RFC 4286), for IGMP and MLD, when the interface comes up and then again and again.
 */
#include <linux/icmpv6.h>
#include <linux/igmp.h>
#include <linux/inetdevice.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/moduleparam.h>
#include <net/addrconf.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/ipv6.h>

#include "biactive_internal.h"

enum {
	FIRST_ADVERTISEMENTS = 3, /* sent after the interface came up, FIRST_INTERVAL_S apart (RFC 4286 4) */
	FIRST_INTERVAL_S = 2,
	IGMP_ADVERTISEMENT = 0x30,
	ICMPV6_ADVERTISEMENT = 151,
	PRECEDENCE_INTERNETWORK_CONTROL = 0xc0,
};

static unsigned int advertise_s = 20;
module_param(advertise_s, uint, 0644);
MODULE_PARM_DESC(advertise_s, "seconds between Multicast Router Advertisements, 4 to 180; 0: none (default: 20)");

/* Both messages are alike: type, interval in seconds, checksum, and two values that are 0 when not used. */
struct advertisement {
	u8 type;
	u8 interval_s;
	__sum16 checksum;
	__be16 query_interval;
	__be16 robustness;
};

struct advertisement_v4 {
	struct iphdr ip;
	u8 router_alert[4];
	struct advertisement body;
} __packed;

struct advertisement_v6 {
	struct ipv6hdr ip;
	u8 hop_by_hop[8];
	struct advertisement body;
} __packed;

static unsigned int interval_s(void)
{
	unsigned int s = READ_ONCE(advertise_s);

	return s ? clamp(s, 4U, 180U) : 0;
}

/* A packet of zero bytes, with room for headers and for the device's trailer; NULL when out of memory. */
static struct sk_buff *packet_new(struct net_device *dev, unsigned int bytes, __be16 protocol)
{
	struct sk_buff *skb = alloc_skb(LL_RESERVED_SPACE(dev) + bytes + dev->needed_tailroom, GFP_ATOMIC);

	if (!skb)
		return NULL;
	skb_reserve(skb, LL_RESERVED_SPACE(dev));
	skb_reset_network_header(skb);
	skb_put_zero(skb, bytes);
	skb->dev = dev;
	skb->protocol = protocol;
	skb->priority = TC_PRIO_CONTROL;
	return skb;
}

static bool packet_send(struct sk_buff *skb, const u8 *mac)
{
	if (dev_hard_header(skb, skb->dev, ntohs(skb->protocol), mac, skb->dev->dev_addr, skb->len) < 0) {
		kfree_skb(skb);
		return false;
	}
	return dev_queue_xmit(skb) == NET_XMIT_SUCCESS;
}

static bool advertise_v4(struct net_device *dev, u8 seconds)
{
	const __be32 all_snoopers = htonl(0xe000006a);
	struct sk_buff *skb = packet_new(dev, sizeof(struct advertisement_v4), htons(ETH_P_IP));
	struct advertisement_v4 *packet;
	u8 mac[ETH_ALEN];

	if (!skb)
		return false;
	packet = (struct advertisement_v4 *)skb->data;
	packet->ip = (struct iphdr) {
		.version = 4,
		.ihl = (sizeof(packet->ip) + sizeof(packet->router_alert)) / 4,
		.tos = PRECEDENCE_INTERNETWORK_CONTROL,
		.tot_len = htons(sizeof(*packet)),
		.frag_off = htons(IP_DF),
		.ttl = 1,
		.protocol = IPPROTO_IGMP,
		.saddr = inet_select_addr(dev, all_snoopers, RT_SCOPE_LINK),
		.daddr = all_snoopers,
	};
	memcpy(packet->router_alert, "\x94\x04\0\0", sizeof(packet->router_alert));
	packet->ip.check = ip_fast_csum(&packet->ip, packet->ip.ihl);
	packet->body.type = IGMP_ADVERTISEMENT;
	packet->body.interval_s = seconds;
	packet->body.checksum = ip_compute_csum(&packet->body, sizeof(packet->body));
	ip_eth_mc_map(all_snoopers, mac);
	return packet_send(skb, mac);
}

#if IS_ENABLED(CONFIG_IPV6)
static bool advertise_v6(struct net_device *dev, u8 seconds)
{
	static const struct in6_addr all_snoopers = { { { 0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x6a } } };
	/* next header, length, router alert (RFC 2711), padding */
	static const u8 hop_by_hop[8] = { IPPROTO_ICMPV6, 0, 5, 2, 0, 0, 1, 0 };
	struct advertisement_v6 *packet;
	struct in6_addr source;
	struct sk_buff *skb;
	u8 mac[ETH_ALEN];

	/* Without a link-local address (it may still be tentative) no switch would believe it. */
	if (ipv6_dev_get_saddr(dev_net(dev), dev, &all_snoopers, 0, &source) ||
	    !(ipv6_addr_type(&source) & IPV6_ADDR_LINKLOCAL))
		return false;
	skb = packet_new(dev, sizeof(*packet), htons(ETH_P_IPV6));
	if (!skb)
		return false;
	packet = (struct advertisement_v6 *)skb->data;
	ip6_flow_hdr(&packet->ip, PRECEDENCE_INTERNETWORK_CONTROL, 0);
	packet->ip.payload_len = htons(sizeof(*packet) - sizeof(packet->ip));
	packet->ip.nexthdr = IPPROTO_HOPOPTS;
	packet->ip.hop_limit = 1;
	packet->ip.saddr = source;
	packet->ip.daddr = all_snoopers;
	memcpy(packet->hop_by_hop, hop_by_hop, sizeof(hop_by_hop));
	packet->body.type = ICMPV6_ADVERTISEMENT;
	packet->body.interval_s = seconds;
	packet->body.checksum = csum_ipv6_magic(&source, &all_snoopers, sizeof(packet->body), IPPROTO_ICMPV6,
						csum_partial(&packet->body, sizeof(packet->body), 0));
	ipv6_eth_mc_map(&all_snoopers, mac);
	return packet_send(skb, mac);
}
#else
static bool advertise_v6(struct net_device *dev, u8 seconds)
{
	return false;
}
#endif

/* Stops when there is no setup or no interface; attaching starts it again. */
void biactive_advertise(struct work_struct *work)
{
	struct biactive_net *bn = container_of(to_delayed_work(work), struct biactive_net, advertise);
	const struct biactive_setup *setup;
	struct net_device *dev;
	unsigned int seconds = interval_s(), next_s = seconds ?: FIRST_INTERVAL_S;

	rcu_read_lock();
	setup = rcu_dereference(bn->setup);
	dev = setup ? rcu_dereference(setup->dev) : NULL;
	if (dev && seconds && netif_running(dev) && netif_carrier_ok(dev)) {
		if (setup->v4_count && advertise_v4(dev, seconds))
			biactive_count(bn, BIACTIVE_ADVERTISED);
		if (setup->v6_count && advertise_v6(dev, seconds))
			biactive_count(bn, BIACTIVE_ADVERTISED);
		if (++bn->advertised < FIRST_ADVERTISEMENTS)
			next_s = FIRST_INTERVAL_S;
	}
	rcu_read_unlock();
	if (dev)
		schedule_delayed_work(&bn->advertise, next_s * HZ);
}
