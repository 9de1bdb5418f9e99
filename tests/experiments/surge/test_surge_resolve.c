// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_surge_resolve.c - names with several addresses or none, through a resolver that this file stands in for;
 * and users that meet them.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/experiments/surge/client.h"

enum { ASKERS = 3 * LOOKUPS_AT_ONCE };

static unsigned asked;

static struct addrinfo *numeric(const char *host, const char *port)
{
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM };
	struct addrinfo *info = NULL;

	assert_int_equal(getaddrinfo(host, port, &hints, &info), 0);
	return info;
}

/*
 * Replaces the C library's function: two.test has two addresses, lookups of busy.test cannot begin, other names do not
 * exist.
 */
int getaddrinfo_a(int mode, struct gaicb *list[], int count, struct sigevent *event)
{
	struct gaicb *request = list[0];

	assert_int_equal(mode, GAI_NOWAIT);
	assert_int_equal(count, 1);
	asked++;
	if (strcmp(request->ar_name, "busy.test") == 0)
		return EAI_AGAIN;
	request->__return = EAI_NONAME;
	if (strcmp(request->ar_name, "two.test") == 0) {
		request->ar_result = numeric("127.0.0.2", request->ar_service);
		request->ar_result->ai_next = numeric("127.0.0.1", request->ar_service);
		request->__return = 0;
	}
	return sigqueue(getpid(), event->sigev_signo, event->sigev_value) == 0 ? 0 : EAI_SYSTEM;
}

static struct name *await_answer(struct resolver *resolver)
{
	struct pollfd ready = { .fd = resolver_fd(resolver), .events = POLLIN };
	struct name *name = NULL;

	while (!name && poll(&ready, 1, 60000) == 1)
		name = resolver_answer(resolver);
	return name;
}

static void addresses_come_in_the_order_of_the_resolver(void **state)
{
	struct name name = { .host = "two.test", .port = "81" };
	struct resolver *resolver = resolver_new(AF_UNSPEC);
	char text[ADDRESS_TEXT_BYTES];

	(void)state;
	resolver_ask(resolver, &name);
	assert_int_equal(name.state, NAME_ASKED);
	assert_int_equal(resolver_under_way(resolver), 1);
	assert_ptr_equal(await_answer(resolver), &name);
	assert_int_equal(name.state, NAME_KNOWN);
	assert_int_equal(name.addresses.count, 2);
	address_text(&name.addresses.all[0], text);
	assert_string_equal(text, "127.0.0.2:81");
	address_text(&name.addresses.all[1], text);
	assert_string_equal(text, "127.0.0.1:81");
	asked = 0;
	resolver_ask(resolver, &name);
	assert_int_equal(asked, 0);
	assert_null(resolver_answer(resolver));
	resolver_free(resolver);
}

static void failures_are_answers_too(void **state)
{
	static const char *const hosts[] = { "nobody.test", "busy.test" };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct name name = { .host = hosts[i], .port = "80" };
		struct resolver *resolver = resolver_new(AF_UNSPEC);

		resolver_ask(resolver, &name);
		assert_int_equal(name.state, NAME_ASKED);
		assert_ptr_equal(await_answer(resolver), &name);
		assert_int_equal(name.state, NAME_UNKNOWN);
		assert_int_equal(resolver_under_way(resolver), 0);
		resolver_free(resolver);
	}
}

static void who_asks_in_a_crowd_is_answered_once(void **state)
{
	struct resolver *resolver = resolver_new(AF_UNSPEC);
	struct name names[ASKERS] = { { .host = NULL } };

	(void)state;
	for (unsigned i = 0; i < ASKERS; i++) {
		names[i].host = i % 7 == 3 ? "busy.test" : "two.test";
		names[i].port = "80";
		resolver_ask(resolver, &names[i]);
		assert_true(resolver_under_way(resolver) <= LOOKUPS_AT_ONCE);
	}
	for (unsigned i = 0; i < ASKERS; i++) {
		struct name *name = await_answer(resolver);

		assert_non_null(name);
		assert_int_equal(name->state, strcmp(name->host, "two.test") == 0 ? NAME_KNOWN : NAME_UNKNOWN);
		name->state = NAME_ASKED;
	}
	for (unsigned i = 0; i < ASKERS; i++)
		assert_int_equal(names[i].state, NAME_ASKED);
	assert_null(resolver_answer(resolver));
	resolver_free(resolver);
}

/* Answers each request with five bytes, on 127.0.0.1 only. */
static void *serve(void *listener)
{
	static const char answer[] = "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello";
	char request[2048];
	int fd;

	while ((fd = accept(*(int *)listener, NULL, NULL)) >= 0) {
		if (recv(fd, request, sizeof(request), 0) > 0)
			(void)!write(fd, answer, sizeof(answer) - 1);
		close(fd);
	}
	return NULL;
}

static int listen_on(const char *host, char text[64])
{
	union address address;
	socklen_t bytes = sizeof(address);
	const int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_true(address_literal(host, 0, &address));
	assert_int_equal(bind(fd, &address.any, address_bytes(&address)), 0);
	assert_int_equal(listen(fd, 100), 0);
	assert_int_equal(getsockname(fd, &address.any, &bytes), 0);
	snprintf(text, 64, "two.test:%u", ntohs(address.v4.sin_port));
	return fd;
}

static void users_try_the_next_address(void **state)
{
	struct file file = { .name = "a", .size_bytes = 5, .requests = 1, .rank = 1 };
	const struct file_set set = { .count = 1, .requests = 1, .files = &file };
	struct options options = { .prefix = "/", .users = 10, .group = 1, .lanes = 1, .timeout_s = 5 };
	struct client client;
	struct plan plan;
	pthread_t thread;
	char text[64];
	int listener = listen_on("127.0.0.1", text);

	(void)state;
	assert_true(servers_read(text, &options));
	options.resolve = RESOLVE_CONNECTION;
	assert_int_equal(pthread_create(&thread, NULL, serve, &listener), 0);
	assert_int_equal(plan_make(&plan, &set, options.users, 1, 1, false), 0);
	/* A busy host needs longer for ten answers. */
	for (options.seconds = 1;; options.seconds *= 4) {
		asked = 0;
		assert_int_equal(client_run(&client, &options, &set, &plan), 0);
		if (client.measures.outcomes[OUTCOME_OK] >= 10 || options.seconds > 10)
			break;
		measures_close(&client.measures, &options);
	}
	assert_true(client.measures.outcomes[OUTCOME_OK] >= 10);
	assert_int_equal(client.measures.outcomes[OUTCOME_REFUSED], 0);
	assert_in_range(client.measures.connect_failures, client.measures.outcomes[OUTCOME_OK], asked);
	assert_in_range(asked, client.measures.connections, client.measures.connections + 10);
	assert_int_equal(client.measures.servers.count, 1);
	assert_memory_equal(client.measures.servers.all[0].name, "127.0.0.1:", 10);
	measures_close(&client.measures, &options);
	plan_free(&plan);
	shutdown(listener, SHUT_RDWR);
	pthread_join(thread, NULL);
	close(listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_come_in_the_order_of_the_resolver),
		cmocka_unit_test(failures_are_answers_too),
		cmocka_unit_test(who_asks_in_a_crowd_is_answered_once),
		cmocka_unit_test(users_try_the_next_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
