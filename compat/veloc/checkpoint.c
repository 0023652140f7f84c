/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints. VELOC_Checkpoint_mem copies the memory; VELOC_Checkpoint_end hands the copy to
 * Cairn, or discards it for all ranks. A failure on one rank is a failure on all. Each rank
 * learns of it once, from VELOC_Checkpoint_wait or, with mode = sync, from VELOC_Checkpoint_end.
 * All ranks of a program that acts on the result therefore make the same decision. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "veloc.h"

/* Checkpoints in flight. ----------------------------------------------------------------------- */

/* Records a failure for the next wait, which reports only the first one; Cairn's log has them
 * all. */
static void note_failure(struct crn_vlc_client *c, const char *name, int version, const char *why)
{
    crn_log(&c->face.log, CRN_INFO, "checkpoint %s@%d has failed: %s", name, version, why);
    if (c->failure.code == CAIRN_OK)
        (void)!crn_fail(&c->failure, CAIRN_EPEER, 0, "checkpoint %s@%d has failed: %s", name,
                        version, why);
}

/* Waits for a checkpoint and frees its entry. */
static void checkpoint_settle(struct crn_vlc_client *c, struct crn_vlc_pending *p)
{
    struct crn_errinfo ei = {0};

    if (cairn_wait(c->face.session, p->name, p->version, CAIRN_PERSISTENT, CAIRN_WAIT_CONFIG) !=
        CAIRN_OK)
        note_failure(c, p->name, p->version, cairn_last_error());
    if (p->copy != NULL && crn_publish_wait(c->publisher, p->copy, &ei) != CAIRN_OK)
        note_failure(c, p->name, p->version, ei.msg);
    free(p);
}

/* Has it ended, successfully or not? */
static int is_over(struct crn_vlc_client *c, const struct crn_vlc_pending *p)
{
    int reached = 0;

    if (cairn_test(c->face.session, p->name, p->version, CAIRN_PERSISTENT, &reached) == CAIRN_OK &&
        !reached)
        return 0;
    return p->copy == NULL || crn_publish_is_done(c->publisher, p->copy);
}

/* Settles the checkpoints that have ended, and any with this name and version, which is about to
 * be taken again: afterwards Cairn would report only on the newer one. */
static void settle_some(struct crn_vlc_client *c, const char *name, int version)
{
    struct crn_vlc_pending **link = &c->pending;

    while (*link != NULL) {
        struct crn_vlc_pending *p = *link;

        if ((p->version == version && strcmp(p->name, name) == 0) || is_over(c, p)) {
            *link = p->next;
            checkpoint_settle(c, p);
        } else {
            link = &p->next;
        }
    }
}

cairn_err crn_vlc_wait(struct crn_vlc_client *c, struct crn_errinfo *ei)
{
    cairn_err rc;

    while (c->pending != NULL) {
        struct crn_vlc_pending *p = c->pending;

        c->pending = p->next;
        checkpoint_settle(c, p);
    }
    rc = c->failure.code;
    crn_err_keep(ei, &c->failure);
    crn_err_clear(&c->failure);
    return rc;
}

static int is_finished(struct crn_vlc_client *c)
{
    const struct crn_vlc_pending *p;

    for (p = c->pending; p != NULL; p = p->next)
        if (!is_over(c, p))
            return 0;
    return !c->phase.is_open;
}

/* Begin. --------------------------------------------------------------------------------------- */

void crn_vlc_phase_close(struct crn_vlc_phase *ph)
{
    free(ph->group);
    memset(ph, 0, sizeof(*ph));
}

static cairn_err checkpoint_begin(struct crn_vlc_client *c, const char *name, int version,
                                  struct crn_errinfo *ei)
{
    struct crn_vlc_phase *ph = &c->phase;
    char cairn_name[CAIRN_MAX_NAME];
    char *group;
    cairn_err rc;

