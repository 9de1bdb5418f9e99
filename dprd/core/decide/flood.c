// SPDX-License-Identifier: GPL-2.0-or-later
#include "dprd/core/decide/flood.h"

/* True when a window ends now in which SYNs came too fast. */
static bool is_fast(struct flood *flood, const struct flood_signs *signs, uint64_t now_ms)
{
	uint64_t elapsed_ms = now_ms - flood->window_ms, syns = signs->syns - flood->window_syns;

	if (elapsed_ms < FLOOD_WINDOW_MS)
		return false;
	flood->window_ms = now_ms;
	flood->window_syns = signs->syns;
	/* A window that began before the first call, or that lasted too long, gives no rate. */
	return elapsed_ms < 5 * FLOOD_WINDOW_MS && syns * 1000 > signs->max_per_second * elapsed_ms;
}

bool flood_update(struct flood *flood, const struct flood_signs *signs, uint64_t now_ms)
{
	bool fast = is_fast(flood, signs, now_ms);

	if (fast || signs->half_open > signs->max_half_open / 4 * 3) {
		bool began = !flood->on;

		flood->on = true;
		flood->since_ms = now_ms;
		return began;
	}
	if (!flood->on || signs->half_open > signs->max_half_open / 8 || now_ms - flood->since_ms < FLOOD_LASTS_MS)
		return false;
	flood->on = false;
	return true;
}

void flood_passed(struct flood *flood, uint64_t passed, uint32_t max_per_second, uint64_t now_ms)
{
	uint64_t elapsed_ms = now_ms - flood->passed_ms, more = passed > flood->passed ? passed - flood->passed : 0;

	flood->passed_ms = now_ms;
	flood->passed = passed;
	/* A number from before the flood gives no rate. */
	if (elapsed_ms < FLOOD_LASTS_MS && more * 1000 > max_per_second * elapsed_ms)
		flood->since_ms = now_ms;
}
