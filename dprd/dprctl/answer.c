// SPDX-License-Identifier: GPL-2.0-or-later
/* dprctl/answer.c - asks dprd and tells the operator when it does not answer or refuses; reloads both daemons. */
#define _GNU_SOURCE
#include "dprd/dprctl/dprctl.h"

#include <unistd.h>

#include "dprd/base/clock.h"

enum { FOLLOW_TRIES = 40, FOLLOW_WAIT_MS = 50 };

int dprctl_print_json(const json_t *value)
{
	json_dumpf(value, stdout, JSON_COMPACT | JSON_REAL_PRECISION(12));
	putchar('\n');
	return DPRCTL_OK;
}

json_t *dprctl_answer(const struct dprctl *c, json_t *request)
{
	json_t *answer = NULL, *shown;
	int error = dprctl_ask_one(c->run_dir, request, c->answer_ms, &answer);
	const json_t *texts, *text;
	const char *refusal;
	size_t i;

	if (error) {
		shown = files_status(c, error, clock_now_ms());
		text = json_array_get(json_object_get(shown, "warnings"), 0);
		fprintf(stderr, "dprctl: %s. %s\n", text_of(text, "text"), text_of(text, "advice"));
		json_decref(shown);
		return NULL;
	}
	refusal = json_string_value(json_object_get(answer, "error"));
	if (!refusal)
		return answer;
	texts = json_object_get(answer, "errors");
	json_array_foreach(texts, i, text)
		fprintf(stderr, "%s\n", json_is_string(text) ? json_string_value(text) : "?");
	fprintf(stderr, "dprctl: %s\n", refusal);
	json_decref(answer);
	return NULL;
}

/* loadcast sees within a moment that dprd has another file, and reads it. False: it still has the former one. */
static bool loadcast_follows(const struct dprctl *c)
{
	bool follows = false;

	for (unsigned tries = 0; tries < FOLLOW_TRIES && !follows; tries++) {
		json_t *status = dprctl_answer(c, json_pack("{s:s}", "command", "status"));

		follows = !status || !json_is_false(json_object_get(status, "loadcast_has_file"));
		json_decref(status);
		if (!follows)
			usleep(FOLLOW_WAIT_MS * 1000);
	}
	return follows;
}

int dprctl_reload(const struct dprctl *c)
{
	json_t *answer = dprctl_answer(c, json_pack("{s:s}", "command", "reload"));
	const char *note = text_of(answer, "note");
	char node[NAME_BYTES];
	bool follows;

	if (!answer)
		return DPRCTL_FAILED;
	if (c->json)
		dprctl_print_json(answer);
	else
		printf("%s: configuration read again%s%s\n", text_of(answer, "node"), *note ? "; " : "", note);
	snprintf(node, sizeof(node), "%s", text_of(answer, "node"));
	json_decref(answer);
	follows = loadcast_follows(c);
	if (!follows)
		fprintf(stderr,
			"dprctl: loadcast of %s still has the former dprd.conf: systemctl reload loadcast; its log: "
			"journalctl -u loadcast\n",
			node);
	return follows ? DPRCTL_OK : DPRCTL_DEGRADED;
}
