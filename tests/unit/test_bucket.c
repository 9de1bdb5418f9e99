// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The map of buckets to owners: each has one owner, shares follow weights, few buckets move; and the judgement on SYNs.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "dprd/config/config.h"
#include "kernel-patch/bucket.h"

/* In larger clusters only every eighth bucket is checked. */
static uint32_t step_of(unsigned count)
{
	return count <= 8 ? 1 : 8;
}

/* Tests clusters of every third size, other ones in each run. UNIT_LONG: all sizes; UNIT_SHORT, for valgrind: a few. */
static unsigned seed, stride;

static int begin(void **state)
{
	const char *given = getenv("UNIT_SEED");
	struct timespec now;

	(void)state;
	clock_gettime(CLOCK_REALTIME, &now);
	seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)now.tv_nsec / 1000;
	print_message("UNIT_SEED=%u\n", seed);
	stride = getenv("UNIT_SHORT") ? 14 : getenv("UNIT_LONG") ? 1 : 3;
	return 0;
}

static unsigned first_count(unsigned least)
{
	return least + seed % stride;
}

static struct bucket_share share, former;
static uint32_t owner_before[BUCKETS];

static void make(unsigned count)
{
	char name[16];

	memset(&share, 0, sizeof(share));
	share.count = count;
	for (unsigned i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "n%u", i + 1);
		share.member[i] = (struct bucket_member) { member_id(name), 100 };
	}
	share.self_id = share.member[0].id;
}

static void remember_owners(void)
{
	for (uint32_t b = 0; b < BUCKETS; b += step_of(share.count))
		owner_before[b] = bucket_owner(&share, b);
}

static void hash_known(void **state)
{
	/* SipHash-1-3 of these 36 bytes, little endian, as a general implementation computes it. */
	const uint64_t key[2] = { 0x0706050403020100ull, 0x0f0e0d0c0b0a0908ull };
	const uint64_t client[2] = { 1, 2 }, service[2] = { 3, 4 };

	(void)state;
	assert_true(bucket_hash(key, client, service, 0x5678, 0x1234) == 0x13621c507b080355ull);
	assert_true(bucket_hash(key, client, service, 0x5679, 0x1234) != 0x13621c507b080355ull);
	assert_true(bucket_hash(key, service, client, 0x5678, 0x1234) != 0x13621c507b080355ull);
}

static void cost(void **state)
{
	uint32_t before = UINT32_MAX;

	(void)state;
	assert_int_equal(bucket_cost(UINT32_MAX), 0);
	assert_int_equal(bucket_cost(0), 32 << 16);
	for (uint64_t u = 0; u <= UINT32_MAX; u += 99991) {
		uint32_t here = bucket_cost((uint32_t)u);

		assert_true(here <= before);
		assert_true(fabs(here + 65536 * log2(((double)u + 1) / 0x1p32)) < 5);
		before = here;
	}
}

/* 1 to 64 nodes: fair shares, and the order of the list does not matter. */
static void shares(void **state)
{
	(void)state;
	for (unsigned count = first_count(1); count <= BUCKET_MEMBERS_MAX; count += stride) {
		unsigned owned[BUCKET_MEMBERS_MAX] = { 0 };
		struct bucket_share turned;

		make(count);
		turned = share;
		for (unsigned i = 0; i < count; i++)
			turned.member[i] = share.member[(i + 1) % count];
		for (uint32_t b = 0; b < BUCKETS; b += step_of(count)) {
			uint32_t owner = bucket_owner(&share, b);
			unsigned i = 0;

			while (i < count && share.member[i].id != owner)
				i++;
			assert_true(i < count);
			owned[i] += step_of(count);
			assert_int_equal(bucket_owner(&turned, b), owner);
		}
		for (unsigned i = 0; i < count; i++)
			assert_true(fabs(owned[i] / (double)BUCKETS - 1.0 / count) < 0.01);
	}
	memset(&share, 0, sizeof(share));
	assert_int_equal(bucket_owner(&share, 1), 0);
}

