// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Every reason has a name, which is its constant's in lower case, and a text; and the reasons with which a real server
 * may serve.
 */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "dprd/cluster/backend.h"

static void test_names(void **context)
{
	static const char *const upper[] = {
#define X(name, kind, text) #name,
		DECIDE_REASONS(X)
#undef X
	};

	(void)context;
	for (unsigned i = 0; i < REASONS; i++) {
		const char *name = reason_name((enum reason)i);

		assert_non_null(name);
		assert_int_equal(strlen(name), strlen(upper[i]));
		for (unsigned c = 0; name[c]; c++)
			assert_int_equal(name[c], tolower(upper[i][c]));
		assert_true(strlen(reason_text((enum reason)i)) > 5);
	}
	assert_string_equal(reason_name(REASONS), "?");
	assert_string_equal(reason_text(REASONS), "?");
	assert_string_equal(verdict_kind_name(VERDICT_SERVE), "serve");
	assert_string_equal(verdict_kind_name(reason_kind(REASON_CHOSEN)), "forward");
	assert_string_equal(verdict_kind_name(reason_kind(REASON_FROM_PEER)), "decapsulate");
	assert_string_equal(verdict_kind_name((enum verdict_kind)77), "?");
}

/*
 * Real servers get connections that this node chose to serve; not those that it may have answered already, or for which
 * it cannot make a flow.
 */
static void test_may_serve(void **context)
{
	const enum reason theirs[] = { REASON_LOCAL_POLICY,   REASON_BELOW_MAX_LOAD, REASON_LOWEST_LOAD,
				       REASON_MIN_ADVANTAGE,  REASON_NO_PEER,        REASON_MINORITY,
				       REASON_CLUSTER_CLIENT, REASON_INSIDE_CLIENT,  REASON_FORWARD_FAILED };
	unsigned reason, i;

	(void)context;
	for (reason = 0; reason < REASONS; reason++) {
		bool may = false;

		for (i = 0; i < sizeof(theirs) / sizeof(theirs[0]); i++)
			may = may || theirs[i] == reason;
		if (backend_may_serve((enum reason)reason) != may)
			fail_msg("%s", reason_name((enum reason)reason));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_names), cmocka_unit_test(test_may_serve) };

	return cmocka_run_group_tests_name("reason", tests, NULL, NULL);
}
