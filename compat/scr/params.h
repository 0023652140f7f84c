/* SPDX-License-Identifier: BSD-3-Clause */
/* SCR's parameters: lines "KEY=VALUE CHILD=VALUE ..." from a file and from SCR_Config. */
#ifndef CRN_SCR_PARAMS_H
#define CRN_SCR_PARAMS_H

#include "base/config.h"

struct crn_scr_pair {
    char *key, *value;
};

/* One line. Lines with children are told apart by key and value, others by key. */
struct crn_scr_line {
    struct crn_scr_pair *pair; /* the first is the line's own; owned */
    size_t n;
};

struct crn_scr_lines {
    struct crn_scr_line *v; /* owned */
    size_t n;
};

struct crn_scr_params {
    struct crn_scr_lines user; /* of the file named by SCR_CONF_FILE */
    struct crn_scr_lines app;  /* of SCR_Config; the user's lines win */
};

void crn_scr_params_free(struct crn_scr_params *p);
/* Reads the text of a file. */
CAIRN_CHECKED cairn_err crn_scr_params_parse(struct crn_scr_params *p, const char *text,
                                             struct crn_errinfo *ei);
/* SCR_Config: sets, unsets or asks. *ret: malloc'd text or NULL. */
CAIRN_CHECKED cairn_err crn_scr_params_config(struct crn_scr_params *p, const char *text,
                                              char **ret, struct crn_errinfo *ei);
/* The value of a key: environment, then file, then program; NULL if nobody set it. Valid until the
 * next change. */
const char *crn_scr_params_get(const struct crn_scr_params *p, const char *key);

#endif
