/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * config.h - dprd.conf, the one file that dprd, loadcast and dprctl read, as a checked struct.
 *
 * The same file may stand on every node: a node finds itself by [Node] Name=, or by its host name.
 * config_read() checks the whole file first; a struct config that it hands out holds only values in range.
 */
#ifndef DPRD_BASE_CONFIG_H
#define DPRD_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "dprd/base/addr.h"

#define CONFIG_PATH_DEFAULT "/etc/dprd/dprd.conf"

enum {
	NAME_BYTES = 64, /* with NUL */
	PATH_BYTES = 192,
	HOST_BYTES = 128, /* of a DNS name, with NUL */
	COMMAND_BYTES = 256, /* with NUL */
	MEMBERS_MAX = 64, /* announcements echo every member in one datagram */
	MEMBER_SERVICES_MAX = 8, /* service addresses of one member */
	MEMBER_CLUSTER_MAX = 2, /* cluster addresses of one member: one per family */
	PORTS_MAX = 16,
	NETWORKS_MAX = 16,
	INTERFACES_MAX = 16,
	INTERFACE_BYTES = 16, /* with NUL: the kernel's IFNAMSIZ */
	SHARED_MAX = 8, /* addresses that all nodes share */
	BACKENDS_MAX = 128, /* real servers in the file, of all nodes */
	OWN_BACKENDS_MAX = 30, /* behind one node: five bits of a mark, less two values */
	NEW_FLOWS_UNGUARDED = 10000000, /* MaxNewFlowsPerSecond=: no guard against floods */
	CONFIG_ERRORS_MAX = 32, /* reported at most; the rest is counted */
	CONFIG_ERROR_BYTES = 320,
};

/* A member of the cluster, as the file describes it. */
struct member {
	char name[NAME_BYTES];
	uint32_t id; /* member_id(name): what the wire and the flow table carry */
	unsigned weight; /* 0..1000; 0 takes no forwarded connections */
	unsigned service_count;
	/* dprd alone: addresses of former files, behind the present ones, newest first; config_keep_services(). */
	unsigned former_count;
	struct addr service[MEMBER_SERVICES_MAX];
	struct addr alias[MEMBER_SERVICES_MAX]; /* of each service address on this node: config_alias() */
	bool own_cluster_address; /* a Cluster= line: layout "own cluster address" */
	/* Where tunnel packets and announcements go: the Cluster= lines, or else the first service
	 * address of each family. All zero when the member has none of that family. */
	struct addr cluster_v4;
	struct addr cluster_v6;
};

/* How a packet reaches a real server: by the kernel's NAT, by its hardware address alone, or IP in IP. */
enum backend_form { BACKEND_NAT, BACKEND_DIRECT, BACKEND_TUNNEL };

/* A passive real server behind a node: it runs neither dprd nor loadcast. */
struct backend {
	char name[NAME_BYTES];
	uint32_t id; /* backend_id(name): in the flow table and the load table; no member has it */
	char node[NAME_BYTES]; /* the member that it stands behind; empty: every node that reads the file */
	enum backend_form form;
	struct addr v4, v6; /* all zero: it gets no clients of this family */
	uint16_t port; /* BACKEND_NAT: where its server listens; 0: the port that the client asked for */
	unsigned weight; /* 0..1000; 0 takes no new connections */
};

/* One more place that gets every announcement (the paper's "other networks"). */
struct network {
	char name[NAME_BYTES];
	struct addr address; /* a host or a directed broadcast address */
	uint16_t port;
};

enum load_metric { LOAD_CONNECTIONS, LOAD_CPU, LOAD_REDIRECTED, LOAD_SOCKETS, LOAD_WEIGHTED };

/* Factors of the weighted sum; for a single metric, one of them is 1 and the others 0. */
struct load_factors {
	double connections;
	double cpu; /* times the utilisation in percent, 0..100 */
	double redirected;
	double sockets;
	double accept_queue;
};

