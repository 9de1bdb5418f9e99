/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * counters.h - the counters of packets and flows.
 */
#ifndef DPRD_COUNTERS_H
#define DPRD_COUNTERS_H

#include <stdint.h>

#include "dprd/core/decide/decide.h"

/*
 * Counters besides the one per reason: X(name, text). The law of the counters: seen = served + forwarded + passed +
 * dropped + decapsulated, and each of these is the sum of its reasons.
 */
#define DPRD_COUNTERS(X)                                                            \
	X(seen, "packets that reached dprd")                                        \
	X(batches, "batches of packets received")                                   \
	X(syns, "SYNs decided")                                                     \
	X(syns_taken, "SYNs of peers that this node served")                        \
	X(forward_bytes, "bytes forwarded, without outer headers")                  \
	X(decapsulated_bytes, "bytes decapsulated")                                 \
	X(segmented, "packets too big for the tunnel, sent on as smaller segments") \
	X(too_big_sent, "ICMP too-big messages sent to clients")                    \
	X(tunnel_errors, "tunnel packets that the kernel refused to send")          \
	X(flows_made, "flows made")                                                 \
	X(flows_evicted, "half-open flows removed to make room")                    \
	X(flows_expired, "flows that timed out")                                    \
	X(flows_dead_peer, "flows removed because their node's host is gone")       \
	X(queue_overruns, "ENOBUFS from the kernel's queue")                        \
	X(verdict_errors, "verdicts that the kernel did not take")                  \
	X(rules_restored, "times the firewall table was gone and set up again")     \
	X(routes_restored, "times local routes were gone and set up again")         \
	X(set_errors, "changes of the kernel's flow set that failed")               \
	X(stale_batches, "batches that may have waited too long")                   \
	X(standby_served, "SYNs served here while dprd stood still")                \
	X(standby_tunnelled, "tunnel packets decapsulated while dprd stood still")  \
	X(standby_forwarded, "packets of flows sent on while dprd stood still")     \
	X(table_errors, "load tables that could not be read or checked")            \
	X(ways_lost, "times connections to a member of one family got no answer")   \
	X(probes_sent, "probes of the ways to members that were sent")

struct counters {
#define X(name, text) uint64_t name;
	DPRD_COUNTERS(X)
#undef X
	uint64_t reason[REASONS];
};

/*
 * How long dprd took from a batch's arrival to its verdicts, counted once for each SYN in it. Bucket i holds times up to
 * DECISION_LEAST_US << i that no lower one holds; the last one holds all longer ones.
 */
enum { DECISION_LEAST_US = 16, DECISION_BUCKETS = 16 };

struct decision_times {
	uint64_t count[DECISION_BUCKETS + 1];
	uint64_t sum_us;
};

static inline void decision_times_add(struct decision_times *times, uint64_t took_us, uint64_t syns)
{
	unsigned bucket = 0;

	while (bucket < DECISION_BUCKETS && took_us > (uint64_t)DECISION_LEAST_US << bucket)
		bucket++;
	times->count[bucket] += syns;
	times->sum_us += took_us * syns;
}

#endif
