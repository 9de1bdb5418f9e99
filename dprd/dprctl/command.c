// SPDX-License-Identifier: GPL-2.0-or-later
/* dprctl/command.c - the commands: each asks dprd, shows the answer, and returns the exit status. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "dprd/base/clock.h"
#include "dprd/base/version.h"
#include "dprd/dprctl/dprctl.h"

enum { FLOWS_DEFAULT = 1000, FLOWS_LIMIT_MAX = 1000000, KEY_BYTES = 32 };

static struct style style_of(const struct dprctl *c)
{
	const char *no_colour = getenv("NO_COLOR");

	return (struct style) { .colour = isatty(STDOUT_FILENO) && !(no_colour && *no_colour),
				.no_heading = c->no_heading };
}

bool dprctl_is_meant(const struct dprctl *c)
{
	json_t *answer = NULL;
	const char *node;
	bool meant = true;

	/* Without an answer, the command itself prints the reason. */
	if (c->node_name &&
	    !dprctl_ask_one(c->run_dir, json_pack("{s:s}", "command", "status"), c->answer_ms, &answer)) {
		node = json_string_value(json_object_get(answer, "node"));
		meant = !node || strcmp(node, c->node_name) == 0;
		if (!meant)
			fprintf(stderr, "dprctl: the dprd of this host is %s, not %s: run dprctl on %s\n", node,
				c->node_name, c->node_name);
	}
	json_decref(answer);
	return meant;
}

static json_t *command_request(const char *command)
{
	return json_pack("{s:s}", "command", command);
}

static int status_from_files(const struct dprctl *c, int error)
{
	json_t *status = files_status(c, error, clock_now_ms());
	struct style style = style_of(c);

	if (c->json)
		dprctl_print_json(status);
	else
		render_files(stdout, status, &style);
	json_decref(status);
	return DPRCTL_FAILED;
}

int command_status(struct dprctl *c, char **arguments)
{
	struct style style = style_of(c);
	json_t *status;
	int error = dprctl_ask_one(c->run_dir, command_request("status"), c->answer_ms, &status), result;

	(void)arguments;
	if (error || json_object_get(status, "error")) {
		json_decref(status);
		return status_from_files(c, error ? error : -EPROTO);
	}
	if (c->json)
		dprctl_print_json(status);
	else
		render_status(stdout, status, &style);
	result = count_warnings(status) ? DPRCTL_DEGRADED : DPRCTL_OK;
	json_decref(status);
	return result;
}

int command_peers(struct dprctl *c, char **arguments)
{
	struct style style = style_of(c);
	json_t *answer = dprctl_answer(c, command_request("peers"));
	const json_t *members = json_object_get(answer, "members"), *member;
	int result = DPRCTL_OK;
	size_t i;

	(void)arguments;
	if (!answer)
		return DPRCTL_FAILED;
	json_array_foreach(members, i, member)
	{
		if (!flag_of(member, "eligible"))
			result = DPRCTL_DEGRADED;
	}
	if (c->json)
		dprctl_print_json(answer);
	else if (c->dump)
		render_peers_dump(stdout, members);
	else {
		render_peers(stdout, members, &style);
		render_notes(stdout, answer, &style);
	}
	json_decref(answer);
	return result;
}

int command_backends(struct dprctl *c, char **arguments)
{
	struct style style = style_of(c);
	json_t *answer = dprctl_answer(c, command_request("backends"));
	double count, usable;
	bool all;

	(void)arguments;
	if (!answer)
		return DPRCTL_FAILED;
	all = number_of(answer, "count", &count) && number_of(answer, "usable", &usable) && count > 0 &&
	      usable >= count;
	if (c->json)
		dprctl_print_json(answer);
	else
		render_backends(stdout, answer, &style);
	json_decref(answer);
	return all ? DPRCTL_OK : DPRCTL_DEGRADED;
}

struct flows_output {
	const struct dprctl *c;
	bool failed, begun; /* begun: the heading is there */
};

/* A refusal has no heading. */
static void begin_flows(struct flows_output *output)
{
	if (!output->begun && !output->c->json && !output->c->no_heading)
		render_flow_heading(stdout);
	output->begun = true;
}

static bool show_flow(void *context, const json_t *line)
{
	struct flows_output *output = context;
	const char *refusal = json_string_value(json_object_get(line, "error"));

	if (refusal) {
		fprintf(stderr, "dprctl: %s\n", refusal);
		output->failed = true;
		return false;
	}
	begin_flows(output);
	if (output->c->json) {
		json_dumpf(line, stdout, JSON_COMPACT);
		putchar('\n');
	} else if (!json_object_get(line, "schema")) {
		render_flow(stdout, line);
	} else if (!output->c->no_heading) {
		render_flows_end(stdout, line);
	}
	return !ferror(stdout);
}

