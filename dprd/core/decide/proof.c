// SPDX-License-Identifier: GPL-2.0-or-later
/* proof.c - do probes of a peer arrive at this node, by family? */
#include "dprd/core/decide/proof.h"

void proofs_fail(struct proofs *p)
{
	p->since_ms = 0;
}

void proofs_hear(struct proofs *p, unsigned member, bool v6, bool full, uint64_t heard_ms)
{
	uint64_t *newest = full ? &p->full_ms[member][v6] : &p->heard_ms[member][v6];

	if (heard_ms > *newest)
		*newest = heard_ms;
}

/* Full-size probes are rare: their absence says something only after many small ones have come. */
static bool is_narrow(const struct proofs *p, unsigned member, bool v6, uint64_t now_ms)
{
	return p->proven[member][v6] && now_ms - p->proven_ms[member][v6] >= PROOF_FULL_LEARN_MS &&
	       now_ms - p->full_ms[member][v6] >= PROOF_FULL_FRESH_MS;
}

static bool look_at_way(struct proofs *p, unsigned member, bool v6, uint64_t now_ms)
{
	uint64_t heard_ms = p->heard_ms[member][v6];
	bool before = p->proven[member][v6], narrow = p->narrow[member][v6];
	bool now = heard_ms && (now_ms < heard_ms + PROOF_FRESH_MS || (before && now_ms < p->settled_ms));

	if (now && !before)
		p->proven_ms[member][v6] = now_ms;
	p->proven[member][v6] = now;
	p->narrow[member][v6] = is_narrow(p, member, v6, now_ms);
	return now != before || narrow != p->narrow[member][v6];
}

/* No probe was missed while this node stood still for so long, up to now. */
static void shift(struct proofs *p, uint64_t ms)
{
	unsigned i;

	for (i = 0; i < 2 * MEMBERS_MAX; i++) {
		p->proven_ms[i / 2][i % 2] += ms;
		/* One that came meanwhile has its time already. */
		if (p->full_ms[i / 2][i % 2] <= p->looked_ms)
			p->full_ms[i / 2][i % 2] += ms;
	}
}

bool proofs_look(struct proofs *p, uint64_t now_ms)
{
	bool judged = proofs_judge(p), changed = false;
	unsigned i;

	if (!p->since_ms) {
		p->since_ms = now_ms;
	} else if (now_ms - p->looked_ms > PROOF_LATE_MS) {
		p->settled_ms = now_ms + PROOF_SETTLE_MS;
		shift(p, now_ms - p->looked_ms - PROOF_LOOK_MS);
	}
	p->looked_ms = now_ms;
	p->looks++;
	for (i = 0; i < 2 * MEMBERS_MAX; i++)
		changed |= look_at_way(p, i / 2, i % 2, now_ms);
	return changed || judged != proofs_judge(p);
}
