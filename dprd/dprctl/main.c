// SPDX-License-Identifier: GPL-2.0-or-later
/* dprctl: what the operator asks dprd, and shows. */
#define _GNU_SOURCE
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dprd/base/version.h"
#include "dprd/dprctl/dprctl.h"

static const char usage_text[] =
	"usage: dprctl [options] command [arguments]\n"
	"\n"
	"Shows and steers the dprd of this node; see dprctl(8).\n"
	"\n"
	"  status              this node, its cluster, and what to do (the default)\n"
	"  peers               all that is known of each member; --dump: tab separated\n"
	"  backends            the real servers behind this node, and what they have\n"
	"  flows               forwarded connections; --to NODE, --client ADDR[/LEN][:PORT],\n"
	"                      --state STATE, --limit N (default 1000, 0: all)\n"
	"  why CLIENT[:PORT]   why a connection went where it went; --all: not only the last one\n"
	"  drain               send new connections to the peers; --wait: until all have ended,\n"
	"                      at most --timeout SECONDS (default 600)\n"
	"  undrain             end that\n"
	"  reload              read the configuration again\n"
	"  config              print the configuration in effect, defaults included\n"
	"  metrics             print the status for Prometheus\n"
	"  genkey              print a fresh cluster key\n"
	"  version, help       print that\n"
	"\n"
	"  -c, --config=FILE   configuration (default " CONFIG_PATH_DEFAULT ")\n"
	"  -n, --node=NAME     which member this is (default: as dprd(8))\n"
	"      --json          print dprd's answer as it is\n"
	"  -H, --no-heading    tables without headings, for scripts\n"
	"      --watch [SECONDS]  again and again (default 2; status, peers, backends,\n"
	"                         flows)\n"
	"      --version       print the version\n"
	"  -h, --help          print this\n"
	"\n"
	"exit status: 0 fine; 1 there are warnings, or nothing was found; 2 dprd does not answer or\n"
	"refuses, or the usage is wrong\n";

enum { WATCH_S_DEFAULT = 2, WATCH_S_MAX = 86400, TIMEOUT_S_DEFAULT = 600, TIMEOUT_S_MAX = 30 * 86400 };

enum option_code {
	OPTION_JSON = 256,
	OPTION_WATCH,
	OPTION_TO,
	OPTION_CLIENT,
	OPTION_STATE,
	OPTION_LIMIT,
	OPTION_ALL,
	OPTION_DUMP,
	OPTION_WAIT,
	OPTION_TIMEOUT,
	OPTION_VERSION,
};

static const struct option options[] = {
	{ "config", required_argument, NULL, 'c' },
	{ "node", required_argument, NULL, 'n' },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "no-heading", no_argument, NULL, 'H' },
	{ "watch", optional_argument, NULL, OPTION_WATCH },
	{ "to", required_argument, NULL, OPTION_TO },
	{ "client", required_argument, NULL, OPTION_CLIENT },
	{ "state", required_argument, NULL, OPTION_STATE },
	{ "limit", required_argument, NULL, OPTION_LIMIT },
	{ "all", no_argument, NULL, OPTION_ALL },
	{ "dump", no_argument, NULL, OPTION_DUMP },
	{ "wait", no_argument, NULL, OPTION_WAIT },
	{ "timeout", required_argument, NULL, OPTION_TIMEOUT },
	{ "version", no_argument, NULL, OPTION_VERSION },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static void usage_error(const char *what, const char *which)
{
	fprintf(stderr, "dprctl: %s%s\ntry: dprctl --help\n", what, which);
	exit(DPRCTL_FAILED);
}

static unsigned seconds(const char *option, const char *text, unsigned long max)
{
	unsigned long value;

	if (!parse_count(text, max, &value) || !value)
		usage_error(option, " takes a number of seconds");
	return (unsigned)value;
}

