// SPDX-License-Identifier: GPL-2.0-or-later
/* site.c - the cluster of the fixtures. */
#include "tests/bpf/site.h"

#include <stdlib.h>

#include "dprd/core/flow/memory.h"
#include "dprd/shared/module.h"

enum { MAX_FLOWS = 100, MTU = 1500 };

static const char head[] = "[Cluster]\nName=test\n[Node]\nName=n1\n[Service]\nPort=80 443\n"
			   "[Shared]\nAddress=198.51.100.200 198.51.100.201 2001:db8:5::200 2001:db8:5::201\n";

/* Frames to shared addresses are judged on the loopback interface, where test runs come in. */
static const struct fastpath_shared site_shared = { .key = { 0x0706050403020100, 0x0f0e0d0c0b0a0908 },
						    .interface = { 1, 1 },
						    .hardware = { 2, 0, 0, 0, 0, 1 } };

/* Own cluster addresses; one address each; own cluster addresses and Decide=kernel. */
enum { PLANES = 3 };

static struct plane planes[PLANES];
static bool opened[PLANES];
static uint32_t made_tick; /* when the flows of this test were made */

const char *site_variant_name(unsigned variant)
{
	static const char *const names[SITE_VARIANTS] = { "v4 own",   "v6 own",    "v4 alias",
							  "v6 alias", "v4 kernel", "v6 kernel" };

	return names[variant];
}

/* A service address of each family that a reload has taken out. */
static void add_former(struct config *config, unsigned member, bool alias)
{
	static const char *const nets[2] = { "198.51.100.9", "2001:db8:5::9" };
	struct member *m = &config->member[member];
	char text[ADDR_TEXT_BYTES];

	for (unsigned v6 = 0; v6 < 2; v6++) {
		unsigned place = member_services(m);

		snprintf(text, sizeof(text), "%s%u", nets[v6], member + 1);
		if (!addr_parse(text, &m->service[place]))
			plane_give_up("no address: %s", text);
		if (alias && member != config->self)
			m->alias[place] = config_alias_at(config, !v6, 100 + member);
		m->former_count++;
	}
	config->former_services = true;
}

static void open_plane(struct plane *p, bool alias, bool in_kernel)
{
	char text[2048];
	size_t used =
		(size_t)snprintf(text, sizeof(text), "%s[Datapath]\nDecide=%s\n", head, in_kernel ? "kernel" : "queue");
	unsigned n;

	for (n = 1; n <= SITE_MEMBERS; n++) {
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 "[Member \"n%u\"]\nService=198.51.100.%u\nService=198.51.100.1%u\n"
					 "Service=2001:db8:5::%u\nService=2001:db8:5::1%u\n",
					 n, n, n, n, n);
		if (!alias)
			used += (size_t)snprintf(text + used, sizeof(text) - used,
						 "Cluster=10.0.0.%u\nCluster=fd00::%u\n", n, n);
	}
	plane_open(p, text, MAX_FLOWS);
	p->living = 0x7;
	p->shared = &site_shared;
	p->config.former_port[p->config.former_port_count++] = SITE_FORMER_PORT;
	add_former(&p->config, 0, alias);
	add_former(&p->config, 1, alias);
	plane_fill(p);
}

struct plane *site_plane(unsigned variant)
{
	unsigned which = variant & SITE_KERNEL ? 2 : variant & SITE_ALIAS ? 1 : 0;

	if (!opened[which])
		open_plane(&planes[which], which == 1, which == 2);
	opened[which] = true;
	return &planes[which];
}

void site_close(void)
{
	unsigned i;

	for (i = 0; i < PLANES; i++) {
		if (opened[i])
			plane_close(&planes[i]);
	}
}

/* --- names --- */

static bool find_literal(const char *name, bool v6, struct addr *ret)
{
	static const struct {
		const char *name, *text[2];
	} hosts[] = {
		{ "cl", { "192.0.2.10", "2001:db8:c::10" } },      { "rt", { "203.0.113.9", "2001:db8:f::9" } },
		{ "xx", { "203.0.113.77", "2001:db8:f::77" } },    { "sh", { "198.51.100.200", "2001:db8:5::200" } },
		{ "si", { "198.51.100.201", "2001:db8:5::201" } },
	};
	unsigned i;

	for (i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		if (strcmp(name, hosts[i].name) == 0)
			return addr_parse(hosts[i].text[v6], ret);
	}
	return addr_parse(name, ret);
}

