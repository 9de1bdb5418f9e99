// SPDX-License-Identifier: GPL-2.0-or-later
/* config/restart.c - keeps and names the changes that wait for a restart of dprd. */
#include "dprd/config/reading.h"

static bool has_changed(const struct config_key *key, const struct config *old, const struct config *fresh)
{
	return memcmp((const char *)old + key->kept_at, (const char *)fresh + key->kept_at, key->kept_bytes) != 0;
}

/* Appends a separator and "[Section] Key". A note that is full stays as it is. */
static void add_key(char note[CONFIG_ERROR_BYTES], const struct config_key *key, const char *before)
{
	size_t used = strlen(note);

	snprintf(note + used, CONFIG_ERROR_BYTES - used, "%s[%s] %s", before, config_section_names[key->section],
		 key->name);
}

void config_keep_fixed(const struct config *old, struct config *fresh, char note[CONFIG_ERROR_BYTES])
{
	const struct config_key *last = NULL;
	unsigned count = 0;
	size_t used;

	note[0] = '\0';
	for (unsigned i = 0; i < config_key_count; i++) {
		const struct config_key *key = &config_keys[i];

		if (!key->kept_bytes || !has_changed(key, old, fresh))
			continue;
		memcpy((char *)fresh + key->kept_at, (const char *)old + key->kept_at, key->kept_bytes);
		if (last)
			add_key(note, last, count > 1 ? ", " : "");
		last = key;
		count++;
	}
	if (!last)
		return;
	add_key(note, last, count > 1 ? " and " : "");
	used = strlen(note);
	snprintf(note + used, CONFIG_ERROR_BYTES - used, " %s effect when dprd is restarted",
		 count > 1 ? "take" : "takes");
}

void config_print_keys(FILE *out)
{
	for (unsigned i = 0; i < config_key_count; i++) {
		const struct config_key *key = &config_keys[i];

		fprintf(out, "%s\t%s\t%s\t%s\n", config_section_names[key->section], key->name,
			key->kept_bytes ? "restart" : "reload", key->fallback ? key->fallback : "");
	}
}
