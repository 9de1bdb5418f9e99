// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_shared.c - frames to an address that all nodes share: every verdict, both families; and that the programs judge
 * as bucket_judge() does. There is no listener: tests/cluster tests sockets.
 */
#include "tests/bpf/fixture.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include "dprd/base/clock.h"
#include "dprd/bpf/dprd.skel.h"
#include "dprd/fastpath/private.h"

enum { SELF = 100, PEER = 200, THIRD = 300, MS = 1000000 };

/* --- without a lease --- */

#define REFUSED(name_, variants_, in_, counted_)                                                       \
	{                                                                                              \
		.name = name_, .variants = variants_, .in = in_, .verdict = DROP, .counted = counted_, \
	}
#define PASSED(name_, variants_, in_, counted_)                                                        \
	{                                                                                              \
		.name = name_, .variants = variants_, .in = in_, .verdict = PASS, .counted = counted_, \
	}

static const struct fixture fixtures[] = {
	REFUSED("a SYN", V4, "eth gw>all | ip cl>sh | tcp 40000>80 S", "refuse_no_lease"),
	REFUSED("a SYN", V6, "eth gw>all6 | ip cl>sh | tcp 40000>80 S", "refuse_no_lease"),
	REFUSED("a SYN to no service port", V4, "eth gw>all | ip cl>sh | tcp 40000>81 S", "refuse_no_lease"),
	REFUSED("a SYN to the other address", V6, "eth gw>all6 | ip cl>si | tcp 40000>80 S", "refuse_no_lease"),
	REFUSED("a segment", V4, "eth gw>all | ip cl>sh | tcp 40000>80 . | data 30", "refuse_socket"),
	REFUSED("a segment", V6, "eth gw>all6 | ip cl>sh | tcp 40000>80 . | data 30", "refuse_socket"),
	REFUSED("a SYN-ACK", V4, "eth gw>all | ip cl>sh | tcp 80>80 S.", "refuse_socket"),
	REFUSED("a reset", V6, "eth gw>all6 | ip cl>sh | tcp 40000>80 R", "refuse_socket"),
	REFUSED("SYN and FIN", V4, "eth gw>all | ip cl>sh | tcp 40000>80 SF", "refuse_socket"),
	REFUSED("an ICMP error", V4,
		"eth gw>all | ip rt>sh | icmp unreachable quote 28 | ip sh>cl | tcp 80>40000 . | data 30",
		"refuse_error"),
	REFUSED("an ICMP error", V6,
		"eth gw>all6 | ip rt>sh | icmp toobig mtu 1400 | ip sh>cl | tcp 80>40000 . | data 30", "refuse_error"),
	REFUSED("an echo request", V4, "eth gw>all | ip cl>sh | icmp echo | data 30", "refuse_no_lease"),
	REFUSED("an echo request", V6, "eth gw>all6 | ip cl>sh | icmp echo | data 30", "refuse_no_lease"),
	REFUSED("UDP", V4, "eth gw>all | ip cl>sh | udp 40000>53 | data 30", "refuse_no_lease"),
	REFUSED("UDP", V6, "eth gw>all6 | ip cl>sh | udp 40000>53 | data 30", "refuse_no_lease"),
	REFUSED("UDP without ports", V4, "eth gw>all | ip cl>sh proto 17 | data 2", "refuse_malformed"),
	REFUSED("another protocol", V6, "eth gw>all6 | ip cl>sh proto 47 | data 30", "refuse_no_lease"),
	REFUSED("a tunnel packet", V4, "eth gw>all | ip cl>sh | ip cl>s1 | tcp 40000>80 S", "refuse_no_lease"),
	REFUSED("a fragment", V4, "eth gw>all | ip cl>sh nodf mf | tcp 40000>80 . | data 24", "refuse_fragment"),
	REFUSED("a fragment", V6, "eth gw>all6 | ip cl>sh | ext 44 8 | tcp 40000>80 . | data 24", "refuse_fragment"),
	REFUSED("options", V4, "eth gw>all | ip cl>sh options 8 | tcp 40000>80 S", "refuse_malformed"),
	REFUSED("an extension header", V6, "eth gw>all6 | ip cl>sh | ext 60 8 | tcp 40000>80 S", "refuse_malformed"),
	REFUSED("broadcast", V4, "eth gw>ff | ip cl>sh | tcp 40000>80 S", "refuse_no_lease"),
	PASSED("a neighbour solicitation", V6, "eth gw>all6 | ip cl>sh | icmp 135/0 | data 16", "pass_neighbour"),
	PASSED("a neighbour advertisement", V6, "eth gw>all6 | ip cl>sh | icmp 136/0 | data 16", "pass_neighbour"),
	PASSED("a router's redirect", V6, "eth gw>all6 | ip cl>sh | icmp 137/0 | data 32", "pass_neighbour"),
	REFUSED("not yet neighbour discovery", V6, "eth gw>all6 | ip cl>sh | icmp 132/0 | data 16", "refuse_no_lease"),
	REFUSED("no longer neighbour discovery", V6, "eth gw>all6 | ip cl>sh | icmp 138/0 | data 16",
		"refuse_no_lease"),
	PASSED("a frame to another host", 0, "eth gw>n2 | ip cl>sh | tcp 40000>80 S", NULL),
	PASSED("a segment to another host", 0, "eth gw>n2 | ip cl>sh | tcp 40000>80 .", NULL),
	PASSED("a multicast frame to an address of this node alone", V4, "eth gw>all | ip cl>s1 | tcp 40000>80 .",
	       NULL),
	/* A fellow node handed it over. */
	PASSED("a segment to this node alone", 0, "eth gw>lo | ip cl>sh | tcp 40000>80 .", NULL),
	PASSED("a SYN to this node alone", 0, "eth gw>lo | ip cl>sh | tcp 40000>80 S", NULL),
};

