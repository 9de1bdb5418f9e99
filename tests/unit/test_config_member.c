// SPDX-License-Identifier: GPL-2.0-or-later
/* test_config_member.c - identities, aliases, the hash that nodes compare, and the key file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dprd/config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD "[Cluster]\nName=web\n"
#define N1 "[Member \"n1\"]\nService=192.0.2.11\nService=2001:db8::11\n"
#define N2 "[Member \"n2\"]\nService=192.0.2.12\nService=192.0.2.22\n"
#define SHARED "[Shared]\nAddress=192.0.2.100\nAddress=2001:db8::100\n"
#define N3 "[Member \"n3\"]\nService=2001:db8::13\nService=192.0.2.13\n"

static struct config parse(const char *text, const char *node)
{
	struct config_errors errors;
	struct config config;

	if (config_parse("test", text, strlen(text), node, &config, &errors) != 0)
		fail_msg("%s", errors.text[0]);
	return config;
}

static void assert_alias(const struct config *config, unsigned member, unsigned service, const char *expected)
{
	struct addr alias = config_alias(config, member, service);
	char text[ADDR_TEXT_BYTES];

	assert_string_equal(addr_format(&alias, text), expected);
}

/* The first bytes of BLAKE2b-256 of the names, as b2sum -l 256 prints them. */
static void test_member_id(void **state)
{
	(void)state;
	assert_int_equal(member_id("n1"), 0x737fa11d);
	assert_int_equal(member_id("n2"), 0xdc890e5d);
	assert_int_not_equal(member_id(""), 0);
}

static void test_look_up(void **state)
{
	struct config config = parse(HEAD N1 N2 N3, "n2");
	struct addr address;

	(void)state;
	assert_int_equal(config.self, 1);
	assert_int_equal(config_member_by_id(&config, member_id("n3")), 2);
	assert_int_equal(config_member_by_id(&config, member_id("n4")), -1);
	assert_true(addr_parse("192.0.2.13", &address));
	assert_int_equal(config_member_by_service(&config, &address), 2);
	assert_true(addr_parse("192.0.2.99", &address));
	assert_int_equal(config_member_by_service(&config, &address), -1);
}

static void test_cluster_address(void **state)
{
	struct config one = parse(HEAD N2 N3, "n2"), own;
	char text[ADDR_TEXT_BYTES];

	(void)state;
	assert_false(one.member[0].own_cluster_address);
	assert_string_equal(addr_format(&one.member[0].cluster_v4, text), "192.0.2.12");
	assert_true(addr_is_zero(&one.member[0].cluster_v6));
	assert_string_equal(addr_format(&one.member[1].cluster_v4, text), "192.0.2.13");
	assert_string_equal(addr_format(&one.member[1].cluster_v6, text), "2001:db8::13");

	own = parse(HEAD N1 "Cluster=10.0.0.11\n", "n1");
	assert_true(own.member[0].own_cluster_address);
	assert_string_equal(addr_format(&own.member[0].cluster_v4, text), "10.0.0.11");
	assert_true(addr_is_zero(&own.member[0].cluster_v6));
}

static void test_alias(void **state)
{
	struct config config = parse(HEAD N1 N2 N3, "n2");

	(void)state;
	assert_alias(&config, 0, 0, "198.18.211.1");
	assert_alias(&config, 0, 1, "fd64:7072:6400::1");
	assert_alias(&config, 1, 0, "::"); /* its own */
	assert_alias(&config, 2, 0, "fd64:7072:6400::2");
	assert_alias(&config, 2, 1, "198.18.211.4");
	assert_alias(&config, 3, 0, "::"); /* there is none */
	assert_alias(&config, 2, 2, "::");
	config = parse(HEAD N1 "Cluster=10.0.0.11\n" N2 "Cluster=10.0.0.12\n", "n2");
	assert_alias(&config, 0, 0, "::");
}

/* 40 members with 8 services each: 320 aliases need more than one byte, and none comes twice. */
static void test_alias_carry(void **state)
{
	static char text[32768] = HEAD "[Alias]\nRange=10.99.0.0/23\n";
	char expected[ADDR_TEXT_BYTES];
	struct config config;

	(void)state;
	for (unsigned i = 0; i < 40; i++) {
		sprintf(text + strlen(text), "[Member \"m%u\"]\n", i);
		for (unsigned s = 0; s < 8; s++)
			sprintf(text + strlen(text), "Service=10.1.%u.%u\n", i, s + 1);
	}
	config = parse(text, "m0");
	for (unsigned i = 1; i < 40; i++) {
		for (unsigned s = 0; s < 8; s++) {
			unsigned index = i * 8 + s + 1;

			sprintf(expected, "10.99.%u.%u", index / 256, index % 256);
			assert_alias(&config, i, s, expected);
		}
	}
}

