/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/behind.h"

#include <errno.h>
#include <string.h>

#define LEAST ((uint64_t)64 << 10) /* shortest run to submit; fsync writes the rest */
#define MOST  ((uint64_t)64 << 20) /* limit of the bytes in flight */

void crn_behind_init(struct crn_behind *b)
{
    memset(b, 0, sizeof(*b));
    crn_mutex_init(&b->mu, CRN_RANK_LEAF);
}

void crn_behind_fini(struct crn_behind *b)
{
    crn_mutex_fini(&b->mu);
}

static cairn_err behind_call(struct crn_behind *b, const struct crn_fs *fs, int fd,
                             struct crn_range range, int is_end, const char *what,
                             struct crn_errinfo *ei)
{
    int r;

    do
        r = fs->behind(fs, fd, (off_t)range.offset, (off_t)range.bytes, is_end);
    while (r == -EINTR);
    if (r == -ENOSYS || r == -EINVAL || r == -ESPIPE || r == -EOPNOTSUPP) {
        atomic_store(&b->is_refused, 1);
        return CAIRN_OK;
    }
    return crn_fs_check(r, ei, "write '%s' to disk", what);
}

/* Appends to the current run if the range continues it, else starts a new run. Takes the run once
 * it is long enough. */
static int take_run(struct crn_behind *b, uint64_t offset, uint64_t bytes, struct crn_range *ret)
{
    int is_there;

    crn_lock(&b->mu);
    if (b->run.offset + b->run.bytes != offset)
        b->run = (struct crn_range){.offset = offset};
    b->run.bytes += bytes;
    is_there = b->run.bytes >= LEAST;
    if (is_there) {
        *ret = b->run;
        b->run = (struct crn_range){.offset = offset + bytes};
    }
    crn_unlock(&b->mu);
    return is_there;
}

/* Records a range whose writeback has started. If the table is full, the fsync waits for the range
 * instead. */
static void behind_add(struct crn_behind *b, struct crn_range range)
{
    crn_lock(&b->mu);
    if (b->n < CRN_BEHIND_PIECES) {
        b->piece[(b->first + b->n++) % CRN_BEHIND_PIECES] = range;
        b->bytes += range.bytes;
    }
    crn_unlock(&b->mu);
}

/* Takes the oldest range in flight if too many bytes or ranges are in flight. */
static int take_oldest(struct crn_behind *b, struct crn_range *ret)
{
    int is_there;

    crn_lock(&b->mu);
    is_there = b->n > 1 && (b->bytes > MOST || b->n == CRN_BEHIND_PIECES);
    if (is_there) {
        *ret = b->piece[b->first];
        b->bytes -= ret->bytes;
        b->first = (b->first + 1) % CRN_BEHIND_PIECES;
        b->n--;
    }
    crn_unlock(&b->mu);
    return is_there;
}

cairn_err crn_behind_wrote(struct crn_behind *b, const struct crn_fs *fs, int fd, uint64_t offset,
                           uint64_t bytes, const char *what, struct crn_errinfo *ei)
{
    struct crn_range range;
    cairn_err rc;

    if (atomic_load(&b->is_refused) || !take_run(b, offset, bytes, &range))
        return CAIRN_OK;
    rc = behind_call(b, fs, fd, range, 0, what, ei);
    if (rc == CAIRN_OK)
        behind_add(b, range);
    while (rc == CAIRN_OK && take_oldest(b, &range))
        rc = behind_call(b, fs, fd, range, 1, what, ei);
    return rc;
}
