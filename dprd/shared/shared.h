/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * shared.h - addresses that all nodes share (docs/biactive.md), the part of dprd: it sets up the judges of frames,
 * gives the memory of the lease to loadcast, and informs neighbours and switches. It does not decide about shares,
 * which change without dprd.
 *
 * Only the main thread calls these functions.
 */
#ifndef DPRD_SHARED_H
#define DPRD_SHARED_H

#include "dprd/config/config.h"
#include "dprd/fastpath/fastpath.h"
#include "kernel-patch/biactive.h"
#include "kernel-patch/bucket.h"

struct dprd;

enum { SHARED_WHY_BYTES = 256 };

enum shared_used { SHARED_USES_NONE, SHARED_USES_MODULE, SHARED_USES_BPF };

/* The present facts of the lease. */
struct shared_lease {
	uint64_t until_ns, changed_ns; /* CLOCK_MONOTONIC; 0: never */
	struct bucket_share share;
};

struct shared {
	enum shared_used used;
	enum shared_used told_used; /* the last one that was logged; valid with told */
	bool told;
	char why[SHARED_WHY_BYTES]; /* the reason for this form, or for none */
	char interface[2][INTERFACE_BYTES]; /* by family; empty: there is none */
	struct fastpath_shared programs;
	uint64_t counters[BIACTIVE_COUNTER_COUNT];
	int packet_fd; /* sends frames */
	int loadcast_fd; /* loadcast has the map as long as this is connected; -1 */
	uint64_t second_ms, router_ms; /* when each second's work, and an advertisement, was last done */
	unsigned announcements; /* announcements of the addresses that are still to be sent, one each second */
	bool had_lease;
	uint64_t announced_change_ns;
	/* The part of the buckets that each member has, in permille; computed for the share of parts_of_ns. */
	uint64_t parts_of_ns;
	unsigned part[BUCKET_MEMBERS_MAX];
};

/*
 * Sets up the judges of frames, once the plane is open. Does nothing without shared addresses. Returns 0, also when
 * this node cannot answer for them (logged, with the reason in why); -ENOMEM, which is logged, too.
 */
int shared_open(struct dprd *d);
void shared_plane_changed(struct dprd *d); /* since then */
/* Every TICK_MS. */
void shared_tick(struct dprd *d, uint64_t now_ms);
/* keep: the judges of frames stay. */
void shared_close(struct dprd *d, bool keep);
/* Removes the remains of a former process on the interfaces and in the module. */
void shared_purge(const struct config *config);

/* True when frames are also judged without dprd: then the set-up stays at a stop. */
bool shared_works(const struct dprd *d);
/* For fastpath_tables_fill(); NULL: no frame is judged. */
const struct fastpath_shared *shared_programs(const struct dprd *d);
/* Adds the counts of the programs. Lock held. */
void shared_count(struct dprd *d, const uint64_t counters[BIACTIVE_COUNTER_COUNT]);

/* The key of the buckets: only nodes that know the cluster's key can compute it. */
void shared_key(const uint8_t cluster_key[32], const char *cluster_name, uint64_t ret[2]);

/* shared/interface.c */

/* The interface of shared addresses of a family on this node; false: none, with the reason in why. */
bool shared_interface_find(const struct config *config, bool v6, char name[INTERFACE_BYTES],
			   char why[SHARED_WHY_BYTES]);
/* Makes the interface receive frames to a hardware address, or stop that; this outlives the process. 0 or -errno. */
int shared_interface_join(const char *name, const uint8_t mac[6], bool join);
/* Its own hardware address. 0 or -errno. */
int shared_interface_hardware(const char *name, uint8_t mac[6]);
/* An address of the interface that a multicast router would use as source; for IPv6 a link-local one. */
bool shared_interface_source(const struct config *config, const char *name, bool v6, struct addr *ret);
/* A socket for whole frames; -errno. */
int shared_interface_socket(void);
void shared_interface_send(int fd, const char *name, const uint8_t *frame, unsigned bytes);

/* shared/lease.c */

/* The lease as it is now. False: none was ever written. */
bool shared_lease_read(struct dprd *d, struct shared_lease *ret);
/* Makes sure that loadcast has the map. */
void shared_lease_offer(struct dprd *d);

#endif
