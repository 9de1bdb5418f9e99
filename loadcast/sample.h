/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sample.h - reads this machine's load cheaply: three small files of /proc and a sock_diag dump of the listeners, but
 * no dump of connections.
 *
 * Used by loadcast for the announcements and by dprd for its own exact load at decision time.
 */
#ifndef LOADCAST_SAMPLE_H
#define LOADCAST_SAMPLE_H

#include "dprd/config/config.h"
#include "loadcast/load.h"

struct sampler;

/* Opens /proc/net/sockstat, sockstat6, /proc/stat and a sock_diag socket. NULL with errno set. */
struct sampler *sampler_new(const struct config *config);
void sampler_free(struct sampler *sampler); /* NULL is fine */

/*
 * Open TCP connections right now (the paper's first load): sockets in use of both families minus
 * listeners. About 5 us; one pread(2) per family. -errno when /proc cannot be read. Not thread-safe.
 */
int sampler_open_connections(struct sampler *sampler, uint32_t *ret);

/* All loads except redirected and arrivals, which only dprd knows. Counts the listeners again. Returns 0 or -errno. */
int sampler_read(struct sampler *sampler, uint64_t now_ms, struct load_sample *ret);

/* The parsers, pure, for tests and fuzzers. False: the kernel does not write such a text. */
bool sample_parse_sockstat(const char *text, const char *protocol, uint32_t *ret_inuse);
bool sample_parse_sockets_used(const char *text, uint32_t *ret_used);
bool sample_parse_cpu(const char *text, uint64_t *ret_busy, uint64_t *ret_total);

#endif
