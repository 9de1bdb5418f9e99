// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The rules that lead packets to dprd: one nftables table that only dprd uses. It marks packets; two rules of the
 * iptables table "raw", right behind it, hand marked packets to the queues. (nftables' own queue statement is not in
 * every kernel; the NFQUEUE target is.)
 *
 *   prerouting -305  forwarded flow, or tunnel packet to us   -> mark FORWARD
 *                    SYN or ICMP error to an own service      -> mark DECIDE (in a flood: few)
 *   prerouting -300  raw: FORWARD -> queue, no by-pass: with dprd away these must wait, and never reach
 *                         the own stack, which would reset them
 *                         DECIDE  -> queue with by-pass: with dprd away serve locally
 *                         Rules behind the queues see no mark: DECIDE is removed in front of its queue, FORWARD
 *                         with the verdict. (With real servers DECIDE stays until prerouting -295, which
 *                         recognises by it SYNs that passed by.)
 *   output           MSS of SYN-ACKs for tunnelled flows; alias back to service address
 *   postrouting 150  the same for a web server in a container, on a host that routes
 *   reassembly       no packet comes here; while the chain has its rule, the kernel puts fragments together in front
 *                    of all rules (priority -400)
 *   input -310       notes probes of peers, and drops them
 *
 * With real servers behind this node rules/backend.c adds chains.
 *
 * On the BPF plane the programs mark packets earlier, at tc ingress: only the queue rules and the chain for probes are
 * needed then. Each chain costs time for all packets of this node, also for its own.
 *
 * A set's content survives every reload and restart: the chains are replaced in one transaction.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>

#include "dprd/base/command.h"
#include "dprd/base/log.h"
#include "dprd/base/smallfile.h"
#include "dprd/cluster/state.h"
#include "dprd/host/flowset.h"
#include "dprd/rules/rules.h"
#include "dprd/rules/table.h"

enum {
	IPTABLES_CHAINS = 3,
	NFT_TRIES = 3, /* before the table is replaced, which loses its flows for a moment */
};

/* The rule by which the kernel puts fragments together. */
#define REASSEMBLY                                                                                             \
	RULES_ADD                                                                                              \
	"reassembly meta l4proto tcp tproxy to :1 comment \"no packet comes here: fragments are put together " \
	"while this rule exists\"\n"

/* The counter of SYNs that pass by in a flood. */
#define UNDECIDED "undecided"

/*
 * The chains of the tables "raw", in the order in which they can be deleted; another version may have made
 * DPRD-FORWARD.
 */
static const char *const iptables_chain[IPTABLES_CHAINS] = { RULES_QUEUES, "DPRD-FORWARD", "DPRD-DECIDE" };

/* Not with real servers, because dprd or the rules choose a server for each SYN. */
static bool floods_pass(const struct dprd *d)
{
	return d->flood.on && !d->config.own_backend_count;
}

/* Leads SYNs to the queue. In a flood most of them pass by: this node serves them. */
static void write_decide(FILE *out, const struct dprd *d)
{
	fprintf(out, "add chain inet dprd decide\nflush chain inet dprd decide\n");
	/*
	 * The set remembers for a second that SYNs come too fast. Its only element is "tcp", but an expired element
	 * takes a place until the kernel removes it, and SYNs must also pass when the set is full.
	 */
	if (floods_pass(d))
		fprintf(out,
			"add set inet dprd flooding { type inet_proto; size 64; flags dynamic,timeout; }\n"
			"add chain inet dprd pass\nflush chain inet dprd pass\n"
			"add rule inet dprd pass update @flooding { meta l4proto timeout 1s }\n"
			"add rule inet dprd pass counter name " UNDECIDED " accept\n"
			"add rule inet dprd decide limit rate over %d/second burst %d packets goto pass\n",
			FLOOD_FREE_PER_SECOND, FLOOD_FREE_BURST);
	fprintf(out, "add rule inet dprd decide meta mark set meta mark | " RULES_DECIDE "\n");
}

