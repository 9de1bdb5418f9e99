// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * One datagram. If the first byte is even, the rest is the datagram; if odd, the rest is a payload that gets a right
 * header and MAC, as a faulty member would send it. Decoded values must be in range and come back unchanged when they
 * are sent again.
 */
#include <stdlib.h>

#include "loadcast/core/announce.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct announce_keys keys;

static void demand(bool condition)
{
	if (!condition)
		abort();
}

static void check_range(const struct announcement *a)
{
	unsigned i;

	demand(memchr(a->name, '\0', sizeof(a->name)) != NULL);
	demand(a->state < NODE_STATES && a->weight <= ANNOUNCE_WEIGHT_MAX);
	demand(a->period_ms >= ANNOUNCE_PERIOD_MIN_MS && a->period_ms <= ANNOUNCE_PERIOD_MAX_MS);
	demand(a->cluster_count <= MEMBER_CLUSTER_MAX && a->service_count <= MEMBER_SERVICES_MAX);
	demand(a->port_count <= PORTS_MAX && a->echo_count <= MEMBERS_MAX && a->reject_count <= MEMBERS_MAX);
	demand(a->sample.cpu_permille <= 1000 && a->sample.open_connections <= ANNOUNCE_LOAD_MAX);
	demand(a->sample.age_ms <= LOAD_COUNT_AGE_MAX_MS);
	demand(a->sample.arrivals_per_1000_s <= ANNOUNCE_LOAD_MAX);
	for (i = 0; i < a->port_count; i++)
		demand(a->port[i] != 0);
	demand(!(a->hardware[0][0] & 1) && !(a->hardware[1][0] & 1));
	demand(version_is_valid(a->version) && memchr(a->version, 0, VERSION_BYTES));
}

static void check_again(const struct announcement *a, const struct announce_header *header)
{
	uint8_t datagram[ANNOUNCE_BYTES_MAX];
	struct announce_header got_header;
	struct announcement got;
	size_t size = announce_encode(a, header, &keys, datagram);

	if (!size)
		return; /* IPv4 addresses given as IPv6 ones took less room than they do now */
	demand(announce_read_header(datagram, size, &got_header) == REJECT_NONE);
	demand(announce_verify(datagram, &got_header, &keys) == REJECT_NONE);
	demand(announce_decode(datagram, &got_header, &got) == REJECT_NONE);
	demand(got_header.sequence == header->sequence && got_header.epoch == header->epoch);
	demand(strcmp(got.name, a->name) == 0 && got.echo_count == a->echo_count);
	demand(memcmp(got.echo, a->echo, a->echo_count * sizeof(a->echo[0])) == 0);
	demand(memcmp(&got.sample, &a->sample, sizeof(a->sample)) == 0);
	demand(memcmp(got.hardware, a->hardware, sizeof(a->hardware)) == 0);
	demand(memcmp(got.version, a->version, sizeof(a->version)) == 0);
	demand(got.reject_count == a->reject_count);
	demand(memcmp(got.reject, a->reject, a->reject_count * sizeof(a->reject[0])) == 0);
	demand(memcmp(got.reject_cause, a->reject_cause, a->reject_count * sizeof(a->reject_cause[0])) == 0);
	demand(memcmp(got.service, a->service, a->service_count * sizeof(a->service[0])) == 0);
}

static void try_datagram(const uint8_t *datagram, size_t size)
{
	struct announce_header header;
	struct announcement a;

	if (announce_read_header(datagram, size, &header))
		return;
	/* Without the key no datagram passes; finding a MAC by chance takes too long. */
	demand(announce_verify(datagram, &header, &keys) != REJECT_NONE);
	if (announce_decode(datagram, &header, &a) == REJECT_NONE)
		check_range(&a);
}

static void try_payload(const uint8_t *payload, size_t size)
{
	uint8_t datagram[ANNOUNCE_BYTES_MAX] = { 0 };
	struct announce_header header = { .payload_bytes = (uint16_t)size, .epoch = 5, .sequence = 6 };
	struct announcement a;

	if (size > ANNOUNCE_BYTES_MAX - ANNOUNCE_HEADER_BYTES - ANNOUNCE_MAC_BYTES)
		return;
	if (size)
		memcpy(datagram + ANNOUNCE_HEADER_BYTES, payload, size);
	if (announce_decode(datagram, &header, &a))
		return;
	check_range(&a);
	check_again(&a, &header);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t key[32] = "a key that the fuzzer cannot see";

	if (!keys.count)
		announce_add_key(&keys, "fuzz", key);
	if (!size)
		return 0;
	if (data[0] & 1)
		try_payload(data + 1, size - 1);
	else
		try_datagram(data + 1, size - 1);
	return 0;
}
