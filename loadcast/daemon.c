// SPDX-License-Identifier: GPL-2.0-or-later
/* The daemon: waits, takes announcements, samples the load, announces, publishes the load table. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "dprd/base/advice.h"
#include "dprd/base/clock.h"
#include "dprd/base/descriptors.h"
#include "dprd/base/lock.h"
#include "dprd/base/log.h"
#include "loadcast/parts.h"
#include "loadcast/dprd_process.h"
#include "loadcast/sharing.h"
#include "loadcast/core/slow_start.h"
#include "loadcast/core/table.h"

enum {
	PUBLISH_SOON_MS = 20, /* announcements that come close together make one publication */
	FAREWELLS = 3, /* copies of the last announcement, which is never acknowledged */
	LOG_INTERVAL_MS = 10000,
	MEMBER_LOG_INTERVAL_MS = 1000,
	STATUS_INTERVAL_MS = 5000,
	/* Beside those that poll(2) waits for: files, netlink, the journal; of a check: libcurl's two, or a pipe. */
	FILES_ALSO = 16 + 2 * BACKENDS_SOCKETS,
};

/* The descriptors that poll(2) waits for. */
enum {
	POLL_SIGNALS,
	POLL_DPRD_PROCESS,
	POLL_LEASE,
	POLL_SOCKETS = POLL_LEASE + LEASE_SOCKETS,
	POLL_AGENT = POLL_SOCKETS + MCAST_FAMILIES,
	POLL_SERVERS,
	POLL_FDS = POLL_SERVERS + BACKENDS_SOCKETS,
};

/*
 * They run in this order: changes of servers and of dprd go into the announcement, and all of them into the load table.
 */
enum timer {
	TIMER_HEALTH,
	TIMER_DPRD,
	TIMER_ANNOUNCE,
	TIMER_SHARE,
	TIMER_PUBLISH,
	TIMER_REJOIN,
	TIMER_STATUS,
	TIMER_WATCHDOG,
	TIMERS,
};

struct daemon {
	const struct options *options;
	struct parts parts;
	struct table table;
	struct sharing sharing;
	struct dprd_process dprd;
	struct slow_start slow_start;
	uint32_t seen_hash; /* of the file with which dprd ran when this last looked; 0: dprd was not seen */
	unsigned agreed_count; /* the service ports of the file that dprd and loadcast last had both */
	uint16_t agreed[PORTS_MAX];
	uint32_t agreed_hash; /* config_service_hash() of that file */
	struct load_table published;
	int signals, lock_fd;
	unsigned watchdog_ms;
	bool stopping, failed, was_silent;
	uint64_t due_ms[TIMERS]; /* 0: at once */
	uint64_t announced_ms; /* when this last announced to all */
	int publish_error;
	uint32_t logged_flags[MEMBERS_MAX];
	struct log_limit reject_log[REJECT_REASONS], member_log[MEMBERS_MAX], send_log, sample_log;
	uint64_t send_errors;
};

static const struct config *config_of(const struct daemon *d)
{
	return &d->parts.setup->config;
}

/* One period, 0.5 to 1.5 times as long, so that nodes do not fall into step. */
static uint64_t jittered_ms(struct daemon *d, uint64_t now_ms)
{
	const struct share *share = sharing_share(&d->sharing);
	unsigned period_ms = share ? share_period_ms(share, now_ms) : config_of(d)->period_ms;

	return period_ms / 2 + randombytes_uniform(period_ms + 1);
}

/* The sum, limited to the largest count that an announcement may carry. */
static uint32_t load_sum(uint32_t a, uint32_t b)
{
	uint64_t sum = (uint64_t)a + b;

	return sum < ANNOUNCE_LOAD_MAX ? (uint32_t)sum : ANNOUNCE_LOAD_MAX;
}

