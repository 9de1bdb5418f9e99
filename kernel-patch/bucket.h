/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bucket.h - decides which node accepts a connection to a shared address. Pure: the kernel module, the BPF programs,
 * loadcast and the tests compile the same lines.
 *
 * A keyed hash puts each 4-tuple into one of 65,536 buckets. For every bucket all members stand in one
 * order, by weighted rendezvous hashing (Thaler and Ravishankar 1998; Schindelhauer and Schomaker 2005):
 * the first of those that have a share owns it. The order of two members depends on their own ids and
 * weights only. So two nodes that know different sets of members both own a bucket only if one of them
 * leaves the other out; docs/biactive.md argues from there that no SYN gets two answers.
 *
 * Integers only: every node must come to the same result to the last bit.
 */
#ifndef DPRD_BUCKET_H
#define DPRD_BUCKET_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stdint.h>
#endif

#define BUCKETS 65536u
#define BUCKET_MEMBERS_MAX 64u
#define BUCKET_WEIGHT_MAX 1000u
/* For this long after a bucket moved, copies of a SYN stay with the node that got the first one. */
#define BUCKET_COPY_PATIENCE_NS 2500000000ull
#define BUCKET_COPY_MEMORY_NS 64000000000ull
#define BUCKET_TAG_MASK 0x3fffu
#define BUCKET_TAG_HERE 0x3fffu /* no member's: a copy waits at this node, the new owner */
#define BUCKET_LEASE_VERSION 1u

struct bucket_member {
	uint32_t id; /* never 0 */
	uint32_t weight; /* 1..BUCKET_WEIGHT_MAX */
};

/* The nodes that have a share. Ids differ; self need not be among them. */
struct bucket_share {
	uint32_t self_id;
	uint32_t count; /* at most BUCKET_MEMBERS_MAX */
	struct bucket_member member[BUCKET_MEMBERS_MAX];
};

/* The announcer's message to the kernel: the share, and the time until which this node may accept SYNs by it. */
struct bucket_lease {
	uint32_t version; /* BUCKET_LEASE_VERSION */
	uint32_t reserved; /* 0 */
	uint64_t until_ns; /* CLOCK_MONOTONIC */
	struct bucket_share share;
};

/*
 * The lease in memory that the announcer and BPF programs share. share[active] is in use; the other one was in use
 * before. The writer fills the other one, then changed_ns, then active, each with one atomic store; readers load active
 * first.
 */
struct bucket_lease_cell {
	uint64_t until_ns;
	uint64_t changed_ns;
	uint32_t active;
	uint32_t reserved;
	struct bucket_share share[2];
};

enum bucket_verdict {
	BUCKET_ACCEPT, /* mine */
	BUCKET_ACCEPT_COPY, /* no longer mine, but I answered the first copy */
	BUCKET_REFUSE_FOREIGN, /* another node's */
	BUCKET_REFUSE_COPY, /* mine now, but a living node got the first copy */
	BUCKET_REFUSE_NO_LEASE, /* mine, but this node may not act without a lease */
};

static inline uint64_t bucket_rotate(uint64_t x, unsigned int bits)
{
	return x << bits | x >> (64 - bits);
}

