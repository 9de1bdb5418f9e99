// SPDX-License-Identifier: GPL-2.0-or-later
/* control/shared.c - the part of the status about shared addresses. */
#include "dprd/base/clock.h"
#include "dprd/control/control.h"
#include "dprd/plane/plane.h"
#include "dprd/shared/module.h"
#include "dprd/shared/shared.h"

/* Every 8th bucket is counted: that is exact to a tenth of a percent. */
enum { BUCKET_STEP = 8 };

static void measure_parts(struct shared *s, const struct shared_lease *lease)
{
	unsigned counts[BUCKET_MEMBERS_MAX] = { 0 }, bucket, i;

	if (s->parts_of_ns == lease->changed_ns)
		return;
	s->parts_of_ns = lease->changed_ns;
	for (bucket = 0; bucket < BUCKETS; bucket += BUCKET_STEP) {
		uint32_t owner = bucket_owner(&lease->share, bucket);

		for (i = 0; i < lease->share.count; i++)
			counts[i] += lease->share.member[i].id == owner;
	}
	for (i = 0; i < BUCKET_MEMBERS_MAX; i++)
		s->part[i] = (counts[i] * 1000 * BUCKET_STEP + BUCKETS / 2) / BUCKETS;
}

static json_t *members_json(struct dprd *d, const struct shared_lease *lease)
{
	json_t *members = json_array();
	char name[NAME_BYTES];
	unsigned i;

	for (i = 0; i < lease->share.count; i++) {
		const struct bucket_member *m = &lease->share.member[i];

		json_array_append_new(members,
				      json_pack("{s:o, s:b, s:I, s:o}", "name",
						control_text(control_node_name(&d->config, m->id, name)), "self",
						m->id == lease->share.self_id, "weight", (json_int_t)m->weight,
						"percent", control_real(d->shared->part[i] / 10.0)));
	}
	return members;
}

static json_t *addresses_json(const struct dprd *d)
{
	char text[ADDR_TEXT_BYTES], hardware[18];
	json_t *addresses = json_array();
	uint8_t mac[6];
	unsigned i;

	for (i = 0; i < d->config.shared_count; i++) {
		const struct addr *address = &d->config.shared[i];

		config_shared_mac(&d->config, address, mac);
		snprintf(hardware, sizeof(hardware), "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3],
			 mac[4], mac[5]);
		json_array_append_new(addresses,
				      json_pack("{s:s, s:s, s:s}", "address", addr_format(address, text), "mac",
						hardware, "interface", d->shared->interface[!addr_is_v4(address)]));
	}
	return addresses;
}

static json_t *counters_json(const uint64_t counters[BIACTIVE_COUNTER_COUNT])
{
	json_t *made = json_object();
	unsigned i;

	for (i = 0; i < BIACTIVE_COUNTER_COUNT; i++)
		json_object_set_new(made, shared_module_counter_name(i), json_integer((json_int_t)counters[i]));
	return made;
}

static void take_counters(struct dprd *d, uint64_t counters[BIACTIVE_COUNTER_COUNT])
{
	struct shared_module_state state;

	if (d->shared->used == SHARED_USES_MODULE) {
		if (!shared_module_get(&state))
			memcpy(counters, state.counters, sizeof(state.counters));
		return;
	}
	mutex_lock(&d->lock);
	plane_count(d);
	memcpy(counters, d->shared->counters, sizeof(d->shared->counters));
	mutex_unlock(&d->lock);
}

json_t *control_status_shared(struct dprd *d)
{
	static const char *const forms[] = { "none", "module", "bpf" };
	uint64_t counters[BIACTIVE_COUNTER_COUNT] = { 0 }, now_ns = clock_flow_ns();
	struct shared_lease lease = { 0 };
	struct shared *s = d->shared;
	double percent = 0;
	json_t *status;
	bool known;
	unsigned i;

	if (!s)
		return json_null();
	known = shared_lease_read(d, &lease);
	measure_parts(s, &lease);
	for (i = 0; i < lease.share.count; i++)
		percent += lease.share.member[i].id == lease.share.self_id ? s->part[i] / 10.0 : 0;
	take_counters(d, counters);
	status = json_pack("{s:s, s:o, s:o}", "form", forms[s->used], "why", control_text(s->why), "addresses",
			   addresses_json(d));
	json_object_set_new(status, "lease_ms",
			    known && lease.until_ns > now_ns
				    ? json_integer((json_int_t)((lease.until_ns - now_ns) / 1000000))
				    : json_null());
	json_object_set_new(status, "changed_ms",
			    known ? json_integer((json_int_t)((now_ns - lease.changed_ns) / 1000000)) : json_null());
	json_object_set_new(status, "percent", control_real(percent));
	json_object_set_new(status, "members", members_json(d, &lease));
	json_object_set_new(status, "counters", counters_json(counters));
	return status;
}
