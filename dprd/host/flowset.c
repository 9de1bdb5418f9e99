// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The kernel knows the tuples of forwarded flows from an nftables map, so that only their packets wake dprd. A key is
 * the concatenation that the rule uses: address, port, address, port, each padded to four bytes. The value is the mark,
 * which decides whether packets wait while dprd is away. (It is not a verdict: with "goto" as a value, the kernel would
 * walk the whole map at each change.)
 */
#include <endian.h>
#include <errno.h>
#include <netinet/in.h> /* before the kernel's own header of the same names */
#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdlib.h>

#include "dprd/core/packet/marks.h"
#include "dprd/host/flowset.h"

enum {
	KEY_V4_BYTES = 16,
	KEY_V6_BYTES = 40,
	ELEMENT_BYTES_MAX = KEY_V6_BYTES + 24,
	FLOWSET_KEYS_MAX = 256, /* per transaction */
	BUFFER_BYTES = FLOWSET_KEYS_MAX * ELEMENT_BYTES_MAX + 512,
};

struct flowset {
	struct mnl_socket *socket;
	uint32_t sequence;
	char buffer[BUFFER_BYTES];
};

struct flowset *flowset_new(void)
{
	struct flowset *set = calloc(1, sizeof(*set));
	int on = 1;

	if (!set)
		return NULL;
	set->socket = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC);
	/* Without this option an error comes with a copy of the message, and the answer is too long for its place. */
	if (!set->socket || mnl_socket_bind(set->socket, 0, MNL_SOCKET_AUTOPID) < 0 ||
	    mnl_socket_setsockopt(set->socket, NETLINK_CAP_ACK, &on, sizeof(on)) < 0) {
		flowset_free(set);
		return NULL;
	}
	return set;
}

void flowset_free(struct flowset *set)
{
	if (!set)
		return;
	if (set->socket)
		mnl_socket_close(set->socket);
	free(set);
}

static struct nlmsghdr *message_begin(struct flowset *set, size_t at, uint16_t type, uint16_t flags, uint8_t family,
				      uint16_t resource)
{
	struct nlmsghdr *message = mnl_nlmsg_put_header(set->buffer + at);
	struct nfgenmsg *header;

	message->nlmsg_type = type;
	message->nlmsg_flags = NLM_F_REQUEST | flags;
	message->nlmsg_seq = set->sequence;
	header = mnl_nlmsg_put_extra_header(message, sizeof(*header));
	header->nfgen_family = family;
	header->version = NFNETLINK_V0;
	header->res_id = htons(resource);
	return message;
}

static void put_element(struct nlmsghdr *message, enum flowset_change change, const struct flow_key *key, bool v6)
{
	uint8_t bytes[KEY_V6_BYTES] = { 0 };
	unsigned address = v6 ? 16 : 4, skip = v6 ? 0 : 12;
	struct nlattr *element = mnl_attr_nest_start(message, NFTA_LIST_ELEM);
	struct nlattr *data = mnl_attr_nest_start(message, NFTA_SET_ELEM_KEY);

	memcpy(bytes, key->client.bytes + skip, address);
	memcpy(bytes + address, &key->client_port, 2);
	memcpy(bytes + address + 4, key->service.bytes + skip, address);
	memcpy(bytes + 2 * address + 4, &key->service_port, 2);
	mnl_attr_put(message, NFTA_DATA_VALUE, 2 * address + 8, bytes);
	mnl_attr_nest_end(message, data);
	if (change != FLOWSET_REMOVE) {
		data = mnl_attr_nest_start(message, NFTA_SET_ELEM_DATA);
		mnl_attr_put_u32(message, NFTA_DATA_VALUE, change == FLOWSET_ADD ? MARK_FORWARD : MARK_DECIDE);
		mnl_attr_nest_end(message, data);
	}
	mnl_attr_nest_end(message, element);
}

