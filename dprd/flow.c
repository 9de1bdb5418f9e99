// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Memory: header | buckets | half-open order | entries. Entries 0 .. max_half_open-1 are the
 * half-open pool, the rest the confirmed one. Links are indices + 1, so that zeroed memory is empty.
 * Only the entries matter to a successor: it rebuilds buckets, lists and order from them.
 */
#include "dprd/flow.h"

#include <errno.h>
#include <sodium.h>

enum {
	FLOW_MAGIC = 0x574f4c46, /* "FLOW" */
	FLOW_VERSION = 2,
	FLOW_ENTRIES_MAX = 1 << 24,
	HALF_OPEN_GRACE_MS = 1000,
};

_Static_assert(sizeof(struct flow_key) == 36, "flow keys are hashed and compared as bytes");

struct order {
	uint32_t older, newer;
};

struct flow_table {
	uint32_t magic, version;
	uint32_t entry_bytes;
	uint32_t bucket_count;
	struct flow_limits limits;
	struct flow_counts counts;
	uint32_t free_half_open, free_confirmed; /* heads of lists chained by flow.next */
	uint32_t oldest, newest; /* of the half-open pool */
	uint32_t expire_cursor;
	/* Followed by: uint32_t bucket[bucket_count]; struct order order[max_half_open]; struct flow entry[]. */
};

static uint32_t buckets_for(const struct flow_limits *limits)
{
	uint32_t entries = limits->max_half_open + limits->max_confirmed, buckets = 64;

	while (buckets < entries)
		buckets *= 2;
	return buckets;
}

static uint32_t *bucket_array(const struct flow_table *t)
{
	return (uint32_t *)((uintptr_t)t + sizeof(*t));
}

static struct order *order_array(const struct flow_table *t)
{
	return (struct order *)(bucket_array(t) + t->bucket_count);
}

static struct flow *entry_array(const struct flow_table *t)
{
	return (struct flow *)(order_array(t) + t->limits.max_half_open);
}

static uint32_t entry_count(const struct flow_table *t)
{
	return t->limits.max_half_open + t->limits.max_confirmed;
}

static size_t table_bytes(uint32_t buckets, uint32_t half_open, uint32_t confirmed)
{
	return sizeof(struct flow_table) + (size_t)buckets * sizeof(uint32_t) +
	       (size_t)half_open * sizeof(struct order) + ((size_t)half_open + confirmed) * sizeof(struct flow);
}

static struct flow *entry_at(const struct flow_table *t, uint32_t link)
{
	return &entry_array(t)[link - 1];
}

static uint32_t link_of(const struct flow_table *t, const struct flow *flow)
{
	return (uint32_t)(flow - entry_array(t)) + 1;
}

static bool is_half_open_slot(const struct flow_table *t, const struct flow *flow)
{
	return link_of(t, flow) <= t->limits.max_half_open;
}

size_t flow_table_bytes(const struct flow_limits *limits)
{
	return table_bytes(buckets_for(limits), limits->max_half_open, limits->max_confirmed);
}

struct flow_table *flow_table_init(void *memory, const struct flow_limits *limits)
{
	struct flow_table *t = memory;
	uint32_t link;

	memset(memory, 0, flow_table_bytes(limits));
	t->magic = FLOW_MAGIC;
	t->version = FLOW_VERSION;
	t->entry_bytes = sizeof(struct flow);
	t->bucket_count = buckets_for(limits);
	t->limits = *limits;
	for (link = entry_count(t); link > limits->max_half_open; link--) {
		entry_at(t, link)->next = t->free_confirmed;
		t->free_confirmed = link;
	}
	for (; link > 0; link--) {
		entry_at(t, link)->next = t->free_half_open;
		t->free_half_open = link;
	}
	return t;
}

void flow_table_set_timeouts(struct flow_table *t, const struct flow_limits *limits)
{
	t->limits.syn_timeout_ms = limits->syn_timeout_ms;
	t->limits.idle_timeout_ms = limits->idle_timeout_ms;
	t->limits.fin_timeout_ms = limits->fin_timeout_ms;
	t->limits.rst_timeout_ms = limits->rst_timeout_ms;
}

uint64_t flow_hash(const uint64_t hash_key[2], const struct flow_key *key)
{
	uint64_t hash;

	crypto_shorthash((unsigned char *)&hash, (const unsigned char *)key, sizeof(*key),
			 (const unsigned char *)hash_key);
	return hash;
}

static uint32_t *bucket_of(const struct flow_table *t, const struct flow_key *key)
{
	return &bucket_array(t)[flow_hash(t->limits.hash_key, key) & (t->bucket_count - 1)];
}

struct flow *flow_find(struct flow_table *t, const struct flow_key *key)
{
	uint32_t link = *bucket_of(t, key);

