// SPDX-License-Identifier: GPL-2.0-or-later
/* dprctl/config.c - the configuration as far as dprctl needs it. */
#include "dprd/dprctl/dprctl.h"

#include <errno.h>
#include <ini.h>
#include <stdlib.h>
#include <string.h>

/* What a wrong file still tells. */
struct places {
	char run_dir[PATH_BYTES], table_file[PATH_BYTES];
};

static int take_place(void *context, const char *section, const char *key, const char *value)
{
	struct places *places = context;
	char *place = strcmp(key, "Directory") == 0 ? places->run_dir
		      : strcmp(key, "Table") == 0   ? places->table_file
						    : NULL;

	if (place && value && strcmp(section, "Run") == 0 && value[0] == '/' && strlen(value) < PATH_BYTES)
		memcpy(place, value, strlen(value) + 1);
	return 1;
}

/* Errors of the file do not matter here: they were reported. */
static void read_places(struct dprctl *c, const char *path)
{
	static struct places places = { .run_dir = "/run/dprd", .table_file = "/run/loadcast/table" };

	ini_parse(path, take_place, &places);
	c->run_dir = places.run_dir;
	c->table_file = places.table_file;
}

bool dprctl_read_config(struct dprctl *c)
{
	static struct config config; /* too large for a stack, as the next one */
	static struct config_errors errors;
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
	read_places(c, path);
	fprintf(stderr, "dprctl: going on with the dprd at %s; all errors: dprd --check-config\n", c->run_dir);
	return true;
}