/* --- connections that this node forwards --- */

#define FLOW "confirmed n2 isn 5 age 30 to sh"

static const struct fixture flows[] = {
	{ .name = "a segment of a flow",
	  .variants = V4,
	  .flow = FLOW,
	  .in = "eth gw>all | ip cl>sh | tcp 40000>80 . | data 30",
	  .verdict = REDIRECT,
	  .counted = "flow accept_forward",
	  .after = "confirmed n2 isn 5 now",
	  .out = "eth me>n2 | tunnel c1>c2 | *" },
	{ .name = "a segment of a flow",
	  .variants = V6,
	  .flow = FLOW,
	  .in = "eth gw>all6 | ip cl>sh | tcp 40000>80 . | data 30",
	  .verdict = REDIRECT,
	  .counted = "flow accept_forward",
	  .after = "confirmed n2 isn 5 now",
	  .out = "eth me>n2 | tunnel c1>c2 | *" },
	{ .name = "an ICMP error about a flow",
	  .variants = V4,
	  .flow = FLOW,
	  .in = "eth gw>all | ip rt>sh | icmp unreachable quote 28 | ip sh>cl | tcp 80>40000 . | data 30",
	  .verdict = REDIRECT,
	  .counted = "icmp_relay accept_forward",
	  .out = "eth me>n2 | tunnel c1>c2 | *" },
	{ .name = "a flow that leads here",
	  .variants = V4,
	  .flow = "confirmed n1 isn 5 age 30 to sh",
	  .in = "eth gw>all | ip cl>sh | tcp 40000>80 . | data 30",
	  .verdict = DROP,
	  .counted = "refuse_socket" },
	{ .name = "a SYN, though there is a flow",
	  .variants = V6,
	  .flow = FLOW,
	  .in = "eth gw>all6 | ip cl>sh | tcp 40000>80 S seq 9",
	  .verdict = DROP,
	  .counted = "refuse_no_lease" },
	{ .name = "a segment to this node alone, though there is a flow: a fellow node handed it over",
	  .flow = FLOW,
	  .in = "eth gw>lo | ip cl>sh | tcp 40000>80 .",
	  .verdict = PASS },
	{ .name = "a SYN to this node alone, though there is a flow",
	  .flow = FLOW,
	  .in = "eth gw>lo | ip cl>sh | tcp 40000>80 S seq 5",
	  .verdict = PASS },
	{ .name = "a segment to the other address",
	  .variants = V4,
	  .flow = FLOW,
	  .in = "eth gw>all | ip cl>si | tcp 40000>80 .",
	  .verdict = DROP,
	  .counted = "refuse_socket" },
	{ .name = "too big, and dprd is away: the answer does not come from all nodes",
	  .variants = V4,
	  .beat_ago_ms = STOPPED,
	  .flow = FLOW,
	  .in = "eth gw>all | ip cl>sh | tcp 40000>80 . seq 1000 | data 1460",
	  .verdict = REDIRECT,
	  .counted = "no_tunnel too_big accept_forward",
	  .after = "confirmed n2 isn 5 now",
	  .out = "eth me>gw | tunnel sh>cl nodf | icmp toobig mtu 1480 | *40" },
};

