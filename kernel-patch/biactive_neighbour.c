// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * biactive_neighbour.c - tells neighbours the shared hardware address for a shared address: in ARP as the sender's
 * hardware address, in neighbour discovery in the option. The Ethernet source stays the device's own, otherwise
 * switches would move the shared hardware address from port to port.
 *
 * Solicitations are rewritten like answers: a neighbour that is asked from a shared address learns the sender's
 * hardware address from the question.
 */
#include <linux/if_arp.h>
#include <linux/ipv6.h>
#include <linux/skbuff.h>
#include <net/checksum.h>
#include <net/ndisc.h>

#include "biactive_internal.h"

enum {
	ND_OPTIONS_MAX = 8,
};

/* The variable part of an ARP packet for IPv4 on Ethernet. */
struct arp_body {
	u8 sender_mac[ETH_ALEN];
	__be32 sender_ip;
	u8 target_mac[ETH_ALEN];
	__be32 target_ip;
} __packed;

unsigned int biactive_arp_out(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	const struct biactive_setup *setup = priv;
	const struct biactive_shared *shared;
	int end = skb_network_offset(skb) + sizeof(struct arphdr) + sizeof(struct arp_body);
	const struct arphdr *arp;
	struct arp_body *body;

	if (state->out != rcu_access_pointer(setup->dev) || !pskb_may_pull(skb, end))
		return NF_ACCEPT;
	arp = arp_hdr(skb);
	if (arp->ar_hrd != htons(ARPHRD_ETHER) || arp->ar_pro != htons(ETH_P_IP) || arp->ar_hln != ETH_ALEN ||
	    arp->ar_pln != 4)
		return NF_ACCEPT;
	body = (struct arp_body *)(arp + 1);
	shared = biactive_find_v4(setup, body->sender_ip);
	if (!shared)
		return NF_ACCEPT;
	if (skb_ensure_writable(skb, end))
		return NF_DROP;
	body = (struct arp_body *)(arp_hdr(skb) + 1);
	ether_addr_copy(body->sender_mac, shared->mac);
	biactive_count(setup->bn, BIACTIVE_ARP_REWRITTEN);
	return NF_ACCEPT;
}

#if IS_ENABLED(CONFIG_IPV6)
/* The packet is writable up to the option's end. */
static void replace_mac(struct icmp6hdr *icmp, u8 *mac, const u8 *replacement)
{
	__be16 old_words[ETH_ALEN / 2], new_words[ETH_ALEN / 2];
	unsigned int i;

	memcpy(old_words, mac, ETH_ALEN);
	memcpy(new_words, replacement, ETH_ALEN);
	for (i = 0; i < ETH_ALEN / 2; i++)
		csum_replace2(&icmp->icmp6_cksum, old_words[i], new_words[i]);
	memcpy(mac, replacement, ETH_ALEN);
}

/* Returns the offset of the hardware address in the first option of this type; -ENOENT when there is none. */
static int find_option(const struct sk_buff *skb, int offset, u8 wanted)
{
	struct nd_opt_hdr buffer;
	const struct nd_opt_hdr *option;
	unsigned int i;

	for (i = 0; i < ND_OPTIONS_MAX; i++) {
		option = skb_header_pointer(skb, offset, sizeof(buffer), &buffer);
		if (!option || !option->nd_opt_len)
			break;
		if (option->nd_opt_type == wanted && option->nd_opt_len == 1)
			return offset + sizeof(*option);
		offset += option->nd_opt_len * 8;
	}
	return -ENOENT;
}

unsigned int biactive_nd_out(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	const struct biactive_setup *setup = priv;
	const struct ipv6hdr *ip = ipv6_hdr(skb);
	int start = skb_network_offset(skb) + sizeof(*ip), at;
	const struct biactive_shared *shared;
	const struct nd_msg *message;
	struct nd_msg buffer;
	bool solicits;

	if (state->out != rcu_access_pointer(setup->dev) || ip->nexthdr != IPPROTO_ICMPV6)
		return NF_ACCEPT;
	message = skb_header_pointer(skb, start, sizeof(buffer), &buffer);
	if (!message)
		return NF_ACCEPT;
	solicits = message->icmph.icmp6_type == NDISC_NEIGHBOUR_SOLICITATION;
	if (!solicits && message->icmph.icmp6_type != NDISC_NEIGHBOUR_ADVERTISEMENT)
		return NF_ACCEPT;
	shared = biactive_find_v6(setup, solicits ? &ip->saddr : &message->target);
	at = shared ? find_option(skb, start + sizeof(*message),
				  solicits ? ND_OPT_SOURCE_LL_ADDR : ND_OPT_TARGET_LL_ADDR)
		    : -ENOENT;
	if (at < 0)
		return NF_ACCEPT;
	if (at + ETH_ALEN > skb->len || skb_ensure_writable(skb, at + ETH_ALEN))
		return NF_DROP;
	replace_mac((struct icmp6hdr *)(skb->data + start), skb->data + at, shared->mac);
	biactive_count(setup->bn, BIACTIVE_ND_REWRITTEN);
	return NF_ACCEPT;
}
#endif
