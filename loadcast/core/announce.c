// SPDX-License-Identifier: GPL-2.0-or-later
#include "loadcast/core/announce.h"

#include <endian.h>
#include <sodium.h>

#include "loadcast/announce.pb-c.h"

enum {
	/*
	 * Memory for one decoded payload. The fullest announcement of announce_encode() needs about 5 KiB. A faulty
	 * member's payload of empty messages may need more and is refused.
	 */
	DECODE_BYTES = 16384,
	OFFSET_VERSION = 4,
	OFFSET_KEY_ID = 5,
	OFFSET_LENGTH = 6,
	OFFSET_SENDER = 8,
	OFFSET_RESERVED = 12,
	OFFSET_EPOCH = 16,
	OFFSET_SEQUENCE = 24,
};

static const uint8_t magic[4] = { 'D', 'P', 'L', 'C' };

static const struct {
	const char *text;
	bool counts;
} reasons[REJECT_REASONS] = { [REJECT_NONE] = { "taken", false },
#define X(name, text, counts) [REJECT_##name] = { text, counts },
			      REJECTS(X)
#undef X
};

const char *reject_text(enum reject reason)
{
	return reasons[reason].text;
}

bool reject_counts(enum reject reason)
{
	return reasons[reason].counts;
}

enum rejection reject_cause(enum reject reason, bool known)
{
	switch (reason) {
	case REJECT_KEY_ID:
	case REJECT_MAC:
		return REJECTION_KEY;
	case REJECT_SOURCE:
		return known ? REJECTION_NAME : REJECTION_ADDRESS;
	case REJECT_NAME:
		return REJECTION_NAME;
	case REJECT_VERSION:
		return REJECTION_VERSION;
	case REJECT_OLD_SEQUENCE:
	case REJECT_OTHER_EPOCH:
		return REJECTION_RUN;
	case REJECT_RATE:
		return REJECTION_RATE;
	case REJECT_CONFLICT: /* it has a flag of its own */
		return REJECTION_NONE;
	default:
		return reject_counts(reason) ? REJECTION_OTHER : REJECTION_NONE;
	}
}

static void put_be16(uint8_t *at, uint16_t value)
{
	value = htobe16(value);
	memcpy(at, &value, sizeof(value));
}

static void put_be32(uint8_t *at, uint32_t value)
{
	value = htobe32(value);
	memcpy(at, &value, sizeof(value));
}

static void put_be64(uint8_t *at, uint64_t value)
{
	value = htobe64(value);
	memcpy(at, &value, sizeof(value));
}

static uint16_t get_be16(const uint8_t *at)
{
	uint16_t value;

	memcpy(&value, at, sizeof(value));
	return be16toh(value);
}

static uint32_t get_be32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return be32toh(value);
}

static uint64_t get_be64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return be64toh(value);
}

void announce_add_key(struct announce_keys *keys, const char *cluster_name, const uint8_t key[32])
{
	static const char purpose[] = "dprd announce 1:";
	struct announce_key *add = &keys->key[keys->count];
	uint8_t label[sizeof(purpose) - 1 + NAME_BYTES], digest[crypto_hash_sha256_BYTES];
	size_t name_bytes = strnlen(cluster_name, NAME_BYTES);

	if (keys->count == ANNOUNCE_KEYS_MAX)
		return;
	memcpy(label, purpose, sizeof(purpose) - 1);
	memcpy(label + sizeof(purpose) - 1, cluster_name, name_bytes);
	crypto_auth_hmacsha256(add->mac_key, label, sizeof(purpose) - 1 + name_bytes, key);
	crypto_hash_sha256(digest, add->mac_key, sizeof(add->mac_key));
	add->id = digest[0];
	keys->count++;
}

static ProtobufCBinaryData wire_address(const struct addr *a)
{
	unsigned skip = addr_is_v4(a) ? 12 : 0;

	/* The generated struct has no const; packing does not write. */
	return (ProtobufCBinaryData) { .len = 16 - skip, .data = (uint8_t *)a->bytes + skip };
}

