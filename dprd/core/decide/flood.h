/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * flood.h - nfqueue plane: when SYNs are a flood. Pure.
 *
 * Without BPF each SYN goes to dprd and back, and in a flood real clients' SYNs wait behind the others. So while one
 * lasts the firewall lets only a part of the SYNs come to dprd, and this node serves the rest undecided, as it serves what
 * comes above MaxNewFlowsPerSecond=. (With BPF the programs decide in a flood, docs/fastpath.md.)
 *
 * Which part says the sequence number, so that a copy of a SYN goes where the first one went, and so that of real SYNs no
 * more come than of others. A mere limit would take what comes when the flood catches its breath, which is the real ones.
 */
#ifndef DPRD_FLOOD_H
#define DPRD_FLOOD_H

#include <stdbool.h>
#include <stdint.h>

enum {
	FLOOD_WINDOW_MS = 200, /* the rate of SYNs is that of so long */
	FLOOD_LASTS_MS = 60000, /* at least */
	FLOOD_DECIDED_OF = 1024, /* one of so many SYNs still comes to dprd: few real ones wait. A power of 2 */
	FLOOD_FREE_PER_SECOND = 1000, /* when no more come, all do: what comes late in a flood, or goes on behind it */
	FLOOD_FREE_BURST = 100,
};

struct flood {
	bool on;
	uint64_t since_ms; /* when it began or, in one that lasts, was last seen */
	uint64_t window_ms, window_syns; /* when the running window began, and the counter of SYNs then */
	uint64_t passed_ms, passed; /* when flood_passed() was last told, and what */
};

/* The signs of a flood. */
struct flood_signs {
	uint32_t half_open, max_half_open; /* flows */
	uint64_t syns; /* that came to dprd; counts on */
	uint32_t max_per_second; /* new flows */
};

/*
 * To be called at each tick. A flood is on once three quarters of the flows that may be half-open are: clients would
 * answer. Or once more SYNs come than flows may be made: then it does not matter whose they are. It is over when an eighth
 * at most is half-open and it lasted for FLOOD_LASTS_MS. True: on has changed.
 */
bool flood_update(struct flood *flood, const struct flood_signs *signs, uint64_t now_ms);

/*
 * To be called every few seconds of a flood: so many SYNs in all passed undecided. That they come faster than flows may be
 * made is a sign, too: else a flood that lasts would come to dprd again each time, until it is noticed.
 */
void flood_passed(struct flood *flood, uint64_t passed, uint32_t max_per_second, uint64_t now_ms);

#endif
