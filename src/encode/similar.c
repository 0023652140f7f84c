/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys of variables. A name that no pattern matches is its own key. */
#include "encode/similar.h"

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUPS_MAX 8

struct pattern {
    char *text;
    regex_t regex;
};

struct crn_similar {
    size_t n; /* compiled */
    struct pattern *patterns;
};

static cairn_err similar_compile(struct pattern *p, const char *text, struct crn_errinfo *ei)
{
    char reason[128];
    int r = regcomp(&p->regex, text, REG_EXTENDED);

    if (r != 0) {
        (void)regerror(r, &p->regex, reason, sizeof(reason));
        return crn_fail(ei, CAIRN_ECONFIG, 0, "pattern '%s' for variables: %s", text, reason);
    }
    p->text = strdup(text);
    if (p->text == NULL) {
        regfree(&p->regex);
        return crn_fail(ei, CAIRN_ENOMEM, 0, "patterns for variables");
    }
    return CAIRN_OK;
}

cairn_err crn_similar_open(const char *const *patterns, size_t n, struct crn_similar **ret,
                           struct crn_errinfo *ei)
{
    struct crn_similar *s = calloc(1, sizeof(*s));

    if (s != NULL)
        s->patterns = calloc(n + 1, sizeof(*s->patterns));
    if (s == NULL || s->patterns == NULL) {
        free(s);
        return crn_fail(ei, CAIRN_ENOMEM, 0, "patterns for variables");
    }
    for (; s->n < n; s->n++) {
        cairn_err rc = similar_compile(&s->patterns[s->n], patterns[s->n], ei);

        if (rc != CAIRN_OK) {
            crn_similar_close(s);
            return rc;
        }
    }
    *ret = s;
    return CAIRN_OK;
}

void crn_similar_close(struct crn_similar *s)
{
    size_t i;

    if (s == NULL)
        return;
    for (i = 0; i < s->n; i++) {
        regfree(&s->patterns[i].regex);
        free(s->patterns[i].text);
    }
    free(s->patterns);
    free(s);
}

/* The name with a star for each outermost group; the pattern itself if it has no groups. */
static void similar_generalise(const struct pattern *p, const char *name, const regmatch_t *m,
                               char *ret, size_t size)
{
    size_t len = strlen(name);
    size_t from = 0;
    size_t at = 0;
    int i;

    if (p->regex.re_nsub == 0) {
        (void)snprintf(ret, size, "%s", p->text);
        return;
    }
    for (i = 1; i <= GROUPS_MAX && from <= len; i++) {
        if (m[i].rm_so < 0 || (size_t)m[i].rm_so < from)
            continue; /* did not take part, or lies inside the previous one */
        at += (size_t)snprintf(ret + at, size - at, "%.*s*", (int)((size_t)m[i].rm_so - from),
                               name + from);
        from = (size_t)m[i].rm_eo;
    }
    (void)snprintf(ret + at, size - at, "%s", name + from);
}

static void name_part(const struct crn_similar *s, const char *name, char *ret, size_t size)
{
    regmatch_t m[GROUPS_MAX + 1];
    size_t i;

    for (i = 0; s != NULL && i < s->n; i++) {
        const struct pattern *p = &s->patterns[i];

        if (regexec(&p->regex, name, GROUPS_MAX + 1, m, 0) == 0 && m[0].rm_so == 0 &&
            name[m[0].rm_eo] == '\0') {
            similar_generalise(p, name, m, ret, size);
            return;
        }
    }
    (void)snprintf(ret, size, "%s", name);
}

static const char *type_part(uint8_t type)
{
    static const char *const names[] = {"Bytes",  "I8",    "U8",     "I16LE", "U16LE",  "I32LE",
                                        "U32LE",  "I64LE", "U64LE",  "F32LE", "F64LE",  "C64LE",
                                        "C128LE", "F16LE", "BF16LE", "Bool",  "F8E4M3", "F8E5M2"};

    return type < sizeof(names) / sizeof(names[0]) ? names[type] : "Unknown";
}

void crn_similar_key(const struct crn_similar *s, const struct crn_region *r,
                     char ret[CRN_SIMILAR_TEXT])
{
    /* Leaves space for what the key appends to the name. */
    char name[CRN_SIMILAR_TEXT - 32];

    name_part(s, r->name, name, sizeof(name));
    if (r->kind == CRN_REGION_FILE)
        (void)snprintf(ret, CRN_SIMILAR_TEXT, "%s_%s_File", name, type_part(r->type));
    else if (r->ndims == 1 && r->dims[0] == 1)
        (void)snprintf(ret, CRN_SIMILAR_TEXT, "%s_%s_Atomic", name, type_part(r->type));
    else
        (void)snprintf(ret, CRN_SIMILAR_TEXT, "%s_%s_Array%uD", name, type_part(r->type), r->ndims);
}

/* Type and class, which end a key, contain digits of their own. */
void crn_similar_family(const char *key, cairn_type type, char ret[CRN_SIMILAR_TEXT])
{
    char middle[32];
    const char *suffix;
    size_t at = 0;

    (void)snprintf(middle, sizeof(middle), "_%s_", type_part((uint8_t)type));
    suffix = strstr(key, middle);
    while (suffix != NULL && strstr(suffix + 1, middle) != NULL)
        suffix = strstr(suffix + 1, middle); /* the last one */
    if (suffix == NULL)
        suffix = key;
    for (; *key != '\0' && at < CRN_SIMILAR_TEXT - 1; key++) {
        int is_digit = key < suffix && *key >= '0' && *key <= '9';

        if (!is_digit || at == 0 || ret[at - 1] != '#')
            ret[at++] = is_digit ? '#' : *key;
    }
    ret[at] = '\0';
}

void crn_similar_type(cairn_type type, char ret[CRN_SIMILAR_TEXT])
{
    (void)snprintf(ret, CRN_SIMILAR_TEXT, "*_%s", type_part((uint8_t)type));
}
