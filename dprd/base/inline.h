/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * inline.h - functions that are always compiled into their callers, because the BPF programs run them for each packet.
 * A call needs a return; where the kernel guards returns against speculation, a return takes as long as a look-up.
 */
#ifndef DPRD_BASE_INLINE_H
#define DPRD_BASE_INLINE_H

#define INLINE static inline __attribute__((always_inline))

/* The condition holds for nearly all packets: the compiler makes the shorter code for them. */
#define LIKELY(condition) __builtin_expect(!!(condition), 1)

#endif
