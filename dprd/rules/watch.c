// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Reports at once when another program removes rules, chains or tables of dprd, by nftables notifications, which
 * include iptables-nft's tables. dprd also checks its rules from time to time.
 */
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/filter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "dprd/rules/rules.h"

enum {
	MESSAGES_MAX = 256, /* that one call reads: more messages tell nothing new */
	BUFFER_BYTES = 16384,
};

struct rules_watch {
	struct mnl_socket *socket;
	char buffer[BUFFER_BYTES];
};

/*
 * The filter drops changes of sets' elements: without the programs each flow is one. The offset is that of the
 * message's type in struct nlmsghdr, in host order; its low byte is the operation.
 */
static int attach_filter(const struct rules_watch *w)
{
	const unsigned kind =
		(unsigned)offsetof(struct nlmsghdr, nlmsg_type) + (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0 : 1);
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kind),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NFT_MSG_NEWSETELEM, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NFT_MSG_DELSETELEM, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NFT_MSG_NEWGEN, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog program = { .len = sizeof(code) / sizeof(code[0]), .filter = code };

	return setsockopt(mnl_socket_get_fd(w->socket), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

struct rules_watch *rules_watch_new(void)
{
	struct rules_watch *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->socket = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (!w->socket || attach_filter(w) ||
	    mnl_socket_bind(w->socket, 1u << (NFNLGRP_NFTABLES - 1), MNL_SOCKET_AUTOPID) < 0) {
		rules_watch_free(w);
		return NULL;
	}
	return w;
}

void rules_watch_free(struct rules_watch *w)
{
	if (!w)
		return;
	if (w->socket)
		mnl_socket_close(w->socket);
	free(w);
}

static int on_attribute(const struct nlattr *attribute, void *context)
{
	const char **table = context;

	/* NFTA_CHAIN_TABLE, NFTA_RULE_TABLE and NFTA_SET_TABLE have the same number. */
	if (mnl_attr_get_type(attribute) == NFTA_TABLE_NAME && !mnl_attr_validate(attribute, MNL_TYPE_NUL_STRING))
		*table = mnl_attr_get_str(attribute);
	return MNL_CB_OK;
}

/* True when this message removes something from a table that has rules of dprd. */
static bool takes_away(const struct nlmsghdr *message)
{
	const char *table = NULL;

	switch (message->nlmsg_type & 0xff) {
	case NFT_MSG_DELTABLE:
	case NFT_MSG_DELCHAIN:
	case NFT_MSG_DELRULE:
	case NFT_MSG_DELSET:
		break;
	default:
		return false;
	}
	if (message->nlmsg_type >> 8 != NFNL_SUBSYS_NFTABLES ||
	    mnl_attr_parse(message, sizeof(struct nfgenmsg), on_attribute, &table) != MNL_CB_OK)
		return false;
	return table && (strcmp(table, "raw") == 0 || strcmp(table, "dprd") == 0);
}

bool rules_watch_hit(struct rules_watch *w)
{
	bool hit = false;

	for (unsigned i = 0; w && i < MESSAGES_MAX; i++) {
		ssize_t bytes = mnl_socket_recvfrom(w->socket, w->buffer, sizeof(w->buffer));
		const struct nlmsghdr *message = (const void *)w->buffer;
		int rest = (int)bytes;

		/* There were more messages than room: a removal may be among them. */
		if (bytes < 0 && (errno == ENOBUFS || errno == ENOSPC))
			hit = true;
		else if (bytes <= 0)
			break;
		for (; mnl_nlmsg_ok(message, rest); message = mnl_nlmsg_next(message, &rest))
			hit = takes_away(message) || hit;
	}
	return hit;
}
