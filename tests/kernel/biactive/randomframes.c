// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * randomframes.c - random frames at the kernel module, for tests: randomframes INTERFACE COUNT SEED TO... ADDRESS
 * ADDRESS. TO: hardware addresses of the receivers; the two addresses are shared ones, IPv4 and IPv6. Each frame begins
 * as one that the module judges: TCP with options or extension headers, fragments, UDP, ICMP errors that quote TCP,
 * ARP, neighbour discovery, IGMP, MLD. Half of them are then damaged: some bytes changed, an end cut off. The same seed
 * sends the same.
 *
 * Exit status: 0 and "sent N" when the interface took all of them; 1; 2 for wrong arguments.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/icmp6.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FRAME_BYTES = 600, TARGETS_MAX = 8, TRIES = 1000 };

struct generator {
	uint64_t state;
	unsigned targets;
	uint8_t target[TARGETS_MAX][ETH_ALEN];
	uint8_t v4[4], v6[16];
	uint8_t frame[FRAME_BYTES];
	unsigned bytes;
};

/* splitmix64 */
static uint64_t next_random(struct generator *g)
{
	uint64_t z = g->state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static unsigned below(struct generator *g, unsigned limit)
{
	return (unsigned)(next_random(g) % limit);
}

static void put(struct generator *g, const void *data, unsigned bytes)
{
	if (g->bytes + bytes > FRAME_BYTES)
		bytes = FRAME_BYTES - g->bytes;
	memcpy(g->frame + g->bytes, data, bytes);
	g->bytes += bytes;
}

static void put_random(struct generator *g, unsigned bytes)
{
	while (bytes--)
		put(g, &(uint8_t) { (uint8_t)next_random(g) }, 1);
}

static uint32_t sum_of(const uint8_t *data, unsigned bytes, uint32_t sum)
{
	unsigned i;

	for (i = 0; i < bytes; i++)
		sum += i & 1 ? data[i] : (uint32_t)data[i] << 8;
	return sum;
}

static uint16_t fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t)~sum);
}

/* A SYN, an ACK, or any other flags; from few ports, so that some are of one connection. */
static void put_tcp(struct generator *g)
{
	static const uint8_t flags[] = { TH_SYN,          TH_SYN, TH_ACK,         TH_ACK | TH_PUSH,
					 TH_FIN | TH_ACK, TH_RST, TH_SYN | TH_ACK };
	unsigned options = below(g, 4) ? 0 : below(g, 11);
	struct tcphdr tcp = { .th_sport = htons((uint16_t)(20000 + below(g, 64))),
			      .th_dport = htons(below(g, 8) ? 80 : 81),
			      .th_seq = (uint32_t)next_random(g),
			      .th_ack = (uint32_t)next_random(g),
			      .th_off = (uint8_t)(5 + options),
			      .th_flags = flags[below(g, sizeof(flags))],
			      .th_win = 0xffff };

	if (!below(g, 8))
		tcp.th_flags = (uint8_t)next_random(g);
	put(g, &tcp, sizeof(tcp));
	put_random(g, 4 * options + (below(g, 3) ? 0 : below(g, 100)));
}

static void put_ports(struct generator *g, uint8_t protocol)
{
	if (protocol == IPPROTO_TCP)
		put_tcp(g);
	else
		put_random(g, 8 + below(g, 40));
}

