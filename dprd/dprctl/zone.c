// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * dprctl/zone.c - DNS records of the members that may get clients. There is never none: with no member that works, or
 * when this node cannot tell, all members are listed.
 */
#include "dprd/dprctl/dprctl.h"

#include <ctype.h>
#include <string.h>

enum { ZONE_TTL_S = 30, ZONE_NAME_BYTES = 254 };

const char *const zone_format_names[ZONE_FORMATS] = { "bind", "dnsmasq", "hosts", "json" };

/* One name, however the format writes it. */
struct zone {
	FILE *out;
	enum zone_format format;
	const char *name;
	json_t *records; /* with ZONE_JSON alone */
};

bool zone_is_name(const char *name)
{
	size_t length = strlen(name);

	if (strcmp(name, "@") == 0)
		return true;
	if (!length || length >= ZONE_NAME_BYTES || !(isalnum((unsigned char)*name) || strchr("_*", *name)))
		return false;
	for (size_t i = 0; i < length; i++)
		if (!isalnum((unsigned char)name[i]) && !strchr(i ? "-_." : "_*", name[i]))
			return false;
	return !strstr(name, "..");
}

/* True while the web server of a member can get connections of its own clients, as far as this node knows. */
static bool serves_clients(const json_t *member)
{
	/* Reasons that keep only forwarded connections away. */
	static const char *const harmless[] = { "weight 0", "its dprd is not running", "does not hear this node",
						"path to it too narrow" };
	const char *why_not = text_of(member, "why_not");

	if (strcmp(text_of(member, "state"), "active") != 0)
		return false;
	if (flag_of(member, "self") || flag_of(member, "eligible"))
		return true;
	for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
		if (strcmp(why_not, harmless[i]) == 0)
			return true;
	return false;
}

const char *zone_all_because(const json_t *status)
{
	const json_t *members = json_object_get(status, "members"), *member;
	size_t i;

	if (json_is_false(json_object_get(status, "table_fresh")))
		return "this node has no news of the other members";
	if (flag_of(status, "minority"))
		return "this node hears fewer than half of the members";
	json_array_foreach(members, i, member)
	{
		if (serves_clients(member))
			return NULL;
	}
	return "no member works";
}

static void write_record(struct zone *zone, const char *member, const char *address)
{
	const char *type = strchr(address, ':') ? "AAAA" : "A";
	/* Only BIND knows a dot at the end. */
	int length = (int)strlen(zone->name), bare = length > 1 && zone->name[length - 1] == '.' ? length - 1 : length;

	switch (zone->format) {
	case ZONE_BIND:
		fprintf(zone->out, "%s\t%d\tIN\t%s\t%s ; %s\n", zone->name, ZONE_TTL_S, type, address, member);
		break;
	case ZONE_DNSMASQ:
		fprintf(zone->out, "host-record=%.*s,%s,%d\n", bare, zone->name, address, ZONE_TTL_S);
		break;
	case ZONE_HOSTS:
		fprintf(zone->out, "%s\t%.*s # %s\n", address, bare, zone->name, member);
		break;
	default:
		json_array_append_new(zone->records,
				      json_pack("{s:s, s:s, s:s}", "type", type, "address", address, "member", member));
	}
}

/* A dprd of a version that does not tell all addresses tells the first one. */
static void write_member(struct zone *zone, const json_t *member)
{
	const json_t *addresses = json_object_get(member, "addresses"), *address;
	size_t i;

	json_array_foreach(addresses, i, address)
		write_record(zone, text_of(member, "name"), json_is_string(address) ? json_string_value(address) : "?");
	if (!json_is_array(addresses) && json_is_string(json_object_get(member, "address")))
		write_record(zone, text_of(member, "name"), text_of(member, "address"));
}

void render_zone(FILE *out, const json_t *status, const char *name, enum zone_format format)
{
	const json_t *members = json_object_get(status, "members"), *member;
	const char *all = zone_all_because(status), *mark = format == ZONE_BIND ? ";" : "#";
	struct zone zone = { .out = out, .format = format, .name = name };
	json_t *made;
	size_t i;

	if (format == ZONE_JSON)
		zone.records = json_array();
	else if (all)
		fprintf(out, "%s %s: all members are listed\n", mark, all);
	json_array_foreach(members, i, member)
	{
		if (all || serves_clients(member))
			write_member(&zone, member);
		else if (format != ZONE_JSON)
			fprintf(out, "%s without %s: %s\n", mark, text_of(member, "name"),
				json_is_string(json_object_get(member, "why_not")) ? text_of(member, "why_not")
										   : text_of(member, "state"));
	}
	if (format != ZONE_JSON)
		return;
	made = json_pack("{s:s, s:s, s:s, s:i, s:b, s:s?, s:o}", "schema", "dprd.zone/1", "node",
			 text_of(status, "node"), "name", name, "ttl_seconds", ZONE_TTL_S, "all", all != NULL,
			 "all_because", all, "records", zone.records);
	json_dumpf(made, out, JSON_COMPACT);
	fputc('\n', out);
	json_decref(made);
}
