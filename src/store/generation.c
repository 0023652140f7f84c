/* SPDX-License-Identifier: BSD-3-Clause */
/* The generation of a name orders its runs independently of clocks. The number is stored as text in
 * <name>/.generation and raised under the writer's lock. Manifests count too: the file may be
 * missing or damaged, and versions may have been copied from another store. A full disk does not
 * stop a run here, because its flush can wait for free space, and the run's commits carry the
 * number. */
#include "store/layout.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX 64

static int generation_compose(uint64_t number, char *buf, size_t size)
{
    int n = snprintf(buf, size, "%" PRIu64 "\n", number);

    return n + snprintf(buf + n, size - (size_t)n, "%016llx\n",
                        (unsigned long long)crn_hash(buf, (size_t)n));
}

/* The number in the file; 0 if there is none or it is damaged. */
static cairn_err read_number(const struct crn_store *st, int dfd, uint64_t *ret,
                             struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    char again[NUMBER_MAX];
    cairn_err rc;
    size_t len;
    void *text;

    *ret = 0;
    rc = crn_fs_read_file(st->fs, dfd, CRN_NUMBER, NUMBER_MAX, &text, &len, &why);
    if (rc == CAIRN_ENOENT || rc == CAIRN_EDAMAGED)
        return CAIRN_OK;
    if (rc != CAIRN_OK) {
        crn_err_keep(ei, &why);
        return rc;
    }
    *ret = strtoull(text, NULL, 10);
    if ((size_t)generation_compose(*ret, again, sizeof(again)) != len ||
        memcmp(again, text, len) != 0)
        *ret = 0;
    free(text);
    return CAIRN_OK;
}

/* The highest generation that the file or a manifest knows. */
static cairn_err generation_highest(const struct crn_store *st, int dfd, const char *name,
                                    uint64_t *ret, struct crn_errinfo *ei)
{
    struct crn_catalog c = {0};
    cairn_err rc;
    size_t i;

    rc = read_number(st, dfd, ret, ei);
    if (rc == CAIRN_OK)
        rc = crn_store_catalog(st, name, &c, ei);
    for (i = 0; rc == CAIRN_OK && i < c.n; i++)
        if (c.v[i].id.generation > *ret)
            *ret = c.v[i].id.generation;
    crn_catalog_free(&c);
    return rc;
}

cairn_err crn_store_generation(const struct crn_store *st, const char *name, uint64_t *ret,
                               struct crn_errinfo *ei)
{
    cairn_err rc;
    int dfd;

    rc = crn_store_name_dir(st, name, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = generation_highest(st, dfd, name, ret, ei);
    (void)st->fs->close(st->fs, dfd);
    return rc;
}

cairn_err crn_store_raise_generation(const struct crn_store *st, const char *name, uint64_t *ret,
                                     struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    char text[NUMBER_MAX];
    uint64_t number = 0;
    cairn_err rc;
    int dfd;

    rc = crn_store_name_dir(st, name, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = generation_highest(st, dfd, name, &number, ei);
    if (rc == CAIRN_OK) {
        rc = crn_fs_replace(st->fs, dfd, CRN_NUMBER, text,
                            (size_t)generation_compose(number + 1, text, sizeof(text)), &why);
        if (rc == CAIRN_ENOSPC)
            rc = CAIRN_OK;
        else if (rc != CAIRN_OK)
            crn_err_keep(ei, &why);
    }
    (void)st->fs->close(st->fs, dfd);
    if (rc == CAIRN_OK)
        *ret = number + 1;
    return rc;
}
