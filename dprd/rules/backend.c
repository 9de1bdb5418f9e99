// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * rules/backend.c - the chains that send connections to real servers by NAT, on both planes.
 *
 *   prerouting -100  backend: a SYN goes where dprd's mark says (BACKEND_MARK_*). A SYN without a mark, because dprd
 *                    is away or the SYN was tunnelled here, goes to one of the servers or to this node, by weight
 *   prerouting  -90  backend_end: removes these marks, and drops packets that need a translation and have none
 *   postrouting 150  backend_leaving, nfqueue plane: treats answers of servers as chain output treats this node's own
 *
 * All packets except SYNs find their way by connection tracking. So only a connection's SYN meets these rules, and dprd
 * may come and go.
 */
#define _GNU_SOURCE
#include "dprd/cluster/backend.h"
#include "dprd/cluster/state.h"
#include "dprd/host/flowset.h"
#include "dprd/rules/table.h"

/* The weights of the servers that may get new connections without a decision. */
struct shares {
	unsigned backend[OWN_BACKENDS_MAX];
	unsigned here;
};

static void list_servers(const struct config *config, struct rules_list *list)
{
	unsigned own, v6;

	for (own = 0; own < config->own_backend_count; own++) {
		for (v6 = 0; v6 < 2; v6++) {
			const struct addr *address = backend_address(config_own_backend(config, own), v6);

			if (address)
				rules_list_item(list, address, "");
		}
	}
}

static struct shares shares_now(struct dprd *d, bool v6)
{
	const struct config *config = &d->config;
	unsigned own, weight = config->member[config->self].weight;
	struct shares shares = { .here = 0 };

	mutex_lock(&d->lock);
	for (own = 0; own < config->own_backend_count; own++) {
		const struct backend *backend = config_own_backend(config, own);

		if (backend->form == BACKEND_NAT && backend_takes(d, own, v6))
			shares.backend[own] = backend->weight;
	}
	/* A member's weight limits the connections of its peers; among its own servers its weight is never 0. */
	if (backend_serves_here(d))
		shares.here = weight ? weight : 1;
	mutex_unlock(&d->lock);
	return shares;
}

static void write_translation(FILE *out, const struct backend *backend, bool v6)
{
	char text[ADDR_TEXT_BYTES];

	addr_format(backend_address(backend, v6), text);
	/* nft needs the protocol to which the port belongs. */
	if (!backend->port)
		fprintf(out, "dnat %s to %s\n", v6 ? "ip6" : "ip", text);
	else if (v6)
		fprintf(out, "meta l4proto tcp dnat ip6 to [%s]:%u\n", text, backend->port);
	else
		fprintf(out, "meta l4proto tcp dnat ip to %s:%u\n", text, backend->port);
}

static void write_choice(FILE *out, struct dprd *d, bool v6)
{
	const struct config *config = &d->config;
	struct shares shares = shares_now(d, v6);
	unsigned own, left = shares.here;
	char f = v6 ? '6' : '4';

	/* Marked SYNs come first. A copy of a SYN follows it even to a server that takes no more connections. */
	for (own = 0; own < config->own_backend_count; own++) {
		const struct backend *backend = config_own_backend(config, own);

		left += shares.backend[own];
		if (backend->form != BACKEND_NAT || !backend_address(backend, v6))
			continue;
		fprintf(out, "add rule inet dprd backend_choose%c meta mark & 0x%08x == 0x%08x ", f, BACKEND_MARK_MASK,
			(own + 1) << BACKEND_MARK_SHIFT);
		write_translation(out, backend, v6);
	}
	fprintf(out, "add rule inet dprd backend_choose%c meta mark & 0x%08x == 0x%08x accept\n", f, BACKEND_MARK_MASK,
		(unsigned)BACKEND_MARK_SELF << BACKEND_MARK_SHIFT);
	/* Each server draws against those that follow in the list; this node gets the rest. */
	for (own = 0; own < config->own_backend_count; own++) {
		if (!shares.backend[own])
			continue;
		fprintf(out, "add rule inet dprd backend_choose%c ", f);
		if (shares.backend[own] < left)
			fprintf(out, "numgen random mod %u < %u ", left, shares.backend[own]);
		write_translation(out, config_own_backend(config, own), v6);
		left -= shares.backend[own];
	}
}

/*
 * The programs recognise this node's packets to a shared address by flow or socket. A SYN that passed by dprd's queue
 * has no flow: with NAT its later packets would belong to no node.
 */
static void write_passed_by(FILE *out, struct dprd *d, bool v6)
{
	char f = v6 ? '6' : '4';

	rules_write_set(out, &d->config, "set", "backend_shared", v6, v6 ? "ipv6_addr" : "ipv4_addr",
			rules_list_shared);
	fprintf(out, "add rule inet dprd unmark meta mark & 0x%08x == 0x%08x %s daddr @backend_shared%c " RULES_SYN " ",
		BACKEND_MARK_MASK | MARK_DECIDE, MARK_DECIDE, v6 ? "ip6" : "ip", f);
	if (shares_now(d, v6).here)
		fprintf(out, "meta mark set meta mark | 0x%08x\n", (unsigned)BACKEND_MARK_MASK);
	else
		fprintf(out, "drop\n");
}

