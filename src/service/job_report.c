/* SPDX-License-Identifier: BSD-3-Clause */
/* The journal records that the first node of a job writes. If a record cannot be written, for
 * example because the disk is full, it is retried with the next one and when the job ends. On the
 * keeper's thread. Also the summary at the end of the job, on the loop thread. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "service/job.h"
#include "store/journal.h"

static struct crn_reporter report_reporter(const struct crn_job *job)
{
    return (struct crn_reporter){.fs = crn_fs_default(),
                                 .log = &job->log,
                                 .root = job->cfg.persistent,
                                 .job = job->cfg.job,
                                 .run = job->run};
}

void crn_job_report_rest(struct crn_job *job)
{
    struct crn_reporter r = report_reporter(job);
    uint32_t done;

    for (done = 0; done < job->nunsaid; done++) {
        const struct crn_unsaid *u = &job->unsaid[done];

        if (crn_journal_report(&r, u->name, u->version, u->time_ns, u->kind, u->text) != CAIRN_OK)
            break; /* the others would fail too */
    }
    job->nunsaid -= done;
    memmove(job->unsaid, job->unsaid + done, job->nunsaid * sizeof(*job->unsaid));
}

void crn_job_report(struct crn_job *job, const struct crn_item *item, const char *kind,
                    const char *text)
{
    const struct crn_clock *clock = crn_clock_real();
    struct crn_unsaid *u;

    if (job->nunsaid == CRN_UNSAID) { /* drop the oldest; it was logged */
        job->nunsaid--;
        memmove(job->unsaid, job->unsaid + 1, job->nunsaid * sizeof(*job->unsaid));
    }
    u = &job->unsaid[job->nunsaid++];
    memcpy(u->name, item->name, sizeof(u->name));
    u->version = item->version;
    u->time_ns = (uint64_t)clock->wall_ns(clock);
    u->kind = kind;
    (void)snprintf(u->text, sizeof(u->text), "%s", text);
    crn_job_report_rest(job);
}

void crn_job_count(struct crn_job *job, const struct crn_item *item, cairn_err code,
                   uint64_t committed_ns)
{
    struct crn_totals *t = &job->totals;
    uint64_t ns = committed_ns > item->created_ns ? committed_ns - item->created_ns : 0;

    t->superseded += code == CAIRN_ECANCELED && item->is_held;
    t->canceled += code == CAIRN_ECANCELED && !item->is_held;
    t->failed += code != CAIRN_OK && code != CAIRN_ECANCELED;
    if (code != CAIRN_OK)
        return;
    t->persistent++;
    t->bytes += item->root->bytes;
    if (ns >= t->slowest_ns) {
        t->slowest_ns = ns;
        memcpy(t->slowest, item->name, sizeof(t->slowest));
        t->slowest_version = item->version;
    }
}

void crn_job_summary(const struct crn_job *job)
{
    const struct crn_totals *t = &job->totals;
    const struct crn_item *item;
    char bytes[32], waited[32], took[32], slowest[CAIRN_MAX_NAME + 80] = "", stayed[48] = "";
    uint64_t unfinished = 0;

    for (item = crn_node_items(job->core); item != NULL; item = item->next)
        unfinished += !crn_root_has_decided(item->root->state);
    if (t->persistent + t->failed + t->canceled + t->superseded + unfinished == 0)
        return;
    crn_human_bytes(t->bytes, bytes, sizeof(bytes));
    crn_human_time((double)t->waited_ns * 1e-9, waited, sizeof(waited));
    crn_human_time((double)t->slowest_ns * 1e-9, took, sizeof(took));
    if (t->persistent > 0)
        (void)snprintf(slowest, sizeof(slowest), ", the slowest %s@%" PRId64 " after %s",
                       t->slowest, t->slowest_version, took);
    if (t->superseded > 0)
        (void)snprintf(stayed, sizeof(stayed), ", %" PRIu64 " only on the nodes", t->superseded);
    crn_log(&job->log, t->failed + unfinished > 0 ? CRN_WARN : CRN_INFO,
            "the run has ended: %" PRIu64 " versions persistent, %s%s%s; rank 0 waited %s; %" PRIu64
            " failed, %" PRIu64 " canceled, %" PRIu64 " unfinished%s",
            t->persistent, bytes, slowest, stayed, waited, t->failed, t->canceled, unfinished,
            t->failed > 0 ? "; see 'cairn ls --failed'" : "");
}
