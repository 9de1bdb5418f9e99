// SPDX-License-Identifier: GPL-2.0-or-later
/* The wire format: an encoded announcement comes back unchanged, and nothing else is accepted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <sodium.h>

#include "loadcast/core/announce.h"

static const uint8_t key_a[32] = "key a, thirty-two bytes of it..";
static const uint8_t key_b[32] = "key b, thirty-two bytes of it..";

static struct announce_keys make_keys(const char *cluster, const uint8_t *first, const uint8_t *second)
{
	struct announce_keys keys = { 0 };

	announce_add_key(&keys, cluster, first);
	if (second)
		announce_add_key(&keys, cluster, second);
	return keys;
}

static struct addr address(const char *text)
{
	struct addr a = { 0 };

	assert_true(addr_parse(text, &a));
	return a;
}

static struct announcement small(void)
{
	return (struct announcement) {
		.name = "n1",
		.state = NODE_DRAINING,
		.weight = 7,
		.period_ms = 200,
		.service_hash = 0xdeadbeef,
		.dprd_up = true,
		.sample = { 11, 22, 33, 44, 55, 66, 0 },
		.cluster_count = 2,
		.cluster = { address("10.0.0.1"), address("fd00::1") },
		.service_count = 2,
		.service = { address("192.0.2.1"), address("2001:db8::1") },
		.port_count = 2,
		.port = { 80, 443 },
		.echo_count = 2,
		.echo = { { 1, 0x80000000, 5, 0 }, { 0xffffffff, 3, UINT64_MAX, 0 } },
	};
}

/* An announcement with every list full and every number long, except sequences, which are as after years. */
static struct announcement fullest(void)
{
	struct announcement a = small();
	unsigned i;

	memset(a.name, 'n', NAME_BYTES - 1);
	a.weight = ANNOUNCE_WEIGHT_MAX;
	a.period_ms = ANNOUNCE_PERIOD_MAX_MS;
	a.sample =
		(struct load_sample) { ANNOUNCE_LOAD_MAX, 1000, ANNOUNCE_LOAD_MAX, ANNOUNCE_LOAD_MAX, ANNOUNCE_LOAD_MAX,
				       ANNOUNCE_LOAD_MAX, 0 };
	a.cluster[0] = a.cluster[1];
	for (a.service_count = 0; a.service_count < MEMBER_SERVICES_MAX; a.service_count++)
		a.service[a.service_count] = address("2001:db8::1");
	for (a.port_count = 0; a.port_count < PORTS_MAX; a.port_count++)
		a.port[a.port_count] = 65535;
	for (i = 0; i < MEMBERS_MAX - 1; i++)
		a.echo[i] = (struct announce_echo) { 0xfffffff0 + i, 0xffffff00 + i, 0x3ffffffff, 0 };
	a.echo_count = i;
	a.probes = PROBES_JUDGED;
	return a;
}

static const struct announce_header header_a = { .sender = 0x01020304, .epoch = 0x1122334455667788, .sequence = 9 };

static enum reject open_datagram(const uint8_t *datagram, size_t size, const struct announce_keys *keys,
				 struct announcement *ret)
{
	struct announce_header header;
	enum reject reason = announce_read_header(datagram, size, &header);

	if (!reason)
		reason = announce_verify(datagram, &header, keys);
	return reason ? reason : announce_decode(datagram, &header, ret);
}

