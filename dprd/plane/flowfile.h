/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * flowfile.h - the flow table in run_dir/flows, with the flows of a former process.
 */
#ifndef DPRD_FLOWFILE_H
#define DPRD_FLOWFILE_H

#include <stdbool.h>

struct dprd;

/* 0 or -errno. */
int flowfile_open(struct dprd *d);
void flowfile_close(struct dprd *d, bool keep);
/* Adds the flows of a former process to d->flows. */
void flowfile_adopt(struct dprd *d);
void flowfile_remove(const struct dprd *d);

#endif
