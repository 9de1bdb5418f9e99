// SPDX-License-Identifier: GPL-2.0-or-later
/* dprctl/init_text.c - from the members of a plan to the text of dprd.conf. */
#include "dprd/dprctl/init.h"

#include <ctype.h>
#include <string.h>

/* Takes the text up to its end. False: it is empty, too long, or no text without blanks. */
static bool take(char *to, size_t size, const char *from, size_t length)
{
	if (!length || length >= size)
		return false;
	for (size_t i = 0; i < length; i++)
		if (!isgraph((unsigned char)from[i]))
			return false;
	memcpy(to, from, length);
	to[length] = '\0';
	return true;
}

const char *init_read_member(const char *text, struct init_member *ret)
{
	size_t name = strcspn(text, "="), service;
	const char *rest;

	*ret = (struct init_member) { 0 };
	if (!text[name])
		return "no \"=\" between name and address";
	rest = text + name + 1;
	service = strcspn(rest, "@");
	if (!take(ret->name, sizeof(ret->name), text, name))
		return "not a name";
	if (!take(ret->service, sizeof(ret->service), rest, service))
		return "no address behind the \"=\"";
	if (rest[service] && !take(ret->cluster, sizeof(ret->cluster), rest + service + 1, strlen(rest + service + 1)))
		return "no address behind the \"@\"";
	return NULL;
}

struct init_member *init_find(struct init_plan *plan, const char *name)
{
	for (unsigned i = 0; i < plan->member_count; i++)
		if (strcmp(plan->member[i].name, name) == 0)
			return &plan->member[i];
	return NULL;
}

const char *init_add(struct init_plan *plan, const struct init_member *member)
{
	if (plan->member_count == MEMBERS_MAX)
		return "too many members";
	if (init_find(plan, member->name))
		return "this name is taken";
	plan->member[plan->member_count++] = *member;
	return NULL;
}

/* A line for each address of the list. */
static void write_addresses(FILE *out, const char *key, const char *list)
{
	while (*list) {
		size_t length = strcspn(list, ",");

		fprintf(out, "%s=%.*s\n", key, (int)length, list);
		list += length + (list[length] == ',');
	}
}

size_t init_write(const struct init_plan *plan, char text[INIT_TEXT_BYTES])
{
	FILE *out = fmemopen(text, INIT_TEXT_BYTES, "w");
	bool failed;
	long length;

	if (!out)
		return 0;
	fputs("# dprd.conf - made by \"dprctl init\". The same file may stand on every node of the cluster.\n"
	      "# All keys: dprd.conf(5). After a change: dprd --check-config; dprctl reload\n"
	      "\n[Cluster]\nName=web\n",
	      out);
	if (!plan->default_key_path)
		fprintf(out, "KeyFile=%s\n", plan->key_path);
	for (unsigned i = 0; i < plan->member_count; i++) {
		fprintf(out, "\n[Member \"%s\"]\n", plan->member[i].name);
		write_addresses(out, "Service", plan->member[i].service);
		write_addresses(out, "Cluster", plan->member[i].cluster);
	}
	if (plan->names_self)
		fprintf(out, "\n[Node]\n# Another one on each node.\nName=%s\n", plan->self);
	length = ftell(out);
	failed = ferror(out) != 0 || length < 0 || length >= INIT_TEXT_BYTES;
	failed |= fclose(out) != 0;
	return failed ? 0 : (size_t)length;
}