/* The SYNs of a flood pass here, before any other check; but a forwarded flow's SYN goes on. */
static void write_flood(FILE *out, bool v6)
{
	fprintf(out,
		"add rule inet dprd prerouting meta nfproto %s meta l4proto @flooding " RULES_SYN
		" tcp sequence & %d != 0 %s daddr . tcp dport @service%c counter name " UNDECIDED " accept\n",
		v6 ? "ipv6" : "ipv4", FLOOD_DECIDED_OF - 1, v6 ? "ip6" : "ip", v6 ? '6' : '4');
}

/* Tunnel packets to this node: those of peers go to the queue, others are dropped. */
static void write_tunnel(FILE *out, const struct dprd *d, bool v6)
{
	const struct member *self = &d->config.member[d->config.self];
	const struct addr *end = v6 ? &self->cluster_v6 : &self->cluster_v4;
	char start[128], text[ADDR_TEXT_BYTES], f = v6 ? '6' : '4';

	if (addr_is_zero(end))
		return;
	snprintf(start, sizeof(start), "add rule inet dprd prerouting %s daddr %s",
		 v6 ? "meta nfproto ipv6 meta l4proto 41 ip6" : "ip protocol 4 ip", addr_format(end, text));
	fprintf(out, "%s %s saddr @peers%c meta mark set meta mark | " RULES_FORWARD " accept\n", start,
		v6 ? "ip6" : "ip", f);
	fprintf(out, "%s counter name stranger%c drop\n", start, f);
}

/* SYNs of clients come in by these interfaces; without [Datapath] Interfaces= by any. */
static void write_client_interfaces(FILE *out, const struct config *config)
{
	unsigned i;

	if (!config->interface_count)
		return;
	fprintf(out, "iifname { ");
	for (i = 0; i < config->interface_count; i++)
		fprintf(out, "%s\"%s\"", i ? ", " : "", config->interface_name[i]);
	if (*config->shared_interface)
		fprintf(out, ", \"%s\"", config->shared_interface);
	fprintf(out, " } ");
}

static void write_family(FILE *out, const struct dprd *d, bool v6)
{
	const char *ip = v6 ? "ip6" : "ip";
	char f = v6 ? '6' : '4';

	/* The element gives the whole mark: no rule can have set other bits this early. */
	fprintf(out,
		"add rule inet dprd prerouting meta mark set %s saddr . tcp sport . %s daddr . tcp dport map @flows%c "
		"accept\n",
		ip, ip, f);
	if (floods_pass(d))
		write_flood(out, v6);
	write_tunnel(out, d, v6);
	/* An alias is local but never on a wire: only decapsulation may bring packets to it. */
	if (!d->config.member[d->config.self].own_cluster_address)
		fprintf(out, "add rule inet dprd prerouting %s daddr @foreign%c drop\n", ip, f);
	fprintf(out, "add rule inet dprd prerouting ");
	write_client_interfaces(out, &d->config);
	fprintf(out, "%s daddr . tcp dport @service%c " RULES_SYN " goto decide\n", ip, f);
	if (v6)
		fprintf(out, "add rule inet dprd prerouting ip6 daddr @own6 icmpv6 type "
			     "{ destination-unreachable, packet-too-big, time-exceeded, parameter-problem } "
			     "meta mark set meta mark | " RULES_DECIDE " accept\n");
	else
		fprintf(out, "add rule inet dprd prerouting ip daddr @own4 icmp type "
			     "{ destination-unreachable, time-exceeded, parameter-problem } "
			     "meta mark set meta mark | " RULES_DECIDE " accept\n");
}

/* An existing chain is removed in the same transaction. */
static void write_prerouting(FILE *out, const struct dprd *d)
{
	fprintf(out, "flush chain inet dprd prerouting\n");
	write_decide(out, d);
	fprintf(out, "add rule inet dprd prerouting iif lo accept\n");
	write_family(out, d, false);
	write_family(out, d, true);
}

/* SYN-ACKs from peers' addresses, and from a shared one, whose connections may all be forwarded ones. */
static void write_mss(FILE *out, const struct dprd *d, bool v6)
{
	const char *ip = v6 ? "ip6" : "ip";
	char f = v6 ? '6' : '4';

	fprintf(out, "add rule inet dprd mss %s saddr @foreign%c tcp option maxseg size set %u\n", ip, f,
		ways_mss(&d->ways, v6));
	if (d->config.shared_count)
		fprintf(out, "add rule inet dprd mss %s saddr @shared%c tcp option maxseg size set %u\n", ip, f,
			ways_mss(&d->ways, v6));
}

