// SPDX-License-Identifier: GPL-2.0-or-later
/* control/request.c - finds the command that answers one line of a client. */
#include "dprd/control/control.h"

static const struct {
	const char *name;
	enum command_rights rights;
	control_command *answer;
} commands[] = {
#define X(name, argument, rights, options, help) { #name, rights, control_##name },
	COMMANDS_OF_DPRD(X)
#undef X
};

static json_t *answer(struct dprd *d, const char *name, bool may_change, const struct control_query *query)
{
	unsigned i;

	for (i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(commands[i].name, name) != 0)
			continue;
		if (commands[i].rights == RIGHTS_CHANGE && !may_change)
			return control_error("%s: only root, or dprd's own user, may do that", name);
		return commands[i].answer(d, query);
	}
	return control_error("unknown command: %.40s", name);
}

void control_request(struct dprd *d, const struct control_recent *recent, const char *request, size_t bytes,
		     bool may_change, struct control_answer *ret)
{
	json_error_t error;
	json_t *parsed;
	const char *name;
	bool bad = false;

	*ret = (struct control_answer) { 0 };
	if (bytes > CONTROL_REQUEST_BYTES) {
		ret->line = control_error("the request is longer than %d bytes", CONTROL_REQUEST_BYTES);
		return;
	}
	parsed = json_loadb(request, bytes, JSON_REJECT_DUPLICATES, &error);
	name = control_get_text(parsed, "command", &bad);
	if (!parsed)
		ret->line = control_error("not JSON: %s", error.text);
	else if (!name || bad)
		ret->line = control_error("no command: a request is an object such as {\"command\":\"status\"}");
	else
		ret->line = answer(
			d, name, may_change,
			&(struct control_query) { .request = parsed, .recent = recent, .listing = &ret->listing });
	json_decref(parsed);
}
