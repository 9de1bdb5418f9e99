/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * valgrind.h - leaves out tests that cannot work under valgrind. Include it after cmocka.h.
 */
#ifndef TEST_VALGRIND_H
#define TEST_VALGRIND_H

#include <stdlib.h>
#include <string.h>

/* valgrind keeps descriptors for itself and plays the limit of open files; it runs one thread at a time. */
#define SKIP_UNDER_VALGRIND(why)                                               \
	do {                                                                   \
		const char *preload_ = getenv("LD_PRELOAD");                   \
                                                                               \
		if (preload_ && strstr(preload_, "vgpreload")) {               \
			print_message("skipped: under valgrind, %s\n", (why)); \
			skip();                                                \
		}                                                              \
	} while (0)

#endif