static inline void bucket_sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = bucket_rotate(v[1], 13) ^ v[0];
	v[0] = bucket_rotate(v[0], 32);
	v[2] += v[3];
	v[3] = bucket_rotate(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = bucket_rotate(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = bucket_rotate(v[1], 17) ^ v[2];
	v[2] = bucket_rotate(v[2], 32);
}

/*
 * SipHash-1-3 (Aumasson and Bernstein 2012) of client and service address (16 bytes each, IPv4 mapped into IPv6, as two
 * words in memory order), and of the ports in network order. The key is secret: otherwise a client could choose its
 * node.
 */
static inline uint64_t bucket_hash(const uint64_t key[2], const uint64_t client[2], const uint64_t service[2],
				   uint16_t client_port, uint16_t service_port)
{
	const uint64_t words[5] = { client[0], client[1], service[0], service[1],
				    (uint64_t)36 << 56 | (uint64_t)client_port << 16 | service_port };
	uint64_t v[4] = { key[0] ^ 0x736f6d6570736575ull, key[1] ^ 0x646f72616e646f6dull,
			  key[0] ^ 0x6c7967656e657261ull, key[1] ^ 0x7465646279746573ull };
	unsigned int i;

	for (i = 0; i < 5; i++) {
		v[3] ^= words[i];
		bucket_sip_round(v);
		v[0] ^= words[i];
	}
	v[2] ^= 0xff;
	for (i = 0; i < 3; i++)
		bucket_sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static inline uint32_t bucket_of(uint64_t hash)
{
	return (uint32_t)(hash >> 48);
}

/* The finalizer of splitmix64. */
static inline uint64_t bucket_mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* 65536 * -log2((u + 1) / 2^32), by a table with 64 steps: 0 .. 2^21. */
static inline uint32_t bucket_cost(uint32_t u)
{
	static const uint32_t log2_table[65] = {
		0,     1466,  2909,  4331,  5732,  7112,  8473,  9814,  11136, 12440, 13727, 14996, 16248,
		17484, 18704, 19909, 21098, 22272, 23433, 24579, 25711, 26830, 27936, 29029, 30109, 31178,
		32234, 33279, 34312, 35334, 36346, 37346, 38336, 39316, 40286, 41246, 42196, 43137, 44068,
		44990, 45904, 46809, 47705, 48593, 49472, 50344, 51207, 52063, 52911, 53751, 54584, 55410,
		56229, 57040, 57845, 58643, 59434, 60219, 60997, 61769, 62534, 63294, 64047, 64794, 65536,
	};
	uint64_t x = (uint64_t)u + 1;
	uint32_t whole = 0, fraction, step, rest;
	unsigned int shift;

	for (shift = 32; shift; shift >>= 1) {
		if (x >> shift >> whole)
			whole += shift;
	}
	fraction = (uint32_t)(x << (32 - whole));
	step = fraction >> 26;
	rest = fraction >> 10 & 0xffff;
	return (32u << 16) - (whole << 16) - log2_table[step] -
	       (uint32_t)((log2_table[step + 1] - log2_table[step]) * (uint64_t)rest >> 16);
}

/* The place of the member that owns the bucket; BUCKET_MEMBERS_MAX when no member has a share. */
static inline uint32_t bucket_owner_place(const struct bucket_share *share, uint32_t bucket)
{
	uint64_t best_cost = 0;
	uint32_t best_weight = 0, best_id = 0, best_place = BUCKET_MEMBERS_MAX, i;

	for (i = 0; i < BUCKET_MEMBERS_MAX && i < share->count; i++) {
		const struct bucket_member *m = &share->member[i];
		uint64_t cost = bucket_cost((uint32_t)(bucket_mix((uint64_t)m->id << 16 | bucket) >> 32));
		/* cost / weight of both, multiplied by both weights */
		uint64_t here = cost * best_weight, best = best_cost * m->weight;

		if (best_id && (here > best || (here == best && m->id > best_id)))
			continue;
		best_cost = cost;
		best_weight = m->weight;
		best_id = m->id;
		best_place = i;
	}
	return best_place;
}

/* Its id; 0 when no member has a share. */
static inline uint32_t bucket_owner(const struct bucket_share *share, uint32_t bucket)
{
	uint32_t place = bucket_owner_place(share, bucket);

	return place < BUCKET_MEMBERS_MAX ? share->member[place].id : 0;
}

/*
 * A short form of a member's id, for the memory of refused SYNs. Two members of one cluster rarely have the same one;
 * then a copy waits although it need not.
 */
static inline uint32_t bucket_tag(uint32_t id)
{
	return id % BUCKET_TAG_HERE;
}

static inline bool bucket_has_share(const struct bucket_share *share, uint32_t tag)
{
	uint32_t i;

	for (i = 0; i < BUCKET_MEMBERS_MAX && i < share->count; i++) {
		if (bucket_tag(share->member[i].id) == tag)
			return true;
	}
	return false;
}

/* The facts that judging a SYN needs; all times are on CLOCK_MONOTONIC. */
struct bucket_syn {
	uint64_t now_ns;
	uint64_t until_ns; /* of the lease */
	uint64_t changed_ns; /* when the share last changed */
	uint32_t bucket;
	bool has_request; /* a half-open socket of this node waits for this very connection */
	bool refused_before; /* this node refused the same SYN, see bucket_copy_recall() */
	uint32_t refused_tag; /* bucket_tag() of the node whose it was, or BUCKET_TAG_HERE */
	uint64_t refused_age_ns; /* the time since the last refusal as another node's, or the first one as a copy */
};

/*
 * Decides whether this node may answer a SYN to a shared address. owner has the bucket by the share, former_owner by
 * the share in use before.
 *
 * After a bucket moved from one living node to another, both saw the first copy of a SYN, and the former owner may have
 * answered it: until BUCKET_COPY_PATIENCE_NS have passed, copies stay with it. It gave the bucket up before the other
 * one got it, so its patience ends first. A node that has no share any more is dead, or has no lease and answers no SYN:
 * there is nothing to wait for.
 *
 * Any change of the shares sets changed_ns, also one that leaves this bucket here. Such a change must not begin the
 * patience again, or a SYN would wait as long as other nodes come and go. So the first copy that waits here begins it:
 * the bucket had moved by then, and a patience later the former owner keeps silent.
 */
static inline enum bucket_verdict bucket_judge_owned(const struct bucket_share *share, uint32_t owner,
						     uint32_t former_owner, const struct bucket_syn *syn)
{
	bool leased = syn->now_ns < syn->until_ns;
	bool moved = syn->now_ns < syn->changed_ns + BUCKET_COPY_PATIENCE_NS;

	if (!owner)
		return leased ? BUCKET_REFUSE_FOREIGN : BUCKET_REFUSE_NO_LEASE;
	if (owner != share->self_id) {
		if (!moved || !leased || !syn->has_request || former_owner != share->self_id)
			return BUCKET_REFUSE_FOREIGN;
		return BUCKET_ACCEPT_COPY;
	}
	if (!leased)
		return BUCKET_REFUSE_NO_LEASE;
	if (!moved || !syn->refused_before)
		return BUCKET_ACCEPT;
	if (syn->refused_tag != BUCKET_TAG_HERE)
		return bucket_has_share(share, syn->refused_tag) ? BUCKET_REFUSE_COPY : BUCKET_ACCEPT;
	if (former_owner == share->self_id && syn->refused_age_ns >= BUCKET_COPY_PATIENCE_NS)
		return BUCKET_ACCEPT;
	return BUCKET_REFUSE_COPY;
}

/* The same; former is the share in use before. */
static inline enum bucket_verdict bucket_judge(const struct bucket_share *share, const struct bucket_share *former,
					       const struct bucket_syn *syn)
{
	return bucket_judge_owned(share, bucket_owner(share, syn->bucket), bucket_owner(former, syn->bucket), syn);
}

/*
 * Refused SYNs are remembered in an array of words, each at the place of its hash; a later one overwrites it. Half a
 * minute lies between the last copies of a SYN (RFC 6298). A word holds 36 bits of the hash, a tag, and the time in units
 * of 2^24 ns (16.8 ms), which wraps after 275 s.
 */
static inline uint64_t bucket_copy_hash(uint64_t tuple_hash, uint32_t sequence)
{
	return bucket_mix(tuple_hash ^ sequence);
}

static inline uint64_t bucket_copy_word(uint64_t copy_hash, uint32_t tag, uint64_t now_ns)
{
	return (copy_hash & ~0xfffffffull) | (uint64_t)(tag & BUCKET_TAG_MASK) << 14 | (now_ns >> 24 & 0x3fff);
}

/*
 * A word of a version that had no tags: more bits of the hash or of the time are in their place. The copy waits as here,
 * for the node is not known.
 */
static inline uint64_t bucket_copy_former_word(uint64_t word)
{
	return (word & ~((uint64_t)BUCKET_TAG_MASK << 14)) | (uint64_t)BUCKET_TAG_HERE << 14;
}

/* Fills the three facts of a refusal. */
static inline void bucket_copy_recall(uint64_t word, uint64_t copy_hash, struct bucket_syn *syn)
{
	syn->refused_age_ns = (((syn->now_ns >> 24) - word) & 0x3fff) << 24;
	syn->refused_tag = (uint32_t)(word >> 14) & BUCKET_TAG_MASK;
	syn->refused_before = (word ^ copy_hash) >> 28 == 0 && syn->refused_age_ns <= BUCKET_COPY_MEMORY_NS;
}

/* The word after BUCKET_REFUSE_COPY. stayed: the bucket was this node's by the share in use before, too. */
static inline uint64_t bucket_copy_waits(uint64_t word, uint64_t copy_hash, const struct bucket_syn *syn, bool stayed)
{
	if (stayed && syn->refused_tag == BUCKET_TAG_HERE)
		return word;
	return bucket_copy_word(copy_hash, BUCKET_TAG_HERE, syn->now_ns);
}

#endif
