// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * micro - the cost of the pure parts of a decision and of an announcement, in ns per call.
 *
 *   micro ROUNDS MILLISECONDS
 *
 * Prints one line per case: {"name":"decide_li_3","ns":[..]}, one value per round. All cases of one
 * round are measured before the next round begins, so that a busy moment of the host spoils one
 * round of each and not all rounds of one.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dprd/core/decide/decide.h"
#include "dprd/core/decide/why.h"
#include "loadcast/core/announce.h"

enum {
	ROUNDS_MAX = 50,
	CASES_MAX = 64,
	KEYS = 1 << 17,
	SMALL_FLOWS = 1000,
	LARGE_FLOWS = 100000,
};

struct bench {
	char name[48];
	void (*run)(unsigned calls, void *context);
	void *context;
	unsigned calls; /* as many as take the wanted time */
	double ns[ROUNDS_MAX];
};

static struct bench benches[CASES_MAX];
static unsigned bench_count;
/* Results of the calls end here, so that the compiler cannot leave one out. */
static volatile uint64_t sink;
static struct flow_key keys[KEYS];
static const uint64_t hash_key[2] = { 0x0123456789abcdef, 0xfedcba9876543210 };

static void die(const char *what)
{
	fprintf(stderr, "micro: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void *allocate(size_t bytes)
{
	void *memory = aligned_alloc(64, (bytes + 63) & ~(size_t)63);

	if (!memory)
		die("memory");
	return memset(memory, 0, bytes);
}

static double elapsed_ns(const struct timespec *start)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - start->tv_sec) * 1e9 + (double)(now.tv_nsec - start->tv_nsec);
}

static void add_bench(const char *name, void (*run)(unsigned, void *), void *context)
{
	struct bench *b = &benches[bench_count++];

	if (bench_count > CASES_MAX)
		die("too many cases");
	snprintf(b->name, sizeof(b->name), "%s", name);
	b->run = run;
	b->context = context;
}

static void make_keys(void)
{
	uint64_t random = 1;
	unsigned i;

	for (i = 0; i < KEYS; i++) {
		random = policy_mix(random);
		/* Index and address together make every key different. */
		keys[i] =
			(struct flow_key) { .client = addr_from_v4(htonl(0xc6120000 | (i & 0xffff))),
					    .service = addr_from_v4(htonl(0xc000020b)),
					    .client_port = htons((uint16_t)(1024 + (i >> 16) * 20000 + random % 20000)),
					    .service_port = htons(80) };
	}
}

/* --- decide() --- */

struct decision {
	struct decide_env env;
	struct load_view view;
	struct policy_state state;
	uint64_t random;
};

static bool always(void *context, uint32_t node_id)
{
	(void)context;
	(void)node_id;
	return true;
}

static struct flow_table *new_table(unsigned flows)
{
	struct flow_limits limits = { .max_confirmed = 2 * flows,
				      .max_half_open = flows,
				      .syn_timeout_ms = 60000,
				      .idle_timeout_ms = 60000,
				      .fin_timeout_ms = 60000,
				      .rst_timeout_ms = 60000,
				      .hash_key = { hash_key[0], hash_key[1] } };

	return flow_table_init(allocate(flow_table_bytes(&limits)), &limits);
}

/* Self has the highest load, so that the policy is always asked; all peers may be chosen. */
static struct decision *new_decision(const char *policy, unsigned nodes, struct flow_table *flows)
{
	struct decision *d = allocate(sizeof(*d));
	unsigned i;

	d->random = nodes;
	d->view = (struct load_view) { .count = nodes, .nodes = allocate(nodes * sizeof(struct view_node)) };
	for (i = 0; i < nodes; i++) {
		d->random = policy_mix(d->random);
		d->view.nodes[i] = (struct view_node) { .member = (uint16_t)i,
							.node_id = i + 1,
							.eligible = true,
							.age_ms = (uint32_t)(d->random % 200),
							.sent = (uint32_t)(d->random >> 32) % 8,
							.load = i ? 20.0 + (double)(d->random % 100) : 1000.0,
							.weight = 1.0 + i % 3,
							.arrivals_per_s = 100 };
	}
	d->env = (struct decide_env) { .flows = flows,
				       .view = &d->view,
				       .policy = policy_find(policy),
				       .policy_state = &d->state,
				       .hash_key = hash_key,
				       .max_load_auto = true,
				       .node_alive = always,
				       .node_eligible = always };
	if (!d->env.policy)
		die(policy);
	return d;
}

