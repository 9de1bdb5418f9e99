// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_surge_http.c - the reader of answers, cut at every byte; and servers as users name them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/experiments/surge/http.h"
#include "tests/experiments/surge/options.h"

#define HEAD "HTTP/1.1 200 OK\r\nServer: x\r\n"

static size_t take(struct http_answer *answer, const char *text)
{
	return http_take(answer, text, strlen(text));
}

static void answers_are_the_same_however_cut(void **state)
{
	static const char text[] = "HTTP/1.1 100 Continue\r\nX-Node: no\r\n\r\n" HEAD
				   "content-length:  5 \r\nX-Node: n 1\r\nConnection: Keep-Alive\r\n\r\nhello";
	const size_t length = sizeof(text) - 1;
	char with_more[sizeof(text) + 4];

	(void)state;
	snprintf(with_more, sizeof(with_more), "%sHTTP", text);
	for (size_t cut = 0; cut <= length; cut++)
		for (size_t second = cut; second <= length; second++) {
			struct http_answer answer;
			size_t used;

			http_begin(&answer, "x-node");
			used = http_take(&answer, text, cut);
			used += http_take(&answer, text + cut, second - cut);
			assert_int_equal(answer.state == HTTP_DONE, second == length);
			used += http_take(&answer, with_more + second, length + 4 - second);
			assert_int_equal(used, length);
			assert_int_equal(answer.state, HTTP_DONE);
			assert_int_equal(answer.status, 200);
			assert_int_equal(answer.body_bytes, 5);
			assert_true(answer.keeps_open);
			assert_string_equal(answer.node, "n_1");
		}
}

static void one_byte_at_a_time_is_enough(void **state)
{
	static const char text[] = "HTTP/1.0 404 Not Found\nContent-Length: 3\n\nabc";
	struct http_answer answer;

	(void)state;
	http_begin(&answer, NULL);
	for (size_t i = 0; i < sizeof(text) - 1; i++) {
		assert_true(answer.state < HTTP_DONE);
		assert_int_equal(http_take(&answer, text + i, 1), 1);
	}
	assert_int_equal(answer.state, HTTP_DONE);
	assert_int_equal(answer.status, 404);
	assert_false(answer.keeps_open);
}

static void the_next_answer_is_left_alone(void **state)
{
	static const char two[] = HEAD "Content-Length: 2\r\n\r\nab" HEAD "Content-Length: 0\r\n\r\n" HEAD;
	struct http_answer answer;
	size_t used;

	(void)state;
	http_begin(&answer, NULL);
	used = take(&answer, two);
	assert_int_equal(answer.state, HTTP_DONE);
	assert_int_equal(answer.body_bytes, 2);
	assert_int_equal(http_take(&answer, two + used, 5), 0);
	http_begin(&answer, NULL);
	used += take(&answer, two + used);
	assert_int_equal(answer.state, HTTP_DONE);
	assert_string_equal(two + used, HEAD);
}

static void without_a_length_the_end_is_the_end(void **state)
{
	struct http_answer answer;

	(void)state;
	http_begin(&answer, NULL);
	take(&answer, HEAD "\r\nabcd");
	assert_int_equal(answer.state, HTTP_BODY);
	assert_false(answer.keeps_open);
	assert_true(http_end(&answer));
	assert_int_equal(answer.body_bytes, 4);

	http_begin(&answer, NULL);
	take(&answer, HEAD "Content-Length: 5\r\n\r\nabcd");
	assert_false(http_end(&answer));

	http_begin(&answer, NULL);
	take(&answer, HEAD);
	assert_false(http_end(&answer));
}

static void connection_close_is_heard(void **state)
{
	struct http_answer answer;

	(void)state;
	http_begin(&answer, NULL);
	take(&answer, HEAD "Content-Length: 1\r\nConnection: foo, Close\r\n\r\na");
	assert_int_equal(answer.state, HTTP_DONE);
	assert_false(answer.keeps_open);
	http_begin(&answer, NULL);
	take(&answer, "HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\na");
	assert_true(answer.keeps_open);
}

