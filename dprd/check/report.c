// SPDX-License-Identifier: GPL-2.0-or-later
/* check/report.c - one problem of the host, on the terminal or in the log. */
#include "dprd/check/report.h"

#include <stdio.h>

#include "dprd/base/log.h"

void problem(struct report *report, bool fatal, const char *what, const char *mend)
{
	if (report->to_log)
		log_warning("%s; fix: %s", what, mend);
	else
		printf("%s: %s\n    fix: %s\n", fatal ? "ERROR" : "warning", what, mend);
	if (fatal)
		report->errors++;
	else
		report->warnings++;
}
