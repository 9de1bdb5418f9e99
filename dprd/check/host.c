// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * check/host.c - checks what other programs set up on this host: the users of the units, other firewall rules, clocks.
 */
#define _GNU_SOURCE
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dprd/base/command.h"
#include "dprd/check/report.h"

/* The directories of units: for the administrator, for "make install", and for packages. */
static bool unit_installed(const char *name)
{
	static const char *const directories[] = { "/etc/systemd/system", "/usr/local/lib/systemd/system",
						   "/usr/lib/systemd/system" };
	char path[128];
	unsigned i;

	for (i = 0; i < sizeof(directories) / sizeof(directories[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s.service", directories[i], name);
		if (access(path, F_OK) == 0)
			return true;
	}
	return false;
}

void preflight_users(struct report *r)
{
	static const char *const names[] = { "dprd", "loadcast" };
	char what[120];
	unsigned i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!unit_installed(names[i]) || getpwnam(names[i]))
			continue;
		snprintf(what, sizeof(what), "there is no user %s: %s.service does not start (217/USER)", names[i],
			 names[i]);
		problem(r, true, what, "systemd-sysusers");
	}
}

bool preflight_is_strict(const char *rule)
{
	return strstr(rule, "fib saddr") && strstr(rule, "iif") && strstr(rule, " oif") && strstr(rule, "drop");
}

void preflight_firewall(struct report *r)
{
	static const char *const nft[] = { "nft", "-s", "list", "ruleset", NULL };
	char *output = NULL, *rest, *rule, what[300];

	if (command_run(nft, "", &output) == 0) {
		for (rest = output; (rule = strsep(&rest, "\n"));) {
			if (!preflight_is_strict(rule))
				continue;
			rule += strspn(rule, " \t");
			snprintf(what, sizeof(what),
				 "a firewall rule of this host drops packets that arrive through the tunnel, because "
				 "their source is routed elsewhere: %.120s",
				 rule);
			problem(r, true, what,
				"let this rule pass tunnelled connections; with firewalld: IPv6_rpfilter=loose in "
				"/etc/firewalld/firewalld.conf");
			break;
		}
	}
	free(output);
}

bool preflight_has_other_clock(const char *offsets)
{
	FILE *file = fopen(offsets, "re");
	char name[16];
	long long seconds, nanoseconds;
	bool other = false;

	while (file && fscanf(file, "%15s %lld %lld", name, &seconds, &nanoseconds) == 3)
		other |= seconds || nanoseconds;
	if (file)
		fclose(file);
	return other;
}

void preflight_clocks(struct report *r)
{
	if (preflight_has_other_clock(PREFLIGHT_OFFSETS))
		problem(r, true, PREFLIGHT_CLOCK_TEXT, PREFLIGHT_CLOCK_ADVICE);
}
