// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Fills the kernel's set of forwarded flows from the flow table.
 */
#include "dprd/upkeep/refill.h"

#include "dprd/base/log.h"
#include "dprd/cluster/state.h"
#include "dprd/host/flowset.h"
#include "dprd/host/socket_lookup.h"

enum { REFILL_MAX = 256 }; /* flows in one transaction */

/* Flows on their way into the kernel's set. Those that NAT sends on are apart from the others. */
struct refill {
	struct dprd *d;
	int error;
	unsigned count[2];
	struct flow_key keys[2][REFILL_MAX];
};

static bool is_nat(const struct config *config, uint32_t node_id)
{
	int own = config_own_backend_by_id(config, node_id);

	return own >= 0 && config_own_backend(config, (unsigned)own)->form == BACKEND_NAT;
}

static bool refill_flush(struct refill *refill, bool nat)
{
	if (refill->count[nat])
		refill->error = flowset_change(refill->d->set, nat ? FLOWSET_ADD_NAT : FLOWSET_ADD, refill->keys[nat],
					       refill->count[nat]);
	refill->count[nat] = 0;
	return !refill->error;
}

static bool refill_one(void *context, const struct flow *flow)
{
	struct refill *refill = context;
	bool nat = is_nat(&refill->d->config, flow->node_id);

	refill->keys[nat][refill->count[nat]++] = flow->key;
	return refill->count[nat] < REFILL_MAX || refill_flush(refill, nat);
}

/* Half-open flows for which the kernel may have a socket. */
struct served_here {
	struct dprd *d;
	struct socket_lookup *lookup;
	unsigned count, gone;
	struct flow flow[SOCKET_LOOKUP_MAX];
};

static void served_here_flush(struct served_here *served)
{
	struct flow_key keys[SOCKET_LOOKUP_MAX];
	enum socket_found found[SOCKET_LOOKUP_MAX];
	unsigned i, gone = 0;

	for (i = 0; i < served->count; i++)
		keys[i] = served->flow[i].key;
	/* When the kernel does not answer, no flow is forgotten. */
	if (served->count)
		socket_lookup_find(served->lookup, keys, served->count, found);
	for (i = 0; i < served->count; i++) {
		if (found[i] != SOCKET_OWNS)
			continue;
		flow_remove(served->d->flows, &served->flow[i]);
		keys[gone++] = served->flow[i].key;
	}
	if (gone && flowset_change(served->d->set, FLOWSET_REMOVE, keys, gone))
		served->d->counters.set_errors++;
	served->gone += gone;
	served->count = 0;
}

static bool served_here_one(void *context, const struct flow *flow)
{
	struct served_here *served = context;

	if (flow->state == FLOW_HALF_OPEN)
		served->flow[served->count++] = *flow;
	if (served->count == SOCKET_LOOKUP_MAX)
		served_here_flush(served);
	return true;
}

/*
 * A dprd may have died with a flow in its table that the kernel's set did not know yet, before the SYN left. The
 * client's next SYN was then served here: the flow would take that connection away. Lock held.
 */
static void forget_served_here(struct dprd *d)
{
	struct served_here served = { .d = d, .lookup = socket_lookup_new() };

	mutex_assert_held(&d->lock);
	if (!served.lookup)
		return;
	flow_each(d->flows, served_here_one, &served);
	served_here_flush(&served);
	socket_lookup_free(served.lookup);
	if (served.gone)
		log_info("%u flows forgotten: their clients are served here", served.gone);
}

int refill_set(struct dprd *d)
{
	static struct refill refill; /* main thread only */

	/* BPF plane: the programs look in the table itself. */
	if (d->fastpath)
		return 0;
	refill = (struct refill) { .d = d };
	mutex_lock(&d->lock);
	flow_each(d->flows, refill_one, &refill);
	if (!refill.error && refill_flush(&refill, false))
		refill_flush(&refill, true);
	/* After the set is filled no copy of their SYNs is served here any more. */
	if (!refill.error)
		forget_served_here(d);
	mutex_unlock(&d->lock);
	return refill.error;
}
