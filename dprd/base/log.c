// SPDX-License-Identifier: GPL-2.0-or-later
#include "dprd/base/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum log_level threshold = LOG_LEVEL_INFO;

void log_set_level(enum log_level level)
{
	threshold = level;
}

/* When stderr is the journal, systemd puts its device and inode into JOURNAL_STREAM (systemd.exec(5)). */
static bool stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	char here[48];
	struct stat st;

	if (!stream || fstat(STDERR_FILENO, &st) < 0)
		return false;
	snprintf(here, sizeof(here), "%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
	return strcmp(stream, here) == 0;
}

void log_at(enum log_level level, const char *format, ...)
{
	char line[1024];
	va_list args;
	int prefix = 0, body;
	size_t length;

	if (level > threshold)
		return;
	if (stderr_is_journal())
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
