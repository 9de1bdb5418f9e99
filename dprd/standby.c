// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "dprd/standby.h"

#include <errno.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <libnetfilter_queue/libnetfilter_queue.h>
#include <netinet/in.h> /* before the kernel's own header of the same names */
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dprd/base/clock.h"
#include "dprd/base/log.h"

enum {
	/* The process's files: the pipe that closes when dprd ends, the page that both see, the queues' sockets. */
	PIPE_FD = 3,
	PAGE_FD,
	FIRST_QUEUE_FD,
	ABOVE_FD = FIRST_QUEUE_FD + STANDBY_QUEUES_MAX, /* what is duplicated to these numbers is none of them */
	MESSAGE_BYTES = 16 * 1024, /* more than a queued packet is copied */
	VERDICT_BYTES = 256,
	DRAIN_MAX = 4096, /* packets at a time: then the worker may be back */
	STOP_MS = 1000,
	STOP_TRY_MS = 5,
};

struct page {
	uint64_t stamp_ms[STANDBY_QUEUES_MAX];
	uint64_t served;
	uint32_t count;
	uint16_t number[STANDBY_QUEUES_MAX];
};

struct standby {
	struct page *page;
	int page_fd, pipe_fd; /* pipe: the end that is never written to */
	struct standby_queue queues[STANDBY_QUEUES_MAX];
	pid_t pid; /* 0: none */
	bool complained;
};

bool standby_judge(struct standby_watch *watch, uint64_t stamp, bool packets_wait, uint64_t now_ms)
{
	if (stamp != watch->stamp)
		*watch = (struct standby_watch) { .stamp = stamp };
	if (!packets_wait)
		watch->waiting_since_ms = 0;
	else if (!watch->waiting_since_ms)
		watch->waiting_since_ms = now_ms;
	else if (now_ms - watch->waiting_since_ms >= STANDBY_PATIENCE_MS)
		watch->still = true;
	return watch->still;
}

/* --- the process --- */

/* Not by a look into the socket: that would take the word of an overrun away, which the worker counts. */
static bool has_packet(int socket)
{
	struct pollfd fd = { .fd = socket, .events = POLLIN };

	return poll(&fd, 1, 0) > 0 && fd.revents & POLLIN;
}

/* The id of a received packet into *ret. False: the message is none. */
static bool packet_id(const struct nlmsghdr *message, ssize_t bytes, uint32_t *ret)
{
	const struct nlattr *attribute;

	if (!mnl_nlmsg_ok(message, (int)bytes) || message->nlmsg_type != (NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_PACKET))
		return false;
	mnl_attr_for_each(attribute, message, sizeof(struct nfgenmsg))
	{
		const struct nfqnl_msg_packet_hdr *header = mnl_attr_get_payload(attribute);

		if (mnl_attr_get_type(attribute) == NFQA_PACKET_HDR &&
		    mnl_attr_get_payload_len(attribute) >= sizeof(*header)) {
			*ret = ntohl(header->packet_id);
			return true;
		}
	}
	return false;
}

static void let_pass(int socket, uint16_t queue, uint32_t id)
{
	char buffer[VERDICT_BYTES] = { 0 };
	struct nlmsghdr *message = nfq_nlmsg_put(buffer, NFQNL_MSG_VERDICT, queue);

	nfq_nlmsg_verdict_put(message, (int)id, NF_ACCEPT);
	/* One that the kernel does not take is of a packet that is no more. */
	send(socket, message, message->nlmsg_len, 0);
}

static void drain(struct page *page, unsigned queue)
{
	static char buffer[MESSAGE_BYTES] __attribute__((aligned(8)));
	int socket = FIRST_QUEUE_FD + (int)queue, i;

	for (i = 0; i < DRAIN_MAX; i++) {
		ssize_t bytes = recv(socket, buffer, sizeof(buffer), MSG_DONTWAIT);
		uint32_t id;

		if (bytes < 0 && errno != ENOBUFS && errno != EINTR)
			return;
		if (bytes < 0 || !packet_id((struct nlmsghdr *)buffer, bytes, &id))
			continue;
		let_pass(socket, page->number[queue], id);
		__atomic_fetch_add(&page->served, 1, __ATOMIC_RELAXED);
	}
}

/* Looks at all workers, and does the work of those that stand still. How long it may sleep; -1: until a packet comes. */
static int look(struct page *page, struct pollfd *fds, uint64_t watched_from_ms)
{
	static struct standby_watch watch[STANDBY_QUEUES_MAX];
	uint64_t now_ms = clock_now_ms();
	bool sleeps = now_ms - watched_from_ms >= STANDBY_WATCH_MS;
	unsigned i;

	for (i = 0; i < page->count; i++) {
		int socket = FIRST_QUEUE_FD + (int)i;
		bool waits = has_packet(socket),
		     still = standby_judge(&watch[i], __atomic_load_n(&page->stamp_ms[i], __ATOMIC_RELAXED), waits,
					   now_ms);

		if (still)
			drain(page, i);
		sleeps = sleeps && !waits;
		/* While it stands still no packet has to wait for the next look. */
		fds[i] = (struct pollfd) { .fd = still ? socket : -1, .events = POLLIN };
	}
	for (i = 0; i < page->count && sleeps; i++)
		fds[i].fd = FIRST_QUEUE_FD + (int)i;
	return sleeps ? -1 : STANDBY_LOOK_MS;
}

