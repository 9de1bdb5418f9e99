// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Check=auto against a server that says what a script wants, and servers that stand still. Probes take their time from
 * the test; what the kernel and the server's thread do is waited for.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "loadcast/health.c" // NOLINT(bugprone-suspicious-include)

enum { INTERVAL_MS = 5000, TIMEOUT_MS = 400, REAL_MS = 60000, SILENT_MS = 200, SILENT_MAX = 64 };

#define OK "HTTP/1.1 200 OK\r\n\r\n"
#define OVERLOADED "HTTP/1.1 503 Oh\r\n\r\n"
#define NOT_FOUND "HTTP/1.1 404 No\r\n\r\n"
#define BAD_REQUEST "HTTP/1.1 400 Bad Request\r\n\r\n"
#define HELLO "\x16\x03\x03\x01\x7a\x02\x01\x01\x76\x03\x03"
#define ALERT "\x15\x03\x03\x01\x02\x02\x70"
#define BROKEN "\x15\x03\x03\x01\x02\x02\x50"
#define BANNER "220 mail.example.org ESMTP\r\n"
#define CLOSES ""

/* The server's words before it closes; NULL: it takes the question and stays silent. */
struct script {
	const char *to_get, *to_hello;
};

static const struct script web = { OK, BAD_REQUEST }, failing = { OVERLOADED, BAD_REQUEST }, tls = { ALERT, HELLO },
			   tls_at_nginx = { BAD_REQUEST, HELLO }, strict = { BAD_REQUEST, BAD_REQUEST },
			   mail = { BANNER, BANNER }, silent = { NULL, NULL }, slow = { NULL, BAD_REQUEST },
			   closing = { CLOSES, CLOSES };

static struct config config;
static struct health *health;
static int listener;
static uint64_t now_ms;
static pthread_t server;
static _Atomic(const struct script *) script;
static atomic_uint accepts, gets, hellos;

/* The server; it ends when its listener is shut down. */
static void *serve(void *unused)
{
	int kept[SILENT_MAX];
	unsigned count = 0;

	for (;;) {
		int peer = accept(listener, NULL, NULL);
		const struct script *s = script;
		char question[1024];
		const char *answer;
		ssize_t size;

		if (peer < 0)
			break;
		atomic_fetch_add(&accepts, 1);
		size = recv(peer, question, sizeof(question), 0);
		if (size > 0)
			atomic_fetch_add(question[0] == 'G' ? &gets : &hellos, 1);
		answer = size <= 0 ? "" : question[0] == 'G' ? s->to_get : s->to_hello;
		if (!answer && count < SILENT_MAX) {
			kept[count++] = peer;
			continue;
		}
		(void)!send(peer, answer, strlen(answer), MSG_NOSIGNAL);
		close(peer);
	}
	while (count)
		close(kept[--count]);
	return unused;
}

static void listen_anew(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET,
				   .sin_port = htons(health ? health->port : 0),
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(any);
	int on = 1;

	listener = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	assert_int_equal(bind(listener, (struct sockaddr *)&any, size), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&any, &size), 0);
	if (!health) {
		struct addr loopback = addr_from_v4(htonl(INADDR_LOOPBACK));

		health = health_new(&config, HEALTH_AUTO, &loopback, ntohs(any.sin_port));
	}
	assert_non_null(health);
}

static int start_still(void **state)
{
	(void)state;
	config = (struct config) {
		.health = HEALTH_AUTO,
		.health_path = "/",
		.health_interval_ms = INTERVAL_MS,
		.health_timeout_ms = TIMEOUT_MS,
		.health_fall = 3,
		.health_rise = 2,
	};
	health = NULL;
	listen_anew();
	now_ms = 1000;
	return 0;
}

static void server_starts(void)
{
	assert_int_equal(pthread_create(&server, NULL, serve, NULL), 0);
}

static void server_ends(void)
{
	shutdown(listener, SHUT_RDWR);
	pthread_join(server, NULL);
	close(listener);
}

static int stop_still(void **state)
{
	(void)state;
	health_free(health);
	return close(listener);
}

static int start(void **state)
{
	start_still(state);
	server_starts();
	return 0;
}

static int stop(void **state)
{
	(void)state;
	server_ends();
	health_free(health);
	return 0;
}

/* One probe from its start to its end; the next one is due then. */
static void probe(const struct script *says)
{
	bool may_be_silent = says && (!says->to_get || !says->to_hello);
	unsigned before = accepts;

	script = says;
	gets = hellos = 0;
	health_tick(health, now_ms);
	while (health->step != STEP_IDLE) {
		struct pollfd fd;
		short events;

		fd.fd = health_socket(health, &events);
		fd.events = events;
		/* Without a script, nobody accepts. */
		for (unsigned ms = 0; says && health->step == STEP_ACCEPT && accepts == before && ms < REAL_MS; ms++)
			usleep(1000);
		if (fd.fd >= 0 && poll(&fd, 1, says && !may_be_silent ? REAL_MS : SILENT_MS) == 1) {
			health_ready(health, fd.revents, now_ms);
		} else {
			now_ms = health->next_ms;
			health_tick(health, now_ms);
		}
	}
	now_ms = health->next_ms;
}

