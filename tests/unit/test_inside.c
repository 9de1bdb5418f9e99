// SPDX-License-Identifier: GPL-2.0-or-later
/* Networks of this node alone: which addresses do they have? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "dprd/core/decide/inside.h"

static struct addr address(const char *text)
{
	struct addr a;

	assert_true(addr_parse(text, &a));
	return a;
}

static bool has(const char *network, unsigned bits, const char *text)
{
	struct addr of = address(network), a = address(text);
	struct inside inside = { .count = INSIDE_NETWORKS_MAX };

	/* The last place counts, too; the others have none of the addresses. */
	for (unsigned i = 0; i < INSIDE_NETWORKS_MAX; i++)
		inside.network[i] = inside_network_of(&(struct addr) { .words = { 1, 2, 3, i } }, 128);
	inside.network[INSIDE_NETWORKS_MAX - 1] = inside_network_of(&of, bits);
	if (inside_has(&inside, &a)) {
		inside.count--;
		assert_false(inside_has(&inside, &a));
		return true;
	}
	return false;
}

static void networks_have_their_addresses(void **state)
{
	(void)state;
	assert_true(has("172.17.0.1", 96 + 16, "172.17.255.254"));
	assert_false(has("172.17.0.1", 96 + 16, "172.18.0.1"));
	assert_true(has("172.17.0.1", 96 + 31, "172.17.0.0"));
	assert_false(has("172.17.0.1", 96 + 31, "172.17.0.2"));
	assert_true(has("fd17::1", 64, "fd17::ffff:1:2"));
	assert_false(has("fd17::1", 64, "fd17:0:0:1::1"));
	/* ::/0 would have the mapped IPv4 addresses, too; no network has the other family's. */
	assert_false(has("fd17::1", 64, "172.17.0.2"));
	assert_false(has("172.17.0.1", 96 + 16, "::ac11:2"));
}

static void no_network_has_an_address(void **state)
{
	const struct inside none = { .count = 0 };
	struct addr a = address("0.0.0.0"), zero = { .words = { 0 } };

	(void)state;
	assert_false(inside_has(&none, &a));
	assert_false(inside_has(&none, &zero));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(networks_have_their_addresses),
		cmocka_unit_test(no_network_has_an_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
