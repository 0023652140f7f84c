/* SPDX-License-Identifier: BSD-3-Clause */
/* When to take a checkpoint and when to stop. Rank 0 decides for all. scr_halt leaves a file of
 * lines "Key=value" in the prefix:
 *   ExitReason=text, CheckpointsLeft=n, ExitAfter=time, ExitBefore=time, HaltSeconds=n */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "scr.h"
#include "scr_impl.h"

#define FINALIZED "SCR_FINALIZE_CALLED"

struct halt {
    char reason[128]; /* "": none */
    int64_t left;     /* checkpoints; -1: no limit */
    int64_t after, before, seconds;
};

static void halt_path(const struct crn_scr *s, char ret[PATH_MAX])
{
    (void)snprintf(ret, PATH_MAX, "%s/.scr/cairn.halt", s->cfg.prefix);
}

static void halt_read(const struct crn_scr *s, struct halt *ret)
{
    char path[PATH_MAX], line[256];
    FILE *f;

    memset(ret, 0, sizeof(*ret));
    ret->left = -1;
    ret->seconds = (int64_t)s->cfg.halt_seconds;
    halt_path(s, path);
    f = fopen(path, "re");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        (void)(sscanf(line, "ExitReason=%127s", ret->reason) ||
               sscanf(line, "CheckpointsLeft=%" SCNd64, &ret->left) ||
               sscanf(line, "ExitAfter=%" SCNd64, &ret->after) ||
               sscanf(line, "ExitBefore=%" SCNd64, &ret->before) ||
               sscanf(line, "HaltSeconds=%" SCNd64, &ret->seconds));
    }
    if (f != NULL)
        (void)fclose(f);
}

static void halt_write(const struct crn_scr *s, const struct halt *h)
{
    char path[PATH_MAX], tmp[PATH_MAX + 8];
    FILE *f;

    halt_path(s, path);
    (void)snprintf(tmp, sizeof(tmp), "%s.new", path);
    f = fopen(tmp, "we");
    if (f == NULL) {
        crn_log(&s->face.log, CRN_WARN, "cannot write '%s': %s", tmp, strerror(errno));
        return;
    }
    if (h->reason[0] != '\0')
        (void)fprintf(f, "ExitReason=%s\n", h->reason);
    if (h->left >= 0)
        (void)fprintf(f, "CheckpointsLeft=%" PRId64 "\n", h->left);
    if (h->after > 0)
        (void)fprintf(f, "ExitAfter=%" PRId64 "\n", h->after);
    if (h->before > 0)
        (void)fprintf(f, "ExitBefore=%" PRId64 "\n", h->before);
    if (h->seconds != (int64_t)s->cfg.halt_seconds)
        (void)fprintf(f, "HaltSeconds=%" PRId64 "\n", h->seconds);
    if (fclose(f) != 0 || rename(tmp, path) != 0)
        crn_log(&s->face.log, CRN_WARN, "cannot write '%s': %s", path, strerror(errno));
}

void crn_scr_halt_finalized(struct crn_scr *s, int is_final)
{
    struct halt h;

    halt_read(s, &h);
    if (is_final && h.reason[0] == '\0') {
        (void)snprintf(h.reason, sizeof(h.reason), FINALIZED);
        halt_write(s, &h);
    } else if (!is_final && strcmp(h.reason, FINALIZED) == 0) {
        h.reason[0] = '\0';
        halt_write(s, &h);
    }
}

void crn_scr_halt_count(struct crn_scr *s)
{
    struct halt h;

    halt_read(s, &h);
    if (h.left > 0) {
        h.left--;
        halt_write(s, &h);
    }
}

/* Rank 0. */
static int is_due(const struct crn_scr *s)
{
    int64_t now = (int64_t)time(NULL);
    struct halt h;

    if (!s->cfg.is_halt_enabled)
        return 0;
    halt_read(s, &h);
    return (h.reason[0] != '\0' && strcmp(h.reason, FINALIZED) != 0) || h.left == 0 ||
           (h.after > 0 && now >= h.after) || (h.before > 0 && now >= h.before - h.seconds) ||
           (s->cfg.end_time > 0 && h.seconds > 0 && now >= s->cfg.end_time - h.seconds);
}

cairn_err crn_scr_should_exit(struct crn_scr *s, int *ret, struct crn_errinfo *ei)
{
    int yes = 0;
    cairn_err rc = crn_face_result(cairn_should_stop(s->face.session, &yes), ei);

    if (s->rank == 0)
        yes |= is_due(s);
    if (rc == CAIRN_OK && MPI_Bcast(&yes, 1, MPI_INT, 0, s->comm) != MPI_SUCCESS)
        rc = crn_fail(ei, CAIRN_EMPI, 0, "cannot send the decision to all ranks");
    if (rc == CAIRN_OK)
        *ret = yes;
    return rc;
}

/* Rank 0. Without any of the three conditions every call says yes. */
static int is_checkpoint_due(struct crn_scr *s)
{
    const struct crn_scr_config *cfg = &s->cfg;
    double now = MPI_Wtime();
    double passed = now - s->last_end;

    s->nasked++;
    if (cfg->interval == 0 && cfg->seconds == 0 && cfg->overhead <= 0)
        return 1;
    return (cfg->interval > 0 && s->nasked % cfg->interval == 0) ||
           (cfg->seconds > 0 && passed >= (double)cfg->seconds) ||
           (cfg->overhead > 0 && s->cost <= (passed + s->cost) * cfg->overhead / 100);
}

CRN_FACE_API int SCR_Need_checkpoint(int *flag)
{
    struct crn_scr *s = crn_scr_in(__func__, CRN_SCR_IDLE);
    struct crn_errinfo ei = {0};
    int yes = 0;
    cairn_err rc;

    if (s == NULL || flag == NULL)
        return 1;
    rc = crn_scr_should_exit(s, &yes, &ei);
    if (s->rank == 0)
        yes |= is_checkpoint_due(s);
    if (rc == CAIRN_OK && MPI_Bcast(&yes, 1, MPI_INT, 0, s->comm) != MPI_SUCCESS)
        rc = crn_fail(&ei, CAIRN_EMPI, 0, "cannot send the decision to all ranks");
    *flag = yes;
    return crn_scr_end(s, __func__, rc, &ei);
}
