/* SPDX-License-Identifier: BSD-3-Clause */
/* The checkpoint of level 4 that FTI has left: files `Ckpt<ID>-Rank<N>.fti` in GLOBAL/EXECUTION/l4,
 * with the variables one after the other, and INI files in META/EXECUTION/l4 that say where each
 * variable is. The version has the variables, and a table of them as compat/fti writes it
 * (CRN_FTI_META). */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/config_impl.h"
#include "cli/import.h"

#define PATH_TEXT 1024
#define NAME_TEXT 256

struct fti_var {
    int64_t id, bytes, at; /* -1: not said */
    char name[NAME_TEXT];
};

/* A checkpoint file as its metadata describes it. */
struct fti_file {
    char name[NAME_TEXT];
    int64_t id, rank, bytes; /* id, rank: in the name */
    struct fti_var *var;     /* owned; by id */
    size_t n;
};

struct fti_state {
    char global[PATH_TEXT], meta[PATH_TEXT], execution[NAME_TEXT];
    int64_t io;
    struct fti_file *file; /* owned; by rank */
    size_t n, cap;
    size_t first; /* of the metadata file that is being read */
};

static void state_free(struct fti_state *s)
{
    size_t i;

    for (i = 0; i < s->n; i++)
        free(s->file[i].var);
    free(s->file);
}

/* Configuration. -------------------------------------------------------------------------------- */

static cairn_err take_text(char *ret, size_t size, const char *value, const char *where,
                           struct crn_errinfo *ei)
{
    return (size_t)snprintf(ret, size, "%s", value) < size
               ? CAIRN_OK
               : crn_fail(ei, CAIRN_ECONFIG, 0, "%s: the value is too long", where);
}

static cairn_err on_config(void *arg, const char *section, const char *key, const char *value,
                           const char *where, struct crn_errinfo *ei)
{
    struct fti_state *s = arg;

    if (key == NULL)
        return CAIRN_OK;
    if (strcasecmp(section, "basic") == 0 && strcasecmp(key, "glbl_dir") == 0)
        return take_text(s->global, sizeof(s->global), value, where, ei);
    if (strcasecmp(section, "basic") == 0 && strcasecmp(key, "meta_dir") == 0)
        return take_text(s->meta, sizeof(s->meta), value, where, ei);
    if (strcasecmp(section, "basic") == 0 && strcasecmp(key, "ckpt_io") == 0)
        s->io = strtoll(value, NULL, 10);
    if (strcasecmp(section, "restart") == 0 && strcasecmp(key, "exec_id") == 0)
        return take_text(s->execution, sizeof(s->execution), value, where, ei);
    return CAIRN_OK;
}

static cairn_err read_config(const char *path, struct fti_state *s, struct crn_errinfo *ei)
{
    cairn_err rc;

    s->io = 1;
    rc = crn_config_ini_file(path, on_config, s, ei);
    if (rc == CAIRN_OK && (s->global[0] == '\0' || s->meta[0] == '\0' || s->execution[0] == '\0'))
        return crn_fail(ei, CAIRN_ECONFIG, 0, "'%s' has no %s: it must be FTI's configuration",
                        path,
                        s->global[0] == '\0' ? "glbl_dir"
                        : s->meta[0] == '\0' ? "meta_dir"
                                             : "exec_id");
    if (rc == CAIRN_OK && s->io != 1)
        return crn_fail(ei, CAIRN_ENOTSUP, 0,
                        "'%s' says ckpt_io = %" PRId64 ": only files of ckpt_io = 1 are read", path,
                        s->io);
    return rc;
}

/* Metadata. ------------------------------------------------------------------------------------- */

/* The file of a section: one for each process of a group, numbered from 0. */
static cairn_err file_of(struct fti_state *s, const char *section, const char *where,
                         struct fti_file **ret, struct crn_errinfo *ei)
{
    char *end;
    unsigned long at = strtoul(section, &end, 10);

