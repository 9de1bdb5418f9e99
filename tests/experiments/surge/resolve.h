/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * resolve.h - names to addresses without waiting: getaddrinfo_a() of the C library, told of by a signal.
 *
 * The order of the resolver is kept; it sorts by RFC 6724, in a client's own network by the longest common
 * prefix, which defeats round robin.
 */
#ifndef TESTS_EXPERIMENTS_SURGE_RESOLVE_H
#define TESTS_EXPERIMENTS_SURGE_RESOLVE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* One lookup is a thread of the C library. */
enum { ADDRESSES_MAX = 8, LOOKUPS_AT_ONCE = 32, ADDRESS_TEXT_BYTES = 64 };

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

struct addresses {
	unsigned count;
	union address all[ADDRESSES_MAX];
};

enum name_state { NAME_UNKNOWN, NAME_ASKED, NAME_KNOWN };

/* One thing looked up and remembered. Must stay in its place while NAME_ASKED. */
struct name {
	const char *host, *port;
	enum name_state state;
	struct addresses addresses; /* when NAME_KNOWN */
	uint64_t asked_us;
	struct lane *waiting; /* the asker's list */

	struct gaicb *request; /* while NAME_ASKED */
	struct name *next;
};

struct resolver;

/* Blocks a real-time signal in the calling thread. NULL with errno. */
struct resolver *resolver_new(int family);
/* Lookups under way go on; their names must stay then. */
void resolver_free(struct resolver *resolver);
/* Becomes readable when there is an answer. */
int resolver_fd(const struct resolver *resolver);
/* NAME_ASKED afterwards, or NAME_KNOWN still. */
void resolver_ask(struct resolver *resolver, struct name *name);
/*
 * The next name with an answer, NULL: none now. Its state is NAME_KNOWN, or NAME_UNKNOWN when the lookup
 * failed.
 */
struct name *resolver_answer(struct resolver *resolver);
unsigned resolver_under_way(const struct resolver *resolver);

/* True when host is an address and no name. */
bool address_literal(const char *host, uint16_t port, union address *address);
socklen_t address_bytes(const union address *address);
/* "192.0.2.1:80", "[2001:db8::1]:80" */
void address_text(const union address *address, char text[ADDRESS_TEXT_BYTES]);

#endif
