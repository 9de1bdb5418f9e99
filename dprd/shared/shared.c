// SPDX-License-Identifier: GPL-2.0-or-later
/* shared.c - sets up the judges of frames to shared addresses, and tells neighbours and switches about them. */
#include "dprd/shared/shared.h"

#include <errno.h>
#include <net/if.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dprd/base/clock.h"
#include "dprd/base/log.h"
#include "dprd/cluster/state.h"
#include "dprd/core/packet/shared_frame.h"
#include "dprd/shared/module.h"

enum { ANNOUNCEMENTS = 3 /* for one change, because a frame may be lost */ };

void shared_key(const uint8_t cluster_key[32], const char *cluster_name, uint64_t ret[2])
{
	static const char purpose[] = "dprd buckets 1:";
	crypto_auth_hmacsha256_state state;
	uint8_t mac[crypto_auth_hmacsha256_BYTES];
	unsigned i;

	crypto_auth_hmacsha256_init(&state, cluster_key, 32);
	crypto_auth_hmacsha256_update(&state, (const uint8_t *)purpose, sizeof(purpose) - 1);
	crypto_auth_hmacsha256_update(&state, (const uint8_t *)cluster_name, strlen(cluster_name));
	crypto_auth_hmacsha256_final(&state, mac);
	ret[0] = ret[1] = 0;
	for (i = 0; i < 16; i++)
		ret[i / 8] |= (uint64_t)mac[i] << 8 * (i % 8);
	sodium_memzero(mac, sizeof(mac));
}

static bool read_key(struct dprd *d)
{
	char message[CONFIG_ERROR_BYTES];
	uint8_t key[32];

	if (config_read_key(d->config.key_file, key, message)) {
		snprintf(d->shared->why, SHARED_WHY_BYTES, "%.*s", (int)SHARED_WHY_BYTES - 1, message);
		return false;
	}
	shared_key(key, d->config.cluster_name, d->shared->programs.key);
	sodium_memzero(key, sizeof(key));
	return true;
}

/* Finds the interfaces of the families that have shared addresses, and makes them receive the frames. */
static bool find_interfaces(struct dprd *d)
{
	struct shared *s = d->shared;
	bool found = true;
	unsigned i;

	for (i = 0; i < d->config.shared_count; i++) {
		const struct addr *address = &d->config.shared[i];
		bool v6 = !addr_is_v4(address);
		uint8_t mac[6];
		int error;

		if (!shared_interface_find(&d->config, v6, s->interface[v6], s->why)) {
			s->programs.interface[v6] = 0;
			found = false;
			continue;
		}
		config_shared_mac(&d->config, address, mac);
		error = shared_interface_join(s->interface[v6], mac, true);
		if (error && error != -EEXIST)
			log_warning("%s: cannot make it receive frames to shared addresses: %s", s->interface[v6],
				    strerror(-error));
		s->programs.interface[v6] = if_nametoindex(s->interface[v6]);
		shared_interface_hardware(s->interface[v6], s->programs.hardware);
	}
	return found;
}

static uint32_t loadcast_user(const struct config *config)
{
	char directory[PATH_BYTES];
	struct stat status;
	char *slash;

	snprintf(directory, sizeof(directory), "%s", config->table_file);
	slash = strrchr(directory, '/');
	if (slash)
		*slash = '\0';
	return stat(directory, &status) ? 0 : (uint32_t)status.st_uid;
}

/* -ENOENT: there is no module. */
static int use_module(struct dprd *d)
{
	const struct config *config = &d->config;
	const struct shared *s = d->shared;
	struct shared_module_setup setup = {
		.interface = s->programs.interface[0] ? s->programs.interface[0] : s->programs.interface[1],
		.late = !d->fastpath,
		.nat = config_has_nat(config),
		.key = { s->programs.key[0], s->programs.key[1] },
		.lease_uid = loadcast_user(config),
		.count = config->shared_count,
	};
	struct shared_module_state now;
	unsigned i;

	if (s->used == SHARED_USES_MODULE && !shared_module_get(&now) && now.configured &&
	    now.setup.interface == setup.interface && now.setup.lease_uid == setup.lease_uid &&
	    now.setup.nat == setup.nat)
		return 0;
	for (i = 0; i < config->shared_count; i++) {
		setup.shared[i].addr = config->shared[i];
		config_shared_mac(config, &config->shared[i], setup.shared[i].mac);
	}
	return shared_module_set(&setup);
}

static enum shared_used choose_form(struct dprd *d)
{
	enum shared_form form = d->config.shared_form;
	struct shared *s = d->shared;
	int error = -ENOENT;

	if (form != SHARED_BPF)
		error = use_module(d);
	if (!error) {
		snprintf(s->why, SHARED_WHY_BYTES, "%s", form == SHARED_AUTO ? "it is loaded" : "as configured");
		return SHARED_USES_MODULE;
	}
	if (form == SHARED_MODULE || (error != -ENOENT && error != -EOPNOTSUPP)) {
		snprintf(s->why, SHARED_WHY_BYTES, "the kernel module dprd_biactive: %s%s", strerror(-error),
			 error == -ENOENT ? " (modprobe dprd_biactive, or Form=auto in [Shared])" : "");
		return SHARED_USES_NONE;
	}
	if (d->fastpath) {
		snprintf(s->why, SHARED_WHY_BYTES, "%s",
			 form == SHARED_BPF ? "as configured" : "the kernel module is not loaded");
		return SHARED_USES_BPF;
	}
	snprintf(s->why, SHARED_WHY_BYTES, "the plane is not bpf, and the kernel module dprd_biactive is not loaded");
	return SHARED_USES_NONE;
}

