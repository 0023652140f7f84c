/* SPDX-License-Identifier: BSD-3-Clause */
/* Outputs. Files go to the prefix directly, or into a version of Cairn; then copies appear in the
 * prefix under the names that the program gave them, each atomically. A failure on one rank is a
 * failure on all. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "scr.h"
#include "scr_impl.h"

/* In the background. --------------------------------------------------------------------------- */

void crn_scr_failed(struct crn_scr *s, int64_t id, const struct crn_errinfo *why)
{
    crn_log(&s->face.log, CRN_ERROR, "dataset %" PRId64 " was not written: %s", id, why->msg);
    crn_err_keep(&s->failure, why);
}

/* Waits for the copies of one dataset and frees its entry. */
static cairn_err settle_one(struct crn_scr *s, struct crn_scr_pending *p, struct crn_errinfo *ei)
{
    cairn_err rc = crn_face_result(cairn_wait(s->face.session, crn_scr_store_name(p->flags), p->id,
                                              CAIRN_PERSISTENT, CAIRN_WAIT_CONFIG),
                                   ei);
    size_t i;

    for (i = 0; i < p->ncopies; i++) {
        struct crn_errinfo why = {0};
        cairn_err copied = crn_publish_wait(s->publisher, p->copy[i], &why);

        if (rc == CAIRN_OK && copied != CAIRN_OK) {
            rc = copied;
            crn_err_keep(ei, &why);
        }
    }
    free(p->copy);
    free(p);
    return rc;
}

static int is_over(struct crn_scr *s, const struct crn_scr_pending *p)
{
    int reached = 0;
    size_t i;

    if (cairn_test(s->face.session, crn_scr_store_name(p->flags), p->id, CAIRN_PERSISTENT,
                   &reached) == CAIRN_OK &&
        !reached)
        return 0;
    for (i = 0; i < p->ncopies; i++)
        if (!crn_publish_is_done(s->publisher, p->copy[i]))
            return 0;
    return 1;
}

void crn_scr_settle(struct crn_scr *s, int wait)
{
    while (s->pending != NULL && (wait || is_over(s, s->pending))) {
        struct crn_scr_pending *p = s->pending;
        struct crn_errinfo why = {0};
        int64_t id = p->id;

        s->pending = p->next;
        if (settle_one(s, p, &why) != CAIRN_OK)
            crn_scr_failed(s, id, &why);
    }
}

/* Begin. --------------------------------------------------------------------------------------- */

/* A dataset of the same name whose files the program will overwrite is no dataset any more. */
static cairn_err replace_direct(struct crn_scr *s, const char *name, struct crn_errinfo *ei)
{
    struct crn_scr_known k;
    cairn_err rc;

    rc = crn_scr_lookup(s, name, &k, ei);
    while (rc == CAIRN_OK && k.id >= 0 && k.is_direct) {
        if (s->rank == 0)
            rc = crn_scr_forget(s, &k, 0, ei);
        rc = crn_face_agree(s->comm, rc, ei);
        if (rc == CAIRN_OK)
            rc = crn_scr_lookup(s, name, &k, ei);
    }
    return rc;
}

static int is_direct(const struct crn_scr *s, int flags)
{
    const struct crn_scr_ckpt *c =
        flags & SCR_FLAG_CHECKPOINT ? crn_scr_config_ckpt(&s->cfg, s->ncheckpoints + 1) : NULL;

    return c != NULL && c->is_direct >= 0 ? c->is_direct : s->cfg.is_direct;
}

static int is_flush_due(const struct crn_scr *s, int flags)
{
    if (!(flags & SCR_FLAG_CHECKPOINT) || (flags & SCR_FLAG_OUTPUT))
        return 1;
    return s->cfg.flush > 0 && (s->ncheckpoints + 1) % s->cfg.flush == 0;
}

static cairn_err start_output(struct crn_scr *s, const char *name, int flags,
                              struct crn_errinfo *ei)
{
    struct crn_scr_dataset *d = &s->out;
    cairn_err rc = CAIRN_OK;

