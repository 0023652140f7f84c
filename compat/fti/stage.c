/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that the program writes on the node and wants at another place: copied in the background,
 * each atomically, by the publisher. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "fti.h"
#include "fti_impl.h"

struct crn_fti_stage {
    struct crn_publish_copy *copy; /* NULL: the result is known */
    char *local;
    int state;
};

static void stage_settle(struct crn_fti *f, struct crn_fti_stage *s)
{
    struct crn_errinfo ei = {0};

    s->state = FTI_SI_SCES;
    if (crn_publish_wait(f->publisher, s->copy, &ei) != CAIRN_OK)
        s->state = FTI_SI_FAIL; /* the publisher has logged it; the local file stays */
    else if (unlink(s->local) != 0)
        crn_log(&f->face.log, CRN_WARN, "cannot remove '%s': %s", s->local, strerror(errno));
    s->copy = NULL;
}

void crn_fti_stages_free(struct crn_fti *f)
{
    size_t i;

    for (i = 0; i < f->nstages; i++) {
        if (f->stage[i].copy != NULL)
            stage_settle(f, &f->stage[i]);
        free(f->stage[i].local);
    }
    free(f->stage);
    crn_publisher_close(f->publisher);
}

static cairn_err send_file(struct crn_fti *f, const char *from, const char *to,
                           struct crn_errinfo *ei)
{
    struct crn_fti_stage *grown;
    char path[PATH_MAX], cwd[PATH_MAX] = "", tag[32];
    cairn_err rc = CAIRN_OK;
    int fd;

    grown = realloc(f->stage, (f->nstages + 1) * sizeof(*grown));
    if (grown == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "staging '%s'", from);
    f->stage = grown;
    grown += f->nstages;
    if (to[0] != '/' && getcwd(cwd, sizeof(cwd)) == NULL)
        return crn_fail_errno(ei, errno, "the current directory");
    if ((size_t)snprintf(path, sizeof(path), "%s%s%s", cwd, cwd[0] != '\0' ? "/" : "", to) >=
        sizeof(path))
        return crn_fail(ei, CAIRN_EINVAL, 0, "the path '%.100s...' is too long", to);
    (void)snprintf(tag, sizeof(tag), "%d", f->rank);
    if (f->publisher == NULL)
        rc = crn_publisher_open(crn_fs_default(), tag, &f->face.log, &f->publisher, ei);
    if (rc != CAIRN_OK)
        return rc;
    fd = open(from, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return crn_fail_errno(ei, errno, "open '%s'", from);
    grown->local = strdup(from);
    grown->state = FTI_SI_ACTV;
    if (grown->local == NULL) {
        (void)close(fd);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "staging '%s'", from);
    }
    rc = crn_publish_file(f->publisher, fd, path, &grown->copy, ei);
    if (rc == CAIRN_OK)
        f->nstages++;
    else
        free(grown->local);
    return rc;
}

CRN_FACE_API int FTI_SendFile(const char *lpath, const char *rpath)
{
    struct crn_fti *f = crn_fti_get(__func__);
    struct crn_errinfo ei = {0};
    cairn_err rc;

    if (f == NULL)
        return FTI_NSCS;
    if (lpath == NULL || rpath == NULL)
        rc = crn_fail(&ei, CAIRN_EINVAL, 0, "a path is NULL");
    else if (!f->cfg.all.configuration.stagingEnabled)
        rc = crn_fail(&ei, CAIRN_ESTATE, 0, "the configuration has no enable_staging = 1");
    else
        rc = send_file(f, lpath, rpath, &ei);
    return rc == CAIRN_OK ? (int)f->nstages - 1 : crn_fti_end(f, __func__, FTI_NSCS, rc, &ei);
}

CRN_FACE_API int FTI_GetStageStatus(int ID)
{
    struct crn_fti *f = crn_fti_get(__func__);
    struct crn_fti_stage *s;

    if (f == NULL || ID < 0 || (size_t)ID >= f->nstages)
        return FTI_SI_NINI;
    s = &f->stage[ID];
    if (s->copy != NULL && crn_publish_is_done(f->publisher, s->copy))
        stage_settle(f, s);
    return s->state;
}

CRN_FACE_API int FTI_GetStageDir(char *stageDir, int maxLen)
{
    struct crn_fti *f = crn_fti_get(__func__);
    struct crn_errinfo ei = {0};
    char dir[FTI_BUFS + 64];
    cairn_err rc;
    int n;

    if (f == NULL || stageDir == NULL || maxLen <= 0)
        return FTI_NSCS;
    n = snprintf(dir, sizeof(dir), "%s/stage/%s/%d", f->cfg.all.configuration.localDir, f->name,
                 f->rank);
    if (n >= (int)sizeof(dir) || n >= maxLen)
        rc = crn_fail(&ei, CAIRN_EINVAL, 0, "the path needs %d bytes", n + 1);
    else
        rc = crn_face_make_dir(dir, &ei);
    if (rc == CAIRN_OK)
        memcpy(stageDir, dir, strlen(dir) + 1);
    return crn_fti_end(f, __func__, FTI_NSCS, rc, &ei);
}