/* Makes the request from the options; NULL after a line that says which option is wrong. */
static json_t *flows_request(const struct dprctl *c)
{
	json_t *request = command_request("flows");
	unsigned long limit = FLOWS_DEFAULT;
	struct endpoint client;

	if (c->limit && !parse_count(c->limit, FLOWS_LIMIT_MAX, &limit)) {
		fprintf(stderr, "dprctl: --limit is a number from 0 to %d, not %s\n", FLOWS_LIMIT_MAX, c->limit);
		json_decref(request);
		return NULL;
	}
	if (c->client && !parse_endpoint(c->client, true, &client)) {
		fprintf(stderr, "dprctl: %s is not a client: say 203.0.113.7, 203.0.113.0/24 or [2001:db8::7]:50122\n",
			c->client);
		json_decref(request);
		return NULL;
	}
	if (limit)
		json_object_set_new(request, "limit", json_integer((json_int_t)limit));
	if (c->to)
		json_object_set_new(request, "node", json_string(c->to));
	if (c->state)
		json_object_set_new(request, "state", json_string(c->state));
	if (c->client) {
		json_object_set_new(request, "client", json_string(client.client));
		if (client.port)
			json_object_set_new(request, "port", json_integer(client.port));
	}
	return request;
}

int command_flows(struct dprctl *c, char **arguments)
{
	struct flows_output output = { .c = c };
	json_t *request = flows_request(c), *why;
	int error;

	(void)arguments;
	if (!request)
		return DPRCTL_FAILED;
	error = dprctl_ask(c->run_dir, request, c->answer_ms, show_flow, &output);
	if (error) {
		why = files_status(c, error, clock_now_ms());
		fprintf(stderr, "dprctl: %s\n", text_of(json_array_get(json_object_get(why, "warnings"), 0), "text"));
		json_decref(why);
	}
	return error || output.failed ? DPRCTL_FAILED : DPRCTL_OK;
}

int command_why(struct dprctl *c, char **arguments)
{
	struct endpoint client;
	struct timespec now;
	json_t *request, *answer;
	unsigned shown;

	if (!parse_endpoint(arguments[0], false, &client)) {
		fprintf(stderr, "dprctl: %s is not a client: say 203.0.113.7:50122 or [2001:db8::7]:50122\n",
			arguments[0]);
		return DPRCTL_FAILED;
	}
	request = json_pack("{s:s, s:s, s:i}", "command", "why", "client", client.client, "port", (int)client.port);
	if (!c->all)
		json_object_set_new(request, "limit", json_integer(1));
	answer = dprctl_answer(c, request);
	if (!answer)
		return DPRCTL_FAILED;
	clock_gettime(CLOCK_REALTIME, &now);
	shown = (unsigned)json_array_size(json_object_get(answer, "decisions"));
	if (c->json)
		dprctl_print_json(answer);
	else if (!shown)
		printf("no decision about %s: it is not among the last 4096 new connections of %s\n", arguments[0],
		       text_of(answer, "node"));
	else
		render_why(stdout, answer, (double)now.tv_sec + (double)now.tv_nsec / 1e9);
	if (!c->json && flag_of(answer, "more"))
		printf("there are older decisions%s\n", c->all ? "" : ": dprctl why --all");
	json_decref(answer);
	return shown ? DPRCTL_OK : DPRCTL_DEGRADED;
}

/* The change is in effect; a note says what a restart will not know of it. */
static int result_of_change(const json_t *answer)
{
	const char *note = text_of(answer, "note");

	/* dprd of a version that has no notes */
	if (!json_is_string(json_object_get(answer, "note")) || !*note)
		return DPRCTL_OK;
	fprintf(stderr, "dprctl: %s\n", note);
	return DPRCTL_DEGRADED;
}

int command_drain(struct dprctl *c, char **arguments)
{
	json_t *answer = dprctl_answer(c, command_request("drain"));
	char cell[CELL_BYTES];
	int result, drained;

	(void)arguments;
	if (!answer)
		return DPRCTL_FAILED;
	result = result_of_change(answer);
	if (c->json && !c->wait)
		dprctl_print_json(answer);
	else if (!c->wait)
		printf("%s drains; %s forwarded flows go on\n", text_of(answer, "node"),
		       cell_grouped(cell, answer, "flows"));
	json_decref(answer);
	if (!c->wait)
		return result;
	drained = drain_and_wait(c);
	return drained == DPRCTL_OK ? result : drained;
}