/* --- what comes out of a tunnel, and what leaves --- */

static const struct fixture tunnels[] = {
	{ .name = "a SYN from any member",
	  .in = "tunnel c3>c1 | ip cl>sh | tcp 40000>80 S",
	  .verdict = PASS,
	  .counted = "from_peer",
	  .out = "ip cl>sh | tcp 40000>80 S" },
	{ .name = "a segment from any member",
	  .in = "tunnel c2>c1 | ip cl>sh | tcp 40000>80 . | data 9",
	  .verdict = PASS,
	  .counted = "from_peer",
	  .out = "ip cl>sh | tcp 40000>80 . | data 9" },
	{ .name = "from no member",
	  .in = "tunnel xx>c1 | ip cl>sh | tcp 40000>80 S",
	  .verdict = DROP,
	  .counted = "not_peer" },
	{ .name = "from a shared address",
	  .in = "tunnel c2>c1 | ip si>sh | tcp 40000>80 S",
	  .verdict = DROP,
	  .counted = "inner_source" },
	{ .name = "SYN-ACK: MSS",
	  .variants = V4,
	  .egress = true,
	  .in = "eth me>gw | ip sh>cl | tcp 80>40000 S. opt 020405b4",
	  .verdict = PASS,
	  .out = "eth me>gw | ip sh>cl | tcp 80>40000 S. opt 020405a0" },
	{ .name = "SYN-ACK: MSS",
	  .variants = V6,
	  .egress = true,
	  .in = "eth me>gw | ip sh>cl | tcp 80>40000 S. opt 020405b4",
	  .verdict = PASS,
	  .out = "eth me>gw | ip sh>cl | tcp 80>40000 S. opt 02040578" },
};

/* --- ARP and neighbour discovery --- */

#define ARP(kind, hardware, address) "hex 000108000604000" kind hardware address "020000000000c000020a"