/* An unknown address takes no bytes. */
static ProtobufCBinaryData wire_hardware(const uint8_t hardware[HARDWARE_BYTES])
{
	static const uint8_t unknown[HARDWARE_BYTES];

	return (ProtobufCBinaryData) {
		.len = memcmp(hardware, unknown, HARDWARE_BYTES) ? HARDWARE_BYTES : 0,
		.data = (uint8_t *)hardware,
	};
}

static void fill_load(Dprd__Load *load, const struct load_sample *sample)
{
	dprd__load__init(load);
	load->open_connections = sample->open_connections;
	load->cpu_permille = sample->cpu_permille;
	load->redirected = sample->redirected;
	load->active_sockets = sample->active_sockets;
	load->accept_queue = sample->accept_queue;
	load->arrivals_per_1000_s = sample->arrivals_per_1000_s;
}

/* Writes the payload to out when it fits. Returns its size, also when that is above the room. */
static size_t pack_payload(const struct announcement *from, uint8_t *out, size_t room)
{
	ProtobufCBinaryData cluster[MEMBER_CLUSTER_MAX], service[MEMBER_SERVICES_MAX];
	uint32_t port[PORTS_MAX], serving[PORTS_MAX], node[MEMBERS_MAX], epoch[MEMBERS_MAX], grant[MEMBERS_MAX];
	uint64_t sequence[MEMBERS_MAX];
	Dprd__Announcement m = DPRD__ANNOUNCEMENT__INIT;
	Dprd__Load load;
	unsigned i;
	size_t size;

	for (i = 0; i < from->cluster_count; i++)
		cluster[i] = wire_address(&from->cluster[i]);
	for (i = 0; i < from->service_count; i++)
		service[i] = wire_address(&from->service[i]);
	for (i = 0; i < from->port_count; i++)
		port[i] = from->port[i];
	for (i = 0; i < from->serving_count; i++)
		serving[i] = from->serving[i];
	for (i = 0; i < from->echo_count; i++) {
		node[i] = from->echo[i].node;
		epoch[i] = from->echo[i].epoch_low;
		sequence[i] = from->echo[i].sequence;
		grant[i] = from->echo[i].grant;
	}
	fill_load(&load, &from->sample);
	m.node_name = (char *)from->name;
	m.state = from->state;
	m.weight = from->weight;
	m.n_cluster_address = from->cluster_count;
	m.cluster_address = cluster;
	m.n_service_address = from->service_count;
	m.service_address = service;
	m.n_service_port = from->port_count;
	m.service_port = port;
	m.n_serving_port = from->serving_count;
	m.serving_port = serving;
	m.held_permille = from->held_permille;
	m.shorter_times = from->shorter_times;
	m.probes = from->probes;
	m.n_unproven = from->unproven[0] || from->unproven[1] ? 2 : 0;
	m.unproven = (uint64_t *)from->unproven;
	m.n_narrow = from->narrow[0] || from->narrow[1] ? 2 : 0;
	m.narrow = (uint64_t *)from->narrow;
	m.count_age_ms = from->sample.age_ms;
	m.period_ms = from->period_ms;
	m.load = &load;
	m.dprd_up = from->dprd_up;
	m.service_hash = from->service_hash;
	m.n_echo_node = m.n_echo_epoch = m.n_echo_sequence = from->echo_count;
	m.echo_node = node;
	m.echo_epoch = epoch;
	m.echo_sequence = sequence;
	m.share_weight = from->share_weight;
	m.n_echo_grant = from->shares ? from->echo_count : 0;
	m.echo_grant = grant;
	m.n_ask_node = from->ask_count;
	m.ask_node = (uint32_t *)from->ask;
	m.n_refuse_node = from->refuse_count;
	m.refuse_node = (uint32_t *)from->refuse;
	m.n_reject_node = m.n_reject_cause = from->reject_count;
	m.reject_node = (uint32_t *)from->reject;
	m.reject_cause = (uint32_t *)from->reject_cause;
	m.hardware_v4 = wire_hardware(from->hardware[0]);
	m.hardware_v6 = wire_hardware(from->hardware[1]);
	m.version = (char *)from->version;
	size = dprd__announcement__get_packed_size(&m);
	return size > room ? size : dprd__announcement__pack(&m, out);
}

