// SPDX-License-Identifier: GPL-2.0-or-later
#include "dprd/config/alias.h"

#include "dprd/config/reading.h"

static bool is_in_range(const struct config *config, const struct addr *alias)
{
	bool v4 = addr_is_v4(alias);
	const struct addr *base = v4 ? &config->alias_v4 : &config->alias_v6;
	struct addr start = config_range_base(alias, v4 ? config->alias_v4_prefix : config->alias_v6_prefix);

	return addr_equal(&start, base) && !addr_equal(alias, base);
}

static const struct alias *find_service(const struct aliases *book, const struct addr *service)
{
	for (unsigned i = 0; i < book->count; i++)
		if (addr_equal(&book->pair[i].service, service))
			return &book->pair[i];
	return NULL;
}

static bool has_alias(const struct aliases *book, const struct addr *alias)
{
	for (unsigned i = 0; i < book->count; i++)
		if (addr_equal(&book->pair[i].alias, alias))
			return true;
	return false;
}

/* True when a peer in the file needs the pair. */
static bool is_needed(const struct config *config, const struct alias *pair)
{
	int member = config_member_had_service(config, &pair->service);

	return member >= 0 && (unsigned)member != config->self && is_in_range(config, &pair->alias);
}

/* Moves the pairs that the file needs to the end, so that the others stay in the order in which they left the file. */
static void move_needed(struct aliases *book, const struct config *config, struct aliases *needed)
{
	unsigned kept = 0;

	needed->count = 0;
	for (unsigned i = 0; i < book->count; i++) {
		if (is_needed(config, &book->pair[i]))
			needed->pair[needed->count++] = book->pair[i];
		else
			book->pair[kept++] = book->pair[i];
	}
	book->count = kept;
}

static void forget(struct aliases *book, unsigned i)
{
	book->count--;
	memmove(&book->pair[i], &book->pair[i + 1], (book->count - i) * sizeof(book->pair[0]));
}

/* Forgets the oldest pair of a range that is full. */
static bool forget_in_range(struct aliases *old, const struct config *config, bool v4)
{
	for (unsigned i = 0; i < old->count; i++) {
		if (addr_is_v4(&old->pair[i].alias) == v4 && is_in_range(config, &old->pair[i].alias)) {
			forget(old, i);
			return true;
		}
	}
	return false;
}

/* The first free alias of the range, beginning with the alias of the place in the file. All zero: the range is full. */
static struct addr find_free(const struct aliases *old, const struct aliases *needed, const struct config *config,
			     unsigned member, unsigned service)
{
	bool v4 = addr_is_v4(&config->member[member].service[service]);
	unsigned room = config_alias_room(config, v4), place = config_alias_place(config, member, service);

	for (unsigned i = 0; i < room; i++) {
		struct addr alias = config_alias_at(config, v4, (place + i) % room);

		if (!has_alias(needed, &alias) && !has_alias(old, &alias))
			return alias;
	}
	return (struct addr) { .bytes = { 0 } };
}

static void assign_new(struct aliases *old, struct aliases *needed, struct config *config, unsigned member,
		       unsigned service)
{
	struct member *m = &config->member[member];
	const struct alias *known;
	struct addr alias;

	do {
		alias = find_free(old, needed, config, member, service);
	} while (addr_is_zero(&alias) && forget_in_range(old, config, addr_is_v4(&m->service[service])));
	/* Forgets an alias of another range. */
	known = find_service(old, &m->service[service]);
	if (known)
		forget(old, (unsigned)(known - old->pair));
	m->alias[service] = alias;
	needed->pair[needed->count++] = (struct alias) { .service = m->service[service], .alias = alias };
}

void aliases_assign(struct aliases *book, struct config *config)
{
	static struct aliases needed; /* too large for a stack; main thread only */
	const struct alias *known;

	if (config->member[config->self].own_cluster_address)
		return;
	move_needed(book, config, &needed);
	/* Addresses that stay come first: a new address must not get one of their aliases. */
	for (unsigned i = 0; i < config->member_count; i++) {
		struct member *m = &config->member[i];

		for (unsigned s = 0; i != config->self && s < member_services(m); s++) {
			known = find_service(&needed, &m->service[s]);
			m->alias[s] = known ? known->alias : (struct addr) { .bytes = { 0 } };
		}
	}
	for (unsigned i = 0; i < config->member_count; i++) {
		for (unsigned s = 0; i != config->self && s < member_services(&config->member[i]); s++)
			if (addr_is_zero(&config->member[i].alias[s]))
				assign_new(book, &needed, config, i, s);
	}
	while (book->count + needed.count > ALIASES_MAX)
		forget(book, 0);
	memcpy(&book->pair[book->count], needed.pair, needed.count * sizeof(needed.pair[0]));
	book->count += needed.count;
}

size_t aliases_format(const struct aliases *book, char text[ALIASES_TEXT_BYTES])
{
	char service[ADDR_TEXT_BYTES], alias[ADDR_TEXT_BYTES];
	size_t used = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < book->count; i++)
		used += (size_t)snprintf(text + used, ALIASES_TEXT_BYTES - used, "%s %s\n",
					 addr_format(&book->pair[i].service, service),
					 addr_format(&book->pair[i].alias, alias));
	return used;
}

/* One line, with its end. False: it is not one of aliases_format(). */
static bool read_line(struct aliases *book, const char *line, const char *end)
{
	char service[ADDR_TEXT_BYTES], alias[ADDR_TEXT_BYTES];
	struct alias *pair = &book->pair[book->count];
	const char *blank = memchr(line, ' ', (size_t)(end - line));

	if (!blank || book->count == ALIASES_MAX || blank - line >= ADDR_TEXT_BYTES || end - blank > ADDR_TEXT_BYTES)
		return false;
	snprintf(service, sizeof(service), "%.*s", (int)(blank - line), line);
	snprintf(alias, sizeof(alias), "%.*s", (int)(end - blank - 1), blank + 1);
	if (!addr_parse(service, &pair->service) || !addr_parse(alias, &pair->alias) ||
	    addr_is_v4(&pair->service) != addr_is_v4(&pair->alias) || find_service(book, &pair->service) ||
	    has_alias(book, &pair->alias))
		return false;
	book->count++;
	return true;
}

bool aliases_parse(struct aliases *book, const char *text)
{
	const char *end;

	book->count = 0;
	for (; *text; text = end + 1) {
		end = strchr(text, '\n');
		if (!end || !read_line(book, text, end)) {
			book->count = 0;
			return false;
		}
	}
	return true;
}
