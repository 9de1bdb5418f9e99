// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Local routes: the addresses that this node serves for its peers, or their aliases. They carry their own protocol
 * number, so that a later dprd finds the routes of an earlier one, and removes no others.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "dprd/base/command.h"
#include "dprd/rules/rules.h"
#include "dprd/rules/table.h"

#define ROUTE_PROTOCOL "221" /* rtm_protocol */
enum { ROUTE_NUMBER = 221 };

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
		for (i = 0; member != config->self && i < member_services(&config->member[member]); i++) {
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
		for (i = 0; member != config->self && i < member_services(&config->member[member]); i++) {
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

int rules_routes_restore(const struct config *config, bool quiet)
{
	int v4 = rules_routes_install(config, false, quiet), v6 = rules_routes_install(config, true, quiet);

	return v4 ? v4 : v6;
}

/* --- whether they are there --- */

struct route_look {
	const struct config *config;
	bool v6;
	bool found[MEMBERS_MAX][MEMBER_SERVICES_MAX];
};

static void find_route(struct route_look *look, const struct addr *local)
{
	unsigned member, i;

	for (member = 0; member < look->config->member_count; member++) {
		for (i = 0; i < member_services(&look->config->member[member]); i++) {
			struct addr wanted = local_of(look->config, member, i);

			if (addr_equal(&wanted, local))
				look->found[member][i] = true;
		}
	}
}

static int on_route(const struct nlmsghdr *message, void *context)
{
	struct route_look *look = context;
	const struct rtmsg *route = mnl_nlmsg_get_payload(message);
	const struct nlattr *attribute;
	struct addr local;
	be32 v4;

	/* A kernel that does not choose by these gives all routes. */
	if (message->nlmsg_type != RTM_NEWROUTE || route->rtm_type != RTN_LOCAL || route->rtm_protocol != ROUTE_NUMBER)
		return MNL_CB_OK;
	mnl_attr_for_each(attribute, message, sizeof(*route))
	{
		if (mnl_attr_get_type(attribute) != RTA_DST ||
		    mnl_attr_get_payload_len(attribute) != (look->v6 ? 16 : 4))
			continue;
		memcpy(&v4, mnl_attr_get_payload(attribute), sizeof(v4));
		local = look->v6 ? addr_from_v6(mnl_attr_get_payload(attribute)) : addr_from_v4(v4);
		find_route(look, &local);
	}
	return MNL_CB_OK;
}

/* 0, or -errno: the answer is unknown. */
static int list_routes(struct route_look *look)
{
	struct mnl_socket *socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	static char buffer[32768]; /* main thread only */
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
	struct rtmsg *route = mnl_nlmsg_put_extra_header(message, sizeof(*route));
	int on = 1, result = MNL_CB_OK, error = 0;

	if (!socket)
		return -errno;
	message->nlmsg_type = RTM_GETROUTE;
	message->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	route->rtm_family = look->v6 ? AF_INET6 : AF_INET;
	route->rtm_table = RT_TABLE_LOCAL;
	route->rtm_protocol = ROUTE_NUMBER;
	/* The kernel then lists these routes alone. */
	mnl_socket_setsockopt(socket, NETLINK_GET_STRICT_CHK, &on, sizeof(on));
	if (mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID) < 0 ||
	    mnl_socket_sendto(socket, message, message->nlmsg_len) < 0)
		error = -errno;
	while (!error && result > MNL_CB_STOP) {
		ssize_t bytes = mnl_socket_recvfrom(socket, buffer, sizeof(buffer));

		result = bytes < 0 ? (int)bytes : mnl_cb_run(buffer, (size_t)bytes, 0, 0, on_route, look);
		if (result < 0)
			error = -errno;
	}
	mnl_socket_close(socket);
	return error;
}

bool rules_routes_present(const struct config *config)
{
	static struct route_look look; /* large; main thread only */
	unsigned member, i, v6;

	for (v6 = 0; v6 < 2; v6++) {
		look = (struct route_look) { .config = config, .v6 = v6 };
		if (list_routes(&look))
			continue;
		for (member = 0; member < config->member_count; member++) {
			for (i = 0; member != config->self && i < member_services(&config->member[member]); i++) {
				struct addr local = local_of(config, member, i);

				if (addr_is_v4(&local) != (bool)v6 && !look.found[member][i])
					return false;
			}
		}
	}
	return true;
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
