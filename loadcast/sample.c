// SPDX-License-Identifier: GPL-2.0-or-later
#include "loadcast/sample.h"

#include <errno.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dprd/base/clock.h"
#include "dprd/base/netlink.h"
#include "loadcast/core/announce.h"

enum {
	PROC_BYTES = 2048, /* of each file; the lines we need stand at the top */
	DIAG_BYTES = 16384,
	DIAG_READS_MAX = 1024, /* of one dump; a hundred listeners come with each */
	LISTENERS_FRESH_MS = 1000,
};

struct sampler {
	int sockstat, sockstat6, stat; /* sockstat6: -1 where IPv6 is off */
	struct mnl_socket *diag;
	unsigned sequence;
	unsigned port_count;
	uint16_t port[PORTS_MAX];
	uint64_t listeners_ms; /* when listeners were counted; 0: never */
	uint32_t listeners, accept_queue;
	uint64_t busy, total; /* of the processors, at the last sampler_read() */
};

static int read_proc(int fd, char text[PROC_BYTES])
{
	ssize_t size = pread(fd, text, PROC_BYTES - 1, 0);

	if (size < 0)
		return -errno;
	text[size] = '\0';
	return 0;
}

struct diag_sum {
	const struct sampler *sampler;
	uint32_t listeners, accept_queue;
};

static int add_listener(const struct nlmsghdr *message, void *data)
{
	const struct inet_diag_msg *socket = mnl_nlmsg_get_payload(message);
	struct diag_sum *sum = data;
	unsigned i;

	if (mnl_nlmsg_get_payload_len(message) < sizeof(*socket))
		return MNL_CB_OK;
	sum->listeners++;
	for (i = 0; i < sum->sampler->port_count; i++) {
		if (ntohs(socket->id.idiag_sport) == sum->sampler->port[i])
			sum->accept_queue += socket->idiag_rqueue;
	}
	return MNL_CB_OK;
}

static int send_request(struct sampler *s, uint8_t family)
{
	struct {
		struct nlmsghdr header;
		struct inet_diag_req_v2 body;
	} request = {
		.header = { .nlmsg_len = sizeof(request),
			    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			    .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
			    .nlmsg_seq = ++s->sequence },
		.body = { .sdiag_family = family, .sdiag_protocol = IPPROTO_TCP, .idiag_states = 1u << TCP_LISTEN },
	};

	return mnl_socket_sendto(s->diag, &request, sizeof(request)) < 0 ? -errno : 0;
}

static int read_answer(struct sampler *s, struct diag_sum *sum)
{
	_Alignas(struct nlmsghdr) char buffer[DIAG_BYTES];
	const struct nlmsghdr *message = (const struct nlmsghdr *)buffer;
	unsigned portid = mnl_socket_get_portid(s->diag);

	for (unsigned reads = 0; reads < DIAG_READS_MAX; reads++) {
		ssize_t size = mnl_socket_recvfrom(s->diag, buffer, sizeof(buffer));
		int more;

		if (size < 0)
			return -errno;
		/* An answer to a former dump that was given up is skipped. */
		if (mnl_nlmsg_ok(message, (int)size) && message->nlmsg_seq != s->sequence)
			continue;
		more = mnl_cb_run(buffer, (size_t)size, s->sequence, portid, add_listener, sum);
		if (more < 0)
			return -errno;
		if (more == MNL_CB_STOP)
			return 0;
	}
	return -EMSGSIZE;
}

static int dump_listeners(struct sampler *s, uint8_t family, struct diag_sum *sum)
{
	int error = send_request(s, family);

	if (!error)
		error = read_answer(s, sum);
	if (error)
		netlink_drain(s->diag);
	return error;
}

/* A dump of listeners alone: some tens of sockets, however many connections there are. */
static int count_listeners(struct sampler *s, uint64_t now_ms)
{
	struct diag_sum sum = { .sampler = s };
	int error = dump_listeners(s, AF_INET, &sum);

	if (!error)
		error = dump_listeners(s, AF_INET6, &sum);
	/* A kernel without diag for a family has no listeners of it. */
	if (error && error != -ENOENT)
		return error;
	s->listeners = sum.listeners;
	s->accept_queue = sum.accept_queue;
	s->listeners_ms = now_ms;
	return 0;
}

