// SPDX-License-Identifier: GPL-2.0-or-later
/* config/check_health.c - finds what is wrong with [Health] as a whole. */
#include "dprd/config/reading.h"

/* With https these statuses are good unless the file says another thing. */
enum { HTTPS_STATUS_LOW = 100, HTTPS_STATUS_HIGH = 499 };

static void check_use(struct parse *p, const char *name, bool used, const char *check)
{
	unsigned line = config_key_line(p, SECTION_HEALTH, name);

	if (line && !used)
		config_error(p, line, "%s: has no effect without Check=%s", name, check);
}

void config_check_health(struct parse *p)
{
	struct config *c = p->config;

	if (p->errors->count)
		return;
	check_use(p, "Command", c->health == HEALTH_COMMAND || !c->health_command[0], "command");
	check_use(p, "Verify", c->health == HEALTH_HTTPS || !c->health_verify, "https");
	if (c->health == HEALTH_COMMAND && !c->health_command[0])
		config_error(p, config_key_line(p, SECTION_HEALTH, "Check"),
			     "Check: command needs Command= (such as Command=/usr/local/bin/check-web %%a %%p)");
	if (c->health == HEALTH_HTTPS && !config_key_line(p, SECTION_HEALTH, "Status")) {
		c->health_status_low = HTTPS_STATUS_LOW;
		c->health_status_high = HTTPS_STATUS_HIGH;
	}
}
