// SPDX-License-Identifier: GPL-2.0-or-later
/* control/status.c - the state and the counters of this node, as one JSON object of plain, typed members. */
#include "dprd/control/control.h"

#include <time.h>
#include <unistd.h>

#include "dprd/base/version.h"
#include "dprd/cluster/view.h"
#include "dprd/plane/plane.h"

static const char *node_state(const struct node_load *load)
{
	static const char *const names[NODE_STATES] = {
		[NODE_ACTIVE] = "active",
		[NODE_DRAINING] = "draining",
		[NODE_UNHEALTHY] = "unhealthy",
	};

	return load && load->age_ms != LOAD_AGE_NEVER_MS && load->state < NODE_STATES ? names[load->state] : "unknown";
}

static json_t *totals_json(const struct control_totals *t)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "seen", (json_int_t)t->seen, "served",
			 (json_int_t)t->kind[VERDICT_SERVE], "forwarded", (json_int_t)t->kind[VERDICT_FORWARD],
			 "passed", (json_int_t)t->kind[VERDICT_PASS], "dropped", (json_int_t)t->kind[VERDICT_DROP],
			 "decapsulated", (json_int_t)t->kind[VERDICT_DECAPSULATE]);
}

static json_t *decisions_json(const struct counters *counters)
{
	json_t *decisions = json_object();
	unsigned i;

	for (i = 0; i < REASONS; i++) {
		enum reason reason = (enum reason)i;

		json_object_set_new(decisions, reason_name(reason),
				    json_pack("{s:s, s:I}", "kind", verdict_kind_name(reason_kind(reason)), "count",
					      (json_int_t)counters->reason[i]));
	}
	return decisions;
}

static json_t *counters_json(const struct counters *counters)
{
	json_t *made = json_object();
	unsigned i;

#define X(name, text) json_object_set_new(made, #name, json_integer((json_int_t)counters->name));
	DPRD_COUNTERS(X)
#undef X
	for (i = 0; i < REASONS; i++)
		json_object_set_new(made, reason_name((enum reason)i), json_integer((json_int_t)counters->reason[i]));
	return made;
}

static const struct view_node *view_node_of(const struct control_snapshot *s, uint32_t node_id)
{
	unsigned i;

	for (i = 0; i < s->node_count && i < MEMBERS_MAX; i++) {
		if (s->nodes[i].node_id == node_id)
			return &s->nodes[i];
	}
	return NULL;
}

/* The values that a member announced; all of them null until it has announced some. */
static void put_announced(json_t *member, const struct control_snapshot *s, const struct node_load *load)
{
	bool known = load && load->age_ms != LOAD_AGE_NEVER_MS;
	const struct load_sample none = { 0 }, *sample = known ? &load->sample : &none;
	uint32_t echo_age = load ? load->echo_age_ms : LOAD_AGE_NEVER_MS;
	bool echoed = known && echo_age != LOAD_AGE_NEVER_MS;

	json_object_set_new(member, "open_connections", control_count(known, sample->open_connections));
	json_object_set_new(member, "cpu_ratio", known ? control_real(sample->cpu_permille / 1000.0) : json_null());
	json_object_set_new(member, "redirected", control_count(known, sample->redirected));
	json_object_set_new(member, "active_sockets", control_count(known, sample->active_sockets));
	json_object_set_new(member, "accept_queue", control_count(known, sample->accept_queue));
	json_object_set_new(member, "arrivals_per_second",
			    known ? control_real(sample->arrivals_per_1000_s / 1000.0) : json_null());
	json_object_set_new(member, "version", known && load->version[0] ? json_string(load->version) : json_null());
	json_object_set_new(member, "age_ms",
			    control_count(known, known ? load_age_ms(&s->table, load, s->now_ms) : 0));
	json_object_set_new(member, "echo_age_ms",
			    control_count(echoed, echo_age + (echoed ? control_table_age_ms(s) : 0)));
}