static void probes(unsigned count, const struct script *says)
{
	while (count--)
		probe(says);
}

static void check_asked(unsigned get_count, unsigned hello_count)
{
	assert_int_equal(gets, get_count);
	assert_int_equal(hellos, hello_count);
}

static void speaks_http(void **state)
{
	(void)state;
	probe(&web);
	assert_int_equal(health->speaks, SPEECH_HTTP);
	check_asked(1, 0);
	for (unsigned i = 0; i < 8; i++) {
		probe(&web);
		check_asked(1, 0);
	}
	assert_true(health_is_good(health));
	/* Redirects and pages that are not there are well; 5xx is not. */
	probes(3, &(struct script) { NOT_FOUND, BAD_REQUEST });
	assert_true(health_is_good(health));
	probes(2, &failing);
	assert_true(health_is_good(health));
	probe(&failing);
	assert_false(health_is_good(health));
	assert_string_equal(health_reason(health), "HTTP status 503 for /");
	probes(2, &web);
	assert_true(health_is_good(health));
}

/* A server that fails while it is learnt has said what it speaks. */
static void fails_while_learnt(void **state)
{
	(void)state;
	probe(&failing);
	assert_int_equal(health->speaks, SPEECH_HTTP);
	assert_false(health_is_good(health));
	probes(2, &web);
	assert_true(health_is_good(health));
}

/* Its first page takes too long, but what it says to a ClientHello is HTTP. */
static void slow_while_learnt(void **state)
{
	(void)state;
	probe(&slow);
	assert_int_equal(health->speaks, SPEECH_HTTP);
	assert_false(health_is_good(health));
	assert_string_equal(health_reason(health), "no HTTP answer in time");
	probes(2, &web);
	assert_true(health_is_good(health));
}

/* Silent at first, then as long as a server may take to start: never TCP for good. */
static void silent_while_learnt(void **state)
{
	(void)state;
	probes(20, &silent);
	assert_int_equal(health->speaks, SPEECH_UNKNOWN);
	assert_true(health_is_good(health));
	for (unsigned i = 0; i < LEARN_GAP_MAX && health->speaks != SPEECH_HTTP; i++)
		probe(&failing);
	assert_int_equal(health->speaks, SPEECH_HTTP);
	probes(2, &failing);
	assert_false(health_is_good(health));
}

/* A port that has spoken HTTP is held to it: neither silence nor a closed connection makes it a TCP port. */
static void held_to_it(void **state)
{
	uint64_t begun_ms;

	(void)state;
	probe(&web);
	begun_ms = now_ms;
	probe(&silent);
	/* A slow page is waited for. */
	assert_true(health->started_ms == begun_ms);
	assert_true(health->known && health->streak == 1);
	probes(2, &silent);
	assert_false(health_is_good(health));
	assert_string_equal(health_reason(health), "no HTTP answer in time");
	probes(10, &closing);
	assert_false(health_is_good(health));
	assert_int_equal(health->speaks, SPEECH_HTTP);
	assert_string_equal(health_reason(health), "the server closed without an answer");
	check_asked(1, 0);
}

/* The server knows its names alone, and is asked for none: "return 444" of nginx, a TLS server that wants SNI. */
static void wants_a_name(void **state)
{
	static const struct script nameless[] = {
		{ CLOSES, BAD_REQUEST }, { CLOSES, CLOSES }, { ALERT, BROKEN }, { BAD_REQUEST, BROKEN }
	};

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct health *former = health;

		probes(6, &nameless[i]);
		assert_true(health_is_good(health));
		assert_int_equal(health->streak, 0);
		health = health_new(&config, HEALTH_AUTO, &former->address, former->port);
		health_free(former);
	}
	/* One that has answered is held to it. */
	probe(&web);
	probes(3, &nameless[0]);
	assert_false(health_is_good(health));
	assert_string_equal(health_reason(health), "the server closed without an answer");
}

/* With the name that it should know, the same is a failure. */
static void knows_its_name(void **state)
{
	(void)state;
	strcpy(config.health_host, "www.example.org");
	probes(4, &(struct script) { CLOSES, BAD_REQUEST });
	assert_false(health_is_good(health));
	probes(2, &web);
	probes(4, &(struct script) { ALERT, BROKEN });
	assert_false(health_is_good(health));
	assert_string_equal(health_reason(health), "TLS alert: internal error");
}

static void speaks_tls(void **state)
{
	(void)state;
	/* Which says so by an alert; by a page for people; by closing. */
	probe(&tls);
	assert_int_equal(health->speaks, SPEECH_TLS);
	check_asked(1, 1);
	probe(&tls);
	check_asked(0, 1);
	probe(&(struct script) { ALERT, ALERT });
	assert_true(health_is_good(health));
	assert_int_equal(health->streak, 0);
	probes(3, &(struct script) { ALERT, BROKEN });
	assert_false(health_is_good(health));
	assert_string_equal(health_reason(health), "TLS alert: internal error");
	probes(3, &(struct script) { CLOSES, CLOSES });
	assert_int_equal(health->speaks, SPEECH_TLS);
	probes(2, &tls);
	assert_true(health_is_good(health));
}