    *ret = NULL;
    if (end == section || *end != '\0')
        return CAIRN_OK; /* not about a file */
    if (at >= CRN_MAX_RANKS || s->first + at > s->n)
        return crn_fail(ei, CAIRN_EFORMAT, 0, "%s: section [%s] is not in its place", where,
                        section);
    if (s->first + at == s->n) {
        if (s->n == s->cap) {
            struct fti_file *grown = realloc(s->file, (2 * s->cap + 16) * sizeof(*grown));

            if (grown == NULL)
                return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%zu files", s->n);
            s->file = grown;
            s->cap = 2 * s->cap + 16;
        }
        s->file[s->n++] = (struct fti_file){.id = -1, .rank = -1, .bytes = -1};
    }
    *ret = &s->file[s->first + at];
    return CAIRN_OK;
}

/* Variables of a section are numbered from 0, in order. */
static cairn_err var_of(struct fti_file *f, unsigned long at, const char *where,
                        struct fti_var **ret, struct crn_errinfo *ei)
{
    struct fti_var *grown;

    if (at < f->n) {
        *ret = &f->var[at];
        return CAIRN_OK;
    }
    if (at != f->n || at >= INT32_MAX)
        return crn_fail(ei, CAIRN_EFORMAT, 0, "%s: variable %lu is not in its place", where, at);
    grown = realloc(f->var, (f->n + 1) * sizeof(*grown));
    if (grown == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%zu variables", f->n);
    f->var = grown;
    f->var[f->n] = (struct fti_var){.id = -1, .bytes = -1, .at = -1};
    *ret = &f->var[f->n++];
    return CAIRN_OK;
}

static cairn_err take_number(int64_t *ret, const char *value, const char *where,
                             struct crn_errinfo *ei)
{
    char *end;

    errno = 0;
    *ret = strtoll(value, &end, 10);
    return errno == 0 && end != value && *ret >= 0
               ? CAIRN_OK
               : crn_fail(ei, CAIRN_EFORMAT, 0, "%s: '%s' is not a number", where, value);
}

static cairn_err on_var(struct fti_file *f, const char *key, const char *value, const char *where,
                        struct crn_errinfo *ei)
{
    struct fti_var *v = NULL;
    unsigned long at;
    cairn_err rc;
    int used = 0;

