/* SPDX-License-Identifier: BSD-3-Clause */
/* Blanks around '=' are allowed, '=' inside of values too, and $NAME or ${NAME} in a value stands
 * for the environment variable. */
#include "params.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLANKS " \t\r\n"

static void line_free(struct crn_scr_line *l)
{
    size_t i;

    for (i = 0; i < l->n; i++) {
        free(l->pair[i].key);
        free(l->pair[i].value);
    }
    free(l->pair);
    memset(l, 0, sizeof(*l));
}

static void lines_free(struct crn_scr_lines *lines)
{
    size_t i;

    for (i = 0; i < lines->n; i++)
        line_free(&lines->v[i]);
    free(lines->v);
    memset(lines, 0, sizeof(*lines));
}

void crn_scr_params_free(struct crn_scr_params *p)
{
    lines_free(&p->user);
    lines_free(&p->app);
}

/* Reading a line. ------------------------------------------------------------------------------ */

/* Length of the variable's name after a '$', and where it begins; 0 if there is none. */
static size_t params_variable(const char *at, const char *end, const char **ret_name,
                              size_t *ret_skip)
{
    int is_braced = at < end && *at == '{';
    size_t n = 0;

    at += is_braced;
    while (at + n < end && (isalnum((unsigned char)at[n]) || at[n] == '_'))
        n++;
    if (is_braced && (at + n >= end || at[n] != '}'))
        return 0;
    *ret_name = at;
    *ret_skip = n + (is_braced ? 2 : 0);
    return n;
}

/* A copy of text[0..len) with variables replaced; NULL without memory. */
static char *params_expand(const char *text, size_t len)
{
    const char *end = text + len;
    char *out = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&out, &bytes);

    if (f == NULL)
        return NULL;
    while (text < end) {
        const char *name = NULL;
        char key[128];
        size_t skip = 0;
        size_t n = *text == '$' ? params_variable(text + 1, end, &name, &skip) : 0;

        if (n == 0 || n >= sizeof(key)) {
            (void)fputc(*text++, f);
            continue;
        }
        memcpy(key, name, n);
        key[n] = '\0';
        if (getenv(key) != NULL)
            (void)fputs(getenv(key), f);
        text += 1 + skip;
    }
    if (fclose(f) != 0) {
        free(out);
        return NULL;
    }
    return out;
}

