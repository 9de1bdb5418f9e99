// SPDX-License-Identifier: GPL-2.0-or-later
#include "loadcast/sharing.h"

#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <time.h>

#include "dprd/base/clock.h"
#include "dprd/base/log.h"
#include "loadcast/interface.h"

enum {
	OUT_OF_TURN_PER_ASK = 2, /* share_ask_ms() */
	REBALANCE_PERIODS = 10,
	/*
	 * The time between searches for the interfaces of addresses while these interfaces stay. interface_of() waits
	 * for a lock that a change of the network's configuration holds, and the lease should not wait for it.
	 */
	SEARCH_MS = 5000,
	/*
	 * A load table that is older comes from a process whose lease is over: the table is written half a period after the
	 * last announcement at the latest, and a lease ends SHARE_LEASE_PERIODS after that.
	 */
	FORMER_PERIODS = SHARE_LEASE_PERIODS + 2,
};

int sharing_configure(struct sharing *sharing, const struct config *config, uint64_t now_ms,
		      char message[CONFIG_ERROR_BYTES])
{
	if (!config->shared_count) {
		sharing_close(sharing);
		return 0;
	}
	sharing->looked_ms = sharing->searched_ms = 0;
	if (sharing->lease) {
		share_reconfigure(&sharing->share, config, now_ms);
		return 0;
	}
	sharing->lease = lease_open(config, message);
	if (!sharing->lease)
		return -1;
	share_init(&sharing->share, config, now_ms);
	return 0;
}

void sharing_succeed(struct sharing *sharing, uint64_t now_ms)
{
	static struct load_table former; /* large; one thread, and only at a start */
	const struct config *config = sharing->share.config;
	uint64_t until_ms;
	int error;

	if (!sharing->lease || lease_has_kernel(sharing->lease))
		return;
	error = load_table_snapshot(config->table_file, &former);
	if (error == -ENOENT)
		return;
	/* A file of another version tells no time; a new loadcast may still follow an old one. */
	until_ms = error ? now_ms + (uint64_t)FORMER_PERIODS * config->period_ms
			 : former.published_ms + (uint64_t)FORMER_PERIODS * former.period_ms;
	if (now_ms >= until_ms)
		return;
	share_keep_place(&sharing->share, until_ms);
	log_info("a former loadcast may have left a lease: for %llu ms this node announces its share of the shared "
		 "addresses, and does not use it",
		 (unsigned long long)(until_ms - now_ms));
}

void sharing_close(struct sharing *sharing)
{
	if (sharing->lease && lease_has_kernel(sharing->lease))
		lease_write(sharing->lease, &sharing->applied, 0);
	lease_close(sharing->lease);
	memset(sharing, 0, sizeof(*sharing));
}

struct share *sharing_share(struct sharing *sharing)
{
	return sharing->lease ? &sharing->share : NULL;
}

/*
 * now_ms is on a clock that goes on through suspend, until_ns on one that kernels read at little cost and that does
 * not. The first clock is read last, so that time lost in between shortens the lease.
 */
static uint64_t until_ns(uint64_t until_ms)
{
	struct timespec t;
	uint64_t monotonic_ns, now_ms;

	clock_gettime(CLOCK_MONOTONIC, &t);
	monotonic_ns = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
	now_ms = clock_now_ms();
	return until_ms > now_ms ? monotonic_ns + (until_ms - now_ms) * 1000000 : 0;
}

/* Without a part in the kernel that acts on it, this node must not ask for a share. */
static bool has_kernel(struct sharing *sharing)
{
	bool has = lease_has_kernel(sharing->lease);

	if (has == sharing->said_gone)
		log_info(has ? "the kernel takes the lease of the shared addresses"
			     : "nothing in the kernel takes the lease of the shared addresses yet: dprd sets that up");
	sharing->said_gone = !has;
	return has;
}

/* Returns the members whose share changed, perhaps this node among them: the others wait for an announcement of it. */
static uint64_t apply(struct sharing *sharing, uint64_t now_ms)
{
	struct share *share = &sharing->share;
	struct bucket_share next;
	uint32_t before[MEMBERS_MAX] = { 0 }, used = share->used;
	uint64_t changed;

	share_fill(share, now_ms, &next);
	for (unsigned i = 0; i < share->config->member_count; i++)
		before[i] = share->peer[i].granted;
	/* The kernel comes first, the announcement afterwards. A node without a kernel part owns nothing. */
	if (memcmp(&next, &sharing->applied, sizeof(next)) != 0) {
		lease_write(sharing->lease, &next, 0);
		sharing->applied = next;
	}
	share_applied(share, &next);
	if (lease_write(sharing->lease, &next, until_ns(share_until_ms(share))))
		share_give_place_up(share);
	changed = used != share->used ? 1ULL << share->config->self : 0;
	for (unsigned i = 0; i < share->config->member_count; i++) {
		if (before[i] != share->peer[i].granted)
			changed |= 1ULL << i;
	}
	return changed;
}

