// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * biactive-tool.c - the kernel module by hand, for tests. In the network namespace where it runs:
 *
 *   set INTERFACE HOOK KEY UID ADDRESS[=MAC]...         HOOK: early, late, early+nat, late+nat; KEY: 32 hex digits
 *   get                                                 configuration, lease and counters as JSON
 *   clear
 *   lease MS SELF ID[:WEIGHT]...                        valid for MS milliseconds from now; SELF: an id
 *   leases                                              reads such lines ("MS SELF ID[:WEIGHT]...") and writes each
 *   garbage COUNT SEED                                  bad and mutilated requests and leases, reproducible
 *
 * Exit status: 0, 1 when the kernel refused (its error on stderr), 2 for wrong arguments.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <libmnl/libmnl.h>
#include <linux/genetlink.h>
#include <net/if.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "dprd/shared/module.h"

enum {
	LINE_BYTES = 4096,
	WORDS_MAX = BUCKET_MEMBERS_MAX + 4,
	WEIGHT_DEFAULT = 100,
};

static int usage(void)
{
	fprintf(stderr, "usage: biactive-tool set INTERFACE early[+nat]|late[+nat] KEY UID ADDRESS[=MAC]...\n"
			"       biactive-tool get|clear|leases\n"
			"       biactive-tool lease MS SELF ID[:WEIGHT]...\n"
			"       biactive-tool garbage COUNT SEED\n");
	return 2;
}

