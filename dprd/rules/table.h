/* SPDX-License-Identifier: GPL-2.0-or-later */
/* table.h - shared by the files of the rules: marks, sets, and the part for real servers. */
#ifndef DPRD_RULES_TABLE_H
#define DPRD_RULES_TABLE_H

#include <stdio.h>

#include "dprd/base/addr.h"
#include "dprd/config/config.h"
#include "dprd/core/packet/marks.h"

struct dprd;

/* The marks of the queues, as text for nft and iptables. */
#define RULES_FORWARD MARK_TEXT(MARK_FORWARD)
#define RULES_DECIDE MARK_TEXT(MARK_DECIDE)
#define RULES_BOTH MARK_TEXT(MARK_QUEUES)
#define RULES_CLEAR MARK_TEXT(MARK_OTHERS)

/* Matches a SYN that is not a SYN-ACK. */
#define RULES_SYN "tcp flags & (fin | syn | rst | ack) == syn"

/* The beginning of each line of nft's input that adds a rule. */
#define RULES_ADD "add rule inet dprd "

/* Parts of the configuration that become elements of a set; printed for one family at a time. */
struct rules_list {
	FILE *out;
	bool v6;
	unsigned count;
};

typedef void rules_fill_fn(const struct config *config, struct rules_list *list);

/* Writes nft's input for the table "inet dprd", for this plane, configuration and state. Lock not held. */
void rules_write_table(FILE *out, struct dprd *d);
/*
 * Writes iptables-restore's input for the chains of one family, behind "*raw"; without the jump to them. decide: new
 * SYNs are handed to dprd, too.
 */
void rules_write_queues(FILE *out, const struct config *config, unsigned workers, bool v6, bool decide);
/* PREROUTING of the tables "raw" jumps to this chain. */
#define RULES_QUEUES "DPRD"

/* rules/routes.c */
/* Sets up all routes that are needed, and removes those of dprd that are not. quiet: logs no failure. 0 or -errno. */
int rules_routes_install(const struct config *config, bool v6, bool quiet);
void rules_routes_remove(bool v6);
/*
 * Writes ip(8)'s input for the routes of one family. present: its list of ours; NULL: none. Returns the number of
 * lines.
 */
unsigned rules_routes_write(FILE *out, const struct config *config, bool v6, const char *present);

/* rules/sets.c */
/* Adds an element: the address and its suffix; adds nothing for an address of the other family. */
void rules_list_item(struct rules_list *list, const struct addr *address, const char *suffix);
/*
 * Each address and port that this node serves, as "address . port": its own ones, and its peers' in the form in which
 * their tunnelled packets arrive.
 */
rules_fill_fn rules_list_served;
/* The addresses that all nodes share. */
rules_fill_fn rules_list_shared;
/* Writes a set or map that is emptied and filled again within the transaction. */
void rules_write_set(FILE *out, const struct config *config, const char *kind, const char *name, bool v6,
		     const char *type, rules_fill_fn *fill);
/* Writes the chains that note and drop probes, of both planes. */
void rules_write_probed(FILE *out, const struct config *config);
/* Writes all sets of the nfqueue plane's chains, of one family. */
void rules_write_sets(FILE *out, const struct config *config, bool v6);

/* rules/backend.c */
/* Answers of real servers leave through this chain, after NAT; rules.c fills it on the nfqueue plane. */
#define RULES_NAT_LEAVING "backend_leaving"
/*
 * Writes the chains for real servers, of both planes; removes them when this node has no real servers. Lock not held.
 */
void rules_write_backends(FILE *out, struct dprd *d);

#endif
