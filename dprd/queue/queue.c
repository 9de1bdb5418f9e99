// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * NFQUEUE: batches in, verdicts out. A worker has three queues: "decide" (SYNs and ICMP errors; by-pass and fail-open,
 * so that this node serves when dprd is away, frozen or too slow), "forward" (forwarded flows) and "tunnel" (tunnel
 * packets); packets in the last two wait, and are dropped when there are too many.
 *
 * A packet does not tell its age. But a worker looks at its queues at least every POLL_MS. If it last looked more than
 * STALE_MS ago (because it was frozen, or got no processor), every queued packet may be that old: all packets count as
 * stale until the queue was empty once, or as many packets came out as the queue holds.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "dprd/base/clock.h"
#include "dprd/base/log.h"
#include "dprd/cluster/state.h"
#include "dprd/core/decide/wakeup.h"
#include "dprd/fastpath/fastpath.h"
#include "dprd/host/flowset.h"
#include "dprd/host/nfqueue.h"
#include "dprd/host/socket_lookup.h"
#include "dprd/host/tunnel.h"
#include "dprd/queue/private.h"
#include "dprd/queue/path.h"
#include "dprd/queue/queue.h"
#include "dprd/queue/standby.h"

enum {
	POLL_MS = 100,
	COPY_BYTES = 9728, /* copy range: a whole jumbo frame */
	DECIDE_COPY_BYTES = 2048, /* of SYNs and ICMP errors */
	/*
	 * The attributes of a queued packet. Messages take an odd number of cache lines: otherwise the beginnings of
	 * all share a few places.
	 */
	ATTRIBUTES_BYTES = 512 + 64,
	MESSAGE_BYTES = COPY_BYTES + ATTRIBUTES_BYTES,
	DECIDE_MESSAGE_BYTES = DECIDE_COPY_BYTES + ATTRIBUTES_BYTES,
	VERDICT_BYTES = 256 * 1024, /* flushed when the next verdict may not fit */
	STACK_BYTES = 256 * 1024,
	DECIDE_LENGTH_PART = 8,
	DECIDE_LENGTH_LEAST = 16,
};

struct worker {
	struct dprd *d;
	pthread_t thread;
	bool running;
	int stop_fd;
	int timer_fd; /* measures how late this thread gets the processor */
	uint64_t timer_us; /* when the timer expires; 0: it does not run */
	bool is_scheduled; /* the operator chose how this thread is scheduled */
	struct wakeup wakeup;
	_Atomic uint64_t heartbeat_ms; /* when it last looked at a queue */
	uint64_t *stamp_ms; /* the same, for the standby process */
	struct nfqueue decide, forward, tunnelled;
	struct flowset *set;
	struct socket_lookup *lookup;
	struct tunnel *tunnel;
	struct batch batch;
	struct mmsghdr messages[QUEUE_BATCH_MAX];
	struct iovec pieces[QUEUE_BATCH_MAX];
	const struct nfqueue *pieces_of; /* the queue whose messages they have room for */
	unsigned verdict_bytes;
	uint64_t overruns, verdict_errors;
	uint8_t buffers[QUEUE_BATCH_MAX * MESSAGE_BYTES] __attribute__((aligned(8)));
	uint8_t verdicts[VERDICT_BYTES] __attribute__((aligned(8)));
};

/* Puts one received message into the batch. A packet of which nothing was copied still gets its verdict. */
static void take_message(struct worker *w, uint8_t *bytes, unsigned length)
{
	struct queued *q = &w->batch.packets[w->batch.count];
	struct nfqueue_packet packet;
	enum nfqueue_message message = nfqueue_read(bytes, length, &packet);

	w->verdict_errors += message == NFQUEUE_ERROR;
	if (message != NFQUEUE_PACKET)
		return;
	memset(q, 0, offsetof(struct queued, packet));
	q->id = packet.id;
	q->mark = packet.mark;
	q->bytes = packet.bytes;
	q->captured = packet.captured;
	q->head_room = (uint16_t)(packet.bytes ? packet.bytes - bytes : 0);
	q->packet.kind = PACKET_OTHER;
	w->batch.count++;
}

