/* SPDX-License-Identifier: GPL-2.0-or-later */
/* own_backends.h - a configuration with real servers behind this node, and their log lines. */
#ifndef TESTS_UNIT_OWN_BACKENDS_H
#define TESTS_UNIT_OWN_BACKENDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dprd/config/config.h"

enum { LOG_BYTES = 4096 };

/* A configuration of two members, this one first; the own web server listens on the service port. */
static inline struct config *make_config(uint16_t own_port)
{
	struct config *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	*c = (struct config) {
		.serve_here = true,
		.port_count = 1,
		.port = { own_port },
		.health = HEALTH_TCP,
		.health_path = "/",
		.health_status_low = 200,
		.health_status_high = 299,
		.health_interval_ms = 1000,
		.health_timeout_ms = 500,
		.health_fall = 3,
		.health_rise = 2,
		.period_ms = 200,
		.dead_periods = 5,
		.member_count = 2,
	};
	for (unsigned i = 0; i < c->member_count; i++) {
		c->member[i] = (struct member) { .name = { 'n', (char)('1' + i) }, .id = 1 + i, .weight = 1 };
		c->member[i].service_count = 1;
		c->member[i].service[0] = addr_from_v4(htonl(INADDR_LOOPBACK));
	}
	return c;
}

/* Adds a real server, between others that belong to another node. The way to it does not matter here. */
static inline struct backend *add_backend(struct config *c, uint32_t id, uint16_t port)
{
	struct backend *b = &c->backend[c->backend_count + 1];

	c->own_backend[c->own_backend_count++] = (uint16_t)(c->backend_count + 1);
	c->backend_count += 2;
	*b = (struct backend) { .id = id, .form = BACKEND_NAT, .port = port, .weight = 1 };
	b->v4 = addr_from_v4(htonl(INADDR_LOOPBACK));
	snprintf(b->name, sizeof(b->name), "b%u", id);
	return b;
}

static int log_file = -1, true_stderr = -1;

/* A test's setup: redirects stderr to a file in memory, which plays the journal. */
static inline int log_catch(void **state)
{
	char stream[48];
	struct stat st;

	(void)state;
	log_file = memfd_create("log", MFD_CLOEXEC);
	true_stderr = dup(STDERR_FILENO);
	if (fstat(log_file, &st) < 0)
		return -1;
	snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	return log_file < 0 || true_stderr < 0 || dup2(log_file, STDERR_FILENO) < 0 ? -1 : 0;
}

/* Its teardown, so that cmocka's messages are visible. */
static inline int log_release(void **state)
{
	(void)state;
	unsetenv("JOURNAL_STREAM");
	dup2(true_stderr, STDERR_FILENO);
	close(true_stderr);
	return close(log_file);
}

/* The text that stderr got since the last call. */
static inline const char *log_text(void)
{
	static char text[LOG_BYTES];
	ssize_t size = pread(log_file, text, sizeof(text) - 1, 0);

	assert_true(size >= 0);
	text[size] = '\0';
	assert_int_equal(ftruncate(log_file, 0), 0);
	lseek(log_file, 0, SEEK_SET);
	return text;
}

#endif
