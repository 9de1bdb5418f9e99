// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * biactive_accept.c - decides whether a frame to a shared address is this node's ("mine"). In this order:
 *
 *   TCP, no first SYN   a local socket, a valid SYN cookie, or translated by this node: mine, with or without a lease
 *   first SYN           lease and bucket; copies stay with the node that got the first one (bucket.h)
 *   ICMP error          as the packet that it is about
 *   neighbour discovery not judged
 *   anything else       lease and bucket
 *
 * A frame that is mine becomes a packet "for this host" although its hardware address is a multicast one, because TCP
 * takes no other packets. Other frames are dropped silently. Frames to this node's own hardware address are not judged:
 * a fellow handed them over.
 */
#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/ktime.h>
#include <linux/tcp.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/ndisc.h>

#include "biactive_internal.h"

static u64 tuple_hash(const struct biactive_setup *setup, const struct biactive_tuple *tuple)
{
	return bucket_hash(setup->key, tuple->client.pairs, tuple->service.pairs, (__force u16)tuple->client_port,
			   (__force u16)tuple->service_port);
}

static void set_v4(union biactive_ip *ip, __be32 v4)
{
	ip->words[0] = ip->words[1] = 0;
	ip->words[2] = htonl(0xffff);
	ip->words[3] = v4;
}

static u32 owner_of(const struct biactive_lease *lease, u32 bucket)
{
	u8 place = lease->owner[bucket];

	return place < BUCKET_MEMBERS_MAX ? lease->share.member[place].id : 0;
}

static bool is_mine(const struct biactive_lease *lease, u32 bucket)
{
	return owner_of(lease, bucket) == lease->share.self_id;
}

/* True when the first copy of this SYN is becoming a connection, here or at a server behind this node. */
static bool has_request(const struct biactive_setup *setup, const struct biactive_tuple *tuple,
			const struct tcphdr *tcp)
{
	struct biactive_isn isn;

	if (biactive_socket_find(tuple, &isn) == BIACTIVE_SOCKET_HALF_OPEN)
		return isn.client == ntohl(tcp->seq);
	return setup->nat && biactive_nat_has_request(tuple, tcp);
}

static enum biactive_counter judge_syn(const struct biactive_setup *setup, const struct biactive_tuple *tuple,
				       const struct tcphdr *tcp)
{
	struct biactive_net *bn = setup->bn;
	const struct biactive_lease *lease = rcu_dereference(bn->lease);
	struct bucket_syn syn;
	enum bucket_verdict verdict;
	u64 hash, copy_hash, *word;
	u32 owner, former_owner = 0;

	syn.now_ns = ktime_get_ns();
	if (!lease)
		return BIACTIVE_REFUSE_NO_LEASE;
	hash = tuple_hash(setup, tuple);
	copy_hash = bucket_copy_hash(hash, (__force u32)tcp->seq);
	word = &bn->refused[copy_hash % BIACTIVE_REFUSED_WORDS];
	syn.until_ns = READ_ONCE(lease->until_ns);
	syn.changed_ns = lease->changed_ns;
	syn.bucket = bucket_of(hash);
	owner = owner_of(lease, syn.bucket);
	/*
	 * Soon after a change of shares, copies stay with the node that got the first one. The array remembers refused
	 * SYNs.
	 */
	if (syn.now_ns < syn.changed_ns + BUCKET_COPY_PATIENCE_NS) {
		bucket_copy_recall(READ_ONCE(*word), copy_hash, &syn);
		syn.has_request = has_request(setup, tuple, tcp);
		former_owner = bucket_owner(&lease->former, syn.bucket);
		verdict = bucket_judge_owned(&lease->share, owner, former_owner, &syn);
	} else if (owner == lease->share.self_id) {
		verdict = syn.now_ns < syn.until_ns ? BUCKET_ACCEPT : BUCKET_REFUSE_NO_LEASE;
	} else {
		verdict = BUCKET_REFUSE_FOREIGN;
	}
	switch (verdict) {
	case BUCKET_ACCEPT:
		biactive_cookie_expect(bn, tuple);
		return BIACTIVE_ACCEPT_SYN;
	case BUCKET_ACCEPT_COPY:
		return BIACTIVE_ACCEPT_COPY;
	case BUCKET_REFUSE_COPY:
		WRITE_ONCE(*word, bucket_copy_waits(READ_ONCE(*word), copy_hash, &syn, former_owner == owner));
		return BIACTIVE_REFUSE_COPY;
	case BUCKET_REFUSE_NO_LEASE:
		return BIACTIVE_REFUSE_NO_LEASE;
	default:
		WRITE_ONCE(*word, bucket_copy_word(copy_hash, bucket_tag(owner), syn.now_ns));
		return BIACTIVE_REFUSE_SYN;
	}
}

