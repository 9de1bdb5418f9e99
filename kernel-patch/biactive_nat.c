// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * biactive_nat.c - tells whether this node's NAT forwards a connection to another server. Such a connection has no
 * socket here. Only connection tracking knows it: an entry whose destination is translated, in the direction from the
 * client.
 *
 * An entry may outlive its connection by days, and a client may use its ports again for a connection that is now
 * another node's. So only segments that fit the sequence numbers seen are this node's. Connection tracking itself
 * demands that, and does not translate segments that it takes for invalid: these would go to this node's own TCP, which
 * answers with a reset.
 */
#include "biactive_internal.h"

#if IS_REACHABLE(CONFIG_NF_CONNTRACK)
#include <linux/tcp.h>
#include <net/netfilter/nf_conntrack.h>
#include <net/netfilter/nf_conntrack_core.h>
#include <net/netfilter/nf_conntrack_zones.h>
#include <net/tcp.h>

enum {
	/* Acknowledgements may be late by this much, whatever the window (nf_conntrack_proto_tcp.c). */
	LATE_ACK_BYTES_MIN = 66000,
};

/* The caller releases the entry with nf_ct_put(). NULL: there is none. */
static struct nf_conn *find_translated(const struct biactive_tuple *tuple)
{
	struct nf_conntrack_tuple wanted;
	struct nf_conntrack_tuple_hash *found;
	struct nf_conn *entry;

	memset(&wanted, 0, sizeof(wanted));
	wanted.src.l3num = tuple->v6 ? NFPROTO_IPV6 : NFPROTO_IPV4;
	if (tuple->v6) {
		wanted.src.u3.in6 = tuple->client.v6;
		wanted.dst.u3.in6 = tuple->service.v6;
	} else {
		wanted.src.u3.ip = tuple->client.words[3];
		wanted.dst.u3.ip = tuple->service.words[3];
	}
	wanted.src.u.tcp.port = tuple->client_port;
	wanted.dst.u.tcp.port = tuple->service_port;
	wanted.dst.protonum = IPPROTO_TCP;
	found = nf_conntrack_find_get(tuple->net, &nf_ct_zone_dflt, &wanted);
	if (!found)
		return NULL;
	entry = nf_ct_tuplehash_to_ctrack(found);
	if (NF_CT_DIRECTION(found) == IP_CT_DIR_ORIGINAL && test_bit(IPS_DST_NAT_BIT, &entry->status))
		return entry;
	nf_ct_put(entry);
	return NULL;
}

/* The fields are read without the entry's lock: another processor may be one packet ahead, in the same window. */
static bool segment_fits(const struct ip_ct_tcp *tracked, const struct tcphdr *tcp)
{
	const struct ip_ct_tcp_state *client = &tracked->seen[IP_CT_DIR_ORIGINAL];
	const struct ip_ct_tcp_state *server = &tracked->seen[IP_CT_DIR_REPLY];
	u32 client_window = READ_ONCE(client->td_maxwin), client_end = READ_ONCE(client->td_end);
	u32 server_window = READ_ONCE(server->td_maxwin), server_end = READ_ONCE(server->td_end);
	u32 seq = ntohl(tcp->seq), ack = ntohl(tcp->ack_seq);

	if (tcp->syn || !(tcp->ack || tcp->rst))
		return false;
	/*
	 * Connection tracking did not follow the connection, because a flow table had it or no rule asked for tracking.
	 * Then it accepts any segment.
	 */
	if (!client_window || (READ_ONCE(client->flags) & IP_CT_TCP_FLAG_BE_LIBERAL))
		return true;
	/* The server has not answered yet. */
	if (!server_window)
		return !tcp->ack && seq == client_end;
	if (after(seq, READ_ONCE(client->td_maxend)) || before(seq, client_end - server_window))
		return false;
	/* Some stacks set ACK in a reset that acknowledges nothing. */
	if (!tcp->ack || (tcp->rst && !ack))
		return true;
	return !after(ack, server_end) && !before(ack, server_end - max_t(u32, client_window, LATE_ACK_BYTES_MIN));
}

bool biactive_nat_takes(const struct biactive_tuple *tuple, const struct tcphdr *tcp)
{
	struct nf_conn *entry = find_translated(tuple);
	bool fits;

	if (!entry)
		return false;
	fits = segment_fits(&entry->proto.tcp, tcp);
	nf_ct_put(entry);
	return fits;
}

bool biactive_nat_has_request(const struct biactive_tuple *tuple, const struct tcphdr *tcp)
{
	struct nf_conn *entry = find_translated(tuple);
	bool same;
	u8 state;

	if (!entry)
		return false;
	state = READ_ONCE(entry->proto.tcp.state);
	same = (state == TCP_CONNTRACK_SYN_SENT || state == TCP_CONNTRACK_SYN_RECV) &&
	       READ_ONCE(entry->proto.tcp.seen[IP_CT_DIR_ORIGINAL].td_end) == ntohl(tcp->seq) + 1;
	nf_ct_put(entry);
	return same;
}

bool biactive_nat_knows(const struct biactive_tuple *tuple)
{
	struct nf_conn *entry = find_translated(tuple);

	if (entry)
		nf_ct_put(entry);
	return entry != NULL;
}
#else
bool biactive_nat_takes(const struct biactive_tuple *tuple, const struct tcphdr *tcp)
{
	return false;
}

bool biactive_nat_has_request(const struct biactive_tuple *tuple, const struct tcphdr *tcp)
{
	return false;
}

bool biactive_nat_knows(const struct biactive_tuple *tuple)
{
	return false;
}
#endif
