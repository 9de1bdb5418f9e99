// SPDX-License-Identifier: GPL-2.0-or-later
/* test_alias.c - aliases survive changes of the file, and no two addresses have the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dprd/config/alias.h"

#include <stdlib.h>
#include <time.h>

#define HEAD "[Cluster]\nName=web\n[Node]\nName=n2\n"
#define N1 "[Member \"n1\"]\nService=192.0.2.11 2001:db8::11\n"
#define N2 "[Member \"n2\"]\nService=192.0.2.12 2001:db8::12\n"
#define N3 "[Member \"n3\"]\nService=192.0.2.13 2001:db8::13\n"
#define N4 "[Member \"n4\"]\nService=192.0.2.14 2001:db8::14\n"

static struct aliases book;
static struct config config;

static int start(void **state)
{
	(void)state;
	book.count = 0;
	return 0;
}

static void take(const char *text)
{
	struct config_errors errors;

	if (config_parse("test", text, strlen(text), NULL, &config, &errors) != 0)
		fail_msg("%s", errors.text[0]);
	aliases_assign(&book, &config);
}

static void assert_alias(const char *service, const char *expected)
{
	struct addr address, alias;
	char text[ADDR_TEXT_BYTES];
	int member;

	assert_true(addr_parse(service, &address));
	member = config_member_by_service(&config, &address);
	assert_true(member >= 0);
	alias = config_alias(&config, (unsigned)member, addr_is_v4(&address) ? 0 : 1);
	assert_string_equal(addr_format(&alias, text), expected);
}

/* The order of the file counts at the first start alone; a former version gave out the same aliases. */
static void test_stay_when_a_member_goes(void **state)
{
	(void)state;
	take(HEAD N1 N2 N3 N4);
	assert_alias("192.0.2.13", "198.18.211.3");
	assert_alias("2001:db8::14", "fd64:7072:6400::4");
	assert_alias("192.0.2.12", "::"); /* its own */
	take(HEAD N2 N3 N4);
	assert_alias("192.0.2.13", "198.18.211.3");
	assert_alias("2001:db8::14", "fd64:7072:6400::4");
	take(HEAD N4 N2);
	assert_alias("192.0.2.14", "198.18.211.4");
	take(HEAD N4 N3 N2 N1);
	assert_alias("192.0.2.11", "198.18.211.1");
	assert_alias("192.0.2.13", "198.18.211.3");
	assert_alias("2001:db8::14", "fd64:7072:6400::4");
}

/* An alias of a member that left may be in use still. */
static void test_a_new_member_takes_no_alias_of_another(void **state)
{
	(void)state;
	take(HEAD N1 N2 N3);
	take(HEAD N4 N2 N3);
	assert_alias("192.0.2.14", "198.18.211.2");
	assert_alias("192.0.2.13", "198.18.211.3");
	take(HEAD N1 N4 N2 N3);
	assert_alias("192.0.2.11", "198.18.211.1");
	assert_alias("192.0.2.14", "198.18.211.2");
}

static void test_the_oldest_goes_when_the_range_is_full(void **state)
{
	(void)state;
	take(HEAD "[Alias]\nRange=10.9.0.0/29\n" N1 N2 N3 N4 "[Member \"n5\"]\nService=192.0.2.15\n"
		  "[Member \"n6\"]\nService=192.0.2.16\n");
	take(HEAD "[Alias]\nRange=10.9.0.0/29\n" N1 N2);
	/* Its own alias, .2, was never given out. */
	take(HEAD "[Alias]\nRange=10.9.0.0/29\n" N1 N2 "[Member \"n7\"]\nService=192.0.2.17\n"
		  "[Member \"n8\"]\nService=192.0.2.18\n");
	assert_alias("192.0.2.11", "10.9.0.1");
	assert_alias("192.0.2.17", "10.9.0.2");
	assert_alias("192.0.2.18", "10.9.0.3");
	take(HEAD "[Alias]\nRange=10.9.0.0/29\n" N1 N2 N3);
	assert_alias("192.0.2.13", "10.9.0.4");
}

static void test_another_range(void **state)
{
	(void)state;
	take(HEAD N1 N2 N3);
	take(HEAD "[Alias]\nRange=10.9.0.0/29\n" N3 N2 N1);
	assert_alias("192.0.2.11", "10.9.0.3");
	assert_alias("2001:db8::11", "fd64:7072:6400::1");
	take(HEAD N3 N2 N1);
	assert_alias("192.0.2.11", "198.18.211.3");
}