/*
 * True when this node would have answered the SYN. Kernels have their own cookie secrets, so a valid cookie proves it.
 * Network namespaces of one kernel (nodes in a laboratory) share the secrets, so the bucket is checked, too. No lease
 * is needed.
 */
static bool was_mine(const struct biactive_setup *setup, const struct biactive_tuple *tuple)
{
	const struct biactive_lease *lease = rcu_dereference(setup->bn->lease);
	u32 bucket;

	if (!lease)
		return false;
	bucket = bucket_of(tuple_hash(setup, tuple));
	return is_mine(lease, bucket) || (ktime_get_ns() < lease->changed_ns + BUCKET_COPY_PATIENCE_NS &&
					  bucket_owner(&lease->former, bucket) == lease->share.self_id);
}

static enum biactive_counter judge_tcp(const struct biactive_setup *setup, struct biactive_tuple *tuple,
				       const struct sk_buff *skb, int offset)
{
	const struct tcphdr *tcp;
	struct tcphdr buffer;
	struct biactive_isn isn;

	tcp = skb_header_pointer(skb, offset, sizeof(buffer), &buffer);
	if (!tcp)
		return BIACTIVE_REFUSE_MALFORMED;
	tuple->client_port = tcp->source;
	tuple->service_port = tcp->dest;
	if (tcp->syn && !tcp->ack)
		return judge_syn(setup, tuple, tcp);
	switch (biactive_socket_find(tuple, &isn)) {
	case BIACTIVE_SOCKET_FULL:
		return BIACTIVE_ACCEPT_SOCKET;
	case BIACTIVE_SOCKET_HALF_OPEN:
		/* The kernel answers a wrong ACK with a reset, and the right socket may be on another node. */
		if (tcp->ack && ntohl(tcp->ack_seq) != isn.service + 1)
			return BIACTIVE_REFUSE_HALF_OPEN;
		return BIACTIVE_ACCEPT_SOCKET;
	default:
		if (biactive_cookie_valid(setup->bn, tuple, tcp) && was_mine(setup, tuple))
			return BIACTIVE_ACCEPT_COOKIE;
		if (setup->nat && biactive_nat_takes(tuple, tcp))
			return BIACTIVE_ACCEPT_FORWARD;
		return BIACTIVE_REFUSE_SOCKET;
	}
}

/* Judges by lease and bucket. */
static enum biactive_counter judge_bucket(const struct biactive_setup *setup, const struct biactive_tuple *tuple)
{
	const struct biactive_lease *lease = rcu_dereference(setup->bn->lease);

	if (!lease || ktime_get_ns() >= READ_ONCE(lease->until_ns))
		return BIACTIVE_REFUSE_NO_LEASE;
	return is_mine(lease, bucket_of(tuple_hash(setup, tuple))) ? BIACTIVE_ACCEPT_OTHER : BIACTIVE_REFUSE_OTHER;
}

static enum biactive_counter judge_udp(const struct biactive_setup *setup, struct biactive_tuple *tuple,
				       const struct sk_buff *skb, int offset)
{
	const __be16 *ports;
	__be16 buffer[2];

	ports = skb_header_pointer(skb, offset, sizeof(buffer), buffer);
	if (!ports)
		return BIACTIVE_REFUSE_MALFORMED;
	tuple->client_port = ports[0];
	tuple->service_port = ports[1];
	return judge_bucket(setup, tuple);
}

/* A node sent the packet at offset from the shared address; tuple has its addresses. */
static enum biactive_counter judge_error(const struct biactive_setup *setup, struct biactive_tuple *tuple,
					 const struct sk_buff *skb, int offset, u8 protocol)
{
	const __be16 *ports;
	__be16 buffer[2];
	struct biactive_isn isn;

	if (protocol == IPPROTO_TCP || protocol == IPPROTO_UDP) {
		ports = skb_header_pointer(skb, offset, sizeof(buffer), buffer);
		if (!ports)
			return BIACTIVE_REFUSE_MALFORMED;
		tuple->service_port = ports[0];
		tuple->client_port = ports[1];
	}
	if (protocol == IPPROTO_TCP) {
		if (biactive_socket_find(tuple, &isn) != BIACTIVE_SOCKET_NONE ||
		    (setup->nat && biactive_nat_knows(tuple)))
			return BIACTIVE_ACCEPT_ERROR;
		return BIACTIVE_REFUSE_ERROR;
	}
	switch (judge_bucket(setup, tuple)) {
	case BIACTIVE_ACCEPT_OTHER:
		return BIACTIVE_ACCEPT_ERROR;
	case BIACTIVE_REFUSE_OTHER:
		return BIACTIVE_REFUSE_ERROR;
	default:
		return BIACTIVE_REFUSE_NO_LEASE;
	}
}

