// SPDX-License-Identifier: GPL-2.0-or-later
/* dprctl/init_ask.c - finds the members of a first dprd.conf, from the options and from questions on the terminal. */
#include "dprd/dprctl/init.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

bool init_ask(const char *question, const char *fallback, char answer[INIT_ANSWER_BYTES])
{
	printf(*fallback ? "%s [%s]: " : "%s: ", question, fallback);
	fflush(stdout);
	if (!fgets(answer, INIT_ANSWER_BYTES, stdin))
		return false;
	answer[strcspn(answer, "\r\n")] = '\0';
	if (!*answer)
		snprintf(answer, INIT_ANSWER_BYTES, "%s", fallback);
	return true;
}

/* The address as text when other hosts can reach it: neither loopback nor link-local. */
static bool usable(const struct ifaddrs *at, struct addr *ret)
{
	if (!at->ifa_addr)
		return false;
	if (at->ifa_addr->sa_family == AF_INET) {
		const struct sockaddr_in *v4 = (const void *)at->ifa_addr;

		*ret = addr_from_v4(v4->sin_addr.s_addr);
		return ntohl(v4->sin_addr.s_addr) >> 24 != IN_LOOPBACKNET;
	}
	if (at->ifa_addr->sa_family == AF_INET6) {
		const struct sockaddr_in6 *v6 = (const void *)at->ifa_addr;

		*ret = addr_from_v6(&v6->sin6_addr);
		return !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) && !IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
	}
	return false;
}

/* The first address of each family, with a comma between them; of all interfaces when name is NULL. */
static bool addresses_of(const char *name, char list[INIT_ADDRESSES_BYTES])
{
	char text[ADDR_TEXT_BYTES];
	bool found[2] = { false };
	struct ifaddrs *all, *at;
	struct addr address;

	list[0] = '\0';
	if (getifaddrs(&all) < 0)
		return false;
	for (at = all; at; at = at->ifa_next) {
		bool *seen;

		if ((name && strcmp(name, at->ifa_name) != 0) || !usable(at, &address))
			continue;
		seen = &found[addr_is_v4(&address)];
		if (*seen)
			continue;
		*seen = true;
		snprintf(list + strlen(list), INIT_ADDRESSES_BYTES - strlen(list), "%s%s", *list ? "," : "",
			 addr_format(&address, text));
	}
	freeifaddrs(all);
	return *list != '\0';
}

/* The name of this node, as dprd finds it: from -n, or the host name up to its first dot. */
static void find_name(const struct dprctl *c, struct init_plan *plan)
{
	char host[256] = "";

	if (gethostname(host, sizeof(host) - 1) < 0)
		host[0] = '\0';
	host[strcspn(host, ".")] = '\0';
	snprintf(plan->self, sizeof(plan->self), "%.63s", c->node_name ? c->node_name : host);
	plan->names_self = strcmp(plan->self, host) != 0;
}

static bool add_member(struct init_plan *plan, const char *text)
{
	struct init_member member;
	const char *fault = init_read_member(text, &member);

	if (!fault)
		fault = init_add(plan, &member);
	if (fault)
		fprintf(stderr, "dprctl init: member %s: %s (such as n2=192.0.2.12, or n2=192.0.2.12@10.0.0.12)\n",
			text, fault);
	return !fault;
}

/* Adds this node with its service addresses, and with cluster addresses or those of an interface. */
static bool add_self(struct init_plan *plan, const char *service, const char *cluster)
{
	char list[INIT_ADDRESSES_BYTES], text[2 * INIT_ADDRESSES_BYTES + NAME_BYTES];
	struct addr address;
	char first[ADDR_TEXT_BYTES];

	snprintf(list, sizeof(list), "%s", cluster);
	snprintf(first, sizeof(first), "%.*s", (int)strcspn(list, ","), list);
	if (*list && !addr_parse(first, &address) && !addresses_of(cluster, list)) {
		fprintf(stderr, "dprctl init: --cluster %s: neither an address nor an interface that has one\n",
			cluster);
		return false;
	}
	snprintf(text, sizeof(text), "%s=%s%s%s", plan->self, service, *list ? "@" : "", list);
	return add_member(plan, text);
}

static bool ask_self(struct init_plan *plan, const char *cluster)
{
	char fallback[INIT_ADDRESSES_BYTES], service[INIT_ANSWER_BYTES], network[INIT_ANSWER_BYTES];

	addresses_of(NULL, fallback);
	if (!init_ask("Addresses of this node that clients use, with commas between them", fallback, service))
		return false;
	if (*cluster)
		return add_self(plan, service, cluster);
	return init_ask("Interface of a second network among the nodes, or none", "", network) &&
	       add_self(plan, service, network);
}

static bool ask_members(struct init_plan *plan)
{
	char answer[INIT_ANSWER_BYTES];

	do {
		if (!init_ask("Another node, NAME=ADDRESS or NAME=ADDRESS@CLUSTER-ADDRESS; empty: there is none", "",
			      answer))
			return false;
	} while (!*answer || add_member(plan, answer) ? *answer != '\0' : true);
	return true;
}

/* The texts with commas between them. */
static void join(const char *const *texts, unsigned count, char list[INIT_ADDRESSES_BYTES])
{
	list[0] = '\0';
	for (unsigned i = 0; i < count; i++)
		snprintf(list + strlen(list), INIT_ADDRESSES_BYTES - strlen(list), "%s%s", i ? "," : "", texts[i]);
}

bool init_plan_make(const struct dprctl *c, const char *config_path, struct init_plan *plan)
{
	const char *slash = strrchr(config_path, '/');
	char service[INIT_ADDRESSES_BYTES], cluster[INIT_ADDRESSES_BYTES];
	bool terminal = isatty(STDIN_FILENO) != 0;

	snprintf(plan->key_path, sizeof(plan->key_path), "%.*scluster.key", slash ? (int)(slash + 1 - config_path) : 0,
		 config_path);
	plan->default_key_path = strcmp(config_path, CONFIG_PATH_DEFAULT) == 0;
	find_name(c, plan);
	join(c->service, c->service_count, service);
	join(c->cluster, c->cluster_count, cluster);
	if (*service && !add_self(plan, service, cluster))
		return false;
	for (unsigned i = 0; i < c->init.member_count; i++)
		if (!add_member(plan, c->init.member[i]))
			return false;
	if (!init_find(plan, plan->self)) {
		if (!terminal) {
			fprintf(stderr,
				"dprctl init: this node, %s, has no address: give --service, or --member with its "
				"name\n",
				plan->self);
			return false;
		}
		if (!ask_self(plan, cluster))
			return false;
	} else if (*cluster && !*service) {
		fputs("dprctl init: --cluster goes with --service\n", stderr);
		return false;
	}
	return c->init.member_count || !terminal || ask_members(plan);
}
