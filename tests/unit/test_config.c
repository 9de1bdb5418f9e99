// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * test_config.c - dprd.conf by its corpus: every file in config/good is taken and comes back from
 * config_format() unchanged; every file in config/bad gives exactly the messages beside it. And
 * the manual and the sample file know every key.
 *
 * A first line "# --node=NAME" gives the node of the command line; without it the node is n1, or that of [Node].
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dprd/config/reading.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT_BYTES = 128 * 1024, FILES_MAX = 400 };

/* Path below the root of the source tree. */
static const char *source_path(const char *name, char path[512])
{
	const char *root = getenv("DPRD_SOURCE");

	snprintf(path, 512, "%s/%s", root ? root : ".", name);
	return path;
}

/* fail_msg(), but compilers and linters know that it does not return. */
#define FAIL(...)                      \
	do {                           \
		fail_msg(__VA_ARGS__); \
		abort();               \
	} while (0)

__attribute__((noreturn)) static void cannot_read(const char *path)
{
	FAIL("%s: %s (set DPRD_SOURCE to the root of the source tree)", path, strerror(errno));
}

/* The whole file, NUL at the end; the caller frees it. */
static char *slurp(const char *name, size_t *ret_length)
{
	char path[512], *text = malloc(TEXT_BYTES);
	FILE *file = fopen(source_path(name, path), "r");

	if (!file || !text)
		cannot_read(path);
	*ret_length = fread(text, 1, TEXT_BYTES - 1, file);
	text[*ret_length] = '\0';
	fclose(file);
	return text;
}

static const char *node_of(const char *text, char node[NAME_BYTES])
{
	if (sscanf(text, "# --node=%63s", node) == 1)
		return node;
	snprintf(node, NAME_BYTES, "n1");
	return strstr(text, "[Node]") ? NULL : node;
}

/* Calls check() for each .conf of the directory; returns their number. */
static unsigned each_file(const char *directory, void (*check)(const char *conf, const char *expected))
{
	char path[512], conf[512], expected[512];
	DIR *dir = opendir(source_path(directory, path));
	struct dirent *entry;
	unsigned count = 0;

	if (!dir)
		cannot_read(path);
	while ((entry = readdir(dir))) {
		size_t length = strlen(entry->d_name);

		if (length < 5 || strcmp(entry->d_name + length - 5, ".conf") != 0)
			continue;
		snprintf(conf, sizeof(conf), "%s/%s", directory, entry->d_name);
		snprintf(expected, sizeof(expected), "%s/%.*s.expected", directory, (int)length - 5, entry->d_name);
		check(conf, expected);
		count++;
	}
	closedir(dir);
	return count;
}

static char *join_errors(const struct config_errors *errors)
{
	char *text = calloc(1, TEXT_BYTES);
	size_t used = 0;

	assert_non_null(text);
	for (unsigned i = 0; i < errors->count && i < CONFIG_ERRORS_MAX; i++)
		used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s\n", errors->text[i]);
	if (errors->count > CONFIG_ERRORS_MAX)
		snprintf(text + used, TEXT_BYTES - used, "(%u in all)\n", errors->count);
	return text;
}

static void check_bad(const char *conf, const char *expected_name)
{
	size_t length, expected_length;
	char *text = slurp(conf, &length), *expected = slurp(expected_name, &expected_length), *got;
	struct config before, config;
	struct config_errors errors;
	char node[NAME_BYTES];

	memset(&config, 0x5a, sizeof(config));
	before = config;
	assert_int_equal(config_parse(conf, text, length, node_of(text, node), &config, &errors), -EINVAL);
	assert_memory_equal(&config, &before, sizeof(config));
	got = join_errors(&errors);
	if (strcmp(got, expected) != 0)
		fail_msg("%s: the messages are\n%snot\n%s", conf, got, expected);
	free(got);
	free(expected);
	free(text);
}

static void test_bad_files(void **state)
{
	(void)state;
	assert_in_range(each_file("tests/unit/config/bad", check_bad), 60, FILES_MAX);
}

/* Each key line as "[Section] Key=value", to look lines up; the caller frees it. */
static char *with_sections(const char *formatted)
{
	char *text = calloc(1, TEXT_BYTES), section[128] = "", line[512];
	size_t used = 0;

	assert_non_null(text);
	while (*formatted) {
		size_t length = strcspn(formatted, "\n");

		snprintf(line, sizeof(line), "%.*s", (int)length, formatted);
		formatted += length + (formatted[length] ? 1 : 0);
		if (*line == '[')
			snprintf(section, sizeof(section), "%.127s", line);
		else if (*line)
			used += (size_t)snprintf(text + used, TEXT_BYTES - used, "\n%s %s", section, line);
	}
	snprintf(text + used, TEXT_BYTES - used, "\n");
	return text;
}

