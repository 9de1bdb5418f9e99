/* SPDX-License-Identifier: GPL-2.0-or-later */
/* version.h - the version of these programs, and a check of the version that another node announces. */
#ifndef DPRD_BASE_VERSION_H
#define DPRD_BASE_VERSION_H

#include <stdbool.h>

/* With the final zero. An announcement of the largest cluster has room for 11 characters. */
enum { VERSION_BYTES = 12 };

/* VERSION of the Makefile; zeros fill the rest. */
extern const char dprd_version[VERSION_BYTES];

/*
 * True for a digit and then letters, digits, ".", "+", "~" or "-", with zeros up to the end. All zero is valid, too: the
 * version is not known.
 */
static inline bool version_is_valid(const char text[VERSION_BYTES])
{
	unsigned i;

	if (text[0] && (text[0] < '0' || text[0] > '9'))
		return false;
	for (i = 0; i < VERSION_BYTES - 1 && text[i]; i++) {
		char c = text[i];

		if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
		      c == '+' || c == '~' || c == '-'))
			return false;
	}
	for (; i < VERSION_BYTES; i++) {
		if (text[i])
			return false;
	}
	return true;
}

#endif
