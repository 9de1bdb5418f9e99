// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * config/special.c - values with a form of their own: ports, policy, weights, status codes, interfaces.
 *
 * A key that may be repeated also takes several values in one line, with blanks between them.
 */
#include "dprd/config/reading.h"

static void set_ports(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	struct config *c = field;
	char word[CONFIG_WORD_BYTES];

	if (!config_has_word(p, key, text, "80"))
		return;
	if (p->first_use)
		c->port_count = 0; /* the first line of the file replaces the default */
	while (config_next_word(&text, word)) {
		bool twice = false;
		unsigned port;

		if (!config_count(p, key, word, &port))
			continue;
		for (unsigned i = 0; i < c->port_count; i++)
			twice |= c->port[i] == port;
		if (twice)
			config_key_error(p, key, "%u is given twice", port);
		else if (c->port_count == PORTS_MAX)
			config_key_error(p, key, "too many ports (at most %d)", PORTS_MAX);
		else
			c->port[c->port_count++] = (uint16_t)port;
	}
}

static void print_ports(FILE *out, const struct config_key *key, const void *field)
{
	const struct config *c = field;

	for (unsigned i = 0; i < c->port_count; i++)
		config_print(out, key, "%u", c->port[i]);
}

const struct config_type config_type_ports = { set_ports, print_ports };

/* The struct has only the name, because loadcast also reads the file, and has no policies. */
static void set_policy(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	if (config_choice(p, key, text) >= 0)
		snprintf(field, NAME_BYTES, "%s", text);
}

static void print_policy(FILE *out, const struct config_key *key, const void *field)
{
	config_print(out, key, "%s", (const char *)field);
}

const struct config_type config_type_policy = { set_policy, print_policy };

enum { FACTORS = 5 };
static const char *const factor_names[FACTORS + 1] = { "connections", "cpu",          "redirected",
						       "sockets",     "accept-queue", NULL };

static double *factor(struct load_factors *f, unsigned index)
{
	double *const fields[FACTORS] = { &f->connections, &f->cpu, &f->redirected, &f->sockets, &f->accept_queue };

	return fields[index];
}

/* One "name:number". */
static void set_factor(struct parse *p, const struct config_key *key, struct load_factors *f, char *word, bool *used)
{
	char *colon = strchr(word, ':');
	const char *nearest;
	double value;

	if (colon)
		*colon = '\0';
	for (unsigned i = 0; i < FACTORS; i++) {
		if (strcmp(factor_names[i], word) != 0)
			continue;
		if (!colon || !config_number(colon + 1, &value) || value > key->high)
			config_key_error(p, key, "%s needs a weight (such as %s:1; 0 to %.0f)", word, word, key->high);
		else if (used[i])
			config_key_error(p, key, "%s is given twice", word);
		else
			*factor(f, i) = value;
		used[i] = true;
		return;
	}
	nearest = config_nearest(factor_names, word);
	if (nearest)
		config_key_error(p, key, "\"%.40s\" is not a load (did you mean %s?)", word, nearest);
	else
		config_key_error(p, key,
				 "\"%.40s\" is not a load (connections, cpu, redirected, sockets, accept-queue)", word);
}

static void set_weights(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	unsigned already = p->errors->count;
	bool used[FACTORS] = { false };
	struct load_factors factors = { 0 };
	char word[CONFIG_WORD_BYTES];
	double sum = 0;

	if (!config_has_word(p, key, text, "connections:1 cpu:0.5"))
		return;
	while (config_next_word(&text, word))
		set_factor(p, key, &factors, word, used);
	for (unsigned i = 0; i < FACTORS; i++)
		sum += *factor(&factors, i);
	if (sum == 0 && p->errors->count == already)
		config_key_error(p, key, "all weights are 0 (at least one must not be)");
	((struct config *)field)->factors = factors;
}

