/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * layout.h - the maps' contents, for dprd (fastpath*.c) and the BPF programs. Pure.
 *
 *   flows     ARRAY   the flow table's buckets (flow/slot.h) behind its header; dprd maps it
 *   bss       ARRAY   the programs' variables, which dprd maps:
 *     control         which of the tables and schedules are in use, and dprd's heartbeat
 *     tables          addresses and ports of the cluster, twice: one in use, one being written
 *     ways            how to send to the node that a flow names: index 2 * node + v6
 *   schedules ARRAY   while the programs decide: the next verdicts on new connections, two of each family
 *   recent    ARRAY   likewise: decisions of this tick, for "dprctl why"
 *   lease     ARRAY   shared addresses: who has a share, and until when this node may act on it; loadcast
 *                     writes it, also while no dprd runs
 *   refused   ARRAY   shared addresses: SYNs that were another node's
 *   counters  PERCPU  what the programs did
 *
 * The flow table is pinned, and so are the links (with shared addresses also lease and refused): they outlive dprd, and hold the programs and with
 * these the other maps. FASTPATH_VERSION changes with the layout of what is pinned.
 */
#ifndef DPRD_BPF_LAYOUT_H
#define DPRD_BPF_LAYOUT_H

#include "dprd/core/packet/marks.h"
#include "dprd/base/addr.h"
#include "dprd/base/inline.h"
#include "dprd/core/decide/decide.h"
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
	FASTPATH_UNREAD = 1024, /* so many are used from tick to tick: dprd reads them while real SYNs wait */
	FASTPATH_OVER_ROOM = 256, /* connections counted in a tick beyond those that there was room for */
	SHARED_REFUSED_WORDS = 65536, /* a power of two */

	FASTPATH_LATE_MS = 400, /* no heartbeat for so long: dprd is dead or frozen */
	FASTPATH_WAIT_MS = 40, /* and so it is when a queued packet waits as long */
	FASTPATH_MAC_TICKS = 30 * 60, /* a hardware address this old (30 s) is asked for by the kernel */
};

_Static_assert(MARK_FORWARD == BIACTIVE_MARK_FORWARD, "the kernel module lets through what dprd forwards");

/* What an address is to the cluster, as this node sees it. */
enum fastpath_role {
	ROLE_OWN_SERVICE = 1,
	ROLE_PEER_SERVICE = 2,
	ROLE_OWN_CLUSTER = 4,
	ROLE_PEER_CLUSTER = 8,
	ROLE_LIVING = 16, /* of a peer: its tunnel packets are taken */
	ROLE_ALIAS = 32, /* stands for a peer's service address on this node alone */
	ROLE_SHARED = 64, /* an own service address, and of all other nodes as well */
};

struct fastpath_address {
	struct addr address;
	uint8_t roles; /* 0: a free place */
	uint8_t member; /* the owner's place in the configuration */
	uint8_t service; /* which of the owner's service addresses; FASTPATH_SERVICES and on: of the shared ones */
	uint8_t unused;
};

struct fastpath_tables {
	uint32_t seed;
	uint32_t self_node; /* the flow table's index of this node */
	uint32_t port_count;
	be16 port[FASTPATH_PORTS];
	uint16_t mss[2]; /* at most, in SYN-ACKs of tunnelled connections; by family */
	uint32_t alias_count; /* of alias[], those that are set */
	/* The places of address[] that are in use, a bit each: most clients' addresses are nobody's, and to read a free
	 * place of each would be a line that is in no near cache. */
	uint64_t occupied[FASTPATH_ADDRESSES / 64];
	/* the flow table's index of it */
	uint8_t own_service[FASTPATH_SERVICES + FASTPATH_SHARED][FASTPATH_PORTS];
	uint64_t bucket_key[2];
	uint32_t shared_count;
	uint32_t shared_interface[2]; /* by family: where frames to shared addresses are judged; 0: nowhere */
	uint32_t shared_by_module; /* they are judged behind the programs */
	uint32_t choices; /* enum fastpath_choices */
	/* Whom a new connection goes to while dprd is away: as often as its weight says; 0: nobody. First IPv4. */
	uint8_t choice[2 * FASTPATH_CHOICES];
	uint8_t shared_hardware[FASTPATH_SHARED][8]; /* six bytes of each */
	uint8_t interface_hardware[8]; /* of this node, where it answers for them */
	struct addr alias[FASTPATH_MEMBERS][FASTPATH_SERVICES]; /* zero: the service address itself is local */
	struct addr service[FASTPATH_MEMBERS][FASTPATH_SERVICES];
	struct fastpath_address address[FASTPATH_ADDRESSES];
};

