// SPDX-License-Identifier: GPL-2.0-or-later
/* probed.c - reads a set of nftables by netlink: the addresses, and how long ago each was updated. */
#include "dprd/host/probed.h"

#include <endian.h>
#include <errno.h>
#include <netinet/in.h> /* before the kernel's own header of the same names */
#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

enum {
	BUFFER_BYTES = 32768, /* the kernel fills as much of it as it can */
	TRIES = 3, /* the kernel's list is invalid after a change meanwhile */
};

struct reading {
	bool v6;
	const char *set;
	probed_fn *item;
	void *context;
};

static const struct nlattr *within(const struct nlattr *outer, unsigned kind)
{
	const struct nlattr *attribute;

	mnl_attr_for_each_nested(attribute, outer)
	{
		if (mnl_attr_get_type(attribute) == kind)
			return attribute;
	}
	return NULL;
}

static void read_element(const struct reading *r, const struct nlattr *element)
{
	const struct nlattr *key = within(element, NFTA_SET_ELEM_KEY);
	const struct nlattr *rest = within(element, NFTA_SET_ELEM_EXPIRATION);
	const struct nlattr *value = key ? within(key, NFTA_DATA_VALUE) : NULL;
	uint64_t rest_ms;
	struct addr address;
	be32 v4;

	if (!value || mnl_attr_get_payload_len(value) != (r->v6 ? 16 : 4) || !rest ||
	    mnl_attr_validate(rest, MNL_TYPE_U64) < 0)
		return;
	memcpy(&v4, mnl_attr_get_payload(value), sizeof(v4));
	address = r->v6 ? addr_from_v6(mnl_attr_get_payload(value)) : addr_from_v4(v4);
	rest_ms = be64toh(mnl_attr_get_u64(rest));
	r->item(r->context, &address, rest_ms < PROBED_KEPT_MS ? (uint32_t)(PROBED_KEPT_MS - rest_ms) : 0);
}

static int on_elements(const struct nlmsghdr *message, void *context)
{
	const struct nlattr *attribute, *element;

	mnl_attr_for_each(attribute, message, sizeof(struct nfgenmsg))
	{
		if (mnl_attr_get_type(attribute) != NFTA_SET_ELEM_LIST_ELEMENTS)
			continue;
		mnl_attr_for_each_nested(element, attribute) read_element(context, element);
	}
	return MNL_CB_OK;
}

static int read_once(struct reading *r)
{
	/* The rest of a list that became invalid goes with its socket. */
	struct mnl_socket *socket = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC);
	static char buffer[BUFFER_BYTES]; /* main thread only */
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
	struct nfgenmsg *header = mnl_nlmsg_put_extra_header(message, sizeof(*header));
	int result = MNL_CB_OK, error = 0;

	if (!socket)
		return -errno;
	message->nlmsg_type = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETSETELEM;
	message->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	header->nfgen_family = NFPROTO_INET;
	header->version = NFNETLINK_V0;
	mnl_attr_put_strz(message, NFTA_SET_ELEM_LIST_TABLE, "dprd");
	mnl_attr_put_strz(message, NFTA_SET_ELEM_LIST_SET, r->set);
	if (mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID) < 0 ||
	    mnl_socket_sendto(socket, message, message->nlmsg_len) < 0)
		error = -errno;
	while (!error && result > MNL_CB_STOP) {
		ssize_t bytes = mnl_socket_recvfrom(socket, buffer, sizeof(buffer));

		result = bytes < 0 ? (int)bytes : mnl_cb_run(buffer, (size_t)bytes, 0, 0, on_elements, r);
		if (result < 0)
			error = -errno;
	}
	mnl_socket_close(socket);
	return error;
}

int probed_read(bool v6, bool full, probed_fn *item, void *context)
{
	static const char *const sets[2][2] = { { "probed4", "probed6" }, { "probed_full4", "probed_full6" } };
	struct reading r = { .v6 = v6, .set = sets[full][v6], .item = item, .context = context };
	int error = -EINTR;

	for (unsigned i = 0; i < TRIES && error == -EINTR; i++)
		error = read_once(&r);
	/* Each flow changes the table, which makes no probe invalid. */
	return error == -EINTR ? 0 : error;
}
