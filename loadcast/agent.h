/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * agent.h - asks the agent of this node what the node wants ([Health] Agent=).
 *
 * Once in each Interval= it connects to the agent's address and reads one line (core/agent_words.h). An agent that gives
 * no answer changes nothing: what it said last holds. This file logs what changes.
 */
#ifndef LOADCAST_AGENT_H
#define LOADCAST_AGENT_H

#include "loadcast/core/agent_words.h"

struct agent;

/* The configuration must outlive it. Without Agent= it does nothing. NULL: out of memory. */
struct agent *agent_new(const struct config *config);
void agent_free(struct agent *agent); /* NULL is fine */

/* After a reload: the words of an agent that stays go on to hold. The former object may only be freed then. */
void agent_inherit(struct agent *agent, const struct agent *former);

/* Begins and ends questions. Returns when to call again. */
uint64_t agent_tick(struct agent *agent, uint64_t now_ms);

/* The socket to poll; -1 between questions. */
int agent_socket(const struct agent *agent, short *ret_events);
/* Call when it is ready. True: the agent says something else than before. */
bool agent_ready(struct agent *agent, uint64_t now_ms);

const struct agent_words *agent_words(const struct agent *agent);
/* True while it gives no answer that is understood. */
bool agent_is_silent(const struct agent *agent);

#endif
