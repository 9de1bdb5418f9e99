/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * control.h - what the files of the control socket share.
 *
 * A request is one JSON object on one line, {"command":"status"}. The answer is one or more lines, each
 * a JSON object; the last of them, and only that, has "schema" or "error". control/socket.c moves the bytes,
 * control/request.c finds the command, and the others make the answers. All of it runs in the main
 * thread, which alone changes struct config: that one is read without the lock.
 */
#ifndef DPRD_CONTROL_H
#define DPRD_CONTROL_H

#include <jansson.h>

#include "dprd/dprd.h"
#include "dprd/rules/rules.h"

enum {
	CONTROL_REQUEST_BYTES = 4096, /* one line */
	CONTROL_ANSWER_BYTES = 1 << 20, /* one line */
	CONTROL_CLIENTS_MAX = 16,
	CONTROL_IDLE_MS = 5000, /* without a request, or without reading the answer */
	CONTROL_RECENT_S = 10, /* queue overruns are counted over so long */
	CONTROL_FIREWALL_S = 60, /* and what the firewall counts is read so often; */
	CONTROL_FLOOD_S = 5, /* so often in a flood that passes by dprd */
	CONTROL_FLOWS_STEPS = 4096, /* entries looked at under the lock */
	CONTROL_FLOWS_CHUNK = 64, /* flows copied under the lock */
	CONTROL_FLOWS_LIMIT_MAX = 1 << 24,
	CONTROL_WHY_MAX = 256, /* decisions in one answer */
};

/* What only the passing of time shows. */
struct control_recent {
	uint64_t overruns; /* within CONTROL_RECENT_S */
	int64_t strangers; /* tunnel packets of strangers, all; -1: not known */
	int64_t strangers_recent; /* within CONTROL_FIREWALL_S */
	int64_t undecided; /* SYNs that passed by dprd in a flood, all; -1: not known */
};

/* All that an answer needs of struct dprd, copied under the lock. */
struct control_snapshot {
	uint64_t now_ms;
	struct counters counters;
	struct flow_counts flows;
	struct load_table table;
	bool table_valid;
	struct view_node nodes[MEMBERS_MAX];
	unsigned node_count;
	bool eligible[MEMBERS_MAX]; /* by member, as the next ones */
	const char *why_not[MEMBERS_MAX];
	unsigned tunnel_mtu[MEMBERS_MAX][2];
	bool direct[MEMBERS_MAX][2]; /* by hardware address, no tunnel */
	double own_load, max_load; /* per unit of weight, as decide() compares them */
	const struct policy *policy;
	bool draining, minority;
	bool programs_decide; /* new connections, just now */
	uint32_t arrivals_per_1000_s;
	struct backend_status backends[OWN_BACKENDS_MAX]; /* by number */
	bool serves_here; /* the own web server is one of those that get connections */
};

struct control_totals {
	uint64_t seen, kind[VERDICT_DECAPSULATE + 1]; /* by enum verdict_kind */
	bool law_holds; /* seen is the sum of the others */
};

/* A listing of flows that is under way. */
struct control_listing {
	bool active;
	bool any_client, any_node, any_state;
	struct addr client;
	unsigned prefix_bits; /* of the 16 bytes */
	be16 client_port; /* 0: any */
	uint32_t node_id;
	uint8_t state;
	uint32_t cursor;
	uint64_t shown, limit;
};

/* One request's answer. */
struct control_answer {
	json_t *line; /* the caller's to free; NULL only without memory, or when a listing began */
	struct control_listing listing; /* active: control_listing_next() makes the lines */
};

/*
 * Answers one request. may_change: the client may drain, undrain and reload. Whatever the bytes are,
 * there is an answer.
 */
void control_request(struct dprd *d, const struct control_recent *recent, const char *request, size_t bytes,
		     bool may_change, struct control_answer *ret);

/* {"error":text} */
json_t *control_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Text of an object's member; NULL when it is absent. Sets *bad when it is no text. */
const char *control_get_text(const json_t *request, const char *key, bool *bad);

/* A whole number from 0 to max, absent when it is absent. Sets *bad when it is anything else. */
uint64_t control_get_count(const json_t *request, const char *key, uint64_t max, uint64_t absent, bool *bad);

/* Text as JSON, whatever its bytes are; a number with three digits behind the point, null when not finite. */
json_t *control_text(const char *text);
json_t *control_real(double value);

/* An address, null when it is all zero; a count, null when it is not known. */
json_t *control_address(const struct addr *address);
json_t *control_count(bool known, uint64_t count);

/* The name of a member or an own real server by its id; "id:1f2e3d4c" when the configuration has none.
 * buffer: NAME_BYTES. */
const char *control_node_name(const struct config *config, uint32_t node_id, char *buffer);

/* control/status.c */
void control_take_snapshot(struct dprd *d, struct control_snapshot *ret);
/* Whether SYNs pass by dprd because there are too many. */
static inline bool control_passes_flood(const struct dprd *d)
{
	return !d->fastpath && d->flood.on && !d->config.own_backend_count;
}

/* What was counted outside the queues, since dprd started; -errno. */
int control_outside_counts(struct dprd *d, struct rules_counts *ret);
struct control_totals control_sum(const struct counters *counters);
const struct node_load *control_node_load(const struct control_snapshot *s, uint32_t node_id);
bool control_table_fresh(const struct config *config, const struct control_snapshot *s);
const char *control_own_state(const struct config *config, const struct control_snapshot *s);
json_t *control_status(struct dprd *d, const struct control_recent *recent);
json_t *control_peers(struct dprd *d);

/* control/backends.c: the real servers behind this node; for status: null without any. */
json_t *control_backends(struct dprd *d);
json_t *control_status_backends(const struct config *config, const struct control_snapshot *s);

/* control/warnings.c: an array of {"text","advice"}, worst first. */
json_t *control_warnings(const struct dprd *d, const struct control_snapshot *s, const struct control_recent *recent);

/* control/flows.c: checks the filters; NULL and *ret active, or what is wrong. */
json_t *control_listing_start(const struct dprd *d, const json_t *request, struct control_listing *ret);
/* An array of the next lines, perhaps empty; the last line of all ends the listing. NULL: no memory. */
json_t *control_listing_next(struct dprd *d, struct control_listing *listing);

/* control/why.c */
json_t *control_why(struct dprd *d, const json_t *request);

#endif
