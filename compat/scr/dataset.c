/* SPDX-License-Identifier: BSD-3-Clause */
/* The text has a line of the version's own, the name of the dataset, and a line for each file. Names
 * have no newline: crn_scr_path refuses them. */
#include "dataset.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/settings.h"

void crn_scr_dataset_free(struct crn_scr_dataset *d)
{
    size_t i;

    for (i = 0; i < d->n; i++)
        free(d->file[i].path);
    free(d->file);
    memset(d, 0, sizeof(*d));
}

struct crn_scr_file *crn_scr_dataset_find(const struct crn_scr_dataset *d, const char *path)
{
    size_t i;

    for (i = 0; i < d->n; i++)
        if (strcmp(d->file[i].path, path) == 0)
            return &d->file[i];
    return NULL;
}

struct crn_scr_file *crn_scr_dataset_add(struct crn_scr_dataset *d, const char *path)
{
    struct crn_scr_file *f = crn_scr_dataset_find(d, path);
    struct crn_scr_file *grown;
    const char *base = strrchr(path, '/');
    char readable[100];

    if (f != NULL)
        return f;
    grown = realloc(d->file, (d->n + 1) * sizeof(*grown));
    if (grown == NULL)
        return NULL;
    d->file = grown;
    f = &grown[d->n];
    memset(f, 0, sizeof(*f));
    f->path = strdup(path);
    if (f->path == NULL)
        return NULL;
    crn_settings_name(base != NULL ? base + 1 : path, readable, sizeof(readable));
    (void)snprintf(f->stored, sizeof(f->stored), "%zu-%s", d->n, readable);
    f->is_owned = 1;
    d->n++;
    return f;
}

cairn_err crn_scr_dataset_text(const struct crn_scr_dataset *d, char **ret, size_t *ret_len,
                               struct crn_errinfo *ei)
{
    FILE *f = open_memstream(ret, ret_len);
    size_t i;

    if (f == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the table of %zu files", d->n);
    (void)fprintf(f, "scr 1 %d %d %d\n%s\n", d->flags, d->is_direct, d->is_flushed, d->name);
    for (i = 0; i < d->n; i++)
        (void)fprintf(f, "%" PRIu64 " %016" PRIx64 " %d %s %s\n", d->file[i].bytes, d->file[i].hash,
                      d->file[i].is_owned, d->file[i].stored, d->file[i].path);
    if (fclose(f) != 0)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the table of %zu files", d->n);
    return CAIRN_OK;
}

static int parse_file(char *line, struct crn_scr_dataset *ret)
{
    char stored[CAIRN_MAX_NAME];
    struct crn_scr_file *f;
    uint64_t bytes, hash;
    int is_owned;
    int at = 0;

    if (sscanf(line, "%" SCNu64 " %" SCNx64 " %d %127s %n", &bytes, &hash, &is_owned, stored,
               &at) != 4 ||
        at == 0 || line[at] == '\0' || crn_scr_dataset_find(ret, line + at) != NULL)
        return -1;
    f = crn_scr_dataset_add(ret, line + at);
    if (f == NULL)
        return -1;
    memcpy(f->stored, stored, sizeof(stored));
    f->bytes = bytes;
    f->hash = hash;
    f->is_owned = is_owned != 0;
    return 0;
}

static int parse_lines(char *text, struct crn_scr_dataset *ret)
{
    char *line = strsep(&text, "\n");

    if (line == NULL ||
        sscanf(line, "scr 1 %d %d %d", &ret->flags, &ret->is_direct, &ret->is_flushed) != 3)
        return -1;
    line = strsep(&text, "\n");
    if (line == NULL || strlen(line) >= sizeof(ret->name))
        return -1;
    memcpy(ret->name, line, strlen(line) + 1);
    while ((line = strsep(&text, "\n")) != NULL && line[0] != '\0')
        if (parse_file(line, ret) != 0)
            return -1;
    return text == NULL && line != NULL ? 0 : -1; /* the last line ended with a newline */
}

cairn_err crn_scr_dataset_parse(const char *text, size_t len, struct crn_scr_dataset *ret,
                                struct crn_errinfo *ei)
{
    char *copy = strndup(text, len);
    int bad;

    memset(ret, 0, sizeof(*ret));
    if (copy == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a table of files");
    bad = strlen(copy) != len || parse_lines(copy, ret) != 0;
    free(copy);
    if (!bad)
        return CAIRN_OK;
    crn_scr_dataset_free(ret);
    return crn_fail(ei, CAIRN_EFORMAT, 0, "'" CRN_SCR_REGION "' is not a table of files");
}

/* Paths. --------------------------------------------------------------------------------------- */

/* Appends the parts of a path to ret, resolving "." and "..". Symbolic links are left alone. */
static int dataset_append(char ret[PATH_MAX], const char *path)
{
    size_t used = strlen(ret);

    while (*path != '\0') {
        size_t n = strcspn(path, "/");

        if (n == 2 && path[0] == '.' && path[1] == '.') {
            while (used > 0 && ret[--used] != '/')
                ;
            ret[used] = '\0';
        } else if (n > 0 && !(n == 1 && path[0] == '.')) {
            if (used + n + 2 > PATH_MAX)
                return -1;
            ret[used++] = '/';
            memcpy(ret + used, path, n);
            used += n;
            ret[used] = '\0';
        }
        path += n;
        path += *path == '/';
    }
    return 0;
}

cairn_err crn_scr_path(const char *prefix, const char *cwd, const char *name, char ret[PATH_MAX],
                       const char **ret_inside, struct crn_errinfo *ei)
{
    size_t len = strlen(prefix);

    ret[0] = '\0';
    if (name == NULL || name[0] == '\0' || strchr(name, '\n') != NULL)
        return crn_fail(ei, CAIRN_EINVAL, 0, "'%s' is not a file name",
                        name != NULL ? name : "NULL");
    if ((name[0] != '/' && dataset_append(ret, cwd) != 0) || dataset_append(ret, name) != 0)
        return crn_fail(ei, CAIRN_EINVAL, 0, "the path '%.100s...' is too long", name);
    if (strncmp(ret, prefix, len) != 0 || ret[len] != '/')
        return crn_fail(ei, CAIRN_EINVAL, 0, "'%s' is not inside of SCR_PREFIX, '%s'", ret, prefix);
    *ret_inside = ret + len + 1;
    return CAIRN_OK;
}
