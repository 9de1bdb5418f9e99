// SPDX-License-Identifier: GPL-2.0-or-later
#include "loadcast/core/slow_start.h"

uint16_t slow_start_held(struct slow_start *s, bool serves, unsigned duration_ms, uint64_t now_ms)
{
	uint64_t passed_ms;

	if (serves && !s->serves)
		s->since_ms = now_ms;
	s->serves = serves;
	passed_ms = now_ms - s->since_ms;
	if (!serves || !s->since_ms || passed_ms >= duration_ms)
		return 0;
	return (uint16_t)(SLOW_START_HELD * (duration_ms - passed_ms) / duration_ms);
}