    rc = crn_vlc_name(name, c->id, cairn_name, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (version < 0)
        return crn_fail(ei, CAIRN_EINVAL, 0, "version %d of '%s' is negative", version, name);
    if (ph->is_open)
        return crn_fail(ei, CAIRN_ESTATE, 0, "%s@%d has not ended yet", ph->group, ph->version);
    group = strdup(name);
    if (group == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a checkpoint");
    crn_vlc_restart_close(&c->restart);
    settle_some(c, cairn_name, version);
    memcpy(ph->name, cairn_name, sizeof(ph->name));
    ph->group = group;
    ph->version = version;
    ph->is_open = 1;
    crn_vlc_hints_name(c, cairn_name);
    return CAIRN_OK;
}

/* Memory. -------------------------------------------------------------------------------------- */

/* Regions by their Cairn names. */
struct selection {
    char (*name)[16];
    const char **list; /* NULL at the end */
    size_t n;
};

static void selection_free(struct selection *s)
{
    free(s->name);
    free(s->list);
}

/* Selects protected memory according to mode, each region named after its id in Cairn. */
static cairn_err select_regions(struct crn_vlc_client *c, int mode, const int *ids, int id_count,
                                struct selection *ret, struct crn_errinfo *ei)
{
    const struct crn_vlc_group *g = crn_vlc_group_of(&c->regions, c->phase.group);
    size_t room = g != NULL ? g->n : 0;
    cairn_err rc;
    size_t i;

    ret->name = calloc(room + 1, sizeof(*ret->name));
    ret->list = calloc(room + 1, sizeof(*ret->list));
    if (ret->name == NULL || ret->list == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%zu regions", room);
    for (i = 0; i < room; i++) {
        const struct crn_vlc_region *r = &g->region[i];
        cairn_type type = crn_vlc_type(r);

        if (!crn_vlc_takes(mode, ids, id_count, r->id))
            continue;
        (void)snprintf(ret->name[ret->n], sizeof(ret->name[0]), "%d", r->id);
        rc = crn_face_result(cairn_protect(c->face.session, ret->name[ret->n], r->ptr, type,
                                           r->bytes / cairn_type_size(type)),
                             ei);
        if (rc != CAIRN_OK)
            return rc;
        ret->list[ret->n] = ret->name[ret->n];
        ret->n++;
    }
    if (ret->n == 0)
        return crn_fail(ei, CAIRN_EINVAL, 0, "no protected region is selected");
    return CAIRN_OK;
}

static cairn_err checkpoint_capture(struct crn_vlc_client *c, int mode, const int *ids,
                                    int id_count, struct crn_errinfo *ei)
{
    struct crn_vlc_phase *ph = &c->phase;
    struct selection sel = {0};
    cairn_err rc;

    if (!ph->is_open)
        return crn_fail(ei, CAIRN_ESTATE, 0, "call VELOC_Checkpoint_begin first");
    if (ph->capture == CRN_VLC_LOST)
        return crn_fail(ei, CAIRN_ESTATE, 0, "%s@%d has failed already", ph->group, ph->version);
    rc = crn_vlc_check_mode(mode, ids, id_count, ei);
    if (rc == CAIRN_OK)
        rc = select_regions(c, mode, ids, id_count, &sel, ei);
    ph->is_bad = rc != CAIRN_OK;
    if (rc == CAIRN_OK) {
        rc = crn_face_result(cairn_capture(c->face.session, ph->name, ph->version, sel.list), ei);
        ph->capture = rc == CAIRN_OK ? CRN_VLC_HELD : CRN_VLC_LOST;
    }
    selection_free(&sel);
    return rc;
}

/* Files. --------------------------------------------------------------------------------------- */

cairn_err crn_vlc_route_new(struct crn_vlc_client *c, const char *original, struct crn_errinfo *ei)
{
    struct crn_vlc_phase *ph = &c->phase;
    char cwd[PATH_MAX] = "";
    cairn_err rc;
    int n;

    if (original[0] != '\0' && original[0] != '/' && getcwd(cwd, sizeof(cwd) - 1) == NULL)
        return crn_fail_errno(ei, errno, "the current directory");
    n = snprintf(ph->original, sizeof(ph->original), "%s%s%s", cwd, cwd[0] != '\0' ? "/" : "",
                 original);
    if (n < 0 || (size_t)n >= sizeof(ph->original))
        return crn_fail(ei, CAIRN_EINVAL, 0, "the path '%.100s...' is too long", original);
    rc = crn_face_result(cairn_file_route(c->face.session, ph->name, ph->version, CRN_VLC_FILE,
                                          ph->path, VELOC_MAX_NAME),
                         ei);
    if (rc != CAIRN_OK)
        ph->path[0] = '\0';
    return rc;
}

/* Opens the routed file before Cairn moves it from its path; -1 if no copy is wanted, or if
 * there is no file, which Cairn reports. */
static int open_routed(const struct crn_vlc_phase *ph)
{
    if (ph->path[0] == '\0' || ph->original[0] == '\0')
        return -1;
    return open(ph->path, O_RDONLY | O_CLOEXEC);
}

/* Starts the copy of the file to its original name. */
static cairn_err start_copy(struct crn_vlc_client *c, int fd, struct crn_publish_copy **ret,
                            struct crn_errinfo *ei)
{
    char tag[32];
    cairn_err rc = CAIRN_OK;

    (void)snprintf(tag, sizeof(tag), "%lld",
                   c->id >= 0 ? (long long)c->id : (long long)cairn_rank(c->face.session));
    if (c->publisher == NULL)
        rc = crn_publisher_open(crn_fs_default(), tag, &c->face.log, &c->publisher, ei);
    if (rc == CAIRN_OK)
        return crn_publish_file(c->publisher, fd, c->phase.original, ret, ei);
    (void)close(fd);
    return rc;
}

/* End. ----------------------------------------------------------------------------------------- */

static void checkpoint_remember(struct crn_vlc_client *c, int fd)
{
    const struct crn_vlc_phase *ph = &c->phase;
    struct crn_vlc_pending **link = &c->pending;
    struct crn_vlc_pending *p = calloc(1, sizeof(*p));
    struct crn_errinfo ei = {0};

    if (p == NULL) {
        note_failure(c, ph->name, ph->version, "out of memory; nobody will ask for its result");
        if (fd >= 0)
            (void)close(fd);
        return;
    }
    memcpy(p->name, ph->name, sizeof(p->name));
    p->version = ph->version;
    if (fd >= 0 && start_copy(c, fd, &p->copy, &ei) != CAIRN_OK)
        note_failure(c, ph->name, ph->version, ei.msg);
    while (*link != NULL)
        link = &(*link)->next;
    *link = p;
}

/* Every rank takes part, with data or with a failure, so that the others do not wait for it. */
static cairn_err hand_over(struct crn_vlc_client *c, int success, struct crn_errinfo *ei)
{
    static const char *const nothing[] = {NULL};
    const struct crn_vlc_phase *ph = &c->phase;
    const char *why = !success ? "VELOC_Checkpoint_end(0)" : "its memory was not copied";

    if (ph->capture == CRN_VLC_LOST)
        return crn_fail(ei, CAIRN_ECANCELED, 0, "its memory was not copied");
    if (!success || ph->is_bad) {
        cairn_err rc =
            crn_face_result(cairn_abandon(c->face.session, ph->name, ph->version, why), ei);

        return rc != CAIRN_OK ? rc : crn_fail(ei, CAIRN_ECANCELED, 0, "%s", why);
    }
    if (ph->capture == CRN_VLC_HELD)
        return crn_face_result(cairn_submit(c->face.session), ei);
    return crn_face_result(cairn_checkpoint(c->face.session, ph->name, ph->version, nothing), ei);
}

static cairn_err checkpoint_end(struct crn_vlc_client *c, int success, struct crn_errinfo *ei)
{
    struct crn_vlc_phase *ph = &c->phase;
    struct crn_errinfo why = {0};
    int fd;

    if (!ph->is_open)
        return crn_fail(ei, CAIRN_ESTATE, 0, "call VELOC_Checkpoint_begin first");
    fd = open_routed(ph);
    if (hand_over(c, success, &why) == CAIRN_OK) {
        checkpoint_remember(c, fd);
    } else {
        note_failure(c, ph->name, ph->version, why.msg);
        if (fd >= 0)
            (void)close(fd);
    }
    crn_vlc_phase_close(ph);
    return c->cfg.is_sync ? crn_vlc_wait(c, ei) : CAIRN_OK;
}

/* VELOC's functions. --------------------------------------------------------------------------- */

VELOC_API int VELOC_Checkpoint_begin(const char *name, int version)
{
    struct crn_vlc_client *c = crn_vlc_get(__func__);
    struct crn_errinfo ei = {0};

    return c == NULL ? VELOC_FAILURE
                     : crn_vlc_end(c, __func__, checkpoint_begin(c, name, version, &ei), &ei);
}

VELOC_API int VELOC_Checkpoint_selective(int mode, int *ids, int id_count)
{
    struct crn_vlc_client *c = crn_vlc_get(__func__);
    struct crn_errinfo ei = {0};

    return c == NULL
               ? VELOC_FAILURE
               : crn_vlc_end(c, __func__, checkpoint_capture(c, mode, ids, id_count, &ei), &ei);
}

VELOC_API int VELOC_Checkpoint_mem(void)
{
    struct crn_vlc_client *c = crn_vlc_get(__func__);
    struct crn_errinfo ei = {0};

    return c == NULL
               ? VELOC_FAILURE
               : crn_vlc_end(c, __func__, checkpoint_capture(c, VELOC_CKPT_ALL, NULL, 0, &ei), &ei);
}

VELOC_API int VELOC_Checkpoint_end(int success)
{
    struct crn_vlc_client *c = crn_vlc_get(__func__);
    struct crn_errinfo ei = {0};

    return c == NULL ? VELOC_FAILURE
                     : crn_vlc_end(c, __func__, checkpoint_end(c, success, &ei), &ei);
}

VELOC_API int VELOC_Checkpoint_wait(void)
{
    struct crn_vlc_client *c = crn_vlc_get(__func__);
    struct crn_errinfo ei = {0};
    cairn_err rc;

    if (c == NULL)
        return VELOC_FAILURE;
    if (c->phase.is_open)
        rc = crn_fail(&ei, CAIRN_ESTATE, 0, "call VELOC_Checkpoint_end first");
    else
        rc = crn_vlc_wait(c, &ei);
    return crn_vlc_end(c, __func__, rc, &ei);
}

VELOC_API int VELOC_Checkpoint_finished(void)
{
    struct crn_vlc_client *c = crn_vlc_get(__func__);

    return c == NULL ? VELOC_FAILURE : is_finished(c);
}

VELOC_API int VELOC_Checkpoint(const char *name, int version)
{
    struct crn_vlc_client *c = crn_vlc_get(__func__);
    struct crn_errinfo ei = {0};
    struct crn_errinfo ended = {0};
    cairn_err rc;

    if (c == NULL)
        return VELOC_FAILURE;
    if (c->phase.is_open)
        rc = crn_fail(&ei, CAIRN_ESTATE, 0, "%s@%d has not ended yet", c->phase.group,
                      c->phase.version);
    else
        rc = crn_vlc_wait(c, &ei);
    if (rc == CAIRN_OK)
        rc = checkpoint_begin(c, name, version, &ei);
    if (rc == CAIRN_OK) {
        rc = checkpoint_capture(c, VELOC_CKPT_ALL, NULL, 0, &ei);
        if (checkpoint_end(c, rc == CAIRN_OK, &ended) != CAIRN_OK && rc == CAIRN_OK) {
            ei = ended;
            rc = ended.code;
        }
    }
    return crn_vlc_end(c, __func__, rc, &ei);
}
