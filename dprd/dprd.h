/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dprd.h - what the shell files of dprd share.
 *
 * Process model: the main thread runs one sd-event loop (tick, control socket, signals, watchdog).
 * One worker thread per pair of NFQUEUE queues drains packets in batches:
 *
 *   receive a batch          no lock
 *   decide, change flows     struct dprd.lock held; no system call but one pread of the own load
 *   kernel set, tunnel, verdicts   no lock; in this order, so that a flow is known to the kernel
 *                            before its first encapsulated SYN leaves (write-ahead)
 *
 * The way of a SYN is the order of the files: queue -> path -> packet -> decide -> flow -> policy
 * -> flowset -> encap -> tunnel -> queue.
 */
#ifndef DPRD_DPRD_H
#define DPRD_DPRD_H

#include <systemd/sd-event.h>

#include "dprd/base/mutex.h"
#include "dprd/base/smallfile.h"
#include "dprd/cluster/backend.h"
#include "dprd/cluster/view.h"
#include "dprd/cluster/ways.h"
#include "dprd/config/config.h"
#include "dprd/core/decide/decide.h"
#include "dprd/core/decide/flood.h"
#include "dprd/core/decide/why.h"
#include "dprd/core/flow/flow.h"
#include "dprd/core/policy/policy.h"
#include "dprd/plane/plane.h"
#include "dprd/queue/queue.h"
#include "loadcast/load.h"

/*
 * Counters besides the one per reason: X(name, text). With them holds
 * seen = served + forwarded + passed + dropped + decapsulated, each the sum of its reasons.
 */
#define DPRD_COUNTERS(X)                                                            \
	X(seen, "packets that reached dprd")                                        \
	X(batches, "batches of packets received")                                   \
	X(syns, "SYNs decided")                                                     \
	X(forward_bytes, "bytes forwarded, without outer headers")                  \
	X(decapsulated_bytes, "bytes decapsulated")                                 \
	X(segmented, "packets too big for the tunnel, sent on as smaller segments") \
	X(too_big_sent, "ICMP too-big messages sent to clients")                    \
	X(tunnel_errors, "tunnel packets that the kernel would not send")           \
	X(flows_made, "flows made")                                                 \
	X(flows_evicted, "half-open flows that made room")                          \
	X(flows_expired, "flows that timed out")                                    \
	X(flows_dead_peer, "flows removed because their node's host is gone")       \
	X(queue_overruns, "ENOBUFS from the kernel's queue")                        \
	X(verdict_errors, "verdicts that the kernel did not take")                  \
	X(rules_restored, "times the firewall table was gone and set up again")     \
	X(set_errors, "changes of the kernel's flow set that failed")               \
	X(stale_batches, "batches that may have waited too long")                   \
	X(standby_served, "SYNs that passed while dprd stood still")                \
	X(standby_tunnelled, "tunnel packets that came out while dprd stood still") \
	X(standby_forwarded, "packets of flows sent on while dprd stood still")     \
	X(table_errors, "load tables that could not be read or checked")

struct counters {
#define X(name, text) uint64_t name;
	DPRD_COUNTERS(X)
#undef X
	uint64_t reason[REASONS];
};

struct control;
struct fastpath;
struct flowset;
struct plane_decide;
struct rules_watch;
struct sampler;
struct shared;
struct standby;
struct worker;

struct dprd {
	/* Set at start, then read only. */
	const char *config_path;
	const char *node_name; /* from the command line, or NULL */
	uint64_t started_ms;
	uint64_t hash_key[2];
	sd_event *event;
	struct worker *workers[WORKERS_MAX];
	unsigned worker_count;
	struct standby *standby; /* shares the workers' queues */
	struct flowset *set; /* the main thread's */
	struct rules_watch *rules_watch; /* likewise; NULL: there is none, and rules are looked for now and then */
	int lock_fd; /* one dprd per run directory */
	bool found_rules; /* a former dprd's, which may have left connections that need them */
	bool started; /* all is set up */
	uint64_t second_ms; /* when the work of each second was last done */
	uint64_t status_ms; /* when the status file was last written */
	bool leaving; /* peers are being told that dprd stops */
	uint64_t watchdog_ms; /* interval of the watchdog's pings; 0: none wanted */
	uint64_t watchdog_pinged_ms;
	uint64_t rules_checked_ms, rules_doubt_checked_ms;
	bool rules_doubted; /* something was taken away: it is to be looked whether they are there */
	uint64_t rules_tried_ms; /* when they were last set up, but at the start */
	bool rules_failed; /* that failed; rules_changed stays set until it works */
	struct control *control;
	struct fastpath *fastpath; /* the BPF plane; NULL: the nfqueue plane carries all packets */
	char plane_why[PLANE_WHY_BYTES]; /* why this plane */
	uint64_t living_told; /* members whose tunnel packets the programs take */
	uint64_t living_told_standby; /* and those the standby process takes */
	struct flood flood; /* nfqueue plane */
	bool flood_refused; /* the firewall knows no limit: it is not asked again */
	struct plane_decide *decide_ahead; /* Decide=auto or kernel; else NULL */
	struct shared *shared; /* addresses that all nodes share; NULL: none */
	void *flow_memory; /* nfqueue plane: the mapped file run_dir/flows */
	size_t flow_memory_bytes;

	struct mutex lock; /* all that follows */
	struct config config;
	struct flow_table *flows;
	struct flow_limits flow_limits;
	const struct policy *policy;
	struct policy_state policy_state[2]; /* by family (0: IPv4): each goes round by itself */
	struct backends backends; /* real servers behind this node */
	struct load_table table; /* as last read */
	struct smallfile_stamp table_seen; /* main thread only */
	bool table_valid;
	struct last_heard heard[MEMBERS_MAX]; /* of each member; outlives the table, which ends with loadcast */
	struct load_view view;
	struct view_node view_nodes[MEMBERS_MAX];
	struct ways ways; /* to members and to real servers */
	struct sampler *sampler;
	struct counters counters;
	struct why_ring *why;
	bool draining;
	bool minority;
	uint64_t rate_window_ms; /* start of the second that new_flows counts */
	unsigned new_flows;
	unsigned flows_reserved; /* in the table, but not counted as made yet (path_syn.c) */
	uint64_t too_big_window_ms;
	unsigned too_big_count;
	uint64_t own_load_ms; /* when a SYN last needed the own load */
	uint32_t arrivals_per_1000_s;
	uint64_t last_decapsulated_ms;
	uint64_t random_state;
	uint64_t syns_at_rate; /* counters.syns when arrivals_per_1000_s was last computed */
	bool rules_changed; /* the MSS or the configuration: the main thread sets up the rules again */
	bool rules_gone; /* likewise: the kernel's set was not there */
};

#endif
