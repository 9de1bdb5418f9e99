/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fixture.h - one packet through one program: the input, and all expected results. A fixture runs in each of its
 * variants (family, layout of addresses), each as a separate test.
 */
#ifndef TESTS_BPF_FIXTURE_H
#define TESTS_BPF_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/bpf/site.h"

/* Variants; 0 in a fixture: all four of Decide=queue. */
enum {
	V4_OWN = 1,
	V6_OWN = 2,
	V4_ALIAS = 4,
	V6_ALIAS = 8,
	V4_KERNEL = 16,
	V6_KERNEL = 32,
	V4 = V4_OWN | V4_ALIAS,
	V6 = V6_OWN | V6_ALIAS,
	OWN = V4_OWN | V6_OWN,
	ALIAS = V4_ALIAS | V6_ALIAS,
	KERNEL = V4_KERNEL | V6_KERNEL,
};

enum { STOPPED = -1 };

struct fixture {
	const char *name;
	unsigned variants;
	bool egress;
	int beat_ago_ms; /* age of dprd's heartbeat; STOPPED: dprd was stopped */
	int waiting_ms; /* a packet waits in dprd's queue; 0: none */
	const char *flow; /* the flow before (site.h); NULL: none */
	const char *way; /* the special way to n2 (site.h) */
	const char *schedule, *no_room; /* Decide=kernel (site.h) */
	const char *choices; /* with dprd away (site.h); NULL: no real servers */
	bool by_module; /* frames to shared addresses are judged behind the programs */
	bool elsewhere; /* these frames come in by another interface */
	uint32_t second_look, look_room; /* dprd's setting: LOOK_... */
	uint32_t mark_before;
	uint32_t gso_bytes;
	const char *in; /* the frame (craft.h) */
	int verdict;
	uint32_t mark; /* the mark after the run */
	const char *counted; /* all counters that moved; NULL: none */
	const char *after; /* the flow; NULL: unchanged, or still none */
	const char *made; /* the tuple of a new flow, in words of site.h; NULL: the usual one */
	const char *out; /* the frame after ("*": the datagram that came in); NULL: unchanged */
	bool no_wait; /* the mark does not count as a packet that waits */
	bool gso_gone; /* it is not a GSO packet any more */
	bool sum_kept; /* a device's sum over the packet stays right, though another host gets it */
	bool sums_bad; /* checksums of the frame after are not all good, and need not be */
};

/* A table of them. */
struct fixtures {
	const struct fixture *fixtures;
	size_t count;
};

#define FIXTURES(table)                                                          \
	{                                                                        \
		.fixtures = (table), .count = sizeof(table) / sizeof((table)[0]) \
	}

/* Runs all fixtures, and the other tests, as one cmocka group in namespaces of their own. For main(). */
int fixture_main(const char *name, const struct fixtures *tables, size_t table_count, const struct CMUnitTest *others,
		 size_t other_count);

/* For separate tests: prepares the fixture in one variant, without site_reset(). */
void fixture_prepare(const struct fixture *fixture, unsigned variant);
void fixture_check(const struct fixture *fixture, unsigned variant);

#endif
