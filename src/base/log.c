/* SPDX-License-Identifier: BSD-3-Clause */
/* One write() per line, so that lines of many processes do not mix. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"

static const char *const names[] = {"error", "warn", "info", "debug", "trace"};

void crn_log_init(struct crn_log *log, const struct crn_config *cfg, const uint8_t run[16],
                  const char *who, int64_t no)
{
    memset(log, 0, sizeof(*log));
    log->level = (enum crn_log_level)cfg->log_level;
    log->file = cfg->log_file;
    if (cfg->job[0] != '\0')
        (void)snprintf(log->job, sizeof(log->job), "job %s", cfg->job);
    else if (run != NULL)
        (void)snprintf(log->job, sizeof(log->job), "run %02x%02x%02x%02x", run[0], run[1], run[2],
                       run[3]);
    if (no >= 0)
        (void)snprintf(log->who, sizeof(log->who), "%s %lld", who, (long long)no);
    else
        (void)snprintf(log->who, sizeof(log->who), "%s", who);
}

/* Files. --------------------------------------------------------------------------------------- */

/* Appends text as a word of a file name: drops blanks, replaces '/'. */
static size_t add_word(char *ret, size_t size, size_t n, const char *text)
{
    for (; *text != '\0' && n < size; text++)
        if (*text != ' ')
            ret[n++] = *text == '/' ? '_' : *text;
    return n;
}

int crn_log_path(const struct crn_log *log, char *ret, size_t size)
{
    const char *job = strchr(log->job, ' ');
    char host[65] = "";
    const char *p;
    size_t n = 0;

    (void)gethostname(host, sizeof(host) - 1);
    for (p = log->file; *p != '\0' && n < size; p++) {
        char kind = *p == '%' ? p[1] : '\0';

        if (kind == 'j')
            n = add_word(ret, size, n, job != NULL ? job : "");
        else if (kind == 'r')
            n = add_word(ret, size, n, log->who);
        else if (kind == 'h')
            n = add_word(ret, size, n, host);
        else
            ret[n++] = *p;
        if (kind == 'j' || kind == 'r' || kind == 'h' || kind == '%')
            p++;
    }
    if (n >= size)
        return -1;
    ret[n] = '\0';
    return 0;
}

static int open_file(const struct crn_log *log)
{
    char path[CRN_PATH_MAX];

    if (crn_log_path(log, path, sizeof(path)) != 0) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
}

/* Lines. --------------------------------------------------------------------------------------- */

/* "2026-11-18T03:12:44.123Z cairn warn job 4711 rank 12: text\n"; a text that is too long is
 * truncated. */
static size_t __attribute__((format(printf, 5, 0)))
format_line(const struct crn_log *log, enum crn_log_level level, char *line, size_t size,
            const char *fmt, va_list ap)
{
    int64_t now = crn_clock_real()->wall_ns(crn_clock_real());
    time_t seconds = (time_t)(now / 1000000000);
    struct tm tm;
    size_t n, i;

    (void)gmtime_r(&seconds, &tm);
    n = strftime(line, size, "%Y-%m-%dT%H:%M:%S", &tm);
    n += (size_t)snprintf(line + n, size - n,
                          ".%03dZ cairn %s %s%s%s: ", (int)(now / 1000000 % 1000), names[level],
                          log->job, log->job[0] != '\0' ? " " : "", log->who);
    (void)vsnprintf(line + n, size - n - 1, fmt, ap);
    n += strlen(line + n);
    for (i = 0; i < n; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f) /* a name could forge a line */
            line[i] = ' ';
    line[n++] = '\n';
    return n;
}

static void write_stderr(const char *line, size_t n)
{
    if (write(STDERR_FILENO, line, n) < 0)
        return; /* nowhere left to report it */
}

/* Reports, once per process, that its log goes to stderr instead. */
static void say_no_file(const struct crn_log *log, int why)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    struct crn_log bare = *log;

    if (atomic_flag_test_and_set(&said))
        return;
    bare.file = NULL;
    crn_log(&bare, CRN_ERROR, "log_file '%s' cannot be written, logging to standard error: %s",
            log->file, strerror(why));
}

void crn_log_write(const struct crn_log *log, const char *line, size_t n)
{
    int fd = open_file(log);
    ssize_t done = fd >= 0 ? write(fd, line, n) : -1;
    int why = errno;

    if (fd >= 0)
        (void)close(fd);
    if (done < 0) {
        say_no_file(log, why);
        write_stderr(line, n);
    }
}

void crn_log(const struct crn_log *log, enum crn_log_level level, const char *fmt, ...)
{
    char line[1400];
    va_list ap;
    size_t n;

    if (log == NULL || level > log->level)
        return;
    va_start(ap, fmt);
    n = format_line(log, level, line, sizeof(line), fmt, ap);
    va_end(ap);
    if (log->file == NULL || log->file[0] == '\0')
        write_stderr(line, n);
    else if (log->writer != NULL)
        log->put(log->writer, log, line, n);
    else
        crn_log_write(log, line, n);
}