/* Notes that the worker looks at its queues. If it has not done so for long, their packets may be old. */
static void heartbeat(struct worker *w)
{
	uint64_t now_ms = clock_now_ms();

	if (now_ms - w->heartbeat_ms > STALE_MS)
		w->decide.stale_left = w->forward.stale_left = w->tunnelled.stale_left = w->d->config.queue_length;
	w->heartbeat_ms = now_ms;
	__atomic_store_n(w->stamp_ms, now_ms, __ATOMIC_SEQ_CST);
}

static void make_room(struct worker *w, const struct nfqueue *queue)
{
	unsigned i;

	for (i = 0; i < QUEUE_BATCH_MAX; i++) {
		w->pieces[i] = (struct iovec) { .iov_base = w->buffers + (size_t)i * queue->message_bytes,
						.iov_len = queue->message_bytes };
		w->messages[i].msg_hdr = (struct msghdr) { .msg_iov = &w->pieces[i], .msg_iovlen = 1 };
	}
	w->pieces_of = queue;
}

/* Reads what is there, at most a batch. False: the queue is empty. */
static bool receive(struct worker *w, struct nfqueue *queue)
{
	int i, count;

	w->batch.count = 0;
	if (w->pieces_of != queue)
		make_room(w, queue);
	count = recvmmsg(nfqueue_fd(queue), w->messages, QUEUE_BATCH_MAX, MSG_DONTWAIT, NULL);
	/* Not before: a freeze may end a moment ago, with what came before it in hand. */
	heartbeat(w);
	w->batch.received_ms = w->heartbeat_ms;
	if (count < 0) {
		w->overruns += errno == ENOBUFS;
		if (errno == ENOBUFS || errno == EINTR)
			return true;
		queue->stale_left = 0;
		return false;
	}
	wakeup_packets(&w->wakeup, w->heartbeat_ms, (unsigned)count);
	for (i = 0; i < count; i++)
		take_message(w, w->pieces[i].iov_base, w->messages[i].msg_len);
	w->batch.maybe_stale = queue->stale_left > 0;
	w->batch.from_decide = queue == &w->decide;
	queue->stale_left -= (unsigned)count < queue->stale_left ? (unsigned)count : queue->stale_left;
	if (count < QUEUE_BATCH_MAX)
		queue->stale_left = 0;
	return true;
}

static void verdicts_flush(struct worker *w, struct nfqueue *queue)
{
	if (w->verdict_bytes && !nfqueue_send(nfqueue_fd(queue), w->verdicts, w->verdict_bytes))
		w->verdict_errors++;
	w->verdict_bytes = 0;
}

static bool is_accepted(const struct queued *q)
{
	if (q->verdict.kind == VERDICT_FORWARD)
		return q->way.form == WAY_FORM_NAT;
	return q->verdict.kind != VERDICT_DROP;
}

/* The mark of a packet that goes on into the stack: without the marks of dprd, except that of a real server. */
static uint32_t mark_behind(const struct queued *q)
{
	uint32_t mark = q->mark & ~(uint32_t)MARK_FORWARD;

	return q->backend_mark ? (mark & ~(uint32_t)BACKEND_MARK_MASK) | q->backend_mark << BACKEND_MARK_SHIFT : mark;
}

static struct nfqueue_verdict verdict_of(const struct queued *q)
{
	bool accept = is_accepted(q);

	return (struct nfqueue_verdict) { .id = q->id,
					  .accept = accept,
					  .replace = accept ? q->replace : NULL,
					  .replace_bytes = q->replace_bytes,
					  .set_mark = accept && mark_behind(q) != q->mark,
					  .mark = mark_behind(q) };
}

