// SPDX-License-Identifier: GPL-2.0-or-later
/* The start of the sampler on a host where the connections of others cannot be counted at once. */
#define _GNU_SOURCE
#include "loadcast/sample_diag.h"
#include "tests/unit/own_backends.h"

static int count(struct diag *diag, bool served, uint32_t *ret);
static int count_listeners(struct diag *diag, struct diag_listeners *ret);

#define diag_count_connections count
#define diag_count_listeners count_listeners
#include "loadcast/sample.c" // NOLINT(bugprone-suspicious-include): its start is what is tested
#undef diag_count_connections
#undef diag_count_listeners

enum { EACH = 10000 };

static int served_error, others_error, listeners_error;
static unsigned served_counts;

static int count(struct diag *diag, bool served, uint32_t *ret)
{
	(void)diag;
	*ret = EACH;
	served_counts += served;
	return served ? served_error : others_error;
}

static int count_listeners(struct diag *diag, struct diag_listeners *ret)
{
	(void)diag;
	*ret = (struct diag_listeners) { .count = 1 };
	return listeners_error;
}

static void starts_without_a_count(void **state)
{
	struct config *c = make_config(80);
	struct load_sample sample;
	struct sampler *s;

	(void)state;
	/* Too many for an answer, of either kind; too slow. */
	for (unsigned i = 0; i < 2; i++) {
		served_error = others_error = i ? -EAGAIN : -EMSGSIZE;
		s = sampler_new(c);
		assert_non_null(s);
		assert_int_equal(sampler_read(s, &sample), 0);
		assert_int_equal(s->others, 0);
		/* A later count succeeds. */
		served_error = others_error = 0;
		assert_int_equal(sampler_count(s), 0);
		sampler_free(s);
	}
	free(c);
}

/* More than fit an answer: the served ones are counted instead, at once. */
static void counts_the_other_part(void **state)
{
	struct config *c = make_config(80);
	struct sampler *s;

	(void)state;
	served_error = 0;
	others_error = -EMSGSIZE;
	served_counts = 0;
	s = sampler_new(c);
	assert_non_null(s);
	assert_int_equal(served_counts, 1);
	sampler_free(s);
	others_error = 0;
	free(c);
}

static void needs_the_kernel(void **state)
{
	struct config *c = make_config(80);

	(void)state;
	listeners_error = -EPERM;
	assert_null(sampler_new(c));
	assert_int_equal(errno, EPERM);
	listeners_error = 0;
	free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(starts_without_a_count),
		cmocka_unit_test(counts_the_other_part),
		cmocka_unit_test(needs_the_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