	while (link) {
		struct flow *flow = entry_at(t, link);

		if (memcmp(&flow->key, key, sizeof(*key)) == 0)
			return flow;
		link = flow->next;
	}
	return NULL;
}

static void order_unlink(struct flow_table *t, uint32_t link)
{
	struct order *order = order_array(t), *o = &order[link - 1];

	if (o->older)
		order[o->older - 1].newer = o->newer;
	else
		t->oldest = o->newer;
	if (o->newer)
		order[o->newer - 1].older = o->older;
	else
		t->newest = o->older;
	*o = (struct order) { 0 };
}

static void order_append(struct flow_table *t, uint32_t link)
{
	struct order *order = order_array(t);

	order[link - 1] = (struct order) { .older = t->newest };
	if (t->newest)
		order[t->newest - 1].newer = link;
	else
		t->oldest = link;
	t->newest = link;
}

/* Out of its bucket and onto the free list of its pool. */
static void entry_release(struct flow_table *t, struct flow *flow)
{
	uint32_t link = link_of(t, flow), *at = bucket_of(t, &flow->key);

	while (*at && *at != link)
		at = &entry_at(t, *at)->next;
	if (*at)
		*at = flow->next;
	t->counts.closing -= flow->state == FLOW_CLOSING || flow->state == FLOW_RESET;
	flow->state = FLOW_FREE;
	if (is_half_open_slot(t, flow)) {
		order_unlink(t, link);
		flow->next = t->free_half_open;
		t->free_half_open = link;
		t->counts.half_open--;
	} else {
		flow->next = t->free_confirmed;
		t->free_confirmed = link;
		t->counts.confirmed--;
	}
}

/* Takes a free entry of one pool, fills it from *from and links it; the state comes last, so that a
 * successor never sees half an entry. NULL when the pool is full. */
static struct flow *entry_take(struct flow_table *t, bool half_open, const struct flow *from)
{
	uint32_t *free_list = half_open ? &t->free_half_open : &t->free_confirmed, link = *free_list;
	uint32_t *bucket = bucket_of(t, &from->key);
	struct flow *flow;

	if (!link)
		return NULL;
	flow = entry_at(t, link);
	*free_list = flow->next;
	flow->key = from->key;
	flow->node_id = from->node_id;
	flow->syn_sequence = from->syn_sequence;
	flow->made_ms = from->made_ms;
	flow->last_seen_ms = from->last_seen_ms;
	flow->packets = from->packets;
	flow->next = *bucket;
	*bucket = link;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	flow->state = from->state;
	if (half_open) {
		order_append(t, link);
		t->counts.half_open++;
	} else {
		t->counts.confirmed++;
		t->counts.closing += flow->state == FLOW_CLOSING || flow->state == FLOW_RESET;
	}
	return flow;
}

struct flow *flow_add(struct flow_table *t, const struct flow_key *key, uint32_t node_id, uint32_t syn_sequence,
		      uint64_t now_ms, struct flow *ret_evicted)
{
	struct flow *old = flow_find(t, key);
	struct flow fresh = { .key = *key,
			      .node_id = node_id,
			      .syn_sequence = syn_sequence,
			      .made_ms = now_ms,
			      .last_seen_ms = now_ms,
			      .packets = 1,
			      .state = FLOW_HALF_OPEN };

	ret_evicted->state = FLOW_FREE;
	if (old)
		entry_release(t, old);
	if (!t->free_half_open) {
		*ret_evicted = *entry_at(t, t->oldest);
		entry_release(t, entry_at(t, t->oldest));
	}
	return entry_take(t, true, &fresh);
}

bool flow_has_room(const struct flow_table *t, uint64_t now_ms)
{
	if (t->counts.half_open + t->counts.confirmed >= t->limits.max_confirmed)
		return false;
	return t->free_half_open || entry_at(t, t->oldest)->last_seen_ms + HALF_OPEN_GRACE_MS <= now_ms;
}

/* Moves a half-open flow to the confirmed pool; NULL when that is full. First there, then away from
 * here: a process killed in between leaves the flow twice, never nowhere. */
static struct flow *flow_promote(struct flow_table *t, struct flow *flow)
{
	struct flow copy = *flow, *confirmed;

	copy.state = FLOW_CONFIRMED;
	confirmed = entry_take(t, false, &copy);
	if (confirmed)
		entry_release(t, flow);
	return confirmed;
}