/* A member that leaves moves only its own buckets: at most 1/N + 1 %. */
static void moves(void **state)
{
	(void)state;
	for (unsigned count = first_count(2); count <= BUCKET_MEMBERS_MAX; count += stride) {
		unsigned gone = count * 7 / 11 % count, moved = 0;
		uint32_t gone_id;

		make(count);
		remember_owners();
		gone_id = share.member[gone].id;
		share.member[gone] = share.member[--share.count];
		for (uint32_t b = 0; b < BUCKETS; b += step_of(count)) {
			uint32_t owner = bucket_owner(&share, b);

			assert_true(owner == owner_before[b] || owner_before[b] == gone_id);
			moved += owner != owner_before[b] ? step_of(count) : 0;
		}
		assert_true(moved / (double)BUCKETS <= 1.0 / count + 0.01);
		assert_true(moved > 0);
	}
}

static void weights(void **state)
{
	static const unsigned weight[] = { 1, 50, 100, 200, 649 };
	unsigned owned[5] = { 0 };

	(void)state;
	make(5);
	for (unsigned i = 0; i < 5; i++)
		share.member[i].weight = weight[i];
	for (uint32_t b = 0; b < BUCKETS; b++) {
		for (unsigned i = 0; i < 5; i++)
			owned[i] += bucket_owner(&share, b) == share.member[i].id;
	}
	for (unsigned i = 0; i < 5; i++)
		assert_true(fabs(owned[i] / (double)BUCKETS - weight[i] / 1000.0) < 0.006);
	/* More weight for one member moves buckets only to this member. */
	remember_owners();
	share.member[1].weight = 300;
	for (uint32_t b = 0; b < BUCKETS; b++) {
		uint32_t owner = bucket_owner(&share, b);

		assert_true(owner == owner_before[b] || owner == share.member[1].id);
	}
}

/* A bucket that n1 gained from n2 (or from n3, which is gone), and one that it lost to n2. */
static uint32_t bucket_moved(uint32_t from, uint32_t to)
{
	for (uint32_t b = 0; b < BUCKETS; b++) {
		if (bucket_owner(&former, b) == from && bucket_owner(&share, b) == to)
			return b;
	}
	fail_msg("no bucket moved");
	return 0;
}

static void judge(void **state)
{
	enum { NOW = 1000 };
	struct bucket_syn syn = { .now_ns = NOW, .until_ns = NOW + 1, .changed_ns = NOW };
	uint32_t n1, n2, n3;

	(void)state;
	make(3);
	n1 = share.member[0].id, n2 = share.member[1].id, n3 = share.member[2].id;
	former = share;
	share.count = 2;
	share.member[0].weight = 150;
	syn.bucket = bucket_moved(n1, n1);
	assert_int_equal(bucket_judge(&share, &former, &syn), BUCKET_ACCEPT);
	syn.bucket = bucket_moved(n2, n1);
	syn.refused_before = true;
	syn.refused_tag = bucket_tag(n2);
	assert_int_equal(bucket_judge(&share, &former, &syn), BUCKET_REFUSE_COPY);
	syn.now_ns = NOW + BUCKET_COPY_PATIENCE_NS;
	syn.until_ns = syn.now_ns + 1;
	assert_int_equal(bucket_judge(&share, &former, &syn), BUCKET_ACCEPT);
	syn.now_ns--;
	assert_int_equal(bucket_judge(&share, &former, &syn), BUCKET_REFUSE_COPY);
	syn.refused_before = false;
	assert_int_equal(bucket_judge(&share, &former, &syn), BUCKET_ACCEPT);
	/* n3 is gone: its copies are taken at once. */
	syn.refused_before = true;
	syn.refused_tag = bucket_tag(n3);
	syn.bucket = bucket_moved(n3, n1);
	assert_int_equal(bucket_judge(&share, &former, &syn), BUCKET_ACCEPT);
	syn.bucket = bucket_moved(n2, n2);
	assert_int_equal(bucket_judge(&share, &former, &syn), BUCKET_REFUSE_FOREIGN);
	syn.has_request = true;
	assert_int_equal(bucket_judge(&share, &former, &syn), BUCKET_REFUSE_FOREIGN);
	/* The other side of a move: n2 looks at what n1 gained. */
	share.self_id = n2;
	syn.bucket = bucket_moved(n2, n1);
	assert_int_equal(bucket_judge(&share, &former, &syn), BUCKET_ACCEPT_COPY);
	syn.has_request = false;
	assert_int_equal(bucket_judge(&share, &former, &syn), BUCKET_REFUSE_FOREIGN);
	syn.has_request = true;
	syn.now_ns++;
	syn.until_ns = syn.now_ns + 1;
	assert_int_equal(bucket_judge(&share, &former, &syn), BUCKET_REFUSE_FOREIGN);
	/* Without a lease no SYN is accepted, not even a copy. */
	syn.now_ns--;
	syn.until_ns = syn.now_ns;
	assert_int_equal(bucket_judge(&share, &former, &syn), BUCKET_REFUSE_FOREIGN);
	syn.bucket = bucket_moved(n2, n2);
	assert_int_equal(bucket_judge(&share, &former, &syn), BUCKET_REFUSE_NO_LEASE);
	/* Without any share no node owns a bucket, whatever the id of self. */
	memset(&share, 0, sizeof(share));
	syn = (struct bucket_syn) { .now_ns = NOW, .until_ns = NOW + 1, .changed_ns = NOW };
	assert_int_equal(bucket_judge(&share, &share, &syn), BUCKET_REFUSE_FOREIGN);
}

