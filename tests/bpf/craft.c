// SPDX-License-Identifier: GPL-2.0-or-later
/* craft.c - frames from lines. Built from the inside out: each layer goes in front of the present bytes. */
#include "tests/bpf/craft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/oracle.h"

enum { LAYERS_MAX = 10, WORDS_MAX = 24, LINE_BYTES = 512 };

struct layer {
	char *words[WORDS_MAX];
	bool used[WORDS_MAX];
	unsigned count;
};

/* The packet so far: room[start] to room[end - 1]. */
struct craft {
	const struct craft_names *names;
	const char *line;
	const struct frame *other;
	struct layer layers[LAYERS_MAX];
	unsigned count, start, end, pad, chop;
	uint8_t room[2 * FRAME_BYTES];
};

__attribute__((noreturn)) static void die(const struct craft *c, const char *what, const char *word)
{
	fprintf(stderr, "craft: %s: %s: \"%s\"\n", c->line, what, word ? word : "");
	exit(2);
}

static uint8_t *prepend(struct craft *c, unsigned bytes)
{
	if (bytes > c->start)
		die(c, "too long", NULL);
	c->start -= bytes;
	return memset(c->room + c->start, 0, bytes);
}

static void put16(uint8_t *at, unsigned value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static void put32(uint8_t *at, unsigned long value)
{
	put16(at, (unsigned)(value >> 16));
	put16(at + 2, (unsigned)value & 0xffff);
}

/* --- words --- */

static const char *word(struct craft *c, struct layer *l, unsigned index)
{
	if (index >= l->count)
		die(c, "a word is missing in", l->words[0]);
	l->used[index] = true;
	return l->words[index];
}

/* The word behind this one; NULL: the layer does not have it. */
static const char *value(struct craft *c, struct layer *l, const char *name)
{
	unsigned i;

	for (i = 1; i < l->count; i++) {
		if (strcmp(l->words[i], name) == 0) {
			l->used[i] = true;
			return word(c, l, i + 1);
		}
	}
	return NULL;
}

static bool has(struct layer *l, const char *name)
{
	unsigned i;

	for (i = 1; i < l->count; i++) {
		if (strcmp(l->words[i], name) == 0)
			return l->used[i] = true;
	}
	return false;
}

static unsigned long to_number(const struct craft *c, const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 0);

	if (end == text || *end)
		die(c, "no number", text);
	return n;
}

static unsigned long number(struct craft *c, struct layer *l, const char *name, unsigned long otherwise)
{
	const char *text = value(c, l, name);

	return text ? to_number(c, text) : otherwise;
}

/* "A>B" */
static void pair(struct craft *c, struct layer *l, char from[LINE_BYTES], const char **to)
{
	snprintf(from, LINE_BYTES, "%s", word(c, l, 1));
	*to = strchr(from, '>');
	if (!*to)
		die(c, "not of the form A>B", from);
	*strchr(from, '>') = '\0';
	++*to;
}

static unsigned put_hex(struct craft *c, uint8_t *at, const char *text)
{
	unsigned bytes = (unsigned)strlen(text) / 2, i;

	for (i = 0; at && i < bytes; i++) {
		const char digits[] = { text[2 * i], text[2 * i + 1], '\0' };
		char *end;

		at[i] = (uint8_t)strtoul(digits, &end, 16);
		if (*end)
			die(c, "no hex", text);
	}
	return bytes;
}

/* --- what a layer is --- */

static bool is(const struct layer *l, const char *name)
{
	return strcmp(l->words[0], name) == 0;
}

static bool is_ip(const struct layer *l)
{
	return is(l, "ip") || is(l, "ip4") || is(l, "ip6") || is(l, "tunnel");
}

static bool is_star(const struct layer *l)
{
	return l->words[0][0] == '*';
}

static bool family(const struct craft *c, const struct layer *l)
{
	return is(l, "ip4") ? false : is(l, "ip6") ? true : c->names->v6;
}

/* The IP layer around layer i. */
static struct layer *around(struct craft *c, unsigned i)
{
	while (i--) {
		if (is_ip(&c->layers[i]))
			return &c->layers[i];
	}
	die(c, "no ip layer around", NULL);
}

