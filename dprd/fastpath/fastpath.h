/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fastpath.h - the BPF plane as dprd sees it: programs that are loaded, attached and pinned
 * (fastpath.c, attach.c, pins.c), and what they are told (tables.c).
 *
 * Pinned are the flow table and the links: <Pins>/v1/flows, in-<interface>, out-<interface>; with shared
 * addresses also lease and refused. They outlive dprd. A new dprd takes the flow table over (into a table of another size where it must),
 * makes the other maps anew, fills them, and then replaces the program of each link at once.
 */
#ifndef DPRD_FASTPATH_H
#define DPRD_FASTPATH_H

#include "dprd/config/config.h"
#include "dprd/bpf/layout.h"
#include "dprd/core/flow/flow.h"
#include "kernel-patch/bucket.h"

enum {
	FASTPATH_LINKS_MAX = 32, /* interfaces that carry programs */
	FASTPATH_WHY_BYTES = 256,
	FASTPATH_PINS_BYTES = PATH_BYTES + 8,
};

/* One interface with both programs. */
struct fastpath_link {
	uint32_t interface;
	char name[16];
	int fd[2]; /* ingress, egress; -1: attached as a classifier, which needs none */
};

struct fastpath {
	struct dprd_bpf *programs; /* skeleton */
	char pins[FASTPATH_PINS_BYTES]; /* the directory, with the version */
	int flows_fd;
	void *flow_memory, *former_memory; /* the table; the one that it was adopted from */
	size_t flow_memory_bytes, former_bytes;
	bool resized; /* the flow table's map is another one than the pinned one */
	struct fastpath_control *control;
	struct fastpath_tables *tables; /* two of them */
	struct fastpath_way *ways;
	struct fastpath_schedule *schedules; /* FASTPATH_SCHEDULES */
	const struct fastpath_recent *recent;
	const struct bucket_lease_cell *lease; /* of shared addresses */
	bool attached; /* to something, once; interfaces may have gone since */
	bool failed; /* to attach, when it was tried last */
	unsigned link_count;
	struct fastpath_link links[FASTPATH_LINKS_MAX];
	struct fastpath_counters counted; /* what was taken from the programs' counters so far */
	unsigned processors;
	void *per_processor; /* room for all processors' counters */
};

/*
 * Loads the programs, with the flow table of a former process where there is one. 0; or -errno, and
 * why says what is missing. Nothing is attached yet. limits->hash_key is the table's.
 */
int fastpath_open(const struct config *config, struct flow_limits *limits, struct fastpath **ret,
		  struct flow_table **ret_flows, char why[FASTPATH_WHY_BYTES]);

/* Whether fastpath_open() would find what it needs on this host; else why not. Changes nothing. */
bool fastpath_possible(const struct config *config, char why[FASTPATH_WHY_BYTES]);

/*
 * Attaches the programs to every interface that should have them and has not, in place of a former
 * process's. Then the flow table is pinned. Cheap when nothing changed: to be called each second. 0
 * or -errno with why.
 */
int fastpath_attach(struct fastpath *f, const struct config *config, char why[FASTPATH_WHY_BYTES]);

bool fastpath_is_attached(const struct fastpath *f, uint32_t interface);

/* keep: what is pinned stays and goes on. Else nothing stays. NULL is fine. */
void fastpath_close(struct fastpath *f, bool keep);

/* Ends what a former process left pinned. 0 or -errno; nothing there is fine. */
int fastpath_purge(const struct config *config);

/* The pinned flow table of a former process into table. The number of flows, or -errno. */
int fastpath_adopt(const struct config *config, struct flow_table *table);

/*
 * Pins a flow table of another size in place of the former one, and adopts what changed there until now. Part of
 * fastpath_attach(). 0 or -errno.
 */
int fastpath_pin_flows(struct fastpath *f);

/* "eth0, eth1" */
void fastpath_interfaces(const struct fastpath *f, char *text, size_t bytes);

/* fastpath/tables.c */

/* What the programs must know of this node to judge frames to shared addresses. */
struct fastpath_shared {
	uint64_t key[2]; /* of the buckets */
	uint32_t interface[2]; /* by family; 0: not judged */
	bool by_module; /* no frame is judged by the programs */
	uint8_t hardware[6]; /* of the interface */
};

/*
 * What the programs must know of the configuration. shared: NULL: no frame is judged. living: bit n: tunnel packets of member n are taken. mss: by
 * family. False: no seed was found (it cannot be told why; nothing was changed).
 */
bool fastpath_tables_fill(struct fastpath_tables *t, const struct config *config, struct flow_table *flows,
			  const struct fastpath_shared *shared, uint64_t living, const uint16_t mss[2]);

/* The filled inactive tables take the active ones' place. */
struct fastpath_tables *fastpath_tables_inactive(struct fastpath *f);
void fastpath_tables_switch(struct fastpath *f);

/* Decide=kernel: the schedule of a family that is in use, or the other one; and the change over to that. */
struct fastpath_schedule *fastpath_schedule(struct fastpath *f, bool v6, bool in_use);
uint32_t *fastpath_cursor(struct fastpath *f, bool v6, bool in_use); /* the verdicts of it that were used */
void fastpath_schedules_switch(struct fastpath *f);

/* The descriptor of the map that holds the lease. */
int fastpath_lease_fd(const struct fastpath *f);

/* Sets the programs' clock, which goes by the kernel's ticks (dprd_clock()). ret_tick: its time, unless NULL. 0 or
 * -errno. */
int fastpath_clock_set(struct fastpath *f, uint32_t *ret_tick);

/* dprd works (now), or not: then the programs leave new connections to this node. */
void fastpath_heartbeat(struct fastpath *f, bool works);

/* dprd took packets from a queue, or found it empty. From any thread; cheap. */
void fastpath_answered(struct fastpath *f);

/* What the programs counted since the last call. */
void fastpath_counters_take(struct fastpath *f, struct fastpath_counters *ret);

#endif
