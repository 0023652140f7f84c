/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptions as small INI texts: shipped with the program, or in a file. */
#ifndef CRN_SIM_TEXT_H
#define CRN_SIM_TEXT_H

#include "base/err.h"

/* A shipped text, from share/FOLDER/NAME.ini; lists end with name NULL. */
struct crn_text {
    const char *name;
    const char *text;
};
/* The text with that name, or NULL. */
const char *crn_text_find(const struct crn_text *shipped, const char *name);

/* How a text becomes a description: on_key runs for each key (an inih callback; it returns 0 and
 * sets own to refuse), finish when all are read. Both put their reason into own. */
struct crn_text_parser {
    int (*on_key)(void *state, const char *section, const char *name, const char *value);
    cairn_err (*finish)(void *state);
    void *state;
    struct crn_errinfo *own;
};
/* what names the source in messages. */
CAIRN_CHECKED cairn_err crn_text_parse(const char *text, const char *what,
                                       const struct crn_text_parser *parser,
                                       struct crn_errinfo *ei);

/* Loads a shipped text by its name, else a file, through parse; kind is for messages: "machine". */
typedef cairn_err crn_text_taker(const char *text, const char *what, void *ret,
                                 struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_text_load(const struct crn_text *shipped, const char *kind,
                                      const char *name_or_path, crn_text_taker *parse, void *ret,
                                      struct crn_errinfo *ei);

#endif