static unsigned protocol_of(const struct craft *c, unsigned i, bool v6)
{
	const struct layer *l = &c->layers[i];

	if (i >= c->count)
		return 255;
	if (is(l, "tcp"))
		return 6;
	if (is(l, "udp"))
		return 17;
	if (is(l, "icmp"))
		return v6 ? 58 : 1;
	if (is(l, "ext"))
		return (unsigned)to_number(c, l->words[1]);
	if (is_star(l) || is_ip(l))
		return family(c, l) ? 41 : 4;
	if (i && is(l - 1, "tunnel"))
		return v6 ? 41 : 4;
	return 255;
}

static void addresses(struct craft *c, struct layer *l, bool v6, struct addr ret[2])
{
	const struct craft_names *n = c->names;
	char from[LINE_BYTES];
	const char *to;

	pair(c, l, from, &to);
	if (!n->address(n->context, from, v6, &ret[0]))
		die(c, "no address", from);
	if (!n->address(n->context, to, v6, &ret[1]))
		die(c, "no address", to);
}

/* The sum of the transport's pseudo header. */
static uint64_t pseudo(struct craft *c, unsigned i, unsigned protocol, unsigned length)
{
	struct layer *ip = around(c, i);
	bool v6 = family(c, ip);
	struct addr a[2];

	addresses(c, ip, v6, a);
	return protocol + length +
	       (v6 ? oracle_sum(a[0].bytes, 16) + oracle_sum(a[1].bytes, 16)
		   : oracle_sum(a[0].bytes + 12, 4) + oracle_sum(a[1].bytes + 12, 4));
}

static void put_sum(struct craft *c, struct layer *l, uint8_t *field, uint64_t sum)
{
	const char *how = value(c, l, "sum");
	unsigned good = (unsigned)(65535 - sum % 65535);

	if (how && strcmp(how, "bad") != 0)
		good = (unsigned)to_number(c, how);
	put16(field, how && strcmp(how, "bad") == 0 ? good ^ 0x0180 : good);
}

/* --- layers --- */

static void add_ipv4(struct craft *c, struct layer *l, unsigned i, bool tunnel)
{
	unsigned options = (unsigned)number(c, l, "options", 0), body = c->end - c->start;
	uint8_t *ip = prepend(c, 20 + options);
	struct addr a[2];

	addresses(c, l, false, a);
	ip[0] = (uint8_t)(0x40 | number(c, l, "ihl", 5 + options / 4));
	ip[1] = (uint8_t)number(c, l, "tos", 0);
	put16(ip + 2, (unsigned)number(c, l, "len", 20 + options + body));
	put16(ip + 4, (unsigned)number(c, l, "id", tunnel ? 0 : 0x1234));
	put16(ip + 6,
	      (unsigned)(number(c, l, "off", 0) / 8 | (has(l, "nodf") ? 0 : 0x4000) | (has(l, "mf") ? 0x2000 : 0)));
	ip[8] = (uint8_t)number(c, l, "ttl", tunnel ? 64 : 63);
	ip[9] = (uint8_t)number(c, l, "proto", protocol_of(c, i + 1, false));
	memcpy(ip + 12, a[0].bytes + 12, 4);
	memcpy(ip + 16, a[1].bytes + 12, 4);
	memset(ip + 20, 1, options);
	put_sum(c, l, ip + 10, oracle_sum(ip, 20 + options));
}

