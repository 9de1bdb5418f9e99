/* SPDX-License-Identifier: GPL-2.0-or-later */
/* upkeep.h - the state of the work beside the packets. The main thread's. */
#ifndef DPRD_UPKEEP_H
#define DPRD_UPKEEP_H

#include "dprd/upkeep/keep_rules.h"
#include "dprd/upkeep/kept.h"
#include "dprd/upkeep/presence.h"
#include "dprd/upkeep/renew.h"

struct upkeep {
	uint64_t second_ms; /* when tick.c last did the work of each second */
	struct presence presence;
	struct renew renew;
	struct keep_rules keep_rules;
	struct aliases aliases;
};

#endif