static void what_is_no_answer_is_malformed(void **state)
{
	static const char *const bad[] = {
		"SSH-2.0-x\r\n",
		"HTTP/2 200\r\n",
		"HTTP/1.1 20 OK\r\n",
		"HTTP/1.1 2000 OK\r\n",
		"HTTP/1.1 099 OK\r\n",
		"\r\n",
		HEAD "no colon\r\n",
		HEAD "Content-Length: -1\r\n",
		HEAD "Content-Length: 5x\r\n",
		HEAD "Content-Length: \r\n",
		HEAD "Content-Length: 99999999999999999999999\r\n",
		HEAD "Content-Length: 5\r\nContent-Length: 6\r\n",
	};
	struct http_answer answer;

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		http_begin(&answer, NULL);
		take(&answer, bad[i]);
		if (answer.state != HTTP_MALFORMED)
			fail_msg("this was taken: %s", bad[i]);
		assert_int_equal(take(&answer, "more"), 0);
	}
	http_begin(&answer, NULL);
	http_take(&answer, "HTTP/1.1 200 \0", 14);
	assert_int_equal(answer.state, HTTP_MALFORMED);
	http_begin(&answer, NULL);
	take(&answer, HEAD "Transfer-Encoding: chunked\r\n");
	assert_int_equal(answer.state, HTTP_CHUNKED);
}

static void too_many_headers_are_malformed(void **state)
{
	struct http_answer answer;

	(void)state;
	http_begin(&answer, NULL);
	take(&answer, HEAD);
	for (unsigned i = 0; i < HTTP_HEADERS_MAX; i++)
		take(&answer, "X: y\r\n");
	assert_int_equal(answer.state, HTTP_MALFORMED);
}

static void long_lines_are_cut_but_read(void **state)
{
	struct http_answer answer;

	(void)state;
	http_begin(&answer, "X-Node");
	take(&answer, HEAD "X-Node: ");
	for (unsigned i = 0; i < 3000; i++)
		take(&answer, "n");
	take(&answer, "\r\nContent-Length: 1\r\n\r\na");
	assert_int_equal(answer.state, HTTP_DONE);
	assert_int_equal(strlen(answer.node), HTTP_NODE_BYTES - 1);
}

static void servers_are_named_in_many_ways(void **state)
{
	struct options options = { .server_count = 0 };

	(void)state;
	assert_true(servers_read("www.example.org*4,192.0.2.1:8080,[2001:db8::1]:81,2001:db8::2*2", &options));
	assert_int_equal(options.server_count, 4);
	assert_int_equal(options.share_count, 8);
	assert_int_equal(options.shares[3], 0);
	assert_int_equal(options.shares[4], 1);
	assert_int_equal(options.shares[7], 3);
	assert_string_equal(options.servers[0].host, "www.example.org");
	assert_string_equal(options.servers[0].port, "80");
	assert_false(options.servers[0].is_literal);
	assert_string_equal(options.servers[0].host_header, "www.example.org");
	assert_true(options.servers[1].is_literal);
	assert_string_equal(options.servers[1].host_header, "192.0.2.1:8080");
	assert_string_equal(options.servers[2].host_header, "[2001:db8::1]:81");
	assert_int_equal(options.servers[2].literal.all[0].any.sa_family, AF_INET6);
	assert_string_equal(options.servers[3].host, "2001:db8::2");
}

static void bad_servers_are_refused(void **state)
{
	static const char *const bad[] = { "",       "a:0",   "a:65536", "a:x", "a*0", "a*x",    "[::1",
					   "[::1]x", "a,b:y", "::g",     "a b", ":80", "a:80:90" };

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct options options = { .server_count = 0 };

		if (servers_read(bad[i], &options))
			fail_msg("this was taken: %s", bad[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_are_the_same_however_cut),
		cmocka_unit_test(one_byte_at_a_time_is_enough),
		cmocka_unit_test(the_next_answer_is_left_alone),
		cmocka_unit_test(without_a_length_the_end_is_the_end),
		cmocka_unit_test(connection_close_is_heard),
		cmocka_unit_test(what_is_no_answer_is_malformed),
		cmocka_unit_test(too_many_headers_are_malformed),
		cmocka_unit_test(long_lines_are_cut_but_read),
		cmocka_unit_test(servers_are_named_in_many_ways),
		cmocka_unit_test(bad_servers_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
