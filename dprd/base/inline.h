/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * inline.h - a function that is always a part of its callers: what the BPF programs do with each packet. A call of its
 * own would cost a return, and where the kernel guards those (against speculation) each takes as long as a look-up.
 */
#ifndef DPRD_BASE_INLINE_H
#define DPRD_BASE_INLINE_H

#define INLINE static inline __attribute__((always_inline))

/* So it is with nearly all packets: for them the compiler makes the shorter way. */
#define LIKELY(condition) __builtin_expect(!!(condition), 1)

#endif
