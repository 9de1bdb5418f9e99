// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * dprctl/files.c - when dprd does not answer, its status file and loadcast's load table still tell
 * which members were heard, and when.
 */
#include "dprd/dprctl/dprctl.h"

#include <errno.h>
#include <string.h>

#include "dprd/base/status.h"
#include "loadcast/load.h"

static uint64_t since_ms(uint64_t now_ms, uint64_t at_ms)
{
	return now_ms > at_ms ? now_ms - at_ms : 0;
}

static void warn(json_t *status, const char *text, const char *advice)
{
	json_array_append_new(json_object_get(status, "warnings"),
			      json_pack("{s:s, s:s}", "text", text, "advice", advice));
}

static const char rights_advice[] = "Run dprctl as root, or as a member of the group dprd";

static void explain(json_t *status, const struct dprctl *c, int error)
{
	char text[PATH_BYTES + 100];

	switch (error) {
	case -ENOENT:
	case -ECONNREFUSED:
		snprintf(text, sizeof(text),
			 "dprd does not run: no program listens on %s/control; this node serves all connections",
			 c->run_dir);
		warn(status, text, "systemctl start dprd; its log: journalctl -u dprd");
		break;
	case -ETIMEDOUT:
		snprintf(text, sizeof(text), "dprd has not answered for %d s: it is frozen or very busy",
			 DPRCTL_ANSWER_MS / 1000);
		warn(status, text, "systemctl restart dprd; its log: journalctl -u dprd");
		break;
	case -EACCES:
		snprintf(text, sizeof(text), "no permission to use %s/control", c->run_dir);
		warn(status, text, rights_advice);
		break;
	default:
		snprintf(text, sizeof(text), "%s/control: %s", c->run_dir,
			 error == -EPROTO ? "the answer does not come from dprd" : strerror(-error));
		warn(status, text, "systemctl status dprd");
	}
}

/* The entry of one member. */
static const struct node_load *node_of(const struct load_table *table, uint32_t id)
{
	uint32_t i;

	for (i = 0; table && i < table->count; i++) {
		if (table->nodes[i].id == id && !(table->nodes[i].flags & NODE_BACKEND))
			return &table->nodes[i];
	}
	return NULL;
}

static void add_sample(json_t *made, const struct load_sample *s)
{
	json_object_set_new(made, "open_connections", json_integer(s->open_connections));
	json_object_set_new(made, "cpu_ratio", json_real(s->cpu_permille / 1000.0));
	json_object_set_new(made, "redirected", json_integer(s->redirected));
	json_object_set_new(made, "active_sockets", json_integer(s->active_sockets));
	json_object_set_new(made, "accept_queue", json_integer(s->accept_queue));
	json_object_set_new(made, "arrivals_per_second", json_real(s->arrivals_per_1000_s / 1000.0));
}

static json_t *member_json(const struct config *config, unsigned index, const struct load_table *table, uint64_t now_ms)
{
	static const char *const states[NODE_STATES] = { "active", "draining", "unhealthy" };
	const struct member *m = &config->member[index];
	const struct node_load *load = node_of(table, m->id);
	bool known = load && load->age_ms != LOAD_AGE_NEVER_MS && load->state < NODE_STATES, heard, self;
	uint32_t age_ms = known ? load_age_ms(table, load, now_ms) : 0;
	char address[ADDR_TEXT_BYTES] = "?";
	json_t *made;

	self = index == config->self;
	heard = known && load->flags & NODE_HEARD && age_ms <= config->dead_periods * config->period_ms;
	if (m->service_count)
		addr_format(&m->service[0], address);
	/* Only dprd knows whether the member may get connections. */
	made = json_pack("{s:s, s:b, s:s, s:b, s:s, s:s, s:i}", "name", m->name, "self", self, "state",
			 known ? states[load->state] : "unknown", "eligible", 0, "why_not",
			 self    ? "dprd does not answer"
			 : heard ? "heard"
			 : known ? "not heard"
				 : "never heard",
			 "address", address, "weight", (int)m->weight);
	json_object_set_new(made, "age_ms", known ? json_integer(age_ms) : json_null());
	if (known)
		add_sample(made, &load->sample);
	if (known && load->version[0])
		json_object_set_new(made, "version", json_string(load->version));
	return made;
}

