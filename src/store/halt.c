/* SPDX-License-Identifier: BSD-3-Clause */
/* The file has two lines: the request ("now", "checkpoint", "at SECONDS-SINCE-1970"), and who made
 * it. */
#include "store/halt.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HALT_MAX 4096

static cairn_err halt_name(const char *job, char buf[CAIRN_MAX_NAME + 16], struct crn_errinfo *ei)
{
    if (strchr(job, '/') != NULL || strlen(job) >= CAIRN_MAX_NAME)
        return crn_fail(ei, CAIRN_EINVAL, 0, "'%s' is not a name of a job", job);
    (void)snprintf(buf, CAIRN_MAX_NAME + 16, ".halt%s%s", job[0] != '\0' ? "-" : "", job);
    return CAIRN_OK;
}

static void parse_halt(char *text, struct crn_halt *ret)
{
    char *line = strsep(&text, "\n");
    uint64_t seconds;

    ret->kind = CRN_HALT_NOW;
    if (strcmp(line, "checkpoint") == 0) {
        ret->kind = CRN_HALT_CHECKPOINT;
    } else if (sscanf(line, "at %" SCNu64, &seconds) == 1) {
        ret->kind = CRN_HALT_AT;
        ret->at_ns = seconds * 1000000000U;
    }
    line = text != NULL ? strsep(&text, "\n") : NULL;
    (void)snprintf(ret->who, sizeof(ret->who), "%s", line != NULL ? line : "");
}

static cairn_err read_one(const struct crn_fs *fs, int dfd, const char *job, struct crn_halt *ret,
                          struct crn_errinfo *ei)
{
    char name[CAIRN_MAX_NAME + 16];
    void *text;
    size_t len;
    cairn_err rc;

    rc = halt_name(job, name, ei);
    if (rc == CAIRN_OK)
        rc = crn_fs_read_file(fs, dfd, name, HALT_MAX, &text, &len, ei);
    if (rc == CAIRN_ENOENT) {
        crn_err_clear(ei);
        return CAIRN_OK;
    }
    if (rc != CAIRN_OK)
        return rc;
    parse_halt(text, ret);
    ret->is_of_one_job = job[0] != '\0';
    free(text);
    return CAIRN_OK;
}

cairn_err crn_halt_read(const struct crn_fs *fs, const char *root, const char *job,
                        struct crn_halt *ret, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    int dfd;

    memset(ret, 0, sizeof(*ret));
    dfd = fs->openat(fs, AT_FDCWD, root, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (dfd == -ENOENT)
        return CAIRN_OK;
    if (dfd < 0)
        return crn_fs_check(dfd, ei, "open the directory '%s'", root);
    if (job[0] != '\0')
        rc = read_one(fs, dfd, job, ret, ei);
    if (rc == CAIRN_OK && ret->kind == CRN_HALT_NONE)
        rc = read_one(fs, dfd, "", ret, ei);
    (void)fs->close(fs, dfd);
    return rc;
}

cairn_err crn_halt_write(const struct crn_store *st, const char *job, const struct crn_halt *halt,
                         struct crn_errinfo *ei)
{
    char name[CAIRN_MAX_NAME + 16];
    char text[HALT_MAX];
    cairn_err rc;
    int n;

    rc = halt_name(job, name, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (halt->kind == CRN_HALT_NONE) {
        int r = st->fs->unlinkat(st->fs, st->dfd, name, 0);

        return r == -ENOENT ? CAIRN_OK : crn_fs_check(r, ei, "remove '%s/%s'", st->path, name);
    }
    n = halt->kind == CRN_HALT_AT
            ? snprintf(text, sizeof(text), "at %" PRIu64 "\n%s\n", halt->at_ns / 1000000000U,
                       halt->who)
            : snprintf(text, sizeof(text), "%s\n%s\n",
                       halt->kind == CRN_HALT_NOW ? "now" : "checkpoint", halt->who);
    return crn_fs_replace(st->fs, st->dfd, name, text, (size_t)n, ei);
}

void crn_halt_text(const struct crn_halt *halt, char *buf, size_t size)
{
    time_t at = (time_t)(halt->at_ns / 1000000000U);
    char date[32] = "?";
    struct tm tm;

    if (halt->kind == CRN_HALT_AT && localtime_r(&at, &tm) != NULL)
        (void)strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S", &tm);
    (void)snprintf(buf, size, "%s%s%s%s",
                   halt->kind == CRN_HALT_NONE         ? "no request"
                   : halt->kind == CRN_HALT_CHECKPOINT ? "stop after the next checkpoint"
                   : halt->kind == CRN_HALT_NOW        ? "stop now"
                                                       : "stop by ",
                   halt->kind == CRN_HALT_AT ? date : "", halt->who[0] != '\0' ? "; " : "",
                   halt->who);
}