/* A copy waits here since the bucket came from n2, and later changes left it here: they do not begin the wait anew. */
static void later_changes(void **state)
{
	enum { NOW = 1000 };
	struct bucket_syn syn = { .now_ns = NOW, .until_ns = NOW + 1, .changed_ns = NOW, .refused_before = true };
	uint32_t n1, n2, n3;

	(void)state;
	make(3);
	n1 = share.member[0].id, n2 = share.member[1].id, n3 = share.member[2].id;
	former = share;
	share.count = 2;
	share.member[0].weight = 150;
	syn.bucket = bucket_moved(n1, n1);
	syn.refused_tag = bucket_tag(n2);
	assert_int_equal(bucket_judge(&share, &former, &syn), BUCKET_REFUSE_COPY);
	/* Refused as n2's: the bucket came at an unknown time after that. */
	syn.refused_age_ns = 4 * BUCKET_COPY_PATIENCE_NS;
	assert_int_equal(bucket_judge(&share, &former, &syn), BUCKET_REFUSE_COPY);
	syn.refused_tag = BUCKET_TAG_HERE;
	syn.refused_age_ns = BUCKET_COPY_PATIENCE_NS - 1;
	assert_int_equal(bucket_judge(&share, &former, &syn), BUCKET_REFUSE_COPY);
	syn.refused_age_ns++;
	assert_int_equal(bucket_judge(&share, &former, &syn), BUCKET_ACCEPT);
	/* n3 went at the last change: also what came from it earlier has no other node that answers. */
	syn.refused_age_ns = 0;
	syn.refused_tag = bucket_tag(n3);
	assert_int_equal(bucket_judge(&share, &former, &syn), BUCKET_ACCEPT);
	/* A change that moves the bucket: n2 answers copies for a patience after it, however old its SYN is. */
	syn.bucket = bucket_moved(n2, n1);
	syn.refused_age_ns = 2 * BUCKET_COPY_PATIENCE_NS;
	syn.refused_tag = bucket_tag(n2);
	assert_int_equal(bucket_judge(&share, &former, &syn), BUCKET_REFUSE_COPY);
	syn.refused_tag = BUCKET_TAG_HERE;
	assert_int_equal(bucket_judge(&share, &former, &syn), BUCKET_REFUSE_COPY);
}

