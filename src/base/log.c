/* SPDX-License-Identifier: BSD-3-Clause */
/* One write() per line, so that lines of many processes do not mix. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = {"error", "warn", "info", "debug", "trace"};

const char *crn_log_level_name(enum crn_log_level level)
{
    return names[level];
}

void crn_log(const struct crn_log *log, enum crn_log_level level, const char *fmt, ...)
{
    char line[1024];
    va_list ap;
    int n;

    if (log == NULL || level > log->level)
        return;
    n = snprintf(line, sizeof(line), "cairn %s [%s] ", names[level], log->tag);
    va_start(ap, fmt);
    (void)vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
    va_end(ap);
    n = (int)strlen(line);
    line[n] = '\n';
    if (write(STDERR_FILENO, line, (size_t)n + 1) < 0)
        return; /* nowhere left to say it */
}
