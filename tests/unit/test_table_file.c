// SPDX-License-Identifier: GPL-2.0-or-later
/* The two files on tmpfs, the load table and dprd's status: written, read, and written by an attacker. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dprd/base/smallfile.h"
#include "dprd/base/status.h"
#include "loadcast/core/announce.h"
#include "loadcast/load.h"

enum { PATH_ROOM = 128 };

static char directory[PATH_ROOM - 32], path[PATH_ROOM];

static int setup(void **state)
{
	(void)state;
	snprintf(directory, sizeof(directory), "%.60s/dprd-test-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	if (!mkdtemp(directory))
		return -1;
	snprintf(path, sizeof(path), "%s/file", directory);
	return 0;
}

static int teardown(void **state)
{
	char next[PATH_ROOM + 8];

	(void)state;
	snprintf(next, sizeof(next), "%s.new", path);
	unlink(next);
	unlink(path);
	return rmdir(directory);
}

static struct load_table sample_table(unsigned count)
{
	struct load_table t = { .count = count, .published_ms = 5000, .period_ms = 200 };
	unsigned i;

	for (i = 0; i < count; i++)
		t.nodes[i] = (struct node_load) { .id = i + 1,
						  .flags = NODE_HEARD,
						  .weight = 1,
						  .age_ms = 10 * i,
						  .hardware = { { 2, 0, 0, 0, 0, (uint8_t)i }, { 0 } },
						  .version = "0.1.0" };
	return t;
}

static void add_backends(struct load_table *table, unsigned count)
{
	unsigned i;

	for (i = 0; i < count; i++, table->count++)
		table->nodes[table->count] = (struct node_load) { .id = 1000 + i,
								  .state = i % 2 ? NODE_UNHEALTHY : NODE_ACTIVE,
								  .flags = NODE_BACKEND,
								  .weight = i };
}

static void put(const void *data, size_t size)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
}

static void round_trip(void **state)
{
	struct load_table t = sample_table(MEMBERS_MAX), got;
	char next[PATH_ROOM + 8];
	struct stat st;

	(void)state;
	assert_int_equal(load_table_snapshot(path, &got), -ENOENT);
	add_backends(&t, OWN_BACKENDS_MAX);
	umask(077);
	assert_int_equal(load_table_publish(path, &t), 0);
	assert_int_equal(load_table_snapshot(path, &got), 0);
	assert_memory_equal(&got, &t, sizeof(t));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0644);
	t = sample_table(1);
	assert_int_equal(load_table_publish(path, &t), 0);
	assert_int_equal(load_table_snapshot(path, &got), 0);
	assert_memory_equal(&got, &t, load_table_bytes(1));
	snprintf(next, sizeof(next), "%s.new", path);
	assert_int_equal(access(next, F_OK), -1);
}

/* A repeated reader reads each file once. */
static void what_is_new(void **state)
{
	const struct load_table old = sample_table(1), next = sample_table(2);
	struct load_table t = old, got = { 0 };
	struct smallfile_stamp seen = { 0 };

	(void)state;
	assert_int_equal(load_table_snapshot_new(path, &seen, &got), -ENOENT);
	assert_int_equal(load_table_publish(path, &t), 0);
	assert_int_equal(load_table_snapshot_new(path, &seen, &got), 0);
	assert_memory_equal(&got, &t, load_table_bytes(1));
	got = next;
	assert_int_equal(load_table_snapshot_new(path, &seen, &got), 1);
	assert_memory_equal(&got, &next, sizeof(got));
	/* The same bytes in another file are news. */
	assert_int_equal(load_table_publish(path, &t), 0);
	assert_int_equal(load_table_snapshot_new(path, &seen, &got), 0);
	assert_memory_equal(&got, &t, load_table_bytes(1));
	/* An unusable file is an error each time. */
	assert_int_equal(unlink(path), 0);
	put(&t, load_table_bytes(1) - 1);
	assert_int_equal(load_table_snapshot_new(path, &seen, &got), -EINVAL);
	assert_int_equal(load_table_snapshot_new(path, &seen, &got), -EINVAL);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(load_table_snapshot_new(path, &seen, &got), -ENOENT);
	t = old;
	assert_int_equal(load_table_publish(path, &t), 0);
	assert_int_equal(load_table_snapshot_new(path, &seen, &got), 0);
}

