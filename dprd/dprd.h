/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dprd.h - what the shell files of dprd share.
 *
 * Process model: the main thread runs one sd-event loop (tick, control socket, signals, watchdog).
 * One worker thread per pair of NFQUEUE queues drains packets in batches:
 *
 *   receive a batch          no lock
 *   decide, change flows     struct dprd.lock held; no system call but one pread of the own load
 *   kernel set, tunnel, verdicts   no lock; in this order, so that a flow is known to the kernel
 *                            before its first encapsulated SYN leaves (write-ahead)
 *
 * The way of a SYN is the order of the files: queue -> path -> packet -> decide -> flow -> policy
 * -> flowset -> encap -> tunnel -> queue.
 */
#ifndef DPRD_DPRD_H
#define DPRD_DPRD_H

#include <pthread.h>
#include <stdatomic.h>
#include <systemd/sd-event.h>

#include "dprd/cluster/backend.h"
#include "dprd/config/config.h"
#include "dprd/base/smallfile.h"
#include "dprd/core/decide/decide.h"
#include "dprd/core/decide/flood.h"
#include "dprd/core/flow/flow.h"
#include "dprd/core/policy/policy.h"
#include "dprd/core/decide/why.h"
#include "loadcast/load.h"
#include "loadcast/sample.h"

enum {
	TICK_MS = 50, /* table snapshot, expiry, workers' heartbeat */
	WORKERS_MAX = 16,
	QUEUE_BATCH_MAX = 128, /* packets per recvmmsg(2) */
	COPY_BYTES = 9728, /* copy range: a whole jumbo frame */
	DECIDE_COPY_BYTES = 2048, /* of SYNs and ICMP errors */
	FLOW_EXPIRE_TICK_STEPS = 65536, /* slots looked at per tick, at most */
	FLOW_EXPIRE_STEPS = 16384, /* slots looked at without giving the lock back */
	FLOW_EXPIRE_EMPTY_PART = 8, /* a table without flows: that much more slowly */
	HEARTBEAT_LATE_MS = 1000, /* a worker silent for longer stops the watchdog's pings */
	TOO_BIG_PER_S = 100, /* ICMP messages to clients */
	PLANE_WHY_BYTES = 256,
	TUNNEL_MTU_LEAST = 256, /* of the way to a node: headers, and something to carry */
	DECAPSULATE_GRACE_MS = 600000, /* a peer's established flows outlive its announcements */
};

/*
 * Counters besides the one per reason: X(name, text). With them holds
 * seen = served + forwarded + passed + dropped + decapsulated, each the sum of its reasons.
 */
#define DPRD_COUNTERS(X)                                                            \
	X(seen, "packets that reached dprd")                                        \
	X(batches, "batches of packets received")                                   \
	X(syns, "SYNs decided")                                                     \
	X(forward_bytes, "bytes forwarded, without outer headers")                  \
	X(decapsulated_bytes, "bytes decapsulated")                                 \
	X(segmented, "packets too big for the tunnel, sent on as smaller segments") \
	X(too_big_sent, "ICMP too-big messages sent to clients")                    \
	X(tunnel_errors, "tunnel packets that the kernel would not send")           \
	X(flows_made, "flows made")                                                 \
	X(flows_evicted, "half-open flows that made room")                          \
	X(flows_expired, "flows that timed out")                                    \
	X(flows_dead_peer, "flows removed because their node's host is gone")       \
	X(queue_overruns, "ENOBUFS from the kernel's queue")                        \
	X(verdict_errors, "verdicts that the kernel did not take")                  \
	X(rules_restored, "times the firewall table was gone and set up again")     \
	X(set_errors, "changes of the kernel's flow set that failed")               \
	X(stale_batches, "batches that may have waited too long")                   \
	X(standby_served, "SYNs that passed while dprd stood still")                \
	X(standby_tunnelled, "tunnel packets that came out while dprd stood still") \
	X(standby_forwarded, "packets of flows sent on while dprd stood still")     \
	X(table_errors, "load tables that could not be read or checked")

struct counters {
#define X(name, text) uint64_t name;
	DPRD_COUNTERS(X)
#undef X
	uint64_t reason[REASONS];
};

struct worker; /* queue.c */
struct standby; /* standby.h */
struct standby_members; /* standby_forward.h */
struct control; /* control/socket.c */
struct flowset; /* flowset.c */
struct rules_watch; /* rules/watch.c */
struct socket_lookup; /* socket_lookup.c */
struct tunnel; /* tunnel.c */
struct fastpath; /* fastpath.h */
struct plane_decide; /* plane/decide.c */
struct shared; /* shared.h */
struct mnl_socket; /* libmnl */