static void speaks_tls_at_nginx(void **state)
{
	(void)state;
	probe(&tls_at_nginx);
	assert_int_equal(health->speaks, SPEECH_TLS);
	check_asked(1, 1);
	probe(&tls_at_nginx);
	check_asked(0, 1);
	assert_true(health_is_good(health));
}

static void closes_on_a_get(void **state)
{
	(void)state;
	probe(&(struct script) { CLOSES, HELLO });
	assert_int_equal(health->speaks, SPEECH_TLS);
	assert_true(health_is_good(health));
}

/* A web server that refuses our GET is one; it is asked for TLS more and more seldom. */
static void says_bad_request(void **state)
{
	unsigned asked = 0;

	(void)state;
	for (unsigned i = 0; i < 40; i++) {
		probe(&strict);
		assert_int_equal(health->speaks, SPEECH_HTTP);
		assert_int_equal(gets, 1);
		asked += hellos;
	}
	assert_true(health_is_good(health));
	assert_in_range(asked, 2, 7);
}

static void speaks_something_else(void **state)
{
	unsigned asked = 0;

	(void)state;
	for (unsigned i = 0; i < 40; i++) {
		probe(&mail);
		assert_int_equal(health->speaks, SPEECH_TCP);
		asked += gets + hellos;
	}
	assert_true(health_is_good(health));
	assert_in_range(asked, 2, 7);
}

/* The port gets another server while this one is held to what it spoke. */
static void speaks_anew(void **state)
{
	(void)state;
	probe(&web);
	probe(&tls_at_nginx);
	assert_true(health_is_good(health));
	for (unsigned i = 0; i < 3; i++)
		probe(&tls_at_nginx);
	assert_int_equal(health->speaks, SPEECH_TLS);
	probe(&web);
	assert_int_equal(health->speaks, SPEECH_HTTP);
	check_asked(1, 1);
	probe(&mail);
	assert_int_equal(health->speaks, SPEECH_TCP);
	assert_true(health_is_good(health));
	assert_int_equal(health->streak, 0);
	/* Away and back: learnt at once. */
	probes(5, &mail);
	server_ends();
	probes(4, NULL);
	assert_false(health_is_good(health));
	listen_anew();
	server_starts();
	probes(2, &web);
	assert_int_equal(health->speaks, SPEECH_HTTP);
	assert_true(health_is_good(health));
}

/* Connections are made by the kernel, and nobody accepts them. Two probes are enough. */
static void stands_still(void **state)
{
	uint64_t begun_ms = now_ms;

	(void)state;
	health->known = true;
	probe(NULL);
	assert_true(health_is_good(health));
	probe(NULL);
	assert_false(health_is_good(health));
	assert_string_equal(health_reason(health), "the server does not accept connections");
	assert_true(now_ms - begun_ms == 2 * INTERVAL_MS);
	/* Now the queue is full: a SYN gets no answer. */
	probes(3, NULL);
	assert_false(health_is_good(health));
	assert_string_equal(health_reason(health), "connect: no answer in time; the server's accept queue may be full");
	assert_int_equal(health->speaks, SPEECH_UNKNOWN);
}

static void stands_still_later(void **state)
{
	(void)state;
	health->known = true;
	health->speaks = SPEECH_HTTP;
	probes(2, NULL);
	assert_false(health_is_good(health));
	assert_string_equal(health_reason(health), "the server does not accept connections");
	health->good = true;
	health->check = HEALTH_TCP;
	probes(2, NULL);
	assert_false(health_is_good(health));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(speaks_http, start, stop),
		cmocka_unit_test_setup_teardown(fails_while_learnt, start, stop),
		cmocka_unit_test_setup_teardown(slow_while_learnt, start, stop),
		cmocka_unit_test_setup_teardown(silent_while_learnt, start, stop),
		cmocka_unit_test_setup_teardown(held_to_it, start, stop),
		cmocka_unit_test_setup_teardown(wants_a_name, start, stop),
		cmocka_unit_test_setup_teardown(knows_its_name, start, stop),
		cmocka_unit_test_setup_teardown(speaks_tls, start, stop),
		cmocka_unit_test_setup_teardown(speaks_tls_at_nginx, start, stop),
		cmocka_unit_test_setup_teardown(closes_on_a_get, start, stop),
		cmocka_unit_test_setup_teardown(says_bad_request, start, stop),
		cmocka_unit_test_setup_teardown(speaks_something_else, start, stop),
		cmocka_unit_test_setup_teardown(speaks_anew, start, stop),
		cmocka_unit_test_setup_teardown(stands_still, start_still, stop_still),
		cmocka_unit_test_setup_teardown(stands_still_later, start_still, stop_still),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
