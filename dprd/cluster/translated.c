// SPDX-License-Identifier: GPL-2.0-or-later
#include "dprd/cluster/translated.h"

#include <errno.h>
#include <string.h>

#include "dprd/base/clock.h"
#include "dprd/base/log.h"
#include "dprd/cluster/state.h"
#include "dprd/cluster/translated_counter.h"
#include "dprd/fastpath/fastpath.h"
#include "loadcast/core/announce.h"
#include "loadcast/sample.h"

enum {
	COUNT_PERIOD_MS = 100,
	COUNT_PAUSE = 200, /* a count takes at most one part in this many of a processor's time */
	LOOK_PERIOD_MS = 4000, /* while none is open, and none begins */
};

void translated_open(struct dprd *d)
{
	d->translated = (struct translated) { .counter = translated_counter_new() };
	if (!d->translated.counter)
		log_warning(
			"cannot ask the kernel's connection tracking (%s): connections to published ports are no load",
			strerror(errno));
}

void translated_close(struct dprd *d)
{
	translated_counter_free(d->translated.counter);
	d->translated.counter = NULL;
}

static bool is_due(struct dprd *d, uint64_t now_ms)
{
	const struct translated *t = &d->translated;
	bool may_change;

	mutex_lock(&d->lock);
	if (t->tally.used)
		translated_take_stayed(d);
	may_change = tally_may_change(&t->tally);
	mutex_unlock(&d->lock);
	return now_ms >=
	       t->ended_ms + (may_change ? COUNT_PERIOD_MS : LOOK_PERIOD_MS) + t->took_us * COUNT_PAUSE / 1000;
}

static void start(struct dprd *d, uint64_t now_ms)
{
	mutex_lock(&d->lock);
	translated_take_stayed(d);
	tally_start(&d->translated.tally, now_ms);
	mutex_unlock(&d->lock);
	d->translated.started = true;
}

/* When the count has failed, the former one stays, and connections that began since are added as before. */
static void end(struct dprd *d, bool failed, struct tally_count *found)
{
	struct translated *t = &d->translated;

	t->ended_ms = clock_now_ms();
	t->started = false;
	mutex_lock(&d->lock);
	translated_take_stayed(d);
	if (!failed && !sampler_open_connections(d->sampler, &found->own))
		tally_end(&t->tally, found, t->ended_ms);
	mutex_unlock(&d->lock);
}

void translated_refresh(struct dprd *d, uint64_t now_ms)
{
	struct translated *t = &d->translated;
	struct tally_count found;
	enum translated_answer answer;

	if (!t->counter)
		return;
	answer = translated_counter_take(t->counter, &found, &t->took_us);
	if (answer == TRANSLATED_READY || answer == TRANSLATED_FAILED)
		end(d, answer == TRANSLATED_FAILED, &found);
	if (answer != TRANSLATED_NONE)
		return;
	/* Connections that have begun by now complete their handshake until the next tick, and are found then. */
	if (t->started)
		translated_counter_ask(t->counter, &d->config); /* only this thread changes the configuration */
	else if (is_due(d, now_ms))
		start(d, now_ms);
}

bool translated_used(const struct dprd *d)
{
	mutex_assert_held(&d->lock);
	return d->translated.tally.used;
}

void translated_began(struct dprd *d, unsigned connections)
{
	mutex_assert_held(&d->lock);
	if (connections)
		tally_began(&d->translated.tally, connections, clock_now_ms());
}

void translated_take_stayed(struct dprd *d)
{
	mutex_assert_held(&d->lock);
	if (d->fastpath)
		translated_began(d, __atomic_exchange_n(&d->fastpath->control->stayed, 0, __ATOMIC_RELAXED));
}

uint32_t translated_connections(const struct dprd *d)
{
	double open = tally_open(&d->translated.tally, clock_now_ms());

	mutex_assert_held(&d->lock);
	return open < ANNOUNCE_LOAD_MAX ? (uint32_t)(open + 0.5) : ANNOUNCE_LOAD_MAX;
}