/* One packet of a batch, from the kernel's queue to its verdict. */
struct queued {
	/* All zero when the packet comes, but for these five. */
	uint32_t id; /* of the kernel's queue */
	uint32_t captured; /* bytes of the datagram that are here */
	uint8_t *bytes; /* the datagram; path.c may rewrite it in place */
	uint32_t mark; /* as it came */
	uint16_t head_room; /* bytes in front of the datagram that may be overwritten; none when it is 0 */
	uint32_t backend_mark; /* BACKEND_MARK_SELF, or a backend's; 0: the packet keeps its mark */
	uint8_t *replace; /* verdict DECAPSULATE: what the stack gets instead */
	uint32_t replace_bytes;
	uint16_t tunnel_mtu; /* FORWARD: of the way to it, inner bytes that fit */
	bool is_direct; /* FORWARD: no outer header */
	bool nat; /* FORWARD: the packet is accepted, for the kernel's NAT to send it on */
	bool set_add, set_remove, evict; /* changes of the kernel's flow set */
	bool fresh_flow; /* the flow was made by this packet */
	bool tell_too_big; /* the client is told the tunnel's MTU */
	struct neighbour next_hop; /* FORWARD: when known, sent to this hardware address, not by the kernel's routing */
	/* Of a former packet until they are set. */
	struct packet packet; /* its kind is OTHER when nothing was captured */
	struct verdict verdict;
	struct flow_key evicted; /* a flow that made room for this one, when evict is set */
	struct addr tunnel_source, tunnel_destination; /* FORWARD: of the outer header */
};

struct batch {
	struct queued packets[QUEUE_BATCH_MAX];
	unsigned count;
	bool maybe_stale; /* see queue.c */
	uint64_t received_ms;
	bool forward_queue; /* from the queue of forwarded flows, or of tunnel packets */
	bool made_flows; /* the batch before this one did */
};

/* When a member was last heard, CLOCK_BOOTTIME; at first, when dprd first saw it in its configuration. */
struct last_heard {
	uint32_t id;
	uint64_t ms;
};

struct dprd {
	/* Set at start, then read only. */
	const char *config_path;
	const char *node_name; /* from the command line, or NULL */
	uint64_t started_ms;
	uint64_t hash_key[2];
	sd_event *event;
	struct worker *workers[WORKERS_MAX];
	unsigned worker_count;
	struct standby *standby; /* shares the workers' queues */
	struct flowset *set; /* the main thread's */
	struct rules_watch *rules_watch; /* likewise; NULL: there is none, and rules are looked for now and then */
	int lock_fd; /* one dprd per run directory */
	bool found_rules; /* a former dprd's, which may have left connections that need them */
	bool started; /* all is set up */
	uint64_t second_ms; /* when the work of each second was last done */
	uint64_t status_ms; /* when the status file was last written */
	bool leaving; /* peers are being told that dprd stops */
	uint64_t watchdog_ms; /* interval of the watchdog's pings; 0: none wanted */
	uint64_t watchdog_pinged_ms;
	uint64_t rules_checked_ms, rules_doubt_checked_ms;
	bool rules_doubted; /* something was taken away: it is to be looked whether they are there */
	uint64_t rules_tried_ms; /* when they were last set up, but at the start */
	bool rules_failed; /* that failed; rules_changed stays set until it works */
	struct control *control;
	struct fastpath *fastpath; /* the BPF plane; NULL: the nfqueue plane carries all packets */
	struct mnl_socket *neighbours; /* BPF plane: routes and hardware addresses */
	char plane_why[PLANE_WHY_BYTES]; /* why this plane */
	uint64_t living_told; /* members whose tunnel packets the programs take */
	uint64_t living_told_standby; /* and those the standby process takes */
	struct flood flood; /* nfqueue plane */
	bool flood_refused; /* the firewall knows no limit: it is not asked again */
	struct plane_decide *decide_ahead; /* Decide=auto or kernel; else NULL */
	struct shared *shared; /* addresses that all nodes share; NULL: none */
	void *flow_memory; /* nfqueue plane: the mapped file run_dir/flows */
	size_t flow_memory_bytes;

