/* SPDX-License-Identifier: BSD-3-Clause */
/* Datasets of SCR. PREFIX/.scr/index.scr names them; PREFIX/.scr/scr.dataset.ID/rank2file, a tree of
 * files, has the paths of each rank's files, relative to PREFIX. The version has a table of these
 * files as compat/scr writes it (CRN_SCR_REGION), and the files stay where they are. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "cli/import.h"
#include "cli/kvtree.h"

#define MAX_METADATA ((size_t)1 << 30)
#define MAX_LEVELS   16
#define FLAG_CKPT    1 /* SCR_FLAG_CHECKPOINT */
#define FLAG_OUTPUT  2
#define HASH_BLOCK   ((size_t)1 << 20)

struct scr_dataset {
    const char *prefix;
    const char *name;
    int flags;
    uint64_t files, bytes; /* as SCR counted them; 0: not counted */
    struct cli_set set;
    size_t cap;
    unsigned char *is_owned; /* by file: is this rank the first one that has it? */
};

static void dataset_free(struct scr_dataset *d)
{
    size_t i;

    for (i = 0; i < d->set.n; i++)
        free(d->set.file[i].path);
    free(d->set.file);
    free(d->is_owned);
}

static cairn_err read_tree(const char *path, uint64_t offset, struct crn_kvtree *ret,
                           struct crn_errinfo *ei)
{
    void *bytes = NULL;
    size_t n = 0;
    cairn_err rc;

    rc = crn_fs_read_file(crn_fs_posix(), AT_FDCWD, path, MAX_METADATA, &bytes, &n, ei);
    if (rc == CAIRN_OK)
        rc = crn_kvtree_parse(bytes, n, (size_t)offset, ret, ei);
    free(bytes);
    return crn_err_context(ei, rc, "'%s'", path);
}

/* A number that a tree holds as a text. */
static int number_of(const char *text, uint64_t *ret)
{
    char *end;

    if (text == NULL || text[0] < '0' || text[0] > '9')
        return -1;
    errno = 0;
    *ret = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' ? 0 : -1;
}

/* The files of the ranks. ----------------------------------------------------------------------- */

/* The path inside of the prefix; NULL if it leads out of it. */
static const char *path_inside(const struct scr_dataset *d, const char *path)
{
    size_t len = strlen(d->prefix);
    const char *p;

    if (path[0] == '/') {
        if (strncmp(path, d->prefix, len) != 0 || path[len] != '/')
            return NULL;
        path += len + 1;
    }
    for (p = path; p != NULL; p = strchr(p, '/'), p += p != NULL)
        if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || p[2] == '\0'))
            return NULL;
    return path[0] != '\0' && strchr(path, '\n') == NULL ? path : NULL;
}

static cairn_err add_files(struct scr_dataset *d, const struct crn_kvtree *t,
                           const struct crn_kvnode *rank, struct crn_errinfo *ei)
{
    const struct crn_kvnode *f = crn_kvtree_first(t, crn_kvtree_get(t, rank, "FILE"));
    cairn_err rc = CAIRN_OK;
    uint64_t r;

    if (number_of(rank->key, &r) != 0 || r >= CRN_MAX_RANKS)
        return crn_fail(ei, CAIRN_EFORMAT, 0, "'%s' is not a rank", rank->key);
    for (; rc == CAIRN_OK && f != NULL; f = crn_kvtree_next(t, f)) {
        const char *inside = path_inside(d, f->key);
        char *path = NULL;

        if (inside == NULL)
            return crn_fail(ei, CAIRN_EINVAL, 0, "its file '%s' is outside of '%s'", f->key,
                            d->prefix);
        if (asprintf(&path, "%s/%s", d->prefix, inside) < 0)
            path = NULL;
        rc = crn_import_add(&d->set, &d->cap, (uint32_t)r, path, ei);
    }
    return rc;
}

/* Reads a map and those below it. Level 0 has files, others have the maps of the next lower level,
 * as suffixes of the top one's path. */