/* docs/loadtable.md gives these numbers. */
static void layout(void **state)
{
	static const char text[] = "LDBT";
	struct load_table t = sample_table(2);

	(void)state;
	assert_int_equal(load_table_bytes(0), 72);
	assert_int_equal(load_table_bytes(2), 72 + 2 * 144);
	assert_int_equal(sizeof(t), 72 + 94 * 144);
	assert_int_equal(sizeof(struct dprd_status), 1144);
	assert_int_equal(offsetof(struct load_table, published_ms), 16);
	assert_int_equal(offsetof(struct load_table, file_hash), 32);
	assert_int_equal(offsetof(struct load_table, port), 40);
	assert_int_equal(offsetof(struct node_load, epoch), 24);
	assert_int_equal(offsetof(struct node_load, sample), 40);
	assert_int_equal(offsetof(struct node_load, hardware), 68);
	assert_int_equal(offsetof(struct node_load, version), 80);
	assert_int_equal(offsetof(struct node_load, ports_down), 92);
	assert_int_equal(offsetof(struct node_load, rejected), 100);
	assert_int_equal(offsetof(struct node_load, rejected_from), 108);
	assert_int_equal(offsetof(struct node_load, period_ms), 128);
	assert_int_equal(offsetof(struct node_load, shorter_times), 132);
	assert_int_equal(offsetof(struct node_load, agent), 136);
	assert_int_equal(load_table_publish(path, &t), 0);
	assert_memory_equal(&t, text, 4);
	/* FNV-1a of 72 zero bytes, by an independent computation. */
	t = (struct load_table) { 0 };
	assert_int_equal(load_table_checksum(&t), 0x6aefde65);
}

