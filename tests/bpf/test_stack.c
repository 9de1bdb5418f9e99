// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_stack.c - limits of the kernel's verifier when the programs are loaded.
 *
 * Their stacks as the oldest kernel that dprd knows counts them (Linux 6.1, check_max_stack_depth()): each function's
 * rounded up to 32 bytes, at most 512 for a chain of calls. The kernel below this test may round to 16, and takes more.
 * "make check-kernel" runs it on Linux 6.1 as well: only that shows whether Linux 6.1 accepts the programs.
 *
 * It also limits the number of instructions that the verifier processes: they take nearly all of dprd's start.
 */
#include <bpf/libbpf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka.h needs these before it. */
#include <cmocka.h>

#include "dprd/bpf/dprd.skel.h"

enum {
	FUNCTIONS_MAX = 64,
	CALLS_MAX = 8, /* of the kernel: MAX_CALL_FRAMES */
	STACK_BYTES = 512,
	VERIFIED_MAX = 200000, /* the kernel itself gives up at a million */
	ROUND_BYTES = 32,
	LOG_BYTES = 1 << 20,
	LOG_STATISTICS = 4,
};

/* The functions of a loaded program, in the kernel's order: by their beginning. */
struct functions {
	const struct bpf_insn *insns;
	size_t insn_count;
	unsigned count;
	size_t start[FUNCTIONS_MAX];
	unsigned stack_bytes[FUNCTIONS_MAX];
};

static int compare(const void *a, const void *b)
{
	size_t x = *(const size_t *)a, y = *(const size_t *)b;

	return x < y ? -1 : x > y;
}

/* True also when it hands a function to a helper, which calls it. */
static bool is_call(const struct bpf_insn *insn)
{
	return (insn->code == (BPF_JMP | BPF_CALL) && insn->src_reg == BPF_PSEUDO_CALL) ||
	       (insn->code == (BPF_LD | BPF_IMM | BPF_DW) && insn->src_reg == BPF_PSEUDO_FUNC);
}

/* Finds a function by its first instruction; returns the count when there is none. */
static unsigned function_at(const struct functions *f, size_t start)
{
	unsigned i = 0;

	while (i < f->count && f->start[i] != start)
		i++;
	return i;
}

static void find_functions(struct functions *f)
{
	size_t i;

	f->count = 1; /* the program itself, at 0 */
	for (i = 0; i < f->insn_count; i++) {
		size_t start = i + 1 + (size_t)f->insns[i].imm;

		if (!is_call(&f->insns[i]) || function_at(f, start) < f->count)
			continue;
		assert_true(f->count < FUNCTIONS_MAX);
		f->start[f->count++] = start;
	}
	qsort(f->start, f->count, sizeof(f->start[0]), compare);
}

/* "stack depth 0+80+344": one number for each. */
static void read_depths(struct functions *f, const char *log)
{
	const char *at = strstr(log, "stack depth ");
	unsigned i;

	assert_non_null(at);
	at += strlen("stack depth ");
	for (i = 0; i < f->count; i++) {
		char *end;
		unsigned long bytes = strtoul(at, &end, 10);

		assert_ptr_not_equal(at, end);
		assert_int_equal(*end, i + 1 < f->count ? '+' : '\n');
		f->stack_bytes[i] = ((unsigned)(bytes ? bytes : 1) + ROUND_BYTES - 1) / ROUND_BYTES * ROUND_BYTES;
		at = end + 1;
	}
}

/* The most that a chain of calls beginning with this function takes. */
static unsigned deepest(const struct functions *f, unsigned function, unsigned calls)
{
	size_t i, end = function + 1 < f->count ? f->start[function + 1] : f->insn_count;
	unsigned most = 0;

	assert_true(calls < CALLS_MAX);
	for (i = f->start[function]; i < end; i++) {
		unsigned bytes;

		if (!is_call(&f->insns[i]))
			continue;
		bytes = deepest(f, function_at(f, i + 1 + (size_t)f->insns[i].imm), calls + 1);
		if (bytes > most)
			most = bytes;
	}
	return f->stack_bytes[function] + most;
}

/* "processed 80000 insns" */
static unsigned long verified_count(const char *log)
{
	const char *at = strstr(log, "processed ");

	assert_non_null(at);
	return strtoul(at + strlen("processed "), NULL, 10);
}

static void check_program(struct bpf_program *program, const char *log)
{
	struct functions f = { .insns = bpf_program__insns(program), .insn_count = bpf_program__insn_cnt(program) };
	unsigned bytes;

	print_message("%s: %lu instructions to verify\n", bpf_program__name(program), verified_count(log));
	assert_in_range(verified_count(log), 1, VERIFIED_MAX);
	find_functions(&f);
	read_depths(&f, log);
	bytes = deepest(&f, 0, 0);
	print_message("%s: %u functions, %u bytes of stack\n", bpf_program__name(program), f.count, bytes);
	assert_true(bytes <= STACK_BYTES);
}

/* Constants set before loading change the paths through a program. */
static void check_programs(bool decide_in_kernel)
{
	static char ingress_log[LOG_BYTES], egress_log[LOG_BYTES];
	struct dprd_bpf *programs = dprd_bpf__open();

	assert_non_null(programs);
	programs->rodata->decide_in_kernel = decide_in_kernel;
	bpf_program__set_log_level(programs->progs.dprd_ingress, LOG_STATISTICS);
	bpf_program__set_log_buf(programs->progs.dprd_ingress, ingress_log, sizeof(ingress_log));
	bpf_program__set_log_level(programs->progs.dprd_egress, LOG_STATISTICS);
	bpf_program__set_log_buf(programs->progs.dprd_egress, egress_log, sizeof(egress_log));
	assert_int_equal(dprd_bpf__load(programs), 0);
	check_program(programs->progs.dprd_ingress, ingress_log);
	check_program(programs->progs.dprd_egress, egress_log);
	dprd_bpf__destroy(programs);
}

static void test_decided_by_dprd(void **state)
{
	(void)state;
	check_programs(false);
}

static void test_decided_in_the_kernel(void **state)
{
	(void)state;
	check_programs(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_decided_by_dprd),
					    cmocka_unit_test(test_decided_in_the_kernel) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
