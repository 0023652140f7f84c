/* SPDX-License-Identifier: BSD-3-Clause */
/* Records are lines with a checksum, each appended with one write. A full file is renamed to the
 * old one and replaces it, so at most two files of that size exist. A rename loses no record of a
 * process that appends at the same moment: its line lands in the old file, which readers still
 * read. A line torn by a crash or overwritten by another host fails its checksum and is skipped. */
#include "store/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "store/layout.h"

#define JOURNAL    ".journal"
#define OLD        ".journal.old"
#define FULL       ((off_t)64 << 10) /* no more records are appended to a file of this size */
#define READ_MAX   ((size_t)1 << 20) /* larger than racing writers can make the file */
#define RECORD_MAX 1023              /* bytes of a line, including its newline */
#define HASH_TEXT  16

/* Writing. ------------------------------------------------------------------------------------- */

/* Makes a word of a line: no blanks, never empty. */
static void make_word(const char *from, char *to, size_t size)
{
    size_t n;

    for (n = 0; n + 1 < size && from[n] != '\0'; n++)
        to[n] = (unsigned char)from[n] <= ' ' || from[n] == 0x7f ? '_' : from[n];
    to[n] = '\0';
    if (n == 0)
        (void)snprintf(to, size, "-");
}

/* Formats "HASH TIME KIND VERSION RUN JOB TEXT\n". Returns its length. */
static size_t format_record(const struct crn_event *e, char line[RECORD_MAX + 1])
{
    const struct crn_clock *clock = crn_clock_real();
    uint64_t time_ns = e->time_ns != 0 ? e->time_ns : (uint64_t)clock->wall_ns(clock);
    char kind[sizeof(e->kind)], run[sizeof(e->run)], job[sizeof(e->job)], hash[HASH_TEXT + 1];
    char *body = line + HASH_TEXT + 1;
    size_t n, i;

    make_word(e->kind, kind, sizeof(kind));
    make_word(e->run, run, sizeof(run));
    make_word(e->job, job, sizeof(job));
    (void)snprintf(body, RECORD_MAX - HASH_TEXT - 1, "%" PRIu64 " %s %" PRId64 " %s %s %s", time_ns,
                   kind, e->version, run, job, e->text);
    n = strlen(body);
    for (i = 0; i < n; i++)
        if ((unsigned char)body[i] < ' ' || body[i] == 0x7f)
            body[i] = ' ';
    (void)snprintf(hash, sizeof(hash), "%016" PRIx64, crn_hash(body, n));
    memcpy(line, hash, HASH_TEXT);
    line[HASH_TEXT] = ' ';
    body[n] = '\n';
    return HASH_TEXT + 1 + n + 1;
}

/* Opens the journal for one more record; rotates a full journal first. */
static int open_for_append(const struct crn_fs *fs, int dfd, off_t *ret_size)
{
    struct stat sb, now;
    int tries;
    int fd = -EIO;
    int r;

    for (tries = 0; tries < 2; tries++) {
        fd = fs->openat(fs, dfd, JOURNAL, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK,
                        0600);
        if (fd < 0)
            return fd;
        r = fs->fstat(fs, fd, &sb);
        if (r == 0 && !S_ISREG(sb.st_mode))
            r = -EINVAL;
        if (r < 0) {
            (void)fs->close(fs, fd);
            return r;
        }
        *ret_size = sb.st_size;
        if (sb.st_size < FULL || tries > 0)
            break;
        /* If another process has rotated it already, the name refers to a new file. */
        r = fs->fstatat(fs, dfd, JOURNAL, &now);
        if (r == 0 && now.st_ino == sb.st_ino)
            r = fs->renameat(fs, dfd, JOURNAL, dfd, OLD);
        if (r < 0)
            break; /* cannot rotate: let it grow */
        (void)fs->close(fs, fd);
    }
    return fd;
}

