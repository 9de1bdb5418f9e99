// SPDX-License-Identifier: GPL-2.0-or-later
/* input.c - random packets: most of them nearly right, where mistakes show. */
#include "dprd/core/packet/probe.h"
#include "tests/bpf/input_private.h"

enum {
	PAYLOAD_MOST = 1700,
	LEAST_BYTES = FRAME_ETHERNET_BYTES + IPV6_HEADER_BYTES, /* a test run takes no shorter frame */
};

/* --- from the inside out --- */

struct maker {
	struct random *r;
	const struct input_site *site;
	struct frame *frame;
	bool v6;
	uint8_t room[2 * FRAME_BYTES];
	unsigned start;
};

static uint8_t *prepend(struct maker *m, unsigned bytes)
{
	m->start -= bytes;
	return m->room + m->start;
}

static unsigned made_bytes(const struct maker *m)
{
	return FRAME_BYTES - m->start;
}

/* Bytes without meaning, from a place that differs from packet to packet. */
static void add_payload(struct maker *m, unsigned bytes)
{
	static uint64_t noise[FRAME_BYTES / 4];
	unsigned i;

	if (!noise[0]) {
		struct random fixed = { .state = 1 };

		for (i = 0; i < FRAME_BYTES / 4; i++)
			noise[i] = random_next(&fixed);
	}
	memcpy(prepend(m, bytes), (uint8_t *)noise + random_below(m->r, FRAME_BYTES), bytes);
}

static unsigned payload_bytes(struct random *r)
{
	switch (random_below(r, 8)) {
	case 0:
		return random_below(r, PAYLOAD_MOST);
	case 1:
		return 1380 + random_below(r, 100);
	case 2:
		return 180 + random_below(r, 130);
	default:
		return random_below(r, 30);
	}
}

/* An identification or flow label, often the meaningful one. */
static uint32_t random_label(struct random *r, uint32_t count)
{
	return input_one_in(r, 4) ? ENCAP_MAY_RETURN | random_below(r, 256) : random_below(r, count);
}

/* Now and then the last one is used up. */
static uint8_t random_hops(struct random *r)
{
	return input_one_in(r, 8) ? (uint8_t)random_below(r, 3) : 64;
}

/* Now and then extension headers, or a fragment header. Returns the protocol of the first one, or the given one. */
static uint8_t add_extensions(struct maker *m, uint8_t protocol)
{
	static const uint8_t kinds[] = { 0, 43, 44, 60 };

	while (input_one_in(m->r, 12)) {
		unsigned bytes = 8 + 8 * random_below(m->r, 3), i;
		uint8_t kind = kinds[random_below(m->r, 4)], *header = prepend(m, kind == 44 ? 8 : bytes);

		for (i = 0; i < (kind == 44 ? 8 : bytes); i++)
			header[i] = 0;
		header[0] = protocol;
		header[1] = kind == 44 ? 0 : (uint8_t)(bytes / 8 - 1);
		header[3] = kind == 43 ? input_one_in(m->r, 4) : kind == 44;
		header[2] = kind == 44 && input_one_in(m->r, 4);
		protocol = kind;
	}
	return protocol;
}

/* Now and then IPv4 options: nothing, and sometimes a source route. Returns their length. */
static unsigned add_options(struct maker *m)
{
	unsigned bytes = input_one_in(m->r, 12) ? 4 + 4 * random_below(m->r, 10) : 0, i;
	uint8_t *options = prepend(m, bytes);

	for (i = 0; i < bytes; i++)
		options[i] = 1;
	if (bytes && input_one_in(m->r, 4))
		options[random_below(m->r, bytes)] = (uint8_t)random_next(m->r);
	return bytes;
}