/* Each line of expected is among those of formatted; with "!" in front it is not. */
static void check_lines(const char *conf, const char *formatted, char *expected)
{
	char *text = with_sections(formatted), *save = NULL, wanted[512];

	for (char *line = strtok_r(expected, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		bool absent = *line == '!';

		snprintf(wanted, sizeof(wanted), "\n%s\n", line + absent);
		if (!strstr(text, wanted) != absent)
			fail_msg("%s: %s \"%s\" in%s", conf, absent ? "there is" : "there is no", line + absent, text);
	}
	free(text);
}

static void parse_good(const char *name, const char *text, size_t length, const char *node, struct config *ret)
{
	struct config_errors errors;

	if (config_parse(name, text, length, node, ret, &errors) != 0)
		fail_msg("%s", errors.text[0]);
	assert_int_equal(errors.count, 0);
}

static void check_good(const char *conf, const char *expected_name)
{
	size_t length, expected_length;
	char *text = slurp(conf, &length), *expected = slurp(expected_name, &expected_length), *formatted, *again;
	struct config config, second;
	char node[NAME_BYTES];

	parse_good(conf, text, length, node_of(text, node), &config);
	formatted = config_format(&config);
	assert_non_null(formatted);
	parse_good("formatted", formatted, strlen(formatted), NULL, &second);
	assert_memory_equal(&config, &second, sizeof(config));
	again = config_format(&second);
	assert_string_equal(formatted, again);
	check_lines(conf, formatted, expected);
	free(again);
	free(formatted);
	free(expected);
	free(text);
}

static void test_good_files(void **state)
{
	(void)state;
	assert_in_range(each_file("tests/unit/config/good", check_good), 25, FILES_MAX);
}

/* Damaged good files cause no crash, and an accepted one survives config_format(). */
static void check_damaged(const char *conf, const char *expected_name)
{
	char *text, node[NAME_BYTES], *formatted;
	struct config config, second;
	struct config_errors errors;
	size_t length;

	(void)expected_name;
	text = slurp(conf, &length);
	for (unsigned i = 0; i < 40 && length; i++) {
		size_t at = (size_t)random() % length, cut = i % 2 ? length : at;
		char was = text[at];

		text[at] = "=[]\"; \n#0.x\xff"[random() % 12];
		if (config_parse(conf, text, cut, node_of("", node), &config, &errors) == 0) {
			formatted = config_format(&config);
			parse_good("formatted", formatted, strlen(formatted), NULL, &second);
			assert_memory_equal(&config, &second, sizeof(config));
			free(formatted);
		} else {
			assert_true(errors.count > 0);
			assert_non_null(strstr(errors.text[0], ".conf:"));
		}
		text[at] = was;
	}
	free(text);
}

static void test_damaged_files(void **state)
{
	unsigned seed = (unsigned)getpid();

	(void)state;
	print_message("seed %u\n", seed);
	srandom(seed);
	each_file("tests/unit/config/good", check_damaged);
	each_file("tests/unit/config/bad", check_damaged);
}

static void test_host_name(void **state)
{
	static const char *const hosts[] = { "whole", "short" };
	char host[256] = "", text[1024];
	struct config_errors errors;
	struct config config;

	(void)state;
	assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
	for (unsigned i = 0; i < 2; i++) {
		if (strcmp(hosts[i], "short") == 0)
			host[strcspn(host, ".")] = '\0';
		snprintf(text, sizeof(text),
			 "[Cluster]\nName=c\n[Member \"x\"]\nService=192.0.2.1\n"
			 "[Member \"%s\"]\nService=192.0.2.2\n",
			 host);
		parse_good("host", text, strlen(text), NULL, &config);
		assert_int_equal(config.self, 1);
		assert_string_equal(config.node_name, host);
	}
	snprintf(text, sizeof(text), "[Cluster]\nName=c\n[Member \"not-this-host\"]\nService=192.0.2.1\n");
	assert_int_equal(config_parse("/etc/dprd/dprd.conf", text, strlen(text), NULL, &config, &errors), -EINVAL);
	snprintf(text, sizeof(text), "dprd.conf:4: host name \"%s", host);
	assert_memory_equal(errors.text[0], text, strlen(text));
	assert_non_null(
		strstr(errors.text[0], "(members: not-this-host; say which is this node with Name= in [Node])"));
}

static void test_read(void **state)
{
	char path[] = "/tmp/test_config_XXXXXX", message[128];
	struct config_errors errors;
	struct config config;
	int fd = mkstemp(path);
	FILE *file;

	(void)state;
	assert_true(fd >= 0);
	file = fdopen(fd, "w");
	assert_non_null(file);
	fputs("[Cluster]\nName=c\n[Member \"n1\"]\nService=192.0.2.1\n", file);
	fflush(file);
	assert_int_equal(config_read(path, "n1", &config, &errors), 0);
	assert_string_equal(config.cluster_name, "c");
	fputs("Weight=x\n", file);
	fflush(file);
	assert_int_equal(config_read(path, "n1", &config, &errors), -EINVAL);
	snprintf(message, sizeof(message), "%s:5: Weight: \"x\" is not a whole number (0 to 1000)", path + 5);
	assert_string_equal(errors.text[0], message);
	for (unsigned i = 0; i < 30000; i++)
		fputs("# a comment\n", file);
	fclose(file);
	assert_int_equal(config_read(path, "n1", &config, &errors), -EINVAL);
	snprintf(message, sizeof(message), "%s: larger than 256 KiB, which no cluster needs", path);
	assert_string_equal(errors.text[0], message);
	unlink(path);
	assert_int_equal(config_read(path, "n1", &config, &errors), -ENOENT);
	assert_int_equal(errors.count, 1);
	snprintf(message, sizeof(message), "%s: No such file or directory", path);
	assert_string_equal(errors.text[0], message);
	assert_int_equal(config_read("/tmp", "n1", &config, &errors), -EISDIR);
}

/* A FIFO would keep a reader waiting for ever, and a device may never end. */
/* The port that http and https ask. */
static void test_asked_port(void **state)
{
	struct config c = { .health = HEALTH_HTTP, .port_count = 2, .port = { 80, 443 } };

	(void)state;
	assert_int_equal(config_asked_port(&c), 80);
	c.health = HEALTH_HTTPS;
	assert_int_equal(config_asked_port(&c), 443);
	c.health_port = 8443;
	assert_int_equal(config_asked_port(&c), 8443);
	c.health_port = 0;
	c.port[1] = 444;
	assert_int_equal(config_asked_port(&c), 80);
}

static void test_read_no_file(void **state)
{
	static const char fault[] = ": not a regular file, as a configuration must be";
	char directory[] = "/tmp/test_config_XXXXXX", path[40], name[NAME_BYTES], message[128];
	const char *const paths[] = { path, "/dev/zero", "/dev/null" };
	struct config_errors errors;
	struct config config;

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/fifo", directory);
	assert_int_equal(mkfifo(path, 0600), 0);
	alarm(60);
	for (unsigned i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		char run_dir[PATH_BYTES] = "", table_file[PATH_BYTES] = "";

		assert_int_equal(config_read(paths[i], "n1", &config, &errors), -EBADF);
		snprintf(message, sizeof(message), "%s%s", paths[i], fault);
		assert_string_equal(errors.text[0], message);
		config_read_places(paths[i], run_dir, table_file);
		assert_string_equal(run_dir, "/run/dprd");
		assert_false(config_first_member(paths[i], name));
	}
	alarm(0);
	unlink(path);
	rmdir(directory);
}

/* Turns "#Key=value" into "Key=value". */
static size_t uncomment(const char *text, char *copy)
{
	size_t used = 0;

	for (const char *c = text; *c; c++)
		if (!(*c == '#' && (c == text || c[-1] == '\n') && c[1] >= 'A' && c[1] <= 'Z'))
			copy[used++] = *c;
	copy[used] = '\0';
	return used;
}

/* The text of a section between its header and the next one's; NULL when there is none. */
static char *section_text(const char *text, const char *header, const char *next)
{
	const char *start = strstr(text, header), *end;

	if (!start)
		return NULL;
	end = strstr(start + strlen(header), next);
	return end ? strndup(start, (size_t)(end - start)) : strdup(start);
}

/*
 * True when the sample file shows a key in its section: with its default as "#Key=", or as "# Key=default" where the
 * whole section is an example; without a default as "Key=" or "# Key=".
 */
static bool shows_key(const char *text, const struct config_key *key)
{
	char header[64], example[68], wanted[128], commented[64];
	bool shown = false, is_example;

	snprintf(header, sizeof(header), "[%s%s", config_section_names[key->section],
		 config_section_is_named(key->section) ? " \"" : "]\n");
	snprintf(example, sizeof(example), "\n# %s", header);
	is_example = strstr(text, example) != NULL;
	snprintf(commented, sizeof(commented), "\n# %s=", key->name);
	if (key->fallback && is_example)
		snprintf(wanted, sizeof(wanted), "%s%.40s\n", commented, key->fallback);
	else
		snprintf(wanted, sizeof(wanted), "\n%s%s=", key->fallback ? "#" : "", key->name);
	/* A section stands in both parts of the file. */
	for (const char *at = strstr(text, header); at && !shown; at = strstr(at + 1, header)) {
		char *section = section_text(at, header, "\n\n");

		shown = section && (strstr(section, wanted) || (!key->fallback && strstr(section, commented)));
		free(section);
	}
	return shown;
}

static void test_sample_file(void **state)
{
	size_t length, bare_length;
	char *text = slurp("conf/dprd.conf", &length), *bare = malloc(length + 1);
	struct config config, defaults;

	(void)state;
	assert_non_null(bare);
	parse_good("dprd.conf", text, length, "n1", &config);
	assert_int_equal(config.member_count, 3);
	for (unsigned i = 0; i < config_key_count; i++) {
		const struct config_key *key = &config_keys[i];

		if (!shows_key(text, key))
			fail_msg("conf/dprd.conf does not show %s in section [%s]", key->name,
				 config_section_names[key->section]);
	}
	/* The values that it shows as defaults are the defaults. */
	bare_length = uncomment(text, bare);
	assert_true(bare_length < length);
	parse_good("dprd.conf", bare, bare_length, "n1", &defaults);
	assert_memory_equal(&config, &defaults, sizeof(config));
	free(bare);
	free(text);
}

/* The range of a key as its own error message shows it, "LOW to HIGH"; false: it has none. */
static bool range_text(const struct config_key *key, char range[64])
{
	char text[256], *to, *start;
	struct config_errors errors;
	struct config config;

	if (key->high == 0)
		return false;
	snprintf(text, sizeof(text), "[%s%s]\n%s=?\n", config_section_names[key->section],
		 config_section_is_named(key->section) ? " \"x\"" : "", key->name);
	assert_int_equal(config_parse("range", text, strlen(text), "x", &config, &errors), -EINVAL);
	to = strstr(errors.text[0], " to ");
	if (!to) /* LoadWeights tells the range of each weight when it has a name */
		return false;
	for (start = to; start[-1] != ' ' && start[-1] != '('; start--)
		;
	snprintf(range, 64, "%.*s", (int)strcspn(start, ")"), start);
	return true;
}

/* A key's item in the manual; NULL: there is none. A section stands in both parts of the manual. */
static char *manual_item(const char *text, const char *header, const char *item)
{
	char *about = NULL;

	for (const char *at = strstr(text, header); at && !about; at = strstr(at + 1, header)) {
		char *section = section_text(at, header, "\n.Ss ");

		about = section ? section_text(section, item, "\n.It Ic") : NULL;
		free(section);
	}
	return about;
}

static bool has_default(const char *about, const char *word)
{
	const char *at = strstr(about, "Default:");

	return at && strstr(at, word);
}

/* Every key has an item in its section of the manual, with its range, its default and what a change needs. */
static void test_manual(void **state)
{
	char header[64], item[64], range[64], word[CONFIG_WORD_BYTES];
	unsigned ranges = 0, defaults = 0;
	size_t length;
	char *text = slurp("docs/man/dprd.conf.5", &length);

	(void)state;
	for (unsigned i = 0; i < config_key_count; i++) {
		const struct config_key *key = &config_keys[i];
		char *about;

		snprintf(header, sizeof(header), ".Ss %s\n", config_section_names[key->section]);
		snprintf(item, sizeof(item), ".It Ic %s Ns = ", key->name);
		about = manual_item(text, header, item);
		if (!about)
			FAIL("the manual has no \"%s\" in %s", item, header);
		if (range_text(key, range) && ++ranges && !strstr(about, range))
			fail_msg("the manual does not tell the range of %s, %s", key->name, range);
		for (const char *at = key->fallback ? key->fallback : ""; config_next_word(&at, word); defaults++)
			if (!has_default(about, word))
				fail_msg("the manual does not tell the default of %s, %s", key->name, word);
		if (!strstr(about, "\nA change needs a restart.\n") != !key->kept_bytes)
			fail_msg("the manual and the table differ: does a change of [%s] %s need a restart?",
				 config_section_names[key->section], key->name);
		free(about);
	}
	assert_in_range(ranges, 20, CONFIG_KEYS_MAX);
	assert_in_range(defaults, 30, CONFIG_KEYS_MAX);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good_files),    cmocka_unit_test(test_bad_files),
		cmocka_unit_test(test_damaged_files), cmocka_unit_test(test_host_name),
		cmocka_unit_test(test_read),          cmocka_unit_test(test_read_no_file),
		cmocka_unit_test(test_asked_port),    cmocka_unit_test(test_sample_file),
		cmocka_unit_test(test_manual),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
