/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * report.h - what the files of "dprd --check" share.
 */
#ifndef DPRD_CHECK_REPORT_H
#define DPRD_CHECK_REPORT_H

#include <stdbool.h>
#include <stdint.h>

struct config;

struct report {
	unsigned errors, warnings;
	bool to_log;
	bool redirects_told; /* for one real server; the same command mends it for all */
};

/* Prints a problem with the command that mends it; report->to_log: logs it. fatal: it makes dprd useless. */
void problem(struct report *report, bool fatal, const char *what, const char *mend);

/* check/pins.c: checks that the user that dprd will run as may pin its maps. */
void preflight_pins(struct report *r, const struct config *config);

/* check/listen.c: checks that the web server takes connections to peers' addresses. */
void preflight_listeners(struct report *r, const struct config *config);

/* True for a family when a server listens on a port of the wildcard address. */
struct wildcard {
	bool v4, v6;
};

/* Fills ret[] for each of the ports. 0, or -errno: the kernel does not tell. */
int preflight_wildcards(const uint16_t *ports, unsigned count, struct wildcard *ret);

#endif
