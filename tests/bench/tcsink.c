// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * tcsink - IP-in-IP packets that arrive on an interface are lost, before any other program of the interface sees them.
 * It works as long as the process runs, and prints "ready" when it works.
 *
 *   tcsink IF
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/tcsink.skel.h"

/* Not in the headers of all systems that this is built on. */
enum { TCX_INGRESS = 46, BEFORE_ALL = 1 << 3 };

int main(int argc, char **argv)
{
	LIBBPF_OPTS(bpf_link_create_opts, options, .flags = BEFORE_ALL);
	unsigned interface = argc == 2 ? if_nametoindex(argv[1]) : 0;
	struct tcsink_bpf *sink;

	if (!interface) {
		fputs("usage: tcsink INTERFACE\n", stderr);
		return 2;
	}
	libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
	sink = tcsink_bpf__open_and_load();
	/* The link ends with the process. */
	if (!sink || bpf_link_create(bpf_program__fd(sink->progs.tcsink), (int)interface,
				     (enum bpf_attach_type)TCX_INGRESS, &options) < 0) {
		fprintf(stderr, "tcsink: %s: %s (tcx needs Linux 6.6)\n", argv[1], strerror(errno));
		return 1;
	}
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
