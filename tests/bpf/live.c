// SPDX-License-Identifier: GPL-2.0-or-later
/* live.c - frames between two interfaces with the programs. */
#include "tests/bpf/live.h"

#include <string.h>

enum { WAIT_MS = 10000, NOTHING_MS = 20 };

struct live live_new(void)
{
	struct live live = { .client = tap_new("client", 1), .cluster = tap_new("cluster", 1) };

	plane_command("ip link set client mtu 9000 && ip link set cluster mtu 9000");
	plane_command("sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.client.rp_filter=0 "
		      "net.ipv4.conf.cluster.rp_filter=0");
	plane_command("ip addr add 192.0.2.1/24 dev client && ip addr add 2001:db8:c::1/64 dev client nodad");
	plane_command("ip route add 203.0.113.0/24 dev client && ip route add 2001:db8:f::/64 dev client");
	plane_command("for h in 192.0.2.10 203.0.113.9 203.0.113.77 2001:db8:c::10 2001:db8:f::9 2001:db8:f::77; do "
		      "ip neigh add $h lladdr 02:00:00:00:00:00 dev client nud permanent || exit 1; done");
	return live;
}

void live_attach(unsigned variant)
{
	char why[FASTPATH_WHY_BYTES];
	struct plane *p = site_plane(variant);

	if (fastpath_attach(p->fastpath, &p->config, why))
		plane_give_up("%s", why);
}

void live_prepare(const struct live *live, unsigned variant)
{
	struct frame old;
	unsigned member;

	site_reset(variant);
	for (member = 1; member < SITE_MEMBERS; member++)
		plane_way(site_plane(variant), member, variant & SITE_V6)->interface = live->cluster.interface;
	while (tap_receive(&live->client, &old, 0) || tap_receive(&live->cluster, &old, 0))
		;
}

struct frame live_make(unsigned variant, const char *line, const struct frame *other)
{
	const struct craft_names names = site_names(variant);
	struct frame frame;

	craft(&names, line, other, &frame);
	return frame;
}

void live_expect(const struct tap *tap, const struct frame *expected)
{
	struct frame got;

	if (!tap_receive(tap, &got, WAIT_MS))
		fail_msg("nothing was sent");
	if (got.length == expected->length && memcmp(got.bytes, expected->bytes, got.length) == 0)
		return;
	frame_print("expected", expected, &got);
	frame_print("received", &got, expected);
	fail_msg("the frame is not what it should be");
}

void live_expect_nothing(const struct live *live)
{
	struct frame got;

	assert_false(tap_receive(&live->cluster, &got, NOTHING_MS));
	assert_false(tap_receive(&live->client, &got, NOTHING_MS));
}

void live_expect_counted(unsigned variant, const char *expected)
{
	struct fastpath_counters counters;
	char counted[256];

	site_counted(variant, counted, sizeof(counted), &counters);
	assert_string_equal(counted, expected);
}