static enum biactive_counter judge_icmp_v4(const struct biactive_setup *setup, struct biactive_tuple *tuple,
					   const struct sk_buff *skb, int offset)
{
	const struct icmphdr *icmp;
	const struct iphdr *inner;
	struct icmphdr icmp_buffer;
	struct iphdr inner_buffer;

	icmp = skb_header_pointer(skb, offset, sizeof(icmp_buffer), &icmp_buffer);
	if (!icmp)
		return BIACTIVE_REFUSE_MALFORMED;
	if (icmp->type != ICMP_DEST_UNREACH && icmp->type != ICMP_SOURCE_QUENCH && icmp->type != ICMP_REDIRECT &&
	    icmp->type != ICMP_TIME_EXCEEDED && icmp->type != ICMP_PARAMETERPROB)
		return judge_bucket(setup, tuple);
	offset += sizeof(*icmp);
	inner = skb_header_pointer(skb, offset, sizeof(inner_buffer), &inner_buffer);
	if (!inner || inner->version != 4 || inner->ihl < 5)
		return BIACTIVE_REFUSE_MALFORMED;
	if (inner->saddr != tuple->service.words[3] || (inner->frag_off & htons(IP_OFFSET)))
		return BIACTIVE_REFUSE_ERROR;
	set_v4(&tuple->client, inner->daddr);
	return judge_error(setup, tuple, skb, offset + inner->ihl * 4, inner->protocol);
}

static enum biactive_counter judge_icmp_v6(const struct biactive_setup *setup, struct biactive_tuple *tuple,
					   const struct sk_buff *skb, int offset)
{
	const struct icmp6hdr *icmp;
	const struct ipv6hdr *inner;
	struct icmp6hdr icmp_buffer;
	struct ipv6hdr inner_buffer;
	__be16 fragment = 0;
	u8 protocol;

	icmp = skb_header_pointer(skb, offset, sizeof(icmp_buffer), &icmp_buffer);
	if (!icmp)
		return BIACTIVE_REFUSE_MALFORMED;
	if (icmp->icmp6_type >= NDISC_ROUTER_SOLICITATION && icmp->icmp6_type <= NDISC_REDIRECT)
		return BIACTIVE_PASS_NEIGHBOUR;
	if (icmp->icmp6_type & ICMPV6_INFOMSG_MASK)
		return judge_bucket(setup, tuple);
	offset += sizeof(*icmp);
	inner = skb_header_pointer(skb, offset, sizeof(inner_buffer), &inner_buffer);
	if (!inner || inner->version != 6)
		return BIACTIVE_REFUSE_MALFORMED;
	if (!ipv6_addr_equal(&inner->saddr, &tuple->service.v6))
		return BIACTIVE_REFUSE_ERROR;
	tuple->client.v6 = inner->daddr;
	protocol = inner->nexthdr;
	offset = ipv6_skip_exthdr(skb, offset + sizeof(*inner), &protocol, &fragment);
	if (offset < 0)
		return BIACTIVE_REFUSE_MALFORMED;
	if (fragment & htons(IP6_OFFSET))
		return BIACTIVE_REFUSE_ERROR;
	return judge_error(setup, tuple, skb, offset, protocol);
}

/* Counts the verdict and acts on it. */
static unsigned int carry_out(const struct biactive_setup *setup, struct sk_buff *skb, enum biactive_counter verdict)
{
	biactive_count(setup->bn, verdict);
	if (!biactive_is_taken(verdict))
		return NF_DROP;
	if (verdict != BIACTIVE_PASS_NEIGHBOUR)
		skb->pkt_type = PACKET_HOST;
	return NF_ACCEPT;
}

static enum biactive_counter judge_v4(const struct biactive_setup *setup, struct biactive_tuple *tuple,
				      const struct sk_buff *skb, const struct iphdr *ip)
{
	int offset = skb_network_offset(skb) + ip->ihl * 4;

	if (ip->version != 4 || ip->ihl < 5)
		return BIACTIVE_REFUSE_MALFORMED;
	if (ip_is_fragment(ip))
		return BIACTIVE_REFUSE_FRAGMENT;
	set_v4(&tuple->client, ip->saddr);
	switch (ip->protocol) {
	case IPPROTO_TCP:
		return judge_tcp(setup, tuple, skb, offset);
	case IPPROTO_UDP:
		return judge_udp(setup, tuple, skb, offset);
	case IPPROTO_ICMP:
		return judge_icmp_v4(setup, tuple, skb, offset);
	default:
		return judge_bucket(setup, tuple);
	}
}

