// SPDX-License-Identifier: GPL-2.0-or-later
/* notcx.c - preloaded, it makes this kernel look like one before 6.6 to libbpf: no tcx links. */
#include <errno.h>

int bpf_link_create(int program, int target, int attach_type, const void *options);

int bpf_link_create(int program, int target, int attach_type, const void *options)
{
	(void)program;
	(void)target;
	(void)attach_type;
	(void)options;
	errno = EINVAL;
	return -EINVAL;
}