/* The plane that forwards packets: BPF programs in the kernel, or dprd itself; auto: the first of them that works. */
enum datapath_plane { PLANE_AUTO, PLANE_BPF, PLANE_NFQUEUE };

/* The place where a new connection is decided: in dprd, which gets its SYN from a queue, or in the BPF programs. */
enum decide_where { DECIDE_AUTO, DECIDE_QUEUE, DECIDE_KERNEL };

/* How packets of forwarded flows go to a peer: in a tunnel (also FORM_AUTO), or as they are to its hardware address. */
enum datapath_form { FORM_AUTO, FORM_TUNNEL, FORM_DIRECT };

/* The judge of frames to shared addresses: the module or BPF programs; auto: the module where it is loaded. */
enum shared_form { SHARED_AUTO, SHARED_MODULE, SHARED_BPF };

/*
 * How a server is asked whether it works; auto: by HTTP, TLS or a connection alone, as the port speaks; command: by a
 * program of the operator.
 */
enum health_check { HEALTH_NONE, HEALTH_TCP, HEALTH_HTTP, HEALTH_AUTO, HEALTH_HTTPS, HEALTH_COMMAND };

/* The words that the file may have for Load=, for Form= of a real server (both in the order of their enumeration) and
 * for [Backends] Policy=; NULL at the end. */
extern const char *const config_metric_names[];
extern const char *const config_backend_form_names[];
extern const char *const config_backend_policy_names[];

struct config {
	uint32_t file_hash; /* of the whole text: dprd and loadcast of a node compare theirs */

	/* [Cluster] */
	char cluster_name[NAME_BYTES];
	char key_file[PATH_BYTES];
	char key_file_next[PATH_BYTES]; /* empty: only one key is in use */

	/* [Node] */
	char node_name[NAME_BYTES];
	unsigned self; /* index into member[] */

	/* [Service] */
	unsigned port_count;
	uint16_t port[PORTS_MAX];
	/* dprd alone: ports of former files, newest first. Their connections go on; config_keep_ports(). */
	unsigned former_port_count;
	uint16_t former_port[PORTS_MAX];
	bool former_services; /* some member has former_count */
	/* dprd alone: a bit for each own service address that came by a reload, until all members have the same file. */
	uint8_t fresh_services;

	/* [Shared]: addresses whose frames reach every node; each node accepts its share */
	unsigned shared_count;
	struct addr shared[SHARED_MAX];
	char shared_interface
		[INTERFACE_BYTES]; /* empty: the interface of the first own service address of the family */
	uint8_t shared_mac[6]; /* for all shared addresses, if shared_mac_set; else see config_shared_mac() */
	bool shared_mac_set;
	enum shared_form shared_form;
	bool shared_rebalance; /* shares follow the load */
	bool shared_quorum; /* a node that hears fewer than half of the members has no share */

	/* [Balance] */
	char policy[NAME_BYTES];
	enum load_metric metric;
	struct load_factors factors;
	bool max_load_auto;
	double max_load;
	double min_advantage;
	bool second_look;
	unsigned slow_start_ms; /* the weight of a node that comes back grows for this long; 0: it has it at once */

	/* [Backends]: for all real servers behind this node */
	char backend_policy[NAME_BYTES]; /* one of config_backend_policy_names */
	bool serve_here; /* the web server of the node gets connections, too */

	/* [Flows] */
	unsigned max_flows;
	unsigned max_half_open;
	unsigned max_new_flows_per_s;
	unsigned idle_timeout_ms;
	unsigned syn_timeout_ms;
	unsigned fin_timeout_ms;
	unsigned rst_timeout_ms;
	unsigned dead_peer_timeout_ms;

	/* [Queue] */
	unsigned queue_first; /* workers take queue_first .. queue_first + 3 * workers - 1 */
	unsigned queue_length;
	unsigned workers; /* 0: by the number of processors */

