// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "loadcast/health.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loadcast/accepted.h"
#include "loadcast/command.h"
#include "loadcast/connect.h"
#include "loadcast/core/speech.h"
#include "loadcast/https.h"

enum {
	REQUEST_BYTES = 768,
	REASON_BYTES = 160,
	CONNECTIONS_MAX = 4, /* of one probe that learns what the port speaks */
	LEARN_GAP_MAX = 64, /* probes from one attempt to learn to the next */
	PATIENCE_TIMES = 5, /* HEALTH_AUTO waits for an answer this many time limits: a slow page is no fault */
	ACCEPT_LOOK_MS = 2, /* the first wait for accept(2); each one is twice as long as the one before */
	STANDS_STILL_COUNTS = 2, /* failures */
	HTTP_BAD_REQUEST = 400,
	HTTP_SERVER_ERROR = 500,
};

enum step { STEP_IDLE, STEP_CONNECT, STEP_ACCEPT, STEP_SEND, STEP_ANSWER, STEP_HTTPS, STEP_COMMAND };

_Static_assert((int)REQUEST_BYTES >= (int)SPEECH_HELLO_BYTES, "either is sent from one buffer");

struct health {
	const struct config *config;
	enum health_check check;
	struct addr address;
	uint16_t port;
	enum step step;
	int socket;
	struct https *https; /* STEP_HTTPS */
	struct command *command; /* STEP_COMMAND; and later, while it is killed and has not ended yet */
	bool killed;
	uint64_t next_ms; /* idle: start of the next probe; else: when to look at this one */
	uint64_t started_ms; /* the probe */
	uint64_t late_ms; /* when its connection is late */
	unsigned look_ms; /* STEP_ACCEPT */
	bool known, good;
	unsigned streak; /* results in a row that contradict "good" */
	size_t sent, received;
	char request[REQUEST_BYTES];
	size_t request_bytes;
	char answer[SPEECH_BYTES];
	char reason[REASON_BYTES];

	enum speech asks; /* this connection */
	unsigned connections; /* of this probe */
	/* HEALTH_AUTO */
	enum speech speaks;
	bool learns; /* this probe */
	bool has_answered; /* an HTTP status that is well, or a ServerHello: the server knows what it is asked for */
	bool bad_request; /* the port answered a GET with status 400, as a TLS server may */
	unsigned probes, learn_gap; /* probes since it last learnt, and until it learns again (0: never) */
};

struct health *health_new(const struct config *config, enum health_check check, const struct addr *address,
			  uint16_t port)
{
	struct health *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->config = config;
	h->check = check;
	h->address = *address;
	h->port = port;
	h->socket = -1;
	h->good = true;
	h->learn_gap = 1;
	return h;
}

void health_free(struct health *health)
{
	if (!health)
		return;
	if (health->socket >= 0)
		close(health->socket);
	https_free(health->https);
	command_free(health->command);
	free(health);
}

static bool same_question(const struct health *a, const struct health *b)
{
	return a->port == b->port && addr_equal(&a->address, &b->address) && a->check == b->check &&
	       a->config->health_verify == b->config->health_verify &&
	       strcmp(a->config->health_path, b->config->health_path) == 0 &&
	       strcmp(a->config->health_host, b->config->health_host) == 0 &&
	       strcmp(a->config->health_command, b->config->health_command) == 0;
}

void health_inherit(struct health *health, struct health *former)
{
	const struct config *config = health->config;

	if (health->check == HEALTH_NONE)
		return;
	health->good = former->good;
	if (!same_question(health, former))
		return;
	*health = *former;
	health->config = config;
	former->socket = -1;
	former->https = NULL;
	former->command = NULL;
	former->killed = false;
	former->step = STEP_IDLE;
	if (health->step == STEP_IDLE)
		health->next_ms = health->started_ms + config->health_interval_ms;
}

static void hang_up(struct health *h)
{
	if (h->socket >= 0)
		close(h->socket);
	h->socket = -1;
	https_free(h->https);
	h->https = NULL;
	h->step = STEP_IDLE;
}