static cairn_err read_map(struct scr_dataset *d, const char *top, const char *suffix,
                          uint64_t offset, unsigned depth, struct crn_errinfo *ei)
{
    const struct crn_kvnode *rank;
    struct crn_kvtree t = {0};
    char path[PATH_MAX];
    uint64_t level = 0, ranks = 0;
    cairn_err rc;

    if ((size_t)snprintf(path, sizeof(path), "%s%s", top, suffix) >= sizeof(path) ||
        strchr(suffix, '/') != NULL)
        return crn_fail(ei, CAIRN_EFORMAT, 0, "'%s' is not a part of '%s'", suffix, top);
    rc = read_tree(path, offset, &t, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (number_of(crn_kvtree_value(&t, t.node, "LEVEL"), &level) != 0 || level >= depth)
        rc = crn_fail(ei, CAIRN_EFORMAT, 0, "'%s' has no level", path);
    if (depth == MAX_LEVELS && /* the top */
        (number_of(crn_kvtree_value(&t, t.node, "RANKS"), &ranks) != 0 || ranks == 0 ||
         ranks >= CRN_MAX_RANKS))
        rc = crn_fail(ei, CAIRN_EFORMAT, 0, "'%s' has no number of ranks", path);
    if (depth == MAX_LEVELS)
        d->set.ranks = (uint32_t)ranks;
    rank = crn_kvtree_first(&t, crn_kvtree_get(&t, t.node, "RANK"));
    for (; rc == CAIRN_OK && rank != NULL; rank = crn_kvtree_next(&t, rank)) {
        const char *below = crn_kvtree_value(&t, rank, "FILE");
        uint64_t at = 0;

        if (level == 0)
            rc = add_files(d, &t, rank, ei);
        else if (below == NULL || number_of(crn_kvtree_value(&t, rank, "OFFSET"), &at) != 0)
            rc = crn_fail(ei, CAIRN_EFORMAT, 0, "'%s' has no file for rank %s", path, rank->key);
        else
            rc = read_map(d, top, below, at, (unsigned)level, ei);
    }
    crn_kvtree_free(&t);
    return rc;
}

static int by_path(const void *a, const void *b)
{
    const struct cli_file *const *x = a, *const *y = b;
    int order = strcmp((*x)->path, (*y)->path);

    return order != 0 ? order : (*x > *y) - (*x < *y);
}

static int by_rank(const void *a, const void *b)
{
    const struct cli_file *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return strcmp(x->path, y->path);
}

/* Sorts the files by rank, and chooses a rank for each that several have. */
static cairn_err choose_owners(struct scr_dataset *d, struct crn_errinfo *ei)
{
    struct cli_set *set = &d->set;
    const struct cli_file **sorted = calloc(set->n + 1, sizeof(const struct cli_file *));
    size_t i;

    d->is_owned = calloc(set->n + 1, 1);
    if (sorted == NULL || d->is_owned == NULL) {
        free(sorted);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a list of %zu files", set->n);
    }
    if (set->n > 0)
        qsort(set->file, set->n, sizeof(*set->file), by_rank);
    for (i = 0; i < set->n; i++)
        sorted[i] = &set->file[i];
    qsort(sorted, set->n, sizeof(*sorted), by_path);
    for (i = 0; i < set->n; i++)
        d->is_owned[sorted[i] - set->file] =
            i == 0 || strcmp(sorted[i]->path, sorted[i - 1]->path) != 0;
    free(sorted);
    return CAIRN_OK;
}

/* Compares with what SCR counted, unless ranks share files, which SCR counts differently. */
static cairn_err check_counts(struct scr_dataset *d, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = crn_fs_posix();
    cairn_err rc = CAIRN_OK;
    uint64_t bytes = 0;
    size_t i;

    if (d->set.n > 0 && d->set.file[d->set.n - 1].rank >= d->set.ranks)
        return crn_fail(ei, CAIRN_EFORMAT, 0, "rank %" PRIu32 " of %" PRIu32 " has files",
                        d->set.file[d->set.n - 1].rank, d->set.ranks);
    for (i = 0; rc == CAIRN_OK && i < d->set.n; i++) {
        struct cli_file *f = &d->set.file[i];

        if (!d->is_owned[i])
            d->files = d->bytes = 0;
        rc = crn_fs_check(fs->fstatat(fs, AT_FDCWD, f->path, &f->st), ei, "look at '%s'", f->path);
        bytes += (uint64_t)f->st.st_size;
    }
    if (rc == CAIRN_OK && d->files != 0 && d->files != d->set.n)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "SCR wrote %" PRIu64 " files and %zu are listed",
                        d->files, d->set.n);
    if (rc == CAIRN_OK && d->bytes != 0 && d->bytes != bytes)
        return crn_fail(ei, CAIRN_EDAMAGED, 0,
                        "SCR wrote %" PRIu64 " bytes and its files have %" PRIu64, d->bytes, bytes);
    return rc;
}

