// SPDX-License-Identifier: GPL-2.0-or-later
#include "loadcast/core/table.h"

static uint64_t dead_ms(const struct table *table)
{
	return (uint64_t)table->config->dead_periods * table->config->period_ms;
}

static bool is_self(const struct table *table, unsigned member)
{
	return !table->observer && member == table->config->self;
}

void table_init(struct table *table, const struct config *config, bool observer, uint64_t epoch)
{
	memset(table, 0, sizeof(*table));
	table->observer = observer;
	table->epoch = epoch;
	table_reconfigure(table, config);
}

/* The bits in the order of the new ports. A new port has no state before the member announces again. */
static uint32_t ports_down_now(const struct table *table, const struct config *config, uint32_t down)
{
	uint32_t now = 0;
	unsigned i, j;

	for (i = 0; i < config->port_count; i++) {
		for (j = 0; j < table->port_count && table->port[j] != config->port[i]; j++)
			;
		now |= (j < table->port_count ? down >> j & 1 : 1U) << i;
	}
	return now;
}

static void take_config(struct table *table, const struct config *config)
{
	table->config = config;
	table->self_id = table->observer ? 0 : config->member[config->self].id;
	table->service_hash = config_service_hash(config);
	table->port_count = config->port_count;
	memcpy(table->port, config->port, sizeof(table->port));
}

void table_reconfigure(struct table *table, const struct config *config)
{
	struct table_member old[MEMBERS_MAX];
	unsigned i, j;

	memcpy(old, table->member, sizeof(old));
	memset(table->member, 0, sizeof(table->member));
	for (i = 0; i < config->member_count; i++) {
		table->member[i].id = config->member[i].id;
		for (j = 0; j < MEMBERS_MAX; j++) {
			if (old[j].id == config->member[i].id)
				table->member[i] = old[j];
		}
		table->member[i].ports_down = ports_down_now(table, config, table->member[i].ports_down);
	}
	take_config(table, config);
}

/* True while the last that came of a member, not long ago, was not accepted. */
static bool is_rejected(const struct table_member *m, uint64_t now_ms)
{
	return m->rejected && now_ms - m->rejected_ms < TABLE_REJECTED_MS;
}

/* True for a member that is not heard because its announcements are not accepted. */
static bool is_kept_out(const struct table *table, const struct table_member *m, uint64_t now_ms)
{
	return is_rejected(m, now_ms) && !(m->heard && now_ms - m->heard_ms <= dead_ms(table));
}

/* True when we sent this sequence, at *ret_ms; false also when that is too long ago to be remembered. */
static bool sent_at(const struct table *table, uint64_t sequence, uint64_t *ret_ms)
{
	if (!sequence || sequence > table->sequence || table->sequence - sequence >= TABLE_SENT_MAX)
		return false;
	*ret_ms = table->sent_ms[sequence % TABLE_SENT_MAX];
	return true;
}

static bool has_address(const struct member *member, const struct addr *source)
{
	return !addr_is_zero(source) &&
	       (addr_equal(&member->cluster_v4, source) || addr_equal(&member->cluster_v6, source));
}

static bool has_service_address(const struct member *member, const struct addr *source)
{
	for (unsigned i = 0; i < member->service_count; i++) {
		if (addr_equal(&member->service[i], source))
			return true;
	}
	return false;
}

/*
 * The member that may send this announcement: it comes from that member's cluster address and has its id. Our own id
 * may come from any member's address, because we must hear of a host that took our name by mistake.
 */
static int find_sender(const struct table *table, const struct addr *source, uint32_t id)
{
	const struct config *config = table->config;
	int member = config_member_by_id(config, id);
	unsigned i;

	if (member < 0 || has_address(&config->member[member], source))
		return member;
	/* Questions and answers about shares come on the clients' network, too. */
	if (table->share && has_service_address(&config->member[member], source))
		return member;
	for (i = 0; is_self(table, (unsigned)member) && i < config->member_count; i++) {
		if (has_address(&config->member[i], source))
			return member;
	}
	return -1;
}

