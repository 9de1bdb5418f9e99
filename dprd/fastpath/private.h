/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fastpath/private.h - fastpath/attach.c for fastpath.c. */
#ifndef DPRD_FASTPATH_PRIVATE_H
#define DPRD_FASTPATH_PRIVATE_H

#include "dprd/fastpath/fastpath.h"

/* Gives the links back; unless kept, what is pinned goes. */
void fastpath_detach(struct fastpath *f, bool keep);
/* Removes everything that is pinned there, and the directory. 0 or -errno. */
int fastpath_unpin(const char *pins);

#endif
