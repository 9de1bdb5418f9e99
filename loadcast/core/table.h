/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * table.h - this node's knowledge about the others: takes datagrams, makes the load table. Pure.
 *
 * Freshness needs no common clock. A sender's (epoch, sequence) strictly grows, and a node echoes the newest sequence
 * it heard from each other node. An echo of one of our own recent sequences proves that its sender was alive after we
 * sent it: only that makes a peer eligible (NODE_ECHOES), and only that lets another epoch replace a living one.
 * docs/announce.md gives the proof.
 *
 * Times are the caller's now_ms. Everything is of fixed size; nothing here allocates.
 */
#ifndef LOADCAST_TABLE_H
#define LOADCAST_TABLE_H

#include "loadcast/core/announce.h"
#include "loadcast/core/share.h"

enum {
	TABLE_SENT_MAX = 512, /* own sequences whose sending time is remembered */
	TABLE_RATE_FACTOR = 4, /* limit for one member, as a multiple of its expected rate */
	TABLE_RATE_FACTOR_SHARED = 16, /* with shared addresses: a member that is asked announces out of turn */
	TABLE_RATE_BURST = 8,
	TABLE_LATE_MAX = 2, /* a copy on a slower way may be this many sequences behind */
	TABLE_CONFLICT_MS = 10000, /* how long a proven conflict of names is believed */
	TABLE_REJECTED_MS = 20000, /* how long a rejected announcement is told; longer than the longest period */
};

/* Counts tokens in thousandths. */
struct token_bucket {
	uint64_t filled_ms;
	uint32_t tokens_milli;
};

struct table_member {
	uint64_t epoch, sequence, heard_ms;
	uint64_t switched_sequence; /* our newest sequence when this epoch was first taken */
	uint64_t retired_epoch;
	uint64_t echo_sent_ms; /* when we sent the newest of ours that it echoed */
	uint64_t conflict_ms;
	struct token_bucket current, other; /* for the epoch heard, for all other epochs */
	uint32_t id;
	uint32_t state, weight, service_hash;
	uint32_t period_ms; /* announced; 0: nothing yet */
	struct load_sample sample;
	uint8_t hardware[2][HARDWARE_BYTES];
	char version[VERSION_BYTES]; /* announced in this epoch; empty: none yet */
	uint32_t ports_down, held_permille, shorter_times; /* as in struct node_load */
	enum rejection rejected; /* of the announcement that came at rejected_ms, from rejected_from; none since */
	uint64_t rejected_ms;
	struct addr rejected_from;
	uint32_t rejects; /* as in struct node_load */
	uint32_t probes; /* enum status_probes: as announced */
	bool unproven[2], narrow[2]; /* by family: it says that probes of this node, or full-size ones, do not arrive */
	bool heard; /* an announcement was taken: the epoch is known */
	bool echoed; /* this epoch has echoed one of our announcements */
	bool retired; /* this epoch replaced retired_epoch with proof */
	bool conflict; /* proven at conflict_ms */
	bool dprd_up;
};

/* The facts that this node announces of itself. */
struct table_own {
	uint32_t state; /* enum node_state */
	bool dprd_up;
	struct load_sample sample;
	uint64_t sampled_ms;
	uint8_t hardware[2][HARDWARE_BYTES]; /* as in struct node_load */
	char version[VERSION_BYTES]; /* the same */
	uint32_t ports_down, held_permille, shorter_times, agent; /* the same */
	struct status_proofs proofs; /* of the ways to this node */
	unsigned port_count; /* the ports that dprd serves, when not all; 0: those of the configuration */
	uint16_t port[PORTS_MAX];
	uint32_t service_hash; /* of the file that dprd has, when it is not that of the configuration; 0: it is */
};

struct table {
	const struct config *config;
	bool observer; /* only listens: it has no id and echoes nothing, so other nodes never see it alive */
	uint32_t self_id;
	uint32_t service_hash;
	unsigned port_count; /* the service ports that ports_down is about */
	uint16_t port[PORTS_MAX];
	uint64_t epoch, sequence; /* of the announcement last made */
	uint64_t sent_ms[TABLE_SENT_MAX]; /* by sequence % TABLE_SENT_MAX */
	struct table_own own;
	struct share *share; /* of the shared addresses; NULL: there are none */
	uint64_t asked_by; /* a bit for each member that asked for an answer; the caller clears it */
	/* A member stopped taking connections, or those to one port, or those of one family; the caller clears it. */
	bool lost;
	uint64_t rejected[REJECT_REASONS]; /* [REJECT_NONE] counts those taken */
	struct table_member member[MEMBERS_MAX]; /* as in the configuration; at self: a second host with our name */
};

/* The configuration must outlive the table. An observer is not a member and never announces. */
void table_init(struct table *table, const struct config *config, bool observer, uint64_t epoch);

/* Takes another configuration; keeps what is known of members that stay. */
void table_reconfigure(struct table *table, const struct config *config);

/* One datagram from the network. REJECT_NONE: taken. Every reason is counted in rejected[]. */
enum reject table_receive(struct table *table, const struct announce_keys *keys, const struct addr *source,
			  const uint8_t *datagram, size_t size, uint64_t now_ms);

/* Makes the next own announcement and remembers the time. Returns its size, or 0 when there is no key. */
size_t table_announce(struct table *table, const struct announce_keys *keys, uint64_t now_ms,
		      uint8_t datagram[ANNOUNCE_BYTES_MAX]);

/* This node comes first (an observer fills only members). The publisher sets magic, version and checksum. */
void table_fill(const struct table *table, uint64_t now_ms, struct load_table *ret);

/* A second host with our name is alive: announcing must stop. */
bool table_own_conflict(const struct table *table, uint64_t now_ms);

/* Connections per unit of configured weight: of this node, and of all nodes that are heard, this one included. */
void table_mean_load(const struct table *table, uint64_t now_ms, double *ret_own, double *ret_mean);

/* Sum of the reasons that count. Saturates. */
uint32_t table_rejected(const struct table *table);

#endif
