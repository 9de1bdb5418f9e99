/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * control.h - the part that the files of the control socket share.
 *
 * A request is one JSON object on one line, {"command":"status"}. The answer is one or more lines, each a JSON object;
 * the last of them, and only that one, has "schema" or "error". socket.c moves the bytes, request.c finds the command
 * in commands.h, and a file for each subject makes the answer from the copy of snapshot.h, with the values of json.h.
 * Calls go in this direction only. All of it runs in the main thread, which alone changes struct config and therefore
 * reads it without the lock.
 */
#ifndef DPRD_CONTROL_H
#define DPRD_CONTROL_H

#include "dprd/control/commands.h"
#include "dprd/control/json.h"
#include "dprd/control/snapshot.h"

enum {
	CONTROL_REQUEST_BYTES = 4096, /* one line */
	CONTROL_ANSWER_BYTES = 1 << 20, /* one line */
	CONTROL_CLIENTS_MAX = 16,
	CONTROL_IDLE_MS = 5000, /* without a request, or without reading the answer */
	CONTROL_RECENT_S = 10, /* queue overruns are counted over this time */
	CONTROL_FIREWALL_S = 60, /* the counters of nftables are read this often */
	CONTROL_FLOOD_S = 5, /* and this often while a flood passes by dprd */
	CONTROL_FLOWS_STEPS = 4096, /* entries looked at under the lock */
	CONTROL_FLOWS_CHUNK = 64, /* flows copied under the lock */
	CONTROL_FLOWS_LIMIT_MAX = 1 << 24,
	CONTROL_WHY_MAX = 256, /* decisions in one answer */
};

/* A listing of flows that is under way. */
struct control_listing {
	bool active;
	bool any_client, any_node, any_state;
	struct addr client;
	unsigned prefix_bits; /* counted in the 16 bytes of the address */
	be16 client_port; /* 0: any */
	uint32_t node_id;
	uint8_t state;
	uint32_t cursor;
	uint64_t shown, limit;
};

/* One request's answer. */
struct control_answer {
	json_t *line; /* the caller frees it; NULL only without memory, or when a listing began */
	struct control_listing listing; /* active: control_listing_next() makes the lines */
};

/*
 * Answers one request. may_change: the client may use commands with RIGHTS_CHANGE. Every request gets an answer,
 * whatever its bytes are.
 */
void control_request(struct dprd *d, const struct control_recent *recent, const char *request, size_t bytes,
		     bool may_change, struct control_answer *ret);

/* The facts that a command may look at, and the place where it leaves a listing that begins. */
struct control_query {
	const json_t *request;
	const struct control_recent *recent;
	struct control_listing *listing;
};

/* Makes the answer's only line, an error included; NULL without memory, or when query->listing is active. */
typedef json_t *control_command(struct dprd *d, const struct control_query *query);

/* A function control_NAME() for each command: status and peers in status.c, drain, undrain, reload and config in
 * change.c, the others in the files of their names. */
#define X(name, argument, rights, options, help) control_command control_##name;
COMMANDS_OF_DPRD(X)
#undef X

/* Parts of the status. */
/* control/backends.c: the real servers behind this node; null without any. */
json_t *control_status_backends(const struct config *config, const struct control_snapshot *s);
/* control/shared.c: the shared addresses; null without any. */
json_t *control_status_shared(struct dprd *d);
/* control/warnings.c: an array of {"text","advice"}, worst first. */
json_t *control_warnings(const struct dprd *d, const struct control_snapshot *s, const struct control_recent *recent);
/* An array of texts about states that are normal for a while, such as members of different versions. */
json_t *control_notes(const struct dprd *d, const struct control_snapshot *s);

/* control/flows.c: an array of the next lines, perhaps empty; the last line of all ends the listing. NULL: no memory. */
json_t *control_listing_next(struct dprd *d, struct control_listing *listing);

#endif
