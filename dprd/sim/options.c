// SPDX-License-Identifier: GPL-2.0-or-later
/* options.c - the command line of dpr-sim, in the order in which the settings depend on each other. */
#define _GNU_SOURCE
#include "dprd/sim/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dprd/sim/values.h"

const char options_usage[] =
	"usage: dpr-sim [options]\n"
	"\n"
	"Simulates a dprd cluster with dprd's own decisions; see dpr-sim(1). In brackets: the default.\n"
	"\n"
	"the cluster\n"
	"  --nodes N               [16] at most 1024\n"
	"  --workers C             [1] of each node's web server\n"
	"  --service fifo|ps       [fifo] connections wait for a worker, or share them\n"
	"  --capacity LIST         [1] speed of the nodes: 1:3, repeated for all nodes\n"
	"  --weight LIST           [as --capacity] Weight= of the nodes\n"
	"the connections\n"
	"  --load X                [0.8] work that arrives / work that all workers can do\n"
	"  --service-mean TIME     [10ms]\n"
	"  --service-law LAW       [exp] exp, det, pareto:ALPHA[:MOST], lognormal:SIGMA\n"
	"  --skew SKEW             [uniform] entry nodes: uniform, zipf:S, or a list like 4:1:1\n"
	"  --hop TIME              [0.2ms] what being forwarded costs a connection\n"
	"  --burst N[@TIME]        N connections that arrive at once and stay open, at a random moment of\n"
	"                          the 6th period or at TIME; --load 0: nothing else arrives\n"
	"  --burst-span TIME       [0] from its first connection to its last one\n"
	"  --burst-entries N       [1] the nodes n1 to nN get them in turn\n"
	"  --hold TIME             [to the end] how long each of them stays open\n"
	"the announcements\n"
	"  --period TIME,...       [200ms] several: one table for each\n"
	"  --jitter SHARE          [50%] of the period, up and down\n"
	"  --delay TIME            [0.2ms] --loss SHARE [0] of announcements\n"
	"  --dead-periods N        [5]\n"
	"  --tick TIME             [0] how often dprd reads its load table (in reality every 50ms)\n"
	"  --tables KIND           [auto] shared, own, or real: loadcast's own table, at most 64 nodes\n"
	"the decision\n"
	"  --policy NAME,...|all   [li]\n"
	"  --max-load auto|X       [auto] --min-advantage X [0]\n"
	"  --second-look yes|no    [yes] a forwarded SYN that comes to a node without room goes back\n"
	"                          once, for a second decision\n"
	"  --suspicion yes|no      [yes] a node whose connections suddenly end much sooner counts as busy\n"
	"  --flows N               [0] MaxFlows= of each node; 0: no limit\n"
	"the run\n"
	"  --connections N         [200000] --seconds TIME: the run ends with the first of both\n"
	"  --warmup SHARE|TIME     [10%] of the run, not in the figures\n"
	"  --kill N@TIME --revive N@TIME   node N dies, comes back; again for more\n"
	"  --restart N@TIME        dprd of node N restarts, and has forgotten its counts\n"
	"  --fail N@TIME           the web server of node N answers with errors from now on, quickly\n"
	"  --fail-times X          [100] it answers X times as fast as before\n"
	"  --seed N                [1] the same seed: the same run\n"
	"  --repeat R              [1] with R seeds from --seed on; shown is the median\n"
	"the results\n"
	"  --json FILE --csv FILE --plot FILE.svg (with gnuplot) --progress\n"
	"  --version --help\n";