static void test_kept_at_a_reload(void **state)
{
	struct config first = parse(HEAD "[Service]\nPort=80 443\n" N1 N2, "n2");
	struct config second =
		parse(HEAD "[Service]\nPort=8080 80\n" N1 "[Member \"n2\"]\nService=192.0.2.32 192.0.2.22\n", "n2");
	struct config third =
		parse(HEAD "[Service]\nPort=443\n" N1 "[Member \"n2\"]\nService=192.0.2.22 192.0.2.32\n", "n2");
	struct addr address;

	(void)state;
	config_keep_ports(&first, &second);
	config_keep_fresh(&first, &second);
	assert_true(config_had_port(&second, 443) && !config_has_port(&second, 443));
	assert_true(config_had_port(&second, 8080) && config_has_port(&second, 8080));
	assert_false(config_had_port(&second, 81));
	assert_true(addr_parse("192.0.2.32", &address) && config_service_age(&second, &address) == SERVICE_FRESH);
	config_keep_ports(&second, &third);
	config_keep_fresh(&second, &third);
	assert_int_equal(third.former_port_count, 2);
	assert_true(config_had_port(&third, 80) && config_had_port(&third, 8080) && config_has_port(&third, 443));
	assert_int_equal(config_service_age(&third, &address), SERVICE_FRESH);
	assert_true(addr_parse("192.0.2.22", &address));
	assert_int_equal(config_service_age(&third, &address), SERVICE_PRESENT);
	config_keep_fresh(&first, &first);
	assert_int_equal(first.fresh_services, 0);
}

static int had_by(const struct config *config, const char *text)
{
	struct addr address;

	assert_true(addr_parse(text, &address));
	return config_member_had_service(config, &address);
}

/* Former addresses stay behind the present ones, unless the file has another use for them. */
static void test_services_kept_at_a_reload(void **state)
{
	struct config first = parse(HEAD N1 N3 "Service=192.0.2.33\n"
					       "[Member \"n2\"]\nService=192.0.2.12 192.0.2.22\n",
				    "n1");
	struct config second = parse(HEAD N1 N3 "[Member \"n2\"]\nService=192.0.2.12 192.0.2.32\n", "n1");
	struct config third = parse(HEAD N1 N3 "[Member \"n2\"]\nService=192.0.2.12 192.0.2.22 192.0.2.32\n", "n1");
	struct config moved = parse(HEAD N1 N3 "Service=192.0.2.22\n[Member \"n2\"]\nService=192.0.2.32\n", "n1");
	struct config own =
		parse(HEAD N1 "Cluster=10.0.0.1\n[Member \"n2\"]\nService=192.0.2.12\nCluster=192.0.2.22\n", "n1");
	struct config none = parse(HEAD N1 N3, "n1");
	struct addr address;

	(void)state;
	assert_false(first.former_services);
	config_keep_services(&first, &second);
	assert_true(second.former_services);
	assert_int_equal(had_by(&second, "192.0.2.22"), 2);
	assert_int_equal(had_by(&second, "192.0.2.33"), 1);
	assert_int_equal(had_by(&second, "192.0.2.32"), 2);
	assert_int_equal(had_by(&second, "192.0.2.99"), -1);
	assert_true(addr_parse("192.0.2.22", &address));
	assert_int_equal(config_member_by_service(&second, &address), -1);
	assert_int_equal(config_service_age(&second, &address), SERVICE_FORMER);
	assert_true(addr_parse("192.0.2.32", &address));
	assert_int_equal(config_service_age(&second, &address), SERVICE_PRESENT);
	/* Back in the file; the other one is remembered. */
	config_keep_services(&second, &third);
	assert_int_equal(third.member[2].former_count, 0);
	assert_int_equal(had_by(&third, "192.0.2.33"), 1);
	/* Another member's address now; then a cluster address. */
	config_keep_services(&second, &moved);
	assert_int_equal(moved.member[2].former_count, 1);
	assert_int_equal(had_by(&moved, "192.0.2.22"), 1);
	assert_int_equal(had_by(&moved, "192.0.2.12"), 2);
	config_keep_services(&second, &own);
	assert_int_equal(had_by(&own, "192.0.2.22"), -1);
	assert_int_equal(had_by(&own, "192.0.2.32"), 1);
	/* A member that left has no address. */
	config_keep_services(&second, &none);
	assert_int_equal(had_by(&none, "192.0.2.22"), -1);
	assert_int_equal(had_by(&none, "192.0.2.33"), 1);
	config_keep_services(&none, &first);
	assert_false(first.former_services);
}

