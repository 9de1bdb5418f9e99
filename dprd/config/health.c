// SPDX-License-Identifier: GPL-2.0-or-later
/* config/health.c - the values of [Health] that have a form of their own: a command, and the address of an agent. */
#include "dprd/config/reading.h"

#include <ctype.h>
#include <stdlib.h>

enum { HTTPS_PORT = 443, AGENT_BYTES = ADDR_TEXT_BYTES + 10 };

uint16_t config_asked_port(const struct config *config)
{
	if (config->health_port)
		return config->health_port;
	for (unsigned i = 0; config->health == HEALTH_HTTPS && i < config->port_count; i++) {
		if (config->port[i] == HTTPS_PORT)
			return HTTPS_PORT;
	}
	return config->port[0];
}

/* The letter behind each "%" is one of these. */
static bool has_known_escapes(const char *text)
{
	for (const char *c = strchr(text, '%'); c; c = strchr(c + 2, '%')) {
		if (!c[1] || !strchr("ap%", c[1]))
			return false;
	}
	return true;
}

static bool is_printable(const char *text)
{
	while (isprint((unsigned char)*text) || *text == '\t')
		text++;
	return !*text;
}

static void set_command(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	size_t length = strlen(text);

	if (!length)
		return;
	if (*text != '/')
		config_key_error(p, key, "\"%.64s\" is no absolute path of a program, with its words behind it", text);
	else if (length >= COMMAND_BYTES)
		config_key_error(p, key, "a command of %zu bytes is too long (at most %d)", length, COMMAND_BYTES - 1);
	else if (!is_printable(text))
		config_key_error(p, key, "it has a letter that is not ASCII, or cannot be printed");
	else if (!has_known_escapes(text))
		config_key_error(p, key, "behind \"%%\" stands a (the address), p (the port) or another \"%%\"");
	else
		snprintf(field, COMMAND_BYTES, "%s", text);
}

static void print_command(FILE *out, const struct config_key *key, const void *field)
{
	if (*(const char *)field)
		config_print(out, key, "%s", (const char *)field);
}

const struct config_type config_type_command = { set_command, print_command };

/* The number behind the last ":". 0: it is none. */
static uint16_t read_port(const char *text)
{
	size_t digits = strspn(text, "0123456789");
	unsigned long port = digits && digits < 6 && !text[digits] ? strtoul(text, NULL, 10) : 0;

	return port <= UINT16_MAX ? (uint16_t)port : 0;
}

/* "127.0.0.1:9707" or "[::1]:9707". */
static bool read_agent(const char *text, struct addr *ret_address, uint16_t *ret_port)
{
	char address[AGENT_BYTES], *colon;
	bool brackets = *text == '[';
	size_t length = strlen(text);

	if (length >= sizeof(address))
		return false;
	memcpy(address, text, length + 1);
	colon = strrchr(address, ':');
	if (!colon || (brackets && colon[-1] != ']'))
		return false;
	*ret_port = read_port(colon + 1);
	colon[brackets ? -1 : 0] = '\0';
	return *ret_port && addr_parse(address + brackets, ret_address) && addr_is_v4(ret_address) == !brackets &&
	       !addr_is_zero(ret_address);
}

static void set_agent(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	struct config *c = field;
	struct addr address;
	uint16_t port;

	if (!*text)
		return;
	if (!read_agent(text, &address, &port)) {
		config_key_error(p, key, "\"%.64s\" is no address with a port (such as 127.0.0.1:9707 or [::1]:9707)",
				 text);
		return;
	}
	c->agent = address;
	c->agent_port = port;
}

static void print_agent(FILE *out, const struct config_key *key, const void *field)
{
	const struct config *c = field;
	char text[ADDR_TEXT_BYTES];

	if (addr_is_zero(&c->agent))
		return;
	addr_format(&c->agent, text);
	if (addr_is_v4(&c->agent))
		config_print(out, key, "%s:%u", text, c->agent_port);
	else
		config_print(out, key, "[%s]:%u", text, c->agent_port);
}

const struct config_type config_type_agent = { set_agent, print_agent };
