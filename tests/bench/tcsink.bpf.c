// SPDX-License-Identifier: GPL-2.0-or-later
/* Loses tunnel packets (tcsink.c). */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

enum { IPV4_ETHERTYPE = 0x0800, IPV4_PROTOCOL_AT = 14 + 9, PROTOCOL_IPIP = 4 };

SEC("tc")
int tcsink(struct __sk_buff *skb)
{
	const unsigned char *packet = (const unsigned char *)(long)skb->data;

	if (skb->protocol != __builtin_bswap16(IPV4_ETHERTYPE) ||
	    packet + IPV4_PROTOCOL_AT + 1 > (const unsigned char *)(long)skb->data_end)
		return TC_ACT_UNSPEC;
	return packet[IPV4_PROTOCOL_AT] == PROTOCOL_IPIP ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "GPL";