static void every_bit_matters(void **state)
{
	struct load_table t = sample_table(3);
	unsigned size = load_table_bytes(3), bit;

	(void)state;
	assert_int_equal(load_table_publish(path, &t), 0);
	for (bit = 0; bit < size * 8; bit++) {
		((uint8_t *)&t)[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(load_table_check(&t, size), -EINVAL);
		((uint8_t *)&t)[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_int_equal(load_table_check(&t, size), 0);
}

static void sizes(void **state)
{
	struct load_table t = sample_table(2), got;
	uint8_t longer[sizeof(t) + 1] = { 0 };
	unsigned size;

	(void)state;
	assert_int_equal(load_table_publish(path, &t), 0);
	for (size = 0; size <= load_table_bytes(3); size++) {
		put(&t, size);
		assert_int_equal(load_table_snapshot(path, &got), size == load_table_bytes(2) ? 0 : -EINVAL);
	}
	memcpy(longer, &t, sizeof(t));
	put(longer, sizeof(longer));
	assert_int_equal(load_table_snapshot(path, &got), -EINVAL);
}

/* A right checksum does not make a value right. */
static void check_refused(struct load_table *t)
{
	t->checksum = load_table_checksum(t);
	assert_int_equal(load_table_check(t, load_table_bytes(t->count)), -EINVAL);
}

static void check_taken(struct load_table *t)
{
	t->checksum = load_table_checksum(t);
	assert_int_equal(load_table_check(t, load_table_bytes(t->count)), 0);
}

static void versions(const struct load_table *good)
{
	static const struct {
		char text[VERSION_BYTES + 1];
		bool valid;
	} cases[] = {
		{ "", true },         { "0", true },
		{ "0.2.0", true },    { "10.20.30~b1", true },
		{ "1.0-rc+Z", true }, { "10.20.30~b12", false }, /* no zero at the end */
		{ "v1", false },      { ".1", false },
		{ "1.0 ", false },    { "1.\"0", false },
		{ "1.\x80", false },  { "1.\n", false },
		{ "1\0\0x", false }, /* bytes behind the end */
		{ "\0001", false },
	};
	unsigned i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct load_table t = *good;

		memcpy(t.nodes[1].version, cases[i].text, VERSION_BYTES);
		if (cases[i].valid)
			check_taken(&t);
		else
			check_refused(&t);
	}
}

static void values(void **state)
{
	struct load_table good = sample_table(2), t;

	(void)state;
	assert_int_equal(load_table_publish(path, &good), 0);
	assert_int_equal(load_table_check(&good, load_table_bytes(2)), 0);
	t = good, t.count = 0, check_refused(&t);
	t = good, t.version++, check_refused(&t);
	t = good, t.magic++, check_refused(&t);
	t = good, t.period_ms = 0, check_refused(&t);
	t = good, t.period_ms = ANNOUNCE_PERIOD_MAX_MS + 1, check_refused(&t);
	t = good, t.port_count = PORTS_MAX, check_taken(&t);
	t = good, t.port_count = PORTS_MAX + 1, check_refused(&t);
	t = good, t.nodes[1].id = 0, check_refused(&t);
	t = good, t.nodes[1].id = t.nodes[0].id, check_refused(&t);
	t = good, t.nodes[1].state = NODE_STATES, check_refused(&t);
	t = good, t.nodes[0].flags |= NODE_AGENT_SILENT, check_taken(&t);
	t = good, t.nodes[1].flags |= NODE_AGENT_SILENT, check_refused(&t);
	t = good, t.nodes[1].flags = 1 << 13, check_refused(&t);
	t = good, t.nodes[1].flags |= NODE_TAKES_PROBES | NODE_UNPROVEN_V4 | NODE_UNPROVEN_V6, check_taken(&t);
	t = good, t.nodes[1].weight = ANNOUNCE_WEIGHT_MAX + 1, check_refused(&t);
	t = good, t.nodes[1].sample.cpu_permille = 1001, check_refused(&t);
	t = good, t.nodes[1].sample.open_connections = ANNOUNCE_LOAD_MAX + 1, check_refused(&t);
	t = good, t.nodes[1].sample.arrivals_per_1000_s = UINT32_MAX, check_refused(&t);
	t = good, t.nodes[1].sample.age_ms = LOAD_COUNT_AGE_MAX_MS, check_taken(&t);
	t = good, t.nodes[1].sample.age_ms = LOAD_COUNT_AGE_MAX_MS + 1, check_refused(&t);
	t = good, t.nodes[0].unused = 1, check_refused(&t);
	t = good, t.nodes[1].hardware[0][0] = 1, check_refused(&t);
	t = good, t.nodes[1].rejected = t.nodes[1].rejects = REJECTIONS - 1, check_taken(&t);
	t = good, t.nodes[1].rejected = REJECTIONS, check_refused(&t);
	t = good, t.nodes[1].rejects = REJECTIONS, check_refused(&t);
	t = good, t.nodes[1].period_ms = ANNOUNCE_PERIOD_MAX_MS + 1, check_refused(&t);
	t = good, t.nodes[1].hardware[1][0] = 0xff, check_refused(&t);
	t = good, t.nodes[0].hardware[1][0] = 0x33, check_refused(&t);
	versions(&good);
	t = good, t.nodes[1].held_permille = WEIGHT_HELD_MAX + 1, check_refused(&t);
	t = good, t.nodes[0].held_permille = UINT16_MAX, check_refused(&t);
	t = good, t.nodes[1].held_permille = WEIGHT_HELD_MAX, check_taken(&t);
	t = good, t.nodes[1].shorter_times = SHORTER_TIMES_MAX, check_taken(&t);
	t = good, t.nodes[1].shorter_times = SHORTER_TIMES_MAX + 1, check_refused(&t);
	t = good, t.nodes[0].agent = AGENT_WISHES - 1, check_taken(&t);
	t = good, t.nodes[0].agent = AGENT_WISHES, check_refused(&t);
	t = good, t.nodes[1].agent = AGENT_WANTS_DRAIN, check_refused(&t);
	t = good, t.nodes[0].ports_down = UINT16_MAX, check_taken(&t);
	t = good, t.nodes[0].ports_down = UINT16_MAX + 1, check_refused(&t);
	t = good, memset(t.nodes[1].hardware, 0xfe, sizeof(t.nodes[1].hardware)), check_taken(&t);
	t = good, memset(t.nodes[1].hardware, 0, sizeof(t.nodes[1].hardware)), check_taken(&t);
	/* A count beyond the array must be refused before anything is summed over it. */
	t = good, t.count = LOAD_NODES_MAX + 1;
	assert_int_equal(load_table_check(&t, sizeof(t)), -EINVAL);
	/* As many bytes as two nodes, modulo 2^32. */
	t = good, t.count = (1u << 29) + 2, check_refused(&t);
	t.count = UINT32_MAX;
	assert_int_equal(load_table_check(&t, load_table_bytes(2)), -EINVAL);
}

/* Two members and two backends: every field that would make a backend look like a peer is refused. */
static void backend_nodes(void **state)
{
	struct load_table good = sample_table(2), t;

	(void)state;
	add_backends(&good, 2);
	assert_int_equal(load_table_publish(path, &good), 0);
	t = good, check_taken(&t);
	t = good, t.nodes[0].flags |= NODE_SERVER_DOWN, check_taken(&t);
	t = good, t.nodes[1].flags |= NODE_SERVER_DOWN, check_refused(&t);
	t = good, t.nodes[2].flags |= NODE_SERVER_DOWN, check_refused(&t);
	t = good, t.nodes[2].flags |= NODE_HEARD, check_refused(&t);
	t = good, t.nodes[3].flags = NODE_HEARD, check_refused(&t);
	t = good, t.nodes[2].state = NODE_DRAINING, check_refused(&t);
	t = good, t.nodes[2].state = NODE_STATES, check_refused(&t);
	t = good, t.nodes[2].id = 0, check_refused(&t);
	t = good, t.nodes[2].id = t.nodes[1].id, check_refused(&t);
	t = good, t.nodes[3].id = t.nodes[2].id, check_refused(&t);
	t = good, t.nodes[3].weight = ANNOUNCE_WEIGHT_MAX, check_taken(&t);
	t = good, t.nodes[3].weight = ANNOUNCE_WEIGHT_MAX + 1, check_refused(&t);
	t = good, t.nodes[3].age_ms = 1, check_refused(&t);
	t = good, t.nodes[3].epoch = 1, check_refused(&t);
	t = good, t.nodes[3].sample.arrivals_per_1000_s = 1, check_refused(&t);
	t = good, t.nodes[3].sample.age_ms = 1, check_refused(&t);
	t = good, t.nodes[2].hardware[0][0] = 2, check_refused(&t);
	t = good, t.nodes[3].hardware[1][5] = 1, check_refused(&t);
	t = good, t.nodes[3].ports_down = 1, check_refused(&t);
	t = good, t.nodes[3].held_permille = 1, check_refused(&t);
	t = good, t.nodes[3].shorter_times = 1, check_refused(&t);
	t = good, t.nodes[3].agent = AGENT_WANTS_DRAIN, check_refused(&t);
	t = good, t.nodes[3].version[0] = '1', check_refused(&t);
	/* A backend between the members, and one in the place of this node. */
	t = good, t.nodes[1] = good.nodes[2], t.nodes[2] = good.nodes[1], check_refused(&t);
	t = good, t.nodes[0] = good.nodes[3], t.count = 1, check_refused(&t);
	t = sample_table(1), t.period_ms = 200, t.magic = good.magic, t.version = good.version, check_taken(&t);
	add_backends(&t, OWN_BACKENDS_MAX), check_taken(&t);
	t.count = 1, add_backends(&t, OWN_BACKENDS_MAX + 1), check_refused(&t);
	t = good, t.count = 0;
	for (; t.count <= MEMBERS_MAX; t.count++)
		t.nodes[t.count] = (struct node_load) { .id = t.count + 1 };
	check_refused(&t);
	t.count = MEMBERS_MAX, check_taken(&t);
}

static void not_regular(void **state)
{
	struct load_table t = sample_table(1), got;
	struct dprd_status status;
	char target[PATH_ROOM + 8];

	(void)state;
	snprintf(target, sizeof(target), "%s.old", path);
	assert_int_equal(load_table_publish(target, &t), 0);
	assert_int_equal(symlink(target, path), 0);
	assert_int_equal(load_table_snapshot(path, &got), -ELOOP);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(unlink(target), 0);
	/* Would hang if it blocked. */
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(load_table_snapshot(path, &got), -EINVAL);
	assert_int_equal(status_read(path, &status), -EINVAL);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(load_table_snapshot(directory, &got), -EINVAL);
	assert_int_equal(load_table_snapshot("/dev/zero", &got), -EINVAL);
}

static void publish_errors(void **state)
{
	struct load_table t = sample_table(1), got;
	char next[PATH_ROOM + 8], longest[5000];

	(void)state;
	assert_int_equal(load_table_publish("/nonexistent/table", &t), -ENOENT);
	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(load_table_publish(longest, &t), -ENAMETOOLONG);
	/* A link planted where the next file is written must not lead elsewhere. */
	snprintf(next, sizeof(next), "%s.new", path);
	assert_int_equal(symlink("/dev/null", next), 0);
	assert_int_equal(load_table_publish(path, &t), -ELOOP);
	assert_int_equal(unlink(next), 0);
	assert_int_equal(load_table_publish(path, &t), 0);
	assert_int_equal(load_table_snapshot(path, &got), 0);
}

static void ages(void **state)
{
	struct load_table t = sample_table(2);

	(void)state;
	assert_int_equal(load_age_ms(&t, &t.nodes[1], 5000), 10);
	assert_int_equal(load_age_ms(&t, &t.nodes[1], 5090), 100);
	assert_int_equal(load_age_ms(&t, &t.nodes[1], 4000), 10); /* a file from the future does not make it younger */
	assert_int_equal(load_age_ms(&t, &t.nodes[1], UINT64_MAX), LOAD_AGE_NEVER_MS);
	t.nodes[1].age_ms = LOAD_AGE_NEVER_MS;
	assert_int_equal(load_age_ms(&t, &t.nodes[1], 5001), LOAD_AGE_NEVER_MS);
	t.nodes[1].age_ms = LOAD_AGE_NEVER_MS - 1;
	assert_int_equal(load_age_ms(&t, &t.nodes[1], 5000), LOAD_AGE_NEVER_MS - 1);
	assert_int_equal(load_age_ms(&t, &t.nodes[1], 5001), LOAD_AGE_NEVER_MS);
}

/* The time may be a heartbeat. Without any time (no worker) nothing is alive. */
static void recent(void **state)
{
	(void)state;
	assert_true(clock_is_recent(5000, 5000, 1000));
	assert_true(clock_is_recent(4001, 5000, 1000));
	assert_false(clock_is_recent(4000, 5000, 1000));
	assert_true(clock_is_recent(5001, 5000, 1000));
	assert_false(clock_is_recent(6000, 5000, 1000));
	assert_false(clock_is_recent(UINT64_MAX, 5000, 1000));
	assert_false(clock_is_recent(0, 5000, 1000));
}

static void status(void **state)
{
	struct dprd_status s = { .written_ms = 1000, .pid = 7, .redirected = 3, .open_connections = 9 }, got;

	(void)state;
	assert_int_equal(status_read(path, &got), -ENOENT);
	assert_int_equal(status_publish(path, &s), 0);
	assert_int_equal(status_read(path, &got), 0);
	assert_memory_equal(&got, &s, sizeof(s));
	assert_true(status_is_fresh(&got, 1000));
	assert_true(status_is_fresh(&got, 999 + STATUS_FRESH_MS));
	assert_false(status_is_fresh(&got, 1000 + STATUS_FRESH_MS));
	/* The file was written after the reader looked at the clock; or in a former boot. */
	assert_true(status_is_fresh(&got, 999));
	assert_true(status_is_fresh(&got, 1001 - STATUS_FRESH_MS));
	assert_false(status_is_fresh(&got, 1000 - STATUS_FRESH_MS));
	put(&s, sizeof(s) - 1);
	assert_int_equal(status_read(path, &got), -EINVAL);
	s.draining = 2;
	put(&s, sizeof(s));
	assert_int_equal(status_read(path, &got), -EINVAL);
	s.draining = 1;
	s.proofs.probes = PROBES_JUDGED + 1;
	put(&s, sizeof(s));
	assert_int_equal(status_read(path, &got), -EINVAL);
	s.proofs.probes = PROBES_JUDGED;
	s.proofs.unproven[1].count = PROOFS_NODES_MAX + 1;
	put(&s, sizeof(s));
	assert_int_equal(status_read(path, &got), -EINVAL);
	s.proofs.unproven[1].count = PROOFS_NODES_MAX;
	s.proofs.narrow[0].count = PROOFS_NODES_MAX + 1;
	put(&s, sizeof(s));
	assert_int_equal(status_read(path, &got), -EINVAL);
	s.proofs.narrow[0].count = 0;
	s.elsewhere = 2;
	put(&s, sizeof(s));
	assert_int_equal(status_read(path, &got), -EINVAL);
	s.elsewhere = 1;
	s.version--;
	put(&s, sizeof(s));
	assert_int_equal(status_read(path, &got), -EINVAL);
	s.version = STATUS_VERSION;
	put(&s, sizeof(s));
	assert_int_equal(status_read(path, &got), 0);
	s.magic++;
	put(&s, sizeof(s));
	assert_int_equal(status_read(path, &got), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(round_trip, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_new, setup, teardown),
		cmocka_unit_test_setup_teardown(layout, setup, teardown),
		cmocka_unit_test_setup_teardown(every_bit_matters, setup, teardown),
		cmocka_unit_test_setup_teardown(sizes, setup, teardown),
		cmocka_unit_test_setup_teardown(values, setup, teardown),
		cmocka_unit_test_setup_teardown(backend_nodes, setup, teardown),
		cmocka_unit_test_setup_teardown(not_regular, setup, teardown),
		cmocka_unit_test_setup_teardown(publish_errors, setup, teardown),
		cmocka_unit_test_setup_teardown(ages, setup, teardown),
		cmocka_unit_test_setup_teardown(status, setup, teardown),
		cmocka_unit_test(recent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