	/* [Datapath] */
	enum datapath_plane plane;
	enum decide_where decide_in; /* DECIDE_KERNEL never with PLANE_NFQUEUE */
	enum datapath_form form; /* FORM_DIRECT: members have cluster addresses; nothing is shared or behind them */
	unsigned interface_count; /* 0: every Ethernet interface with an address */
	char interface_name[INTERFACES_MAX][INTERFACE_BYTES];
	char pin_dir[PATH_BYTES]; /* of maps and links, on a bpf file system */

	/* [Announce] */
	bool multicast;
	struct addr group_v4;
	struct addr group_v6;
	char interface[NAME_BYTES]; /* empty: the interface that reaches the cluster addresses */
	uint16_t announce_port;
	bool unicast; /* also to every member's cluster address */
	unsigned period_ms;
	unsigned dead_periods;

	/* [Health] */
	enum health_check health;
	char health_path[PATH_BYTES];
	char health_host[HOST_BYTES]; /* of the Host field and of TLS; empty: the address, and none */
	uint16_t health_port; /* 0: the service ports alone */
	unsigned health_status_low, health_status_high;
	bool health_verify; /* the certificate, with HEALTH_HTTPS */
	char health_command[COMMAND_BYTES]; /* HEALTH_COMMAND: words with blanks between them; %a, %p and %% in them */
	struct addr agent; /* says what this node wants; all zero: there is none */
	uint16_t agent_port;
	unsigned health_interval_ms, health_timeout_ms;
	unsigned health_fall, health_rise;

	/* [Alias]: the local addresses that stand for those of peers, when nodes have one address each */
	struct addr alias_v4, alias_v6;
	unsigned alias_v4_prefix, alias_v6_prefix;

	/* [Run] */
	char run_dir[PATH_BYTES]; /* of dprd: /run/dprd */
	char table_file[PATH_BYTES]; /* written by loadcast: /run/loadcast/table */

	unsigned member_count;
	struct member member[MEMBERS_MAX];
	unsigned backend_count;
	struct backend backend[BACKENDS_MAX];
	unsigned own_backend_count; /* behind this node; other files number these */
	uint16_t own_backend[OWN_BACKENDS_MAX]; /* their indices into backend[] */
	unsigned network_count;
	struct network network[NETWORKS_MAX];
};

/* Messages of one reading, each "dprd.conf:7: MaxLaod: unknown key (did you mean MaxLoad?)". */
struct config_errors {
	unsigned count; /* all of them; only the first CONFIG_ERRORS_MAX have text */
	char text[CONFIG_ERRORS_MAX][CONFIG_ERROR_BYTES];
};

/*
 * Reads and checks the file. 0 and *ret filled; or -EINVAL (-errno when it cannot be opened) with *errors filled and
 * *ret untouched. node_name takes the place of [Node] Name= and the host name; NULL: there is none.
 * Takes regular files only, and never waits for one.
 */
int config_read(const char *path, const char *node_name, struct config *ret, struct config_errors *errors);

/*
 * Reads only [Run] Directory= and Table=, also when the file has errors elsewhere; a missing key has its default. For a
 * tool that asks a dprd which still runs with the former file. Without memory it changes neither.
 */
void config_read_places(const char *path, char run_dir[PATH_BYTES], char table_file[PATH_BYTES]);

/* The name of the first [Member "name"] of the file, also when the file has errors elsewhere. False: there is none. */
bool config_first_member(const char *path, char name[NAME_BYTES]);

/* The same as config_read(), from memory; name stands in the messages. For tests and fuzzers. */
int config_parse(const char *name, const char *text, size_t length, const char *node_name, struct config *ret,
		 struct config_errors *errors);

/*
 * For a reload: what cannot change while dprd runs keeps the old value in *fresh. note: a sentence that names the keys
 * which changed and wait for a restart; empty when there is none.
 */
void config_keep_fixed(const struct config *old, struct config *fresh, char note[CONFIG_ERROR_BYTES]);

/* For a reload: fresh remembers the ports that it no longer has, and those that old remembers. */
void config_keep_ports(const struct config *old, struct config *fresh);