	pthread_mutex_t lock; /* all that follows */
	struct config config;
	struct flow_table *flows;
	struct flow_limits flow_limits;
	const struct policy *policy;
	struct policy_state policy_state[2]; /* by family (0: IPv4): each goes round by itself */
	struct backends backends; /* real servers behind this node */
	struct load_table table; /* as last read */
	struct smallfile_stamp table_seen; /* main thread only */
	bool table_valid;
	struct last_heard heard[MEMBERS_MAX]; /* of each member; outlives the table, which ends with loadcast */
	struct load_view view;
	struct view_node view_nodes[MEMBERS_MAX];
	unsigned tunnel_mtu[MEMBERS_MAX][2]; /* path MTU to a member, by family (0: IPv4); 0: no way */
	struct neighbour next_hop[MEMBERS_MAX][2]; /* on the way to it; interface 0: no way */
	struct sampler *sampler;
	struct counters counters;
	struct why_ring *why;
	bool draining;
	bool minority;
	uint64_t rate_window_ms; /* start of the second that new_flows counts */
	unsigned new_flows;
	uint64_t too_big_window_ms;
	unsigned too_big_count;
	uint64_t own_load_ms; /* when a SYN last needed the own load */
	uint32_t arrivals_per_1000_s;
	uint64_t last_decapsulated_ms;
	uint64_t random_state;
	uint64_t syns_at_rate; /* counters.syns when arrivals_per_1000_s was last computed */
	bool rules_changed; /* the MSS or the configuration: the main thread sets up the rules again */
	bool rules_gone; /* likewise: the kernel's set was not there */
};

/* main.c: reads and checks the file again; only then applies it. 0, or -EINVAL with *errors filled
 * and nothing changed. What needs a restart (queues, table sizes) is named in note, else empty. */
int dprd_reload(struct dprd *d, struct config_errors *errors, char note[CONFIG_ERROR_BYTES]);

/* lock.c: makes the run directory where there is none, and takes its lock. A file descriptor that holds it until it is
 * closed; or -errno, which is logged: -EWOULDBLOCK another dprd has it. */
int lock_take(const char *run_dir);
/* The lock, to look at: a file descriptor, or -1. And whether somebody has it. */
int lock_watch(const char *run_dir);
bool lock_is_taken(int fd);

/* plane.c. The plane is chosen, and the flow table opened with the flows of a former process of either
 * plane. 0 or -errno. */
int plane_open(struct dprd *d);
/* BPF plane: the programs go to work. Needs the view and the path MTUs. 0 or -errno. */
int plane_attach(struct dprd *d);
/* After the rules: what the other plane left goes. */
void plane_started(struct dprd *d);
const char *plane_name(const struct dprd *d); /* "bpf" or "nfqueue" */
/* Form=direct, and the member is on a network of this node's: what it gets has no outer header. Lock held, or the main
 * thread's. */
bool plane_is_direct(const struct dprd *d, unsigned member, bool v6);
/* Whether this node may serve connections of peers that dprd has seen nothing of. */
bool plane_serves_unseen(const struct dprd *d);
/* Whether something on this node takes tunnel packets out: not while all interfaces of the programs are gone. */
bool plane_carries(const struct dprd *d);
void plane_update(struct dprd *d); /* each second, and after a change: the ways to peers, and the programs */
void plane_tick(struct dprd *d, bool works); /* every TICK_MS: that dprd works, and what the programs did */
void plane_second_look(struct dprd *d, const struct decide_env *env); /* whether dprd wants to look. Lock held */
void plane_served(struct dprd *d, unsigned connections); /* since dprd last told its room for those that land */
void plane_count(struct dprd *d); /* the programs' counters into d->counters, now. Lock held */
void plane_close(struct dprd *d, bool keep);

/* plane/decide.c: the programs' verdicts, see Decide=. The tick has read the own load just before. */
struct plane_decide *plane_decide_new(void); /* free() frees it */
bool plane_decide_runs(const struct dprd *d); /* whether the programs decide just now. Lock held */
void plane_decide_tick(struct dprd *d, uint64_t now_ms); /* lock held */
void plane_decide_remember(struct dprd *d, const struct decide_env *env); /* what they decided, for why. Lock held */
/* After a change that the next new connection must find. Lock not held. */
void plane_decide_now(struct dprd *d);

/* flowfile.c: the flow table in run_dir/flows, with the flows of a former process. 0 or -errno. */
int flowfile_open(struct dprd *d);
void flowfile_close(struct dprd *d, bool keep);
/* The flows of a former process into d->flows, wherever that lies. */
void flowfile_adopt(struct dprd *d);
void flowfile_remove(const struct dprd *d);

