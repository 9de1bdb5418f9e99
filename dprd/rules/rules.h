/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rules.h - the nftables table "inet dprd", the NFQUEUE rules and the local routes.
 */
#ifndef DPRD_RULES_H
#define DPRD_RULES_H

#include <stdbool.h>
#include <stdint.h>

struct config;
struct dprd;
struct rules_watch;

/*
 * All of these are idempotent. They return 0 or -errno, and log the failure, unless d->rules_failed is set: then a
 * failure was logged before.
 */
int rules_install(struct dprd *d);
/* True when the host routes packets: its web server may be in a container. */
bool rules_host_routes(void);
/* keep_forwarding: removes only the rules that hand new SYNs to dprd; forwarded flows then wait for the next dprd. */
int rules_remove(const struct config *config, unsigned workers, bool keep_forwarding);
/*
 * True when everything that rules_install() sets up exists (routes and sets' elements are not checked), and also when
 * the kernel gives no answer. Main thread only, lock not held.
 */
bool rules_present(struct dprd *d);
/* The local routes of dprd: true when all of them exist, also when the kernel gives no answer. */
bool rules_routes_present(const struct config *config);
/* Sets up those that are missing. quiet: logs no failure. */
int rules_routes_restore(const struct config *config, bool quiet);
/*
 * True when something was removed from a table with rules of ours since the last call, by any process. Does not wait.
 * NULL is fine.
 */
struct rules_watch *rules_watch_new(void); /* NULL with errno set */
void rules_watch_free(struct rules_watch *w);
bool rules_watch_hit(struct rules_watch *w);
/* Chooses the SYNs that the kernel queues to dprd while a flood lasts, by d->flood; nfqueue plane. */
int rules_set_flood(struct dprd *d);
/* Packets that the firewall counted since dprd started. */
struct rules_counts {
	int64_t strangers; /* tunnel packets that did not come from a member, dropped */
	int64_t undecided; /* SYNs that passed by dprd in a flood (flood.h) */
};

/* 0, or -errno: then *ret is not set, and nothing is lost. Main thread only. */
int rules_count(struct dprd *d, struct rules_counts *ret);

#endif