static void add_table(json_t *status, const struct dprctl *c, uint64_t now_ms)
{
	static struct load_table table; /* too large for a stack */
	int error = load_table_snapshot(c->table_file, &table);
	char text[PATH_BYTES + 100];
	json_t *members = json_array();
	unsigned i;

	json_object_set_new(status, "table_file", json_string(c->table_file));
	json_object_set_new(status, "table_valid", json_boolean(!error));
	json_object_set_new(status, "table_age_ms",
			    error ? json_null() : json_integer((json_int_t)since_ms(now_ms, table.published_ms)));
	for (i = 0; c->config && i < c->config->member_count; i++)
		json_array_append_new(members, member_json(c->config, i, error ? NULL : &table, now_ms));
	json_object_set_new(status, "members", members);
	if (error == -ENOENT) {
		snprintf(text, sizeof(text), "there is no load table %s: loadcast does not run, or never did",
			 c->table_file);
		warn(status, text, "systemctl status loadcast");
	} else if (error == -EACCES || error == -EPERM) {
		snprintf(text, sizeof(text), "no permission to read %s", c->table_file);
		warn(status, text, rights_advice);
	} else if (error) {
		snprintf(text, sizeof(text), "%s: %s", c->table_file,
			 error == -EINVAL ? "no load table" : strerror(-error));
		warn(status, text, "systemctl restart loadcast");
	} else if (c->config && since_ms(now_ms, table.published_ms) > c->config->dead_periods * c->config->period_ms) {
		snprintf(text, sizeof(text), "loadcast has not written %s for %.1f s", c->table_file,
			 (double)since_ms(now_ms, table.published_ms) / 1000);
		warn(status, text, "systemctl status loadcast");
	}
}

static void add_facts(json_t *status, const struct dprctl *c, uint64_t now_ms)
{
	struct dprd_status facts;
	char path[PATH_BYTES + 16];
	int error;

	snprintf(path, sizeof(path), "%s/status", c->run_dir);
	error = status_read(path, &facts);
	json_object_set_new(status, "status_file", json_string(path));
	json_object_set_new(status, "status_fault",
			    error && error != -ENOENT ? json_string(strerror(-error)) : json_null());
	json_object_set_new(status, "status_age_ms",
			    error ? json_null() : json_integer((json_int_t)since_ms(now_ms, facts.written_ms)));
	json_object_set_new(status, "pid", error ? json_null() : json_integer(facts.pid));
	json_object_set_new(status, "redirected", error ? json_null() : json_integer(facts.redirected));
}

json_t *files_status(const struct dprctl *c, int error, uint64_t now_ms)
{
	json_t *status = json_pack("{s:s, s:s, s:b, s:s, s:[]}", "schema", "dprd.files/1", "node",
				   c->config ? c->config->node_name : "?", "answers", 0, "state",
				   error == -ETIMEDOUT                          ? "frozen"
				   : error == -ENOENT || error == -ECONNREFUSED ? "down"
										: "unknown",
				   "warnings");

	explain(status, c, error);
	add_facts(status, c, now_ms);
	add_table(status, c, now_ms);
	return status;
}

void render_files(FILE *out, const json_t *status, const struct style *style)
{
	char age[CELL_BYTES], pid[CELL_BYTES], flows[CELL_BYTES];
	double known;

	fprintf(out, "* %s   dprd does not answer; the files say:\n", text_of(status, "node"));
	if (number_of(status, "status_age_ms", &known))
		fprintf(out, "  dprd             process %s last wrote %s ago; it forwarded %s connections\n",
			cell_number(pid, status, "pid", 0), cell_age(age, status, "status_age_ms"),
			cell_number(flows, status, "redirected", 0));
	else if (json_is_string(json_object_get(status, "status_fault")))
		fprintf(out, "  dprd             cannot read %s: %s\n", text_of(status, "status_file"),
			text_of(status, "status_fault"));
	else
		fprintf(out, "  dprd             no %s: it was stopped, or never ran\n",
			text_of(status, "status_file"));
	if (number_of(status, "table_age_ms", &known))
		fprintf(out, "  loadcast         wrote %s %s ago\n", text_of(status, "table_file"),
			cell_age(age, status, "table_age_ms"));
	fputc('\n', out);
	if (json_array_size(json_object_get(status, "members"))) {
		render_members(out, json_object_get(status, "members"), style);
		fputc('\n', out);
	}
	render_warnings(out, status, style);
}