/* The shard of a rank: a table of its files. ----------------------------------------------------- */

static cairn_err hash_file(const struct cli_ingest *g, struct cli_file *f, uint64_t *ret,
                           struct crn_errinfo *ei)
{
    XXH3_state_t *state = XXH3_createState();
    unsigned char *block = malloc(HASH_BLOCK);
    uint64_t at = 0;
    int fd = -1;
    cairn_err rc = CAIRN_OK;

    if (state == NULL || block == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the checksum of '%s'", f->path);
    else
        rc = crn_import_open(g, f, &fd, ei);
    if (rc == CAIRN_OK)
        (void)XXH3_64bits_reset(state);
    while (rc == CAIRN_OK && at < (uint64_t)f->st.st_size) {
        uint64_t left = (uint64_t)f->st.st_size - at;
        size_t n = left < HASH_BLOCK ? (size_t)left : HASH_BLOCK;

        rc = crn_fs_read_all(g->fs, fd, block, n, at, f->path, ei);
        if (rc == CAIRN_OK)
            (void)XXH3_64bits_update(state, block, n);
        at += n;
    }
    if (rc == CAIRN_OK)
        *ret = XXH3_64bits_digest(state);
    if (fd >= 0)
        (void)g->fs->close(g->fs, fd);
    (void)XXH3_freeState(state);
    free(block);
    return rc;
}

static cairn_err scr_rank(const struct cli_ingest *g, struct cli_file *f, size_t n,
                          struct crn_source *s, struct crn_errinfo *ei)
{
    const struct scr_dataset *d = g->arg;
    cairn_err rc = crn_import_shard(s, 1, ei);
    struct crn_region *r = s->shard.regions;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out;
    size_t i;

    if (rc != CAIRN_OK)
        return rc;
    out = open_memstream(&text, &bytes);
    if (out == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the table of %zu files", n);
    (void)fprintf(out, "scr 1 %d 1 1\n%s\n", d->flags, d->name);
    for (i = 0; rc == CAIRN_OK && i < n; i++) {
        int is_owned = d->is_owned[f + i - d->set.file];
        uint64_t hash = 0;

        if (is_owned)
            rc = hash_file(g, &f[i], &hash, ei);
        (void)fprintf(out, "%" PRIu64 " %016" PRIx64 " %d %zu-file %s\n", (uint64_t)f[i].st.st_size,
                      hash, is_owned, i, f[i].path + strlen(d->prefix) + 1);
    }
    if (fclose(out) != 0 && rc == CAIRN_OK)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the table of %zu files", n);
    s->memory = (const unsigned char *)text;
    (void)snprintf(r->name, sizeof(r->name), "scr.files");
    r->type = CAIRN_BYTES;
    r->ndims = 1;
    r->dims[0] = bytes;
    return rc == CAIRN_OK ? crn_region_check(r, ei) : rc;
}

/* Datasets. ------------------------------------------------------------------------------------ */

/* The name that belongs to a dataset in the index; NULL: none. */
static const char *name_of(const struct crn_kvtree *t, const char *id)
{
    const struct crn_kvnode *n = crn_kvtree_first(t, crn_kvtree_get(t, t->node, "NAME"));

    for (; n != NULL; n = crn_kvtree_next(t, n))
        if (crn_kvtree_get(t, crn_kvtree_get(t, n, "DSET"), id) != NULL)
            return n->key;
    return NULL;
}

/* What the index says of a dataset; NULL, or why it is left out. Versions before 3 of SCR have it
 * below the name. */
static const char *dataset_look(const struct crn_kvtree *t, const struct crn_kvnode *of,
                                struct scr_dataset *d)
{
    const struct crn_kvnode *info = of, *dataset;
    const char *complete;
    uint64_t flag = 0;