static bool has_alias(const struct config *config)
{
	unsigned member, i;

	for (member = 0; member < config->member_count; member++) {
		for (i = 0; member != config->self && i < member_services(&config->member[member]); i++) {
			struct addr alias = config_alias(config, member, i);

			if (!addr_is_zero(&alias))
				return true;
		}
	}
	return false;
}

/*
 * Packets that leave for clients of peers' addresses: in output those that this node serves, in postrouting those that
 * NAT forwarded. All packets of this node come here: a packet that is not a SYN-ACK meets no further check.
 */
static void write_leaving(FILE *out, const struct dprd *d, const char *chain)
{
	fprintf(out, "add rule inet dprd %s tcp flags & (syn | ack) == (syn | ack) jump mss\n", chain);
	if (has_alias(&d->config))
		fprintf(out,
			"add rule inet dprd %s ip saddr set ip saddr map @alias4\n"
			"add rule inet dprd %s ip6 saddr set ip6 saddr map @alias6\n",
			chain, chain);
}

/*
 * The web server may be in a container: its answers are forwarded packets, which have the alias as source from the NAT of
 * postrouting (priority 100) on.
 */
static void write_container_leaving(FILE *out, const struct dprd *d)
{
	fprintf(out, "add chain inet dprd leaving { type filter hook postrouting priority 150 ; }\n"
		     "flush chain inet dprd leaving\n");
	write_leaving(out, d, "leaving");
}

/*
 * Fragments without ports match no rule, so the kernel has to put them together first. It does so while any rule has the
 * statement tproxy, and this one is never reached: to track connections for that would cost far more. The kernel bounds
 * the memory (net.ipv4.ipfrag_high_thresh, net.netfilter.nf_conntrack_frag6_high_thresh).
 */
static void write_reassembly(FILE *out, const struct dprd *d)
{
	if (d->reassembles)
		fprintf(out, "add chain inet dprd reassembly\nflush chain inet dprd reassembly\n" REASSEMBLY);
}

/* On the BPF plane the programs mark packets. */
static void write_small_table(FILE *out, struct dprd *d)
{
	/* Removes the remains of the other plane, once. */
	if (flowset_chain_present(d->set, "prerouting"))
		fprintf(out, "delete table inet dprd\n");
	fprintf(out, "add table inet dprd\n");
	write_reassembly(out, d);
	rules_write_probed(out, &d->config);
	rules_write_backends(out, d);
}

/*
 * A base chain that stays is never deleted and made anew: when a hook is removed, the kernel drops the packets that
 * wait in the queues.
 */
static void write_full_table(FILE *out, struct dprd *d)
{
	fprintf(out, "add table inet dprd\n"
		     "add chain inet dprd prerouting { type filter hook prerouting priority -305 ; }\n"
		     "add chain inet dprd output { type filter hook output priority -150 ; }\n"
		     "add counter inet dprd " UNDECIDED "\n"
		     "add chain inet dprd mss\n"
		     "flush chain inet dprd output\nflush chain inet dprd mss\n");
	rules_write_sets(out, &d->config, false);
	rules_write_sets(out, &d->config, true);
	write_prerouting(out, d);
	write_mss(out, d, false);
	write_mss(out, d, true);
	write_leaving(out, d, "output");
	write_reassembly(out, d);
	rules_write_probed(out, &d->config);
	rules_write_backends(out, d);
	if (config_has_nat(&d->config))
		write_leaving(out, d, RULES_NAT_LEAVING);
	else if (d->routes)
		write_container_leaving(out, d);
}

void rules_write_table(FILE *out, struct dprd *d)
{
	if (d->fastpath)
		write_small_table(out, d);
	else
		write_full_table(out, d);
}

