// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * options.c - the command line of "surge run".
 */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/experiments/surge/options.h"
#include "tests/experiments/surge/sequence.h"

const char *const http_mode_names[] = { "1.0", "1.1", "pipelined", NULL };
const char *const resolve_mode_names[] = { "once", "object", "connection", NULL };

static const char help[] =
	"usage: surge run --index FILE --server HOST[:PORT] [options]\n"
	"\n"
	"A closed loop of user equivalents: each fetches the files of a page, pauses, fetches the next page.\n"
	"Which files and pauses depends on the index, the seed and the number of users, not on the server.\n"
	"\n"
	"  --index FILE        what there is to ask for; made by \"surge files\"\n"
	"  --server, --servers HOST[:PORT][*SHARE][,...]\n"
	"                      names or addresses, [2001:db8::1]:80 too; users are dealt out by SHARE (1):\n"
	"                      a*4,b,c has four of six users at a\n"
	"  --family 4|6|any    addresses to ask the resolver for (any)\n"
	"  --source ADDRESS,.. connections come from these; users take them in turn\n"
	"  --users N           user equivalents (100)\n"
	"  --seconds T         measured time (60)\n"
	"  --warmup T          time before that, not measured (0)\n"
	"  --seed S            (1)\n"
	"  --stagger T         seconds between the first pages of two users of one group (0.05)\n"
	"  --group N           users of a group, as the threads of one published process; 0: all are one (50)\n"
	"  --http 1.0|1.1|pipelined\n"
	"                      1.0: a connection for each file, read to its end; 1.1: connections are kept;\n"
	"                      pipelined: as 1.1, and all embedded files are asked for at once (1.0)\n"
	"  --parallel N        connections of a user for the embedded files, up to 16 (1, as published)\n"
	"  --connection-pages N  a kept connection is closed after N pages; 0: by the server only (0)\n"
	"  --resolve once|object|connection\n"
	"                      a name is looked up once for each group, for each page, for each connection (once)\n"
	"  --timeout T         a transfer that takes longer has failed (60)\n"
	"  --prefix PATH       of each URL (/)\n"
	"  --host NAME         sent as Host (the server's name)\n"
	"  --node-header NAME  the answer's header that says which node served; counted by its value\n"
	"  --log FILE          a line for each file asked for; --log-format full|surge (full)\n"
	"  --series FILE       CSV: second,requests,errors,mean_response_ms,in_flight\n"
	"  --json FILE         the summary (standard output: -)\n"
	"  --progress          a line a second on standard error; without it only on a terminal\n"
	"\n"
	"The full log has: user step file size_bytes start_s connect_ms first_byte_ms end_ms received_bytes status\n"
	"server node outcome. start_s is seconds since 1970, just before connect(); the next three count from there;\n"
	"\"-\" is what did not come about. The surge log: client system user start_s start_us url size end_s end_us,\n"
	"good transfers only. Outcomes are ok, censored (not over when the run ended: no error, no response time),\n"
	"and errors: name, refused, unreachable, reset, timeout, closed (without an answer), status (not 200),\n"
	"wrong_length (other than the index says), malformed, chunked, local (no port or file left here).\n"
	"When a name has several addresses, the next is tried when one cannot be connected to.\n"
	"\n"
	"Exit status: 0 the run took place, with or without errors of servers; 1 it could not; 2 wrong usage.\n";

bool number_read(const char *text, double low, double high, double *ret)
{
	char *end;

	*ret = strtod(text, &end);
	return end != text && *end == '\0' && *ret >= low && *ret <= high;
}

bool whole_read(const char *text, uint64_t low, uint64_t high, uint64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoull(text, &end, 10);
	return isdigit((unsigned char)*text) && *end == '\0' && !errno && *ret >= low && *ret <= high;
}

static bool unsigned_read(const char *text, unsigned low, unsigned high, unsigned *ret)
{
	uint64_t number;

	if (!whole_read(text, low, high, &number))
		return false;
	*ret = (unsigned)number;
	return true;
}

