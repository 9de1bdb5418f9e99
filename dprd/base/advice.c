// SPDX-License-Identifier: GPL-2.0-or-later
#include "dprd/base/advice.h"

#include <errno.h>

const char *advice_for(int error, const char *otherwise)
{
	switch (-error) {
	case ENOSPC:
	case EDQUOT:
		return "make room on its file system: df -h, df -i";
	case EROFS:
		return "its file system is read-only: mount, and ReadWritePaths= in the unit";
	case EMFILE:
		return "raise the limit of open files: LimitNOFILE= in the unit, ulimit -n in a shell";
	case ENFILE:
		return "raise the limit of open files of the host: sysctl fs.file-max";
	case ENOMEM:
		return "this host, or the unit's MemoryMax=, has no memory left: free -m";
	case EAGAIN: /* of fork(2) */
		return "raise the limit of processes: TasksMax= in the unit, sysctl kernel.pid_max";
	default:
		return otherwise;
	}
}
