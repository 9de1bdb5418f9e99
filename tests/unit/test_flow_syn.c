// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_flow_syn.c - a SYN meets a flow: the table of flow/syn.h against the rules of its four callers, each written
 * plainly once more; over all states, sequence numbers that differ anywhere, and ages at the edges.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dprd/core/decide/decide.h"
#include "dprd/core/flow/memory.h"

enum { ISN = 0x5a123456, NODE = 7, TICK = 100000, SELF = 100, PEER, CHOSEN, MADE_MS = 1000000 };

/* The fate of the SYN at one of the callers. */
enum fate {
	TO_NODE_AS_COPY,
	TO_NODE_AS_FLOW,
	ANEW,
	ASK_DPRD,
};

static const uint32_t other_bits[] = { 0, 1, 1 << 12, 1 << 23, 1 << 24, 1u << 31, 0xffffff, 0xff000000 };

/* --- the rules, plainly --- */

struct meeting {
	enum flow_slot_state state;
	bool same, young, node_is_self, alive, eligible;
};

static enum fate plain_alone(const struct meeting *m)
{
	if (m->same)
		return TO_NODE_AS_COPY;
	return m->state == SLOT_CONFIRMED ? TO_NODE_AS_FLOW : ANEW;
}

static enum fate plain_kernel(const struct meeting *m)
{
	if (!m->same && (m->state == SLOT_CLOSING || m->state == SLOT_RESET || m->node_is_self))
		return ANEW;
	return m->same && m->state == SLOT_HALF_OPEN && m->young ? TO_NODE_AS_COPY : ASK_DPRD;
}

static bool plain_queued_leads_here(const struct meeting *m)
{
	return !m->same && m->state != SLOT_CONFIRMED;
}

static bool plain_standby_serves(const struct meeting *m)
{
	return !m->alive || (!m->same && m->state != SLOT_CONFIRMED);
}

static enum fate plain_dprd(const struct meeting *m)
{
	if (!m->alive)
		return ANEW;
	if (m->state == SLOT_HALF_OPEN)
		return m->same && (m->young || m->eligible) ? TO_NODE_AS_COPY : ANEW;
	if (m->same)
		return TO_NODE_AS_COPY;
	return m->state == SLOT_CONFIRMED ? TO_NODE_AS_FLOW : ANEW;
}

/* --- by the table --- */

static enum fate table_alone(enum flow_syn syn)
{
	if (flow_syn_is_new(syn))
		return ANEW;
	return syn == FLOW_SYN_SAME_FLOW ? TO_NODE_AS_FLOW : TO_NODE_AS_COPY;
}

static enum fate table_kernel(enum flow_syn syn, const struct meeting *m)
{
	if (syn == FLOW_SYN_OVER || (!flow_syn_is_copy(syn) && m->node_is_self))
		return ANEW;
	return syn == FLOW_SYN_EARLY_COPY && m->young ? TO_NODE_AS_COPY : ASK_DPRD;
}

static void check_meeting(struct meeting m, uint32_t target, uint32_t word, uint32_t sequence)
{
	enum flow_syn syn = flow_slot_syn(target, word, sequence);
	struct flow flow = { .state = (uint8_t)flow_state_of(word), .syn_sequence = target >> FLOW_SEQUENCE_SHIFT };

	assert_int_equal(syn, flow_syn_of(&flow, sequence));
	assert_int_equal(flow_slot_state_of((enum flow_state)flow.state), m.state);
	assert_int_equal(flow_syn_is_copy(syn), m.same);
	assert_int_equal(flow_target_has_sequence(target, sequence), m.same);
	assert_int_equal(flow_same_sequence(&flow, sequence), m.same);
	for (unsigned facts = 0; facts < 8; facts++) {
		m.young = facts & 1;
		m.node_is_self = facts & 2;
		m.alive = facts & 4;
		assert_int_equal(table_alone(syn), plain_alone(&m));
		assert_int_equal(table_kernel(syn, &m), plain_kernel(&m));
		assert_int_equal(flow_syn_is_new(syn), plain_queued_leads_here(&m));
		assert_int_equal(!m.alive || flow_syn_is_new(syn), plain_standby_serves(&m));
	}
}

