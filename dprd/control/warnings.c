// SPDX-License-Identifier: GPL-2.0-or-later
/* control/warnings.c - lists each fault, and what an operator can do about it. */
#include "dprd/base/advice.h"
#include "dprd/base/version.h"
#include "dprd/check/report.h"
#include "dprd/control/causes.h"
#include "dprd/control/control.h"
#include "dprd/host/bridge.h"
#include "dprd/fastpath/fastpath.h"
#include "dprd/plane/plane.h"
#include "dprd/shared/shared.h"
#include "dprd/upkeep/upkeep.h"

#include <stdarg.h>

enum {
	FULL_PERCENT = 90,
	NOTE_BYTES = 400,
	NOTE_NAME_BYTES = NAME_BYTES + VERSION_BYTES + 8,
	NOTE_MEMBERS = 3, /* named in one note; the others are counted */
};

struct warnings {
	const struct dprd *d;
	const struct config *config;
	const struct control_snapshot *s;
	json_t *list;
	char text[CONFIG_ERROR_BYTES];
};

/* say() notes the fault; advise() adds what the operator can do, and both become one warning. */
static void say(struct warnings *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void advise(struct warnings *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(struct warnings *w, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(w->text, sizeof(w->text), format, arguments);
	va_end(arguments);
}

static void advise(struct warnings *w, const char *format, ...)
{
	char advice[CONFIG_ERROR_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(advice, sizeof(advice), format, arguments);
	va_end(arguments);
	json_array_append_new(w->list,
			      json_pack("{s:o, s:o}", "text", control_text(w->text), "advice", control_text(advice)));
}

static void warn_table(struct warnings *w)
{
	const struct control_snapshot *s = w->s;

	if (!s->table_valid) {
		say(w, "there is no load table %s; forwarding is off", w->config->table_file);
		advise(w, "systemctl status loadcast");
	} else if (!control_table_fresh(w->config, s)) {
		say(w, "loadcast has not written %s for %.1f s; forwarding is off", w->config->table_file,
		    (double)(s->now_ms - s->table.published_ms) / 1000);
		advise(w, "systemctl status loadcast");
	} else if (s->minority) {
		say(w, "fewer than half of the members are heard; this node serves on its own");
		advise(w, "Check the network of the cluster addresses, and UDP port %u", w->config->announce_port);
	}
}

static void advise_own_server(struct warnings *w)
{
	const struct config *c = w->config;

	if (c->health == HEALTH_HTTP)
		advise(w, "Check it: curl -i http://127.0.0.1:%u%s", config_asked_port(c), c->health_path);
	else
		advise(w, "See how it fails: journalctl -u loadcast; check that it listens on port %u",
		       config_asked_port(c));
}

/* Ports that fail while others of the node work. name: NULL: this node's. */
static void warn_ports(struct warnings *w, const char *name, const struct node_load *load)
{
	for (unsigned i = 0; load && i < w->s->table.port_count; i++) {
		unsigned port = w->s->table.port[i];

		if (!(load->ports_down >> i & 1))
			continue;
		if (name) {
			say(w,
			    "port %u of the web server of %s fails its health check, or is not in its dprd.conf; the "
			    "node gets no connections to it",
			    port, name);
			advise(w, "On %s: dprctl status", name);
		} else {
			say(w,
			    "port %u of this node's web server fails its health check; new connections to it go to "
			    "peers",
			    port);
			advise(w, "See how it fails: journalctl -u loadcast");
		}
	}
}

/* The agent of this node wants no new connections. False: it does, or there is none. */
static bool warn_agent(struct warnings *w, const struct node_load *load)
{
	static const char *const words[AGENT_WISHES] = {
		[AGENT_WANTS_DRAIN] = "drain",
		[AGENT_WANTS_MAINT] = "maint",
		[AGENT_SAYS_DOWN] = "down",
	};
	char text[ADDR_TEXT_BYTES];

	if (load && load->flags & NODE_AGENT_SILENT) {
		say(w, "the agent of this node gives no answer that loadcast understands; what it said last holds");
		advise(w, "Ask it: nc %s %u; see also: journalctl -u loadcast", addr_format(&w->config->agent, text),
		       w->config->agent_port);
	}
	if (!load || load->agent == AGENT_WANTS_ALL || load->agent >= AGENT_WISHES)
		return false;
	say(w, "the agent of this node says \"%s\": new connections go to its peers", words[load->agent]);
	advise(w, "Ask it: nc %s %u. It ends that with \"%s\"", addr_format(&w->config->agent, text),
	       w->config->agent_port, load->agent == AGENT_SAYS_DOWN ? "up" : "ready");
	return true;
}

static void warn_own_server(struct warnings *w, const struct node_load *load)
{
	const struct config *c = w->config;
	bool unhealthy = strcmp(control_own_state(c, w->s), "unhealthy") == 0;

	if (unhealthy && c->own_backend_count) {
		say(w, "no web server of this node passes its health check; new connections go to its peers");
		advise(w, "See which: dprctl backends");
	} else if (unhealthy) {
		say(w, "the web server of this node fails its health check; new connections go to its peers");
		advise_own_server(w);
	} else if (c->serve_here && load && (load->flags & NODE_SERVER_DOWN)) {
		say(w, "the web server of this node fails its health check; its real servers take new connections");
		advise_own_server(w);
	}
}

static void warn_self(struct warnings *w)
{
	const struct config *c = w->config;
	const struct node_load *load = control_node_load(w->s, c->member[c->self].id);
	bool asked = warn_agent(w, load);

	if (w->s->draining) {
		say(w, "this node drains: new connections go to its peers");
		advise(w, "To end that: dprctl undrain; a restart of dprd does not end it");
	}
	if (!asked && !w->s->draining)
		warn_own_server(w, load);
	warn_ports(w, NULL, load);
	if (control_table_fresh(c, w->s) && w->s->table.file_hash != c->file_hash) {
		say(w, "loadcast of this node has another dprd.conf than dprd");
		advise(w, "systemctl reload loadcast; its log: journalctl -u loadcast");
	}
	if (w->s->shorter_times) {
		say(w,
		    "connections of this node end %u times as soon as they used to, compared with those of its "
		    "peers; it counts as busy as they are",
		    w->s->shorter_times);
		advise(w, "Does the web server answer with errors? curl -i http://127.0.0.1:%u%s", c->port[0],
		       c->health_path);
	}
}

static void advise_backend(struct warnings *w, const struct backend *backend)
{
	const struct node_load *load = control_node_load(w->s, backend->id);
	const struct config *c = w->config;
	const struct addr *address = backend_address(backend, addr_is_zero(&backend->v4));
	unsigned port = backend->port ? backend->port : config_asked_port(c);
	char text[ADDR_TEXT_BYTES];
	bool v6 = !addr_is_v4(address);

	addr_format(address, text);
	if (!load)
		advise(w, "loadcast does not know it: systemctl reload loadcast");
	else if (load->state != NODE_UNHEALTHY)
		advise(w, "ip route get %s%s", text,
		       backend->form == BACKEND_DIRECT ? "; it must be on a network of this node" : "");
	else if (c->health == HEALTH_HTTP)
		advise(w, "Check it: curl -gi http://%s%s%s:%u%s", v6 ? "[" : "", text, v6 ? "]" : "", port,
		       c->health_path);
	else
		advise(w, "Check that %s listens on port %u", text, port);
}

static void warn_backends(struct warnings *w)
{
	unsigned own, usable = 0;

	/* With an old table their states are old, too, and the table has a warning of its own. */
	if (!w->config->own_backend_count || !control_table_fresh(w->config, w->s))
		return;
	for (own = 0; own < w->config->own_backend_count; own++)
		usable += !w->s->backends[own].why_not;
	if (!usable) {
		say(w, "none of the real servers behind this node takes new connections%s",
		    w->s->serves_here ? "; its own web server gets them all" : "");
		advise(w, "See why: dprctl backends");
	}
	for (own = 0; own < w->config->own_backend_count; own++) {
		const struct backend *backend = config_own_backend(w->config, own);

		/* A server without weight gets none because the operator wants so. */
		if (!w->s->backends[own].why_not || !backend->weight)
			continue;
		say(w, "the real server %s gets no new connections: %s", backend->name, w->s->backends[own].why_not);
		advise_backend(w, backend);
	}
}

static bool is_heard(const struct warnings *w, const struct node_load *load)
{
	return load && load->age_ms != LOAD_AGE_NEVER_MS && (load->flags & NODE_HEARD) &&
	       load_age_ms(&w->s->table, load, w->s->now_ms) <= w->config->dead_periods * w->config->period_ms;
}

/* The way to a member exists, but connections that go there are not answered. */
static void warn_answers(struct warnings *w, unsigned index, bool v6)
{
	const struct member *m = &w->config->member[index];
	const struct way *way = &w->s->way[index][v6];
	char to[ADDR_TEXT_BYTES], from[ADDR_TEXT_BYTES];

	if (!way_is_usable(way) || control_answers(w->s, index, v6))
		return;
	addr_format(&way->destination, to);
	addr_format(&way->source, from);
	if (!way_takes_new(way)) {
		/* A member that is down has its warning. */
		if (!is_heard(w, control_node_load(w->s, m->id)))
			return;
		say(w, "no host answers for the IPv%c address of %s; it gets no connections of this family",
		    v6 ? '6' : '4', m->name);
		advise(w, "ip route get %s from %s; on %s: ip addr show to %s", to, from, m->name, to);
		return;
	}
	if (w->s->probe[index][v6].lost_ms)
		say(w,
		    "packets that this node forwards to %s over IPv%c do not arrive; it gets no connections of this "
		    "family",
		    m->name, v6 ? '6' : '4');
	else
		say(w, "connections forwarded to %s over IPv%c get no answer; others of this family do not go there",
		    m->name, v6 ? '6' : '4');
	if (way->form == WAY_FORM_DIRECT)
		advise(w, "ip route get %s from %s; on %s: dprctl status", to, from, m->name);
	else
		advise(w,
		       "ip route get %s from %s; on %s: dprctl status, and let IP protocol %d from %s through all "
		       "firewalls: tcpdump -ni any '%s proto %d'",
		       to, from, m->name, v6 ? IPPROTO_IPV6 : IPPROTO_IPIP, from, v6 ? "ip6" : "ip",
		       v6 ? IPPROTO_IPV6 : IPPROTO_IPIP);
}

/* The member announces itself, but what it forwards to this node does not arrive. */
static void warn_arrivals(struct warnings *w, unsigned index, bool v6)
{
	const struct member *m = &w->config->member[index];
	const struct node_load *load = control_node_load(w->s, m->id);
	const uint32_t sends = NODE_ECHOES | NODE_DPRD_UP | NODE_TAKES_PROBES;
	char cause[CONTROL_CAUSE_BYTES];

	if (!load || (load->flags & sends) != sends || !probes_is_lost(w->d, index, v6))
		return;
	say(w, "packets that %s forwards to this node over IPv%c %s; it forwards none of this family", m->name,
	    v6 ? '6' : '4', w->d->probes.mute[index][v6] ? "could not be answered" : "do not arrive");
	control_arrival_cause(w->d, index, v6, cause);
	advise(w, "%s", cause);
}

/* The way was made narrower than the kernel knows it, because full-size packets did not arrive. */
static void warn_narrow(struct warnings *w, unsigned index, bool v6)
{
	const struct way_limit *limit = &w->d->ways.limit[index][v6];

	if (!limit->mtu)
		return;
	say(w, "packets of %u bytes do not arrive at %s over IPv%c, and no ICMP error says so; %u bytes are used",
	    limit->kernel_mtu, w->config->member[index].name, v6 ? '6' : '4', w->s->way[index][v6].mtu);
	advise(w, "Let ICMP errors through between the nodes, and give all cluster links the same MTU");
}

/* Warns when there is no way to a member for a family that both nodes have, or the way does not work. */
static void warn_path(struct warnings *w, unsigned index)
{
	const struct member *m = &w->config->member[index], *self = &w->config->member[w->config->self];
	unsigned v6;

	for (v6 = 0; v6 < 2; v6++) {
		const struct addr *to = v6 ? &m->cluster_v6 : &m->cluster_v4;
		const struct addr *from = v6 ? &self->cluster_v6 : &self->cluster_v4;
		char text[ADDR_TEXT_BYTES];

		warn_answers(w, index, v6);
		warn_arrivals(w, index, v6);
		warn_narrow(w, index, v6);
		if (addr_is_zero(to) || addr_is_zero(from) || way_is_usable(&w->s->way[index][v6]))
			continue;
		if (w->s->way[index][v6].mtu)
			say(w,
			    "the path to %s takes packets of %u bytes, and forwarding needs %d; no IPv%c connection is "
			    "forwarded to it",
			    m->name, w->s->way[index][v6].mtu, WAY_MTU_LEAST, v6 ? '6' : '4');
		else
			say(w, "no route to the cluster address of %s; no IPv%c connection is forwarded to it", m->name,
			    v6 ? '6' : '4');
		advise(w, "ip route get %s", addr_format(to, text));
	}
}

/* The causes of enum rejection, as "its announcements are not accepted: %s" goes on. */
static const char *const rejected_here[REJECTIONS] = {
	[REJECTION_OTHER] = "they are damaged, or another program sends them",
	[REJECTION_KEY] = "they are made with another key, or for another [Cluster] Name=",
	[REJECTION_NAME] = "they have the name of another node",
	[REJECTION_ADDRESS] = "dprd.conf has another address for it",
	[REJECTION_VERSION] = "their format is unknown to this version",
	[REJECTION_RUN] = "nothing proves that they are new, as it does not hear this node",
	[REJECTION_RATE] = "they come too often",
};
static const char *const rejected_there[REJECTIONS] = {
	[REJECTION_OTHER] = "they arrive damaged, or another program sends them",
	[REJECTION_KEY] = "it has another key, or another [Cluster] Name=",
	[REJECTION_NAME] = "its dprd.conf has another name at their address",
	[REJECTION_ADDRESS] = "its dprd.conf has another address for this node",
	[REJECTION_VERSION] = "its version does not know their format",
	[REJECTION_RUN] = "nothing proves that they are new",
	[REJECTION_RATE] = "they come too often",
};

static void advise_rejected(struct warnings *w, const struct member *m, enum rejection cause)
{
	const struct config *c = w->config;

	if (cause == REJECTION_KEY)
		advise(w,
		       "Compare on both: sha256sum %s, and [Cluster] Name=; then on the one that changed: "
		       "systemctl reload dprd loadcast",
		       c->key_file);
	else if (cause == REJECTION_NAME || cause == REJECTION_ADDRESS || cause == REJECTION_RATE)
		advise(w,
		       "Make dprd.conf the same on both, and [Node] Name= on %s its own name; then on each that "
		       "changed: systemctl reload dprd loadcast",
		       m->name);
	else if (cause == REJECTION_VERSION)
		advise(w, "Install the same version on both: loadcast --version");
	else if (cause == REJECTION_RUN)
		advise(w, "Let UDP port %u from each of the two through the other's firewall", c->announce_port);
	else
		advise(w, "See what comes: tcpdump -Xni any udp port %u; journalctl -u loadcast", c->announce_port);
}

static void warn_rejected(struct warnings *w, const struct member *m, const struct node_load *load)
{
	char text[ADDR_TEXT_BYTES];

	say(w, "announcements of %s from %s are not accepted: %s; it gets no connections", m->name,
	    addr_format(&load->rejected_from, text), rejected_here[load->rejected]);
	advise_rejected(w, m, (enum rejection)load->rejected);
}

static void warn_unheard(struct warnings *w, const struct member *m, const struct node_load *load)
{
	if (!load) {
		say(w, "loadcast does not know %s; it gets no connections", m->name);
		advise(w, "It reads dprd.conf by itself: systemctl reload loadcast");
		return;
	}
	if (load->rejected) {
		warn_rejected(w, m, load);
		return;
	}
	if (load->age_ms == LOAD_AGE_NEVER_MS) {
		say(w, "%s has never been heard", m->name);
		advise(w, "On %s: systemctl status loadcast; let UDP port %u from there through the firewall", m->name,
		       w->config->announce_port);
		return;
	}
	say(w, "%s has not announced for %.1f s; it gets no connections", m->name,
	    load_age_ms(&w->s->table, load, w->s->now_ms) / 1000.0);
	advise(w, "On %s: systemctl status loadcast", m->name);
}

/* The member's configuration is not that of this node: what differs, as far as it is known. */
static void warn_differs(struct warnings *w, const struct member *m, const struct node_load *load)
{
	bool period = load->period_ms && load->period_ms != w->config->period_ms;

	if (!(load->flags & NODE_CONFIG_DIFFERS))
		return;
	if (period)
		say(w, "%s has Period=%ums in its configuration, and this node has %ums", m->name, load->period_ms,
		    w->config->period_ms);
	else
		say(w, "%s has other members, addresses or ports in its configuration", m->name);
	advise(w, "Make dprd.conf the same on both; then on each that changed: systemctl reload dprd loadcast");
}

static void warn_heard(struct warnings *w, const struct member *m, const struct node_load *load)
{
	if (load->flags & NODE_CONFLICT) {
		say(w, "two hosts announce themselves as %s; it gets no connections", m->name);
		advise(w, "Give each host its own [Node] Name=");
	}
	if (!(load->flags & NODE_ECHOES) && load->rejects) {
		say(w, "%s does not accept the announcements of this node: %s; it gets no connections", m->name,
		    rejected_there[load->rejects]);
		advise_rejected(w, m, (enum rejection)load->rejects);
	} else if (!(load->flags & NODE_ECHOES)) {
		say(w, "%s is heard, but does not hear this node; it gets no connections", m->name);
		advise(w, "Let UDP port %u from this node through its firewall", w->config->announce_port);
	}
	if (!(load->flags & NODE_DPRD_UP)) {
		say(w, "dprd does not run on %s; it gets no connections", m->name);
		advise(w, "On %s: systemctl status dprd", m->name);
	}
	warn_differs(w, m, load);
	if (load->state == NODE_UNHEALTHY) {
		say(w, "the web server of %s fails its health check; it gets no connections", m->name);
		advise(w, "On %s: dprctl status", m->name);
	}
	if (load->shorter_times) {
		say(w,
		    "connections of %s end %u times as soon as they used to, compared with those of its peers; it "
		    "counts as "
		    "busy as they are",
		    m->name, load->shorter_times);
		advise(w, "Does its web server answer with errors? On %s: dprctl status", m->name);
	}
	warn_ports(w, m->name, load);
}

static void warn_member(struct warnings *w, unsigned index)
{
	const struct member *m = &w->config->member[index];
	const struct node_load *load = control_node_load(w->s, m->id);

	/* With an old table it is loadcast that is silent, not the peer. */
	if (index == w->config->self || !control_table_fresh(w->config, w->s))
		return;
	if (is_heard(w, load))
		warn_heard(w, m, load);
	else
		warn_unheard(w, m, load);
	warn_path(w, index);
}

/* The flags of this node itself tell whether another host uses its name. */
static void warn_own_name(struct warnings *w)
{
	const struct member *self = &w->config->member[w->config->self];
	const struct node_load *load = control_node_load(w->s, self->id);

	if (load && (load->flags & NODE_CONFLICT)) {
		say(w, "another host announces itself as %s as well", self->name);
		advise(w, "Give each host its own [Node] Name=");
	}
}

static void warn_inside(struct warnings *w)
{
	if (!w->d->inside.left_out)
		return;
	say(w, "this host has %u more networks of its own than the %d that dprd knows; clients there may get no answer",
	    w->d->inside.left_out, INSIDE_NETWORKS_MAX);
	advise(w, "Name the interfaces of clients and peers: [Datapath] Interfaces=; clients behind others are served "
		  "here");
}

static void warn_clock(struct warnings *w)
{
	if (!preflight_has_other_clock(PREFLIGHT_OFFSETS))
		return;
	say(w, PREFLIGHT_CLOCK_TEXT);
	advise(w, PREFLIGHT_CLOCK_ADVICE);
}

/* loadcast, and with it the peers, know from this file alone that dprd runs. */
static void warn_status_file(struct warnings *w)
{
	int error = w->d->upkeep ? w->d->upkeep->presence.status_error : 0;

	if (!error)
		return;
	say(w, "cannot write %s/status: %s; to its peers this dprd is dead, and they forward nothing here",
	    w->config->run_dir, strerror(-error));
	advise(w, "%s", advice_for(error, PRESENCE_ADVICE));
}

static void warn_bridge(struct warnings *w)
{
	char name[IF_NAMESIZE];

	if (!w->d->fastpath || !bridge_takes_packets(w->config, name))
		return;
	say(w,
	    "the kernel's rules run at the ports of the bridge %s, in front of the BPF programs (br_netfilter): "
	    "connections are not forwarded, or break",
	    name);
	advise(w, BRIDGE_ADVICE ", and restart dprd");
}

/* Clients and peers come by interfaces that have the node's own addresses: these are never left out. */
static void warn_interfaces(struct warnings *w)
{
	const struct fastpath *f = w->d->fastpath;
	char names[FASTPATH_LEFT_MAX * (sizeof(f->left[0]) + 2) + 1] = "", *end = names;
	unsigned i;

	if (!f || !f->left_count)
		return;
	for (i = 0; i < f->left_count && i < FASTPATH_LEFT_MAX; i++)
		end += snprintf(end, sizeof(names) - (size_t)(end - names), "%s%s", i ? ", " : "", f->left[i]);
	say(w, "more than %d interfaces have addresses: the BPF programs are not on %s%s", FASTPATH_LINKS_MAX, names,
	    f->left_count > FASTPATH_LEFT_MAX ? " and others" : "");
	advise(w, "Name those by which clients and peers come: [Datapath] Interfaces=");
}

static void warn_plane(struct warnings *w)
{
	if (*plane_unseen(w->d)) {
		say(w, "connections that peers forward here may get no answer: %s", plane_unseen(w->d));
		advise(w, "Plane=nfqueue in [Datapath] works with any interface%s; then systemctl restart dprd",
		       w->config->plane == PLANE_AUTO ? ", and Plane=auto chooses it" : "");
	}
	if (!plane_is_second_choice(w->d))
		return;
	say(w, "Plane=auto uses the slower plane nfqueue: %s", plane_why(w->d));
	advise(w, "dprd --check, then: systemctl restart dprd. If you want this plane: Plane=nfqueue in [Datapath]");
}

static void warn_counters(struct warnings *w, const struct control_recent *recent)
{
	const struct flow_counts *flows = &w->s->flows;
	unsigned max = w->d->flow_limits.max_confirmed;

	if (recent->overruns) {
		say(w, "the kernel's queue overran %llu times in the last %d s", (unsigned long long)recent->overruns,
		    CONTROL_RECENT_S);
		advise(w, "Raise [Queue] Length= (now %u) or Workers=, and restart dprd", w->config->queue_length);
	}
	if (control_passes_flood(w->d)) {
		say(w,
		    "a flood of SYNs, now or in the last %d s: this node serves all except one of %d without a "
		    "decision; "
		    "%lld so far",
		    FLOOD_LASTS_MS / 1000, FLOOD_DECIDED_OF,
		    (long long)(recent->undecided > 0 ? recent->undecided : 0));
		advise(w, "It ends by itself. On a kernel with BPF it is not needed: Plane=auto");
	}
	if (max && (uint64_t)flows->confirmed * 100 > (uint64_t)max * FULL_PERCENT) {
		say(w, "%u of %u forwarded flows are in use; beyond that connections are served here", flows->confirmed,
		    max);
		advise(w, "Raise [Flows] MaxFlows= and restart dprd");
	}
	if (recent->strangers_recent > 0) {
		say(w, "%lld tunnel packets of hosts that are not members were dropped in the last minute",
		    (long long)recent->strangers_recent);
		advise(w, "Find the sender: tcpdump -ni any 'ip proto 4 or ip6 proto 41'");
	}
	if (!control_sum(&w->s->counters).law_holds) {
		say(w, "the counters do not add up: the sum of the verdicts is not the number of packets seen");
		advise(w, "This is a bug of dprd; please report it with: dprctl status --json");
	}
}

static void warn_shared(struct warnings *w)
{
	const struct shared *s = w->d->shared;

	if (!s)
		return;
	if (s->used == SHARED_USES_NONE) {
		say(w, "this node answers for no shared address: %s", s->why);
		advise(w, "dprd --check");
	} else if (!s->had_lease) {
		say(w, "this node has no lease: it accepts no new connection to the shared addresses");
		advise(w, "Is loadcast running, and heard by the other nodes? systemctl status loadcast; dprctl peers");
	}
}

json_t *control_warnings(const struct dprd *d, const struct control_snapshot *s, const struct control_recent *recent)
{
	struct warnings w = { .d = d, .config = &d->config, .s = s, .list = json_array() };
	unsigned i;

	warn_table(&w);
	warn_self(&w);
	warn_own_name(&w);
	warn_status_file(&w);
	warn_shared(&w);
	warn_backends(&w);
	for (i = 0; i < d->config.member_count; i++)
		warn_member(&w, i);
	warn_plane(&w);
	warn_inside(&w);
	warn_bridge(&w);
	warn_interfaces(&w);
	warn_clock(&w);
	warn_counters(&w, recent);
	return w.list;
}

/* ", n2 0.2.0" for a member that is heard and runs another version than this dprd; nothing for any other. */
static bool name_version(const struct config *config, const struct control_snapshot *s, unsigned index,
			 char text[NOTE_NAME_BYTES])
{
	const struct member *m = &config->member[index];
	const struct node_load *load = control_node_load(s, m->id);

	if (!load || !(load->flags & NODE_HEARD) || memcmp(load->version, dprd_version, VERSION_BYTES) == 0)
		return false;
	snprintf(text, NOTE_NAME_BYTES, ", %s %s", m->name, load->version[0] ? load->version : "older");
	return true;
}

/* Another program may come first with good reason; one that accepts connections itself leaves nothing to forward. */
static void note_programs(const struct fastpath *f, json_t *list)
{
	char text[NOTE_BYTES], program[FASTPATH_PROGRAM_BYTES];
	unsigned i;

	for (i = 0; f && i < f->link_count; i++) {
		if (!fastpath_in_front(f, f->links[i].interface, program))
			continue;
		snprintf(text, sizeof(text),
			 "the BPF program %s gets the packets of %s before dprd's; if it accepts them itself, nothing "
			 "is "
			 "forwarded",
			 program, f->links[i].name);
		json_array_append_new(list, control_text(text));
	}
}

static void note_versions(const struct config *config, const struct control_snapshot *s, json_t *list)
{
	char text[NOTE_BYTES], names[NOTE_MEMBERS * NOTE_NAME_BYTES] = "", *end = names;
	unsigned i, others = 0;

	for (i = 0; i < config->member_count && control_table_fresh(config, s); i++) {
		char one[NOTE_NAME_BYTES];

		if (name_version(config, s, i, one) && ++others <= NOTE_MEMBERS)
			end = stpcpy(end, one);
	}
	if (!others)
		return;
	if (others > NOTE_MEMBERS)
		snprintf(text, sizeof(text), "members run other versions than this dprd (%s): %s, and %u more",
			 dprd_version, names + 2, others - NOTE_MEMBERS);
	else
		snprintf(text, sizeof(text), "members run other versions than this dprd (%s): %s", dprd_version,
			 names + 2);
	json_array_append_new(list, control_text(text));
}

json_t *control_notes(const struct dprd *d, const struct control_snapshot *s)
{
	json_t *list = json_array();

	note_versions(&d->config, s, list);
	note_programs(d->fastpath, list);
	return list;
}
