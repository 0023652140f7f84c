/* SPDX-License-Identifier: BSD-3-Clause */
/* What a face says to Cairn: settings of a session, and names. */
#ifndef CRN_COMPAT_SETTINGS_H
#define CRN_COMPAT_SETTINGS_H

#include <stddef.h>

#include "base/config.h"

/* "key=value" texts for a session, NULL at the end. A key that is also set as CAIRN_<KEY> is
 * omitted, so that the variable takes effect. */
#define CRN_FACE_SETTINGS 16
struct crn_face_settings {
    const char *list[CRN_FACE_SETTINGS + 1];
    char text[CRN_FACE_SETTINGS][CRN_PATH_MAX + 32];
    size_t n;
};
void crn_settings_set(struct crn_face_settings *s, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A Cairn name for any text: the text itself if Cairn allows it and it fits, else a readable prefix
 * with a hash. limit: bytes of ret, at least 40. */
void crn_settings_name(const char *text, char *ret, size_t limit);

#endif