static void add_ip(struct maker *m, uint8_t protocol, const struct addr *from, const struct addr *to)
{
	unsigned options, payload;
	uint8_t tos = (uint8_t)random_next(m->r);
	uint8_t *ip;

	if (m->v6) {
		protocol = add_extensions(m, protocol);
		payload = made_bytes(m);
		ip = prepend(m, IPV6_HEADER_BYTES);
		write_be32(ip, 0x60000000 | (uint32_t)tos << 20 | random_label(m->r, 1 << 20));
		write_be16(ip + 4, payload);
		ip[6] = protocol;
		ip[7] = random_hops(m->r);
		memcpy(ip + 8, from->bytes, 16);
		memcpy(ip + 24, to->bytes, 16);
		return;
	}
	options = add_options(m);
	payload = made_bytes(m);
	ip = prepend(m, IPV4_HEADER_BYTES);
	ip[0] = (uint8_t)(0x45 + options / 4);
	ip[1] = tos;
	write_be16(ip + 2, payload + IPV4_HEADER_BYTES);
	write_be16(ip + 4, random_label(m->r, 1 << 16));
	write_be16(ip + 6, input_one_in(m->r, 16) ? 0x2000 : input_one_in(m->r, 4) ? 0 : 0x4000);
	ip[8] = random_hops(m->r);
	ip[9] = protocol;
	write_be16(ip + 10, (uint32_t)random_next(m->r));
	memcpy(ip + 12, from->bytes + 12, 4);
	memcpy(ip + 16, to->bytes + 12, 4);
}

static const uint8_t option_lists[][12] = {
	{ 2, 4, 0x05, 0xb4 },
	{ 2, 4, 0x05, 0xb4, 4, 2, 1, 3, 3, 7, 1, 1 },
	{ 1, 2, 4, 0x05, 0xb4, 1, 1, 1 },
	{ 1, 1, 2, 4, 0xff, 0xff, 3, 3, 7, 1, 0, 0 },
	{ 8, 6, 0, 0, 0, 1, 1, 2, 4, 0x05, 0xa1, 0 },
	{ 2, 4, 0x02, 0x18, 0, 0, 0, 0 },
	{ 3, 3, 7, 2, 4, 0x23, 0x28, 0 },
	{ 0, 2, 4, 0x05, 0xb4 },
	{ 254, 0, 2, 4, 0x05, 0xb4 },
	{ 254, 1, 2, 4, 0x05, 0xb4 },
	{ 254, 40, 2, 4, 0x05, 0xb4 },
	{ 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 0x05, 0xb4 },
};

static void add_tcp(struct maker *m, be16 from, be16 to, uint8_t flags, uint32_t sequence)
{
	unsigned options = random_below(m->r, 4) * 4, i;
	uint8_t *tcp = prepend(m, TCP_HEADER_BYTES + options);

	if (options)
		memcpy(tcp + TCP_HEADER_BYTES, option_lists[random_below(m->r, sizeof(option_lists) / 12)], options);
	if (options && input_one_in(m->r, 8))
		tcp[TCP_HEADER_BYTES + random_below(m->r, options)] = (uint8_t)random_next(m->r);
	for (i = 8; i < TCP_HEADER_BYTES; i++)
		tcp[i] = (uint8_t)random_next(m->r);
	memcpy(tcp, &from, 2);
	memcpy(tcp + 2, &to, 2);
	write_be32(tcp + 4, sequence);
	tcp[12] = (uint8_t)((TCP_HEADER_BYTES + options) / 4 << 4);
	tcp[13] = flags;
}

static be16 random_service_port(struct random *r, const struct config *config)
{
	if (input_one_in(r, 30))
		return to_be16((uint16_t)random_next(r));
	return to_be16(config->port[random_below(r, config->port_count)]);
}

static uint8_t random_flags(struct random *r)
{
	static const uint8_t usual[] = { TCP_SYN,           TCP_SYN, TCP_ACK,           TCP_ACK | TCP_PSH,
					 TCP_FIN | TCP_ACK, TCP_RST, TCP_SYN | TCP_ACK, TCP_ACK };

	return input_one_in(r, 4) ? (uint8_t)random_next(r) : usual[random_below(r, sizeof(usual))];
}

/* A connection to one of this node's services, mostly one that has a flow. */
static struct flow_key random_key(struct maker *m, uint32_t *sequence)
{
	unsigned which = random_below(m->r, m->site->key_count);
	struct flow_key key = m->site->keys[which];

