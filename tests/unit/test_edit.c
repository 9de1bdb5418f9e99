// SPDX-License-Identifier: GPL-2.0-or-later
/* Changes of members in the text of dprd.conf: comments, order and line ends stay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dprd/config/edit.h"

static const char text[] = "# The cluster.\n"
			   "[Cluster]\n"
			   "Name=web\n"
			   "\n"
			   "# One section for each node.\n"
			   "[Member \"n1\"]\n"
			   "Service=192.0.2.11\n"
			   "# Cluster=10.0.0.11\n"
			   "# How much it can carry.\n"
			   "#Weight=1\n"
			   "\n"
			   "[ Member \"n2\" ] ; the old one\n"
			   "  Weight = 5\t; half\n"
			   "Service=192.0.2.12\n"
			   "# Who we are.\n"
			   "[Node]\n"
			   "Name=n1\n";

static const struct edit_member n4 = { .name = "n4",
				       .service_count = 2,
				       .service = { "192.0.2.14", "2001:db8::14" },
				       .cluster_count = 1,
				       .cluster = { "10.0.0.14" },
				       .weight = "3" };

/* made is filled by the call whose result is error. */
static void assert_made(int error, char **made, const char *wanted)
{
	assert_int_equal(error, 0);
	assert_string_equal(*made, wanted);
	free(*made);
	*made = NULL;
}

static void test_add(void **context)
{
	static const char section[] = "\n[Member \"n4\"]\nService=192.0.2.14\nService=2001:db8::14\n"
				      "Cluster=10.0.0.14\nWeight=3\n\n";
	const char *at = strstr(text, "# Who we are.");
	char wanted[1024], *made = NULL;

	(void)context;
	snprintf(wanted, sizeof(wanted), "%.*s%s%s", (int)(at - text), text, section, at);
	assert_made(config_edit_add(text, strlen(text), &n4, &made), &made, wanted);
}

/* The last section is the end of the file: without a line end, with a comment, with lines of another system. */
static void test_add_at_the_end(void **context)
{
	static const struct edit_member m = { .name = "n2", .service_count = 1, .service = { "192.0.2.12" } };
	static const char *const cases[][2] = {
		{ "[Member \"n1\"]\nService=192.0.2.11", "[Member \"n1\"]\nService=192.0.2.11\n\n"
							 "[Member \"n2\"]\nService=192.0.2.12\n" },
		{ "[Member \"n1\"]\nService=192.0.2.11\n# more\n", "[Member \"n1\"]\nService=192.0.2.11\n# more\n\n"
								   "[Member \"n2\"]\nService=192.0.2.12\n" },
		{ "[Member \"n1\"]\r\nService=192.0.2.11\r\n", "[Member \"n1\"]\r\nService=192.0.2.11\r\n\r\n"
							       "[Member \"n2\"]\r\nService=192.0.2.12\r\n" },
		{ "\xef\xbb\xbf[Member \"n1\"]\nService=192.0.2.11\n\n[Node]\n",
		  "\xef\xbb\xbf[Member \"n1\"]\nService=192.0.2.11\n\n[Member "
		  "\"n2\"]\nService=192.0.2.12\n\n[Node]\n" },
	};

	(void)context;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *made = NULL;

		assert_made(config_edit_add(cases[i][0], strlen(cases[i][0]), &m, &made), &made, cases[i][1]);
	}
}

static void test_remove(void **context)
{
	const char *first = strstr(text, "[Member \"n1\"]"), *second = strstr(text, "[ Member"),
		   *node = strstr(text, "# Who we are.");
	char wanted[1024], *made = NULL;

	(void)context;
	snprintf(wanted, sizeof(wanted), "%.*s%s", (int)(first - text), text, second);
	/* The comment above the header stays, and one empty line less. */
	assert_int_equal(config_edit_remove(text, strlen(text), "n1", &made), 0);
	assert_non_null(strstr(made, "# One section for each node.\n"));
	assert_null(strstr(made, "192.0.2.11"));
	assert_null(strstr(made, "How much"));
	assert_non_null(strstr(made, second));
	free(made);
	snprintf(wanted, sizeof(wanted), "%.*s%s", (int)(second - text), text, node);
	assert_made(config_edit_remove(text, strlen(text), "n2", &made), &made, wanted);
}

static void test_what_was_added_goes(void **context)
{
	static const char *const texts[] = {
		"[Member \"n1\"]\nService=192.0.2.11\n",
		"[Member \"n1\"]\nService=192.0.2.11\n\n[Node]\nName=n1\n",
		"[Cluster]\nName=web\n\n[Member \"n1\"]\nService=192.0.2.11\n# more\n\n\n# Node\n[Node]\n",
	};

	(void)context;
	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		char *added = NULL, *removed = NULL;

		assert_int_equal(config_edit_add(texts[i], strlen(texts[i]), &n4, &added), 0);
		assert_made(config_edit_remove(added, strlen(added), "n4", &removed), &removed, texts[i]);
		free(added);
	}
}

static void test_weight(void **context)
{
	char *made = NULL;

	(void)context;
	assert_int_equal(config_edit_weight(text, strlen(text), "n2", "50", &made), 0);
	assert_non_null(strstr(made, "  Weight = 50\t; half\nService=192.0.2.12\n"));
	assert_int_equal(strlen(made), strlen(text) + 1);
	free(made);
	assert_int_equal(config_edit_weight(text, strlen(text), "n1", "0", &made), 0);
	assert_non_null(strstr(made, "Service=192.0.2.11\nWeight=0\n# Cluster=10.0.0.11\n"));
	assert_int_equal(strlen(made), strlen(text) + strlen("Weight=0\n"));
	free(made);
}

static void test_refusals(void **context)
{
	const struct edit_member again = { .name = "n2", .service_count = 1, .service = { "192.0.2.14" } };
	const struct edit_member bad[] = {
		{ .name = "n4\n", .service_count = 1, .service = { "192.0.2.14" } },
		{ .name = "n4", .service_count = 1, .service = { "192.0.2.14\nWeight=3" } },
		{ .name = "n4", .service_count = 1, .service = { "" } },
		{ .name = "n4", .service_count = 1, .service = { "192.0.2.14 ; x" } },
		{ .name = "n4", .cluster_count = 1, .cluster = { "10.0.0.1]" } },
		{ .name = "n4", .weight = "1\n2" },
		{ .name = "n4", .weight = "000000005" },
	};
	char *made = NULL;

	(void)context;
	assert_int_equal(config_edit_add(text, strlen(text), &again, &made), -EEXIST);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(config_edit_add(text, strlen(text), &bad[i], &made), -EINVAL);
	assert_int_equal(config_edit_add(text, sizeof(text), &n4, &made), -EINVAL);
	assert_int_equal(config_edit_remove(text, strlen(text), "n3", &made), -ENOENT);
	assert_int_equal(config_edit_remove(text, strlen(text), "", &made), -ENOENT);
	assert_int_equal(config_edit_weight(text, strlen(text), "n3", "1", &made), -ENOENT);
	assert_int_equal(config_edit_weight(text, strlen(text), "n1", "x y", &made), -EINVAL);
	assert_null(made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_add),    cmocka_unit_test(test_add_at_the_end),
		cmocka_unit_test(test_remove), cmocka_unit_test(test_what_was_added_goes),
		cmocka_unit_test(test_weight), cmocka_unit_test(test_refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