/* quoted: from the shared address, as an ICMP error shows it. */
static void put_ip4(struct generator *g, uint8_t protocol, bool quoted)
{
	unsigned start = g->bytes, options = below(g, 6) ? 0 : 4 * below(g, 11);
	const uint8_t client[4] = { 10, 9, 0, (uint8_t)(below(g, 16) ? 77 : next_random(g)) };
	struct ip ip = { .ip_v = 4,
			 .ip_hl = 5 + options / 4,
			 .ip_id = (uint16_t)next_random(g),
			 .ip_off = htons(below(g, 8) ? IP_DF : (uint16_t)(next_random(g) & 0x3fff)),
			 .ip_ttl = 64,
			 .ip_p = protocol };

	memcpy(&ip.ip_src, quoted ? g->v4 : client, 4);
	memcpy(&ip.ip_dst, quoted ? client : g->v4, 4);
	put(g, &ip, sizeof(ip));
	put_random(g, options);
	if (protocol == IPPROTO_ICMP) {
		put(g, (const uint8_t[]) { 3, (uint8_t)below(g, 5), 0, 0, 0, 0, 5, 0 }, 8);
		put_ip4(g, IPPROTO_TCP, true);
	} else if (protocol == IPPROTO_IGMP) {
		put(g, (const uint8_t[]) { 0x11, 100, 0, 0, 224, 0, 0, 1 }, 8);
	} else {
		put_ports(g, protocol);
	}
	ip.ip_len = htons((uint16_t)(g->bytes - start));
	ip.ip_sum = fold(sum_of((const uint8_t *)&ip, sizeof(ip), sum_of(g->frame + start + sizeof(ip), options, 0)));
	memcpy(g->frame + start, &ip, sizeof(ip));
}

static void put_extensions(struct generator *g, uint8_t protocol)
{
	static const uint8_t kinds[] = { IPPROTO_HOPOPTS, IPPROTO_ROUTING, IPPROTO_DSTOPTS, IPPROTO_FRAGMENT };
	unsigned count = 1 + below(g, 4), i;

	for (i = 0; i < count; i++) {
		unsigned more = below(g, 3);
		uint8_t kind = i + 1 < count ? kinds[below(g, sizeof(kinds))] : protocol;

		put(g, (const uint8_t[]) { kind, (uint8_t)more, 0, (uint8_t)below(g, 2), 0, 0, 0, 0 }, 8);
		put_random(g, 8 * more);
	}
}

static void put_ip6(struct generator *g, uint8_t protocol, bool quoted)
{
	static const uint8_t first[] = { IPPROTO_HOPOPTS, IPPROTO_DSTOPTS, IPPROTO_FRAGMENT };
	bool extended = !quoted && !below(g, 5);
	unsigned start = g->bytes;
	uint8_t client[16] = { 0xfd, 9 };
	struct ip6_hdr ip = { .ip6_flow = htonl(0x60000000), .ip6_hlim = 255 };

	client[15] = (uint8_t)(below(g, 16) ? 0x77 : next_random(g));
	ip.ip6_nxt = extended ? first[below(g, sizeof(first))] : protocol;
	memcpy(&ip.ip6_src, quoted ? g->v6 : client, 16);
	memcpy(&ip.ip6_dst, quoted ? client : g->v6, 16);
	put(g, &ip, sizeof(ip));
	if (extended)
		put_extensions(g, protocol);
	if (protocol == IPPROTO_ICMPV6) {
		static const uint8_t types[] = { ICMP6_DST_UNREACH,  ICMP6_PACKET_TOO_BIG, ND_NEIGHBOR_SOLICIT,
						 ND_NEIGHBOR_ADVERT, ND_ROUTER_ADVERT,     MLD_LISTENER_QUERY };
		uint8_t type = types[below(g, sizeof(types))];

		put(g, (const uint8_t[]) { type, 0, 0, 0, 0, 0, 5, 0 }, 8);
		if (type < 128)
			put_ip6(g, IPPROTO_TCP, true);
		else
			put(g, g->v6, 16);
	} else {
		put_ports(g, protocol);
	}
	ip.ip6_plen = htons((uint16_t)(g->bytes - start - sizeof(ip)));
	memcpy(g->frame + start, &ip, sizeof(ip));
}

static void put_arp(struct generator *g)
{
	put(g, (const uint8_t[]) { 0, 1, 8, 0, 6, 4, 0, (uint8_t)(1 + below(g, 2)) }, 8);
	put_random(g, 6);
	put(g, (const uint8_t[]) { 10, 9, 0, 77 }, 4);
	put_random(g, 6);
	put(g, g->v4, 4);
}

