// SPDX-License-Identifier: GPL-2.0-or-later
/* dprctl/parse.c - reads numbers and addresses of the command line. */
#include "dprd/dprctl/dprctl.h"

bool parse_count(const char *text, unsigned long max, unsigned long *ret)
{
	unsigned long value = 0;
	const char *at;

	for (at = text; *at; at++) {
		unsigned long digit = (unsigned long)(*at - '0');

		if (*at < '0' || *at > '9' || digit > max || value > (max - digit) / 10)
			return false;
		value = value * 10 + digit;
	}
	if (at == text)
		return false;
	*ret = value;
	return true;
}

static bool parse_client(const char *text, size_t length, bool prefix_allowed, struct endpoint *ret)
{
	char *slash;
	struct addr address;
	unsigned long bits = 0;
	bool good;

	if (length >= sizeof(ret->client))
		return false;
	memcpy(ret->client, text, length);
	ret->client[length] = '\0';
	slash = strchr(ret->client, '/');
	if (!slash)
		return addr_parse(ret->client, &address);
	*slash = '\0';
	good = prefix_allowed && addr_parse(ret->client, &address) &&
	       parse_count(slash + 1, addr_is_v4(&address) ? 32 : 128, &bits);
	*slash = '/';
	return good;
}

bool parse_endpoint(const char *text, bool prefix_allowed, struct endpoint *ret)
{
	const char *colon = strrchr(text, ':'), *end = text + strlen(text);
	unsigned long port = 0;

	if (*text == '[') {
		const char *bracket = strchr(text, ']');

		if (!bracket || (bracket[1] && bracket[1] != ':'))
			return false;
		colon = bracket[1] ? bracket + 1 : NULL;
		end = bracket;
		text++;
	} else if (colon && strchr(text, ':') == colon) {
		end = colon;
	} else {
		colon = NULL; /* no port, or an IPv6 address without one */
	}
	if (colon && (!parse_count(colon + 1, UINT16_MAX, &port) || !port))
		return false;
	ret->port = (uint16_t)port;
	return parse_client(text, (size_t)(end - text), prefix_allowed, ret);
}
