// SPDX-License-Identifier: GPL-2.0-or-later
/* standby_process.c - the standby process itself: finds out that a worker stands still, and answers its queues. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dprd/base/clock.h"
#include "dprd/base/lock.h"
#include "dprd/base/log.h"
#include "dprd/core/decide/tunnelled.h"
#include "dprd/core/packet/encap.h"
#include "dprd/core/packet/marks.h"
#include "dprd/host/nfqueue.h"
#include "dprd/queue/standby_page.h"

enum {
	MESSAGE_BYTES = 16 * 1024, /* more than the kernel copies of a packet */
	VERDICT_BYTES = MESSAGE_BYTES, /* with a packet in it */
	DRAIN_MAX = 4096, /* packets at a time; after that the worker may be back */
	LINGER_LOOK_MS = 5,
};

/* The state of the process. */
struct process {
	struct standby_page *page;
	struct standby_watch watch[STANDBY_QUEUES_MAX]; /* of each queue */
	struct standby_forwarder forwarder;
	uint8_t message[MESSAGE_BYTES] __attribute__((aligned(8)));
	uint8_t verdict[VERDICT_BYTES] __attribute__((aligned(8)));
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
	if (!encap_header_checksum_good(ret->bytes, &inner) || !encap_decapsulate_ecn(ret->bytes, &inner, outer.tos))
		return false;
	tunnelled_to_alias(config, verdict.node_id, ret->bytes, &inner);
	return true;
}

/* Asks poll(2): a read would take away the error of an overrun, which the worker counts. */
static bool has_packet(int socket)
{
	struct pollfd fd = { .fd = socket, .events = POLLIN };

	return poll(&fd, 1, 0) > 0 && fd.revents & POLLIN;
}

/* The socket of the queue from which a packet came. */
static int socket_of(unsigned number)
{
	return STANDBY_QUEUE_FD + (int)number;
}

/* inner: the stack gets this instead of the packet; NULL: the packet itself. The verdict clears dprd's mark. */
static void answer(struct process *p, unsigned number, const struct nfqueue_packet *packet, bool accept,
		   const struct standby_inner *inner)
{
	const struct nfqueue_verdict verdict = { .id = packet->id,
						 .accept = accept,
						 .replace = inner ? inner->bytes : NULL,
						 .replace_bytes = inner ? inner->count : 0,
						 .set_mark = accept && packet->mark & MARK_FORWARD,
						 .mark = packet->mark & ~(uint32_t)MARK_FORWARD };

	/* When the kernel refuses the verdict, the packet is gone already. */
	nfqueue_send(socket_of(number), p->verdict,
		     nfqueue_write(p->verdict, p->page->queues[number].number, &verdict));
}