/* The hash of the settings in which all nodes must agree: equal values, equal settings. */
static json_t *hash_json(uint32_t hash)
{
	char text[16];

	snprintf(text, sizeof(text), "%08x", hash);
	return hash ? json_string(text) : json_null();
}

/* Cumulative counts by the longest time of each bucket, as Prometheus has them. */
static json_t *decision_times_json(const struct decision_times *times)
{
	json_t *buckets = json_array();
	uint64_t count = 0;
	unsigned i;

	for (i = 0; i < DECISION_BUCKETS; i++) {
		count += times->count[i];
		json_array_append_new(buckets, json_pack("{s:f, s:I}", "seconds",
							 (double)((uint64_t)DECISION_LEAST_US << i) / 1e6, "count",
							 (json_int_t)count));
	}
	return json_pack("{s:o, s:I, s:f}", "buckets", buckets, "count",
			 (json_int_t)count + (json_int_t)times->count[DECISION_BUCKETS], "seconds",
			 (double)times->sum_us / 1e6);
}

/* Why announcements are not accepted, in a word; null: they are. */
static json_t *rejection_json(uint32_t cause)
{
	static const char *const words[REJECTIONS] = {
		[REJECTION_OTHER] = "other",     [REJECTION_KEY] = "key",         [REJECTION_NAME] = "name",
		[REJECTION_ADDRESS] = "address", [REJECTION_VERSION] = "version", [REJECTION_RUN] = "run",
		[REJECTION_RATE] = "rate",
	};

	return cause && cause < REJECTIONS ? json_string(words[cause]) : json_null();
}

/* The form in which packets go to a member. */
static json_t *form_json(const struct control_snapshot *s, unsigned index, bool self, bool v6)
{
	if (self || !way_is_usable(&s->way[index][v6]))
		return json_null();
	return json_string(s->way[index][v6].form == WAY_FORM_DIRECT ? "direct" : "tunnel");
}

/* Service ports that fail their health check while others of the node work, or that its file does not have. */
static json_t *ports_down_json(const struct load_table *table, const struct node_load *load)
{
	json_t *ports = json_array();

	for (unsigned i = 0; load && i < table->port_count; i++) {
		if (load->ports_down >> i & 1)
			json_array_append_new(ports, json_integer(table->port[i]));
	}
	return ports;
}

static json_t *weight_json(const struct member *m, const struct node_load *load)
{
	return load && load->held_permille ? control_real(view_weight_now(m, load))
					   : json_integer(view_weight(m, load));
}

/* False while connections of this family that go to the member get no answer. */
static json_t *answers_json(const struct control_snapshot *s, unsigned index, bool self, bool v6)
{
	if (self || !way_is_usable(&s->way[index][v6]))
		return json_null();
	return json_boolean(control_answers(s, index, v6));
}

/* False while packets of this family do not arrive at the member, as it says. */
static json_t *arrives_json(const struct control_snapshot *s, unsigned index, bool self, bool v6)
{
	if (self || !way_is_usable(&s->way[index][v6]))
		return json_null();
	return json_boolean(!s->probe[index][v6].lost_ms);
}

static json_t *addresses_json(const struct member *m)
{
	json_t *addresses = json_array();

	for (unsigned i = 0; i < m->service_count; i++)
		json_array_append_new(addresses, control_address(&m->service[i]));
	return addresses;
}

