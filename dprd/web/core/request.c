// SPDX-License-Identifier: GPL-2.0-or-later
#include "dprd/web/core/request.h"

#include <string.h>

#include "dprd/base/addr.h"

enum { STATUS_OK = 200, BAD_REQUEST = 400, NOT_FOUND = 404, NOT_ALLOWED = 405, TOO_LONG = 414, MISDIRECTED = 421 };

static bool lower_equal(const char *a, const char *b, size_t bytes)
{
	size_t i;

	for (i = 0; i < bytes; i++) {
		char c = a[i] >= 'A' && a[i] <= 'Z' ? (char)(a[i] + 'a' - 'A') : a[i];
		char d = b[i] >= 'A' && b[i] <= 'Z' ? (char)(b[i] + 'a' - 'A') : b[i];

		if (c != d)
			return false;
	}
	return true;
}

static bool is_port(const char *text, unsigned *ret)
{
	unsigned value = 0, digits = 0;

	for (; text[digits] >= '0' && text[digits] <= '9' && digits < 5; digits++)
		value = value * 10 + (unsigned)(text[digits] - '0');
	*ret = value;
	return digits && !text[digits] && value && value <= 65535;
}

/* Cuts "host", "host:port" and "[host]:port"; the port is 0 without one. False: it is none of them. */
static bool split(const char *text, char host[WEB_HOST_BYTES], unsigned *ret_port)
{
	bool brackets = *text == '[';
	const char *end = brackets ? strchr(text, ']') : strchr(text, ':');
	const char *rest = !end ? "" : brackets ? end + 1 : end;
	size_t bytes;

	if (brackets && !end)
		return false;
	text += brackets;
	bytes = end ? (size_t)(end - text) : strlen(text);
	if (!bytes || bytes >= WEB_HOST_BYTES)
		return false;
	memcpy(host, text, bytes);
	host[bytes] = '\0';
	*ret_port = 0;
	return !*rest || (*rest == ':' && is_port(rest + 1, ret_port));
}

bool web_host_allowed(const char *host, const char *const *names, unsigned count)
{
	char name[WEB_HOST_BYTES];
	struct addr address;
	unsigned port, i;
	size_t bytes;

	if (!split(host, name, &port))
		return false;
	if (addr_parse(name, &address))
		return true;
	if (*host == '[')
		return false;
	bytes = strlen(name) + 1;
	if (bytes == sizeof("localhost") && lower_equal(name, "localhost", bytes))
		return true;
	for (i = 0; i < count; i++) {
		if (strlen(names[i]) + 1 == bytes && lower_equal(name, names[i], bytes))
			return true;
	}
	return false;
}

bool web_parse_listen(const char *text, char address[WEB_HOST_BYTES], unsigned *ret_port)
{
	struct addr parsed;

	return split(text, address, ret_port) && *ret_port && addr_parse(address, &parsed);
}

unsigned web_route(const struct web_request *request, enum web_target *ret)
{
	static const char *const paths[WEB_TARGETS] = {
		[WEB_PAGE] = "/",           [WEB_STYLE] = "/style.css",    [WEB_SCRIPT] = "/page.js",
		[WEB_ICON] = "/icon.svg",   [WEB_STATUS] = "/status.json", [WEB_HISTORY] = "/history.json",
		[WEB_METRICS] = "/metrics", [WEB_WHY] = "/why.json",
	};
	unsigned i;

	if (!request->host || !*request->host)
		return BAD_REQUEST;
	if (!web_host_allowed(request->host, request->names, request->name_count))
		return MISDIRECTED;
	if (strcmp(request->method, "GET") != 0 && strcmp(request->method, "HEAD") != 0)
		return NOT_ALLOWED;
	if (strlen(request->path) >= WEB_PATH_BYTES)
		return TOO_LONG;
	for (i = 0; i < WEB_TARGETS; i++) {
		if (strcmp(request->path, paths[i]) == 0) {
			*ret = (enum web_target)i;
			return STATUS_OK;
		}
	}
	return NOT_FOUND;
}