static const struct fixture answers[] = {
	{ .name = "an ARP reply",
	  .egress = true,
	  .in = "eth me>gw type 0x0806 | " ARP("2", "020000000001", "c63364c8"),
	  .verdict = PASS,
	  .counted = "arp_rewritten",
	  .out = "eth me>gw type 0x0806 | " ARP("2", "01005e3364c8", "c63364c8"),
	  .sums_bad = true },
	{ .name = "an ARP request",
	  .egress = true,
	  .in = "eth me>ff type 0x0806 | " ARP("1", "020000000001", "c63364c9"),
	  .verdict = PASS,
	  .counted = "arp_rewritten",
	  .out = "eth me>ff type 0x0806 | " ARP("1", "01005e3364c9", "c63364c9"),
	  .sums_bad = true },
	{ .name = "ARP about another address",
	  .egress = true,
	  .in = "eth me>gw type 0x0806 | " ARP("2", "020000000001", "c6336401"),
	  .verdict = PASS },
	{ .name = "ARP of another kind of hardware",
	  .egress = true,
	  .in = "eth me>gw type 0x0806 | hex 0006080006040002020000000001c63364c8020000000000c000020a",
	  .verdict = PASS },
	{ .name = "ARP, cut off",
	  .egress = true,
	  .in = "eth me>gw type 0x0806 | hex 000108000604000202000000",
	  .verdict = PASS },
	{ .name = "ARP coming in",
	  .in = "eth gw>me type 0x0806 | " ARP("2", "020000000001", "c63364c8"),
	  .verdict = PASS },
	{ .name = "an advertisement",
	  .variants = V6,
	  .egress = true,
	  .in = "eth me>gw | ip sh>cl | icmp 136/0 | hex 20010db80005000000000000000002000201020000000001",
	  .verdict = PASS,
	  .counted = "nd_rewritten",
	  .out = "eth me>gw | ip sh>cl | icmp 136/0 | hex 20010db80005000000000000000002000201333300000200" },
	{ .name = "an advertisement from another address",
	  .variants = V6,
	  .egress = true,
	  .in = "eth me>gw | ip s1>cl | icmp 136/0 | hex 20010db80005000000000000000002010201020000000001",
	  .verdict = PASS,
	  .counted = "nd_rewritten",
	  .out = "eth me>gw | ip s1>cl | icmp 136/0 | hex 20010db80005000000000000000002010201333300000201" },
	{ .name = "an advertisement with another option first",
	  .variants = V6,
	  .egress = true,
	  .in = "eth me>gw | ip sh>cl | icmp 136/0 | hex "
		"20010db80005000000000000000002000e0200000000000000000000000000000201020000000001",
	  .verdict = PASS,
	  .counted = "nd_rewritten",
	  .out = "eth me>gw | ip sh>cl | icmp 136/0 | hex "
		 "20010db80005000000000000000002000e0200000000000000000000000000000201333300000200" },
	{ .name = "an advertisement without the option",
	  .variants = V6,
	  .egress = true,
	  .in = "eth me>gw | ip sh>cl | icmp 136/0 | hex 20010db8000500000000000000000200",
	  .verdict = PASS },
	{ .name = "an advertisement with an option of no length",
	  .variants = V6,
	  .egress = true,
	  .in = "eth me>gw | ip sh>cl | icmp 136/0 | hex 20010db80005000000000000000002000200020000000001",
	  .verdict = PASS },
	{ .name = "an advertisement of another address",
	  .variants = V6,
	  .egress = true,
	  .in = "eth me>gw | ip sh>cl | icmp 136/0 | hex 20010db80005000000000000000000010201020000000001",
	  .verdict = PASS },
	{ .name = "a solicitation from a shared address",
	  .variants = V6,
	  .egress = true,
	  .in = "eth me>gw | ip sh>cl | icmp 135/0 | hex 20010db8000c000000000000000000100101020000000001",
	  .verdict = PASS,
	  .counted = "nd_rewritten",
	  .out = "eth me>gw | ip sh>cl | icmp 135/0 | hex 20010db8000c000000000000000000100101333300000200" },
	{ .name = "a solicitation from another address",
	  .variants = V6,
	  .egress = true,
	  .in = "eth me>gw | ip s1>cl | icmp 135/0 | hex 20010db8000c000000000000000000100101020000000001",
	  .verdict = PASS },
};

/* --- with a lease --- */

static void write_map(const struct bpf_map *map, uint32_t key, const void *value)
{
	if (bpf_map_update_elem(bpf_map__fd(map), &key, value, BPF_ANY))
		plane_give_up("a map cannot be written");
}

static uint64_t hash_of(const struct flow_key *key)
{
	const uint64_t secret[2] = { 0x0706050403020100, 0x0f0e0d0c0b0a0908 };
	uint64_t client[2], service[2];

	memcpy(client, key->client.bytes, 16);
	memcpy(service, key->service.bytes, 16);
	return bucket_hash(secret, client, service, key->client_port, key->service_port);
}

/* The counter of the programs for each verdict on a SYN. */
static const char *const counted[] = {
	[BUCKET_ACCEPT] = "accept_syn",
	[BUCKET_ACCEPT_COPY] = "accept_copy",
	[BUCKET_REFUSE_FOREIGN] = "refuse_syn",
	[BUCKET_REFUSE_COPY] = "refuse_copy",
	[BUCKET_REFUSE_NO_LEASE] = "refuse_no_lease",
};

static struct bucket_share share_of(unsigned bits)
{
	struct bucket_share share = { .self_id = SELF };
	static const uint32_t ids[] = { SELF, PEER, THIRD };
	unsigned i;

	for (i = 0; i < 3; i++) {
		if (bits >> i & 1)
			share.member[share.count++] = (struct bucket_member) { ids[i], 1 + 3 * i };
	}
	return share;
}

/* The same SYN came before, and was another node's, or waits here. */
struct refusal {
	uint32_t tag;
	unsigned age_ms;
};

