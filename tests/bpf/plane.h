/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plane.h - the BPF programs, loaded as dprd loads them, and run one packet at a time (BPF_PROG_TEST_RUN) in a separate
 * network namespace. They are not attached.
 */
#ifndef TESTS_BPF_PLANE_H
#define TESTS_BPF_PLANE_H

#include <linux/pkt_cls.h>

#include "dprd/fastpath/fastpath.h"
#include "tests/bpf/craft.h"

enum { SECOND_NS = 1000000000 };
enum plane_verdict { PASS = TC_ACT_UNSPEC, DROP = TC_ACT_SHOT, REDIRECT = TC_ACT_REDIRECT };

struct plane {
	struct config config;
	struct flow_limits limits;
	struct fastpath *fastpath;
	struct flow_table *flows;
	int program[2]; /* ingress, egress */
	const struct fastpath_shared *shared; /* NULL: none is judged */
	uint64_t living; /* bit n: tunnel packets of member n are taken */
	uint16_t mss[2];
};

/* One run of a program. */
struct plane_run {
	bool egress;
	bool sum_complete; /* the device has summed the packet, and the kernel checks that the sum is kept right */
	uint32_t mark; /* before and after */
	uint32_t gso_bytes; /* 0: not a GSO packet */
	bool gso_gone; /* it is not one any more */
	int verdict;
};

/*
 * Enters new network and mount namespaces with the loopback up and a bpf file system, for the rest of the process. Ends
 * the process when that is not allowed.
 */
void plane_enter(void);

/* True when the kernel can check the device's sum in a test run (Linux 6.15). */
bool plane_checks_sums(const struct plane *p);

/*
 * Loads the programs for a configuration (text of dprd.conf) as its first member. max_flows: for the size
 * of the flow table. All members live, none can be reached: plane_way(). Ends the process when it cannot.
 */
void plane_open(struct plane *p, const char *config, unsigned max_flows);
void plane_close(struct plane *p);

/* Makes the tables from p->config, p->living and p->mss in the place that is not in use, and then uses it. */
void plane_fill(struct plane *p);

/* The way to a member as the programs see it. */
struct fastpath_way *plane_way(struct plane *p, unsigned member, bool v6);

/* CLOCK_MONOTONIC: the programs' clock is at most a few jiffies behind it, and never ahead. */
uint64_t plane_monotonic_ns(void);

/* The tick that the programs see now. */
uint32_t plane_tick(const struct plane *p);

/* Sets the age of dprd's heartbeat (negative: it was stopped), and the wait of a queued packet (0: none waits). */
void plane_beat(struct plane *p, int ago_ms, int waiting_ms);

/* Sets all counters to 0. */
void plane_forget_counters(struct plane *p);

/* The programs have seen no SYN-ACK of this node. */
void plane_forget_answers(struct plane *p);

/* 0 or -errno; out may not be in. */
int plane_run(struct plane *p, struct plane_run *run, const struct frame *in, struct frame *out);

/* Buckets that flows may lie in, behind the table's header. */
void *plane_buckets(const struct plane *p);
size_t plane_bucket_bytes(const struct plane *p);
/* The bits of buckets that are not empty. */
void *plane_occupied(const struct plane *p);
size_t plane_occupied_bytes(const struct plane *p);
/* Sets all bytes of both; 0: there are no flows. */
void plane_set_flows(struct plane *p, uint8_t byte);

/* Runs a shell command; ends the process when it fails. */
void plane_command(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The message of printf(3) to standard error; exit status 2: the test could not be made. */
void plane_give_up(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* The next of some words (strtok_r()), a number. */
uint32_t plane_next_number(char **words);

#endif