	*sequence = input_one_in(m->r, 3) ? input_sequence(m->r) : m->site->sequences[which];
	m->v6 = !addr_is_v4(&key.client);
	if (input_one_in(m->r, 10))
		key.client_port = input_client_port(m->r);
	if (input_one_in(m->r, 20))
		key.service_port = random_service_port(m->r, m->site->config);
	if (input_one_in(m->r, 20))
		key.service =
			input_service(m->r, m->site->config, random_below(m->r, m->site->config->member_count), m->v6);
	return key;
}

static void make_client_packet(struct maker *m)
{
	uint32_t sequence;
	struct flow_key key = random_key(m, &sequence);

	if (m->v6 && input_one_in(m->r, 40))
		key.client.bytes[0] = 0xff;
	add_payload(m, payload_bytes(m->r));
	add_tcp(m, key.client_port, key.service_port, random_flags(m->r), sequence);
	add_ip(m, PROTO_TCP, &key.client, &key.service);
}

/* An error about a packet from a service to a client. */
static void add_icmp_error(struct maker *m, const struct flow_key *key, const struct addr *from)
{
	static const uint8_t types[2][8] = { { 3, 3, 11, 12, 5, 8, 4, 0 }, { 1, 2, 3, 4, 5, 128, 135, 0 } };
	unsigned quoted = (m->v6 ? IPV6_HEADER_BYTES : IPV4_HEADER_BYTES) + 8u, i, all;
	uint8_t *icmp;

	add_payload(m, payload_bytes(m->r));
	add_tcp(m, key->service_port, key->client_port, TCP_ACK, 9);
	add_ip(m, PROTO_TCP, &key->service, &key->client);
	/* Cuts behind the bytes that must be quoted, sometimes too early. */
	all = made_bytes(m);
	if (input_one_in(m->r, 2) && all > quoted) {
		quoted += random_below(m->r, 30);
		quoted = input_one_in(m->r, 6) ? random_below(m->r, quoted) : quoted;
		quoted = quoted < all ? quoted : all;
		memmove(m->room + FRAME_BYTES - quoted, m->room + m->start, quoted);
		m->start = FRAME_BYTES - quoted;
	}
	icmp = prepend(m, ICMP_HEADER_BYTES);
	for (i = 0; i < ICMP_HEADER_BYTES; i++)
		icmp[i] = (uint8_t)random_next(m->r);
	icmp[0] = types[m->v6][random_below(m->r, input_one_in(m->r, 6) ? 8 : 4)];
	add_ip(m, m->v6 ? PROTO_ICMPV6 : PROTO_ICMP, from, &key->service);
}

/* Now and then a host with a misleading address. */
static struct addr random_host(struct maker *m)
{
	static const uint32_t odd_v4[] = { 0, 0x7f000001, 0xe0000001, 0xffffffff, 0xf0000001, 0x0a000001, 0xc0000209 };
	const struct config *config = m->site->config;
	const struct member *member = &config->member[random_below(m->r, config->member_count)];
	struct addr odd_v6 = { .bytes = { [15] = (uint8_t)random_below(m->r, 2) } };

	switch (random_below(m->r, 12)) {
	case 0:
		return m->v6 ? member->cluster_v6 : member->cluster_v4;
	case 1:
		return input_service(m->r, config, random_below(m->r, config->member_count), m->v6);
	case 2:
		return m->v6 ? odd_v6 : input_v4(odd_v4[random_below(m->r, 7)]);
	case 3:
		odd_v6.bytes[0] = 0xff;
		return m->v6 ? odd_v6 : input_v4((uint32_t)random_next(m->r));
	case 4:
		return input_v4(0xc0000209); /* v4-mapped in an IPv6 packet */
	default:
		return input_client(m->r, m->v6);
	}
}

static void make_icmp(struct maker *m)
{
	uint32_t sequence;
	struct flow_key key = random_key(m, &sequence);
	struct addr router = random_host(m);

	add_icmp_error(m, &key, &router);
}