size_t announce_encode(const struct announcement *from, const struct announce_header *header,
		       const struct announce_keys *keys, uint8_t datagram[ANNOUNCE_BYTES_MAX])
{
	const size_t room = ANNOUNCE_BYTES_MAX - ANNOUNCE_HEADER_BYTES - ANNOUNCE_MAC_BYTES;
	size_t payload, signed_bytes;

	if (!keys->count)
		return 0;
	payload = pack_payload(from, datagram + ANNOUNCE_HEADER_BYTES, room);
	if (payload > room)
		return 0;
	signed_bytes = ANNOUNCE_HEADER_BYTES + payload;
	memset(datagram, 0, ANNOUNCE_HEADER_BYTES);
	memcpy(datagram, magic, sizeof(magic));
	datagram[OFFSET_VERSION] = ANNOUNCE_VERSION;
	datagram[OFFSET_KEY_ID] = keys->key[0].id;
	put_be16(datagram + OFFSET_LENGTH, (uint16_t)payload);
	put_be32(datagram + OFFSET_SENDER, header->sender);
	put_be64(datagram + OFFSET_EPOCH, header->epoch);
	put_be64(datagram + OFFSET_SEQUENCE, header->sequence);
	crypto_auth_hmacsha256(datagram + signed_bytes, datagram, signed_bytes, keys->key[0].mac_key);
	return signed_bytes + ANNOUNCE_MAC_BYTES;
}

enum reject announce_read_header(const uint8_t *datagram, size_t size, struct announce_header *ret)
{
	if (size < ANNOUNCE_HEADER_BYTES + ANNOUNCE_MAC_BYTES)
		return REJECT_SHORT;
	if (size > ANNOUNCE_BYTES_MAX)
		return REJECT_LONG;
	if (memcmp(datagram, magic, sizeof(magic)) != 0)
		return REJECT_MAGIC;
	if (datagram[OFFSET_VERSION] != ANNOUNCE_VERSION)
		return REJECT_VERSION;
	if (get_be16(datagram + OFFSET_LENGTH) != size - ANNOUNCE_HEADER_BYTES - ANNOUNCE_MAC_BYTES)
		return REJECT_LENGTH;
	if (get_be32(datagram + OFFSET_RESERVED))
		return REJECT_RESERVED;
	*ret = (struct announce_header) {
		.key_id = datagram[OFFSET_KEY_ID],
		.payload_bytes = get_be16(datagram + OFFSET_LENGTH),
		.sender = get_be32(datagram + OFFSET_SENDER),
		.epoch = get_be64(datagram + OFFSET_EPOCH),
		.sequence = get_be64(datagram + OFFSET_SEQUENCE),
	};
	return REJECT_NONE;
}

enum reject announce_verify(const uint8_t *datagram, const struct announce_header *header,
			    const struct announce_keys *keys)
{
	size_t signed_bytes = ANNOUNCE_HEADER_BYTES + (size_t)header->payload_bytes;
	enum reject reason = REJECT_KEY_ID;
	unsigned i;

	/* Two keys may have the same id: the id only saves work. */
	for (i = 0; i < keys->count; i++) {
		if (keys->key[i].id != header->key_id)
			continue;
		if (!crypto_auth_hmacsha256_verify(datagram + signed_bytes, datagram, signed_bytes,
						   keys->key[i].mac_key))
			return REJECT_NONE;
		reason = REJECT_MAC;
	}
	return reason;
}

/* Hands out memory until it is used up; all of it is released at once. */
struct arena {
	size_t used;
	_Alignas(max_align_t) uint8_t bytes[DECODE_BYTES];
};

static void *arena_alloc(void *data, size_t size)
{
	struct arena *arena = data;
	size_t at = arena->used;

	if (size > sizeof(arena->bytes) - at)
		return NULL;
	size = (size + sizeof(max_align_t) - 1) & ~(sizeof(max_align_t) - 1);
	arena->used = size > sizeof(arena->bytes) - at ? sizeof(arena->bytes) : at + size;
	return arena->bytes + at;
}

