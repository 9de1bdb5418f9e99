// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * flow/expire.c - goes through the flow table round after round: removes flows that are too old and counts the others.
 */
#include "dprd/core/flow/memory.h"

enum { HALF_OPEN_LEAST_MS = HALF_OPEN_GRACE_MS + 500 }; /* a half-open flow's life under any pressure */

/* The divisor of timeouts when count of max places are in use. */
static unsigned pressure(unsigned count, unsigned max)
{
	return count < max / 2 ? 1 : count < max / 4 * 3 ? 8 : 64;
}

/* timeout_ms: of closing or reset flows. */
static unsigned ended_lifetime_ms(const struct flow_limits *limits, unsigned timeout_ms, unsigned count)
{
	unsigned max = limits->max_confirmed, patient_ms = 0;

	if (count < max / 4)
		patient_ms = count < max / 8 ? limits->idle_timeout_ms : limits->idle_timeout_ms / 8;
	timeout_ms /= pressure(count, max);
	return timeout_ms > patient_ms ? timeout_ms : patient_ms;
}

unsigned flow_lifetime_ms(const struct flow_limits *limits, uint8_t state, const struct flow_counts *used)
{
	unsigned lifetime_ms;

	switch (state) {
	case FLOW_HALF_OPEN:
		lifetime_ms = limits->syn_timeout_ms / pressure(used->half_open, limits->max_half_open);
		if (lifetime_ms < HALF_OPEN_LEAST_MS)
			lifetime_ms = HALF_OPEN_LEAST_MS;
		return lifetime_ms < limits->syn_timeout_ms ? lifetime_ms : limits->syn_timeout_ms;
	case FLOW_CLOSING:
		return ended_lifetime_ms(limits, limits->fin_timeout_ms, used->confirmed);
	case FLOW_RESET:
		return ended_lifetime_ms(limits, limits->rst_timeout_ms, used->confirmed);
	default:
		return limits->idle_timeout_ms;
	}
}

/* True when an odd slot belongs to the IPv6 flow in front of it, also while that flow is being made. */
static bool is_second(const struct flow_table *t, uint32_t index)
{
	const struct flow_slot *first;
	uint8_t tag;

	if (index % 2 == 0)
		return false;
	first = flow_slot_at(t, index) - 1;
	tag = flow_slot_tag(first);
	return tag == FLOW_TAG_V6 || (tag != FLOW_TAG_V4 && *(volatile const uint32_t *)&first->target);
}

/*
 * Repairs a slot that is in use but holds no flow: it is damaged, or its process was killed before it published the
 * flow. The slot is marked first, because a flow may be published in a moment, and cleared when the mark is still there
 * one round later.
 */
static void mend_slot(const struct flow_table *t, uint32_t index)
{
	struct flow_slot *slot = flow_slot_at(t, index);
	uint64_t key = *(volatile uint64_t *)&slot->key;
	struct flow unused;

	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (is_second(t, index))
		return;
	if (!key)
		__sync_val_compare_and_swap(&slot->key, 0, FLOW_ABANDONED);
	else if (!flow_slot_read(t, index, &unused))
		flow_slot_clear(t, index);
}

/* True when a flow of this bucket lies in the next one. */
static bool has_guest(const struct flow_table *t, uint32_t bucket)
{
	uint32_t first = (bucket + 1) * FLOW_BUCKET_SLOTS, i;
	struct flow_search s;
	struct flow flow;

	for (i = first; i < first + FLOW_BUCKET_SLOTS; i++) {
		if (!flow_slot_read(t, i, &flow))
			continue;
		flow_search_key(t, &flow.key, flow_slot_at(t, i)->v4.service, &s);
		if (s.bucket == bucket)
			return true;
	}
	return false;
}

static void mend_overflow(const struct flow_table *t, uint32_t bucket)
{
	uint32_t *word = &flow_bucket_at(t, bucket)->slot[0].state;

	if (!flow_bucket_overflows(flow_bucket_at(t, bucket)))
		return;
	if (bucket < t->bucket_count && has_guest(t, bucket))
		return;
	__sync_fetch_and_and(word, ~(uint32_t)FLOW_OVERFLOW);
	/* A program that made such a flow meanwhile reads the bit after that, so one of the two sees the other. */
	if (bucket < t->bucket_count && has_guest(t, bucket))
		__sync_fetch_and_or(word, FLOW_OVERFLOW);
}

/* The values that are the same for all slots of one call. */
struct expiry {
	uint32_t tick, lifetime_ticks[FLOW_RESET + 1];
	flow_gone_fn *gone;
	void *context;
};