/* True for a verdict that only accepts or drops. */
static bool is_plain(const struct nfqueue_verdict *verdict)
{
	return !verdict->replace && !verdict->set_mark;
}

/*
 * Sends verdicts in the order of arrival, since the kernel searches its list from the oldest. A run of equal plain
 * verdicts is one message: it stands for all packets up to its last, also for those that the standby process may have
 * in hand.
 */
static void answer(struct worker *w, struct nfqueue *queue)
{
	bool alone = !standby_drains(w->d->queue->standby);
	unsigned i = 0;

	while (i < w->batch.count) {
		struct nfqueue_verdict verdict = verdict_of(&w->batch.packets[i++]);

		while (alone && is_plain(&verdict) && i < w->batch.count) {
			struct nfqueue_verdict next = verdict_of(&w->batch.packets[i]);

			if (!is_plain(&next) || next.accept != verdict.accept)
				break;
			verdict.id = next.id;
			verdict.up_to = true;
			i++;
		}
		if (VERDICT_BYTES - w->verdict_bytes < MESSAGE_BYTES)
			verdicts_flush(w, queue);
		w->verdict_bytes += (unsigned)nfqueue_write(w->verdicts + w->verdict_bytes, queue->number, &verdict);
	}
	verdicts_flush(w, queue);
}

static void drain(struct worker *w, struct nfqueue *queue)
{
	int rounds;

	/* Bounded, so that one queue under a flood does not starve the other. */
	for (rounds = 0; rounds < 16; rounds++) {
		bool more = receive(w, queue);

		if (w->d->fastpath)
			fastpath_answered(w->d->fastpath);
		if (!more)
			return;
		if (!w->batch.count)
			continue;
		path_batch(w->d, &w->batch, w->set, w->lookup, w->tunnel);
		answer(w, queue);
	}
}

static void publish_counts(struct worker *w)
{
	if (!w->overruns && !w->verdict_errors)
		return;
	mutex_lock(&w->d->lock);
	w->d->counters.queue_overruns += w->overruns;
	w->d->counters.verdict_errors += w->verdict_errors;
	mutex_unlock(&w->d->lock);
	w->overruns = w->verdict_errors = 0;
}

static void timer_set(struct worker *w, uint64_t us)
{
	struct itimerspec at = { .it_value = { .tv_sec = (time_t)(us / 1000000),
					       .tv_nsec = (long)(us % 1000000 * 1000) } };

	if (!timerfd_settime(w->timer_fd, TFD_TIMER_ABSTIME, &at, NULL))
		w->timer_us = us;
}

/*
 * The timer expired. Unless the thread was at work meanwhile, its delay shows how late the thread gets the processor.
 */
static void timer_expired(struct worker *w, uint64_t slept_from_us)
{
	uint64_t now_us = clock_now_us();

	if (slept_from_us < w->timer_us)
		wakeup_timer(&w->wakeup, now_us / 1000, now_us - w->timer_us);
	timer_set(w, now_us + WAKEUP_TIMER_MS * 1000);
}

/* Changes how this thread is scheduled, as wakeup.h decides, unless the operator has chosen it. */
static void change_wakeup(struct worker *w)
{
	bool waits = w->timer_us > 0;
	struct sched_param parameters = { 0 };

	if (w->is_scheduled || waits == w->wakeup.waits)
		return;
	w->is_scheduled = sched_getscheduler(0) != (waits ? SCHED_BATCH : SCHED_OTHER) ||
			  sched_setscheduler(0, waits ? SCHED_OTHER : SCHED_BATCH, &parameters);
	timer_set(w, waits || w->is_scheduled ? 0 : clock_now_us() + WAKEUP_TIMER_MS * 1000);
}

/* A worker waits for packets in one of its queues, and for two other events. */
enum { QUEUES = 3, STOP = QUEUES, TIMER };