int standby_run(void)
{
	struct page *page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, PAGE_FD, 0);
	struct pollfd fds[STANDBY_QUEUES_MAX + 1] = { { .fd = PIPE_FD } };
	uint64_t watched_from_ms = clock_now_ms();
	unsigned i;

	if (page == MAP_FAILED || page->count > STANDBY_QUEUES_MAX || fcntl(PIPE_FD, F_GETFD) < 0) {
		log_err("dprd starts this process by itself; nobody else can");
		return EXIT_FAILURE;
	}
	while (!fds[0].revents) {
		int sleep_ms = look(page, &fds[1], watched_from_ms);

		poll(fds, page->count + 1, sleep_ms);
		if (sleep_ms < 0)
			watched_from_ms = clock_now_ms();
	}
	/* dprd is gone. What it had in hand is lost, and sent again by the clients; what it had not read is not. */
	for (i = 0; i < page->count; i++)
		drain(page, i);
	return EXIT_SUCCESS;
}

/* --- dprd's side --- */

/* Its files, at their numbers. All sources lie above these: none is overwritten before its turn. */
static int spawn(struct standby *s, int pipe_end)
{
	char *const arguments[] = { (char *)(uintptr_t) "dprd", (char *)(uintptr_t)STANDBY_OPTION, NULL };
	char *const environment[] = { NULL };
	int high[ABOVE_FD], error = 0, fd;
	posix_spawn_file_actions_t actions;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	for (fd = PIPE_FD; fd < FIRST_QUEUE_FD + (int)s->page->count; fd++) {
		int from = fd == PIPE_FD   ? pipe_end
			   : fd == PAGE_FD ? s->page_fd
					   : s->queues[fd - FIRST_QUEUE_FD].socket;

		high[fd] = fcntl(from, F_DUPFD_CLOEXEC, ABOVE_FD);
		if (high[fd] < 0)
			error = errno;
		else
			posix_spawn_file_actions_adddup2(&actions, high[fd], fd);
	}
	/* This program, also when its file was replaced meanwhile. */
	if (!error)
		error = posix_spawn(&pid, "/proc/self/exe", &actions, NULL, arguments, environment);
	if (!error)
		s->pid = pid;
	while (--fd >= PIPE_FD) {
		if (high[fd] >= 0)
			close(high[fd]);
	}
	posix_spawn_file_actions_destroy(&actions);
	return error;
}

static void start_process(struct standby *s)
{
	int ends[2], error = pipe2(ends, O_CLOEXEC) ? errno : 0;

	if (!error) {
		error = spawn(s, ends[0]);
		close(ends[0]);
		if (error)
			close(ends[1]);
		else
			s->pipe_fd = ends[1];
	}
	if (error && !s->complained)
		log_warning("no standby process: %s; should dprd stand still, new connections wait for it",
			    strerror(error));
	s->complained = error;
}

struct standby *standby_start(const struct standby_queue *queues, unsigned count)
{
	struct standby *s = calloc(1, sizeof(*s));
	unsigned i;

	if (!s)
		return NULL;
	s->pipe_fd = -1;
	s->page_fd = memfd_create("dprd-standby", MFD_CLOEXEC);
	s->page = s->page_fd < 0 || ftruncate(s->page_fd, sizeof(*s->page))
			  ? MAP_FAILED
			  : mmap(NULL, sizeof(*s->page), PROT_READ | PROT_WRITE, MAP_SHARED, s->page_fd, 0);
	if (s->page == MAP_FAILED) {
		if (s->page_fd >= 0)
			close(s->page_fd);
		free(s);
		return NULL;
	}
	s->page->count = count < STANDBY_QUEUES_MAX ? count : STANDBY_QUEUES_MAX;
	for (i = 0; i < s->page->count; i++) {
		s->queues[i] = queues[i];
		s->page->number[i] = queues[i].number;
	}
	start_process(s);
	return s;
}

uint64_t *standby_stamp(struct standby *standby, unsigned queue)
{
	return &standby->page->stamp_ms[queue];
}

void standby_tick(struct standby *standby)
{
	if (standby->pid && waitpid(standby->pid, NULL, WNOHANG) == 0)
		return;
	if (standby->pid) {
		log_warning("the standby process ended; another one is started");
		close(standby->pipe_fd);
		standby->pid = 0;
	}
	start_process(standby);
}

uint64_t standby_served(const struct standby *standby)
{
	return __atomic_load_n(&standby->page->served, __ATOMIC_RELAXED);
}

void standby_stop(struct standby *standby)
{
	int waited_ms;

	if (!standby)
		return;
	if (standby->pid) {
		close(standby->pipe_fd);
		for (waited_ms = 0; waitpid(standby->pid, NULL, WNOHANG) == 0; waited_ms += STOP_TRY_MS) {
			/* It may have been stopped itself. */
			if (waited_ms == STOP_MS)
				kill(standby->pid, SIGKILL);
			usleep(STOP_TRY_MS * 1000);
		}
	}
	munmap(standby->page, sizeof(*standby->page));
	close(standby->page_fd);
	free(standby);
}
