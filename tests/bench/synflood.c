// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * synflood - SYNs onto one link, as fast as possible, or in chunks for a stopped program.
 *
 *   synflood [OPTIONS] IF MAC DESTINATION flood SECONDS [COUNT]      {"sent":N,"seconds":S}
 *   synflood [OPTIONS] IF MAC DESTINATION drain PID QUEUE CHUNK N    {"ns_per_syn":[...]}
 *
 *   -p PORT   of the destination (80)
 *   -r RATE   of a flood: at most this many per second (0: no limit)
 *
 * "drain" stops the process PID, queues CHUNK SYNs in NFQUEUE number QUEUE of its namespace, lets it go on and reads
 * the processor time of all its threads until the queue was empty; N times.
 *
 * Every SYN comes from another address and port. Sources are from 198.19.0.0/16 and destinations must
 * be in 192.0.2.0/24: ranges that no network of the world uses (RFC 2544, RFC 5737).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	BATCH = 64,
	SOURCES = 0xc6130000, /* 198.19.0.0/16 */
	DESTINATIONS = 0xc0000200, /* 192.0.2.0/24 */
	SECONDS_MAX = 30,
	COUNT_MAX = 50 * 1000 * 1000,
	CHUNK_MAX = 4096,
	CHUNKS_MAX = 2000,
	WAIT_MS = 3000,
	FAILURES_MAX = 20,
	PAUSE_US = 200 * 1000,
};

struct frame {
	struct ether_header ether;
	struct iphdr ip;
	struct tcphdr tcp;
	uint8_t mss[4];
} __attribute__((packed));

static int packet_socket;
static struct frame frames[BATCH];
static struct mmsghdr messages[BATCH];
static struct iovec pieces[BATCH];
static uint64_t random_state;
static unsigned port = 80;
static uint64_t rate; /* per second; 0: no limit */

static void die(const char *what)
{
	fprintf(stderr, "synflood: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void refuse(const char *text)
{
	fprintf(stderr, "synflood: %s\n", text);
	exit(2);
}

static uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* xorshift64: fast; these numbers need not be secret. */
static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static uint16_t checksum(const void *data, unsigned bytes, uint32_t sum)
{
	const uint8_t *p = data;
	unsigned i;

	for (i = 0; i < bytes; i += 2)
		sum += (uint32_t)(p[i] << 8 | p[i + 1]);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t)~sum);
}

static void frames_prepare(const struct ether_header *ether, in_addr_t destination)
{
	unsigned i;

	for (i = 0; i < BATCH; i++) {
		struct frame *f = &frames[i];

		f->ether = *ether;
		f->ip = (struct iphdr) { .version = 4,
					 .ihl = 5,
					 .tot_len = htons(sizeof(*f) - sizeof(f->ether)),
					 .frag_off = htons(IP_DF),
					 .ttl = 64,
					 .protocol = IPPROTO_TCP,
					 .daddr = destination };
		f->tcp = (struct tcphdr) { .dest = htons((uint16_t)port), .doff = 6, .syn = 1, .window = htons(64240) };
		memcpy(f->mss, (uint8_t[]) { TCPOPT_MAXSEG, TCPOLEN_MAXSEG, 1460 >> 8, 1460 & 0xff }, 4);
		pieces[i] = (struct iovec) { .iov_base = f, .iov_len = sizeof(*f) };
		messages[i].msg_hdr = (struct msghdr) { .msg_iov = &pieces[i], .msg_iovlen = 1 };
	}
}

static void frame_vary(struct frame *f)
{
	uint64_t random = next_random();
	uint32_t addresses, tcp_bytes = sizeof(f->tcp) + sizeof(f->mss);

	f->ip.saddr = htonl(SOURCES | (random & 0xffff));
	f->tcp.source = htons((uint16_t)(1024 + (random >> 16) % 64512));
	f->tcp.seq = (uint32_t)(random >> 32);
	f->ip.check = 0;
	f->ip.check = checksum(&f->ip, sizeof(f->ip), 0);
	addresses = (ntohl(f->ip.saddr) >> 16) + (ntohl(f->ip.saddr) & 0xffff) + (ntohl(f->ip.daddr) >> 16) +
		    (ntohl(f->ip.daddr) & 0xffff);
	f->tcp.check = 0;
	f->tcp.check = checksum(&f->tcp, tcp_bytes, addresses + IPPROTO_TCP + tcp_bytes);
}

