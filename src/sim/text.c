/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/text.h"

#include <fcntl.h>
#include <ini.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"

#define MAX_TEXT 65536

const char *crn_text_find(const struct crn_text *shipped, const char *name)
{
    for (; shipped->name != NULL; shipped++)
        if (strcmp(shipped->name, name) == 0)
            return shipped->text;
    return NULL;
}

cairn_err crn_text_parse(const char *text, const char *what, const struct crn_text_parser *parser,
                         struct crn_errinfo *ei)
{
    int line = ini_parse_string(text, parser->on_key, parser->state);
    struct crn_errinfo *own = parser->own;
    cairn_err rc;

    if (line != 0) {
        rc = own->code != CAIRN_OK ? own->code : crn_fail(own, CAIRN_EINVAL, 0, "not understood");
        return crn_fail(ei, rc, 0, "%s:%d: %s", what, line, own->msg);
    }
    rc = parser->finish(parser->state);
    return rc == CAIRN_OK ? CAIRN_OK : crn_fail(ei, rc, 0, "%s: %s", what, own->msg);
}

cairn_err crn_text_load(const struct crn_text *shipped, const char *kind, const char *name_or_path,
                        crn_text_taker *parse, void *ret, struct crn_errinfo *ei)
{
    const char *found = crn_text_find(shipped, name_or_path);
    void *text;
    size_t len;
    cairn_err rc;

    if (found != NULL)
        return parse(found, name_or_path, ret, ei);
    rc = crn_fs_read_file(crn_fs_default(), AT_FDCWD, name_or_path, MAX_TEXT, &text, &len, ei);
    if (rc != CAIRN_OK)
        return crn_err_context(ei, rc, "%s '%s' is not shipped, and as a file", kind, name_or_path);
    rc = parse(text, name_or_path, ret, ei);
    free(text);
    return rc;
}