cairn_err crn_journal_add(const struct crn_store *st, const char *name,
                          const struct crn_event *event, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = st->fs;
    char line[1 + RECORD_MAX + 1];
    size_t n = format_record(event, line + 1);
    size_t skip = 1;
    off_t size = 0;
    char last = '\n';
    cairn_err rc;
    int dfd;
    int fd;

    rc = crn_store_make_name(st, name, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    fd = open_for_append(fs, dfd, &size);
    if (fd < 0) {
        (void)fs->close(fs, dfd);
        return crn_fail_errno(ei, -fd, "open '%s/%s/%s'", st->path, name, JOURNAL);
    }
    /* Start a new line after a torn one. */
    if (size > 0 && fs->pread(fs, fd, &last, 1, size - 1) == 1 && last != '\n') {
        line[0] = '\n';
        skip = 0;
    }
    /* O_APPEND: the offset is only where the end was. */
    rc = crn_fs_write_all(fs, fd, line + skip, n + 1 - skip, (uint64_t)size, JOURNAL, ei);
    if (rc == CAIRN_OK)
        rc = crn_fs_check(fs->fsync(fs, fd), ei, "fsync '%s/%s/%s'", st->path, name, JOURNAL);
    if (rc == CAIRN_OK && size == 0)
        rc = crn_fs_check(fs->fsync(fs, dfd), ei, "fsync '%s/%s'", st->path, name);
    (void)fs->close(fs, fd);
    (void)fs->close(fs, dfd);
    return rc;
}

cairn_err crn_journal_report(const struct crn_reporter *r, const char *name, int64_t version,
                             uint64_t time_ns, const char *kind, const char *text)
{
    struct crn_event e = {.time_ns = time_ns, .version = version};
    struct crn_errinfo ei = {0};
    struct crn_store st;
    cairn_err rc;

    (void)snprintf(e.kind, sizeof(e.kind), "%s", kind);
    (void)snprintf(e.job, sizeof(e.job), "%s", r->job);
    (void)snprintf(e.text, sizeof(e.text), "%s", text);
    if (r->run != NULL)
        crn_run_hex(r->run, e.run);
    rc = crn_store_open(r->fs, r->root, 0, &st, &ei);
    if (rc == CAIRN_OK) {
        rc = crn_journal_add(&st, name, &e, &ei);
        crn_store_close(&st);
    }
    if (rc != CAIRN_OK)
        crn_log(r->log, CRN_DEBUG, "%s@%" PRId64 ": no record in the journal, continuing: %s", name,
                version, ei.msg);
    return rc;
}

/* Reading. ------------------------------------------------------------------------------------- */

/* Copies the next word of a line to `to`. Returns -1 if there is none or it is too long. */
static int take_word(char **at, char *to, size_t size)
{
    size_t n = strcspn(*at, " ");

    if (n == 0 || n >= size || (*at)[n] != ' ')
        return -1;
    memcpy(to, *at, n);
    to[n] = '\0';
    *at += n + 1;
    return 0;
}

/* Takes a word that consists of a number only. */
static int take_number(char **at, uint64_t *ret)
{
    char word[24];
    char *end;

    if (take_word(at, word, sizeof(word)) != 0 || word[0] < '0' || word[0] > '9')
        return -1;
    errno = 0;
    *ret = strtoull(word, &end, 10);
    return *end == '\0' && errno == 0 ? 0 : -1;
}

/* Parses one line without its newline. Returns 0, or -1 if it is not a valid record. */
static int parse_record(char *line, size_t n, struct crn_event *ret)
{
    char hash[HASH_TEXT + 1];
    char *at = line + HASH_TEXT + 1;
    struct crn_event e = {0};
    uint64_t version;

    if (n <= HASH_TEXT || n > RECORD_MAX || strlen(line) != n)
        return -1;
    (void)snprintf(hash, sizeof(hash), "%016" PRIx64, crn_hash(at, n - HASH_TEXT - 1));
    if (memcmp(line, hash, HASH_TEXT) != 0 || line[HASH_TEXT] != ' ')
        return -1;
    if (take_number(&at, &e.time_ns) != 0 || take_word(&at, e.kind, sizeof(e.kind)) != 0 ||
        take_number(&at, &version) != 0 || version > INT64_MAX ||
        take_word(&at, e.run, sizeof(e.run)) != 0 || take_word(&at, e.job, sizeof(e.job)) != 0)
        return -1;
    e.version = (int64_t)version;
    if (strcmp(e.run, "-") == 0)
        e.run[0] = '\0';
    if (strcmp(e.job, "-") == 0)
        e.job[0] = '\0';
    (void)snprintf(e.text, sizeof(e.text), "%s", at);
    *ret = e;
    return 0;
}

static cairn_err add_event(struct crn_journal *j, const struct crn_event *e, struct crn_errinfo *ei)
{
    if (j->n == j->cap) {
        size_t more = j->cap > 0 ? 2 * j->cap : 64;
        struct crn_event *grown = realloc(j->v, more * sizeof(*grown));

        if (grown == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%zu records of a journal", more);
        j->v = grown;
        j->cap = more;
    }
    j->v[j->n++] = *e;
    return CAIRN_OK;
}

cairn_err crn_journal_parse(char *text, size_t len, struct crn_journal *j, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    struct crn_event e;
    char *line;
    char *end;

    for (line = text; rc == CAIRN_OK && line < text + len; line = end + 1) {
        end = memchr(line, '\n', (size_t)(text + len - line));
        if (end == NULL)
            break; /* torn */
        *end = '\0';
        if (parse_record(line, (size_t)(end - line), &e) == 0)
            rc = add_event(j, &e, ei);
    }
    return rc;
}

static cairn_err read_file(const struct crn_store *st, int dfd, const char *file,
                           struct crn_journal *j, struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    void *text;
    size_t len;
    cairn_err rc;

    rc = crn_fs_read_file(st->fs, dfd, file, READ_MAX, &text, &len, &why);
    if (rc == CAIRN_ENOENT || rc == CAIRN_EDAMAGED)
        return CAIRN_OK; /* none, or not a regular file of ours */
    if (rc != CAIRN_OK) {
        crn_err_keep(ei, &why);
        return rc;
    }
    rc = crn_journal_parse(text, len, j, ei);
    free(text);
    return rc;
}

cairn_err crn_journal_read(const struct crn_store *st, const char *name, struct crn_journal *ret,
                           struct crn_errinfo *ei)
{
    struct crn_journal j = {0};
    cairn_err rc;
    int dfd;

    rc = crn_store_name_dir(st, name, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = read_file(st, dfd, OLD, &j, ei);
    if (rc == CAIRN_OK)
        rc = read_file(st, dfd, JOURNAL, &j, ei);
    (void)st->fs->close(st->fs, dfd);
    if (rc != CAIRN_OK)
        crn_journal_free(&j);
    else
        *ret = j;
    return rc;
}

void crn_journal_free(struct crn_journal *j)
{
    free(j->v);
    memset(j, 0, sizeof(*j));
}

cairn_err crn_journal_names(const struct crn_store *st, struct crn_names *ret,
                            struct crn_errinfo *ei)
{
    struct crn_names names;
    struct stat sb;
    size_t kept = 0;
    cairn_err rc;
    size_t i;

    rc = crn_fs_names(st->fs, st->dfd, st->path, &names, ei);
    if (rc != CAIRN_OK)
        return rc;
    for (i = 0; i < names.n; i++) {
        struct crn_errinfo ignored = {0}; /* skip directories of other users */
        int has = 0;
        int dfd;

        if (crn_name_is_valid(names.name[i]) &&
            crn_store_name_dir(st, names.name[i], &dfd, &ignored) == CAIRN_OK) {
            has = st->fs->fstatat(st->fs, dfd, JOURNAL, &sb) == 0 ||
                  st->fs->fstatat(st->fs, dfd, OLD, &sb) == 0;
            (void)st->fs->close(st->fs, dfd);
        }
        if (has)
            names.name[kept++] = names.name[i];
        else
            free(names.name[i]);
    }
    names.n = kept;
    *ret = names;
    return CAIRN_OK;
}
