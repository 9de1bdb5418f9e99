/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * layout.h - the contents of the maps, for dprd (fastpath/) and the BPF programs. Pure.
 *
 *   flows     ARRAY   the flow table's buckets (flow/slot.h) behind its header; dprd maps it
 *   bss       ARRAY   the programs' variables, which dprd maps:
 *     control         which of the tables and schedules are in use, and dprd's heartbeat
 *     tables          addresses and ports of the cluster, twice: one in use, one being written
 *     ways            how to send to the node that a flow names: index 2 * node + v6
 *     confirmed       connections by each way that clients confirmed
 *   schedules ARRAY   while the programs decide: the next verdicts on new connections, two of each family
 *   recent    ARRAY   decisions of the programs in this tick, for "dprctl why"
 *   answered  ARRAY   SYNs that this node has answered (flow/answered.h)
 *   lease     ARRAY   shared addresses: the shares of the nodes, and how long this node may act on its own; loadcast
 *                     writes it, also while no dprd runs
 *   refused   ARRAY   shared addresses: SYNs for other nodes
 *   counters  PERCPU  how often the programs did what
 *
 * Pinned are the flow table and the links, and with shared addresses also lease and refused-2. They outlive dprd. The
 * links hold the programs, and these hold the other maps. FASTPATH_VERSION changes with the layout of the pinned maps.
 */
#ifndef DPRD_BPF_LAYOUT_H
#define DPRD_BPF_LAYOUT_H

#include "dprd/core/packet/marks.h"
#include "dprd/base/addr.h"
#include "dprd/base/inline.h"
#include "dprd/core/decide/decide.h"
#include "dprd/core/decide/inside.h"
#include "dprd/core/flow/slot.h"
#include "kernel-patch/biactive.h"

enum {
	FASTPATH_VERSION = 1,
	FASTPATH_LINE_BYTES = 64,

	FASTPATH_WAYS = 512, /* a power of two */
	FASTPATH_ADDRESSES = 2048, /* open addressing; far more than 64 members can have */
	FASTPATH_PROBES = 8, /* dprd picks a seed with which no address lies further off */
	FASTPATH_MEMBERS = 64,
	FASTPATH_SERVICES = 8, /* of one member */
	FASTPATH_SHARED = 8, /* addresses that all nodes share; their numbers come behind the own services' */
	FASTPATH_PORTS = 16,
	FASTPATH_CHOICES = 256, /* a power of two */
	FASTPATH_NO_SERVICE = 0xff,
	FASTPATH_SCHEDULE_MAX = 4096, /* verdicts; a power of two */
	FASTPATH_SCHEDULES = 4, /* 2 * (which of the two) + v6 */
	FASTPATH_RECENT = 4096, /* places for decisions that dprd has not read yet; a power of two */
	FASTPATH_UNREAD = 1024, /* places in use from tick to tick, at most: dprd reads them while SYNs wait */
	FASTPATH_OVER_ROOM = 256, /* connections without room that are counted in a tick */
	SHARED_REFUSED_WORDS = 65536, /* a power of two */

	FASTPATH_LATE_MS = 400, /* without a heartbeat for this time dprd counts as dead or frozen */
	FASTPATH_WAIT_MS = 40, /* also when a queued packet waits for this time */
	FASTPATH_MAC_TICKS = 30 * 60, /* 30 s: for an older hardware address the kernel is asked */
};

_Static_assert(MARK_FORWARD == BIACTIVE_MARK_FORWARD, "the kernel module lets through what dprd forwards");

/* The roles of an address in the cluster, as this node sees it. */
enum fastpath_role {
	ROLE_OWN_SERVICE = 1,
	ROLE_PEER_SERVICE = 2,
	ROLE_OWN_CLUSTER = 4,
	ROLE_PEER_CLUSTER = 8,
	ROLE_LIVING = 16, /* of a peer: its tunnel packets are taken */
	ROLE_ALIAS = 32, /* stands for a peer's service address on this node alone */
	ROLE_SHARED = 64, /* an own service address that all other nodes have, too */
	ROLE_FORMER = 128, /* a service address of a former file: new connections are not decided */
};

