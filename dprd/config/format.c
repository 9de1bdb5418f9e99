// SPDX-License-Identifier: GPL-2.0-or-later
/* config/format.c - the configuration in use as a file. */
#include "dprd/config/reading.h"

#include <stdlib.h>

static void print_section(FILE *out, enum config_section section, const void *base)
{
	for (unsigned i = 0; i < config_key_count; i++) {
		const struct config_key *key = &config_keys[i];

		if (key->section == section)
			key->type->print(out, key, (const char *)base + key->offset);
	}
}

char *config_format(const struct config *config)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	bool failed;

	if (!out)
		return NULL;
	for (enum config_section s = SECTION_CLUSTER; s < SECTIONS; s++) {
		if (config_section_is_named(s))
			continue;
		fprintf(out, "%s[%s]\n", s == SECTION_CLUSTER ? "" : "\n", config_section_names[s]);
		print_section(out, s, config);
	}
	for (unsigned i = 0; i < config->network_count; i++) {
		fprintf(out, "\n[Network \"%s\"]\n", config->network[i].name);
		print_section(out, SECTION_NETWORK, &config->network[i]);
	}
	for (unsigned i = 0; i < config->member_count; i++) {
		fprintf(out, "\n[Member \"%s\"]\n", config->member[i].name);
		print_section(out, SECTION_MEMBER, &config->member[i]);
	}
	for (unsigned i = 0; i < config->backend_count; i++) {
		fprintf(out, "\n[Backend \"%s\"]\n", config->backend[i].name);
		print_section(out, SECTION_BACKEND, &config->backend[i]);
	}
	failed = ferror(out) != 0;
	failed |= fclose(out) != 0;
	if (!failed)
		return text;
	free(text);
	return NULL;
}
