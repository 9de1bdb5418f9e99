/* SPDX-License-Identifier: GPL-2.0-or-later */
/* view.h - the present knowledge about the members, and which of them may get a connection. */
#ifndef DPRD_VIEW_H
#define DPRD_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "dprd/base/smallfile.h"
#include "dprd/config/config.h"
#include "dprd/core/policy/sent.h"
#include "loadcast/load.h"

struct dprd;

enum { DECAPSULATE_GRACE_MS = 600000 }; /* a peer's established flows outlive its announcements */

/* When a member was last heard, CLOCK_BOOTTIME; at first, when dprd first saw it in its configuration. */
struct last_heard {
	uint32_t id;
	uint64_t ms;
};

/* Connections that this node sent to a member lately. */
struct sent_to {
	uint32_t id; /* of the member */
	struct sent lately;
};

/* view.c and asks.c keep this for their next refresh. */
struct view_past {
	struct smallfile_stamp table_seen; /* main thread only */
	struct last_heard heard[MEMBERS_MAX]; /* outlives the table, which ends with loadcast */
	struct sent_to sent_to[MEMBERS_MAX]; /* by member */
	uint64_t syns_at_rate; /* counters.syns when arrivals_per_1000_s was last computed */
	uint64_t rate_window_ms; /* start of the second that new_flows counts */
};

/* Lock held for all that follow. */
/* Connections were sent to this node of the view at at_ms (CLOCK_BOOTTIME), which may be before its last news. */
void view_count_sent(struct dprd *d, unsigned view_index, bool v6, unsigned connections, uint64_t at_ms);
/*
 * Puts a fresh load table into d->table and d->view; NULL: there is none, and only the age of the former one grows.
 * missing: the file does not exist.
 */
void view_refresh(struct dprd *d, const struct load_table *fresh, bool missing, uint64_t now_ms);
void view_count_arrivals(struct dprd *d, uint64_t elapsed_ms); /* each second: the rate of SYNs here */
/* Sets view.nodes[].eligible for SYNs of this family to this port, and to a service address of this age; port 0: to any
 * port. Only nodes with the same file know a fresh address; none gets connections to a former one. */
void view_select(struct dprd *d, bool v6, be16 port, enum service_age age);
/* True while this node wants no new connections: dprctl or its agent says so. */
bool view_drains(const struct dprd *d);
/* True when this node's own web server does not work on this port; port 0: on some port. */
bool view_own_server_fails(const struct dprd *d, be16 port);
/*
 * A port of some node fails while others of it work, or nodes serve different ports or addresses: then each port and
 * address has its own choice of nodes. The text says which; NULL: none. A node that is not heard is no choice for any, and
 * does not count.
 */
const char *view_ports_differ(const struct dprd *d);
/* True while a peer of the load table announces itself. */
bool view_is_heard(const struct dprd *d, const struct node_load *load, uint64_t now_ms);
double view_load(const struct config *config, const struct load_sample *sample); /* in the configured metric */
/* The peer's place in the view; NULL: it has none. */
struct view_node *view_node(struct dprd *d, uint32_t node_id);
const struct node_load *view_node_load(const struct dprd *d, uint32_t node_id); /* NULL: not in the table */
/* The weight that counts: the lower one of the configured and the announced weight. load NULL: 0. */
unsigned view_weight(const struct member *member, const struct node_load *load);
/* The same, less the part that the node holds back for now (SlowStart=). */
double view_weight_now(const struct member *member, const struct node_load *load);
/* True when a member may get new connections; if not, *ret_why_not gives the reason (static text). */
bool view_member_eligible(const struct dprd *d, unsigned member, uint64_t now_ms, const char **ret_why_not);
/*
 * True when a new connection of this family may go to the member: there is a way, and connections by it are answered.
 */
bool view_way_works(const struct dprd *d, unsigned member, bool v6, uint64_t now_ms);
/* True when tunnel packets from a member are taken: it was heard, or first configured, within DECAPSULATE_GRACE_MS. */
bool view_member_living(const struct dprd *d, unsigned member, uint64_t now_ms);
/* A bit for each member for which view_member_living() is true. Lock held. */
uint64_t view_living(const struct dprd *d, uint64_t now_ms);

#endif
