// SPDX-License-Identifier: GPL-2.0-or-later
#include "dprd/upkeep/kept.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "dprd/base/log.h"
#include "dprd/base/smallfile.h"
#include "dprd/cluster/state.h"
#include "dprd/upkeep/upkeep.h"

#define ALIASES_FILE "aliases"
#define DRAIN_FILE "drain"

static void path_of(const struct config *config, const char *name, char path[PATH_BYTES + 16])
{
	snprintf(path, PATH_BYTES + 16, "%s/%s", config->run_dir, name);
}

static void write_aliases(const struct dprd *d, const struct config *config)
{
	char path[PATH_BYTES + 16], *text = malloc(ALIASES_TEXT_BYTES);
	int error = -ENOMEM;

	path_of(config, ALIASES_FILE, path);
	if (text)
		error = smallfile_replace(path, text, aliases_format(&d->upkeep->aliases, text));
	free(text);
	if (error)
		log_warning("%s: %s; if dprd is restarted after a change of the members, it may reset connections that "
			    "peers forward",
			    path, strerror(-error));
}

/* Without a file this is the first start, or a former version ran, which gave aliases by the place in the file. */
static void read_aliases(struct dprd *d)
{
	char path[PATH_BYTES + 16], *text = malloc(ALIASES_TEXT_BYTES + 1);
	int size = -ENOMEM;

	path_of(&d->config, ALIASES_FILE, path);
	if (text)
		size = smallfile_read(path, text, ALIASES_TEXT_BYTES, NULL);
	if (size >= 0)
		text[size] = '\0';
	if ((size < 0 && size != -ENOENT) || (size >= 0 && !aliases_parse(&d->upkeep->aliases, text)))
		log_warning("%s: %s; aliases follow the order of the members", path,
			    size < 0 ? strerror(-size) : "not a file of dprd");
	free(text);
}

void kept_aliases(struct dprd *d, struct config *fresh)
{
	if (!fresh->member_count || fresh->member[fresh->self].own_cluster_address)
		return;
	aliases_assign(&d->upkeep->aliases, fresh);
	write_aliases(d, fresh);
}

int kept_drain(const struct dprd *d, bool draining)
{
	static const char text[] = "dprctl undrain ends it\n";
	char path[PATH_BYTES + 16];

	path_of(&d->config, DRAIN_FILE, path);
	if (draining)
		return smallfile_replace(path, text, sizeof(text) - 1);
	return unlink(path) && errno != ENOENT ? -errno : 0;
}

void kept_open(struct dprd *d)
{
	char path[PATH_BYTES + 16];
	struct config *config = &d->config;

	read_aliases(d);
	path_of(config, DRAIN_FILE, path);
	mutex_lock(&d->lock);
	kept_aliases(d, config);
	d->draining = access(path, F_OK) == 0;
	mutex_unlock(&d->lock);
	if (d->draining)
		log_info("this node drains, as before the start; dprctl undrain ends it");
}

void kept_purge(const struct config *config)
{
	static const char *const names[] = { ALIASES_FILE, DRAIN_FILE };
	char path[PATH_BYTES + 16];

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		path_of(config, names[i], path);
		unlink(path);
	}
}
