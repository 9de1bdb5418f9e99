// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "dprd/queue/standby.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dprd/base/clock.h"
#include "dprd/base/lock.h"
#include "dprd/base/log.h"
#include "dprd/core/decide/tunnelled.h"
#include "dprd/core/packet/encap.h"
#include "dprd/core/packet/marks.h"
#include "dprd/host/nfqueue.h"
#include "dprd/queue/standby_forward.h"
#include "dprd/queue/standby_noted.h"

enum {
	/* The process's files: the pipe that closes when dprd ends, the page that both see, the queues' sockets. */
	PIPE_FD = 3,
	PAGE_FD,
	FIRST_QUEUE_FD,
	ABOVE_FD = FIRST_QUEUE_FD + STANDBY_QUEUES_MAX, /* what is duplicated to these numbers is none of them */
	MESSAGE_BYTES = 16 * 1024, /* more than a queued packet is copied */
	VERDICT_BYTES = MESSAGE_BYTES, /* with a packet in it */
	DRAIN_MAX = 4096, /* packets at a time: then the worker may be back */
	LINGER_LOOK_MS = 5,
	STOP_MS = 1000,
	STOP_TRY_MS = 5,
};

struct page {
	uint64_t stamp_ms[STANDBY_QUEUES_MAX]; /* of each worker */
	struct standby_counts counts;
	uint32_t stops; /* dprd ends in good order */
	uint32_t drains; /* the process reads a queue: it may have a packet in hand */
	struct standby_noted noted; /* SYNs that it lets pass, from a moment before it does */
	uint32_t count;
	struct standby_queue queues[STANDBY_QUEUES_MAX];
	/* The other one is written to, 50 ms after it was read last at least: nobody reads it for so long. */
	struct standby_members members[2];
	uint32_t current; /* the one to read */
};

struct standby {
	struct page *page;
	int page_fd, pipe_fd; /* pipe: the end that is never written to */
	pid_t pid; /* 0: none */
	bool complained;
};

bool standby_judge(struct standby_watch *watch, uint64_t stamp, bool packets_wait, uint64_t now_ms)
{
	if (stamp != watch->stamp)
		*watch = (struct standby_watch) { .stamp = stamp, .empty_ms = watch->empty_ms };
	if (!packets_wait)
		watch->empty_ms = now_ms;
	if (!packets_wait || !watch->waiting_since_ms)
		watch->waiting_since_ms = packets_wait ? now_ms : 0;
	else if (now_ms - watch->waiting_since_ms >= STANDBY_PATIENCE_MS)
		watch->still = true;
	return watch->still;
}

static bool is_living(void *context, unsigned member)
{
	return *(const uint64_t *)context >> member & 1;
}

bool standby_unwrap(const struct config *config, uint64_t living, uint8_t *datagram, unsigned bytes, bool maybe_stale,
		    struct standby_inner *ret)
{
	const struct tunnelled tunnelled = { .config = config, .is_living = is_living, .context = &living };
	struct decap_env env = tunnelled_env(&tunnelled);
	struct packet outer, inner;
	struct verdict verdict;

	env.maybe_stale = maybe_stale;
	packet_parse(datagram, bytes, &outer);
	verdict = decide_decapsulation(&env, &outer, &inner);
	if (verdict.kind != VERDICT_DECAPSULATE)
		return false;
	*ret = (struct standby_inner) { .bytes = datagram + outer.header_bytes, .count = inner.total_bytes };
	if (!encap_decapsulate_ecn(ret->bytes, &inner, outer.tos))
		return false;
	tunnelled_to_alias(config, verdict.node_id, ret->bytes, &inner);
	return true;
}

/* --- the process --- */

/* Not by a look into the socket: that would take the word of an overrun away, which the worker counts. */
static bool has_packet(int socket)
{
	struct pollfd fd = { .fd = socket, .events = POLLIN };

	return poll(&fd, 1, 0) > 0 && fd.revents & POLLIN;
}

/* inner: the stack gets this instead of the packet; NULL: the packet itself. dprd's mark goes. */
static void answer(int socket, uint16_t queue, const struct nfqueue_packet *packet, bool accept,
		   const struct standby_inner *inner)
{
	static uint8_t buffer[VERDICT_BYTES] __attribute__((aligned(8)));
	const struct nfqueue_verdict verdict = { .id = packet->id,
						 .accept = accept,
						 .replace = inner ? inner->bytes : NULL,
						 .replace_bytes = inner ? inner->count : 0,
						 .set_mark = accept && packet->mark & MARK_FORWARD,
						 .mark = packet->mark & ~(uint32_t)MARK_FORWARD };

	/* When the kernel does not take it, the packet has gone already. */
	nfqueue_send(socket, buffer, nfqueue_write(buffer, queue, &verdict));
}

