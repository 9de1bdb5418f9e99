/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * poll.h - asks dprd by its control socket, once for all browsers.
 *
 * A thread asks for the status each second while anybody looks, and else each HISTORY_PERIOD_MS for the history. It keeps
 * the texts of the answers; those who want one get a copy. Only commands that read are ever sent: "status" and "why".
 */
#ifndef DPRD_WEB_POLL_H
#define DPRD_WEB_POLL_H

#include <stddef.h>

#include "dprd/dprctl/dprctl.h"
#include "dprd/web/core/request.h"

struct web_poll;

/* Reads the configuration and asks for the first time. NULL after a line in the log. */
struct web_poll *web_poll_start(const char *config_path, const char *node_name);
void web_poll_stop(struct web_poll *poll);

/*
 * The text of WEB_STATUS, WEB_HISTORY or WEB_METRICS, which the caller frees; NULL: no memory. It waits a moment for an
 * answer that is not older than a second; a dprd that is late does not hold it up.
 */
char *web_poll_text(struct web_poll *poll, enum web_target target, size_t *ret_bytes);

/*
 * The decisions about a client, as JSON. The status of HTTP: 200; 429: others ask too often; 503: dprd does not answer.
 * *ret, which the caller frees, is NULL when there is no memory.
 */
unsigned web_poll_why(struct web_poll *poll, const struct endpoint *client, char **ret);

#endif
