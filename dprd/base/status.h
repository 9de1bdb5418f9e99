/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * status.h - the status file: dprd's facts for loadcast and dprctl, one small file on tmpfs, replaced by rename(2).
 *
 * It shows that dprd lives (the stamp), and facts that only dprd knows. loadcast announces that dprd runs only while
 * the stamp is fresh.
 */
#ifndef DPRD_STATUS_H
#define DPRD_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "dprd/base/clock.h"
#include "dprd/base/proofs.h"

enum {
	STATUS_MAGIC = 0x53525044, /* "DPRS" */
	STATUS_VERSION = 4,
	STATUS_PERIOD_MS = 100, /* dprd writes this often */
	STATUS_FRESH_MS = 300, /* older: dprd is dead or frozen */
	STATUS_PORTS_MAX = 16,
};

struct dprd_status {
	uint32_t magic, version;
	uint64_t written_ms; /* CLOCK_BOOTTIME */
	uint32_t pid;
	uint32_t draining; /* 1: the operator asked for drain */
	uint32_t redirected; /* connections forwarded at the moment */
	uint32_t arrivals_per_1000_s; /* SYNs decided here, a thousandfold rate */
	uint32_t elsewhere; /* 1: connections of the service also have sockets that loadcast cannot count */
	uint32_t file_hash; /* of the configuration file that it runs with: struct config */
	uint32_t least_connections; /* the least number of open connections that it announces */
	uint32_t shorter_times; /* as in struct node_load: loadcast announces it */
	uint64_t started_ms;
	struct status_proofs proofs;
	uint32_t open_connections; /* elsewhere is 1: all connections of the service, when this was written */
	uint32_t service_hash; /* config_service_hash() of its configuration */
	uint32_t port_count; /* the service ports of its configuration */
	uint16_t port[STATUS_PORTS_MAX];
};

/* path.new, then rename. 0 or -errno. Sets magic and version. */
int status_publish(const char *path, struct dprd_status *status);

/* 0, or -errno (-EINVAL: not a status file). Does not judge freshness. */
int status_read(const char *path, struct dprd_status *ret);

static inline bool status_is_fresh(const struct dprd_status *status, uint64_t now_ms)
{
	return clock_is_recent(status->written_ms, now_ms, STATUS_FRESH_MS);
}

#endif
