// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * progbench - the time of one run of dprd's BPF programs, in ns, by BPF_PROG_TEST_RUN.
 *
 *   progbench PASSES ROUNDS RUNS FLOWS...
 *
 * For each number of FLOWS there is a separate table with this many flows; packets belong to random ones. Prints one
 * line per case: {"name":"encapsulate","flows":1000,"ns":[..]}, one value per pass: the least of its ROUNDS, of RUNS
 * each. The kernel counts wall time, so that whatever disturbs makes it more, never less. All cases take turns. For
 * each pass the programs are loaded anew: their place in memory costs up to half of an empty program's time on some
 * processors, and no two loads get the same place.
 *
 * And one line per table: {"flows":N,"bytes":B,"lost":N}: memory of the map by the kernel's account, and flows that
 * found no room.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/pkt_cls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "dprd/base/clock.h"
#include "dprd/core/packet/encap.h"
#include "dprd/fastpath/fastpath.h"
#include "tests/bench/progbench.skel.h"

enum {
	PASSES_MAX = 100,
	ROUNDS_MAX = 1000,
	RUNS_MAX = 10 * 1000 * 1000,
	FLOWS_MAX = 16 * 1000 * 1000,
	SIZES_MAX = 8,
	CASES_MAX = 64,
	LOOPBACK = 1,
	ETHERNET_BYTES = 14,
	PACKET_BYTES = ETHERNET_BYTES + IPV4_HEADER_BYTES + TCP_HEADER_BYTES + 12,
};

static const char config_text[] = "[Cluster]\nName=bench\n[Node]\nName=self\n"
				  "[Member \"self\"]\nService=192.0.2.11\nCluster=10.80.0.11\n"
				  "[Member \"peer\"]\nService=192.0.2.12\nCluster=10.80.0.12\n";

/* dprd's programs with a table of some size, and the programs around them. */
struct site {
	unsigned flow_count, lost;
	int flows_fd;
	struct flow_table *flows;
	struct progbench_bpf *programs;
	struct fastpath_control *control;
	struct fastpath_way *ways;
};

struct bench_case {
	const char *name, *program;
	struct site *site;
	const uint8_t *packet;
	unsigned packet_bytes;
	uint32_t wanted; /* return value expected of the last run */
	double ns[PASSES_MAX];
};

static struct config config;
static struct site sites[SIZES_MAX];
static struct bench_case cases[CASES_MAX];
static unsigned site_count, case_count;
static uint8_t client_packet[PACKET_BYTES], peer_packet[PACKET_BYTES], no_flow_packet[PACKET_BYTES],
	foreign_packet[PACKET_BYTES], answer_packet[PACKET_BYTES];

