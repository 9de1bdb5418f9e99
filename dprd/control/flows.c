// SPDX-License-Identifier: GPL-2.0-or-later
/* control/flows.c - the flows that a client asked for, in parts that hold the lock only shortly. */
#include "dprd/control/control.h"

#include <stdlib.h>

#include "dprd/base/clock.h"

static const char *const state_names[] = {
	[FLOW_FREE] = "free",       [FLOW_HALF_OPEN] = "half_open", [FLOW_CONFIRMED] = "confirmed",
	[FLOW_CLOSING] = "closing", [FLOW_RESET] = "reset",
};

/* Reads "address" or "address/bits" into listing. */
static bool parse_prefix(const char *text, struct control_listing *listing)
{
	char copy[ADDR_TEXT_BYTES + 8], *slash, *end = NULL;
	unsigned long bits = 128, width;

	if (strlen(text) >= sizeof(copy))
		return false;
	memcpy(copy, text, strlen(text) + 1);
	slash = strchr(copy, '/');
	if (slash)
		*slash = '\0';
	if (!addr_parse(copy, &listing->client))
		return false;
	width = addr_is_v4(&listing->client) ? 32 : 128;
	if (slash) {
		if (slash[1] < '0' || slash[1] > '9')
			return false;
		bits = strtoul(slash + 1, &end, 10);
		if (*end || bits > width)
			return false;
		bits += 128 - width;
	}
	listing->prefix_bits = (unsigned)bits;
	return true;
}

static bool prefix_matches(const struct addr *a, const struct addr *b, unsigned bits)
{
	unsigned bytes = bits / 8, rest = bits % 8;

	if (memcmp(a->bytes, b->bytes, bytes) != 0)
		return false;
	return !rest || ((a->bytes[bytes] ^ b->bytes[bytes]) >> (8 - rest)) == 0;
}

static bool parse_state(const char *text, uint8_t *ret)
{
	unsigned state;

	for (state = FLOW_HALF_OPEN; state <= FLOW_RESET; state++) {
		if (strcmp(text, state_names[state]) == 0) {
			*ret = (uint8_t)state;
			return true;
		}
	}
	return false;
}

json_t *control_flows(struct dprd *d, const struct control_query *query)
{
	const json_t *request = query->request;
	bool bad = false;
	const char *client = control_get_text(request, "client", &bad);
	const char *node = control_get_text(request, "node", &bad);
	const char *state = control_get_text(request, "state", &bad);
	struct control_listing listing = { .any_client = !client, .any_node = !node, .any_state = !state };

	listing.client_port = htons((uint16_t)control_get_count(request, "port", UINT16_MAX, 0, &bad));
	listing.limit = control_get_count(request, "limit", CONTROL_FLOWS_LIMIT_MAX, CONTROL_FLOWS_LIMIT_MAX, &bad);
	if (bad)
		return control_error("flows: client, node and state must be strings, port and limit whole numbers");
	if (client && !parse_prefix(client, &listing))
		return control_error("flows: %.60s is neither an address nor a prefix", client);
	if (state && !parse_state(state, &listing.state))
		return control_error("flows: state is half_open, confirmed, closing or reset");
	if (node) {
		listing.node_id = member_id(node);
		if (config_own_backend_by_id(&d->config, backend_id(node)) >= 0)
			listing.node_id = backend_id(node);
		else if (config_member_by_id(&d->config, listing.node_id) < 0)
			return control_error("flows: there is no member or real server %.60s", node);
	}
	listing.active = true;
	*query->listing = listing;
	return NULL;
}

/* The flows that one step through the table found. */
struct chunk {
	const struct control_listing *listing;
	uint64_t room;
	unsigned count;
	struct flow flows[CONTROL_FLOWS_CHUNK];
};

static bool matches(const struct control_listing *l, const struct flow *flow)
{
	return (l->any_client || prefix_matches(&flow->key.client, &l->client, l->prefix_bits)) &&
	       (!l->client_port || flow->key.client_port == l->client_port) &&
	       (l->any_node || flow->node_id == l->node_id) && (l->any_state || flow->state == l->state);
}

static bool chunk_add(void *context, const struct flow *flow)
{
	struct chunk *chunk = context;

	if (matches(chunk->listing, flow))
		chunk->flows[chunk->count++] = *flow;
	return chunk->count < chunk->room;
}

static json_t *flow_line(const struct config *config, const struct flow *flow, uint64_t now_ms)
{
	char client[ADDR_TEXT_BYTES], service[ADDR_TEXT_BYTES], name[NAME_BYTES];
	uint64_t idle_ms = now_ms > flow->last_seen_ms ? now_ms - flow->last_seen_ms : 0;

	return json_pack("{s:s, s:i, s:s, s:i, s:o, s:s, s:I}", "client", addr_format(&flow->key.client, client),
			 "client_port", (int)ntohs(flow->key.client_port), "service",
			 addr_format(&flow->key.service, service), "service_port", (int)ntohs(flow->key.service_port),
			 "node", control_text(control_node_name(config, flow->node_id, name)), "state",
			 flow->state <= FLOW_RESET ? state_names[flow->state] : "?", "idle_ms", (json_int_t)idle_ms);
}

json_t *control_listing_next(struct dprd *d, struct control_listing *listing)
{
	static struct chunk chunk; /* main thread only */
	uint64_t now_ms = clock_flow_ms();
	struct flow_counts counts;
	json_t *lines = json_array();
	unsigned i;

	chunk.listing = listing;
	chunk.count = 0;
	chunk.room = listing->limit - listing->shown;
	if (chunk.room > CONTROL_FLOWS_CHUNK)
		chunk.room = CONTROL_FLOWS_CHUNK;
	mutex_lock(&d->lock);
	if (chunk.room)
		flow_walk(d->flows, &listing->cursor, CONTROL_FLOWS_STEPS, chunk_add, &chunk);
	counts = flow_counts(d->flows);
	mutex_unlock(&d->lock);
	for (i = 0; i < chunk.count; i++)
		json_array_append_new(lines, flow_line(&d->config, &chunk.flows[i], now_ms));
	listing->shown += chunk.count;
	if (!listing->cursor || listing->shown >= listing->limit) {
		listing->active = false;
		json_array_append_new(lines,
				      json_pack("{s:s, s:o, s:I, s:I, s:b}", "schema", "dprd.flows/1", "node",
						control_text(d->config.node_name), "shown", (json_int_t)listing->shown,
						"total", (json_int_t)counts.half_open + counts.confirmed, "complete",
						!listing->cursor && chunk.room));
	}
	return lines;
}
