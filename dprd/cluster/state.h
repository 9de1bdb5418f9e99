/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * state.h - the state that the modules of dprd share: the configuration, the flows, the knowledge about other nodes;
 * under one lock.
 *
 * A value that only one module uses is in that module's own struct. dprd.h says which module starts which, and which
 * thread does what.
 */
#ifndef DPRD_STATE_H
#define DPRD_STATE_H

#include <systemd/sd-event.h>

#include "dprd/base/mutex.h"
#include "dprd/cluster/backend.h"
#include "dprd/cluster/translated.h"
#include "dprd/cluster/counters.h"
#include "dprd/cluster/outcomes.h"
#include "dprd/cluster/probes.h"
#include "dprd/cluster/view.h"
#include "dprd/cluster/ways.h"
#include "dprd/config/config.h"
#include "dprd/core/decide/flood.h"
#include "dprd/core/decide/inside.h"
#include "dprd/core/decide/why.h"
#include "dprd/core/flow/flow.h"
#include "dprd/core/policy/policy.h"
#include "dprd/core/policy/suspicion.h"
#include "loadcast/load.h"

struct fastpath;
struct flowset;
struct plane;
struct queue;
struct rules_watch;
struct sampler;
struct shared;
struct upkeep;

struct dprd {
	/* Set at start, then read only. */
	const char *config_path;
	const char *node_name; /* from the command line, or NULL */
	uint64_t started_ms;
	uint64_t hash_key[2];
	sd_event *event;
	unsigned worker_count;
	struct flowset *set; /* the main thread's */
	struct rules_watch
		*rules_watch; /* the main thread's; NULL: there is none, and the rules are checked every 2 s */
	bool rules_failed; /* setting up the rules failed; rules_changed stays set until it works */
	struct queue *queue; /* workers and standby process */
	struct plane *plane;
	struct upkeep *upkeep;
	struct fastpath *fastpath; /* the BPF plane; NULL: the nfqueue plane carries all packets */
	struct flood flood; /* nfqueue plane */
	bool routes; /* the host routes packets, or did so: answers of containers leave, too */
	bool reassembly_known, reassembles; /* the kernel can put fragments together in front of the rules */
	struct shared *shared; /* addresses that all nodes share; NULL: none */

	struct mutex lock; /* guards all members that follow */
	struct config config;
	struct flow_table *flows;
	struct flow_limits flow_limits;
	const struct policy *policy;
	struct policy_state policy_state[2]; /* by family (0: IPv4): each goes round by itself */
	struct backends backends; /* real servers behind this node */
	struct translated translated; /* connections whose sockets are not on this host */
	struct load_table table; /* as last read */
	bool table_valid;
	struct view_past past; /* for the next refresh of table and view */
	struct load_view view;
	struct view_node view_nodes[MEMBERS_MAX];
	struct ways ways; /* to members and to real servers */
	struct inside inside; /* networks of this node alone */
	struct outcomes outcomes; /* of connections to members */
	struct probes probes; /* of the ways to members, and of theirs to this node */
	struct sampler *sampler;
	struct counters counters;
	struct decision_times decision_times;
	struct why_ring *why;
	struct suspicion suspicion; /* of this node's own connections */
	bool draining;
	bool minority;
	unsigned new_flows;
	unsigned flows_reserved; /* in the table, but not counted as made yet (path_syn.c) */
	uint32_t arrivals_per_1000_s;
	uint64_t last_decapsulated_ms;
	uint64_t random_state;
	bool rules_changed; /* the MSS or the configuration: the main thread sets up the rules again */
	bool rules_gone; /* the kernel's set was not there: the main thread sets up the rules again */
};

#endif