/* The newest ones take the places that are left. */
static void test_services_have_places(void **state)
{
	static const char eight[] = HEAD N1 "[Member \"n2\"]\nService=192.0.2.1 192.0.2.2 192.0.2.3 192.0.2.4\n"
					    "Service=192.0.2.5 192.0.2.6 192.0.2.7 192.0.2.8\n";
	struct config full = parse(eight, "n1");
	struct config two = parse(HEAD N1 "[Member \"n2\"]\nService=192.0.2.21 192.0.2.22\n", "n1");
	struct config three = parse(HEAD N1 "[Member \"n2\"]\nService=192.0.2.21 192.0.2.23\n", "n1");
	struct config few = parse(HEAD "[Alias]\nRange=198.18.211.0/29 fd64:7072:6400::/112\n" N1 N2, "n1");

	(void)state;
	config_keep_services(&full, &two);
	assert_int_equal(two.member[1].former_count, MEMBER_SERVICES_MAX - 2);
	assert_int_equal(had_by(&two, "192.0.2.6"), 1);
	assert_int_equal(had_by(&two, "192.0.2.7"), -1);
	config_keep_services(&two, &three);
	assert_int_equal(three.member[1].former_count, MEMBER_SERVICES_MAX - 2);
	assert_int_equal(had_by(&three, "192.0.2.22"), 1);
	assert_int_equal(had_by(&three, "192.0.2.6"), -1);
	/* Six aliases, three addresses of this family in the file. */
	config_keep_services(&full, &few);
	assert_int_equal(few.member[1].former_count, 3);
}

static uint32_t hash_of(const char *text)
{
	struct config config = parse(text, "n1");

	return config_service_hash(&config);
}

static void test_service_hash(void **state)
{
	static const char *const others[] = {
		"[Cluster]\nName=wed\n" N1 N2,
		HEAD N1,
		HEAD N1 N3,
		HEAD N1 N2 N3,
		HEAD N1 "[Member \"n9\"]\nService=192.0.2.12\nService=192.0.2.22\n",
		HEAD N1 "[Member \"n2\"]\nService=192.0.2.12\nService=192.0.2.23\n",
		/* The addresses of two members the other way round. */
		HEAD "[Member \"n1\"]\nService=192.0.2.12\nService=192.0.2.22\n"
		     "[Member \"n2\"]\nService=192.0.2.11\nService=2001:db8::11\n",
		HEAD N1 "Cluster=10.0.0.1\n" N2 "Cluster=10.0.0.2\n",
		HEAD "[Service]\nPort=81\n" N1 N2,
		HEAD "[Service]\nPort=80 81\n" N1 N2,
		HEAD SHARED N1 N2,
	};
	uint32_t hash = hash_of(HEAD N1 N2);

	(void)state;
	assert_int_equal(hash, hash_of(HEAD N2 N1));
	/* Neither the first service address nor the last. */
	assert_int_not_equal(hash_of(HEAD N1 N2 "Service=192.0.2.32\nService=192.0.2.42\n"),
			     hash_of(HEAD N1 N2 "Service=192.0.2.33\nService=192.0.2.42\n"));
	assert_int_equal(hash, hash_of(HEAD "[Balance]\nPolicy=rr\n" N1 N2 "Weight=7\n"));
	assert_int_equal(hash_of(HEAD "[Service]\nPort=80 81\n" N1), hash_of(HEAD "[Service]\nPort=81 80\n" N1));
	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (hash_of(others[i]) == hash)
			fail_msg("the same hash as\n%s", others[i]);
}

