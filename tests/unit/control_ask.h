/* SPDX-License-Identifier: GPL-2.0-or-later */
/* control_ask.h - one dprd of control_fixture.h, asked without a socket. Include it after cmocka.h. */
#ifndef TESTS_UNIT_CONTROL_ASK_H
#define TESTS_UNIT_CONTROL_ASK_H

#include "tests/unit/control_fixture.h"
#include "tests/unit/own_clock.h"

static struct dprd d;
static struct control_recent recent;
static struct control_answer answer;

static inline int start(void **context)
{
	(void)context;
	recent = (struct control_recent) { .strangers = 0 };
	fixture_reload_error = 0;
	fixture_reloads = 0;
	fixture_start(&d);
	return 0;
}

static inline int stop(void **context)
{
	(void)context;
	json_decref(answer.line);
	answer = (struct control_answer) { 0 };
	fixture_stop(&d);
	return 0;
}

/* The answer's last line; good until the next request. */
static inline const json_t *ask_bytes(const char *request, size_t bytes, bool may_change)
{
	json_decref(answer.line);
	control_request(&d, &recent, request, bytes, may_change, &answer);
	return answer.line;
}

static inline const json_t *ask(const char *request)
{
	return ask_bytes(request, strlen(request), true);
}

static inline const char *error_of(const json_t *line)
{
	return json_string_value(json_object_get(line, "error"));
}

static inline long long number_at(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	assert_true(json_is_integer(value));
	return json_integer_value(value);
}

static inline const char *text_at(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	assert_non_null(text);
	return text;
}

/* The advice of the first warning whose text has this part; NULL: there is none. */
static inline const char *advice_of(const json_t *status, const char *part)
{
	const json_t *warning;
	size_t i;

	json_array_foreach(json_object_get(status, "warnings"), i, warning)
	{
		if (strstr(text_at(warning, "text"), part))
			return text_at(warning, "advice");
	}
	return NULL;
}

#endif