/* The decoded one equals the source, padding included: both were zeroed first. */
static void check_round_trip(const struct announcement *from)
{
	struct announce_keys keys = make_keys("lab", key_a, NULL);
	uint8_t datagram[ANNOUNCE_BYTES_MAX];
	size_t size = announce_encode(from, &header_a, &keys, datagram);
	struct announce_header header;
	struct announcement got = { 0 };

	assert_in_range(size, ANNOUNCE_HEADER_BYTES + ANNOUNCE_MAC_BYTES + 1, ANNOUNCE_BYTES_MAX);
	assert_int_equal(announce_read_header(datagram, size, &header), REJECT_NONE);
	assert_int_equal(header.sender, header_a.sender);
	assert_true(header.epoch == header_a.epoch);
	assert_true(header.sequence == header_a.sequence);
	assert_int_equal(open_datagram(datagram, size, &keys, &got), REJECT_NONE);
	assert_string_equal(got.name, from->name);
	assert_int_equal(got.state, from->state);
	assert_int_equal(got.weight, from->weight);
	assert_int_equal(got.period_ms, from->period_ms);
	assert_int_equal(got.service_hash, from->service_hash);
	assert_int_equal(got.dprd_up, from->dprd_up);
	assert_memory_equal(&got.sample, &from->sample, sizeof(got.sample));
	assert_int_equal(got.cluster_count, from->cluster_count);
	assert_memory_equal(got.cluster, from->cluster, got.cluster_count * sizeof(*got.cluster));
	assert_int_equal(got.service_count, from->service_count);
	assert_memory_equal(got.service, from->service, got.service_count * sizeof(*got.service));
	assert_int_equal(got.port_count, from->port_count);
	assert_memory_equal(got.port, from->port, got.port_count * sizeof(*got.port));
	assert_int_equal(got.probes, from->probes);
	assert_memory_equal(got.unproven, from->unproven, sizeof(got.unproven));
	assert_memory_equal(got.narrow, from->narrow, sizeof(got.narrow));
	assert_int_equal(got.echo_count, from->echo_count);
	assert_memory_equal(got.echo, from->echo, got.echo_count * sizeof(*got.echo));
	assert_int_equal(got.shares, from->shares);
	assert_int_equal(got.share_weight, from->share_weight);
	assert_int_equal(got.ask_count, from->ask_count);
	assert_memory_equal(got.ask, from->ask, got.ask_count * sizeof(*got.ask));
	assert_int_equal(got.refuse_count, from->refuse_count);
	assert_memory_equal(got.refuse, from->refuse, got.refuse_count * sizeof(*got.refuse));
	assert_memory_equal(got.hardware, from->hardware, sizeof(got.hardware));
	assert_memory_equal(got.version, from->version, sizeof(got.version));
	assert_int_equal(got.reject_count, from->reject_count);
	assert_memory_equal(got.reject, from->reject, sizeof(got.reject));
	assert_memory_equal(got.reject_cause, from->reject_cause, sizeof(got.reject_cause));
}

static const uint8_t hardware_a[HARDWARE_BYTES] = { 0x02, 0xfc, 0, 0, 0, 1 };
static const uint8_t hardware_b[HARDWARE_BYTES] = { 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff };

/* An announcement with shared addresses. */
static struct announcement sharing(void)
{
	struct announcement a = small();

	a.shares = true;
	a.share_weight = 100;
	a.echo[0].grant = ANNOUNCE_WEIGHT_MAX;
	a.echo[1].grant = 1;
	a.ask_count = 2;
	a.ask[0] = 0xfffffff0;
	a.ask[1] = 7;
	a.refuse_count = 1;
	a.refuse[0] = 0xffffffff;
	memcpy(a.hardware[0], hardware_a, sizeof(hardware_a));
	memcpy(a.hardware[1], hardware_b, sizeof(hardware_b));
	return a;
}

static void round_trip(void **state)
{
	struct announcement a = small(), b = fullest(), c = { .name = "x", .period_ms = ANNOUNCE_PERIOD_MIN_MS };

	(void)state;
	check_round_trip(&a);
	strcpy(a.version, "0.2.0-rc1");
	check_round_trip(&a);
	check_round_trip(&b);
	check_round_trip(&c);
	a = sharing();
	check_round_trip(&a);
	/* Grants of weight 0 are still grants. */
	a.share_weight = a.echo[0].grant = a.echo[1].grant = 0;
	check_round_trip(&a);
	/* Only one family has shared addresses. */
	memset(a.hardware[0], 0, sizeof(a.hardware[0]));
	check_round_trip(&a);
	memset(&a.hardware, 0, sizeof(a.hardware));
	memcpy(a.hardware[0], hardware_b, sizeof(hardware_b));
	check_round_trip(&a);
	a.reject_count = 2;
	a.reject[0] = 0x01020304, a.reject[1] = 0xffffffff;
	a.reject_cause[0] = REJECTION_KEY, a.reject_cause[1] = 4000000000U; /* of a later version */
	check_round_trip(&a);
}

