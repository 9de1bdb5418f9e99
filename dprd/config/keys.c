// SPDX-License-Identifier: GPL-2.0-or-later
/* config/keys.c - every section and key of dprd.conf with its range and default, and look-ups in them. */
#include "dprd/config/reading.h"

/* clang-format off */
const char *const config_section_names[SECTIONS] = {
	[SECTION_NONE] = "",
	[SECTION_BAD] = "",
	[SECTION_CLUSTER] = "Cluster",
	[SECTION_NODE] = "Node",
	[SECTION_SERVICE] = "Service",
	[SECTION_SHARED] = "Shared",
	[SECTION_BALANCE] = "Balance",
	[SECTION_BACKENDS] = "Backends",
	[SECTION_FLOWS] = "Flows",
	[SECTION_QUEUE] = "Queue",
	[SECTION_DATAPATH] = "Datapath",
	[SECTION_ANNOUNCE] = "Announce",
	[SECTION_HEALTH] = "Health",
	[SECTION_ALIAS] = "Alias",
	[SECTION_RUN] = "Run",
	[SECTION_NETWORK] = "Network",
	[SECTION_MEMBER] = "Member",
	[SECTION_BACKEND] = "Backend",
};

/* The code of policies is in dprd/core/policy/. Their names are here as well, because loadcast reads the same file. */
const char *const config_policy_names[] = {
	"li", "local", "random", "least", "inverse", "p2c", "rr", "wrr", "lc", "wlc", NULL,
};
/* The names of Linux Virtual Server. A real server announces no load: only its connections are known. */
const char *const config_backend_policy_names[] = { "wlc", "lc", "wrr", "rr", NULL };
const char *const config_backend_form_names[] = { "nat", "direct", "tunnel", NULL };
const char *const config_metric_names[] = { "connections", "cpu", "redirected", "sockets", "weighted", NULL };
const char *const config_plane_names[] = { "auto", "bpf", "nfqueue", NULL };
const char *const config_decide_names[] = { "auto", "queue", "kernel", NULL };
const char *const config_datapath_form_names[] = { "auto", "tunnel", "direct", NULL };
const char *const config_form_names[] = { "auto", "module", "bpf", NULL };
const char *const config_check_names[] = { "none", "tcp", "http", "auto", "https", "command", NULL };

#define MS 1.0
#define SECOND (1000 * MS)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)

#define OF(struct_, section_, name_, type_, field_, ...) \
	{ .section = SECTION_##section_, .name = name_, .type = &config_type_##type_, \
	  .offset = offsetof(struct struct_, field_), __VA_ARGS__ }
