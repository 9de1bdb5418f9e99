// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_config_restart.c - changes of dprd.conf that wait for a restart of dprd: the note names exactly these keys, the
 * running values stay, and every other change is taken.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dprd/config/reading.h"

#include <stdlib.h>

#define MEMBERS                                                    \
	"[Member \"n1\"]\nService=192.0.2.11\nCluster=10.0.0.11\n" \
	"[Member \"n2\"]\nService=192.0.2.12\nCluster=10.0.0.12\n"
#define SHARED_ADDRESS "[Shared]\nAddress=192.0.2.100\n"

static void read_text(const char *text, struct config *config)
{
	static struct config_errors errors;
	char whole[2048];

	snprintf(whole, sizeof(whole), "[Cluster]\nName=web\n[Node]\nName=n1\n%s" MEMBERS, text);
	if (config_parse("test.conf", whole, strlen(whole), NULL, config, &errors))
		fail_msg("%s", errors.text[0]);
}

/* The note of a reload from one text to another; *fresh is what runs then. The caller frees nothing. */
static const char *note_of(const char *before, const char *after, struct config *old, struct config *fresh)
{
	static char note[CONFIG_ERROR_BYTES];

	read_text(before, old);
	read_text(after, fresh);
	memset(note, 'x', sizeof(note));
	config_keep_fixed(old, fresh, note);
	return note;
}

static void assert_same_file(const struct config *a, const struct config *b)
{
	char *text_a = config_format(a), *text_b = config_format(b);

	assert_non_null(text_a);
	assert_non_null(text_b);
	assert_string_equal(text_a, text_b);
	free(text_a);
	free(text_b);
}

/* A change of one key that waits. */
static const struct {
	const char *section, *key, *value;
} waiting[] = {
	{ "Shared", "Address", "192.0.2.101" },
	{ "Shared", "Interface", "eth7" },
	{ "Shared", "Mac", "03:00:5e:00:00:64" },
	{ "Shared", "Form", "bpf" },
	{ "Flows", "MaxFlows", "2048" },
	{ "Flows", "MaxHalfOpen", "128" },
	{ "Queue", "First", "100" },
	{ "Queue", "Length", "2048" },
	{ "Queue", "Workers", "2" },
	{ "Datapath", "Plane", "nfqueue" },
	{ "Datapath", "Decide", "queue" },
	{ "Datapath", "Pins", "/sys/fs/bpf/other" },
	{ "Run", "Directory", "/run/other" },
};

enum { WAITING = sizeof(waiting) / sizeof(waiting[0]) };

static void test_each_key_that_waits(void **state)
{
	static struct config old, fresh;
	char text[256], expected[128];
	unsigned i, kept = 0;

	(void)state;
	for (i = 0; i < WAITING; i++) {
		snprintf(text, sizeof(text), "%s[%s]\n%s=%s\n", SHARED_ADDRESS, waiting[i].section, waiting[i].key,
			 waiting[i].value);
		snprintf(expected, sizeof(expected), "[%s] %s takes effect when dprd is restarted", waiting[i].section,
			 waiting[i].key);
		assert_string_equal(note_of(SHARED_ADDRESS, text, &old, &fresh), expected);
		assert_same_file(&old, &fresh);
		assert_string_equal(note_of(SHARED_ADDRESS, SHARED_ADDRESS, &old, &fresh), "");
	}
	for (i = 0; i < config_key_count; i++)
		kept += config_keys[i].kept_bytes > 0;
	assert_int_equal(kept, WAITING);
}

static void test_several_keys(void **state)
{
	static struct config old, fresh;

	(void)state;
	assert_string_equal(note_of("", "[Queue]\nLength=64\n[Flows]\nMaxFlows=2048\n", &old, &fresh),
			    "[Flows] MaxFlows and [Queue] Length take effect when dprd is restarted");
	assert_string_equal(
		note_of("[Queue]\nFirst=7\nLength=64\nWorkers=3\n", "[Balance]\nPolicy=p2c\n", &old, &fresh),
		"[Queue] First, [Queue] Length and [Queue] Workers take effect when dprd is restarted");
	assert_int_equal(fresh.queue_first, 7);
	assert_int_equal(fresh.workers, 3);
	assert_string_equal(fresh.policy, "p2c");
	/* The kept value is compared next time, not the one of the file. */
	old = fresh;
	read_text("[Queue]\nFirst=7\nLength=64\nWorkers=3\n", &fresh);
	config_keep_fixed(&old, &fresh, (char[CONFIG_ERROR_BYTES]) { 0 });
	assert_int_equal(fresh.queue_length, 64);
}

static void test_all_keys_at_once(void **state)
{
	static struct config old, fresh;
	char text[2048] = "";
	const char *note;
	unsigned i;

	(void)state;
	for (i = 0; i < WAITING; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "[%s]\n%s=%s\n", waiting[i].section,
			 waiting[i].key, waiting[i].value);
	note = note_of("", text, &old, &fresh);
	assert_same_file(&old, &fresh);
	for (i = 0; i < WAITING; i++)
		assert_non_null(strstr(note, waiting[i].key));
	assert_non_null(strstr(note, " and [Run] Directory take effect when dprd is restarted"));
}

static void test_other_changes_are_taken(void **state)
{
	static const char other[] = "[Cluster]\nKeyFile=/k\n[Service]\nPort=8080\n[Shared]\nRebalance=yes\nQuorum=yes\n"
				    "[Balance]\nPolicy=p2c\nMaxLoad=3\n[Flows]\nIdleTimeout=9000s\n[Datapath]\n"
				    "Interfaces=eth0\nForm=direct\n[Announce]\nPeriod=100ms\n[Health]\nCheck=none\n"
				    "[Run]\nTable=/run/other/table\n";
	static struct config old, fresh, read;

	(void)state;
	assert_string_equal(note_of("", other, &old, &fresh), "");
	read_text(other, &read);
	assert_same_file(&read, &fresh);
}

/* Each line of the list names a key of the table, in its order. */
static void test_printed_keys(void **state)
{
	char *text = NULL, *at, expected[256];
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	(void)state;
	assert_non_null(out);
	config_print_keys(out);
	assert_int_equal(fclose(out), 0);
	at = text;
	for (unsigned i = 0; i < config_key_count; i++) {
		const struct config_key *key = &config_keys[i];

		snprintf(expected, sizeof(expected), "%s\t%s\t%s\t%s\n", config_section_names[key->section], key->name,
			 key->kept_bytes ? "restart" : "reload", key->fallback ? key->fallback : "");
		assert_memory_equal(at, expected, strlen(expected));
		at += strlen(expected);
	}
	assert_int_equal(*at, '\0');
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_key_that_waits), cmocka_unit_test(test_several_keys),
		cmocka_unit_test(test_all_keys_at_once),    cmocka_unit_test(test_other_changes_are_taken),
		cmocka_unit_test(test_printed_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
