// SPDX-License-Identifier: GPL-2.0-or-later
/* Any line to the control socket has an answer, and a listing that it starts comes to its end. */
#include "tests/unit/control_fixture.h"

static struct dprd d;

static void prepare(void)
{
	unsigned i;

	fixture_start(&d);
	for (i = 1; i <= 100; i++)
		fixture_flow(&d, i % 3 ? "203.0.113.7" : "2001:db8:1::7", (uint16_t)i, i % 2 ? "n2" : "n3",
			     (uint8_t)(i % 4 ? TCP_ACK : 0));
	fixture_decision(&d, "203.0.113.7", 1, REASON_CHOSEN);
	fixture_decision(&d, "2001:db8:1::7", 3, REASON_BELOW_MAX_LOAD);
}

/* A client reads text of bounded length with exactly one last line. */
static void check_line(const json_t *line, bool last)
{
	char *text = json_dumps(line, JSON_COMPACT);

	if (!text || strlen(text) >= CONTROL_ANSWER_BYTES || strchr(text, '\n'))
		abort();
	if (last != (json_object_get(line, "schema") || json_object_get(line, "error")))
		abort();
	free(text);
}

static void check_listing(struct control_listing *listing)
{
	unsigned rounds = 0;

	while (listing->active) {
		json_t *lines = control_listing_next(&d, listing), *line;
		size_t i;

		if (!lines || ++rounds > 100)
			abort();
		json_array_foreach(lines, i, line)
			check_line(line, !listing->active && i + 1 == json_array_size(lines));
		json_decref(lines);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static const struct control_recent recent = { .strangers = -1 };
	struct control_answer answer;
	bool may_change = size && bytes[size - 1] % 2;

	if (!d.flows)
		prepare();
	d.draining = false;
	/*
	 * The last byte chooses the rights of the client; it stays part of the request, as JSON ends in '}' or blanks
	 * anyway.
	 */
	control_request(&d, &recent, (const char *)bytes, size, may_change, &answer);
	if (!answer.line != answer.listing.active)
		abort();
	if (answer.line)
		check_line(answer.line, true);
	if (d.draining && !may_change)
		abort();
	check_listing(&answer.listing);
	json_decref(answer.line);
	return 0;
}
