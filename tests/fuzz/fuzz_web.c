// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Any request to dprd-web has a status, and only GET and HEAD of known paths by a name of this server have 200. Lines of
 * the input: the method, the path, the Host header, a client for why.json, an address to listen on.
 */
#include <stdlib.h>
#include <string.h>

#include "dprd/dprctl/dprctl.h"
#include "dprd/web/core/request.h"

enum { LINES = 5 };

static void check_route(char *const line[LINES])
{
	static const char *const names[] = { "n1.lab", "" };
	struct web_request request = {
		.method = line[0], .path = line[1], .host = line[2], .names = names, .name_count = 2
	};
	enum web_target target = WEB_TARGETS;
	unsigned status = web_route(&request, &target);

	if (status < 200 || status > 499 || (status == 200) != (target != WEB_TARGETS))
		abort();
	if (status == 200 && (strcmp(line[0], "GET") != 0 && strcmp(line[0], "HEAD") != 0))
		abort();
	if (status == 200 && !web_host_allowed(line[2], names, 2))
		abort();
	request.host = NULL;
	if (web_route(&request, &target) == 200)
		abort();
}

/* A client that is taken is one plain address: nothing else of the request reaches dprd. */
static void check_client(const char *text)
{
	struct endpoint client;
	struct addr address;

	if (parse_endpoint(text, false, &client) && !addr_parse(client.client, &address))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	char *line[LINES], address[WEB_HOST_BYTES], *copy = malloc(size + 1), *at = copy;
	unsigned port = 0, i;

	if (!copy)
		return 0;
	memcpy(copy, bytes, size);
	copy[size] = '\0';
	for (i = 0; i < LINES; i++) {
		char *end = strchr(at, '\n');

		line[i] = at;
		at = end ? end + 1 : at + strlen(at);
		if (end)
			*end = '\0';
	}
	check_route(line);
	check_client(line[3]);
	if (web_parse_listen(line[4], address, &port) && (!port || port > 65535))
		abort();
	free(copy);
	return 0;
}