static void run_decide(unsigned calls, void *context)
{
	struct decision *d = context;
	struct packet packet = { .kind = PACKET_TCP, .tcp_flags = TCP_SYN };
	uint64_t sum = 0;
	unsigned i;

	for (i = 0; i < calls; i++) {
		packet.key = keys[i % KEYS];
		packet.tcp_sequence = i;
		d->random = d->env.random = policy_mix(d->random);
		sum += decide(&d->env, &packet).node_id;
	}
	sink += sum;
}

static void run_why(unsigned calls, void *context)
{
	static struct why_ring ring;
	struct decision *d = context;
	struct packet packet = { .kind = PACKET_TCP, .tcp_flags = TCP_SYN };
	struct verdict verdict = { .kind = VERDICT_FORWARD, .reason = REASON_CHOSEN, .node_id = 2 };
	unsigned i;

	for (i = 0; i < calls; i++) {
		packet.key = keys[i % KEYS];
		why_remember(&ring, i, &packet, &verdict, &d->env, 2);
	}
	sink += ring.next;
}

static void add_decisions(struct flow_table *flows)
{
	static const char *const policy_names[] = { "li", "least", "p2c" };
	static const unsigned sizes[] = { 3, 16, 64, 200, 1000 };
	char name[48];
	unsigned p, s;

	for (s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		for (p = 0; p < sizeof(policy_names) / sizeof(policy_names[0]); p++) {
			snprintf(name, sizeof(name), "decide_%s_%u_nodes", policy_names[p], sizes[s]);
			add_bench(name, run_decide, new_decision(policy_names[p], sizes[s], flows));
		}
	}
	add_bench("why_remember_3_nodes", run_why, new_decision("li", 3, flows));
	add_bench("why_remember_64_nodes", run_why, new_decision("li", 64, flows));
}

/* --- the flow table --- */

struct flow_case {
	struct flow_table *table;
	unsigned entries; /* as many as fit: one more pushes out an old one */
	uint64_t now_ms;
};

static struct flow_case *new_flow_case(unsigned entries)
{
	struct flow_case *c = allocate(sizeof(*c));
	struct flow evicted;
	unsigned i;

	c->entries = entries;
	c->table = new_table(entries);
	c->now_ms = 1000;
	for (i = 0; i < entries; i++)
		flow_add(c->table, &keys[i], 2, i, c->now_ms, &evicted);
	return c;
}

/* Finds flows in another order than that of their making. */
static void run_find(unsigned calls, void *context)
{
	struct flow_case *c = context;
	uint64_t sum = 0;
	struct flow flow;
	unsigned i;

	for (i = 0; i < calls; i++) {
		sum += flow_find(c->table, &keys[i * 40503U % c->entries], &flow) ? flow.node_id : 0;
	}
	sink += sum;
}

static void run_find_nothing(unsigned calls, void *context)
{
	struct flow_case *c = context;
	uint64_t sum = 0;
	unsigned i;

	for (i = 0; i < calls; i++)
		sum += flow_find(c->table, &keys[KEYS - 1 - i * 40503U % 16384], NULL);
	sink += sum;
}

static void run_add(unsigned calls, void *context)
{
	struct flow_case *c = context;
	struct flow evicted;
	unsigned i;

	for (i = 0; i < calls; i++) {
		c->now_ms += 16;
		sink += flow_add(c->table, &keys[i % KEYS], 2, i, c->now_ms, &evicted);
	}
}

/* --- announcements --- */

struct wire {
	struct announce_keys keys;
	struct announcement from;
	struct announce_header header;
	uint8_t datagram[ANNOUNCE_BYTES_MAX];
};

static struct wire *new_wire(unsigned echoes)
{
	struct wire *w = allocate(sizeof(*w));
	uint8_t key[32] = { 7 };
	unsigned i;

