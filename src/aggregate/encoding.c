/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the configuration keys for encoding. */
#include "aggregate/encoding.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PATTERNS 32

void crn_encoding_close(struct crn_encoding *x)
{
    if (x == NULL)
        return;
    crn_similar_close(x->similar);
    free(x->lossy);
    free(x);
}

int crn_encoding_lossy(const struct crn_encoding *x, const struct crn_region *r)
{
    uint32_t i;

    for (i = 0; r->kind == CRN_REGION_MEMORY && r->type >= CAIRN_F32 && r->type <= CAIRN_C128 &&
                i < x->nlossy;
         i++)
        if (strcmp(x->lossy[i].region, r->name) == 0)
            return (int)i;
    return -1;
}

/* The paper's pipeline for a type. Schemes that know no variables have a single gzip. */
static const char *paper_pipe(const struct crn_encoding *x, cairn_type type)
{
    int is_agnostic = x->scheme == CRN_AGNOSTIC || x->scheme == CRN_AGNOSTIC_BLOCK;

    return crn_pipe_paper(type, is_agnostic);
}

static cairn_err set_pipes(struct crn_encoding *x, const struct crn_name_config *nc,
                           struct crn_errinfo *ei)
{
    int is_auto = strcmp(nc->encode_pipe, "auto") == 0;
    int is_chosen = nc->encode == CRN_ENCODE_ADAPTIVE || nc->encode == CRN_ENCODE_AUTO;
    int is_paper = strcmp(nc->encode_pipe, "paper") == 0 || (is_auto && !is_chosen);
    cairn_err rc = CAIRN_OK;
    int type;

    x->is_adaptive = strcmp(nc->encode_pipe, "adaptive") == 0 || (is_auto && !is_paper);
    /* Both merge small variables; fixed pipelines know variables by their names only. */
    x->group_bytes = x->is_adaptive || is_paper ? x->chunk_bytes : 0;
    if (x->is_adaptive)
        return CAIRN_OK;
    for (type = 0; rc == CAIRN_OK && type < CRN_TYPES; type++)
        rc = crn_pipe_parse(is_paper ? paper_pipe(x, (cairn_type)type) : nc->encode_pipe,
                            &x->pipe[type], ei);
    if (rc == CAIRN_OK)
        rc = crn_pipe_parse(is_paper ? crn_pipe_paper(CAIRN_BYTES, 1) : nc->encode_pipe, &x->small,
                            ei);
    if (rc == CAIRN_OK && crn_pipe_is_lossy(&x->small))
        rc = crn_fail(ei, CAIRN_ECONFIG, 0, "'%s' is lossy: list its regions in encode_lossy",
                      nc->encode_pipe);
    if (rc == CAIRN_OK && crn_pipe_needs_previous(&x->small) && x->full_every == 1)
        rc =
            crn_fail(ei, CAIRN_ECONFIG, 0,
                     "'%s' needs an older version: set encode_full_every above 1", nc->encode_pipe);
    return crn_err_context(ei, rc, "encode_pipe");
}

static cairn_err set_patterns(struct crn_encoding *x, const struct crn_name_config *nc,
                              struct crn_errinfo *ei)
{
    char text[sizeof(nc->encode_match)];
    const char *pattern[MAX_PATTERNS];
    size_t n = 0;
    char *rest = text;
    char *word;

    memcpy(text, nc->encode_match, sizeof(text));
    while ((word = strtok_r(rest, " ", &rest)) != NULL) {
        if (n == MAX_PATTERNS)
            return crn_fail(ei, CAIRN_ECONFIG, 0, "encode_match: more than %d expressions",
                            MAX_PATTERNS);
        pattern[n++] = word;
    }
    if (n == 0)
        return CAIRN_OK;
    return crn_err_context(ei, crn_similar_open(pattern, n, &x->similar, ei), "encode_match");
}

