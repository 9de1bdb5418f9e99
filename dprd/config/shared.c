// SPDX-License-Identifier: GPL-2.0-or-later
/* config/shared.c - section [Shared]: addresses that every node answers for, and the MAC address of their frames. */
#include "dprd/config/reading.h"

static void set_shared(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	struct config *c = field;
	char word[CONFIG_WORD_BYTES];
	struct addr address;

	if (!config_has_word(p, key, text, "192.0.2.100"))
		return;
	while (config_next_word(&text, word)) {
		unsigned i = 0;

		if (!config_read_address(p, key, word, &address))
			continue;
		while (i < c->shared_count && !addr_equal(&c->shared[i], &address))
			i++;
		if (i < c->shared_count) {
			config_key_error(p, key, "%s is given twice (first in line %u)", word, p->shared_line[i]);
		} else if (c->shared_count == SHARED_MAX) {
			config_key_error(p, key, "too many addresses (at most %d)", SHARED_MAX);
			return;
		} else {
			p->shared_line[c->shared_count] = p->line;
			c->shared[c->shared_count++] = address;
		}
	}
}

static void print_shared(FILE *out, const struct config_key *key, const void *field)
{
	const struct config *c = field;

	for (unsigned i = 0; i < c->shared_count; i++)
		config_type_address.print(out, key, &c->shared[i]);
}

const struct config_type config_type_shared = { set_shared, print_shared };

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* "03:00:5e:00:00:01", two digits each. */
static bool read_mac(const char *text, uint8_t mac[6])
{
	for (unsigned i = 0; i < 6; i++, text += 3) {
		int high = hex_digit(text[0]), low = high < 0 ? -1 : hex_digit(text[1]);

		if (low < 0 || text[2] != (i < 5 ? ':' : '\0'))
			return false;
		mac[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

/* The reason why switches would not flood frames to this address to every node; NULL: they do. */
static const char *mac_fault(const uint8_t mac[6])
{
	static const uint8_t broadcast[6] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	static const uint8_t bridges[5] = { 0x01, 0x80, 0xc2, 0x00, 0x00 }; /* and 00..0f: IEEE 802.1D, 7.12.6 */

	if (!(mac[0] & 1))
		return "the address of a single card, because its first byte is even";
	if (memcmp(mac, broadcast, 6) == 0)
		return "the broadcast address";
	return memcmp(mac, bridges, 5) == 0 && mac[5] < 16 ? "an address that no switch forwards" : NULL;
}

static void set_mac(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	struct config *c = field;
	uint8_t mac[6];

	if (!*text)
		return;
	if (!read_mac(text, mac)) {
		config_key_error(p, key, "\"%.64s\" is not a MAC address (such as 03:00:5e:00:00:64)", text);
	} else if (mac_fault(mac)) {
		config_key_error(p, key, "%.64s is %s (take one such as 03:00:5e:00:00:64)", text, mac_fault(mac));
	} else {
		memcpy(c->shared_mac, mac, sizeof(mac));
		c->shared_mac_set = true;
	}
}

static void print_mac(FILE *out, const struct config_key *key, const void *field)
{
	const struct config *c = field;
	const uint8_t *m = c->shared_mac;

	if (c->shared_mac_set)
		config_print(out, key, "%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5]);
}

const struct config_type config_type_mac = { set_mac, print_mac };