/* tick.c: what happens every TICK_MS, and each second. */
int tick_start(struct dprd *d);
/* Reads the load table's file, without the lock, and refreshes the view with it. */
void tick_refresh_view(struct dprd *d, uint64_t now_ms);
void tick_refresh_mtu(struct dprd *d); /* path MTUs to all members */
void tick_forget_node(struct dprd *d, uint32_t node_id); /* its flows end. Lock held */
/*
 * All flows of the table into the kernel's set; but half-open ones of which this node has a socket are forgotten.
 * 0 or -errno (-ENOENT: there is no set).
 */
int tick_refill_set(struct dprd *d);
/* The firewall rules, if someone flushed them or if they must be others: nothing is lost but a moment. What fails is
 * tried again each second. */
void tick_restore_rules(struct dprd *d, uint64_t now_ms);

/* presence.c: what loadcast, and by it the peers, know of this dprd. */
void presence_tick(struct dprd *d, uint64_t now_ms); /* each tick, while dprd works */
void presence_withdraw(const struct dprd *d); /* it works no more */
/* The event loop ends: a moment later, in which peers learn of it and what they forward is still served. 0 or -errno. */
int presence_leave(struct dprd *d);

/* queue.c: one thread per worker. 0 or -errno. */
int queue_check(const struct dprd *d); /* whether the queues can be had; changes nothing */
int queue_start(struct dprd *d);
void queue_stop(struct dprd *d);
void queue_tick(struct dprd *d, bool each_second); /* each tick */
/* What the standby process is told of the members now. Valid until the next call. Main thread; with workers, lock held. */
const struct standby_members *queue_members(struct dprd *d);
/* When the worker that was silent for longest was last seen to run. */
uint64_t queue_heartbeat_ms(const struct dprd *d);

/*
 * path.c: the way of a batch. Decides all packets, does what the verdicts say, and leaves in each
 * packet what the kernel's queue must be told: verdict.kind, replace. set and lookup: NULL on the BPF
 * plane.
 */
void path_batch(struct dprd *d, struct batch *batch, struct flowset *set, struct socket_lookup *lookup,
		struct tunnel *tunnel);

/* What decide() may look at, but for what a packet adds. Lock held. */
void path_decide_env(struct dprd *d, struct decide_env *ret);
/* True while new flows are made faster than configured. Lock held. */
bool path_rate_limited(struct dprd *d, uint64_t now_ms);

/* view.c. Lock held for all of them. */
/* A fresh load table into d->table and d->view; NULL: there was none, only its age goes on. missing:
 * the file is not there at all. */
void view_refresh(struct dprd *d, const struct load_table *fresh, bool missing, uint64_t now_ms);
double view_own_load(struct dprd *d); /* in the configured metric, read now; also into the view */
void view_select_family(struct dprd *d, bool v6); /* view.nodes[].eligible for SYNs of this family */
double view_load(const struct config *config, const struct load_sample *sample); /* in the configured metric */
const struct node_load *view_node_load(const struct dprd *d, uint32_t node_id); /* NULL: not in the table */
/* What counts: the lower one of what is configured here and what the member announces. load: NULL: nothing. */
unsigned view_weight(const struct member *member, const struct node_load *load);
/* Whether a member may get new connections; if not, *ret_why_not says why (static text). */
bool view_member_eligible(const struct dprd *d, unsigned member, uint64_t now_ms, const char **ret_why_not);
/* Whether tunnel packets from a member are taken: heard, or first configured, within DECAPSULATE_GRACE_MS. */
bool view_member_living(const struct dprd *d, unsigned member, uint64_t now_ms);
/* All of these, a bit each. Lock held. */
uint64_t view_living(const struct dprd *d, uint64_t now_ms);

/* flowset.c: the kernel's set of forwarded flows (nftables set, by netlink). Not thread-safe: one
 * per thread. */
struct flowset *flowset_new(void); /* NULL with errno set */
void flowset_free(struct flowset *set); /* NULL is fine */
enum flowset_change {
	FLOWSET_REMOVE,
	FLOWSET_ADD, /* its packets wait while dprd is away */
	FLOWSET_ADD_NAT, /* they go on: the kernel's NAT knows their way */
};
/* Adds or removes the tuples in one transaction per family. Adding what is there and removing what is
 * not are no errors. 0, or -errno: nothing of that family was changed (-ENOENT: the table is gone). */
int flowset_change(struct flowset *set, enum flowset_change change, const struct flow_key *keys, unsigned count);
/* Whether the table is there. Cheap. */
bool flowset_present(struct flowset *set);
/* How many packets a counter of the table has seen. 0 or -errno; -ENOENT: there is none. */
int flowset_counter(struct flowset *set, const char *name, uint64_t *ret_packets);
/* Whether it has this chain. (nft(8) reads all flows of the set before it lists a chain: seconds, and the main thread waits.) */
bool flowset_chain_present(struct flowset *set, const char *chain);