struct fastpath_address {
	struct addr address;
	uint8_t roles; /* 0: a free place */
	uint8_t member; /* the owner's place in the configuration */
	uint8_t service; /* number of the owner's service address; from FASTPATH_SERVICES on: of the shared address */
	uint8_t unused;
};

struct fastpath_tables {
	uint32_t seed;
	uint32_t self_node; /* the flow table's index of this node */
	uint32_t port_count;
	be16 port[FASTPATH_PORTS]; /* of the present configuration, then of former ones, whose connections go on */
	uint32_t present_ports; /* this many of them are of the present one: new connections to these are decided */
	uint32_t unused;
	uint16_t mss[2]; /* at most, in SYN-ACKs of tunnelled connections; by family */
	uint32_t alias_count; /* elements of alias[] that are set */
	/*
	 * A bit for each place of address[] that is in use. Most addresses are those of clients, and are not in the
	 * table: without these bits each packet of a client would read a free place of the table, which is in no near
	 * cache.
	 */
	uint64_t occupied[FASTPATH_ADDRESSES / 64];
	/* the flow table's index of each pair of service address and port */
	uint8_t own_service[FASTPATH_SERVICES + FASTPATH_SHARED][FASTPATH_PORTS];
	struct inside inside; /* clients that this node serves itself */
	uint64_t bucket_key[2];
	uint32_t shared_count;
	uint32_t
		shared_interface[2]; /* by family: the interface where frames to shared addresses are judged; 0: none */
	uint32_t shared_by_module; /* the kernel module judges them, behind the programs */
	uint32_t choices; /* enum fastpath_choices */
	/* Nodes for new connections while dprd is away, each as often as its weight says; 0: none. First IPv4. */
	uint8_t choice[2 * FASTPATH_CHOICES];
	uint8_t shared_hardware[FASTPATH_SHARED][8]; /* six bytes of each */
	uint8_t interface_hardware[8]; /* of this node's interface, where it answers for shared addresses; six bytes */
	struct addr alias[FASTPATH_MEMBERS][FASTPATH_SERVICES]; /* zero: the service address itself is local */
	struct addr service[FASTPATH_MEMBERS][FASTPATH_SERVICES];
	struct fastpath_address address[FASTPATH_ADDRESSES];
};

enum fastpath_choices {
	CHOICES = 1, /* this node has real servers behind it, and does not serve itself */
	CHOICES_HERE = 2, /* this node has real servers behind it, and serves, too */
};

enum way_flags {
	WAY_USABLE = 1,
	WAY_SELF = 2, /* the node is this one: no tunnel */
	WAY_ETHERNET = 4, /* the interface wants hardware addresses */
	WAY_DIRECT = 8, /* no outer header: only the hardware addresses change */
	WAY_NAT = 16, /* the kernel's NAT sends it on */
	WAY_FELLOW = 32, /* it announces its hardware address: flows to shared addresses need no outer header */
	WAY_WATCHES = 64, /* it also judges frames to them itself, and takes those of its own sockets */
};

struct fastpath_way {
	struct addr source, destination; /* of the outer header; WAY_DIRECT: destination is the next hop */
	uint8_t hardware[12]; /* destination, source */
	uint16_t mtu; /* bytes of a datagram that fit, without the outer header */
	uint16_t flags;
	uint32_t interface;
	uint32_t hardware_tick; /* when dprd last knew the hardware address; 0: never */
	uint32_t mark; /* WAY_NAT: the mark by which the rules know the server */
	uint8_t fellow[8]; /* WAY_FELLOW: its hardware address on the network of the shared addresses; six bytes */
	uint32_t unused;
};

enum fastpath_second_look {
	LOOK_OFFER = 1, /* the serving node may send back a SYN that the schedule forwards */
	LOOK_LANDED = 2, /* dprd looks at SYNs that peers forward to this node, once there is no room */
	LOOK_STAYED = 4, /* SYNs of peers are counted that dprd does not look at */
};