/* Values on which others depend come first: the list is read from top to bottom. */
#define OPTIONS(X)                        \
	X(NODES, "nodes")                 \
	X(WORKERS, "workers")             \
	X(SERVICE, "service")             \
	X(CAPACITY, "capacity")           \
	X(WEIGHT, "weight")               \
	X(LOAD, "load")                   \
	X(MEAN, "service-mean")           \
	X(LAW, "service-law")             \
	X(SKEW, "skew")                   \
	X(HOP, "hop")                     \
	X(BURST, "burst")                 \
	X(BURST_SPAN, "burst-span")       \
	X(BURST_ENTRIES, "burst-entries") \
	X(HOLD, "hold")                   \
	X(PERIOD, "period")               \
	X(JITTER, "jitter")               \
	X(DELAY, "delay")                 \
	X(LOSS, "loss")                   \
	X(DEAD, "dead-periods")           \
	X(TICK, "tick")                   \
	X(TABLES, "tables")               \
	X(POLICY, "policy")               \
	X(MAX_LOAD, "max-load")           \
	X(ADVANTAGE, "min-advantage")     \
	X(SECOND, "second-look")          \
	X(SUSPICION, "suspicion")         \
	X(FLOWS, "flows")                 \
	X(CONNECTIONS, "connections")     \
	X(SECONDS, "seconds")             \
	X(WARMUP, "warmup")               \
	X(KILL, "kill")                   \
	X(REVIVE, "revive")               \
	X(RESTART, "restart")             \
	X(FAIL, "fail")                   \
	X(FAIL_TIMES, "fail-times")       \
	X(SEED, "seed")                   \
	X(REPEAT, "repeat")               \
	X(JSON, "json")                   \
	X(CSV, "csv")                     \
	X(PLOT, "plot")                   \
	X(PROGRESS, "progress")           \
	X(VERSION, "version")             \
	X(HELP, "help")

enum option_code {
#define X(name, text) OPTION_##name,
	OPTIONS(X)
#undef X
		OPTION_COUNT,
};

static const char *const names[OPTION_COUNT] = {
#define X(name, text) [OPTION_##name] = (text),
	OPTIONS(X)
#undef X
};

static bool take_unsigned(const char *text, uint64_t low, uint64_t high, unsigned *ret)
{
	uint64_t value;
	bool good = value_count(text, low, high, &value);

	if (good)
		*ret = (unsigned)value;
	return good;
}

static bool take_word(const char *text, const char *const *words, unsigned count, unsigned *ret)
{
	for (*ret = 0; *ret < count; ++*ret)
		if (strcmp(text, words[*ret]) == 0)
			return true;
	return false;
}

static bool take_service(const char *text, struct sim_setup *setup)
{
	static const char *const words[] = { [SIM_FIFO] = "fifo", [SIM_PS] = "ps" };
	unsigned word;
	bool good = take_word(text, words, 2, &word);

	setup->service = word == SIM_PS ? SIM_PS : SIM_FIFO;
	return good;
}

static bool take_tables(const char *text, struct sim_setup *setup)
{
	static const char *const words[] = { "auto", "shared", "own", "real" };
	unsigned word;
	bool good = take_word(text, words, 4, &word);

	setup->tables = good ? (enum sim_tables)word : SIM_TABLES_AUTO;
	return good;
}

static bool take_capacity(const char *text, struct sim_setup *setup)
{
	bool good = value_per_node(text, setup->nodes, setup->capacity);

	memcpy(setup->weight, setup->capacity, sizeof(setup->weight));
	return good;
}

/* Calls one() for each word between commas; false when one of them was not good. */
static bool take_each(const char *text, struct options *o, bool (*one)(const char *word, struct options *o))
{
	char *copy = strdup(text), *rest = copy, *word;
	bool good = copy;

	while (good && (word = strsep(&rest, ",")))
		good = one(word, o);
	free(copy);
	return good;
}

static bool take_period(const char *word, struct options *o)
{
	double *period_s = &o->period_s[o->period_count];

	if (o->period_count == OPTIONS_PERIODS_MAX || !value_time(word, period_s) || *period_s <= 0)
		return false;
	o->period_count++;
	return true;
}

