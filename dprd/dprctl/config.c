// SPDX-License-Identifier: GPL-2.0-or-later
/* dprctl/config.c - the configuration as far as dprctl needs it. */
#include "dprd/dprctl/dprctl.h"

#include <errno.h>
#include <string.h>

const struct config *dprctl_read_members(const struct dprctl *c, bool *ret_own)
{
	static struct config config; /* these are too large for a stack */
	static struct config_errors errors;
	const char *path = c->config_path ? c->config_path : CONFIG_PATH_DEFAULT;
	char first[NAME_BYTES];

	*ret_own = !config_read(path, c->node_name, &config, &errors);
	if (*ret_own)
		return &config;
	/* The operator's own host may be no member. */
	if (config_first_member(path, first) && !config_read(path, first, &config, &errors))
		return &config;
	return NULL;
}

bool dprctl_read_config(struct dprctl *c)
{
	static struct config config; /* these are too large for a stack */
	static struct config_errors errors;
	static char run_dir[PATH_BYTES], table_file[PATH_BYTES];
	const char *path = c->config_path ? c->config_path : CONFIG_PATH_DEFAULT;
	int error = config_read(path, c->node_name, &config, &errors);

	if (!error) {
		c->config = &config;
		c->run_dir = config.run_dir;
		c->table_file = config.table_file;
		return true;
	}
	if (errors.count)
		fprintf(stderr, "%s\n", errors.text[0]);
	else
		fprintf(stderr, "dprctl: %s: %s\n", path, strerror(-error));
	if (c->config_path && error != -EINVAL)
		return false;
	config_read_places(path, run_dir, table_file);
	c->run_dir = run_dir;
	c->table_file = table_file;
	fprintf(stderr, "dprctl: asking the dprd at %s anyway; see all errors with dprd --check-config\n", c->run_dir);
	return true;
}