/* The number may stand alone: no command is one. */
static unsigned watch_seconds(int argc, char **argv)
{
	unsigned long value;

	if (!optarg && optind < argc && parse_count(argv[optind], WATCH_S_MAX, &value))
		optarg = argv[optind++];
	return optarg ? seconds("--watch", optarg, WATCH_S_MAX) : WATCH_S_DEFAULT;
}

static void take_text(struct dprctl *c, int code)
{
	const char **place = code == 'c'             ? &c->config_path
			     : code == 'n'           ? &c->node_name
			     : code == OPTION_TO     ? &c->to
			     : code == OPTION_CLIENT ? &c->client
			     : code == OPTION_STATE  ? &c->state
						     : &c->limit;

	*place = optarg;
}

/* The options into *c; which commands they are for. */
static unsigned take_option(struct dprctl *c, int code, int argc, char **argv)
{
	switch (code) {
	case OPTION_JSON:
		c->json = true;
		return ALLOW_JSON;
	case 'H':
		c->no_heading = true;
		return ALLOW_HEADING;
	case OPTION_WATCH:
		c->watch = true;
		c->watch_s = watch_seconds(argc, argv);
		return ALLOW_WATCH;
	case OPTION_ALL:
		c->all = true;
		return ALLOW_ALL;
	case OPTION_DUMP:
		c->dump = true;
		return ALLOW_DUMP;
	case OPTION_WAIT:
		c->wait = true;
		return ALLOW_WAIT;
	case OPTION_TIMEOUT:
		c->timeout_s = seconds("--timeout", optarg, TIMEOUT_S_MAX);
		return ALLOW_WAIT;
	case OPTION_VERSION:
		printf("dprctl %s\n", dprd_version);
		exit(DPRCTL_OK);
	case 'h':
		fputs(usage_text, stdout);
		exit(DPRCTL_OK);
	case '?':
		fputs("try: dprctl --help\n", stderr);
		exit(DPRCTL_FAILED);
	default:
		take_text(c, code);
		return code == 'c' || code == 'n' ? 0 : ALLOW_FILTER;
	}
}

static int watch(struct dprctl *c, const struct dprctl_command *command, char **arguments)
{
	bool terminal = isatty(STDOUT_FILENO);
	int result;

	do {
		if (terminal)
			fputs("\033[H\033[J", stdout);
		result = command->run(c, arguments);
		if (!terminal && !c->json)
			putchar('\n');
		if (fflush(stdout) || ferror(stdout))
			return DPRCTL_FAILED;
	} while (sleep(c->watch_s) == 0);
	return result;
}

int main(int argc, char **argv)
{
	struct dprctl c = { .timeout_s = TIMEOUT_S_DEFAULT, .answer_ms = DPRCTL_ANSWER_MS };
	const struct dprctl_command *command;
	unsigned given = 0;
	const char *name;
	int code, result;

	while ((code = getopt_long(argc, argv, "c:n:Hh", options, NULL)) != -1)
		given |= take_option(&c, code, argc, argv);
	name = optind < argc ? argv[optind++] : "status";
	if (strcmp(name, "help") == 0) {
		fputs(usage_text, stdout);
		return DPRCTL_OK;
	}
	command = dprctl_find(name);
	if (!command)
		usage_error("no such command: ", name);
	if (argc - optind < command->arguments)
		usage_error("argument missing: ", name);
	if (argc - optind > command->arguments)
		usage_error("unexpected argument: ", argv[optind + command->arguments]);
	if (given & ~command->allows)
		usage_error("an option that does not go with ", name);
	if (!(command->allows & NEEDS_NOTHING) && !dprctl_read_config(&c))
		return DPRCTL_FAILED;
	result = c.watch ? watch(&c, command, argv + optind) : command->run(&c, argv + optind);
	if (fflush(stdout) || ferror(stdout)) {
		perror("dprctl: standard output");
		return DPRCTL_FAILED;
	}
	return result;
}
