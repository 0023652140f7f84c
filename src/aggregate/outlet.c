/* SPDX-License-Identifier: BSD-3-Clause */
#include "aggregate/outlet.h"

#include <string.h>

#define DEPTH 8 /* writes of a writer on their way */

static void tell(const struct crn_outlet *o, const char *text, const char *why)
{
    if (o->opt.log != NULL)
        crn_log(o->opt.log, CRN_WARN, "%s (%s), continuing without", text, why);
}

int crn_outlet_is_direct(const struct crn_outlet *o, const struct crn_fs_type *type, int has_blocks)
{
    return o->opt.io == CRN_IO_DIRECT || o->opt.io == CRN_IO_URING_DIRECT ||
           (o->opt.io == CRN_IO_AUTO && type->is_disk && has_blocks);
}

int crn_outlet_is_behind(const struct crn_outlet *o, const struct crn_fs_type *type)
{
    return o->opt.io == CRN_IO_BEHIND || (o->opt.io == CRN_IO_AUTO && type->is_disk);
}

cairn_err crn_outlet_open(struct crn_outlet *o, const struct crn_outlet_options *opt, int writers,
                          struct crn_errinfo *ei)
{
    int wants_ring = opt->io == CRN_IO_URING || opt->io == CRN_IO_URING_DIRECT;
    cairn_err rc = CAIRN_OK;

    memset(o, 0, sizeof(*o));
    o->opt = *opt;
    crn_mutex_init(&o->mu, CRN_RANK_LEAF);
    while (rc == CAIRN_OK && wants_ring && o->nrings < writers && o->nrings < CRN_MAX_WRITERS) {
        struct crn_errinfo refused = {0};

        rc = crn_ring_open(DEPTH, NULL, NULL, &o->ring[o->nrings], &refused);
        o->nrings += rc == CAIRN_OK;
        if (rc == CAIRN_ENOTSUP) {
            tell(o, "io = uring is not to be had here", refused.msg);
            rc = CAIRN_OK;
            break;
        }
        if (ei != NULL && rc != CAIRN_OK)
            crn_err_keep(ei, &refused);
    }
    o->nfree = o->nrings;
    return rc;
}

void crn_outlet_close(struct crn_outlet *o)
{
    int i;

    for (i = 0; i < o->nrings; i++)
        crn_ring_close(o->ring[i]);
    crn_mutex_fini(&o->mu);
}

struct crn_ring *crn_outlet_get(struct crn_outlet *o)
{
    struct crn_ring *r = NULL;

    if (o->nrings == 0)
        return NULL;
    crn_lock(&o->mu);
    if (o->nfree > 0)
        r = o->ring[--o->nfree];
    crn_unlock(&o->mu);
    return r;
}

void crn_outlet_put(struct crn_outlet *o, struct crn_ring *r)
{
    if (r == NULL)
        return;
    crn_lock(&o->mu);
    o->ring[o->nfree++] = r;
    crn_unlock(&o->mu);
}

void crn_outlet_no_direct(struct crn_outlet *o, const char *why)
{
    if (o->opt.io != CRN_IO_AUTO && atomic_exchange(&o->is_told, 1) == 0)
        tell(o, "io = direct is not to be had here", why);
}

void crn_outlet_no_stripes(struct crn_outlet *o, const char *why)
{
    if (atomic_exchange(&o->is_told_stripes, 1) == 0)
        tell(o, "no stripe_count and stripe_bytes", why);
}