/* A probe is over. Every result but the first must repeat itself before it counts. */
static void finish(struct health *h, bool success, unsigned counts)
{
	unsigned needed = success ? h->config->health_rise : h->config->health_fall;

	hang_up(h);
	h->next_ms = h->started_ms + h->config->health_interval_ms;
	h->streak = success == h->good ? 0 : h->streak + counts;
	if (h->streak && (!h->known || h->streak >= needed)) {
		h->good = success;
		h->streak = 0;
	}
	h->known = true;
}

static void probe_failed(struct health *h, const char *what, int error)
{
	snprintf(h->reason, sizeof(h->reason), "%s%s%s", what, error ? ": " : "", error ? strerror(error) : "");
	finish(h, false, 1);
}

static void server_stands_still(struct health *h, const char *what)
{
	snprintf(h->reason, sizeof(h->reason), "%s", what);
	finish(h, false, STANDS_STILL_COUNTS);
}

static void fill_request(struct health *h)
{
	uint8_t random[SPEECH_HELLO_RANDOM];
	char address[ADDR_TEXT_BYTES];
	const char *host = h->config->health_host;
	bool brackets = !*host && !addr_is_v4(&h->address);

	if (h->asks == SPEECH_TLS) {
		randombytes_buf(random, sizeof(random));
		h->request_bytes = speech_tls_hello(host, random, (uint8_t *)h->request);
	} else {
		h->request_bytes =
			(size_t)snprintf(h->request, sizeof(h->request),
					 "GET %s HTTP/1.1\r\nHost: %s%s%s\r\nUser-Agent: loadcast\r\n"
					 "Connection: close\r\n\r\n",
					 h->config->health_path, brackets ? "[" : "",
					 *host ? host : addr_format(&h->address, address), brackets ? "]" : "");
	}
}

static void open_connection(struct health *h, uint64_t now_ms)
{
	int error;

	hang_up(h);
	h->connections++;
	h->next_ms = h->late_ms = now_ms + h->config->health_timeout_ms;
	h->sent = h->received = 0;
	h->step = STEP_CONNECT;
	fill_request(h);
	h->socket = connect_begin(&h->address, h->port, &error);
	if (h->socket < 0)
		probe_failed(h, "connect", error);
}

/* Goes on with this probe, with another question to the port. */
static void ask(struct health *h, enum speech speech, uint64_t now_ms)
{
	if (h->connections >= CONNECTIONS_MAX) {
		probe_failed(h, "the port answers sometimes with one protocol, sometimes with another", 0);
		return;
	}
	h->asks = speech;
	open_connection(h, now_ms);
}

/* --- HEALTH_AUTO: what the port speaks --- */

/*
 * True when the protocol is not known, or known only as TCP, or when the last answer may have been that of a TLS
 * server.
 */
static bool wants_to_learn(const struct health *h)
{
	if (h->speaks != SPEECH_UNKNOWN && h->speaks != SPEECH_TCP && !h->bad_request)
		return false;
	return h->probes >= h->learn_gap;
}

static void begin_learning(struct health *h)
{
	h->learns = true;
	h->bad_request = false;
	h->probes = 0;
	h->learn_gap = 2 * h->learn_gap < LEARN_GAP_MAX ? 2 * h->learn_gap : LEARN_GAP_MAX;
}

static void begin_https(struct health *h, uint64_t now_ms)
{
	h->step = STEP_HTTPS;
	h->next_ms = now_ms; /* the connection begins then */
	h->late_ms = now_ms + h->config->health_timeout_ms;
	h->asks = SPEECH_HTTP;
	h->https = https_ask(h->config, &h->address, h->port);
	if (!h->https)
		probe_failed(h, "out of memory", 0);
}

static void start_command(struct health *h)
{
	h->command = command_start(h->config->health_command, &h->address, h->port);
	if (!h->command)
		probe_failed(h, "the command cannot start", errno);
}

/* Never more than one at a time: this one may have to wait for the end of one that was killed. */
static void begin_command(struct health *h, uint64_t now_ms)
{
	h->step = STEP_COMMAND;
	h->next_ms = h->late_ms = now_ms + h->config->health_timeout_ms;
	if (!h->command)
		start_command(h);
}