static bool word_read(const char *text, const char *const *words, unsigned *ret)
{
	for (unsigned i = 0; words[i]; i++)
		if (strcmp(text, words[i]) == 0) {
			*ret = i;
			return true;
		}
	return false;
}

/* One "HOST[:PORT][*SHARE]", which is changed. */
static bool server_read(char *text, struct server *server)
{
	char *share = strrchr(text, '*'), *port = NULL;
	uint64_t number = 80;

	memset(server, 0, sizeof(*server));
	server->share = 1;
	if (share) {
		*share++ = '\0';
		if (!unsigned_read(share, 1, 255, &server->share))
			return false;
	}
	if (*text == '[') {
		char *close = strchr(++text, ']');

		if (!close || (close[1] && close[1] != ':'))
			return false;
		port = close[1] ? close + 2 : NULL;
		*close = '\0';
	} else if (strchr(text, ':') && strchr(text, ':') == strrchr(text, ':')) {
		port = strchr(text, ':');
		*port++ = '\0';
	}
	if ((port && !whole_read(port, 1, 65535, &number)) || !*text || strlen(text) >= sizeof(server->host))
		return false;
	memcpy(server->host, text, strlen(text) + 1);
	snprintf(server->port, sizeof(server->port), "%u", (unsigned)number);
	server->is_literal = address_literal(server->host, (uint16_t)number, &server->literal.all[0]);
	server->literal.count = server->is_literal;
	if (strspn(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-_") != strlen(text) &&
	    !server->is_literal)
		return false;
	snprintf(server->host_header, sizeof(server->host_header), strchr(text, ':') ? "[%s]%s%s" : "%s%s%s", text,
		 number == 80 ? "" : ":", number == 80 ? "" : server->port);
	return true;
}

bool servers_read(const char *text, struct options *options)
{
	char *copy = strdup(text), *rest = NULL;
	bool good = copy != NULL;

	for (char *one = good ? strtok_r(copy, ",", &rest) : NULL; good && one; one = strtok_r(NULL, ",", &rest)) {
		struct server *server = &options->servers[options->server_count];

		good = options->server_count < SERVERS_MAX && server_read(one, server) &&
		       options->share_count + server->share <= SHARES_MAX;
		for (unsigned i = 0; good && i < server->share; i++)
			options->shares[options->share_count++] = (uint8_t)options->server_count;
		options->server_count += good;
	}
	free(copy);
	return good && options->server_count;
}

static bool sources_read(const char *text, struct options *options)
{
	char *copy = strdup(text), *rest = NULL;
	bool good = copy != NULL;

	for (char *one = good ? strtok_r(copy, ",", &rest) : NULL; good && one; one = strtok_r(NULL, ",", &rest))
		good = options->source_count < SOURCES_MAX &&
		       address_literal(one, 0, &options->sources[options->source_count++]);
	free(copy);
	return good && options->source_count;
}

static bool prefix_read(const char *text, struct options *options)
{
	const size_t bytes = strlen(text);

	if (*text != '/' || bytes + 2 > sizeof(options->prefix) || strpbrk(text, " \t\r\n"))
		return false;
	snprintf(options->prefix, sizeof(options->prefix), "%s%s", text, text[bytes - 1] == '/' ? "" : "/");
	return true;
}

static bool header_read(const char *text, const char **ret)
{
	*ret = text;
	return *text && !strpbrk(text, " \t\r\n") && strlen(text) < HOST_BYTES;
}

static const struct option long_options[] = {
	{ "index", 1, NULL, 'i' },       { "server", 1, NULL, 's' },  { "servers", 1, NULL, 's' },
	{ "family", 1, NULL, 'f' },      { "source", 1, NULL, 'S' },  { "users", 1, NULL, 'u' },
	{ "seconds", 1, NULL, 't' },     { "warmup", 1, NULL, 'w' },  { "seed", 1, NULL, 'r' },
	{ "stagger", 1, NULL, 'g' },     { "group", 1, NULL, 'G' },   { "http", 1, NULL, 'H' },
	{ "parallel", 1, NULL, 'p' },    { "resolve", 1, NULL, 'R' }, { "connection-pages", 1, NULL, 'c' },
	{ "timeout", 1, NULL, 'T' },     { "prefix", 1, NULL, 'P' },  { "host", 1, NULL, 'h' },
	{ "node-header", 1, NULL, 'n' }, { "log", 1, NULL, 'l' },     { "log-format", 1, NULL, 'L' },
	{ "series", 1, NULL, 'e' },      { "json", 1, NULL, 'j' },    { "progress", 0, NULL, 'v' },
	{ "help", 0, NULL, '?' + 256 },  { NULL, 0, NULL, 0 },
};

static bool words_read(int option, const char *value, struct options *options)
{
	static const char *const families[] = { "4", "6", "any", NULL }, *const formats[] = { "full", "surge", NULL };
	static const int family_of[] = { AF_INET, AF_INET6, AF_UNSPEC };
	unsigned word = 0;
	bool good = false;

	if (option == 'H') {
		good = word_read(value, http_mode_names, &word);
		options->http = (enum http_mode)word;
	} else if (option == 'R') {
		good = word_read(value, resolve_mode_names, &word);
		options->resolve = (enum resolve_mode)word;
	} else if (option == 'f') {
		good = word_read(value, families, &word);
		options->family = family_of[word];
	} else if (option == 'L') {
		good = word_read(value, formats, &word);
		options->log_is_surge = word == 1;
	}
	return good;
}

static bool numbers_read(int option, const char *value, struct options *options)
{
	switch (option) {
	case 'u':
		return unsigned_read(value, 1, USERS_MAX, &options->users);
	case 't':
		return number_read(value, 0.1, 1e6, &options->seconds);
	case 'w':
		return number_read(value, 0, 1e6, &options->warmup_s);
	case 'r':
		return whole_read(value, 0, UINT64_MAX, &options->seed);
	case 'g':
		return number_read(value, 0, 1e4, &options->stagger_s);
	case 'G':
		return unsigned_read(value, 0, USERS_MAX, &options->group);
	case 'p':
		return unsigned_read(value, 1, LANES_MAX, &options->lanes);
	case 'c':
		return unsigned_read(value, 0, 1000000, &options->connection_pages);
	case 'T':
		return number_read(value, 0.01, 1e5, &options->timeout_s);
	default:
		return words_read(option, value, options);
	}
}

static bool option_read(int option, const char *value, struct options *options)
{
	switch (option) {
	case 'i':
		options->index = value;
		return true;
	case 's':
		return servers_read(value, options);
	case 'S':
		return sources_read(value, options);
	case 'P':
		return prefix_read(value, options);
	case 'h':
		return header_read(value, &options->host_header);
	case 'n':
		return header_read(value, &options->node_header);
	case 'l':
		options->log = value;
		return true;
	case 'e':
		options->series = value;
		return true;
	case 'j':
		options->json = value;
		return true;
	case 'v':
		options->progress = true;
		return true;
	default:
		return numbers_read(option, value, options);
	}
}

static int complain(const char *what, const char *which)
{
	fprintf(stderr, "surge run: %s%s\nTry: surge run --help\n", what, which);
	return STATUS_USAGE;
}

int options_read(int argc, char **argv, struct options *options)
{
	static const struct options defaults = {
		.prefix = "/",
		.users = 100,
		.group = 50,
		.lanes = 1,
		.seed = 1,
		.seconds = 60,
		.timeout_s = 60,
		.stagger_s = 0.05,
		.family = AF_UNSPEC,
	};
	int option;

	*options = defaults;
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (option == '?' + 256) {
			fputs(help, stdout);
			return -1;
		}
		if (option == '?')
			return complain("see above", "");
		if (!option_read(option, optarg, options))
			return complain("this is not a value for its option: ", optarg);
	}
	if (optind < argc)
		return complain("no option takes this: ", argv[optind]);
	if (!options->index)
		return complain("--index is missing: what is there to ask for? \"surge files\" makes one", "");
	if (!options->server_count)
		return complain("--server is missing: whom to ask?", "");
	if (!options->group)
		options->group = options->users;
	return 0;
}
