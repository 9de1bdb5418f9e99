/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dprctl.h - the part that the files of the operator's tool share.
 *
 * dprctl asks dprd by its control socket and shows the answer. The render functions take the answer as JSON and write
 * text; a value that is not in the answer is shown as "?", never as 0.
 */
#ifndef DPRD_DPRCTL_H
#define DPRD_DPRCTL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "dprd/config/config.h"
#include "dprd/control/commands.h"

enum {
	DPRCTL_OK = 0,
	DPRCTL_DEGRADED = 1, /* there are warnings, or nothing was found */
	DPRCTL_FAILED = 2, /* dprd does not answer or refuses, or the usage is wrong */
};

enum {
	DPRCTL_ANSWER_MS = 3000, /* after this time without an answer dprd counts as frozen */
	DPRCTL_LINE_BYTES_MAX = 4 << 20,
};

struct dprctl {
	const char *config_path, *node_name;
	bool json, no_heading, all, dump, wait, watch;
	unsigned watch_s, timeout_s, answer_ms;
	const char *to, *client, *state, *limit, *host, *format, *weight;
	unsigned service_count, cluster_count; /* of a member, or of this node */
	const char *service[MEMBER_SERVICES_MAX], *cluster[MEMBER_CLUSTER_MAX];
	struct {
		const char *key, *member[MEMBERS_MAX];
		unsigned member_count;
		bool force;
	} init;
	bool dry_run, once;
	unsigned interval_s;
	struct config *config; /* NULL: could not be read */
	const char *run_dir, *table_file;
};

/* The look of the text. */
struct style {
	bool colour, no_heading;
};

/* "203.0.113.7", "203.0.113.7:80", "[2001:db8::7]:80", "2001:db8::7", each with "/bits" behind the
 * address where prefixes are allowed. */
struct endpoint {
	char client[ADDR_TEXT_BYTES + 8]; /* the address, and "/bits" when it was there */
	uint16_t port; /* 0: none was given */
};

/* dprctl/parse.c. False: the text has another form. */
bool parse_endpoint(const char *text, bool prefix_allowed, struct endpoint *ret);
bool parse_count(const char *text, unsigned long max, unsigned long *ret);

/*
 * dprctl/socket.c: sends the request and calls line for each line of the answer, the last one included; line returns
 * false to stop. Frees the request. 0, or -errno: -ENOENT and -ECONNREFUSED when no program listens, -ETIMEDOUT when
 * nothing came for answer_ms, -EPROTO when the answer does not come from dprd.
 */
typedef bool answer_fn(void *context, const json_t *line);
int dprctl_ask(const char *run_dir, json_t *request, unsigned answer_ms, answer_fn *line, void *context);
/* For answers of one line, which the caller frees. */
int dprctl_ask_one(const char *run_dir, json_t *request, unsigned answer_ms, json_t **ret);

/* dprctl/text.c: members of an object as text. */
enum { CELL_BYTES = 48 };
const char *text_of(const json_t *object, const char *key); /* "?" when it is not a text */
const json_t *member_named(const json_t *status, const char *name); /* NULL: none; borrowed from the status */
/* For text of another host, before a terminal gets it: each byte that is not printable ASCII becomes "?". */
void text_clean(char *text);
void json_clean(json_t *value); /* the same with all texts in it */
bool flag_of(const json_t *object, const char *key);
bool number_of(const json_t *object, const char *key, double *ret);
/* A number with this number of digits behind the point; "?" when there is none. Returns cell. */
const char *cell_number(char cell[CELL_BYTES], const json_t *object, const char *key, int digits);
const char *cell_age(char cell[CELL_BYTES], const json_t *object, const char *key); /* "0.4s", from milliseconds */
const char *cell_grouped(char cell[CELL_BYTES], const json_t *object, const char *key); /* "1 314" */
const char *cell_percent(char cell[CELL_BYTES], const json_t *object, const char *key); /* "61%", from a ratio */
const char *cell_duration(char cell[CELL_BYTES], double seconds); /* "3 d 4 h" */

/* dprctl/status.c */
void render_status(FILE *out, const json_t *status, const struct style *style);
void render_warnings(FILE *out, const json_t *status, const struct style *style);
void render_notes(FILE *out, const json_t *answer, const struct style *style); /* of status and peers */
unsigned count_warnings(const json_t *status);

/* dprctl/peers.c */
const char *member_state_word(const json_t *member);
void render_state(FILE *out, const json_t *member, int width, const struct style *style);
void render_members(FILE *out, const json_t *members, const struct style *style); /* as in status */
void render_peers(FILE *out, const json_t *members, const struct style *style); /* all columns */
void render_peers_dump(FILE *out, const json_t *members); /* tab separated, no heading */

/* dprctl/backends.c: the table; and the line of status, which is left out without real servers. */
void render_backends(FILE *out, const json_t *answer, const struct style *style);
void render_backends_line(FILE *out, const json_t *status);

