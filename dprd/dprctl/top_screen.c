// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * dprctl/top_screen.c - dprctl top: on a terminal with ncurses, with keys, colours, and what an operator may do from here;
 * elsewhere as plain lines.
 */
#define _GNU_SOURCE
#include "dprd/dprctl/dprctl.h"

#include <locale.h>
#include <ncurses.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dprd/base/clock.h"

enum { KEY_ESCAPE = 27, STEP_MS = 100, PLAIN_COLUMNS = 80 };

static const char *const help[] = {
	"up, down   select a member",
	"s          sort: as in the file, by load, by open connections, by new connections",
	"space      freeze the display, and go on",
	"d, u       drain the selected member, and end its drain; asks first",
	"h, ?       this help",
	"q          quit",
	"",
	"NEW/s, OPEN, LOAD, FWD: what each node announces: connections that reach it, its TCP connections, its load,",
	"connections that it forwards. TO/s: connections that this node forwards to it.",
};

struct screen {
	struct dprctl *c;
	struct top top;
	json_t *now, *before;
	uint64_t now_ms, before_ms;
	unsigned selected, shown_from;
	bool help;
};

static void sample(struct screen *s)
{
	json_t *answer = NULL;
	int error = dprctl_ask_one(s->c->run_dir, json_pack("{s:s}", "command", "status"), s->c->answer_ms, &answer);

	s->top.fault = error || !json_is_array(json_object_get(answer, "members"));
	if (s->top.fault) {
		json_decref(answer);
		return;
	}
	json_decref(s->before);
	s->before = s->now;
	s->before_ms = s->now_ms;
	s->now = answer;
	s->now_ms = clock_now_ms();
	s->top.now = s->now;
	s->top.before = s->before;
	s->top.seconds = s->before ? (double)(s->now_ms - s->before_ms) / 1000 : 0;
}

static attr_t attributes(enum top_look look)
{
	static const attr_t looks[] = { [TOP_TITLE] = A_BOLD, [TOP_HEADING] = A_REVERSE, [TOP_BAD] = A_BOLD };
	const attr_t plain = look < sizeof(looks) / sizeof(looks[0]) ? looks[look] : A_NORMAL;

	if (!has_colors())
		return plain;
	return plain | (look == TOP_GOOD   ? (attr_t)COLOR_PAIR(1)
			: look == TOP_WARN ? (attr_t)COLOR_PAIR(2)
			: look == TOP_BAD  ? (attr_t)COLOR_PAIR(3)
					   : A_NORMAL);
}

static void put_line(int row, const char *text, attr_t look)
{
	if (row >= LINES)
		return;
	attrset(look);
	mvaddnstr(row, 0, text, COLS);
	attrset(A_NORMAL);
	clrtoeol();
}

/* The members that have no room are reached by the selection. */
static void draw(struct screen *s)
{
	static struct top_lines lines; /* too large for a stack */
	int row = 0, room;

	erase();
	top_lines(&s->top, COLS, &lines);
	if (s->selected >= lines.count - lines.first)
		s->selected = lines.count > lines.first ? lines.count - lines.first - 1 : 0;
	room = LINES - (int)lines.first - 1;
	if (s->selected < s->shown_from)
		s->shown_from = s->selected;
	if (room > 0 && s->selected >= s->shown_from + (unsigned)room)
		s->shown_from = s->selected - (unsigned)room + 1;
	for (unsigned i = 0; i < lines.first; i++)
		put_line(row++, lines.line[i].text, attributes(lines.line[i].look));
	for (unsigned i = lines.first + s->shown_from; !s->help && i < lines.count && row < LINES - 1; i++)
		put_line(row++, lines.line[i].text,
			 attributes(lines.line[i].look) | (i - lines.first == s->selected ? A_REVERSE : A_NORMAL));
	for (unsigned i = 0; s->help && i < sizeof(help) / sizeof(help[0]); i++)
		put_line(row++, help[i], A_NORMAL);
	put_line(LINES - 1, "q quit  s sort  space freeze  d drain  u undrain  h help", A_NORMAL);
	refresh();
}

/* Waits for an answer of one key. */
static bool asked(const char *question)
{
	int key;

	put_line(LINES - 1, question, A_BOLD);
	refresh();
	timeout(-1);
	key = getch();
	timeout(STEP_MS);
	return key == 'y' || key == 'Y';
}

