// SPDX-License-Identifier: GPL-2.0-or-later
/* config/report.c - collects the errors of one reading as texts. */
#include "dprd/config/reading.h"

#include <stdarg.h>

__attribute__((format(printf, 4, 0))) static void add_error(struct parse *p, unsigned line, const char *subject,
							    const char *format, va_list args)
{
	char *text;
	int used;

	if (p->errors->count++ >= CONFIG_ERRORS_MAX)
		return;
	text = p->errors->text[p->errors->count - 1];
	used = snprintf(text, CONFIG_ERROR_BYTES, "%.100s:%u: %s%s", p->file, line ? line : 1, subject,
			*subject ? ": " : "");
	if (used >= 0 && used < CONFIG_ERROR_BYTES)
		vsnprintf(text + used, CONFIG_ERROR_BYTES - (size_t)used, format, args);
}

void config_error(struct parse *p, unsigned line, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add_error(p, line, "", format, args);
	va_end(args);
}

void config_key_error(struct parse *p, const struct config_key *key, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add_error(p, p->line, key->name, format, args);
	va_end(args);
}

void config_list_members(const struct config *c, char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < c->member_count; i++) {
		if (used + strlen(c->member[i].name) + 6 >= size) {
			snprintf(text + used, size - used, ", ...");
			return;
		}
		used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", c->member[i].name);
	}
}