int command_undrain(struct dprctl *c, char **arguments)
{
	json_t *answer = dprctl_answer(c, command_request("undrain"));
	int result;

	(void)arguments;
	if (!answer)
		return DPRCTL_FAILED;
	if (c->json)
		dprctl_print_json(answer);
	else
		printf("%s no longer drains\n", text_of(answer, "node"));
	result = result_of_change(answer);
	json_decref(answer);
	return result;
}

int command_reload(struct dprctl *c, char **arguments)
{
	(void)arguments;
	return dprctl_reload(c);
}

int command_member(struct dprctl *c, char **arguments)
{
	struct member_change change;
	bool same;

	if (!member_parse(c, arguments, &change))
		return DPRCTL_FAILED;
	return c->all ? member_everywhere(c, &change, arguments) : member_here(c, &change, c->dry_run, &same);
}

int command_cluster(struct dprctl *c, char **arguments)
{
	struct style style = style_of(c);
	bool own, agree;
	const struct config *config = dprctl_read_members(c, &own);
	json_t *cluster;

	(void)arguments;
	if (!config) {
		fprintf(stderr,
			"dprctl: %s has no members that can be asked; see all errors with dprd --check-config\n",
			c->config_path ? c->config_path : CONFIG_PATH_DEFAULT);
		return DPRCTL_FAILED;
	}
	c->run_dir = config->run_dir;
	c->table_file = config->table_file;
	cluster = ask_all(c, config, own);
	agree = cluster_judge(cluster);
	if (c->json)
		dprctl_print_json(cluster);
	else
		render_views(stdout, cluster, &style);
	json_decref(cluster);
	return agree ? DPRCTL_OK : DPRCTL_DEGRADED;
}

int command_config(struct dprctl *c, char **arguments)
{
	json_t *answer = dprctl_answer(c, command_request("config"));

	(void)arguments;
	if (!answer)
		return DPRCTL_FAILED;
	if (c->json)
		dprctl_print_json(answer);
	else
		fputs(text_of(answer, "text"), stdout);
	json_decref(answer);
	return DPRCTL_OK;
}

int command_metrics(struct dprctl *c, char **arguments)
{
	json_t *answer = dprctl_answer(c, command_request("status"));

	(void)arguments;
	/* A collector keeps the last values, so it must be told that dprd is away. */
	if (!answer) {
		render_up(stdout, false);
		return DPRCTL_FAILED;
	}
	render_metrics(stdout, answer);
	json_decref(answer);
	return DPRCTL_OK;
}

int command_zone(struct dprctl *c, char **arguments)
{
	enum zone_format format = ZONE_BIND;
	json_t *answer;
	const char *name;
	int result = DPRCTL_OK;

	while (c->format && format < ZONE_FORMATS && strcmp(zone_format_names[format], c->format) != 0)
		format++;
	if (format == ZONE_FORMATS) {
		fprintf(stderr, "dprctl: --format is bind, dnsmasq, hosts or json, not %s\n", c->format);
		return DPRCTL_FAILED;
	}
	if (arguments[0] && !zone_is_name(arguments[0])) {
		fprintf(stderr, "dprctl: %s is not a name: say www, www.example.org. or @\n", arguments[0]);
		return DPRCTL_FAILED;
	}
	/* Without an answer there is no output, so that the former records stay. */
	answer = dprctl_answer(c, command_request("status"));
	if (!answer)
		return DPRCTL_FAILED;
	name = arguments[0] ? arguments[0] : text_of(answer, "cluster");
	render_zone(stdout, answer, name, format);
	if (zone_all_because(answer)) {
		fprintf(stderr, "dprctl: %s: all members are listed\n", zone_all_because(answer));
		result = DPRCTL_DEGRADED;
	}
	json_decref(answer);
	return result;
}

int command_genkey(struct dprctl *c, char **arguments)
{
	unsigned char key[KEY_BYTES];
	unsigned i;

	(void)c;
	(void)arguments;
	if (getrandom(key, sizeof(key), 0) != (ssize_t)sizeof(key)) {
		perror("dprctl: getrandom");
		return DPRCTL_FAILED;
	}
	for (i = 0; i < sizeof(key); i++)
		printf("%02x", key[i]);
	putchar('\n');
	return DPRCTL_OK;
}

int command_version(struct dprctl *c, char **arguments)
{
	(void)c;
	(void)arguments;
	printf("dprctl %s\n", dprd_version);
	return DPRCTL_OK;
}

int command_help(struct dprctl *c, char **arguments)
{
	(void)c;
	(void)arguments;
	dprctl_help(stdout);
	return DPRCTL_OK;
}
