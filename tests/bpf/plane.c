// SPDX-License-Identifier: GPL-2.0-or-later
/* plane.c - the BPF programs under test. */
#define _GNU_SOURCE
#include "tests/bpf/plane.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

#include "dprd/base/clock.h"
#include "dprd/base/log.h"
#include "dprd/bpf/dprd.skel.h"
#include "dprd/core/flow/answered.h"
#include "dprd/core/flow/memory.h"

/* BPF_F_TEST_SKB_CHECKSUM_COMPLETE, which is not in the headers of all systems that this is built on. */
enum { TEST_SUM_COMPLETE = 1 << 2 };

void plane_give_up(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fprintf(stderr, "cannot test: ");
	vfprintf(stderr, format, arguments);
	fprintf(stderr, "\n");
	va_end(arguments);
	exit(2);
}

uint32_t plane_next_number(char **words)
{
	const char *word = strtok_r(NULL, " ", words);

	if (!word)
		plane_give_up("a number is missing");
	return (uint32_t)strtoul(word, NULL, 10);
}

void plane_command(const char *format, ...)
{
	char line[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	if (system(line) != 0)
		plane_give_up("%s failed", line);
}

void plane_enter(void)
{
	if (unshare(CLONE_NEWNET | CLONE_NEWNS))
		plane_give_up("no namespaces (root can): %s", strerror(errno));
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount("bpf", "/sys/fs/bpf", "bpf", 0, "mode=0700"))
		plane_give_up("no bpf file system on /sys/fs/bpf: %s", strerror(errno));
	plane_command("ip link set lo up");
}

static void read_config(struct plane *p, const char *text)
{
	struct config_errors errors;

	if (config_parse("test", text, strlen(text), NULL, &p->config, &errors))
		plane_give_up("%s", errors.text[0]);
}

void plane_open(struct plane *p, const char *config, unsigned max_flows)
{
	char why[FASTPATH_WHY_BYTES] = "";
	int error;

	memset(p, 0, sizeof(*p));
	read_config(p, config);
	p->limits = (struct flow_limits) { .max_confirmed = max_flows,
					   .hash_key = { 0x0123456789abcdef, 0xfedcba9876543210 } };
	error = fastpath_open(&p->config, &p->limits, &p->fastpath, &p->flows, why);
	if (error)
		plane_give_up("%s (%s)", why, strerror(-error));
	p->program[0] = bpf_program__fd(p->fastpath->programs->progs.dprd_ingress);
	p->program[1] = bpf_program__fd(p->fastpath->programs->progs.dprd_egress);
	p->living = UINT64_MAX;
	p->mss[0] = 1440;
	p->mss[1] = 1400;
	plane_fill(p);
	plane_forget_counters(p);
}

void plane_close(struct plane *p)
{
	fastpath_close(p->fastpath, false);
}

void plane_fill(struct plane *p)
{
	if (!fastpath_tables_fill(fastpath_tables_inactive(p->fastpath), &p->config, p->flows, p->shared, p->living,
				  p->mss))
		plane_give_up("the addresses do not fit the tables");
	fastpath_tables_switch(p->fastpath);
}

struct fastpath_way *plane_way(struct plane *p, unsigned member, bool v6)
{
	int node = flow_table_node(p->flows, p->config.member[member].id, true);

	if (node < 0)
		plane_give_up("no node index for member %u", member);
	return &p->fastpath->ways[2 * node + v6];
}

uint64_t plane_monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

uint32_t plane_tick(const struct plane *p)
{
	uint32_t tick;

	if (fastpath_clock_set(p->fastpath, &tick))
		plane_give_up("the programs' clock cannot be read: %s", strerror(errno));
	return tick;
}

void plane_beat(struct plane *p, int ago_ms, int waiting_ms)
{
	struct fastpath_control *control = p->fastpath->control;
	uint64_t now_ns = clock_flow_ns();

	control->heartbeat_ns = ago_ms < 0 ? 0 : now_ns - (uint64_t)ago_ms * 1000000;
	control->waiting_ns = waiting_ms ? now_ns - (uint64_t)waiting_ms * 1000000 : 0;
}

void plane_forget_counters(struct plane *p)
{
	struct fastpath_counters *none = calloc(p->fastpath->processors, sizeof(*none));
	uint32_t zero = 0;

	if (!none || bpf_map_update_elem(bpf_map__fd(p->fastpath->programs->maps.counters), &zero, none, BPF_ANY))
		plane_give_up("the counters cannot be written");
	free(none);
	memset(&p->fastpath->counted, 0, sizeof(p->fastpath->counted));
}

static void forget_map(const struct bpf_map *map)
{
	const size_t bytes = ANSWERED_PLACES * sizeof(uint64_t);
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);

	if (memory == MAP_FAILED)
		plane_give_up("the SYNs that were answered cannot be written: %s", strerror(errno));
	memset(memory, 0, bytes);
	munmap(memory, bytes);
}

void plane_forget_answers(struct plane *p)
{
	forget_map(p->fastpath->programs->maps.answered);
	forget_map(p->fastpath->programs->maps.served);
}

int plane_run(struct plane *p, struct plane_run *run, const struct frame *in, struct frame *out)
{
	struct __sk_buff before = { .mark = run->mark, .gso_size = run->gso_bytes, .gso_segs = run->gso_bytes ? 2 : 0 };
	struct __sk_buff after = { 0 };
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = in->bytes, .data_size_in = in->length,
		    .data_out = out->bytes, .data_size_out = sizeof(out->bytes), .ctx_in = &before,
		    .ctx_size_in = sizeof(before), .ctx_out = &after, .ctx_size_out = sizeof(after),
		    .flags = run->sum_complete ? TEST_SUM_COMPLETE : 0);
	int error = bpf_prog_test_run_opts(p->program[run->egress], &options);

	out->length = options.data_size_out;
	run->verdict = (int)options.retval;
	run->mark = after.mark;
	/* The run returns only the number of segments, no other fact of them. */
	run->gso_gone = run->gso_bytes && !after.gso_segs;
	return error;
}

bool plane_checks_sums(const struct plane *p)
{
	uint8_t frame[64] = { 0 };
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame, .data_size_in = sizeof(frame),
		    .flags = TEST_SUM_COMPLETE);

	return !bpf_prog_test_run_opts(p->program[1], &options);
}

void *plane_buckets(const struct plane *p)
{
	return flow_bucket_at(p->flows, 0);
}

size_t plane_bucket_bytes(const struct plane *p)
{
	return ((size_t)flow_table_buckets(p->flows) + 1) * sizeof(struct flow_bucket);
}

void *plane_occupied(const struct plane *p)
{
	return (uint8_t *)plane_buckets(p) + plane_bucket_bytes(p);
}

size_t plane_occupied_bytes(const struct plane *p)
{
	return ((size_t)flow_occupied_room(flow_table_buckets(p->flows)) + 1) * sizeof(struct flow_occupied);
}

void plane_set_flows(struct plane *p, uint8_t byte)
{
	memset(plane_buckets(p), byte, plane_bucket_bytes(p));
	memset(plane_occupied(p), byte, plane_occupied_bytes(p));
}