enum fastpath_choices {
	CHOICES = 1, /* this node has real servers behind it, */
	CHOICES_HERE = 2, /* and serves, too */
};

enum way_flags {
	WAY_USABLE = 1,
	WAY_SELF = 2, /* the node is this one: no tunnel */
	WAY_ETHERNET = 4, /* the interface wants hardware addresses */
	WAY_DIRECT = 8, /* no outer header: another hardware address is all */
	WAY_NAT = 16, /* the kernel's NAT sends it on */
	WAY_FELLOW = 32, /* it announces its hardware address: flows to shared addresses need no outer header */
	WAY_WATCHES = 64, /* and it judges frames to them itself, so that it takes those of its own sockets */
};

struct fastpath_way {
	struct addr source, destination; /* of the outer header; WAY_DIRECT: destination is the next hop */
	uint8_t hardware[12]; /* destination, source */
	uint16_t mtu; /* inner bytes that fit */
	uint16_t flags;
	uint32_t interface;
	uint32_t hardware_tick; /* when dprd last knew the hardware address; 0: never */
	uint32_t mark; /* WAY_NAT: what the rules know it by */
	uint8_t fellow[8]; /* WAY_FELLOW: its hardware address on the network of the shared addresses; six bytes */
	uint32_t unused;
};

enum fastpath_second_look {
	LOOK_OFFER = 1, /* what the schedule forwards may be sent back */
	LOOK_LANDED = 2, /* what peers forward to this node is dprd's to look at, once there is no room */
};

struct fastpath_control {
	/* Written often, and so in a cache line of its own. */
	uint64_t heartbeat_ns; /* CLOCK_MONOTONIC, when dprd was last seen to work; 0: stopped */
	uint64_t waiting_ns; /* since when a packet waits in a queue that none was taken from; 0: none */
	uint64_t rest_of_line[6];
	/* Read by each packet, written at a tick. */
	uint32_t active; /* which of the tables */
	uint32_t schedule; /* which of the schedules of a family */
	uint32_t room; /* so many flows may be made by the programs; above it new connections are served here */
	uint32_t room_reason; /* why no more */
	uint32_t swept; /* buckets of the flow table that the running round of expiry has passed */
	uint32_t second_look; /* enum fastpath_second_look */
	uint32_t look_room; /* so many more may land, by what dprd knows, before the second look */
	uint32_t decisions_seen; /* by dprd, of decisions */
	uint64_t jiffies_start_ns; /* the programs' clock at jiffy 0, modulo 2^64: dprd_clock() */
	uint32_t rest_of_second_line[6];
	/* Written by each connection: one line, which the processors take from each other but once for it. */
	uint32_t made; /* flows that the programs made, or had no room for, since dprd last set it to 0 */
	uint32_t made_behind; /* of those made: in these buckets, where the round does not count them any more */
	uint32_t landed; /* SYNs of peers that were served, since dprd last told the room for them */
	uint32_t decisions; /* remembered; counts on */
	/* Of each schedule: the next verdict; counts on beyond the schedule's count, and starts anew then. */
	uint32_t cursor[FASTPATH_SCHEDULES];
	uint32_t rest_of_third_line[8];
};

/*
 * The verdicts that decide() would give to the next connections, one after the other: made by dprd at
 * every tick from the policy, the loads and what was sent since, used in turn by all processors (struct
 * fastpath_control has the cursors).
 */
struct fastpath_schedule {
	uint32_t count; /* a power of two; 0: new connections are queued to dprd */
	uint32_t unused; /* elements of a map lie at multiples of eight bytes */
	uint16_t entry[FASTPATH_SCHEDULE_MAX]; /* node << 8 | reason; node 0: served here */
};

struct fastpath_decision {
	struct flow_key key;
	uint32_t sequence; /* of the SYN */
	uint32_t tick;
	uint8_t reason, node;
	uint16_t unused[9]; /* a cache line each: processors write neighbours at the same time */
};

/* What dprd has not read yet; what comes when all places are in use is not remembered. */
struct fastpath_recent {
	struct fastpath_decision decision[FASTPATH_RECENT];
};

struct fastpath_counters {
	uint64_t reason[REASONS];
	uint64_t forward_bytes, decapsulated_bytes;
	uint64_t too_big_sent;
	uint64_t syns, flows_made; /* Decide=kernel */
	uint64_t shared[BIACTIVE_COUNTER_COUNT]; /* frames to shared addresses; as the kernel module counts */
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
