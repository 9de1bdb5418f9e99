/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fuzz_report.h - prints the differences of the two sides, and the totals of all packets. */
#ifndef TESTS_BPF_FUZZ_REPORT_H
#define TESTS_BPF_FUZZ_REPORT_H

#include "tests/bpf/model.h"

struct fuzz_totals {
	uint64_t packets, verdicts[3], queued[2];
	struct fastpath_counters counted; /* by the model */
	struct model_sent sent;
};

/* Prints the slots of bytes of buckets that differ from others. */
void fuzz_print_flows(const char *title, const struct flow_bucket *buckets, const struct flow_bucket *others,
		      size_t bytes);

void fuzz_print_counters(const struct fastpath_counters *programs, const struct fastpath_counters *model);

/* True when all verdicts came; otherwise packets or clusters are wrong, and the missing ones are printed. */
bool fuzz_covered(const struct fuzz_totals *totals);

void fuzz_report(const struct fuzz_totals *totals, double took_s);

#endif
