/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sample.h - reads the load of this host at little cost: three small files of /proc each time, and at intervals a count
 * of sockets by sock_diag.
 *
 * The load is the number of TCP connections of service ports. The kernel gives the number of all TCP sockets at little
 * cost, so that number is read when it is needed. Listeners and connections of other ports, such as a pool of
 * connections to a data base, are counted every half second, every 8 s while they stay the same, and less often when a
 * count takes long; they are subtracted. A thread of the lowest priority counts them, because a dump of many sockets
 * would delay other programs by milliseconds.
 *
 * Used by loadcast for the announcements and by dprd for its own exact load at decision time.
 */
#ifndef LOADCAST_SAMPLE_H
#define LOADCAST_SAMPLE_H

#include "dprd/config/config.h"
#include "loadcast/load.h"

struct sampler;

/* Opens /proc/net/sockstat, sockstat6, /proc/stat and sock_diag, counts, and starts the thread. NULL with errno set. */
struct sampler *sampler_new(const struct config *config);
void sampler_free(struct sampler *sampler); /* ends the thread; NULL is fine */

/*
 * Counts at once the sockets that do not belong to the service. 0 or -errno: then the former count stays. Any thread.
 */
int sampler_count(struct sampler *sampler);

/*
 * Open TCP connections of the service right now (the paper's first load). About 5 us; one pread(2) per family. -errno
 * when /proc cannot be read. Any thread may call this.
 */
int sampler_open_connections(struct sampler *sampler, uint32_t *ret);

/* All loads except redirected and arrivals, which only dprd knows. Only one thread calls this. Returns 0 or -errno. */
int sampler_read(struct sampler *sampler, struct load_sample *ret);

/* The parsers, pure, for tests and fuzzers. False: the kernel does not write such a text. */
bool sample_parse_sockstat(const char *text, const char *protocol, uint32_t *ret_inuse);
bool sample_parse_sockets_used(const char *text, uint32_t *ret_used);
bool sample_parse_cpu(const char *text, uint64_t *ret_busy, uint64_t *ret_total);

#endif