    crn_scr_settle(s, 0);
    crn_scr_dataset_free(d);
    s->since = MPI_Wtime();
    if (name != NULL && (strlen(name) >= sizeof(d->name) || strchr(name, '\n') != NULL))
        rc = crn_fail(ei, CAIRN_EINVAL, 0, "the name of the dataset is not valid");
    rc = crn_face_agree(s->comm, rc, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (name != NULL)
        memcpy(d->name, name, strlen(name) + 1);
    else
        (void)snprintf(d->name, sizeof(d->name), "scr.dataset.%" PRId64, s->next_id);
    d->flags = flags;
    d->is_direct = is_direct(s, flags);
    d->is_flushed = d->is_direct || is_flush_due(s, flags);
    if (d->is_direct)
        rc = replace_direct(s, d->name, ei);
    if (rc != CAIRN_OK)
        return rc;
    s->out_id = s->next_id++;
    s->state = CRN_SCR_OUTPUT;
    return CAIRN_OK;
}

/* Files. --------------------------------------------------------------------------------------- */

static cairn_err make_parent(const char *path, struct crn_errinfo *ei)
{
    char dir[PATH_MAX];

    (void)snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(path, '/') - path), path);
    return crn_face_make_dir(dir, ei);
}

cairn_err crn_scr_route_new(struct crn_scr *s, const char *name, char *file, struct crn_errinfo *ei)
{
    char cwd[PATH_MAX], path[PATH_MAX];
    struct crn_scr_file *f;
    const char *inside;
    cairn_err rc;

    if (getcwd(cwd, sizeof(cwd)) == NULL)
        return crn_fail_errno(ei, errno, "the current directory");
    rc = crn_scr_path(s->cfg.prefix, cwd, name, path, &inside, ei);
    if (rc == CAIRN_OK && strlen(path) >= SCR_MAX_FILENAME)
        rc = crn_fail(ei, CAIRN_EINVAL, 0, "the path '%.100s...' is too long", path);
    if (rc == CAIRN_OK)
        rc = make_parent(path, ei);
    if (rc != CAIRN_OK)
        return rc;
    f = crn_scr_dataset_add(&s->out, inside);
    if (f == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the file '%s'", name);
    if (!s->out.is_direct)
        return crn_face_result(cairn_file_route(s->face.session, crn_scr_store_name(s->out.flags),
                                                s->out_id, f->stored, file, SCR_MAX_FILENAME),
                               ei);
    memcpy(file, path, strlen(path) + 1);
    return CAIRN_OK;
}

/* Opens the files before Cairn moves them away, and takes their sizes. */
static cairn_err open_files(struct crn_scr *s, int *fd, struct crn_errinfo *ei)
{
    struct crn_scr_dataset *d = &s->out;
    cairn_err rc = CAIRN_OK;
    char path[PATH_MAX];
    struct stat st;
    size_t i;

    for (i = 0; rc == CAIRN_OK && i < d->n; i++) {
        rc = crn_face_result(cairn_file_route(s->face.session, crn_scr_store_name(d->flags),
                                              s->out_id, d->file[i].stored, path, sizeof(path)),
                             ei);
        if (rc != CAIRN_OK)
            break;
        fd[i] = open(path, O_RDONLY | O_CLOEXEC);
        if (fd[i] < 0 || fstat(fd[i], &st) != 0)
            return crn_fail_errno(ei, errno, "the file '%s' of dataset '%s' was not written",
                                  d->file[i].path, d->name);
        d->file[i].bytes = (uint64_t)st.st_size;
        if (!d->is_flushed) {
            (void)close(fd[i]);
            fd[i] = -1;
        }
    }
    return rc;
}

static cairn_err start_copy(struct crn_scr *s, struct crn_scr_pending *p, int fd,
                            const char *inside, struct crn_errinfo *ei)
{
    char path[PATH_MAX], tag[32];
    cairn_err rc = CAIRN_OK;

    (void)snprintf(path, sizeof(path), "%s/%s", s->cfg.prefix, inside);
    (void)snprintf(tag, sizeof(tag), "%d", s->rank);
    if (s->publisher == NULL)
        rc = crn_publisher_open(crn_fs_default(), tag, &s->face.log, &s->publisher, ei);
    if (rc == CAIRN_OK)
        rc = crn_publish_file(s->publisher, fd, path, &p->copy[p->ncopies], ei);
    else
        (void)close(fd);
    p->ncopies += rc == CAIRN_OK;
    return rc;
}

/* Remembers a dataset that is in flight, and starts the copies of its files (fd: < 0 for none). */
static cairn_err output_follow(struct crn_scr *s, int64_t id, const struct crn_scr_dataset *d,
                               int *fd, struct crn_errinfo *ei)
{
    struct crn_scr_pending **link = &s->pending;
    struct crn_scr_pending *p = calloc(1, sizeof(*p));
    cairn_err rc = CAIRN_OK;
    size_t i;

    if (p != NULL)
        p->copy = calloc(d->n + 1, sizeof(*p->copy));
    if (p == NULL || p->copy == NULL) {
        free(p);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a dataset in flight");
    }
    p->id = id;
    p->flags = d->flags;
    for (i = 0; i < d->n; i++) {
        if (fd[i] >= 0 && rc == CAIRN_OK)
            rc = start_copy(s, p, fd[i], d->file[i].path, ei);
        else if (fd[i] >= 0)
            (void)close(fd[i]);
        fd[i] = -1;
    }
    while (*link != NULL)
        link = &(*link)->next;
    *link = p;
    return rc;
}

/* End. ----------------------------------------------------------------------------------------- */

/* Collective. The files are there, and each belongs to one rank. */
static cairn_err take_files(struct crn_scr *s, int valid, int *fd, struct crn_errinfo *ei)
{
    struct crn_scr_dataset *d = &s->out;
    int is_shared = 0;
    cairn_err rc;

    rc = valid ? CAIRN_OK : crn_fail(ei, CAIRN_ECANCELED, 0, "the program has no valid data");
    rc = crn_face_agree(s->comm, rc, ei); /* all ranks have closed their files */
    if (rc == CAIRN_OK)
        rc = crn_scr_owners(s, d, &is_shared, ei);
    if (rc == CAIRN_OK && is_shared && !d->is_direct)
        rc = crn_fail(ei, CAIRN_ENOTSUP, 0,
                      "several ranks write the same file of dataset '%s': this needs "
                      "SCR_CACHE_BYPASS=1",
                      d->name);
    if (rc == CAIRN_OK)
        rc = d->is_direct ? crn_scr_direct_take(s, d, ei) : open_files(s, fd, ei);
    return crn_face_agree(s->comm, rc, ei);
}

/* Collective. Hands the table, and files that are not in the prefix, to Cairn. */
static cairn_err hand_over(struct crn_scr *s, struct crn_errinfo *ei)
{
    static const char *const regions[] = {CRN_SCR_REGION, NULL};
    struct cairn_checkpoint_options o = {.size = sizeof(o), .regions = regions};
    const char *store_name = crn_scr_store_name(s->out.flags);
    char scheme[CRN_FACE_SCHEME];
    cairn_session *c = s->face.session;
    char *text = NULL;
    size_t len = 0;
    cairn_err rc;

    (void)crn_scr_config_level(&s->cfg, s->ncheckpoints + 1, scheme);
    o.protect = s->out.is_direct || !(s->out.flags & SCR_FLAG_CHECKPOINT) ? "none" : scheme;
    rc = crn_scr_dataset_text(&s->out, &text, &len, ei);
    if (rc == CAIRN_OK)
        rc = crn_face_result(cairn_protect(c, CRN_SCR_REGION, text, CAIRN_BYTES, len), ei);
    rc = crn_face_agree(s->comm, rc, ei);
    if (rc == CAIRN_OK)
        rc = crn_face_result(cairn_checkpoint_with(c, store_name, s->out_id, &o), ei);
    if (cairn_unprotect(c, CRN_SCR_REGION) != CAIRN_OK)
        crn_log(&s->face.log, CRN_DEBUG, "%s", cairn_last_error());
    free(text);
    return crn_face_agree(s->comm, rc, ei);
}

/* Waits for what the parameters promise. */
static cairn_err output_reach(struct crn_scr *s, struct crn_errinfo *ei)
{
    const struct crn_scr_dataset *d = &s->out;
    char scheme[CRN_FACE_SCHEME];
    const struct crn_face_level *level = crn_scr_config_level(&s->cfg, s->ncheckpoints + 1, scheme);
    cairn_err rc = CAIRN_OK;

    if (d->is_direct || !(d->flags & SCR_FLAG_CHECKPOINT) ||
        (d->is_flushed && !s->cfg.is_flush_async)) {
        struct crn_scr_pending **link = &s->pending;
        struct crn_scr_pending *p;

        while ((*link)->next != NULL)
            link = &(*link)->next;
        p = *link;
        *link = NULL;
        rc = settle_one(s, p, ei);
    } else {
        rc = crn_face_result(cairn_wait(s->face.session, CRN_SCR_CHECKPOINTS, s->out_id,
                                        level->level, CAIRN_WAIT_CONFIG),
                             ei);
    }
    return crn_face_agree(s->comm, rc, ei);
}

static void close_all(int *fd, size_t n)
{
    size_t i;

    for (i = 0; fd != NULL && i < n; i++)
        if (fd[i] >= 0)
            (void)close(fd[i]);
    free(fd);
}

/* Collective. */
static cairn_err complete_output(struct crn_scr *s, int valid, struct crn_errinfo *ei)
{
    struct crn_scr_dataset *d = &s->out;
    int *fd = calloc(d->n + 1, sizeof(*fd));
    cairn_err rc = CAIRN_OK;
    size_t i;

    s->state = CRN_SCR_IDLE;
    for (i = 0; fd != NULL && i < d->n; i++)
        fd[i] = -1;
    if (fd == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%zu files", d->n);
    rc = crn_face_agree(s->comm, rc, ei);
    if (rc == CAIRN_OK && fd != NULL)
        rc = take_files(s, valid, fd, ei);
    if (rc != CAIRN_OK || fd == NULL) {
        close_all(fd, d->n);
        if (!d->is_direct && cairn_abandon(s->face.session, crn_scr_store_name(d->flags), s->out_id,
                                           "SCR_Complete_output(0)") != CAIRN_OK)
            crn_log(&s->face.log, CRN_DEBUG, "%s", cairn_last_error());
        return rc;
    }
    rc = hand_over(s, ei);
    if (rc == CAIRN_OK)
        rc = crn_face_agree(s->comm, output_follow(s, s->out_id, d, fd, ei), ei);
    close_all(fd, d->n);
    if (rc == CAIRN_OK)
        rc = output_reach(s, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (d->flags & SCR_FLAG_CHECKPOINT) {
        s->ncheckpoints++;
        s->unflushed = d->is_flushed ? -1 : s->out_id;
        if (s->rank == 0)
            crn_scr_halt_count(s);
    }
    crn_scr_known_add(s, s->out_id, d);
    crn_scr_window(s);
    s->last_end = MPI_Wtime();
    s->cost = s->last_end - s->since;
    return CAIRN_OK;
}

cairn_err crn_scr_flush_last(struct crn_scr *s, struct crn_errinfo *ei)
{
    struct crn_scr_dataset *d = &s->out;
    char path[PATH_MAX];
    cairn_err rc = CAIRN_OK;
    size_t i;
    int *fd;

    if (s->unflushed < 0)
        return CAIRN_OK;
    crn_scr_dataset_free(d);
    rc = crn_scr_table(s, CRN_SCR_CHECKPOINTS, s->unflushed, s->rank, d, ei);
    fd = calloc(d->n + 1, sizeof(*fd));
    if (rc == CAIRN_OK && fd == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%zu files", d->n);
    for (i = 0; fd != NULL && i < d->n; i++) {
        fd[i] = -1;
        if (rc == CAIRN_OK)
            rc = crn_face_result(cairn_file_restore(s->face.session, CRN_SCR_CHECKPOINTS,
                                                    s->unflushed, s->rank, d->file[i].stored, path,
                                                    sizeof(path)),
                                 ei);
        if (rc == CAIRN_OK && (fd[i] = open(path, O_RDONLY | O_CLOEXEC)) < 0)
            rc = crn_fail_errno(ei, errno, "open '%s'", path);
    }
    if (rc == CAIRN_OK)
        rc = output_follow(s, s->unflushed, d, fd, ei);
    close_all(fd, d->n);
    return rc;
}

/* SCR's functions. ----------------------------------------------------------------------------- */

CRN_FACE_API int SCR_Start_output(const char *name, int flags)
{
    struct crn_scr *s = crn_scr_in(__func__, CRN_SCR_IDLE);
    struct crn_errinfo ei = {0};

    return s == NULL ? 1 : crn_scr_end(s, __func__, start_output(s, name, flags, &ei), &ei);
}

CRN_FACE_API int SCR_Complete_output(int valid)
{
    struct crn_scr *s = crn_scr_in(__func__, CRN_SCR_OUTPUT);
    struct crn_errinfo ei = {0};

    return s == NULL ? 1 : crn_scr_end(s, __func__, complete_output(s, valid, &ei), &ei);
}

CRN_FACE_API int SCR_Start_checkpoint(void)
{
    struct crn_scr *s = crn_scr_in(__func__, CRN_SCR_IDLE);
    struct crn_errinfo ei = {0};

    return s == NULL
               ? 1
               : crn_scr_end(s, __func__, start_output(s, NULL, SCR_FLAG_CHECKPOINT, &ei), &ei);
}

CRN_FACE_API int SCR_Complete_checkpoint(int valid)
{
    struct crn_scr *s = crn_scr_in(__func__, CRN_SCR_OUTPUT);
    struct crn_errinfo ei = {0};

    return s == NULL ? 1 : crn_scr_end(s, __func__, complete_output(s, valid, &ei), &ei);
}