/* Peers forward to the ports that they hear. So a port of a new file is announced only when dprd has the file, too. */
static void agree_on_ports(struct daemon *d, const struct dprd_status *status, struct table_own *own)
{
	const struct config *config = config_of(d);

	/* A dprd that is late for a moment still has its former file. */
	if (status->file_hash == config->file_hash) {
		d->agreed_count = config->port_count;
		memcpy(d->agreed, config->port, sizeof(d->agreed));
		d->agreed_hash = config_service_hash(config);
	} else if (!d->agreed_count && status->port_count) {
		/* This loadcast started with another file. */
		d->agreed_count = status->port_count;
		memcpy(d->agreed, status->port, sizeof(d->agreed));
		d->agreed_hash = status->service_hash;
	}
	own->port_count = d->agreed_count;
	memcpy(own->port, d->agreed, sizeof(own->port));
	own->service_hash = d->agreed_hash;
}

/* True while this node wants no new connections: by dprctl, by its agent, or because it stops. */
static bool drains(const struct daemon *d, const struct dprd_status *status)
{
	enum agent_wish wish = agent_wish(agent_words(d->parts.agent));

	return d->stopping || status->draining || wish == AGENT_WANTS_DRAIN || wish == AGENT_WANTS_MAINT;
}

static void refresh_own(struct daemon *d, uint64_t now_ms)
{
	struct table_own own = d->table.own;
	struct dprd_status status;
	uint64_t held_back;
	int error = sampler_read(d->parts.sampler, &own.sample);

	if (!error)
		own.sampled_ms = now_ms;
	else if (log_allowed(&d->sample_log, now_ms, LOG_INTERVAL_MS, &held_back))
		log_warning("cannot read the load of this host: %s", strerror(-error));
	own.dprd_up = dprd_process_read(&d->dprd, config_of(d)->run_dir, now_ms, &status);
	agree_on_ports(d, &status, &own);
	own.state = backends_serve_peers(d->parts.servers) ? NODE_ACTIVE : NODE_UNHEALTHY;
	own.ports_down = backends_ports_down(d->parts.servers);
	own.agent = agent_wish(agent_words(d->parts.agent));
	if (own.agent == AGENT_SAYS_DOWN)
		own.state = NODE_UNHEALTHY;
	if (drains(d, &status))
		own.state = NODE_DRAINING;
	own.held_permille =
		agent_held(agent_words(d->parts.agent), slow_start_held(&d->slow_start, own.state == NODE_ACTIVE,
									config_of(d)->slow_start_ms, now_ms));
	own.proofs = status.proofs;
	own.sample.redirected = load_sum(status.redirected, 0);
	own.sample.arrivals_per_1000_s = load_sum(status.arrivals_per_1000_s, 0);
	/* Only dprd knows connections that have no socket of this host. It counted them when it wrote this. */
	if (status.elsewhere) {
		own.sample.open_connections = load_sum(status.open_connections, 0);
		own.sample.age_ms = now_ms > status.written_ms ? (uint32_t)(now_ms - status.written_ms) : 0;
	}
	/* Connections that end much sooner than usual may be errors: dprd says how many it would usually be. */
	if (own.sample.open_connections < status.least_connections)
		own.sample.open_connections = load_sum(status.least_connections, 0);
	own.shorter_times = status.shorter_times < SHORTER_TIMES_MAX ? status.shorter_times : SHORTER_TIMES_MAX;
	memcpy(own.version, dprd_version, sizeof(own.version));
	d->table.own = own;
}

