// SPDX-License-Identifier: GPL-2.0-or-later
/* dprctl/init.c - "dprctl init": checks a first dprd.conf and puts it and the cluster key in place. */
#define _GNU_SOURCE
#include "dprd/dprctl/init.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_BYTES = 32, MODE_CONFIG = 0644, MODE_KEY = 0640 };

static bool write_whole(int fd, const char *text, size_t length)
{
	while (length) {
		ssize_t wrote = write(fd, text, length);

		if (wrote < 0)
			return false;
		text += wrote;
		length -= (size_t)wrote;
	}
	return fsync(fd) == 0;
}

/* The group of the file is dprd, if it can be. Only everyone's file may be read by another group. */
static bool set_rights(int fd, mode_t mode)
{
	const struct group *group = getgrnam("dprd");
	struct stat file;

	/* Without rights the file keeps the group of its directory. */
	if (group && fchown(fd, (uid_t)-1, group->gr_gid) < 0 && errno != EPERM)
		return false;
	if (fstat(fd, &file) < 0)
		return false;
	if (!(mode & S_IROTH) && !(group && file.st_gid == group->gr_gid))
		mode &= ~(mode_t)S_IRWXG;
	return fchmod(fd, mode) == 0;
}

/*
 * Readers see the former file or the whole new one. Without force a file that is there stays: link(2) refuses, even when
 * it came only now. False after a line.
 */
static bool put_file(const char *path, const char *text, size_t length, mode_t mode, bool force)
{
	char other[PATH_BYTES + 16];
	bool done;
	int fd;

	snprintf(other, sizeof(other), "%s.new.XXXXXX", path);
	fd = mkostemp(other, O_CLOEXEC);
	if (fd < 0) {
		fprintf(stderr, "dprctl init: %s: %s\n", path, strerror(errno));
		return false;
	}
	done = write_whole(fd, text, length) && set_rights(fd, mode) &&
	       (force ? rename(other, path) : link(other, path)) == 0;
	if (!done)
		fprintf(stderr, "dprctl init: %s: %s%s\n", path, strerror(errno),
			errno == EEXIST ? "; it stays without --force" : "");
	close(fd);
	if (!done || !force)
		unlink(other);
	return done;
}

/* The parser of the daemons reads the text. False after its messages. */
static bool check_text(const char *path, const char *text, size_t length)
{
	static struct config config; /* these are too large for a stack */
	static struct config_errors errors;

	if (config_parse(path, text, length, NULL, &config, &errors) == 0)
		return true;
	for (unsigned i = 0; i < errors.count && i < CONFIG_ERRORS_MAX; i++)
		fprintf(stderr, "%s\n", errors.text[i]);
	fputs("dprctl init: nothing was written\n", stderr);
	return false;
}

/* The choice of the key when no option names it: the present one, or the answer on a terminal. NULL after a line. */
static const char *choose_key(const char *key_path, char answer[INIT_ANSWER_BYTES])
{
	if (access(key_path, F_OK) == 0)
		return key_path;
	if (isatty(STDIN_FILENO))
		return init_ask("Key of the cluster: generate, or the file with the key of another node", "generate",
				answer)
			       ? answer
			       : NULL;
	fputs("dprctl init: give --key=generate on the first node, and --key=FILE with that key on the others\n",
	      stderr);
	return NULL;
}

static bool make_key(const char *choice, uint8_t key[KEY_BYTES])
{
	char message[CONFIG_ERROR_BYTES];

	if (strcmp(choice, "generate") == 0) {
		if (getrandom(key, KEY_BYTES, 0) == KEY_BYTES)
			return true;
		perror("dprctl init: getrandom");
		return false;
	}
	if (config_read_key(choice, key, message) == 0)
		return true;
	fprintf(stderr, "dprctl init: %s\n", message);
	return false;
}

/* *ret_made: the file is new, so that it can be taken back. False after a line. */
static bool put_key(const struct dprctl *c, const char *key_path, bool *ret_made)
{
	char answer[INIT_ANSWER_BYTES], text[2 * KEY_BYTES + 2];
	const char *choice = c->init.key ? c->init.key : choose_key(key_path, answer);
	struct stat source, target;
	uint8_t key[KEY_BYTES];
	bool done, is_there = stat(key_path, &target) == 0;

	*ret_made = false;
	if (!choice || !make_key(choice, key))
		return false;
	if (is_there && stat(choice, &source) == 0 && source.st_dev == target.st_dev &&
	    source.st_ino == target.st_ino) {
		explicit_bzero(key, sizeof(key));
		return true;
	}
	for (unsigned i = 0; i < KEY_BYTES; i++)
		snprintf(text + 2 * i, 3, "%02x", key[i]);
	snprintf(text + 2 * KEY_BYTES, 2, "\n");
	done = put_file(key_path, text, 2 * KEY_BYTES + 1, MODE_KEY, c->init.force);
	explicit_bzero(text, sizeof(text));
	explicit_bzero(key, sizeof(key));
	*ret_made = done && !is_there;
	return done;
}

static void show_next(const struct init_plan *plan, const char *path)
{
	printf("wrote %s; the key is in %s\nnext, as root:\n", path, plan->key_path);
	for (unsigned i = 0; i < plan->member_count; i++)
		if (strcmp(plan->member[i].name, plan->self) != 0 && !plan->names_self)
			printf("  scp %s %s %s:/etc/dprd/\n", path, plan->key_path, plan->member[i].name);
	if (plan->names_self && plan->member_count > 1)
		printf("  copy both files to the other nodes, and change Name= in [Node] there\n");
	puts("on each node:\n"
	     "  dprd --check\n"
	     "  systemctl enable --now loadcast dprd\n"
	     "  dprctl status");
}

int command_init(struct dprctl *c, char **arguments)
{
	const char *path = c->config_path ? c->config_path : CONFIG_PATH_DEFAULT;
	static struct init_plan plan;
	static char text[INIT_TEXT_BYTES];
	bool made_key;
	size_t length;

	(void)arguments;
	if (strlen(path) >= PATH_BYTES - sizeof("cluster.key")) {
		fprintf(stderr, "dprctl init: %s: this name is too long\n", path);
		return DPRCTL_FAILED;
	}
	if (!c->init.force && access(path, F_OK) == 0) {
		fprintf(stderr, "dprctl init: %s is there already, and stays; --force writes another one\n", path);
		return DPRCTL_FAILED;
	}
	if (!init_plan_make(c, path, &plan))
		return DPRCTL_FAILED;
	length = init_write(&plan, text);
	if (!length || !check_text(path, text, length))
		return DPRCTL_FAILED;
	if (!put_key(c, plan.key_path, &made_key))
		return DPRCTL_FAILED;
	if (!put_file(path, text, length, MODE_CONFIG, c->init.force)) {
		if (made_key)
			unlink(plan.key_path);
		return DPRCTL_FAILED;
	}
	show_next(&plan, path);
	return DPRCTL_OK;
}