/* dprctl/list.c */
void render_flow_heading(FILE *out);
void render_flow(FILE *out, const json_t *flow);
void render_flows_end(FILE *out, const json_t *end);
/* now_s: the wall clock, for the times of the decisions. Returns how many it showed. */
unsigned render_why(FILE *out, const json_t *answer, double now_s);

/* dprctl/metrics.c: Prometheus text format. */
void render_metrics(FILE *out, const json_t *status);
void render_up(FILE *out, bool up); /* dprd_up alone */

/*
 * dprctl/files.c: the part of the status that the files tell when dprd does not answer.
 * error: from dprctl_ask(). now_ms: CLOCK_BOOTTIME.
 */
json_t *files_status(const struct dprctl *c, int error, uint64_t now_ms);
void render_files(FILE *out, const json_t *status, const struct style *style);

/*
 * dprctl/zone.c: records of the members that work, or of all; NULL from zone_all_because(): only those that work.
 * name: as zone_is_name() takes it.
 */
enum zone_format { ZONE_BIND, ZONE_DNSMASQ, ZONE_HOSTS, ZONE_JSON, ZONE_FORMATS };
extern const char *const zone_format_names[ZONE_FORMATS];
bool zone_is_name(const char *name);
const char *zone_all_because(const json_t *status);
void render_zone(FILE *out, const json_t *status, const char *name, enum zone_format format);

/*
 * dprctl/host.c: dprctl on another host, by ssh.
 *
 * host_command() makes one line for the remote shell of the words behind "dprctl"; NULL when a word has a line end, or
 * without memory; the caller frees it. host_resolve(): a member's name becomes its cluster address; a user before "@"
 * stays. host_ssh_words(): ssh is the operator's own ssh command, words with blanks between them; NULL: "ssh". It puts
 * pointers into copy and the other texts into words, NULL at the end, and returns their number.
 */
enum { HOST_TEXT_BYTES = 256, SSH_TEXT_BYTES = 512, SSH_WORDS_MAX = 32, HOST_ANSWER_BYTES_MAX = 4 << 20 };
bool host_quote(FILE *out, const char *word); /* false: no shell takes it in one line */
char *host_command(const char *const *words);
bool host_is_good(const char *host);
void host_resolve(const struct config *config, const char *host, char ret[HOST_TEXT_BYTES]);
unsigned host_ssh_words(const char *ssh, char *copy, const char *host, char *command, bool terminal,
			const char *words[SSH_WORDS_MAX + 1]);
/* Starts ssh; out and err take the place of its outputs, -1: they stay. With out, ssh writes no file beyond
 * HOST_ANSWER_BYTES_MAX. terminal: the command has one there, too. Returns the process, or -errno. */
int host_start(const char *host, char *command, bool terminal, int out, int err);
/* Why ssh ended with this status (of waitpid) without an answer of dprctl; NULL: dprctl ran. */
const char *host_fault(int status);
/* Waits for that process; after a line when dprctl did not run there. Returns the exit status of dprctl there. */
int host_wait(const char *shown, int child);
/* All of it; config may be NULL. */
int host_run(const struct config *config, const char *host, const char *const *words, bool terminal);

/*
 * dprctl/cluster.c: the views of all nodes. cluster_judge() adds disagreements, notes and agree to the object, and returns
 * agree. The offset of a clock is 0 while it fits between the times of question and answer.
 */
double cluster_clock_offset(double asked_s, double answered_s, double theirs_s);
bool cluster_judge(json_t *cluster);
void render_views(FILE *out, const json_t *cluster, const struct style *style);

/* dprctl/ask_all.c: that object, from the nodes' own answers. own: config->self is this node, asked without ssh. */
json_t *ask_all(const struct dprctl *c, const struct config *config, bool own);

/*
 * dprctl/member.c: changes dprd.conf of this node and reloads; dry: only prints the difference. member_all.c: the same on
 * all nodes. Each returns the exit status; DPRCTL_FAILED: the file is as before, or a line says that it is not.
 */
enum member_action { MEMBER_ADD, MEMBER_REMOVE, MEMBER_WEIGHT, MEMBER_UNDO, MEMBER_ACTIONS };
struct member_change {
	enum member_action action;
	const char *name, *weight; /* NULL: none */
};
bool member_parse(const struct dprctl *c, char **arguments, struct member_change *ret); /* false: after a line */
/* *ret_same: nothing had to be changed; then it prints a line with MEMBER_SAME. */
#define MEMBER_SAME "is as wanted already"
int member_here(const struct dprctl *c, const struct member_change *change, bool dry, bool *ret_same);
int member_everywhere(const struct dprctl *c, const struct member_change *change, char **arguments);

/*
 * dprctl/top.c: the lines of the live view, cut by the caller to its width. order: 0 (as in the file) to TOP_ORDERS - 1.
 * top_list(): the members in this order. top_quantile_s(): the time within which this part of the decisions between the
 * two answers was made, as the limit of a bucket; NAN: there was none, INFINITY: longer than all buckets.
 */