static void die(const char *what)
{
	fprintf(stderr, "progbench: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* --- packets --- */

static struct addr address(const char *text)
{
	return addr_from_v4(inet_addr(text));
}

/* A data packet of an established connection. */
static void make_packet(uint8_t *packet, const struct addr *from, const struct addr *to)
{
	struct packet like = { .total_bytes = PACKET_BYTES - ETHERNET_BYTES, .dont_fragment = true };
	uint8_t *ip = packet + ETHERNET_BYTES, *tcp = ip + IPV4_HEADER_BYTES;

	packet[12] = 0x08;
	encap_write(ip, &like, from, to, 0);
	write_be16(ip + 2, PACKET_BYTES - ETHERNET_BYTES);
	ip[9] = IPPROTO_TCP;
	write_be16(tcp, 1024);
	write_be16(tcp + 2, 80);
	tcp[12] = (TCP_HEADER_BYTES / 4) << 4;
	tcp[13] = TCP_ACK;
}

static void make_packets(struct progbench_bpf *programs)
{
	const struct member *self = &config.member[0], *peer = &config.member[1];
	struct packet inner = { .total_bytes = PACKET_BYTES - ETHERNET_BYTES, .dont_fragment = true };
	struct addr client = address("198.18.0.1"), other = address("203.0.113.10");

	make_packet(client_packet, &client, &self->service[0]);
	make_packet(no_flow_packet, &other, &self->service[0]);
	make_packet(foreign_packet, &client, &other);
	make_packet(answer_packet, &self->service[0], &client);
	make_packet(peer_packet, &client, &peer->service[0]);
	encap_write(programs->bss->outer_header, &inner, &peer->cluster_v4, &self->cluster_v4, 0);
}

/* --- tables --- */

/* As the wrapping programs number them (become_flow() of progbench.bpf.c). */
static struct flow_key key_of(unsigned flow)
{
	return (struct flow_key) { .client = addr_from_v4(htonl(0xc6120000 | (flow & 0x1ffff))),
				   .service = config.member[0].service[0],
				   .client_port = htons((uint16_t)(1024 + (flow >> 17))),
				   .service_port = htons(80) };
}

static void fill_flows(struct site *s)
{
	uint64_t now_ms = clock_flow_ms();
	struct flow evicted, flow;
	unsigned i;

	for (i = 0; i < s->flow_count; i++) {
		struct flow_key key = key_of(i);

		if (!flow_add(s->flows, &key, config.member[1].id, 1, now_ms, &evicted) ||
		    !flow_find(s->flows, &key, &flow)) {
			s->lost++;
			continue;
		}
		flow_touch(s->flows, &flow, TCP_ACK, now_ms);
	}
}

static void make_flows(struct site *s)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE);
	/* The share of half-open ones that dprd.conf has by default. */
	struct flow_limits limits = { .max_confirmed = s->flow_count,
				      .max_half_open = s->flow_count / 16 + 1,
				      .syn_timeout_ms = 3600000,
				      .idle_timeout_ms = 3600000,
				      .fin_timeout_ms = 3600000,
				      .rst_timeout_ms = 3600000,
				      .hash_key = { 0x0123456789abcdef, 0xfedcba9876543210 } };
	size_t bytes = flow_table_bytes(&limits);
	void *memory;

	s->flows_fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "bench_flows", sizeof(uint32_t), sizeof(struct flow_bucket),
				     (uint32_t)(bytes / sizeof(struct flow_bucket)), &options);
	memory = s->flows_fd < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->flows_fd, 0);
	if (memory == MAP_FAILED)
		die("map of flows");
	s->flows = flow_table_init(memory, &limits);
	fill_flows(s);
}

static void make_tables(struct site *s)
{
	struct fastpath_tables *tables = s->programs->bss->tables;
	const uint16_t mss[2] = { 1440, 1400 };
	int node = flow_table_node(s->flows, config.member[1].id, true);

	s->control = &s->programs->bss->control;
	s->ways = s->programs->bss->ways;
	if (node < 0 || !fastpath_tables_fill(&tables[0], &config, s->flows, NULL, 3, mss))
		die("tables");
	s->ways += 2 * node;
	*s->ways = (struct fastpath_way) { .source = config.member[0].cluster_v4,
					   .destination = config.member[1].cluster_v4,
					   .mtu = 1480,
					   .flags = WAY_USABLE | WAY_ETHERNET,
					   .interface = LOOPBACK };
}

static void load_programs(struct site *s)
{
	struct progbench_bpf *p = progbench_bpf__open();

	if (!p)
		die("programs");
	p->rodata->flow_buckets = flow_table_buckets(s->flows);
	memcpy((void *)p->rodata->flow_secret, flow_table_hash_key(s->flows), sizeof(p->rodata->flow_secret));
	if (bpf_map__reuse_fd(p->maps.flows, s->flows_fd))
		die("map of flows");
	if (progbench_bpf__load(p))
		die("the kernel does not take the programs");
	p->bss->flow_count = s->flow_count;
	p->bss->random_state = s->flow_count;
	make_packets(p);
	s->programs = p;
}

/* The former programs stay loaded, or these would get their place. */
static void open_site(struct site *s)
{
	load_programs(s);
	make_tables(s);
	s->programs->bss->service =
		(uint32_t)flow_table_service(s->flows, &config.member[0].service[0], htons(80), false);
}

/* --- cases --- */

static void add_case(struct site *s, const char *name, const char *program, const uint8_t *packet, uint32_t wanted)
{
	if (case_count == CASES_MAX)
		die("too many cases");
	cases[case_count++] = (struct bench_case) { .name = name,
						    .program = program,
						    .site = s,
						    .packet = packet,
						    .packet_bytes = PACKET_BYTES,
						    .wanted = wanted };
}