static void print_weights(FILE *out, const struct config_key *key, const void *field)
{
	struct load_factors factors = ((const struct config *)field)->factors;
	char text[FACTORS][40];

	if (((const struct config *)field)->metric != LOAD_WEIGHTED)
		return;
	for (unsigned i = 0; i < FACTORS; i++)
		config_number_text(*factor(&factors, i), text[i]);
	config_print(out, key, "connections:%s cpu:%s redirected:%s sockets:%s accept-queue:%s", text[0], text[1],
		     text[2], text[3], text[4]);
}

const struct config_type config_type_weights = { set_weights, print_weights };

static void set_max_load(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	struct config *c = field;
	double value;

	c->max_load_auto = strcmp(text, "auto") == 0;
	if (c->max_load_auto)
		return;
	if (!config_number(text, &value) || value > key->high)
		config_key_error(p, key, "\"%.64s\" is neither auto nor a number (0 to %.0f)", text, key->high);
	else
		c->max_load = value;
}

static void print_max_load(FILE *out, const struct config_key *key, const void *field)
{
	const struct config *c = field;
	char text[40];

	config_number_text(c->max_load, text);
	config_print(out, key, "%s", c->max_load_auto ? "auto" : text);
}

const struct config_type config_type_max_load = { set_max_load, print_max_load };

static void set_workers(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	double value;

	if (strcmp(text, "auto") == 0)
		*(unsigned *)field = 0;
	else if (!config_number(text, &value) || value < key->low || value > key->high ||
		 value != (double)(unsigned)value)
		config_key_error(p, key, "\"%.64s\" is neither auto nor a whole number (%.0f to %.0f)", text, key->low,
				 key->high);
	else
		*(unsigned *)field = (unsigned)value;
}

static void print_workers(FILE *out, const struct config_key *key, const void *field)
{
	unsigned workers = *(const unsigned *)field;

	if (workers)
		config_print(out, key, "%u", workers);
	else
		config_print(out, key, "auto");
}

const struct config_type config_type_workers = { set_workers, print_workers };

static bool read_status(const char *text, unsigned *ret)
{
	*ret = 0;
	for (unsigned i = 0; i < 3; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		*ret = *ret * 10 + (unsigned)(text[i] - '0');
	}
	return true;
}

/* "200-399" or "200". */
static void set_status(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	bool is_range = strlen(text) == 7 && text[3] == '-';
	struct config *c = field;
	unsigned low = 0, high = 0;

	if ((is_range || strlen(text) == 3) && read_status(text, &low) &&
	    read_status(is_range ? text + 4 : text, &high) && low >= key->low && high <= key->high && low <= high) {
		c->health_status_low = low;
		c->health_status_high = high;
		return;
	}
	config_key_error(p, key, "\"%.64s\" is not a range of HTTP status codes (such as 200-399; %.0f to %.0f)", text,
			 key->low, key->high);
}

static void print_status(FILE *out, const struct config_key *key, const void *field)
{
	const struct config *c = field;

	config_print(out, key, "%u-%u", c->health_status_low, c->health_status_high);
}

const struct config_type config_type_status = { set_status, print_status };

static void set_interfaces(struct parse *p, const struct config_key *key, void *field, const char *text)
{
	struct config *c = field;
	char word[CONFIG_WORD_BYTES];

	while (config_next_word(&text, word)) {
		bool twice = false;

		if (!config_is_interface(word)) {
			config_key_error(p, key, "\"%.64s\" is not an interface (such as eth0, at most %d letters)",
					 word, INTERFACE_BYTES - 1);
			continue;
		}
		for (unsigned i = 0; i < c->interface_count; i++)
			twice |= strcmp(c->interface_name[i], word) == 0;
		if (twice)
			config_key_error(p, key, "%s is given twice", word);
		else if (c->interface_count == INTERFACES_MAX)
			config_key_error(p, key, "too many interfaces (at most %d)", INTERFACES_MAX);
		else
			snprintf(c->interface_name[c->interface_count++], INTERFACE_BYTES, "%.15s", word);
	}
}

static void print_interfaces(FILE *out, const struct config_key *key, const void *field)
{
	const struct config *c = field;

	for (unsigned i = 0; i < c->interface_count; i++)
		config_print(out, key, "%s", c->interface_name[i]);
}

const struct config_type config_type_interfaces = { set_interfaces, print_interfaces };
