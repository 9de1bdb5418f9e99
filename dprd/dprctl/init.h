/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dprctl/init.h - the parts of "dprctl init", which writes a first dprd.conf and a key.
 *
 * The words of the operator become a text, the parser of the daemons checks it, and then both files are put in place.
 */
#ifndef DPRD_DPRCTL_INIT_H
#define DPRD_DPRCTL_INIT_H

#include "dprd/dprctl/dprctl.h"

enum {
	INIT_ADDRESSES_BYTES = 512, /* of a list, with NUL */
	INIT_TEXT_BYTES = 64 * 1024,
	INIT_ANSWER_BYTES = 1024, /* a line from the terminal */
};

/* Addresses are lists with commas between them, as the operator gave them. */
struct init_member {
	char name[NAME_BYTES];
	char service[INIT_ADDRESSES_BYTES];
	char cluster[INIT_ADDRESSES_BYTES]; /* empty: the service addresses */
};

struct init_plan {
	char self[NAME_BYTES];
	bool names_self; /* the host name does not tell which member this is */
	bool default_key_path;
	char key_path[PATH_BYTES];
	unsigned member_count;
	struct init_member member[MEMBERS_MAX];
};

/* NAME=ADDRESS[,ADDRESS...][@CLUSTER[,CLUSTER]]. NULL and *ret filled; or the fault. */
const char *init_read_member(const char *text, struct init_member *ret);

/* The member of this name, or NULL. */
struct init_member *init_find(struct init_plan *plan, const char *name);

/* Adds it. NULL, or the fault. */
const char *init_add(struct init_plan *plan, const struct init_member *member);

/* Writes the file; its length, or 0 when it does not fit. */
size_t init_write(const struct init_plan *plan, char text[INIT_TEXT_BYTES]);

/* dprctl/init_ask.c: fills what the options leave open, by questions when there is a terminal. False after a line. */
bool init_plan_make(const struct dprctl *c, const char *config_path, struct init_plan *plan);

/* Asks one question on the terminal; an empty answer takes the default. False: the input ended. */
bool init_ask(const char *question, const char *fallback, char answer[INIT_ANSWER_BYTES]);

#endif
