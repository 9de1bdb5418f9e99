// SPDX-License-Identifier: GPL-2.0-or-later
#include <getopt.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#include "dprd/base/log.h"
#include "dprd/base/version.h"
#include "loadcast/loadcast.h"

enum {
	EXIT_USAGE = 2,
	OPTION_NODE = 256,
	OPTION_CHECK,
	OPTION_WATCH,
	OPTION_JSON,
	OPTION_ONCE,
	OPTION_VERSION,
};

static const struct option long_options[] = {
	{ "config", required_argument, NULL, 'c' },   { "node", required_argument, NULL, OPTION_NODE },
	{ "check", no_argument, NULL, OPTION_CHECK }, { "watch", no_argument, NULL, OPTION_WATCH },
	{ "json", no_argument, NULL, OPTION_JSON },   { "once", no_argument, NULL, OPTION_ONCE },
	{ "verbose", no_argument, NULL, 'v' },        { "version", no_argument, NULL, OPTION_VERSION },
	{ "help", no_argument, NULL, 'h' },           { 0 },
};

static void print_usage(FILE *to)
{
	fprintf(to,
		"usage: loadcast [-c FILE] [--node NAME] [--verbose]          announce this node's load\n"
		"       loadcast [-c FILE] [--node NAME] --check              check the configuration and exit\n"
		"       loadcast [-c FILE] [--node NAME] --watch [--once] [--json]\n"
		"                                                             show the cluster's load\n"
		"  -c, --config FILE   configuration (default %s)\n"
		"      --node NAME     be this member, whatever the configuration or the host name say\n"
		"      --once          listen for three periods, print, exit\n"
		"      --json          one JSON object per refresh\n"
		"      --verbose       log more, for the search of faults\n"
		"      --version, --help\n",
		CONFIG_PATH_DEFAULT);
}

static int usage_error(void)
{
	print_usage(stderr);
	return EXIT_USAGE;
}

static int check(const struct options *options)
{
	struct setup *setup = setup_read(options, false);

	if (!setup)
		return EXIT_FAILURE;
	printf("%s: fine; this host is \"%s\", one of %u members", options->config_path, setup->config.node_name,
	       setup->config.member_count);
	if (setup->config.own_backend_count)
		printf(", with %u real servers", setup->config.own_backend_count);
	putchar('\n');
	sodium_memzero(&setup->keys, sizeof(setup->keys));
	free(setup);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct options options = { .config_path = CONFIG_PATH_DEFAULT };
	bool only_check = false, watch = false;
	int option;

	while ((option = getopt_long(argc, argv, "c:vh", long_options, NULL)) != -1) {
		switch (option) {
		case 'c':
			options.config_path = optarg;
			break;
		case OPTION_NODE:
			options.node_name = optarg;
			break;
		case OPTION_CHECK:
			only_check = true;
			break;
		case OPTION_WATCH:
			watch = true;
			break;
		case OPTION_JSON:
			options.json = true;
			break;
		case OPTION_ONCE:
			options.once = true;
			break;
		case 'v':
			log_set_level(LOG_LEVEL_DEBUG);
			break;
		case OPTION_VERSION:
			printf("loadcast %s\n", dprd_version);
			return EXIT_SUCCESS;
		case 'h':
			print_usage(stdout);
			return EXIT_SUCCESS;
		default:
			return usage_error();
		}
	}
	if (optind != argc || (only_check && watch) || (!watch && (options.json || options.once)))
		return usage_error();
	if (sodium_init() < 0) {
		log_err("cannot initialise libsodium: the system has no source of random numbers");
		return EXIT_FAILURE;
	}
	if (only_check)
		return check(&options);
	return watch ? watch_run(&options) : daemon_run(&options);
}