/* One of the two nodes that judge the copies of a SYN: its shares, newest last, and its memory. */
struct node {
	struct bucket_share shares[8];
	uint64_t changed_ns[8], word;
	bool answered;
};

static bool answers(struct node *n, uint64_t hash, uint32_t bucket, uint64_t now_ns)
{
	struct bucket_syn syn = {
		.now_ns = now_ns, .until_ns = UINT64_MAX, .bucket = bucket, .has_request = n->answered
	};
	const struct bucket_share *in_use;
	enum bucket_verdict verdict;
	unsigned i = 1;

	while (i < 7 && n->changed_ns[i + 1] && now_ns >= n->changed_ns[i + 1])
		i++;
	in_use = &n->shares[i];
	syn.changed_ns = n->changed_ns[i];
	bucket_copy_recall(n->word, hash, &syn);
	verdict = bucket_judge(in_use, in_use - 1, &syn);
	if (verdict == BUCKET_REFUSE_FOREIGN)
		n->word = bucket_copy_word(hash, bucket_tag(bucket_owner(in_use, bucket)), now_ns);
	if (verdict == BUCKET_REFUSE_COPY)
		n->word = bucket_copy_waits(n->word, hash, &syn, bucket_owner(in_use - 1, bucket) == in_use->self_id);
	n->answered |= verdict <= BUCKET_ACCEPT_COPY;
	return verdict <= BUCKET_ACCEPT_COPY;
}

static uint64_t draw(uint64_t *state, uint64_t below)
{
	*state += 0x9e3779b97f4a7c15ull;
	return bucket_mix(*state) % below;
}

/* Share 0 and 1: n2 owns the bucket; from share 2 on n1 does, and at each further change a third node's weight differs. */
static uint32_t make_nodes(struct node nodes[2])
{
	uint32_t bucket = 0;

	make(3);
	memset(nodes, 0, 2 * sizeof(*nodes));
	for (unsigned i = 0; i < 8; i++) {
		nodes[0].shares[i] = nodes[1].shares[i] = share;
		nodes[0].shares[i].member[1].weight = nodes[1].shares[i].member[1].weight = i < 2 ? 100 : 50;
		nodes[0].shares[i].member[2].weight = nodes[1].shares[i].member[2].weight = 10 + i;
		nodes[1].shares[i].self_id = share.member[1].id;
	}
	while (bucket_owner(&nodes[0].shares[0], bucket) != share.member[1].id ||
	       bucket_owner(&nodes[0].shares[2], bucket) != share.member[0].id ||
	       bucket_owner(&nodes[0].shares[7], bucket) != share.member[0].id)
		bucket++;
	return bucket;
}

/*
 * n2 answered a SYN, and the client did not get it. Then the bucket moves to n1, and more changes follow, which each node
 * takes at another moment: at every copy one of them at most answers, and n1 does in the end.
 */
static void one_answer(void **state)
{
	const uint64_t second = 1000000000, hash = bucket_copy_hash(0x123456789abcdef0ull, 7);
	static struct node nodes[2];
	uint64_t random = seed, move_ns, both = 0;
	uint32_t bucket = make_nodes(nodes);

	(void)state;
	for (unsigned round = 0; round < 20000; round++) {
		uint64_t at_ns = 100 * second, gap_ns = second;
		bool served = false;

		nodes[0].word = nodes[1].word = 0;
		nodes[0].answered = nodes[1].answered = false;
		move_ns = at_ns + 1 + draw(&random, 8 * second);
		nodes[0].changed_ns[1] = nodes[1].changed_ns[1] = 1;
		/* The former owner gives the bucket up first. */
		nodes[0].changed_ns[2] = move_ns;
		nodes[1].changed_ns[2] = move_ns - draw(&random, second / 2);
		for (unsigned i = 3; i < 8; i++) {
			nodes[0].changed_ns[i] = nodes[0].changed_ns[i - 1] + 1 + draw(&random, 3 * second);
			nodes[1].changed_ns[i] = nodes[0].changed_ns[i] + draw(&random, second * 4 / 5);
			if (nodes[1].changed_ns[i] <= nodes[1].changed_ns[i - 1])
				nodes[1].changed_ns[i] = nodes[1].changed_ns[i - 1] + 1;
		}
		for (unsigned copy = 0; copy < 10; copy++) {
			bool first = answers(&nodes[0], hash, bucket, at_ns),
			     other = answers(&nodes[1], hash, bucket, at_ns);

			both += first && other;
			served = first;
			at_ns += gap_ns;
			/* Linux sends the first ones each second, others double the time at once. */
			gap_ns = copy < 4 && round % 2 ? second : 2 * gap_ns;
		}
		assert_true(served);
	}
	assert_int_equal(both, 0);
}