static bool take_token(const struct table *table, const struct table_member *m, struct token_bucket *bucket,
		       uint64_t now_ms)
{
	unsigned own_ms = table->config->period_ms;
	unsigned period_ms = m->period_ms && m->period_ms < own_ms ? m->period_ms : own_ms;
	unsigned factor = table->share ? TABLE_RATE_FACTOR_SHARED : TABLE_RATE_FACTOR;
	uint64_t passed_ms = now_ms - bucket->filled_ms, tokens;

	/* A bucket never used was filled at time 0, so it is full. */
	if (passed_ms > 1000ULL * period_ms)
		passed_ms = 1000ULL * period_ms;
	tokens = bucket->tokens_milli + passed_ms * 1000 * factor / period_ms;
	if (tokens > 1000 * TABLE_RATE_BURST)
		tokens = 1000 * TABLE_RATE_BURST;
	/* A time too short for a thousandth of a token must not be lost: the clock moves only with the tokens. */
	if (tokens != bucket->tokens_milli)
		bucket->filled_ms = now_ms;
	bucket->tokens_milli = (uint32_t)tokens;
	if (tokens < 1000)
		return false;
	bucket->tokens_milli -= 1000;
	return true;
}

static bool is_current(const struct table_member *m, const struct announce_header *header)
{
	return m->heard && header->epoch == m->epoch;
}

/*
 * The cheap checks before the MAC, which refuse copies and old announcements. Epochs other than the known one have a
 * token bucket of their own, so that replayed or guessed epochs cost the living sender nothing.
 */
static enum reject check_cheap(struct table *table, struct table_member *m, const struct announce_header *header,
			       uint64_t now_ms)
{
	if (!table->observer && header->sender == table->self_id && header->epoch == table->epoch)
		return REJECT_OWN;
	if (!is_current(m, header))
		return take_token(table, m, &m->other, now_ms) ? REJECT_NONE : REJECT_RATE;
	if (header->sequence == m->sequence)
		return REJECT_DUPLICATE;
	if (header->sequence < m->sequence)
		return m->sequence - header->sequence <= TABLE_LATE_MAX ? REJECT_LATE : REJECT_OLD_SEQUENCE;
	return REJECT_NONE;
}

/* The freshness of a message, proven by its echo of our announcements. */
struct proof {
	bool echoed; /* it echoes a sequence that we did send, at sent_ms */
	bool recent; /* and we sent it not long ago */
	uint64_t sequence, sent_ms;
	uint32_t grant;
	unsigned place; /* of the echo in the lists; MEMBERS_MAX: there is none */
};

static struct proof find_proof(const struct table *table, const struct announcement *a, uint64_t now_ms)
{
	struct proof proof = { .place = MEMBERS_MAX };
	unsigned i;

	for (i = 0; !table->observer && i < a->echo_count; i++) {
		if (a->echo[i].node != table->self_id || a->echo[i].epoch_low != announce_epoch_low(table->epoch))
			continue;
		proof.sequence = a->echo[i].sequence;
		proof.grant = a->echo[i].grant;
		proof.place = i;
		proof.echoed = sent_at(table, proof.sequence, &proof.sent_ms);
		proof.recent = proof.echoed && now_ms - proof.sent_ms <= dead_ms(table);
		break;
	}
	return proof;
}

static void start_epoch(const struct table *table, struct table_member *m, uint64_t epoch, bool proven)
{
	m->retired = proven && m->heard;
	m->retired_epoch = m->epoch;
	m->switched_sequence = table->sequence;
	m->heard = true;
	m->epoch = epoch;
	m->sequence = 0;
	m->echoed = false;
	memset(m->unproven, 0, sizeof(m->unproven));
	memset(m->narrow, 0, sizeof(m->narrow));
	memset(m->version, 0, sizeof(m->version));
}

/*
 * Decides about a message of an epoch other than the known one.
 *
 * A former run of the sender died before we took anything of the present run. So it can only echo announcements from
 * before that: an echo of a later one comes from a run that is alive now.
 */
