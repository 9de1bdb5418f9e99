/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * config/edit.h - changes [Member] sections in the text of dprd.conf. All other bytes stay as they are: comments, order,
 * and line ends. Nothing here reads or writes a file; the caller checks the new text with config_parse().
 */
#ifndef DPRD_CONFIG_EDIT_H
#define DPRD_CONFIG_EDIT_H

#include <stddef.h>

#include "dprd/config/config.h"

struct edit_member {
	const char *name;
	unsigned service_count, cluster_count;
	const char *service[MEMBER_SERVICES_MAX], *cluster[MEMBER_CLUSTER_MAX];
	const char *weight; /* NULL: no Weight= line */
};

/*
 * Each makes a new text, which the caller frees. 0, or: -EEXIST, the name is taken; -ENOENT, there is no such member;
 * -EINVAL, the name or a value cannot stand in a line, or the text has NUL bytes; -ENOMEM.
 */

/* Puts the section behind the last [Member]. */
int config_edit_add(const char *text, size_t length, const struct edit_member *member, char **ret);
/* Takes the section out, with the comments in it; those above its header stay. */
int config_edit_remove(const char *text, size_t length, const char *name, char **ret);
/* Changes the value of its Weight=, or adds the line. */
int config_edit_weight(const char *text, size_t length, const char *name, const char *weight, char **ret);

#endif
