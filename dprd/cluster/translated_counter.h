/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * translated_counter.h - a thread that counts connections of the service in the kernel's connection tracking, each time
 * that it is asked to.
 */
#ifndef DPRD_TRANSLATED_COUNTER_H
#define DPRD_TRANSLATED_COUNTER_H

#include <stdbool.h>
#include <stdint.h>

#include "dprd/config/config.h"
#include "dprd/core/policy/tally.h"

struct translated_counter;

enum translated_answer {
	TRANSLATED_NONE, /* not asked, or the answer was taken */
	TRANSLATED_WAIT,
	TRANSLATED_READY,
	TRANSLATED_FAILED,
};

/* NULL with errno set. */
struct translated_counter *translated_counter_new(void);
void translated_counter_free(struct translated_counter *counter); /* NULL is fine */

/* Asks for a count by this configuration, which is copied as far as it is needed. Not while one is under way. */
void translated_counter_ask(struct translated_counter *counter, const struct config *config);
/* TRANSLATED_READY: *ret is filled in, except own. Both ends of a count give its processor time, too. */
enum translated_answer translated_counter_take(struct translated_counter *counter, struct tally_count *ret,
					       uint64_t *ret_took_us);

#endif
