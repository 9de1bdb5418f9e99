// SPDX-License-Identifier: GPL-2.0-or-later
/* shared/module.c - generic netlink with the kernel module dprd_biactive. */
#include "dprd/shared/module.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/genetlink.h>

enum {
	MESSAGE_BYTES = 8192,
	TIMEOUT_S = 5,
};

/* One conversation with the kernel. Requests and answers share the buffer. */
struct conversation {
	struct mnl_socket *socket;
	uint16_t family;
	char buffer[MESSAGE_BYTES];
};

const char *shared_module_counter_name(unsigned counter)
{
	static const char *const names[] = {
#define NAME_ENTRY(upper, lower) [BIACTIVE_##upper] = #lower,
		BIACTIVE_COUNTERS(NAME_ENTRY)
#undef NAME_ENTRY
	};

	return counter < BIACTIVE_COUNTER_COUNT ? names[counter] : NULL;
}

static struct nlmsghdr *start(struct conversation *talk, uint16_t family, uint8_t command, uint16_t flags)
{
	struct nlmsghdr *message = mnl_nlmsg_put_header(talk->buffer);
	struct genlmsghdr *generic;

	message->nlmsg_type = family;
	message->nlmsg_flags = NLM_F_REQUEST | flags;
	message->nlmsg_seq = 1;
	generic = mnl_nlmsg_put_extra_header(message, sizeof(*generic));
	generic->cmd = command;
	generic->version = BIACTIVE_FAMILY_VERSION;
	return message;
}

/*
 * Sends the request, then calls attribute() for every attribute of the answer. An acknowledgement without attributes is
 * an answer, too.
 */
static int ask(struct conversation *talk, struct nlmsghdr *message, mnl_attr_cb_t attribute, void *context)
{
	const struct nlmsghdr *answer = (const struct nlmsghdr *)talk->buffer;
	ssize_t bytes;

	if (mnl_socket_sendto(talk->socket, message, message->nlmsg_len) < 0)
		return -errno;
	do {
		bytes = mnl_socket_recvfrom(talk->socket, talk->buffer, sizeof(talk->buffer));
	} while (bytes < 0 && errno == EINTR);
	if (bytes < 0)
		return -errno;
	if (!mnl_nlmsg_ok(answer, (int)bytes))
		return -EPROTO;
	if (answer->nlmsg_type == NLMSG_ERROR) {
		const struct nlmsgerr *error = mnl_nlmsg_get_payload(answer);

		return mnl_nlmsg_get_payload_len(answer) < sizeof(error->error) ? -EPROTO : error->error;
	}
	if (!attribute || mnl_attr_parse(answer, sizeof(struct genlmsghdr), attribute, context) < 0)
		return -EPROTO;
	return 0;
}

static int take_family(const struct nlattr *attribute, void *context)
{
	uint16_t *family = context;

	if (mnl_attr_get_type(attribute) == CTRL_ATTR_FAMILY_ID && mnl_attr_get_payload_len(attribute) == 2)
		*family = mnl_attr_get_u16(attribute);
	return MNL_CB_OK;
}

static int find_family(struct conversation *talk)
{
	struct nlmsghdr *message = start(talk, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 0);
	int error;

	mnl_attr_put_strz(message, CTRL_ATTR_FAMILY_NAME, BIACTIVE_FAMILY);
	error = ask(talk, message, take_family, &talk->family);
	return error ?: talk->family ? 0 : -EPROTO;
}

static void end(struct conversation *talk)
{
	if (talk->socket)
		mnl_socket_close(talk->socket);
	talk->socket = NULL;
}

