// SPDX-License-Identifier: GPL-2.0-or-later
/* The choice of the plane: which interfaces the programs need, and when a start anew would help. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "dprd/fastpath/fastpath.h"
#include "tests/unit/own_backends.h"

enum { ETHERNET = 2, OTHER = 3 };

static bool fits(const struct config *config, uint32_t interface);
static bool is_attached(const struct fastpath *f, uint32_t interface);

#define fastpath_fits fits
#define fastpath_is_attached is_attached
#include "dprd/plane/plane.c" // NOLINT(bugprone-suspicious-include): its statics are what is tested
#undef fastpath_fits
#undef fastpath_is_attached

static bool fits(const struct config *config, uint32_t interface)
{
	(void)config;
	return interface != OTHER;
}

static bool is_attached(const struct fastpath *f, uint32_t interface)
{
	(void)f;
	return interface == ETHERNET;
}

static struct dprd d;
static struct plane plane;
static struct fastpath fastpath;

/* Two members, which have addresses of IPv4 alone; the other one is reached by an interface, or by none (0). */
static void reach_by(uint32_t interface)
{
	struct way *way = &d.ways.member[1][0];

	*way = (struct way) { .form = WAY_FORM_TUNNEL, .destination = addr_from_v4(htonl(0x0a000002)) };
	way->next_hop.interface = interface;
}

static int start(void **state)
{
	struct config *c = make_config(80);

	(void)state;
	d = (struct dprd) { .config = *c, .plane = &plane };
	plane = (struct plane) { .waits = true };
	free(c);
	return log_catch(state);
}

static void starts_anew(void **state)
{
	(void)state;
	reach_by(ETHERNET);
	assert_true(plane_is_outdated(&d));
	reach_by(OTHER);
	assert_false(plane_is_outdated(&d));
	/* Its tunnel is away for a moment: the route that comes back may lead out by an interface without programs. */
	reach_by(0);
	assert_false(plane_is_outdated(&d));
	reach_by(ETHERNET);
	plane.waits = false;
	assert_false(plane_is_outdated(&d));
}

static void sees_tunnel_packets(void **state)
{
	(void)state;
	d.fastpath = &fastpath;
	reach_by(ETHERNET);
	check_tunnel(&d);
	assert_string_equal(plane_unseen(&d), "");
	assert_string_equal(log_text(), "");
	for (unsigned i = 0; i < 2; i++) {
		reach_by(OTHER);
		check_tunnel(&d);
		assert_non_null(strstr(plane_unseen(&d), "which is no Ethernet interface"));
		assert_non_null(strstr(log_text(), i ? "" : "do not see tunnel packets"));
		check_tunnel(&d);
		assert_string_equal(log_text(), "");
		/* Without a route there is nothing to see. */
		reach_by(i ? 0 : ETHERNET);
		check_tunnel(&d);
		assert_string_equal(plane_unseen(&d), "");
		assert_non_null(strstr(log_text(), "again"));
	}
	d.fastpath = NULL;
	assert_string_equal(plane_unseen(&d), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(starts_anew, start, log_release),
		cmocka_unit_test_setup_teardown(sees_tunnel_packets, start, log_release),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
