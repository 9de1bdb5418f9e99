/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fuzz_report.h - what fuzz_bpf tells: where the two sides differ, and what all packets came to. */
#ifndef TESTS_BPF_FUZZ_REPORT_H
#define TESTS_BPF_FUZZ_REPORT_H

#include "tests/bpf/model.h"

struct fuzz_totals {
	uint64_t packets, verdicts[3], queued[2];
	struct fastpath_counters counted; /* by the model */
	struct model_sent sent;
};

/* Slots of bytes of buckets that are not the same in others. */
void fuzz_print_flows(const char *title, const struct flow_bucket *buckets, const struct flow_bucket *others,
		      size_t bytes);

void fuzz_print_counters(const struct fastpath_counters *programs, const struct fastpath_counters *model);

/* Whether all came that can: else packets or clusters are not what they should be, and what is missing is printed. */
bool fuzz_covered(const struct fuzz_totals *totals);

void fuzz_report(const struct fuzz_totals *totals, double took_s);

#endif