static enum reject judge_epoch(const struct table *table, struct table_member *m, uint64_t epoch,
			       const struct proof *proof, uint64_t now_ms)
{
	bool proven = proof->recent && proof->sequence > m->switched_sequence;
	bool silent = now_ms - m->heard_ms > dead_ms(table);

	if (m->heard && proven && m->retired && epoch == m->retired_epoch) {
		/* The former run sends after its successor's first announcement: two hosts use one name. */
		m->conflict = true;
		m->conflict_ms = now_ms;
		if (!silent)
			return REJECT_CONFLICT;
	}
	if (m->heard && !proven && !(silent && (epoch > m->epoch || table->observer)))
		return REJECT_OTHER_EPOCH;
	start_epoch(table, m, epoch, proven);
	return REJECT_NONE;
}

/* The member with this source address; -1: none. Another host with our own name is told of as a conflict. */
static int member_at(const struct table *table, const struct addr *source)
{
	unsigned i;

	for (i = 0; i < table->config->member_count; i++) {
		const struct member *m = &table->config->member[i];

		if (!is_self(table, i) && (has_address(m, source) || (table->share && has_service_address(m, source))))
			return (int)i;
	}
	return -1;
}

/*
 * Remembers why nothing is heard of a member: of the one with the source address, or else of the one that the sender
 * claims to be. Nothing here is authentic, so it decides nothing, and only tells an operator where to look.
 */
static void note_rejected(struct table *table, const struct addr *source, uint32_t sender, enum reject reason,
			  uint64_t now_ms)
{
	int at = member_at(table, source), member = at < 0 ? config_member_by_id(table->config, sender) : at;
	enum rejection cause = reject_cause(reason, at >= 0);
	struct table_member *m;

	if (member < 0 || is_self(table, (unsigned)member) || cause == REJECTION_NONE)
		return;
	m = &table->member[member];
	/* The member's own address tells more than its name at a foreign one. */
	if (at < 0 && is_rejected(m, now_ms) && m->rejected != REJECTION_ADDRESS)
		return;
	m->rejected = cause;
	m->rejected_ms = now_ms;
	m->rejected_from = *source;
}

static bool takes_connections(uint32_t state, bool dprd_up)
{
	return state == NODE_ACTIVE && dprd_up;
}

/* The ports configured here that the sender's list does not have, a bit each. */
static uint32_t ports_missing(const struct config *config, const uint16_t *list, unsigned count)
{
	unsigned i, j, down = 0;

	/* Every version announces its ports. */
	if (!count)
		return 0;
	for (i = 0; i < config->port_count; i++) {
		for (j = 0; j < count && list[j] != config->port[i]; j++)
			;
		down |= (unsigned)(j == count) << i;
	}
	return down;
}

/* A node is active when some of its ports work; the others are down. A node whose file lacks ports is active, too. */
static void take_ports_down(const struct config *config, struct announcement *a, uint32_t *ret_down)
{
	unsigned all = (1U << config->port_count) - 1;
	unsigned down = a->serving_count ? ports_missing(config, a->serving, a->serving_count) : all;

	*ret_down = ports_missing(config, a->port, a->port_count);
	if (a->state != NODE_UNHEALTHY || down == all)
		return;
	a->state = NODE_ACTIVE;
	*ret_down |= down;
}

static void take(struct table_member *m, const struct member *configured, const struct announcement *a, uint64_t now_ms)
{
	m->heard_ms = now_ms;
	m->state = a->state;
	m->weight = a->weight < configured->weight ? a->weight : configured->weight;
	m->service_hash = a->service_hash;
	m->period_ms = a->period_ms;
	m->dprd_up = a->dprd_up;
	m->held_permille = a->held_permille;
	m->rejected = REJECTION_NONE;
	m->shorter_times = a->shorter_times;
	m->sample = a->sample;
	memcpy(m->hardware, a->hardware, sizeof(m->hardware));
	/* An announcement without room has no version; within an epoch the version cannot change. */
	if (a->version[0])
		memcpy(m->version, a->version, sizeof(m->version));
}

