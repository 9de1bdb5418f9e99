// SPDX-License-Identifier: GPL-2.0-or-later
/* fuzz_report.c - the output of fuzz_bpf. */
#include "tests/bpf/fuzz_report.h"

#include <stdio.h>
#include <string.h>

#include "dprd/shared/module.h"

typedef unsigned long long number; /* for printf(3) */

void fuzz_print_flows(const char *title, const struct flow_bucket *buckets, const struct flow_bucket *others,
		      size_t bytes)
{
	size_t i, slots = bytes / sizeof(struct flow_slot);

	for (i = 0; i < slots; i++) {
		const struct flow_slot *a = &buckets->slot[0] + i, *b = &others->slot[0] + i;

		if (memcmp(a, b, sizeof(*a)) != 0)
			printf("%s: slot %zu: key %016llx target %08x state %08x\n", title, i, (number)a->key,
			       a->target, a->state);
	}
}

void fuzz_print_counters(const struct fastpath_counters *programs, const struct fastpath_counters *model)
{
	const uint64_t *a = (const uint64_t *)programs, *b = (const uint64_t *)model;
	size_t i;

	for (i = 0; i < sizeof(*programs) / sizeof(uint64_t); i++) {
		if (a[i] != b[i])
			printf("counter %zu (%s): programs %llu, model %llu\n", i,
			       i < REASONS ? reason_name((enum reason)i) : "no reason", (number)a[i], (number)b[i]);
	}
}

static bool came(const char *what, uint64_t count)
{
	if (!count)
		printf("no packet was %s\n", what);
	return count;
}

bool fuzz_covered(const struct fuzz_totals *t)
{
	static const enum reason reasons[] = {
		REASON_LOCAL_POLICY,   REASON_LOCAL_SOCKET,   REASON_RATE_GUARD,    REASON_TABLE_FULL,
		REASON_CLUSTER_CLIENT, REASON_FORWARD_FAILED, REASON_CHOSEN,        REASON_DRAINING,
		REASON_SAME_SYN,       REASON_SAME_FLOW,      REASON_FLOW,          REASON_ICMP_RELAY,
		REASON_FROM_PEER,      REASON_NOT_PEER,       REASON_INNER_FOREIGN, REASON_INNER_NOT_SENDERS,
		REASON_INNER_SOURCE,   REASON_INNER_NESTED,   REASON_INNER_BAD,     REASON_NO_TUNNEL,
		REASON_RETURNED_LATE,  REASON_BACKEND,        REASON_INSIDE_CLIENT, REASON_PROBE,
	};
	static const enum biactive_counter shared[] = {
		BIACTIVE_ACCEPT_FORWARD,  BIACTIVE_PASS_NEIGHBOUR,  BIACTIVE_REFUSE_SOCKET,    BIACTIVE_REFUSE_ERROR,
		BIACTIVE_REFUSE_NO_LEASE, BIACTIVE_REFUSE_FRAGMENT, BIACTIVE_REFUSE_MALFORMED,
	};
	const struct {
		const char *what;
		uint64_t count;
	} others[] = {
		{ "answered as too big", t->counted.too_big_sent },
		{ "to an alias", t->counted.strangers },
		{ "queued", t->queued[0] },
		{ "queued for a flow", t->queued[1] },
		{ "tunnelled", t->sent.tunnelled },
		{ "sent to a real server", t->sent.direct },
		{ "handed to a fellow node", t->sent.handed_over },
		{ "left to NAT", t->sent.to_nat },
	};
	bool all = true;
	size_t i;

	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		all = came(others[i].what, others[i].count) && all;
	for (i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		all = came(reason_name(reasons[i]), t->counted.reason[reasons[i]]) && all;
	for (i = 0; i < sizeof(shared) / sizeof(shared[0]); i++)
		all = came(shared_module_counter_name(shared[i]), t->counted.shared[shared[i]]) && all;
	return all;
}

void fuzz_report(const struct fuzz_totals *t, double took_s)
{
	enum reason reason;
	unsigned shared;

	printf("%llu packets in %.1f s (%.2f us each), no difference: passed %llu, dropped %llu, redirected %llu; "
	       "queued %llu and %llu; too big %llu, to aliases %llu; tunnelled %llu, to real servers %llu, to fellows "
	       "%llu, to NAT %llu\n",
	       (number)t->packets, took_s, took_s * 1e6 / (double)t->packets, (number)t->verdicts[0],
	       (number)t->verdicts[1], (number)t->verdicts[2], (number)t->queued[0], (number)t->queued[1],
	       (number)t->counted.too_big_sent, (number)t->counted.strangers, (number)t->sent.tunnelled,
	       (number)t->sent.direct, (number)t->sent.handed_over, (number)t->sent.to_nat);
	for (reason = 0; reason < REASONS; reason++) {
		if (t->counted.reason[reason])
			printf("  %s %llu\n", reason_name(reason), (number)t->counted.reason[reason]);
	}
	for (shared = 0; shared < BIACTIVE_COUNTER_COUNT; shared++) {
		if (t->counted.shared[shared])
			printf("  %s %llu\n", shared_module_counter_name(shared), (number)t->counted.shared[shared]);
	}
}