/* docs/announce.md has the layout and the size of hardware addresses: nothing without shared addresses. */
static void hardware_on_the_wire(void **state)
{
	static const uint8_t expected[] = {
		0x8a, 0x01, 6, 0x02, 0xfc, 0,    0,    0,    1, /* field 17 */
		0x92, 0x01, 6, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, /* field 18 */
	};
	struct announce_keys keys = make_keys("lab", key_a, NULL);
	uint8_t datagram[ANNOUNCE_BYTES_MAX];
	struct announcement a = sharing();
	size_t size, without;

	(void)state;
	a.refuse_count = 0;
	size = announce_encode(&a, &header_a, &keys, datagram);
	assert_memory_equal(datagram + size - ANNOUNCE_MAC_BYTES - sizeof(expected), expected, sizeof(expected));
	memset(a.hardware, 0, sizeof(a.hardware));
	without = announce_encode(&a, &header_a, &keys, datagram);
	assert_int_equal(without + sizeof(expected), size);
}

/* The field stands last. Without it the payload is that of a release that announces no version. */
static void version_on_the_wire(void **state)
{
	static const uint8_t expected[] = { 0xa2, 0x01, 5, '0', '.', '1', '.', '0' }; /* field 20 */
	struct announce_keys keys = make_keys("lab", key_a, NULL);
	uint8_t with[ANNOUNCE_BYTES_MAX], without[ANNOUNCE_BYTES_MAX];
	struct announcement a = sharing(), got;
	size_t size = announce_encode(&a, &header_a, &keys, without);

	(void)state;
	strcpy(a.version, "0.1.0");
	assert_int_equal(announce_encode(&a, &header_a, &keys, with), size + sizeof(expected));
	assert_memory_equal(with + ANNOUNCE_HEADER_BYTES, without + ANNOUNCE_HEADER_BYTES,
			    size - ANNOUNCE_HEADER_BYTES - ANNOUNCE_MAC_BYTES);
	assert_memory_equal(with + size - ANNOUNCE_MAC_BYTES, expected, sizeof(expected));
	memset(&got, 0xff, sizeof(got));
	assert_int_equal(open_datagram(without, size, &keys, &got), REJECT_NONE);
	assert_string_equal(got.version, "");
}

/* The fields of probes take three bytes while all is well. A larger number than is known means the same as the largest. */
static void probes_on_wire(void **state)
{
	static const uint8_t judged[] = { 0xd0, 0x01, 2 }; /* field 26 */
	/* Field 27: 16 bytes, two numbers. */
	static const uint8_t unproven[] = { 0xda, 0x01, 16, 0x0e, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0 };
	struct announce_keys keys = make_keys("lab", key_a, NULL);
	uint8_t datagram[ANNOUNCE_BYTES_MAX];
	struct announcement a = small(), got;
	size_t size = announce_encode(&a, &header_a, &keys, datagram);

	(void)state;
	a.probes = PROBES_JUDGED;
	assert_int_equal(announce_encode(&a, &header_a, &keys, datagram), size + sizeof(judged));
	assert_memory_equal(datagram + size - ANNOUNCE_MAC_BYTES, judged, sizeof(judged));
	a.unproven[0] = 0x800000000000000e;
	size = announce_encode(&a, &header_a, &keys, datagram);
	assert_memory_equal(datagram + size - ANNOUNCE_MAC_BYTES - sizeof(unproven), unproven, sizeof(unproven));
	a.narrow[1] = 1;
	check_round_trip(&a);
	a.probes = 100;
	size = announce_encode(&a, &header_a, &keys, datagram);
	assert_int_equal(open_datagram(datagram, size, &keys, &got), REJECT_NONE);
	assert_int_equal(got.probes, PROBES_JUDGED);
}

