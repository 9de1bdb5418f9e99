/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * socket.h - the control socket.
 */
#ifndef DPRD_CONTROL_SOCKET_H
#define DPRD_CONTROL_SOCKET_H

struct control;
struct dprd;

/* 0 and *ret, or -errno after a line in the log. */
int control_open(struct dprd *d, struct control **ret);
void control_close(struct control *control); /* NULL is fine */

#endif