static void test_none_with_cluster_addresses(void **state)
{
	(void)state;
	take(HEAD N1 "Cluster=10.0.0.11\n" N2 "Cluster=10.0.0.12\n");
	assert_int_equal(book.count, 0);
	assert_alias("192.0.2.11", "::");
}

/* Members come, go and change their places, more than the range and the book have room for. */
static void test_random_changes(void **state)
{
	static char text[32768];
	static struct aliases before;
	const char *given = getenv("UNIT_SEED");
	unsigned seed = given ? (unsigned)strtoul(given, NULL, 0) : (unsigned)time(NULL), stayed = 0;

	(void)state;
	print_message("UNIT_SEED=%u\n", seed);
	srand(seed);
	for (unsigned turn = 0; turn < 40; turn++) {
		unsigned first = (unsigned)rand() % 2000, members = 1 + (unsigned)rand() % 62;

		sprintf(text, "%s", HEAD "[Alias]\nRange=10.9.0.0/23\n" N2);
		for (unsigned i = 0; i < members; i++) {
			unsigned number = (first + i * 7) % 251;

			sprintf(text + strlen(text), "[Member \"m%u\"]\n", number);
			for (unsigned s = 0; s < 8; s++)
				sprintf(text + strlen(text), "Service=10.1.%u.%u\n", number, s + 1);
		}
		before = book;
		take(text);
		assert_true(book.count <= ALIASES_MAX);
		for (unsigned i = 0; i < book.count; i++) {
			for (unsigned j = 0; j < i; j++)
				assert_false(addr_equal(&book.pair[i].alias, &book.pair[j].alias) ||
					     addr_equal(&book.pair[i].service, &book.pair[j].service));
		}
		for (unsigned i = 0; i < before.count; i++) {
			int member = config_member_by_service(&config, &before.pair[i].service);

			for (unsigned s = 0; member >= 0 && s < config.member[member].service_count; s++) {
				if (!addr_equal(&config.member[member].service[s], &before.pair[i].service))
					continue;
				assert_true(addr_equal(&config.member[member].alias[s], &before.pair[i].alias));
				stayed++;
			}
		}
	}
	assert_true(stayed > 200);
}

static void test_file(void **state)
{
	static char text[ALIASES_TEXT_BYTES];
	static struct aliases again;

	(void)state;
	take(HEAD N1 N2 N3);
	aliases_format(&book, text);
	assert_non_null(strstr(text, "2001:db8::13 fd64:7072:6400::3\n"));
	assert_true(aliases_parse(&again, text));
	assert_int_equal(again.count, 4);
	assert_memory_equal(again.pair, book.pair, 4 * sizeof(book.pair[0]));
	assert_true(aliases_parse(&again, ""));
	assert_int_equal(again.count, 0);
}

static void test_bad_files(void **state)
{
	static const char *const bad[] = {
		"192.0.2.11 198.18.211.1",
		"192.0.2.11\n",
		"192.0.2.11 \n",
		" 198.18.211.1\n",
		"192.0.2.11 fd64::1\n",
		"192.0.2.11 198.18.211.1 \n",
		"192.0.2.11 198.18.211.1\n192.0.2.11 198.18.211.2\n",
		"192.0.2.11 198.18.211.1\n192.0.2.12 198.18.211.1\n",
		"192.0.2.1100000000000000000000000000000000000000000000000000000000000 198.18.211.1\n",
		"192.0.2.11 198.18.211.1000000000000000000000000000000000000000000000000000000000000\n",
		"\n",
	};
	static char long_text[64 * (ALIASES_MAX + 1)];

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_false(aliases_parse(&book, bad[i]));
		assert_int_equal(book.count, 0);
	}
	for (unsigned i = 0, used = 0; i <= ALIASES_MAX; i++)
		used += (unsigned)sprintf(long_text + used, "10.1.%u.%u 10.2.%u.%u\n", i / 256, i % 256, i / 256,
					  i % 256);
	assert_false(aliases_parse(&book, long_text));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_stay_when_a_member_goes, start),
		cmocka_unit_test_setup(test_a_new_member_takes_no_alias_of_another, start),
		cmocka_unit_test_setup(test_the_oldest_goes_when_the_range_is_full, start),
		cmocka_unit_test_setup(test_another_range, start),
		cmocka_unit_test_setup(test_none_with_cluster_addresses, start),
		cmocka_unit_test_setup(test_random_changes, start),
		cmocka_unit_test_setup(test_file, start),
		cmocka_unit_test_setup(test_bad_files, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