/* True when one of this node's ways to the member has just lost its proof. */
static bool take_proofs(struct table_member *m, const struct announcement *a, const struct proof *proof)
{
	bool lost = false;

	m->probes = a->dprd_up ? a->probes : PROBES_NONE;
	for (unsigned v6 = 0; v6 < 2; v6++) {
		/* While its dprd starts, and when this echo finds no place, it says nothing new. */
		bool unproven = m->unproven[v6];

		if (a->dprd_up && a->probes == PROBES_NONE)
			unproven = false;
		else if (m->probes == PROBES_JUDGED && proof->place < MEMBERS_MAX)
			unproven = a->unproven[v6] >> proof->place & 1;
		if (proof->place < MEMBERS_MAX)
			m->narrow[v6] = m->probes == PROBES_JUDGED && a->narrow[v6] >> proof->place & 1;
		lost |= unproven && !m->unproven[v6];
		m->unproven[v6] = unproven;
	}
	return lost;
}

static void take_share(struct table *table, unsigned member, const struct announcement *a, const struct proof *proof,
		       uint64_t now_ms)
{
	struct share_said said = {
		.weight = a->share_weight,
		.grant = proof->grant,
		.period_ms = a->period_ms,
		.echoed = proof->echoed,
		.echo_sent_ms = proof->sent_ms,
	};

	if (!table->share)
		return;
	for (unsigned i = 0; i < a->refuse_count; i++) {
		int refused = config_member_by_id(table->config, a->refuse[i]);

		said.refused |= refused >= 0 ? 1ULL << refused : 0;
	}
	share_hear(table->share, member, &said, now_ms);
	for (unsigned i = 0; i < a->ask_count; i++) {
		if (a->ask[i] == table->self_id)
			table->asked_by |= 1ULL << member;
	}
}

/* The cause why the sender does not accept the announcements of this node. */
static uint32_t find_rejection(const struct table *table, const struct announcement *a)
{
	for (unsigned i = 0; !table->observer && i < a->reject_count; i++) {
		if (a->reject[i] == table->self_id)
			return a->reject_cause[i] < REJECTIONS ? a->reject_cause[i] : REJECTION_OTHER;
	}
	return REJECTION_NONE;
}

/* The MAC is right; now the content is decoded and judged. */
static enum reject take_authentic(struct table *table, unsigned member, const struct announce_header *header,
				  const uint8_t *datagram, uint64_t now_ms)
{
	struct table_member *m = &table->member[member];
	struct announcement a;
	struct proof proof;
	enum reject reason;
	uint32_t ports_down;

	if (m->heard && header->epoch == m->epoch)
		m->sequence = header->sequence;
	reason = announce_decode(datagram, header, &a);
	if (reason)
		return reason;
	if (strcmp(a.name, table->config->member[member].name) != 0)
		return REJECT_NAME;
	proof = find_proof(table, &a, now_ms);
	if (!m->heard || header->epoch != m->epoch) {
		reason = judge_epoch(table, m, header->epoch, &proof, now_ms);
		if (reason)
			return reason;
		m->sequence = header->sequence;
	}
	if (proof.echoed) {
		m->echoed = true;
		m->echo_sent_ms = proof.sent_ms;
	}
	take_ports_down(table->config, &a, &ports_down);
	table->lost |= takes_connections(m->state, m->dprd_up) &&
		       (!takes_connections(a.state, a.dprd_up) || (ports_down & ~m->ports_down));
	m->ports_down = ports_down;
	table->lost |= take_proofs(m, &a, &proof);
	take(m, &table->config->member[member], &a, now_ms);
	m->rejects = find_rejection(table, &a);
	if (!is_self(table, member)) {
		take_share(table, member, &a, &proof, now_ms);
		return REJECT_NONE;
	}
	if (proof.recent) {
		m->conflict = true;
		m->conflict_ms = now_ms;
	}
	return REJECT_CONFLICT;
}

static enum reject receive(struct table *table, const struct announce_keys *keys, const struct addr *source,
			   const uint8_t *datagram, size_t size, uint64_t now_ms, struct announce_header *header)
{
	enum reject reason = announce_read_header(datagram, size, header);
	struct table_member *m;
	int member;

	if (reason)
		return reason;
	member = find_sender(table, source, header->sender);
	if (member < 0)
		return REJECT_SOURCE;
	m = &table->member[member];
	reason = check_cheap(table, m, header, now_ms);
	if (!reason)
		reason = announce_verify(datagram, header, keys);
	/*
	 * Tokens are taken only after the MAC: otherwise a forger who sees the traffic could choose whose announcements
	 * are dropped.
	 */
	if (!reason && is_current(m, header) && !take_token(table, m, &m->current, now_ms))
		reason = REJECT_RATE;
	if (!reason)
		reason = take_authentic(table, (unsigned)member, header, datagram, now_ms);
	return reason;
}

