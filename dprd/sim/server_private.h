/* SPDX-License-Identifier: GPL-2.0-or-later */
/* server_private.h - processor sharing: shared by server.c and server_shared.c. */
#ifndef DPRD_SIM_SERVER_PRIVATE_H
#define DPRD_SIM_SERVER_PRIVATE_H

#include "dprd/sim/server.h"

/* server->open is still without it, or still with it. */
bool server_begin_shared(struct servers *servers, unsigned node, uint32_t connection, double now_s);
uint32_t server_end_shared(struct servers *servers, unsigned node, double now_s);

#endif