static uint32_t get32(const uint8_t *at)
{
	uint32_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

/*
 * The label of the outer header, by the packet within (TCP, or an error that quotes TCP). Where the packet ends too early
 * there are zeros.
 */
static unsigned long outer_label(const struct craft *c)
{
	const uint8_t *ip = c->room + c->start, *client = ip + 8, *service = ip + 24, *ports = ip + 40;
	unsigned client_port, service_port;
	uint32_t hash;

	if (ip[6] == 58) {
		client = ip + 48 + 24;
		service = ip + 48 + 8;
		ports = ip + 48 + 40;
	} else if (ip[6] != 6) {
		return 0;
	}
	client_port = get32(ports) & 0xffff;
	service_port = get32(ports) >> 16;
	hash = get32(client) ^ get32(client + 4) ^ get32(client + 8) ^ get32(client + 12) ^ get32(service + 12);
	hash *= 2654435761u;
	hash ^= ip[6] == 58 ? (service_port | client_port << 16) : (client_port | service_port << 16);
	hash *= 2246822507u;
	return 0x80000 | hash >> 13;
}

static void add_ipv6(struct craft *c, struct layer *l, unsigned i, bool tunnel)
{
	unsigned long label = tunnel ? outer_label(c) : 0xabcde;
	unsigned body = c->end - c->start;
	uint8_t *ip = prepend(c, 40);
	struct addr a[2];

	addresses(c, l, true, a);
	has(l, "nodf"); /* IPv6 is never fragmented on its way and has no such bit */
	put32(ip, 0x60000000 | number(c, l, "tos", 0) << 20 | number(c, l, "flow", label));
	put16(ip + 4, (unsigned)number(c, l, "len", 40 + body) - 40);
	ip[6] = (uint8_t)number(c, l, "proto", protocol_of(c, i + 1, true));
	ip[7] = (uint8_t)number(c, l, "ttl", tunnel ? 64 : 63);
	memcpy(ip + 8, a[0].bytes, 16);
	memcpy(ip + 24, a[1].bytes, 16);
}

static void add_ext(struct craft *c, struct layer *l, unsigned i)
{
	unsigned bytes = (unsigned)to_number(c, word(c, l, 2));
	uint8_t *ext = prepend(c, bytes);

	word(c, l, 1);
	ext[0] = (uint8_t)protocol_of(c, i + 1, true);
	ext[1] = (uint8_t)(bytes / 8 - 1);
}

static unsigned tcp_flags(const struct craft *c, const char *text)
{
	static const char letters[] = "FSRP.UEW";
	unsigned flags = 0;

	if (strcmp(text, "none") == 0)
		return 0;
	for (; *text; text++) {
		const char *letter = strchr(letters, *text);

		if (!letter)
			die(c, "no TCP flag", text);
		flags |= 1u << (letter - letters);
	}
	return flags;
}

static void ports(struct craft *c, struct layer *l, uint8_t *at)
{
	char from[LINE_BYTES];
	const char *to;

	pair(c, l, from, &to);
	put16(at, (unsigned)to_number(c, from));
	put16(at + 2, (unsigned)to_number(c, to));
}

static void add_tcp(struct craft *c, struct layer *l, unsigned i)
{
	const char *options = value(c, l, "opt");
	unsigned option_bytes = options ? put_hex(c, NULL, options) : 0, length;
	uint8_t *tcp = prepend(c, 20 + option_bytes);

	ports(c, l, tcp);
	put32(tcp + 4, number(c, l, "seq", 1000));
	put32(tcp + 8, number(c, l, "ack", 0));
	tcp[12] = (uint8_t)(number(c, l, "doff", 5 + option_bytes / 4) << 4);
	tcp[13] = (uint8_t)tcp_flags(c, word(c, l, 2));
	put16(tcp + 14, (unsigned)number(c, l, "win", 64240));
	put16(tcp + 18, (unsigned)number(c, l, "urg", 0));
	if (options)
		put_hex(c, tcp + 20, options);
	length = c->end - c->start;
	put_sum(c, l, tcp + 16, pseudo(c, i, 6, length) + oracle_sum(tcp, length));
}

static void add_udp(struct craft *c, struct layer *l, unsigned i)
{
	uint8_t *udp = prepend(c, 8);
	unsigned length = c->end - c->start;

	ports(c, l, udp);
	put16(udp + 4, length);
	put_sum(c, l, udp + 6, pseudo(c, i, 17, length) + oracle_sum(udp, length));
}

static void icmp_kind(struct craft *c, const char *text, bool v6, uint8_t *icmp)
{
	static const struct {
		const char *name;
		uint8_t v4[2], v6[2];
	} kinds[] = {
		{ "unreachable", { 3, 1 }, { 1, 0 } }, { "toobig", { 3, 4 }, { 2, 0 } },
		{ "timeout", { 11, 0 }, { 3, 0 } },    { "parameter", { 12, 0 }, { 4, 0 } },
		{ "echo", { 8, 0 }, { 128, 0 } },
	};
	char *end;
	unsigned k;

	for (k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		if (strcmp(text, kinds[k].name) == 0) {
			memcpy(icmp, v6 ? kinds[k].v6 : kinds[k].v4, 2);
			return;
		}
	}
	icmp[0] = (uint8_t)strtoul(text, &end, 10);
	if (*end != '/')
		die(c, "no ICMP type", text);
	icmp[1] = (uint8_t)to_number(c, end + 1);
}

static void add_icmp(struct craft *c, struct layer *l, unsigned i)
{
	unsigned quote = (unsigned)number(c, l, "quote", FRAME_BYTES), length;
	bool v6 = family(c, around(c, i));
	uint8_t *icmp;

	if (c->end - c->start > quote)
		c->end = c->start + quote;
	icmp = prepend(c, 8);
	icmp_kind(c, word(c, l, 1), v6, icmp);
	put32(icmp + 4, number(c, l, "mtu", 0));
	length = c->end - c->start;
	put_sum(c, l, icmp + 2, (v6 ? pseudo(c, i, 58, length) : 0) + oracle_sum(icmp, length));
}

static void add_eth(struct craft *c, struct layer *l, unsigned i)
{
	const struct craft_names *n = c->names;
	bool v6 = i + 1 < c->count && (is_ip(&c->layers[i + 1]) || is_star(&c->layers[i + 1])) &&
		  family(c, &c->layers[i + 1]);
	uint8_t *eth = prepend(c, FRAME_ETHERNET_BYTES);
	char from[LINE_BYTES];
	const char *to;

	pair(c, l, from, &to);
	if (!n->hardware(n->context, to, eth) || !n->hardware(n->context, from, eth + 6))
		die(c, "no hardware address", from);
	put16(eth + 12, (unsigned)number(c, l, "type", v6 ? 0x86dd : 0x0800));
}

static void add_data(struct craft *c, struct layer *l)
{
	unsigned bytes = (unsigned)to_number(c, word(c, l, 1)), i;
	uint8_t *at = prepend(c, bytes);

	for (i = 0; i < bytes; i++)
		at[i] = (uint8_t)(i * 7 + 1);
}

static void add_star(struct craft *c, struct layer *l)
{
	const char *text = word(c, l, 0) + 1;
	unsigned bytes;

	if (!c->other)
		die(c, "no other frame", NULL);
	bytes = *text ? (unsigned)to_number(c, text) : frame_datagram_bytes(c->other);
	memcpy(prepend(c, bytes), c->other->bytes + FRAME_ETHERNET_BYTES, bytes);
}

static void add_layer(struct craft *c, unsigned i)
{
	struct layer *l = &c->layers[i];

	l->used[0] = true;
	if (is_ip(l))
		(family(c, l) ? add_ipv6 : add_ipv4)(c, l, i, is(l, "tunnel"));
	else if (is(l, "tcp"))
		add_tcp(c, l, i);
	else if (is(l, "udp"))
		add_udp(c, l, i);
	else if (is(l, "icmp"))
		add_icmp(c, l, i);
	else if (is(l, "ext"))
		add_ext(c, l, i);
	else if (is(l, "data"))
		add_data(c, l);
	else if (is(l, "hex"))
		put_hex(c, prepend(c, put_hex(c, NULL, word(c, l, 1))), word(c, l, 1));
	else if (is(l, "eth"))
		add_eth(c, l, i);
	else if (is_star(l))
		add_star(c, l);
	else if (is(l, "pad"))
		c->pad = (unsigned)to_number(c, word(c, l, 1));
	else if (is(l, "chop"))
		c->chop = (unsigned)to_number(c, word(c, l, 1));
	else
		die(c, "no layer", l->words[0]);
}

/* --- the line --- */

static void split(struct craft *c, char *text)
{
	struct layer *l = NULL;
	char *rest = NULL, *w;

	for (w = strtok_r(text, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
		if (strcmp(w, "|") == 0) {
			l = NULL;
			continue;
		}
		if (!l) {
			if (c->count == LAYERS_MAX)
				die(c, "too many layers", w);
			l = &c->layers[c->count++];
		}
		if (l->count == WORDS_MAX)
			die(c, "too many words", w);
		l->words[l->count++] = w;
	}
}

static void check_used(const struct craft *c)
{
	unsigned i, w;

	for (i = 0; i < c->count; i++) {
		for (w = 0; w < c->layers[i].count; w++) {
			if (!c->layers[i].used[w])
				die(c, "not understood", c->layers[i].words[w]);
		}
	}
}

void craft(const struct craft_names *names, const char *line, const struct frame *other, struct frame *ret)
{
	static struct craft c;
	char text[LINE_BYTES];
	unsigned i;

	memset(&c, 0, sizeof(c));
	c.names = names;
	c.line = line;
	c.other = other;
	c.start = c.end = FRAME_BYTES;
	snprintf(text, sizeof(text), "%s%s", strncmp(line, "eth ", 4) ? "eth gw>me | " : "", line);
	split(&c, text);
	for (i = c.count; i--;)
		add_layer(&c, i);
	check_used(&c);
	memset(c.room + c.end, 0xee, c.pad);
	ret->length = c.end + c.pad - c.chop - c.start;
	if (ret->length > FRAME_BYTES)
		die(&c, "too long", NULL);
	memcpy(ret->bytes, c.room + c.start, ret->length);
}