static int nft_install(struct dprd *d, bool quiet)
{
	static const char *const nft[] = { "nft", "-f", "-", NULL };
	char *script = NULL, *output = NULL, *replace = NULL;
	size_t bytes;
	FILE *out = open_memstream(&script, &bytes);
	int status, tries = 0;

	if (!out)
		return -ENOMEM;
	rules_write_table(out, d);
	fclose(out);
	do {
		free(output);
		status = command_run(nft, script, &output);
	} while (status > 0 && !quiet && ++tries < NFT_TRIES);
	/* A different table (of another version) is in the way: replace all of it. */
	if (status > 0 && asprintf(&replace, "add table inet dprd\ndelete table inet dprd\n%s", script) >= 0) {
		status = command_run_logged(nft, replace, quiet);
		if (!status)
			log_warning("the table \"inet dprd\" was replaced, since nft could not change it: %.600s",
				    output ? output : "");
	} else if (status < 0) {
		command_run_logged(nft, script, quiet);
	}
	free(replace);
	free(output);
	free(script);
	return status < 0 ? status : status ? -EIO : 0;
}

int rules_set_flood(struct dprd *d)
{
	static const char *const nft[] = { "nft", "-f", "-", NULL };
	char *script = NULL;
	size_t bytes;
	FILE *out = open_memstream(&script, &bytes);
	int error;

	if (!out)
		return -ENOMEM;
	write_prerouting(out, d);
	fclose(out);
	error = command_run_logged(nft, script, false);
	free(script);
	rules_watch_hit(d->rules_watch); /* forgets our own change: a flood leaves no time to check the rules */
	return error;
}

static void write_queue(FILE *out, const char *chain, unsigned first, unsigned workers, const char *options)
{
	fprintf(out, "-A %s -j NFQUEUE ", chain);
	if (workers > 1)
		fprintf(out, "--queue-balance %u:%u%s\n", first, first + workers - 1, options);
	else
		fprintf(out, "--queue-num %u%s\n", first, options);
}

void rules_write_queues(FILE *out, const struct config *config, unsigned workers, bool v6, bool decide)
{
	const char *const marked = "-m mark --mark " RULES_FORWARD "/" RULES_FORWARD;
	char rule[64];

	fprintf(out, ":" RULES_QUEUES " - [0:0]\n:DPRD-DECIDE - [0:0]\n");
	/* The most frequent packets come first, and meet no other rule on the way. */
	snprintf(rule, sizeof(rule), RULES_QUEUES " -p %d %s", v6 ? 41 : 4, marked);
	write_queue(out, rule, config->queue_first + 2 * workers, workers, "");
	snprintf(rule, sizeof(rule), RULES_QUEUES " %s", marked);
	write_queue(out, rule, config->queue_first + workers, workers, "");
	fprintf(out, "-A " RULES_QUEUES " -j DPRD-DECIDE\n");
	if (!config->own_backend_count)
		fprintf(out, "-A DPRD-DECIDE -j MARK --set-xmark 0/" RULES_BOTH "\n");
	if (decide)
		write_queue(out, "DPRD-DECIDE", config->queue_first, workers, " --queue-bypass");
}

/*
 * The chains of one family that lead to the queues, and the jump to them. Packets that come to DPRD have one of the
 * marks.
 */
static int iptables_install(const struct config *config, unsigned workers, bool v6, bool decide, bool quiet)
{
	const char *const tool = v6 ? "ip6tables-nft" : "iptables-nft";
	const char *const restore[] = { v6 ? "ip6tables-nft-restore" : "iptables-nft-restore", "-w", "5", "--noflush",
					NULL };
	const char *const check[] = { tool,         "-w",   "5",    "-t", "raw",    "-C",
				      "PREROUTING", "-m",   "mark", "!",  "--mark", "0/" RULES_BOTH,
				      "-j",         "DPRD", NULL };
	char *script = NULL;
	size_t bytes;
	FILE *out = open_memstream(&script, &bytes);
	int error;

	if (!out)
		return -ENOMEM;
	fprintf(out, "*raw\n");
	rules_write_queues(out, config, workers, v6, decide);
	if (command_run(check, NULL, NULL) != 0)
		fprintf(out, "-I PREROUTING -m mark ! --mark 0/" RULES_BOTH " -j DPRD\n");
	fprintf(out, "COMMIT\n");
	fclose(out);
	error = command_run_logged(restore, script, quiet);
	free(script);
	return error;
}

static bool is_on(const char *path)
{
	char value = '0';

	return smallfile_read(path, &value, 1, NULL) != 0 && value != '0';
}

