// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * packets.c - the cost of a packet on its way through other namespaces, on a clock that counts instructions.
 *
 *   packets FROM INTERFACE MAC ADDRESS PORT  TO SINK_INTERFACE  FLOWS ROUNDS
 *
 * Sends in namespace FROM, by INTERFACE to MAC: the SYN of each flow, then ROUNDS times one data packet of each. The
 * last packet of every batch is marked; a socket on SINK_INTERFACE in namespace TO sees the marked ones before any rule
 * does, and the next batch starts when one is there. So a path that needs another process has its time, nothing waits
 * for a timer, and the wait costs every path the same. The caller decides what the sink does with packets.
 * SINK_INTERFACE "-": no socket there and no waiting. For paths that end in the sending call, on one processor.
 *
 * Prints {"syn_ns": per SYN, "packet_ns": [per data packet and round], "sent": packets, "seen": a marked frame in hex}.
 * "sent" has the packets of the warm-up, too: a batch of other flows at first.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SOURCES 0xc6120000u /* 198.18.0.0/16 */
#define MARK 0x6d61726bu
#define UNMARKED 0x646f7473u
#define MARK_WAIT_S 2

enum { BATCH = 64, FLOWS_MAX = 32768, ROUNDS_MAX = 1000, SEEN_BYTES = 74, FIRST_PORT = 1024, SHUFFLE_MAX = 200 };

/* A SYN has the mark where the echoed time stamp is, a data packet at the end of its payload. */
struct frame {
	struct ether_header ether;
	struct iphdr ip;
	struct tcphdr tcp;
	uint8_t rest[16];
} __attribute__((packed));

struct target {
	struct ether_header ether;
	struct in_addr address;
	uint16_t port;
};

/* All packets of one kind, one of each flow; flows FLOWS and above are the warm-up. */
struct train {
	struct frame *frames;
	struct iovec *pieces;
	struct mmsghdr *messages;
};

static void die(const char *what)
{
	fprintf(stderr, "packets: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void refuse(const char *what)
{
	fprintf(stderr, "packets: %s\n", what);
	exit(1);
}

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint16_t checksum(const void *data, unsigned bytes, uint32_t sum)
{
	const uint8_t *p = data;

	for (unsigned i = 0; i < bytes; i += 2)
		sum += (uint32_t)(p[i] << 8 | p[i + 1]);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t)~sum);
}

static void frame_fill(struct frame *f, const struct target *target, unsigned flow, int is_syn, int is_marked)
{
	static const uint8_t options[12] = { 2, 4, 1460 >> 8, 1460 & 0xff, 1, 1, 8, 10, 0, 0, 0, 1 };
	uint32_t isn = 0x10000000u + flow * 4096, mark = htonl(is_marked ? MARK : UNMARKED), addresses;
	uint16_t tcp_bytes = sizeof(f->tcp) + sizeof(f->rest);

	memset(f, 0, sizeof(*f));
	f->ether = target->ether;
	f->ip = (struct iphdr) { .version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_TCP };
	f->ip.tot_len = htons(sizeof(*f) - sizeof(f->ether));
	f->ip.id = htons((uint16_t)flow);
	f->ip.saddr = htonl(SOURCES | (flow & 0xffff));
	f->ip.daddr = target->address.s_addr;
	f->ip.check = checksum(&f->ip, sizeof(f->ip), 0);
	f->tcp.source = htons((uint16_t)(FIRST_PORT + flow));
	f->tcp.dest = htons(target->port);
	f->tcp.window = htons(65535);
	f->tcp.doff = is_syn ? 9 : 5;
	f->tcp.syn = is_syn ? 1 : 0;
	f->tcp.ack = f->tcp.psh = is_syn ? 0 : 1;
	f->tcp.seq = htonl(isn + (is_syn ? 0 : 1));
	f->tcp.ack_seq = is_syn ? 0 : htonl(0x20000000u + flow);
	if (is_syn)
		memcpy(f->rest, options, sizeof(options));
	memcpy(f->rest + sizeof(f->rest) - sizeof(mark), &mark, sizeof(mark));
	addresses = (ntohl(f->ip.saddr) >> 16) + (ntohl(f->ip.saddr) & 0xffff) + (ntohl(f->ip.daddr) >> 16) +
		    (ntohl(f->ip.daddr) & 0xffff);
	f->tcp.check = checksum(&f->tcp, tcp_bytes, addresses + IPPROTO_TCP + tcp_bytes);
}

static struct train train_new(const struct target *target, unsigned flows, int is_syn)
{
	struct train train = {
		.frames = calloc(flows, sizeof(*train.frames)),
		.pieces = calloc(flows, sizeof(*train.pieces)),
		.messages = calloc(flows, sizeof(*train.messages)),
	};

	if (!train.frames || !train.pieces || !train.messages)
		die("memory");
	for (unsigned i = 0; i < flows; i++) {
		frame_fill(&train.frames[i], target, i, is_syn, i % BATCH == BATCH - 1);
		train.pieces[i] = (struct iovec) { .iov_base = &train.frames[i], .iov_len = sizeof(train.frames[i]) };
		train.messages[i].msg_hdr = (struct msghdr) { .msg_iov = &train.pieces[i], .msg_iovlen = 1 };
	}
	return train;
}

static void train_free(struct train *train)
{
	free(train->messages);
	free(train->pieces);
	free(train->frames);
}

static void enter(const char *name)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/run/netns/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		die(path);
	close(fd);
}

