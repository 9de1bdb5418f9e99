// SPDX-License-Identifier: GPL-2.0-or-later
/* Questions to sock_diag after one that failed: its left-over answers must not answer them. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dprd/host/socket_lookup.c" // NOLINT(bugprone-suspicious-include): the socket inside
#include "loadcast/sample_diag.c" // NOLINT(bugprone-suspicious-include): the same

enum { LISTENERS = 400, KEYS = SOCKET_LOOKUP_MAX };

static int listener[LISTENERS];

static int listen_anywhere(struct sockaddr_in *ret)
{
	socklen_t size = sizeof(*ret);
	int s = socket(AF_INET, SOCK_STREAM, 0);

	*ret = (struct sockaddr_in) { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	assert_true(s >= 0);
	assert_int_equal(bind(s, (struct sockaddr *)ret, size), 0);
	assert_int_equal(listen(s, 1), 0);
	assert_int_equal(getsockname(s, (struct sockaddr *)ret, &size), 0);
	return s;
}

/* Opens enough listeners that a dump of them has several messages. */
static int open_listeners(void **state)
{
	static struct config config;
	struct sockaddr_in address;

	for (unsigned i = 0; i < LISTENERS; i++)
		listener[i] = listen_anywhere(&address);
	*state = diag_new(&config);
	assert_non_null(*state);
	return 0;
}

static int close_listeners(void **state)
{
	for (unsigned i = 0; i < LISTENERS; i++)
		close(listener[i]);
	diag_free(*state);
	return 0;
}

static void check_later_counts(struct diag *diag)
{
	struct diag_listeners listeners;

	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(diag_count_listeners(diag, &listeners), 0);
		assert_in_range(listeners.count, LISTENERS, 3 * LISTENERS);
	}
}

/* The dump is complete, but was never read. */
static void dump_left_over(void **state)
{
	struct diag *diag = *state;
	char bytes[DIAG_BYTES];

	assert_int_equal(send_dump(diag, 1u << TCP_CLOSING, NULL), 0);
	assert_true(recv(mnl_socket_get_fd(diag->socket), bytes, sizeof(bytes), MSG_PEEK) > 0);
	check_later_counts(diag);
}

/* The kernel begins no other dump before its end: one question fails, but not all later ones. */
static void dump_under_way(void **state)
{
	struct diag *diag = *state;
	struct diag_listeners listeners;

	assert_int_equal(send_dump(diag, 1u << TCP_LISTEN, NULL), 0);
	assert_int_equal(diag_count_listeners(diag, &listeners), -EBUSY);
	check_later_counts(diag);
}

/* A connection to a listener of this test, as its tuple. */
struct connection {
	int listener, client;
	struct flow_key key;
};

static void connection_open(struct connection *ret)
{
	struct sockaddr_in address, client;
	socklen_t size = sizeof(client);

	ret->listener = listen_anywhere(&address);
	ret->client = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(ret->client, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(getsockname(ret->client, (struct sockaddr *)&client, &size), 0);
	ret->key = (struct flow_key) { .client = addr_from_v4(client.sin_addr.s_addr),
				       .service = addr_from_v4(address.sin_addr.s_addr),
				       .client_port = client.sin_port,
				       .service_port = address.sin_port };
}

static void connection_close(struct connection *connection)
{
	close(connection->client);
	close(connection->listener);
}

/* Leaves an answer unread. */
static void leave_answer(struct socket_lookup *lookup, const struct flow_key *key)
{
	struct request request;

	request_fill(&request, key, lookup->sequence - 1);
	assert_true(mnl_socket_sendto(lookup->socket, &request, sizeof(request)) > 0);
}

/*
 * With the most questions possible, each answer belongs to its question: a connection, its listener, or none; also
 * behind an answer to a former question.
 */
static void lookup_many(void **state)
{
	struct socket_lookup *lookup = socket_lookup_new();
	struct connection connection;
	struct flow_key keys[KEYS];
	static const enum socket_found expected[] = { SOCKET_OWNS, SOCKET_OTHER, SOCKET_NONE };
	enum socket_found found[KEYS];

	(void)state;
	assert_non_null(lookup);
	connection_open(&connection);
	for (unsigned turn = 0; turn < 3; turn++) {
		for (unsigned i = 0; i < KEYS; i++) {
			keys[i] = connection.key;
			if ((i + turn) % 3 == 1)
				keys[i].client = addr_from_v4(htonl(INADDR_LOOPBACK + 1));
			else if ((i + turn) % 3 == 2)
				keys[i].service = addr_from_v4(htonl(INADDR_LOOPBACK + 1));
		}
		leave_answer(lookup, &connection.key);
		assert_int_equal(socket_lookup_find(lookup, keys, KEYS, found), 0);
		for (unsigned i = 0; i < KEYS; i++)
			assert_int_equal(found[i], expected[(i + turn) % 3]);
	}
	connection_close(&connection);
	socket_lookup_free(lookup);
}

/* Answers that do not fit are lost for this question only, not for the next one. */
static void lookup_overrun(void **state)
{
	struct socket_lookup *lookup = socket_lookup_new();
	struct connection connection;
	struct flow_key keys[KEYS];
	enum socket_found found[KEYS];
	int least = 1;

	(void)state;
	assert_non_null(lookup);
	connection_open(&connection);
	for (unsigned i = 0; i < KEYS; i++)
		keys[i] = connection.key;
	assert_int_equal(setsockopt(mnl_socket_get_fd(lookup->socket), SOL_SOCKET, SO_RCVBUF, &least, sizeof(least)),
			 0);
	assert_int_equal(socket_lookup_find(lookup, keys, KEYS, found), -ENOBUFS);
	assert_int_equal(found[0], SOCKET_OTHER);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(socket_lookup_find(lookup, keys, 1, found), 0);
		assert_int_equal(found[0], SOCKET_OWNS);
	}
	socket_lookup_free(lookup);
	connection_close(&connection);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(dump_left_over, open_listeners, close_listeners),
		cmocka_unit_test_setup_teardown(dump_under_way, open_listeners, close_listeners),
		cmocka_unit_test(lookup_many),
		cmocka_unit_test(lookup_overrun),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
