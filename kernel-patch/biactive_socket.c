// SPDX-License-Identifier: GPL-2.0-or-later
/* biactive_socket.c - tells whether this node has a socket for a connection, or has sent a SYN cookie for it. */
#include <linux/tcp.h>
#include <linux/version.h>
#include <net/inet6_hashtables.h>
#include <net/inet_connection_sock.h>
#include <net/inet_hashtables.h>
#include <net/request_sock.h>
#include <net/tcp.h>

#include "biactive_internal.h"

/* Kernels without DCCP have only one table of sockets. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 18, 0)
#define TABLE_OF(net)
#else
#define TABLE_OF(net) (net)->ipv4.tcp_death_row.hashinfo,
#endif

static struct sock *find_established(const struct biactive_tuple *tuple)
{
	struct net *net = tuple->net;

	if (!tuple->v6)
		return __inet_lookup_established(net, TABLE_OF(net) tuple->client.words[3], tuple->client_port,
						 tuple->service.words[3], ntohs(tuple->service_port), tuple->ifindex,
						 0);
#if IS_ENABLED(CONFIG_IPV6)
	return __inet6_lookup_established(net, TABLE_OF(net) & tuple->client.v6, tuple->client_port, &tuple->service.v6,
					  ntohs(tuple->service_port), tuple->ifindex, 0);
#else
	return NULL;
#endif
}

enum biactive_socket biactive_socket_find(const struct biactive_tuple *tuple, struct biactive_isn *isn)
{
	struct sock *sk = find_established(tuple);
	enum biactive_socket found = BIACTIVE_SOCKET_FULL;

	if (!sk)
		return BIACTIVE_SOCKET_NONE;
	if (sk->sk_state == TCP_NEW_SYN_RECV) {
		const struct tcp_request_sock *request = tcp_rsk(inet_reqsk(sk));

		isn->client = request->rcv_isn;
		isn->service = request->snt_isn;
		found = BIACTIVE_SOCKET_HALF_OPEN;
	}
	sock_gen_put(sk);
	return found;
}

#ifdef CONFIG_SYN_COOKIES
/* The packet itself is not passed: a program that chooses among listeners by its bytes would have to pull them. */
static struct sock *find_listener(const struct biactive_tuple *tuple)
{
	struct net *net = tuple->net;

	if (!tuple->v6)
		return __inet_lookup_listener(net, TABLE_OF(net) NULL, 0, tuple->client.words[3], tuple->client_port,
					      tuple->service.words[3], ntohs(tuple->service_port), tuple->ifindex, 0);
#if IS_ENABLED(CONFIG_IPV6)
	return inet6_lookup_listener(net, TABLE_OF(net) NULL, 0, &tuple->client.v6, tuple->client_port,
				     &tuple->service.v6, ntohs(tuple->service_port), tuple->ifindex, 0);
#else
	return NULL;
#endif
}

static bool cookie_matches(const struct biactive_tuple *tuple, const struct tcphdr *tcp)
{
	struct iphdr v4 = { .saddr = tuple->client.words[3], .daddr = tuple->service.words[3] };
	struct ipv6hdr v6;

	if (!tuple->v6)
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)
		return __cookie_v4_check(&v4, tcp) != 0;
#else
		return __cookie_v4_check(&v4, tcp, ntohl(tcp->ack_seq) - 1) != 0;
#endif
#if IS_ENABLED(CONFIG_IPV6)
	v6.saddr = tuple->client.v6;
	v6.daddr = tuple->service.v6;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)
	return __cookie_v6_check(&v6, tcp) != 0;
#else
	return __cookie_v6_check(&v6, tcp, ntohl(tcp->ack_seq) - 1) != 0;
#endif
#else
	return false;
#endif
}

bool biactive_cookie_valid(const struct biactive_net *bn, const struct biactive_tuple *tuple, const struct tcphdr *tcp)
{
	struct sock *listener;

	if (!time_before(jiffies, READ_ONCE(bn->cookies_until)))
		return false;
	if (!tcp->ack || tcp->rst || tcp->syn || !READ_ONCE(tuple->net->ipv4.sysctl_tcp_syncookies))
		return false;
	listener = find_listener(tuple);
	return listener && listener->sk_state == TCP_LISTEN && !tcp_synq_no_recent_overflow(listener) &&
	       cookie_matches(tuple, tcp);
}

/*
 * Called for accepted SYNs only, so that the many packets of other nodes' connections cost no search for a listener
 * while no cookie is out.
 */
void biactive_cookie_expect(struct biactive_net *bn, const struct biactive_tuple *tuple)
{
	u8 cookies = READ_ONCE(tuple->net->ipv4.sysctl_tcp_syncookies);
	struct sock *listener;

	if (!cookies)
		return;
	listener = find_listener(tuple);
	if (!listener || listener->sk_state != TCP_LISTEN)
		return;
	if (cookies == 2 || inet_csk_reqsk_queue_is_full(listener) || !tcp_synq_no_recent_overflow(listener))
		WRITE_ONCE(bn->cookies_until, jiffies + TCP_SYNCOOKIE_VALID + HZ);
}
#else
bool biactive_cookie_valid(const struct biactive_net *bn, const struct biactive_tuple *tuple, const struct tcphdr *tcp)
{
	return false;
}

void biactive_cookie_expect(struct biactive_net *bn, const struct biactive_tuple *tuple)
{
}
#endif