/* Both the plane and the interfaces may have changed. */
static void set_up(struct dprd *d)
{
	struct shared *s = d->shared;

	s->used = find_interfaces(d) ? choose_form(d) : SHARED_USES_NONE;
	s->programs.by_module = s->used == SHARED_USES_MODULE;
	if (s->told && s->used == s->told_used)
		return;
	s->told = true;
	s->told_used = s->used;
	if (s->used == SHARED_USES_NONE)
		log_err("this node answers for no shared address: %s", s->why);
	else
		log_info("shared addresses by %s: %s",
			 s->used == SHARED_USES_BPF ? "BPF programs" : "the kernel module", s->why);
}

int shared_open(struct dprd *d)
{
	struct shared *s;

	if (!d->config.shared_count)
		return 0;
	s = calloc(1, sizeof(*s));
	if (!s) {
		log_err("cannot set up shared addresses: out of memory");
		return -ENOMEM;
	}
	s->loadcast_fd = -1;
	s->packet_fd = shared_interface_socket();
	if (s->packet_fd < 0)
		log_warning("cannot open a packet socket (%s): neighbours and switches learn nothing about shared "
			    "addresses",
			    strerror(-s->packet_fd));
	d->shared = s;
	if (read_key(d))
		set_up(d);
	else
		log_err("this node answers for no shared address: %s", s->why);
	return 0;
}

void shared_plane_changed(struct dprd *d)
{
	if (!d->shared || !(d->shared->programs.key[0] | d->shared->programs.key[1]))
		return;
	d->shared->used = SHARED_USES_NONE;
	set_up(d);
}

static void send_frame(const struct shared *s, bool v6, const uint8_t *frame, unsigned bytes)
{
	if (s->packet_fd >= 0 && *s->interface[v6])
		shared_interface_send(s->packet_fd, s->interface[v6], frame, bytes);
}

static void announce_addresses(const struct dprd *d)
{
	const struct shared *s = d->shared;
	uint8_t frame[SHARED_FRAME_BYTES], mac[6];
	unsigned i;

	for (i = 0; i < d->config.shared_count; i++) {
		const struct addr *address = &d->config.shared[i];

		config_shared_mac(&d->config, address, mac);
		send_frame(s, !addr_is_v4(address), frame,
			   shared_frame_announce(frame, address, mac, s->programs.hardware));
	}
}

static void announce_router(const struct dprd *d)
{
	const struct shared *s = d->shared;
	uint8_t frame[SHARED_FRAME_BYTES];
	struct addr source;
	int v6;

	for (v6 = 0; v6 < 2; v6++) {
		if (*s->interface[v6] && shared_interface_source(&d->config, s->interface[v6], v6, &source))
			send_frame(s, v6, frame, shared_frame_router(frame, &source, s->programs.hardware));
	}
}

/* Announces the addresses to neighbours again whenever this node gets a share, or a different one. */
static void follow_lease(struct dprd *d)
{
	struct shared *s = d->shared;
	struct shared_lease lease;
	bool has_lease = shared_lease_read(d, &lease) && clock_flow_ns() < lease.until_ns;

	if (has_lease && (!s->had_lease || lease.changed_ns != s->announced_change_ns)) {
		s->announced_change_ns = lease.changed_ns;
		s->announcements = ANNOUNCEMENTS - 1;
		announce_addresses(d);
	}
	s->had_lease = has_lease;
}

void shared_tick(struct dprd *d, uint64_t now_ms)
{
	struct shared *s = d->shared;

	if (!s || !(s->programs.key[0] | s->programs.key[1]))
		return;
	if (s->used != SHARED_USES_NONE)
		follow_lease(d);
	if (now_ms - s->second_ms < 1000)
		return;
	s->second_ms = now_ms;
	set_up(d);
	shared_lease_offer(d);
	if (s->announcements && s->had_lease) {
		s->announcements--;
		announce_addresses(d);
	}
	/* The kernel module advertises itself. */
	if (s->used == SHARED_USES_BPF && (!s->router_ms || now_ms - s->router_ms >= SHARED_ADVERTISEMENT_S * 1000)) {
		s->router_ms = now_ms;
		announce_router(d);
	}
}

bool shared_works(const struct dprd *d)
{
	return d->shared && d->shared->used != SHARED_USES_NONE;
}

const struct fastpath_shared *shared_programs(const struct dprd *d)
{
	return shared_works(d) ? &d->shared->programs : NULL;
}

void shared_count(struct dprd *d, const uint64_t counters[BIACTIVE_COUNTER_COUNT])
{
	unsigned i;

	mutex_assert_held(&d->lock);
	for (i = 0; d->shared && i < BIACTIVE_COUNTER_COUNT; i++)
		d->shared->counters[i] += counters[i];
}

static void leave_interfaces(const struct config *config)
{
	char name[INTERFACE_BYTES], why[SHARED_WHY_BYTES];
	uint8_t mac[6];
	unsigned i;

	for (i = 0; i < config->shared_count; i++) {
		if (!shared_interface_find(config, !addr_is_v4(&config->shared[i]), name, why))
			continue;
		config_shared_mac(config, &config->shared[i], mac);
		shared_interface_join(name, mac, false);
	}
}

void shared_close(struct dprd *d, bool keep)
{
	struct shared *s = d->shared;

	if (!s)
		return;
	if (!keep)
		leave_interfaces(&d->config);
	if (s->packet_fd >= 0)
		close(s->packet_fd);
	if (s->loadcast_fd >= 0)
		close(s->loadcast_fd);
	sodium_memzero(s, sizeof(*s));
	free(s);
	d->shared = NULL;
}

void shared_purge(const struct config *config)
{
	leave_interfaces(config);
	if (config->shared_count && config->shared_form != SHARED_BPF)
		shared_module_clear();
}
