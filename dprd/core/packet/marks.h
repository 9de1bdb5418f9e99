/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * packet/marks.h - the bits of a packet's mark (skb->mark) that dprd, the BPF programs and the rules use.
 *
 * Marks of the queues: the chains or the BPF programs set them, and the rules of the tables "raw" choose the queue by
 * them. Marks of real servers: dprd or the BPF programs choose the server, and the rules with NAT send the SYN there.
 */
#ifndef DPRD_PACKET_MARKS_H
#define DPRD_PACKET_MARKS_H

/* Plain numbers without a suffix: MARK_TEXT() makes text of them for nft and iptables. */
#define MARK_FORWARD 0x40000000 /* queue without by-pass: the packet waits for dprd */
#define MARK_DECIDE 0x20000000 /* queue with by-pass: without dprd this node serves the packet */
#define MARK_QUEUES 0x60000000 /* both bits */
#define MARK_OTHERS 0x9fffffff /* all bits except these two */

#define MARK_TEXT_OF(number) #number
#define MARK_TEXT(mark) MARK_TEXT_OF(mark)

enum {
	BACKEND_MARK_SHIFT = 24, /* 0: no real server was chosen, so the rules choose one by weight */
	BACKEND_MARK_MASK = 0x1f << BACKEND_MARK_SHIFT,
	BACKEND_MARK_SELF = 0x1f, /* the node itself; other numbers: index of the own backend + 1 */
};

_Static_assert(MARK_QUEUES == (MARK_FORWARD | MARK_DECIDE), "the text of both is one number");
_Static_assert(MARK_OTHERS == (0xffffffff & ~(unsigned)MARK_QUEUES), "the text of the rest is one number");
_Static_assert(!(MARK_FORWARD & MARK_DECIDE) && !(MARK_QUEUES & BACKEND_MARK_MASK), "no bit has two meanings");

#endif
