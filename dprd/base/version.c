// SPDX-License-Identifier: GPL-2.0-or-later
/* Only this file is compiled with the version, so that another version changes one object. */
#include "dprd/base/version.h"

_Static_assert(sizeof(DPRD_VERSION) <= VERSION_BYTES, "VERSION in the Makefile is too long for an announcement");

const char dprd_version[VERSION_BYTES] = DPRD_VERSION;