/* Opens a socket and gets the number of the family. The caller must call end() in any case. */
static int begin(struct conversation *talk)
{
	const struct timeval patience = { .tv_sec = TIMEOUT_S };

	talk->family = 0;
	talk->socket = mnl_socket_open2(NETLINK_GENERIC, SOCK_CLOEXEC);
	if (!talk->socket || mnl_socket_bind(talk->socket, 0, MNL_SOCKET_AUTOPID) < 0 ||
	    setsockopt(mnl_socket_get_fd(talk->socket), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0)
		return -errno;
	return find_family(talk);
}

static void put_key(struct nlmsghdr *message, const uint64_t key[2])
{
	uint8_t bytes[BIACTIVE_KEY_BYTES];
	unsigned i;

	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(key[i / 8] >> 8 * (i % 8));
	mnl_attr_put(message, BIACTIVE_A_KEY, sizeof(bytes), bytes);
}

int shared_module_set(const struct shared_module_setup *setup)
{
	struct biactive_address addresses[BIACTIVE_ADDRESSES_MAX] = { 0 };
	struct conversation talk;
	struct nlmsghdr *message;
	unsigned i;
	int error;

	if (!setup->count || setup->count > BIACTIVE_ADDRESSES_MAX)
		return -EINVAL;
	for (i = 0; i < setup->count; i++) {
		memcpy(addresses[i].ip, setup->shared[i].addr.bytes, sizeof(addresses[i].ip));
		memcpy(addresses[i].mac, setup->shared[i].mac, sizeof(addresses[i].mac));
	}
	error = begin(&talk);
	if (!error) {
		message = start(&talk, talk.family, BIACTIVE_CMD_SET, NLM_F_ACK);
		mnl_attr_put_u32(message, BIACTIVE_A_IFINDEX, setup->interface);
		mnl_attr_put_u8(message, BIACTIVE_A_HOOK, setup->late ? BIACTIVE_HOOK_LATE : BIACTIVE_HOOK_EARLY);
		/* Older modules do not know this attribute, and refuse unknown ones. */
		if (setup->nat)
			mnl_attr_put_u8(message, BIACTIVE_A_NAT, 1);
		put_key(message, setup->key);
		mnl_attr_put_u32(message, BIACTIVE_A_LEASE_UID, setup->lease_uid);
		mnl_attr_put(message, BIACTIVE_A_ADDRESSES, setup->count * sizeof(addresses[0]), addresses);
		error = ask(&talk, message, NULL, NULL);
	}
	end(&talk);
	return error;
}

int shared_module_clear(void)
{
	struct conversation talk;
	int error = begin(&talk);

	if (!error)
		error = ask(&talk, start(&talk, talk.family, BIACTIVE_CMD_CLEAR, NLM_F_ACK), NULL, NULL);
	end(&talk);
	return error;
}

static int take_counter(const struct nlattr *attribute, void *context)
{
	struct shared_module_state *state = context;
	unsigned type = mnl_attr_get_type(attribute);

	if (type >= 1 && type <= BIACTIVE_COUNTER_COUNT && mnl_attr_get_payload_len(attribute) == 8)
		state->counters[type - 1] = mnl_attr_get_u64(attribute);
	return MNL_CB_OK;
}

static void take_addresses(const struct nlattr *attribute, struct shared_module_setup *setup)
{
	unsigned count = mnl_attr_get_payload_len(attribute) / sizeof(struct biactive_address);
	const uint8_t *payload = mnl_attr_get_payload(attribute);
	struct biactive_address address;

	for (setup->count = 0; setup->count < count && setup->count < BIACTIVE_ADDRESSES_MAX; setup->count++) {
		struct shared_module_address *shared = &setup->shared[setup->count];

		memcpy(&address, payload + setup->count * sizeof(address), sizeof(address));
		shared->addr = addr_from_v6(address.ip);
		memcpy(shared->mac, address.mac, sizeof(shared->mac));
	}
}

static void take_share(const struct nlattr *attribute, struct bucket_share *share)
{
	size_t bytes = mnl_attr_get_payload_len(attribute);

	memcpy(share, mnl_attr_get_payload(attribute), bytes < sizeof(*share) ? bytes : sizeof(*share));
	if (share->count > BUCKET_MEMBERS_MAX)
		share->count = BUCKET_MEMBERS_MAX;
}

/* The one number in an attribute of 1, 4 or 8 bytes. */
static uint64_t number(const struct nlattr *attribute)
{
	switch (mnl_attr_get_payload_len(attribute)) {
	case 1:
		return mnl_attr_get_u8(attribute);
	case 4:
		return mnl_attr_get_u32(attribute);
	case 8:
		return mnl_attr_get_u64(attribute);
	default:
		return 0;
	}
}

static int take_state(const struct nlattr *attribute, void *context)
{
	struct shared_module_state *state = context;

	switch (mnl_attr_get_type(attribute)) {
	case BIACTIVE_A_IFINDEX:
		state->configured = true;
		state->setup.interface = (uint32_t)number(attribute);
		break;
	case BIACTIVE_A_IFNAME:
		if (mnl_attr_validate(attribute, MNL_TYPE_NUL_STRING) == 0)
			snprintf(state->interface_name, sizeof(state->interface_name), "%s",
				 mnl_attr_get_str(attribute));
		break;
	case BIACTIVE_A_HOOK:
		state->setup.late = number(attribute) == BIACTIVE_HOOK_LATE;
		break;
	case BIACTIVE_A_NAT:
		state->setup.nat = number(attribute) != 0;
		break;
	case BIACTIVE_A_LEASE_UID:
		state->setup.lease_uid = (uint32_t)number(attribute);
		break;
	case BIACTIVE_A_ADDRESSES:
		take_addresses(attribute, &state->setup);
		break;
	case BIACTIVE_A_LEASE_UNTIL:
		state->has_lease = true;
		state->lease_until_ns = number(attribute);
		break;
	case BIACTIVE_A_SHARE_CHANGED:
		state->share_changed_ns = number(attribute);
		break;
	case BIACTIVE_A_SHARE:
		take_share(attribute, &state->share);
		break;
	case BIACTIVE_A_COUNTERS:
		return mnl_attr_parse_nested(attribute, take_counter, state);
	default:
		break;
	}
	return MNL_CB_OK;
}

int shared_module_get(struct shared_module_state *ret)
{
	struct conversation talk;
	int error = begin(&talk);

	memset(ret, 0, sizeof(*ret));
	if (!error)
		error = ask(&talk, start(&talk, talk.family, BIACTIVE_CMD_GET, 0), take_state, ret);
	end(&talk);
	return error;
}