/* Sends one SYN with all its conditions, and asks bucket_judge() the same. refused: NULL when it comes first. */
static void check_syn(unsigned variant, unsigned port, unsigned shares, unsigned times, const struct refusal *refused,
		      bool flow)
{
	struct plane *p = site_plane(variant);
	const struct craft_names names = site_names(variant);
	struct bucket_lease_cell cell = { .active = times & 1 };
	struct plane_run run = { .egress = false };
	struct fastpath_counters counters;
	struct frame in, out;
	struct flow_key key = { .client_port = htons((uint16_t)port), .service_port = htons(80) };
	uint64_t now_ns = clock_flow_ns(), copy_hash, word;
	struct bucket_syn syn;
	char line[128], text[256], flow_line[96];
	enum bucket_verdict expected;

	cell.until_ns = times & 2 ? now_ns + 600 * MS : now_ns;
	cell.changed_ns = times & 4 ? now_ns - 100 * MS : now_ns - 2600ull * MS;
	cell.share[cell.active] = share_of(shares & 7);
	cell.share[!cell.active] = share_of(shares >> 3);
	names.address(names.context, "cl", names.v6, &key.client);
	names.address(names.context, "sh", names.v6, &key.service);
	copy_hash = bucket_copy_hash(hash_of(&key), 77000);
	word = refused ? bucket_copy_word(copy_hash, refused->tag, now_ns - refused->age_ms * MS) : 0;
	site_reset(variant);
	write_map(p->fastpath->programs->maps.lease, 0, &cell);
	write_map(p->fastpath->programs->maps.refused, (uint32_t)copy_hash & (SHARED_REFUSED_WORDS - 1), &word);
	snprintf(flow_line, sizeof(flow_line), "half_open n2 isn %u age 3 from %u to sh", 77000u & 0xffffff, port);
	if (flow)
		site_add_flow(variant, flow_line);
	syn = (struct bucket_syn) { .now_ns = now_ns,
				    .until_ns = cell.until_ns,
				    .changed_ns = cell.changed_ns,
				    .bucket = bucket_of(hash_of(&key)),
				    .has_request = flow };
	bucket_copy_recall(word, copy_hash, &syn);
	assert_int_equal(syn.refused_before, refused != NULL);
	expected = bucket_judge(&cell.share[cell.active], &cell.share[!cell.active], &syn);
	snprintf(line, sizeof(line), "eth gw>%s | ip cl>sh | tcp %u>80 S seq 77000", names.v6 ? "all6" : "all", port);
	craft(&names, line, NULL, &in);
	assert_int_equal(plane_run(p, &run, &in, &out), 0);
	site_counted(variant, text, sizeof(text), &counters);
	if (strcmp(text, counted[expected]) != 0)
		fail_msg("port %u, shares %x, times %x, refused %d, flow %d: %s, not %s", port, shares, times,
			 refused ? (int)refused->age_ms : -1, flow, text, counted[expected]);
	assert_int_equal(run.verdict, expected <= BUCKET_ACCEPT_COPY ? PASS : DROP);
	assert_int_equal(run.mark != 0, expected <= BUCKET_ACCEPT_COPY);
	/* Another node's SYN is remembered, so that it is known when the bucket comes; and since when a copy waits here. */
	bpf_map_lookup_elem(bpf_map__fd(p->fastpath->programs->maps.refused),
			    &(uint32_t) { (uint32_t)copy_hash & (SHARED_REFUSED_WORDS - 1) }, &word);
	syn.now_ns = clock_now_us() * 1000;
	bucket_copy_recall(word, copy_hash, &syn);
	assert_int_equal(syn.refused_before, refused || expected == BUCKET_REFUSE_FOREIGN);
	if (expected == BUCKET_REFUSE_FOREIGN) {
		assert_int_equal(syn.refused_tag, bucket_tag(bucket_owner(&cell.share[cell.active], syn.bucket)));
		assert_true(syn.refused_age_ns < 1000 * MS);
	} else if (expected == BUCKET_REFUSE_COPY) {
		bool stayed = bucket_owner(&cell.share[!cell.active], syn.bucket) == SELF;

		assert_int_equal(syn.refused_tag, BUCKET_TAG_HERE);
		if (!refused || refused->tag != BUCKET_TAG_HERE || !stayed)
			assert_true(syn.refused_age_ns < 1000 * MS);
		else
			assert_in_range(syn.refused_age_ns, (refused->age_ms - 20) * MS, (refused->age_ms + 1000) * MS);
	}
}