/* Reads the number of packets of a counter from the message about it. False: the message has none. */
static bool read_counter(const struct nlmsghdr *message, uint64_t *ret_packets)
{
	const struct nlattr *attribute, *inner;

	mnl_attr_for_each(attribute, message, sizeof(struct nfgenmsg))
	{
		if (mnl_attr_get_type(attribute) != NFTA_OBJ_DATA)
			continue;
		mnl_attr_for_each_nested(inner, attribute)
		{
			if (mnl_attr_get_type(inner) != NFTA_COUNTER_PACKETS ||
			    mnl_attr_validate(inner, MNL_TYPE_U64) < 0)
				continue;
			*ret_packets = be64toh(mnl_attr_get_u64(inner));
			return true;
		}
	}
	return false;
}

/*
 * The kernel answers with one acknowledgement or one error, and before it with the object that was asked for. Answers
 * with another sequence number are left over from former requests. ret_packets: of the counter that was asked for;
 * NULL: none was.
 */
static int wait_for_ack(struct flowset *set, uint64_t *ret_packets)
{
	bool missing = ret_packets != NULL;
	char answer[4096];

	for (;;) {
		ssize_t bytes = mnl_socket_recvfrom(set->socket, answer, sizeof(answer));
		const struct nlmsghdr *message = (const struct nlmsghdr *)answer;
		int left = (int)bytes;

		if (bytes < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		for (; mnl_nlmsg_ok(message, left); message = mnl_nlmsg_next(message, &left)) {
			int error;

			if (message->nlmsg_seq != set->sequence)
				continue;
			if (missing && message->nlmsg_type == (NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWOBJ))
				missing = !read_counter(message, ret_packets);
			if (message->nlmsg_type != NLMSG_ERROR)
				continue;
			error = ((const struct nlmsgerr *)mnl_nlmsg_get_payload(message))->error;
			return error || !missing ? error : -ENODATA;
		}
	}
}

/*
 * Writes at this place of the buffer the message that adds or removes the keys of this family. Returns the place behind
 * it; 0: there are no such keys.
 */
static size_t put_change(struct flowset *set, size_t at, enum flowset_change change, uint16_t ack,
			 const struct flow_key *keys, unsigned count, bool v6)
{
	bool add = change != FLOWSET_REMOVE;
	uint16_t type = NFNL_SUBSYS_NFTABLES << 8 | (add ? NFT_MSG_NEWSETELEM : NFT_MSG_DELSETELEM);
	struct nlmsghdr *message = message_begin(set, at, type, ack | (add ? NLM_F_CREATE : 0), NFPROTO_INET, 0);
	struct nlattr *list;
	unsigned i, used = 0;

	mnl_attr_put_strz(message, NFTA_SET_ELEM_LIST_TABLE, "dprd");
	mnl_attr_put_strz(message, NFTA_SET_ELEM_LIST_SET, v6 ? "flows6" : "flows4");
	list = mnl_attr_nest_start(message, NFTA_SET_ELEM_LIST_ELEMENTS);
	for (i = 0; i < count; i++) {
		if (addr_is_v4(&keys[i].service) == v6)
			continue;
		put_element(message, change, &keys[i], v6);
		used++;
	}
	mnl_attr_nest_end(message, list);
	return used ? at + NLMSG_ALIGN(message->nlmsg_len) : 0;
}

/* One transaction with the keys of this family. replace: each of them is there, and is removed first. */
static int change_family(struct flowset *set, enum flowset_change change, bool replace, const struct flow_key *keys,
			 unsigned count, bool v6)
{
	struct nlmsghdr *message;
	size_t at;

	set->sequence++;
	message = message_begin(set, 0, NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
	at = NLMSG_ALIGN(message->nlmsg_len);
	/* There is one answer for all messages: that of the last one, or the error of one. */
	if (replace)
		at = put_change(set, at, FLOWSET_REMOVE, 0, keys, count, v6);
	if (at)
		at = put_change(set, at, change, NLM_F_ACK, keys, count, v6);
	if (!at)
		return 0;
	message = message_begin(set, at, NFNL_MSG_BATCH_END, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
	at += NLMSG_ALIGN(message->nlmsg_len);
	if (mnl_socket_sendto(set->socket, set->buffer, at) < 0)
		return -errno;
	return wait_for_ack(set, NULL);
}

/*
 * A transaction that removes elements fails as a whole when one of them is missing. Then they are removed one by one.
 */
static int remove_family(struct flowset *set, const struct flow_key *keys, unsigned count, bool v6)
{
	int error = change_family(set, FLOWSET_REMOVE, false, keys, count, v6);
	unsigned i;

	if (error != -ENOENT)
		return error;
	for (i = 0; i < count; i++) {
		error = change_family(set, FLOWSET_REMOVE, false, &keys[i], 1, v6);
		if (error && error != -ENOENT)
			return error;
	}
	return 0;
}

/* The element is there with the other value: older kernels answer EBUSY. */
static bool is_clash(int error)
{
	return error == -EEXIST || error == -EBUSY;
}

/*
 * A transaction that adds elements fails when one of them is there with the other value. That happens when a new SYN
 * led its flow elsewhere.
 */
static int add_family(struct flowset *set, enum flowset_change change, const struct flow_key *keys, unsigned count,
		      bool v6)
{
	int error = change_family(set, change, false, keys, count, v6);
	unsigned i;

	if (!is_clash(error))
		return error;
	for (i = 0; i < count; i++) {
		error = change_family(set, change, false, &keys[i], 1, v6);
		if (is_clash(error))
			error = change_family(set, change, true, &keys[i], 1, v6);
		if (error)
			return error;
	}
	return 0;
}

int flowset_change(struct flowset *set, enum flowset_change change, const struct flow_key *keys, unsigned count)
{
	int result = 0;

	while (count) {
		unsigned part = count < FLOWSET_KEYS_MAX ? count : FLOWSET_KEYS_MAX;
		int family;

		for (family = 0; family < 2; family++) {
			int error = change == FLOWSET_REMOVE ? remove_family(set, keys, part, family)
							     : add_family(set, change, keys, part, family);

			if (error && !result)
				result = error;
		}
		keys += part;
		count -= part;
	}
	return result;
}

/* Asks for the table, or this chain of it: 0 when it exists, -ENOENT, or another error. */
static int ask(struct flowset *set, uint16_t kind, const char *chain)
{
	struct nlmsghdr *message;

	set->sequence++;
	message = message_begin(set, 0, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | kind), NLM_F_ACK, NFPROTO_INET, 0);
	mnl_attr_put_strz(message, NFTA_TABLE_NAME, "dprd"); /* NFTA_CHAIN_TABLE has the same number */
	if (chain)
		mnl_attr_put_strz(message, NFTA_CHAIN_NAME, chain);
	return mnl_socket_sendto(set->socket, message, message->nlmsg_len) < 0 ? -errno : wait_for_ack(set, NULL);
}

bool flowset_present(struct flowset *set)
{
	/* Any other error does not show that the table is gone. */
	return ask(set, NFT_MSG_GETTABLE, NULL) != -ENOENT;
}

bool flowset_chain_present(struct flowset *set, const char *chain)
{
	return ask(set, NFT_MSG_GETCHAIN, chain) == 0;
}

int flowset_counter(struct flowset *set, const char *name, uint64_t *ret_packets)
{
	struct nlmsghdr *message;

	set->sequence++;
	message = message_begin(set, 0, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETOBJ, NLM_F_ACK, NFPROTO_INET, 0);
	mnl_attr_put_strz(message, NFTA_OBJ_TABLE, "dprd");
	mnl_attr_put_strz(message, NFTA_OBJ_NAME, name);
	mnl_attr_put_u32(message, NFTA_OBJ_TYPE, htonl(NFT_OBJECT_COUNTER));
	return mnl_socket_sendto(set->socket, message, message->nlmsg_len) < 0 ? -errno
									       : wait_for_ack(set, ret_packets);
}