static bool take_policy(const char *word, struct options *o)
{
	const struct policy *policy = policy_find(word);

	if (strcmp(word, "all") == 0) {
		for (const struct policy *const *p = policies; *p; p++)
			if (!take_policy((*p)->name, o))
				return false;
		return true;
	}
	if (!policy || o->policy_count == OPTIONS_POLICIES_MAX)
		return false;
	o->policy[o->policy_count++] = policy;
	return true;
}

static bool take_max_load(const char *text, struct sim_setup *setup)
{
	setup->max_load_auto = strcmp(text, "auto") == 0;
	return setup->max_load_auto || value_number(text, &setup->max_load);
}

static bool take_yes(const char *text, bool *ret)
{
	*ret = strcmp(text, "yes") == 0;
	return *ret || strcmp(text, "no") == 0;
}

/* A share of the run can be computed only after all other options: until then it is a negative number. */
static bool take_warmup(const char *text, struct sim_setup *setup)
{
	if (value_time(text, &setup->warmup_s))
		return true;
	if (!value_share(text, &setup->warmup_s))
		return false;
	setup->warmup_s = -setup->warmup_s;
	return true;
}

static bool take_failure(const char *text, enum sim_fate fate, struct sim_setup *setup)
{
	struct sim_failure failure = { .fate = fate };
	unsigned at = setup->failure_count;

	if (at == SIM_FAILURES_MAX || !value_failure(text, &failure))
		return false;
	for (; at && setup->failure[at - 1].at_s > failure.at_s; at--)
		setup->failure[at] = setup->failure[at - 1];
	setup->failure[at] = failure;
	setup->failure_count++;
	return true;
}

static bool take_kill(const char *word, struct options *o)
{
	return take_failure(word, SIM_DIES, &o->setup);
}

static bool take_revive(const char *word, struct options *o)
{
	return take_failure(word, SIM_REVIVES, &o->setup);
}

static bool take_restart(const char *word, struct options *o)
{
	return take_failure(word, SIM_RESTARTS, &o->setup);
}

static bool take_fail(const char *word, struct options *o)
{
	return take_failure(word, SIM_FAILS, &o->setup);
}

static bool take_burst(struct sim_burst *burst, enum option_code option, const char *text)
{
	switch (option) {
	case OPTION_BURST:
		return value_burst(text, burst);
	case OPTION_BURST_SPAN:
		return value_time(text, &burst->span_s);
	case OPTION_BURST_ENTRIES:
		return take_unsigned(text, 1, SIM_NODES_MAX, &burst->entries);
	case OPTION_HOLD:
		return value_time(text, &burst->hold_s);
	default:
		return false;
	}
}

static bool take_cluster(struct options *o, enum option_code option, const char *text)
{
	struct sim_setup *s = &o->setup;

	switch (option) {
	case OPTION_NODES:
		return take_unsigned(text, 1, SIM_NODES_MAX, &s->nodes) && value_skew("uniform", s->nodes, s->share);
	case OPTION_WORKERS:
		return take_unsigned(text, 1, SIM_WORKERS_MAX, &s->workers);
	case OPTION_SERVICE:
		return take_service(text, s);
	case OPTION_CAPACITY:
		return take_capacity(text, s);
	case OPTION_WEIGHT:
		return value_per_node(text, s->nodes, s->weight);
	case OPTION_LOAD:
		return value_number(text, &s->load);
	case OPTION_MEAN:
		return value_time(text, &s->service_mean_s);
	case OPTION_LAW:
		return value_law(text, &s->law);
	case OPTION_SKEW:
		return value_skew(text, s->nodes, s->share);
	case OPTION_HOP:
		return value_time(text, &s->hop_s);
	case OPTION_KILL:
		return take_each(text, o, take_kill);
	case OPTION_REVIVE:
		return take_each(text, o, take_revive);
	case OPTION_RESTART:
		return take_each(text, o, take_restart);
	case OPTION_FAIL:
		return take_each(text, o, take_fail);
	case OPTION_FAIL_TIMES:
		return value_number(text, &s->fail_times) && s->fail_times > 0;
	default:
		return take_burst(&s->burst, option, text);
	}
}

