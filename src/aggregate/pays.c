/* SPDX-License-Identifier: BSD-3-Clause */
/* The first file is plain: it tells the bandwidth. After that a file is encoded if a model expects
 * it to be durable as soon, and as long as the measured time agrees. A file that took longer, or
 * saved nothing, is followed by 2, 4, ... MOST_WAIT plain ones. One file in REMEASURE is plain, so
 * that the bandwidth stays known. */
#include "aggregate/pays.h"

#include <math.h>
#include <string.h>

#include "base/buf.h"

#define LEAST         ((uint64_t)1 << 20) /* smaller files are plain */
#define LATER         1.05                /* a file may be durable so much later than a plain one */
#define NOT_WORTH     0.97                /* a larger share saves nothing */
#define MOST_WAIT     64
#define REMEASURE     32
#define CAUTION       0.9 /* the model must promise as much */
#define USUAL_CPU_NS  4.0 /* per byte, until it is known; cautious */
#define USUAL_SHARE   0.8
#define NEWEST_WEIGHT 0.5 /* of the last file in the moving averages */
#define FORGIVE       0.8 /* after a wait, encoding is taken to be cheaper by this factor */

static struct crn_pays_name *pays_name(struct crn_pays *p, const char *name)
{
    uint64_t key = crn_hash(name, strlen(name)) | 1;
    struct crn_pays_name *n;
    uint32_t i;

    for (i = 0; i < CRN_PAYS_NAMES; i++)
        if (p->name[i].key == key)
            return &p->name[i];
    n = &p->name[p->next++ % CRN_PAYS_NAMES];
    *n = (struct crn_pays_name){.key = key, .share = USUAL_SHARE, .cpu_ns = USUAL_CPU_NS};
    return n;
}

/* Each thread encodes and writes in turn, and all share the bandwidth. */
static double expected_ns(const struct crn_pays *p, const struct crn_pays_name *n, uint32_t threads)
{
    double write_ns = n->share * 1e9 / p->bandwidth;

    return fmax(write_ns, (n->cpu_ns + write_ns) / threads);
}

int crn_pays(struct crn_pays *p, const char *name, uint64_t bytes, uint32_t threads)
{
    const struct crn_pays_name *n = pays_name(p, name);

    return threads > 0 && bytes >= LEAST && p->bandwidth > 0 && n->wait == 0 &&
           n->streak < REMEASURE && expected_ns(p, n, threads) <= CAUTION * 1e9 / p->bandwidth;
}

static void pays_average(double *average, double seen)
{
    *average += NEWEST_WEIGHT * (seen - *average);
}

void crn_pays_plain(struct crn_pays *p, const char *name, uint64_t bytes, int64_t ns)
{
    struct crn_pays_name *n = pays_name(p, name);

    n->streak = 0;
    if (n->wait > 0 && --n->wait == 0) {
        n->cpu_ns *= FORGIVE;
        n->share *= FORGIVE;
    }
    if (bytes < LEAST || ns <= 0)
        return;
    if (p->bandwidth > 0)
        pays_average(&p->bandwidth, (double)bytes * 1e9 / (double)ns);
    else
        p->bandwidth = (double)bytes * 1e9 / (double)ns;
}

void crn_pays_encoded(struct crn_pays *p, const char *name, uint64_t bytes, uint64_t file_bytes,
                      int64_t ns, int64_t cpu_ns)
{
    struct crn_pays_name *n = pays_name(p, name);

    n->streak++;
    n->share = (double)file_bytes / (double)bytes;
    pays_average(&n->cpu_ns, (double)cpu_ns / (double)bytes);
    if (n->share <= NOT_WORTH && (double)ns * p->bandwidth <= LATER * 1e9 * (double)bytes) {
        n->backoff = 0;
        return;
    }
    n->backoff = n->backoff == 0 ? 2 : n->backoff < MOST_WAIT ? 2 * n->backoff : MOST_WAIT;
    n->wait = n->backoff;
}
