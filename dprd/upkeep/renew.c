// SPDX-License-Identifier: GPL-2.0-or-later
/* renew.c - restarts dprd when its interfaces can carry the BPF programs. */
#include "dprd/upkeep/renew.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dprd/base/clock.h"
#include "dprd/base/log.h"
#include "dprd/cluster/state.h"
#include "dprd/plane/plane.h"
#include "dprd/upkeep/upkeep.h"

/*
 * An interface that comes and goes must not restart dprd each time. A file that an operator is editing will be
 * finished.
 */
enum { RENEW_AGAIN_MS = 60000, RENEW_LOOK_MS = 5000 };

#define RENEWED "DPRD_RENEWED" /* in the environment of a process that was started anew */

/* NULL: a start now changes nothing but the plane. */
static const char *hindrance(const struct dprd *d)
{
	static struct config fresh; /* too large for a stack; main thread only */
	static struct config_errors errors;
	char note[CONFIG_ERROR_BYTES] = "";

	if (d->config.former_port_count || d->config.former_services)
		return "connections to ports or addresses that a reload has taken out would end";
	if (d->config.fresh_services)
		return "not all members have read the new service addresses";
	errors = (struct config_errors) { 0 };
	if (config_read(d->config_path, d->node_name, &fresh, &errors))
		return "the configuration file has errors";
	if (fresh.file_hash != d->config.file_hash)
		return "the configuration file has changed since it was read";
	config_keep_fixed(&d->config, &fresh, note);
	return *note ? "changed keys of the configuration wait for a restart" : NULL;
}

void renew_start(struct dprd *d)
{
	d->upkeep->renew = (struct renew) { .next_ms = 0 };
	if (!getenv(RENEWED))
		return;
	unsetenv(RENEWED);
	d->upkeep->renew.next_ms = clock_now_ms() + RENEW_AGAIN_MS;
}

void renew_second(struct dprd *d, uint64_t now_ms)
{
	struct renew *r = &d->upkeep->renew;
	const char *held_back;

	if (now_ms < r->next_ms || !plane_is_outdated(d))
		return;
	r->next_ms = now_ms + RENEW_LOOK_MS;
	held_back = hindrance(d);
	if (held_back && held_back != r->held_back)
		log_warning("the interfaces can carry the BPF programs now, but dprd does not restart itself: %s; use: "
			    "systemctl restart dprd",
			    held_back);
	r->held_back = held_back;
	if (held_back)
		return;
	log_info("the interfaces can carry the BPF programs now: dprd restarts itself with the plane bpf");
	presence_renew(d);
}

void renew_execute(char **arguments)
{
	setenv(RENEWED, "1", 1);
	presence_alive();
	execv("/proc/self/exe", arguments);
	log_err("cannot restart itself: %s", strerror(errno));
}
