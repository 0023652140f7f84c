/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

void crn_json_begin(struct crn_json *j, FILE *out)
{
    memset(j, 0, sizeof(*j));
    j->out = out;
}

static void json_quoted(FILE *out, const char *s)
{
    (void)fputc('"', out);
    for (; *s != '\0'; s++) {
        unsigned char c = (unsigned char)*s;

        if (c == '"' || c == '\\')
            (void)fprintf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            (void)fprintf(out, "\\u%04x", c);
        else
            (void)fputc(c, out);
    }
    (void)fputc('"', out);
}

static void json_item(struct crn_json *j, const char *key)
{
    if (j->has_items[j->depth])
        (void)fputc(',', j->out);
    j->has_items[j->depth] = 1;
    if (key != NULL) {
        json_quoted(j->out, key);
        (void)fputc(':', j->out);
    }
}

static void open_level(struct crn_json *j, const char *key, char c)
{
    json_item(j, key);
    (void)fputc(c, j->out);
    j->depth++;
    j->has_items[j->depth] = 0;
}

void crn_json_object(struct crn_json *j, const char *key)
{
    open_level(j, key, '{');
}

void crn_json_array(struct crn_json *j, const char *key)
{
    open_level(j, key, '[');
}

void crn_json_end_object(struct crn_json *j)
{
    j->depth--;
    (void)fputc('}', j->out);
}

void crn_json_end_array(struct crn_json *j)
{
    j->depth--;
    (void)fputc(']', j->out);
}

void crn_json_str(struct crn_json *j, const char *key, const char *value)
{
    json_item(j, key);
    if (value == NULL)
        (void)fputs("null", j->out);
    else
        json_quoted(j->out, value);
}

void crn_json_i64(struct crn_json *j, const char *key, int64_t value)
{
    json_item(j, key);
    (void)fprintf(j->out, "%" PRId64, value);
}

void crn_json_u64(struct crn_json *j, const char *key, uint64_t value)
{
    json_item(j, key);
    (void)fprintf(j->out, "%" PRIu64, value);
}

void crn_json_f64(struct crn_json *j, const char *key, double value)
{
    json_item(j, key);
    if (isfinite(value))
        (void)fprintf(j->out, "%.9g", value);
    else
        (void)fputs("null", j->out);
}

void crn_json_bool(struct crn_json *j, const char *key, int value)
{
    json_item(j, key);
    (void)fputs(value ? "true" : "false", j->out);
}

int crn_json_finish(struct crn_json *j)
{
    (void)fputc('\n', j->out);
    return fflush(j->out) != 0 || ferror(j->out) ? -1 : 0;
}