static void write_family(FILE *out, struct dprd *d, bool v6)
{
	const char *ip = v6 ? "ip6" : "ip", *address = v6 ? "ipv6_addr" : "ipv4_addr";
	char f = v6 ? '6' : '4', pair[64];

	snprintf(pair, sizeof(pair), "%s . inet_service", address);
	rules_write_set(out, &d->config, "set", "backend_service", v6, pair, rules_list_served);
	rules_write_set(out, &d->config, "set", "backend_server", v6, address, list_servers);
	fprintf(out, "add chain inet dprd backend_choose%c\nflush chain inet dprd backend_choose%c\n", f, f);
	/*
	 * When a server itself asks for the service, the answer would reach it without passing this node, and would not
	 * be translated back.
	 */
	if (config_has_nat(&d->config)) {
		fprintf(out, "add rule inet dprd backend %s saddr @backend_server%c accept\n", ip, f);
		fprintf(out,
			"add rule inet dprd backend %s daddr . tcp dport @backend_service%c " RULES_SYN
			" goto backend_choose%c\n",
			ip, f, f);
		write_choice(out, d, v6);
		if (d->fastpath)
			write_passed_by(out, d, v6);
		/*
		 * A packet that connection tracking does not assign to its connection is not translated: this node's
		 * stack would answer it with a reset.
		 */
		fprintf(out,
			"add rule inet dprd backend_end iifname != \"lo\" ct state invalid "
			"%s daddr . tcp dport @backend_service%c drop\n",
			ip, f);
	}
	/* The client's next SYN may find a server; a reset of this node's stack would end the attempt. */
	if (!d->config.serve_here)
		fprintf(out,
			"add rule inet dprd backend_end iifname != \"lo\" meta mark & 0x%08x == 0 "
			"%s saddr != @backend_server%c %s daddr . tcp dport @backend_service%c " RULES_SYN " drop\n",
			BACKEND_MARK_MASK, ip, f, ip, f);
}

static void write_chains(FILE *out, bool bpf_plane)
{
	fprintf(out, "add chain inet dprd unmark { type filter hook prerouting priority -295 ; }\n"
		     "add chain inet dprd backend { type nat hook prerouting priority -100 ; }\n"
		     "add chain inet dprd backend_end { type filter hook prerouting priority -90 ; }\n"
		     "flush chain inet dprd unmark\n"
		     "flush chain inet dprd backend\nflush chain inet dprd backend_end\n");
	if (!bpf_plane)
		fprintf(out,
			"add chain inet dprd " RULES_NAT_LEAVING " { type filter hook postrouting priority 150 ; }\n"
			"flush chain inet dprd " RULES_NAT_LEAVING "\n");
}

/* Only if the chain exists: removing a hook drops the packets that wait in the queues. */
static void write_removal(FILE *out, struct flowset *set, bool bpf_plane)
{
	unsigned v6;

	if (!flowset_chain_present(set, "backend_end"))
		return;
	/* All chains are added before they are deleted, so that deleting does not fail in a new table. */
	write_chains(out, bpf_plane);
	fprintf(out, "delete chain inet dprd unmark\ndelete chain inet dprd backend\n"
		     "delete chain inet dprd backend_end\n");
	if (!bpf_plane)
		fprintf(out, "delete chain inet dprd " RULES_NAT_LEAVING "\n");
	for (v6 = 0; v6 < 2; v6++) {
		const char *address = v6 ? "ipv6_addr" : "ipv4_addr";
		char f = v6 ? '6' : '4';

		fprintf(out,
			"add chain inet dprd backend_choose%c\ndelete chain inet dprd backend_choose%c\n"
			"add set inet dprd backend_service%c { type %s . inet_service ; }\n"
			"delete set inet dprd backend_service%c\n"
			"add set inet dprd backend_server%c { type %s ; }\ndelete set inet dprd backend_server%c\n"
			"add set inet dprd backend_shared%c { type %s ; }\ndelete set inet dprd backend_shared%c\n",
			f, f, f, address, f, f, address, f, f, address, f);
	}
}

void rules_write_backends(FILE *out, struct dprd *d)
{
	if (!d->config.own_backend_count) {
		write_removal(out, d->set, d->fastpath);
		return;
	}
	write_chains(out, d->fastpath);
	fprintf(out, "add rule inet dprd backend iifname \"lo\" accept\n");
	write_family(out, d, false);
	write_family(out, d, true);
	fprintf(out, "add rule inet dprd unmark meta mark & " RULES_BOTH " != 0 meta mark set meta mark & " RULES_CLEAR
		     "\n");
	fprintf(out, "add rule inet dprd backend_end meta mark & 0x%08x != 0 meta mark set meta mark & 0x%08x\n",
		BACKEND_MARK_MASK, ~(unsigned)BACKEND_MARK_MASK);
}