/* "NAME:abs:1e-6" or "NAME:rel:1e-3"; names may contain colons. */
static cairn_err add_lossy(struct crn_encoding *x, char *word, struct crn_errinfo *ei)
{
    struct crn_lossy *l = &x->lossy[x->nlossy];
    char *tolerance = strrchr(word, ':');
    char *kind = NULL;
    char *end = NULL;

    if (tolerance != NULL) {
        *tolerance++ = '\0';
        kind = strrchr(word, ':');
        l->tolerance = strtod(tolerance, &end);
    }
    if (kind != NULL)
        *kind++ = '\0';
    if (kind == NULL || end == tolerance || *end != '\0' || !(l->tolerance > 0) ||
        isinf(l->tolerance) || (strcmp(kind, "abs") != 0 && strcmp(kind, "rel") != 0) ||
        word[0] == '\0' || strlen(word) >= sizeof(l->region))
        return crn_fail(ei, CAIRN_ECONFIG, 0,
                        "encode_lossy: '%s' is not REGION:abs:TOLERANCE or REGION:rel:TOLERANCE",
                        word);
    memcpy(l->region, word, strlen(word) + 1);
    x->nlossy++;
    return crn_err_context(
        ei, crn_pipe_parse(strcmp(kind, "abs") == 0 ? "zfp:0" : "zfp:1", &l->pipe, ei),
        "encode_lossy");
}

static cairn_err set_lossy(struct crn_encoding *x, const struct crn_name_config *nc,
                           struct crn_errinfo *ei)
{
    char text[sizeof(nc->encode_lossy)];
    cairn_err rc = CAIRN_OK;
    char *rest = text;
    char *word;

    memcpy(text, nc->encode_lossy, sizeof(text));
    x->lossy = calloc(sizeof(text) / 2, sizeof(*x->lossy));
    if (x->lossy == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "encode_lossy");
    while (rc == CAIRN_OK && (word = strtok_r(rest, " ", &rest)) != NULL)
        rc = add_lossy(x, word, ei);
    return rc;
}

static enum crn_scheme scheme_of(uint64_t encode)
{
    switch (encode) {
    case CRN_ENCODE_AGNOSTIC:
        return CRN_AGNOSTIC;
    case CRN_ENCODE_AGNOSTIC_BLOCK:
        return CRN_AGNOSTIC_BLOCK;
    case CRN_ENCODE_AWARE_BLOCK:
        return CRN_AWARE_BLOCK;
    default:
        return CRN_AWARE;
    }
}

cairn_err crn_encoding_open(const struct crn_config *cfg, const char *name,
                            struct crn_encoding **ret, struct crn_errinfo *ei)
{
    static const enum crn_aim aims[] = {CRN_AIM_RATIO, CRN_AIM_SPEED, CRN_AIM_TIME};
    const struct crn_name_config *nc = crn_config_name(cfg, name);
    struct crn_encoding *x;
    cairn_err rc;

    if (nc->encode == CRN_ENCODE_NONE) {
        *ret = NULL;
        return CAIRN_OK;
    }
    x = calloc(1, sizeof(*x));
    if (x == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the encoding of '%s'", name);
    x->scheme = scheme_of(nc->encode);
    x->block_bytes = nc->encode_block / 16 * 16;
    x->chunk_bytes = (size_t)(cfg->encode_chunk / 16 * 16);
    x->full_every = nc->encode_full_every;
    x->aim = nc->encode == CRN_ENCODE_AUTO ? CRN_AIM_TIME : aims[cfg->encode_aim];
    rc = set_pipes(x, nc, ei);
    x->may_skip = x->is_adaptive && x->aim == CRN_AIM_TIME;
    if (rc == CAIRN_OK)
        rc = set_patterns(x, nc, ei);
    if (rc == CAIRN_OK)
        rc = set_lossy(x, nc, ei);
    if (rc != CAIRN_OK) {
        crn_encoding_close(x);
        return rc;
    }
    *ret = x;
    return CAIRN_OK;
}

cairn_err crn_encoding_check(const struct crn_config *cfg, struct crn_errinfo *ei)
{
    struct crn_encoding *x = NULL;
    cairn_err rc = crn_encoding_open(cfg, "", &x, ei);
    size_t i;

    for (i = 0; rc == CAIRN_OK && i < cfg->noverrides; i++) {
        crn_encoding_close(x);
        x = NULL;
        rc = crn_encoding_open(cfg, cfg->overrides[i].name, &x, ei);
    }
    crn_encoding_close(x);
    return rc;
}