/* Drains the selected member, or ends that, on an ordinary screen: ssh or dprd may have something to say. */
static void steer(struct screen *s, bool drain)
{
	const json_t *list[MEMBERS_MAX];
	unsigned count = top_list(s->now, s->top.order, list);
	const char *words[] = { drain ? "drain" : "undrain", NULL };
	char question[NAME_BYTES + 64], name[NAME_BYTES];
	bool self;

	if (s->selected >= count)
		return;
	self = flag_of(list[s->selected], "self");
	snprintf(name, sizeof(name), "%s", text_of(list[s->selected], "name"));
	snprintf(question, sizeof(question), "%s %s? y or n", words[0], name);
	if (!asked(question))
		return;
	def_prog_mode();
	endwin();
	if (self)
		drain ? command_drain(s->c, NULL) : command_undrain(s->c, NULL);
	else
		host_run(s->c->config, name, words, false);
	fputs("Enter: back\n", stdout);
	fflush(stdout);
	for (int c = getchar(); c != '\n' && c != EOF;)
		c = getchar();
	clearerr(stdin);
	reset_prog_mode();
	clear();
}

/* False: the operator quits. */
static bool take_key(struct screen *s, int key)
{
	switch (key) {
	case 'q':
	case 'Q':
		return false;
	case KEY_ESCAPE:
		s->help = false;
		break;
	case 'h':
	case '?':
		s->help = !s->help;
		break;
	case ' ':
	case 'f':
		s->top.frozen = !s->top.frozen;
		break;
	case 's':
		s->top.order = (s->top.order + 1) % TOP_ORDERS;
		break;
	case 'd':
	case 'u':
		steer(s, key == 'd');
		break;
	case KEY_UP:
	case 'k':
		s->selected -= s->selected ? 1 : 0;
		break;
	case KEY_DOWN:
	case 'j':
		s->selected++;
		break;
	default:
		break;
	}
	return true;
}

static void start_colours(void)
{
	const char *no_colour = getenv("NO_COLOR");

	if ((no_colour && *no_colour) || !has_colors())
		return;
	start_color();
	use_default_colors();
	init_pair(1, COLOR_GREEN, -1);
	init_pair(2, COLOR_YELLOW, -1);
	init_pair(3, COLOR_RED, -1);
}

/* Until the operator quits. False: this terminal cannot do that. */
static bool on_screen(struct dprctl *c)
{
	struct screen s = { .c = c };
	uint64_t next_ms = 0;
	SCREEN *terminal;
	bool on = true;

	setlocale(LC_ALL, "");
	terminal = newterm(NULL, stdout, stdin);
	if (!terminal)
		return false;
	start_colours();
	cbreak();
	noecho();
	curs_set(0);
	keypad(stdscr, TRUE);
	timeout(STEP_MS);
	while (on) {
		int key;

		if (!s.top.frozen && clock_now_ms() >= next_ms) {
			sample(&s);
			next_ms = clock_now_ms() + c->interval_s * UINT64_C(1000);
		}
		draw(&s);
		key = getch();
		on = key == ERR || take_key(&s, key);
	}
	endwin();
	delscreen(terminal);
	json_decref(s.now);
	json_decref(s.before);
	return true;
}

/* One view after the other, each of the time since the one before. */
static int in_lines(struct dprctl *c, json_t *before)
{
	static struct top_lines lines; /* too large for a stack */
	struct top top = { 0 };
	uint64_t before_ms = clock_now_ms();

	for (;;) {
		json_t *now;

		usleep(c->interval_s * 1000000);
		now = dprctl_answer(c, json_pack("{s:s}", "command", "status"));
		if (!now)
			break;
		top = (struct top) { .now = now,
				     .before = before,
				     .seconds = (double)(clock_now_ms() - before_ms) / 1000 };
		before_ms = clock_now_ms();
		top_lines(&top, PLAIN_COLUMNS, &lines);
		for (unsigned i = 0; i < lines.count; i++)
			printf("%s\n", lines.line[i].text);
		json_decref(before);
		before = now;
		if (c->once || (putchar('\n'), fflush(stdout)) || ferror(stdout)) {
			json_decref(before);
			return DPRCTL_OK;
		}
	}
	json_decref(before);
	return DPRCTL_FAILED;
}

int command_top(struct dprctl *c, char **arguments)
{
	json_t *first = dprctl_answer(c, json_pack("{s:s}", "command", "status"));

	(void)arguments;
	if (!first)
		return DPRCTL_FAILED;
	if (!c->once && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && on_screen(c)) {
		json_decref(first);
		return DPRCTL_OK;
	}
	return in_lines(c, first);
}
