/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * flood.h - recognizes a flood of SYNs, on the nfqueue plane. Pure.
 *
 * Without BPF each SYN goes to dprd and back, and in a flood the SYNs of real clients wait behind the others. So while
 * a flood lasts, the rules queue only a part of the SYNs to dprd, and this node serves the rest without a decision, as
 * it serves SYNs above MaxNewFlowsPerSecond=. (On the BPF plane the programs decide in a flood, docs/fastpath.md.)
 *
 * The sequence number selects the part: so a copy of a SYN goes where the first one went, and the part has as many real
 * SYNs in a thousand as the flood. A plain limit would select the SYNs that come in pauses of the flood: the real ones.
 */
#ifndef DPRD_FLOOD_H
#define DPRD_FLOOD_H

#include <stdbool.h>
#include <stdint.h>

enum {
	FLOOD_WINDOW_MS = 200, /* the rate of SYNs is measured for this long */
	FLOOD_LASTS_MS = 60000, /* a flood lasts this long, at least */
	FLOOD_DECIDED_OF =
		1024, /* one of this many SYNs still comes to dprd, so that few real ones wait. A power of 2 */
	FLOOD_FREE_PER_SECOND = 1000, /* up to this rate all SYNs go to dprd: late in a flood and after it */
	FLOOD_FREE_BURST = 100,
};

struct flood {
	bool on;
	uint64_t since_ms; /* when it began or was last seen */
	uint64_t window_ms, window_syns; /* when the running window began, and the counter of SYNs then */
	uint64_t passed_ms, passed; /* time and number of the last flood_passed() */
};

/* The numbers that show a flood. */
struct flood_signs {
	uint32_t half_open, max_half_open; /* flows */
	uint64_t syns; /* that came to dprd since it started */
	uint32_t max_per_second; /* new flows */
};

/*
 * Call at each tick. A flood begins when three quarters of the permitted half-open flows are in use, because real
 * clients would answer; or when more SYNs come than flows may be made, also when they are real. It ends when at most an
 * eighth is in use and it lasted for FLOOD_LASTS_MS. True: on has changed.
 */
bool flood_update(struct flood *flood, const struct flood_signs *signs, uint64_t now_ms);

/*
 * Call every few seconds of a flood. passed: SYNs served without a decision since the start. When they come faster than
 * flows may be made, the flood still lasts: without this sign all SYNs would be queued to dprd again every
 * FLOOD_LASTS_MS.
 */
void flood_passed(struct flood *flood, uint64_t passed, uint32_t max_per_second, uint64_t now_ms);

#endif