/* Sends at most count (and at most a batch); returns the number sent. */
static unsigned send_batch(unsigned count)
{
	unsigned i;
	int sent;

	if (count > BATCH)
		count = BATCH;
	for (i = 0; i < count; i++)
		frame_vary(&frames[i]);
	sent = sendmmsg(packet_socket, messages, count, 0);
	if (sent < 0 && errno != ENOBUFS && errno != EAGAIN)
		die("send");
	return sent < 0 ? 0 : (unsigned)sent;
}

static void flood(double seconds, uint64_t count)
{
	uint64_t start = clock_ns(), end = start + (uint64_t)(seconds * 1e9), sent = 0;

	while (sent < count && clock_ns() < end) {
		sent += send_batch(count - sent > BATCH ? BATCH : (unsigned)(count - sent));
		while (rate && sent > (clock_ns() - start) / 1000 * rate / 1000000 && clock_ns() < end)
			usleep(50);
	}
	printf("{\"sent\":%llu,\"seconds\":%.6f}\n", (unsigned long long)sent, (double)(clock_ns() - start) / 1e9);
}

/* --- the process that drains the queue, seen from outside --- */

static void read_line(const char *path, char *text, int room)
{
	FILE *file = fopen(path, "re");

	text[0] = '\0';
	if (file && !fgets(text, room, file))
		text[0] = '\0';
	if (file)
		fclose(file);
}

/* Processor time of all threads in ns; *ret_all: every thread is in one of these states. */
static uint64_t task_time_ns(int pid, const char *states, bool *ret_all)
{
	char path[320], text[512];
	const struct dirent *entry;
	uint64_t total = 0;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = opendir(path);
	if (!tasks)
		die(path);
	*ret_all = true;
	while ((entry = readdir(tasks))) {
		const char *state;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%s/stat", pid, entry->d_name);
		read_line(path, text, sizeof(text));
		state = strrchr(text, ')');
		*ret_all = *ret_all && state && strchr(states, state[2]);
		snprintf(path, sizeof(path), "/proc/%d/task/%s/schedstat", pid, entry->d_name);
		read_line(path, text, sizeof(text));
		total += strtoull(text, NULL, 10);
	}
	closedir(tasks);
	return total;
}

static uint64_t wait_for_state(int pid, const char *states)
{
	uint64_t deadline = clock_ns() + WAIT_MS * 1000000ULL, total;
	bool all;

	for (;;) {
		total = task_time_ns(pid, states, &all);
		if (all)
			return total;
		if (clock_ns() > deadline)
			refuse("the process does not come to rest");
		usleep(50);
	}
}

/* Packets waiting in the queue, from nfnetlink_queue of the process's namespace; -1: no such queue. */
static int queue_total(int pid, unsigned queue)
{
	char path[64], line[256];
	unsigned number, portid, total;
	int found = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/net/netfilter/nfnetlink_queue", pid);
	file = fopen(path, "re");
	if (!file)
		die(path);
	while (found < 0 && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%u %u %u", &number, &portid, &total) == 3 && number == queue)
			found = (int)total;
	}
	fclose(file);
	return found;
}

/* The process must run again, however this program ends. */
static int stopped_pid;

static void let_go(void)
{
	if (stopped_pid)
		kill(stopped_pid, SIGCONT);
}

/*
 * ns per SYN; below 0: most of them passed by the queue. That happens when this program had to wait while the other one
 * was stopped: dprd's BPF programs regard a daemon that is silent for long as dead.
 */
