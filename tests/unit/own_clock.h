/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * own_clock.h - a clock that stands still until the test moves it, so that a slow host has no effect.
 *
 * It replaces the C library's clock_gettime() for the objects of the test program. Shared libraries keep
 * the real one.
 */
#ifndef TESTS_UNIT_OWN_CLOCK_H
#define TESTS_UNIT_OWN_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Atomic uint64_t own_clock_ms = 1000000000;

__attribute__((visibility("hidden"))) int clock_gettime(clockid_t id, struct timespec *ret)
{
	const uint64_t now_ms = atomic_load(&own_clock_ms);

	if (id != CLOCK_BOOTTIME && id != CLOCK_MONOTONIC && id != CLOCK_MONOTONIC_COARSE)
		return (int)syscall(SYS_clock_gettime, id, ret);
	*ret = (struct timespec) { .tv_sec = (time_t)(now_ms / 1000), .tv_nsec = (long)(now_ms % 1000) * 1000000 };
	return 0;
}

#endif
