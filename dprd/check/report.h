/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * report.h - what the files of "dprd --check" share.
 */
#ifndef DPRD_CHECK_REPORT_H
#define DPRD_CHECK_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "dprd/base/addr.h"

struct config;

struct report {
	unsigned errors, warnings;
	bool to_log;
	bool redirects_told; /* for one real server; the same command fixes it for all */
};

/* Prints a problem with the command that fixes it; report->to_log: logs it. fatal: it makes dprd useless. */
void problem(struct report *report, bool fatal, const char *what, const char *mend);

/* check/pins.c: checks that the user that dprd will run as may pin its maps. */
void preflight_pins(struct report *r, const struct config *config);

/* check/listen.c: checks that the web server takes connections to peers' addresses. */
void preflight_listeners(struct report *r, const struct config *config);

/*
 * check/host.c: checks the users of the units, the rules of other programs (only for --check), and the time namespace.
 */
void preflight_users(struct report *r);
void preflight_firewall(struct report *r);
void preflight_clocks(struct report *r);
/* True in a time namespace with a clock of its own. offsets: PREFLIGHT_OFFSETS, or another file of this form. */
bool preflight_has_other_clock(const char *offsets);
#define PREFLIGHT_OFFSETS "/proc/self/timens_offsets"
#define PREFLIGHT_CLOCK_TEXT                                                                                        \
	"dprd is in a time namespace with clocks of its own: the BPF programs and the queue read other times than " \
	"dprd, "                                                                                                    \
	"and nothing is forwarded"
#define PREFLIGHT_CLOCK_ADVICE "Run dprd and loadcast in the host's time namespace"
/* True for a rule, as nft prints it, that drops packets whose source is routed by another interface. */
bool preflight_is_strict(const char *rule);

/*
 * check/inbound.c: tests whether the host's firewall lets in the packets of peers. Needs the rights of the BPF plane.
 */
void preflight_inbound(struct report *r, const struct config *config);

/* check/routing.c: policy routing by source that forwarded connections do not meet. */
void preflight_routing(struct report *r, const struct config *config);

enum { SOURCE_RULES_MAX = 64 };

/* "ip rule ... from PREFIX lookup TABLE" */
struct source_rule {
	struct addr prefix;
	unsigned bits; /* counted in the 16 bytes of the address */
	bool inverted;
	uint32_t table;
};

struct source_rules {
	unsigned count;
	struct source_rule rule[SOURCE_RULES_MAX];
};

bool preflight_rule_matches(const struct source_rule *rule, const struct addr *address);
/* The first rule that matches the own address, when none matches the other; NULL: there is none. */
const struct source_rule *preflight_rule_of_own(const struct source_rules *rules, const struct addr *own,
						const struct addr *other);

/* True for a family when a server listens on a port of the wildcard address. */
struct wildcard {
	bool v4, v6;
};

/* Fills ret[] for each of the ports. 0, or -errno: the kernel does not tell. */
int preflight_wildcards(const uint16_t *ports, unsigned count, struct wildcard *ret);

#endif