static void count(uint64_t *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static const struct standby_members *members_now(const struct page *page)
{
	return &page->members[__atomic_load_n(&page->current, __ATOMIC_ACQUIRE) & 1];
}

/*
 * Lets it pass. For dprd, which may go on at any moment, it is noted first: so that dprd serves the copies, too, however
 * long this process holds the packet. False: dprd went on before the note, and the packet may be so old that its copy was
 * forwarded. It is dropped then.
 */
static bool serve(struct page *page, const struct standby_queue *queue, int socket, struct nfqueue_packet *received,
		  const struct standby_watch *watch)
{
	struct packet packet = { .kind = PACKET_OTHER };
	bool goes_on, old;

	if (received->bytes)
		packet_parse(received->bytes, received->captured, &packet);
	if (packet_is_syn(&packet)) {
		standby_note(&page->noted, &packet);
		goes_on = __atomic_load_n(&page->stamp_ms[queue->worker], __ATOMIC_SEQ_CST) != watch->stamp;
		old = clock_now_ms() - watch->empty_ms > STALE_MS + IN_HAND_MS;
		if (goes_on && old) {
			answer(socket, queue->number, received, false, NULL);
			return false;
		}
	}
	answer(socket, queue->number, received, true, NULL);
	count(&page->counts.served);
	return true;
}

static void let_out(struct page *page, int socket, uint16_t queue, struct nfqueue_packet *received, bool maybe_stale)
{
	const struct standby_members *members = members_now(page);
	struct standby_inner inner;

	if (!standby_unwrap(&members->config, members->living, received->bytes, received->captured, maybe_stale,
			    &inner)) {
		answer(socket, queue, received, false, NULL);
		return;
	}
	answer(socket, queue, received, true, &inner);
	count(&page->counts.tunnelled);
}

static void send_on(struct page *page, int socket, uint16_t queue, struct nfqueue_packet *received)
{
	enum standby_fate fate = standby_forward(members_now(page), received->bytes, received->captured);

	answer(socket, queue, received, fate == STANDBY_PASS || fate == STANDBY_SERVE, NULL);
	if (fate == STANDBY_SERVE)
		count(&page->counts.served);
	if (fate == STANDBY_SEND)
		count(&page->counts.forwarded);
}

static void drain_queue(struct page *page, unsigned number, struct standby_watch *watch)
{
	static uint8_t buffer[MESSAGE_BYTES] __attribute__((aligned(8)));
	const struct standby_queue *queue = &page->queues[number];
	int socket = FIRST_QUEUE_FD + (int)number, i;

	for (i = 0; i < DRAIN_MAX; i++) {
		ssize_t bytes = recv(socket, buffer, sizeof(buffer), MSG_DONTWAIT);
		/* Not before: this process, too, may have stood still until a moment ago. */
		uint64_t now_ms = clock_now_ms();
		struct nfqueue_packet received;

		if (bytes < 0 && errno != ENOBUFS && errno != EINTR) {
			watch->empty_ms = now_ms;
			return;
		}
		if (bytes < 0 || nfqueue_read(buffer, (size_t)bytes, &received) != NFQUEUE_PACKET)
			continue;
		if (queue->kind == STANDBY_TUNNEL) {
			let_out(page, socket, queue->number, &received, now_ms - watch->empty_ms > STALE_MS);
		} else if (queue->kind == STANDBY_FORWARD) {
			send_on(page, socket, queue->number, &received);
		} else if (!serve(page, queue, socket, &received, watch)) {
			return;
		}
	}
}

static void drain(struct page *page, unsigned number, struct standby_watch *watch)
{
	__atomic_store_n(&page->drains, 1, __ATOMIC_SEQ_CST);
	drain_queue(page, number, watch);
	__atomic_store_n(&page->drains, 0, __ATOMIC_SEQ_CST);
}

/* Looks at all workers, and does the work of those that stand still. How long it may sleep; -1: until a packet comes. */
static int look(struct page *page, struct standby_watch *watch, struct pollfd *fds, uint64_t watched_from_ms)
{
	uint64_t now_ms = clock_now_ms();
	bool sleeps = now_ms - watched_from_ms >= STANDBY_WATCH_MS;
	unsigned i;

	for (i = 0; i < page->count; i++) {
		int socket = FIRST_QUEUE_FD + (int)i;
		uint64_t stamp_ms = __atomic_load_n(&page->stamp_ms[page->queues[i].worker], __ATOMIC_RELAXED);
		bool waits = has_packet(socket), still = standby_judge(&watch[i], stamp_ms, waits, now_ms);

		if (still)
			drain(page, i, &watch[i]);
		/* Who sleeps does not know how long a packet waited. */
		sleeps = sleeps && !waits && !still;
		/* While it stands still no packet has to wait for the next look. */
		fds[i] = (struct pollfd) { .fd = still ? socket : -1, .events = POLLIN };
	}
	for (i = 0; i < page->count && sleeps; i++)
		fds[i].fd = FIRST_QUEUE_FD + (int)i;
	return sleeps ? -1 : STANDBY_LOOK_MS;
}

/*
 * dprd is gone. What it had in hand is lost, and sent again by the clients; what it had not read is not. When it did not
 * end by itself, this goes on: for a moment in any case, since peers do not know it yet, and then until the next dprd
 * has the lock and wants the queues. A lock that was never seen free may be that one's, too.
 */
static void linger(struct page *page, struct standby_watch *watch, struct pollfd *fds)
{
	int lock = page->stops ? -1 : lock_watch(members_now(page)->config.run_dir);
	uint64_t start_ms = clock_now_ms(), passed_ms = 0;
	bool was_free = false, taken;
	unsigned i;

	for (i = 0; i < page->count; i++)
		watch[i].stamp = page->stamp_ms[page->queues[i].worker];
	do {
		for (i = 0; i < page->count; i++) {
			fds[i] = (struct pollfd) { .fd = FIRST_QUEUE_FD + (int)i, .events = POLLIN };
			drain(page, i, &watch[i]);
		}
		if (page->stops)
			break;
		taken = lock < 0 || lock_is_taken(lock);
		was_free = was_free || !taken;
		poll(fds, page->count, LINGER_LOOK_MS);
		passed_ms = clock_now_ms() - start_ms;
	} while (passed_ms < (was_free && !taken ? STANDBY_LINGER_MS : STANDBY_MOMENT_MS));
	/* What comes into a queue before it is closed is dropped, and the end of a process takes milliseconds. */
	for (i = 0; i < page->count; i++) {
		drain(page, i, &watch[i]);
		close(FIRST_QUEUE_FD + (int)i);
	}
}

int standby_run(void)
{
	struct page *page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, PAGE_FD, 0);
	static struct standby_watch watch[STANDBY_QUEUES_MAX];
	struct pollfd fds[STANDBY_QUEUES_MAX + 1] = { { .fd = PIPE_FD } };
	uint64_t watched_from_ms = clock_now_ms();

	if (page == MAP_FAILED || page->count > STANDBY_QUEUES_MAX || fcntl(PIPE_FD, F_GETFD) < 0) {
		log_err("dprd starts this process by itself; nobody else can");
		return EXIT_FAILURE;
	}
	/* In a log of systemd and in ps(1); else it would be called as the file it was started from: exe. */
	prctl(PR_SET_NAME, "dprd-standby");
	while (!fds[0].revents) {
		int sleep_ms = look(page, watch, &fds[1], watched_from_ms);

		poll(fds, page->count + 1, sleep_ms);
		if (sleep_ms < 0)
			watched_from_ms = clock_now_ms();
	}
	linger(page, watch, &fds[1]);
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
					   : s->page->queues[fd - FIRST_QUEUE_FD].socket;

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

struct standby *standby_start(const struct standby_queue *queues, unsigned count, const struct standby_members *members)
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
	for (i = 0; i < s->page->count; i++)
		s->page->queues[i] = queues[i];
	standby_know(s, members);
	start_process(s);
	return s;
}