static void begin_probe(struct health *h, uint64_t now_ms)
{
	h->started_ms = now_ms;
	h->connections = 0;
	h->learns = false;
	h->probes++;
	if (h->check == HEALTH_HTTPS) {
		begin_https(h, now_ms);
		return;
	}
	if (h->check == HEALTH_COMMAND) {
		begin_command(h, now_ms);
		return;
	}
	h->asks = h->check == HEALTH_HTTP ? SPEECH_HTTP : SPEECH_TCP;
	if (h->check == HEALTH_AUTO) {
		if (wants_to_learn(h) || !h->known)
			begin_learning(h);
		h->asks = h->learns ? SPEECH_HTTP : h->speaks > SPEECH_TCP ? h->speaks : SPEECH_TCP;
	}
	open_connection(h, now_ms);
}

static void learn(struct health *h, enum speech speaks)
{
	h->learns = false;
	h->speaks = speaks;
	if (speaks != SPEECH_TCP && !h->bad_request)
		h->learn_gap = 1;
}

static bool is_good_status(const struct health *h, unsigned status)
{
	if (h->check == HEALTH_AUTO)
		return status < HTTP_SERVER_ERROR;
	return status >= h->config->health_status_low && status <= h->config->health_status_high;
}

/*
 * Without Host= the server is asked for no name that it knows. Some servers close then, or reject the handshake, and work
 * for their names. As long as that is all that was heard of them, the accepted connection is the proof.
 */
static bool may_want_name(const struct health *h)
{
	return h->check == HEALTH_AUTO && !*h->config->health_host && !h->has_answered;
}

static void judge(struct health *h, unsigned code)
{
	char what[REASON_BYTES];

	if (h->asks == SPEECH_HTTP && !is_good_status(h, code)) {
		snprintf(what, sizeof(what), "HTTP status %u for %.80s", code, h->config->health_path);
		probe_failed(h, what, 0);
	} else if (h->asks == SPEECH_TLS && code == TLS_INTERNAL_ERROR && !may_want_name(h)) {
		probe_failed(h, "TLS alert: internal error", 0);
	} else {
		h->bad_request = h->asks == SPEECH_HTTP && code == HTTP_BAD_REQUEST;
		h->has_answered |= !(h->asks == SPEECH_TLS && code);
		finish(h, true, 1);
	}
}

/* Learns from the answer to a GET. A TLS server, too, may say "400 Bad Request". */
static void learn_by_get(struct health *h, enum speech speech, unsigned code, uint64_t now_ms)
{
	if (speech == SPEECH_HTTP && code == HTTP_BAD_REQUEST) {
		h->bad_request = true;
		ask(h, SPEECH_TLS, now_ms);
	} else if (speech == SPEECH_HTTP) {
		learn(h, SPEECH_HTTP);
		judge(h, code);
	} else if (speech == SPEECH_TLS) {
		learn(h, SPEECH_TLS);
		ask(h, SPEECH_TLS, now_ms);
	} else {
		learn(h, SPEECH_TCP);
		finish(h, true, 1);
	}
}

/* Learns from the answer to a ClientHello. */
static void learn_by_hello(struct health *h, enum speech speech, unsigned code, uint64_t now_ms)
{
	if (speech == SPEECH_TLS) {
		h->bad_request = false;
		learn(h, SPEECH_TLS);
		judge(h, code);
	} else if (h->bad_request) {
		/* It is HTTP, and the status 400 was its own. */
		learn(h, SPEECH_HTTP);
		finish(h, true, 1);
	} else if (speech == SPEECH_HTTP) {
		/* An answer to a GET says more than an answer to a ClientHello. */
		learn(h, SPEECH_HTTP);
		ask(h, SPEECH_HTTP, now_ms);
	} else {
		learn(h, SPEECH_TCP);
		finish(h, true, 1);
	}
}

