/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * config/reading.h - the part that the files of config/ share; no other folder includes it.
 *
 * A line takes this way: config.c finds line and section, keys.c the key, value.c or a file of another kind of
 * values puts its text into a field; at the end check.c checks the whole. All of them report to report.c.
 * Calls go one way only:
 *
 *   edit.c -> config.c -> check.c -> check_shared.c, check_backend.c, check_health.c -> keys.c
 *   -> special.c, shared.c, backend.c, health.c
 *   -> addr.c -> value.c -> report.c, near.c, member.c;   format.c, restart.c -> keys.c
 */
#ifndef DPRD_CONFIG_READING_H
#define DPRD_CONFIG_READING_H

#include "dprd/config/config.h"

enum config_section {
	SECTION_NONE, /* before the first header */
	SECTION_BAD, /* after a header with an error: its keys are not judged */
	SECTION_CLUSTER,
	SECTION_NODE,
	SECTION_SERVICE,
	SECTION_SHARED,
	SECTION_BALANCE,
	SECTION_BACKENDS,
	SECTION_FLOWS,
	SECTION_QUEUE,
	SECTION_DATAPATH,
	SECTION_ANNOUNCE,
	SECTION_HEALTH,
	SECTION_ALIAS,
	SECTION_RUN,
	SECTION_NETWORK,
	SECTION_MEMBER,
	SECTION_BACKEND,
	SECTIONS,
};

enum {
	CONFIG_KEYS_MAX = 80,
	SUGGESTION_BYTES = 96,
	CONFIG_WORD_BYTES = 64,
};

/* The lines of the parts of a member, for messages about the whole file. */
struct member_lines {
	unsigned header;
	unsigned service[MEMBER_SERVICES_MAX];
	unsigned cluster[MEMBER_CLUSTER_MAX]; /* by family: 0 IPv4, 1 IPv6 */
	bool service_tried; /* a Service= line was there, right or wrong */
};

/* The same for a real server. */
struct backend_lines {
	unsigned header, node, port;
	unsigned address[2]; /* by family: 0 IPv4, 1 IPv6 */
	bool address_tried; /* an Address= line was there, right or wrong */
};

/* One reading of one file. */
struct parse {
	const char *file; /* base name, for messages */
	const char *text;
	size_t length, offset;
	unsigned line;

	enum config_section section;
	unsigned section_line[SECTIONS]; /* first header of each; 0: none */
	/* After such an error, a section or key that seems to be missing may only be misspelt. */
	bool bad_header;
	bool unknown_key[SECTIONS];
	unsigned seen[CONFIG_KEYS_MAX]; /* line of the first use of config_keys[i]; 0: none */
	bool first_use; /* the file has not set this key before; only its default did */
	unsigned group_line[2], range_line[2]; /* by family; 0: the default stands */
	struct member_lines member[MEMBERS_MAX];
	unsigned network_line[NETWORKS_MAX];
	unsigned shared_line[SHARED_MAX];
	struct backend_lines backend[BACKENDS_MAX];

	struct config *config;
	struct config_errors *errors;
};

struct config_key;

/* A kind of value, in both directions: config_parse() takes what config_format() writes. */
struct config_type {
	/* Checks the text and stores it, or reports what is wrong. field is base + key->offset. */
	void (*set)(struct parse *parse, const struct config_key *key, void *field, const char *text);
	/* Prints a "Key=value" line for each value in the field, through config_print(). */
	void (*print)(FILE *out, const struct config_key *key, const void *field);
};

struct config_key {
	enum config_section section;
	bool repeatable;
	const char *name;
	const struct config_type *type;
	size_t offset; /* in struct config, struct network, struct member or struct backend, by section */
	double low, high; /* range of a number; times in ms */
	const char *fallback; /* the default; NULL: none */
	const char *const *choices; /* the words of an enumeration, NULL at the end */
	/* The bytes of struct config that keep their value until dprd is restarted; 0: a reload changes them. loadcast
	 * takes every change at its reload. */
	size_t kept_at, kept_bytes;
};

/* config/config.c. Splits '[Title]' or '[Title "label"]', with or without a comment behind it. False: another form. */
bool config_split_header(char *line, char **ret_title, char **ret_label);
/* Splits "Key = value", with or without a comment behind it. False: the line does not begin with a word and "=". */
bool config_split_setting(char *line, char **ret_name, char **ret_text);

/* config/keys.c */
extern const struct config_key config_keys[];
extern const unsigned config_key_count;
extern const char *const config_section_names[SECTIONS];

