// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * rules/look.c - checks that all rules exist: in each chain the number that a set-up writes, and the jump to the chain.
 * It asks the kernel by netlink: the tools would take 0.2 s on a busy host, and the main thread would stand still
 * meanwhile.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h> /* before the kernel's own header of the same names */
#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "dprd/cluster/state.h"
#include "dprd/host/flowset.h"
#include "dprd/rules/rules.h"
#include "dprd/rules/table.h"

enum {
	CHAINS_MAX = 16, /* of one table, which get rules */
	CHAIN_NAME_BYTES = 32,
	TRIES = 4, /* the kernel's list is invalid after a change meanwhile; each flow is such a change */
};

/* The rules of one chain. */
struct chain_count {
	char name[CHAIN_NAME_BYTES];
	unsigned wanted, found;
};

struct look {
	uint8_t family;
	const char *table, *jump_from, *jump_to; /* jump_to NULL: no jump is needed */
	bool jumps;
	unsigned count;
	struct chain_count chain[CHAINS_MAX];
};

/* The count of this chain, which is added when it is missing; NULL: there is no room. */
static struct chain_count *chain_of(struct look *look, const char *name, size_t bytes)
{
	unsigned i;

	for (i = 0; i < look->count; i++) {
		if (strncmp(look->chain[i].name, name, bytes) == 0 && !look->chain[i].name[bytes])
			return &look->chain[i];
	}
	if (look->count == CHAINS_MAX || bytes >= CHAIN_NAME_BYTES)
		return NULL;
	memcpy(look->chain[look->count].name, name, bytes);
	return &look->chain[look->count++];
}

/* Counts the lines of a tool's input that begin with start, by the chain's name behind it. */
static void want_written(struct look *look, const char *script, const char *start)
{
	const char *line, *end;

	for (line = script; (end = strchr(line, '\n')); line = end + 1) {
		const char *name = line + strlen(start);
		struct chain_count *chain;

		if (strncmp(line, start, strlen(start)) != 0)
			continue;
		chain = chain_of(look, name, strcspn(name, " \n"));
		if (chain)
			chain->wanted++;
	}
}

/* The attribute of this kind within another; NULL: none. */
static const struct nlattr *within(const struct nlattr *outer, unsigned kind)
{
	const struct nlattr *attribute;

	if (!outer)
		return NULL;
	mnl_attr_for_each_nested(attribute, outer)
	{
		if (mnl_attr_get_type(attribute) == kind)
			return attribute;
	}
	return NULL;
}

static const char *text_of(const struct nlattr *attribute)
{
	return attribute && mnl_attr_validate(attribute, MNL_TYPE_NUL_STRING) == 0 ? mnl_attr_get_str(attribute) : "";
}

/* True when one of the rule's expressions is a verdict that leads there. */
static bool leads_to(const struct nlattr *expressions, const char *chain)
{
	const struct nlattr *one;

	mnl_attr_for_each_nested(one, expressions)
	{
		const struct nlattr *data = within(within(one, NFTA_EXPR_DATA), NFTA_IMMEDIATE_DATA);

		if (strcmp(text_of(within(one, NFTA_EXPR_NAME)), "immediate") == 0 &&
		    strcmp(text_of(within(within(data, NFTA_DATA_VERDICT), NFTA_VERDICT_CHAIN)), chain) == 0)
			return true;
	}
	return false;
}

static int on_rule(const struct nlmsghdr *message, void *context)
{
	struct look *look = context;
	const struct nlattr *attribute, *expressions = NULL;
	const char *chain = "", *table = "";
	unsigned i;

	mnl_attr_for_each(attribute, message, sizeof(struct nfgenmsg))
	{
		if (mnl_attr_get_type(attribute) == NFTA_RULE_CHAIN)
			chain = text_of(attribute);
		else if (mnl_attr_get_type(attribute) == NFTA_RULE_TABLE)
			table = text_of(attribute);
		else if (mnl_attr_get_type(attribute) == NFTA_RULE_EXPRESSIONS)
			expressions = attribute;
	}
	if (strcmp(table, look->table) != 0)
		return MNL_CB_OK;
	for (i = 0; i < look->count; i++)
		look->chain[i].found += strcmp(look->chain[i].name, chain) == 0;
	if (look->jump_to && expressions && strcmp(chain, look->jump_from) == 0)
		look->jumps = leads_to(expressions, look->jump_to) || look->jumps;
	return MNL_CB_OK;
}

/* One list of the table's rules. 0, or -errno: the answer is unknown. */
static int list_rules(struct look *look)
{
	struct mnl_socket *socket = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC);
	static char buffer[32768]; /* the kernel fills as much of it as possible; main thread only */
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
	struct nfgenmsg *header = mnl_nlmsg_put_extra_header(message, sizeof(*header));
	ssize_t bytes;
	int result = MNL_CB_OK, error = 0;

	message->nlmsg_type = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETRULE;
	message->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	header->nfgen_family = look->family;
	header->version = NFNETLINK_V0;
	mnl_attr_put_strz(message, NFTA_RULE_TABLE, look->table);
	if (!socket)
		return -errno;
	if (mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID) < 0 ||
	    mnl_socket_sendto(socket, message, message->nlmsg_len) < 0)
		error = -errno;
	while (!error && result > MNL_CB_STOP) {
		bytes = mnl_socket_recvfrom(socket, buffer, sizeof(buffer));
		result = bytes < 0 ? (int)bytes : mnl_cb_run(buffer, (size_t)bytes, 0, 0, on_rule, look);
		if (result < 0)
			error = -errno;
	}
	mnl_socket_close(socket);
	return error;
}

/* A missing list proves nothing. */
static bool all_found(struct look *look)
{
	int error = -EINTR;
	unsigned i, tries;

	for (tries = 0; error == -EINTR && tries < TRIES; tries++) {
		look->jumps = false;
		for (i = 0; i < look->count; i++)
			look->chain[i].found = 0;
		error = list_rules(look);
	}
	for (i = 0; !error && i < look->count; i++) {
		if (look->chain[i].found < look->chain[i].wanted)
			return false;
	}
	return error || !look->jump_to || look->jumps;
}

/*
 * True when everything that this input of a tool sets up is in a table. start: the beginning of a line that is a rule.
 */
static bool table_present(struct dprd *d, struct look look, const char *start,
			  void (*write)(FILE *out, struct dprd *d, bool v6))
{
	char *script = NULL;
	size_t bytes;
	FILE *out = open_memstream(&script, &bytes);

	if (!out)
		return true;
	write(out, d, look.family == NFPROTO_IPV6);
	if (fclose(out) == 0)
		want_written(&look, script, start);
	free(script);
	return all_found(&look);
}

static void write_own_table(FILE *out, struct dprd *d, bool v6)
{
	(void)v6;
	rules_write_table(out, d);
}

static void write_queue_chains(FILE *out, struct dprd *d, bool v6)
{
	rules_write_queues(out, &d->config, d->worker_count, v6, true);
}

bool rules_present(struct dprd *d)
{
	static const struct look own = { .family = NFPROTO_INET, .table = "dprd" };
	struct look raw = { .table = "raw", .jump_from = "PREROUTING", .jump_to = RULES_QUEUES };
	unsigned v6;

	/* With the programs the own table usually has no rules. */
	if (!flowset_present(d->set) || !table_present(d, own, RULES_ADD, write_own_table))
		return false;
	for (v6 = 0; v6 < 2; v6++) {
		raw.family = v6 ? NFPROTO_IPV6 : NFPROTO_IPV4;
		if (!table_present(d, raw, "-A ", write_queue_chains))
			return false;
	}
	return true;
}