static void take_answer(struct health *h, enum speech speech, unsigned code, uint64_t now_ms)
{
	if (!h->learns && speech != h->asks && h->check == HEALTH_AUTO)
		begin_learning(h);
	if (h->learns && h->asks == SPEECH_HTTP)
		learn_by_get(h, speech, code, now_ms);
	else if (h->learns)
		learn_by_hello(h, speech, code, now_ms);
	else if (speech == h->asks)
		judge(h, code);
	else
		probe_failed(h, "the answer is not HTTP", 0);
}

/* Handles a connection without an answer. Nothing is learnt from silence. */
static void take_silence(struct health *h, const char *what, uint64_t now_ms)
{
	if (h->learns && h->asks == SPEECH_HTTP) {
		ask(h, SPEECH_TLS, now_ms);
	} else if (h->learns && h->bad_request) {
		learn(h, SPEECH_HTTP);
		finish(h, true, 1);
	} else if (h->learns && h->speaks <= SPEECH_TCP) {
		finish(h, true, 1);
	} else {
		probe_failed(h, what, 0);
	}
}

static void take_end(struct health *h, uint64_t now_ms)
{
	if (!h->learns && may_want_name(h))
		finish(h, true, 1);
	else
		take_silence(h, "the server closed without an answer", now_ms);
}

/* --- HEALTH_HTTPS --- */

static void go_on_with_https(struct health *h, short revents, uint64_t now_ms)
{
	char error[HTTPS_ERROR_BYTES] = "", what[REASON_BYTES];
	uint64_t due_ms;
	unsigned status;
	short events;

	if (https_go_on(h->https, revents, now_ms, &status, error)) {
		snprintf(what, sizeof(what), "https: %s", error);
		if (status)
			judge(h, status);
		else
			probe_failed(h, what, 0);
	} else if (now_ms < h->late_ms) {
		due_ms = https_due_ms(h->https);
		h->next_ms = due_ms < h->late_ms ? due_ms : h->late_ms;
	} else if (accepted_look(https_socket(h->https, &events)) == ACCEPTED_NOT_YET) {
		server_stands_still(h, "the server does not accept connections");
	} else {
		probe_failed(h, "no HTTPS answer in time", 0);
	}
}

/* --- HEALTH_COMMAND --- */

static void take_command(struct health *h, bool good, const char *reason)
{
	char what[REASON_BYTES];

	if (good) {
		finish(h, true, 1);
		return;
	}
	snprintf(what, sizeof(what), "command: %s", reason);
	probe_failed(h, what, 0);
}

static void go_on_with_command(struct health *h, uint64_t now_ms)
{
	char reason[COMMAND_REASON_BYTES]; /* set only when it is not good */
	bool good, killed = h->killed;

	if (command_ended(h->command, &good, reason)) {
		command_free(h->command);
		h->command = NULL;
		h->killed = false;
		if (h->step == STEP_COMMAND && killed)
			start_command(h);
		else if (h->step == STEP_COMMAND)
			take_command(h, good, reason);
	} else if (h->step == STEP_COMMAND && now_ms >= h->late_ms) {
		command_kill(h->command);
		h->killed = true;
		probe_failed(h,
			     killed ? "the command before was killed, and does not end"
				    : "the command did not end in time",
			     0);
	}
}

/* --- one connection --- */

/* Later and later, until the time is up. */
static void look_whether_accepted(struct health *h, uint64_t now_ms)
{
	if (accepted_look(h->socket) != ACCEPTED_NOT_YET) {
		finish(h, true, 1);
	} else if (now_ms >= h->late_ms) {
		server_stands_still(h, "the server does not accept connections");
	} else {
		h->next_ms = now_ms + h->look_ms < h->late_ms ? now_ms + h->look_ms : h->late_ms;
		h->look_ms *= 2;
	}
}