static bool take_decision(struct options *o, enum option_code option, const char *text)
{
	struct sim_setup *s = &o->setup;

	switch (option) {
	case OPTION_PERIOD:
		return take_each(text, o, take_period);
	case OPTION_JITTER:
		return value_share(text, &s->jitter);
	case OPTION_DELAY:
		return value_time(text, &s->delay_s);
	case OPTION_LOSS:
		return value_share(text, &s->loss);
	case OPTION_DEAD:
		return take_unsigned(text, 2, 100, &s->dead_periods);
	case OPTION_TICK:
		return value_time(text, &s->tick_s);
	case OPTION_TABLES:
		return take_tables(text, s);
	case OPTION_POLICY:
		return take_each(text, o, take_policy);
	case OPTION_MAX_LOAD:
		return take_max_load(text, s);
	case OPTION_ADVANTAGE:
		return value_number(text, &s->min_advantage);
	case OPTION_SECOND:
		return take_yes(text, &s->second_look);
	case OPTION_SUSPICION:
		return take_yes(text, &s->suspicion);
	case OPTION_FLOWS:
		return take_unsigned(text, 0, SIM_FLOWS_MAX, &s->flows);
	default:
		return take_cluster(o, option, text);
	}
}

static bool take(struct options *o, enum option_code option, const char *text)
{
	switch (option) {
	case OPTION_CONNECTIONS:
		return value_count(text, 1, UINT64_MAX / 2, &o->setup.connections);
	case OPTION_SECONDS:
		return value_time(text, &o->setup.seconds) && o->setup.seconds > 0;
	case OPTION_WARMUP:
		return take_warmup(text, &o->setup);
	case OPTION_SEED:
		return value_count(text, 0, UINT64_MAX, &o->setup.seed);
	case OPTION_REPEAT:
		return take_unsigned(text, 1, OPTIONS_REPEAT_MAX, &o->repeat);
	case OPTION_JSON:
		o->json = text;
		return *text;
	case OPTION_CSV:
		o->csv = text;
		return *text;
	case OPTION_PLOT:
		o->plot = text;
		return *text;
	case OPTION_PROGRESS:
		return o->progress = true;
	case OPTION_VERSION:
		return o->version = true;
	case OPTION_HELP:
		return o->help = true;
	default:
		return take_decision(o, option, text);
	}
}

/* True for an option that takes a value. */
static int wants_value(enum option_code option)
{
	switch (option) {
	case OPTION_PROGRESS:
	case OPTION_VERSION:
	case OPTION_HELP:
		return no_argument;
	default:
		return required_argument;
	}
}

/* The values that the option would take. */
static const char *hint(enum option_code option)
{
	switch (option) {
	case OPTION_MEAN:
	case OPTION_HOP:
	case OPTION_BURST_SPAN:
	case OPTION_HOLD:
	case OPTION_PERIOD:
	case OPTION_DELAY:
	case OPTION_TICK:
	case OPTION_SECONDS:
		return "a time needs a unit: 100us, 10ms, 1.5s, 2m, 1h";
	case OPTION_JITTER:
	case OPTION_LOSS:
		return "a share: 10% or 0.1";
	case OPTION_WARMUP:
		return "a share of the run, like 10%, or a time, like 5s";
	case OPTION_SERVICE:
		return "fifo or ps";
	case OPTION_BURST:
		return "a number of connections, like 60, or with a time, like 60@2s";
	case OPTION_LAW:
		return "exp, det, pareto:ALPHA, pareto:ALPHA:MOST (in means), lognormal:SIGMA";
	case OPTION_SKEW:
		return "uniform, zipf:S, or a list with no more numbers than nodes, like 4:1:1";
	case OPTION_CAPACITY:
	case OPTION_WEIGHT:
		return "a list with no more numbers than nodes, like 1:3";
	case OPTION_TABLES:
		return "auto, shared, own or real";
	case OPTION_POLICY:
		return "li, p2c, least, inverse, random, rr, wrr, lc, wlc, local, or all";
	case OPTION_MAX_LOAD:
		return "auto or a number";
	default:
		return "not a number that is possible here";
	}
}