static void test_all_meetings(void **context)
{
	static const uint32_t nodes[] = { 1, NODE, FLOW_NODE_MASK };
	static const uint32_t ticks[] = { 0, TICK, FLOW_TICKS - 1 };

	(void)context;
	for (unsigned state = SLOT_HALF_OPEN; state <= SLOT_RESET; state++) {
		for (unsigned bits = 0; bits < sizeof(other_bits) / sizeof(other_bits[0]); bits++) {
			for (unsigned i = 0; i < 3 * 3 * 2; i++) {
				struct meeting m = { .state = (enum flow_slot_state)state,
						     .same = !(other_bits[bits] & FLOW_SEQUENCE_MASK) };

				check_meeting(m, (uint32_t)ISN << FLOW_SEQUENCE_SHIFT | nodes[i % 3],
					      ticks[i / 3 % 3] << FLOW_TIME_SHIFT | (i / 9 ? FLOW_OVERFLOW : 0) | state,
					      ISN ^ other_bits[bits]);
			}
		}
	}
}

static void test_ages(void **context)
{
	static const uint32_t made[] = { 0, TICK, FLOW_TICKS - 1, FLOW_TICKS - COPY_PATIENCE_TICKS };

	(void)context;
	assert_int_equal(COPY_PATIENCE_TICKS, (int)COPY_PATIENCE_MS * 1000 / 16777);
	for (unsigned i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
		uint32_t word = made[i] << FLOW_TIME_SHIFT | SLOT_HALF_OPEN;

		for (uint32_t age = 0; age < 2 * COPY_PATIENCE_TICKS; age++) {
			assert_int_equal(flow_word_is_young(word, made[i] + age), age < COPY_PATIENCE_TICKS);
			assert_int_equal(flow_word_is_young(word | FLOW_OVERFLOW, (made[i] + age) % FLOW_TICKS),
					 age < COPY_PATIENCE_TICKS);
		}
		assert_false(flow_word_is_young(word, made[i] + FLOW_TICKS / 2));
		assert_false(flow_word_is_young(word, made[i] + FLOW_TICKS - 1));
	}
}

/* --- decide() --- */

static struct view_node nodes[3];
static struct load_view view = { .count = 3, .nodes = nodes };
static struct policy_state policy_state;
static const struct meeting *asked;
static struct flow_table *flows;

static bool node_alive(void *context, uint32_t node_id)
{
	(void)context;
	assert_int_equal(node_id, PEER);
	return asked->alive;
}

static bool node_eligible(void *context, uint32_t node_id)
{
	(void)context;
	assert_int_equal(node_id, PEER);
	return asked->eligible;
}

static struct flow_table *flows_new(void)
{
	const struct flow_limits limits = { .max_confirmed = 64, .max_half_open = 64, .hash_key = { 1, 2 } };
	void *memory = aligned_alloc(sizeof(struct flow_bucket), flow_table_bytes(&limits));

	assert_non_null(memory);
	return flow_table_init(memory, &limits);
}

/* A flow of the SYN to PEER, in this state. */
static struct flow flow_make(const struct packet *syn, enum flow_slot_state state)
{
	static const uint8_t way_there[][2] = { { 0 }, { TCP_ACK }, { TCP_ACK, TCP_FIN }, { TCP_ACK, TCP_RST } };
	struct flow flow;

	assert_true(flow_add(flows, &syn->key, PEER, syn->tcp_sequence, MADE_MS, &flow));
	assert_true(flow_find(flows, &syn->key, &flow));
	for (unsigned i = 0; i < 2 && way_there[state][i]; i++)
		flow_touch(flows, &flow, way_there[state][i], MADE_MS);
	assert_true(flow_find(flows, &syn->key, &flow));
	assert_int_equal(flow_slot_state_of((enum flow_state)flow.state), state);
	return flow;
}

