// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * fuzz_edit.c - any text as dprd.conf, in which members are added, weighed and removed: no crash; in a valid file only that
 * member changes, and after its removal the configuration is as before.
 */
#include "dprd/config/config.h"
#include "dprd/config/edit.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct config config;
static struct config_errors errors;

static void require(bool condition)
{
	if (!condition)
		abort();
}

static bool is_valid(const char *text, size_t length)
{
	return !config_parse("dprd.conf", text, length, "n1", &config, &errors);
}

/* The configuration that follows from a valid text. */
static char *meaning(const char *text)
{
	require(is_valid(text, strlen(text)));
	return config_format(&config);
}

static void weigh(const char *text, char *before)
{
	char *heavy = NULL, *after;
	const char *name = config.member[config.member_count - 1].name;
	char copy[NAME_BYTES];

	snprintf(copy, sizeof(copy), "%s", name);
	require(!config_edit_weight(text, strlen(text), copy, "777", &heavy));
	require(is_valid(heavy, strlen(heavy)));
	require(config.member[config.member_count - 1].weight == 777);
	free(heavy);
	after = meaning(text);
	require(strcmp(before, after) == 0);
	free(after);
}

static void change_valid(const char *text)
{
	static const struct edit_member fresh = { .name = "fuzz-4",
						  .service_count = 1,
						  .service = { "192.0.2.254" },
						  .cluster_count = 1,
						  .cluster = { "10.254.254.254" } };
	char *before = meaning(text), *added = NULL, *removed = NULL, *after;

	weigh(text, before);
	if (!config_edit_add(text, strlen(text), &fresh, &added)) {
		/* It may be refused: an address twice, the other layout, too many members. Then nothing is written. */
		if (is_valid(added, strlen(added)))
			require(config_member_by_id(&config, member_id("fuzz-4")) >= 0);
		require(!config_edit_remove(added, strlen(added), "fuzz-4", &removed));
		after = meaning(removed);
		require(strcmp(before, after) == 0);
		free(after);
	}
	free(removed);
	free(added);
	free(before);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *made = NULL;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	if (is_valid(text, size) && strlen(text) == size) {
		change_valid(text);
	} else {
		if (!config_edit_weight(text, size, "n2", "5", &made))
			free(made);
		made = NULL;
		if (!config_edit_remove(text, size, "n2", &made))
			free(made);
	}
	free(text);
	return 0;
}
