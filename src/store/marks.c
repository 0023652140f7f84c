/* SPDX-License-Identifier: BSD-3-Clause */
/* Marks beside a manifest: pin (the version must not be removed or replaced) and bad (a restart
 * passes over it). */
#include "store/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BAD_MAX 1024 /* longer than any mark */

cairn_err crn_store_pin(const struct crn_store *st, const char *name, int64_t version, int pin,
                        struct crn_errinfo *ei)
{
    struct crn_where where = crn_where(st, name, version, NULL);
    struct stat sb;
    cairn_err rc;
    int dfd;
    int r;

    rc = crn_store_version_dir(st, name, version, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    r = st->fs->fstatat(st->fs, dfd, CRN_MANIFEST, &sb);
    if (r < 0) {
        rc = crn_fail_errno(ei, -r, "there is no committed version in '%s'", where.text);
    } else if (pin) {
        rc = crn_fs_replace(st->fs, dfd, CRN_PIN, "", 0, ei);
    } else {
        r = st->fs->unlinkat(st->fs, dfd, CRN_PIN, 0);
        if (r < 0 && r != -ENOENT)
            rc = crn_fail_errno(ei, -r, "remove '%s/%s'", where.text, CRN_PIN);
        else
            rc = crn_fs_check(st->fs->fsync(st->fs, dfd), ei, "fsync '%s'", where.text);
    }
    (void)st->fs->close(st->fs, dfd);
    return rc;
}

cairn_err crn_store_refuse_pinned(const struct crn_store *st, int dfd, const char *name,
                                  int64_t version, const struct crn_capture_id *id,
                                  struct crn_errinfo *ei)
{
    struct crn_errinfo ignored = {0};
    struct crn_manifest m = {0};
    struct stat sb;
    cairn_err rc;
    int is_same;
    int r;

    r = st->fs->fstatat(st->fs, dfd, CRN_PIN, &sb);
    if (r == -ENOENT)
        return CAIRN_OK;
    if (r < 0)
        return crn_fail_errno(ei, -r, "stat '%s'", crn_where(st, name, version, CRN_PIN).text);
    rc = crn_store_read_manifest(st, dfd, name, version, &m, &ignored);
    is_same = rc == CAIRN_OK && id != NULL && crn_capture_id_equal(&m.id, id);
    crn_manifest_free(&m);
    if (rc == CAIRN_ENOENT || is_same) /* a mark without a version is debris */
        return CAIRN_OK;
    return crn_fail(ei, CAIRN_EPINNED, 0,
                    "%s@%lld in '%s' is pinned; run 'cairn unpin %s@%lld' to allow replacing or "
                    "removing it",
                    name, (long long)version, st->path, name, (long long)version);
}

cairn_err crn_store_check_pin(const struct crn_store *st, const char *name, int64_t version,
                              const struct crn_capture_id *id, struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    cairn_err rc;
    int dfd;

    rc = crn_store_version_dir(st, name, version, &dfd, &why);
    if (rc == CAIRN_ENOENT)
        return CAIRN_OK;
    if (rc != CAIRN_OK) {
        crn_err_keep(ei, &why);
        return rc;
    }
    rc = crn_store_refuse_pinned(st, dfd, name, version, id, ei);
    (void)st->fs->close(st->fs, dfd);
    return rc;
}

static void marks_clean(char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = ' ';
}

/* Composes a mark: capture, reason, and a hash of both lines. */
static size_t marks_compose(const struct crn_capture_id *id, const char *reason, char *buf,
                            size_t size)
{
    char run[CRN_RUN_HEX];
    char line[400];
    int n;

    crn_run_hex(id->run, run);
    (void)snprintf(line, sizeof(line), "%s", reason != NULL ? reason : "");
    marks_clean(line);
    n = snprintf(buf, size, "%s %llu\n%s\n", run, (unsigned long long)id->seq, line);
    n += snprintf(buf + n, size - (size_t)n, "%016llx\n",
                  (unsigned long long)crn_hash(buf, (size_t)n));
    return (size_t)n;
}

cairn_err crn_store_reject(const struct crn_store *st, const char *name, int64_t version,
                           const char *reason, struct crn_errinfo *ei)
{
    struct crn_manifest m;
    char text[BAD_MAX];
    cairn_err rc;
    size_t n;
    int dfd;

    rc = crn_store_version_dir(st, name, version, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_store_read_manifest(st, dfd, name, version, &m, ei);
    if (rc == CAIRN_OK) {
        n = marks_compose(&m.id, reason, text, sizeof(text));
        rc = crn_fs_replace(st->fs, dfd, CRN_BAD, text, n, ei);
        crn_manifest_free(&m);
    }
    (void)st->fs->close(st->fs, dfd);
    return rc;
}

/* The reason inside a mark, or NULL if the mark is damaged. Terminates the first line with 0. */
static char *marks_parse(char *text, size_t len)
{
    char sum[24];
    char *reason;
    char *end;

    reason = memchr(text, '\n', len);
    end = reason != NULL ? strchr(reason + 1, '\n') : NULL;
    if (end == NULL || strlen(text) != len)
        return NULL;
    end++;
    (void)snprintf(sum, sizeof(sum), "%016llx\n",
                   (unsigned long long)crn_hash(text, (size_t)(end - text)));
    if (strcmp(end, sum) != 0)
        return NULL;
    *reason++ = '\0';
    end[-1] = '\0';
    marks_clean(reason);
    return reason;
}

cairn_err crn_store_is_bad(const struct crn_store *st, int dfd, const struct crn_capture_id *id,
                           int *ret_is_bad, char *why, size_t why_size, struct crn_errinfo *ei)
{
    struct crn_errinfo info = {0};
    char expect[CRN_RUN_HEX + 24];
    char run[CRN_RUN_HEX];
    char *reason = NULL;
    void *buf = NULL;
    size_t len;
    cairn_err rc;

    rc = crn_fs_read_file(st->fs, dfd, CRN_BAD, BAD_MAX, &buf, &len, &info);
    if (rc == CAIRN_ENOENT) {
        *ret_is_bad = 0;
        return CAIRN_OK;
    }
    if (rc != CAIRN_OK && rc != CAIRN_EDAMAGED) {
        crn_err_keep(ei, &info);
        return rc;
    }
    if (rc == CAIRN_OK)
        reason = marks_parse(buf, len);
    crn_run_hex(id->run, run);
    (void)snprintf(expect, sizeof(expect), "%s %llu", run, (unsigned long long)id->seq);
    *ret_is_bad = reason == NULL || strcmp(buf, expect) == 0;
    if (*ret_is_bad)
        (void)snprintf(why, why_size, "%s",
                       reason != NULL ? reason : "marked as bad, but the mark itself is damaged");
    if (rc == CAIRN_OK)
        free(buf);
    return CAIRN_OK;
}