/* The field stands last. A node that counts its connections when it announces them leaves it out. */
static void count_age_on_the_wire(void **state)
{
	static const uint8_t expected[] = { 0xe8, 0x01, 77 }; /* field 29 */
	struct announce_keys keys = make_keys("lab", key_a, NULL);
	uint8_t with[ANNOUNCE_BYTES_MAX], without[ANNOUNCE_BYTES_MAX];
	struct announcement a = sharing();
	size_t size = announce_encode(&a, &header_a, &keys, without);

	(void)state;
	a.sample.age_ms = 77;
	assert_int_equal(announce_encode(&a, &header_a, &keys, with), size + sizeof(expected));
	assert_memory_equal(with + size - ANNOUNCE_MAC_BYTES, expected, sizeof(expected));
	check_round_trip(&a);
	a.sample.age_ms = LOAD_COUNT_AGE_MAX_MS;
	check_round_trip(&a);
}

/* Each member of the largest cluster is echoed, also with all fields of shares. docs/announce.md has the numbers. */
static void fullest_of_shares(void **state)
{
	struct announce_keys keys = make_keys("lab", key_a, NULL);
	uint8_t datagram[ANNOUNCE_BYTES_MAX];
	struct announcement a = fullest();
	unsigned i;

	(void)state;
	assert_int_equal(announce_encode(&a, &header_a, &keys, datagram), 1240);
	strcpy(a.version, "10.20.30~b1");
	assert_int_equal(announce_encode(&a, &header_a, &keys, datagram), 1254);
	a.shares = true;
	a.share_weight = ANNOUNCE_WEIGHT_MAX;
	for (i = 0; i < a.echo_count; i++)
		a.echo[i].grant = ANNOUNCE_WEIGHT_MAX;
	memcpy(a.hardware[0], hardware_a, sizeof(hardware_a));
	memcpy(a.hardware[1], hardware_b, sizeof(hardware_b));
	assert_int_equal(announce_encode(&a, &header_a, &keys, datagram), 0);
	/* A shorter version finds room. */
	memset(a.version, 0, sizeof(a.version));
	strcpy(a.version, "10.20.30");
	check_round_trip(&a);
	assert_int_equal(announce_encode(&a, &header_a, &keys, datagram), ANNOUNCE_BYTES_MAX);
	a.ask[a.ask_count++] = 1;
	assert_int_equal(announce_encode(&a, &header_a, &keys, datagram), 0);
	memset(a.version, 0, sizeof(a.version));
	a.ask_count = 0;
	assert_int_equal(announce_encode(&a, &header_a, &keys, datagram), 1389);
}

/* The layout that docs/announce.md promises, byte by byte. */
static void layout(void **state)
{
	static const uint8_t expected[] = {
		'D',  'P',  'L',  'C',  1,    0,    0,    0,    1, 2, 3, 4, 0, 0, 0, 0,
		0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0, 0, 0, 0, 0, 0, 0, 9,
	};
	struct announce_keys keys = make_keys("lab", key_a, NULL);
	uint8_t datagram[ANNOUNCE_BYTES_MAX], mac_key[32], mac[32], digest[32];
	struct announcement a = small();
	size_t size = announce_encode(&a, &header_a, &keys, datagram);
	const char label[] = "dprd announce 1:lab";

	(void)state;
	crypto_auth_hmacsha256(mac_key, (const uint8_t *)label, sizeof(label) - 1, key_a);
	crypto_hash_sha256(digest, mac_key, sizeof(mac_key));
	crypto_auth_hmacsha256(mac, datagram, size - 32, mac_key);
	assert_memory_equal(datagram + size - 32, mac, 32);
	assert_int_equal(datagram[5], digest[0]);
	assert_int_equal(datagram[6] << 8 | datagram[7], size - 64);
	datagram[5] = datagram[6] = datagram[7] = 0;
	assert_memory_equal(datagram, expected, sizeof(expected));
}