static bool find_address(const void *context, const char *name, bool v6, struct addr *ret)
{
	const struct config *config = &((const struct plane *)context)->config;
	unsigned member = (unsigned)(name[1] - '1'), service;

	if (strlen(name) != 2 || member >= SITE_MEMBERS || !strchr("stcablmfg", name[0]))
		return find_literal(name, v6, ret);
	if (name[0] == 'c') {
		*ret = v6 ? config->member[member].cluster_v6 : config->member[member].cluster_v4;
		return true;
	}
	service = strchr("fg", name[0]) ? 4u + v6 : 2u * v6 + (strchr("tbm", name[0]) != NULL);
	*ret = config_alias(config, member, service);
	if (strchr("stf", name[0]) || (strchr("lmg", name[0]) && addr_is_zero(ret)))
		*ret = config->member[member].service[service];
	return !addr_is_zero(ret);
}

static bool find_hardware(const void *context, const char *name, uint8_t ret[6])
{
	static const char *const names[] = { "gw", "me", "n2", "n3", "n4" };
	static const uint8_t shared[2][6] = { { 0x01, 0x00, 0x5e, 0x33, 0x64, 0xc8 },
					      { 0x33, 0x33, 0, 0, 0x02, 0x00 } };
	unsigned i;

	(void)context;
	memset(ret, 0, 6);
	if (strcmp(name, "lo") == 0)
		return true;
	if (strcmp(name, "ff") == 0) {
		memset(ret, 0xff, 6);
		return true;
	}
	if (strcmp(name, "all") == 0 || strcmp(name, "all6") == 0) {
		memcpy(ret, shared[strcmp(name, "all6") == 0], 6);
		return true;
	}
	ret[0] = 2;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		ret[5] = (uint8_t)i;
		if (strcmp(name, names[i]) == 0)
			return true;
	}
	return false;
}

struct craft_names site_names(unsigned variant)
{
	return (struct craft_names) { .v6 = variant & SITE_V6,
				      .address = find_address,
				      .hardware = find_hardware,
				      .context = site_plane(variant) };
}

/* --- real servers --- */

static struct fastpath_tables *tables_in_use(unsigned variant)
{
	struct fastpath *f = site_plane(variant)->fastpath;

	return &f->tables[f->control->active];
}

static uint8_t index_of(unsigned variant, unsigned member)
{
	struct plane *p = site_plane(variant);

	return (uint8_t)flow_table_node(p->flows, p->config.member[member].id, true);
}

void site_choices(unsigned variant, const char *word)
{
	struct fastpath_tables *t = tables_in_use(variant);
	uint8_t *mine = t->choice + (variant & SITE_V6 ? FASTPATH_CHOICES : 0);

	t->choices = !word ? 0 : strchr(word, '+') ? CHOICES | CHOICES_HERE : CHOICES;
	/* A read of the wrong place, or of the other family's half, gives n4. */
	memset(t->choice, index_of(variant, 3), sizeof(t->choice));
	if (!word)
		return;
	memset(mine, strncmp(word, "nobody", 6) == 0 ? 0 : index_of(variant, (unsigned)(word[1] - '1')),
	       FASTPATH_CHOICES);
}

void site_inside(unsigned variant, const char *name)
{
	struct fastpath_tables *t = tables_in_use(variant);
	struct addr address;

	t->inside.count = 0;
	if (!name)
		return;
	find_address(site_plane(variant), name, variant & SITE_V6, &address);
	/* The first network has neither address. */
	t->inside.network[0] = inside_network_of(&(struct addr) { .words = { 1, 2, 3, 4 } }, 128);
	t->inside.network[1] = inside_network_of(&address, 126);
	t->inside.count = 2;
}

void site_shared_frames(unsigned variant, unsigned interface, bool by_module)
{
	struct fastpath_tables *t = tables_in_use(variant);

	t->shared_interface[0] = t->shared_interface[1] = interface;
	t->shared_by_module = by_module;
}

/* --- before a test --- */