enum reject table_receive(struct table *table, const struct announce_keys *keys, const struct addr *source,
			  const uint8_t *datagram, size_t size, uint64_t now_ms)
{
	struct announce_header header = { 0 };
	enum reject reason = receive(table, keys, source, datagram, size, now_ms, &header);

	table->rejected[reason]++;
	if (reason)
		note_rejected(table, source, header.sender, reason, now_ms);
	return reason;
}

static bool is_among(const struct proofs_nodes *nodes, uint32_t id)
{
	for (unsigned i = 0; i < nodes->count && i < PROOFS_NODES_MAX; i++) {
		if (nodes->id[i] == id)
			return true;
	}
	return false;
}

/* Adds dprd's word about the member to the next echo. */
static void fill_proofs(const struct status_proofs *proofs, uint32_t id, struct announcement *a)
{
	for (unsigned v6 = 0; v6 < 2; v6++) {
		a->unproven[v6] |= (uint64_t)is_among(&proofs->unproven[v6], id) << a->echo_count;
		a->narrow[v6] |= (uint64_t)is_among(&proofs->narrow[v6], id) << a->echo_count;
	}
}

/* Members that were silent for long get no echo: they would not accept one so old. */
static void fill_echoes(const struct table *table, uint64_t now_ms, struct announcement *a)
{
	unsigned i, first = (unsigned)(table->sequence % MEMBERS_MAX);

	/* Another member is first each time, so that all get their turn when not all fit. */
	for (i = 0; i < MEMBERS_MAX; i++) {
		const struct table_member *m = &table->member[(first + i) % MEMBERS_MAX];

		if (!m->id || !m->heard || now_ms - m->heard_ms > dead_ms(table))
			continue;
		fill_proofs(&table->own.proofs, m->id, a);
		a->echo[a->echo_count++] = (struct announce_echo) {
			.node = m->id,
			.epoch_low = announce_epoch_low(m->epoch),
			.sequence = m->sequence,
			.grant = table->share ? table->share->peer[(first + i) % MEMBERS_MAX].granted : 0,
		};
	}
}

static void fill_rejections(const struct table *table, uint64_t now_ms, struct announcement *a)
{
	for (unsigned i = 0; i < table->config->member_count; i++) {
		const struct table_member *m = &table->member[i];

		if (!is_kept_out(table, m, now_ms))
			continue;
		a->reject[a->reject_count] = m->id;
		a->reject_cause[a->reject_count++] = m->rejected;
	}
}

static void fill_share(const struct table *table, uint64_t now_ms, struct announcement *a)
{
	if (!table->share)
		return;
	a->shares = true;
	a->share_weight = share_announced(table->share);
	for (unsigned i = 0; i < table->config->member_count; i++) {
		if (share_asks(table->share, i, now_ms))
			a->ask[a->ask_count++] = table->config->member[i].id;
		if (share_refuses(table->share, i, now_ms))
			a->refuse[a->refuse_count++] = table->config->member[i].id;
	}
}

/* To receivers that do not know failing ports, the node as a whole fails. */
static void fill_serving(const struct table *table, struct announcement *a)
{
	const struct config *config = table->config;

	if (!table->own.ports_down || a->state != NODE_ACTIVE)
		return;
	a->state = NODE_UNHEALTHY;
	for (unsigned i = 0; i < config->port_count; i++) {
		if (!(table->own.ports_down >> i & 1))
			a->serving[a->serving_count++] = config->port[i];
	}
}

