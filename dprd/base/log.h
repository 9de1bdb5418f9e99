/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * log.h - writes one line to stderr. For the journal the line begins with the level, "<n>" (sd-daemon(3)).
 *
 * Only shell code logs. A function logs or returns an error, never both.
 */
#ifndef DPRD_BASE_LOG_H
#define DPRD_BASE_LOG_H

#include <stdint.h>

enum log_level { LOG_LEVEL_ERR = 3, LOG_LEVEL_WARNING = 4, LOG_LEVEL_INFO = 6, LOG_LEVEL_DEBUG = 7 };

/* Lines above this level are not written; default LOG_LEVEL_INFO. */
void log_set_level(enum log_level level);

void log_at(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_err(...) log_at(LOG_LEVEL_ERR, __VA_ARGS__)
#define log_warning(...) log_at(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...) log_at(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_LEVEL_DEBUG, __VA_ARGS__)

/* Caller-owned state of a rate-limited message: at most one line per interval. */
struct log_limit {
	uint64_t next_ms;
	uint64_t suppressed;
};

/* True when the caller may log now; *ret_suppressed says how many were held back since. */
_Bool log_allowed(struct log_limit *limit, uint64_t now_ms, unsigned interval_ms, uint64_t *ret_suppressed);

#endif
