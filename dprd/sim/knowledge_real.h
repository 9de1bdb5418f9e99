/* SPDX-License-Identifier: GPL-2.0-or-later */
/* knowledge_real.h - the tables of loadcast itself: datagrams are made, signed, checked and taken as on a network. */
#ifndef DPRD_SIM_KNOWLEDGE_REAL_H
#define DPRD_SIM_KNOWLEDGE_REAL_H

#include "dprd/sim/knowledge.h"

/* NULL: out of memory. All nodes have heard each other at time 0. */
struct real_tables *real_tables_new(const struct sim_setup *setup, uint32_t first_arrivals_per_1000_s[]);
void real_tables_free(struct real_tables *real);

/* Call in the order of sending; the announcements arrive in the same order. False: out of memory. */
bool real_tables_announce(struct real_tables *real, unsigned node, uint32_t open, uint32_t arrivals_per_1000_s,
			  double now_s);
/*
 * real_tables_hear(): the oldest announcement under way reaches one node. real_tables_arrived(): no other node will hear
 * it.
 */
void real_tables_hear(struct real_tables *real, unsigned node, double heard_at_s);
void real_tables_arrived(struct real_tables *real);

/* Starts a process of another epoch, which knows nothing. */
void real_tables_revive(struct real_tables *real, unsigned node);

/* Does as knowledge_view(), except for sent. *ret_sequence[i] belongs to the announcement behind nodes[i]. */
bool real_tables_view(struct real_tables *real, unsigned self, double now_s, struct view_node *nodes,
		      uint32_t *ret_sequence);

#endif
