/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/recheck.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "restart/version.h"
#include "store/journal.h"

#define REST       9 /* the thread rests this many times as long as it reads */
#define CLOSE_WAIT ((int64_t)1000000000)

struct crn_recheck {
    struct crn_fs fs; /* POSIX with paced reads; first, see recheck_self */
    struct crn_mutex mu;
    struct crn_cond changed;
    pthread_t thread;
    int is_closing, has_ended, is_left; /* mu. is_left: the thread frees */
    int is_damaged;                     /* mu */
    /* Copies: the thread may outlive the session. */
    struct crn_config cfg;
    struct crn_log log;
    uint8_t run[16];          /* of the session */
    struct crn_capture_id id; /* of the version */
    char name[CAIRN_MAX_NAME];
    int64_t version;
    uint32_t file_no;
};

static struct crn_recheck *recheck_self(const struct crn_fs *fs)
{
    return (struct crn_recheck *)(uintptr_t)fs;
}

static int64_t recheck_now(void)
{
    return crn_clock_real()->mono_ns(crn_clock_real());
}

/* Returns 1 if the session closes. */
static int recheck_rest(struct crn_recheck *r, int64_t ns)
{
    int64_t until = recheck_now() + ns;
    int is_closing;

    crn_lock(&r->mu);
    while (!r->is_closing && recheck_now() < until)
        (void)crn_cond_wait_until(&r->changed, &r->mu, until);
    is_closing = r->is_closing;
    crn_unlock(&r->mu);
    return is_closing;
}

static ssize_t paced_pread(const struct crn_fs *fs, int fd, void *buf, size_t n, off_t off)
{
    const struct crn_fs *posix = crn_fs_posix();
    int64_t began = recheck_now();
    ssize_t got = posix->pread(posix, fd, buf, n, off);

    return recheck_rest(recheck_self(fs), REST * (recheck_now() - began)) ? -ECANCELED : got;
}

/* Opens the version if it is still the capture that was restored. */
static cairn_err recheck_open(struct crn_recheck *r, struct crn_version **ret,
                              struct crn_errinfo *ei)
{
    struct crn_version *v = NULL;
    struct crn_store st;
    cairn_err rc;

    rc = crn_store_open(&r->fs, r->cfg.persistent, 0, &st, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_version_open(&st, r->name, r->version, &v, ei);
    crn_store_close(&st);
    if (rc == CAIRN_OK && !crn_capture_id_equal(&crn_version_manifest(v)->id, &r->id)) {
        crn_version_close(v);
        return crn_fail(ei, CAIRN_ENOENT, 0, "the version was replaced");
    }
    if (rc == CAIRN_OK)
        *ret = v;
    return rc;
}

static void recheck_report(struct crn_recheck *r, const struct crn_errinfo *damage)
{
    struct crn_reporter reporter = {.fs = crn_fs_posix(),
                                    .log = &r->log,
                                    .root = r->cfg.persistent,
                                    .job = r->cfg.job,
                                    .run = r->run};
    char text[CRN_ERR_TEXT];

    (void)snprintf(text, sizeof(text),
                   "the file on the file system is damaged, and the restart read the nodes' own "
                   "copies: %.*s",
                   CRN_ERR_TEXT / 2, damage->msg);
    crn_log(&r->log, CRN_WARN,
            "%s@%" PRId64 ": %s; take a new version while these copies exist, and see 'cairn "
            "verify %s@%" PRId64 "'",
            r->name, r->version, text, r->name, r->version);
    (void)crn_journal_report(&reporter, r->name, r->version, 0, CRN_EVENT_REPAIRED, text);
    crn_lock(&r->mu);
    r->is_damaged = 1;
    crn_unlock(&r->mu);
}

/* A file that was removed or replaced meanwhile is not damaged: looks again before it reports. */
static void recheck_file(struct crn_recheck *r)
{
    struct crn_errinfo damage = {0};
    struct crn_errinfo ei = {0};
    struct crn_version *v;
    cairn_err rc;

    rc = recheck_open(r, &v, &damage);
    if (rc == CAIRN_OK) {
        rc = crn_version_check_file(v, r->file_no, NULL, &damage);
        crn_version_close(v);
    }
    if (rc == CAIRN_EDAMAGED && !recheck_rest(r, 0) && recheck_open(r, &v, &ei) == CAIRN_OK) {
        crn_version_close(v);
        recheck_report(r, &damage);
    } else if (rc != CAIRN_OK) {
        crn_log(&r->log, CRN_DEBUG, "data file %u of %s@%" PRId64 " was not checked: %s",
                (unsigned)r->file_no, r->name, r->version, damage.msg);
    }
}

static void recheck_free(struct crn_recheck *r)
{
    crn_cond_fini(&r->changed);
    crn_mutex_fini(&r->mu);
    free(r);
}

static void *recheck_run(void *arg)
{
    struct crn_recheck *r = arg;
    int is_left;

    crn_thread_background(CRN_BACKGROUND_NICE);
    recheck_file(r);
    crn_lock(&r->mu);
    r->has_ended = 1;
    is_left = r->is_left;
    crn_cond_signal(&r->changed);
    crn_unlock(&r->mu);
    if (is_left)
        recheck_free(r);
    return NULL;
}

static int is_lowest_of_file(const struct crn_version *v, uint32_t rank)
{
    const struct crn_manifest *m = crn_version_manifest(v);
    const struct crn_manifest_file *f;

    if (rank >= m->ranks)
        return 0;
    f = &m->files[crn_version_file_of(v, rank)];
    return f->nranges > 0 && f->ranges[0].first == rank;
}

static struct crn_recheck *recheck_new(const cairn_session *s, const struct crn_version *v)
{
    const struct crn_manifest *m = crn_version_manifest(v);
    struct crn_recheck *r = calloc(1, sizeof(*r));