static void damage(struct generator *g)
{
	unsigned changes = below(g, 6);

	while (changes--)
		g->frame[ETH_HLEN + below(g, g->bytes - ETH_HLEN)] = (uint8_t)next_random(g);
	if (!below(g, 3))
		g->bytes = ETH_HLEN + below(g, g->bytes - ETH_HLEN);
}

static void make_frame(struct generator *g)
{
	static const uint8_t v4[] = { IPPROTO_TCP, IPPROTO_TCP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMP, IPPROTO_IGMP };
	static const uint8_t v6[] = { IPPROTO_TCP, IPPROTO_TCP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMPV6 };
	static const uint16_t types[] = { ETHERTYPE_IP, ETHERTYPE_IP, ETHERTYPE_IPV6, ETHERTYPE_IPV6, ETHERTYPE_ARP };
	uint16_t type = types[below(g, sizeof(types) / sizeof(types[0]))];
	struct ether_header ethernet = { .ether_shost = { 2, 0, 0, 0, 0, 9 }, .ether_type = htons(type) };

	memcpy(ethernet.ether_dhost, g->target[below(g, g->targets)], ETH_ALEN);
	g->bytes = 0;
	put(g, &ethernet, sizeof(ethernet));
	if (type == ETHERTYPE_IP)
		put_ip4(g, v4[below(g, sizeof(v4))], false);
	else if (type == ETHERTYPE_IPV6)
		put_ip6(g, v6[below(g, sizeof(v6))], false);
	else
		put_arp(g);
	if (below(g, 2))
		damage(g);
}

/* 0 or -errno. A full queue empties by itself. */
static int send_frame(int fd, const struct generator *g)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	int tries;

	for (tries = 0; tries < TRIES; tries++) {
		if (send(fd, g->frame, g->bytes, 0) == (ssize_t)g->bytes)
			return 0;
		if (errno != ENOBUFS && errno != EAGAIN)
			return -errno;
		nanosleep(&pause, NULL);
	}
	return -ENOBUFS;
}

static bool parse_target(const char *text, uint8_t ret[ETH_ALEN])
{
	unsigned b[ETH_ALEN], i;
	char end;

	if (sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x%c", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5], &end) != ETH_ALEN)
		return false;
	for (i = 0; i < ETH_ALEN; i++)
		ret[i] = (uint8_t)b[i];
	return true;
}

static int open_socket(const char *interface)
{
	struct sockaddr_ll address = { .sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(interface) };
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	if (fd >= 0 && address.sll_ifindex && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	perror(interface);
	if (fd >= 0)
		close(fd);
	return -1;
}

int main(int argc, char **argv)
{
	static struct generator g;
	unsigned long count, i;
	int fd, error = 0;

	for (g.targets = 0; (int)g.targets < argc - 6 && g.targets < TARGETS_MAX; g.targets++) {
		if (!parse_target(argv[4 + g.targets], g.target[g.targets]))
			break;
	}
	if (argc < 7 || (int)g.targets != argc - 6 || inet_pton(AF_INET, argv[argc - 2], g.v4) != 1 ||
	    inet_pton(AF_INET6, argv[argc - 1], g.v6) != 1) {
		fprintf(stderr, "usage: randomframes INTERFACE COUNT SEED MAC... IPV4 IPV6\n");
		return 2;
	}
	count = strtoul(argv[2], NULL, 10);
	g.state = strtoul(argv[3], NULL, 10);
	fd = open_socket(argv[1]);
	if (fd < 0)
		return 1;
	for (i = 0; i < count && !error; i++) {
		make_frame(&g);
		error = send_frame(fd, &g);
	}
	close(fd);
	if (error)
		fprintf(stderr, "randomframes: frame %lu: %s\n", i, strerror(-error));
	else
		printf("sent %lu\n", count);
	return error ? 1 : 0;
}