/* Announces to all; to each of some members (one bit each) on every way there is. */
static void announce(struct daemon *d, uint64_t members, uint64_t now_ms)
{
	uint8_t datagram[ANNOUNCE_BYTES_MAX];
	bool silent = table_own_conflict(&d->table, now_ms);
	const struct mcast_counters *count = mcast_count(d->parts.mcast);
	uint64_t held_back;
	size_t size;

	if (silent != d->was_silent && silent)
		log_err("another host announces itself as \"%s\": this host stops announcing until the other is gone "
			"(see [Node] Name= on both)",
			config_of(d)->node_name);
	else if (silent != d->was_silent)
		log_info("no other host is heard as \"%s\" any more; announcing again", config_of(d)->node_name);
	d->was_silent = silent;
	if (silent)
		return;
	d->announced_ms = now_ms;
	size = table_announce(&d->table, &d->parts.setup->keys, now_ms, datagram);
	if (size)
		mcast_send(d->parts.mcast, datagram, size);
	for (unsigned i = 0; size && members >> i && i < MEMBERS_MAX; i++) {
		if (members >> i & 1 && i != config_of(d)->self)
			mcast_send_member(d->parts.mcast, i, datagram, size);
	}
	if (count->send_errors != d->send_errors && log_allowed(&d->send_log, now_ms, LOG_INTERVAL_MS, &held_back)) {
		log_warning("cannot send announcements: %s (%llu of %llu failed)", strerror(count->last_error),
			    (unsigned long long)count->send_errors,
			    (unsigned long long)(count->sent + count->send_errors));
		d->send_errors = count->send_errors;
	}
}

static void log_member(struct daemon *d, const struct node_load *node, uint64_t now_ms)
{
	int member = config_member_by_id(config_of(d), node->id);
	uint32_t flags = node->flags & ~(uint32_t)NODE_DPRD_UP;
	uint64_t held_back;

	if (member < 0 || flags == d->logged_flags[member] ||
	    !log_allowed(&d->member_log[member], now_ms, MEMBER_LOG_INTERVAL_MS, &held_back))
		return;
	d->logged_flags[member] = flags;
	log_info("%s: %s%s%s", config_of(d)->member[member].name,
		 !(flags & NODE_HEARD) ? "not heard"
		 : flags & NODE_ECHOES ? "heard, hears us"
				       : "heard, but does not hear us",
		 flags & NODE_CONFIG_DIFFERS ? ", has another service configuration or period" : "",
		 flags & NODE_CONFLICT ? ", two hosts use its name" : "");
}

static void publish(struct daemon *d, uint64_t now_ms)
{
	const char *path = config_of(d)->table_file;
	unsigned i;
	int error;

	table_fill(&d->table, now_ms, &d->published);
	for (i = 1; i < d->published.count; i++)
		log_member(d, &d->published.nodes[i], now_ms);
	backends_fill(d->parts.servers, &d->published);
	if (agent_is_silent(d->parts.agent))
		d->published.nodes[0].flags |= NODE_AGENT_SILENT;
	if (d->published.nodes[0].agent == AGENT_SAYS_DOWN && d->published.nodes[0].state == NODE_ACTIVE)
		d->published.nodes[0].state = NODE_UNHEALTHY;
	error = load_table_publish(path, &d->published);
	/* Logged when it changes: the next success or another error ends it. */
	if (error != d->publish_error && error)
		log_err("cannot write the load table %s: %s (%s)", path, strerror(-error),
			advice_for(error, "its directory must exist and belong to this user"));
	else if (error != d->publish_error)
		log_info("the load table %s can be written again", path);
	d->publish_error = error;
	d->due_ms[TIMER_PUBLISH] = now_ms + config_of(d)->period_ms / 2;
}

static void log_reject(struct daemon *d, const struct addr *source, enum reject reason, uint64_t now_ms)
{
	char text[ADDR_TEXT_BYTES];
	uint64_t held_back;

	if (!reject_counts(reason) || !log_allowed(&d->reject_log[reason], now_ms, LOG_INTERVAL_MS, &held_back)) {
		log_debug("announcement from %s not taken: %s", addr_format(source, text), reject_text(reason));
		return;
	}
	log_warning("announcement from %s not taken: %s (%llu for this reason since the start)",
		    addr_format(source, text), reject_text(reason), (unsigned long long)d->table.rejected[reason]);
}

