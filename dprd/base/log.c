// SPDX-License-Identifier: GPL-2.0-or-later
#include "dprd/base/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

static enum log_level threshold = LOG_LEVEL_INFO;

void log_set_level(enum log_level level)
{
	threshold = level;
}

void log_at(enum log_level level, const char *format, ...)
{
	char line[1024];
	va_list args;
	int prefix, body;
	size_t length;

	if (level > threshold)
		return;
	prefix = snprintf(line, sizeof(line), "<%d>", level);
	va_start(args, format);
	body = vsnprintf(line + prefix, sizeof(line) - (size_t)prefix - 1, format, args);
	va_end(args);
	if (body < 0)
		return;
	length = (size_t)prefix + (size_t)body;
	if (length > sizeof(line) - 2)
		length = sizeof(line) - 2;
	line[length++] = '\n';
	/* One write per line: two threads never mix their lines. Nothing can be done if it fails. */
	if (write(STDERR_FILENO, line, length) < 0)
		return;
}

bool log_allowed(struct log_limit *limit, uint64_t now_ms, unsigned interval_ms, uint64_t *ret_suppressed)
{
	if (now_ms < limit->next_ms) {
		limit->suppressed++;
		return false;
	}
	*ret_suppressed = limit->suppressed;
	limit->suppressed = 0;
	limit->next_ms = now_ms + interval_ms;
	return true;
}