bool config_section_is_named(enum config_section section);
/* NULL when the section does not have the key. */
const struct config_key *config_key_find(enum config_section section, const char *name);
/* Line of the first use of a key; 0: the file does not have it. */
unsigned config_key_line(const struct parse *parse, enum config_section section, const char *name);
/* A hint for an unknown key or section: " (did you mean ...?)", or empty. */
void config_suggest_key(enum config_section section, const char *name, char suggestion[SUGGESTION_BYTES]);
void config_suggest_section(const char *name, char suggestion[SUGGESTION_BYTES]);

/* config/near.c: the number of letters to change, add or remove, letter case ignored; the limit for longer words. */
enum { CONFIG_NEAR_LETTERS_MAX = 40 };
unsigned config_distance(const char *a, const char *b);
/* True when this number of wrong letters can be a slip of the finger. */
bool config_is_near(unsigned letters, const char *word);
/* The nearest of a list, NULL when none is near. */
const char *config_nearest(const char *const *list, const char *text);

/* config/value.c: kinds of values used in the table. */
extern const struct config_type config_type_name, config_type_path, config_type_optional_path, config_type_url_path,
	config_type_interface, config_type_flag, config_type_count, config_type_time, config_type_port,
	config_type_number, config_type_choice, config_type_host;

/* config/special.c, addr.c, shared.c, health.c and backend.c: values with a form of their own. */
extern const struct config_type config_type_ports, config_type_policy, config_type_weights, config_type_max_load,
	config_type_workers, config_type_status, config_type_interfaces;
extern const struct config_type config_type_group, config_type_address, config_type_service, config_type_cluster,
	config_type_range, config_type_shared, config_type_mac;
extern const struct config_type config_type_command, config_type_agent;
extern const struct config_type config_type_backend_node, config_type_backend_address, config_type_backend_port;

extern const char *const config_check_names[], *const config_policy_names[];
extern const char *const config_plane_names[], *const config_decide_names[], *const config_form_names[];
extern const char *const config_datapath_form_names[];

/* True when the kernel accepts the text as the name of an interface. */
bool config_is_interface(const char *text);
/* True when all of text is letters, digits, _ . - and it fits into NAME_BYTES. */
bool config_is_name(const char *text);
/* A whole decimal number, fraction allowed, in all of text; no sign, no exponent, no "nan". */
bool config_number(const char *text, double *ret);
/* The shortest decimal text that config_number() reads back as the same value. */
void config_number_text(double value, char text[40]);
/* False after a report: text is not a whole number within the range of the key. */
bool config_count(struct parse *parse, const struct config_key *key, const char *text, unsigned *ret);
/* Index into key->choices; -1 after a report. */
int config_choice(struct parse *parse, const struct config_key *key, const char *text);
/* The next of several words with blanks between them; false at the end. A word that is too long is cut. */
bool config_next_word(const char **at, char word[CONFIG_WORD_BYTES]);
/* False after a report: there is no word. */
bool config_has_word(struct parse *parse, const struct config_key *key, const char *text, const char *example);
void config_print(FILE *out, const struct config_key *key, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* config/addr.c: the kind of an address that no node can have, such as "a multicast address"; NULL: a node can. */
const char *config_address_fault(const struct addr *address);
/* False after a report: text is not an address that a node can have. */
bool config_read_address(struct parse *parse, const struct config_key *key, const char *text, struct addr *ret);
/* The first address of the range of this prefix that holds address. */
struct addr config_range_base(const struct addr *address, unsigned prefix);

/* config/backend.c: begins a [Backend "label"]. False after a report: the name is taken, or there are too many. */
bool config_begin_backend(struct parse *parse, const char *label);

/* config/check.c: checks that need more than one line. */
void config_check(struct parse *parse);
/* Finds self by node_name, [Node] Name= or the host name. */
void config_check_self(struct parse *parse, const char *node_name);
/* config/check_shared.c: checks [Shared], once members are known. */
void config_check_shared(struct parse *parse);
/* config/check_backend.c: checks the real servers of all nodes, once members are known. */
void config_check_backends(struct parse *parse);
/* Checks those of this node, once self is known and all else is right. Fills config->own_backend[]. */
void config_check_own_backends(struct parse *parse);

/* config/check_health.c: checks [Health]. */
void config_check_health(struct parse *parse);

/* config/report.c: "n1, n2, n3" of all members, cut with "..." when there are too many. */
void config_list_members(const struct config *config, char *text, size_t size);
/* Reports "FILE:LINE: text". The second function takes the current line, and puts the name of the key before the text. */
void config_error(struct parse *parse, unsigned line, const char *format, ...) __attribute__((format(printf, 3, 4)));
void config_key_error(struct parse *parse, const struct config_key *key, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