static void receive(struct daemon *d, int socket)
{
	const struct datagram *batch;
	unsigned i, count = mcast_receive(d->parts.mcast, socket, &batch);
	uint64_t now_ms = clock_now_ms();

	for (i = 0; i < count; i++) {
		enum reject reason = table_receive(&d->table, &d->parts.setup->keys, &batch[i].source, batch[i].bytes,
						   batch[i].size, now_ms);

		if (reason) {
			log_reject(d, &batch[i].source, reason, now_ms);
			continue;
		}
		if (sharing_share(&d->sharing))
			d->due_ms[TIMER_SHARE] = now_ms;
		if (d->due_ms[TIMER_PUBLISH] > now_ms + PUBLISH_SOON_MS)
			d->due_ms[TIMER_PUBLISH] = now_ms + PUBLISH_SOON_MS;
	}
	/* Peers must not send connections there any more: publish at once. */
	if (d->table.lost)
		d->due_ms[TIMER_PUBLISH] = now_ms;
	d->table.lost = false;
}

/* Call while the former configuration still exists. Errors are logged. */
static int share_addresses(struct daemon *d, const struct config *config)
{
	char message[CONFIG_ERROR_BYTES];

	if (sharing_configure(&d->sharing, config, clock_now_ms(), message) < 0) {
		log_err("shared addresses: %s", message);
		return -1;
	}
	d->table.share = sharing_share(&d->sharing);
	d->due_ms[TIMER_SHARE] = 0;
	return 0;
}

/* The lock of the load table that the configuration names, which may be another one than before; or -errno. */
static int lock_of(const struct daemon *d, const struct config *config)
{
	if (strcmp(config->table_file, config_of(d)->table_file) == 0)
		return d->lock_fd;
	return lock_take_beside(config->table_file, "loadcast");
}

static void reload(struct daemon *d)
{
	struct parts old = d->parts, fresh;
	int lock_fd = -1;
	bool made;

	notify_manager("RELOADING=1\nMONOTONIC_USEC=%llu", (unsigned long long)clock_now_us());
	made = parts_make(d->options, &fresh) == 0;
	if (made)
		lock_fd = lock_of(d, &fresh.setup->config);
	if (lock_fd < 0 || share_addresses(d, &fresh.setup->config) < 0) {
		if (made)
			parts_free(&fresh);
		if (lock_fd >= 0 && lock_fd != d->lock_fd)
			close(lock_fd);
		log_err("the reload failed: loadcast goes on with the former configuration");
		notify_manager("READY=1");
		return;
	}
	if (lock_fd != d->lock_fd)
		close(d->lock_fd);
	d->lock_fd = lock_fd;
	d->parts = fresh;
	backends_inherit(fresh.servers, old.servers);
	agent_inherit(fresh.agent, old.agent);
	if (old.setup->config.member[old.setup->config.self].id == config_of(d)->member[config_of(d)->self].id)
		table_reconfigure(&d->table, config_of(d));
	else
		table_init(&d->table, config_of(d), false, epoch_new());
	d->table.share = sharing_share(&d->sharing);
	memset(d->logged_flags, 0, sizeof(d->logged_flags));
	parts_free(&old);
	d->due_ms[TIMER_ANNOUNCE] = d->due_ms[TIMER_HEALTH] = d->due_ms[TIMER_PUBLISH] = 0;
	log_info("configuration read again: %u members", config_of(d)->member_count);
	notify_manager("READY=1");
}

