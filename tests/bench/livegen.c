// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * livegen - TCP packets of some flows onto one link, by a program in the kernel: faster than a socket.
 *
 *   livegen IF MAC DESTINATION FLOWS syn|ack SECONDS      {"sent":N,"seconds":S}
 *
 * "ack": packets of established flows, one flow after the other, as fast as possible. "syn": one SYN of each, slowly,
 * so that no queue overflows; SECONDS does not count. The other end of the link needs "gro on" (frames of XDP come by
 * its NAPI). Sources are from 198.18.0.0/16, destinations must be in 192.0.2.0/24, port 80.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/livegen.h"
#include "tests/bench/livegen.skel.h"

enum {
	DESTINATIONS = 0xc0000200, /* 192.0.2.0/24 */
	SECONDS_MAX = 30,
	PACKETS_PER_CALL = 1 << 15,
	SYNS_PER_CALL = 64,
	SYN_PAUSE_US = 5000,
};

static void die(const char *what)
{
	fprintf(stderr, "livegen: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void refuse(const char *text)
{
	fprintf(stderr, "livegen: %s\n", text);
	exit(2);
}

static double clock_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void put_be16(uint8_t *at, unsigned value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

/* The sum of an even number of bytes, not folded: a few words do not overflow it. */
static uint32_t sum_of(const uint8_t *data, unsigned bytes)
{
	uint32_t sum = 0;
	unsigned i;

	for (i = 0; i < bytes; i += 2)
		sum += (uint32_t)(data[i] << 8 | data[i + 1]);
	return sum;
}

static void make_headers(struct livegen_bpf *g, const uint8_t mac[6], uint32_t destination, bool syn)
{
	uint8_t *frame = g->bss->headers, *ip = frame + LIVEGEN_IP, *tcp = frame + LIVEGEN_TCP;
	const unsigned tcp_bytes = LIVEGEN_FRAME_BYTES - LIVEGEN_TCP;

	memcpy(frame, mac, 6);
	frame[6] = 2; /* a local address */
	put_be16(frame + 12, 0x0800);
	ip[0] = 0x45;
	put_be16(ip + 2, LIVEGEN_FRAME_BYTES - LIVEGEN_IP);
	put_be16(ip + 6, 0x4000); /* DF */
	ip[8] = 64;
	ip[9] = IPPROTO_TCP;
	put_be16(ip + 16, destination >> 16);
	put_be16(ip + 18, destination & 0xffff);
	put_be16(tcp + 2, 80);
	put_be16(tcp + 6, 1); /* sequence number */
	tcp[12] = 5 << 4;
	tcp[13] = syn ? 0x02 : 0x10;
	put_be16(tcp + 14, 64240);
	g->bss->ip_sum = sum_of(ip, LIVEGEN_TCP - LIVEGEN_IP);
	g->bss->tcp_sum =
		sum_of(tcp, tcp_bytes) + (destination >> 16) + (destination & 0xffff) + IPPROTO_TCP + tcp_bytes;
}

static void send_packets(const struct livegen_bpf *g, unsigned count)
{
	uint8_t frame[LIVEGEN_FRAME_BYTES] = { 0 };
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame, .data_size_in = sizeof(frame), .repeat = (int)count,
		    .flags = BPF_F_TEST_XDP_LIVE_FRAMES, .batch_size = 64);

	if (bpf_prog_test_run_opts(bpf_program__fd(g->progs.livegen_next), &options))
		die("BPF_PROG_TEST_RUN with live frames");
}

static void generate(const struct livegen_bpf *g, unsigned flows, bool syn, double seconds)
{
	double start = clock_s();
	uint64_t sent = 0;

	while (syn ? sent < flows : clock_s() - start < seconds) {
		unsigned count = syn ? SYNS_PER_CALL : PACKETS_PER_CALL;

		if (syn && count > flows - sent)
			count = (unsigned)(flows - sent);
		send_packets(g, count);
		sent += count;
		if (syn)
			usleep(SYN_PAUSE_US);
	}
	printf("{\"sent\":%llu,\"seconds\":%.6f}\n", (unsigned long long)sent, clock_s() - start);
}

int main(int argc, char **argv)
{
	unsigned flows = argc == 7 ? (unsigned)atoi(argv[4]) : 0;
	double seconds = argc == 7 ? atof(argv[6]) : 0;
	bool syn = argc == 7 && !strcmp(argv[5], "syn");
	struct livegen_bpf *g;
	struct in_addr to;
	uint8_t mac[6];

	if (argc != 7 || flows < 1 || flows > LIVEGEN_FLOWS_MAX || !(seconds > 0) || seconds > SECONDS_MAX) {
		fputs("usage: livegen IF MAC DESTINATION FLOWS syn|ack SECONDS\n", stderr);
		return 2;
	}
	if (sscanf(argv[2], "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4], &mac[5]) != 6)
		refuse("bad MAC address");
	if (inet_pton(AF_INET, argv[3], &to) != 1 || (ntohl(to.s_addr) & 0xffffff00) != DESTINATIONS)
		refuse("the destination must be in 192.0.2.0/24");
	libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
	g = livegen_bpf__open_and_load();
	if (!g)
		die("the kernel does not take the program");
	g->bss->interface = if_nametoindex(argv[1]);
	if (!g->bss->interface)
		die(argv[1]);
	g->bss->flow_count = flows;
	make_headers(g, mac, ntohl(to.s_addr), syn);
	generate(g, flows, syn, seconds);
	livegen_bpf__destroy(g);
	return 0;
}
