/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * standby_noted.h - the SYNs that the standby process lets pass, in memory that dprd reads. A SYN and its copies have
 * the same number, and a place keeps the newest number. Two SYNs may have one number: then this node serves both. Pure,
 * header only.
 */
#ifndef DPRD_STANDBY_NOTED_H
#define DPRD_STANDBY_NOTED_H

#include "dprd/core/flow/flow.h"
#include "dprd/core/packet/packet.h"

enum { STANDBY_NOTED_PLACES = 1024 };

struct standby_noted {
	uint64_t number[STANDBY_NOTED_PLACES]; /* 0: none */
};

/* The number of a SYN; never 0. */
static inline uint64_t standby_number(const struct packet *syn)
{
	const uint64_t key[2] = { syn->tcp_sequence };

	return flow_hash(key, &syn->key) | 1;
}

static inline unsigned standby_place(uint64_t number)
{
	return (unsigned)(number / 2 % STANDBY_NOTED_PLACES);
}

/* Other processors see the note before anything that the caller reads or does next. */
static inline void standby_note(struct standby_noted *noted, const struct packet *syn)
{
	uint64_t number = standby_number(syn);

	__atomic_store_n(&noted->number[standby_place(number)], number, __ATOMIC_SEQ_CST);
}

static inline bool standby_is_noted(const struct standby_noted *noted, const struct packet *syn)
{
	uint64_t number = standby_number(syn);

	return __atomic_load_n(&noted->number[standby_place(number)], __ATOMIC_SEQ_CST) == number;
}

#endif
