// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * dprctl/member.c - dprctl member: changes a [Member] section of dprd.conf on this node.
 *
 * Nothing is written before the parser of the daemons has taken the new text. The new file takes the place of the old one
 * in one step, with its mode and owner; the old text stays in dprd.conf.bak. The time of that file is the time of the new
 * dprd.conf: as long as both are equal, "undo" knows that no editor has changed dprd.conf since.
 */
#define _GNU_SOURCE
#include "dprd/dprctl/dprctl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "dprd/base/addr.h"
#include "dprd/config/edit.h"

enum { FILE_BYTES_MAX = 256 * 1024, REAL_PATH_BYTES = 4096, WEIGHT_MAX = 1000 };

/* One change of one file. */
struct edit {
	const struct dprctl *c;
	const struct member_change *change;
	char path[REAL_PATH_BYTES], backup[REAL_PATH_BYTES + 8]; /* links followed */
	int directory; /* locked while the change lasts */
	struct stat was;
	char *old, *new;
};

static int fail(const char *path, const char *what, int error)
{
	fprintf(stderr, "dprctl: %s %s: %s%s. Nothing was changed\n", what, path, strerror(error),
		error == EACCES || error == EPERM ? "; run dprctl as root" : "");
	return DPRCTL_FAILED;
}

bool member_parse(const struct dprctl *c, char **arguments, struct member_change *ret)
{
	static const char *const words[MEMBER_ACTIONS] = { "add", "remove", "weight", "undo" };
	const unsigned wanted[MEMBER_ACTIONS] = { 1, 1, 2, 0 };
	unsigned count = 0;
	unsigned long weight;

	memset(ret, 0, sizeof(*ret));
	while (ret->action < MEMBER_ACTIONS && strcmp(words[ret->action], arguments[0]) != 0)
		ret->action++;
	while (arguments[1 + count])
		count++;
	if (ret->action == MEMBER_ACTIONS || count != wanted[ret->action]) {
		fputs("dprctl: say member add NAME --service=ADDRESS, member remove NAME, member weight NAME WEIGHT or "
		      "member undo\n",
		      stderr);
		return false;
	}
	ret->name = count ? arguments[1] : NULL;
	ret->weight = ret->action == MEMBER_WEIGHT ? arguments[2] : c->weight;
	if ((c->service_count != 0) != (ret->action == MEMBER_ADD) ||
	    (ret->action != MEMBER_ADD && (c->cluster_count || c->weight))) {
		fputs("dprctl: --service goes with member add, which needs it; --cluster and --weight too\n", stderr);
		return false;
	}
	if (ret->weight && !parse_count(ret->weight, WEIGHT_MAX, &weight)) {
		fprintf(stderr, "dprctl: a weight is a number from 0 to %d, not %s\n", WEIGHT_MAX, ret->weight);
		return false;
	}
	return true;
}

static int read_text(const char *path, char **ret, struct stat *st)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), error = 0;
	ssize_t got;

	*ret = NULL;
	if (fd < 0)
		return -errno;
	if (fstat(fd, st) < 0)
		error = -errno;
	else if (!S_ISREG(st->st_mode) || st->st_size > FILE_BYTES_MAX)
		error = -EFBIG;
	*ret = error ? NULL : calloc(1, (size_t)st->st_size + 1);
	if (!error && !*ret)
		error = -ENOMEM;
	got = error ? 0 : pread(fd, *ret, (size_t)st->st_size, 0);
	if (!error && got != st->st_size)
		error = got < 0 ? -errno : -EAGAIN;
	close(fd);
	if (error) {
		free(*ret);
		*ret = NULL;
	}
	return error;
}