static json_t *member_json(const struct config *config, const struct control_snapshot *s, unsigned index)
{
	const struct member *m = &config->member[index];
	const struct node_load *load = control_node_load(s, m->id);
	const struct view_node *node = view_node_of(s, m->id);
	const unsigned mtu[2] = { s->way[index][0].mtu, s->way[index][1].mtu };
	bool self = index == config->self, known = load && load->age_ms != LOAD_AGE_NEVER_MS;
	const char *state = self ? control_own_state(config, s) : node_state(load);
	json_t *member = json_pack("{s:o, s:b, s:s, s:b, s:o}", "name", control_text(m->name), "self", self, "state",
				   state, "eligible", s->eligible[index], "why_not",
				   s->why_not[index] ? json_string(s->why_not[index]) : json_null());

	json_object_set_new(member, "address", m->service_count ? control_address(&m->service[0]) : json_null());
	json_object_set_new(member, "addresses", addresses_json(m));
	json_object_set_new(member, "cluster_address",
			    control_address(addr_is_zero(&m->cluster_v4) ? &m->cluster_v6 : &m->cluster_v4));
	json_object_set_new(member, "weight", weight_json(m, load));
	json_object_set_new(member, "load", node && (self || known) ? control_real(node->load) : json_null());
	put_announced(member, s, load);
	json_object_set_new(member, "sent_since", control_count(node, node ? node->sent : 0));
	json_object_set_new(member, "form_v4", form_json(s, index, self, false));
	json_object_set_new(member, "form_v6", form_json(s, index, self, true));
	json_object_set_new(member, "answers_v4", answers_json(s, index, self, false));
	json_object_set_new(member, "answers_v6", answers_json(s, index, self, true));
	json_object_set_new(member, "arrives_v4", arrives_json(s, index, self, false));
	json_object_set_new(member, "arrives_v6", arrives_json(s, index, self, true));
	json_object_set_new(member, "tunnel_mtu_v4", control_count(!self && mtu[0], mtu[0]));
	json_object_set_new(member, "tunnel_mtu_v6", control_count(!self && mtu[1], mtu[1]));
	json_object_set_new(member, "forwarded_v4", control_count(!self, s->forwarded[index][0]));
	json_object_set_new(member, "forwarded_v6", control_count(!self, s->forwarded[index][1]));
	json_object_set_new(member, "config_hash", hash_json(load ? load->service_hash : 0));
	json_object_set_new(member, "period_ms", control_count(load && load->period_ms, load ? load->period_ms : 0));
	json_object_set_new(member, "rejected", rejection_json(load ? load->rejected : REJECTION_NONE));
	json_object_set_new(member, "rejects", rejection_json(load ? load->rejects : REJECTION_NONE));
	json_object_set_new(member, "ports_down", ports_down_json(&s->table, load));
	return member;
}

static json_t *members_json(const struct config *config, const struct control_snapshot *s)
{
	json_t *members = json_array();
	unsigned i;

	for (i = 0; i < config->member_count; i++)
		json_array_append_new(members, member_json(config, s, i));
	return members;
}

/* null: not known, because loadcast does not run. */
static json_t *loadcast_has_file_json(const struct config *config, const struct control_snapshot *s)
{
	if (!control_table_fresh(config, s))
		return json_null();
	return json_boolean(s->table.file_hash == config->file_hash);
}