static void arena_free(void *data, void *pointer)
{
	(void)data;
	(void)pointer;
}

static bool take_addresses(const ProtobufCBinaryData *from, size_t count, size_t max, struct addr *ret,
			   unsigned *ret_count)
{
	size_t i;

	if (count > max)
		return false;
	for (i = 0; i < count; i++) {
		be32 v4;

		if (from[i].len == 4) {
			memcpy(&v4, from[i].data, 4);
			ret[i] = addr_from_v4(v4);
		} else if (from[i].len == 16) {
			ret[i] = addr_from_v6(from[i].data);
		} else {
			return false;
		}
	}
	*ret_count = (unsigned)count;
	return true;
}

static bool take_ports(const uint32_t *from, size_t count, uint16_t ret[PORTS_MAX], unsigned *ret_count)
{
	size_t i;

	if (count > PORTS_MAX)
		return false;
	for (i = 0; i < count; i++) {
		if (!from[i] || from[i] > UINT16_MAX)
			return false;
		ret[i] = (uint16_t)from[i];
	}
	*ret_count = (unsigned)count;
	return true;
}

static bool take_echoes(const Dprd__Announcement *m, struct announcement *ret)
{
	size_t i;

	if (m->n_echo_node > MEMBERS_MAX || m->n_echo_epoch != m->n_echo_node || m->n_echo_sequence != m->n_echo_node ||
	    (m->n_echo_grant && m->n_echo_grant != m->n_echo_node))
		return false;
	for (i = 0; i < m->n_echo_node; i++) {
		ret->echo[i] = (struct announce_echo) {
			.node = m->echo_node[i],
			.epoch_low = m->echo_epoch[i],
			.sequence = m->echo_sequence[i],
			.grant = m->n_echo_grant ? m->echo_grant[i] : 0,
		};
		if (ret->echo[i].grant > ANNOUNCE_WEIGHT_MAX)
			return false;
	}
	ret->echo_count = (unsigned)m->n_echo_node;
	return true;
}

/* A number for each family, or none. */
static bool take_families(const uint64_t *from, size_t count, uint64_t ret[2])
{
	if (count == 2)
		memcpy(ret, from, 2 * sizeof(*ret));
	return count == 2 || !count;
}

static bool take_nodes(const uint32_t *from, size_t count, uint32_t ret[MEMBERS_MAX], unsigned *ret_count)
{
	if (count > MEMBERS_MAX)
		return false;
	/* An empty list has no array to copy from. */
	if (count)
		memcpy(ret, from, count * sizeof(*ret));
	*ret_count = (unsigned)count;
	return true;
}

static bool take_shares(const Dprd__Announcement *m, struct announcement *ret)
{
	ret->share_weight = m->share_weight;
	ret->shares = m->share_weight || m->n_echo_grant;
	return m->share_weight <= ANNOUNCE_WEIGHT_MAX &&
	       take_nodes(m->ask_node, m->n_ask_node, ret->ask, &ret->ask_count) &&
	       take_nodes(m->refuse_node, m->n_refuse_node, ret->refuse, &ret->refuse_count);
}

static bool take_rejections(const Dprd__Announcement *m, struct announcement *ret)
{
	unsigned causes;

	return m->n_reject_node == m->n_reject_cause &&
	       take_nodes(m->reject_node, m->n_reject_node, ret->reject, &ret->reject_count) &&
	       take_nodes(m->reject_cause, m->n_reject_cause, ret->reject_cause, &causes);
}

/* A frame to a group address would reach other hosts, too. A zero address stands for an unknown one. */
static bool take_hardware(const ProtobufCBinaryData *from, uint8_t ret[HARDWARE_BYTES])
{
	static const uint8_t unknown[HARDWARE_BYTES];

	if (!from->len)
		return true;
	if (from->len != HARDWARE_BYTES || from->data[0] & 1 || memcmp(from->data, unknown, HARDWARE_BYTES) == 0)
		return false;
	memcpy(ret, from->data, HARDWARE_BYTES);
	return true;
}

