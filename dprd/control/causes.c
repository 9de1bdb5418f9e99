// SPDX-License-Identifier: GPL-2.0-or-later
/* causes.c - looks for what keeps packets of peers from this node: a BPF program in front, a strict filter of sources. */
#include "dprd/control/causes.h"

#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "dprd/base/smallfile.h"
#include "dprd/cluster/state.h"
#include "dprd/fastpath/fastpath.h"

static int rp_filter(const char *interface)
{
	char path[80], value[8] = "";

	snprintf(path, sizeof(path), "/proc/sys/net/ipv4/conf/%s/rp_filter", interface);
	return smallfile_read(path, value, sizeof(value) - 1, NULL) > 0 ? atoi(value) : 0;
}

static bool is_strict(const char *interface)
{
	int all = rp_filter("all"), own = rp_filter(interface);

	return (all > own ? all : own) == 1;
}

/* The member's packets come, and answers to them would not leave. */
static bool explain_mute(const struct dprd *d, unsigned member, bool v6, char text[CONTROL_CAUSE_BYTES])
{
	const struct member *m = &d->config.member[member];
	char client[ADDR_TEXT_BYTES], local[ADDR_TEXT_BYTES];
	unsigned i;

	for (i = 0; d->probes.mute[member][v6] && i < m->service_count; i++) {
		struct addr alias = config_alias(&d->config, member, i);

		if (addr_is_v4(&m->service[i]) == v6)
			continue;
		addr_format(addr_is_zero(&alias) ? &m->service[i] : &alias, local);
		snprintf(text, CONTROL_CAUSE_BYTES,
			 "No route for answers: ip route get %s from %s; ip rule: give this address the table of the "
			 "node's "
			 "own service address",
			 addr_format(&d->probes.client[v6].address, client), local);
		return true;
	}
	return false;
}

void control_arrival_cause(const struct dprd *d, unsigned member, bool v6, char text[CONTROL_CAUSE_BYTES])
{
	const struct way *way = &d->ways.member[member][v6];
	char interface[IF_NAMESIZE] = "", program[FASTPATH_PROGRAM_BYTES], from[ADDR_TEXT_BYTES];

	if (explain_mute(d, member, v6, text))
		return;
	/* The peer's packets come in where this node's packets to it go out. */
	if (!if_indextoname(way->next_hop.interface, interface))
		*interface = '\0';
	addr_format(&way->destination, from);
	if (*interface && d->fastpath && fastpath_in_front(d->fastpath, way->next_hop.interface, program))
		snprintf(text, CONTROL_CAUSE_BYTES,
			 "The BPF program %s gets the packets of %s first: bpftool net show dev %s; detach it, and "
			 "attach it "
			 "behind dprd's",
			 program, interface, interface);
	else if (*interface && !v6 && is_strict(interface))
		snprintf(text, CONTROL_CAUSE_BYTES,
			 "Strict rp_filter (nstat -az TcpExtIPReversePathFilter): sysctl -w "
			 "net.ipv4.conf.all.rp_filter=2 "
			 "net.ipv4.conf.%s.rp_filter=2",
			 interface);
	else if (way->form == WAY_FORM_DIRECT)
		snprintf(text, CONTROL_CAUSE_BYTES,
			 "dprd --check; nft list ruleset: look for rules that drop by source address (fib)");
	else
		snprintf(text, CONTROL_CAUSE_BYTES,
			 "tcpdump -ni any '%s proto %d and src %s': with packets: dprd --check; without: a firewall or "
			 "a "
			 "route between the nodes",
			 v6 ? "ip6" : "ip", v6 ? IPPROTO_IPV6 : IPPROTO_IPIP, from);
}