static void *worker_run(void *argument)
{
	struct worker *w = argument;
	struct nfqueue *queues[QUEUES] = { &w->forward, &w->tunnelled, &w->decide };
	struct pollfd fds[QUEUES + 2] = {
		[STOP] = { .fd = w->stop_fd, .events = POLLIN }, [TIMER] = { .fd = w->timer_fd, .events = POLLIN }
	};
	int i;

	prctl(PR_SET_NAME, "dprd-worker");
	for (i = 0; i < QUEUES; i++)
		fds[i] = (struct pollfd) { .fd = nfqueue_fd(queues[i]), .events = POLLIN };
	while (!fds[STOP].revents) {
		uint64_t slept_from_us = w->timer_us ? clock_now_us() : 0;

		poll(fds, QUEUES + 2, POLL_MS);
		heartbeat(w);
		if (fds[TIMER].revents)
			timer_expired(w, slept_from_us);
		/* A packet may be marked for a queue and never come to it. */
		if (w->d->fastpath)
			fastpath_answered(w->d->fastpath);
		/*
		 * A queue that poll() found empty was read completely, unless that was so long ago that its packets may
		 * be stale now.
		 */
		for (i = 0; i < QUEUES; i++) {
			if (fds[i].revents || queues[i]->stale_left)
				drain(w, queues[i]);
		}
		wakeup_packets(&w->wakeup, w->heartbeat_ms, 0);
		change_wakeup(w);
		publish_counts(w);
	}
	return NULL;
}

static void worker_stop(struct worker *w)
{
	uint64_t one = 1;

	if (w && w->running && write(w->stop_fd, &one, sizeof(one)) == sizeof(one))
		pthread_join(w->thread, NULL);
}

static void worker_free(struct worker *w)
{
	if (!w)
		return;
	if (w->stop_fd >= 0)
		close(w->stop_fd);
	if (w->timer_fd >= 0)
		close(w->timer_fd);
	nfqueue_close(&w->decide);
	nfqueue_close(&w->forward);
	nfqueue_close(&w->tunnelled);
	tunnel_free(w->tunnel);
	socket_lookup_free(w->lookup);
	flowset_free(w->set);
	free(w);
}

static int worker_open(struct worker *w, struct dprd *d, unsigned index)
{
	unsigned length = d->config.queue_length, decide_length = length;
	int error;

	/* On the BPF plane this queue has only SYNs. In a flood it is always full, and its length is their delay. */
	if (d->fastpath && length > DECIDE_LENGTH_LEAST * DECIDE_LENGTH_PART)
		decide_length = length / DECIDE_LENGTH_PART;

	w->d = d;
	w->decide.number = (uint16_t)(d->config.queue_first + index);
	w->forward.number = (uint16_t)(d->config.queue_first + d->worker_count + index);
	w->tunnelled.number = (uint16_t)(w->forward.number + d->worker_count);
	w->decide.fail_open = true;
	w->decide.message_bytes = DECIDE_MESSAGE_BYTES;
	w->forward.message_bytes = w->tunnelled.message_bytes = MESSAGE_BYTES;
	w->heartbeat_ms = clock_now_ms();
	w->stop_fd = eventfd(0, EFD_CLOEXEC);
	w->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (!d->fastpath)
		w->set = flowset_new();
	w->lookup = socket_lookup_new();
	w->tunnel = tunnel_new();
	if (w->stop_fd < 0 || w->timer_fd < 0 || (!d->fastpath && !w->set) || !w->lookup || !w->tunnel)
		return errno ? -errno : -ENOMEM;
	error = nfqueue_bind(&w->decide, decide_length, DECIDE_COPY_BYTES);
	if (!error)
		error = nfqueue_bind(&w->forward, length, COPY_BYTES);
	if (!error)
		error = nfqueue_bind(&w->tunnelled, length, COPY_BYTES);
	if (error)
		log_err("cannot bind NFQUEUE %u, %u and %u: %s%s", w->decide.number, w->forward.number,
			w->tunnelled.number, strerror(-error),
			error == -EPERM || error == -EBUSY
				? "; another program may hold them: set [Queue] First= to free numbers"
				: "");
	return error;
}

