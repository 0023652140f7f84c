/* SPDX-License-Identifier: BSD-3-Clause */
/* What the first node of a job writes into the journals of its names. A record that cannot be written now, since
 * the disk is full, say, is tried again with the next one and when the job ends. The keeper's thread. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "service/job.h"
#include "store/journal.h"

static struct crn_reporter reporter(const struct crn_job *job)
{
    return (struct crn_reporter){.fs = crn_fs_default(),
                                 .log = &job->log,
                                 .root = job->cfg.persistent,
                                 .job = job->cfg.job,
                                 .run = job->run};
}

void crn_job_report_rest(struct crn_job *job)
{
    struct crn_reporter r = reporter(job);
    uint32_t done;

    for (done = 0; done < job->nunsaid; done++) {
        const struct crn_unsaid *u = &job->unsaid[done];

        if (crn_report(&r, u->name, u->version, u->time_ns, u->kind, u->text) != CAIRN_OK)
            break; /* the others would fail, too */
    }
    job->nunsaid -= done;
    memmove(job->unsaid, job->unsaid + done, job->nunsaid * sizeof(*job->unsaid));
}

void crn_job_report(struct crn_job *job, const struct crn_item *item, const char *kind,
                    const char *text)
{
    const struct crn_clock *clock = crn_clock_real();
    struct crn_unsaid *u;

    if (job->nunsaid == CRN_UNSAID) { /* the oldest gives way; it was logged */
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