/* For a comparison of the nodes' clocks. */
static double wall_clock_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static json_t *head_json(const struct dprd *d, const struct control_snapshot *s)
{
	const struct config *config = &d->config;
	json_t *head = json_pack("{s:s, s:o, s:o, s:s, s:I, s:f, s:s, s:s, s:b, s:s}", "schema", "dprd.status/1",
				 "node", control_text(config->node_name), "cluster", control_text(config->cluster_name),
				 "version", dprd_version, "pid", (json_int_t)getpid(), "uptime_seconds",
				 (double)(s->now_ms - d->started_ms) / 1000, "datapath", plane_name(d), "policy",
				 s->policy ? s->policy->name : "?", "policy_threshold",
				 s->policy && s->policy->threshold, "load_metric", config_metric_names[config->metric]);
	json_t *ports = json_array();
	unsigned i;

	for (i = 0; i < config->port_count; i++)
		json_array_append_new(ports, json_integer(config->port[i]));
	json_object_set_new(head, "ports", ports);
	json_object_set_new(head, "state", json_string(control_own_state(config, s)));
	json_object_set_new(head, "minority", json_boolean(s->minority));
	json_object_set_new(head, "own_load", control_real(s->own_load));
	json_object_set_new(head, "max_load", control_real(s->max_load));
	json_object_set_new(head, "max_load_auto", json_boolean(config->max_load_auto));
	json_object_set_new(head, "min_advantage", control_real(config->min_advantage));
	json_object_set_new(head, "announce_period_ms", json_integer(config->period_ms));
	json_object_set_new(head, "config_hash", hash_json(config_service_hash(config)));
	json_object_set_new(head, "clock_seconds", json_real(wall_clock_s()));
	json_object_set_new(head, "table_age_ms", control_count(s->table_valid, control_table_age_ms(s)));
	json_object_set_new(head, "table_valid", json_boolean(s->table_valid));
	json_object_set_new(head, "table_fresh", json_boolean(control_table_fresh(config, s)));
	json_object_set_new(head, "loadcast_has_file", loadcast_has_file_json(config, s));
	json_object_set_new(head, "datapath_why", control_text(plane_why(d)));
	json_object_set_new(head, "decided_by", json_string(s->programs_decide ? "programs" : "dprd"));
	json_object_set_new(head, "decided_why", s->decided_why ? json_string(s->decided_why) : json_null());
	json_object_set_new(head, "announcements_rejected", control_count(s->table_valid, s->table.rejected));
	return head;
}

json_t *control_status(struct dprd *d, const struct control_query *query)
{
	const struct control_recent *recent = query->recent;
	static struct control_snapshot s; /* too large for a stack; main thread only */
	struct control_totals totals;
	json_t *status;

	control_take_snapshot(d, &s);
	totals = control_sum(&s.counters);
	status = head_json(d, &s);
	json_object_set_new(status, "decisions", decisions_json(&s.counters));
	json_object_set_new(status, "counters", counters_json(&s.counters));
	json_object_set_new(status, "totals", totals_json(&totals));
	json_object_set_new(status, "law_holds", json_boolean(totals.law_holds));
	json_object_set_new(status, "flows",
			    json_pack("{s:I, s:I, s:I, s:I, s:I}", "half_open", (json_int_t)s.flows.half_open,
				      "confirmed", (json_int_t)s.flows.confirmed, "closing",
				      (json_int_t)s.flows.closing, "max_half_open",
				      (json_int_t)d->flow_limits.max_half_open, "max_confirmed",
				      (json_int_t)d->flow_limits.max_confirmed));
	json_object_set_new(status, "decision_times", decision_times_json(&s.decision_times));
	json_object_set_new(status, "arrivals_per_second", control_real(s.arrivals_per_1000_s / 1000.0));
	json_object_set_new(status, "queue_overruns_recent", json_integer((json_int_t)recent->overruns));
	json_object_set_new(status, "strangers_dropped",
			    control_count(recent->strangers >= 0, (uint64_t)recent->strangers));
	json_object_set_new(status, "served_undecided",
			    control_count(recent->undecided >= 0, (uint64_t)recent->undecided));
	json_object_set_new(status, "shared", control_status_shared(d));
	json_object_set_new(status, "backends", control_status_backends(&d->config, &s));
	json_object_set_new(status, "members", members_json(&d->config, &s));
	json_object_set_new(status, "warnings", control_warnings(d, &s, recent));
	json_object_set_new(status, "notes", control_notes(d, &s));
	return status;
}

json_t *control_peers(struct dprd *d, const struct control_query *query)
{
	static struct control_snapshot s; /* too large for a stack; main thread only */

	(void)query;
	control_take_snapshot(d, &s);
	return json_pack("{s:s, s:o, s:o, s:o}", "schema", "dprd.peers/1", "node", control_text(d->config.node_name),
			 "members", members_json(&d->config, &s), "notes", control_notes(d, &s));
}
