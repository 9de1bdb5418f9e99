// SPDX-License-Identifier: GPL-2.0-or-later
#include "dprd/host/passive_opens.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SNMP_BYTES = 8192 };

/* The number of the column in a line of names; -1: it is not there. */
static int column_of(const char *names, const char *end, const char *name)
{
	size_t length = strlen(name);
	int column = 0;

	for (; names < end; column++) {
		const char *next = memchr(names, ' ', (size_t)(end - names));

		next = next ? next : end;
		if ((size_t)(next - names) == length && memcmp(names, name, length) == 0)
			return column;
		names = next + 1;
	}
	return -1;
}

/* The value under this name in the lines that begin with group. */
static bool parse(const char *text, const char *group, const char *name, uint64_t *ret)
{
	const char *names = strstr(text, group), *values = names ? strchr(names, '\n') : NULL;
	int column = values ? column_of(names, values, name) : -1;
	char *end;

	if (column < 0 || strncmp(++values, group, strlen(group)) != 0)
		return false;
	for (; column && values; column--) {
		values = strpbrk(values, " \n");
		values = values && *values == ' ' ? values + 1 : NULL;
	}
	if (!values || *values < '0' || *values > '9')
		return false;
	*ret = strtoull(values, &end, 10);
	return *end == ' ' || *end == '\n';
}

bool passive_opens_parse(const char *text, uint64_t *ret)
{
	return parse(text, "Tcp: ", "PassiveOpens", ret);
}

bool syn_counts_parse(const char *text, struct syn_counts *ret)
{
	return parse(text, "TcpExt: ", "SyncookiesSent", &ret->cookies) &&
	       parse(text, "TcpExt: ", "ListenDrops", &ret->drops);
}

static int read_text(const char *path, char text[SNMP_BYTES])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), error;
	ssize_t size;

	if (fd < 0)
		return -errno;
	size = read(fd, text, SNMP_BYTES - 1);
	error = errno;
	close(fd);
	if (size < 0)
		return -error;
	text[size] = '\0';
	return 0;
}

int passive_opens_read(uint64_t *ret)
{
	char text[SNMP_BYTES];
	int error = read_text("/proc/net/snmp", text);

	return error ? error : passive_opens_parse(text, ret) ? 0 : -EINVAL;
}

int syn_counts_read(struct syn_counts *ret)
{
	char text[SNMP_BYTES];
	int error = read_text("/proc/net/netstat", text);

	return error ? error : syn_counts_parse(text, ret) ? 0 : -EINVAL;
}