static bool recalled(uint64_t word, uint64_t hash, uint64_t now_ns, struct bucket_syn *syn)
{
	*syn = (struct bucket_syn) { .now_ns = now_ns };
	bucket_copy_recall(word, hash, syn);
	return syn->refused_before;
}

static void copies(void **state)
{
	const uint64_t hash = bucket_copy_hash(0x1234567890abcdefull, 77), now_ns = 5000000000ull << 20;
	const uint32_t owner = 0xfedcba98;
	uint64_t word = bucket_copy_word(hash, bucket_tag(owner), now_ns);
	struct bucket_syn syn;

	(void)state;
	assert_true(recalled(word, hash, now_ns, &syn));
	assert_int_equal(syn.refused_age_ns, 0);
	assert_int_equal(syn.refused_tag, bucket_tag(owner));
	assert_true(recalled(word, hash, now_ns + BUCKET_COPY_PATIENCE_NS, &syn));
	assert_in_range(syn.refused_age_ns, BUCKET_COPY_PATIENCE_NS - (1 << 24), BUCKET_COPY_PATIENCE_NS);
	assert_true(recalled(word, hash, now_ns + BUCKET_COPY_MEMORY_NS, &syn));
	assert_false(recalled(word, hash, now_ns + BUCKET_COPY_MEMORY_NS + (2 << 24), &syn));
	assert_false(recalled(word, bucket_copy_hash(0x1234567890abcdefull, 78), now_ns, &syn));
	assert_false(recalled(0, hash, now_ns, &syn));
	/* A copy that waits here keeps its first time while the bucket stays; no member has its tag. */
	assert_true(recalled(word, hash, now_ns + (9 << 24), &syn));
	word = bucket_copy_waits(word, hash, &syn, true);
	assert_true(recalled(word, hash, now_ns + (20 << 24), &syn));
	assert_int_equal(syn.refused_tag, BUCKET_TAG_HERE);
	assert_int_equal(syn.refused_age_ns, 11 << 24);
	assert_int_equal(bucket_copy_waits(word, hash, &syn, true), word);
	word = bucket_copy_waits(word, hash, &syn, false);
	assert_true(recalled(word, hash, now_ns + (20 << 24), &syn));
	assert_int_equal(syn.refused_age_ns, 0);
	assert_int_not_equal(bucket_tag(BUCKET_TAG_HERE), BUCKET_TAG_HERE);
	/* A version before this one had 40 bits of the hash and 24 of the time. */
	word = bucket_copy_former_word((hash & ~0xffffffull) | (now_ns >> 24 & 0xffffff));
	assert_true(recalled(word, hash, now_ns + (3 << 24), &syn));
	assert_int_equal(syn.refused_age_ns, 3 << 24);
	assert_int_equal(syn.refused_tag, BUCKET_TAG_HERE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hash_known), cmocka_unit_test(cost),          cmocka_unit_test(shares),
		cmocka_unit_test(moves),      cmocka_unit_test(weights),       cmocka_unit_test(judge),
		cmocka_unit_test(copies),     cmocka_unit_test(later_changes), cmocka_unit_test(one_answer),
	};

	return cmocka_run_group_tests(tests, begin, NULL);
}