static void take_lateness(struct health *h, uint64_t now_ms)
{
	uint64_t patient_ms = h->started_ms + (uint64_t)PATIENCE_TIMES * h->config->health_timeout_ms;

	if (h->step == STEP_CONNECT) {
		/* On this host no SYN is lost: the accept queue is full. */
		if (accepted_is_local(h->socket, &h->address))
			server_stands_still(h, "connect: no answer in time; the server's accept queue may be full");
		else
			probe_failed(h, "connect: no answer in time", 0);
	} else if (accepted_look(h->socket) == ACCEPTED_NOT_YET) {
		server_stands_still(h, "the server does not accept connections");
	} else if (h->check == HEALTH_AUTO && !h->learns && now_ms < patient_ms) {
		h->next_ms = patient_ms;
	} else {
		take_silence(h, h->asks == SPEECH_TLS ? "no TLS answer in time" : "no HTTP answer in time", now_ms);
	}
}

uint64_t health_tick(struct health *health, uint64_t now_ms)
{
	if (health->check == HEALTH_NONE)
		return UINT64_MAX;
	if (health->command)
		go_on_with_command(health, now_ms);
	else if (health->step == STEP_HTTPS && (now_ms >= health->next_ms || now_ms >= https_due_ms(health->https)))
		go_on_with_https(health, 0, now_ms);
	else if (health->step == STEP_ACCEPT && now_ms >= health->next_ms)
		look_whether_accepted(health, now_ms);
	else if (health->step != STEP_IDLE && now_ms >= health->next_ms)
		take_lateness(health, now_ms);
	if (health->step == STEP_IDLE && now_ms >= health->next_ms)
		begin_probe(health, now_ms);
	return health->next_ms;
}

int health_socket(const struct health *health, short *ret_events)
{
	if (health->command) {
		*ret_events = POLLIN;
		return command_descriptor(health->command);
	}
	if (health->step == STEP_HTTPS)
		return https_socket(health->https, ret_events);
	*ret_events = health->step == STEP_ANSWER ? POLLIN : POLLOUT;
	/* In STEP_ACCEPT the probe waits for accept(2), not for bytes. */
	return health->step == STEP_ACCEPT ? -1 : health->socket;
}

static void check_connected(struct health *h, uint64_t now_ms)
{
	int error = connect_error(h->socket);

	if (error) {
		/* Another program may listen there next. */
		h->learn_gap = 1;
		probe_failed(h, "connect", error);
	} else if (h->asks == SPEECH_TCP) {
		h->step = STEP_ACCEPT;
		h->look_ms = ACCEPT_LOOK_MS;
		look_whether_accepted(h, now_ms);
	} else {
		h->step = STEP_SEND;
	}
}

static void send_request(struct health *h, uint64_t now_ms)
{
	ssize_t size = send(h->socket, h->request + h->sent, h->request_bytes - h->sent, MSG_NOSIGNAL);

	if (size >= 0)
		h->sent += (size_t)size;
	else if (errno != EAGAIN && errno != EINTR)
		take_end(h, now_ms);
	if (h->step == STEP_SEND && h->sent == h->request_bytes)
		h->step = STEP_ANSWER;
}

static void read_answer(struct health *h, uint64_t now_ms)
{
	ssize_t size = recv(h->socket, h->answer + h->received, sizeof(h->answer) - h->received, 0);
	enum speech speech;
	unsigned code;

	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (size < 0) {
		take_end(h, now_ms);
		return;
	}
	h->received += (size_t)size;
	speech = speech_of(h->answer, h->received, !size || h->received == sizeof(h->answer), &code);
	if (speech != SPEECH_UNKNOWN)
		take_answer(h, speech, code, now_ms);
	else if (!size)
		take_end(h, now_ms);
}

void health_ready(struct health *health, short revents, uint64_t now_ms)
{
	if (health->command)
		go_on_with_command(health, now_ms);
	else if (health->step == STEP_HTTPS)
		go_on_with_https(health, revents, now_ms);
	else if (health->step == STEP_CONNECT)
		check_connected(health, now_ms);
	else if (health->step == STEP_ANSWER)
		read_answer(health, now_ms);
	if (health->step == STEP_SEND)
		send_request(health, now_ms);
	if (health->step == STEP_IDLE && health->next_ms < now_ms)
		health->next_ms = now_ms;
}

bool health_is_good(const struct health *health)
{
	return health->good;
}

const char *health_reason(const struct health *health)
{
	return health->reason;
}