struct fastpath_control {
	/* A cache line of its own, since these are written often. */
	uint64_t heartbeat_ns; /* CLOCK_MONOTONIC, when dprd was last seen to work; 0: stopped */
	uint64_t waiting_ns; /* a packet waits in a queue since then, and dprd has taken none; 0: none waits */
	uint64_t rest_of_line[6];
	/* Each packet reads these, and dprd writes them at a tick. */
	uint32_t active; /* index of the tables in use */
	uint32_t schedule; /* index of the schedule in use, of each family */
	uint32_t room; /* flows that the programs may make; beyond it this node serves new connections */
	uint32_t room_reason; /* enum reason of a connection for which there was no room */
	uint32_t swept; /* buckets of the flow table that the running round of expiry has passed */
	uint32_t second_look; /* enum fastpath_second_look */
	uint32_t look_room; /* SYNs of peers that may land before the second look, by what dprd knows */
	uint32_t decisions_seen; /* how many decisions dprd has read */
	uint64_t jiffies_start_ns; /* the programs' clock at jiffy 0, modulo 2^64: dprd_clock() */
	uint32_t rest_of_second_line[6];
	/*
	 * Each connection writes these. They share one cache line, so that a connection moves only one line from
	 * processor to processor.
	 */
	uint32_t made; /* flows that the programs made, or had no room for, since dprd last set it to 0 */
	uint32_t made_behind; /* flows among those in swept buckets: the running round of expiry does not count them */
	uint32_t landed; /* SYNs of peers that were served, since dprd last told the room for them */
	uint32_t decisions; /* how many decisions the programs remembered; never reset */
	/*
	 * The next verdict of each schedule. It counts on beyond the schedule's count: fastpath_schedule_at() has its place.
	 */
	uint32_t cursor[FASTPATH_SCHEDULES];
	uint32_t stayed; /* SYNs of peers that this node serves without dprd, since dprd last set it to 0 */
	uint32_t rest_of_third_line[7];
};

/*
 * The verdicts that decide() would give to the next connections, one after the other. dprd makes them at every tick, by
 * the policy, the loads and the connections sent since. All processors use them in turn (struct fastpath_control has
 * the cursors).
 */
struct fastpath_schedule {
	uint32_t count; /* a power of two; 0: new connections are queued to dprd */
	uint32_t unused; /* elements of a map lie at multiples of eight bytes */
	uint32_t entry[FASTPATH_SCHEDULE_MAX]; /* alternative << 16 | node << 8 | reason; node 0: served here */
};

/*
 * The place of a verdict in a schedule of count entries. When all are used the second half comes again: the first half
 * fills nodes that had room, and a node that got these again would get too many.
 */
static inline uint32_t fastpath_schedule_at(uint32_t cursor, uint32_t count)
{
	uint32_t half = count / 2;

	if (cursor < count)
		return cursor;
	return half ? half + ((cursor - count) & (half - 1)) : 0;
}

struct fastpath_decision {
	struct flow_key key;
	uint32_t sequence; /* of the SYN */
	uint32_t tick;
	uint8_t reason, node;
	uint16_t unused[9]; /* fills a cache line: processors write neighbours at the same time */
};

/* Decisions that dprd has not read yet. When all places are in use, further ones are not remembered. */
struct fastpath_recent {
	struct fastpath_decision decision[FASTPATH_RECENT];
};

struct fastpath_counters {
	uint64_t reason[REASONS];
	uint64_t forward_bytes, decapsulated_bytes;
	uint64_t too_big_sent;
	uint64_t syns, flows_made; /* Decide=kernel */
	uint64_t syns_taken; /* of peers, served here */
	uint64_t shared[BIACTIVE_COUNTER_COUNT]; /* frames to shared addresses, as the kernel module counts them */
	uint64_t strangers; /* packets to an alias, which no host may send */
	uint64_t too_big_tick, too_big_count; /* the running second, of this processor */
};

static inline uint32_t fastpath_address_hash(const struct addr *address, uint32_t seed)
{
	uint32_t hash = address->words[0] ^ address->words[1];

	hash = (hash * 0x9e3779b1u) ^ address->words[2] ^ address->words[3] ^ seed;
	hash *= 0x85ebca6bu;
	return hash >> 21; /* FASTPATH_ADDRESSES is 1 << 11 */
}

#endif