static void set_defaults(struct options *o)
{
	*o = (struct options) { .repeat = 1 };
	sim_setup_default(&o->setup);
	take_warmup("10%", &o->setup);
}

/* Sets the values that depend on all other options. */
static void complete(struct options *o, bool only_seconds)
{
	if (!o->policy_count)
		o->policy[o->policy_count++] = o->setup.policy;
	if (!o->period_count)
		o->period_s[o->period_count++] = o->setup.period_s;
	o->setup.policy = o->policy[0];
	o->setup.period_s = o->period_s[0];
	if (only_seconds)
		o->setup.connections = 0;
	if (o->setup.warmup_s < 0)
		o->setup.warmup_s *= -sim_expected_s(&o->setup);
}

/* These may be given several times. */
static bool is_failure(enum option_code option)
{
	return option == OPTION_KILL || option == OPTION_REVIVE || option == OPTION_RESTART || option == OPTION_FAIL;
}

/* Collects the value of every option once, except those that may be repeated: they take effect at once. */
static bool collect(int argc, char **argv, struct options *o, const char **given, char error[OPTIONS_ERROR_BYTES])
{
	static const char present[] = "";
	struct option long_options[OPTION_COUNT + 1] = { 0 };
	int code;

	for (unsigned i = 0; i < OPTION_COUNT; i++)
		long_options[i] = (struct option) { .name = names[i],
						    .has_arg = wants_value((enum option_code)i),
						    .val = (int)i };
	optind = 0; /* for GNU: start from the beginning, also in a second call */
	opterr = 0;
	while ((code = getopt_long(argc, argv, ":", long_options, NULL)) != -1) {
		const char *text = optarg ? optarg : present;

		if (code < 0 || code >= OPTION_COUNT) {
			snprintf(error, OPTIONS_ERROR_BYTES, "%s: %s; dpr-sim --help lists the options",
				 argv[optind - 1], code == ':' ? "its value is missing" : "there is no such option");
			return false;
		}
		given[code] = text;
		if (is_failure((enum option_code)code) && !take(o, (enum option_code)code, text)) {
			snprintf(error, OPTIONS_ERROR_BYTES, "--%s %s: say node and time, like 3@10s", names[code],
				 text);
			return false;
		}
	}
	if (optind < argc)
		snprintf(error, OPTIONS_ERROR_BYTES, "%s: not understood; dpr-sim --help lists the options",
			 argv[optind]);
	return optind >= argc;
}

bool options_read(int argc, char **argv, struct options *ret, char error[OPTIONS_ERROR_BYTES])
{
	const char *given[OPTION_COUNT] = { NULL }, *wrong;
	char message[OPTIONS_ERROR_BYTES];

	set_defaults(ret);
	if (!collect(argc, argv, ret, given, error))
		return false;
	for (unsigned i = 0; i < OPTION_COUNT; i++) {
		if (!given[i] || is_failure((enum option_code)i))
			continue;
		if (!take(ret, (enum option_code)i, given[i])) {
			snprintf(error, OPTIONS_ERROR_BYTES, "--%s %s: %s", names[i], given[i],
				 hint((enum option_code)i));
			return false;
		}
	}
	complete(ret, given[OPTION_SECONDS] && !given[OPTION_CONNECTIONS]);
	wrong = sim_setup_error(&ret->setup, message, sizeof(message));
	for (unsigned i = 1; i < ret->period_count && !wrong; i++) {
		struct sim_setup other = ret->setup;

		other.period_s = ret->period_s[i];
		wrong = sim_setup_error(&other, message, sizeof(message));
	}
	if (wrong)
		snprintf(error, OPTIONS_ERROR_BYTES, "%s", wrong);
	return !wrong;
}