    if (sscanf(key + 3, "%lu_%n", &at, &used) != 1 || used == 0)
        return CAIRN_OK;
    key += 3 + used;
    rc = var_of(f, at, where, &v, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (strcasecmp(key, "id") == 0)
        return take_number(&v->id, value, where, ei);
    if (strcasecmp(key, "size") == 0)
        return take_number(&v->bytes, value, where, ei);
    if (strcasecmp(key, "pos") == 0)
        return take_number(&v->at, value, where, ei);
    if (strcasecmp(key, "idchar") == 0 || strcasecmp(key, "name") == 0)
        return take_text(v->name, sizeof(v->name), value, where, ei);
    return CAIRN_OK;
}

static cairn_err on_meta(void *arg, const char *section, const char *key, const char *value,
                         const char *where, struct crn_errinfo *ei)
{
    struct fti_state *s = arg;
    struct fti_file *f;
    cairn_err rc;

    rc = file_of(s, section, where, &f, ei);
    if (rc != CAIRN_OK || f == NULL || key == NULL)
        return rc;
    if (strcasecmp(key, "ckpt_file_name") == 0)
        return take_text(f->name, sizeof(f->name), value, where, ei);
    if (strcasecmp(key, "ckpt_file_size") == 0)
        return take_number(&f->bytes, value, where, ei);
    return strncasecmp(key, "var", 3) == 0 ? on_var(f, key, value, where, ei) : CAIRN_OK;
}

static int by_id(const void *a, const void *b)
{
    const struct fti_var *x = a, *y = b;

    return (x->id > y->id) - (x->id < y->id);
}

/* Is every variable inside of the file, once? */
static cairn_err check_file(struct fti_file *f, struct crn_errinfo *ei)
{
    size_t i;
    int end = 0;

    if (sscanf(f->name, "Ckpt%" SCNd64 "-Rank%" SCNd64 ".fti%n", &f->id, &f->rank, &end) != 2 ||
        end == 0 || f->name[end] != '\0' || f->id < 0 || f->rank < 0 || f->bytes < 0)
        return crn_fail(ei, CAIRN_EFORMAT, 0, "'%s' is not described as a checkpoint of FTI",
                        f->name);
    if (f->n > 0)
        qsort(f->var, f->n, sizeof(*f->var), by_id);
    for (i = 0; i < f->n; i++) {
        const struct fti_var *v = &f->var[i];

        if (v->id < 0 || v->bytes < 0 || v->at < 0 || v->bytes > f->bytes ||
            v->at > f->bytes - v->bytes || (i > 0 && v->id == f->var[i - 1].id))
            return crn_fail(ei, CAIRN_EFORMAT, 0, "'%s': variable %" PRId64 " has no place in it",
                            f->name, v->id);
    }
    return CAIRN_OK;
}

static int by_file_rank(const void *a, const void *b)
{
    const struct fti_file *x = a, *y = b;

    return (x->rank > y->rank) - (x->rank < y->rank);
}

static cairn_err read_meta(struct fti_state *s, struct crn_errinfo *ei)
{
    struct crn_names files = {0};
    char dir[2 * PATH_TEXT];
    cairn_err rc;
    size_t i;

    (void)snprintf(dir, sizeof(dir), "%s/%s/l4", s->meta, s->execution);
    rc = crn_import_list(dir, &files, ei);
    for (i = 0; rc == CAIRN_OK && i < files.n; i++) {
        unsigned sector, group;
        int end = 0;

        if (sscanf(strrchr(files.name[i], '/') + 1, "sector%u-group%u.fti%n", &sector, &group,
                   &end) != 2 ||
            end == 0)
            continue;
        s->first = s->n;
        rc = crn_config_ini_file(files.name[i], on_meta, s, ei);
    }
    crn_names_free(&files);
    for (i = 0; rc == CAIRN_OK && i < s->n; i++)
        rc = check_file(&s->file[i], ei);
    if (rc == CAIRN_OK && s->n == 0)
        return crn_fail(ei, CAIRN_ENOENT, 0,
                        "'%s' has no metadata: FTI has left no checkpoint of level 4", dir);
    if (rc == CAIRN_OK)
        qsort(s->file, s->n, sizeof(*s->file), by_file_rank);
    for (i = 1; rc == CAIRN_OK && i < s->n; i++)
        if (s->file[i].id != s->file[0].id || s->file[i].rank == s->file[i - 1].rank)
            rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "'%s' and '%s' are not of one checkpoint",
                          s->file[i - 1].name, s->file[i].name);
    return rc;
}

/* The shard of a rank. -------------------------------------------------------------------------- */

/* The table of variables, as a file without a name. */
static cairn_err write_table(const struct fti_file *f, int *ret_fd, uint64_t *ret_bytes,
                             struct crn_errinfo *ei)
{
    int fd = memfd_create("fti.meta", MFD_CLOEXEC);
    FILE *out = fd >= 0 ? fdopen(dup(fd), "w") : NULL;
    off_t end;
    size_t i;

