/* SPDX-License-Identifier: BSD-3-Clause */
/* FTI's configuration file: what it means, and the two keys that the library itself writes. */
#ifndef CRN_FTI_CONFIG_H
#define CRN_FTI_CONFIG_H

#include "common/levels.h"
#include "common/settings.h"
#include "fti.h"

/* Plain data: one rank sends it to the others. */
struct crn_fti_config {
    FTIT_allConfiguration all;
    int failure; /* of [restart]: 0, 1, 2 or 3, as FTI_Status */
    int has_heads;
    int sync_intv;     /* FTI_Snapshot looks at the clock at least every so many calls */
    char ignored[512]; /* unknown keys: "a, b" */
};

CAIRN_CHECKED cairn_err crn_fti_config_parse(const char *text, struct crn_fti_config *ret,
                                             struct crn_errinfo *ei);
/* The text with other values of failure and exec_id; all else stays. *ret is malloc'd. */
CAIRN_CHECKED cairn_err crn_fti_config_edit(const char *text, int failure, const char *exec_id,
                                            char **ret, struct crn_errinfo *ei);
/* Reads the whole file; *ret is malloc'd. */
CAIRN_CHECKED cairn_err crn_fti_config_read(const char *path, char **ret, struct crn_errinfo *ei);
/* crn_fti_config_edit on the file, atomically. */
CAIRN_CHECKED cairn_err crn_fti_config_write(const char *path, int failure, const char *exec_id,
                                             struct crn_errinfo *ei);
void crn_fti_config_settings(const struct crn_fti_config *cfg, struct crn_face_settings *ret);

#endif