enum { TOP_ORDERS = 4, TOP_LINES_MAX = MEMBERS_MAX + 8, TOP_LINE_BYTES = 320 };
enum top_look { TOP_PLAIN, TOP_TITLE, TOP_HEADING, TOP_GOOD, TOP_WARN, TOP_BAD };
struct top {
	const json_t *now, *before; /* before: NULL at first, so no rate is known */
	double seconds; /* between them */
	unsigned order;
	bool frozen, fault; /* fault: dprd no longer answers; now is its last answer */
};
struct top_lines {
	unsigned count, first; /* first: the line of the first member */
	struct {
		char text[TOP_LINE_BYTES];
		enum top_look look;
	} line[TOP_LINES_MAX];
};
double top_quantile_s(const json_t *now, const json_t *before, double part);
unsigned top_list(const json_t *now, unsigned order, const json_t *list[MEMBERS_MAX]);
void top_lines(const struct top *top, int width, struct top_lines *lines);

/* dprctl/diff.c: nothing when the texts are the same. */
void render_diff(FILE *out, const char *name, const char *old, const char *new);

/* dprctl/drain.c: returns the exit status. */
int drain_and_wait(const struct dprctl *c);
/* Counts the connections of the service ports in a text like /proc/net/tcp, without listeners and closed ones. */
unsigned count_served(FILE *tcp, const uint16_t *ports, unsigned port_count);

/* dprctl/table.c: the commands, and the options. */
struct dprctl_command {
	const char *name, *argument; /* as in commands.h */
	enum command_rights rights;
	int options; /* enum command_options */
	const char *help;
};

/* Codes of options without a letter. */
enum {
	OPTION_JSON = 256,
	OPTION_WATCH,
	OPTION_DUMP,
	OPTION_TO,
	OPTION_CLIENT,
	OPTION_STATE,
	OPTION_LIMIT,
	OPTION_ALL,
	OPTION_WAIT,
	OPTION_TIMEOUT,
	OPTION_MEMBER,
	OPTION_KEY,
	OPTION_FORCE,
	OPTION_KEYS,
	OPTION_COMPLETION,
	OPTION_VERSION,
	OPTION_HOST,
	OPTION_FORMAT,
	OPTION_SERVICE,
	OPTION_CLUSTER,
	OPTION_WEIGHT,
	OPTION_DRY_RUN,
	OPTION_ONCE,
	OPTION_INTERVAL,
	OPTIONS_MAX = 40,
};

/* The words that a shell offers as an option's argument. */
enum option_completes { COMPLETES_NOTHING, COMPLETES_FILES, COMPLETES_MEMBERS, COMPLETES_NODES };

struct dprctl_option {
	const char *name;
	int code; /* the letter of its short form, or OPTION_... */
	const char *argument; /* NULL: none; in brackets: it may be left out */
	int goes_with; /* enum command_options; 0: every command */
	bool alone; /* stands instead of a command */
	enum option_completes completes;
	const char *words; /* all arguments that it takes, with blanks between them; NULL: see completes */
	const char *help;
};

extern const struct dprctl_command dprctl_commands[]; /* without name at the end */
extern const struct dprctl_option dprctl_options[]; /* the same */
const struct dprctl_command *dprctl_find(const char *name); /* NULL: there is none */
bool dprctl_goes_with(const struct dprctl_option *option, const struct dprctl_command *command);

/* dprctl/help.c */
void dprctl_help(FILE *out);

/* dprctl/completion.c: false: not for this shell. */
bool dprctl_completion(FILE *out, const char *shell);

/* Asks dprd, shows the answer, and returns the exit status. */
typedef int dprctl_run(struct dprctl *c, char **arguments);

/* dprctl/answer.c: prints JSON; DPRCTL_OK. */
int dprctl_print_json(const json_t *value);
/* The answer of dprd, which the caller frees; NULL after a line that says why there is none. */
json_t *dprctl_answer(const struct dprctl *c, json_t *request);
/* Reloads both daemons, with a line; the exit status. */
int dprctl_reload(const struct dprctl *c);
/* dprctl/command.c: false after a line: -n names another node than the one that answers here. */
bool dprctl_is_meant(const struct dprctl *c);
/* A function command_NAME() for each command. */
#define X(name, argument, rights, options, help) dprctl_run command_##name;
COMMANDS_OF_DPRD(X)
COMMANDS_OF_DPRCTL(X)
#undef X

/*
 * dprctl/config.c: reads the configuration, and finds dprd's files. An operator who is editing the file must still
 * reach dprd: with an error in it, c->config is NULL after a line that says so, and only the places of the two files
 * are taken from it. False after a line: there is no file.
 */
bool dprctl_read_config(struct dprctl *c);
/* The members of the file; NULL, without a line, when it cannot be read. *ret_own: the file says which of them this host
 * is. */
const struct config *dprctl_read_members(const struct dprctl *c, bool *ret_own);

#endif