static enum biactive_counter judge_v6(const struct biactive_setup *setup, struct biactive_tuple *tuple,
				      const struct sk_buff *skb, const struct ipv6hdr *ip)
{
	int offset = skb_network_offset(skb) + sizeof(*ip);
	u8 protocol = ip->nexthdr;
	__be16 fragment = 0;

	if (ip->version != 6)
		return BIACTIVE_REFUSE_MALFORMED;
	if (protocol != IPPROTO_TCP) {
		offset = ipv6_skip_exthdr(skb, offset, &protocol, &fragment);
		if (offset < 0)
			return BIACTIVE_REFUSE_MALFORMED;
		if (fragment)
			return BIACTIVE_REFUSE_FRAGMENT;
	}
	tuple->client.v6 = ip->saddr;
	switch (protocol) {
	case IPPROTO_TCP:
		return judge_tcp(setup, tuple, skb, offset);
	case IPPROTO_UDP:
		return judge_udp(setup, tuple, skb, offset);
	case IPPROTO_ICMPV6:
		return judge_icmp_v6(setup, tuple, skb, offset);
	default:
		return judge_bucket(setup, tuple);
	}
}

/* False for frames of another VLAN and for frames to the node's own hardware address: they are not judged. */
static bool is_judged(const struct sk_buff *skb)
{
	return (skb->pkt_type == PACKET_MULTICAST || skb->pkt_type == PACKET_BROADCAST) &&
	       !(skb_vlan_tag_present(skb) && skb_vlan_tag_get_id(skb));
}

static unsigned int take_v4(const struct biactive_setup *setup, struct sk_buff *skb, const struct nf_hook_state *state)
{
	const struct biactive_shared *shared;
	const struct iphdr *ip;
	struct iphdr buffer;
	struct biactive_tuple tuple;

	ip = skb_header_pointer(skb, skb_network_offset(skb), sizeof(buffer), &buffer);
	shared = ip ? biactive_find_v4(setup, ip->daddr) : NULL;
	if (!shared)
		return NF_ACCEPT;
	if (setup->hook == BIACTIVE_HOOK_LATE && (skb->mark & BIACTIVE_MARK_FORWARD))
		return carry_out(setup, skb, BIACTIVE_ACCEPT_FORWARD);
	tuple.net = state->net;
	tuple.ifindex = state->in->ifindex;
	tuple.v6 = false;
	tuple.service = shared->ip;
	tuple.client_port = tuple.service_port = 0;
	return carry_out(setup, skb, judge_v4(setup, &tuple, skb, ip));
}

static unsigned int take_v6(const struct biactive_setup *setup, struct sk_buff *skb, const struct nf_hook_state *state)
{
	const struct biactive_shared *shared;
	const struct ipv6hdr *ip;
	struct ipv6hdr buffer;
	struct biactive_tuple tuple;

	ip = skb_header_pointer(skb, skb_network_offset(skb), sizeof(buffer), &buffer);
	shared = ip ? biactive_find_v6(setup, &ip->daddr) : NULL;
	if (!shared)
		return NF_ACCEPT;
	if (setup->hook == BIACTIVE_HOOK_LATE && (skb->mark & BIACTIVE_MARK_FORWARD))
		return carry_out(setup, skb, BIACTIVE_ACCEPT_FORWARD);
	tuple.net = state->net;
	tuple.ifindex = state->in->ifindex;
	tuple.v6 = true;
	tuple.service = shared->ip;
	tuple.client_port = tuple.service_port = 0;
	return carry_out(setup, skb, judge_v6(setup, &tuple, skb, ip));
}

unsigned int biactive_early(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	if (!is_judged(skb))
		return NF_ACCEPT;
	if (skb->protocol == htons(ETH_P_IP))
		return take_v4(priv, skb, state);
	if (skb->protocol == htons(ETH_P_IPV6))
		return take_v6(priv, skb, state);
	return NF_ACCEPT;
}

unsigned int biactive_late_v4(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	const struct biactive_setup *setup = priv;

	return is_judged(skb) && state->in == rcu_access_pointer(setup->dev) ? take_v4(setup, skb, state) : NF_ACCEPT;
}

unsigned int biactive_late_v6(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	const struct biactive_setup *setup = priv;

	return is_judged(skb) && state->in == rcu_access_pointer(setup->dev) ? take_v6(setup, skb, state) : NF_ACCEPT;
}
