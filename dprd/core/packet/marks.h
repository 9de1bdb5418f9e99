/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * packet/marks.h - the bits of a packet's mark that say which real server a SYN goes to: between dprd or the BPF
 * programs, which choose, and the rules with NAT.
 */
#ifndef DPRD_BACKEND_MARK_H
#define DPRD_BACKEND_MARK_H

enum {
	BACKEND_MARK_SHIFT = 24, /* 0: nobody chose; then the rules do, by weight */
	BACKEND_MARK_MASK = 0x1f << BACKEND_MARK_SHIFT,
	BACKEND_MARK_SELF = 0x1f, /* the node itself; else the own backend's number + 1 */
};

#endif
