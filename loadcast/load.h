/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * load.h - the interface of loadcast: the load table as one small file.
 *
 * loadcast alone writes it, replacing it by rename(2); dprd and dprctl copy it whole and check
 * every field, because its writer talks to the network (docs/loadtable.md has it to the byte).
 * Ages are stored, not times: age at publication, plus the file's own stamp on CLOCK_BOOTTIME.
 */
#ifndef LOADCAST_LOAD_H
#define LOADCAST_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "dprd/base/version.h"
#include "dprd/config/config.h"

enum {
	LOAD_TABLE_MAGIC = 0x5442444c, /* "LDBT", little endian */
	LOAD_TABLE_VERSION = 4,
};

/* All members, and the real servers behind this node. */
enum { LOAD_NODES_MAX = MEMBERS_MAX + OWN_BACKENDS_MAX };

enum { HARDWARE_BYTES = 6 }; /* of an Ethernet address */

enum {
	WEIGHT_HELD_MAX = 999, /* permille: a node with a weight keeps some of it */
	SHORTER_TIMES_MAX = 1000,
	LOAD_COUNT_AGE_MAX_MS = 1000,
};

#define LOAD_AGE_NEVER_MS UINT32_MAX

enum node_state {
	NODE_ACTIVE, /* takes forwarded connections */
	NODE_DRAINING, /* serves its present connections, wants no more */
	NODE_UNHEALTHY, /* its web server fails the health check */
	NODE_STATES,
};

enum node_flags {
	NODE_HEARD = 1 << 0, /* the newest announcement is not older than dead_periods */
	NODE_ECHOES = 1 << 1, /* it also echoes one of ours that is not older than dead_periods: two-way */
	NODE_DPRD_UP = 1 << 2, /* its dprd is alive, so that it can decapsulate */
	NODE_CONFLICT = 1 << 3, /* two hosts announce this id: never a target */
	NODE_CONFIG_DIFFERS = 1 << 4, /* its service configuration, or its period, is not ours */
	NODE_BACKEND = 1 << 5, /* no member: a real server behind this node; only id, state, weight and flags count */
	NODE_SERVER_DOWN = 1 << 6, /* only set for this node: its own web server fails the health check */
	NODE_AGENT_SILENT = 1 << 7, /* only set for this node: its agent gives no answer; its last one holds */
	NODE_TAKES_PROBES = 1 << 8, /* its dprd looks for probes of the way to it */
	NODE_UNPROVEN_V4 = 1 << 9, /* and those of this node do not arrive there, over IPv4 */
	NODE_UNPROVEN_V6 = 1 << 10, /* the same over IPv6 */
	NODE_NARROW_V4 = 1 << 11, /* they arrive, but those as large as packets of this node may be do not */
	NODE_NARROW_V6 = 1 << 12,
};

/* The state that the agent of a node asks for ([Health] Agent=). */
enum agent_wish {
	AGENT_WANTS_ALL, /* also when there is no agent */
	AGENT_WANTS_DRAIN, /* no new connections */
	AGENT_WANTS_MAINT, /* the same, for work on the server */
	AGENT_SAYS_DOWN, /* the server does not work */
	AGENT_WISHES,
};

/*
 * Why the announcements of a node are not accepted. Announcements carry these numbers, so none ever changes; one that is
 * not known here is taken as REJECTION_OTHER.
 */
enum rejection {
	REJECTION_NONE,
	REJECTION_OTHER, /* damaged, or from another program */
	REJECTION_KEY, /* made with another key, or for another cluster */
	REJECTION_NAME, /* from the address of a member, in the name of another node */
	REJECTION_ADDRESS, /* in the name of a member, from an address that it does not have */
	REJECTION_VERSION, /* of an unknown format */
	REJECTION_RUN, /* of another run of the node, or old: nothing proves that it lives */
	REJECTION_RATE, /* too many */
	REJECTIONS,
};