static void count(uint64_t *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static const struct standby_members *members_now(const struct standby_page *page)
{
	return &page->members[__atomic_load_n(&page->current, __ATOMIC_ACQUIRE) & 1];
}

/*
 * Lets the packet pass: this node serves it. A SYN is noted before, since dprd may go on at any moment. Then dprd
 * serves the copies, too, however long this process holds the packet. False: dprd went on before the note, and the
 * packet may be so old that dprd forwarded its copy. So the packet is dropped.
 */
static bool serve(struct process *p, unsigned number, const struct nfqueue_packet *received)
{
	const struct standby_watch *watch = &p->watch[number];
	struct standby_page *page = p->page;
	struct packet packet = { .kind = PACKET_OTHER };
	bool goes_on, old;

	if (received->bytes)
		packet_parse(received->bytes, received->captured, &packet);
	if (packet_is_syn(&packet)) {
		standby_note(&page->noted, &packet);
		goes_on =
			__atomic_load_n(&page->stamp_ms[page->queues[number].worker], __ATOMIC_SEQ_CST) != watch->stamp;
		old = clock_now_ms() - watch->empty_ms > STALE_MS + IN_HAND_MS;
		if (goes_on && old) {
			answer(p, number, received, false, NULL);
			return false;
		}
	}
	answer(p, number, received, true, NULL);
	count(&page->counts.served);
	return true;
}

/* Takes a packet out of the tunnel. */
static void let_out(struct process *p, unsigned number, const struct nfqueue_packet *received, bool maybe_stale)
{
	const struct standby_members *members = members_now(p->page);
	struct standby_inner inner;

	if (!standby_unwrap(&members->config, members->living, received->bytes, received->captured, maybe_stale,
			    &inner)) {
		answer(p, number, received, false, NULL);
		return;
	}
	answer(p, number, received, true, &inner);
	count(&p->page->counts.tunnelled);
}

static void send_on(struct process *p, unsigned number, const struct nfqueue_packet *received)
{
	enum standby_fate fate =
		standby_forward(&p->forwarder, members_now(p->page), received->bytes, received->captured);

	answer(p, number, received, fate == STANDBY_PASS || fate == STANDBY_SERVE, NULL);
	if (fate == STANDBY_SERVE)
		count(&p->page->counts.served);
	if (fate == STANDBY_SEND)
		count(&p->page->counts.forwarded);
}

static void drain_queue(struct process *p, unsigned number)
{
	enum standby_kind kind = p->page->queues[number].kind;
	struct standby_watch *watch = &p->watch[number];
	int i;

	for (i = 0; i < DRAIN_MAX; i++) {
		ssize_t bytes = recv(socket_of(number), p->message, sizeof(p->message), MSG_DONTWAIT);
		/* The time is read after the packet: this process, too, may have stood still until a moment ago. */
		uint64_t now_ms = clock_now_ms();
		struct nfqueue_packet received;

		if (bytes < 0 && errno != ENOBUFS && errno != EINTR) {
			watch->empty_ms = now_ms;
			return;
		}
		if (bytes < 0 || nfqueue_read(p->message, (size_t)bytes, &received) != NFQUEUE_PACKET)
			continue;
		if (kind == STANDBY_TUNNEL)
			let_out(p, number, &received, now_ms - watch->empty_ms > STALE_MS);
		else if (kind == STANDBY_FORWARD)
			send_on(p, number, &received);
		else if (!serve(p, number, &received))
			return;
	}
}

static void drain(struct process *p, unsigned number)
{
	__atomic_store_n(&p->page->drains, 1, __ATOMIC_SEQ_CST);
	drain_queue(p, number);
	__atomic_store_n(&p->page->drains, 0, __ATOMIC_SEQ_CST);
}

/*
 * Looks at all workers, and does the work of those that stand still. Returns the time to sleep in ms; -1: until a
 * packet comes.
 */
static int look(struct process *p, struct pollfd *fds, uint64_t watched_from_ms)
{
	struct standby_page *page = p->page;
	uint64_t now_ms = clock_now_ms();
	bool sleeps = now_ms - watched_from_ms >= STANDBY_WATCH_MS;
	unsigned i;

	for (i = 0; i < page->count; i++) {
		uint64_t stamp_ms = __atomic_load_n(&page->stamp_ms[page->queues[i].worker], __ATOMIC_RELAXED);
		bool waits = has_packet(socket_of(i)), still = standby_judge(&p->watch[i], stamp_ms, waits, now_ms);

		if (still)
			drain(p, i);
		/* After sleeping, the process could not tell how long a packet waited. */
		sleeps = sleeps && !waits && !still;
		/* While the worker stands still, no packet has to wait for the next look. */
		fds[i] = (struct pollfd) { .fd = still ? socket_of(i) : -1, .events = POLLIN };
	}
	for (i = 0; i < page->count && sleeps; i++)
		fds[i].fd = socket_of(i);
	return sleeps ? -1 : STANDBY_LOOK_MS;
}

/*
 * dprd is gone. The packets that it had in hand are lost, and the clients send them again; those that it had not read
 * are not lost. When dprd did not end by itself, this process goes on: first for a moment in any case, because peers do
 * not know about it yet, and then until the next dprd has the lock and asks for the queues. A lock that was never free
 * may be the next dprd's. On a busy host dprd needs long to end, and has the lock until then.
 */
static void linger(struct process *p, struct pollfd *fds)
{
	struct standby_page *page = p->page;
	int lock = page->stops ? -1 : lock_watch(members_now(page)->config.run_dir);
	uint64_t start_ms = clock_now_ms(), now_ms;
	bool gone = false, was_free = false, taken;
	unsigned i;

	for (i = 0; i < page->count; i++)
		p->watch[i].stamp = page->stamp_ms[page->queues[i].worker];
	do {
		for (i = 0; i < page->count; i++) {
			fds[i] = (struct pollfd) { .fd = socket_of(i), .events = POLLIN };
			drain(p, i);
		}
		if (page->stops)
			break;
		taken = lock < 0 || lock_is_taken(lock);
		was_free = was_free || !taken;
		poll(fds, page->count, LINGER_LOOK_MS);
		now_ms = clock_now_ms();
		if (!gone && getppid() != (pid_t)page->dprd_pid) {
			gone = true;
			start_ms = now_ms;
		}
	} while (now_ms - start_ms < (!gone || (was_free && !taken) ? STANDBY_LINGER_MS : STANDBY_MOMENT_MS));
	/* Packets that come before a queue is closed are dropped, and the end of a process takes milliseconds. */
	for (i = 0; i < page->count; i++) {
		drain(p, i);
		close(socket_of(i));
	}
}

int standby_run(void)
{
	struct standby_page *page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, STANDBY_PAGE_FD, 0);
	struct pollfd fds[STANDBY_QUEUES_MAX + 1] = { { .fd = STANDBY_PIPE_FD } };
	static struct process process; /* too large for a stack */
	uint64_t watched_from_ms = clock_now_ms();

	if (page == MAP_FAILED || page->count > STANDBY_QUEUES_MAX || fcntl(STANDBY_PIPE_FD, F_GETFD) < 0) {
		log_err("only dprd can start its standby process: start dprd without " STANDBY_OPTION);
		return EXIT_FAILURE;
	}
	process.page = page;
	/* The name in systemd's log and in ps(1), instead of the name of the file, which is "exe". */
	prctl(PR_SET_NAME, "dprd-standby");
	while (!fds[0].revents) {
		int sleep_ms = look(&process, &fds[1], watched_from_ms);

		poll(fds, page->count + 1, sleep_ms);
		if (sleep_ms < 0)
			watched_from_ms = clock_now_ms();
	}
	linger(&process, &fds[1]);
	return EXIT_SUCCESS;
}
