/* SPDX-License-Identifier: GPL-2.0-or-later */
/* advice.h - what an operator can do about an error of the system. */
#ifndef DPRD_BASE_ADVICE_H
#define DPRD_BASE_ADVICE_H

/*
 * The advice for a negative errno that has the same cause everywhere: no room, no descriptors, no memory. For any other
 * error: the advice of the caller.
 */
const char *advice_for(int error, const char *otherwise);

#endif