static void fill_own(const struct table *table, struct announcement *a)
{
	const struct config *config = table->config;
	const struct member *self = &config->member[config->self];

	memcpy(a->name, self->name, sizeof(a->name));
	a->state = table->own.state;
	a->weight = self->weight;
	a->period_ms = config->period_ms;
	a->service_hash = table->own.service_hash ? table->own.service_hash : table->service_hash;
	a->dprd_up = table->own.dprd_up;
	a->sample = table->own.sample;
	memcpy(a->hardware, table->own.hardware, sizeof(a->hardware));
	memcpy(a->version, table->own.version, sizeof(a->version));
	if (!addr_is_zero(&self->cluster_v4))
		a->cluster[a->cluster_count++] = self->cluster_v4;
	if (!addr_is_zero(&self->cluster_v6))
		a->cluster[a->cluster_count++] = self->cluster_v6;
	a->service_count = self->service_count;
	memcpy(a->service, self->service, sizeof(a->service));
	a->port_count = table->own.port_count ? table->own.port_count : config->port_count;
	memcpy(a->port, table->own.port_count ? table->own.port : config->port, sizeof(a->port));
	a->held_permille = table->own.held_permille;
	a->shorter_times = table->own.shorter_times;
	a->probes = table->own.dprd_up ? table->own.proofs.probes : PROBES_NONE;
	fill_serving(table, a);
}

/* Leaves something out of an announcement that is too long. False when nothing is left to leave out. */
static bool shorten(struct announcement *a)
{
	if (a->reject_count) {
		a->reject_count = 0;
		return true;
	}
	if (a->version[0]) {
		memset(a->version, 0, sizeof(a->version));
		return true;
	}
	if (!a->echo_count)
		return false;
	a->echo_count--;
	for (unsigned v6 = 0; v6 < 2; v6++) {
		a->unproven[v6] &= ~(1ULL << a->echo_count);
		a->narrow[v6] &= ~(1ULL << a->echo_count);
	}
	return true;
}

size_t table_announce(struct table *table, const struct announce_keys *keys, uint64_t now_ms,
		      uint8_t datagram[ANNOUNCE_BYTES_MAX])
{
	struct announce_header header = { .sender = table->self_id, .epoch = table->epoch };
	struct announcement a = { 0 };
	size_t size;

	header.sequence = ++table->sequence;
	table->sent_ms[header.sequence % TABLE_SENT_MAX] = now_ms;
	fill_own(table, &a);
	fill_share(table, now_ms, &a);
	if (table->share)
		share_sent(table->share, now_ms);
	fill_echoes(table, now_ms, &a);
	fill_rejections(table, now_ms, &a);
	do {
		size = announce_encode(&a, &header, keys, datagram);
	} while (!size && shorten(&a));
	return size;
}

static uint32_t age_ms(uint64_t since_ms, uint64_t now_ms)
{
	uint64_t age = now_ms > since_ms ? now_ms - since_ms : 0;

	return age < LOAD_AGE_NEVER_MS ? (uint32_t)age : LOAD_AGE_NEVER_MS - 1;
}

static bool in_conflict(const struct table_member *m, uint64_t now_ms)
{
	return m->conflict && now_ms - m->conflict_ms < TABLE_CONFLICT_MS;
}

static uint32_t flags_of_proofs(const struct table_member *m)
{
	return (m->unproven[0] ? NODE_UNPROVEN_V4 : 0) | (m->unproven[1] ? NODE_UNPROVEN_V6 : 0) |
	       (m->narrow[0] ? NODE_NARROW_V4 : 0) | (m->narrow[1] ? NODE_NARROW_V6 : 0);
}

