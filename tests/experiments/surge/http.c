// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * http.c - an incremental reader of HTTP/1.x answers.
 */
#include <string.h>
#include <strings.h>

#include "tests/experiments/surge/http.h"

void http_begin(struct http_answer *answer, const char *node_header)
{
	memset(answer, 0, offsetof(struct http_answer, line));
	answer->node_header = node_header;
}

/* "HTTP/1.1 200 OK" */
static void take_status(struct http_answer *answer)
{
	const char *line = answer->line;
	unsigned status = 0, at = 9;

	if (strncmp(line, "HTTP/1.", 7) != 0 || (line[7] != '0' && line[7] != '1') || line[8] != ' ') {
		answer->state = HTTP_MALFORMED;
		return;
	}
	for (; at < 12 && line[at] >= '0' && line[at] <= '9'; at++)
		status = status * 10 + (unsigned)(line[at] - '0');
	if (at < 12 || status < 100 || (line[12] != ' ' && line[12] != '\0')) {
		answer->state = HTTP_MALFORMED;
		return;
	}
	answer->status = status;
	answer->keeps_open = line[7] == '1';
}

static bool length_read(const char *text, uint64_t *length)
{
	uint64_t number = 0;

	if (!*text)
		return false;
	for (; *text >= '0' && *text <= '9'; text++) {
		if (number > UINT64_MAX / 10 - 1)
			return false;
		number = number * 10 + (unsigned)(*text - '0');
	}
	*length = number;
	return *text == '\0';
}

static bool has_word(const char *list, const char *word)
{
	const size_t bytes = strlen(word);

	while (*list) {
		const size_t span = strcspn(list, ", \t");

		if (span == bytes && strncasecmp(list, word, bytes) == 0)
			return true;
		list += span;
		list += strspn(list, ", \t");
	}
	return false;
}

static void take_header(struct http_answer *answer)
{
	char *value = strchr(answer->line, ':');
	uint64_t length = 0;

	if (!value || ++answer->headers > HTTP_HEADERS_MAX) {
		answer->state = HTTP_MALFORMED;
		return;
	}
	*value++ = '\0';
	value += strspn(value, " \t");
	for (size_t bytes = strlen(value); bytes && (value[bytes - 1] == ' ' || value[bytes - 1] == '\t');)
		value[--bytes] = '\0';
	if (strcasecmp(answer->line, "Content-Length") == 0) {
		if (!length_read(value, &length) || (answer->has_length && length != answer->length_bytes))
			answer->state = HTTP_MALFORMED;
		answer->has_length = true;
		answer->length_bytes = length;
	} else if (strcasecmp(answer->line, "Transfer-Encoding") == 0) {
		answer->state = HTTP_CHUNKED;
	} else if (strcasecmp(answer->line, "Connection") == 0) {
		if (has_word(value, "close"))
			answer->keeps_open = false;
		else if (has_word(value, "keep-alive"))
			answer->keeps_open = true;
	}
	if (answer->node_header && strcasecmp(answer->line, answer->node_header) == 0) {
		const size_t bytes = strnlen(value, sizeof(answer->node) - 1);

		for (size_t i = 0; i < bytes; i++)
			answer->node[i] = value[i] > ' ' && value[i] < 0x7f ? value[i] : '_';
		answer->node[bytes] = '\0';
	}
}

static void end_head(struct http_answer *answer)
{
	if (answer->status < 200) {
		http_begin(answer, answer->node_header);
		return;
	}
	if (answer->status == 204 || answer->status == 304) {
		answer->has_length = true;
		answer->length_bytes = 0;
	}
	if (!answer->has_length)
		answer->keeps_open = false;
	answer->state = answer->has_length && !answer->length_bytes ? HTTP_DONE : HTTP_BODY;
}

static void take_line(struct http_answer *answer)
{
	if (answer->line_bytes && answer->line[answer->line_bytes - 1] == '\r')
		answer->line_bytes--;
	answer->line[answer->line_bytes] = '\0';
	if (!answer->status)
		take_status(answer);
	else if (answer->line_bytes)
		take_header(answer);
	else
		end_head(answer);
	answer->line_bytes = 0;
}

static size_t take_head(struct http_answer *answer, const char *bytes, size_t count)
{
	size_t used = 0;

	while (used < count && answer->state == HTTP_HEAD) {
		const char byte = bytes[used++];

		if (byte == '\n')
			take_line(answer);
		else if (byte == '\0')
			answer->state = HTTP_MALFORMED;
		else if (answer->line_bytes < HTTP_LINE_BYTES - 1)
			answer->line[answer->line_bytes++] = byte;
	}
	return used;
}

size_t http_take(struct http_answer *answer, const char *bytes, size_t count)
{
	const size_t used = take_head(answer, bytes, count);
	uint64_t more = count - used;

	if (answer->state != HTTP_BODY)
		return used;
	if (answer->has_length && more > answer->length_bytes - answer->body_bytes)
		more = answer->length_bytes - answer->body_bytes;
	answer->body_bytes += more;
	if (answer->has_length && answer->body_bytes == answer->length_bytes)
		answer->state = HTTP_DONE;
	return used + (size_t)more;
}

bool http_end(struct http_answer *answer)
{
	if (answer->state == HTTP_BODY && !answer->has_length)
		answer->state = HTTP_DONE;
	return answer->state == HTTP_DONE;
}