uint64_t *standby_stamp(struct standby *standby, unsigned worker)
{
	return &standby->page->stamp_ms[worker];
}

bool standby_drains(const struct standby *standby)
{
	return __atomic_load_n(&standby->page->drains, __ATOMIC_SEQ_CST);
}

bool standby_has_served(const struct standby *standby, const struct packet *syn)
{
	return standby_is_noted(&standby->page->noted, syn);
}

void standby_know(struct standby *standby, const struct standby_members *members)
{
	uint32_t other = !standby->page->current;

	standby->page->members[other] = *members;
	__atomic_store_n(&standby->page->current, other, __ATOMIC_RELEASE);
}

void standby_tick(struct standby *standby)
{
	if (standby->pid && waitpid(standby->pid, NULL, WNOHANG) == 0)
		return;
	if (standby->pid) {
		log_warning("the standby process ended; another one is started");
		close(standby->pipe_fd);
		standby->pid = 0;
		/* What it had in hand goes with the next batch. */
		__atomic_store_n(&standby->page->drains, 0, __ATOMIC_SEQ_CST);
	}
	start_process(standby);
}

struct standby_counts standby_count(const struct standby *standby)
{
	const struct standby_counts *counts = &standby->page->counts;

	return (struct standby_counts) { .served = __atomic_load_n(&counts->served, __ATOMIC_RELAXED),
					 .tunnelled = __atomic_load_n(&counts->tunnelled, __ATOMIC_RELAXED),
					 .forwarded = __atomic_load_n(&counts->forwarded, __ATOMIC_RELAXED) };
}

void standby_stop(struct standby *standby)
{
	int waited_ms;

	if (!standby)
		return;
	if (standby->pid) {
		standby->page->stops = 1;
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