/* The paper's four loads, and others that a policy may use. Plain numbers, range-checked. */
struct load_sample {
	uint32_t open_connections; /* TCP connections of the service ports */
	uint32_t cpu_permille; /* utilisation, 0..1000 */
	uint32_t redirected; /* connections this node forwards at the moment */
	uint32_t active_sockets; /* sockets of all kinds, except TCP connections of other ports */
	uint32_t accept_queue; /* connections waiting for accept(2), all service ports */
	uint32_t arrivals_per_1000_s; /* new connections reaching this node, a thousandfold rate */
	uint32_t age_ms; /* of open_connections, when they were announced; at most LOAD_COUNT_AGE_MAX_MS */
};

struct node_load {
	uint32_t id; /* member_id() */
	uint32_t state; /* enum node_state */
	uint32_t flags; /* enum node_flags */
	uint32_t weight;
	uint32_t age_ms; /* of its newest announcement, at publication; LOAD_AGE_NEVER_MS */
	uint32_t echo_age_ms; /* of the newest of ours that it echoed */
	uint64_t epoch, sequence; /* of that announcement */
	struct load_sample sample;
	/*
	 * With shared addresses, by family (0: IPv4): the Ethernet address of the interface at which this node receives
	 * frames to them. Unicast; all zero: unknown.
	 */
	uint8_t hardware[2][HARDWARE_BYTES];
	char version[VERSION_BYTES]; /* of its loadcast, as version_is_valid() demands; empty: not known */
	/*
	 * A bit for each of load_table.port: the port fails its health check, or the node does not serve it, and the node
	 * gets no connections to it.
	 */
	uint32_t ports_down;
	uint32_t held_permille; /* of its weight, held back for now: 0 to WEIGHT_HELD_MAX */
	/* The newest of its announcements was not accepted here: why, and from which address it came. */
	uint32_t rejected; /* enum rejection */
	uint32_t rejects; /* enum rejection: why it does not accept those of this node, as it announced last */
	struct addr rejected_from;
	uint32_t service_hash; /* config_service_hash() of its file, as announced; 0: not known */
	uint32_t period_ms; /* its Period=, as announced; 0: not known */
	/*
	 * Its connections end suspiciously soon, compared with its peers' and with what is usual: this many times as soon,
	 * up to SHORTER_TIMES_MAX. 0: they do not.
	 */
	uint32_t shorter_times;
	uint32_t agent; /* enum agent_wish; only of this node */
	uint32_t unused; /* 0 */
};

/* The file: this struct, but only count nodes. Self is nodes[0]; real servers come last. */
struct load_table {
	uint32_t magic, version;
	uint32_t checksum; /* load_table_checksum() */
	uint32_t count;
	uint64_t published_ms; /* CLOCK_BOOTTIME */
	uint32_t period_ms;
	uint32_t rejected; /* announcements not accepted since start, all reasons */
	uint32_t file_hash; /* of loadcast's configuration file: struct config */
	uint32_t port_count;
	uint16_t port[PORTS_MAX]; /* the service ports that ports_down is about; 0 behind them */
	struct node_load nodes[LOAD_NODES_MAX];
};

/*
 * load_table_bytes(): the bytes of a table with count nodes. load_table_checksum(): over these bytes, with 0 as the
 * checksum field.
 */
unsigned load_table_bytes(unsigned count);
uint32_t load_table_checksum(const struct load_table *table);

/* Checks every field of size bytes as read. 0, or -EINVAL: use nothing of it. */
int load_table_check(const struct load_table *table, unsigned size);

/* Writes path.new and renames it to path. 0 or -errno. Sets magic, version and checksum itself. */
int load_table_publish(const char *path, struct load_table *table);

/*
 * Copies the file into *ret and checks it. 0 or -errno (-ENOENT: loadcast never ran; -EINVAL: not a
 * table). Never follows a link, never blocks, never maps. *ret is undefined on failure.
 */
int load_table_snapshot(const char *path, struct load_table *ret);

struct smallfile_stamp;

/*
 * The same for repeated reading. *seen is kept here and begins as 0. Returns 1 without copying when the file is the one
 * read last.
 */
int load_table_snapshot_new(const char *path, struct smallfile_stamp *seen, struct load_table *ret);

/* The age of a node's announcement now: its age at publication plus the file's age. Saturates. */
uint32_t load_age_ms(const struct load_table *table, const struct node_load *node, uint64_t now_ms);

#endif