static bool take_version(const char *from, char ret[VERSION_BYTES])
{
	size_t length = strlen(from);

	if (length >= VERSION_BYTES)
		return false;
	memcpy(ret, from, length);
	return version_is_valid(ret);
}

static uint32_t clamp(uint32_t value, uint32_t max)
{
	return value < max ? value : max;
}

/* An impossible load is still a high load: it is limited to the largest, not refused. */
static void take_load(const Dprd__Load *load, struct load_sample *ret)
{
	if (!load)
		return;
	ret->open_connections = clamp(load->open_connections, ANNOUNCE_LOAD_MAX);
	ret->cpu_permille = clamp(load->cpu_permille, 1000);
	ret->redirected = clamp(load->redirected, ANNOUNCE_LOAD_MAX);
	ret->active_sockets = clamp(load->active_sockets, ANNOUNCE_LOAD_MAX);
	ret->accept_queue = clamp(load->accept_queue, ANNOUNCE_LOAD_MAX);
	ret->arrivals_per_1000_s = clamp(load->arrivals_per_1000_s, ANNOUNCE_LOAD_MAX);
}

static enum reject take_message(const Dprd__Announcement *m, struct announcement *ret)
{
	if (!m->node_name || strlen(m->node_name) >= sizeof(ret->name) || m->state >= NODE_STATES ||
	    m->weight > ANNOUNCE_WEIGHT_MAX || m->period_ms < ANNOUNCE_PERIOD_MIN_MS ||
	    m->period_ms > ANNOUNCE_PERIOD_MAX_MS)
		return REJECT_RANGE;
	if (!take_addresses(m->cluster_address, m->n_cluster_address, MEMBER_CLUSTER_MAX, ret->cluster,
			    &ret->cluster_count) ||
	    !take_addresses(m->service_address, m->n_service_address, MEMBER_SERVICES_MAX, ret->service,
			    &ret->service_count) ||
	    !take_ports(m->service_port, m->n_service_port, ret->port, &ret->port_count) ||
	    !take_ports(m->serving_port, m->n_serving_port, ret->serving, &ret->serving_count) ||
	    !take_families(m->unproven, m->n_unproven, ret->unproven) ||
	    !take_families(m->narrow, m->n_narrow, ret->narrow) || !take_echoes(m, ret) || !take_shares(m, ret) ||
	    !take_rejections(m, ret) || !take_hardware(&m->hardware_v4, ret->hardware[0]) ||
	    !take_hardware(&m->hardware_v6, ret->hardware[1]) || !take_version(m->version, ret->version))
		return REJECT_RANGE;
	memcpy(ret->name, m->node_name, strlen(m->node_name) + 1);
	ret->state = m->state;
	ret->weight = m->weight;
	ret->period_ms = m->period_ms;
	ret->held_permille = clamp(m->held_permille, WEIGHT_HELD_MAX);
	ret->shorter_times = clamp(m->shorter_times, SHORTER_TIMES_MAX);
	ret->service_hash = m->service_hash;
	ret->dprd_up = m->dprd_up;
	/* A later version may say more by a larger number: it judges as well. */
	ret->probes = clamp(m->probes, PROBES_JUDGED);
	take_load(m->load, &ret->sample);
	ret->sample.age_ms = clamp(m->count_age_ms, LOAD_COUNT_AGE_MAX_MS);
	return REJECT_NONE;
}

enum reject announce_decode(const uint8_t *datagram, const struct announce_header *header, struct announcement *ret)
{
	struct arena arena;
	ProtobufCAllocator allocator = { .alloc = arena_alloc, .free = arena_free, .allocator_data = &arena };
	Dprd__Announcement *m;

	arena.used = 0;
	memset(ret, 0, sizeof(*ret));
	m = dprd__announcement__unpack(&allocator, header->payload_bytes, datagram + ANNOUNCE_HEADER_BYTES);
	return m ? take_message(m, ret) : REJECT_MALFORMED;
}
