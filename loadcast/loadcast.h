/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * loadcast.h - the announcer's own parts, which main.c puts together.
 *
 *   sample ----+                       +--> mcast_send --> group, members, networks
 *   health ----+--> table (own) -------+
 *   dprd/status+                       +--> table_file --> /run/loadcast/table
 *                   table (peers) -----+
 *   mcast_receive --> announce --> table
 *
 * One thread, one poll(2), no rights, no memory taken after the start except at a reload.
 */
#ifndef LOADCAST_LOADCAST_H
#define LOADCAST_LOADCAST_H

#include "loadcast/core/announce.h"

struct options {
	const char *config_path;
	const char *node_name; /* NULL: as the configuration says */
	bool json, once;
};

/* A configuration and its keys, read and checked before any of it is used. */
struct setup {
	struct config config;
	struct announce_keys keys;
};

/*
 * setup.c: reads and checks the configuration and the keys. NULL: each error was logged. With observer, the host need
 * not be a member.
 */
struct setup *setup_read(const struct options *options, bool observer);

/* daemon.c: runs until SIGTERM or SIGINT. Returns the exit status. */
int daemon_run(const struct options *options);

/* watch.c: prints the cluster's load until interrupted, or once. Returns the exit status. */
int watch_run(const struct options *options);

/* A new number that is larger than those of former runs, as long as the clock is not set back. */
uint64_t epoch_new(void);

/* notify.c: one datagram to the service manager (sd_notify(3)); does nothing without a manager. */
void notify_manager(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The interval at which to send WATCHDOG=1; 0: never. */
unsigned notify_watchdog_ms(void);

#endif
