/* SPDX-License-Identifier: BSD-3-Clause */
/* The log of operations: one line each with columns separated by blanks, so that gnuplot and awk
 * can read it. */
#include <inttypes.h>
#include <string.h>

#include "tier/cache.h"

#define COLUMNS 14

void crn_cache_op_head(FILE *out)
{
    (void)fputs("# start_ns what key bytes tier distance waits wait_ns copy_ns error "
                "used0 used1 used2 used3\n",
                out);
}

void crn_cache_op_print(FILE *out, const struct crn_cache_op *op)
{
    (void)fprintf(out,
                  "%" PRId64 " %s %" PRIu64 " %" PRIu64 " %d %u %u %" PRId64 " %" PRId64
                  " %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
                  op->start_ns, op->kind == CRN_CACHE_WRITE ? "write" : "read", op->key, op->bytes,
                  op->tier, op->distance, op->waits, op->wait_ns, op->copy_ns, (int)op->rc,
                  op->used[0], op->used[1], op->used[2], op->used[3]);
}

int crn_cache_op_parse(const char *line, struct crn_cache_op *ret)
{
    struct crn_cache_op op = {0};
    char what[8];
    int rc;

    if (sscanf(line,
               "%" SCNd64 " %7s %" SCNu64 " %" SCNu64 " %d %u %u %" SCNd64 " %" SCNd64
               " %d %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
               &op.start_ns, what, &op.key, &op.bytes, &op.tier, &op.distance, &op.waits,
               &op.wait_ns, &op.copy_ns, &rc, &op.used[0], &op.used[1], &op.used[2],
               &op.used[3]) != COLUMNS)
        return 0;
    if (strcmp(what, "write") != 0 && strcmp(what, "read") != 0)
        return 0;
    op.kind = what[0] == 'w' ? CRN_CACHE_WRITE : CRN_CACHE_READ;
    op.rc = (cairn_err)rc;
    *ret = op;
    return 1;
}
