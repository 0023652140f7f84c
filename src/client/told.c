/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages for users: once, no matter how many ranks have them. The first rank reports what the
 * ranks have agreed on, in the log and in the journal of the name. A message that may differ
 * between ranks comes from the first rank of each node that has it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "client/recheck.h"
#include "client/session.h"
#include "restart/version.h"
#include "store/journal.h"

static void told_journal(const cairn_session *s, const char *name, int64_t version,
                         const char *kind, const char *text)
{
    struct crn_reporter r = {
        .fs = s->fs, .log = &s->log, .root = s->cfg.persistent, .job = s->cfg.job, .run = s->run};

    if (s->rank == 0)
        (void)crn_journal_report(&r, name, version, 0, kind, text);
}

enum crn_log_level crn_told_level(const cairn_session *s)
{
    return s->rank == 0 ? CRN_WARN : CRN_DEBUG;
}

void crn_told_passed_over(const cairn_session *s, const char *name, int64_t version,
                          const char *why)
{
    crn_log(&s->log, crn_told_level(s), "%s@%" PRId64 " is passed over, continuing: %s", name,
            version, why);
    told_journal(s, name, version, CRN_EVENT_PASSED_OVER, why);
}

void crn_told_refused(const cairn_session *s, const char *name, int64_t version, const char *why)
{
    told_journal(s, name, version, CRN_EVENT_REFUSED, why);
}

void crn_told_repaired(cairn_session *s, const char *name, int64_t version)
{
    const struct crn_errinfo *mine =
        s->open_version != NULL ? crn_version_repaired(s->open_version) : NULL;
    int64_t count[2] = {mine != NULL, /* ranks with a damaged copy, ranks with a copy */
                        s->open_version != NULL && crn_version_has_copy(s->open_version, s->rank)};
    int64_t first = mine != NULL ? (int64_t)s->rank : INT64_MAX;
    struct crn_errinfo ignored = {0};
    struct crn_errinfo damage = {0};
    char text[CRN_ERR_TEXT];

    if (mine != NULL)
        damage = *mine;
    /* If this fails, the restart has failed too, or will at its next step. */
    if (s->all->ops->allreduce(s->all, count, 2, CRN_COMM_SUM, &ignored) != CAIRN_OK)
        return;
    if (count[0] == 0 && count[1] > 0)
        crn_recheck_begin(s);
    if (count[0] == 0 ||
        s->all->ops->allreduce(s->all, &first, 1, CRN_COMM_MIN, &ignored) != CAIRN_OK ||
        s->all->ops->bcast(s->all, damage.msg, sizeof(damage.msg), (int)first, &ignored) !=
            CAIRN_OK)
        return;
    s->is_repair_told = 1;
    s->repairs++;
    (void)snprintf(text, sizeof(text),
                   "%lld of %u ranks read another copy, since on rank %lld: %.*s",
                   (long long)count[0], s->ranks, (long long)first, CRN_ERR_TEXT / 2, damage.msg);
    crn_log(&s->log, crn_told_level(s),
            "%s@%" PRId64
            " is damaged and was repaired, continuing: %s; see 'cairn verify %s@%" PRId64 "'",
            name, version, text, name, version);
    told_journal(s, name, version, CRN_EVENT_REPAIRED, text);
}

void crn_told_repaired_here(cairn_session *s, const char *name, int64_t version)
{
    const struct crn_errinfo *damage =
        s->open_version != NULL ? crn_version_repaired(s->open_version) : NULL;

    if (damage == NULL || s->is_repair_told)
        return;
    s->is_repair_told = 1;
    s->repairs++;
    crn_told_warn_once(s, "%s@%" PRId64 " is damaged and was repaired, continuing: %s", name,
                       version, damage->msg);
    told_journal(s, name, version, CRN_EVENT_REPAIRED, damage->msg);
}

int cairn_repairs(const cairn_session *s)
{
    struct crn_errinfo ei = {0};

    if (crn_api_end(&ei, crn_arg_session(s, &ei)) != CAIRN_OK)
        return -1;
    return (int)(s->repairs + (crn_recheck_found(s->recheck) > 0));
}

/* Is this the first rank of the node to create the file in the run's directory? The file is removed
 * with the run. */
static int is_first_of_node(const cairn_session *s, const char *fmt)
{
    char name[32];
    int fd;

    if (s->dir.dfd < 0)
        return 1;
    (void)snprintf(name, sizeof(name), "said-%016" PRIx64, crn_hash(fmt, strlen(fmt)));
    fd = openat(s->dir.dfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return errno != EEXIST;
    (void)close(fd);
    return 1;
}

void crn_told_warn_once(const cairn_session *s, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    crn_log(&s->log, is_first_of_node(s, fmt) ? CRN_WARN : CRN_DEBUG, "%s", text);
}
