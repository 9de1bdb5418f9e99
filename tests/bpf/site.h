/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * site.h - the cluster of the fixtures, in both layouts, as the programs of its first node see it.
 *
 *   gw   the router that clients' packets come from          cl   a client (192.0.2.10, 2001:db8:c::10)
 *   me   n1, this node                                       rt   a router (203.0.113.9, 2001:db8:f::9)
 *   n2, n3  peers; n4 has not been heard for long            xx   some other host
 *
 *   sh, si  addresses that all nodes share (198.51.100.200 and .201, 2001:db8:5::200 and ::201); all, all6: the
 *           hardware addresses of frames to sh; lo: that of the interface by which frames come in
 *
 *   sN tN   service addresses of node N (198.51.100.N and .1N, 2001:db8:5::N and ::1N)
 *   cN      its cluster address (10.0.0.N, fd00::N; layout "one address each": sN)
 *   aN bN   aliases of sN and tN on this node (only with one address each: 198.18.211.M, fd64:7072:6400::M)
 *   lN mN   the local address on this node for sN and tN: the alias where there is one, otherwise the address itself
 *
 * Service ports are 80 and 443. Tunnels take 1480 (1460) bytes.
 */
#ifndef TESTS_BPF_SITE_H
#define TESTS_BPF_SITE_H

#include "tests/bpf/plane.h"

enum { SITE_MEMBERS = 4, SITE_FLOW_BYTES = 96, SITE_FORMER_PORT = 8080 };

/* Bits of a variant's index: the family, the layout, the value of Decide=. */
enum {
	SITE_V6 = 1,
	SITE_ALIAS = 2,
	SITE_QUEUE_VARIANTS = 4, /* those of Decide=queue */
	SITE_KERNEL = 4, /* Decide=kernel; only with own cluster addresses */
	SITE_VARIANTS = 6,
};

const char *site_variant_name(unsigned variant); /* "v6 alias" */

/* The programs of the variant's layout, loaded at first use. */
struct plane *site_plane(unsigned variant);
void site_close(void);

/* Names in lines of craft.h. */
struct craft_names site_names(unsigned variant);

/* Removes everything of the last test: no flows, counters 0, all ways usable, dprd works, n1 to n3 live. */
void site_reset(unsigned variant);

/*
 * The way of n2: words of "unusable", "self", "none" (all zero), "stale", "unknown" (no hardware address), "raw" (no
 * Ethernet), "mtu N"; "fellow" (its hardware address on the network of the shared addresses is n4's); or n2 as a real
 * server: "direct" (1500 bytes fit), "nat N" (the Nth of this node, from 1).
 */
void site_way(unsigned variant, const char *words);

/*
 * A flow as words: STATE nN isn N age N (ticks), by default of cl:40000 to s1:80; from N, port N, to ADDRESS for
 * others. "overflow": its bucket is full, so that it lies in the next one; "unoccupied": the occupied bits are cleared.
 * The state is one of half_open, confirmed, closing, reset.
 */
void site_add_flow(unsigned variant, const char *words);

/*
 * The present state of the flow made by these words, in the same words: "now" in place of the age when its time is that
 * of the run. "none" when it is gone.
 */
void site_flow_text(unsigned variant, const char *words, char text[SITE_FLOW_BYTES]);

/*
 * Copies the memory of all flows for a later comparison, without the flow of these words (NULL: none). The caller frees
 * it.
 */
void *site_flows_copy(unsigned variant, const char *except);

/*
 * Decide=kernel: sets the schedule of the variant's family, with words nN/REASON for each verdict, a power of two in
 * number; "": empty. no_room: the reason for which no flow may be made; NULL: there is room.
 */
void site_schedule(unsigned variant, const char *words, const char *no_room);

/*
 * Sets the target of new connections of the variant's family while dprd is away: "nN", always the same, or "nobody".
 * With a '+' behind it this node serves, too. NULL: there are no real servers.
 */
void site_choices(unsigned variant, const char *word);
/* Makes the network of this address, of few hosts, one of this node alone; NULL: there is none. */
void site_inside(unsigned variant, const char *name);

/* Sets the interface of frames to shared addresses; by_module: they are judged behind the programs. */
void site_shared_frames(unsigned variant, unsigned interface, bool by_module);

/* The counts of the programs since the last call: names in the order of the counters, "flow from_peer*2 made". */
void site_counted(unsigned variant, char *text, size_t bytes, struct fastpath_counters *ret);

#endif