static int report(const char *what, int error)
{
	if (!error)
		return 0;
	fprintf(stderr, "biactive-tool: %s: %s\n", what, strerror(-error));
	return 1;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool parse_hex(const char *text, uint8_t *ret, unsigned bytes, const char *between)
{
	unsigned i;
	char *rest;

	for (i = 0; i < bytes; i++) {
		const char pair[3] = { text[0], text[0] ? text[1] : 0, 0 };

		ret[i] = (uint8_t)strtoul(pair, &rest, 16);
		if (rest != pair + 2)
			return false;
		text += 2;
		if (i + 1 < bytes && strncmp(text, between, strlen(between)) != 0)
			return false;
		if (i + 1 < bytes)
			text += strlen(between);
	}
	return !*text;
}

static bool parse_shared(char *word, struct shared_module_address *ret)
{
	char *mac = strchr(word, '=');

	if (mac)
		*mac++ = 0;
	if (!addr_parse(word, &ret->addr))
		return false;
	if (mac)
		return parse_hex(mac, ret->mac, 6, ":");
	biactive_default_mac(ret->addr.bytes, ret->mac);
	return true;
}

static int set(int count, char **words)
{
	struct shared_module_setup setup = { 0 };
	uint8_t key[BIACTIVE_KEY_BYTES];
	unsigned i;

	if (count < 5 || count > 4 + BIACTIVE_ADDRESSES_MAX || !parse_hex(words[2], key, sizeof(key), ""))
		return usage();
	setup.interface = if_nametoindex(words[0]);
	if (!setup.interface)
		return report(words[0], -ENODEV);
	setup.late = strncmp(words[1], "late", 4) == 0;
	setup.nat = strstr(words[1], "+nat") != NULL;
	for (i = 0; i < sizeof(key); i++)
		setup.key[i / 8] |= (uint64_t)key[i] << 8 * (i % 8);
	setup.lease_uid = (uint32_t)strtoul(words[3], NULL, 10);
	for (i = 4; i < (unsigned)count; i++) {
		if (!parse_shared(words[i], &setup.shared[setup.count++]))
			return usage();
	}
	return report("set", shared_module_set(&setup));
}

static json_t *addresses_json(const struct shared_module_setup *setup)
{
	json_t *list = json_array();
	char ip[ADDR_TEXT_BYTES], mac[18];
	unsigned i;

	for (i = 0; i < setup->count; i++) {
		const uint8_t *m = setup->shared[i].mac;

		snprintf(mac, sizeof(mac), "%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5]);
		json_array_append_new(
			list, json_pack("{s:s, s:s}", "address", addr_format(&setup->shared[i].addr, ip), "mac", mac));
	}
	return list;
}

static json_t *lease_json(const struct shared_module_state *state)
{
	json_t *members = json_array();
	uint32_t i;

	if (!state->has_lease) {
		json_decref(members);
		return json_null();
	}
	for (i = 0; i < state->share.count; i++)
		json_array_append_new(members, json_pack("{s:I, s:I}", "id", (json_int_t)state->share.member[i].id,
							 "weight", (json_int_t)state->share.member[i].weight));
	return json_pack("{s:I, s:I, s:I, s:o}", "left_ns", (json_int_t)(state->lease_until_ns - now_ns()),
			 "changed_ns", (json_int_t)state->share_changed_ns, "self", (json_int_t)state->share.self_id,
			 "members", members);
}

static int get(void)
{
	struct shared_module_state state;
	int error = shared_module_get(&state);
	json_t *counters, *all;
	unsigned i;

	if (error)
		return report("get", error);
	counters = json_object();
	for (i = 0; i < BIACTIVE_COUNTER_COUNT; i++)
		json_object_set_new(counters, shared_module_counter_name(i),
				    json_integer((json_int_t)state.counters[i]));
	all = json_pack("{s:b, s:s, s:I, s:s, s:b, s:I, s:o, s:o, s:o}", "configured", state.configured, "interface",
			state.interface_name, "ifindex", (json_int_t)state.setup.interface, "hook",
			state.setup.late ? "late" : "early", "nat", state.setup.nat, "lease_uid",
			(json_int_t)state.setup.lease_uid, "addresses", addresses_json(&state.setup), "lease",
			lease_json(&state), "counters", counters);
	json_dumpf(all, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(all);
	return 0;
}

/* 0 or -errno. */
static int write_lease(const void *lease, size_t bytes)
{
	int file = open(BIACTIVE_LEASE_PATH, O_WRONLY | O_CLOEXEC), error = 0;

	if (file < 0)
		return -errno;
	if (write(file, lease, bytes) != (ssize_t)bytes)
		error = -errno;
	close(file);
	return error;
}

static int lease(int count, char **words)
{
	struct bucket_lease written = { .version = BUCKET_LEASE_VERSION };
	int i;

	if (count < 2 || count - 2 > (int)BUCKET_MEMBERS_MAX)
		return usage();
	written.until_ns = now_ns() + strtoull(words[0], NULL, 10) * 1000000u;
	written.share.self_id = (uint32_t)strtoul(words[1], NULL, 10);
	for (i = 2; i < count; i++) {
		struct bucket_member *member = &written.share.member[written.share.count++];
		char *weight;

		member->id = (uint32_t)strtoul(words[i], &weight, 10);
		member->weight = *weight == ':' ? (uint32_t)strtoul(weight + 1, NULL, 10) : WEIGHT_DEFAULT;
	}
	return report("lease", write_lease(&written, sizeof(written)));
}

static int leases(void)
{
	char line[LINE_BYTES], *words[WORDS_MAX], *rest;
	int failed = 0;

	while (fgets(line, sizeof(line), stdin)) {
		int count = 0;
		char *word = strtok_r(line, " \n", &rest);

		for (; word && count < WORDS_MAX; word = strtok_r(NULL, " \n", &rest))
			words[count++] = word;
		failed |= lease(count, words);
	}
	return failed;
}

/* splitmix64 */
static uint64_t draw(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* A lease with a single fault, so that the kernel must check everything. */
static size_t bad_lease(uint64_t *random, struct bucket_lease *ret)
{
	uint32_t i;

	*ret = (struct bucket_lease) { .version = BUCKET_LEASE_VERSION,
				       .share = { .self_id = 1, .count = 1 + (uint32_t)(draw(random) % 64) } };
	for (i = 0; i < ret->share.count; i++)
		ret->share.member[i] = (struct bucket_member) { .id = i + 1, .weight = 1 };
	i = (uint32_t)(draw(random) % ret->share.count);
	switch (draw(random) % 9) {
	case 0:
		ret->version = (uint32_t)draw(random) | 2;
		break;
	case 1:
		ret->reserved = (uint32_t)draw(random) | 1;
		break;
	case 2:
		ret->share.self_id = 0;
		break;
	case 3:
		ret->share.count = 65 + (uint32_t)(draw(random) % 0xffffff00u);
		break;
	case 4:
		ret->share.member[i].id = 0;
		break;
	case 5:
		ret->share.member[i].weight = 0;
		break;
	case 6:
		ret->share.member[i].weight = 1001 + (uint32_t)(draw(random) % 0xffff0000u);
		break;
	case 7:
		ret->share.count = 2 + (uint32_t)(draw(random) % 63);
		for (i = 0; i < ret->share.count; i++)
			ret->share.member[i] = (struct bucket_member) { .id = i + 1, .weight = 1 };
		ret->share.member[ret->share.count - 1].id = 1 + (uint32_t)(draw(random) % (ret->share.count - 1));
		break;
	default:
		return draw(random) % sizeof(*ret);
	}
	return sizeof(*ret);
}

static int take_family(const struct nlattr *attribute, void *context)
{
	if (mnl_attr_get_type(attribute) == CTRL_ATTR_FAMILY_ID)
		*(uint16_t *)context = mnl_attr_get_u16(attribute);
	return MNL_CB_OK;
}

static struct nlmsghdr *request(char *buffer, uint16_t type, uint8_t command)
{
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
	struct genlmsghdr *generic;

	message->nlmsg_type = type;
	message->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	generic = mnl_nlmsg_put_extra_header(message, sizeof(*generic));
	generic->cmd = command;
	generic->version = 1;
	return message;
}

/* A SET with random attributes of random sizes, one of them at least impossible: interface 0. */
static void bad_request(uint64_t *random, struct nlmsghdr *message)
{
	unsigned i, attributes = (unsigned)(draw(random) % 12), j;
	uint8_t bytes[256];

	for (i = 0; i < attributes; i++) {
		uint16_t type = (uint16_t)(draw(random) % (BIACTIVE_A_COUNT + 2));
		size_t size = draw(random) % 4 ? (size_t[]) { 1, 4, 16, 24, 48, 192, 8, 216 }[draw(random) % 8]
					       : draw(random) % sizeof(bytes);

		for (j = 0; j < size; j++)
			bytes[j] = draw(random) % 3 ? 0 : (uint8_t)draw(random);
		if (type == BIACTIVE_A_IFINDEX && size >= 4)
			memset(bytes, 0, 4);
		mnl_attr_put(message, type, size, bytes);
	}
	mnl_attr_put_u32(message, BIACTIVE_A_IFINDEX, 0);
	if (draw(random) % 4 == 0)
		((struct nlattr *)mnl_nlmsg_get_payload_offset(message, sizeof(struct genlmsghdr)))->nla_len =
			(uint16_t)draw(random);
}

/* The number of requests that the kernel took, although each is wrong; -1: it did not answer. */
static int garbage_requests(unsigned long count, uint64_t *random)
{
	struct mnl_socket *socket = mnl_socket_open(NETLINK_GENERIC);
	char buffer[8192];
	const struct nlmsghdr *answer = (const struct nlmsghdr *)buffer;
	struct nlmsghdr *message;
	uint16_t family = 0;
	int taken = 0;

	if (!socket || mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID) < 0)
		return -1;
	message = request(buffer, GENL_ID_CTRL, CTRL_CMD_GETFAMILY);
	message->nlmsg_flags = NLM_F_REQUEST;
	mnl_attr_put_strz(message, CTRL_ATTR_FAMILY_NAME, BIACTIVE_FAMILY);
	if (mnl_socket_sendto(socket, message, message->nlmsg_len) < 0 ||
	    mnl_socket_recvfrom(socket, buffer, sizeof(buffer)) < 0 || answer->nlmsg_type == NLMSG_ERROR)
		return -1;
	mnl_attr_parse(answer, sizeof(struct genlmsghdr), take_family, &family);
	while (count--) {
		message = request(buffer, family, BIACTIVE_CMD_SET);
		bad_request(random, message);
		if (mnl_socket_sendto(socket, message, message->nlmsg_len) < 0 ||
		    mnl_socket_recvfrom(socket, buffer, sizeof(buffer)) < 0 || answer->nlmsg_type != NLMSG_ERROR)
			return -1;
		taken += ((const struct nlmsgerr *)mnl_nlmsg_get_payload(answer))->error == 0;
	}
	mnl_socket_close(socket);
	return taken;
}

static int garbage(unsigned long count, uint64_t seed)
{
	int file = open(BIACTIVE_LEASE_PATH, O_WRONLY | O_CLOEXEC), requests;
	struct bucket_lease bad;
	unsigned long i, taken = 0;

	if (file < 0)
		return report(BIACTIVE_LEASE_PATH, -errno);
	for (i = 0; i < count; i++) {
		size_t bytes = bad_lease(&seed, &bad);

		taken += write(file, &bad, bytes) >= 0 || errno != EINVAL;
	}
	close(file);
	requests = garbage_requests(count, &seed);
	printf("%lu of %lu bad leases and %d of %lu bad requests were taken\n", taken, count, requests, count);
	return taken || requests ? 1 : 0;
}

int main(int count, char **words)
{
	const char *command = count > 1 ? words[1] : "";

	if (strcmp(command, "set") == 0)
		return set(count - 2, words + 2);
	if (strcmp(command, "get") == 0)
		return get();
	if (strcmp(command, "clear") == 0)
		return report("clear", shared_module_clear());
	if (strcmp(command, "lease") == 0)
		return lease(count - 2, words + 2);
	if (strcmp(command, "leases") == 0)
		return leases();
	if (strcmp(command, "garbage") == 0 && count == 4)
		return garbage(strtoul(words[2], NULL, 10), strtoull(words[3], NULL, 10));
	return usage();
}
