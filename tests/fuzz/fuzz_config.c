// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * fuzz_config.c - any text as dprd.conf: no crash, a message for each refusal; an accepted configuration survives
 * config_format() unchanged and suits the look-ups.
 */
#include "dprd/config/config.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
	if (!condition)
		abort();
}

static void look_up(const struct config *config)
{
	for (unsigned i = 0; i < config->member_count; i++) {
		const struct member *m = &config->member[i];

		require(config_member_by_id(config, m->id) == (int)i);
		for (unsigned s = 0; s < m->service_count; s++) {
			struct addr alias = config_alias(config, i, s);

			require(config_member_by_service(config, &m->service[s]) == (int)i);
			require(addr_is_zero(&alias) == (m->own_cluster_address || i == config->self));
			require(config_member_by_service(config, &alias) < 0);
		}
	}
	for (unsigned own = 0; own < config->own_backend_count; own++) {
		const struct backend *backend = config_own_backend(config, own);

		require(config_own_backend_by_id(config, backend->id) == (int)own);
		require(config_member_by_id(config, backend->id) < 0);
		require(backend_address(backend, false) || backend_address(backend, true));
	}
	require(config->serve_here || config->own_backend_count);
	config_service_hash(config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct config config, again;
	static struct config_errors errors;
	char *text, *text_again;

	if (config_parse("dprd.conf", (const char *)data, size, "n1", &config, &errors) != 0) {
		require(errors.count > 0 && strncmp(errors.text[0], "dprd.conf:", 10) == 0);
		return 0;
	}
	require(errors.count == 0 && config.self < config.member_count);
	text = config_format(&config);
	require(text && config_parse("dprd.conf", text, strlen(text), NULL, &again, &errors) == 0);
	text_again = config_format(&again);
	require(text_again && strcmp(text, text_again) == 0);
	free(text_again);
	free(text);
	look_up(&config);
	return 0;
}
