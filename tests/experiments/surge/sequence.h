/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sequence.h - the plan of every user equivalent: its files, and the pause after each.
 *
 * All of it is made before the run, by a run in which every answer takes no time: users take their pages in
 * the order in which they would then ask, from one sequence of references for all. So a user asks for the
 * same files with the same pauses however slow a server is, never runs out of them, and the server sees about
 * the intended order. The files of a page are neighbours in the sequence; a page has no list of its own, which
 * would bend popularity. A longer plan begins as the shorter one does.
 */
#ifndef TESTS_EXPERIMENTS_SURGE_SEQUENCE_H
#define TESTS_EXPERIMENTS_SURGE_SEQUENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/experiments/surge/objects.h"

enum { USERS_MAX = 100000, STEPS_MAX = 50000000 };

/* After the last file of a page comes an inactive OFF time, after the others an active one. */
struct step {
	uint32_t file : 31; /* index into the file set */
	uint32_t is_last_of_page : 1;
	uint32_t pause_us;
};

struct user_plan {
	struct step *steps; /* whole pages */
	uint32_t count, room;
};

struct plan {
	unsigned users;
	struct user_plan *of;
	/* The order in which the files were drawn, for all users; NULL when not asked for. */
	uint32_t *order;
	size_t order_count, order_room;
};

/*
 * Enough for that many seconds. 0, -ENOMEM, or -E2BIG when that would be more than about STEPS_MAX steps; then there is
 * nothing to free.
 */
int plan_make(struct plan *plan, const struct file_set *set, unsigned users, double seconds, uint64_t seed,
	      bool keep_order);
void plan_free(struct plan *plan);

#endif
