/* SPDX-License-Identifier: GPL-2.0-or-later */
/* descriptors.h - the limit of open files of this process (RLIMIT_NOFILE). */
#ifndef DPRD_BASE_DESCRIPTORS_H
#define DPRD_BASE_DESCRIPTORS_H

/*
 * Raises the limit to this many descriptors where the hard limit allows it. Never lowers it. Returns the limit after
 * that, which may be lower than count.
 */
unsigned descriptors_want(unsigned count);

#endif
