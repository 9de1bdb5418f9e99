/* SPDX-License-Identifier: GPL-2.0-or-later */
/* socket.h - the node's own socket for a packet's connection. */
#ifndef DPRD_BPF_SOCKET_H
#define DPRD_BPF_SOCKET_H

#include "dprd/bpf/maps.h"

/* The socket of the connection, or else the listener, or NULL. The caller calls bpf_sk_release(). */
INLINE struct bpf_sock *socket_find(struct __sk_buff *skb, const struct flow_key *key, bool v6)
{
	struct bpf_sock_tuple tuple = { 0 };
	uint32_t size;

	if (v6) {
		__builtin_memcpy(tuple.ipv6.saddr, &key->client, 16);
		__builtin_memcpy(tuple.ipv6.daddr, &key->service, 16);
		tuple.ipv6.sport = key->client_port;
		tuple.ipv6.dport = key->service_port;
		size = sizeof(tuple.ipv6);
	} else {
		tuple.ipv4.saddr = key->client.words[3];
		tuple.ipv4.daddr = key->service.words[3];
		tuple.ipv4.sport = key->client_port;
		tuple.ipv4.dport = key->service_port;
		size = sizeof(tuple.ipv4);
	}
	return bpf_skc_lookup_tcp(skb, &tuple, size, BPF_F_CURRENT_NETNS, 0);
}

/* The state of that socket. -1: there is none. */
INLINE int socket_state(struct __sk_buff *skb, const struct flow_key *key, bool v6)
{
	struct bpf_sock *sk = socket_find(skb, key, v6);
	int state;

	if (!sk)
		return -1;
	state = (int)sk->state;
	bpf_sk_release(sk);
	return state;
}

#endif
