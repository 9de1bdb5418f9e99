/* SPDX-License-Identifier: GPL-2.0-or-later */
/* serve.h - answers requests by HTTP, from the page's files and from what poll.h keeps. */
#ifndef DPRD_WEB_SERVE_H
#define DPRD_WEB_SERVE_H

#include "dprd/web/connections.h"
#include "dprd/web/core/request.h"
#include "dprd/web/poll.h"

struct web_serve {
	struct web_poll *poll;
	const char *names[WEB_NAMES_MAX]; /* names of this server in the Host header */
	unsigned name_count;
	struct MHD_Daemon *daemon;
	struct connections connections;
};

/* fd: a socket that listens, which belongs to *serve from now on. False after a line in the log. */
bool web_serve_start(struct web_serve *serve, int fd);
/* To be called each second or so. */
void web_serve_tick(struct web_serve *serve);
void web_serve_stop(struct web_serve *serve);

#endif
