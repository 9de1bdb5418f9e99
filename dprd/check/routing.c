// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * check/routing.c - finds policy routing by source that answers of forwarded connections do not meet: their source is a
 * peer's service address, or its alias, and not this node's own.
 */
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>

#include "dprd/check/report.h"
#include "dprd/config/config.h"
#include "dprd/host/neighbour.h"

enum { DUMP_BYTES = 16384 };

/* Addresses for documentation (RFC 5737, RFC 3849): a client that is far away. */
static const char *const far_client[2] = { "198.51.100.1", "2001:db8:ffff:ffff::1" };

bool preflight_rule_matches(const struct source_rule *rule, const struct addr *address)
{
	unsigned whole = rule->bits / 8, rest = rule->bits % 8;

	if (memcmp(rule->prefix.bytes, address->bytes, whole) != 0)
		return rule->inverted;
	if (rest && (rule->prefix.bytes[whole] ^ address->bytes[whole]) >> (8 - rest))
		return rule->inverted;
	return !rule->inverted;
}

static int take_attribute(const struct nlattr *attribute, void *context)
{
	struct source_rule *rule = context;
	uint16_t type = mnl_attr_get_type(attribute), bytes = mnl_attr_get_payload_len(attribute);

	if (type == FRA_SRC && bytes == 4)
		rule->prefix = addr_from_v4(load_u32(mnl_attr_get_payload(attribute)));
	else if (type == FRA_SRC && bytes == 16)
		rule->prefix = addr_from_v6(mnl_attr_get_payload(attribute));
	else if (type == FRA_TABLE && bytes == 4)
		rule->table = mnl_attr_get_u32(attribute);
	return MNL_CB_OK;
}

static int take_rule(const struct nlmsghdr *message, void *context)
{
	struct source_rules *rules = context;
	const struct fib_rule_hdr *header = mnl_nlmsg_get_payload(message);
	struct source_rule *rule = &rules->rule[rules->count];

	if (mnl_nlmsg_get_payload_len(message) < sizeof(*header) || !header->src_len ||
	    header->action != FR_ACT_TO_TBL || rules->count == SOURCE_RULES_MAX)
		return MNL_CB_OK;
	*rule = (struct source_rule) { .table = header->table, .inverted = header->flags & FIB_RULE_INVERT };
	mnl_attr_parse(message, sizeof(*header), take_attribute, rule);
	rule->bits = header->src_len + (addr_is_v4(&rule->prefix) ? 96 : 0);
	rules->count += rule->bits <= 128;
	return MNL_CB_OK;
}

static void read_rules(struct mnl_socket *socket, bool v6, struct source_rules *ret)
{
	_Alignas(struct nlmsghdr) char buffer[DUMP_BYTES];
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
	struct fib_rule_hdr *header;
	unsigned sequence = v6 ? 6000 : 4000;
	int more = MNL_CB_OK;

	ret->count = 0;
	message->nlmsg_type = RTM_GETRULE;
	message->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	message->nlmsg_seq = sequence;
	header = mnl_nlmsg_put_extra_header(message, sizeof(*header));
	header->family = v6 ? AF_INET6 : AF_INET;
	if (mnl_socket_sendto(socket, message, message->nlmsg_len) < 0)
		return;
	while (more > MNL_CB_STOP) {
		ssize_t bytes = mnl_socket_recvfrom(socket, buffer, sizeof(buffer));

		more = bytes < 0 ? MNL_CB_ERROR
				 : mnl_cb_run(buffer, (size_t)bytes, sequence, mnl_socket_get_portid(socket), take_rule,
					      ret);
	}
}

const struct source_rule *preflight_rule_of_own(const struct source_rules *rules, const struct addr *own,
						const struct addr *other)
{
	const struct source_rule *found = NULL;
	unsigned i;

	for (i = 0; i < rules->count; i++) {
		/* Another rule leads the answers, and dprd cannot know whether it leads them right. */
		if (preflight_rule_matches(&rules->rule[i], other))
			return NULL;
		if (!found && preflight_rule_matches(&rules->rule[i], own))
			found = &rules->rule[i];
	}
	return found;
}

/* True when a far client is reached in the same way from this source and from one that no rule names. */
static bool same_way(struct mnl_socket *socket, const struct addr *own)
{
	struct neighbour with, without;
	struct addr client, none = addr_is_v4(own) ? addr_from_v4(0) : (struct addr) { 0 };
	int error_with, error_without;

	if (!addr_parse(far_client[!addr_is_v4(own)], &client))
		return true;
	error_with = neighbour_find(socket, own, &client, &with);
	error_without = neighbour_find(socket, &none, &client, &without);
	/* Without a route from its own address the node has other problems. */
	if (error_with)
		return true;
	return !error_without && with.interface == without.interface && addr_equal(&with.next_hop, &without.next_hop);
}

/* The source of answers to connections that a peer forwards, which is what policy routing sees. */
static struct addr answering(const struct config *config, unsigned member, unsigned service)
{
	struct addr alias = config_alias(config, member, service);

	return addr_is_zero(&alias) ? config->member[member].service[service] : alias;
}

/* One peer's address that the rules treat unlike the own one; false: there is none, or nothing is said already. */
static bool check_own(struct report *r, const struct config *config, struct mnl_socket *socket,
		      const struct source_rules *rules, const struct addr *own)
{
	char own_text[ADDR_TEXT_BYTES], other_text[ADDR_TEXT_BYTES], what[300], mend[200];
	unsigned i, j;

	for (i = 0; i < config->member_count; i++) {
		for (j = 0; i != config->self && j < config->member[i].service_count; j++) {
			struct addr other = answering(config, i, j);
			const struct source_rule *rule;

			if (addr_is_v4(&other) != addr_is_v4(own))
				continue;
			rule = preflight_rule_of_own(rules, own, &other);
			if (!rule || same_way(socket, own))
				continue;
			addr_format(own, own_text);
			addr_format(&other, other_text);
			snprintf(
				what, sizeof(what),
				"policy routing (ip rule) sends answers with the source %s another way than answers to "
				"connections that %s forwards, whose source is %s",
				own_text, config->member[i].name, other_text);
			snprintf(mend, sizeof(mend),
				 "ip %srule add from %s lookup %u, and the same for each service address of a peer",
				 addr_is_v4(own) ? "" : "-6 ", other_text, rule->table);
			problem(r, false, what, mend);
			return true;
		}
	}
	return false;
}

void preflight_routing(struct report *r, const struct config *config)
{
	const struct member *self = &config->member[config->self];
	struct mnl_socket *socket = neighbour_open();
	struct source_rules rules;
	unsigned i, v6;

	for (v6 = 0; socket && v6 < 2; v6++) {
		read_rules(socket, v6, &rules);
		for (i = 0; rules.count && i < self->service_count; i++) {
			if (addr_is_v4(&self->service[i]) != (bool)v6 &&
			    check_own(r, config, socket, &rules, &self->service[i]))
				break;
		}
	}
	if (socket)
		mnl_socket_close(socket);
}