static void make_inner(struct maker *m, unsigned member)
{
	struct flow_key key = { .client = random_host(m),
				.client_port = input_client_port(m->r),
				.service_port = random_service_port(m->r, m->site->config) };
	struct addr router;

	key.service = input_service(m->r, m->site->config, member, m->v6);
	if (input_one_in(m->r, 4)) {
		router = random_host(m);
		add_icmp_error(m, &key, &router);
		return;
	}
	add_payload(m, payload_bytes(m->r));
	if (input_one_in(m->r, 16)) {
		add_ip(m, (uint8_t)random_next(m->r), &key.client, &key.service);
		return;
	}
	if (input_one_in(m->r, 16))
		key.client_port = key.service_port = htons(PROBE_PORT);
	add_tcp(m, key.client_port, key.service_port, random_flags(m->r), input_sequence(m->r));
	add_ip(m, PROTO_TCP, &key.client, &key.service);
}

static void make_tunnel(struct maker *m)
{
	const struct config *config = m->site->config;
	unsigned member = random_below(m->r, config->member_count);
	const struct member *self = &config->member[config->self], *peer = &config->member[member];
	struct addr from = m->v6 ? peer->cluster_v6 : peer->cluster_v4,
		    to = m->v6 ? self->cluster_v6 : self->cluster_v4;

	make_inner(m, input_one_in(m->r, 10) ? random_below(m->r, config->member_count) : member);
	if (input_one_in(m->r, 16))
		from = random_host(m);
	if (input_one_in(m->r, 16))
		to = random_host(m);
	if (input_one_in(m->r, 40))
		m->v6 = !m->v6;
	add_ip(m, m->v6 ? PROTO_IPV6 : PROTO_IPIP, &from, &to);
}

static struct addr random_alias(struct maker *m)
{
	const struct config *config = m->site->config;
	unsigned member = random_below(m->r, config->member_count);
	const struct member *owner = &config->member[member];
	unsigned service = random_below(m->r, owner->service_count);
	struct addr alias = config_alias(config, member, service);

	m->v6 = !addr_is_v4(&owner->service[service]);
	return addr_is_zero(&alias) ? owner->service[service] : alias;
}

static void make_to_alias(struct maker *m)
{
	struct addr to = random_alias(m), from = random_host(m);

	add_payload(m, payload_bytes(m->r));
	add_tcp(m, input_client_port(m->r), random_service_port(m->r, m->site->config), random_flags(m->r), 5);
	add_ip(m, input_one_in(m->r, 3) ? (uint8_t)random_next(m->r) : PROTO_TCP, &from, &to);
}

static void make_answer(struct maker *m)
{
	struct addr from = random_alias(m), to = input_client(m->r, m->v6);

	add_payload(m, payload_bytes(m->r));
	add_tcp(m, random_service_port(m->r, m->site->config), input_client_port(m->r),
		input_one_in(m->r, 2) ? TCP_SYN | TCP_ACK : random_flags(m->r), 5);
	/* Often the answer to a SYN that came, or will come. */
	if (input_one_in(m->r, 2))
		write_be32(m->room + m->start + 8, input_sequence(m->r) + 1);
	add_ip(m, PROTO_TCP, &from, &to);
}

/* --- what happens to packets on their way --- */