static void test_syn(void **state)
{
	const struct refusal peers = { bucket_tag(PEER), 50 }, thirds = { bucket_tag(THIRD), 50 },
			     old = { BUCKET_TAG_HERE, 2600 }, waits = { BUCKET_TAG_HERE, 1200 };
	unsigned variant, shares, times, port;

	(void)state;
	for (variant = 0; variant < 2; variant++) {
		for (shares = 0; shares < 64; shares++) {
			for (times = 0; times < 8; times++) {
				port = 1024 + (shares * 8 + times) * 7 % 60000;
				check_syn(variant, port, shares, times, times & 1 ? &peers : NULL, shares & 1);
				check_syn(variant, port + 1, shares, times, times & 1 ? NULL : &peers, shares & 1);
				check_syn(variant, port + 2, shares, times, shares & 2 ? &thirds : NULL, !(shares & 1));
				check_syn(variant, port + 3, shares, times, &old, shares & 1);
				check_syn(variant, port + 4, shares, times, &waits, shares & 1);
			}
		}
	}
}

/* For packets that are neither connection nor error the bucket of the tuple counts, whatever came before. */
static void test_other(void **state)
{
	static const struct {
		const char *line;
		uint16_t ports[2];
	} others[] = {
		{ "ip cl>sh | icmp echo | data 30", { 0, 0 } },
		{ "ip cl>sh | udp 1000>53 | data 30", { 1000, 53 } },
		{ "ip cl>sh | udp 1001>53 | data 30", { 1001, 53 } },
		{ "ip cl>sh | udp 1002>53 | data 30", { 1002, 53 } },
		{ "ip cl>sh | udp 1003>53 | data 30", { 1003, 53 } },
		{ "ip cl>sh proto 47 | data 30", { 0, 0 } },
	};
	struct bucket_lease_cell cell = { .until_ns = clock_flow_ns() + 60000ull * MS, .changed_ns = clock_flow_ns() };
	struct fastpath_counters counters;
	struct frame in, out;
	unsigned variant, i;
	char text[256];

	(void)state;
	cell.share[0] = share_of(7);
	for (variant = 0; variant < 2; variant++) {
		struct plane *p = site_plane(variant);
		const struct craft_names names = site_names(variant);

		for (i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
			struct flow_key key = { .client_port = htons(others[i].ports[0]),
						.service_port = htons(others[i].ports[1]) };
			struct plane_run run = { .egress = false };
			bool mine;

			site_reset(variant);
			write_map(p->fastpath->programs->maps.lease, 0, &cell);
			names.address(names.context, "cl", names.v6, &key.client);
			names.address(names.context, "sh", names.v6, &key.service);
			mine = bucket_owner(&cell.share[0], bucket_of(hash_of(&key))) == SELF;
			snprintf(text, sizeof(text), "eth gw>all%s | %s", names.v6 ? "6" : "", others[i].line);
			craft(&names, text, NULL, &in);
			assert_int_equal(plane_run(p, &run, &in, &out), 0);
			assert_int_equal(run.verdict, mine ? PASS : DROP);
			site_counted(variant, text, sizeof(text), &counters);
			assert_string_equal(text, mine ? "accept_other" : "refuse_other");
		}
	}
}

/* With 64 members every one is considered. */
static void test_many(void **state)
{
	struct bucket_lease_cell cell = { .until_ns = clock_flow_ns() + 60000ull * MS };
	struct plane *p = site_plane(0);
	const struct craft_names names = site_names(0);
	unsigned i, port, accepted = 0;
	char line[128];

	(void)state;
	cell.share[0] = (struct bucket_share) { .self_id = 1063, .count = BUCKET_MEMBERS_MAX };
	for (i = 0; i < BUCKET_MEMBERS_MAX; i++)
		cell.share[0].member[i] = (struct bucket_member) { 1000 + i, i == 63 ? 60 : 1 };
	site_reset(0);
	write_map(p->fastpath->programs->maps.lease, 0, &cell);
	for (port = 2000; port < 2400; port++) {
		struct flow_key key = { .client_port = htons((uint16_t)port), .service_port = htons(80) };
		struct plane_run run = { .egress = false };
		struct frame in, out;

		names.address(names.context, "cl", false, &key.client);
		names.address(names.context, "sh", false, &key.service);
		snprintf(line, sizeof(line), "eth gw>all | ip cl>sh | tcp %u>80 S", port);
		craft(&names, line, NULL, &in);
		assert_int_equal(plane_run(p, &run, &in, &out), 0);
		assert_int_equal(run.verdict,
				 bucket_owner(&cell.share[0], bucket_of(hash_of(&key))) == 1063 ? PASS : DROP);
		accepted += run.verdict == PASS;
	}
	assert_in_range(accepted, 120, 280);
}

