// SPDX-License-Identifier: GPL-2.0-or-later
/* test_config_backend.c - real servers of dprd.conf: their nodes, numbers, ids and addresses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dprd/config/reading.h"

#define HEAD "[Cluster]\nName=web\n"
#define MEMBERS "[Member \"n1\"]\nService=192.0.2.11\n[Member \"n2\"]\nService=192.0.2.12\n"
#define B1 "[Backend \"b1\"]\nNode=n2\nAddress=10.1.0.21\n"
#define B2 "[Backend \"b2\"]\nForm=direct\nAddress=2001:db8:1::22\n"
#define B3 "[Backend \"b3\"]\nNode=n1\nForm=tunnel\nWeight=7\nAddress=10.1.0.23 2001:db8:1::23\n"
#define B4 "[Backend \"b4\"]\nNode=n2\nPort=8080\nAddress=10.1.0.24\n"

static struct config parse(const char *text, const char *node)
{
	struct config_errors errors;
	struct config config;

	if (config_parse("test", text, strlen(text), node, &config, &errors) != 0)
		fail_msg("%s", errors.text[0]);
	return config;
}

/* The own real servers by name, in the order of their numbers. */
static void assert_own(const struct config *config, const char *const *names, unsigned count)
{
	assert_int_equal(config->own_backend_count, count);
	for (unsigned own = 0; own < count; own++) {
		const struct backend *backend = config_own_backend(config, own);

		assert_string_equal(backend->name, names[own]);
		assert_int_equal(backend->id, backend_id(names[own]));
		assert_int_equal(config_own_backend_by_id(config, backend->id), own);
	}
}

/* One file for two nodes: each node has its own servers and those without Node=, in the order of the file. */
static void test_own(void **state)
{
	struct config config = parse(HEAD MEMBERS B1 B2 B3 B4, "n1");

	(void)state;
	assert_int_equal(config.backend_count, 4);
	assert_own(&config, (const char *[]) { "b2", "b3" }, 2);
	assert_int_equal(config_own_backend_by_id(&config, backend_id("b1")), -1);
	assert_int_equal(config_own_backend_by_id(&config, backend_id("b4")), -1);
	assert_int_equal(config_own_backend_by_id(&config, member_id("n1")), -1);

	config = parse(HEAD MEMBERS B1 B2 B3 B4, "n2");
	assert_own(&config, (const char *[]) { "b1", "b2", "b4" }, 3);
	assert_int_equal(config_own_backend_by_id(&config, backend_id("b3")), -1);

	config = parse(HEAD MEMBERS B1 B4, "n1");
	assert_own(&config, NULL, 0);
	assert_int_equal(config_own_backend_by_id(&config, backend_id("b1")), -1);
}

/* [Node] Name= chooses the node as the command line does. */
static void test_own_by_section(void **state)
{
	struct config config = parse(HEAD "[Node]\nName=n2\n" MEMBERS B1 B3, NULL);

	(void)state;
	assert_own(&config, (const char *[]) { "b1" }, 1);
}

static void test_values(void **state)
{
	struct config config = parse(HEAD MEMBERS B1 B2 B3 B4, "n1");
	const struct backend *b = config.backend;

	(void)state;
	assert_int_equal(b[0].form, BACKEND_NAT);
	assert_int_equal(b[0].weight, 1);
	assert_int_equal(b[0].port, 0);
	assert_string_equal(b[0].node, "n2");
	assert_int_equal(b[1].form, BACKEND_DIRECT);
	assert_string_equal(b[1].node, "");
	assert_int_equal(b[2].form, BACKEND_TUNNEL);
	assert_int_equal(b[2].weight, 7);
	assert_int_equal(b[3].port, 8080);
	assert_string_equal(config.backend_policy, "wlc");
	assert_true(config.serve_here);

	config = parse(HEAD "[Backends]\nPolicy=lc\nServeHere=no\n" MEMBERS B4, "n2");
	assert_string_equal(config.backend_policy, "lc");
	assert_false(config.serve_here);
}

static void assert_address(const struct backend *backend, bool v6, const char *expected)
{
	const struct addr *address = backend_address(backend, v6);
	char text[ADDR_TEXT_BYTES];

	if (!expected) {
		assert_null(address);
		return;
	}
	assert_non_null(address);
	assert_string_equal(addr_format(address, text), expected);
}

static void test_address(void **state)
{
	struct config config = parse(HEAD MEMBERS B1 B2 B3, "n1");

	(void)state;
	assert_address(&config.backend[0], false, "10.1.0.21");
	assert_address(&config.backend[0], true, NULL);
	assert_address(&config.backend[1], false, NULL);
	assert_address(&config.backend[1], true, "2001:db8:1::22");
	assert_address(&config.backend[2], false, "10.1.0.23");
	assert_address(&config.backend[2], true, "2001:db8:1::23");
}

/* The first bytes of BLAKE2b-256 of "backend NAME", as b2sum -l 256 prints them. */
static void test_id(void **state)
{
	char longest[NAME_BYTES], other[NAME_BYTES];

	(void)state;
	assert_int_equal(backend_id("b1"), 0x73360918);
	assert_int_equal(backend_id("b2"), 0x196c064e);
	assert_int_not_equal(backend_id("n1"), member_id("n1"));
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	memcpy(other, longest, sizeof(other));
	other[sizeof(other) - 2] = 'b';
	assert_int_not_equal(backend_id(longest), backend_id(other));
}

static bool is_policy(const char *name)
{
	for (unsigned i = 0; config_policy_names[i]; i++)
		if (strcmp(config_policy_names[i], name) == 0)
			return true;
	return false;
}

/* The names in the file stand in the order of the enumeration; each name of a policy is one of [Balance], too. */
static void test_names(void **state)
{
	char text[256];

	(void)state;
	assert_string_equal(config_backend_form_names[BACKEND_NAT], "nat");
	assert_string_equal(config_backend_form_names[BACKEND_DIRECT], "direct");
	assert_string_equal(config_backend_form_names[BACKEND_TUNNEL], "tunnel");
	assert_null(config_backend_form_names[BACKEND_TUNNEL + 1]);
	for (unsigned i = 0; i < 4; i++) {
		struct config config;

		assert_true(is_policy(config_backend_policy_names[i]));
		snprintf(text, sizeof(text), HEAD "[Backends]\nPolicy=%s\n" MEMBERS, config_backend_policy_names[i]);
		config = parse(text, "n1");
		assert_string_equal(config.backend_policy, config_backend_policy_names[i]);
	}
	assert_null(config_backend_policy_names[4]);
}

/* Real servers concern only their node: peers need not know of them. */
static void test_service_hash(void **state)
{
	struct config plain = parse(HEAD MEMBERS, "n1"), with = parse(HEAD MEMBERS B1 B2 B3, "n1");

	(void)state;
	assert_int_equal(config_service_hash(&plain), config_service_hash(&with));
	with = parse(HEAD "[Backends]\nPolicy=rr\nServeHere=no\n" MEMBERS B4, "n2");
	assert_int_equal(config_service_hash(&plain), config_service_hash(&with));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own),          cmocka_unit_test(test_own_by_section),
		cmocka_unit_test(test_values),       cmocka_unit_test(test_address),
		cmocka_unit_test(test_id),           cmocka_unit_test(test_names),
		cmocka_unit_test(test_service_hash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