static bool same_time(const struct stat *a, const struct stat *b)
{
	return a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* The text before the last change. */
static int undo_text(struct edit *e)
{
	struct stat st;
	int error = read_text(e->backup, &e->new, &st);

	if (error == -ENOENT || (!error && !same_time(&st, &e->was))) {
		fprintf(stderr, "dprctl: %s is not what dprctl member left: there is nothing to undo\n", e->path);
		return DPRCTL_FAILED;
	}
	return error ? fail(e->backup, "cannot read", -error) : DPRCTL_OK;
}

static int new_text(struct edit *e)
{
	const struct member_change *change = e->change;
	struct edit_member member = { .name = change->name,
				      .weight = change->weight,
				      .service_count = e->c->service_count,
				      .cluster_count = e->c->cluster_count };
	size_t length = (size_t)e->was.st_size;
	int error;

	if (change->action == MEMBER_UNDO)
		return undo_text(e);
	memcpy(member.service, e->c->service, sizeof(member.service));
	memcpy(member.cluster, e->c->cluster, sizeof(member.cluster));
	error = change->action == MEMBER_ADD ? config_edit_add(e->old, length, &member, &e->new)
		: change->action == MEMBER_REMOVE
			? config_edit_remove(e->old, length, change->name, &e->new)
			: config_edit_weight(e->old, length, change->name, change->weight, &e->new);
	if (!error)
		return DPRCTL_OK;
	fprintf(stderr, "dprctl: %s: %s. Nothing was changed\n", change->name,
		error == -EEXIST   ? "dprd.conf has a member of this name"
		: error == -ENOENT ? "dprd.conf has no member of this name"
		: error == -EINVAL ? "the name, an address or the weight is none, or dprd.conf is no text"
				   : "out of memory");
	return DPRCTL_FAILED;
}

/* The parser of dprd and loadcast takes the new text. */
static int check(const struct edit *e)
{
	static struct config config; /* these are too large for a stack */
	static struct config_errors errors;

	if (!config_parse(e->path, e->new, strlen(e->new), e->c->node_name, &config, &errors))
		return DPRCTL_OK;
	for (unsigned i = 0; i < errors.count && i < CONFIG_ERRORS_MAX; i++)
		fprintf(stderr, "%s\n", errors.text[i]);
	fputs("dprctl: dprd.conf would have these errors. Nothing was changed\n", stderr);
	return DPRCTL_FAILED;
}

static bool has_member(const struct config *config, const char *name)
{
	for (unsigned i = 0; i < config->member_count; i++)
		if (strcmp(config->member[i].name, name) == 0)
			return true;
	return false;
}

static bool note_shown(void *context, const json_t *line)
{
	double shown;

	if (json_object_get(line, "schema") && number_of(line, "shown", &shown) && shown > 0)
		*(bool *)context = true;
	return true;
}

static bool has_flows(const struct edit *e, const char *name)
{
	bool some = false;

	dprctl_ask(e->c->run_dir, json_pack("{s:s, s:s, s:i}", "command", "flows", "node", name, "limit", 1),
		   e->c->answer_ms, note_shown, &some);
	return some;
}

/*
 * Connections that go to a member end when it leaves the file, also when the change that brought it is undone. status: of
 * dprd, which may have other members than the file until now.
 */
static int check_flows(const struct edit *e, const json_t *status)
{
	static struct config new; /* these are too large for a stack */
	static struct config_errors errors;
	const json_t *members = json_object_get(status, "members"), *member;
	const char *name = NULL;
	size_t i;

	if (config_parse(e->path, e->new, strlen(e->new), e->c->node_name, &new, &errors))
		return DPRCTL_FAILED;
	json_array_foreach(members, i, member)
	{
		if (!has_member(&new, text_of(member, "name")) && has_flows(e, text_of(member, "name")))
			name = text_of(member, "name");
	}
	if (!name)
		return DPRCTL_OK;
	fprintf(stderr,
		"dprctl: connections are forwarded to %s, which would end. Drain it first: dprctl --host %s drain; "
		"then wait until dprctl flows --to %s shows none. Nothing was changed\n",
		name, name, name);
	return DPRCTL_FAILED;
}

/* An editor may have saved the file since it was read. */
static bool is_untouched(const struct edit *e)
{
	struct stat now;

	return stat(e->path, &now) == 0 && now.st_ino == e->was.st_ino && now.st_size == e->was.st_size &&
	       same_time(&now, &e->was);
}

/* Puts a file with this text in place of another one, in one step. 0 or -errno. */
static int put_file(const struct edit *e, const char *path, const char *text, const struct timespec *time)
{
	char fresh[REAL_PATH_BYTES + 16];
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
					   time ? *time : (struct timespec) { .tv_nsec = UTIME_NOW } };
	size_t length = strlen(text);
	int fd, error = 0;

	snprintf(fresh, sizeof(fresh), "%s.XXXXXX", path);
	fd = mkostemp(fresh, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* The owner first: a change of it takes bits away from the mode. */
	if (write(fd, text, length) != (ssize_t)length || fchown(fd, e->was.st_uid, e->was.st_gid) < 0 ||
	    fchmod(fd, e->was.st_mode & 07777) < 0 || futimens(fd, times) < 0 || fsync(fd) < 0 ||
	    rename(fresh, path) < 0)
		error = errno ? -errno : -EIO;
	close(fd);
	if (error)
		unlink(fresh);
	else
		fsync(e->directory);
	return error;
}

/* The new file, and the old text as the way back. */
static int write_files(struct edit *e)
{
	struct timespec now;
	int error;

	if (!is_untouched(e)) {
		fprintf(stderr, "dprctl: %s was changed by another program just now. Nothing was changed\n", e->path);
		return DPRCTL_FAILED;
	}
	clock_gettime(CLOCK_REALTIME, &now);
	error = put_file(e, e->backup, e->old, &now);
	if (!error)
		error = put_file(e, e->path, e->new, &now);
	return error ? fail(e->path, "cannot write", -error) : DPRCTL_OK;
}

static int take_back(struct edit *e)
{
	int error = put_file(e, e->path, e->old, &e->was.st_mtim);
	json_t *answer = NULL;

	if (error) {
		fprintf(stderr, "dprctl: cannot write %s: %s. The former text is in %s\n", e->path, strerror(-error),
			e->backup);
		return DPRCTL_FAILED;
	}
	unlink(e->backup);
	/* A dprd that was only late has the new text. */
	dprctl_ask_one(e->c->run_dir, json_pack("{s:s}", "command", "reload"), e->c->answer_ms, &answer);
	json_decref(answer);
	fprintf(stderr, "dprctl: the former %s is back\n", e->path);
	return DPRCTL_FAILED;
}

static int open_file(struct edit *e)
{
	const char *path = e->c->config_path ? e->c->config_path : CONFIG_PATH_DEFAULT;
	char *slash;
	int error;

	if (!realpath(path, e->path))
		return fail(path, "cannot find", errno);
	snprintf(e->backup, sizeof(e->backup), "%s.bak", e->path);
	slash = strrchr(e->path, '/');
	*slash = '\0';
	e->directory = open(*e->path ? e->path : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*slash = '/';
	if (e->directory < 0)
		return fail(e->path, "cannot open the directory of", errno);
	if (flock(e->directory, LOCK_EX | LOCK_NB) < 0) {
		fprintf(stderr, "dprctl: another dprctl changes %s. Nothing was changed\n", e->path);
		return DPRCTL_FAILED;
	}
	error = read_text(e->path, &e->old, &e->was);
	return error ? fail(e->path, "cannot read", -error) : DPRCTL_OK;
}

static int change_file(struct edit *e, bool dry, bool *ret_same)
{
	json_t *answer;
	int result = new_text(e);

	if (!result)
		result = check(e);
	if (result)
		return result;
	*ret_same = strcmp(e->old, e->new) == 0;
	if (*ret_same) {
		printf("%s " MEMBER_SAME "\n", e->path);
		return DPRCTL_OK;
	}
	if (dry) {
		render_diff(stdout, e->path, e->old, e->new);
		return DPRCTL_OK;
	}
	/* A dprd that does not answer could not take the file, and could not refuse it. */
	answer = dprctl_answer(e->c, json_pack("{s:s}", "command", "status"));
	if (!answer) {
		fputs("dprctl: nothing was changed\n", stderr);
		return DPRCTL_FAILED;
	}
	result = check_flows(e, answer);
	json_decref(answer);
	if (!result)
		result = write_files(e);
	if (result)
		return result;
	result = dprctl_reload(e->c);
	return result == DPRCTL_FAILED ? take_back(e) : result;
}

int member_here(const struct dprctl *c, const struct member_change *change, bool dry, bool *ret_same)
{
	struct edit *e = calloc(1, sizeof(*e));
	int result;

	*ret_same = false;
	if (!e)
		return DPRCTL_FAILED;
	e->c = c;
	e->change = change;
	e->directory = -1;
	result = open_file(e);
	if (!result)
		result = change_file(e, dry, ret_same);
	if (e->directory >= 0)
		close(e->directory);
	free(e->old);
	free(e->new);
	free(e);
	return result;
}
