// SPDX-License-Identifier: GPL-2.0-or-later
/* control/why.c - the decisions about one client's connections, newest first. */
#include "dprd/control/control.h"

#include "dprd/base/clock.h"
#include "dprd/plane/decide.h"

static json_t *peer_json(const struct config *config, const struct why_peer *peer)
{
	char name[NAME_BYTES];

	return json_pack("{s:o, s:o, s:I, s:I, s:b}", "name",
			 control_text(control_node_name(config, peer->node_id, name)), "load", control_real(peer->load),
			 "age_ms", (json_int_t)peer->age_ms, "sent_since", (json_int_t)peer->sent, "eligible",
			 peer->eligible);
}

static json_t *record_json(const struct config *config, const struct why_record *r, uint64_t now_ms)
{
	char client[ADDR_TEXT_BYTES], service[ADDR_TEXT_BYTES], name[NAME_BYTES];
	bool has_target = r->verdict.kind == VERDICT_FORWARD;
	json_t *peers = json_array();
	unsigned i;

	for (i = 0; i < r->peer_count && i < WHY_PEERS; i++)
		json_array_append_new(peers, peer_json(config, &r->peers[i]));
	return json_pack("{s:I, s:s, s:i, s:s, s:i, s:I, s:s, s:s, s:s, s:s, s:b, s:o, s:o, s:o, s:o, s:o}", "age_ms",
			 (json_int_t)(now_ms > r->at_ms ? now_ms - r->at_ms : 0), "client",
			 addr_format(&r->key.client, client), "client_port", (int)ntohs(r->key.client_port), "service",
			 addr_format(&r->key.service, service), "service_port", (int)ntohs(r->key.service_port),
			 "syn_sequence", (json_int_t)r->syn_sequence, "verdict", verdict_kind_name(r->verdict.kind),
			 "reason", reason_name(r->verdict.reason), "reason_text", reason_text(r->verdict.reason),
			 "policy", r->policy ? r->policy->name : "?", "threshold", r->policy && r->policy->threshold,
			 "own_load", control_real(r->own_load), "max_load", control_real(r->max_load), "min_advantage",
			 control_real(r->min_advantage), "target",
			 has_target ? control_text(control_node_name(config, r->verdict.node_id, name)) : json_null(),
			 "peers", peers);
}

json_t *control_why(struct dprd *d, const struct control_query *query)
{
	static struct why_record records[CONTROL_WHY_MAX]; /* main thread only */
	const json_t *request = query->request;
	bool bad = false, more;
	const char *client = control_get_text(request, "client", &bad);
	be16 port = htons((uint16_t)control_get_count(request, "port", UINT16_MAX, 0, &bad));
	uint64_t limit = control_get_count(request, "limit", CONTROL_WHY_MAX, CONTROL_WHY_MAX, &bad);
	uint64_t now_ms = clock_now_ms();
	const struct why_record *found;
	struct addr address;
	json_t *decisions;
	unsigned cursor = 0, count = 0, i;

	if (bad || !client)
		return control_error("why: client must be an address, port and limit (at most %d) whole numbers",
				     CONTROL_WHY_MAX);
	if (!addr_parse(client, &address))
		return control_error("why: %.60s is not an address", client);
	/* Includes what the programs decided since the last tick. */
	plane_decide_now(d);
	mutex_lock(&d->lock);
	while ((found = why_find(d->why, &address, port, &cursor)) && count < limit)
		records[count++] = *found;
	more = found != NULL;
	mutex_unlock(&d->lock);
	decisions = json_array();
	for (i = 0; i < count; i++)
		json_array_append_new(decisions, record_json(&d->config, &records[i], now_ms));
	return json_pack("{s:s, s:o, s:o, s:b}", "schema", "dprd.why/1", "node", control_text(d->config.node_name),
			 "decisions", decisions, "more", more);
}
