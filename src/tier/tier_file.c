/* SPDX-License-Identifier: BSD-3-Clause */
/* The file tier: an unnamed area (area.h) on the node's disk. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "tier/area.h"
#include "tier/tier.h"

struct file_tier {
    struct crn_tier tier;
    struct crn_area *area;
};

static cairn_err tier_file_put(struct crn_tier *t, const struct crn_spot *spot, uint64_t at,
                               const void *src, uint64_t bytes, struct crn_errinfo *ei)
{
    return crn_area_write(((struct file_tier *)t)->area, spot->offset, at, src, bytes, ei);
}

static cairn_err tier_file_get(struct crn_tier *t, const struct crn_spot *spot, uint64_t at,
                               void *dst, uint64_t bytes, struct crn_errinfo *ei)
{
    /* A block ends at a granule or at the end of the checkpoint. */
    return crn_area_read(((struct file_tier *)t)->area, spot->offset, at + bytes, at, dst, bytes,
                         ei);
}

static void close_file(struct crn_tier *t)
{
    crn_area_close(((struct file_tier *)t)->area);
    free(t);
}

static const struct crn_tier_ops file_ops = {
    .kind = "file",
    .put = tier_file_put,
    .get = tier_file_get,
    .close = close_file,
};

cairn_err crn_tier_file(const struct crn_fs *fs, const char *path, uint64_t capacity,
                        struct crn_tier **ret, struct crn_errinfo *ei)
{
    struct file_tier *f = calloc(1, sizeof(*f));
    cairn_err rc;
    int dfd = -1;

    if (f == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a file tier");
    rc = crn_fs_make_dirs(fs, AT_FDCWD, path, 0700, &dfd, ei);
    if (rc == CAIRN_OK)
        rc = crn_area_create(fs, dfd, &(struct crn_area_options){.bytes = capacity}, &f->area, ei);
    if (dfd >= 0)
        (void)fs->close(fs, dfd);
    if (rc != CAIRN_OK) {
        free(f);
        return rc;
    }
    f->tier.ops = &file_ops;
    f->tier.chain =
        (struct crn_chain_tier){.capacity = crn_area_bytes(f->area), .align = CRN_AREA_GRANULE};
    *ret = &f->tier;
    return CAIRN_OK;
}
