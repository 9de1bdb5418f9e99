// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Tells others about this dprd: loadcast by the status file, the service manager by its socket.
 *
 * Peers go on forwarding until they learn that this dprd stops. SYNs that they forward after dprd has ended are lost,
 * and clients send them again a second later. So dprd announces that it stops, and ends a moment later.
 */
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "dprd/base/advice.h"
#include "dprd/base/log.h"
#include "dprd/base/status.h"
#include "dprd/cluster/asks.h"
#include "dprd/cluster/backend.h"
#include "dprd/cluster/state.h"
#include "dprd/cluster/view.h"
#include "dprd/upkeep/presence.h"
#include "dprd/upkeep/upkeep.h"

/*
 * loadcast looks every 100 ms (DPRD_LOOK_MS) and announces at once; a peer's dprd reads the announcement within
 * TICK_MS. The rest is for a busy host: each of these may be late, and dprd does not read while it waits for its tools
 * (0.2 s there, at a reload).
 */
enum { LEAVE_MS = 500 };

static void status_path(const struct dprd *d, char path[PATH_BYTES + 16])
{
	snprintf(path, PATH_BYTES + 16, "%s/status", d->config.run_dir);
}

/* Logged when it changes: the next success or another error ends it. */
static void note_error(struct dprd *d, const char *path, int error)
{
	struct presence *p = &d->upkeep->presence;

	if (error == p->status_error)
		return;
	p->status_error = error;
	if (error)
		log_err("cannot write %s: %s; to the peers this dprd is dead; %s", path, strerror(-error),
			advice_for(error, PRESENCE_ADVICE));
	else
		log_info("%s can be written again", path);
}

_Static_assert((int)STATUS_PORTS_MAX >= (int)PORTS_MAX, "all ports fit");

/*
 * loadcast may have another file, and announces only what this dprd has. Peers forward to what they hear: so a file
 * counts once the rules and routes for it stand.
 */
static void write_services(struct dprd *d, struct dprd_status *status)
{
	struct presence *p = &d->upkeep->presence;

	mutex_assert_held(&d->lock);
	if (!p->service_hash || (p->file_hash != d->config.file_hash && !d->rules_changed)) {
		p->file_hash = d->config.file_hash;
		p->service_hash = config_service_hash(&d->config);
		p->port_count = d->config.port_count;
		memcpy(p->port, d->config.port, sizeof(p->port));
	}
	status->file_hash = p->file_hash;
	status->service_hash = p->service_hash;
	status->port_count = p->port_count;
	memcpy(status->port, p->port, sizeof(p->port));
}

static void write_status(struct dprd *d, uint64_t now_ms)
{
	char path[PATH_BYTES + 16];
	struct dprd_status status = { .written_ms = now_ms, .pid = (uint32_t)getpid(), .started_ms = d->started_ms };
	struct flow_counts counts;
	unsigned backends;

	mutex_lock(&d->lock);
	counts = flow_counts(d->flows);
	backends = backend_connections(d);
	status.draining = d->draining;
	write_services(d, &status);
	status.elsewhere = asks_counts_elsewhere(d) && !asks_open_connections(d, &status.open_connections);
	status.redirected = counts.half_open + counts.confirmed - counts.closing;
	status.redirected -= backends < status.redirected ? backends : status.redirected;
	status.least_connections = (uint32_t)d->suspicion.floor;
	status.shorter_times = suspicion_told(&d->suspicion);
	status.arrivals_per_1000_s = d->arrivals_per_1000_s;
	mutex_unlock(&d->lock);
	probes_status(d, &status.proofs);
	status_path(d, path);
	note_error(d, path, status_publish(path, &status));
}

void presence_tick(struct dprd *d, uint64_t now_ms)
{
	struct presence *p = &d->upkeep->presence;

	if (p->leaving || now_ms - p->status_ms < STATUS_PERIOD_MS)
		return;
	p->status_ms = now_ms;
	write_status(d, now_ms);
}

void presence_hurry(struct dprd *d)
{
	d->upkeep->presence.status_ms = 0;
}

void presence_withdraw(const struct dprd *d)
{
	char path[PATH_BYTES + 16];

	status_path(d, path);
	unlink(path);
}

void presence_start(struct dprd *d)
{
	uint64_t watchdog_us = 0;

	if (sd_watchdog_enabled(0, &watchdog_us) > 0)
		d->upkeep->presence.watchdog_ms = watchdog_us / 1000;
}

void presence_ping(struct dprd *d, uint64_t now_ms)
{
	struct presence *p = &d->upkeep->presence;

	if (!p->watchdog_ms || now_ms - p->watchdog_pinged_ms < p->watchdog_ms / 3)
		return;
	p->watchdog_pinged_ms = now_ms;
	sd_notify(0, "WATCHDOG=1");
}

void presence_alive(void)
{
	sd_notify(0, "WATCHDOG=1");
}

void presence_second(struct dprd *d, uint64_t now_ms)
{
	unsigned i, ready = 0;
	struct flow_counts counts;
	const char *why_not;

	mutex_lock(&d->lock);
	for (i = 0; i < d->config.member_count; i++)
		ready += i != d->config.self && view_member_eligible(d, i, now_ms, &why_not);
	counts = flow_counts(d->flows);
	mutex_unlock(&d->lock);
	sd_notifyf(0, "STATUS=%u of %u peers take connections, %u forwarded flows", ready, d->config.member_count - 1,
		   counts.confirmed + counts.half_open);
}

static int on_left(sd_event_source *source, uint64_t at_us, void *context)
{
	(void)at_us;
	(void)context;
	return sd_event_exit(sd_event_source_get_event(source), 0);
}

static int leave(struct dprd *d)
{
	struct presence *p = &d->upkeep->presence;
	/* A second request must not wait, and without peers there is no need to wait. */
	bool at_once = p->leaving || d->config.member_count < 2;

	p->leaving = true;
	presence_withdraw(d);
	if (!at_once && sd_event_add_time_relative(d->event, NULL, CLOCK_BOOTTIME, (uint64_t)LEAVE_MS * 1000, 1000,
						   on_left, NULL) >= 0)
		return 0;
	return sd_event_exit(d->event, 0);
}

int presence_leave(struct dprd *d)
{
	d->upkeep->presence.renews = false;
	sd_notify(0, "STOPPING=1");
	return leave(d);
}

void presence_renew(struct dprd *d)
{
	struct presence *p = &d->upkeep->presence;

	if (p->leaving)
		return;
	p->renews = true;
	leave(d);
}