/*
 * The same for the service addresses of each member, as far as its places and the aliases of the range reach. None of
 * them is an address that fresh has for another use.
 */
void config_keep_services(const struct config *old, struct config *fresh);

/* The same for fresh_services: those of old that stay fresh, and the service addresses that are new. */
void config_keep_fresh(const struct config *old, struct config *fresh);

enum service_age {
	SERVICE_PRESENT,
	SERVICE_FRESH, /* an own address that peers may not know yet */
	SERVICE_FORMER, /* of a former file: its connections go on, new ones stay where they arrive */
};

/* The age of a service address of any member. */
enum service_age config_service_age(const struct config *config, const struct addr *service);

/* True for a service port; and for one of now or of former files. */
bool config_has_port(const struct config *config, uint16_t port);
bool config_had_port(const struct config *config, uint16_t port);

/* Every key in a line: section, name, "restart" or "reload" (what a change needs), default; tabs between them. */
void config_print_keys(FILE *out);

/* All values, defaults included, as a file that config_read() takes again. Caller frees; NULL: no memory. */
char *config_format(const struct config *config);

/* Identity of a name on the wire and in flow tables; never 0. */
uint32_t member_id(const char *name);

/* Identity of a real server; never 0. The checks of the file make sure that no member has the same. */
uint32_t backend_id(const char *name);

/* The own real server of this number, 0..own_backend_count - 1; and the number of the one with this id, or -1. */
const struct backend *config_own_backend(const struct config *config, unsigned own);
int config_own_backend_by_id(const struct config *config, uint32_t id);
/* True when this node reaches a real server of its own by the kernel's NAT. */
bool config_has_nat(const struct config *config);
/* Its address of this family; NULL: it has none. */
const struct addr *backend_address(const struct backend *backend, bool v6);

/* Index of the member with this id, or -1. */
int config_member_by_id(const struct config *config, uint32_t id);

/* The member that owns this service address, or -1; and the one that owns it now or did in a former file. */
int config_member_by_service(const struct config *config, const struct addr *service);
int config_member_had_service(const struct config *config, const struct addr *service);

/* The number of service addresses of a member, former ones included. */
static inline unsigned member_services(const struct member *member)
{
	return member->service_count + member->former_count;
}

bool config_is_shared(const struct config *config, const struct addr *address);

/*
 * The MAC address of frames to a shared address: [Shared] Mac=; or, as if the address were a group, the one of
 * RFC 1112 (01:00:5e and the low 23 bits) or RFC 2464 (33:33 and the low 32 bits).
 */
void config_shared_mac(const struct config *config, const struct addr *shared, uint8_t mac[6]);

/*
 * The alias of a peer's service address on this node; all zero when the peer has a cluster address of its own (its
 * service addresses are then local as they are). After config_read() it is the alias of the place in the file; dprd
 * then restores the aliases that it gave out before (alias.h).
 */
struct addr config_alias(const struct config *config, unsigned member, unsigned service);
/* For alias.h: the number of aliases in the range of the family; the alias of a number, 0..room - 1; and the number of
 * the service address among those of its family in the file. */
unsigned config_alias_room(const struct config *config, bool v4);
struct addr config_alias_at(const struct config *config, bool v4, unsigned number);
unsigned config_alias_place(const struct config *config, unsigned member, unsigned service);
/* Gives each service address of a peer the alias of its place. */
void config_place_aliases(struct config *config);

/* The port that HEALTH_HTTP and HEALTH_HTTPS ask, unless a real server has a port of its own. */
uint16_t config_asked_port(const struct config *config);

/* Hash of all that nodes must agree on (ports, members, addresses, shared addresses); every node announces it. */
uint32_t config_service_hash(const struct config *config);

/*
 * Reads the cluster key: at least 32 bytes as hex text, in a file that no other group and no other user may read.
 * 0 and 32 bytes in key[]; or -errno and a message that says what to do.
 */
int config_read_key(const char *path, uint8_t key[32], char message[CONFIG_ERROR_BYTES]);

#endif
