// SPDX-License-Identifier: GPL-2.0-or-later
/* control/json.c - makes the values of all answers, and reads the values of a request. */
#include "dprd/control/json.h"

#include <math.h>
#include <stdarg.h>

#include "dprd/config/config.h"

json_t *control_text(const char *text)
{
	json_t *made = json_string(text);
	char copy[CONFIG_ERROR_BYTES];
	size_t i;

	if (made)
		return made;
	/* Text of a file or a path that is not UTF-8: every byte that is not plain ASCII becomes "?". */
	for (i = 0; i < sizeof(copy) - 1 && text[i]; i++)
		copy[i] = (signed char)text[i] >= ' ' ? text[i] : '?';
	copy[i] = '\0';
	return json_string(copy);
}

json_t *control_real(double value)
{
	return isfinite(value) ? json_real(round(value * 1000) / 1000) : json_null();
}

json_t *control_error(const char *format, ...)
{
	char text[CONFIG_ERROR_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	return json_pack("{s:o}", "error", control_text(text));
}

const char *control_get_text(const json_t *request, const char *key, bool *bad)
{
	const json_t *value = json_object_get(request, key);
	const char *text = json_string_value(value);

	/* A text with a NUL in it would look different from what it is. */
	*bad = *bad || (value && (!text || strlen(text) != json_string_length(value)));
	return text;
}

uint64_t control_get_count(const json_t *request, const char *key, uint64_t max, uint64_t absent, bool *bad)
{
	const json_t *value = json_object_get(request, key);
	json_int_t number = json_integer_value(value);

	if (!value)
		return absent;
	*bad = *bad || !json_is_integer(value) || number < 0 || (uint64_t)number > max;
	return (uint64_t)number;
}

const char *control_node_name(const struct config *config, uint32_t node_id, char *buffer)
{
	int member = config_member_by_id(config, node_id), own = config_own_backend_by_id(config, node_id);

	if (member >= 0)
		return config->member[member].name;
	if (own >= 0)
		return config_own_backend(config, (unsigned)own)->name;
	snprintf(buffer, NAME_BYTES, "id:%08x", node_id);
	return buffer;
}

json_t *control_address(const struct addr *address)
{
	char text[ADDR_TEXT_BYTES];

	return addr_is_zero(address) ? json_null() : json_string(addr_format(address, text));
}

json_t *control_count(bool known, uint64_t count)
{
	return known ? json_integer((json_int_t)count) : json_null();
}
