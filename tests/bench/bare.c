// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * bare - the least program that forwards in a tunnel: no flow (except with -f), no decision, no check, no counter. It
 * shows the least cost of any program in dprd's place on this host.
 *
 *   bare serving IF TUNNEL_END          takes packets out of the tunnel
 *   bare entry IF OUT_IF OUT_MAC SERVICE FROM TO [QUEUE]
 *                                       packets to SERVICE that come by IF leave by OUT_IF, from FROM to TO; with
 *                                       QUEUE a SYN takes the way through that NFQUEUE and this process
 *   bare all FROM TO QUEUE              each packet takes that way, without BPF
 *   bare take QUEUE                     takes each packet of the queue out of the tunnel, without BPF
 *
 * -l IF, once or more before "serving" or "entry": an empty program reads packets that leave by IF. -f, then, before
 * "entry" without QUEUE: it remembers a word of each connection, and each packet searches for it.
 *
 * It works as long as the process runs, and prints "ready" when it works.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <libnetfilter_queue/libnetfilter_queue.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/bench/bare.h"
#include "tests/bench/bare.skel.h"

/* Not in the headers of all systems that this is built on. */
enum { TCX_INGRESS = 46, TCX_EGRESS = 47, BEFORE_ALL = 1 << 3 };

enum {
	BATCH = 64,
	COPY_BYTES = 0xffff,
	/* A packet of the wire's size, and the kernel's facts of it; an odd number of cache lines, as in dprd. */
	MESSAGE_BYTES = 2048 + 64,
	ANSWERS_BYTES = BATCH * MESSAGE_BYTES,
	QUEUE_LENGTH = 4096,
	SOCKET_BUFFER_BYTES = 16 * 1024 * 1024,
	LEAVING_MAX = 4,
};

/* A queue, and the unsent packets of a batch. */
struct loop {
	struct mnl_socket *netlink;
	unsigned number;
	int raw; /* -1: packets are taken out of the tunnel instead */
	uint8_t outer[BARE_OUTER_BYTES];
	uint8_t header[BATCH][BARE_IP_BYTES];
	uint8_t received[BATCH][MESSAGE_BYTES] __attribute__((aligned(8)));
	uint8_t answers[ANSWERS_BYTES] __attribute__((aligned(8)));
	unsigned answers_bytes;
	struct mmsghdr out[BATCH];
	struct iovec parts[BATCH][2];
	struct sockaddr_in to;
};

static struct loop loop = { .raw = -1 };
static uint32_t leaving[LEAVING_MAX]; /* interfaces */
static unsigned leaving_count;
static bool looks;