static void mutate(struct random *r, struct frame *f)
{
	static const uint16_t lengths[] = { 0, 1, 19, 20, 39, 40, 41, 59, 60, 0x2000, 0x4000, 0xfffe, 0xffff };
	static const uint8_t protocols[] = { 0, 1, 4, 6, 17, 41, 43, 44, 50, 51, 58, 59, 60, 135, 255 };
	unsigned headers = f->length < 130 ? f->length : 130, at = random_below(r, headers);
	bool v6 = f->bytes[12] == 0x86;

	switch (random_below(r, 10)) {
	case 0:
		f->bytes[at] ^= (uint8_t)(1u << random_below(r, 8));
		break;
	case 1:
		f->bytes[at] = (uint8_t)random_next(r);
		break;
	case 2:
		write_be16(f->bytes + (at & ~1u), lengths[random_below(r, 13)]);
		break;
	case 3: /* length by a little */
		at = FRAME_ETHERNET_BYTES + (v6 ? 4 : 2);
		write_be16(f->bytes + at, read_be16(f->bytes + at) + random_below(r, 9) - 4);
		break;
	case 4: /* the same of an inner packet */
		at = FRAME_ETHERNET_BYTES + (v6 ? 44 : 22);
		write_be16(f->bytes + at, read_be16(f->bytes + at) + random_below(r, 9) - 4);
		break;
	case 5:
		f->bytes[FRAME_ETHERNET_BYTES +
			 (input_one_in(r, 2) ? 0
			  : v6               ? 40
					     : 20) +
			 (v6 ? 6 : 9)] = protocols[random_below(r, sizeof(protocols))];
		break;
	case 6: /* version and header length */
		f->bytes[FRAME_ETHERNET_BYTES + (input_one_in(r, 2) ? 0 : v6 ? 40 : 20)] = (uint8_t)random_next(r);
		break;
	case 7: /* data offset */
		f->bytes[FRAME_ETHERNET_BYTES + (v6 ? 52 : 32)] = (uint8_t)random_next(r);
		break;
	case 8:
		f->length = LEAST_BYTES + random_below(r, f->length - LEAST_BYTES + 1);
		break;
	default: /* padding */
		f->length += random_below(r, 40);
		break;
	}
}

static void make_noise(struct random *r, struct frame *f)
{
	unsigned i;

	f->length = LEAST_BYTES + random_below(r, 200);
	for (i = 0; i < f->length; i++)
		f->bytes[i] = (uint8_t)random_next(r);
	if (input_one_in(r, 4))
		return;
	write_be16(f->bytes + 12, input_one_in(r, 2) ? 0x0800 : 0x86dd);
	f->bytes[FRAME_ETHERNET_BYTES] = f->bytes[12] == 0x08 ? 0x45 : 0x60;
}

static void finish(struct maker *m)
{
	struct frame *f = m->frame;
	unsigned bytes = made_bytes(m), i;

	for (i = 0; i < 12; i++)
		f->bytes[i] = (uint8_t)random_next(m->r);
	/* To all nodes, or to this one. */
	if (input_one_in(m->r, 2))
		f->bytes[0] |= 1;
	else if (input_one_in(m->r, 2))
		memset(f->bytes, 0, 6);
	write_be16(f->bytes + 12, m->v6 ? 0x86dd : 0x0800);
	memcpy(f->bytes + FRAME_ETHERNET_BYTES, m->room + m->start, bytes);
	f->length = FRAME_ETHERNET_BYTES + bytes;
	while (f->length < LEAST_BYTES)
		f->bytes[f->length++] = 0;
}

void input_packet(struct random *r, const struct input_site *site, struct input *ret)
{
	static struct maker m;
	unsigned what = random_below(r, 100), i;

	m.r = r;
	m.site = site;
	m.frame = &ret->frame;
	m.start = FRAME_BYTES;
	m.v6 = input_one_in(r, 2);
	memset(ret->frame.bytes, 0, 256);
	ret->egress = false;
	ret->mark = input_one_in(r, 8) ? (uint32_t)random_next(r) & 0xffff : 0;
	ret->gso_bytes = input_one_in(r, 40) ? 200 + random_below(r, 1400) : 0;
	if (what < 40) {
		make_client_packet(&m);
	} else if (what < 52) {
		make_icmp(&m);
	} else if (what < 75) {
		make_tunnel(&m);
	} else if (what < 78) {
		make_to_alias(&m);
	} else if (what < 95) {
		make_answer(&m);
		ret->egress = true;
	} else {
		ret->egress = input_one_in(r, 4);
		make_noise(r, &ret->frame);
		return;
	}
	finish(&m);
	if (input_one_in(r, 50))
		ret->egress = !ret->egress;
	if (input_one_in(r, 2))
		return;
	for (i = 1 + random_below(r, 3); i; i--)
		mutate(r, &ret->frame);
}
