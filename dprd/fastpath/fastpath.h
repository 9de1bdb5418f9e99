/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fastpath.h - the BPF plane, seen from dprd: loads, attaches and pins the programs (fastpath.c, attach.c, pins.c), and
 * fills the tables that they read (tables.c).
 *
 * Pinned are the flow table and the links: <Pins>/v1/flows, in-<interface>, out-<interface>; with shared addresses also
 * lease and refused-2. They outlive dprd. A new dprd takes over the flow table (into a table of another size if the
 * configuration asks for it), makes and fills the other maps, and then replaces the program of each link in one step.
 */
#ifndef DPRD_FASTPATH_H
#define DPRD_FASTPATH_H

#include "dprd/config/config.h"
#include "dprd/bpf/layout.h"
#include "dprd/core/flow/flow.h"
#include "kernel-patch/bucket.h"

enum {
	FASTPATH_LINKS_MAX = 32, /* interfaces that carry programs */
	FASTPATH_LEFT_MAX = 4,
	FASTPATH_WHY_BYTES = 256,
	FASTPATH_PINS_BYTES = PATH_BYTES + 8,
	FASTPATH_PROGRAM_BYTES = 32,
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
	void *flow_memory, *former_memory; /* the flow table; the former one, from which it adopts flows */
	size_t flow_memory_bytes, former_bytes;
	bool resized; /* the flow table's map is not the pinned one */
	struct fastpath_control *control;
	struct fastpath_tables *tables; /* two of them */
	struct fastpath_way *ways;
	const uint32_t *confirmed; /* by way: connections that clients confirmed */
	uint32_t confirmed_seen[FASTPATH_WAYS]; /* as dprd last read them */
	struct fastpath_schedule *schedules; /* FASTPATH_SCHEDULES */
	const struct fastpath_recent *recent;
	const struct bucket_lease_cell *lease; /* of shared addresses */
	bool attached; /* to an interface, at some time; it may have gone since */
	bool failed; /* the last try to attach failed */
	unsigned link_count;
	struct fastpath_link links[FASTPATH_LINKS_MAX];
	unsigned left_count; /* interfaces for which there is no room; the first ones have names here */
	char left[FASTPATH_LEFT_MAX][16];
	struct fastpath_counters counted; /* the programs' counters, as read last */
	unsigned processors;
	void *per_processor; /* room for all processors' counters */
};

/*
 * Loads the programs, with the flow table of a former process if there is one. Attaches nothing yet. limits->hash_key
 * becomes that of the table. 0; or -errno, and why says what is missing.
 */
int fastpath_open(const struct config *config, struct flow_limits *limits, struct fastpath **ret,
		  struct flow_table **ret_flows, char why[FASTPATH_WHY_BYTES]);

/* True when fastpath_open() would work on this host; else why says what is missing. Changes nothing. */
bool fastpath_possible(const struct config *config, char why[FASTPATH_WHY_BYTES]);

/* True when an interface, or any one for 0, can get the programs now: it is Ethernet, listed, and has an address. */
bool fastpath_fits(const struct config *config, uint32_t interface);
/*
 * Attaches the programs to every interface that should have them and does not, in place of those of a former process.
 * Interfaces with addresses of this node in the cluster come first; of more than FASTPATH_LINKS_MAX others are left out.
 * Then pins the flow table. Cheap when nothing changed: call it each second. 0; or -errno, and why says what failed.
 */
int fastpath_attach(struct fastpath *f, const struct config *config, char why[FASTPATH_WHY_BYTES]);

bool fastpath_is_attached(const struct fastpath *f, uint32_t interface);

/* keep: all pins stay, and the programs go on. Else nothing stays. NULL is fine. */
void fastpath_close(struct fastpath *f, bool keep);

/* Removes the pins of a former process, so that its programs end. 0 or -errno; no pins are fine. */
int fastpath_purge(const struct config *config);

/* Adopts the flows of the pinned table of a former process. Returns how many, or -errno. */
int fastpath_adopt(const struct config *config, struct flow_table *table);

/*
 * Pins a flow table of another size in place of the former one, and adopts the flows that changed there meanwhile. Part
 * of fastpath_attach(). 0 or -errno.
 */
int fastpath_pin_flows(struct fastpath *f);

/* The name of another program that gets the packets of an interface before dprd's. False: there is none. */
bool fastpath_in_front(const struct fastpath *f, uint32_t interface, char name[FASTPATH_PROGRAM_BYTES]);

/* "eth0, eth1" */
void fastpath_interfaces(const struct fastpath *f, char *text, size_t bytes);

/* fastpath/tables.c */

/* This node's facts for judging frames to shared addresses. */
struct fastpath_shared {
	uint64_t key[2]; /* of the buckets */
	uint32_t interface[2]; /* by family; 0: frames are not judged */
	bool by_module; /* the kernel module judges, not the programs */
	uint8_t hardware[6]; /* of the interface */
};

/*
 * Fills the tables by the configuration. shared: NULL: the programs judge no frames. living: bit n: the programs take
 * tunnel packets of member n. mss: by family. False: no seed fits the addresses; the tables are not changed then.
 */
bool fastpath_tables_fill(struct fastpath_tables *t, const struct config *config, struct flow_table *flows,
			  const struct fastpath_shared *shared, uint64_t living, const uint16_t mss[2]);

/*
 * fastpath_tables_inactive(): the tables that are not in use, which the caller fills. fastpath_tables_switch(): puts
 * them into use.
 */
struct fastpath_tables *fastpath_tables_inactive(struct fastpath *f);
void fastpath_tables_switch(struct fastpath *f);

/*
 * fastpath_schedule(): the schedule of a family that is in use, or the other one. fastpath_schedule_switch(): puts the
 * other one into use.
 */
struct fastpath_schedule *fastpath_schedule(struct fastpath *f, bool v6, bool in_use);
uint32_t *fastpath_cursor(struct fastpath *f, bool v6, bool in_use); /* how many of its verdicts were used */
void fastpath_schedules_switch(struct fastpath *f);

/* The descriptor of the map that holds the lease. */
int fastpath_lease_fd(const struct fastpath *f);

/*
 * Sets the clock of the programs, which goes by the kernel's ticks (dprd_clock()). ret_tick: its time, unless NULL. 0
 * or -errno.
 */
int fastpath_clock_set(struct fastpath *f, uint32_t *ret_tick);

/* Tells the programs whether dprd works now. While it does not, this node serves new connections. */
void fastpath_heartbeat(struct fastpath *f, bool works);

/* Tells the programs that dprd took packets from a queue, or found it empty. Any thread may call it; cheap. */
void fastpath_answered(struct fastpath *f);

/* Reads what the programs counted since the last call. */
void fastpath_counters_take(struct fastpath *f, struct fastpath_counters *ret);

#endif