    d->name = name_of(t, of->key);
    if (d->name == NULL || strchr(d->name, '\n') != NULL)
        return "SCR's index has no name for it";
    if (crn_kvtree_get(t, of, "NAME") != NULL)
        info = crn_kvtree_get(t, crn_kvtree_get(t, of, "NAME"), d->name);
    complete = crn_kvtree_value(t, info, "COMPLETE");
    if (complete == NULL || strcmp(complete, "1") != 0)
        return "SCR did not complete it";
    if (crn_kvtree_get(t, info, "FAILED") != NULL)
        return "SCR failed to read it and marked it as bad";
    dataset = crn_kvtree_get(t, info, "DSET");
    if (number_of(crn_kvtree_value(t, dataset, "FLAG_CKPT"), &flag) == 0 && flag == 1)
        d->flags |= FLAG_CKPT;
    if (number_of(crn_kvtree_value(t, dataset, "FLAG_OUTPUT"), &flag) == 0 && flag == 1)
        d->flags |= FLAG_OUTPUT;
    if (d->flags == 0)
        d->flags = crn_kvtree_get(t, dataset, "CKPT") != NULL ? FLAG_CKPT : FLAG_OUTPUT;
    if (number_of(crn_kvtree_value(t, dataset, "FILES"), &d->files) != 0)
        d->files = 0;
    if (number_of(crn_kvtree_value(t, dataset, "SIZE"), &d->bytes) != 0)
        d->bytes = 0;
    return NULL;
}

static cairn_err import_dataset(struct cli_import *im, struct scr_dataset *d,
                                struct crn_errinfo *ei)
{
    const char *name = d->flags & FLAG_CKPT ? "scr" : "scr-output"; /* compat/scr */
    struct crn_errinfo why = {0};
    char path[PATH_MAX];
    struct cli_ingest g;
    cairn_err rc;

    (void)snprintf(path, sizeof(path), "%s/.scr/scr.dataset.%" PRId64 "/rank2file", d->prefix,
                   d->set.step);
    rc = read_map(d, path, "", 0, MAX_LEVELS, &why);
    if (rc == CAIRN_OK)
        rc = choose_owners(d, &why);
    if (rc == CAIRN_OK)
        rc = check_counts(d, &why);
    if (rc != CAIRN_OK) {
        crn_import_skip(im, name, d->set.step, why.msg);
        return CAIRN_OK;
    }
    rc = crn_ingest_open(&im->cli->cfg, name, NULL, &g, ei);
    if (rc != CAIRN_OK)
        return rc;
    g.open_rank = scr_rank;
    g.arg = d;
    crn_import_set(im, &g, &d->set);
    crn_ingest_close(&g);
    return CAIRN_OK;
}

/* Absolute, as the library has it. */
static cairn_err find_prefix(const char *from, char ret[PATH_MAX], struct crn_errinfo *ei)
{
    return realpath(from, ret) != NULL ? CAIRN_OK : crn_fail_errno(ei, errno, "open '%s'", from);
}

cairn_err crn_import_scr(struct cli_import *im, struct crn_errinfo *ei)
{
    char prefix[PATH_MAX], path[PATH_MAX + 32];
    const struct crn_kvnode *of;
    struct crn_kvtree t = {0};
    cairn_err rc;

    rc = find_prefix(im->from, prefix, ei);
    if (rc == CAIRN_OK) {
        (void)snprintf(path, sizeof(path), "%s/.scr/cairn", prefix);
        rc = crn_import_store(im, path, ei);
    }
    if (rc == CAIRN_OK) {
        (void)snprintf(path, sizeof(path), "%s/.scr/index.scr", prefix);
        rc = read_tree(path, 0, &t, ei);
    }
    of = rc == CAIRN_OK ? crn_kvtree_first(&t, crn_kvtree_get(&t, t.node, "DSET")) : NULL;
    if (rc == CAIRN_OK && of == NULL)
        rc = crn_fail(ei, CAIRN_ENOENT, 0, "'%s' has no datasets", path);
    for (; rc == CAIRN_OK && of != NULL; of = crn_kvtree_next(&t, of)) {
        struct scr_dataset d = {.prefix = prefix};
        const char *why = dataset_look(&t, of, &d);
        uint64_t id = 0;

        if (number_of(of->key, &id) != 0 || id > INT32_MAX)
            why = "this is no number of a dataset";
        d.set.step = (int64_t)id;
        if (why == NULL)
            rc = import_dataset(im, &d, ei);
        else
            crn_import_skip(im, "scr", d.set.step, why);
        dataset_free(&d);
    }
    crn_kvtree_free(&t);
    return rc;
}