/* Programs that look nothing up are the same for every table. */
static void add_cases(struct site *s, bool first)
{
	const uint32_t pass = (uint32_t)TC_ACT_UNSPEC;

	if (first) {
		add_case(s, "empty", "bench_empty", client_packet, pass);
		add_case(s, "rewrite", "bench_rewrite", client_packet, pass);
		add_case(s, "undo", "bench_undo", client_packet, pass);
		add_case(s, "mutate", "bench_mutate", client_packet, TC_ACT_REDIRECT);
		add_case(s, "decapsulate", "bench_decapsulate", peer_packet, pass);
		add_case(s, "key", "bench_key", client_packet, pass);
		add_case(s, "foreign", "dprd_ingress", foreign_packet, pass);
		add_case(s, "answer", "dprd_egress", answer_packet, pass);
	}
	add_case(s, "encapsulate", "bench_encapsulate", client_packet, TC_ACT_REDIRECT);
	add_case(s, "miss", "dprd_ingress", no_flow_packet, pass);
	add_case(s, "lookup", "bench_lookup", client_packet, pass);
	add_case(s, "line", "bench_line", client_packet, pass);
}

static double run_once(const struct bench_case *c, unsigned runs)
{
	const struct bpf_program *program = bpf_object__find_program_by_name(c->site->programs->obj, c->program);
	uint8_t out[256];
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = c->packet, .data_size_in = c->packet_bytes, .data_out = out,
		    .data_size_out = sizeof(out), .repeat = (int)runs);

	/* As dprd does every second. */
	c->site->ways->hardware_tick = (uint32_t)(clock_flow_ns() >> FLOW_TICK_SHIFT);
	c->site->control->heartbeat_ns = clock_flow_ns();
	if (!program || bpf_prog_test_run_opts(bpf_program__fd(program), &options))
		die(c->name);
	if (options.retval != c->wanted) {
		fprintf(stderr, "progbench: %s with %u flows returned %d\n", c->name, c->site->flow_count,
			(int)options.retval);
		exit(1);
	}
	return options.duration;
}

static void run_pass(unsigned pass, unsigned rounds, unsigned runs)
{
	unsigned round, i;

	for (i = 0; i < site_count; i++)
		open_site(&sites[i]);
	for (round = 0; round < rounds; round++) {
		for (i = 0; i < case_count; i++) {
			double ns = run_once(&cases[i], runs);

			if (!round || ns < cases[i].ns[pass])
				cases[i].ns[pass] = ns;
		}
	}
}

/* "memlock" of the map, as the kernel accounts for it. */
static unsigned long long memory_of(int fd)
{
	unsigned long long bytes = 0;
	char path[64], line[128];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "memlock: %llu", &bytes) == 1)
			break;
	}
	if (file)
		fclose(file);
	return bytes;
}

static void print_all(unsigned passes)
{
	unsigned i, pass;

	for (i = 0; i < case_count; i++) {
		printf("{\"name\":\"%s\",\"flows\":%u,\"ns\":[", cases[i].name, cases[i].site->flow_count);
		for (pass = 0; pass < passes; pass++)
			printf("%s%.0f", pass ? "," : "", cases[i].ns[pass]);
		puts("]}");
	}
	for (i = 0; i < site_count; i++)
		printf("{\"name\":\"table\",\"flows\":%u,\"bytes\":%llu,\"lost\":%u}\n", sites[i].flow_count,
		       memory_of(sites[i].flows_fd), sites[i].lost);
}

static unsigned number(const char *text, unsigned most)
{
	long value = atol(text);

	if (value < 1 || value > (long)most) {
		fputs("usage: progbench PASSES ROUNDS RUNS FLOWS...\n", stderr);
		exit(2);
	}
	return (unsigned)value;
}

int main(int argc, char **argv)
{
	struct config_errors errors = { 0 };
	unsigned passes, rounds, runs, pass;

	if (argc < 5 || argc > 4 + SIZES_MAX)
		number("", 0);
	passes = number(argv[1], PASSES_MAX);
	rounds = number(argv[2], ROUNDS_MAX);
	runs = number(argv[3], RUNS_MAX);
	libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
	if (config_parse("bench", config_text, strlen(config_text), NULL, &config, &errors)) {
		fprintf(stderr, "progbench: %s\n", errors.text[0]);
		return 1;
	}
	for (site_count = 0; site_count < (unsigned)argc - 4; site_count++) {
		struct site *s = &sites[site_count];

		s->flow_count = number(argv[4 + site_count], FLOWS_MAX);
		make_flows(s);
		add_cases(s, !site_count);
	}
	for (pass = 0; pass < passes; pass++)
		run_pass(pass, rounds, runs);
	print_all(passes);
	return 0;
}