static int link_open(const char *interface, int protocol)
{
	struct sockaddr_ll link = { .sll_family = AF_PACKET, .sll_protocol = htons((uint16_t)protocol) };
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	link.sll_ifindex = (int)if_nametoindex(interface);
	if (fd < 0 || !link.sll_ifindex || bind(fd, (struct sockaddr *)&link, sizeof(link)))
		die(interface);
	return fd;
}

/* Opens a socket for marked frames only: the last four bytes show the mark, whatever header the packet has by then. */
static int sink_open(const char *interface)
{
	struct sock_filter lines[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
		BPF_STMT(BPF_ALU | BPF_SUB | BPF_K, 4),
		BPF_STMT(BPF_MISC | BPF_TAX, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_IND, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MARK, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SEEN_BYTES),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	const struct sock_fprog program = { .len = sizeof(lines) / sizeof(lines[0]), .filter = lines };
	const struct timeval patience = { .tv_sec = MARK_WAIT_S };
	int fd = link_open(interface, ETH_P_ALL);

	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)))
		die("filter");
	return fd;
}

/* One packet of each of these flows; ns per packet. */
static double train_send(const struct train *train, unsigned first, unsigned count, int out, int sink, uint8_t *seen)
{
	uint64_t start = clock_ns();

	for (unsigned i = first; i < first + count; i += BATCH) {
		unsigned done = 0;

		while (done < BATCH) {
			int sent = sendmmsg(out, train->messages + i + done, BATCH - done, 0);

			if (sent < 0 && errno != ENOBUFS && errno != EAGAIN)
				die("send");
			done += sent < 0 ? 0 : (unsigned)sent;
		}
		if (sink >= 0 && recv(sink, seen, SEEN_BYTES, 0) < 0)
			refuse(errno == EAGAIN ? "a marked packet did not arrive" : strerror(errno));
	}
	return (double)(clock_ns() - start) / count;
}

/*
 * A packet's memory comes from the processor's own list or by a longer way. That depends on earlier packets, and may
 * stay so for a whole run. Taking and freeing memory of many other packets shuffles it.
 */
static void shuffle_memory(unsigned amount)
{
	uint8_t bytes[SHUFFLE_MAX];
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends))
		die("socketpair");
	while (amount && write(ends[0], &amount, 1) == 1)
		amount--;
	while (read(ends[1], bytes, sizeof(bytes)) > 0)
		;
	close(ends[1]);
	close(ends[0]);
}

static void measure(const struct target *target, unsigned flows, unsigned rounds, int out, int sink)
{
	struct train syns = train_new(target, flows + BATCH, 1), data = train_new(target, flows + BATCH, 0);
	uint8_t seen[SEEN_BYTES] = { 0 };

	train_send(&syns, flows, BATCH, out, sink, seen);
	for (unsigned i = 0; i < 4; i++)
		train_send(&data, flows, BATCH, out, sink, seen);
	printf("{\"syn_ns\": %.1f, \"packet_ns\": [", train_send(&syns, 0, flows, out, sink, seen));
	for (unsigned i = 0; i < rounds; i++) {
		shuffle_memory(20 + i * 37 % SHUFFLE_MAX);
		printf("%s%.1f", i ? ", " : "", train_send(&data, 0, flows, out, sink, seen));
	}
	printf("], \"sent\": %u, \"seen\": \"", flows * (1 + rounds) + BATCH * 5);
	for (unsigned i = 0; i < SEEN_BYTES; i++)
		printf("%02x", seen[i]);
	printf("\"}\n");
	train_free(&data);
	train_free(&syns);
}

int main(int argc, char **argv)
{
	struct target target = { .ether = { .ether_type = htons(ETHERTYPE_IP), .ether_shost = { 2, 0, 0, 0, 0, 1 } } };
	uint8_t *m = target.ether.ether_dhost;
	const struct sched_param priority = { .sched_priority = 1 };
	int flows, rounds, out, sink, one = 1;

	if (argc != 10) {
		fputs("usage: packets FROM INTERFACE MAC ADDRESS PORT TO SINK_INTERFACE FLOWS ROUNDS\n", stderr);
		return 2;
	}
	flows = atoi(argv[8]);
	rounds = atoi(argv[9]);
	target.port = (uint16_t)atoi(argv[5]);
	if (sscanf(argv[3], "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &m[0], &m[1], &m[2], &m[3], &m[4], &m[5]) != 6 ||
	    inet_pton(AF_INET, argv[4], &target.address) != 1 || !target.port)
		refuse("bad MAC address, address or port");
	if (flows < BATCH || flows > FLOWS_MAX || flows % BATCH || rounds < 1 || rounds > ROUNDS_MAX)
		refuse("flows must be a multiple of 64 up to 32768, rounds 1 to 1000");
	enter(argv[1]);
	out = link_open(argv[2], 0);
	if (setsockopt(out, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof(one)))
		die("PACKET_QDISC_BYPASS");
	enter(argv[6]);
	sink = strcmp(argv[7], "-") != 0 ? sink_open(argv[7]) : -1;
	/* A process that the first packet of a batch wakes runs only when the whole batch was sent. */
	if (sched_setscheduler(0, SCHED_FIFO, &priority))
		die("priority");
	measure(&target, (unsigned)flows, (unsigned)rounds, out, sink);
	if (sink >= 0)
		close(sink);
	close(out);
	return 0;
}
