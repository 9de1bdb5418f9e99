/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * state.h - what the modules of dprd share: the configuration, the flows, what is known of the others; under one lock.
 *
 * A member that one module alone uses stands in that module's own struct. dprd.h says who starts whom, and which thread
 * does what.
 */
#ifndef DPRD_STATE_H
#define DPRD_STATE_H

#include <systemd/sd-event.h>

#include "dprd/base/mutex.h"
#include "dprd/base/smallfile.h"
#include "dprd/cluster/backend.h"
#include "dprd/cluster/counters.h"
#include "dprd/cluster/view.h"
#include "dprd/cluster/ways.h"
#include "dprd/config/config.h"
#include "dprd/core/decide/flood.h"
#include "dprd/core/decide/why.h"
#include "dprd/core/flow/flow.h"
#include "dprd/core/policy/policy.h"
#include "dprd/plane/plane.h"
#include "dprd/queue/queue.h"
#include "loadcast/load.h"

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
	struct sent_to sent_to[MEMBERS_MAX]; /* lately, by member */
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