static void every_bit_matters(void **state)
{
	struct announce_keys keys = make_keys("lab", key_a, key_b);
	uint8_t datagram[ANNOUNCE_BYTES_MAX];
	struct announcement a = small(), got;
	size_t size = announce_encode(&a, &header_a, &keys, datagram), bit;

	(void)state;
	for (bit = 0; bit < size * 8; bit++) {
		datagram[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_not_equal(open_datagram(datagram, size, &keys, &got), REJECT_NONE);
		datagram[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_int_equal(open_datagram(datagram, size, &keys, &got), REJECT_NONE);
}

static void every_length_matters(void **state)
{
	struct announce_keys keys = make_keys("lab", key_a, NULL);
	struct announcement a = small(), got;
	uint8_t datagram[ANNOUNCE_BYTES_MAX];
	size_t full = announce_encode(&a, &header_a, &keys, datagram), size;

	(void)state;
	for (size = 0; size <= ANNOUNCE_BYTES_MAX + 1; size++) {
		/* The copy has exactly the claimed size, so that a sanitizer sees reads beyond it. */
		uint8_t *copy = calloc(1, size ? size : 1);
		enum reject reason;

		assert_non_null(copy);
		memcpy(copy, datagram, size < full ? size : full);
		reason = open_datagram(copy, size, &keys, &got);
		free(copy);
		if (size == full)
			assert_int_equal(reason, REJECT_NONE);
		else if (size < ANNOUNCE_HEADER_BYTES + ANNOUNCE_MAC_BYTES)
			assert_int_equal(reason, REJECT_SHORT);
		else if (size > ANNOUNCE_BYTES_MAX)
			assert_int_equal(reason, REJECT_LONG);
		else
			assert_int_equal(reason, REJECT_LENGTH);
	}
}

static void header_reasons(void **state)
{
	struct announce_keys keys = make_keys("lab", key_a, NULL);
	uint8_t datagram[ANNOUNCE_BYTES_MAX], copy[ANNOUNCE_BYTES_MAX];
	struct announcement a = small(), got;
	size_t size = announce_encode(&a, &header_a, &keys, datagram);
	static const struct {
		unsigned offset;
		enum reject reason;
	} cases[] = {
		{ 0, REJECT_MAGIC },  { 3, REJECT_MAGIC },  { 4, REJECT_VERSION },   { 5, REJECT_KEY_ID },
		{ 6, REJECT_LENGTH }, { 7, REJECT_LENGTH }, { 12, REJECT_RESERVED }, { 15, REJECT_RESERVED },
		{ 8, REJECT_MAC },    { 16, REJECT_MAC },   { 31, REJECT_MAC },      { 32, REJECT_MAC },
	};
	unsigned i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memcpy(copy, datagram, size);
		copy[cases[i].offset] ^= 1;
		assert_int_equal(open_datagram(copy, size, &keys, &got), cases[i].reason);
	}
}

static void foreign_keys(void **state)
{
	struct announce_keys ours = make_keys("lab", key_a, NULL), theirs = make_keys("lab", key_b, NULL);
	struct announce_keys other_cluster = make_keys("labs", key_a, NULL), none = { 0 };
	uint8_t datagram[ANNOUNCE_BYTES_MAX];
	struct announcement a = small(), got;
	size_t size = announce_encode(&a, &header_a, &theirs, datagram);

	(void)state;
	assert_int_equal(open_datagram(datagram, size, &ours, &got), REJECT_KEY_ID);
	/* The same with a key id that fits by chance. */
	ours.key[0].id = theirs.key[0].id;
	assert_int_equal(open_datagram(datagram, size, &ours, &got), REJECT_MAC);
	size = announce_encode(&a, &header_a, &other_cluster, datagram);
	ours.key[0].id = other_cluster.key[0].id;
	assert_int_equal(open_datagram(datagram, size, &ours, &got), REJECT_MAC);
	assert_int_equal(open_datagram(datagram, size, &none, &got), REJECT_KEY_ID);
	assert_int_equal(announce_encode(&a, &header_a, &none, datagram), 0);
}

static void two_keys(void **state)
{
	struct announce_keys old_only = make_keys("lab", key_a, NULL), new_only = make_keys("lab", key_b, NULL);
	struct announce_keys old_first = make_keys("lab", key_a, key_b), new_first = make_keys("lab", key_b, key_a);
	uint8_t datagram[ANNOUNCE_BYTES_MAX];
	struct announcement a = small(), got;
	size_t size = announce_encode(&a, &header_a, &old_first, datagram);

	(void)state;
	assert_int_equal(open_datagram(datagram, size, &old_only, &got), REJECT_NONE);
	assert_int_equal(open_datagram(datagram, size, &new_first, &got), REJECT_NONE);
	assert_int_equal(open_datagram(datagram, size, &new_only, &got), REJECT_KEY_ID);
	/* Even when both have one id. */
	new_first.key[0].id = new_first.key[1].id;
	assert_int_equal(open_datagram(datagram, size, &new_first, &got), REJECT_NONE);
	announce_add_key(&new_first, "lab", key_a);
	assert_int_equal(new_first.count, ANNOUNCE_KEYS_MAX);
}

/* Decodes a payload of the test's own making, signed. */
static enum reject decode_payload(const uint8_t *payload, size_t payload_bytes, struct announcement *ret)
{
	uint8_t datagram[ANNOUNCE_BYTES_MAX] = { 0 };
	struct announce_header header = { .payload_bytes = (uint16_t)payload_bytes };

	memcpy(datagram + ANNOUNCE_HEADER_BYTES, payload, payload_bytes);
	return announce_decode(datagram, &header, ret);
}

static enum reject encode_and_decode(const struct announcement *a, struct announcement *ret)
{
	struct announce_keys keys = make_keys("lab", key_a, NULL);
	uint8_t datagram[ANNOUNCE_BYTES_MAX];
	size_t size = announce_encode(a, &header_a, &keys, datagram);

	assert_int_not_equal(size, 0);
	return open_datagram(datagram, size, &keys, ret);
}

static void ranges(void **state)
{
	struct announcement a, got = { 0 };

	(void)state;
	a = small(), a.state = NODE_STATES;
	assert_int_equal(encode_and_decode(&a, &got), REJECT_RANGE);
	a = small(), a.weight = ANNOUNCE_WEIGHT_MAX + 1;
	assert_int_equal(encode_and_decode(&a, &got), REJECT_RANGE);
	a = small(), a.period_ms = ANNOUNCE_PERIOD_MIN_MS - 1;
	assert_int_equal(encode_and_decode(&a, &got), REJECT_RANGE);
	a = small(), a.period_ms = ANNOUNCE_PERIOD_MAX_MS + 1;
	assert_int_equal(encode_and_decode(&a, &got), REJECT_RANGE);
	a = small(), a.port[1] = 0;
	assert_int_equal(encode_and_decode(&a, &got), REJECT_RANGE);
	a = sharing(), a.share_weight = ANNOUNCE_WEIGHT_MAX + 1;
	assert_int_equal(encode_and_decode(&a, &got), REJECT_RANGE);
	a = sharing(), a.echo[1].grant = ANNOUNCE_WEIGHT_MAX + 1;
	assert_int_equal(encode_and_decode(&a, &got), REJECT_RANGE);
	a = small(), a.sample = (struct load_sample) { UINT32_MAX, 1001,       UINT32_MAX, UINT32_MAX,
						       UINT32_MAX, UINT32_MAX, UINT32_MAX };
	assert_int_equal(encode_and_decode(&a, &got), REJECT_NONE);
	assert_int_equal(got.sample.open_connections, ANNOUNCE_LOAD_MAX);
	assert_int_equal(got.sample.cpu_permille, 1000);
	assert_int_equal(got.sample.arrivals_per_1000_s, ANNOUNCE_LOAD_MAX);
	assert_int_equal(got.sample.age_ms, LOAD_COUNT_AGE_MAX_MS);
}

static const uint8_t start[] = { 0x0a, 2, 'n', '1', 0x38, 0xc8, 0x01 };

/* Payloads that announce_encode() never makes: a valid start, then one excess or odd field. */
static void hostile_payloads(void **state)
{
	static const struct {
		uint8_t bytes[12];
		unsigned size, repeat;
		enum reject reason;
	} cases[] = {
		{ { 0 }, 0, 0, REJECT_NONE }, /* the start is good alone */
		{ { 0x22, 0 }, 2, 1, REJECT_RANGE }, /* addresses of 0, 5 bytes */
		{ { 0xc5, 1, 1, 2, 3, 4, 0xc8, 1, 2 }, 9, MEMBERS_MAX, REJECT_NONE }, /* nodes that are rejected */
		{ { 0xc5, 1, 1, 2, 3, 4, 0xc8, 1, 2 }, 9, MEMBERS_MAX + 1, REJECT_RANGE },
		{ { 0xc5, 1, 1, 2, 3, 4 }, 6, 1, REJECT_RANGE }, /* one without a cause */
		{ { 0xc8, 1, 2 }, 3, 1, REJECT_RANGE },
		{ { 0x2a, 5, 1, 2, 3, 4, 5 }, 7, 1, REJECT_RANGE },
		{ { 0x22, 4, 10, 0, 0, 1 }, 6, MEMBER_CLUSTER_MAX, REJECT_NONE },
		{ { 0x22, 4, 10, 0, 0, 1 }, 6, MEMBER_CLUSTER_MAX + 1, REJECT_RANGE },
		{ { 0x2a, 4, 10, 0, 0, 1 }, 6, MEMBER_SERVICES_MAX + 1, REJECT_RANGE },
		{ { 0x30, 80 }, 2, PORTS_MAX, REJECT_NONE },
		{ { 0x30, 80 }, 2, PORTS_MAX + 1, REJECT_RANGE },
		{ { 0x30, 0x80, 0x80, 0x04 }, 4, 1, REJECT_RANGE }, /* port 65536 */
		{ { 0x5d, 1, 0, 0, 0 }, 5, 1, REJECT_RANGE }, /* an echo's node without the rest */
		{ { 0x5d, 1, 0, 0, 0, 0x65, 1, 0, 0, 0 }, 10, 1, REJECT_RANGE },
		{ { 0x5d, 1, 0, 0, 0, 0x68, 1 }, 7, 1, REJECT_RANGE },
		{ { 0x5d, 1, 0, 0, 0, 0x65, 1, 0, 0, 0, 0x68, 1 }, 12, MEMBERS_MAX, REJECT_NONE },
		{ { 0x5d, 1, 0, 0, 0, 0x65, 1, 0, 0, 0, 0x68, 1 }, 12, MEMBERS_MAX + 1, REJECT_RANGE },
		{ { 0x78, 1 }, 2, 1, REJECT_RANGE }, /* a grant without an echo */
		{ { 0x85, 0x01, 1, 0, 0, 0 }, 6, MEMBERS_MAX, REJECT_NONE }, /* questions */
		{ { 0x85, 0x01, 1, 0, 0, 0 }, 6, MEMBERS_MAX + 1, REJECT_RANGE },
		{ { 0x8a, 0x01, 6, 2, 0, 0, 0, 0, 0 }, 9, 1, REJECT_NONE }, /* hardware addresses */
		{ { 0x92, 0x01, 6, 0, 0, 0, 0, 0, 1 }, 9, 100, REJECT_NONE },
		{ { 0x8a, 0x01, 0 }, 3, 1, REJECT_NONE }, /* no bytes: counts as absent */
		{ { 0x8a, 0x01, 5, 2, 0, 0, 0, 0 }, 8, 1, REJECT_RANGE },
		{ { 0x92, 0x01, 7, 2, 0, 0, 0, 0, 1, 1 }, 10, 1, REJECT_RANGE },
		{ { 0x8a, 0x01, 6, 0, 0, 0, 0, 0, 0 }, 9, 1, REJECT_RANGE },
		{ { 0x92, 0x01, 6, 0, 0, 0, 0, 0, 0 }, 9, 1, REJECT_RANGE },
		{ { 0x8a, 0x01, 6, 0x01, 0, 0x5e, 0, 2, 0x64 }, 9, 1, REJECT_RANGE }, /* of a group, of all */
		{ { 0x92, 0x01, 6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff }, 9, 1, REJECT_RANGE },
		{ { 0x88, 0x01, 2 }, 3, 1, REJECT_MALFORMED }, /* a number */
		{ { 0xa2, 0x01, 0 }, 3, 1, REJECT_NONE }, /* versions: no bytes count as absent */
		{ { 0xa2, 0x01, 5, '0', '.', '1', '.', '0' }, 8, 100, REJECT_NONE },
		{ { 0xa2, 0x01, 3, '1', '~', 'Z' }, 6, 1, REJECT_NONE },
		{ { 0xa2, 0x01, 4, 'v', '1', '.', '0' }, 7, 1, REJECT_RANGE },
		{ { 0xa2, 0x01, 4, '1', '.', '"', '0' }, 7, 1, REJECT_RANGE },
		{ { 0xa2, 0x01, 2, '1', '\n' }, 5, 1, REJECT_RANGE },
		{ { 0xa2, 0x01, 2, '1', 0xff }, 5, 1, REJECT_RANGE },
		{ { 0xa0, 0x01, 2 }, 3, 1, REJECT_MALFORMED }, /* a number */
		{ { 0x42, 0 }, 2, 100, REJECT_NONE }, /* an empty load, merged again and again */
		{ { 0x42, 0 }, 2, 600, REJECT_MALFORMED }, /* the memory for decoding is used up */
		{ { 0x22, 0 }, 2, 60, REJECT_RANGE },
		{ { 0x22, 0 }, 2, 600, REJECT_MALFORMED },
		{ { 0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f }, 6, 1, REJECT_MALFORMED }, /* a length beyond the end */
		{ { 0x0b }, 1, 1, REJECT_MALFORMED }, /* a group */
		{ { 0x80 }, 1, 100, REJECT_MALFORMED }, /* a number without an end */
		{ { 0xf8, 0x07, 1 }, 3, 1, REJECT_NONE }, /* a field of a later release */
		{ { 0x0a, 0 }, 2, 1, REJECT_NONE }, /* an empty name: table.c compares it */
	};
	uint8_t payload[ANNOUNCE_BYTES_MAX];
	struct announcement got;
	unsigned i, j;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t size = sizeof(start);

		memcpy(payload, start, sizeof(start));
		for (j = 0; j < cases[i].repeat; j++, size += cases[i].size)
			memcpy(payload + size, cases[i].bytes, cases[i].size);
		assert_int_equal(decode_payload(payload, size, &got), cases[i].reason);
	}
}

static void largest_payloads(void **state)
{
	static const uint8_t tomorrow[] = { 0xf8, 0x07, 1 };
	uint8_t payload[ANNOUNCE_BYTES_MAX];
	struct announcement got;
	unsigned i;

	(void)state;
	/* A version of one character too many, and the longest one. */
	memcpy(payload, start, sizeof(start));
	memcpy(payload + sizeof(start), (uint8_t[]) { 0xa2, 0x01, VERSION_BYTES }, 3);
	memset(payload + sizeof(start) + 3, '1', VERSION_BYTES);
	assert_int_equal(decode_payload(payload, sizeof(start) + 3 + VERSION_BYTES, &got), REJECT_RANGE);
	payload[sizeof(start) + 2]--;
	assert_int_equal(decode_payload(payload, sizeof(start) + 3 + VERSION_BYTES - 1, &got), REJECT_NONE);
	/* A name that does not fit. */
	memset(payload, 'n', sizeof(payload));
	payload[0] = 0x0a;
	payload[1] = NAME_BYTES;
	memcpy(payload + 2 + NAME_BYTES, start + 4, 3);
	assert_int_equal(decode_payload(payload, 2 + NAME_BYTES + 3, &got), REJECT_RANGE);
	assert_int_equal(decode_payload(payload, 0, &got), REJECT_RANGE);
	/* As many unknown fields as fit: memory stays bounded, whatever the result. */
	for (i = 0; i + 3 <= 1300; i += 3)
		memcpy(payload + i, tomorrow, sizeof(tomorrow));
	assert_in_set(decode_payload(payload, i, &got), ((LargestIntegralType[]) { REJECT_MALFORMED, REJECT_RANGE }),
		      2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_trip),
		cmocka_unit_test(layout),
		cmocka_unit_test(every_bit_matters),
		cmocka_unit_test(every_length_matters),
		cmocka_unit_test(header_reasons),
		cmocka_unit_test(foreign_keys),
		cmocka_unit_test(two_keys),
		cmocka_unit_test(ranges),
		cmocka_unit_test(hostile_payloads),
		cmocka_unit_test(hardware_on_the_wire),
		cmocka_unit_test(probes_on_wire),
		cmocka_unit_test(fullest_of_shares),
		cmocka_unit_test(largest_payloads),
		cmocka_unit_test(version_on_the_wire),
		cmocka_unit_test(count_age_on_the_wire),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
