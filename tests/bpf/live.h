/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * live.h - the programs attached to two interfaces, as dprd attaches them; frames of craft.h are sent between these.
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

/* Both interfaces, with addresses towards the clients and routers of site.h; the test adds others. */
struct live live_new(void);

/* Attaches the programs of this variant's layout to all interfaces that have addresses now. */
void live_attach(unsigned variant);

/* Resets the site; its ways lead to the second interface. */
void live_prepare(const struct live *live, unsigned variant);

struct frame live_make(unsigned variant, const char *line, const struct frame *other);

/* Expects this frame as the next one there, within a second. */
void live_expect(const struct tap *tap, const struct frame *expected);

/* Expects that no frame leaves. */
void live_expect_nothing(const struct live *live);

/* Expects these counts since the last call (site_counted()). */
void live_expect_counted(unsigned variant, const char *expected);

#endif
