// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * dprctl_drain.c - asks dprd to drain and waits until nothing depends on this host: no connection is
 * forwarded by it, and its web server has none.
 */
#include "dprd/dprctl.h"

#include <string.h>
#include <unistd.h>

#include "dprd/base/clock.h"

enum { DRAIN_POLL_S = 1 };

/* Column 4 of /proc/net/tcp, by the kernel's numbers. */
enum { STATE_SYN_RECV = 3, STATE_TIME_WAIT = 6, STATE_CLOSE = 7, STATE_LISTEN = 10 };

unsigned count_served(FILE *tcp, const uint16_t *ports, unsigned port_count)
{
	unsigned served = 0, port, state, i;
	char line[512];

	while (fgets(line, sizeof(line), tcp)) {
		if (sscanf(line, " %*u: %*32[0-9A-Fa-f]:%4x %*32[0-9A-Fa-f]:%*4x %2x", &port, &state) != 2 ||
		    state == STATE_SYN_RECV || state == STATE_TIME_WAIT || state == STATE_CLOSE ||
		    state == STATE_LISTEN)
			continue;
		for (i = 0; i < port_count && ports[i] != port; i++)
			;
		served += i < port_count;
	}
	return served;
}

static bool served_here(const struct config *config, unsigned *ret)
{
	static const char *const paths[] = { "/proc/net/tcp", "/proc/net/tcp6" };
	unsigned i, files = 0;

	*ret = 0;
	for (i = 0; config && i < 2; i++) {
		FILE *tcp = fopen(paths[i], "re");

		if (!tcp)
			continue;
		*ret += count_served(tcp, config->port, config->port_count);
		fclose(tcp);
		files++;
	}
	return files;
}

/* How many flows dprd forwards now; negative: it does not say. */
static long forwarded(const struct dprctl *c)
{
	json_t *status;
	const json_t *flows;
	double half_open, confirmed, closing;
	long sum = -1;

	if (dprctl_ask_one(c->run_dir, json_pack("{s:s}", "command", "status"), &status))
		return -1;
	flows = json_object_get(status, "flows");
	/* A closing flow's client is done: it is kept only for what may still be on its way. */
	if (number_of(flows, "half_open", &half_open) && number_of(flows, "confirmed", &confirmed) &&
	    number_of(flows, "closing", &closing))
		sum = (long)(half_open + confirmed - closing);
	json_decref(status);
	return sum;
}

static void show_progress(long flows, bool served_known, unsigned served, unsigned elapsed_s)
{
	char count[CELL_BYTES] = "?";

	if (served_known)
		snprintf(count, sizeof(count), "%u", served);
	fprintf(stderr, "%s%ld forwarded flows, %s connections served here, %u s%s", isatty(STDERR_FILENO) ? "\r" : "",
		flows, count, elapsed_s, isatty(STDERR_FILENO) ? "   " : "\n");
}

int drain_and_wait(const struct dprctl *c)
{
	uint64_t start_ms = clock_now_ms();
	unsigned served = 0, elapsed_s = 0, shown_s = 0;
	bool known = false, terminal = isatty(STDERR_FILENO);
	long flows;

	for (;;) {
		flows = forwarded(c);
		if (flows < 0) {
			fprintf(stderr, "%sdprctl: dprd no longer answers\n", terminal ? "\n" : "");
			return DPRCTL_FAILED;
		}
		known = served_here(c->config, &served);
		elapsed_s = (unsigned)((clock_now_ms() - start_ms) / 1000);
		if (flows == 0 && served == 0)
			break;
		/* Where nobody looks, a line per 10 s is enough. */
		if (terminal || elapsed_s == 0 || elapsed_s - shown_s >= 10) {
			show_progress(flows, known, served, elapsed_s);
			shown_s = elapsed_s;
		}
		if (elapsed_s >= c->timeout_s) {
			fprintf(stderr,
				"%sdprctl: after %u s, %ld forwarded flows and %u connections are left. Clients may\n"
				"still resolve to this node: take its addresses out of DNS, or stop it anyway\n",
				terminal ? "\n" : "", elapsed_s, flows, served);
			return DPRCTL_DEGRADED;
		}
		sleep(DRAIN_POLL_S);
	}
	fprintf(stderr, "%s", terminal ? "\r" : "");
	printf("drained: no forwarded flow, no connection served here, after %u s\n", elapsed_s);
	return DPRCTL_OK;
}