static double drain_once(int pid, unsigned queue, unsigned chunk)
{
	uint64_t deadline, before, after;
	unsigned sent = 0;
	int queued;

	wait_for_state(pid, "S");
	if (kill(pid, SIGSTOP))
		die("stop");
	stopped_pid = pid;
	before = wait_for_state(pid, "T");
	while (sent < chunk)
		sent += send_batch(chunk - sent);
	queued = queue_total(pid, queue);
	kill(pid, SIGCONT);
	stopped_pid = 0;
	deadline = clock_ns() + WAIT_MS * 1000000ULL;
	while (queue_total(pid, queue) > 0 && clock_ns() < deadline)
		usleep(100);
	after = wait_for_state(pid, "S");
	return queued < (int)chunk / 2 ? -1 : (double)(after - before) / queued;
}

static void drain(int pid, unsigned queue, unsigned chunk, unsigned chunks)
{
	unsigned i, failures = 0;

	atexit(let_go);
	printf("{\"ns_per_syn\":[");
	for (i = 0; i < chunks;) {
		double ns = drain_once(pid, queue, chunk);

		if (ns >= 0)
			printf("%s%.1f", i++ ? "," : "", ns);
		else if (++failures == FAILURES_MAX)
			refuse("the SYNs do not reach the queue");
		else
			usleep(PAUSE_US);
	}
	printf("]}\n");
}

static void open_link(const char *interface, const char *mac, const char *destination)
{
	struct sockaddr_ll link = { .sll_family = AF_PACKET, .sll_protocol = 0 };
	struct ether_header ether = { .ether_type = htons(ETHERTYPE_IP), .ether_shost = { 2, 0, 0, 0, 0, 1 } };
	uint8_t *m = ether.ether_dhost;
	struct in_addr to;
	int one = 1;

	if (sscanf(mac, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &m[0], &m[1], &m[2], &m[3], &m[4], &m[5]) != 6)
		refuse("bad MAC address");
	if (inet_pton(AF_INET, destination, &to) != 1 || (ntohl(to.s_addr) & 0xffffff00) != DESTINATIONS)
		refuse("the destination must be in 192.0.2.0/24");
	link.sll_ifindex = (int)if_nametoindex(interface);
	packet_socket = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (!link.sll_ifindex || packet_socket < 0 || bind(packet_socket, (struct sockaddr *)&link, sizeof(link)))
		die(interface);
	if (setsockopt(packet_socket, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof(one)))
		die("PACKET_QDISC_BYPASS");
	random_state = clock_ns() * 2 + 1;
	frames_prepare(&ether, to.s_addr);
}

/* The options; argv[1] is then the first word behind them. */
static void options_read(int *argc, char ***argv)
{
	int option;

	while ((option = getopt(*argc, *argv, "+p:r:")) != -1) {
		if (option == 'p')
			port = (unsigned)atoi(optarg);
		else if (option == 'r')
			rate = strtoull(optarg, NULL, 10);
		else
			exit(2);
	}
	if (port < 1 || port > 65535 || rate > COUNT_MAX)
		refuse("option out of range");
	*argc -= optind - 1;
	*argv += optind - 1;
}

int main(int argc, char **argv)
{
	options_read(&argc, &argv);
	if (argc >= 6 && argc <= 7 && !strcmp(argv[4], "flood")) {
		double seconds = atof(argv[5]);
		uint64_t count = argc == 7 ? strtoull(argv[6], NULL, 10) : COUNT_MAX;

		if (!(seconds > 0 && seconds <= SECONDS_MAX) || count > COUNT_MAX)
			refuse("too long, or too many");
		open_link(argv[1], argv[2], argv[3]);
		flood(seconds, count);
	} else if (argc == 9 && !strcmp(argv[4], "drain")) {
		int pid = atoi(argv[5]), chunk = atoi(argv[7]), chunks = atoi(argv[8]);

		if (pid <= 1 || chunk < 1 || chunk > CHUNK_MAX || chunks < 1 || chunks > CHUNKS_MAX)
			refuse("number out of range");
		open_link(argv[1], argv[2], argv[3]);
		drain(pid, (unsigned)atoi(argv[6]), (unsigned)chunk, (unsigned)chunks);
	} else {
		fputs("usage: synflood [-p PORT] [-r RATE] IF MAC DESTINATION flood SECONDS [COUNT]\n"
		      "       synflood [-p PORT] [-r RATE] IF MAC DESTINATION drain PID QUEUE CHUNK N\n",
		      stderr);
		return 2;
	}
	return 0;
}
