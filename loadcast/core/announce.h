/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * announce.h - one announcement on the wire: fixed header, protobuf payload, MAC. Pure.
 *
 *   0      4        5       6               8          12        16      24         32
 *   | DPLC | version | key id | payload bytes | sender id | 0 (4) | epoch | sequence | payload ... | MAC (32) |
 *
 * Integers of the header are big endian. docs/announce.md has the rest to the byte. The functions
 * are called in the order of reception: header, then MAC, then payload; nothing is allocated or
 * parsed before the MAC is right. table.c decides between the steps.
 */
#ifndef LOADCAST_ANNOUNCE_H
#define LOADCAST_ANNOUNCE_H

#include <stddef.h>

#include "dprd/base/proofs.h"
#include "loadcast/load.h"

enum {
	ANNOUNCE_VERSION = 1,
	ANNOUNCE_HEADER_BYTES = 32,
	ANNOUNCE_MAC_BYTES = 32,
	ANNOUNCE_BYTES_MAX = 1400, /* fits an Ethernet frame, also inside one more tunnel */
	ANNOUNCE_KEYS_MAX = 2, /* the one in use and, during a change, the next */
	ANNOUNCE_PERIOD_MIN_MS = 50,
	ANNOUNCE_PERIOD_MAX_MS = 10000,
	ANNOUNCE_WEIGHT_MAX = 1000,
	ANNOUNCE_LOAD_MAX = 1000000000, /* a larger count is taken as this */
};

/*
 * Reasons why an announcement was not taken: name, text of the log, and whether it counts as rejected. Copies and own
 * messages do not count: each message goes several ways.
 */
#define REJECTS(X)                                                                          \
	X(SHORT, "too short for header and MAC", true)                                      \
	X(LONG, "longer than an announcement can be", true)                                 \
	X(MAGIC, "not an announcement", true)                                               \
	X(VERSION, "of an unknown version", true)                                           \
	X(LENGTH, "length field and datagram disagree", true)                               \
	X(RESERVED, "reserved header bytes are not zero", true)                             \
	X(SOURCE, "source address is not that of the sending member", true)                 \
	X(OWN, "sent by this node itself", false)                                           \
	X(DUPLICATE, "a copy of the newest one", false)                                     \
	X(LATE, "a late copy: a newer one came before", false)                              \
	X(OLD_SEQUENCE, "older than one that was accepted", true)                           \
	X(RATE, "too many per second", true)                                                \
	X(KEY_ID, "made with a key that is not ours", true)                                 \
	X(MAC, "wrong MAC", true)                                                           \
	X(MALFORMED, "payload is not a message", true)                                      \
	X(RANGE, "payload holds a value out of range", true)                                \
	X(NAME, "payload has another node's name", true)                                    \
	X(OTHER_EPOCH, "of another run of that node, without proof that it is alive", true) \
	X(CONFLICT, "of a second host with this name", true)

enum reject {
	REJECT_NONE,
#define X(name, text, counts) REJECT_##name,
	REJECTS(X)
#undef X
		REJECT_REASONS,
};

/* The reason as text that follows "announcement from 10.0.0.1 not taken: "; static. */
const char *reject_text(enum reject reason);
/* True when it counts in load_table.rejected. */
bool reject_counts(enum reject reason);
/* The same in the words of the load table. known: the source is an address of a member. REJECTION_NONE: it is none. */
enum rejection reject_cause(enum reject reason, bool known);

struct announce_key {
	uint8_t id; /* the number in the header */
	uint8_t mac_key[32]; /* derived from the key and the cluster's name */
};

struct announce_keys {
	unsigned count; /* key[0] signs, all of them verify */
	struct announce_key key[ANNOUNCE_KEYS_MAX];
};

struct announce_header {
	uint8_t key_id;
	uint16_t payload_bytes;
	uint32_t sender;
	uint64_t epoch, sequence;
};

struct announce_echo {
	uint32_t node;
	uint32_t epoch_low; /* announce_epoch_low() of the epoch heard */
	uint64_t sequence;
	uint32_t grant; /* weight of its share in the sender's kernel */
};

/* The payload, decoded and in range. */
struct announcement {
	char name[NAME_BYTES];
	uint32_t state; /* enum node_state */
	uint32_t weight;
	uint32_t period_ms;
	uint32_t service_hash;
	bool dprd_up;
	struct load_sample sample;
	unsigned cluster_count;
	struct addr cluster[MEMBER_CLUSTER_MAX];
	unsigned service_count;
	struct addr service[MEMBER_SERVICES_MAX];
	unsigned port_count;
	uint16_t port[PORTS_MAX];
	unsigned serving_count; /* NODE_UNHEALTHY: number of the ports that still work */
	uint16_t serving[PORTS_MAX];
	uint32_t held_permille, shorter_times; /* as in struct node_load */
	unsigned echo_count;
	struct announce_echo echo[MEMBERS_MAX];
	uint32_t probes; /* enum status_probes */
	uint64_t unproven[2], narrow[2]; /* by family (0: IPv4): a bit for each echo */
	bool shares; /* says something about shares: share_weight or grants */
	uint32_t share_weight;
	unsigned ask_count;
	uint32_t ask[MEMBERS_MAX];
	unsigned refuse_count;
	uint32_t refuse[MEMBERS_MAX];
	uint8_t hardware[2][HARDWARE_BYTES]; /* as in struct node_load */
	char version[VERSION_BYTES]; /* empty: not announced */
	unsigned reject_count; /* of nodes whose announcements the sender does not accept, each with enum rejection */
	uint32_t reject[MEMBERS_MAX], reject_cause[MEMBERS_MAX];
};

static inline uint32_t announce_epoch_low(uint64_t epoch)
{
	return (uint32_t)epoch;
}

/* Adds the key of a key file; the cluster's name goes into the MAC through it. */
void announce_add_key(struct announce_keys *keys, const char *cluster_name, const uint8_t key[32]);

/*
 * Writes a whole datagram, signed with key[0]; header->key_id and payload_bytes are set here. Returns its size, or 0
 * when it does not fit ANNOUNCE_BYTES_MAX (fewer echoes make it fit) or there is no key.
 */
size_t announce_encode(const struct announcement *from, const struct announce_header *header,
		       const struct announce_keys *keys, uint8_t datagram[ANNOUNCE_BYTES_MAX]);

/* Checks size, magic, version and lengths. Returns REJECT_NONE and fills *ret, or the reason. */
enum reject announce_read_header(const uint8_t *datagram, size_t size, struct announce_header *ret);

/* Checks the MAC in constant time. Only for a datagram whose header was good. */
enum reject announce_verify(const uint8_t *datagram, const struct announce_header *header,
			    const struct announce_keys *keys);

/*
 * Decodes the payload. Only for a datagram whose MAC was good. Needs no allocator: it uses a bounded memory on its
 * stack.
 */
enum reject announce_decode(const uint8_t *datagram, const struct announce_header *header, struct announcement *ret);

#endif
