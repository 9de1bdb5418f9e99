/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fastpath/private.h - the part that the files of fastpath/ share. fastpath.c asks attach.c and pins.c, attach.c asks
 * pins.c.
 */
#ifndef DPRD_FASTPATH_PRIVATE_H
#define DPRD_FASTPATH_PRIVATE_H

#include "dprd/fastpath/fastpath.h"

enum {
	CLASSIFIER_HANDLE = 1,
	CLASSIFIER_PRIORITY = 221, /* only dprd uses it, so dprd replaces and removes no other program's classifier */
};

/* attach.c */

/* Gives the links back; unless keep is set, everything pinned is removed. */
void fastpath_detach(struct fastpath *f, bool keep);

/* pins.c */

/* True when the directory is on a bpf file system; otherwise why says what is wrong. */
bool fastpath_is_bpf_fs(const char *directory, char why[FASTPATH_WHY_BYTES]);
/* The directory of the pins of this version. */
void fastpath_pins_of(const struct config *config, char pins[FASTPATH_PINS_BYTES]);
/* Makes the directories. False: why says what is wrong. */
bool fastpath_pins_ready(const char *pin_dir, const char *pins, char why[FASTPATH_WHY_BYTES]);
/* The memory of the pinned flow table. NULL: there is none, or it cannot be dprd's. The caller unmaps and closes. */
void *fastpath_map_flows(const char *pins, int *ret_fd, size_t *ret_bytes);
/* Before the programs are loaded: the maps of the lease are those of the former process. 0 or -errno. */
int fastpath_pin_lease(const struct fastpath *f);
/*
 * After that: the refused SYNs of a former version, whose words do not name the node. They wait for whichever it is, or
 * a SYN would get a second answer when the upgrade meets a change of the shares.
 */
void fastpath_take_refused(const struct fastpath *f);
/* Removes dprd's classifier from an interface; out: the one of egress. */
void fastpath_classifier_detach(uint32_t interface, int out);
/* Removes all pins, their directory, and the classifiers of all interfaces. 0 or -errno. */
int fastpath_unpin(const char *pins);

#endif
