/* SPDX-License-Identifier: BSD-3-Clause */
/* Statistics beside the data files. They are created and removed with their data file; a failure
 * here never affects the version. */
#include "store/layout.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define DATA_PREFIX  "data-"
#define STATS_PREFIX "stats-"
#define STATS_MAX    ((size_t)64 << 20) /* more than any flush writes */

void crn_stats_name(const char *data_file, char ret[CRN_FILE_NAME])
{
    (void)snprintf(ret, CRN_FILE_NAME, STATS_PREFIX "%.30s", data_file + strlen(DATA_PREFIX));
}

int crn_stats_name_parse(const char *name, char ret_data_file[CRN_FILE_NAME])
{
    uint32_t file_no, attempt;

    if (strncmp(name, STATS_PREFIX, strlen(STATS_PREFIX)) != 0)
        return -1;
    (void)snprintf(ret_data_file, CRN_FILE_NAME, DATA_PREFIX "%.30s", name + strlen(STATS_PREFIX));
    return crn_data_name_parse(ret_data_file, &file_no, &attempt);
}

cairn_err crn_store_write_stats(const struct crn_store *st, const char *name, int64_t version,
                                const char *file, const void *text, size_t len,
                                struct crn_errinfo *ei)
{
    char stats[CRN_FILE_NAME];
    cairn_err rc, closed;
    int dfd;
    int fd;

    crn_stats_name(file, stats);
    rc = crn_store_version_dir(st, name, version, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    fd = st->fs->openat(st->fs, dfd, stats, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    (void)st->fs->close(st->fs, dfd);
    if (fd < 0)
        return crn_fail_errno(ei, -fd, "create '%s'", crn_where(st, name, version, stats).text);
    rc = crn_fs_write_all(st->fs, fd, text, len, 0, stats, ei);
    closed = crn_fs_check(st->fs->close(st->fs, fd), ei, "close '%s'", stats);
    return rc != CAIRN_OK ? rc : closed;
}

cairn_err crn_store_read_stats(const struct crn_store *st, const char *name, int64_t version,
                               const char *file, void **ret_text, size_t *ret_len,
                               struct crn_errinfo *ei)
{
    char stats[CRN_FILE_NAME];
    cairn_err rc;
    int dfd;

    crn_stats_name(file, stats);
    rc = crn_store_version_dir(st, name, version, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_fs_read_file(st->fs, dfd, stats, STATS_MAX, ret_text, ret_len, ei);
    (void)st->fs->close(st->fs, dfd);
    return rc;
}