/* All nodes must have the same shared addresses, with the same MAC addresses; the rest is each node's own. */
static void test_shared_hash(void **state)
{
	uint32_t hash = hash_of(HEAD SHARED N1 N2);

	(void)state;
	assert_int_equal(hash, hash_of(HEAD "[Shared]\nAddress=2001:db8::100 192.0.2.100\n" N1 N2));
	assert_int_equal(hash, hash_of(HEAD SHARED "Interface=eth7\nForm=bpf\nRebalance=yes\n" N1 N2));
	assert_int_not_equal(hash, hash_of(HEAD "[Shared]\nAddress=192.0.2.100\n" N1 N2));
	assert_int_not_equal(hash, hash_of(HEAD "[Shared]\nAddress=192.0.2.101 2001:db8::100\n" N1 N2));
	assert_int_not_equal(hash, hash_of(HEAD SHARED "Mac=03:00:5e:00:00:64\n" N1 N2));
}

static void assert_mac(const char *text, const char *address, const uint8_t expected[6])
{
	struct config config = parse(text, "n1");
	struct addr shared;
	uint8_t mac[6];

	assert_true(addr_parse(address, &shared));
	assert_true(config_is_shared(&config, &shared));
	config_shared_mac(&config, &shared, mac);
	assert_memory_equal(mac, expected, 6);
}

/* The highest bit of the second byte is lost (RFC 1112, 6.4); 32 bits of an IPv6 address count (RFC 2464, 7). */
static void test_shared_mac(void **state)
{
	static const char head[] = HEAD "[Shared]\nAddress=10.255.129.3 2001:db8::a1b2:c3d4\n" N1;
	static const char own[] = HEAD "[Shared]\nMac=03:ab:Cd:00:0F:f0\nAddress=10.255.129.3 2001:db8::a1b2:c3d4\n" N1;
	static const uint8_t mac[6] = { 0x03, 0xab, 0xcd, 0x00, 0x0f, 0xf0 };
	struct config config = parse(head, "n1");
	struct addr address;

	(void)state;
	assert_mac(head, "10.255.129.3", (uint8_t[6]) { 0x01, 0x00, 0x5e, 0x7f, 0x81, 0x03 });
	assert_mac(head, "2001:db8::a1b2:c3d4", (uint8_t[6]) { 0x33, 0x33, 0xa1, 0xb2, 0xc3, 0xd4 });
	assert_mac(own, "10.255.129.3", mac);
	assert_mac(own, "2001:db8::a1b2:c3d4", mac);
	assert_true(addr_parse("192.0.2.11", &address));
	assert_false(config_is_shared(&config, &address));
}

#define HEX16 "00112233445566778899aabbccddeeff"
#define FOR_HELP "; make one with: dprctl genkey > FILE"

static char directory[] = "/tmp/test_config_member_XXXXXX";
static char path[128];

static void write_key(const char *text, mode_t mode)
{
	FILE *file;

	unlink(path);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	assert_int_equal(chmod(path, mode), 0);
}

static void assert_key(uint8_t key[32])
{
	char message[CONFIG_ERROR_BYTES] = "";

	if (config_read_key(path, key, message) != 0)
		fail_msg("%s", message);
}

static void assert_no_key(int error, const char *reason)
{
	char message[CONFIG_ERROR_BYTES] = "", expected[CONFIG_ERROR_BYTES];
	uint8_t key[32];

	snprintf(expected, sizeof(expected), "%s: %s", path, reason);
	assert_int_equal(config_read_key(path, key, message), error);
	assert_string_equal(message, expected);
}

static void test_key(void **state)
{
	static const uint8_t half[16] = { 0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
					  0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff };
	uint8_t key[32], longer[32];
	mode_t modes[] = { 0640, 0600, 0400, 0440, 0700 };

	(void)state;
	for (unsigned i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		memset(key, 0, sizeof(key));
		write_key(" \n" HEX16 "00112233445566778899AABBCCDDEEFF\r\n\n", modes[i]);
		assert_key(key);
		assert_memory_equal(key, half, 16);
		assert_memory_equal(key + 16, half, 16);
	}
	/* More digits are another key, and every one of them counts. */
	write_key(HEX16 HEX16 "01", 0600);
	assert_key(key);
	assert_memory_not_equal(key, half, 16);
	write_key(HEX16 HEX16 "02", 0600);
	assert_key(longer);
	assert_memory_not_equal(key, longer, 32);
}