	announce_add_key(&w->keys, "lab", key);
	snprintf(w->from.name, sizeof(w->from.name), "web1");
	w->header = (struct announce_header) { .sender = member_id("web1"), .epoch = 1, .sequence = 1 };
	w->from.weight = 1;
	w->from.period_ms = 200;
	w->from.dprd_up = true;
	w->from.sample = (struct load_sample) { .open_connections = 120, .cpu_permille = 300, .active_sockets = 200 };
	w->from.cluster_count = w->from.service_count = w->from.port_count = 1;
	w->from.cluster[0] = addr_from_v4(htonl(0x0a50000b));
	w->from.service[0] = addr_from_v4(htonl(0xc000020b));
	w->from.port[0] = 80;
	w->from.echo_count = echoes;
	for (i = 0; i < echoes; i++)
		w->from.echo[i] = (struct announce_echo) { .node = i + 2, .epoch_low = i * 77777, .sequence = 100000 };
	if (!announce_encode(&w->from, &w->header, &w->keys, w->datagram))
		die("announcement does not fit");
	return w;
}

static void run_encode(unsigned calls, void *context)
{
	struct wire *w = context;
	unsigned i;

	for (i = 0; i < calls; i++) {
		w->header.sequence++;
		sink += announce_encode(&w->from, &w->header, &w->keys, w->datagram);
	}
}

/* Does everything that reception does with the bytes: header, MAC, payload. */
static void run_receive(unsigned calls, void *context)
{
	static struct announcement got;
	struct wire *w = context;
	size_t bytes = announce_encode(&w->from, &w->header, &w->keys, w->datagram);
	struct announce_header header;
	unsigned i;

	for (i = 0; i < calls; i++) {
		if (announce_read_header(w->datagram, bytes, &header) != REJECT_NONE ||
		    announce_verify(w->datagram, &header, &w->keys) != REJECT_NONE ||
		    announce_decode(w->datagram, &header, &got) != REJECT_NONE)
			die("own announcement was rejected");
		sink += got.echo_count;
	}
}

/* --- running --- */

static double measure(const struct bench *b, unsigned calls)
{
	struct timespec start;

	clock_gettime(CLOCK_MONOTONIC, &start);
	b->run(calls, b->context);
	return elapsed_ns(&start);
}

static void calibrate(struct bench *b, double wanted_ns)
{
	double took = 0;

	for (b->calls = 64; (took = measure(b, b->calls)) < wanted_ns / 4 && b->calls < 1U << 28;)
		b->calls *= 2;
	b->calls = (unsigned)(b->calls * wanted_ns / took) + 1;
}

static void print_all(unsigned rounds)
{
	unsigned i, round;

	for (i = 0; i < bench_count; i++) {
		printf("{\"name\":\"%s\",\"ns\":[", benches[i].name);
		for (round = 0; round < rounds; round++)
			printf("%s%.2f", round ? "," : "", benches[i].ns[round]);
		puts("]}");
	}
}

int main(int argc, char **argv)
{
	int rounds = argc == 3 ? atoi(argv[1]) : 0, milliseconds = argc == 3 ? atoi(argv[2]) : 0, round;
	struct flow_case *small, *large;
	unsigned i;

	if (rounds < 1 || rounds > ROUNDS_MAX || milliseconds < 1 || milliseconds > 1000) {
		fputs("usage: micro ROUNDS MILLISECONDS\n", stderr);
		return 2;
	}
	if (sodium_init() < 0)
		die("libsodium");
	make_keys();
	small = new_flow_case(SMALL_FLOWS);
	large = new_flow_case(LARGE_FLOWS);
	add_decisions(new_table(SMALL_FLOWS));
	add_bench("flow_find_1k", run_find, small);
	add_bench("flow_find_100k", run_find, large);
	add_bench("flow_find_nothing_100k", run_find_nothing, large);
	add_bench("flow_add_1k", run_add, new_flow_case(SMALL_FLOWS));
	add_bench("flow_add_100k", run_add, new_flow_case(LARGE_FLOWS));
	add_bench("announce_encode_3_nodes", run_encode, new_wire(2));
	add_bench("announce_receive_3_nodes", run_receive, new_wire(2));
	add_bench("announce_encode_64_nodes", run_encode, new_wire(63));
	add_bench("announce_receive_64_nodes", run_receive, new_wire(63));
	for (i = 0; i < bench_count; i++)
		calibrate(&benches[i], milliseconds * 1e6);
	for (round = 0; round < rounds; round++) {
		for (i = 0; i < bench_count; i++)
			benches[i].ns[round] = measure(&benches[i], benches[i].calls) / benches[i].calls;
	}
	print_all((unsigned)rounds);
	return 0;
}