/* socket_lookup.c: whether this node has a socket for a tuple (sock_diag, exact look-up). */
struct socket_lookup *socket_lookup_new(void);
void socket_lookup_free(struct socket_lookup *lookup);
/* Sets found[i] when keys[i] has a socket that is neither a listener nor in TIME-WAIT. On -errno
 * nothing is known and found[] is all false. */
int socket_lookup_find(struct socket_lookup *lookup, const struct flow_key *keys, unsigned count, bool *found);

/* tunnel.c: sockets of one thread. */
struct tunnel *tunnel_new(void);
void tunnel_free(struct tunnel *tunnel);
/* One datagram of several pieces, whole IP header included; queued until tunnel_flush(). The bytes
 * must stay. False when there is no room: flush first. */
enum { TUNNEL_PACKETS_MAX = 256 };
bool tunnel_add(struct tunnel *tunnel, const struct addr *destination, const void *head, unsigned head_bytes,
		const void *body, unsigned body_bytes, unsigned tag);
/* Sends all; failed(context, tag, error) for each that the kernel would not take. */
void tunnel_flush(struct tunnel *tunnel, void (*failed)(void *context, unsigned tag, int error), void *context);
/* Whether so many more datagrams and scratch bytes fit before the next flush. */
bool tunnel_has_room(const struct tunnel *tunnel, unsigned packets, unsigned bytes);
/* Room for what must live until the flush; NULL when used up. Emptied by tunnel_flush(). */
uint8_t *tunnel_scratch(struct tunnel *tunnel, unsigned bytes);
/* The path MTU from source to destination as the kernel knows it; 0: no route. */
unsigned tunnel_path_mtu(const struct addr *source, const struct addr *destination);
/* The address that the kernel sends from, to this one, unless told otherwise. False: no route. */
bool tunnel_preferred_source(const struct addr *destination, struct addr *ret);
/*
 * An empty datagram to the discard port (RFC 863), without regard to what becomes of it: a reason for the kernel to ask
 * for a hardware address, or to ask again. What is sent to that address directly is none.
 */
void tunnel_discard(const struct addr *destination);

/*
 * The same to a hardware address, without a look at routes or output rules. One that is not known yet is an error: to
 * ask for it is the kernel's.
 */
bool tunnel_add_direct(struct tunnel *tunnel, const struct neighbour *to, bool v6, const void *head,
		       unsigned head_bytes, const void *body, unsigned body_bytes, unsigned tag);

/* rules.c: the nftables table "inet dprd", the two NFQUEUE rules and the local routes. All of them
 * idempotent. -errno with a line logged; without one, if d->rules_failed: there was one. */
int rules_install(struct dprd *d);
/* keep_forwarding: only what hands new SYNs to dprd; forwarded flows then wait for the next dprd. */
int rules_remove(const struct config *config, unsigned workers, bool keep_forwarding);
/* rules/look.c: whether all that rules_install() sets up is there, but for routes and sets' elements; when the kernel does
 * not say, it is. Main thread only, lock not held. */
bool rules_present(struct dprd *d);
/* rules/watch.c: whether something was taken away from a table with rules of ours, by whomever, since this was asked
 * before. Does not wait. NULL is fine. */
struct rules_watch *rules_watch_new(void); /* NULL with errno set */
void rules_watch_free(struct rules_watch *w);
bool rules_watch_hit(struct rules_watch *w);
/* What of the SYNs comes to dprd, by d->flood; nfqueue plane. */
int rules_set_flood(struct dprd *d);
/* The MSS that fits the narrowest tunnel of a family: what clients of tunnelled flows are told. */
unsigned rules_mss(const struct dprd *d, bool v6);
/* Packets that the firewall counted since dprd started. */
struct rules_counts {
	int64_t strangers; /* tunnel packets of no member, dropped */
	int64_t undecided; /* SYNs that passed by dprd in a flood (flood.h) */
};

/* 0, or -errno: then *ret is not set, and nothing is lost. Main thread only. */
int rules_count(struct dprd *d, struct rules_counts *ret);

/* preflight.c: what of this host does not fit. Prints, or when starting
 * logs, each problem with the command that mends it.
 * The number of problems that make dprd useless; *ret_warnings counts the others. */
unsigned preflight(const struct config *config, bool starting, unsigned *ret_warnings);

/* control/socket.c */
int control_open(struct dprd *d);
void control_close(struct dprd *d); /* NULL control is fine */

#endif