static void fill_way(struct plane *p, unsigned member, bool v6)
{
	const struct member *self = &p->config.member[0], *to = &p->config.member[member];
	struct fastpath_way *way = plane_way(p, member, v6);

	memset(way, 0, sizeof(*way));
	if (member == 0) {
		way->flags = WAY_SELF;
		return;
	}
	way->source = v6 ? self->cluster_v6 : self->cluster_v4;
	way->destination = v6 ? to->cluster_v6 : to->cluster_v4;
	way->hardware[0] = way->hardware[6] = 2;
	way->hardware[5] = (uint8_t)(member + 1);
	way->hardware[11] = 1;
	way->mtu = (uint16_t)(MTU - (v6 ? 40 : 20));
	way->flags = WAY_USABLE | WAY_ETHERNET;
	way->interface = 1;
	way->hardware_tick = plane_tick(p);
}

void site_reset(unsigned variant)
{
	struct plane *p = site_plane(variant);
	unsigned member, v6;

	plane_set_flows(p, 0);
	plane_forget_answers(p);
	p->fastpath->control->decisions_seen = p->fastpath->control->decisions;
	for (member = 0; member < SITE_MEMBERS; member++) {
		for (v6 = 0; v6 < 2; v6++)
			fill_way(p, member, v6);
	}
	site_choices(variant, NULL);
	site_inside(variant, NULL);
	site_shared_frames(variant, 1, false);
	plane_beat(p, 0, 0);
	plane_forget_counters(p);
	made_tick = plane_tick(p);
}

static void make_fellow(struct fastpath_way *way)
{
	way->flags |= WAY_FELLOW;
	way->fellow[0] = 2;
	way->fellow[5] = 4;
}

static void make_direct(struct fastpath_way *way)
{
	way->flags |= WAY_DIRECT;
	way->mtu = MTU;
}

