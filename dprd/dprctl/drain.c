// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * dprctl/drain.c - asks dprd to drain and waits until no connection depends on this host: it forwards
 * none, and its web server has none.
 */
#include "dprd/dprctl/dprctl.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "dprd/base/clock.h"

enum { DRAIN_POLL_MS = 1000 };

/* The states in column 4 of /proc/net/tcp, by the kernel's numbers. */
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

/* Connections here at one moment. */
struct left {
	char node[NAME_BYTES]; /* that answers */
	long flows; /* forwarded by dprd; negative: not known */
	bool draining; /* false: new connections take the place of those that ended */
	unsigned served; /* by the web server; not valid when not_known says why */
	const char *not_known;
};

/* The service ports that dprd runs with; the file may have others, or errors. False: the answer does not have them. */
static bool take_ports(const json_t *status, uint16_t ports[PORTS_MAX], unsigned *ret_count)
{
	const json_t *list = json_object_get(status, "ports"), *port;
	size_t i;

	*ret_count = 0;
	if (!json_array_size(list) || json_array_size(list) > PORTS_MAX)
		return false;
	json_array_foreach(list, i, port)
	{
		json_int_t number = json_integer_value(port);

		if (number < 1 || number > UINT16_MAX)
			return false;
		ports[i] = (uint16_t)number;
	}
	*ret_count = (unsigned)i;
	return true;
}

static void count_here(const json_t *status, struct left *left)
{
	static const char *const paths[] = { "/proc/net/tcp", "/proc/net/tcp6" };
	uint16_t ports[PORTS_MAX];
	unsigned count, i;

	if (!take_ports(status, ports, &count)) {
		left->not_known = "the answer of dprd has no ports";
		return;
	}
	for (i = 0; i < 2; i++) {
		FILE *tcp = fopen(paths[i], "re");

		/* A kernel without IPv6 has no second file. */
		if (!tcp && i && errno == ENOENT)
			continue;
		if (!tcp) {
			left->not_known = "cannot read /proc/net/tcp";
			return;
		}
		left->served += count_served(tcp, ports, count);
		if (ferror(tcp))
			left->not_known = "cannot read /proc/net/tcp";
		fclose(tcp);
	}
}

static struct left ask_left(const struct dprctl *c)
{
	struct left left = { .flows = -1 };
	double half_open, confirmed, closing;
	const json_t *flows;
	json_t *status;

	if (dprctl_ask_one(c->run_dir, json_pack("{s:s}", "command", "status"), c->answer_ms, &status))
		return left;
	flows = json_object_get(status, "flows");
	snprintf(left.node, sizeof(left.node), "%s", text_of(status, "node"));
	left.draining = strcmp(text_of(status, "state"), "draining") == 0;
	/* The client of a closing flow is done; the flow stays only for packets that are still under way. */
	if (number_of(flows, "half_open", &half_open) && number_of(flows, "confirmed", &confirmed) &&
	    number_of(flows, "closing", &closing))
		left.flows = (long)(half_open + confirmed - closing);
	count_here(status, &left);
	json_decref(status);
	return left;
}

static void show_progress(const struct left *left, unsigned elapsed_s)
{
	char count[CELL_BYTES] = "?";

	if (!left->not_known)
		snprintf(count, sizeof(count), "%u", left->served);
	fprintf(stderr, "%s%s: %ld forwarded flows, %s connections served here, %u s%s",
		isatty(STDERR_FILENO) ? "\r" : "", left->node, left->flows, count, elapsed_s,
		isatty(STDERR_FILENO) ? "   " : "\n");
}

static void show_timeout(const struct left *left, unsigned elapsed_s)
{
	fprintf(stderr, "%sdprctl: %s: after %u s, ", isatty(STDERR_FILENO) ? "\n" : "", left->node, elapsed_s);
	if (left->not_known)
		fprintf(stderr,
			"%ld forwarded flows are left. It is not known how many connections the web server has: %s.\n"
			"Count them before you stop this node: ss -tn state established\n",
			left->flows, left->not_known);
	else
		fprintf(stderr,
			"%ld forwarded flows and %u connections are left. Clients may\n"
			"still resolve to this node: take its addresses out of DNS, or stop it anyway\n",
			left->flows, left->served);
}

int drain_and_wait(const struct dprctl *c)
{
	uint64_t start_ms = clock_now_ms();
	uint64_t elapsed_ms, timeout_ms = c->timeout_s * UINT64_C(1000);
	unsigned elapsed_s = 0, shown_s = 0;
	bool terminal = isatty(STDERR_FILENO);
	struct left left;

	for (;;) {
		left = ask_left(c);
		if (left.flows < 0) {
			fprintf(stderr, "%sdprctl: dprd no longer answers\n", terminal ? "\n" : "");
			return DPRCTL_FAILED;
		}
		if (!left.draining) {
			fprintf(stderr,
				"%sdprctl: %s no longer drains: an operator ran dprctl undrain.\n"
				"New connections come here again; run dprctl drain --wait again\n",
				terminal ? "\n" : "", left.node);
			return DPRCTL_FAILED;
		}
		elapsed_ms = clock_now_ms() - start_ms;
		elapsed_s = (unsigned)(elapsed_ms / 1000);
		/* When the number is not known there may be a connection. */
		if (left.flows == 0 && left.served == 0 && !left.not_known)
			break;
		/* In a log a line every 10 s is enough. */
		if (terminal || elapsed_s == 0 || elapsed_s - shown_s >= 10) {
			show_progress(&left, elapsed_s);
			shown_s = elapsed_s;
		}
		if (elapsed_ms >= timeout_ms) {
			show_timeout(&left, elapsed_s);
			return DPRCTL_DEGRADED;
		}
		usleep(1000 * (timeout_ms - elapsed_ms < DRAIN_POLL_MS ? (useconds_t)(timeout_ms - elapsed_ms)
								       : DRAIN_POLL_MS));
	}
	fprintf(stderr, "%s", terminal ? "\r" : "");
	printf("%s is drained: no forwarded flow, no connection served here, after %u s\n", left.node, elapsed_s);
	return DPRCTL_OK;
}