int queue_check(const struct dprd *d)
{
	unsigned i;
	int error = 0;

	for (i = 0; i < QUEUES * d->worker_count && !error; i++) {
		error = nfqueue_check((uint16_t)(d->config.queue_first + i));
		if (error)
			log_err("cannot bind NFQUEUE %u: %s%s", d->config.queue_first + i, strerror(-error),
				error == -EPERM
					? "; another program or another dprd may hold it (set [Queue] First= to "
					  "free numbers), or CAP_NET_ADMIN is missing"
					: "");
	}
	return error;
}

_Static_assert((int)STANDBY_QUEUES_MAX >= (int)QUEUES * (int)WORKERS_MAX, "all of each worker");

static struct standby_queue standby_queue_of(const struct nfqueue *queue, unsigned worker, enum standby_kind kind)
{
	return (struct standby_queue) {
		.socket = nfqueue_fd(queue), .number = queue->number, .worker = worker, .kind = kind
	};
}

static int standby_open(struct dprd *d)
{
	struct standby_queue queues[QUEUES * WORKERS_MAX];
	const struct standby_members *members;
	unsigned i, count = 0;

	for (i = 0; i < d->worker_count; i++) {
		const struct worker *w = d->queue->workers[i];

		queues[count++] = standby_queue_of(&w->decide, i, STANDBY_DECIDE);
		queues[count++] = standby_queue_of(&w->tunnelled, i, STANDBY_TUNNEL);
		/* The programs handle their flows by themselves, also when dprd does not work. */
		if (!d->fastpath)
			queues[count++] = standby_queue_of(&w->forward, i, STANDBY_FORWARD);
	}
	mutex_lock(&d->lock);
	members = queue_members(d);
	mutex_unlock(&d->lock);
	d->queue->standby = standby_start(queues, count, members);
	for (i = 0; d->queue->standby && i < d->worker_count; i++)
		d->queue->workers[i]->stamp_ms = standby_stamp(d->queue->standby, i);
	return d->queue->standby ? 0 : -errno;
}

int queue_start(struct dprd *d)
{
	pthread_attr_t attributes;
	unsigned i;
	int error = 0;

	d->queue = calloc(1, sizeof(*d->queue));
	if (!d->queue)
		return -ENOMEM;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	for (i = 0; i < d->worker_count && !error; i++) {
		d->queue->workers[i] = calloc(1, sizeof(*d->queue->workers[i]));
		error = d->queue->workers[i] ? worker_open(d->queue->workers[i], d, i) : -ENOMEM;
	}
	if (!error)
		error = standby_open(d);
	for (i = 0; i < d->worker_count && !error; i++) {
		error = -pthread_create(&d->queue->workers[i]->thread, &attributes, worker_run, d->queue->workers[i]);
		d->queue->workers[i]->running = !error;
	}
	pthread_attr_destroy(&attributes);
	return error;
}

void queue_stop(struct dprd *d)
{
	unsigned i;

	if (!d->queue)
		return;
	for (i = 0; i < WORKERS_MAX; i++)
		worker_stop(d->queue->workers[i]);
	standby_stop(d->queue->standby);
	for (i = 0; i < WORKERS_MAX; i++)
		worker_free(d->queue->workers[i]);
	free(d->queue);
	d->queue = NULL;
}

uint64_t queue_heartbeat_ms(const struct dprd *d)
{
	uint64_t oldest_ms = UINT64_MAX;
	unsigned i;

	for (i = 0; i < d->worker_count; i++) {
		uint64_t at_ms = d->queue->workers[i] ? d->queue->workers[i]->heartbeat_ms : 0;

		if (at_ms < oldest_ms)
			oldest_ms = at_ms;
	}
	return oldest_ms;
}