/* Two members at the same place in a bucket's order: the lower id. */
static void test_tie(void **state)
{
	enum { IDS = 3000 };
	struct bucket_lease_cell cell = { .until_ns = clock_flow_ns() + 60000ull * MS };
	struct flow_key key = { .client_port = htons(5000), .service_port = htons(80) };
	struct plane *p = site_plane(0);
	const struct craft_names names = site_names(0);
	uint32_t *costs = calloc(IDS, sizeof(*costs)), low, high = 0, bucket, i;
	struct frame in, out;

	(void)state;
	assert_non_null(costs);
	names.address(names.context, "cl", false, &key.client);
	names.address(names.context, "sh", false, &key.service);
	bucket = bucket_of(hash_of(&key));
	for (low = 1; low < IDS; low++)
		costs[low] = bucket_cost((uint32_t)(bucket_mix((uint64_t)low << 16 | bucket) >> 32));
	for (low = 1; low < IDS; low++) {
		for (high = low + 1; high < IDS && costs[high] != costs[low]; high++)
			;
		if (high < IDS)
			break;
	}
	free(costs);
	assert_true(high < IDS);
	craft(&names, "eth gw>all | ip cl>sh | tcp 5000>80 S", NULL, &in);
	for (i = 0; i < 4; i++) {
		struct plane_run run = { .egress = false };
		struct bucket_share *share = &cell.share[0];

		*share = (struct bucket_share) { .self_id = i & 1 ? high : low, .count = 2 };
		share->member[0] = (struct bucket_member) { i & 2 ? high : low, 1 };
		share->member[1] = (struct bucket_member) { i & 2 ? low : high, 1 };
		site_reset(0);
		write_map(p->fastpath->programs->maps.lease, 0, &cell);
		assert_int_equal(plane_run(p, &run, &in, &out), 0);
		assert_int_equal(bucket_owner(share, bucket), low);
		assert_int_equal(run.verdict, i & 1 ? DROP : PASS);
	}
}

/* An upgrade: the former version's map is pinned under its own name, and its words name no node. */
static void test_former_words(void **state)
{
	char directory[] = "/tmp/test_shared.XXXXXX", path[64];
	struct plane *p = site_plane(0);
	struct fastpath f = { .programs = p->fastpath->programs };
	int to = bpf_map__fd(f.programs->maps.refused), from;
	uint64_t word, some = 0x123456789abcdef0;
	uint32_t last = SHARED_REFUSED_WORDS - 1, zero = 0;

	(void)state;
	assert_non_null(mkdtemp(directory));
	assert_int_equal(mount("bpf", directory, "bpf", 0, NULL), 0);
	snprintf(f.pins, sizeof(f.pins), "%s", directory);
	snprintf(path, sizeof(path), "%s/refused", directory);
	site_reset(0);
	fastpath_take_refused(&f);
	from = bpf_map_create(BPF_MAP_TYPE_ARRAY, "refused", 4, 8, SHARED_REFUSED_WORDS, NULL);
	assert_true(from >= 0);
	assert_int_equal(bpf_map_update_elem(from, &last, &some, BPF_ANY), 0);
	assert_int_equal(bpf_obj_pin(from, path), 0);
	fastpath_take_refused(&f);
	assert_int_equal(bpf_map_lookup_elem(to, &last, &word), 0);
	assert_true(word == bucket_copy_former_word(some));
	assert_int_equal(bpf_map_lookup_elem(to, &zero, &word), 0);
	assert_true(word == bucket_copy_former_word(0));
	assert_int_equal(access(path, F_OK), -1);
	close(from);
	assert_int_equal(umount(directory), 0);
	assert_int_equal(rmdir(directory), 0);
}

int main(void)
{
	const struct fixtures tables[] = { FIXTURES(fixtures), FIXTURES(flows), FIXTURES(tunnels), FIXTURES(answers) };
	const struct CMUnitTest others[] = { cmocka_unit_test(test_syn), cmocka_unit_test(test_other),
					     cmocka_unit_test(test_many), cmocka_unit_test(test_tie),
					     cmocka_unit_test(test_former_words) };

	return fixture_main("shared", tables, sizeof(tables) / sizeof(tables[0]), others,
			    sizeof(others) / sizeof(others[0]));
}