struct sampler *sampler_new(const struct config *config)
{
	struct sampler *s = calloc(1, sizeof(*s));
	struct timeval patience = { .tv_sec = 1 };
	int error;

	if (!s)
		return NULL;
	s->port_count = config->port_count;
	memcpy(s->port, config->port, sizeof(s->port));
	s->sockstat = open("/proc/net/sockstat", O_RDONLY | O_CLOEXEC);
	s->sockstat6 = open("/proc/net/sockstat6", O_RDONLY | O_CLOEXEC);
	s->stat = open("/proc/stat", O_RDONLY | O_CLOEXEC);
	s->diag = mnl_socket_open2(NETLINK_SOCK_DIAG, SOCK_CLOEXEC);
	if (s->sockstat < 0 || s->stat < 0 || !s->diag || mnl_socket_bind(s->diag, 0, MNL_SOCKET_AUTOPID) < 0 ||
	    setsockopt(mnl_socket_get_fd(s->diag), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0) {
		error = errno;
		sampler_free(s);
		errno = error;
		return NULL;
	}
	return s;
}

void sampler_free(struct sampler *sampler)
{
	if (!sampler)
		return;
	if (sampler->diag)
		mnl_socket_close(sampler->diag);
	if (sampler->stat >= 0)
		close(sampler->stat);
	if (sampler->sockstat6 >= 0)
		close(sampler->sockstat6);
	if (sampler->sockstat >= 0)
		close(sampler->sockstat);
	free(sampler);
}

static uint32_t clamp(uint64_t value)
{
	return value < ANNOUNCE_LOAD_MAX ? (uint32_t)value : ANNOUNCE_LOAD_MAX;
}

/* Sockets of both families minus the listeners, which were counted at another moment. */
static int read_connections(struct sampler *s, uint32_t *ret_open, uint32_t *ret_sockets)
{
	char text[PROC_BYTES];
	uint32_t v4, v6 = 0;
	int error = read_proc(s->sockstat, text);

	if (error)
		return error;
	if (!sample_parse_sockstat(text, "TCP", &v4) || !sample_parse_sockets_used(text, ret_sockets))
		return -EINVAL;
	if (s->sockstat6 >= 0) {
		error = read_proc(s->sockstat6, text);
		if (error)
			return error;
		if (!sample_parse_sockstat(text, "TCP6", &v6))
			return -EINVAL;
	}
	*ret_open = (uint64_t)v4 + v6 > s->listeners ? clamp((uint64_t)v4 + v6 - s->listeners) : 0;
	*ret_sockets = clamp(*ret_sockets);
	return 0;
}

int sampler_open_connections(struct sampler *sampler, uint32_t *ret)
{
	uint64_t now_ms = clock_now_ms();
	uint32_t sockets;
	int error = 0;

	if (!sampler->listeners_ms || now_ms - sampler->listeners_ms >= LISTENERS_FRESH_MS)
		error = count_listeners(sampler, now_ms);
	return error ? error : read_connections(sampler, ret, &sockets);
}

/* Utilisation since the last call; since boot at the first one. */
static int read_cpu(struct sampler *s, uint32_t *ret_permille)
{
	char text[PROC_BYTES];
	uint64_t busy, total;
	int error = read_proc(s->stat, text);

	if (error)
		return error;
	if (!sample_parse_cpu(text, &busy, &total))
		return -EINVAL;
	*ret_permille = 0;
	/* The kernel's idle and iowait may step back a little. */
	if (total > s->total && busy > s->busy)
		*ret_permille = (uint32_t)((double)(busy - s->busy) / (double)(total - s->total) * 1000.0);
	if (*ret_permille > 1000)
		*ret_permille = 1000;
	s->busy = busy;
	s->total = total;
	return 0;
}

int sampler_read(struct sampler *sampler, uint64_t now_ms, struct load_sample *ret)
{
	struct load_sample sample = { 0 };
	int error = count_listeners(sampler, now_ms);

	if (!error)
		error = read_connections(sampler, &sample.open_connections, &sample.active_sockets);
	if (!error)
		error = read_cpu(sampler, &sample.cpu_permille);
	if (error)
		return error;
	sample.accept_queue = clamp(sampler->accept_queue);
	*ret = sample;
	return 0;
}
