/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * socket.h - the control socket.
 */
#ifndef DPRD_CONTROL_SOCKET_H
#define DPRD_CONTROL_SOCKET_H

struct dprd;

/* 0, or -errno after a line in the log. */
int control_open(struct dprd *d);
void control_close(struct dprd *d); /* NULL control is fine */

#endif
