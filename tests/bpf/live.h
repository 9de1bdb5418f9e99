/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * live.h - the programs where they work: attached, as dprd attaches them, to two interfaces, between which frames of
 * craft.h are sent.
 *
 *   client   gw is behind it: clients, routers        cluster   n2 and n3 are on it
 */
#ifndef TESTS_BPF_LIVE_H
#define TESTS_BPF_LIVE_H

#include "tests/bpf/fixture.h"
#include "tests/bpf/tap.h"

struct live {
	struct tap client, cluster;
};

/* Both interfaces, with addresses towards the clients and routers of site.h; its owner gives the others. */
struct live live_new(void);

/* The programs of this variant's layout on all interfaces that have addresses by now. */
void live_attach(unsigned variant);

/* A fresh site, whose ways lead to the second interface. */
void live_prepare(const struct live *live, unsigned variant);

struct frame live_make(unsigned variant, const char *line, const struct frame *other);

/* The next frame that leaves there within a second is this one. */
void live_expect(const struct tap *tap, const struct frame *expected);

/* No frame leaves. */
void live_expect_nothing(const struct live *live);

/* All that was counted since the last call (site_counted()). */
void live_expect_counted(unsigned variant, const char *expected);

#endif