static void fill_member(const struct table *table, unsigned member, uint64_t now_ms, struct node_load *ret)
{
	const struct table_member *m = &table->member[member];

	*ret = (struct node_load) {
		.id = m->id,
		.weight = table->config->member[member].weight,
		.age_ms = LOAD_AGE_NEVER_MS,
		.echo_age_ms = LOAD_AGE_NEVER_MS,
	};
	if (is_kept_out(table, m, now_ms)) {
		ret->rejected = m->rejected;
		ret->rejected_from = m->rejected_from;
	}
	if (!m->heard)
		return;
	ret->rejects = m->rejects;
	ret->service_hash = m->service_hash;
	ret->period_ms = m->period_ms;
	ret->state = m->state;
	ret->weight = m->weight;
	ret->age_ms = age_ms(m->heard_ms, now_ms);
	ret->epoch = m->epoch;
	ret->sequence = m->sequence;
	ret->sample = m->sample;
	memcpy(ret->hardware, m->hardware, sizeof(ret->hardware));
	memcpy(ret->version, m->version, sizeof(ret->version));
	ret->ports_down = m->ports_down;
	ret->held_permille = m->held_permille;
	ret->shorter_times = m->shorter_times;
	if (m->echoed)
		ret->echo_age_ms = age_ms(m->echo_sent_ms, now_ms);
	if (ret->age_ms <= dead_ms(table))
		ret->flags |= NODE_HEARD;
	if ((ret->flags & NODE_HEARD) && m->echoed && ret->echo_age_ms <= dead_ms(table))
		ret->flags |= NODE_ECHOES;
	if (m->dprd_up)
		ret->flags |= NODE_DPRD_UP;
	if (m->service_hash != table->service_hash || m->period_ms != table->config->period_ms)
		ret->flags |= NODE_CONFIG_DIFFERS;
	if (in_conflict(m, now_ms))
		ret->flags |= NODE_CONFLICT;
	if (m->probes)
		ret->flags |= NODE_TAKES_PROBES;
	ret->flags |= flags_of_proofs(m);
}

static void fill_self(const struct table *table, uint64_t now_ms, struct node_load *ret)
{
	*ret = (struct node_load) {
		.id = table->self_id,
		.state = table->own.state,
		.flags = NODE_HEARD | NODE_ECHOES,
		.weight = table->config->member[table->config->self].weight,
		.age_ms = age_ms(table->own.sampled_ms, now_ms),
		.epoch = table->epoch,
		.sequence = table->sequence,
		.sample = table->own.sample,
		.service_hash = table->own.service_hash ? table->own.service_hash : table->service_hash,
		.period_ms = table->config->period_ms,
	};
	memcpy(ret->hardware, table->own.hardware, sizeof(ret->hardware));
	memcpy(ret->version, table->own.version, sizeof(ret->version));
	ret->ports_down = table->own.ports_down;
	ret->held_permille = table->own.held_permille;
	ret->shorter_times = table->own.shorter_times;
	ret->agent = table->own.agent;
	if (table->own.dprd_up)
		ret->flags |= NODE_DPRD_UP;
	if (table_own_conflict(table, now_ms))
		ret->flags |= NODE_CONFLICT;
}

void table_fill(const struct table *table, uint64_t now_ms, struct load_table *ret)
{
	unsigned i;

	memset(ret, 0, sizeof(*ret));
	ret->published_ms = now_ms;
	ret->period_ms = table->config->period_ms;
	ret->rejected = table_rejected(table);
	ret->file_hash = table->config->file_hash;
	ret->port_count = table->config->port_count;
	memcpy(ret->port, table->config->port, sizeof(ret->port));
	if (!table->observer)
		fill_self(table, now_ms, &ret->nodes[ret->count++]);
	for (i = 0; i < table->config->member_count; i++) {
		if (!is_self(table, i))
			fill_member(table, i, now_ms, &ret->nodes[ret->count++]);
	}
}

bool table_own_conflict(const struct table *table, uint64_t now_ms)
{
	return !table->observer && in_conflict(&table->member[table->config->self], now_ms);
}

void table_mean_load(const struct table *table, uint64_t now_ms, double *ret_own, double *ret_mean)
{
	const struct config *config = table->config;
	double load = table->own.sample.open_connections, weight = config->member[config->self].weight;

	*ret_own = weight > 0 ? load / weight : load;
	for (unsigned i = 0; i < config->member_count; i++) {
		const struct table_member *m = &table->member[i];

		if (is_self(table, i) || !m->heard || now_ms - m->heard_ms > dead_ms(table))
			continue;
		load += m->sample.open_connections;
		weight += config->member[i].weight;
	}
	*ret_mean = weight > 0 ? load / weight : load;
}

uint32_t table_rejected(const struct table *table)
{
	uint64_t sum = 0;
	unsigned i;

	for (i = 0; i < REJECT_REASONS; i++)
		sum += reject_counts((enum reject)i) ? table->rejected[i] : 0;
	return sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
}