static void expire_slot(struct flow_table *t, uint32_t index, const struct expiry *e)
{
	struct flow_slot *slot = flow_slot_at(t, index);
	uint32_t word, age;
	struct flow flow;

	if (index % FLOW_BUCKET_SLOTS == 0)
		mend_overflow(t, index / FLOW_BUCKET_SLOTS);
	if (flow_slot_is_free(slot))
		return;
	if (!flow_slot_read(t, index, &flow)) {
		mend_slot(t, index);
		return;
	}
	word = flow_slot_word(slot); /* read after that check: the flow may just have come */
	age = (e->tick - (word >> FLOW_TIME_SHIFT)) & (FLOW_TICKS - 1);
	if (age >= FLOW_TICKS / 2) {
		/* A flow from the future is damaged, or its processor's clock is ahead. */
		__sync_val_compare_and_swap(&slot->state, word,
					    e->tick << FLOW_TIME_SHIFT | (word & ((1 << FLOW_TIME_SHIFT) - 1)));
	} else if (age >= e->lifetime_ticks[flow.state]) {
		e->gone(e->context, &flow);
		flow_remove_as_read(t, &flow);
		return;
	}
	flow_count_in(&t->sums, flow.state, 1);
	t->sample_half_open += flow.state == FLOW_HALF_OPEN;
	t->services[slot->v4.service].seen = 1;
	t->nodes[slot->target & FLOW_NODE_MASK].seen = 1;
}

/* Programs confirmed the other flows that were counted as half-open. */
static void believe_sample(struct flow_table *t)
{
	unsigned too_many = t->counts.half_open - t->half_open_most;

	if ((int)too_many <= 0)
		return;
	t->counts.half_open -= too_many;
	t->counts.confirmed += too_many;
}

static void end_sample(struct flow_table *t)
{
	t->half_open_most = FLOW_SAMPLES * (t->sample_half_open + t->sample_half_open / 8 + 32);
	t->sample_half_open = t->sample_slots = 0;
	believe_sample(t);
}

static void end_round(struct flow_table *t)
{
	unsigned i;

	t->counts = t->sums;
	t->sums = (struct flow_counts) { 0 };
	t->cursor = t->sample_half_open = t->sample_slots = 0;
	believe_sample(t);
	for (i = 0; i < t->service_count; i++) {
		t->services[i].used = t->services[i].seen;
		t->services[i].seen = 0;
	}
	for (i = 0; i <= FLOW_NODES_MAX; i++) {
		t->nodes[i].used = t->nodes[i].seen;
		t->nodes[i].seen = 0;
	}
}

/* All slots of this bucket were read; when it is empty, its bits fade. */
static void pass_bucket(const struct flow_table *t, uint32_t bucket)
{
	uint64_t *word = flow_occupied_at(t, bucket), as_read = __atomic_load_n(word, __ATOMIC_SEQ_CST);

	if (flow_is_occupied(&as_read, bucket) && flow_empty_slots(t, bucket * FLOW_BUCKET_SLOTS, FLOW_BUCKET_SLOTS))
		flow_occupied_fade(word, as_read, bucket);
}

void flow_expire(struct flow_table *t, unsigned steps, uint64_t now_ms, flow_gone_fn *gone, void *context)
{
	struct expiry e = { .tick = flow_tick(now_ms), .gone = gone, .context = context };
	uint32_t count = flow_slot_count(t);
	struct flow_counts used = flow_counts(t);
	unsigned state;

	t->now_ms = now_ms;
	for (state = FLOW_HALF_OPEN; state <= FLOW_RESET; state++)
		e.lifetime_ticks[state] = flow_ticks_of(flow_lifetime_ms(&t->limits, (uint8_t)state, &used));
	if (steps > count)
		steps = count;
	while (steps) {
		unsigned done = flow_empty_slots(t, t->cursor, steps);

		if (!done) {
			expire_slot(t, t->cursor, &e);
			done = 1;
		}
		t->cursor += done;
		if (t->cursor % FLOW_BUCKET_SLOTS == 0)
			pass_bucket(t, t->cursor / FLOW_BUCKET_SLOTS - 1);
		t->sample_slots += done;
		steps -= done;
		if (t->sample_slots >= count / FLOW_SAMPLES)
			end_sample(t);
		if (t->cursor >= count)
			end_round(t);
	}
}

unsigned flow_remove_node(struct flow_table *t, uint32_t node_id, flow_gone_fn *gone, void *context)
{
	int node = flow_table_node(t, node_id, false);
	unsigned removed = 0;
	struct flow flow;
	uint32_t i;

	/* No flow used the node recently: skip reading all slots. */
	if (node < 0 || !(t->nodes[node].seen | t->nodes[node].used))
		return 0;
	for (i = 0; i < flow_slot_count(t); i++) {
		if (!flow_slot_read(t, i, &flow) || flow.node_id != node_id)
			continue;
		gone(context, &flow);
		flow_remove_as_read(t, &flow);
		removed++;
	}
	t->nodes[node].seen = t->nodes[node].used = 0;
	return removed;
}
