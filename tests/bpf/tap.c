// SPDX-License-Identifier: GPL-2.0-or-later
/* tap.c - TAP interfaces with virtio headers. */
#include "tests/bpf/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/bpf/plane.h"
#include "tests/unit/oracle.h"

unsigned if_nametoindex(const char *name);

enum { VIRTIO_BYTES = 10 }; /* of the header, by default */

struct tap tap_new(const char *name, uint8_t hardware)
{
	struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };
	struct tap tap = { .fd = open("/dev/net/tun", O_RDWR) };

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (tap.fd < 0 || ioctl(tap.fd, TUNSETIFF, &request))
		plane_give_up("no tap interface: %s", strerror(errno));
	plane_command("ip link set %s addrgenmode none address 02:00:00:00:00:%02x up", name, hardware);
	tap.interface = if_nametoindex(name);
	return tap;
}

/* Puts the sum that a device starts from in place of the checksum. */
static void take_sum(uint8_t *ip, struct virtio_net_hdr *virtio)
{
	bool v6 = ip[0] >> 4 == 6;
	unsigned header = v6 ? 40 : 20, length = v6 ? ip[4] * 256u + ip[5] : ip[2] * 256u + ip[3] - 20;
	uint64_t sum = 6 + length + (v6 ? oracle_sum(ip + 8, 32) : oracle_sum(ip + 12, 8));

	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	ip[header + 16] = (uint8_t)(sum >> 8);
	ip[header + 17] = (uint8_t)sum;
	virtio->flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
	virtio->csum_start = (uint16_t)(FRAME_ETHERNET_BYTES + header);
	virtio->csum_offset = 16;
}

void tap_send(const struct tap *tap, const struct frame *frame, const struct tap_offload *offload)
{
	struct virtio_net_hdr virtio = { .hdr_len = (uint16_t)(offload ? offload->linear : 0) };
	struct frame copy = *frame;
	struct iovec parts[2] = { { &virtio, VIRTIO_BYTES }, { copy.bytes, copy.length } };
	uint8_t *ip = copy.bytes + FRAME_ETHERNET_BYTES;
	bool v6 = ip[0] >> 4 == 6;

	if (virtio.hdr_len > copy.length)
		virtio.hdr_len = (uint16_t)copy.length;
	if (offload && (offload->sum_missing || offload->gso_bytes))
		take_sum(ip, &virtio);
	if (offload && offload->gso_bytes) {
		virtio.gso_type = v6 ? VIRTIO_NET_HDR_GSO_TCPV6 : VIRTIO_NET_HDR_GSO_TCPV4;
		virtio.gso_size = (uint16_t)offload->gso_bytes;
		virtio.hdr_len = (uint16_t)(FRAME_ETHERNET_BYTES + (v6 ? 60 : 40));
	}
	if (writev(tap->fd, parts, 2) != VIRTIO_BYTES + (ssize_t)copy.length)
		plane_give_up("a frame of %u bytes cannot be sent: %s", copy.length, strerror(errno));
}

bool tap_receive(const struct tap *tap, struct frame *ret, int wait_ms)
{
	struct pollfd p = { .fd = tap->fd, .events = POLLIN };
	uint8_t virtio[VIRTIO_BYTES];
	struct iovec parts[2] = { { virtio, VIRTIO_BYTES }, { ret->bytes, sizeof(ret->bytes) } };

	while (poll(&p, 1, wait_ms) == 1) {
		ssize_t length = readv(tap->fd, parts, 2);

		if (length < VIRTIO_BYTES + FRAME_ETHERNET_BYTES)
			plane_give_up("nothing can be read: %s", strerror(errno));
		ret->length = (unsigned)length - VIRTIO_BYTES;
		if (!(ret->bytes[0] & 1) && (ret->bytes[12] == 0x08 ? ret->bytes[13] == 0 : ret->bytes[12] == 0x86))
			return true;
	}
	return false;
}