/* The programs count in ticks. They never regard a copy as young that dprd, which counts in ms, regards as old. */
static void test_ages_agree(void **context)
{
	struct packet syn = { .kind = PACKET_TCP, .tcp_flags = TCP_SYN, .tcp_sequence = ISN };

	(void)context;
	flows = flows_new();
	for (unsigned i = 0; i < 40; i++) {
		uint64_t made_ms = MADE_MS + i;
		struct flow flow;
		uint32_t word;

		assert_true(flow_add(flows, &syn.key, PEER, ISN, made_ms, &flow));
		assert_true(flow_find(flows, &syn.key, &flow));
		word = flow_slot_word(flow_slot_at(flows, flow.slot));
		for (uint64_t now_ms = made_ms; now_ms < made_ms + COPY_PATIENCE_MS + 100; now_ms++) {
			bool young = flow_word_is_young(word, flow_tick(now_ms));

			assert_true(!young || flow_is_young(&flow, now_ms));
			assert_true(young || now_ms > made_ms + COPY_PATIENCE_MS - 40);
		}
		flow_remove(flows, &flow);
	}
	free(flows);
}

static void check_dprd(struct decide_env *env, const struct meeting *m, uint32_t bits, uint64_t age_ms)
{
	struct packet syn = { .kind = PACKET_TCP, .tcp_flags = TCP_SYN, .tcp_sequence = ISN };
	struct flow flow;
	struct verdict v;

	syn.key.client.words[0] = 1;
	flow = flow_make(&syn, m->state);
	assert_int_equal(flow_is_young(&flow, flow.last_seen_ms + age_ms), m->young);
	env->now_ms = flow.last_seen_ms + age_ms;
	syn.tcp_sequence ^= bits;
	asked = m;
	v = decide(env, &syn);
	switch (plain_dprd(m)) {
	case TO_NODE_AS_COPY:
		assert_int_equal(v.reason, REASON_SAME_SYN);
		assert_int_equal(v.node_id, PEER);
		break;
	case TO_NODE_AS_FLOW:
		assert_int_equal(v.reason, REASON_SAME_FLOW);
		assert_int_equal(v.node_id, PEER);
		break;
	default:
		assert_int_equal(v.reason, REASON_CHOSEN);
		assert_int_equal(v.node_id, CHOSEN);
	}
	flow_remove(flows, &flow);
}

static void test_dprd(void **context)
{
	static const uint64_t ages_ms[] = { 0, 1, COPY_PATIENCE_MS - 1, COPY_PATIENCE_MS, 10 * COPY_PATIENCE_MS };
	static const uint64_t hash_key[2] = { 3, 4 };
	struct decide_env env = { .view = &view,
				  .policy = &policy_least,
				  .policy_state = &policy_state,
				  .hash_key = hash_key,
				  .max_load = 5,
				  .node_alive = node_alive,
				  .node_eligible = node_eligible };

	(void)context;
	nodes[0] = (struct view_node) { .node_id = SELF, .eligible = true, .weight = 1, .load = 10 };
	nodes[1] = (struct view_node) { .node_id = PEER, .eligible = true, .weight = 1, .load = 6 };
	nodes[2] = (struct view_node) { .node_id = CHOSEN, .eligible = true, .weight = 1, .load = 1 };
	flows = flows_new();
	env.flows = flows;
	for (unsigned i = 0; i < 4 * 8 * 5 * 4; i++) {
		uint32_t bits = other_bits[i / 4 % 8];
		uint64_t age_ms = ages_ms[i / 32 % 5];
		const struct meeting m = { .state = (enum flow_slot_state)(i % 4),
					   .same = !(bits & FLOW_SEQUENCE_MASK),
					   .young = age_ms < COPY_PATIENCE_MS,
					   .alive = i / 160 & 1,
					   .eligible = i / 160 & 2 };

		check_dprd(&env, &m, bits, age_ms);
	}
	free(flows);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_meetings),
		cmocka_unit_test(test_ages),
		cmocka_unit_test(test_ages_agree),
		cmocka_unit_test(test_dprd),
	};

	return cmocka_run_group_tests_name("flow_syn", tests, NULL, NULL);
}
