// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Local routes: the addresses that this node serves for its peers, or their aliases. They carry their own protocol
 * number, so that a later dprd finds the routes of an earlier one, and removes no others.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dprd/base/command.h"
#include "dprd/rules/table.h"

#define ROUTE_PROTOCOL "221" /* rtm_protocol */

/* The local address of this node for a service address of a member. */
static struct addr local_of(const struct config *config, unsigned member, unsigned service)
{
	struct addr alias = config_alias(config, member, service);

	return addr_is_zero(&alias) ? config->member[member].service[service] : alias;
}

static bool is_wanted(const struct config *config, const struct addr *local)
{
	unsigned member, i;

	for (member = 0; member < config->member_count; member++) {
		for (i = 0; member != config->self && i < config->member[member].service_count; i++) {
			struct addr wanted = local_of(config, member, i);

			if (addr_equal(&wanted, local))
				return true;
		}
	}
	return false;
}

/*
 * Removes routes of former members and addresses: otherwise this node would treat these addresses as its own for ever.
 */
static unsigned write_removals(FILE *out, const struct config *config, const char *present)
{
	char word[ADDR_TEXT_BYTES];
	struct addr local;
	unsigned count = 0;

	for (; present && *present; present = strchr(present, '\n') ? strchr(present, '\n') + 1 : NULL) {
		/* The width is one less than the room. */
		if (sscanf(present, "local %47s", word) != 1 || !addr_parse(word, &local) || is_wanted(config, &local))
			continue;
		fprintf(out, "route del local %s dev lo proto " ROUTE_PROTOCOL "\n", word);
		count++;
	}
	return count;
}

unsigned rules_routes_write(FILE *out, const struct config *config, bool v6, const char *present)
{
	char text[ADDR_TEXT_BYTES];
	unsigned member, i, count = 0;

	for (member = 0; member < config->member_count; member++) {
		for (i = 0; member != config->self && i < config->member[member].service_count; i++) {
			struct addr local = local_of(config, member, i);

			if (addr_is_v4(&local) == v6)
				continue;
			fprintf(out, "route replace local %s dev lo proto " ROUTE_PROTOCOL "\n",
				addr_format(&local, text));
			count++;
		}
	}
	/* Removals come last: ip(8) stops at a route that another program has removed. */
	return count + write_removals(out, config, present);
}

/* The lines of ip(8) with our routes; the caller frees them. NULL: none, or ip(8) failed. */
static char *present_routes(bool v6)
{
	const char *const show[] = { "ip",    v6 ? "-6" : "-4", "route",        "show", "table",
				     "local", "proto",          ROUTE_PROTOCOL, NULL };
	char *output;

	if (command_run(show, NULL, &output) == 0 && output && *output)
		return output;
	free(output);
	return NULL;
}

int rules_routes_install(const struct config *config, bool v6, bool quiet)
{
	const char *const ip[] = { "ip", v6 ? "-6" : "-4", "-batch", "-", NULL };
	char *script = NULL, *present;
	size_t bytes;
	FILE *out = open_memstream(&script, &bytes);
	unsigned count;
	int error = 0;

	if (!out)
		return -ENOMEM;
	present = present_routes(v6);
	count = rules_routes_write(out, config, v6, present);
	free(present);
	fclose(out);
	if (count)
		error = command_run_logged(ip, script, quiet);
	free(script);
	return error;
}

void rules_routes_remove(bool v6)
{
	const char *const flush[] = { "ip",    v6 ? "-6" : "-4", "route",        "flush", "table",
				      "local", "proto",          ROUTE_PROTOCOL, NULL };
	char *present = present_routes(v6);

	/* "flush" of nothing is an error to some versions of ip. */
	if (present)
		command_run_logged(flush, NULL, false);
	free(present);
}