#define KEY(...) OF(config, __VA_ARGS__)
/* The type of a value with several fields gets the whole struct. */
#define WHOLE(section_, name_, type_, ...) \
	{ .section = SECTION_##section_, .name = name_, .type = &config_type_##type_, __VA_ARGS__ }
#define RANGE(low_, high_) .low = (low_), .high = (high_)
#define DEFAULT(text_) .fallback = (text_)
#define REPEATABLE .repeatable = true
/* A change of the key needs a restart of dprd. The second form is for a key with the fields first_ to last_. */
#define END_OF(field_) (offsetof(struct config, field_) + sizeof(((struct config *)0)->field_))
#define RESTART(field_) RESTART_ALL(field_, field_)
#define RESTART_ALL(first_, last_) \
	.kept_at = offsetof(struct config, first_), .kept_bytes = END_OF(last_) - offsetof(struct config, first_)

const struct config_key config_keys[] = {
	KEY(CLUSTER, "Name", name, cluster_name, .fallback = NULL),
	KEY(CLUSTER, "KeyFile", path, key_file, DEFAULT("/etc/dprd/cluster.key")),
	KEY(CLUSTER, "KeyFileNext", optional_path, key_file_next, DEFAULT("")),

	KEY(NODE, "Name", name, node_name, .fallback = NULL),

	WHOLE(SERVICE, "Port", ports, RANGE(1, 65535), DEFAULT("80"), REPEATABLE),

	WHOLE(SHARED, "Address", shared, REPEATABLE, RESTART_ALL(shared_count, shared)),
	KEY(SHARED, "Interface", interface, shared_interface, DEFAULT(""), RESTART(shared_interface)),
	WHOLE(SHARED, "Mac", mac, DEFAULT(""), RESTART_ALL(shared_mac, shared_mac_set)),
	KEY(SHARED, "Form", choice, shared_form, DEFAULT("auto"), .choices = config_form_names, RESTART(shared_form)),
	KEY(SHARED, "Rebalance", flag, shared_rebalance, DEFAULT("no")),
	KEY(SHARED, "Quorum", flag, shared_quorum, DEFAULT("no")),

	KEY(BALANCE, "Policy", policy, policy, DEFAULT("li"), .choices = config_policy_names),
	KEY(BALANCE, "Load", choice, metric, DEFAULT("connections"), .choices = config_metric_names),
	WHOLE(BALANCE, "LoadWeights", weights, RANGE(0, 1e6)),
	WHOLE(BALANCE, "MaxLoad", max_load, RANGE(0, 1e9), DEFAULT("auto")),
	KEY(BALANCE, "MinAdvantage", number, min_advantage, RANGE(0, 1e9), DEFAULT("0")),
	KEY(BALANCE, "SecondLook", flag, second_look, DEFAULT("yes")),
	KEY(BALANCE, "SlowStart", time, slow_start_ms, RANGE(0, 1 * HOUR), DEFAULT("10s")),

	KEY(BACKENDS, "Policy", policy, backend_policy, DEFAULT("wlc"), .choices = config_backend_policy_names),
	KEY(BACKENDS, "ServeHere", flag, serve_here, DEFAULT("yes")),

	KEY(FLOWS, "MaxFlows", count, max_flows, RANGE(1024, 4194304), DEFAULT("262144"), RESTART(max_flows)),
	KEY(FLOWS, "MaxHalfOpen", count, max_half_open, RANGE(64, 262144), DEFAULT("16384"), RESTART(max_half_open)),
	KEY(FLOWS, "MaxNewFlowsPerSecond", count, max_new_flows_per_s, RANGE(1, NEW_FLOWS_UNGUARDED), DEFAULT("50000")),
	KEY(FLOWS, "IdleTimeout", time, idle_timeout_ms, RANGE(100 * MS, 168 * HOUR), DEFAULT("8000s")),
	KEY(FLOWS, "SynTimeout", time, syn_timeout_ms, RANGE(100 * MS, 1 * HOUR), DEFAULT("60s")),
	KEY(FLOWS, "FinTimeout", time, fin_timeout_ms, RANGE(100 * MS, 1 * HOUR), DEFAULT("120s")),
	KEY(FLOWS, "RstTimeout", time, rst_timeout_ms, RANGE(100 * MS, 1 * HOUR), DEFAULT("10s")),
	KEY(FLOWS, "DeadPeerTimeout", time, dead_peer_timeout_ms, RANGE(100 * MS, 24 * HOUR), DEFAULT("30s")),

	KEY(QUEUE, "First", count, queue_first, RANGE(0, 65000), DEFAULT("8000"), RESTART(queue_first)),
	KEY(QUEUE, "Length", count, queue_length, RANGE(16, 4096), DEFAULT("1024"), RESTART(queue_length)),
	KEY(QUEUE, "Workers", workers, workers, RANGE(1, 16), DEFAULT("auto"), RESTART(workers)),

	KEY(DATAPATH, "Plane", choice, plane, DEFAULT("auto"), .choices = config_plane_names, RESTART(plane)),
	KEY(DATAPATH, "Decide", choice, decide_in, DEFAULT("auto"), .choices = config_decide_names, RESTART(decide_in)),
	KEY(DATAPATH, "Form", choice, form, DEFAULT("auto"), .choices = config_datapath_form_names),
	WHOLE(DATAPATH, "Interfaces", interfaces, DEFAULT(""), REPEATABLE),
	KEY(DATAPATH, "Pins", path, pin_dir, DEFAULT("/sys/fs/bpf/dprd"), RESTART(pin_dir)),

	KEY(ANNOUNCE, "Multicast", flag, multicast, DEFAULT("yes")),
	WHOLE(ANNOUNCE, "Group", group, DEFAULT("239.193.0.80 ff15::dd80"), REPEATABLE),
	KEY(ANNOUNCE, "Interface", interface, interface, DEFAULT("")),
	KEY(ANNOUNCE, "Port", port, announce_port, RANGE(1, 65535), DEFAULT("7980")),
	KEY(ANNOUNCE, "Unicast", flag, unicast, DEFAULT("yes")),
	KEY(ANNOUNCE, "Period", time, period_ms, RANGE(50 * MS, 10 * SECOND), DEFAULT("200ms")),
	KEY(ANNOUNCE, "DeadPeriods", count, dead_periods, RANGE(4, 100), DEFAULT("5")),

	KEY(HEALTH, "Check", choice, health, DEFAULT("auto"), .choices = config_check_names),
	KEY(HEALTH, "Path", url_path, health_path, DEFAULT("/")),
	KEY(HEALTH, "Host", host, health_host, DEFAULT("")),
	KEY(HEALTH, "Port", port, health_port, RANGE(0, 65535), DEFAULT("0")),
	WHOLE(HEALTH, "Status", status, RANGE(100, 599), DEFAULT("200-399")),
	KEY(HEALTH, "Verify", flag, health_verify, DEFAULT("no")),
	KEY(HEALTH, "Command", command, health_command, DEFAULT("")),
	WHOLE(HEALTH, "Agent", agent, DEFAULT("")),
	KEY(HEALTH, "Interval", time, health_interval_ms, RANGE(100 * MS, 1 * HOUR), DEFAULT("1s")),
	KEY(HEALTH, "Timeout", time, health_timeout_ms, RANGE(10 * MS, 1 * MINUTE), DEFAULT("1s")),
	KEY(HEALTH, "Fall", count, health_fall, RANGE(1, 100), DEFAULT("3")),
	KEY(HEALTH, "Rise", count, health_rise, RANGE(1, 100), DEFAULT("2")),

	WHOLE(ALIAS, "Range", range, DEFAULT("198.18.211.0/24 fd64:7072:6400::/112"), REPEATABLE),

	KEY(RUN, "Directory", path, run_dir, DEFAULT("/run/dprd"), RESTART(run_dir)),
	KEY(RUN, "Table", path, table_file, DEFAULT("/run/loadcast/table")),

	OF(network, NETWORK, "Address", address, address, .fallback = NULL),
	OF(network, NETWORK, "Port", port, port, RANGE(1, 65535)),

	WHOLE(MEMBER, "Service", service, REPEATABLE),
	WHOLE(MEMBER, "Cluster", cluster, REPEATABLE),
	OF(member, MEMBER, "Weight", count, weight, RANGE(0, 1000), DEFAULT("1")),

	OF(backend, BACKEND, "Node", backend_node, node, .fallback = NULL),
	OF(backend, BACKEND, "Form", choice, form, DEFAULT("nat"), .choices = config_backend_form_names),
	WHOLE(BACKEND, "Address", backend_address, REPEATABLE),
	OF(backend, BACKEND, "Port", backend_port, port, RANGE(0, 65535), DEFAULT("0")),
	OF(backend, BACKEND, "Weight", count, weight, RANGE(0, 1000), DEFAULT("1")),
};
/* clang-format on */

const unsigned config_key_count = sizeof(config_keys) / sizeof(config_keys[0]);
_Static_assert(sizeof(config_keys) / sizeof(config_keys[0]) <= CONFIG_KEYS_MAX, "parse.seen[] is too small");

bool config_section_is_named(enum config_section section)
{
	return section == SECTION_MEMBER || section == SECTION_NETWORK || section == SECTION_BACKEND;
}

const struct config_key *config_key_find(enum config_section section, const char *name)
{
	for (unsigned i = 0; i < config_key_count; i++)
		if (config_keys[i].section == section && strcmp(config_keys[i].name, name) == 0)
			return &config_keys[i];
	return NULL;
}

unsigned config_key_line(const struct parse *p, enum config_section section, const char *name)
{
	return p->seen[config_key_find(section, name) - config_keys];
}

void config_suggest_section(const char *name, char suggestion[SUGGESTION_BYTES])
{
	const char *list[SECTIONS + 1] = { NULL }, *best;

	for (unsigned s = SECTION_CLUSTER; s < SECTIONS; s++)
		list[s - SECTION_CLUSTER] = config_section_names[s];
	best = config_nearest(list, name);
	suggestion[0] = '\0';
	if (best)
		snprintf(suggestion, SUGGESTION_BYTES, " (did you mean [%s]?)", best);
}

/* " (it belongs in [A], [B] or [C])"; empty when no section has this key. */
static void name_sections(const char *name, char suggestion[SUGGESTION_BYTES])
{
	const char *owner[SECTIONS];
	unsigned count = 0;
	int used;

	for (unsigned i = 0; i < config_key_count; i++)
		if (strcmp(config_keys[i].name, name) == 0)
			owner[count++] = config_section_names[config_keys[i].section];
	suggestion[0] = '\0';
	if (!count)
		return;
	used = snprintf(suggestion, SUGGESTION_BYTES, " (it belongs in ");
	for (unsigned i = 0; i < count && used < SUGGESTION_BYTES; i++)
		used += snprintf(suggestion + used, SUGGESTION_BYTES - (size_t)used, "%s[%s]%s",
				 i == 0 ? "" : (i + 1 == count ? " or " : ", "), owner[i], i + 1 == count ? ")" : "");
}

void config_suggest_key(enum config_section section, const char *name, char suggestion[SUGGESTION_BYTES])
{
	const struct config_key *best = NULL;
	unsigned least = CONFIG_NEAR_LETTERS_MAX;

	name_sections(name, suggestion);
	if (*suggestion)
		return;
	for (unsigned i = 0; i < config_key_count; i++) {
		/* A key of the present section wins a tie with a key of another section. */
		unsigned letters = config_distance(name, config_keys[i].name);
		unsigned cost = 2 * letters + (config_keys[i].section == section ? 0 : 1);

		if (config_is_near(letters, config_keys[i].name) && cost < least) {
			least = cost;
			best = &config_keys[i];
		}
	}
	if (best && best->section == section)
		snprintf(suggestion, SUGGESTION_BYTES, " (did you mean %s?)", best->name);
	else if (best)
		snprintf(suggestion, SUGGESTION_BYTES, " (did you mean %s in [%s]?)", best->name,
			 config_section_names[best->section]);
}