static void say_refused(struct sharing *sharing, uint64_t now_ms)
{
	const struct config *config = sharing->share.config;
	int refuser = share_refuser(&sharing->share, now_ms);

	if (refuser >= 0 && !sharing->said_refused)
		log_warning("%s refuses this node a share of the shared addresses: it does not hear this node, or "
			    "lost it too often; asking for no share until it agrees",
			    config->member[refuser].name);
	else if (refuser < 0 && sharing->said_refused)
		log_info("no node refuses this node a share of the shared addresses any more");
	sharing->said_refused = refuser >= 0;
}

static bool others_share(const struct share *share)
{
	for (unsigned i = 0; i < share->config->member_count; i++) {
		if (share->peer[i].level == SHARE_IN)
			return true;
	}
	return false;
}

static uint32_t wanted(struct sharing *sharing, const struct sharing_news *news, uint64_t now_ms)
{
	const struct config *config = sharing->share.config;
	uint32_t configured = config->member[config->self].weight;

	/* When no other node would serve, a node with a failing web server may still answer. */
	if (!has_kernel(sharing) || (!news->active && others_share(&sharing->share)))
		return 0;
	if (config->shared_quorum && share_is_minority(&sharing->share))
		return 0;
	if (!config->shared_rebalance || !configured)
		return configured;
	if (!sharing->balanced || sharing->balanced > configured)
		sharing->balanced = configured;
	if (now_ms >= sharing->balanced_ms + REBALANCE_PERIODS * config->period_ms) {
		sharing->balanced = share_rebalanced(sharing->balanced, configured, news->own_load, news->mean_load);
		sharing->balanced_ms = now_ms;
	}
	return sharing->balanced;
}

static bool has_family(const struct config *config, bool v6)
{
	for (unsigned i = 0; i < config->shared_count; i++) {
		if (addr_is_v4(&config->shared[i]) != v6)
			return true;
	}
	return false;
}

/* The interface at which dprd judges frames to shared addresses of a family: shared_interface_find(). */
static unsigned search_interface(const struct config *config, bool v6)
{
	const struct member *self = &config->member[config->self];
	unsigned interface = 0;

	if (*config->shared_interface)
		return if_nametoindex(config->shared_interface);
	for (unsigned i = 0; i < self->service_count && !interface; i++) {
		if (addr_is_v4(&self->service[i]) != v6)
			interface = interface_of(&self->service[i]);
	}
	return interface;
}

/*
 * Connections that NAT forwards have no socket here: peers must send such packets through the tunnel, which needs none.
 */
static bool has_nat(const struct config *config)
{
	for (unsigned own = 0; own < config->own_backend_count; own++) {
		if (config_own_backend(config, own)->form == BACKEND_NAT)
			return true;
	}
	return false;
}

/* True when a hardware address changed. */
static bool look_at_hardware(struct sharing *sharing, uint64_t now_ms)
{
	const struct config *config = sharing->share.config;
	uint8_t before[2][HARDWARE_BYTES];
	bool search = now_ms >= sharing->searched_ms + SEARCH_MS;

	if (now_ms < sharing->looked_ms + SHARING_LOOK_MS)
		return false;
	sharing->looked_ms = now_ms;
	if (search)
		sharing->searched_ms = now_ms;
	memcpy(before, sharing->hardware, sizeof(before));
	memset(sharing->hardware, 0, sizeof(sharing->hardware));
	for (unsigned v6 = 0; v6 < 2; v6++) {
		unsigned *interface = &sharing->interface[v6];

		if (!has_family(config, v6) || has_nat(config))
			continue;
		/* When an interface is gone, its successor is looked for. */
		if (!search && *interface && interface_hardware(*interface, sharing->hardware[v6]) == 0)
			continue;
		*interface = search_interface(config, v6);
		if (*interface && interface_hardware(*interface, sharing->hardware[v6]) < 0)
			*interface = 0;
	}
	return memcmp(before, sharing->hardware, sizeof(before)) != 0;
}

uint64_t sharing_step(struct sharing *sharing, const struct sharing_news *news, uint64_t now_ms)
{
	struct share *share = &sharing->share;
	const struct config *config = share->config;
	uint64_t members = sharing->waiting | news->asked_by;

	if (!sharing->lease)
		return 0;
	share_want(share, wanted(sharing, news, now_ms), now_ms);
	say_refused(sharing, now_ms);
	if (share_tick(share, now_ms)) {
		for (unsigned i = 0; i < config->member_count; i++)
			members |= share_asks(share, i, now_ms) ? 1ULL << i : 0;
	}
	members |= apply(sharing, now_ms);
	members |= look_at_hardware(sharing, now_ms) ? 1ULL << config->self : 0;
	sharing->waiting = members;
	if (!members || now_ms < sharing->announced_ms + share_ask_ms(share) / OUT_OF_TURN_PER_ASK)
		return 0;
	sharing->announced_ms = now_ms;
	sharing->waiting = 0;
	return members;
}
