/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/settings.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

void crn_settings_set(struct crn_face_settings *s, const char *key, const char *format, ...)
{
    char variable[64];
    va_list args;
    size_t used, i;

    (void)snprintf(variable, sizeof(variable), "CAIRN_%s", key);
    for (i = 0; variable[i] != '\0'; i++)
        variable[i] = (char)toupper((unsigned char)variable[i]);
    if (getenv(variable) != NULL || s->n == CRN_FACE_SETTINGS)
        return;
    used = (size_t)snprintf(s->text[s->n], sizeof(s->text[0]), "%s=", key);
    va_start(args, format);
    (void)vsnprintf(s->text[s->n] + used, sizeof(s->text[0]) - used, format, args);
    va_end(args);
    s->list[s->n] = s->text[s->n];
    s->list[++s->n] = NULL;
}

void crn_settings_name(const char *text, char *ret, size_t limit)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    size_t len = strlen(text);
    size_t room = limit - 18; /* for '-' and the hash */
    size_t i;

    if (len > 0 && len < limit && text[0] != '.' && text[strspn(text, allowed)] == '\0') {
        memcpy(ret, text, len + 1);
        return;
    }
    for (i = 0; i < len && i < room; i++)
        ret[i] =
            (char)(strchr(allowed, text[i]) != NULL && (i > 0 || text[i] != '.') ? text[i] : '_');
    (void)snprintf(ret + i, limit - i, "%s%016" PRIx64, i > 0 ? "-" : "",
                   (uint64_t)XXH3_64bits(text, len));
}
