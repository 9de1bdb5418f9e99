// SPDX-License-Identifier: GPL-2.0-or-later
/* dprd-web: shows dprd in a browser and to Prometheus. It can change nothing. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "dprd/base/log.h"
#include "dprd/base/version.h"
#include "dprd/web/serve.h"

enum { LISTEN_BACKLOG = 64, OPTION_LISTEN = 256, OPTION_NAME, OPTION_VERSION_OF_WEB };

static const char listen_default[] = "127.0.0.1:7981";

struct options {
	const char *config_path, *node_name;
	char address[WEB_HOST_BYTES];
	unsigned port;
	struct web_serve serve;
};

static void help(FILE *out)
{
	fprintf(out,
		"dprd-web [OPTION]...  shows dprd in a browser and to Prometheus; it can change nothing\n\n"
		"  -c, --config FILE            the configuration of dprd (%s)\n"
		"  -n, --node NAME              the name of this node, when the file does not say it\n"
		"      --listen ADDRESS:PORT    where to listen (%s)\n"
		"      --name HOST              a name by which browsers may ask for this server, beside localhost\n"
		"                               and addresses; up to %d times\n"
		"      --version                print the version\n"
		"  -h, --help                   print this\n",
		CONFIG_PATH_DEFAULT, listen_default, WEB_NAMES_MAX);
}

static void usage_error(const char *text, const char *which)
{
	fprintf(stderr, "dprd-web: %s%s\ntry: dprd-web --help\n", text, which);
	exit(2);
}

static void take_option(struct options *o, int code)
{
	switch (code) {
	case 'c':
		o->config_path = optarg;
		break;
	case 'n':
		o->node_name = optarg;
		break;
	case OPTION_LISTEN:
		if (!web_parse_listen(optarg, o->address, &o->port))
			usage_error("--listen takes ADDRESS:PORT or [ADDRESS]:PORT, not ", optarg);
		break;
	case OPTION_NAME:
		if (o->serve.name_count == WEB_NAMES_MAX)
			usage_error("--name is given too often: ", optarg);
		o->serve.names[o->serve.name_count++] = optarg;
		break;
	case OPTION_VERSION_OF_WEB:
		printf("dprd-web %s\n", dprd_version);
		exit(0);
	case 'h':
		help(stdout);
		exit(0);
	default:
		usage_error("unknown option", "");
	}
}

static void read_options(struct options *o, int argc, char **argv)
{
	static const struct option list[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "node", required_argument, NULL, 'n' },
		{ "listen", required_argument, NULL, OPTION_LISTEN },
		{ "name", required_argument, NULL, OPTION_NAME },
		{ "version", no_argument, NULL, OPTION_VERSION_OF_WEB },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int code;

	web_parse_listen(listen_default, o->address, &o->port);
	while ((code = getopt_long(argc, argv, "c:n:h", list, NULL)) != -1)
		take_option(o, code);
	if (optind < argc)
		usage_error("unexpected argument: ", argv[optind]);
}

/* -1 after a line in the log. */
static int open_socket(const struct options *o)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)o->port) };
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)o->port) };
	bool is_v4 = inet_pton(AF_INET, o->address, &v4.sin_addr) == 1;
	const struct sockaddr *address = is_v4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
	int fd, one = 1;

	if (!is_v4)
		inet_pton(AF_INET6, o->address, &v6.sin6_addr);
	fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
	    bind(fd, address, is_v4 ? sizeof(v4) : sizeof(v6)) == 0 && listen(fd, LISTEN_BACKLOG) == 0)
		return fd;
	log_err("cannot listen on %s port %u: %s%s", o->address, o->port, strerror(errno),
		errno == EADDRINUSE ? "; another program has it: use --listen" : "");
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Serves until a signal ends it. */
static int run(struct options *o, const sigset_t *signals)
{
	static const struct timespec second = { .tv_sec = 1 };
	int fd = open_socket(o);

	if (fd < 0)
		return EXIT_FAILURE;
	o->serve.poll = web_poll_start(o->config_path, o->node_name);
	if (!o->serve.poll || !web_serve_start(&o->serve, fd)) {
		if (o->serve.poll)
			web_poll_stop(o->serve.poll);
		close(fd);
		return EXIT_FAILURE;
	}
	log_info("dprd-web %s: http://%s%s%s:%u/", dprd_version, strchr(o->address, ':') ? "[" : "", o->address,
		 strchr(o->address, ':') ? "]" : "", o->port);
	sd_notify(0, "READY=1");
	while (sigtimedwait(signals, NULL, &second) < 0)
		web_serve_tick(&o->serve);
	sd_notify(0, "STOPPING=1");
	web_serve_stop(&o->serve);
	web_poll_stop(o->serve.poll);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct options options = { .config_path = CONFIG_PATH_DEFAULT };
	sigset_t signals;

	read_options(&options, argc, argv);
	/* The threads, which start later, leave them to this one, too. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	return run(&options, &signals);
}
