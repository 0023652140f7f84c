/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses K and leaders_per_file among every power-of-two ratio of nodes to files and every
 * power of two of leaders. Aggregation aims at few files, so the fewest within the slack win. */
#include "sim/flush.h"

#include <math.h>

#define MAX_TRIED 512

struct tried {
    struct crn_flush f;
    struct crn_flush_result r;
};

static cairn_err try_all(const struct crn_machine *m, const struct crn_flush *f,
                         const struct crn_recommend *opt, struct tried *tried, size_t *ret_n,
                         struct crn_errinfo *ei)
{
    uint32_t ratio, files = 0, leaders;
    size_t n = 0;

    for (ratio = 1; ratio < 2 * f->nodes; ratio *= 2) {
        uint32_t last = files;

        files = (f->nodes + ratio - 1) / ratio;
        if (opt->max_files > 0 && files > opt->max_files)
            files = opt->max_files;
        if (files == last)
            continue;
        for (leaders = 1; leaders <= opt->max_leaders_per_file; leaders *= 2) {
            struct tried *t = &tried[n];
            cairn_err rc;

            if (n == MAX_TRIED || (uint64_t)(leaders / 2) * files >= f->nodes)
                break; /* a group has no more nodes */
            t->f = *f;
            t->f.files = files;
            t->f.leaders_per_file = leaders;
            rc = crn_flush_predict(m, &t->f, &t->r, ei);
            if (rc != CAIRN_OK)
                return rc;
            n++;
        }
    }
    *ret_n = n;
    return CAIRN_OK;
}

cairn_err crn_flush_recommend(const struct crn_machine *m, const struct crn_flush *f,
                              const struct crn_recommend *opt, struct crn_flush *ret,
                              struct crn_flush_result *ret_result, struct crn_errinfo *ei)
{
    struct tried tried[MAX_TRIED];
    const struct tried *best = NULL;
    double least_s = INFINITY;
    size_t i, n = 0;
    cairn_err rc = try_all(m, f, opt, tried, &n, ei);

    if (rc != CAIRN_OK)
        return rc;
    for (i = 0; i < n; i++)
        least_s = fmin(least_s, tried[i].r.seconds);
    for (i = 0; i < n; i++) {
        const struct tried *t = &tried[i];

        if (t->r.seconds > least_s * (1 + opt->slack))
            continue;
        if (best == NULL || t->f.files < best->f.files ||
            (t->f.files == best->f.files && t->r.leaders < best->r.leaders))
            best = t;
    }
    if (best == NULL)
        return crn_fail(ei, CAIRN_EINVAL, 0, "no setting was tried");
    *ret = best->f;
    *ret_result = best->r;
    return CAIRN_OK;
}
