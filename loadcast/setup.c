// SPDX-License-Identifier: GPL-2.0-or-later
#include <sodium.h>
#include <stdlib.h>
#include <time.h>

#include "dprd/base/log.h"
#include "loadcast/https.h"
#include "loadcast/loadcast.h"

uint64_t epoch_new(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec << 32 | randombytes_random();
}

static void log_errors(const struct config_errors *errors)
{
	unsigned i, shown = errors->count < CONFIG_ERRORS_MAX ? errors->count : CONFIG_ERRORS_MAX;

	for (i = 0; i < shown; i++)
		log_err("%s", errors->text[i]);
	if (errors->count > shown)
		log_err("and %u more", errors->count - shown);
}

static int read_config(const struct options *options, bool observer, struct config *ret)
{
	static struct config_errors errors; /* large; only one thread reads configurations */
	char name[NAME_BYTES];
	int error;

	memset(&errors, 0, sizeof(errors));
	error = config_read(options->config_path, options->node_name, ret, &errors);
	/* A host that only listens may take any member. */
	if (error && observer && !options->node_name && config_first_member(options->config_path, name)) {
		memset(&errors, 0, sizeof(errors));
		error = config_read(options->config_path, name, ret, &errors);
	}
	if (error)
		log_errors(&errors);
	return error;
}

static int add_key(struct announce_keys *keys, const struct config *config, const char *path)
{
	char message[CONFIG_ERROR_BYTES];
	uint8_t key[32];
	int error = config_read_key(path, key, message);

	if (error) {
		log_err("%s", message);
		return error;
	}
	announce_add_key(keys, config->cluster_name, key);
	sodium_memzero(key, sizeof(key));
	return 0;
}

/* The library that this configuration needs, and most do not. */
static int load_library(const struct config *config)
{
	char message[CONFIG_ERROR_BYTES];
	int error = config->health == HEALTH_HTTPS ? https_load(message) : 0;

	if (error)
		log_err("%s", message);
	return error;
}

struct setup *setup_read(const struct options *options, bool observer)
{
	struct setup *s = calloc(1, sizeof(*s));
	int error;

	if (!s) {
		log_err("out of memory");
		return NULL;
	}
	error = read_config(options, observer, &s->config);
	if (!error)
		error = add_key(&s->keys, &s->config, s->config.key_file);
	if (!error && s->config.key_file_next[0])
		error = add_key(&s->keys, &s->config, s->config.key_file_next);
	if (!error && !observer)
		error = load_library(&s->config);
	if (error) {
		free(s);
		return NULL;
	}
	return s;
}
