/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alias.h - the aliases of peers' service addresses, which survive every change of the file.
 *
 * An alias is in use on one node alone, so nodes need not agree on it. On that node it must stay for as long as
 * connections use it, also when members are added to the file, removed or moved. So dprd keeps a book of the aliases
 * that it gave out, and leaves it to the next dprd.
 */
#ifndef DPRD_CONFIG_ALIAS_H
#define DPRD_CONFIG_ALIAS_H

#include "dprd/config/config.h"

enum {
	ALIASES_MAX =
		2 * MEMBERS_MAX * MEMBER_SERVICES_MAX, /* half of them for addresses that the file no longer has */
	ALIASES_TEXT_BYTES = ALIASES_MAX * 2 * ADDR_TEXT_BYTES,
};

/* The oldest first. No service address comes twice, no alias comes twice. */
struct aliases {
	unsigned count;
	struct alias {
		struct addr service, alias;
	} pair[ALIASES_MAX];
};

/*
 * Gives each service address of a peer its alias in config. An address of the book keeps its alias while [Alias] Range=
 * contains it. A new address gets the alias of its place in the file, as in former versions, or the next free one. The
 * aliases of addresses that left the file stay reserved until no other alias is free.
 */
void aliases_assign(struct aliases *book, struct config *config);

/* Writes a line "service alias" for each pair. Returns the number of bytes. */
size_t aliases_format(const struct aliases *book, char text[ALIASES_TEXT_BYTES]);

/* The opposite. False and an empty book: the text has other lines, or an address twice. */
bool aliases_parse(struct aliases *book, const char *text);

#endif