    if (r == NULL)
        return NULL;
    r->fs = *crn_fs_posix(); /* not the session's: tests count the calls of the application */
    r->fs.pread = paced_pread;
    crn_mutex_init(&r->mu, CRN_RANK_LEAF);
    crn_cond_init(&r->changed);
    r->cfg = s->cfg;
    r->cfg.overrides = NULL; /* not ours */
    r->cfg.noverrides = 0;
    r->log = s->log;
    r->log.file = r->cfg.log_file;
    memcpy(r->run, s->run, sizeof(r->run));
    r->id = m->id;
    memcpy(r->name, m->name, sizeof(r->name));
    r->version = m->version;
    r->file_no = crn_version_file_of(v, s->rank);
    return r;
}

void crn_recheck_begin(cairn_session *s)
{
    const struct crn_version *v = s->open_version;
    struct crn_errinfo ei = {0};
    struct crn_recheck *r;

    if (!s->cfg.restart_check || v == NULL || !is_lowest_of_file(v, s->rank) ||
        memcmp(crn_version_manifest(v)->id.run, s->run, sizeof(s->run)) == 0 ||
        (s->recheck != NULL && crn_capture_id_equal(&s->recheck->id, &crn_version_manifest(v)->id)))
        return;
    s->repairs += crn_recheck_found(s->recheck) > 0;
    crn_recheck_close(s->recheck);
    s->recheck = NULL;
    r = recheck_new(s, v);
    if (r == NULL)
        return; /* optional */
    if (crn_thread_start(&r->thread, "cairn-recheck", recheck_run, r, &ei) != CAIRN_OK) {
        crn_log(&s->log, CRN_DEBUG, "the restored version is not checked: %s", ei.msg);
        recheck_free(r);
        return;
    }
    s->recheck = r;
}

int crn_recheck_found(struct crn_recheck *r)
{
    int found;

    if (r == NULL)
        return 0;
    crn_lock(&r->mu);
    found = r->has_ended ? r->is_damaged : -1;
    crn_unlock(&r->mu);
    return found;
}

void crn_recheck_close(struct crn_recheck *r)
{
    int64_t until = recheck_now() + CLOSE_WAIT;
    int has_ended;

    if (r == NULL)
        return;
    crn_lock(&r->mu);
    r->is_closing = 1;
    crn_cond_signal(&r->changed);
    while (!r->has_ended && recheck_now() < until)
        (void)crn_cond_wait_until(&r->changed, &r->mu, until);
    has_ended = r->has_ended;
    r->is_left = !has_ended;
    if (r->is_left)
        (void)pthread_detach(r->thread);
    crn_unlock(&r->mu);
    if (has_ended) {
        (void)pthread_join(r->thread, NULL);
        recheck_free(r);
    }
}