void site_way(unsigned variant, const char *words)
{
	struct fastpath_way *way = plane_way(site_plane(variant), 1, variant & SITE_V6);
	char text[64], *rest = NULL, *w;

	snprintf(text, sizeof(text), "%s", words ? words : "");
	for (w = strtok_r(text, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
		if (strcmp(w, "unusable") == 0)
			way->flags &= (uint16_t)~WAY_USABLE;
		else if (strcmp(w, "self") == 0)
			way->flags = WAY_SELF;
		else if (strcmp(w, "none") == 0)
			memset(way, 0, sizeof(*way));
		else if (strcmp(w, "stale") == 0)
			way->hardware_tick = plane_tick(site_plane(variant)) - FASTPATH_MAC_TICKS - 2;
		else if (strcmp(w, "unknown") == 0)
			way->hardware_tick = 0;
		else if (strcmp(w, "raw") == 0)
			way->flags &= (uint16_t)~WAY_ETHERNET;
		else if (strcmp(w, "watches") == 0)
			way->flags |= WAY_WATCHES;
		else if (strcmp(w, "fellow") == 0)
			make_fellow(way);
		else if (strcmp(w, "direct") == 0)
			make_direct(way);
		else if (strcmp(w, "nat") == 0)
			*way = (struct fastpath_way) { .flags = WAY_USABLE | WAY_NAT,
						       .mark = plane_next_number(&rest) << 24 };
		else if (strcmp(w, "mtu") == 0)
			way->mtu = (uint16_t)plane_next_number(&rest);
		else
			plane_give_up("no word for a way: %s", words);
	}
}

/* --- flows --- */

static const char *const state_names[] = { "half_open", "confirmed", "closing", "reset" };

/* A flow, read from its words. */
struct words {
	unsigned state, member, isn, age;
	bool overflow, unoccupied;
	struct flow_key key;
};

static void parse_flow(unsigned variant, const char *words, struct words *ret)
{
	const struct craft_names names = site_names(variant);
	char text[SITE_FLOW_BYTES], *rest = NULL, *w, *v;

	memset(ret, 0, sizeof(*ret));
	find_address(names.context, "cl", names.v6, &ret->key.client);
	find_address(names.context, "s1", names.v6, &ret->key.service);
	ret->key.client_port = htons(40000);
	ret->key.service_port = htons(80);
	snprintf(text, sizeof(text), "%s", words);
	w = strtok_r(text, " ", &rest);
	while (ret->state < 4 && strcmp(w, state_names[ret->state]) != 0)
		ret->state++;
	w = strtok_r(NULL, " ", &rest);
	ret->member = (unsigned)(w[1] - '1');
	while ((w = strtok_r(NULL, " ", &rest))) {
		ret->overflow |= strcmp(w, "overflow") == 0;
		ret->unoccupied |= strcmp(w, "unoccupied") == 0;
		if (strcmp(w, "overflow") == 0 || strcmp(w, "unoccupied") == 0)
			continue;
		v = strtok_r(NULL, " ", &rest);
		if (v && strcmp(w, "isn") == 0)
			ret->isn = (unsigned)atoi(v);
		else if (v && strcmp(w, "age") == 0)
			ret->age = (unsigned)atoi(v);
		else if (v && strcmp(w, "from") == 0)
			ret->key.client_port = htons((uint16_t)atoi(v));
		else if (v && strcmp(w, "port") == 0)
			ret->key.service_port = htons((uint16_t)atoi(v));
		else if (!v || strcmp(w, "to") != 0 || !find_address(names.context, v, names.v6, &ret->key.service))
			plane_give_up("no flow: %s", words);
	}
	if (ret->state > 3 || ret->member >= SITE_MEMBERS)
		plane_give_up("no flow: %s", words);
}

static void insert(struct flow_table *t, const struct flow_search *s, const struct words *words)
{
	int node = flow_table_node(
		t, words->member ? member_id((char[]) { 'n', (char)('1' + words->member), '\0' }) : member_id("n1"),
		true);
	uint32_t state = (made_tick - words->age) << FLOW_TIME_SHIFT | words->state;

	if (node < 0 || !flow_insert(t, s, words->isn << FLOW_SEQUENCE_SHIFT | (uint32_t)node, state))
		plane_give_up("no room for a flow");
}

static void search_of(const struct flow_table *t, const struct flow_key *key, struct flow_search *ret)
{
	int service = flow_table_service((struct flow_table *)(uintptr_t)t, &key->service, key->service_port, true);

	if (service < 0)
		plane_give_up("no room for a service");
	flow_search_key(t, key, (unsigned)service, ret);
}

/* Other clients' flows until this bucket is full. */
static void fill_bucket(struct flow_table *t, const struct words *words, uint32_t bucket)
{
	struct words other = { .member = 2, .isn = 7, .key = words->key };
	struct flow_search s;
	unsigned count = addr_is_v4(&words->key.client) ? FLOW_BUCKET_SLOTS : FLOW_BUCKET_SLOTS / 2, port;

	for (port = 1024; port < 40000 && count; port++) {
		other.key.client_port = htons((uint16_t)port);
		search_of(t, &other.key, &s);
		if (s.bucket != bucket)
			continue;
		insert(t, &s, &other);
		count--;
	}
}

void site_add_flow(unsigned variant, const char *text)
{
	struct flow_table *t = site_plane(variant)->flows;
	struct flow_search s;
	struct words words;

	parse_flow(variant, text, &words);
	search_of(t, &words.key, &s);
	if (words.overflow)
		fill_bucket(t, &words, s.bucket);
	insert(t, &s, &words);
	if (words.overflow != (flow_slot_find(t, &s) >= flow_bucket_at(t, s.bucket + 1)->slot))
		plane_give_up("the flow does not lie where it should: %s", text);
	if (words.unoccupied)
		memset(plane_occupied(site_plane(variant)), 0, plane_occupied_bytes(site_plane(variant)));
}

static struct flow_slot *slot_of(unsigned variant, const char *text)
{
	struct flow_table *t = site_plane(variant)->flows;
	struct flow_search s;
	struct words words;

	parse_flow(variant, text, &words);
	search_of(t, &words.key, &s);
	return flow_slot_find(t, &s);
}

void site_flow_text(unsigned variant, const char *words, char text[SITE_FLOW_BYTES])
{
	const struct plane *p = site_plane(variant);
	const struct flow_slot *slot = slot_of(variant, words);
	uint32_t tick, now = plane_tick(p);
	int member;

	snprintf(text, SITE_FLOW_BYTES, "none");
	if (!slot)
		return;
	member = config_member_by_id(&p->config, flow_table_node_id(p->flows, slot->target & FLOW_NODE_MASK));
	tick = slot->state >> FLOW_TIME_SHIFT;
	snprintf(text, SITE_FLOW_BYTES, "%s n%d isn %u age %u", state_names[slot->state & FLOW_STATE_MASK], member + 1,
		 slot->target >> FLOW_SEQUENCE_SHIFT, (made_tick - tick) & (FLOW_TICKS - 1));
	/*
	 * A flow made now looks like one seen now: its age is then 0. And the clock may just have been set back by a
	 * jiffy.
	 */
	if (((tick - made_tick) & (FLOW_TICKS - 1)) <= now + 1 - made_tick && !strstr(words, " age 0"))
		snprintf(strstr(text, " age"), 5, " now");
}

void *site_flows_copy(unsigned variant, const char *except)
{
	const struct plane *p = site_plane(variant);
	size_t bytes = plane_bucket_bytes(p);
	uint8_t *copy = malloc(bytes);
	struct flow_slot *slot = except ? slot_of(variant, except) : NULL;

	if (!copy)
		plane_give_up("no memory");
	memcpy(copy, plane_buckets(p), bytes);
	if (slot) {
		size_t at = (size_t)((uint8_t *)slot - (uint8_t *)plane_buckets(p));

		/* The overflow bit belongs to the bucket, not to the flow. */
		((struct flow_slot *)(void *)(copy + at))->state &= FLOW_OVERFLOW;
		((struct flow_slot *)(void *)(copy + at))->target = 0;
		((struct flow_slot *)(void *)(copy + at))->key = 0;
		if (variant & SITE_V6)
			memset(copy + at + sizeof(*slot), 0, sizeof(*slot));
	}
	return copy;
}

/* --- decisions in the kernel --- */

static unsigned reason_of(const char *name)
{
	enum reason reason = 0;

	while (reason < REASONS && strcmp(reason_name(reason), name) != 0)
		reason++;
	if (reason == REASONS)
		plane_give_up("no reason: %s", name);
	return reason;
}

void site_schedule(unsigned variant, const char *words, const char *no_room)
{
	struct plane *p = site_plane(variant);
	struct fastpath_schedule *s = fastpath_schedule(p->fastpath, variant & SITE_V6, true);
	char text[256], *rest = NULL, *w;

	p->fastpath->control->made = 0;
	p->fastpath->control->room = no_room ? 0 : MAX_FLOWS;
	p->fastpath->control->room_reason = no_room ? reason_of(no_room) : 0;
	*fastpath_cursor(p->fastpath, variant & SITE_V6, true) = s->count = 0;
	snprintf(text, sizeof(text), "%s", words);
	for (w = strtok_r(text, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
		const char *alternative = strchr(w, '+');
		unsigned member = (unsigned)(w[1] - '1'), reason;
		int node = flow_table_node(p->flows, p->config.member[member].id, false);

		if (alternative)
			w[alternative - w] = '\0';
		reason = reason_of(w + 3);
		s->entry[s->count++] = (alternative ? (uint32_t)atoi(alternative + 1) << 16 : 0) |
				       (member ? (uint32_t)node << 8 : 0) | reason;
	}
}

/* --- counters --- */

static void append(char *text, size_t bytes, const char *name, uint64_t count)
{
	size_t used = strlen(text);

	if (!count)
		return;
	used += (size_t)snprintf(text + used, bytes - used, "%s%s", used ? " " : "", name);
	if (count > 1 && used < bytes)
		snprintf(text + used, bytes - used, "*%llu", (unsigned long long)count);
}

void site_counted(unsigned variant, char *text, size_t bytes, struct fastpath_counters *ret)
{
	enum reason reason;
	unsigned shared;

	*text = '\0';
	fastpath_counters_take(site_plane(variant)->fastpath, ret);
	for (reason = 0; reason < REASONS; reason++)
		append(text, bytes, reason_name(reason), ret->reason[reason]);
	append(text, bytes, "too_big", ret->too_big_sent);
	append(text, bytes, "stranger", ret->strangers);
	for (shared = 0; shared < BIACTIVE_COUNTER_COUNT; shared++)
		append(text, bytes, shared_module_counter_name(shared), ret->shared[shared]);
	append(text, bytes, "syn", ret->syns);
	append(text, bytes, "made", ret->flows_made);
}
