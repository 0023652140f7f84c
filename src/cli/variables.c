/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/variables.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "encode/pipe.h"

#define MAX_PIPES 16

struct variables_found {
    const struct crn_stream *s;
    uint32_t file;
};

/* By variable; streams that share the same bytes of a file are adjacent. */
static int by_key(const void *a, const void *b)
{
    const struct variables_found *x = a;
    const struct variables_found *y = b;
    int order = strcmp(x->s->key, y->s->key);

    if (order != 0)
        return order;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    return x->s->file_offset < y->s->file_offset ? -1 : x->s->file_offset > y->s->file_offset;
}

/* All streams of all files, by key. */
static cairn_err variables_collect(struct crn_version *v, struct variables_found **ret,
                                   size_t *ret_n, struct crn_errinfo *ei)
{
    const struct crn_manifest *m = crn_version_manifest(v);
    const struct crn_index *x;
    struct variables_found *all = NULL;
    cairn_err rc = CAIRN_OK;
    size_t n = 0;
    uint32_t f, s;

    for (f = 0; rc == CAIRN_OK && f < m->nfiles; f++) {
        struct variables_found *grown;

        rc = crn_version_index(v, f, &x, ei);
        if (rc != CAIRN_OK)
            break;
        grown = realloc(all, (n + x->nstreams + 1) * sizeof(*all));
        if (grown == NULL) {
            rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the list of %zu streams", n);
            break;
        }
        all = grown;
        for (s = 0; s < x->nstreams; s++)
            all[n++] = (struct variables_found){&x->streams[s], f};
    }
    if (rc != CAIRN_OK) {
        free(all);
        return rc;
    }
    if (n > 1)
        qsort(all, n, sizeof(*all), by_key);
    *ret = all;
    *ret_n = n;
    return CAIRN_OK;
}

struct tally {
    struct crn_pipe pipe[MAX_PIPES];
    uint64_t bytes[MAX_PIPES];
    uint32_t n;
};

static void count_chunk(struct tally *t, const struct crn_stream_chunk *c)
{
    struct crn_pipe p = {.n = c->nstages};
    uint32_t i;
    int k;

    for (k = 0; k < c->nstages; k++) {
        p.stage[k].id = c->stages[2 * k];
        p.stage[k].arg = c->stages[2 * k + 1];
    }
    for (i = 0; i < t->n && !crn_pipe_equal(&t->pipe[i], &p); i++)
        ;
    if (i == MAX_PIPES)
        return;
    if (i == t->n) {
        t->pipe[t->n] = p;
        t->bytes[t->n++] = 0;
    }
    t->bytes[i] += c->bytes;
}

/* Does it refer to the same bytes as its predecessor? */
static int is_repeat(const struct variables_found *x)
{
    return x[-1].file == x->file && x[-1].s->file_offset == x->s->file_offset;
}

static struct cli_variable sum_up(const struct variables_found *x, size_t n)
{
    struct cli_variable v = {.key = x[0].s->key, .type = x[0].s->type};
    struct tally t = {.n = 0};
    char text[CRN_PIPE_TEXT];
    uint32_t k, best = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        const struct crn_stream *s = x[i].s;

        v.bytes += s->bytes;
        if (i > 0 && is_repeat(&x[i]))
            continue;
        v.stored += crn_stream_end(s) - s->file_offset;
        for (k = 0; k < s->nchunks; k++) {
            count_chunk(&t, &s->chunks[k]);
            v.chunk_bytes += s->chunks[k].bytes;
        }
    }
    for (k = 1; k < t.n; k++)
        best = t.bytes[k] > t.bytes[best] ? k : best;
    v.npipes = t.n;
    v.pipe_bytes = t.bytes[best];
    crn_pipe_text(&t.pipe[best], text);
    (void)snprintf(v.pipe, sizeof(v.pipe), "%s", t.pipe[best].n == 0 ? "raw" : text);
    return v;
}

cairn_err crn_variables_load(struct crn_version *v, struct cli_variables *ret,
                             struct crn_errinfo *ei)
{
    struct variables_found *all;
    struct cli_variables x = {0};
    size_t n, i, k;
    cairn_err rc;

    rc = variables_collect(v, &all, &n, ei);
    if (rc != CAIRN_OK)
        return rc;
    x.v = calloc(n + 1, sizeof(*x.v));
    if (x.v == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the list of %zu variables", n);
    for (i = 0; rc == CAIRN_OK && i < n; i += k) {
        for (k = 1; i + k < n && strcmp(all[i].s->key, all[i + k].s->key) == 0; k++)
            ;
        x.v[x.n++] = sum_up(all + i, k);
    }
    free(all);
    if (rc == CAIRN_OK)
        *ret = x;
    return rc;
}

void crn_variables_free(struct cli_variables *x)
{
    free(x->v);
    memset(x, 0, sizeof(*x));
}

void crn_variables_print(const struct cli_variables *x)
{
    static const char *const heads[] = {"VARIABLE", "TYPE", "BYTES", "STORED", "RATIO", "PIPELINE"};
    struct cli_table t;
    char text[32];
    size_t i;

    if (x->n == 0)
        return;
    crn_table_begin(&t, "llrrrl");
    for (i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
        crn_table_add(&t, "%s", heads[i]);
    for (i = 0; i < x->n; i++) {
        const struct cli_variable *v = &x->v[i];

        crn_table_add(&t, "%s", v->key[0] != '\0' ? v->key : "(together)");
        crn_table_add(&t, "%s", crn_output_type(v->type));
        crn_human_bytes(v->bytes, text, sizeof(text));
        crn_table_add(&t, "%s", text);
        crn_human_bytes(v->stored, text, sizeof(text));
        crn_table_add(&t, "%s", text);
        crn_table_add(&t, "%.2f", (double)v->bytes / (double)v->stored);
        if (v->npipes > 1)
            crn_table_add(&t, "%s (%.0f %%, %" PRIu32 " in all)", v->pipe,
                          100.0 * (double)v->pipe_bytes / (double)v->chunk_bytes, v->npipes);
        else
            crn_table_add(&t, "%s", v->pipe);
    }
    crn_table_print(&t);
    (void)printf("\n");
}

void crn_variables_json(struct crn_json *j, const struct cli_variables *x)
{
    size_t i;

    crn_json_array(j, "variables");
    for (i = 0; i < x->n; i++) {
        const struct cli_variable *v = &x->v[i];

        crn_json_object(j, NULL);
        crn_json_str(j, "variable", v->key);
        crn_json_str(j, "type", crn_output_type(v->type));
        crn_json_u64(j, "bytes", v->bytes);
        crn_json_u64(j, "stored", v->stored);
        crn_json_str(j, "pipeline", v->pipe);
        crn_json_u64(j, "pipeline_bytes", v->pipe_bytes);
        crn_json_u64(j, "pipelines", v->npipes);
        crn_json_end_object(j);
    }
    crn_json_end_array(j);
}
