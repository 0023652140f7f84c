/* SPDX-License-Identifier: BSD-3-Clause */
/* Drains the store itself: captures with all data files but no manifest. Several nodes wrote their
 * files, the last one died before the manifest, and nobody else will finish it. Takes the writer's
 * lock: under it no living run is between data files and manifest. */
#include "service/drain_store.h"

#include <string.h>

#include "service/drain_local.h"
#include "service/rebuild.h"

static void drain_store_tell(crn_drain_fn fn, void *arg, const char *name, const struct crn_left *l,
                             enum crn_drain_what what, uint32_t missing, const char *text)
{
    char hex[CRN_RUN_HEX];
    struct crn_drain_event ev = {what, hex, name, l->version, missing, text};

    crn_run_hex(l->id.run, hex);
    if (fn != NULL)
        fn(arg, &ev);
}

static int has_work(const struct crn_lefts *left)
{
    size_t i;

    for (i = 0; i < left->n; i++)
        if (crn_left_is_complete(&left->v[i]) || crn_left_may_be_rebuilt(&left->v[i]))
            return 1;
    return 0;
}

/* Keeps only the latest capture of each version: an earlier one would be replaced right after its
 * publication. */
static void drop_earlier(struct crn_lefts *left)
{
    size_t i, k;

    for (i = 0; i < left->n; i++)
        for (k = 0; k < left->n; k++) {
            struct crn_left *a = &left->v[i];
            const struct crn_left *b = &left->v[k];

            if (a->version == b->version && crn_left_is_complete(b) &&
                crn_store_capture_is_later(&b->id, b->created_ns, &a->id, a->created_ns))
                a->is_superseded = 1;
        }
}

/* Publishes the complete captures. The caller has the lock. */
static cairn_err publish_complete(const struct crn_store *st, const char *name,
                                  const struct crn_lefts *left, crn_drain_fn fn, void *arg,
                                  struct crn_errinfo *ei)
{
    cairn_err first = CAIRN_OK;
    size_t i;

    for (i = 0; i < left->n; i++) {
        const struct crn_left *l = &left->v[i];
        struct crn_unpublished u = {name, l->version, &l->id, l->files, NULL, NULL};
        struct crn_errinfo why = {0};
        uint32_t missing = 0;
        struct crn_rebuilt rebuilt = {0};
        cairn_err rc;

        if (!crn_left_is_complete(l) && (l->is_superseded || !crn_left_may_be_rebuilt(l)))
            continue;
        missing = l->files - l->have;
        rc = crn_left_is_complete(l) ? crn_store_try_publish(st, &u, &missing, &why) : CAIRN_OK;
        if (rc == CAIRN_OK && missing > 0 && l->has_parity)
            rc = crn_drain_rebuild(st, &u, &missing, &rebuilt, &why);
        if (rc == CAIRN_OK && missing == 0) {
            crn_rebuild_clean(st, name, l->version);
            drain_store_tell(fn, arg, name, l, CRN_DRAIN_COMMITTED, 0, rebuilt.text);
        } else if (rc == CAIRN_OK && !crn_left_is_complete(l)) {
            continue; /* more nodes may still bring their files */
        } else if (rc == CAIRN_OK) {
            drain_store_tell(fn, arg, name, l, CRN_DRAIN_INCOMPLETE, missing,
                             "a data file in the store is damaged: see 'cairn sweep'");
        } else {
            drain_store_tell(fn, arg, name, l, CRN_DRAIN_FAILED, 0, why.msg);
            crn_err_keep(ei, &why);
            first = first == CAIRN_OK ? rc : first;
        }
    }
    return first;
}

cairn_err crn_drain_store_name(const struct crn_store *st, const char *name, int held_fd,
                               crn_drain_fn fn, void *arg, struct crn_errinfo *ei)
{
    struct crn_errinfo busy = {0};
    struct crn_lefts left = {0};
    int lock_fd = -1;
    cairn_err rc;

    rc = crn_store_left(st, name, &left, ei);
    if (rc != CAIRN_OK || !has_work(&left))
        goto out;
    if (held_fd < 0) {
        rc = crn_store_lock_name(st, name, "cairn drain", &lock_fd, &busy);
        if (rc == CAIRN_EBUSY) {
            rc = CAIRN_OK; /* the run is alive, or another drain is at it */
            goto out;
        }
        if (rc != CAIRN_OK) {
            crn_err_keep(ei, &busy);
            goto out;
        }
        crn_lefts_free(&left); /* the previous owner of the lock may have published some */
        rc = crn_store_left(st, name, &left, ei);
    }
    if (rc == CAIRN_OK) {
        drop_earlier(&left);
        rc = publish_complete(st, name, &left, fn, arg, ei);
    }
    if (lock_fd >= 0)
        (void)st->fs->close(st->fs, lock_fd);
out:
    crn_lefts_free(&left);
    return rc;
}

void crn_drain_store(const struct crn_fs *fs, const char *path, crn_drain_fn fn, void *arg,
                     struct crn_errinfo *first)
{
    struct crn_names names = {0};
    struct crn_errinfo ei = {0};
    struct crn_store st;
    cairn_err rc;
    size_t i;

    rc = crn_store_open(fs, path, 0, &st, &ei);
    if (rc == CAIRN_ENOENT)
        return; /* no store */
    if (rc == CAIRN_OK) {
        rc = crn_store_names(&st, &names, &ei);
        for (i = 0; rc == CAIRN_OK && i < names.n; i++) {
            struct crn_errinfo why = {0};

            if (crn_drain_store_name(&st, names.name[i], -1, fn, arg, &why) != CAIRN_OK)
                crn_err_keep(first, &why);
        }
        crn_names_free(&names);
        crn_store_close(&st);
    }
    if (rc != CAIRN_OK)
        crn_err_keep(first, &ei);
}