static void take_signal(struct daemon *d)
{
	struct signalfd_siginfo info;

	if (read(d->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	if (info.ssi_signo == SIGHUP)
		reload(d);
	else
		d->stopping = true;
}

static void report_status(struct daemon *d, uint64_t now_ms)
{
	unsigned i, peers = 0, heard = 0, two_way = 0, backends = 0, good = 0;
	char text[64] = "";

	for (i = 1; i < d->published.count; i++) {
		const struct node_load *node = &d->published.nodes[i];
		bool backend = node->flags & NODE_BACKEND;

		peers += !backend;
		heard += !backend && node->flags & NODE_HEARD;
		two_way += !backend && node->flags & NODE_ECHOES;
		backends += backend;
		good += backend && node->state == NODE_ACTIVE;
	}
	if (backends)
		snprintf(text, sizeof(text), "; %u of %u real servers work", good, backends);
	notify_manager("STATUS=hears %u of %u peers, %u of them hear this node%s; %u announcements rejected%s", heard,
		       peers, two_way, text, d->published.rejected, d->was_silent ? "; silent: name conflict" : "");
	d->due_ms[TIMER_STATUS] = now_ms + STATUS_INTERVAL_MS;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * Shares follow what was heard. A member that waits for an answer, or is asked for one, gets an announcement at once.
 */
static void step_shares(struct daemon *d, uint64_t now_ms)
{
	struct sharing_news news = {
		.active = d->table.own.state != NODE_DRAINING && d->table.own.agent == AGENT_WANTS_ALL &&
			  backends_serve_clients(d->parts.servers),
		.asked_by = d->table.asked_by,
	};
	uint64_t members;

	table_mean_load(&d->table, now_ms, &news.own_load, &news.mean_load);
	members = sharing_step(&d->sharing, &news, now_ms);
	memcpy(d->table.own.hardware, d->sharing.hardware, sizeof(d->table.own.hardware));
	d->table.asked_by = 0;
	if (members)
		announce(d, members, now_ms);
	d->due_ms[TIMER_SHARE] = UINT64_MAX;
	if (sharing_share(&d->sharing))
		d->due_ms[TIMER_SHARE] = now_ms + earlier(share_ask_ms(&d->sharing.share), SHARING_LOOK_MS);
}

/* dprd has read its file anew: dprctl reload is for both daemons. */
static void follow_dprd(struct daemon *d, uint32_t file_hash)
{
	bool anew = file_hash && d->seen_hash && file_hash != d->seen_hash;

	if (file_hash)
		d->seen_hash = file_hash;
	if (anew && file_hash != config_of(d)->file_hash)
		reload(d);
	/* Peers learn at once about a new port, and about a port that is no longer served. */
	else if (anew)
		d->due_ms[TIMER_ANNOUNCE] = d->due_ms[TIMER_PUBLISH] = 0;
}

/* Peers are told soon whose probes arrive. A way that comes and goes must not use up what a member may announce. */
static void follow_proofs(struct daemon *d, const struct status_proofs *proofs)
{
	uint64_t soon_ms = d->announced_ms + config_of(d)->period_ms / 2;

	if (memcmp(proofs, &d->table.own.proofs, sizeof(*proofs)) != 0)
		d->due_ms[TIMER_ANNOUNCE] = earlier(d->due_ms[TIMER_ANNOUNCE], soon_ms);
}

/* Peers are told at once that dprd is there, is no more, or wants no more connections. */
static void look_at_dprd(struct daemon *d, uint64_t now_ms)
{
	struct dprd_status status;
	bool lives = dprd_process_read(&d->dprd, config_of(d)->run_dir, now_ms, &status);
	bool wants_none = drains(d, &status);

	if (lives != d->table.own.dprd_up || (lives && wants_none != (d->table.own.state == NODE_DRAINING)))
		d->due_ms[TIMER_ANNOUNCE] = d->due_ms[TIMER_PUBLISH] = now_ms;
	d->due_ms[TIMER_DPRD] = now_ms + DPRD_LOOK_MS;
	follow_proofs(d, &status.proofs);
	follow_dprd(d, lives ? status.file_hash : 0);
}

static void check_health(struct daemon *d, uint64_t now_ms)
{
	uint64_t agent_ms = agent_tick(d->parts.agent, now_ms);

	if (backends_tick(d->parts.servers, now_ms, &d->due_ms[TIMER_HEALTH]))
		d->due_ms[TIMER_ANNOUNCE] = d->due_ms[TIMER_PUBLISH] = now_ms;
	d->due_ms[TIMER_HEALTH] = earlier(d->due_ms[TIMER_HEALTH], agent_ms);
}

static void hear_agent(struct daemon *d, uint64_t now_ms)
{
	if (agent_ready(d->parts.agent, now_ms))
		d->due_ms[TIMER_ANNOUNCE] = d->due_ms[TIMER_PUBLISH] = 0;
	d->due_ms[TIMER_HEALTH] = 0;
}

static void announce_load(struct daemon *d, uint64_t now_ms)
{
	refresh_own(d, now_ms);
	step_shares(d, now_ms);
	announce(d, 0, now_ms);
	d->due_ms[TIMER_ANNOUNCE] = now_ms + jittered_ms(d, now_ms);
}

static void rejoin_group(struct daemon *d, uint64_t now_ms)
{
	mcast_rejoin(d->parts.mcast);
	d->due_ms[TIMER_REJOIN] = now_ms + MCAST_REJOIN_MS;
}

static void feed_watchdog(struct daemon *d, uint64_t now_ms)
{
	d->due_ms[TIMER_WATCHDOG] = UINT64_MAX;
	if (!d->watchdog_ms)
		return;
	notify_manager("WATCHDOG=1");
	d->due_ms[TIMER_WATCHDOG] = now_ms + d->watchdog_ms;
}

/* Each function sets the time at which it is due next. */
static void (*const timers[TIMERS])(struct daemon *d, uint64_t now_ms) = {
	[TIMER_HEALTH] = check_health,  [TIMER_DPRD] = look_at_dprd,      [TIMER_ANNOUNCE] = announce_load,
	[TIMER_SHARE] = step_shares,    [TIMER_PUBLISH] = publish,        [TIMER_REJOIN] = rejoin_group,
	[TIMER_STATUS] = report_status, [TIMER_WATCHDOG] = feed_watchdog,
};

static void run_timers(struct daemon *d, uint64_t now_ms)
{
	unsigned i;

	for (i = 0; i < TIMERS; i++) {
		if (now_ms >= d->due_ms[i])
			timers[i](d, now_ms);
	}
}

/* How long poll(2) may wait: until the first timer is due. */
static int wait_ms(const struct daemon *d, uint64_t now_ms)
{
	uint64_t next_ms = now_ms + INT_MAX;
	unsigned i;

	for (i = 0; i < TIMERS; i++)
		next_ms = earlier(next_ms, d->due_ms[i]);
	return next_ms > now_ms ? (int)(next_ms - now_ms) : 0;
}

/* poll(2) refuses more entries than the limit of open files, used or not. */
static unsigned entries_used(const struct pollfd fds[POLL_FDS])
{
	unsigned count = POLL_FDS;

	while (count && fds[count - 1].fd < 0)
		count--;
	return count;
}

static void wait_once(struct daemon *d)
{
	struct pollfd fds[POLL_FDS] = { { .fd = d->signals, .events = POLLIN },
					{ .fd = d->dprd.process, .events = POLLIN } };
	int sockets[MCAST_FAMILIES], lease_fds[LEASE_SOCKETS] = { -1, -1 };
	unsigned i;

	if (d->sharing.lease)
		lease_sockets(d->sharing.lease, lease_fds);
	for (i = 0; i < LEASE_SOCKETS; i++)
		fds[POLL_LEASE + i] = (struct pollfd) { .fd = lease_fds[i], .events = POLLIN };
	fds[POLL_AGENT].fd = agent_socket(d->parts.agent, &fds[POLL_AGENT].events);
	backends_sockets(d->parts.servers, &fds[POLL_SERVERS]);
	mcast_sockets(d->parts.mcast, sockets);
	for (i = 0; i < MCAST_FAMILIES; i++)
		fds[POLL_SOCKETS + i] = (struct pollfd) { .fd = sockets[i], .events = POLLIN };
	if (poll(fds, entries_used(fds), wait_ms(d, clock_now_ms())) < 0) {
		if (errno == EINTR)
			return;
		/* It would fail again at once, for ever; systemd starts another loadcast. */
		log_err("cannot wait for events (poll): %s%s", strerror(errno),
			errno == EINVAL ? "; was the limit of open files lowered?" : "");
		d->stopping = d->failed = true;
		return;
	}
	if (backends_ready(d->parts.servers, &fds[POLL_SERVERS], clock_now_ms()))
		d->due_ms[TIMER_HEALTH] = 0;
	if (fds[POLL_AGENT].revents)
		hear_agent(d, clock_now_ms());
	for (i = 0; i < MCAST_FAMILIES; i++) {
		if (fds[POLL_SOCKETS + i].revents)
			receive(d, sockets[i]);
	}
	if (fds[POLL_DPRD_PROCESS].revents) {
		dprd_process_ended(&d->dprd, clock_now_ms());
		d->due_ms[TIMER_DPRD] = 0;
	}
	if (fds[POLL_LEASE].revents || fds[POLL_LEASE + 1].revents)
		lease_ready(d->sharing.lease);
	/* Signals come last, because a reload replaces all of the above. */
	if (fds[POLL_SIGNALS].revents)
		take_signal(d);
}

static bool has_descriptors(void)
{
	unsigned limit = descriptors_want(POLL_FDS + FILES_ALSO);

	if (limit >= POLL_FDS + FILES_ALSO)
		return true;
	log_err("the limit of open files is %u, and loadcast needs %d (LimitNOFILE= in its unit, or ulimit -n)", limit,
		POLL_FDS + FILES_ALSO);
	return false;
}

static int block_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -1;
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Peers stop sending new connections at once, instead of after dead_periods. */
static void say_farewell(struct daemon *d)
{
	unsigned i;

	notify_manager("STOPPING=1");
	for (i = 0; i < FAREWELLS; i++)
		announce_load(d, clock_now_ms());
	publish(d, clock_now_ms());
}

/*
 * True when the table of a former loadcast says that this node served just now: a restart of loadcast is not a restart
 * of the web server. (The last table of a loadcast that ends says that the node drains.)
 */
static bool served_just_now(const struct config *config, struct load_table *table, uint64_t now_ms)
{
	return load_table_snapshot(config->table_file, table) == 0 &&
	       table->nodes[0].id == config->member[config->self].id && table->nodes[0].state != NODE_UNHEALTHY &&
	       now_ms - table->published_ms < SLOW_START_FRESH_MS;
}

int daemon_run(const struct options *options)
{
	static struct daemon d; /* once; too large for a stack */

	if (!has_descriptors())
		return EXIT_FAILURE;
	d.options = options;
	dprd_process_init(&d.dprd);
	d.watchdog_ms = notify_watchdog_ms();
	d.signals = block_signals();
	if (d.signals < 0) {
		log_err("cannot receive signals (signalfd): %s", strerror(errno));
		return EXIT_FAILURE;
	}
	if (parts_make(options, &d.parts) < 0)
		return EXIT_FAILURE;
	/* Before anything is announced or written: two of them would take each other's table away. */
	d.lock_fd = lock_take_beside(config_of(&d)->table_file, "loadcast");
	if (d.lock_fd < 0) {
		parts_free(&d.parts);
		return EXIT_FAILURE;
	}
	table_init(&d.table, config_of(&d), false, epoch_new());
	if (share_addresses(&d, config_of(&d)) < 0) {
		parts_free(&d.parts);
		return EXIT_FAILURE;
	}
	sharing_succeed(&d.sharing, clock_now_ms());
	d.slow_start.serves = served_just_now(config_of(&d), &d.published, clock_now_ms());
	refresh_own(&d, clock_now_ms());
	publish(&d, clock_now_ms());
	if (d.publish_error) {
		parts_free(&d.parts);
		return EXIT_FAILURE;
	}
	/* The first announcement waits for the first result of the health check, if that is quick. */
	d.due_ms[TIMER_ANNOUNCE] = clock_now_ms() + jittered_ms(&d, clock_now_ms());
	log_info("announcing \"%s\" of cluster \"%s\" to %u other members", config_of(&d)->node_name,
		 config_of(&d)->cluster_name, config_of(&d)->member_count - 1);
	notify_manager("READY=1");
	while (!d.stopping) {
		run_timers(&d, clock_now_ms());
		wait_once(&d);
	}
	say_farewell(&d);
	sharing_close(&d.sharing);
	dprd_process_close(&d.dprd);
	parts_free(&d.parts);
	close(d.lock_fd);
	close(d.signals);
	return d.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