    *ret_fd = fd;
    if (out == NULL)
        return crn_fail_errno(ei, errno, "the table of %zu variables", f->n);
    (void)fprintf(out, "fti 1 %" PRId64 " 4\n", f->id);
    for (i = 0; i < f->n; i++)
        (void)fprintf(out, "var %" PRId64 " %" PRId64 "\n", f->var[i].id, f->var[i].bytes);
    for (i = 0; i < f->n; i++)
        if (f->var[i].name[0] != '\0')
            (void)fprintf(out, "name %" PRId64 " %s\n", f->var[i].id, f->var[i].name);
    if (fclose(out) != 0 || (end = lseek(fd, 0, SEEK_END)) < 0)
        return crn_fail_errno(ei, errno, "the table of %zu variables", f->n);
    *ret_bytes = (uint64_t)end;
    return CAIRN_OK;
}

static cairn_err set_region(struct crn_region *r, uint64_t bytes, struct crn_errinfo *ei)
{
    r->kind = CRN_REGION_MEMORY;
    r->type = CAIRN_BYTES;
    r->ndims = 1;
    r->dims[0] = bytes;
    return crn_region_check(r, ei);
}

static cairn_err fti_rank(const struct cli_ingest *g, struct cli_file *f, size_t n,
                          struct crn_source *s, struct crn_errinfo *ei)
{
    const struct fti_state *state = g->arg;
    const struct fti_file *meta = &state->file[f->rank];
    struct crn_region *r;
    uint64_t bytes = 0;
    int fd = -1;
    cairn_err rc;
    size_t i;

    if (n != 1)
        return crn_fail(ei, CAIRN_EINVAL, 0, "a rank has %zu files", n);
    rc = crn_import_shard(s, meta->n + 1, ei);
    if (rc == CAIRN_OK)
        rc = crn_import_open(g, f, &fd, ei);
    if (rc != CAIRN_OK)
        return rc;
    s->image_fd = fd;
    r = s->shard.regions;
    if (f->st.st_size != meta->bytes)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "'%s' has %lld bytes, and FTI wrote %" PRId64,
                        f->path, (long long)f->st.st_size, meta->bytes);
    for (i = 0; rc == CAIRN_OK && i < meta->n; i++, r++) {
        (void)snprintf(r->name, sizeof(r->name), "v%" PRId64, meta->var[i].id);
        ((uint64_t *)s->at)[i] = (uint64_t)meta->var[i].at;
        rc = set_region(r, (uint64_t)meta->var[i].bytes, ei);
    }
    if (rc == CAIRN_OK)
        rc = write_table(meta, &((int *)s->region_fd)[meta->n], &bytes, ei);
    if (rc == CAIRN_OK) {
        (void)snprintf(r->name, sizeof(r->name), "fti.meta");
        rc = set_region(r, bytes, ei);
    }
    return rc;
}

cairn_err crn_import_fti(struct cli_import *im, struct crn_errinfo *ei)
{
    char name[NAME_TEXT + 8], store[PATH_TEXT + 8];
    struct fti_state state = {.io = 1};
    struct cli_set set = {0};
    struct cli_ingest g;
    size_t cap = 0, i;
    cairn_err rc;

    rc = read_config(im->from, &state, ei);
    if (rc == CAIRN_OK)
        rc = read_meta(&state, ei);
    (void)snprintf(store, sizeof(store), "%s/cairn", state.global);
    if (rc == CAIRN_OK)
        rc = crn_import_store(im, store, ei);
    for (i = 0; rc == CAIRN_OK && i < state.n; i++) {
        char *path = NULL;

        if (asprintf(&path, "%s/%s/l4/%s", state.global, state.execution, state.file[i].name) < 0)
            path = NULL;
        rc = crn_import_add(&set, &cap, (uint32_t)i, path, ei);
    }
    (void)snprintf(name, sizeof(name), "fti-%s", state.execution); /* compat/fti */
    if (rc == CAIRN_OK)
        rc = crn_ingest_open(&im->cli->cfg, name, NULL, &g, ei);
    if (rc == CAIRN_OK) {
        g.open_rank = fti_rank;
        g.arg = &state;
        set.step = state.file[0].id;
        set.ranks = (uint32_t)state.n;
        crn_import_set(im, &g, &set);
        crn_ingest_close(&g);
    }
    for (i = 0; i < set.n; i++)
        free(set.file[i].path);
    free(set.file);
    state_free(&state);
    return rc;
}
