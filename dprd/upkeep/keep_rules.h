/* SPDX-License-Identifier: GPL-2.0-or-later */
/* keep_rules.h - keeps the firewall rules complete and up to date. */
#ifndef DPRD_KEEP_RULES_H
#define DPRD_KEEP_RULES_H

#include <stdbool.h>
#include <stdint.h>

struct config;
struct dprd;

struct keep_rules {
	uint64_t checked_ms, doubt_checked_ms;
	bool doubted; /* another program changed the firewall: dprd must check that its rules are there */
	uint64_t tried_ms; /* when they were last set up, after the start */
	bool routes_gone; /* and cannot be set up; it was logged */
	bool flood_refused; /* this kernel's firewall has no limit: dprd does not ask again */
};

void keep_rules_start(struct dprd *d); /* after rules_install() */
/* Each tick, and after a reload: sets up the rules if they are gone or must change. After a failure it tries again each
 * second. Main thread, lock not held. */
void keep_rules_tick(struct dprd *d, uint64_t now_ms);
/*
 * Each second: sets up local routes that went away; rules for answers of containers come when the host begins to route.
 * Main thread, lock not held.
 */
void keep_rules_second(struct dprd *d);
/* Each tick, nfqueue plane: tells the firewall when a flood of SYNs begins and ends. Main thread, lock not held. */
void keep_rules_flood(struct dprd *d, uint64_t now_ms);

/* After a change of the configuration: the rules must be set up again. Main thread, lock not held. */
void keep_rules_reconfigure(struct dprd *d, const struct config *former);

#endif