/* Adds a pair; value NULL: the key was alone, without '='. */
static cairn_err line_add(struct crn_scr_line *l, const char *key, size_t key_len,
                          const char *value, size_t value_len, struct crn_errinfo *ei)
{
    struct crn_scr_pair *grown = realloc(l->pair, (l->n + 1) * sizeof(*grown));
    struct crn_scr_pair *p;

    if (grown == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a parameter");
    l->pair = grown;
    p = &grown[l->n++];
    p->key = strndup(key, key_len);
    p->value = value != NULL ? params_expand(value, value_len) : NULL;
    if (p->key == NULL || (value != NULL && p->value == NULL))
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a parameter");
    return CAIRN_OK;
}

static cairn_err line_parse(const char *text, size_t len, struct crn_scr_line *ret,
                            struct crn_errinfo *ei)
{
    const char *end = text + len;
    cairn_err rc = CAIRN_OK;

    memset(ret, 0, sizeof(*ret));
    for (;;) {
        const char *key, *value = NULL;
        size_t key_len, value_len = 0;

        while (text < end && strchr(BLANKS, *text) != NULL)
            text++;
        if (text == end || *text == '#' || rc != CAIRN_OK)
            break;
        key = text;
        while (text < end && *text != '=' && strchr(BLANKS, *text) == NULL)
            text++;
        key_len = (size_t)(text - key);
        while (text < end && strchr(BLANKS, *text) != NULL)
            text++;
        if (text < end && *text == '=') {
            text++;
            while (text < end && strchr(BLANKS, *text) != NULL)
                text++;
            value = text;
            while (text < end && strchr(BLANKS, *text) == NULL)
                text++;
            value_len = (size_t)(text - value);
        }
        rc = key_len == 0 ? crn_fail(ei, CAIRN_ECONFIG, 0, "a '=' without a key")
                          : line_add(ret, key, key_len, value, value_len, ei);
    }
    if (rc != CAIRN_OK)
        line_free(ret);
    return rc;
}

/* Finding and changing. ------------------------------------------------------------------------ */

static struct crn_scr_line *lines_find(const struct crn_scr_lines *lines, const char *key,
                                       const char *value)
{
    size_t i;

    for (i = lines->n; i > 0; i--) { /* the last one wins */
        const struct crn_scr_pair *own = &lines->v[i - 1].pair[0];

        if (strcmp(own->key, key) == 0 &&
            (value == NULL || (own->value != NULL && strcmp(own->value, value) == 0)))
            return &lines->v[i - 1];
    }
    return NULL;
}

static void lines_drop(struct crn_scr_lines *lines, struct crn_scr_line *l)
{
    line_free(l);
    *l = lines->v[--lines->n];
}

/* Takes ownership of the line. */
static cairn_err lines_put(struct crn_scr_lines *lines, struct crn_scr_line *l,
                           struct crn_errinfo *ei)
{
    struct crn_scr_line *old =
        lines_find(lines, l->pair[0].key, l->n > 1 ? l->pair[0].value : NULL);
    struct crn_scr_line *grown;

    if (old != NULL) {
        line_free(old);
        *old = *l;
        return CAIRN_OK;
    }
    grown = realloc(lines->v, (lines->n + 1) * sizeof(*grown));
    if (grown == NULL) {
        line_free(l);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a parameter");
    }
    lines->v = grown;
    grown[lines->n++] = *l;
    return CAIRN_OK;
}

cairn_err crn_scr_params_parse(struct crn_scr_params *p, const char *text, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;

    while (rc == CAIRN_OK && *text != '\0') {
        size_t len = strcspn(text, "\n");
        struct crn_scr_line l;

        rc = line_parse(text, len, &l, ei);
        if (rc == CAIRN_OK && l.n > 0 && l.pair[0].value == NULL) {
            rc = crn_fail(ei, CAIRN_ECONFIG, 0, "'%s' has no '='", l.pair[0].key);
            line_free(&l);
        } else if (rc == CAIRN_OK && l.n > 0) {
            rc = lines_put(&p->user, &l, ei);
        }
        text += len + (text[len] == '\n');
    }
    return rc;
}

static const char *child_of(const struct crn_scr_line *l, const char *key)
{
    size_t i;

    for (i = 1; l != NULL && i < l->n; i++)
        if (strcmp(l->pair[i].key, key) == 0)
            return l->pair[i].value;
    return NULL;
}

const char *crn_scr_params_get(const struct crn_scr_params *p, const char *key)
{
    const char *value = getenv(key);
    const struct crn_scr_line *l;

    if (value != NULL)
        return value;
    l = lines_find(&p->user, key, NULL);
    if (l == NULL)
        l = lines_find(&p->app, key, NULL);
    return l != NULL ? l->pair[0].value : NULL;
}

cairn_err crn_scr_params_config(struct crn_scr_params *p, const char *text, char **ret,
                                struct crn_errinfo *ei)
{
    struct crn_scr_line l;
    const struct crn_scr_pair *last;
    const char *found = NULL;
    cairn_err rc;

    *ret = NULL;
    rc = line_parse(text, strlen(text), &l, ei);
    if (rc != CAIRN_OK || l.n == 0)
        return rc;
    last = &l.pair[l.n - 1];
    if (last->value != NULL && last->value[0] != '\0')
        return lines_put(&p->app, &l, ei);
    if (last->value != NULL) { /* KEY= */
        struct crn_scr_line *old = lines_find(&p->app, l.pair[0].key, NULL);

        if (old != NULL)
            lines_drop(&p->app, old);
    } else if (l.n == 1) {
        found = crn_scr_params_get(p, last->key);
    } else {
        found = child_of(lines_find(&p->user, l.pair[0].key, l.pair[0].value), last->key);
        if (found == NULL)
            found = child_of(lines_find(&p->app, l.pair[0].key, l.pair[0].value), last->key);
    }
    if (found != NULL && (*ret = strdup(found)) == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the value of '%s'", last->key);
    line_free(&l);
    return rc;
}
