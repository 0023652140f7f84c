/* SPDX-License-Identifier: BSD-3-Clause */
#include "aggregate/outlet.h"

static void outlet_tell(const struct crn_outlet *o, const char *text, const char *why)
{
    if (o->opt.log != NULL)
        crn_log(o->opt.log, CRN_WARN, "%s (%s), continuing without it", text, why);
}

int crn_outlet_is_direct(const struct crn_outlet *o, const struct crn_fs_type *type, int has_blocks)
{
    return o->opt.io == CRN_IO_DIRECT || (o->opt.io == CRN_IO_AUTO && type->is_disk && has_blocks);
}

int crn_outlet_is_behind(const struct crn_outlet *o, const struct crn_fs_type *type)
{
    return o->opt.io == CRN_IO_BEHIND || (o->opt.io == CRN_IO_AUTO && type->is_disk);
}

void crn_outlet_init(struct crn_outlet *o, const struct crn_outlet_options *opt)
{
    o->opt = *opt;
    atomic_init(&o->is_told, 0);
    atomic_init(&o->is_told_stripes, 0);
}

void crn_outlet_no_direct(struct crn_outlet *o, const char *why)
{
    if (o->opt.io != CRN_IO_AUTO && atomic_exchange(&o->is_told, 1) == 0)
        outlet_tell(o, "io = direct is not available here", why);
}

void crn_outlet_no_stripes(struct crn_outlet *o, const char *why)
{
    if (atomic_exchange(&o->is_told_stripes, 1) == 0)
        outlet_tell(o, "no stripe_count", why);
}
