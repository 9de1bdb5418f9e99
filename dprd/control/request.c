// SPDX-License-Identifier: GPL-2.0-or-later
/* control/request.c - from one line of a client to the command, and what all answers are made of. */
#include "dprd/control/control.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#include "dprd/base/log.h"
#include "dprd/plane/decide.h"
#include "dprd/dprd.h"

json_t *control_text(const char *text)
{
	json_t *made = json_string(text);
	char copy[CONFIG_ERROR_BYTES];
	size_t i;

	if (made)
		return made;
	/* Not UTF-8: what a file or a path held is shown as far as it is plain. */
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

	/* A text with a NUL in it means something else than it shows. */
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

static json_t *set_draining(struct dprd *d, bool draining)
{
	struct flow_counts flows;
	bool before;

	pthread_mutex_lock(&d->lock);
	before = d->draining;
	d->draining = draining;
	flows = flow_counts(d->flows);
	pthread_mutex_unlock(&d->lock);
	plane_decide_now(d);
	if (before != draining)
		log_info("%s", draining ? "draining: new connections go to the peers" : "no longer draining");
	return json_pack("{s:s, s:b, s:I}", "schema", "dprd.drain/1", "draining", draining, "flows",
			 (json_int_t)flows.half_open + flows.confirmed);
}

static json_t *reload(struct dprd *d)
{
	struct config_errors *errors = calloc(1, sizeof(*errors));
	char note[CONFIG_ERROR_BYTES] = "";
	json_t *texts, *answer;
	int error;
	unsigned i;

	if (!errors)
		return control_error("out of memory");
	error = dprd_reload(d, errors, note);
	if (!error) {
		free(errors);
		return json_pack("{s:s, s:o}", "schema", "dprd.reload/1", "note", control_text(note));
	}
	texts = json_array();
	for (i = 0; i < errors->count && i < CONFIG_ERRORS_MAX; i++)
		json_array_append_new(texts, control_text(errors->text[i]));
	if (!errors->count)
		json_array_append_new(texts, control_text(strerror(-error)));
	answer = control_error("the running configuration was not touched");
	json_object_set_new(answer, "errors", texts);
	free(errors);
	return answer;
}

static json_t *show_config(struct dprd *d)
{
	char *text = config_format(&d->config);
	json_t *made = text ? json_string(text) : NULL;

	free(text);
	if (!made)
		return control_error("the configuration cannot be shown: out of memory, or not UTF-8");
	return json_pack("{s:s, s:o}", "schema", "dprd.config/1", "text", made);
}

static json_t *change(struct dprd *d, const char *command, bool may_change)
{
	if (!may_change)
		return control_error("%s: only root, or dprd's own user, may do that", command);
	if (strcmp(command, "reload") == 0)
		return reload(d);
	return set_draining(d, strcmp(command, "drain") == 0);
}

void control_request(struct dprd *d, const struct control_recent *recent, const char *request, size_t bytes,
		     bool may_change, struct control_answer *ret)
{
	json_error_t error;
	json_t *parsed;
	const char *command;
	bool bad = false;

	*ret = (struct control_answer) { 0 };
	if (bytes > CONTROL_REQUEST_BYTES) {
		ret->line = control_error("the request is longer than %d bytes", CONTROL_REQUEST_BYTES);
		return;
	}
	parsed = json_loadb(request, bytes, JSON_REJECT_DUPLICATES, &error);
	command = control_get_text(parsed, "command", &bad);
	if (!parsed)
		ret->line = control_error("not JSON: %s", error.text);
	else if (!command || bad)
		ret->line = control_error("no command: a request is an object such as {\"command\":\"status\"}");
	else if (strcmp(command, "status") == 0)
		ret->line = control_status(d, recent);
	else if (strcmp(command, "peers") == 0)
		ret->line = control_peers(d);
	else if (strcmp(command, "backends") == 0)
		ret->line = control_backends(d);
	else if (strcmp(command, "flows") == 0)
		ret->line = control_listing_start(d, parsed, &ret->listing);
	else if (strcmp(command, "why") == 0)
		ret->line = control_why(d, parsed);
	else if (strcmp(command, "config") == 0)
		ret->line = show_config(d);
	else if (strcmp(command, "drain") == 0 || strcmp(command, "undrain") == 0 || strcmp(command, "reload") == 0)
		ret->line = change(d, command, may_change);
	else
		ret->line = control_error("unknown command: %.40s", command);
	json_decref(parsed);
}