static void die(const char *what)
{
	fprintf(stderr, "bare: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void usage(void)
{
	fputs("usage: bare [-l IF]... serving IF TUNNEL_END\n"
	      "       bare [-l IF]... entry IF OUT_IF OUT_MAC SERVICE FROM TO [QUEUE]\n"
	      "       bare [-l IF]... -f entry IF OUT_IF OUT_MAC SERVICE FROM TO\n"
	      "       bare all FROM TO QUEUE\n"
	      "       bare take QUEUE\n",
	      stderr);
	exit(2);
}

static uint32_t address_of(const char *text)
{
	struct in_addr address;

	if (inet_pton(AF_INET, text, &address) != 1)
		usage();
	return address.s_addr;
}

static uint32_t interface_of(const char *name)
{
	uint32_t interface = if_nametoindex(name);

	if (!interface)
		die(name);
	return interface;
}

/* Makes an outer header with a length of 0; returns the sum of its words, not folded. */
static uint32_t make_outer(uint8_t outer[BARE_OUTER_BYTES], const char *from, const char *to)
{
	uint32_t source = address_of(from), destination = address_of(to), sum = 0;
	unsigned i;

	outer[12] = BARE_IPV4_ETHERTYPE >> 8;
	outer[BARE_IP] = 0x45;
	outer[BARE_IP + 8] = 64;
	outer[BARE_PROTOCOL] = BARE_PROTOCOL_IPIP;
	memcpy(outer + BARE_SOURCE, &source, sizeof(source));
	memcpy(outer + BARE_DESTINATION, &destination, sizeof(destination));
	for (i = BARE_IP; i < BARE_OUTER_BYTES; i += 2)
		sum += (uint32_t)(outer[i] << 8 | outer[i + 1]);
	return sum;
}

/* --- NFQUEUE --- */

static void send_message(const struct nlmsghdr *message)
{
	if (mnl_socket_sendto(loop.netlink, message, message->nlmsg_len) < 0)
		die("send to the kernel");
}

static void bind_queue(const char *number)
{
	int size = SOCKET_BUFFER_BYTES, on = 1;
	char buffer[MESSAGE_BYTES];
	struct nlmsghdr *message;

	loop.number = (unsigned)atoi(number);
	loop.netlink = mnl_socket_open(NETLINK_NETFILTER);
	if (!loop.netlink || mnl_socket_bind(loop.netlink, 0, MNL_SOCKET_AUTOPID) < 0)
		die("netlink");
	setsockopt(mnl_socket_get_fd(loop.netlink), SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	mnl_socket_setsockopt(loop.netlink, NETLINK_NO_ENOBUFS, &on, sizeof(on));
	message = nfq_nlmsg_put(buffer, NFQNL_MSG_CONFIG, loop.number);
	nfq_nlmsg_cfg_put_cmd(message, AF_UNSPEC, NFQNL_CFG_CMD_BIND);
	send_message(message);
	message = nfq_nlmsg_put(buffer, NFQNL_MSG_CONFIG, loop.number);
	nfq_nlmsg_cfg_put_params(message, NFQNL_COPY_PACKET, COPY_BYTES);
	mnl_attr_put_u32(message, NFQA_CFG_QUEUE_MAXLEN, htonl(QUEUE_LENGTH));
	send_message(message);
}

static void open_raw(const char *from, const char *to)
{
	int one = 1;

	make_outer(loop.outer, from, to);
	loop.to = (struct sockaddr_in) { .sin_family = AF_INET, .sin_addr.s_addr = address_of(to) };
	loop.raw = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
	if (loop.raw < 0 || setsockopt(loop.raw, IPPROTO_IP, IP_HDRINCL, &one, sizeof(one)))
		die("raw socket");
}

static void forward(unsigned i, uint8_t *packet, uint16_t bytes)
{
	memcpy(loop.header[i], loop.outer + BARE_IP, BARE_IP_BYTES);
	loop.parts[i][0] = (struct iovec) { loop.header[i], BARE_IP_BYTES };
	loop.parts[i][1] = (struct iovec) { packet, bytes };
	loop.out[i].msg_hdr = (struct msghdr) {
		.msg_name = &loop.to, .msg_namelen = sizeof(loop.to), .msg_iov = loop.parts[i], .msg_iovlen = 2
	};
}

/* The place for one more answer. */
static struct nlmsghdr *next_answer(uint16_t type)
{
	return nfq_nlmsg_put((char *)loop.answers + loop.answers_bytes, type, loop.number);
}

static void take_out(uint32_t id, const uint8_t *packet, uint16_t bytes)
{
	struct nlmsghdr *message = next_answer(NFQNL_MSG_VERDICT);

	nfq_nlmsg_verdict_put(message, (int)id, NF_ACCEPT);
	if (bytes > BARE_IP_BYTES && packet[BARE_PROTOCOL - BARE_IP] == BARE_PROTOCOL_IPIP)
		nfq_nlmsg_verdict_put_pkt(message, packet + BARE_IP_BYTES, bytes - BARE_IP_BYTES);
	loop.answers_bytes += NLMSG_ALIGN(message->nlmsg_len);
}

/* The last packet's number; 0: there was none. */
static uint32_t answer_batch(const struct mmsghdr *in, unsigned count, unsigned *packets)
{
	uint32_t id = 0;
	unsigned i;

	for (i = 0; i < count; i++) {
		struct nlattr *attributes[NFQA_MAX + 1] = { 0 };
		struct nlmsghdr *message = in[i].msg_hdr.msg_iov->iov_base;
		const struct nfqnl_msg_packet_hdr *header;
		uint8_t *packet;
		uint16_t bytes;

		if (!mnl_nlmsg_ok(message, (int)in[i].msg_len) || nfq_nlmsg_parse(message, attributes) < 0 ||
		    !attributes[NFQA_PACKET_HDR] || !attributes[NFQA_PAYLOAD])
			continue;
		header = mnl_attr_get_payload(attributes[NFQA_PACKET_HDR]);
		packet = mnl_attr_get_payload(attributes[NFQA_PAYLOAD]);
		bytes = mnl_attr_get_payload_len(attributes[NFQA_PAYLOAD]);
		id = ntohl(header->packet_id);
		if (loop.raw < 0)
			take_out(id, packet, bytes);
		else
			forward((*packets)++, packet, bytes);
	}
	return id;
}

static void run_queue(void)
{
	struct iovec room[BATCH];
	struct mmsghdr in[BATCH];
	unsigned i;

	for (i = 0; i < BATCH; i++) {
		room[i] = (struct iovec) { loop.received[i], MESSAGE_BYTES };
		in[i] = (struct mmsghdr) { .msg_hdr = { .msg_iov = &room[i], .msg_iovlen = 1 } };
	}
	for (;;) {
		int count = recvmmsg(mnl_socket_get_fd(loop.netlink), in, BATCH, MSG_WAITFORONE, NULL);
		struct nlmsghdr *message;
		unsigned packets = 0;
		uint32_t id;

		if (count < 0 && errno != EINTR)
			die("receive");
		loop.answers_bytes = 0;
		id = answer_batch(in, count < 0 ? 0 : (unsigned)count, &packets);
		if (packets) {
			sendmmsg(loop.raw, loop.out, packets, 0);
			message = next_answer(NFQNL_MSG_VERDICT_BATCH);
			nfq_nlmsg_verdict_put(message, (int)id, NF_DROP);
			loop.answers_bytes = message->nlmsg_len;
		}
		if (loop.answers_bytes && mnl_socket_sendto(loop.netlink, loop.answers, loop.answers_bytes) < 0)
			die("send to the kernel");
	}
}

/* --- BPF --- */

static void attach(const struct bpf_program *program, uint32_t interface, int where)
{
	LIBBPF_OPTS(bpf_link_create_opts, options, .flags = BEFORE_ALL);

	/* The link ends with the process. */
	if (bpf_link_create(bpf_program__fd(program), (int)interface, (enum bpf_attach_type)where, &options) < 0)
		die("attach (tcx needs Linux 6.6)");
}

static void attach_leaving(const struct bare_bpf *bare)
{
	unsigned i;

	for (i = 0; i < leaving_count; i++)
		attach(bare->progs.bare_leaving, leaving[i], TCX_EGRESS);
}

static void load(struct bare_bpf *bare)
{
	/* A program that remembers nothing needs no room for it. */
	if (bare && !looks)
		bpf_map__set_max_entries(bare->maps.flows, 1);
	if (!bare || bare_bpf__load(bare))
		die("the kernel does not take the program");
}

static void start_serving(char **argv)
{
	struct bare_bpf *bare = bare_bpf__open();

	if (bare)
		bare->rodata->tunnel_end = address_of(argv[3]);
	load(bare);
	attach(bare->progs.bare_serving, interface_of(argv[2]), TCX_INGRESS);
	attach_leaving(bare);
}

static void start_entry(int argc, char **argv)
{
	struct bare_bpf *bare = bare_bpf__open();
	uint8_t mac[6];

	if (sscanf(argv[4], "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4], &mac[5]) != 6)
		usage();
	if (bare) {
		bare->rodata->service = address_of(argv[5]);
		bare->rodata->out_interface = interface_of(argv[3]);
		bare->rodata->leave_syns = argc == 9;
		bare->rodata->looks = looks;
		memcpy(bare->bss->outer, mac, sizeof(mac));
		bare->bss->outer_sum = make_outer(bare->bss->outer, argv[6], argv[7]);
	}
	load(bare);
	if (argc == 9) {
		bind_queue(argv[8]);
		open_raw(argv[6], argv[7]);
	}
	attach(bare->progs.bare_entry, interface_of(argv[2]), TCX_INGRESS);
	attach_leaving(bare);
}

int main(int argc, char **argv)
{
	const char *what;

	while (argc > 2 && !strcmp(argv[1], "-l") && leaving_count < LEAVING_MAX) {
		leaving[leaving_count++] = interface_of(argv[2]);
		argc -= 2;
		argv += 2;
	}
	if (argc > 1 && !strcmp(argv[1], "-f")) {
		looks = true;
		argc--;
		argv++;
	}
	what = argc > 1 ? argv[1] : "";
	/* A SYN that takes another way would not be remembered. */
	if (looks && (strcmp(what, "entry") != 0 || argc != 8))
		usage();
	libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
	if (!strcmp(what, "serving") && argc == 4) {
		start_serving(argv);
	} else if (!strcmp(what, "entry") && (argc == 8 || argc == 9)) {
		start_entry(argc, argv);
	} else if (!strcmp(what, "all") && argc == 5) {
		bind_queue(argv[4]);
		open_raw(argv[2], argv[3]);
	} else if (!strcmp(what, "take") && argc == 3) {
		bind_queue(argv[2]);
	} else {
		usage();
	}
	puts("ready");
	fflush(stdout);
	if (loop.netlink)
		run_queue();
	for (;;)
		pause();
}