bool rules_host_routes(void)
{
	return is_on("/proc/sys/net/ipv4/ip_forward") || is_on("/proc/sys/net/ipv6/conf/all/forwarding");
}

/* Asks once if the kernel takes the rule of the chain "reassembly". */
static void look_for_reassembly(struct dprd *d)
{
	static const char *const check[] = { "nft", "-c", "-f", "-", NULL };

	if (d->reassembly_known)
		return;
	d->reassembly_known = true;
	d->reassembles =
		command_run(check, "add table inet dprd\nadd chain inet dprd reassembly\n" REASSEMBLY, NULL) == 0;
	if (!d->reassembles)
		log_warning("the kernel cannot put fragments together for dprd (nft_tproxy is missing): a forwarded "
			    "connection breaks when a router cuts its packets");
}

int rules_install(struct dprd *d)
{
	/* A failure that was logged is not logged again at each try. */
	bool quiet = d->rules_failed;
	int error, family;

	look_for_reassembly(d);
	d->routes = d->routes || rules_host_routes();
	error = nft_install(d, quiet);

	for (family = 0; family < 2 && !error; family++) {
		error = rules_routes_install(&d->config, family, quiet);
		if (!error)
			error = iptables_install(&d->config, d->worker_count, family, true, quiet);
	}
	return error;
}

/* Removes the chains DPRD* and the jump; and the table "raw" itself when it is otherwise empty. */
static void iptables_remove(bool v6)
{
	const char *const tool = v6 ? "ip6tables-nft" : "iptables-nft";
	const char *const delete[] = { tool,         "-w",   "5",    "-t", "raw",    "-D",
				       "PREROUTING", "-m",   "mark", "!",  "--mark", "0/" RULES_BOTH,
				       "-j",         "DPRD", NULL };
	const char *const rules[] = { tool, "-w", "5", "-t", "raw", "-S", NULL };
	const char *const table[] = { "nft", "delete", "table", v6 ? "ip6" : "ip", "raw", NULL };
	char *output;
	int i;

	command_run(delete, NULL, NULL);
	for (i = 0; i < IPTABLES_CHAINS; i++) {
		const char *const flush[] = { tool, "-w", "5", "-t", "raw", "-F", iptables_chain[i], NULL };
		const char *const drop[] = { tool, "-w", "5", "-t", "raw", "-X", iptables_chain[i], NULL };

		command_run(flush, NULL, NULL);
		command_run(drop, NULL, NULL);
	}
	if (command_run(rules, NULL, &output) == 0 && output && !strstr(output, "-A ") && !strstr(output, "-N "))
		command_run(table, NULL, NULL);
	free(output);
}

int rules_remove(const struct config *config, unsigned workers, bool keep_forwarding)
{
	static const char *const nft[] = { "nft", "-f", "-", NULL };
	int family, error = 0;

	for (family = 0; family < 2; family++) {
		if (keep_forwarding) {
			error = error ? error : iptables_install(config, workers, family, false, false);
			continue;
		}
		iptables_remove(family);
		rules_routes_remove(family);
	}
	if (!keep_forwarding)
		error = command_run_logged(nft, "add table inet dprd\ndelete table inet dprd\n", false);
	return error;
}

int rules_count(struct dprd *d, struct rules_counts *ret)
{
	static const char *const name[] = { UNDECIDED, "stranger4", "stranger6" };
	/* Main thread only. The counts of the first reading are from before the start of dprd. */
	static struct {
		bool known;
		uint64_t packets;
	} last[sizeof(name) / sizeof(name[0])];
	static struct rules_counts counts;
	unsigned i;

	for (i = 0; i < sizeof(name) / sizeof(name[0]); i++) {
		uint64_t packets, more;
		int error = flowset_counter(d->set, name[i], &packets);

		if (error)
			return error;
		/* In a new table the counter begins at 0. */
		more = packets >= last[i].packets ? packets - last[i].packets : packets;
		if (last[i].known)
			*(i ? &counts.strangers : &counts.undecided) += (int64_t)more;
		last[i].packets = packets;
		last[i].known = true;
	}
	*ret = counts;
	return 0;
}