struct flow *flow_touch(struct flow_table *t, struct flow *flow, uint8_t tcp_flags, uint64_t now_ms)
{
	flow->last_seen_ms = now_ms;
	flow->packets++;
	if (flow->state == FLOW_HALF_OPEN) {
		order_unlink(t, link_of(t, flow));
		order_append(t, link_of(t, flow));
		if (tcp_flags & TCP_SYN)
			return flow;
		flow = flow_promote(t, flow);
		if (!flow)
			return NULL;
	}
	t->counts.closing += flow->state == FLOW_CONFIRMED && tcp_flags & (TCP_RST | TCP_FIN);
	if (tcp_flags & TCP_RST)
		flow->state = FLOW_RESET;
	else if (flow->state == FLOW_RESET)
		flow->state = FLOW_CLOSING;
	else if (tcp_flags & TCP_FIN && flow->state == FLOW_CONFIRMED)
		flow->state = FLOW_CLOSING;
	return flow;
}

void flow_remove(struct flow_table *t, struct flow *flow)
{
	entry_release(t, flow);
}

unsigned flow_lifetime_ms(const struct flow_limits *limits, uint8_t state, unsigned used)
{
	unsigned sooner = used < limits->max_confirmed / 2 ? 1 : used < limits->max_confirmed / 4 * 3 ? 8 : 64;

	switch (state) {
	case FLOW_HALF_OPEN:
		return limits->syn_timeout_ms;
	case FLOW_CLOSING:
		return limits->fin_timeout_ms / sooner;
	case FLOW_RESET:
		return limits->rst_timeout_ms / sooner;
	default:
		return limits->idle_timeout_ms;
	}
}

void flow_expire(struct flow_table *t, unsigned steps, uint64_t now_ms, flow_gone_fn *gone, void *context)
{
	uint32_t count = entry_count(t), used = t->counts.confirmed;

	if (steps > count)
		steps = count;
	for (; steps; steps--) {
		struct flow *flow = &entry_array(t)[t->expire_cursor];

		t->expire_cursor = (t->expire_cursor + 1) % count;
		/* Adopted from a damaged table: no flow was seen in the future. */
		if (flow->last_seen_ms > now_ms)
			flow->last_seen_ms = now_ms;
		if (flow->state == FLOW_FREE ||
		    now_ms - flow->last_seen_ms < flow_lifetime_ms(&t->limits, flow->state, used))
			continue;
		gone(context, flow);
		entry_release(t, flow);
	}
}

unsigned flow_remove_node(struct flow_table *t, uint32_t node_id, flow_gone_fn *gone, void *context)
{
	unsigned removed = 0;
	uint32_t i;

	for (i = 0; i < entry_count(t); i++) {
		struct flow *flow = &entry_array(t)[i];

		if (flow->state == FLOW_FREE || flow->node_id != node_id)
			continue;
		gone(context, flow);
		entry_release(t, flow);
		removed++;
	}
	return removed;
}

void flow_each(const struct flow_table *t, flow_visit_fn *visit, void *context)
{
	uint32_t i;

	for (i = 0; i < entry_count(t); i++) {
		const struct flow *flow = &entry_array(t)[i];

		if (flow->state != FLOW_FREE && !visit(context, flow))
			return;
	}
}

void flow_walk(const struct flow_table *t, uint32_t *cursor, unsigned steps, flow_visit_fn *visit, void *context)
{
	bool more = true;

	for (; more && steps && *cursor < entry_count(t); steps--) {
		const struct flow *flow = &entry_array(t)[(*cursor)++];

		more = flow->state == FLOW_FREE || visit(context, flow);
	}
	if (*cursor >= entry_count(t))
		*cursor = 0;
}

struct flow_counts flow_counts(const struct flow_table *t)
{
	return t->counts;
}

int flow_table_adopt(struct flow_table *t, const void *old, size_t size)
{
	struct flow_table header;
	const uint8_t *entries;
	uint32_t i, count;
	int adopted = 0;

	if (size < sizeof(header))
		return -EINVAL;
	memcpy(&header, old, sizeof(header));
	if (header.magic != FLOW_MAGIC || header.version != FLOW_VERSION || header.entry_bytes != sizeof(struct flow) ||
	    header.limits.max_half_open > FLOW_ENTRIES_MAX || header.limits.max_confirmed > FLOW_ENTRIES_MAX ||
	    header.bucket_count > 4 * FLOW_ENTRIES_MAX ||
	    table_bytes(header.bucket_count, header.limits.max_half_open, header.limits.max_confirmed) != size)
		return -EINVAL;
	count = header.limits.max_half_open + header.limits.max_confirmed;
	entries = (const uint8_t *)old + size - (size_t)count * sizeof(struct flow);
	for (i = 0; i < count; i++) {
		struct flow flow;
		bool half_open;

		memcpy(&flow, entries + (size_t)i * sizeof(flow), sizeof(flow));
		half_open = flow.state == FLOW_HALF_OPEN;
		/* A process killed within a promotion leaves the flow twice: the first one found stays. */
		if (flow.state == FLOW_FREE || flow.state > FLOW_RESET || !flow.node_id || flow_find(t, &flow.key))
			continue;
		if (entry_take(t, half_open, &flow))
			adopted++;
	}
	return adopted;
}