static void test_key_text(void **state)
{
	static const char odd[] = "not an even number of hex digits in one line" FOR_HELP;
	char large[1100];

	(void)state;
	write_key("", 0600);
	assert_no_key(-EINVAL, "shorter than 64 hex digits" FOR_HELP);
	write_key(HEX16 "00112233445566778899aabbccddee\n", 0600);
	assert_no_key(-EINVAL, "shorter than 64 hex digits" FOR_HELP);
	write_key(HEX16 HEX16 "0", 0600);
	assert_no_key(-EINVAL, odd);
	write_key(HEX16 HEX16 " comment", 0600);
	assert_no_key(-EINVAL, odd);
	write_key(HEX16 "\n" HEX16, 0600);
	assert_no_key(-EINVAL, odd);
	write_key("0000000000000000000000000000000000000000000000000000000000000000", 0600);
	assert_no_key(-EINVAL, "all zeros are no secret" FOR_HELP);
	memset(large, '1', sizeof(large));
	large[1025] = '\0';
	write_key(large, 0600);
	assert_no_key(-EINVAL, "larger than 1024 bytes" FOR_HELP);
}

static void test_key_file(void **state)
{
	uint8_t key[32];
	char link[160];

	(void)state;
	write_key(HEX16 HEX16, 0644);
	assert_no_key(-EPERM, "readable by everyone; chmod 640 it");
	write_key(HEX16 HEX16, 0602);
	assert_no_key(-EPERM, "writable by everyone; chmod 640 it");
	write_key(HEX16 HEX16, 0660);
	assert_no_key(-EPERM, "writable by its group; chmod 640 it");
	write_key(HEX16 HEX16, 0610);
	assert_no_key(-EPERM, "executable by others than its owner; chmod 640 it");

	snprintf(link, sizeof(link), "%s.target", path);
	write_key(HEX16 HEX16, 0600);
	assert_int_equal(rename(path, link), 0);
	assert_no_key(-ENOENT, "no such file; make one with: dprctl genkey > FILE "
			       "(then chmod 640, and copy it to every node)");
	assert_int_equal(symlink(link, path), 0);
	assert_key(key);
	unlink(link);
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_no_key(-EINVAL, "not a regular file" FOR_HELP);
	unlink(path);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_no_key(-EINVAL, "not a regular file" FOR_HELP);
	rmdir(path);
}

/* An editor's byte order mark before the key is no part of it, as before a configuration. */
static void test_key_mark(void **state)
{
	uint8_t with[32], without[32];

	(void)state;
	write_key(HEX16 HEX16, 0600);
	assert_key(without);
	write_key("\xef\xbb\xbf" HEX16 HEX16 "\r\n", 0600);
	assert_key(with);
	assert_memory_equal(with, without, sizeof(with));
	write_key("\xef\xbb\xbf\xef\xbb\xbf" HEX16 HEX16, 0600);
	assert_no_key(-EINVAL, "not an even number of hex digits in one line" FOR_HELP);
}

static void test_key_denied(void **state)
{
	uid_t user = geteuid();

	(void)state;
	write_key(HEX16 HEX16, user ? 0000 : 0600);
	assert_int_equal(chmod(directory, 0755), 0);
	if (!user)
		assert_int_equal(seteuid(65534), 0);
	assert_no_key(-EACCES, "this user may not read it; chgrp dprd and chmod 640 it");
	if (!user)
		assert_int_equal(seteuid(0), 0);
}

static int make_directory(void **state)
{
	(void)state;
	if (!mkdtemp(directory))
		return -1;
	snprintf(path, sizeof(path), "%s/cluster.key", directory);
	return 0;
}

static int remove_directory(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_member_id),
		cmocka_unit_test(test_look_up),
		cmocka_unit_test(test_cluster_address),
		cmocka_unit_test(test_alias),
		cmocka_unit_test(test_alias_carry),
		cmocka_unit_test(test_kept_at_a_reload),
		cmocka_unit_test(test_services_kept_at_a_reload),
		cmocka_unit_test(test_services_have_places),
		cmocka_unit_test(test_service_hash),
		cmocka_unit_test(test_shared_hash),
		cmocka_unit_test(test_shared_mac),
		cmocka_unit_test(test_key),
		cmocka_unit_test(test_key_text),
		cmocka_unit_test(test_key_file),
		cmocka_unit_test(test_key_mark),
		cmocka_unit_test(test_key_denied),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
