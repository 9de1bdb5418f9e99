// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Checks that the dprd of the unit, which is not root, may pin what the BPF plane needs. Root cannot find that out by
 * trying it.
 */
#include <errno.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dprd/check/report.h"
#include "dprd/config/config.h"

/* The user of the unit (dprd.service), and the directory that tmpfiles.d makes for it. */
static const char unit_user[] = "dprd", unit_pins[] = "/sys/fs/bpf/dprd";

/* The owner of the run directory, or its future owner: systemd makes it at the first start. False: root, or unknown. */
static bool find_user(const struct config *config, uid_t *ret)
{
	const struct passwd *user;
	struct stat run;

	if (stat(config->run_dir, &run) == 0) {
		*ret = run.st_uid;
		return *ret != 0;
	}
	user = errno == ENOENT ? getpwnam(unit_user) : NULL;
	*ret = user ? user->pw_uid : 0;
	return user;
}

void preflight_pins(struct report *r, const struct config *config)
{
	char what[2 * PATH_BYTES], mend[2 * PATH_BYTES], name[NAME_BYTES];
	const struct passwd *user;
	struct stat pins;
	uid_t uid;
	int error;

	if (config->plane == PLANE_NFQUEUE || geteuid() != 0 || !find_user(config, &uid))
		return;
	error = stat(config->pin_dir, &pins) ? errno : 0;
	if (!error && pins.st_uid == uid)
		return;
	user = getpwuid(uid);
	if (user)
		snprintf(name, sizeof(name), "%s", user->pw_name);
	else
		snprintf(name, sizeof(name), "%u", (unsigned)uid);
	snprintf(what, sizeof(what), "%s: %s, so a dprd of user %s %s", config->pin_dir,
		 error ? strerror(error) : "it belongs to another user", name,
		 config->plane == PLANE_BPF ? "does not start" : "uses the slower plane nfqueue");
	if (strcmp(config->pin_dir, unit_pins) == 0)
		snprintf(mend, sizeof(mend), "systemd-tmpfiles --create dprd.conf");
	else
		snprintf(mend, sizeof(mend), "install -d -m 700 -o %s %s", name, config->pin_dir);
	problem(r, false, what, mend);
}
